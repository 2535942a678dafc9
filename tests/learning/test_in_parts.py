"""Work on all sets in parts, wherever they lie, is what it is in memory."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.data import parquet as scanning
from sumwise.model.spread import each_part
from sumwise.outofcore import spread
from sumwise.util.threads import n_cores
from tests import parquet
from tests.builders import random_sets
from tests.clusters import backwards
from tests.marks import each_with_one, slow

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

SIZES = (3, 1, 40, 2, 9, 5, 1, 1, 16, 4, 4, 8, 1, 2, 30, 6, 7, 2, 3, 11)
STRATEGIES = (
    "IVR",
    "EPIG",
    "AggMI",
    "AggEnt",
    "QBC",
    "EMCM",
    "MaxN",
    "MinN",
    "Rand",
    "MI",
    "Ent",
    "Var",
)
KINDS = ("", "all")
GAINS = ("IVR", "EPIG", "AggMI", "QBC", "EMCM")
MODELS = {
    "auto": lambda: sw.AggregateRegressor(n_basis=8),
    "fourier": lambda: sw.AggregateRegressor("fourier", n_basis=10, hyperparameters=(0.5, 500.0)),
}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(scanning, "PART_ROWS", 30)
    monkeypatch.setattr(spread, "PART_SETS", 6)


@pytest.fixture(params=["backwards", *slow("processes", "cluster")])
def run(request):
    """Where parts are worked on."""
    if request.param == "processes":
        return request.getfixturevalue("in_processes")
    if request.param == "cluster":
        from sumwise import distributed

        return distributed.on(request.getfixturevalue("client"))
    return backwards


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Gives sets with negative weights in memory, their design on disk, and the model."""

    @cache
    def designs(basis="fourier", weights="theta", shuffled=False):
        rng, model = np.random.default_rng(3), MODELS[basis]()
        sets = random_sets(SIZES, rng, ids=[f"m{a}" for a in range(len(SIZES))])
        order = rng.permutation(len(sets.x)) if shuffled else None
        table, folder = parquet.table_of(sets, order=order), tmp_path_factory.mktemp("made")
        files = parquet.write(table, folder / "files", cuts=[50])
        scan = parquet.scan(files, weights=weights)
        columns = table.select(["set", "x0", "x1", "x2", "theta"])
        held = sw.Sets.from_frame(columns, by="set", x=scan.x, weights=weights)
        return held, model.embed(scan, folder / "design"), model

    return designs


def aims_of(kind, sets):
    rng = np.random.default_rng(11)
    wishes = {
        "targets": {"targets": rng.normal(size=(7, 3)), "target_weights": rng.uniform(size=7)},
        "noise": {"noise_std": dict(zip(sets.ids, rng.uniform(0, 20, len(sets)), strict=True))},
        "cost": {"cost": dict(zip(sets.ids, rng.uniform(0.5, 2, len(sets)), strict=True))},
    }
    wishes["all"] = {name: value for each in wishes.values() for name, value in each.items()}
    return wishes.get(kind, {})


def lived(learner):
    """What a learner says at several moments: questions, some of them open, and the status."""
    said, y = [], np.random.default_rng(2).normal(5, 3, 50)
    asked = learner.ask(n=5)
    said.append(asked)
    for number, ask in enumerate(asked[:4]):
        learner.tell(ask.set_id, y[number], noise_std=0.5 * (number == 1))
    learner.skip(asked[4].set_id)
    said.append([learner.ask()])  # which stays open
    said.append(learner.propose(n=3))
    said.append(learner.ask(n=5))
    return said, learner.status(), learner.predict_sets()


def same(found, expected, status=True):
    """Questions, status and totals, numbers to nine digits.

    In memory the status also counts what totals say of their own members.
    """
    for asked, wanted in zip(found[0], expected[0], strict=True):
        assert [each.set_id for each in asked] == [each.set_id for each in wanted]
        for each, other in zip(asked, wanted, strict=True):
            assert each.runner_up == other.runner_up
            assert each.number == other.number
            for name in ("score", "runner_up_score", "expected", "std", "information", "cost"):
                near(getattr(each, name), getattr(other, name))
    for field in dataclasses.fields(found[1]) if status else ():
        value, other = getattr(found[1], field.name), getattr(expected[1], field.name)
        if isinstance(value, float):
            near(value, other)
        elif field.name not in ("individual_std_all", "suspects"):
            assert value == other, field.name
    assert found[2].ids == expected[2].ids
    for name in ("mean", "std", "lower", "upper"):
        near(getattr(found[2], name), getattr(expected[2], name))


