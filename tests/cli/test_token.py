"""`sumwise token`: made, listed and taken back."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from sumwise.cli import main
from sumwise.study.create import open_study
from sumwise.web import create_app
from tests.studies import small_study
from tests.web.apps import client_of, got


@pytest.fixture
def path(tmp_path):
    return str(small_study(tmp_path / "a.db"))


@pytest.fixture
def run(tmp_path):
    def call(*arguments):
        env = {"COLUMNS": "100", "XDG_STATE_HOME": str(tmp_path / "state")}
        return CliRunner(env=env).invoke(main, ["token", *arguments])

    return call


def ask(path, token):
    with open_study(path) as study:
        client = client_of(create_app(study), token=False)
        return client.post("/api/questions", headers={"Authorization": f"Bearer {token}"})


def test_a_token_is_made_used_listed_and_taken_back(path, run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = run("add", path, "--for", "ann", "--days", "90")
    token = made.stdout.strip()
    assert made.exit_code == 0, made.output
    assert "A token for ann" in made.stderr
    assert "It is not shown again." in " ".join(made.stderr.split())
    assert got(ask(path, token), 201)["questions"][0]["by"] == "ann"
    listed = run("list", path).stdout
    assert "ann" in listed
    assert "read and write" in listed
    assert token not in listed
    revoked = run("revoke", path, "ann")
    assert "for ann" in revoked.stdout
    got(ask(path, token), 401)
    assert json.loads(run("list", path, "--json").stdout) == []


def test_as_json(path, run):
    made = json.loads(run("add", path, "--for", "carol", "--read-only", "--json").stdout)
    assert len(made.pop("token")) >= 43
    (listed,) = json.loads(run("list", path, "--json").stdout)
    assert listed == made
    assert (listed["for"], listed["writes"], listed["expires"]) == ("carol", False, None)
    assert json.loads(run("revoke", path, listed["id"], "--json").stdout) == [listed]


@pytest.mark.parametrize("days", ["0", "-1", "x", "nan", "1e9"])
def test_days_that_make_no_sense(path, run, days):
    refused = run("add", path, "--for", "ann", "--days", days)
    assert refused.exit_code in (1, 2)
    assert "--days" in refused.stderr
    assert json.loads(run("list", path, "--json").stdout) == []


def test_what_is_not_there_is_refused(path, run, tmp_path):
    assert "no token has the id or name 'bob'" in " ".join(
        run("revoke", path, "bob").stderr.replace("│", " ").split()
    )
    assert run("add", str(tmp_path / "none.db"), "--for", "ann").exit_code == 1
    assert run("add", path).exit_code == 2
