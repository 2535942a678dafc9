"""A design on disk is asked, fitted, predicted from and studied as sets in memory are."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.acquisition import screening
from sumwise.data import parquet as scanning
from sumwise.data.targets import Inputs
from sumwise.model import design
from sumwise.model.basis.auto import (
    CLUSTERS,
    DRAWN,
    OF_HYPOTHESES,
    PANELS,
    prior_correlation,
)
from sumwise.model.serialize import from_bytes, to_bytes
from sumwise.outofcore import embed_part as embedding
from sumwise.outofcore import scanned_sets
from sumwise.outofcore.embed_part import embed_part
from tests import parquet
from tests.builders import former_auto, random_sets, totals
from tests.marks import slow


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(scanning, "BATCH_ROWS", 11)
    monkeypatch.setattr(scanning, "PART_ROWS", 40)
    monkeypatch.setattr(screening, "SCREENED_FROM", 10)


@pytest.fixture(scope="module")
def sets() -> sw.Sets:
    rng = np.random.default_rng(1)
    names = [f"meter {a}" for a in range(60)]
    return random_sets(rng.integers(1, 9, 60).tolist(), rng, ids=names)


@pytest.fixture(scope="module")
def answers(sets):
    y = 5 + np.sin(2 * sets.x[:, 0]) + sets.x[:, 1]
    return dict(zip(sets.ids, totals(sets, y).tolist(), strict=True))


@pytest.fixture
def pool(sets, tmp_path):
    return parquet.scan(parquet.write(parquet.table_of(sets), tmp_path / "data", cuts=[100]))


@pytest.fixture
def model():
    return sw.AggregateRegressor(n_basis=20, lengthscale=2.0)


def play(learner, answers, n):
    for _ in range(n):
        learner.tell(chosen := learner.ask().set_id, answers[chosen])
    return [(answer.set_id, answer.ask.score) for answer in learner.history]


def test_a_learner_asks_what_it_asks_of_sets_in_memory(sets, answers, pool, model, tmp_path):
    made = model.embed(pool, tmp_path / "design")
    on_disk = play(sw.ActiveLearner(made), answers, 25)  # beyond the number of features
    in_memory = play(sw.ActiveLearner(sets, model), answers, 25)
    assert [name for name, _ in on_disk] == [name for name, _ in in_memory]
    assert_allclose([s for _, s in on_disk], [s for _, s in in_memory], rtol=1e-8)


@pytest.mark.parametrize("rows", [1, 3, 9])
@pytest.mark.parametrize("compiled_from", [0, design.COMPILED_FROM])
def test_sums_are_right_however_few_rows_are_embedded_at_once(
    rows, compiled_from, sets, pool, model, tmp_path, monkeypatch
):
    basis = model.embed(pool, tmp_path / "whole").prepared.basis
    phi = sets.theta[:, None] * basis(sets.x)
    u = np.stack([phi[low:high].sum(axis=0) for low, high in pairwise(sets.starts)])
    monkeypatch.setattr(embedding, "AT_ONCE", rows * phi.shape[1])
    monkeypatch.setattr(design, "COMPILED_FROM", compiled_from)
    made = model.embed(pool, tmp_path / "design").own_pool
    assert_allclose(made.design.u, u, rtol=0, atol=1e-12)
    assert_allclose(made.design.theta_sum, np.add.reduceat(sets.theta, sets.starts[:-1]))
    assert_allclose(made.design.noise_scale, np.add.reduceat(sets.theta**2, sets.starts[:-1]))
    assert_allclose(made.square, (u**2).sum(axis=1), rtol=1e-12)


def test_what_was_drawn_is_read_to_the_bit_and_former_designs_get_hypotheses(pool, model, tmp_path):
    made = model.embed(pool, tmp_path / "design")
    drawn = made.prepared.basis.arrays()
    stored = sw.Embedded.open(made.folder).prepared.basis.arrays()
    assert stored.keys() == drawn.keys() > OF_HYPOTHESES
    assert all(stored[name].tobytes() == drawn[name].tobytes() for name in drawn)
    basis, manifest = (tmp_path / "design" / name for name in ("basis.npz", "manifest.json"))
    arrays, x = from_bytes(basis.read_bytes(), "the basis"), made.sets.x
    stored = {name: arrays[name] for name in arrays if not name.startswith("auto_")}
    former, features = former_auto(made.prepared.basis, x, n_waves=10)  # and without curves
    stored |= {name: former[name] for name in former.keys() - OF_HYPOTHESES}
    basis.write_bytes(to_bytes(stored))
    known = json.loads(manifest.read_text())
    known["pieces"]["basis.npz"] = sha256(basis.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(known))
    opened, again = (sw.Embedded.open(made.folder) for _ in range(2))
    assert opened.prepared.basis.same_as(again.prepared.basis)
    assert_allclose(opened.prepared.basis.basis.power, former["auto_power"], rtol=1e-9)
    assert_allclose(opened.prepared.basis(x), features, rtol=1e-12, atol=1e-13)
    learner = sw.ActiveLearner(opened)
    learner.tell(learner.ask().set_id, 3.0)
    assert np.isfinite(learner.ask().score)


def test_fit_score_select_and_predict_sets_take_a_design(sets, answers, pool, model, tmp_path):
    made = model.embed(pool, tmp_path / "design")
    seen = dict(list(answers.items())[:7])
    on_disk = sw.AggregateRegressor(n_basis=20, lengthscale=2.0).fit(made, seen)
    in_memory = model.fit(sets[list(seen)], list(seen.values()), pool=sets)
    assert_allclose(on_disk.predict(sets.x), in_memory.predict(sets.x), rtol=1e-8)
    assert_allclose(sw.score(made, on_disk), sw.score(sets, in_memory), rtol=1e-8)
    assert sw.select(made, on_disk, n=6, pending=sets.ids[:2]) == sw.select(
        sets, in_memory, n=6, pending=sets.ids[:2]
    )
    for ours, theirs in zip(
        on_disk.predict_sets(made, return_std=True),
        in_memory.predict_sets(sets, return_std=True),
        strict=True,
    ):
        assert_allclose(ours, theirs, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("single", [True, *slow(False)])
def test_predictions_of_all_individuals_are_streamed(sets, answers, pool, model, tmp_path, single):
    model.fit(sets[:9], [answers[name] for name in sets.ids[:9]], pool=sets)
    out = tmp_path / ("all.parquet" if single else "all")
    assert model.predict_parquet(pool, out, level=0.8) == len(sets.x)
    found = pq.read_table(out)
    assert found.column_names == ["set", "file", "row", "mean", "std", "lower", "upper"]
    rows = [(file.path, row + 1) for file in pool.files for row in range(sum(file.group_rows))]
    assert list(zip(*(found[name].to_pylist() for name in ("file", "row")), strict=True)) == rows
    expected = model.intervals(sets.x, 0.8, groups=np.repeat(sets.ids, sets.sizes).tolist())
    for name in ("mean", "std", "lower", "upper"):
        assert_allclose(found[name].to_numpy(), getattr(expected, name), rtol=1e-10, err_msg=name)
    totals = np.add.reduceat(sets.theta * found["mean"].to_numpy(), sets.starts[:-1])
    assert_allclose(totals[:9], [answers[name] for name in sets.ids[:9]], rtol=1e-9)
    assert found["set"].to_pylist() == [name for name, n in zip(sets.ids, sets.sizes, strict=True) for _ in range(n)]  # fmt: skip # noqa: E501
    with pytest.raises(sw.SettingError, match="exists; name a new"):
        model.predict_parquet(pool, out)
    assert not list(tmp_path.glob("**/*.part"))


def test_predictions_refuse_what_does_not_fit(sets, pool, model, tmp_path):
    model.fit(sets[:2], [1.0, 2.0], pool=sets)
    with pytest.raises(sw.InvalidSetError, match=r"pool is a int; .*Sets\.scan_parquet"):
        model.predict_parquet(3, tmp_path / "out")
    with pytest.raises(sw.InvalidSetError, match="2 inputs; the model knows 3"):
        model.predict_parquet(replace(pool, x=pool.x[:2]), tmp_path / "out")
    model.fit(replace(sets, input_names=("x1", "x0", "x2"))[:2], [1.0, 2.0])
    with pytest.raises(sw.InvalidSetError, match="in that order"):
        model.predict_parquet(pool, tmp_path / "out")


def test_predictions_keep_the_names_of_group_columns(sets, model, tmp_path):
    model.fit(sets[:2], [1.0, 2.0], pool=sets)
    table = parquet.table_of(sets).rename_columns(["row", "x0", "x1", "x2", "theta"])
    parquet.write(table, tmp_path / "n")
    model.predict_parquet(parquet.scan(tmp_path / "n", by="row"), tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.column_names[:4] == ["row", "sumwise_file", "sumwise_row", "sumwise_mean"]
    both = table.append_column("sumwise_std", table["row"])
    named = parquet.scan(parquet.write(both, tmp_path / "b"), by=["row", "sumwise_std"])
    with pytest.raises(sw.DataError, match="column 'sumwise_std' already"):
        model.predict_parquet(named, tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_a_batch_leaves_out_what_is_measured(sets, answers, pool, model, tmp_path):
    design = model.embed(pool, tmp_path / "design")
    told = {name: answers[name] for name in sw.select(sets, model.fit(design, {}), n=5)}
    fitted = model.fit(design, told)
    rest = sets[[name for name in sets if name not in told]]
    by = "AggMI"  # which looks at no individuals beside the sets
    assert sw.select(design, fitted, by, n=6, but=told) == sw.select(rest, fitted, by, n=6)
    with pytest.raises(sw.PoolExhaustedError, match="56 sets were asked for and 55 are free"):
        sw.select(design, fitted, n=56, but=told)
    with pytest.raises(sw.UnknownSetError):
        sw.select(design, fitted, but=["nobody"])


def test_a_scan_is_not_mistaken_for_sets(pool, model, tmp_path):
    fitted = sw.AggregateRegressor().fit(sw.Sets.from_arrays([[[1.0]]]), [1.0])
    for use in (
        sw.ActiveLearner,
        lambda scan: sw.create_study(tmp_path / "s.db", scan),
        lambda scan: model.fit(scan, [1.0]),
        lambda scan: sw.select(scan, fitted),
        fitted.predict_sets,
    ):
        with pytest.raises(sw.InvalidSetError, match="embed it first"):
            use(pool)
    with pytest.raises(sw.SettingError, match="give a number of bytes"):
        model.embed(pool, tmp_path / "design", memory="1GB")


def test_files_are_found_from_other_folders(sets, model, tmp_path, monkeypatch):
    parquet.write(parquet.table_of(sets), tmp_path / "here" / "files")
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    made = model.embed(parquet.scan("files"), "a.design")
    monkeypatch.chdir(tmp_path / "there")
    again = sw.Embedded.open(tmp_path / "here" / "a.design")
    assert again.ids == made.ids
    np.testing.assert_array_equal(again.sets.x, sets.x)
    for file in (tmp_path / "here" / "files").iterdir():
        file.unlink()
    gone = sw.Embedded.open(tmp_path / "here" / "a.design")
    with pytest.raises(sw.DataError, match="put it back"):
        gone.sets.x  # noqa: B018


def test_another_model_than_the_one_embedded_with_is_refused(sets, pool, model, tmp_path):
    made = model.embed(pool, tmp_path / "design")
    other = sw.AggregateRegressor(n_basis=20).fit(sets[:2], [1.0, 2.0])
    with pytest.raises(sw.SettingError, match="another basis"):
        sw.score(made, other)
    with pytest.raises(sw.SettingError, match="these sets are embedded with Agg"):
        sw.ActiveLearner(made, model=sw.AggregateRegressor())
    with pytest.raises(sw.SettingError, match="these sets are embedded with Agg"):
        sw.ActiveLearner(made, preset="paper")
    with pytest.raises(sw.SettingError, match="give an AggregateRegressor"):
        sw.ActiveLearner(made, model="linear")
    with pytest.raises(sw.SettingError, match="as a dict by id"):
        model.fit(made, [1.0, 2.0])
    line = sw.AggregateRegressor("linear").embed(pool, tmp_path / "line")
    assert len(sw.score(line, sw.AggregateRegressor("linear").fit(line, {}))) == len(sets)


# --- studies --------------------------------------------------------------------------------------


def told(study, answers, n):
    asked = []
    for _ in range(n):
        question = study.ask()
        asked.append((question.set_id, question.score, question.runner_up))
        study.tell(question.set_id, answers[question.set_id])
    return asked


def test_a_study_on_files_asks_what_one_in_memory_asks(sets, answers, pool, model, tmp_path):
    made = model.embed(pool, tmp_path / "design")
    with sw.create_study(tmp_path / "disk.db", made) as study:
        first = told(study, answers, 6)
        with pytest.raises(sw.SettingError, match="leave sets_file out"):
            sw.create_study(tmp_path / "b.db", made, sets_file=tmp_path / "s.parquet")
    with sw.open_study(tmp_path / "disk.db") as study:
        on_disk = first + told(study, answers, 6)
        status = study.status()
        assert study.predict_sets().mean.shape == (60,)
        assert len(study.predict()) == len(sets.x)
        assert len(study.ask(3)) == 3
    with sw.create_study(tmp_path / "memory.db", sets, model=model) as study:
        in_memory = told(study, answers, 12)
        expected = study.status()
    assert [(a, c) for a, _, c in on_disk] == [(a, c) for a, _, c in in_memory]
    assert_allclose([b for _, b, _ in on_disk], [b for _, b, _ in in_memory], rtol=1e-8)
    assert_allclose(status.information_left, expected.information_left, rtol=1e-6)
    assert_allclose(status.mean_variance, expected.mean_variance, rtol=1e-6)


def test_a_study_on_files_looks_back_and_ahead_without_its_individuals(
    answers, pool, model, tmp_path, monkeypatch
):
    made = model.embed(pool, tmp_path / "design")
    monkeypatch.setattr(scanned_sets, "LARGEST_READ", 0)
    with sw.create_study(tmp_path / "s.db", made) as study:
        told(study, answers, 4)
        seen = study.insight()
        assert len(seen.steps) == 4
        assert study.status().answers == 4
        assert len(study.propose(2)) == 2
        with pytest.raises(sw.SettingError, match="individuals into memory"):
            study.predict()


def test_a_study_moves_along_with_a_design_beside_it(sets, pool, model, tmp_path):
    (tmp_path / "here").mkdir()
    made = model.embed(pool, tmp_path / "here" / "design")
    sw.create_study(tmp_path / "here" / "s.db", made).close()
    (tmp_path / "here").rename(tmp_path / "there")
    with sw.open_study(tmp_path / "there" / "s.db") as study:
        assert study.ids == sets.ids


def test_a_study_whose_design_was_changed_is_refused(sets, pool, model, tmp_path):
    made = model.embed(pool, tmp_path / "design")
    sw.create_study(tmp_path / "s.db", made).close()
    other = sw.AggregateRegressor(n_basis=8).embed(pool, tmp_path / "other")
    (tmp_path / "design").rename(tmp_path / "kept")
    with pytest.raises(sw.DataError, match="holds no design"):
        sw.open_study(tmp_path / "s.db")
    (tmp_path / "other").rename(tmp_path / "design")
    assert other.folder.endswith("other")
    with pytest.raises(sw.DataError, match="another design than the one"):
        sw.open_study(tmp_path / "s.db")


def test_single_precision_asks_for_sets_that_are_as_good(sets, answers, pool, model, tmp_path):
    made = model.embed(pool, tmp_path / "single", dtype="float32")
    asked = play(sw.ActiveLearner(made), answers, 8)
    exact = play(sw.ActiveLearner(sets, model), answers, 8)
    assert_allclose([s for _, s in asked], [s for _, s in exact], rtol=1e-4)
    assert pa.array([name for name, _ in asked]).equals(pa.array([name for name, _ in exact]))


def test_noise_costs_and_targets_are_those_of_sets_in_memory(
    sets, answers, pool, model, tmp_path, monkeypatch
):
    made = model.embed(pool, tmp_path / "design")
    told = {name: answers[name] for name in sets.ids[:12]}
    known = {name: 0.1 * (a + 1) for a, name in enumerate(told)}
    here = sw.AggregateRegressor(**model.get_params())
    here.fit(sets[list(told)], list(told.values()), pool=sets, noise_std=known)
    there = sw.AggregateRegressor(**model.get_params()).fit(made, told, noise_std=known)
    monkeypatch.setattr(scanned_sets, "LARGEST_READ", 0)  # nobody may look at individuals
    some, cost = sets.x[:7], 1.0 + sets.sizes
    blur = np.linspace(0.0, 2.0, len(sets))
    for name in ("AggMI", "IVR", "EPIG"):
        wanted = {"targets": some, "noise_std": blur}
        scores = sw.score(made, there, name, **wanted)
        assert_allclose(scores, sw.score(sets, here, name, **wanted), rtol=1e-6)
        wanted |= {"cost": cost, "budget": 25.0}
        assert sw.select(made, there, name, **wanted) == sw.select(sets, here, name, **wanted)
    for name in ("IVR", "EPIG"):  # by individuals that stand for all
        assert_allclose(sw.score(made, there, name), sw.score(sets, here, name), rtol=1e-6)


def test_a_study_with_aims_asks_what_it_asks_of_sets_in_memory(
    sets, answers, pool, model, tmp_path
):
    made = model.embed(pool, tmp_path / "design")
    wanted = {"cost": 1.0 + sets.sizes, "noise_std": 0.3, "targets": sets.x[:7], "enough": 0.1}
    asked = []
    for where, given, own in (("disk", made, None), ("memory", sets, model)):
        with sw.create_study(
            tmp_path / f"{where}.db", given, model=own, strategy="IVR", **wanted
        ) as study:
            for name in sets.ids[:5]:
                study.tell(name, answers[name], noise_std=0.3)
        with sw.open_study(tmp_path / f"{where}.db") as study:
            batch = [question.set_id for question in study.ask(budget=20.0)]
            asked.append((batch, study.expected(sets.ids[0]), study.status().stop))
    assert asked[0][0] == asked[1][0]
    assert len(asked[0][0]) > 1
    assert_allclose(asked[0][1], asked[1][1], rtol=1e-6)
    assert asked[0][2] == asked[1][2]


@pytest.mark.parametrize("compiled_from", [1, 2**40])
def test_a_model_that_chooses_itself_is_the_same_on_disk(
    sets, answers, pool, tmp_path, monkeypatch, compiled_from
):
    monkeypatch.setattr(design, "COMPILED_FROM", compiled_from)
    model = sw.AggregateRegressor(n_basis=20)
    made = model.embed(pool, tmp_path / "design")
    monkeypatch.setattr(scanned_sets, "LARGEST_READ", 0)  # nobody may look at individuals
    asked = play(sw.ActiveLearner(made), answers, 5)
    expected = play(sw.ActiveLearner(sets, model), answers, 5)
    assert [name for name, _ in asked] == [name for name, _ in expected]
    assert_allclose([s for _, s in asked], [s for _, s in expected], rtol=1e-6)
    told = {name: answers[name] for name in sets.ids[:12]}
    there = sw.AggregateRegressor(n_basis=20).fit(made, told)
    here = sw.AggregateRegressor(n_basis=20).fit(sets[list(told)], list(told.values()), pool=sets)
    named = there.summary()  # by columns of the files, which these sets in memory have no names for
    for d in range(sets.n_inputs):
        named = named.replace(f"x{d} (", f"input {d + 1} (")
    assert named == here.summary()
    single = model.embed(pool, tmp_path / "single", dtype="float32")
    assert_allclose(single.own_pool.design.u, made.own_pool.design.u, rtol=1e-4, atol=1e-4)


KINDS = {
    "panel": ([6] * 30, 0.8, PANELS),
    "groups": ([3, 9, 6] * 10, 0.8, CLUSTERS),
    "pools": ([6] * 30, 0.0, DRAWN),
}


@pytest.mark.parametrize("order", ["shuffled", *slow("sorted")])
@pytest.mark.parametrize("kind", KINDS)
def test_hypotheses_are_those_that_are_drawn_for_sets_in_memory(kind, order, tmp_path):
    """Whatever the order of rows, the sets show of which kind they are, and ρ has its prior."""
    sizes, effect, correlation = KINDS[kind]
    rng = np.random.default_rng(1)
    names = [f"unit {a:02}" for a in range(len(sizes))]
    sets = random_sets(sizes, rng, ids=names)
    means = np.repeat(rng.normal(size=(len(sizes), 3)), sizes, axis=0)
    x = np.sqrt(effect) * means + np.sqrt(1 - effect) * sets.x
    sets = sw.Sets(sets.ids, x, sets.theta, sets.starts)
    rows = rng.permutation(len(x)) if order == "shuffled" else None
    table = parquet.table_of(sets, order=rows)
    scan = parquet.scan(parquet.write(table, tmp_path / "data", cuts=[100]))
    model = sw.AggregateRegressor(n_basis=20)
    on_disk = model.embed(scan, tmp_path / "design").prepared.basis.basis
    in_memory = model.fit(sets[:0], [], pool=sets).fitted().basis.basis
    assert prior_correlation(sets.sizes, Inputs.of(x, sets.starts)) == correlation
    assert (on_disk.correlation == in_memory.correlation).all()
    assert (on_disk.noise == in_memory.noise).all()
    assert_allclose(on_disk.variances, in_memory.variances, rtol=1e-9)


# --- designs of former versions, which lost the order of ids that do not ascend -------------------


def without_marker(path) -> None:
    """Make a manifest what a former version would have written."""
    known = json.loads(path.read_text())
    assert known.pop("ids_in_order") is True
    if known.pop("sha256", None):
        known["sha256"] = sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(known))


@pytest.mark.parametrize("name", ["u.npy", "sums.npy"])
def test_a_link_in_the_folder_does_not_lead_to_the_file_of_others(pool, model, tmp_path, name):
    theirs, folder = tmp_path / "theirs", tmp_path / "design"
    theirs.write_text("kept")
    folder.mkdir()
    (folder / name).symlink_to(theirs)
    made = model.embed(pool, folder)
    assert len(made) == len(sw.Embedded.open(folder))
    assert theirs.read_text() == "kept"


def test_a_former_design_without_a_subsample_opens(sets, pool, model, tmp_path):
    model.embed(pool, tmp_path / "design")
    path = tmp_path / "design" / "manifest.json"
    known = json.loads(path.read_text())
    del known["pieces"]["stand_ins.npy"]
    path.write_text(json.dumps(known))
    (tmp_path / "design" / "stand_ins.npy").unlink()
    opened = sw.Embedded.open(tmp_path / "design")
    assert opened.own_pool.targets is None
    assert opened.ids == sets.ids


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("ascending", [False, True])
def test_a_former_design_opens_only_if_its_ids_ascend(tmp_path, model, several, ascending):
    kinds = ["a", "a", "b", "b"] if ascending else ["b", "a", "b", "a"]
    names = ["p", "q", "r", "s"] if ascending else ["q", "p", "s", "r"]
    table = pa.table({"kind": kinds, "name": names, "x": [1.0, 2.0, 3.0, 4.0]})
    pq.write_table(table, tmp_path / "a.parquet")
    by = ["kind", "name"] if several else "name"
    scan = sw.Sets.scan_parquet(tmp_path / "a.parquet", by=by, x="x")
    ids = model.embed(scan, tmp_path / "design").ids
    assert sw.Embedded.open(tmp_path / "design").ids == ids  # the marker says that they are right
    without_marker(tmp_path / "design" / "manifest.json")
    if ascending:
        assert sw.Embedded.open(tmp_path / "design").ids == ids
        return
    for use in (sw.Embedded.open, lambda folder: model.embed(scan, folder)):
        with pytest.raises(sw.DataError, match=r"do not ascend.*wrong set.*into another folder"):
            use(tmp_path / "design")


def test_a_study_on_a_former_design_whose_ids_do_not_ascend_is_refused(sets, model, tmp_path):
    parquet.write(parquet.table_of(sets), tmp_path / "data")  # 'meter 10' comes before 'meter 2'
    made = model.embed(parquet.scan(tmp_path / "data"), tmp_path / "design")
    sw.create_study(tmp_path / "s.db", made).close()
    sw.open_study(tmp_path / "s.db").close()
    without_marker(tmp_path / "design" / "manifest.json")
    with pytest.raises(sw.DataError, match=r"do not ascend.*Embed the files again"):
        sw.open_study(tmp_path / "s.db").ask()


def test_a_former_design_that_was_not_finished_is_refused_as_well(pool, model, tmp_path):
    def stop(job, jobs):
        if job.func is embed_part:
            raise KeyboardInterrupt
        return map(job, jobs)

    with pytest.raises(KeyboardInterrupt):
        model.embed(pool, tmp_path / "design", run=stop)
    without_marker(tmp_path / "design" / "begun.json")
    with pytest.raises(sw.DataError, match=r"do not ascend.*Embed the files again"):
        model.embed(pool, tmp_path / "design")
