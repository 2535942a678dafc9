"""`sumwise predict` with a table that is too large to be read at once."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sumwise as sw
from sumwise.cli import predict_table
from tests.cli.test_init_parquet import done, run
from tests.parquet import with_other_rows


def read(path):
    return pq.read_table(path) if path.suffix == ".parquet" else pyarrow.csv.read_csv(path)


def individuals(rng):
    """Sets of three, with text, a gap, and two members that are alike but for their weights."""
    frame = pd.DataFrame(
        {"g": np.repeat([f"s{a}" for a in range(20)], 3), "x": rng.normal(size=60)}
    )
    frame["kind"] = rng.choice(["a", "b", None], 60)
    frame["people"] = rng.integers(1, 9, 60).astype(float)
    frame.loc[[0, 1], ["x", "kind"]] = [0.5, "a"]
    frame.loc[[0, 1], "people"] = [2.0, 5.0]
    return frame


@pytest.mark.parametrize("kind", ["numbers", "counts"])
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_large_table_is_predicted_as_if_it_were_read_at_once(tmp_path, monkeypatch, kind, suffix):
    rng = np.random.default_rng(0)
    frame = individuals(rng)
    about = {"outputs": "counts"} if kind == "counts" else {}
    sets = sw.Sets.from_frame(frame, by="g", x=["x", "kind"], weights="people")
    with sw.create_study(tmp_path / "s.db", sets, **about) as study:
        study.tell_many({f"s{a}": float(10 + a) for a in range(6)})
    rows = pd.concat([frame, frame.iloc[:9]]).sample(frac=1, random_state=1)  # some members twice
    rows["note"] = [f"={n}" for n in range(len(rows))]
    rows.to_parquet(tmp_path / "rows.parquet", index=False)
    out = [tmp_path / f"{name}{suffix}" for name in ("whole", "pieces")]
    whole = done("predict", tmp_path / "s.db", tmp_path / "rows.parquet", "-o", out[0])
    monkeypatch.setattr(predict_table, "ROWS", 7)
    pieces = done("predict", tmp_path / "s.db", tmp_path / "rows.parquet", "-o", out[1])
    assert pieces.stderr.replace("pieces", "whole") == whole.stderr
    assert "Members of measured sets are predicted given their totals, by g." in pieces.stderr
    expected, found = (read(each) for each in out)
    assert found.column_names == expected.column_names
    for name in expected.column_names:
        mine, theirs = found[name].to_pylist(), expected[name].to_pylist()
        if isinstance(theirs[0], float):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9)
        else:
            assert mine == theirs


def test_a_row_of_a_large_table_that_cannot_be_used_is_named_and_nothing_is_written(
    tmp_path, monkeypatch
):
    frame = individuals(np.random.default_rng(0)).drop(columns="kind")
    sets = sw.Sets.from_frame(frame, by="g", x=["x"])
    with sw.create_study(tmp_path / "s.db", sets) as study:
        study.tell("s3", 4.0)
    frame.loc[40, "x"] = np.inf
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    monkeypatch.setattr(predict_table, "ROWS", 7)
    refused = run("predict", tmp_path / "s.db", tmp_path / "rows.parquet", "-o", tmp_path / "a.csv")
    assert refused.exit_code == 1
    assert "row 41" in " ".join(refused.output.replace("│", " ").split())
    assert sorted(each.name for each in tmp_path.iterdir() if each.suffix != ".db") == [
        "rows.parquet"
    ]


PEAK = """
import resource, sys
from sumwise.cli import main
main(sys.argv[1:], standalone_mode=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows_of_a_table(tmp_path):
    peaks = []
    sets = sw.Sets.from_frame(
        pd.DataFrame({"g": range(30), **{f"x{d}": np.linspace(0, d + 1, 30) for d in range(8)}}),
        by="g",
        x=[f"x{d}" for d in range(8)],
    )
    with sw.create_study(tmp_path / "s.db", sets, model=sw.AggregateRegressor("linear")) as study:
        study.tell_many({a: float(a) for a in range(10)})
    for n in (600_000, 4_000_000):  # of the latter, inputs take 256 MB, and predictions 128
        rng, place = np.random.default_rng(0), tmp_path / str(n)
        place.mkdir()
        table = pa.table({f"x{d}": rng.random(n, dtype=np.float32) for d in range(8)})
        pq.write_table(table, place / "rows.parquet", row_group_size=2**18)
        words = "predict", tmp_path / "s.db", place / "rows.parquet", "-o", place / "out.parquet"
        made = subprocess.run(
            [sys.executable, "-c", PEAK, *map(str, words)],
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(int(made.stdout.split()[-1]) / 1e6)
        shutil.rmtree(place)
    assert peaks[1] < peaks[0] + 0.2, peaks


@pytest.mark.parametrize(
    ("ids", "named"),
    [
        ([1, 2, 3], [1.0, 2.0, 3.0]),
        ([1, 2, 3], ["1", "2", "3"]),
        ([1.0, 2.0, 3.0], [1, 2, 3]),
    ],
)
def test_members_are_found_whatever_the_type_of_the_column_that_names_their_sets(
    tmp_path, monkeypatch, ids, named
):
    x = np.random.default_rng(0).normal(size=6)
    sets = sw.Sets.from_frame(pd.DataFrame({"g": np.repeat(ids, 2), "x": x}), by="g", x=["x"])
    with sw.create_study(tmp_path / "s.db", sets) as study:
        study.tell_many({ids[0]: 50.0, ids[1]: -20.0})
    pq.write_table(pa.table({"g": np.repeat(named, 2), "x": x}), tmp_path / "rows.parquet")
    monkeypatch.setattr(predict_table, "ROWS", 2)
    done("predict", tmp_path / "s.db", tmp_path / "rows.parquet", "-o", tmp_path / "a.parquet")
    found = np.array(read(tmp_path / "a.parquet")["mean"]).reshape(3, 2).sum(axis=1)
    np.testing.assert_allclose(found[:2], [50.0, -20.0], rtol=1e-6)


@pytest.mark.parametrize("at_once", [2, 2**17])
def test_sets_whose_names_look_alike_are_told_apart(tmp_path, monkeypatch, at_once):
    names = {"g": ["a", "a", "a / b", "a / b"], "h": ["b / c", "b / c", "c", "c"]}
    frame = pd.DataFrame({**names, "x": [0.0, 1.0, 2.0, 4.0]})
    sets = sw.Sets.from_frame(frame, by=["g", "h"], x=["x"])
    with sw.create_study(tmp_path / "s.db", sets) as study:
        study.tell_many({("a", "b / c"): 50.0, ("a / b", "c"): -20.0})
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    monkeypatch.setattr(predict_table, "ROWS", at_once)
    done("predict", tmp_path / "s.db", tmp_path / "rows.parquet", "-o", tmp_path / "a.parquet")
    found = np.array(read(tmp_path / "a.parquet")["mean"]).reshape(2, 2).sum(axis=1)
    np.testing.assert_allclose(found, [50.0, -20.0], rtol=1e-6)


@pytest.mark.parametrize("kind", ["file", "group", "rows"])
def test_a_large_table_that_is_damaged_is_refused_by_name_and_nothing_is_written(
    tmp_path, monkeypatch, kind
):
    frame = individuals(np.random.default_rng(0))[["g", "x"]]
    with sw.create_study(tmp_path / "s.db", sw.Sets.from_frame(frame, by="g", x=["x"])) as study:
        study.tell("s3", 4.0)
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pandas(frame), rows, row_group_size=20, compression="none")
    if kind == "rows":
        content = rows.read_bytes()
        rows.write_bytes(content[:20] + b"\xff" * 60 + content[80:])
    else:
        rows.write_bytes(with_other_rows(rows)[kind])
    monkeypatch.setattr(predict_table, "ROWS", 7)
    refused = run("predict", tmp_path / "s.db", rows, "-o", tmp_path / "a.csv")
    assert refused.exit_code == 1
    assert "/rows.parquet" in refused.output.replace("│", "").replace("\n", "").replace(" ", "")
    assert "a.csv" not in refused.output
    assert not (tmp_path / "a.csv").exists()
