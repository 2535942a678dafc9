"""Large studies, which are read in pieces, and sets in a file beside the database."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest

import sumwise as sw
from sumwise.data.sets import LazySets
from sumwise.study.storage import blobs
from sumwise.study.storage.blobs import LARGE
from tests.marks import slow

SMALLER = 2**17  # features of individuals that count as many here


def large_sets(sizes, least=SMALLER):
    rng = np.random.default_rng(3)
    blocks = [rng.normal(size=(n, 2)) for n in sizes]
    assert 129 * sum(sizes) >= least  # with 129 features each, more than a small study has
    ids = [f"meter {a}" if a % 3 else (a, "é") for a in range(len(blocks))]
    weights = [rng.uniform(-1, 2, n) for n in sizes]
    return sw.Sets.from_arrays(blocks, weights=weights, ids=ids)


@pytest.fixture(scope="module")
def sets():
    return large_sets([1, 2, 70, *np.random.default_rng(4).integers(1, 20, 120)])


@pytest.fixture(autouse=True)
def _many_are_fewer(monkeypatch):
    monkeypatch.setattr(blobs, "LARGE", SMALLER)


def pieces_of(path):
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT name, length(content) FROM sumwise_files"))


def change_piece(path, piece):
    """One bit of one byte."""
    with closing(sqlite3.connect(path)) as connection, connection:
        query = "SELECT content FROM sumwise_files WHERE name = ?"
        content = bytearray(connection.execute(query, [piece]).fetchone()[0])
        content[len(content) // 2] ^= 1
        update = "UPDATE sumwise_files SET content = ? WHERE name = ?"
        connection.execute(update, [bytes(content), piece])


def is_loaded(study):
    kept = study.state.record.sets
    return not isinstance(kept, LazySets) or "whole" in vars(kept)


def test_a_small_study_is_read_whole_and_a_large_one_in_pieces(tmp_path, sets):
    small, large = tmp_path / "small.db", tmp_path / "large.db"
    with sw.create_study(small, sets[:5]) as study:
        assert is_loaded(study)
    with sw.create_study(large, sets) as study:
        assert not is_loaded(study)
    assert pieces_of(small).keys() == {"sets", "basis", "about"}
    pieces = {"sets", "basis", "about", "index", "design", "moment", "sample"}
    assert pieces_of(large).keys() == pieces


def test_a_large_study_asks_and_tells_without_its_individuals(place, sets):
    with sw.create_study(place, sets) as made, sw.open_study(place) as study:
        question = study.ask(by="ann")
        study.tell(question.set_id, 3.5)
        study.tell_many(sets.ids[4:8], [1.0, 2.0, -1.0, 0.5])
        study.ask(n=2)
        study.release(study.claims[0].set_id)
        study.predict_sets()
        assert study.status().mean_variance > 0
        assert [answer.set_id for answer in made.answers] == [question.set_id, *sets.ids[4:8]]
        assert study.state.record.sets.n_inputs == sets.n_inputs
        assert "set" in repr(study)
        assert not is_loaded(study)
        assert len(study.predict()) == len(sets.x)
        assert is_loaded(study)
        np.testing.assert_array_equal(study.sets.x, sets.x)
        np.testing.assert_array_equal(study.sets.theta, sets.theta)
        assert study.sets.ids == sets.ids


def test_nor_does_it_read_them_to_learn_that_totals_are_plain_sums(place, sets):
    sums = sw.Sets.from_arrays([sets[name].x for name in sets.ids])
    sw.create_study(place, sums).close()
    with sw.open_study(place) as study:
        study.ask()
        assert study.state.record.about.weights == "sum"
        assert not is_loaded(study)


def test_a_checksum_is_stored_before_what_it_is_of(tmp_path, sets):
    """SQLite would read all of the content to reach a column behind it."""
    path = tmp_path / "study.db"
    sw.create_study(path, sets).close()
    with closing(sqlite3.connect(path)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(sumwise_files)")]
    assert columns.index("sha256") < columns.index("content") == len(columns) - 1


@pytest.mark.parametrize("strategy", ["AggMI", "IVR", "Var", "MI", "MaxN"])
def test_pieces_change_no_question_and_no_prediction(tmp_path, sets, strategy, monkeypatch):
    compare(tmp_path, sets, strategy, monkeypatch)


@pytest.mark.slow
def test_nor_do_pieces_of_a_hundred_thousand_individuals(tmp_path, monkeypatch):
    sizes = [1, 2, 700, *np.random.default_rng(4).integers(1, 200, 1000)]
    compare(tmp_path, large_sets(sizes, LARGE), "AggMI", monkeypatch)


def compare(tmp_path, sets, strategy, monkeypatch):
    """A study in pieces asks and predicts what it does in one."""
    asked, predicted, left = [], [], []
    for large in (True, False):
        monkeypatch.setattr(blobs, "LARGE", 1 if large else np.inf)
        path, model = tmp_path / f"{large}.db", sw.AggregateRegressor("fourier", random_state=0)
        with sw.create_study(path, sets, model=model, strategy=strategy) as study:
            assert ("design" in pieces_of(path)) == large
            mine = []
            for _ in range(3):
                question = study.ask()
                study.tell(question.set_id, float(sets[question.set_id].x.sum()))
                mine.append((question.set_id, question.score))
            asked.append(mine)
            predicted.append(study.predict().mean)
            left.append(study.status().mean_variance)
    assert asked[0] == asked[1]
    assert left[0] == pytest.approx(left[1], rel=1e-12)
    np.testing.assert_array_equal(*predicted)


@pytest.mark.parametrize("piece", ["index", "design", "moment", "sample", "basis"])
def test_a_changed_piece_is_refused_before_it_is_used(tmp_path, sets, piece):
    path = tmp_path / "study.db"
    sw.create_study(path, sets).close()
    change_piece(path, piece)
    with pytest.raises(sw.DataError, match=rf"{piece} of study 'study'.*checksum"):
        sw.open_study(path).ask()


def test_changed_individuals_are_refused_when_they_are_needed(tmp_path, sets):
    path = tmp_path / "study.db"
    sw.create_study(path, sets).close()
    change_piece(path, "sets")
    with sw.open_study(path) as study:
        study.ask()
        with pytest.raises(sw.DataError, match=r"sets of study 'study'.*checksum"):
            study.predict()


# --- a file beside the database -------------------------------------------------------------------


@pytest.mark.parametrize("many", [True, False])
def test_sets_may_lie_in_a_file_that_moves_along(tmp_path, sets, many):
    some = sets if many else sets[:50]
    home = tmp_path / "home"
    home.mkdir()
    with sw.create_study(home / "study.db", some, sets_file=home / "sets.parquet") as study:
        study.tell(some.ids[0], 1.0)
        before = study.predict().mean
    assert pieces_of(home / "study.db").keys() & {"sets", "sets_file"} == {"sets_file"}
    assert {file.name for file in home.iterdir()} == {"study.db", "sets.parquet"}
    moved = shutil.move(home, tmp_path / "elsewhere")
    with sw.open_study(os.path.join(moved, "study.db")) as study:
        np.testing.assert_array_equal(study.predict().mean, before)
        assert study.sets.ids == some.ids


def test_a_file_elsewhere_is_found_from_either_database(place, tmp_path, sets):
    file = tmp_path / "away" / "sets.parquet"
    file.parent.mkdir()
    with sw.create_study(place, sets[:9], sets_file=file) as study:
        study.ask()
    with sw.open_study(place) as study:
        assert study.sets.ids == sets.ids[:9]


@pytest.mark.parametrize("many", [True, False])
def test_a_changed_or_missing_file_is_refused(tmp_path, sets, many):
    path, file = tmp_path / "study.db", tmp_path / "sets.parquet"
    sw.create_study(path, sets if many else sets[:50], sets_file=file).close()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(sw.DataError, match=r"sets\.parquet holds the sets .* checksum differs"):
        sw.open_study(path).predict()
    file.write_bytes(content[:-7])
    with pytest.raises(sw.DataError, match=r"sets\.parquet holds the sets"):
        sw.open_study(path)
    file.unlink()
    with pytest.raises(sw.DataError, match=r"sets\.parquet"):
        sw.open_study(path)


def test_a_file_that_exists_is_not_overwritten_and_nothing_is_made(tmp_path, sets):
    file = tmp_path / "sets.parquet"
    file.write_text("mine")
    with pytest.raises(sw.SettingError, match="exists"):
        sw.create_study(tmp_path / "study.db", sets[:9], sets_file=file)
    assert file.read_text() == "mine"
    assert not (tmp_path / "study.db").exists()
    with pytest.raises(sw.StorageError, match="cannot be written"):
        sw.create_study(tmp_path / "study.db", sets[:9], sets_file=tmp_path / "no" / "s.parquet")


def test_a_study_that_is_refused_leaves_no_file(tmp_path, sets):
    sw.create_study(tmp_path / "study.db", sets[:9]).close()
    with pytest.raises(sw.SettingError, match="already"):
        sw.create_study(tmp_path / "study.db", sets[:9], sets_file=tmp_path / "sets.parquet")
    assert not (tmp_path / "sets.parquet").exists()


def test_sets_beyond_what_a_database_keeps_are_sent_to_a_file(tmp_path, sets, monkeypatch):
    monkeypatch.setattr(blobs, "LARGEST_BLOB", 1000)
    with pytest.raises(sw.SettingError, match="sets_file"):
        sw.create_study(tmp_path / "study.db", sets[:99])
    sw.create_study(tmp_path / "study.db", sets[:99], sets_file=tmp_path / "s.parquet").close()
    assert len(sw.open_study(tmp_path / "study.db").sets) == 99


# --- what is drawn without a seed -----------------------------------------------------------------


@pytest.mark.parametrize("dropout", [0.0, *slow(0.3)])
def test_a_model_without_a_seed_is_the_same_after_reopening(tmp_path, sets, dropout):
    network = sw.Neural(width=3, depth=2, n_basis=4, epochs=3, dropout=dropout)
    model = sw.AggregateRegressor(network, random_state=None)
    with sw.create_study(tmp_path / "study.db", sets[:9], model=model) as study:
        study.tell_many(sets.ids[:3], [1.0, 2.0, 4.0])
        before = study.predict().mean
    with sw.open_study(tmp_path / "study.db") as study:
        np.testing.assert_array_equal(study.predict().mean, before)


def test_an_import_may_keep_its_sets_in_a_file_too(place, tmp_path, sets):
    with sw.create_study(tmp_path / "one.db", sets[:9]) as study:
        study.export(tmp_path / "folder")
    file = tmp_path / "sets.parquet"
    with sw.import_study(tmp_path / "folder", place, sets_file=file) as study:
        assert study.sets.ids == sets.ids[:9]
    file.unlink()
    with pytest.raises(sw.DataError, match=r"sets\.parquet"):
        sw.open_study(place)
