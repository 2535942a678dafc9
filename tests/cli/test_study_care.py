"""Care for people at the shell: slips noticed, files told again, lists that can be read back."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

import sumwise as sw
from sumwise.cli import main
from tests.marks import slow
from tests.studies import copy_of
from tests.tables import write_csv

CONSOLE_SCRIPT = str(Path(sys.executable).with_name("sumwise"))


def run(*arguments, code=0):
    result = CliRunner(env={"COLUMNS": "400", "SUMWISE_USER": None}).invoke(
        main, [str(a) for a in arguments]
    )
    assert result.exit_code == code, result.output
    return result


def made(path):
    data = write_csv(path.parent / "data.csv")
    run("init", path, data, "--by", "g", "--x", "a", "--x", "b", "--basis", "linear")
    for a in range(4):
        run("tell", path, f"00{a}", 10 + a)


@pytest.fixture
def url(tmp_path):
    """Sets 000 to 011, four of them measured."""
    write_csv(tmp_path / "data.csv")
    return str(copy_of(made, tmp_path / "s.db"))


def asked(url):
    (question,) = json.loads(run("ask", url, "--json").stdout)["questions"]
    return question


def test_a_total_far_from_what_was_expected_is_kept_with_a_hint(url):
    question = asked(url)
    far = question["expected"] + 5 * question["std"]
    told = run("tell", url, question["set"], far)
    assert "Recorded" in told.stdout
    assert "far from the" in told.stdout
    assert f"sumwise amend {url} {question['set']} TOTAL" in told.stderr
    near = question["expected"] + 3 * question["std"]
    assert "far from" not in run("amend", url, question["set"], near).stdout
    assert "far from" in run("amend", url, question["set"], far).stdout


def test_a_set_that_nobody_asked_for_is_judged_by_the_other_answers(url):
    with sw.open_study(url) as study:
        mean, std = study.expected("007")
        with_it, without_it = study.predict_sets().mean[0], study.expected("000")
        assert without_it[0] != pytest.approx(with_it)
        study.retract("000")
        others = study.predict_sets()
        assert without_it == pytest.approx((others.mean[0], others.std[0]))
        study.tell("000", 10)
    assert "far from the" in run("tell", url, "007", mean + 5 * std).stdout
    assert "far from" not in run("amend", url, "007", mean + 3 * std).stdout


def test_known_noise_makes_a_far_total_likely(url):
    question = asked(url)
    far = question["expected"] + 5 * question["std"]
    told = run("tell", url, question["set"], far, "--noise-std", 10 * question["std"])
    assert "far from" not in told.stdout


def test_a_correction_keeps_its_known_noise_when_it_is_judged(url):
    with sw.open_study(url) as study:
        mean, std = study.expected("007")
    run("tell", url, "007", mean, "--noise-std", 10 * std)
    assert "far from" not in run("amend", url, "007", mean + 6 * std).stdout
    assert "far from" in run("amend", url, "007", mean + 5 * std, "--noise-std", 0).stdout


def test_nothing_is_expected_of_the_first_answers(tmp_path):
    path = str(tmp_path / "new.db")
    run("init", path, write_csv(tmp_path / "data.csv"), "--by", "g")
    question = asked(path)
    assert "far from" not in run("tell", path, question["set"], 1e6).stdout


def test_the_same_once_more_is_known_already(url):
    assert run("tell", url, "000", 10).stdout.startswith("Already recorded: 000 is 10.")
    assert json.loads(run("tell", url, "000", 10, "--json").stdout)["new"] is False


@pytest.mark.parametrize("kept", ["10", "10.0"])
def test_a_file_told_again_does_not_bring_back_what_was_taken_back(url, tmp_path, kept):
    file = tmp_path / "totals.csv"
    file.write_text(f"set,total\n001,11\n000,{kept}\n005,5\n")
    run("retract", url, "000", "--by", "eve")
    with sw.open_study(url) as study:
        before = study.history()
        said = run("tell", url, "--from", file, code=1).stderr
        assert "line 3: set '000' was told 10 before, and that was withdrawn by 'eve' at" in said
        assert "Nothing was stored." in said
        assert study.history() == before
    run("tell", url, "000", 10)  # one alone is meant
    assert "1 new total recorded from 3 rows" in run("tell", url, "--from", file).stdout


def test_a_file_does_not_bring_back_what_was_amended_before_it_was_taken_back(url, tmp_path):
    file = tmp_path / "totals.csv"
    file.write_text("set,total\n000,10\n")
    run("amend", url, "000", 77)
    run("retract", url, "000")
    assert "was told 10 before" in run("tell", url, "--from", file, code=1).stderr
    run("tell", url, "000", 5)
    run("retract", url, "000")
    assert "was told 10 before" in run("tell", url, "--from", file, code=1).stderr


def test_sets_that_look_the_same_are_not_told_apart_by_guessing(tmp_path):
    path = str(tmp_path / "same.db")
    sets = sw.Sets.from_arrays([[[0.0]], [[1.0]]], ids=[1, "1"])
    sw.create_study(path, sets).close()
    said = run("tell", path, "1", 41.5, code=1).stderr
    assert "several sets are shown as '1'" in said


def test_a_full_device_says_that_the_total_is_kept(url):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [CONSOLE_SCRIPT, "tell", url, "009", "3"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "everything is stored" in " ".join(done.stderr.replace("│", " ").split())
    with sw.open_study(url) as study:
        assert study.answers[-1].set_id == "009"


def test_another_total_for_a_set_that_was_taken_back_is_news(url, tmp_path):
    file = tmp_path / "totals.csv"
    file.write_text("set,total\n000,10.5\n")
    run("retract", url, "000")
    assert "1 new total recorded" in run("tell", url, "--from", file).stdout


def test_answers_are_listed_as_they_stand_and_can_be_told_to_another_study(url, tmp_path):
    run("amend", url, "001", 21, "--noise-std", 2, "--by", "ann", "--note", "=1+1")
    run("retract", url, "002")
    listed = json.loads(run("answers", url, "--json").stdout)["answers"]
    assert [(row["set"], row["total"]) for row in listed] == [("000", 10), ("001", 21), ("003", 13)]
    assert "21 ± 2" in run("answers", url).stdout
    file = tmp_path / "out.csv"
    assert "3 answers written" in run("answers", url, "-o", file).stdout
    other = str(tmp_path / "other.db")
    run("init", other, tmp_path / "data.csv", "--by", "g")
    run("tell", other, "--from", file)
    with sw.open_study(url) as old, sw.open_study(other) as new:
        assert [(a.set_id, a.y_bar, a.noise_std, a.by) for a in new.answers] == [
            (a.set_id, a.y_bar, a.noise_std, a.by) for a in old.answers
        ]


def test_answers_of_a_study_without_any_make_a_file_with_a_heading(url, tmp_path):
    for a in range(4):
        run("retract", url, f"00{a}")
    run("answers", url, "-o", tmp_path / "none.csv")
    assert (tmp_path / "none.csv").read_text().startswith('"set","total"')


def test_whoever_held_a_set_that_is_skipped_is_named(url):
    run("claim", url, "007", "--by", "bob")
    assert "claimed by bob" in run("skip", url, "007", "--by", "ann").stdout
    run("claim", url, "008", "--by", "ann")
    assert "claimed by" not in run("skip", url, "008", "--by", "ann").stdout


def test_ids_of_the_wrong_kind_are_explained():
    text = sw.Sets.from_arrays([[[1.0]], [[2.0]]], ids=["7", "8"])
    with pytest.raises(sw.UnknownSetError, match="ids are text here: write '7'"):
        text.position(7)
    numbered = sw.Sets.from_arrays([[[1.0]]], ids=[7])
    with pytest.raises(sw.UnknownSetError, match="ids are numbers here: write 7"):
        numbered.position("7")


def test_columns_in_one_option_are_told_apart(url, tmp_path):
    said = run("init", tmp_path / "x.db", tmp_path / "data.csv", "--by", "g", "--x", "a,b", code=0)
    assert "Sets by g; inputs a, b." in said.stderr
    said = run("init", tmp_path / "y.db", tmp_path / "data.csv", "--by", "g,a", "--x", "b", code=1)
    assert "One column at a time: repeat the option." in said.stderr
    assert run("init", url, tmp_path / "data.csv", "--by", "g", code=1).stderr.count("Sets by") == 0


READERS = [("predict", "--json"), *slow(("status",), ("answers",), ("predict",))]


@pytest.mark.parametrize("words", READERS)
def test_a_reader_that_has_seen_enough_is_no_failure(url, words):
    command, *options = words
    whole = [CONSOLE_SCRIPT, command, url, *options]
    with subprocess.Popen(
        whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(120) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_a_file_of_means_is_read_by_the_word_of_the_study(tmp_path):
    data, told = tmp_path / "people.csv", tmp_path / "means.csv"
    data.write_text("school,x\n" + "".join(f"s{i % 3},{i * i % 7}\n" for i in range(12)))
    db = str(tmp_path / "a.db")
    run = partial(subprocess.run, capture_output=True, text=True, check=False)
    shell = [sys.executable, "-m", "sumwise"]
    made = run([*shell, "init", db, str(data), "--by", "school", "--weights", "mean"])
    assert made.returncode == 0, made.stderr
    told.write_text("school,mean\ns0,1.5\ns1,2\n")
    done = run([*shell, "tell", db, "--from", str(told)])
    assert done.returncode == 0, done.stderr
    assert "2 new means recorded from 2 rows" in done.stdout
