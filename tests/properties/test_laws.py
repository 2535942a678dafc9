"""Laws that hold for every number that is reported, whatever its formula."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.acquisition import screening
from sumwise.data import parquet as scanning
from sumwise.data.targets import MOST, thinned
from sumwise.learning import algorithm
from sumwise.outofcore import build, embed_part
from sumwise.web import create_app
from tests import parquet
from tests.builders import random_sets
from tests.marks import at_most
from tests.web.apps import client_of

C = 1000.0
RATIOS = {1.0, C, C**2}
SHAPES = ("/charts/", "/picture", "/events")  # drawings, and a stream without end


def numbers(found, at=""):
    """All numbers in a report by where they are."""
    if dataclasses.is_dataclass(found):
        found = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    if isinstance(found, dict):
        return {
            k: v for name, part in found.items() for k, v in numbers(part, f"{at}/{name}").items()
        }
    if isinstance(found, list | tuple):
        return {k: v for n, part in enumerate(found) for k, v in numbers(part, f"{at}/{n}").items()}
    return {at: found} if isinstance(found, float | int) and not isinstance(found, bool) else {}


def same_but_for_the_unit(one, other):
    """Every number is the same, or in units that are C times, or C² times, as small."""
    assert one.keys() == other.keys()
    wrong = {}
    for name, value in one.items():
        if value == 0 or not math.isfinite(value):
            continue
        if not any(math.isclose(other[name], ratio * value, rel_tol=1e-4) for ratio in RATIOS):
            wrong[name] = (value, other[name])
    assert wrong == {}
    assert len(one) > 20


def lived(place, scale, model, **aims):
    """A study with known noise of many sizes, planned noise and an answer to check."""
    rng = np.random.default_rng(3)
    sets = random_sets([3, 1, 4, 2, 5, 2, 1, 3, 2, 4, 2, 3], rng, n_inputs=2)
    y = np.add.reduceat(sets.theta * (sets.x @ [2.0, -1.0] + 1), sets.starts[:-1])
    known = {"noise_std": scale * np.linspace(0.2, 1.5, len(sets)), "enough": 0.01 * scale, **aims}
    study = sw.create_study(place, sets, model=model, name="s", **known)
    for n in range(8):
        study.tell(
            n, scale * (y[n] + rng.normal() + 50 * (n == 5)), noise_std=scale * 0.3 * (n % 3)
        )
    study.ask(by="ann")
    return study


@pytest.mark.parametrize("basis", ["linear", "auto"])
def test_outputs_in_another_unit_change_the_unit_of_every_number(basis, tmp_path):
    model = sw.AggregateRegressor(basis, n_basis=16)
    found = []
    for name, scale in (("a.db", 1.0), ("b.db", C)):
        with lived(tmp_path / name, scale, model) as study:
            seen = study.status(), study.insight(), study.propose(3)
            found.append(
                {k: v for part in seen for k, v in numbers(part, type(part).__name__).items()}
            )
    same_but_for_the_unit(*found)


@pytest.mark.parametrize("basis", ["linear", pytest.param("auto", marks=pytest.mark.slow)])
def test_outputs_in_another_unit_change_the_unit_of_every_number_of_the_page(basis, tmp_path):
    """Of every route that can be read, and of the answers that a correction is refused with."""
    model = sw.AggregateRegressor(basis, n_basis=16)
    found = []
    for name, scale in (("a.db", 1.0), ("b.db", C)):
        with lived(tmp_path / name, scale, model) as study:
            app = create_app(study)
            client, got = client_of(app), {}
            for route, verbs in app.openapi()["paths"].items():
                if "get" in verbs and "." not in route and not any(map(route.count, SHAPES)):
                    read = client.get(route.replace("{position}", "2"))
                    got |= (
                        numbers(read.json(), route)
                        if "json" in read.headers["content-type"]
                        else {}
                    )
            for at in range(8):
                said = client.patch(f"/api/answers/{at}", json={"total": scale * 1e6})
                assert (said.status_code, said.json()["code"]) == (409, "unlikely"), said.text
                got |= numbers(said.json(), f"amend/{at}")
            found.append(got)
    same_but_for_the_unit(*found)


def test_a_correction_is_judged_as_if_it_was_told_for_the_first_time(tmp_path):
    """Its expected noise is what was planned for the set, not what the former answer had."""
    model = sw.AggregateRegressor("linear", hyperparameters=(0.5, 2.0), standardize=False)
    with lived(tmp_path / "a.db", 1.0, model) as study:
        client = client_of(create_app(study))
        for told in study.answers:
            at = study.ids.index(told.set_id)
            judged = client.patch(f"/api/answers/{at}", json={"total": 1e6, "noise_std": 0.0})
            study.retract(told.set_id)
            first = {"position": at, "total": 1e6, "noise_std": 0.0}
            expected = client.post("/api/answers", json=first)
            assert numbers(judged.json()) == pytest.approx(numbers(expected.json()), rel=1e-6)
            study.tell(told.set_id, told.y_bar, noise_std=told.noise_std)


def test_a_target_that_counts_twice_is_two_targets(tmp_path):
    rng = np.random.default_rng(5)
    x, weight = rng.normal(size=(6, 2)), np.array([1, 3, 2, 1, 1, 4])
    found = []
    for number, aims in enumerate(
        ({"targets": x, "target_weights": weight}, {"targets": np.repeat(x, weight, axis=0)})
    ):
        for strategy in ("IVR", "EPIG"):
            place, model = tmp_path / f"{number}{strategy}.db", sw.AggregateRegressor("linear")
            with lived(place, 1.0, model, strategy=strategy, **aims) as study:
                found.append(numbers((study.status(), study.insight(), study.propose(3))))
    for weighed, repeated in ((0, 2), (1, 3)):
        assert found[weighed] == pytest.approx(found[repeated], rel=1e-6, abs=1e-9, nan_ok=True)


def test_many_targets_that_count_twice_are_thinned_like_two():
    rng = np.random.default_rng(0)
    x, weight = np.sort(rng.normal(size=(4 * MOST, 1)), axis=0), rng.integers(0, 4, 4 * MOST)
    weighed, repeated = thinned(x, 1.0 * weight), thinned(np.repeat(x, weight, axis=0))
    for power in (1, 2):
        means = [float(some.weight @ some.x[:, 0] ** power) for some in (weighed, repeated)]
        assert means[0] == pytest.approx(means[1], abs=0.02)


@pytest.mark.parametrize(
    ("name", "of_all"), [("IVR", np.mean), ("EPIG", np.sum), ("AggMI", np.sum)]
)
def test_several_outputs_are_separate_fits(name, of_all):
    rng = np.random.default_rng(1)
    sets = random_sets([2, 3, 1, 4, 2, 3, 2, 1], rng)
    totals = rng.normal(size=(5, 3)) * [1.0, 50.0, 0.01]
    model = sw.AggregateRegressor("linear", hyperparameters=(0.5, 2.0))
    together = sw.score(sets, model.fit(sets[:5], totals), name)
    each = [sw.score(sets, model.fit(sets[:5], column), name) for column in totals.T]
    assert_allclose(together, of_all(each, axis=0), rtol=1e-9)


@pytest.mark.parametrize("name", ["IVR", "EPIG"])
def test_several_outputs_count_in_their_own_units(name):
    """The same output in three units: hyperparameters of all are those of each."""
    rng = np.random.default_rng(1)
    sets = random_sets([2, 3, 1, 4, 2, 3, 2, 1, 5, 2], rng)
    y, units = sets[:8].x[sets[:8].starts[:-1], 0] + 0.3 * rng.normal(size=8), [1.0, 50.0, 0.01]
    model = sw.AggregateRegressor("linear", evidence_prior=False)
    one = sw.score(sets, model.fit(sets[:8], y), name)
    together = sw.score(sets, model.fit(sets[:8], np.outer(y, units)), name)
    each = np.square(units).mean() if name == "IVR" else len(units)
    assert_allclose(together, each * one, rtol=1e-3)


FIXED = sw.AggregateRegressor("linear", standardize=False, evidence_prior=False)
NETWORK = sw.AggregateRegressor(sw.Neural(width=8, depth=2, n_basis=6, epochs=60))


@pytest.mark.parametrize(
    ("model", "noise", "n"), [(FIXED, 0.0, 16), (FIXED, 0.1, 16), (NETWORK, 0.0, 6)]
)
def test_what_was_asked_before_does_not_change_the_next_question(model, noise, n, monkeypatch):
    """A learner keeps bounds from question to question; one that has none asks the same."""
    monkeypatch.setattr(screening, "SCREENED_FROM", 10)
    monkeypatch.setattr(screening, "SAMPLE", 4)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3)) * np.repeat([[1.0], [10.0]], 200, axis=0)
    sets, y = sw.Sets.from_arrays(x[:, None]), x @ [3.0, 1.0, -2.0] + 1
    planned = np.repeat([0.0, noise], 200) * rng.uniform(0.5, 1.5, 400) if noise else None
    keeps = sw.ActiveLearner(sets, model=model, strategy="AggMI", noise_std=planned)
    for asked in range(n):  # errors are small at first, and then large
        at = sets.position(keeps.ask().set_id)
        keeps.tell(sets.ids[at], float(y[at] + (30.0 if asked > 7 else 0.01) * rng.normal()))
        now = keeps._progress
        if now.ceiling is not None and not noise:  # with noise they are kept and not used
            posterior, design = now.model.posterior, now.pool.design
            least = posterior.variance_along(design.u) / posterior.noise(design)
            assert (least <= now.ceiling.under(posterior) * (1 + 1e-5)).all()
        bare = dataclasses.replace(now, ceiling=None)
        (expected,) = algorithm.ask(bare, "AggMI", keeps.seed, 1, runner_up=False).open
        again = keeps.ask()
        assert again.set_id == expected.set_id
        assert again.score == pytest.approx(expected.score, rel=1e-9)


# --- blocks ---------------------------------------------------------------------------------------


@given(st.integers(1, 90), st.integers(1, 90), st.sampled_from([7, 20, 90]))
@settings(max_examples=at_most(20))
def test_any_size_of_blocks_gives_the_same_design(batch, part, some):
    """Sets span batches and parts; a sample is every so-many-th individual of all."""
    rng = np.random.default_rng(6)
    sets = random_sets(rng.integers(1, 7, 25).tolist(), rng, ids=[f"s{a:02}" for a in range(25)])
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        patch.setattr(scanning, "BATCH_ROWS", batch)
        patch.setattr(scanning, "PART_ROWS", part)
        patch.setattr(embed_part, "MOMENT_SAMPLE", some)
        patch.setattr(build, "MOMENT_SAMPLE", some)
        pool = parquet.scan(parquet.write(parquet.table_of(sets), Path(name, "data"), cuts=[33]))
        model = sw.AggregateRegressor("linear", standardize=False)
        made = model.embed(pool, Path(name, "design"), run=map)
        u = made.pool(made.prepared).design.rows(np.arange(len(sets)))
        kept = [np.load(Path(name, "design", file)) for file in ("sums.npy", "moment.npy")]
    owner = np.repeat(np.arange(len(sets)), sets.sizes)
    phi = np.column_stack([sets.x, np.ones(len(sets.x))])
    total = np.zeros((len(sets), phi.shape[1]))
    np.add.at(total, owner, sets.theta[:, None] * phi)
    assert_allclose(u.u, total, rtol=1e-12, atol=1e-12)
    sums = [np.bincount(owner, values) for values in (sets.theta**2, sets.theta)]
    assert_allclose(kept[0], [*sums, (total**2).sum(axis=1)], rtol=1e-12, atol=1e-12)
    sample = phi[:: max(1, len(phi) // some)]
    assert_allclose(kept[1], sample.T @ sample / len(sample), rtol=1e-12, atol=1e-12)