def near(value, other):
    if other is None:
        assert value is None
    else:
        assert_allclose(value, other, rtol=1e-9, atol=1e-9)


def everywhere(known, strategy, run, **aims):
    """The same said in memory, on disk, and in parts."""
    held, design, model = known
    whole = lived(sw.ActiveLearner(design, model, strategy, seed=4, **aims))
    parts = lived(sw.ActiveLearner(design, model, strategy, seed=4, run=run, **aims))
    same(parts, whole)
    same(parts, lived(sw.ActiveLearner(held, model, strategy, seed=4, **aims)), status=False)


@pytest.mark.parametrize(("strategy", "kind"), each_with_one(STRATEGIES, KINDS))
@pytest.mark.parametrize("basis", ["fourier", *slow("auto")])
def test_a_learner_asks_the_same_in_memory_on_disk_and_in_parts(made, run, strategy, kind, basis):
    known = made(basis)
    aims = aims_of(kind, known[0])
    if strategy not in GAINS:
        aims.pop("cost", None)
    everywhere(known, strategy, run, **aims)


@pytest.mark.parametrize(
    "files", [("mean", True), *slow(("mean", False), ("theta", True), ("sum", True))]
)
def test_files_in_any_order_and_means_ask_the_same(made, run, files):
    known = made("auto", *files)
    everywhere(known, "IVR", run, **aims_of("all", known[0]))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_scores_are_the_same_in_parts(made, run, strategy):
    held, design, model = made()
    fitted = model.fit(design, dict(zip(held.ids[:5], [3.0, 1.0, 4.0, 1.5, 9.0], strict=True)))
    aims = {name: value for name, value in aims_of("all", held).items() if name != "cost"}
    scores = sw.score(design, fitted, strategy, seed=2, run=run, **aims)
    assert_allclose(scores, sw.score(design, fitted, strategy, seed=2, **aims), rtol=1e-9)
    assert_allclose(scores, sw.score(held, fitted, strategy, seed=2, **aims), rtol=1e-9)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all cores may be used")
def test_a_part_takes_one_thread_and_a_process_the_cores_it_may_use(made):
    _, design, _ = made()
    pool = spread.over(design, backwards).own_pool
    assert set(each_part(pool, _n_cores)) == {1}
    allowed = os.sched_getaffinity(0)
    assert each_part(design.own_pool, _n_cores) == [len(allowed)]
    try:
        os.sched_setaffinity(0, list(allowed)[:1])
        assert n_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)


def _n_cores(first, pool):
    del first, pool
    return n_cores()


def test_a_function_of_ones_own_sees_all_sets(made, run):
    def far_from_the_others(pool, posterior, rng):
        del posterior, rng
        return abs(pool.sets.sizes - pool.sets.sizes.mean())

    _, design, model = made()
    assert sw.select(design, model.fit(design, {}), far_from_the_others, run=run) == ["m2"]


@pytest.mark.parametrize("kind", ["targets", *slow("all")])
def test_an_insight_looks_at_all_sets_in_parts(made, run, kind):
    held, design, model = made()
    found = []
    for where in (None, run):
        learner = sw.ActiveLearner(design, model, run=where, **aims_of(kind, held))
        learner.tell_many(held.ids[:6], [3.0, 1.0, 4.0, 1.5, 9.0, 2.0])
        found.append(learner.insight())
    assert (found[0].halving.questions is None) == (kind == "all")  # noise leaves much
    assert found[1].halving == found[0].halving
    near(found[1].status.individual_std_all, found[0].status.individual_std_all)


def test_of_sets_that_tie_but_for_rounding_the_first_is_asked_for(tmp_path):
    sets = sw.Sets.from_arrays([[[0.5]], [[2.0]], [[2.0]]], [[0.1], [1.0], [1 + 1e-11]])
    files = parquet.write(parquet.table_of(sets), tmp_path / "files")
    model = sw.AggregateRegressor("linear", hyperparameters=(1.0, 1.0))
    design = model.embed(parquet.scan(files, n_inputs=1), tmp_path / "design")
    assert sw.select(design, model.fit(design, {}), "AggEnt", run=backwards) == [1]


def test_a_set_of_ones_own_choice_has_its_score_and_what_would_have_come(made, tmp_path):
    design, asked = made()[1], []
    for name, run in (("here", None), ("in parts", backwards)):
        sw.create_study(tmp_path / name, design, strategy="AggMI").close()
        with sw.open_study(tmp_path / name, run=run) as study:
            asked.append(study.claim("m3"))  # which is far from the best
    assert asked[1].set_id == asked[0].set_id == "m3"
    assert asked[1].runner_up == asked[0].runner_up
    near(asked[1].score, asked[0].score)
    near(asked[1].runner_up_score, asked[0].runner_up_score)


