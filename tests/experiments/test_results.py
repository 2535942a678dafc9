"""Results that survive, and tables made of them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sumwise.errors import DataError
from sumwise.experiments import results, tables
from sumwise.experiments.protocol import RFF, Curve
from sumwise.report.page import Section

SMALL = replace(RFF, queries=3)


def curve(dataset="Mg", method="AggMI", split=0, values=(3.0, 2.0, 1.0)):
    return Curve(dataset, method, split, np.array(values), np.full(len(values), 0.5))


@pytest.fixture
def kept(tmp_path):
    return results.open_results(tmp_path / "out", SMALL, {})


def test_runs_come_back_as_they_were_to_the_last_bit(kept):
    values = np.random.default_rng(0).random(3) / 3
    results.append(kept, [curve(values=values), curve(split=1)])
    again = results.read(results.open_results(kept.folder, SMALL, {}))
    assert [(c.dataset, c.method, c.split) for c in again] == [
        ("Mg", "AggMI", 0),
        ("Mg", "AggMI", 1),
    ]
    assert_array_equal(again[0].mse, values)


@pytest.mark.parametrize("lost", [1, 4, 9, 20, 40])
def test_a_run_that_was_cut_off_is_dropped_and_the_others_stay(kept, lost):
    results.append(kept, [curve()])
    whole = kept.runs.read_text()
    results.append(kept, [curve(split=1)])
    kept.runs.write_text(kept.runs.read_text()[:-lost])
    again = results.open_results(kept.folder, SMALL, {})
    assert {c.split for c in results.read(again)} == {0}
    assert again.runs.read_text().startswith(whole)
    results.append(again, [curve(split=2)])  # and it can go on
    assert {c.split for c in results.read(again)} == {0, 2}


def test_a_damaged_line_is_named_and_nothing_is_changed(kept):
    results.append(kept, [curve(), curve(split=1)])
    text = kept.runs.read_text().replace("Mg,AggMI,0,2,", "Mg,AggMI,zero,2,")
    kept.runs.write_text(text)
    with pytest.raises(DataError, match="line 3 is damaged"):
        results.open_results(kept.folder, SMALL, {})
    assert kept.runs.read_text() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"Mg,AggMI,0,1,3.0,0.5', "line 5 is damaged"),  # a quote swallows nothing
        ("Mg,AggMI,0,1,nan,0.5", "line 5 is damaged"),
        ("Mg,AggMI,0,1,-5,0.5", "line 5 is damaged"),
        ("Mg,Evil,0,1,0.1,0.5", "line 5 is damaged"),
        ("Mg,AggMI", "line 5 is damaged"),
    ],
)
def test_lines_that_cannot_be_ours_are_named_and_nothing_is_lost(kept, text, message):
    results.append(kept, [curve(), curve(split=1), curve(split=2)])
    lines = kept.runs.read_text().splitlines(keepends=True)
    damaged = "".join([*lines[:4], text + "\n", *lines[4:]])
    kept.runs.write_text(damaged)
    with pytest.raises(DataError, match=message):
        results.open_results(kept.folder, SMALL, {})
    assert kept.runs.read_text() == damaged


def test_what_a_repair_drops_is_kept_in_a_copy(kept):
    results.append(kept, [curve(), curve(split=1)])
    text = kept.runs.read_text()
    kept.runs.write_text(text[:-3])
    results.open_results(kept.folder, SMALL, {})
    assert kept.runs.with_suffix(".csv.bak").read_text() == text[:-3]


def test_bytes_that_are_no_text_are_refused(kept):
    kept.runs.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="cannot be read"):
        results.open_results(kept.folder, SMALL, {})


def test_an_empty_file_left_by_a_crash_is_begun_anew(kept):
    kept.runs.write_text("")
    again = results.open_results(kept.folder, SMALL, {})
    assert results.read(again) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "are of format 99, not 1"),
        ({"sumwise": "9.9"}, "are of sumwise '9.9', not"),
        ({"table": "neural"}, "are of table 'neural', not 'rff'"),
        ({"queries": 30}, "are of queries 30, not 3"),
        ({"data": {"Mg": "other"}}, "are of another Mg: its data have changed"),
        ({"data": []}, "cannot be read"),
    ],
)
def test_results_of_another_version_setting_or_data_are_refused(kept, change, message):
    results.append(kept, [curve()])
    before = kept.runs.read_text()
    settings = json.loads(kept.settings.read_text())
    kept.settings.write_text(json.dumps({**settings, **change}))
    with pytest.raises(DataError, match=message):
        results.open_results(kept.folder, SMALL, {"Mg": "this"})
    assert kept.runs.read_text() == before


def test_fingerprints_of_more_data_sets_are_added(kept):
    results.open_results(kept.folder, SMALL, {"Mg": "a"})
    results.open_results(kept.folder, SMALL, {"Cpu": "b"})
    assert json.loads(kept.settings.read_text())["data"] == {"Mg": "a", "Cpu": "b"}


@pytest.mark.parametrize("name", results.WRITTEN)
def test_files_of_somebody_else_are_left_alone(tmp_path, name):
    (tmp_path / name).write_text("precious")
    with pytest.raises(DataError, match=r"has no settings.json beside it"):
        results.open_results(tmp_path, SMALL, {})
    assert (tmp_path / name).read_text() == "precious"


def test_a_csv_that_is_not_ours_is_refused(kept):
    kept.runs.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="does not begin with dataset,method"):
        results.open_results(kept.folder, SMALL, {})


def test_a_second_writer_is_refused(tmp_path):
    with (
        results.only_writer(tmp_path / "out"),
        pytest.raises(DataError, match="another process is writing"),
        results.only_writer(tmp_path / "out"),
    ):
        pass
    with results.only_writer(tmp_path / "out"):
        pass


def test_only_splits_that_all_methods_have_are_compared():
    runs = [curve(split=s) for s in range(3)] + [curve(method="Rand", split=s) for s in (1, 2)]
    errors = results.by_dataset(runs)["Mg"]
    assert errors["AggMI"].shape == errors["Rand"].shape == (2, 3)


def made_up_errors():
    rng = np.random.default_rng(0)
    luck = rng.normal(size=(20, 1))
    return {
        "D": {
            "AggMI": 1.0 + luck + 0.01 * rng.normal(size=(20, 2)),
            "QBC": 1.0 + luck + 0.01 * rng.normal(size=(20, 2)),
            "Rand": 1.2 + luck + 0.01 * rng.normal(size=(20, 2)),
        }
    }


def test_the_paired_test_sees_through_luck_that_is_shared():
    """Splits differ by 1, methods by 0.2: an unpaired test would tell nothing apart."""
    cells = tables.cells(made_up_errors(), {("D", "Rand"): (1.5, False)})
    assert {c.method for c in cells if c.best} == {"AggMI", "QBC"}
    rand = cells[2]
    assert (rand.method, rand.published) == ("Rand", 1.5)
    expected = made_up_errors()["D"]["Rand"].mean(axis=1)
    assert_allclose([rand.mean, rand.sem], [expected.mean(), expected.std(ddof=1) / np.sqrt(20)])


def test_the_paired_test_is_that_of_the_textbook():
    a, b = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.3, 2.1, 3.4, 4.05])
    difference = b - a
    t = difference.mean() / (difference.std(ddof=1) / 2)
    assert t < 3.182  # two-sided 5 % point of Student's t with 3 degrees of freedom
    assert tables.not_worse({"a": a, "b": b}) == {"a", "b"}
    assert tables.not_worse({"a": a, "b": b + 0.3}) == {"a"}
    assert tables.not_worse({"a": a, "b": a + 0.1, "c": a}) == {"a", "c"}
    assert tables.not_worse({"a": a[:1], "b": b[:1]}) == {"a"}


def markdown(table):
    """The lines of the table alone."""
    text = tables.markdown("title", ["words"], [Section("grid", table=table)])
    assert text.startswith("# title\n\nwords\n\n## grid\n\n|")
    return text.partition("## grid\n\n")[2]


def test_tables_are_printed_in_the_papers_form(tmp_path):
    cells = tables.cells(made_up_errors(), {("D", "AggMI"): (9.0, True)})
    lines = markdown(tables.ours(cells)).splitlines()
    assert lines[0] == "|  | AggMI | QBC | Rand |"
    assert lines[-1] == "| # best | 1 | 1 | 0 |"
    assert lines[2].startswith("| D | **")
    _, published, differences = tables.sections(cells)
    assert "**9.000**" in markdown(published.table)
    assert "**-" in markdown(differences.table)
    assert len(tables.sections(tables.cells(made_up_errors(), {}))) == 1
    tables.write_csv(tmp_path / "t.csv", cells)
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert list(rows[0]) == ["dataset", "method", "mean", "sem", "best", "published"]
    assert [row["best"] for row in rows] == ["1", "1", "0"]


@pytest.mark.parametrize(
    ("read", "texts"),
    [
        (tables.read_errors, ["dataset,method\na,b\n", None]),
        (tables.read_seconds, ["name,seconds\nAggMI,1\n", "method,seconds\nAggMI,\n", None]),
    ],
)
def test_a_table_of_published_figures_that_is_none_is_refused(tmp_path, read, texts):
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.csv"
        if text is not None:
            path.write_text(text)
        with pytest.raises(DataError, match=rf"{number}.csv is not a table of published figures"):
            read(path)


def test_published_figures_are_read_by_data_set_and_method(tmp_path):
    (tmp_path / "p.csv").write_text("dataset,method,mse,bold\na,b,0.5,1\n")
    assert tables.read_errors(tmp_path / "p.csv") == {("a", "b"): (0.5, True)}
    (tmp_path / "s.csv").write_text("method,seconds\nAggMI,2600.0\n")
    assert tables.read_seconds(tmp_path / "s.csv") == {"AggMI": 2600.0}
