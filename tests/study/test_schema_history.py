"""Schemas and formats of files, which outlive the program that wrote them."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

import sumwise as sw
from sumwise.study.storage import blobs, database
from sumwise.study.storage.migrations import migrate
from sumwise.study.storage.schema import VERSION_TABLE, metadata
from tests.builders import random_sets


def described(engine):
    """Tables as SQLite has them: columns, keys and indexes, in an order that does not matter."""
    found, look = {}, sa.inspect(engine)
    for name in look.get_table_names():
        if name == VERSION_TABLE:
            continue
        found[name] = {
            "columns": sorted(
                (each["name"], str(each["type"]), each["nullable"], each["primary_key"] > 0)
                for each in look.get_columns(name)
            ),
            "key": sorted(look.get_pk_constraint(name)["constrained_columns"]),
            "foreign": sorted(
                (*each["constrained_columns"], each["referred_table"], *each["referred_columns"])
                for each in look.get_foreign_keys(name)
            ),
            "unique": sorted(
                tuple(each["column_names"]) for each in look.get_unique_constraints(name)
            ),
            "indexes": sorted(
                (each["name"], *each["column_names"], each["unique"])
                for each in look.get_indexes(name)
            ),
        }
    return found


def test_all_migrations_together_make_the_tables_that_a_new_database_has(tmp_path):
    """Each step from the first release on, beside `create_all`, which shares nothing with them."""
    old, new = (sa.create_engine(f"sqlite:///{tmp_path / name}") for name in ("old", "new"))
    with old.begin() as connection:
        migrate(connection)
    with new.begin() as connection:
        metadata.create_all(connection)
    assert described(old) == described(new)
    old.dispose()
    new.dispose()


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg", "POSTGRES"])
def test_a_server_is_reached_by_one_driver_however_it_is_written(scheme):
    path, url = database._parse(f"{scheme}://me@lab.example:5433/db")
    assert path is None
    assert (url.drivername, url.host, url.port) == ("postgresql+psycopg", "lab.example", 5433)
    assert (url.username, url.database) == ("me", "db")


@pytest.mark.parametrize("written", ["a.db", "sqlite:///a.db", "SQLITE:///a.db"])
def test_a_file_is_found_however_it_is_written(written, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert database._parse(written) == (str((tmp_path / "a.db").resolve()), None)


def test_individuals_are_stored_under_the_names_that_former_releases_read():
    frame = pd.DataFrame({"g": [1, 1, 2], "p": ["a", "b", "c"], "x": [0.5, 1.5, 2.5], "w": 2.0})
    sets = sw.Sets.from_frame(frame, by="g", x=["x"], id="p", weights="w")
    table = pq.read_table(io.BytesIO(blobs.pack_sets(sets)))
    assert table.column_names[:3] == ["set", "theta", "x0"]
    assert table["set"].to_pylist() == [0, 0, 1]
    assert table["theta"].to_pylist() == [2.0, 2.0, 2.0]
    assert table["x0"].to_pylist() == [0.5, 1.5, 2.5]
    known = {key.decode() for key in table.schema.metadata}
    said = json.loads(table.schema.metadata[b"sumwise"]) if "sumwise" in known else {}
    assert {"ids", "inputs"} <= (known | said.keys())


# --- words ----------------------------------------------------------------------------------------


ODD = object()
CALLS = {
    "ask": [("by", (), ODD), ("n", (), 0), ("budget", (), -1.0)],
    "claim": [("by", (1,), ODD)],
    "propose": [("n", (), 0), ("budget", (), -1.0)],
    "tell": [("by", (1, 2.0), ODD), ("note", (1, 2.0), ODD), ("noise_std", (1, 2.0), -1.0),
             ("covers", (1, 2.0), 2.0)],
    "amend": [("by", (0, 2.0), ODD), ("note", (0, 2.0), ODD), ("noise_std", (0, 2.0), -1.0)],
    "retract": [("by", (0,), ODD), ("note", (0,), ODD)],
    "skip": [("by", (1,), ODD), ("note", (1,), ODD)],
    "unskip": [("by", (1,), ODD)],
    "release": [("by", (1,), ODD)],
    "renew": [("days", (1,), 0), ("by", (1,), ODD)],
    "predict": [("level", (), 1.5)],
    "predict_sets": [("level", (), 0.0)],
    "insight": [("level", (), 1.5)],
    "add_map": [("by", ("nowhere.geojson",), ODD)],
}  # fmt: skip
CASES = [(method, *each) for method, calls in CALLS.items() for each in calls]


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    place = tmp_path_factory.mktemp("words") / "a.db"
    sets = random_sets([2, 2, 2, 2], np.random.default_rng(0), ids=[0, 1, 2, 3])
    with sw.create_study(place, sets, model=sw.AggregateRegressor("linear")) as study:
        study.tell(0, 5.0)
        yield study


@pytest.mark.parametrize(("method", "name", "others", "value"), CASES)
def test_a_refusal_names_the_argument_and_changes_nothing(lived, method, name, others, value):
    before = lived.history()
    with pytest.raises(sw.SumwiseError, match=rf"\b{name}\b"):
        getattr(lived, method)(*others, **{name: value})
    assert lived.history() == before


COLUMNS = {  # of an export, which other programs read
    "answers.csv": "number,set,position,total,noise_std,by,at,note",
    "claims.csv": "number,set,position,by,asked,expires",
    "skips.csv": "set,position,by,at,note",
    "history.csv": "number,at,what,set,position,total,noise_std,by,note,question",
}


def test_what_is_done_is_logged_with_its_name_and_note(tmp_path):
    frame = pd.DataFrame({"g": np.repeat([*"abcdef"], 2), "p": range(12), "x": np.arange(12.0) % 5})
    sets = sw.Sets.from_frame(frame, by="g", x=["x"], id="p")
    with sw.create_study(tmp_path / "a.db", sets, model=sw.AggregateRegressor("linear")) as study:
        steps = [
            ("asked", lambda **who: study.claim("a", by=who["by"])),
            ("released", lambda **who: study.release("a", by=who["by"])),
            ("told", lambda **who: study.tell("a", 2.0, **who)),
            ("amended", lambda **who: study.amend("a", 3.0, **who)),
            ("retracted", lambda **who: study.retract("a", **who)),
            ("skipped", lambda **who: study.skip("b", **who)),
            ("unskipped", lambda **who: study.unskip("b", by=who["by"])),
            ("pool", lambda **who: study.change_pool(drop=frame[frame.g == "f"], **who)),
        ]
        reader = sw.open_study(tmp_path / "a.db")  # which sees each change that others make
        for number, (what, step) in enumerate(steps):
            by, note = f"ann {number}", f"because of {number}"
            before, seen = study.history(), reader.state.snapshot().changes
            step(by=by, note=note)
            assert reader.state.snapshot().changes > seen, what
            assert [each.number for each in study.history()] == [*range(1, len(before) + 2)]
            last = study.history()[-1]
            assert last.by == by, what
            if what not in ("asked", "released", "unskipped"):
                assert note in last.note
        reader.close()
        study.tell("c", 4.0)
        study.skip("d")
        study.ask()
        study.export(tmp_path / "out")
    for name, columns in COLUMNS.items():
        header = (tmp_path / "out" / name).read_text().splitlines()[0]
        assert header == columns
