"""Counts, shares and amounts on disk are asked, fitted and predicted as in memory."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.cli import main
from sumwise.data import parquet as scanning
from sumwise.outofcore import kept_sets
from sumwise.util.text import plain
from tests import parquet
from tests.builders import random_sets
from tests.marks import each_with_one, slow

KINDS = ("counts", "shares", "amounts")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(scanning, "BATCH_ROWS", 11)
    monkeypatch.setattr(scanning, "PART_ROWS", 40)
    monkeypatch.setattr(kept_sets, "SPAN", 30)


def drawn(kind: str) -> tuple[sw.Sets, dict[str, float]]:
    """Sets with whole exposures, one of them larger than a part, and their totals."""
    rng = np.random.default_rng(5)
    sizes = [*rng.integers(1, 9, 40).tolist(), 90]
    plain = random_sets(sizes, rng, ids=[f"town {a}" for a in range(41)])
    e = rng.integers(1, 40, len(plain.x)).astype(float)
    sets = sw.Sets(plain.ids, plain.x, e, plain.starts, ("x0", "x1", "x2"))
    eta = 0.6 * sets.x[:, 0] - 0.4 * sets.x[:, 1] - 1
    if kind == "shares":
        y = rng.binomial(e.astype(int), 1 / (1 + np.exp(-eta)))
    else:
        y = rng.poisson(e * np.exp(eta)) + (kind == "amounts")
    totals = np.add.reduceat(y.astype(float), sets.starts[:-1])
    return sets, dict(zip(sets.ids, totals.tolist(), strict=True))


def files_of(sets: sw.Sets, folder, shuffled: bool) -> tuple[sw.Sets, object]:
    """The sets in files, and in memory in the order of these."""
    order = np.random.default_rng(2).permutation(len(sets.x)) if shuffled else None
    table = parquet.table_of(sets, order=order)
    in_memory = sw.Sets.from_frame(table, by="set", x=["x0", "x1", "x2"], weights="theta")
    return in_memory, parquet.scan(parquet.write(table, folder, cuts=[100]))


def play(learner, answers, n):
    for _ in range(n):
        learner.tell(chosen := learner.ask().set_id, answers[chosen])
    return [(answer.set_id, answer.ask.score, answer.ask.expected) for answer in learner.history]


@pytest.fixture
def model(request):
    return sw.AggregateRegressor(n_basis=20, lengthscale=2.0, outputs=request.param)


@pytest.mark.parametrize(
    ("model", "shuffled"), each_with_one(KINDS, [False, True]), indirect=["model"]
)
def test_a_learner_asks_and_predicts_what_it_does_in_memory(model, shuffled, tmp_path):
    sets, answers = drawn(model.outputs)
    sets, scan = files_of(sets, tmp_path / "data", shuffled)
    made = model.embed(scan, tmp_path / "design")
    on_disk, in_memory = sw.ActiveLearner(made), sw.ActiveLearner(sets, model)
    (disk, memory) = (play(learner, answers, 4) for learner in (on_disk, in_memory))
    assert [name for name, *_ in disk] == [name for name, *_ in memory]
    # inputs are standardised to rounding, which Newton's method does not forget to the last digit
    assert_allclose([row[1:] for row in disk], [row[1:] for row in memory], rtol=1e-8)
    ours, theirs = on_disk.predict_sets(), in_memory.predict_sets()
    for name in ("mean", "std", "lower", "upper"):
        assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-8, err_msg=name)
    for strategy in ("AggMI", "IVR", "MI"):
        scores = [sw.score(where, on_disk.model, strategy) for where in (made, sets)]
        assert_allclose(*scores, rtol=1e-9, err_msg=strategy)


@pytest.mark.parametrize("model", KINDS, indirect=True)
def test_predictions_are_streamed_with_the_exposures_in_the_files(model, tmp_path):
    sets, answers = drawn(model.outputs)
    sets, scan = files_of(sets, tmp_path / "data", shuffled=False)
    made = model.embed(scan, tmp_path / "design")
    fitted = model.fit(made, {name: answers[name] for name in sets.ids[3:9]})
    fitted.predict_parquet(scan, tmp_path / "out.parquet", level=0.8)
    found = pq.read_table(tmp_path / "out.parquet")
    groups = np.repeat(sets.ids, sets.sizes).tolist()
    expected = fitted.intervals(sets.x, 0.8, groups=groups, exposure=sets.theta)
    for name in ("mean", "std", "lower", "upper"):
        assert_allclose(found[name].to_numpy(), getattr(expected, name), rtol=1e-9, err_msg=name)
    assert found.column_names[-2:] == [
        "share" if model.outputs == "shares" else "rate",
        "extrapolates",
    ]
    for name in found.column_names[-2:]:
        assert_allclose(found[name].to_numpy(), expected.more[name], rtol=1e-9, err_msg=name)
    sums = np.add.reduceat(found["mean"].to_numpy(), sets.starts[:-1])
    assert_allclose(sums[3:9], [answers[name] for name in sets.ids[3:9]], rtol=1e-9)


@pytest.mark.parametrize("model", KINDS, indirect=True)
def test_fitted_models_are_pickled_for_other_processes(model):
    sets, answers = drawn(model.outputs)
    again = pickle.loads(pickle.dumps(model.fit(sets, answers)))  # noqa: S301
    assert_allclose(again.predict(sets.x), model.predict(sets.x), rtol=0)


@pytest.mark.parametrize("model", ["counts"], indirect=True)
def test_what_is_asked_and_fitted_reads_measured_sets_only(model, tmp_path, monkeypatch):
    sets, answers = drawn("counts")
    sets, scan = files_of(sets, tmp_path / "data", shuffled=True)
    made = model.embed(scan, tmp_path / "design")

    def refuse(*_):
        raise AssertionError("all individuals were read into memory")

    for path in (tmp_path / "data").iterdir():
        path.unlink()  # what is needed is in the design
    monkeypatch.setattr("sumwise.outofcore.design_store.read_whole", refuse)
    learner = sw.ActiveLearner(sw.Embedded.open(made.folder))
    play(learner, answers, 3)
    assert {name.name for name in (tmp_path / "design").iterdir()} == {
        "manifest.json", "ids.arrow", "sizes.npy", "basis.npz", "x.npy"
    }  # fmt: skip
    assert repr(made).startswith(f"Embedded: 41 sets, {len(sets.x)} individuals, in ")


@pytest.mark.parametrize("model", ["counts"], indirect=True)
def test_a_design_too_large_for_memory_is_in_a_file(model, tmp_path, monkeypatch):
    sets, answers = drawn("counts")
    sets, scan = files_of(sets, tmp_path / "data", shuffled=False)
    made = model.embed(scan, tmp_path / "design")
    expected = play(sw.ActiveLearner(made), answers, 3)
    monkeypatch.setattr(kept_sets, "IN_MEMORY", 0)
    assert play(sw.ActiveLearner(made), answers, 3) == expected

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept_sets.os, "posix_fallocate", full)
    with pytest.raises(sw.DataError, match=r"no room in .*design for the .*No space left"):
        sw.ActiveLearner(made)


@pytest.mark.parametrize("model", ["counts"], indirect=True)
def test_a_changed_byte_is_found_and_a_stopped_run_goes_on(model, tmp_path, monkeypatch):
    sets, _ = drawn("counts")
    _, scan = files_of(sets, tmp_path / "data", shuffled=False)
    done = []

    def stopped(job, jobs):
        for one in jobs[:3]:
            yield job(one)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.embed(scan, tmp_path / "design", run=lambda job, jobs: (
            stopped(job, jobs) if "keep_part" in repr(job) else map(job, jobs)
        ))  # fmt: skip

    def counted(job, jobs):
        done.extend(jobs)
        return map(job, jobs)

    made = model.embed(scan, tmp_path / "design", run=counted)
    assert len(done) == len(scan.parts()) - 3
    assert_allclose(made.sets.x, sets.x)
    with open(tmp_path / "design" / "x.npy", "r+b") as file:
        file.seek(200)
        file.write(b"\x01")
    with pytest.raises(sw.DataError, match=r"x\.npy has changed since"):
        sw.Embedded.open(made.folder)


@pytest.mark.parametrize(("kind", "bad", "must"), [
    ("counts", -1.0, "above 0"), ("shares", 2.5, "a whole number above 0"),
])  # fmt: skip
def test_what_cannot_be_an_exposure_is_refused_by_set(kind, bad, must, tmp_path):
    table = pa.table({"set": ["a", "b", "b"], "x0": [1.0, 2.0, 3.0], "theta": [1.0, 2.0, bad]})
    scan = parquet.scan(parquet.write(table, tmp_path / "data"), n_inputs=1)
    model = sw.AggregateRegressor(outputs=kind)
    with pytest.raises(
        sw.InvalidSetError, match=rf"of set 'b' has the .* {bad:g}; it must be {must}"
    ):
        model.embed(scan, tmp_path / "design")
    model.fit(sw.Sets.from_arrays([[[1.0]], [[2.0]]]), [1.0, 1.0])
    model._recipe = None
    with pytest.raises(sw.InvalidSetError, match="row 3 has the"):
        model.predict_parquet(scan, tmp_path / "out.parquet")


def test_means_single_precision_and_other_outputs_are_refused(tmp_path):
    sets, answers = drawn("counts")
    _, scan = files_of(sets, tmp_path / "data", shuffled=False)
    model = sw.AggregateRegressor("linear", outputs="counts")
    with pytest.raises(sw.SettingError, match="in double precision: leave dtype out"):
        model.embed(scan, tmp_path / "design", dtype="float32")
    means = parquet.scan(tmp_path / "data", weights="mean")
    with pytest.raises(sw.SettingError, match="column of exposures"):
        model.embed(means, tmp_path / "design")
    made = model.embed(scan, tmp_path / "design")
    numbers = sw.AggregateRegressor("linear").fit(sets, answers)
    with pytest.raises(sw.SettingError, match="is embedded for outputs='counts'"):
        sw.score(made, numbers)
    with pytest.raises(sw.SettingError, match="says nothing of exposures"):
        model.fit(made, {"town 1": 3.0}).predict_parquet(means, tmp_path / "out.parquet")


@pytest.mark.parametrize("model", ["counts", *slow("shares")], indirect=True)
def test_a_study_on_disk_asks_and_predicts_what_a_learner_does(model, tmp_path):
    sets, answers = drawn(model.outputs)
    sets, scan = files_of(sets, tmp_path / "data", shuffled=True)
    made = model.embed(scan, tmp_path / "design")
    learner = sw.ActiveLearner(sets, model)
    expected = [name for name, *_ in play(learner, answers, 5)]
    place = tmp_path / "study.db"
    with sw.create_study(place, made) as study:
        for _ in range(2):
            study.tell(chosen := study.ask().set_id, answers[chosen])
    with sw.open_study(place) as study:  # which reads the design again
        for _ in range(3):
            study.tell(chosen := study.ask().set_id, answers[chosen])
        assert [answer.set_id for answer in study.answers] == expected
        assert_allclose(study.predict_sets().upper, learner.predict_sets().upper, rtol=1e-8)
    out = tmp_path / "out.parquet"
    done = CliRunner().invoke(main, ["predict", str(place), "-o", str(out)])
    assert done.exit_code == 0, done.output
    found, table = pq.read_table(out), pa.concat_tables([pq.read_table(f.path) for f in scan.files])
    x = np.column_stack([table[f"x{d}"].to_numpy() for d in range(3)])
    groups, e = table["set"].to_pylist(), table["theta"].to_numpy()
    theirs = learner.model.intervals(x, groups=groups, exposure=e)
    for name in ("mean", "std", "lower", "upper"):
        assert_allclose(found[name].to_numpy(), getattr(theirs, name), rtol=1e-8, err_msg=name)
    done = CliRunner().invoke(main, ["predict", str(place)], env={"COLUMNS": "200"})
    first = learner.model.intervals(x[:1], exposure=e[:1])  # as if it were of no measured set
    assert f" {plain(first.mean[0])} " in done.stdout.splitlines()[2]
    with sw.open_study(place) as study:  # a table with their columns has groups and exposures
        assert_allclose(study.predict(table).mean, theirs.mean, rtol=1e-8)


def test_texts_and_gaps_are_encoded_and_unknown_texts_predicted_with_their_exposures(tmp_path):
    sets, answers = drawn("counts")
    table = parquet.table_of(sets)
    words = np.array(["flat", "house", "farm"])[np.arange(len(table)) % 3]
    gaps = [None if n % 17 == 5 else v for n, v in enumerate(table["x1"].to_pylist())]
    table = table.set_column(2, "x1", [gaps]).append_column("kind", [words])
    names = ["x0", "x1", "kind"]
    where = parquet.write(table, tmp_path / "data", cuts=[100])
    scan = sw.Sets.scan_parquet(where, by="set", x=names, weights="theta")
    in_memory = sw.Sets.from_frame(table, by="set", x=names, weights="theta")
    model = sw.AggregateRegressor(n_basis=20, outputs="counts")
    made = model.embed(scan, tmp_path / "design")
    assert_allclose(made.sets.x, in_memory.x, rtol=1e-12)
    on_disk, memory = sw.ActiveLearner(made), sw.ActiveLearner(in_memory, model)
    (ours, theirs) = (play(learner, answers, 4) for learner in (on_disk, memory))
    assert [name for name, *_ in ours] == [name for name, *_ in theirs]
    new = pa.table(
        {"set": ["town 90"] * 2, "x0": [0.1, 0.4], "x1": [0.3, 0.2], "kind": ["barn", "farm"],
         "theta": [30.0, 7.0]}
    )  # fmt: skip
    other = parquet.write(new, tmp_path / "new")
    scan = sw.Sets.scan_parquet(other, by="set", x=names, weights="theta")
    on_disk.model.predict_parquet(scan, tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    expected = memory.model.intervals(new, exposure=new["theta"].to_numpy())
    for name in ("mean", "std", "lower", "upper"):
        assert_allclose(found[name].to_numpy(), getattr(expected, name), rtol=1e-8, err_msg=name)


def test_designs_of_numbers_are_written_as_before(tmp_path):
    _, scan = files_of(drawn("counts")[0], tmp_path / "data", shuffled=False)
    sw.AggregateRegressor("linear").embed(scan, tmp_path / "design")
    known = json.loads((tmp_path / "design" / "manifest.json").read_text())
    assert "width" not in known
    assert {name.name for name in (tmp_path / "design").iterdir()} >= {"u.npy", "sums.npy"}
