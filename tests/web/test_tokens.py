"""Signed requests, and tokens of single people."""

from __future__ import annotations

import json
import os
import secrets
import stat
from datetime import UTC, datetime

import pytest

import sumwise as sw
from sumwise.web import create_app, tokens
from tests.studies import SETS, copy_of, with_one_answer
from tests.web.apps import client_of, got
from tests.web.signing import Page, keyed
from tests.web.test_security import WRITES

TELL = {"position": 2, "total": 7.0}


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "sumwise"


@pytest.fixture
def study(tmp_path):
    with sw.open_study(copy_of(with_one_answer, tmp_path / "a.db")) as study:
        yield study


@pytest.fixture
def app(study):
    return create_app(study)


def page_of(app, token=None):
    return Page(client_of(app, token=False), token or app.state.token)


def add(study, name="ann", **more):
    return tokens.add_person(study.location, name, **more)[0]


def bearer(app, token):
    client = client_of(app, token=False)
    client.headers["Authorization"] = f"Bearer {token}"
    return client


# --- signatures -----------------------------------------------------------------------------------


def test_a_page_writes_without_ever_sending_its_token(app, study):
    page = page_of(app)
    got(page.send("POST", "/api/answers", TELL), 201)
    got(page.send("POST", "/api/questions"), 201)
    got(page.send("GET", "/api/sets?search=%C3%BC&size=3"))
    assert len(study.answers) == 2


def test_a_server_proves_that_it_has_a_token_and_says_nothing_else(app):
    page, nonce = page_of(app), secrets.token_hex(16)
    said = got(page.meet(nonce))
    assert set(said) == {"run", "proof"}
    assert said["proof"] == keyed(page.key, f"sumwise server\n{said['run']}\n{nonce}")
    assert got(page_of(app, "another token altogether").meet(nonce), 401)["code"] == "token"
    closed = create_app(app.state.served.session.study, host="0.0.0.0")
    got(page_of(closed).meet(nonce))  # also to those who may not read


def changed(text, at):
    """A signature with one hexadecimal digit changed in one of its parts."""
    parts = text.removeprefix("Sumwise ").split(":")
    parts[at] = ("0" if parts[at][0] != "0" else "1") + parts[at][1:]
    return "Sumwise " + ":".join(parts)


@pytest.mark.parametrize("part", range(5))
def test_every_part_of_a_signature_counts(app, study, part):
    page, before = page_of(app), study.history()
    header = page.header("POST", "/api/answers", json.dumps(TELL).encode())
    got(page.send("POST", "/api/answers", TELL, changed(header, part)), 401)
    assert study.history() == before
    got(page.send("POST", "/api/answers", TELL, header), 201)  # unchanged it is right


@pytest.mark.parametrize(("method", "target"), WRITES)
def test_a_signature_is_for_its_own_request_only(app, study, method, target):
    page, before = page_of(app), study.history()
    content = json.dumps(TELL).encode()
    for other in (("POST", "/api/study"), ("PUT", target), (method, f"{target}?a=1")):
        header = page.header(*other, content)
        assert got(page.send(method, target, TELL, header), 401)["code"] == "token"
    header = page.header(method, target, b'{"position": 2, "total": 8.0}')
    assert got(page.send(method, target, TELL, header), 401)["code"] == "token"
    assert study.history() == before


def test_a_signed_write_counts_once(app, study):
    page = page_of(app)
    header = page.header("POST", "/api/questions")
    got(page.send("POST", "/api/questions", header=header), 201)
    assert got(page.send("POST", "/api/questions", header=header), 401)["code"] == "token"
    assert len(study.claims) == 1


def test_nothing_of_a_former_run_is_of_any_use(app, study):
    page = page_of(app)
    headers = [page.header("POST", "/api/questions"), page.header("GET", "/api/study")]
    again = create_app(study, token=app.state.token)
    after = page_of(again)
    assert got(after.send("POST", "/api/questions", header=headers[0]), 401)["code"] == "run"
    assert got(after.send("GET", "/api/study", header=headers[1]), 401)["code"] == "run"
    got(after.send("POST", "/api/questions"), 201)  # the token itself still is
    assert len(study.claims) == 1


@pytest.mark.parametrize("text", ["", "x", ":" * 4, "0" * 16, "g" * 16 + ":" * 4, "ü"])
def test_a_signature_that_is_none_is_refused(app, text):
    for method, path in (("GET", "/api/study"), ("POST", "/api/questions")):
        headers = {"Authorization": f"Sumwise {text}".encode("latin-1")}
        answer = client_of(app, token=False).request(method, path, headers=headers)
        assert got(answer, 401)["code"] == "token"


def test_what_a_page_sends_is_no_token(app):
    page = page_of(app)
    header = page.header("GET", "/api/study").removeprefix("Sumwise ")
    said = page.meet(secrets.token_hex(16)).json()
    for text in (*header.split(":"), header, *said.values(), page.key.hex()):
        got(bearer(app, text).post("/api/questions"), 401)


# --- tokens of people -----------------------------------------------------------------------------


