"""`tell` and `ask`: parts of sets, bounds, previews, and what is said about an answer."""

from __future__ import annotations

import csv
import re

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


def test_hints_say_what_can_be_done_next_and_by_whom(run):
    assert "sumwise ask a.db --by ben" in run("ask", "a.db", "--preview", "--by", "ben")
    assert "was chosen by hand; IVR would have asked" in run("claim", "a.db", "s0")
    for place in range(3):
        assert "Next: sumwise ask" in run("tell", "a.db", f"s{place}", str(place))
    last = run("tell", "a.db", "s3", "5")
    assert "Next: sumwise predict" in last
    with sw.open_study("a.db") as study:
        study.retract("s3")
        asked = study.propose(1)[0]
    assert str(asked).startswith("Measure s3, expected ")
    assert asked.why in str(asked)


def test_gaps_of_text_are_mentioned(run, tmp_path):
    (tmp_path / "g.csv").write_text("g,kind,a\n1,b,2\n1,,1\n2,c,\n2,b,3\n")
    said = run("init", "g.db", "g.csv", "--by", "g")
    assert "Text with gaps, which form a level of their own: kind." in said
    assert "flagged: a." in said


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
    with open("answers.csv", "w") as file:  # as former versions wrote it
        file.write("set,total,part\ns3,40,2 of 3 individuals\n")
    assert "answers.csv has totals of parts, scaled up" in run(
        "tell", "a.db", "--from", "answers.csv", code=1
    )


def test_parts_come_in_columns_of_a_file(run, tmp_path):
    (tmp_path / "many.csv").write_text(
        "school,total,covers,of,noise_std\ns0,4,,p00; p02,\ns1,5,0.5,,\ns2,6,,,1\ns3,7,1,,\n"
    )
    assert "4 new means recorded from 4 rows" in run("tell", "a.db", "--from", "many.csv")
    assert "0 new means recorded" in run("tell", "a.db", "--from", "many.csv")
    with sw.open_study("a.db") as study:
        found = {each.set_id: (each.y_bar, each.of, each.covers) for each in study.answers}
        noise = {each.set_id: each.noise_std for each in study.answers}
    assert found == {
        "s0": (4.0, (1, 3), None),
        "s1": (5.0, None, 0.5),  # a mean is not scaled up
        "s2": (6.0, None, None),
        "s3": (7.0, None, None),
    }
    assert (noise["s0"], noise["s2"], noise["s3"]) == (None, 1.0, None)
    assert noise["s1"] > 0


@pytest.mark.parametrize("kind", ["mean", "sum"])
@pytest.mark.parametrize("ids", [(), ("--id", "pupil")])
def test_answers_in_a_file_are_told_to_another_study_as_they_were_measured(run, kind, ids):
    made = ("t.csv", "--by", "school", "--x", "ses", *ids, "--weights", kind, "--basis", "linear")
    of = "p01;p02" if ids else "2;3"
    with open("many.csv", "w") as file:
        file.write(f"set,total,covers,of,noise_std\ns0,4,,{of},2\ns1,5.1,0.7,,\ns2,6,,,1\n")
    for study in ("one.db", "two.db"):
        run("init", study, *made)
    run("tell", "one.db", "--from", "many.csv")
    run("answers", "one.db", "-o", "totals.csv")
    assert re.search("0 new (total|mean)s", run("tell", "one.db", "--from", "totals.csv"))
    assert "3 new" in run("tell", "two.db", "--from", "totals.csv")
    with sw.open_study("one.db") as one, sw.open_study("two.db") as two:
        told = [
            [(a.set_id, a.y_bar, a.of, a.covers, a.noise_std) for a in study.answers]
            for study in (one, two)
        ]
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("s1,5,1.5,", "line 3: covers is 1.5; give a share above 0, up to 1"),
        ("s1,5,half,", "line 3: 'covers' of set 's1': .*half"),
        (
            "s1,5,,p11;p99",
            "line 3: of: 'p99', number 2 of those named, is not a member of set 's1'; "
            "give ids of its rows",
        ),
        ("s1,5,,p11;p11", "line 3: of: 'p11' is named twice"),
        ("s1,5,,p11;", "line 3: of: '', number 2 of those named, is not a member of set 's1'"),
        ("s1,5,0.5,p11", "line 3: give `of`, members by name, or `covers`, a share; not both"),
        ("s1,-5,0.5,", "line 3: .*which is impossible"),
    ],
)
def test_parts_that_cannot_be_are_refused_with_their_row_and_column(run, tmp_path, row, said):
    (tmp_path / "bad.csv").write_text(f"set,total,covers,of\ns0,4,,p00\n{row}\n")
    found = run("tell", "a.db", "--from", "bad.csv", code=1)
    assert re.search(said, found), found
    assert "Nothing was stored" in found
    with sw.open_study("a.db") as study:
        assert study.answers == ()


ODD = ["=1+1", "+a", "-b", "@c", "\td", "-5", "'=1+1"]


def test_ids_like_formulas_go_through_every_file_of_the_shell(run, tmp_path):
    sets = sw.Sets.from_arrays([[[float(n)], [n + 1.0]] for n in range(len(ODD))], ids=ODD)
    for name in ("one.db", "two.db"):
        sw.create_study(tmp_path / name, sets).close()
    with sw.open_study("one.db") as study:
        for n, set_id in enumerate(ODD):
            study.tell(set_id, n - 3.0, by="=ann", note="@note")
    for command in ("answers", "history", "predict"):
        run(command, "one.db", "-o", f"{command}.csv")
    run("export", "one.db", "folder")
    files = [*tmp_path.glob("*.csv"), *tmp_path.glob("folder/*.csv")]
    cells = {c for f in files for row in csv.reader(f.read_text().splitlines()) for c in row}
    numbers = {c for c in cells if re.fullmatch(r"-[0-9.]+(e-[0-9]+)?", c)}
    assert {"-5", "-3.0"} <= numbers
    assert [c for c in cells - numbers if c[:1] in tuple("=+-@\t")] == []
    run("tell", "two.db", "--from", "answers.csv")
    run("import", "folder", "three.db")
    for name in ("two.db", "three.db"):
        with sw.open_study("one.db") as first, sw.open_study(name) as second:
            said = [(a.set_id, a.y_bar, a.by, a.note) for a in first.answers]
            assert [(a.set_id, a.y_bar, a.by, a.note) for a in second.answers] == said
