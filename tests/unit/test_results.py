"""Results that survive, and tables made of them."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sumwise.errors import DataError
from sumwise.experiments import results, tables
from sumwise.experiments.protocol import Curve


def curve(dataset="D", method="AggMI", split=0, values=(3.0, 2.0, 1.0)):
    return Curve(dataset, method, split, np.array(values), np.full(len(values), 0.5))


@pytest.fixture
def kept(tmp_path):
    return results.open_results(tmp_path / "out", "rff", 3)


def test_runs_come_back_as_they_were_to_the_last_bit(kept):
    values = np.random.default_rng(0).random(3) / 3
    results.append(kept, [curve(values=values), curve(split=1)])
    again = results.read(results.open_results(kept.folder, "rff", 3))
    assert [(c.dataset, c.method, c.split) for c in again] == [("D", "AggMI", 0), ("D", "AggMI", 1)]
    assert_array_equal(again[0].mse, values)
    assert results.done(again) == {("D", "AggMI", 0), ("D", "AggMI", 1)}


@pytest.mark.parametrize("lost", [1, 4, 9, 20, 40])
def test_a_run_that_was_cut_off_is_dropped_and_the_others_stay(kept, lost):
    results.append(kept, [curve()])
    whole = kept.runs.read_text()
    results.append(kept, [curve(split=1)])
    kept.runs.write_text(kept.runs.read_text()[:-lost])
    again = results.open_results(kept.folder, "rff", 3)
    left = {c.split for c in results.read(again)}
    assert left in ({0}, {0, 1})
    assert again.runs.read_text().startswith(whole)
    results.append(again, [curve(split=2)])  # and it can go on
    assert {c.split for c in results.read(again)} == left | {2}


def test_a_damaged_line_is_named_and_nothing_is_changed(kept):
    results.append(kept, [curve(), curve(split=1)])
    text = kept.runs.read_text().replace("D,AggMI,0,2,", "D,AggMI,zero,2,")
    kept.runs.write_text(text)
    with pytest.raises(DataError, match="line 3 is damaged"):
        results.open_results(kept.folder, "rff", 3)
    assert kept.runs.read_text() == text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": 99, "table": "rff", "queries": 3}, "is of format 99; this version writes"),
        ({"format": 1, "table": "neural", "queries": 3}, "are of table 'neural', not 'rff'"),
        ({"format": 1, "table": "rff", "queries": 30}, "are of queries 30, not 3"),
        ([], "cannot be read"),
    ],
)
def test_results_of_another_version_or_setting_are_refused(kept, settings, message):
    results.append(kept, [curve()])
    before = kept.runs.read_text()
    (kept.folder / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(DataError, match=message):
        results.open_results(kept.folder, "rff", 3)
    assert kept.runs.read_text() == before


def test_a_csv_of_somebody_else_is_refused(tmp_path):
    (tmp_path / "runs.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"has no settings.json beside it"):
        results.open_results(tmp_path, "rff", 3)
    (tmp_path / "settings.json").write_text('{"format": 1, "table": "rff", "queries": 3}')
    with pytest.raises(DataError, match="does not begin with dataset,method"):
        results.open_results(tmp_path, "rff", 3)


def test_only_splits_that_all_methods_have_are_compared():
    runs = [curve(split=s) for s in range(3)] + [curve(method="Rand", split=s) for s in (1, 2)]
    errors = results.by_dataset(runs)["D"]
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


def test_tables_are_printed_in_the_papers_form(tmp_path):
    cells = tables.cells(made_up_errors(), {("D", "AggMI"): (9.0, True)})
    text = tables.markdown(tables.ours(cells))
    lines = text.splitlines()
    assert lines[0] == "|  | AggMI | QBC | Rand |"
    assert lines[-1] == "| # best | 1 | 1 | 0 |"
    assert lines[2].startswith("| D | **")
    assert "**9.000**" in tables.markdown(tables.published(cells))
    assert "**-" in tables.markdown(tables.differences(cells))
    tables.write_csv(tmp_path / "t.csv", cells)
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert list(rows[0]) == ["dataset", "method", "mean", "sem", "best", "published"]
    assert [row["best"] for row in rows] == ["1", "1", "0"]


def test_a_table_of_published_figures_that_is_none_is_refused(tmp_path):
    (tmp_path / "p.csv").write_text("dataset,method\na,b\n")
    for name in ("p.csv", "absent.csv"):
        with pytest.raises(DataError, match="no table of published figures"):
            tables.read_published(tmp_path / name)
    (tmp_path / "p.csv").write_text("dataset,method,mse,bold\na,b,0.5,1\n")
    assert tables.read_published(tmp_path / "p.csv") == {("a", "b"): (0.5, True)}