def test_a_person_writes_under_their_own_name(app, study):
    ann, before = bearer(app, add(study)), len(study.history())
    assert got(ann.get("/api/study"))["you"] == "ann"
    assert got(ann.post("/api/answers", json=TELL), 201)["by"] == "ann"
    got(ann.post("/api/questions", json={"by": "ann"}), 201)
    got(ann.post("/api/skips", json={"position": 0, "by": ""}), 201)
    got(ann.post("/api/skips/0/undo"), 204)  # without a body
    got(ann.post("/api/answers/2/retract"), 204)
    assert [event.by for event in study.history()[before:]] == ["ann"] * 5


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_another_name_is_refused_everywhere(app, study, method, path):
    body = {
        "/api/questions": {}, "/api/answers": TELL, "/api/answers/1": {"total": 6.0},
        "/api/pool": {"change": "add", "csv": "set,id\n"},
        "/api/claims": {"position": 2}, "/api/skips": {"position": 2},
    }.get(path, {})  # fmt: skip
    study.claim(study.ids[2]) if "claims/" in path else None
    before = study.history()
    token = add(study)
    for sender in (bearer(app, token).request, lambda *a, json: page_of(app, token).send(*a, json)):
        refused = sender(method, path, json={**body, "by": "bob"})
        assert got(refused, 403)["code"] == "name"
        assert "for ann" in refused.json()["detail"]
    assert study.history() == before


def test_the_token_of_the_server_writes_under_any_name(app, study):
    assert got(client_of(app).get("/api/study"))["you"] is None
    for name in ("ann", "bob"):
        got(client_of(app).post("/api/questions", json={"by": name}), 201)
    assert {claim.by for claim in study.claims} == {"ann", "bob"}


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_a_token_for_reading_does_not_write(app, study, method, path):
    token, before = add(study, writes=False), study.history()
    assert got(bearer(app, token).request(method, path), 403)["code"] == "read_only"
    assert got(page_of(app, token).send(method, path), 403)["code"] == "read_only"
    assert study.history() == before
    assert got(bearer(app, token).get("/api/study"))["writable"] is False


def test_reading_can_need_a_token_on_this_machine(study):
    app = create_app(study, require_token_for_reading=True)
    token = add(study, writes=False)
    for path in ("/api/study", "/api/individuals.csv", "/api/sets", "/api/charts/pool"):
        assert got(client_of(app, token=False).get(path), 401)["code"] == "token"
    got(bearer(app, token).get("/api/study"))
    assert page_of(app, token).send("GET", "/api/individuals.csv").status_code == 200
    assert client_of(app, token=False).get("/").status_code == 200


def test_a_token_taken_back_is_refused_at_once(app, study):
    one, two, other = add(study), add(study), add(study, "bob")
    got(bearer(app, one).post("/api/questions"), 201)
    tokens.revoke(study.location, tokens.Holder(tokens.key_of(one)).id)
    got(bearer(app, one).post("/api/questions"), 401)
    got(page_of(app, one).meet(secrets.token_hex(16)), 401)
    got(bearer(app, two).post("/api/questions"), 201)
    tokens.revoke(study.location, "ann")
    got(bearer(app, two).post("/api/questions"), 401)
    got(bearer(app, other).post("/api/questions"), 201)


def test_a_token_needs_more_than_the_id_of_another(app, monkeypatch):
    monkeypatch.setattr(tokens.Holder, "id", "0" * 16)
    got(bearer(app, "another token altogether").post("/api/questions"), 401)
    got(client_of(app).post("/api/questions"), 201)


def test_a_token_expires(app, study, monkeypatch):
    token = add(study, days=2)
    got(bearer(app, token).post("/api/questions"), 201)
    (holder,) = tokens.people(tokens.people_file(study.location))
    end = datetime.fromisoformat(holder.expires)
    assert 1.9 < (end - datetime.now(UTC)).total_seconds() / 86_400 <= 2

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return end

    monkeypatch.setattr(tokens, "datetime", Later)
    got(bearer(app, token).post("/api/questions"), 401)
    got(page_of(app, token).meet(secrets.token_hex(16)), 401)


def test_tokens_of_people_are_for_one_database(app, study, tmp_path):
    token = add(study)
    with sw.create_study(tmp_path / "b.db", SETS) as other:
        got(bearer(create_app(other), token).post("/api/questions"), 401)
    got(bearer(app, token).post("/api/questions"), 201)


# --- their file -----------------------------------------------------------------------------------


def test_a_token_of_a_person_is_not_stored(study, state):
    token = add(study)
    (file,) = state.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token not in file.read_text()


@pytest.mark.parametrize(
    "content", ["", "{", "[1]", "{}x", '[{"key": "zz"}]', '[{"key": "00", "x": 1}]']
)
def test_a_damaged_file_lets_no_one_in_and_says_so(app, study, state, content):
    token = add(study)
    got(bearer(app, token).get("/api/study"))  # and it has been read
    (file,) = state.iterdir()
    file.write_text(content)
    got(bearer(app, token).post("/api/questions"), 401)
    got(client_of(app).post("/api/questions"), 201)
    with pytest.raises(sw.StorageError, match="is damaged"):
        add(study, "bob")


def test_a_file_that_others_can_read_is_not_believed(app, study, state):
    token = add(study)
    (file,) = state.iterdir()
    file.chmod(0o644)
    got(bearer(app, token).post("/api/questions"), 401)


def test_a_link_in_place_of_the_file_is_not_followed(app, study, state, tmp_path):
    token = add(study)
    (file,) = state.iterdir()
    os.rename(file, tmp_path / "other")
    file.symlink_to(tmp_path / "other")
    got(bearer(app, token).post("/api/questions"), 401)


@pytest.mark.parametrize("name", ["", "  ", "x" * 101, "a\nb", "\x1b[31m"])
def test_a_name_that_cannot_be_shown_is_refused(study, name):
    with pytest.raises(sw.SettingError, match="give a name"):
        add(study, name)


def test_who_is_not_known_cannot_be_revoked(study):
    add(study)
    with pytest.raises(sw.SettingError, match="there are: ann"):
        tokens.revoke(study.location, "bob")
