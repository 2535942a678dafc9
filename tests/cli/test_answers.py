"""`tell` and `ask`: parts of sets, bounds, previews, and what is said about an answer."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import sumwise as sw
from sumwise.cli import main

TABLE = "school,pupil,ses\n" + "".join(
    f"s{a},p{a}{n},{(7 * a + 3 * n) % 5}\n" for a in range(4) for n in range(3)
)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "of.csv").write_text("id\np30\np32\n")

    def run(*words, code=0):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == code, done.output
        return " ".join(done.output.replace("│", "").split())

    named = ("--weights", "mean", "--outcome", "maths score", "--unit", "points")
    made = ("init", "a.db", "t.csv", "--by", "school", "--x", "ses", "--id", "pupil")
    assert "of an individual is at least 0 points" in run(*made, *named, "--min", "0")
    return run


def test_a_preview_claims_nothing(run):
    assert "Nothing is claimed" in run("ask", "a.db", "--preview", "-n", "2")
    with sw.open_study("a.db") as study:
        assert study.claims == ()


def test_one_line_says_what_is_special_about_an_answer(run):
    run("claim", "a.db", "s0", "--by", "bob")
    run("skip", "a.db", "s1", "--by", "eve", "--note", "they refuse")
    said = run("tell", "a.db", "s0", "5", "--by", "ann", "--noise-std", "2")
    assert "mean maths score of s0 is 5 points" in said
    assert "known noise of ± 2" in said
    assert "bob holds this set until" in said
    assert "recorded anyway" in said
    assert "skipped by eve (they refuse)" in run("tell", "a.db", "s1", "5")


def test_parts_and_impossible_means(run):
    assert "the mean is at least 0" in run("tell", "a.db", "s3", "-4", code=1)
    assert "(2 of 3 individuals)" in run("tell", "a.db", "s3", "40", "--of", "of.csv")
    assert "(from 50 % of the set)" in run("tell", "a.db", "s2", "40", "--covers", "0.5")
    assert "mean (points)" in run("answers", "a.db")
    run("answers", "a.db", "-o", "answers.csv")
    assert "cover a part of their set" in run("tell", "a.db", "--from", "answers.csv", code=1)