# --- many sets ------------------------------------------------------------------------------------

ANSWERED = range(0, 7500, 1500)  # fewer than features


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Nine thousand sets, so that each of two parts is screened."""
    rng, folder = np.random.default_rng(8), tmp_path_factory.mktemp("many")
    columns = {
        "set": np.repeat(np.arange(9000), 2),
        **{f"x{d}": rng.normal(size=18000) for d in range(3)},
    }
    files = parquet.write(pa.table(columns), folder / "files", row_group_size=6000)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scanning, "PART_ROWS", 10_000)
        model = sw.AggregateRegressor("fourier", n_basis=12)
        design = model.embed(parquet.scan(files, weights="sum"), folder / "design")
    return design, model.fit(design, dict(zip(ANSWERED, rng.normal(size=5), strict=True)))


@pytest.mark.parametrize(
    "wish",
    [
        *(("AggMI", "noise"), ("IVR", "all")),
        *slow(("AggMI", ""), ("AggEnt", "noise"), ("AggMI", "cost"), ("EPIG", "targets")),
    ],
)
def test_joint_batches_of_many_sets_are_the_same_in_parts(many, run, monkeypatch, wish):
    monkeypatch.setattr(spread, "PART_SETS", 4500)
    (design, model), (strategy, kind) = many, wish
    told = {"but": ANSWERED, "pending": [7, 4501, 8999], "n": 9}
    aims = aims_of(kind, design.sets)
    whole = sw.select(design, model, strategy, **told, **aims)
    assert sw.select(design, model, strategy, run=run, **told, **aims) == whole
    assert len({at < 4500 for at in whole}) == 2  # from both parts


def test_a_batch_that_lies_in_one_part_alone_is_found(many, monkeypatch):
    """More of it than a part gives back at first, whatever the others give."""
    monkeypatch.setattr(spread, "PART_SETS", 1500)
    design, model = many
    given = {"but": range(0, 9000 - 600), "n": 150}
    whole = sw.select(design, model, "AggMI", **given)
    assert sw.select(design, model, "AggMI", run=backwards, **given) == whole


# --- what cannot be -------------------------------------------------------------------------------


def test_what_is_not_worked_on_in_parts_is_refused_in_words(made, tmp_path):
    held, design, model = made()
    for call in (
        lambda: sw.ActiveLearner(held, model, run=backwards),
        lambda: sw.score(held, model.fit(held, {}), run=backwards),
        lambda: sw.select(held, model.fit(held, {}), run=backwards),
    ):
        with pytest.raises(sw.SettingError, match="run= is for a design on disk"):
            call()
    table = pa.table({"set": [1, 1, 2], "x": [0.0, 1.0, 2.0]})
    scan = sw.Sets.scan_parquet(parquet.write(table, tmp_path / "files"), by="set", x=["x"])
    counts = sw.AggregateRegressor(outputs="counts").embed(scan, tmp_path / "counts")
    with pytest.raises(sw.SettingError, match="the design of counts changes after every answer"):
        sw.ActiveLearner(counts, outputs="counts", run=backwards)
    former = replace(design, own_pool=replace(design.own_pool, targets=None))
    with pytest.raises(sw.SettingError, match="was made by a former version"):
        sw.ActiveLearner(former, model, run=backwards)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda place: shutil.rmtree(place), "holds no design"),
        (lambda place: (place / "u.npy").unlink(), "u.npy"),
        (lambda place: (place / "manifest.json").write_text("{}"), "has the format None"),
    ],
)
def test_a_design_that_workers_do_not_have_is_refused_in_words(made, tmp_path, harm, said):
    _, design, model = made()
    place = shutil.copytree(design.folder, tmp_path / "design")
    spread.opened.cache_clear()
    learner = sw.ActiveLearner(sw.Embedded.open(place), model, "AggMI", run=backwards)
    harm(place)
    with pytest.raises(sw.DataError, match="a worker cannot use the design") as refused:
        learner.ask()
    assert str(place) in str(refused.value)
    assert said in str(refused.value)
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(design.folder, place)
    assert learner.ask().number == 0  # nothing was asked before


def test_another_design_in_its_place_is_refused(made, tmp_path):
    _, design, model = made()
    place = shutil.copytree(design.folder, tmp_path / "design")
    learner = sw.ActiveLearner(sw.Embedded.open(place), model, "AggMI", run=backwards)
    shutil.rmtree(place)
    shutil.copytree(made("auto")[1].folder, place)
    with pytest.raises(sw.DataError, match=r"manifest.json is that of another design"):
        learner.ask()
