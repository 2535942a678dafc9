"""A study to a folder of open formats and back: the same to the bit, whole or not there."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import sumwise as sw
from sumwise.study import export as layout
from sumwise.study import import_
from sumwise.study.storage import blobs
from sumwise.study.storage.database import Database
from sumwise.study.storage.schema import answers, claims, events, metadata, pools, skips, studies
from tests.builders import random_sets
from tests.folders import (
    FILES,
    MODELS,
    asked_next,
    contents,
    edit,
    export_until_killed,
    export_without_room,
    import_until_killed,
    lived,
    many_sets,
    tables_of,
)
from tests.marks import slow
from tests.workers import processes

# --- the same to the bit --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["evidence", *slow(*list(MODELS)[1:])])
def test_from_sqlite_to_postgresql_and_back_is_the_same_to_the_bit(kind, tmp_path, postgres_url):
    first = lived(tmp_path / "a.db", kind, n=5)
    name = first.name
    assert first.export(tmp_path / "one") == tmp_path / "one"
    second = sw.import_study(tmp_path / "one", postgres_url)
    second.export(tmp_path / "two")
    third = sw.import_study(str(tmp_path / "two"), tmp_path / "b.db")
    third.export(tmp_path / "three")
    assert contents(tmp_path / "one") == contents(tmp_path / "two") == contents(tmp_path / "three")
    kept = [
        tables_of(place, name) for place in (tmp_path / "a.db", postgres_url, tmp_path / "b.db")
    ]
    assert kept[0] == kept[1] == kept[2]
    assert (len(first.answers), len(first.claims), first.status().questions) == (4, 3, 9)
    assert len(first.skips) == 7
    for other in (second, third):
        assert other.answers == first.answers
        assert other.claims == first.claims
        assert other.skips == first.skips
        assert other.history() == first.history()
        assert other.status() == first.status()
        assert other.sets.ids == first.sets.ids
        for part in ("x", "theta", "starts"):
            assert_array_equal(getattr(other.sets, part), getattr(first.sets, part))
        for one, another in (
            (first.predict(), other.predict()),
            (first.predict_sets(), other.predict_sets()),
        ):
            assert_array_equal(another.mean, one.mean)
            assert_array_equal(another.std, one.std)
    expected = asked_next(first)
    assert asked_next(second) == expected
    assert asked_next(third) == expected
    for study in (first, second, third):
        study.close()


def test_a_study_under_another_name_and_beside_others(place, tmp_path):
    with lived(place) as first:
        out = first.export(tmp_path / "out")
        before = tables_of(place, first.name)
        with sw.import_study(out, place, name="copy") as copy:
            assert copy.name == "copy"
            assert copy.answers == first.answers
            copy.tell("set 20", 1.0)
        assert tables_of(place, first.name) == before
        with pytest.raises(sw.SettingError, match=r"there is a study called 'copy' already; open"):
            sw.import_study(out, place, name="copy")
        with pytest.raises(sw.SettingError, match="a study called \"Müll, 'x'\" already"):
            sw.import_study(out, place)
    with sw.open_study(place, "copy") as copy:
        assert copy.answers[-1].y_bar == 1.0


def test_a_study_that_has_just_begun(place, tmp_path):
    with sw.create_study(place, many_sets()) as study:
        out = study.export(tmp_path / "out")
        with sw.import_study(out, tmp_path / "b.db") as copy:
            assert copy.history() == study.history()
            assert asked_next(copy) == asked_next(study)


@pytest.mark.parametrize("beside", [False, True])
def test_large_studies_and_sets_beside_the_database(tmp_path, monkeypatch, beside):
    monkeypatch.setattr(blobs, "LARGE", 1)
    options = {"sets_file": tmp_path / "sets.parquet"} if beside else {}
    lived(tmp_path / "a.db", **options).close()
    with sw.open_study(tmp_path / "a.db") as study:
        study.export(tmp_path / "out")
        with sw.import_study(tmp_path / "out", tmp_path / "b.db") as copy:
            assert asked_next(copy) == asked_next(study)
            assert_array_equal(copy.sets.x, study.sets.x)
        there = {row["name"] for row in tables_of(tmp_path / "b.db", study.name)["sumwise_files"]}
    assert there == {"sets", "basis", "about", "index", "design", "moment", "sample"}


def test_expired_claims_expire_after_an_import(place, tmp_path, clock):
    with lived(place) as study:
        clock.ahead = datetime.timedelta(days=3)
        out = study.export(tmp_path / "out")
        with sw.import_study(out, tmp_path / "b.db") as copy:
            assert len(copy.claims) == 1  # it was renewed
            assert asked_next(copy) == asked_next(study)
            assert [e.what for e in copy.history()] == [e.what for e in study.history()]
            assert [e.what for e in copy.history()].count("expired") == 2


def test_history_stays_in_order_where_a_clock_was_put_back(place, tmp_path, clock):
    with sw.create_study(place, many_sets()) as study:
        for days, set_id in ((0, "set 20"), (-3, "set 21"), (-1, "set 22")):
            clock.ahead = datetime.timedelta(days=days)
            study.tell(set_id, 1.0)
        with sw.import_study(study.export(tmp_path / "out"), tmp_path / "b.db") as copy:
            assert copy.history() == study.history()
            assert copy.answers == study.answers


def test_every_table_and_column_is_exported():
    """Whoever adds one has to think of exports; what is known here is in the files or left out."""
    left_out = {"sumwise_version", "sumwise_chain"}
    assert set(metadata.tables) - left_out == {
        *("sumwise_studies", "sumwise_files", "sumwise_claims"),
        *("sumwise_skips", "sumwise_answers", "sumwise_events", "sumwise_pools"),
    }
    for table, name, renamed in (
        (answers, "answers", {"arrival": "number", "y_bar": "total"}),
        (claims, "claims", {}),
        (skips, "skips", {}),
        (events, "history", {"id": "number", "y_bar": "total"}),
    ):
        columns = {renamed.get(column.name, column.name) for column in table.c}
        if_needed = {layout.PART} & columns  # a column where an answer covers a part of its set
        assert columns - {"study_id"} - if_needed == set(layout.TABLES[name]) - {"set"}
    # a pool's position follows from the order of the file
    assert {column.name for column in pools.c} - {"study_id", "position"} == {*layout.OF_POOL}
    assert {column.name for column in studies.c} == {
        *("id", "name", "created", "config", "strategy", "seed", "claim_days"),
        *layout.COUNTERS,
    }


# --- files that others can read -------------------------------------------------------------------


def test_sets_are_a_plain_table_with_the_users_own_names(tmp_path):
    frame = pd.DataFrame({"town": ["b", "b", "a"], "age": [1.5, -0.0, 3.0], "größe": [1, 2, 3]})
    frame["w"] = [0.5, 2.0, -1.0]
    sets = sw.Sets.from_frame(frame, by="town", x=["age", "größe"], weights="w")
    with sw.create_study(tmp_path / "a.db", sets) as study:
        out = study.export(tmp_path / "out")
    table = pd.read_parquet(out / "sets.parquet")
    assert list(table) == ["set", "id", "id_json", "theta", "age", "größe"]
    assert table["id"].tolist() == ["b", "b", "a"]
    assert table["set"].tolist() == [0, 0, 1]
    assert table["theta"].tolist() == [0.5, 2.0, -1.0]
    assert np.signbit(table["age"]).tolist() == [False, True, False]
    with sw.import_study(out, tmp_path / "b.db") as copy:
        assert copy.sets.input_names == ("age", "größe")
        assert np.signbit(copy.sets.x[1, 0])
        copy.predict(frame[["age", "größe"]])


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (None, ["x0", "x1"]),
        (("b", "a"), ["b", "a"]),
        (("a.b", "x0"), ["a.b", "x0"]),
        (("age", 5), ["x0", "x1"]),
        (("id", "age"), ["x0", "x1"]),
        (("theta", "set"), ["x0", "x1"]),
        (("", "a"), ["x0", "x1"]),
        (("\ud800", "a\nb"), ["x0", "x1"]),
        ((("up", 1.5), "a"), ["x0", "x1"]),
    ],
)
def test_columns_of_inputs(names, columns, tmp_path):
    plain = many_sets()
    sets = sw.Sets(plain.ids, plain.x.copy(), plain.theta.copy(), plain.starts.copy(), names)
    with sw.create_study(tmp_path / "a.db", sets) as study:
        out = study.export(tmp_path / "out")
    assert pq.read_schema(out / "sets.parquet").names[4:] == columns
    with sw.import_study(out, tmp_path / "b.db") as copy:
        assert copy.sets.input_names == names
        assert_array_equal(copy.sets.x, sets.x)


def test_a_basis_is_a_plain_table_of_numbers(tmp_path):
    model, strategy = MODELS["dropout"]
    with sw.create_study(tmp_path / "a.db", many_sets(), model=model, strategy=strategy) as study:
        out = study.export(tmp_path / "out")  # drawn with the study, whatever is told later
        drawn = layout.arrays_of(study.state.record.prepared)
    back = layout.arrays_of(import_.read(out).prepared)
    assert {name: array.tobytes() for name, array in back.items()} == {
        name: array.tobytes() for name, array in drawn.items()
    }
    table = pq.read_table(out / "basis.parquet")
    assert table.column_names == ["name", "dtype", "shape", "values"]
    names = table["name"].to_pylist()
    assert names == ["shift", "scale", "numbers", *(f"state/leaf{i}" for i in range(6))]
    assert set(table["dtype"].to_pylist()[3:]) == {"float32"}
    assert table["shape"].to_pylist()[-1] == []  # a number alone
    assert table["values"].type == pa.list_(pa.float64())


def test_settings_are_plain_json(tmp_path):
    with lived(tmp_path / "a.db") as study:
        head = json.loads((study.export(tmp_path / "out") / "study.json").read_text("utf-8"))
        created = study.history()[0].at
    assert (head["format"], head["name"], head["created"]) == (1, "Müll, 'x'", created)
    assert (head["seed"], head["claim_days"], head["strategy"]) == (2**70 + 1, 2.5, "EMCM")
    assert (head["questions"], head["arrivals"], head["inputs"]) == (12, 9, None)
    assert head["model"]["n_basis"] == 16
    assert b"M\xc3\xbcll" in (tmp_path / "out" / "study.json").read_bytes()


def test_answers_are_plain_csv(tmp_path):
    with lived(tmp_path / "a.db") as study:
        out = study.export(tmp_path / "out")
        told = study.answers
    table = pd.read_csv(out / "answers.csv", keep_default_na=False)
    assert table["total"].tolist() == [answer.y_bar for answer in told]
    assert table["position"].tolist() == [answer.position for answer in told]
    assert table["number"].tolist() == [0, 2, 3, 4, 5, 6, 8]
    assert pd.read_csv(out / "claims.csv")["number"].tolist() == [8, 10, 11]


texts = st.text(st.sampled_from('\r\n",\\=a 😀\u202e'), max_size=8) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40
)
parts = st.sampled_from([None, "[1, 3]", "0.25"])
reals = st.floats(-1e150, 1e150).map(lambda value: value + 0.0)


@given(st.lists(st.tuples(texts | st.none(), texts, reals, parts), max_size=6))
def test_any_text_and_number_comes_back_from_a_csv_file(rows):
    sets, at = random_sets([1], np.random.default_rng(0)), "2025-01-02T03:04:05.000006+00:00"
    stored = [
        {
            "arrival": n,
            "position": 0,
            "by": by,
            "note": note,
            "at": at,
            "y_bar": y,
            "noise_std": 0.5,
            "part": part,
        }
        for n, (by, note, y, part) in enumerate(rows)
    ]
    back = import_._rows(layout._csv("answers", stored, sets.ids), "answers", sets.ids)
    assert back == stored
    assert [repr(row["y_bar"]) for row in back] == [repr(row["y_bar"]) for row in stored]


# --- what was changed since ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    with lived(folder / "a.db") as study:
        return study.export(folder / "out")


@pytest.fixture
def exported(export, tmp_path):
    """A copy that may be changed."""
    return Path(shutil.copytree(export, tmp_path / "out"))


@pytest.mark.parametrize("name", [name for name in FILES if name != "study.json"])
def test_files_that_were_changed_are_refused_by_their_checksum(exported, tmp_path, name):
    content = (exported / name).read_bytes()
    (exported / name).write_bytes(content.replace(b"1", b"2", 1))
    with pytest.raises(sw.DataError, match=rf"{name} is not what was exported: its checksum"):
        sw.import_study(exported, tmp_path / "b.db")
    assert not (tmp_path / "b.db").exists()


def test_answers_of_a_former_export_must_be_those_of_its_history(exported, tmp_path):
    known = json.loads((exported / "study.json").read_text())
    known["sha256"] = {name: known["sha256"][name] for name in ("sets.parquet", "basis.parquet")}
    (exported / "study.json").write_text(json.dumps(known))
    with sw.import_study(exported, tmp_path / "b.db") as copy:
        assert len(copy.answers) == 7
    edit(exported, "answers.csv", lambda rows: rows[2].__setitem__(3, "12.5"))
    with pytest.raises(sw.DataError, match=r"answers.csv does not have the answers that hist"):
        sw.import_study(exported, tmp_path / "c.db")
    edit(exported, "answers.csv", lambda rows: rows.__delitem__(slice(2, None)))
    with pytest.raises(sw.DataError, match=r"answers.csv does not have the answers that hist"):
        sw.import_study(exported, tmp_path / "c.db")


# --- folders --------------------------------------------------------------------------------------


def test_an_export_never_touches_what_is_there(study, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    (tmp_path / "file").touch()
    for place, words in (
        (tmp_path / "full", "is not empty; name a folder that is not there yet"),
        (tmp_path / "file", "is not a folder; name one that is not there yet"),
        (tmp_path / "no" / "such", "there is no folder .*no; make it first"),
        ("", "is not a folder; give a path"),
        (7, "is not a folder; give a path"),
        ("a\0", "is not a folder; give a path"),
    ):
        with pytest.raises(sw.SettingError, match=words):
            study.export(place)
    with pytest.raises(sw.StorageError, match=r"cannot be exported to .* name too long"):
        study.export(tmp_path / ("x" * 300))
    assert sorted(os.listdir(tmp_path)) == ["a.db", "a.db-shm", "a.db-wal", "file", "full"]
    assert os.listdir(tmp_path / "full") == ["mine"]
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    study.export(tmp_path / "link")
    contents(tmp_path / "empty")


def test_a_folder_is_as_readable_as_others(study, tmp_path):
    (tmp_path / "other").mkdir()
    out = study.export(tmp_path / "out")
    assert out.stat().st_mode == (tmp_path / "other").stat().st_mode


# --- whole or not there ---------------------------------------------------------------------------


def test_a_full_disk_leaves_nothing_behind(tmp_path):
    lived(tmp_path / "a.db").close()
    (tmp_path / "there").mkdir()
    said = processes.Queue()
    args = (str(tmp_path / "a.db"), str(tmp_path / "there" / "out"), said)
    worker = processes.Process(target=export_without_room, args=args)
    worker.start()
    assert "cannot be exported to" in said.get(timeout=120)
    worker.join()
    assert os.listdir(tmp_path / "there") == []


def killed_often(target, args, progress, times=10):
    """Start it, let it do some of its work, and kill it at any moment of what follows."""
    rng = np.random.default_rng(3)
    for _ in range(times):
        worker = processes.Process(target=target, args=args)
        before, deadline = progress(), time.monotonic() + 120
        worker.start()
        while progress() == before and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.15))
        worker.kill()
        worker.join()
        assert worker.exitcode == -9


@pytest.mark.slow
def test_ten_kills_leave_no_folder_that_is_not_whole(tmp_path):
    with lived(tmp_path / "a.db") as study:
        expected = contents(study.export(tmp_path / "expected"))
    place = tmp_path / "there"
    place.mkdir()

    def seen():
        return [name for name in os.listdir(place) if not name.startswith(".sumwise-")]

    killed_often(export_until_killed, (str(tmp_path / "a.db"), str(place)), lambda: len(seen()))
    assert len(seen()) >= 10
    assert len(os.listdir(place)) > len(seen())  # some were killed half-way
    for name in seen():
        assert contents(place / name) == expected


@pytest.mark.slow
def test_ten_kills_leave_no_study_that_is_not_whole(place, tmp_path):
    with lived(tmp_path / "a.db") as study:
        out = study.export(tmp_path / "out")
        name = study.name
    sw.import_study(out, place).close()
    expected = tables_of(place, name)
    expected["study"].pop("name")

    def names():
        database = Database(place)
        with database.read() as connection:
            found = connection.execute(sa.select(studies.c.name)).scalars().all()
        database.close()
        return found

    killed_often(import_until_killed, (str(out), place), lambda: len(names()))
    assert len(names()) >= 10
    for found in names():
        kept = tables_of(place, found)
        assert kept["study"].pop("name") == found
        assert kept == expected


def test_an_import_that_fails_half_way_leaves_nothing(exported, tmp_path):
    path = tmp_path / "b.db"
    with sw.import_study(exported, path, name="first") as study:
        before = study.history()
    with (
        closing(sqlite3.connect(path)) as connection,
        connection,
    ):  # which refuses a retraction's copy
        connection.execute(
            "CREATE UNIQUE INDEX stop ON sumwise_events (at, position) WHERE what = 'retracted'"
        )
    with pytest.raises(sw.StorageError, match="UNIQUE"):
        sw.import_study(exported, path, name="second")
    with sw.open_study(path) as study:  # there is one only
        assert study.history() == before
    with closing(sqlite3.connect(path)) as connection:
        for table in ("files", "answers", "claims", "events"):
            query = f"SELECT count(DISTINCT study_id) FROM sumwise_{table}"
            assert connection.execute(query).fetchone() == (1,)


def test_of_many_exports_to_one_folder_one_is_there(study, tmp_path):
    outcomes = []

    def export():
        try:
            outcomes.append(study.export(tmp_path / "out"))
        except (sw.StorageError, sw.SettingError) as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=export) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count(tmp_path / "out") == 1
    contents(tmp_path / "out")
    assert [name for name in os.listdir(tmp_path) if "part" in name] == []


@pytest.mark.slow
def test_an_export_is_one_moment_of_a_study_that_goes_on(place, tmp_path):
    sets = random_sets([1] * 400, np.random.default_rng(0))
    sw.create_study(place, sets, model=sw.AggregateRegressor("linear")).close()
    done = threading.Event()

    def tell():
        with sw.open_study(place) as study:
            for a in range(400):
                study.tell(a, float(a))
                if a % 3 == 0:
                    study.retract(a)
        done.set()

    thread = threading.Thread(target=tell)
    thread.start()
    counts = []
    with sw.open_study(place) as study:
        while not done.is_set() and len(counts) < 12:
            out = study.export(tmp_path / f"{len(counts)}")
            with sw.import_study(out, tmp_path / f"{len(counts)}.db") as copy:
                happened = [event.what for event in copy.history()]
                lines = (out / "history.csv").read_text().count("\n")
                assert len(happened) == lines - 1  # answers were as history said
                assert len(copy.answers) == happened.count("told") - happened.count("retracted")
                counts.append(len(copy.answers))
    thread.join()
    assert len(set(counts)) > 2
