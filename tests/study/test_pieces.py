"""Studies with very many sets: a rounded design, and individuals in pieces of their own."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import sumwise as sw
from sumwise.acquisition import screening
from sumwise.data.sets import LazySets
from sumwise.model import rounded
from sumwise.model.rounded import RoundedDesign
from sumwise.study.storage import blobs, pieces
from tests.marks import slow
from tests.study.test_blobs import change_piece, is_loaded, pieces_of

N_SETS = 150


@pytest.fixture(autouse=True)
def _many_are_fewer(monkeypatch):
    monkeypatch.setattr(blobs, "LARGE", 1)
    monkeypatch.setattr(pieces, "ROUNDED_FROM", 1)
    monkeypatch.setattr(pieces, "PIECE", 2**10)
    monkeypatch.setattr(screening, "SCREENED_FROM", 1)
    monkeypatch.setattr(screening, "LOOK_FROM", 1)
    monkeypatch.setattr(screening, "SAMPLE_READ", 4)
    monkeypatch.setattr(rounded, "FEW", 1)  # rows of so few sets are read by themselves


def sets_of(kind="plain", n_sets=N_SETS, scale=1.0):
    rng = np.random.default_rng(5)
    largest = 2 if kind == "of one" else 9
    sizes = rng.integers(1, largest, n_sets)
    rows = [scale * rng.normal(size=(n, 2)) for n in sizes]
    weights = None if kind == "plain" else [rng.uniform(-1, 2, n) for n in sizes]
    return sw.Sets.from_arrays(rows, weights=weights, ids=[f"set {a}" for a in range(n_sets)])


def totals(sets):
    return np.add.reduceat(sets.theta * np.sin(sets.x[:, 0]), sets.starts[:-1])


def begun(place, sets, **options):
    study = sw.create_study(place, sets, **options)
    study.tell_many(sets.ids[:20], totals(sets)[:20])
    return study


AIMS = {
    "nothing": {},
    "noise": {"noise_std": np.linspace(0.1, 2.0, N_SETS)},
    "cost": {"cost": np.linspace(1.0, 3.0, N_SETS)},
    "targets": {"targets": np.linspace(-1, 1, 14).reshape(7, 2)},
}


@pytest.mark.parametrize("aim", AIMS)
@pytest.mark.parametrize("strategy", ["IVR", "AggMI", "AggEnt", "EPIG"])
@pytest.mark.parametrize("basis", ["fourier", *slow("auto")])
def test_a_question_is_the_best_of_all_scores_in_double_precision(tmp_path, basis, strategy, aim):
    if (strategy, aim) == ("AggEnt", "cost"):
        pytest.skip("its scores are no gains")
    compare(tmp_path, sets_of("weighted"), basis, strategy, AIMS[aim])


@pytest.mark.parametrize("strategy", ["IVR", "AggMI"])
@pytest.mark.parametrize("scale", [1e-9, 1e9])
@pytest.mark.parametrize("kind", ["of one", "weighted"])
@pytest.mark.parametrize("basis", ["polynomial", *slow("auto", "linear")])
def test_whatever_the_scales_of_inputs(tmp_path, kind, scale, basis, strategy):
    compare(tmp_path, sets_of(kind, scale=scale), basis, strategy, {})


def compare(tmp_path, sets, basis, strategy, aims):
    """With a study in the former layout, and with scores of all sets by the plain functions."""
    model, asked = sw.AggregateRegressor(basis, random_state=0), []
    with begun(tmp_path / "study.db", sets, model=model, strategy=strategy, **aims) as study:
        design = study.state.fitted(study.state.snapshot()).pool.design
        assert isinstance(design, RoundedDesign)
        for _ in range(3):
            (question,) = study.propose(1)
            scores = scores_of_all(sets, study, strategy, aims)
            ranked = scores / aims["cost"] if "cost" in aims else scores
            gone = [sets.position(each.set_id) for each in [*study.answers, *study.claims]]
            ranked[gone] = -np.inf
            at = sets.position(question.set_id)
            assert ranked[at] >= ranked.max() - 1e-9 * abs(ranked.max())
            assert question.score == pytest.approx(scores[at], rel=1e-9)
            asked.append(study.ask().set_id)
            study.tell(asked[-1], 0.5)
        assert is_loaded(study) == (strategy == "EPIG")  # which looks at all sets
        predicted = study.predict_sets()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "ROUNDED_FROM", np.inf)
        former = begun(tmp_path / "former.db", sets, model=model, strategy=strategy, **aims)
    assert "design" in pieces_of(tmp_path / "former.db")
    with former, sw.open_study(tmp_path / "former.db") as study:
        for set_id in asked:
            assert study.ask().set_id == set_id
            study.tell(set_id, 0.5)
        again = study.predict_sets()
    np.testing.assert_allclose(predicted.mean, again.mean, rtol=1e-6, atol=1e-9)
    rounding = 1e-9 * again.std.max()  # of sets that are measured
    np.testing.assert_allclose(predicted.std, again.std, rtol=1e-6, atol=rounding)


def scores_of_all(sets, study, strategy, aims):
    known = {name: value for name, value in aims.items() if name != "cost"}
    return sw.score(sets, study.model, strategy, **known)


def test_a_study_keeps_individuals_once_and_gives_them_back(place):
    sets = sets_of("weighted")
    with begun(place, sets) as study:
        study.ask(n=2)
        study.status()
        assert not is_loaded(study)
        np.testing.assert_array_equal(study.sets.x, sets.x)
        np.testing.assert_array_equal(study.sets.theta, sets.theta)
        assert study.sets.ids == sets.ids
    with sw.open_study(place) as study:
        assert len(study.predict()) == len(sets.x)


def test_blobs_are_those_of_rounded_designs(tmp_path):
    begun(tmp_path / "study.db", sets_of()).close()
    kept = pieces_of(tmp_path / "study.db")
    parts = {name for name in kept if name.startswith("individuals/")}
    assert len(parts) > 10
    others = {"basis", "index", "rounded", "sums", "moment", "sample", "about"}
    assert kept.keys() - parts == others
    with sw.open_study(tmp_path / "study.db") as study:
        assert kept["rounded"] == 2 * N_SETS * study.state.record.prepared.n_basis


@pytest.mark.parametrize("values", ["noise", "hundredths", "single", "one number", "odd"])
def test_individuals_are_packed_without_loss(values):
    sets = sets_of("weighted")
    x = {
        "noise": sets.x,
        "hundredths": sets.x.round(2),
        "single": sets.x.astype(np.float32).astype(float),
        "one number": np.full_like(sets.x, 0.1),
        "odd": np.where(sets.x > 0, 1e300, -5e-324),
    }[values]
    sets = sw.Sets(sets.ids, x, sets.theta, sets.starts)
    packed = pieces.pack_individuals(sets)
    each = pieces.sets_in_a_piece(sets)
    known = pieces.Pieces(sets.starts, 2, each, lambda names: {n: packed[n] for n in names})
    for got, expected in zip(known.all(), (sets.x, sets.theta), strict=True):
        np.testing.assert_array_equal(got, expected)
    some = np.array([149, 3, 70])
    x, theta, starts = known.of_sets(some)
    one = sets.take(some.tolist())
    np.testing.assert_array_equal(x, one.x)
    np.testing.assert_array_equal(theta, one.theta)
    np.testing.assert_array_equal(starts, one.starts)


@pytest.mark.parametrize("piece", ["rounded", "sums", "individuals/0"])
def test_a_changed_piece_is_refused_before_it_is_used(tmp_path, piece):
    path = tmp_path / "study.db"
    begun(path, sets_of()).close()
    change_piece(path, piece)
    with pytest.raises(sw.DataError, match=rf"{piece} of study 'study'.*checksum"):
        sw.open_study(path).ask()


def test_a_changed_individual_is_refused_where_it_is_needed(tmp_path):
    path, sets = tmp_path / "study.db", sets_of()
    begun(path, sets).close()
    last = max(int(name.split("/")[1]) for name in pieces_of(path) if "individuals" in name)
    change_piece(path, f"individuals/{last}")
    with sw.open_study(path) as study, pytest.raises(sw.DataError, match=rf"als/{last} .*checksum"):
        study.predict()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM sumwise_files WHERE name = ?", [f"individuals/{last}"])
    with sw.open_study(path) as study, pytest.raises(sw.DataError, match=rf"als/{last} .*missing"):
        study.predict()


def test_a_piece_that_is_no_piece_is_refused():
    with pytest.raises(sw.DataError, match="individuals of the study cannot be read"):
        pieces.Pieces(np.array([0, 2]), 1, 1, lambda names: {names[0]: b"\1no"}).all()
    with pytest.raises(sw.DataError, match="individuals of the study cannot be read"):
        pieces.Pieces(np.array([0, 2]), 1, 1, lambda names: {names[0]: b"\0no"}).all()


def test_a_pool_that_changes_leaves_no_former_piece(tmp_path):
    sets = sets_of(n_sets=120)
    frame = pd.DataFrame(sets.x, columns=["a", "b"])
    frame["set"] = np.repeat(sets.ids, sets.sizes)
    frame["row"] = [f"row {n}" for n in range(len(frame))]
    first = sw.Sets.from_frame(frame, by="set", x=["a", "b"], id="row")
    path = tmp_path / "study.db"
    with sw.create_study(path, first) as study:
        before = {name for name in pieces_of(path) if "individuals" in name}
        study.change_pool(drop=frame[~frame["set"].isin(sets.ids[:40])], id="row")
        after = {name for name in pieces_of(path) if "individuals" in name}
        assert len(after) < len(before)
        assert study.ask().set_id in sets.ids[:40]
        study.export(tmp_path / "exported")
    with sw.open_study(path) as study:
        assert isinstance(study.state.record.sets, LazySets)
        assert study.sets.row_ids is not None
        assert study.sets.row_ids.tolist() == frame["row"].tolist()[: len(study.sets.x)]
    with sw.import_study(tmp_path / "exported", tmp_path / "imported.db") as study:
        assert "rounded" in pieces_of(tmp_path / "imported.db")
        assert study.sets.row_ids.tolist()[0] == "row 0"


def test_only_large_designs_of_small_sets_in_the_database_are_rounded(tmp_path, monkeypatch):
    sets = sets_of()
    with begun(tmp_path / "beside.db", sets, sets_file=tmp_path / "sets.parquet"):
        assert "design" in pieces_of(tmp_path / "beside.db")
    monkeypatch.setattr(pieces, "SMALL", 2)
    with begun(tmp_path / "sets.db", sets):
        assert "design" in pieces_of(tmp_path / "sets.db")
