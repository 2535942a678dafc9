"""Answers that cover a part of their set: exact for named members, honest for a share."""

from __future__ import annotations

import numpy as np
import pytest

import sumwise as sw
from sumwise.learning.parts import sampling_noise
from tests.studies import GIVEN

SIZES = (3, 4, 2, 5, 4)


def outputs(sets, seed=3):
    rng = np.random.default_rng(seed)
    return 5 + 2 * sets.x[:, 0] - sets.x[:, 1] + 0.5 * rng.normal(size=len(sets.x))


def pool(weights="sum", **more):
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=(n, 2)) for n in SIZES]
    return sw.Sets.from_arrays(blocks, ids=[*"abcde"], weights=weights, **more)


@pytest.mark.parametrize("basis", ["auto", "linear"])
@pytest.mark.parametrize("weights", ["sum", "mean"])
def test_named_members_are_a_set_of_their_own_to_the_model(tmp_path, basis, weights):
    sets = pool(weights)
    y, s = outputs(sets), sets.starts
    some = np.array([0, 2, 3])
    model = sw.AggregateRegressor(**(GIVEN if basis == "linear" else {"random_state": 0}))
    totals = np.add.reduceat(sets.theta * y, s[:-1])
    part = float(y[s[3] + some].sum() if weights == "sum" else y[s[3] + some].mean())
    with sw.create_study(tmp_path / "a.db", sets, model=model) as study:
        study.tell_many([*"abc"], totals[:3])
        study.tell("d", part, of=(some + 1).tolist())
        found, of_sets = study.predict(), study.predict_sets()
        assert study.answers[-1].of == (1, 3, 4)
        assert np.isfinite([each.std for each in study.insight().compared]).all()
        restored = sw.import_study(study.export(tmp_path / "out"), tmp_path / "b.db")
        assert restored.answers == study.answers
        np.testing.assert_array_equal(restored.predict().mean, found.mean)
    # the same as a pool in which these members are a set and the others are no members of any
    kept = np.concatenate([np.arange(s[3]), s[3] + some])
    blocks = [sets.x[s[a] : s[a + 1]] for a in range(3)] + [sets.x[s[3] + some]]
    other = sw.Sets.from_arrays(blocks, ids=[*"abcd"], weights=weights)
    fresh = sw.AggregateRegressor(**model.get_params())
    fresh.fit(other, [*totals[:3], part], pool=sets)
    mean, std = fresh.predict(sets.x[kept], True, groups=[*"aaabbbbcc", *"ddd"])
    np.testing.assert_allclose(found.mean[kept], mean, rtol=1e-7)
    np.testing.assert_allclose(found.std[kept], std, rtol=1e-5, atol=1e-7)
    theta = np.full(3, 1.0 if weights == "sum" else 1 / 3)
    assert theta @ found.mean[s[3] + some] == pytest.approx(part)
    # and the whole set is expected to be what its members are
    whole = sets.theta[s[3] : s[4]] @ found.mean[s[3] : s[4]]
    assert of_sets.mean[3] == pytest.approx(whole)
    assert of_sets.std[3] > 0
    assert not np.isfinite(of_sets.beside["measured"].filled(np.nan)[3])


def test_a_share_is_scaled_up_with_the_noise_of_sampling(tmp_path):
    sets = pool()
    model = sw.AggregateRegressor(**GIVEN)
    with sw.create_study(tmp_path / "a.db", sets, model=model) as study:
        study.tell("a", 15.0)
        study.tell("d", 20.0, covers=0.8)
        (_, told) = study.answers
        assert (told.y_bar, told.covers) == (25.0, 0.8)
        before = told.noise_std
        study.tell("d", 20.0, covers=0.8)  # the same once more
        assert study.answers[1].noise_std == before
        with pytest.raises(sw.LabelError, match="is measured already"):
            study.tell("d", 25.0)
        with pytest.raises(sw.SettingError, match=r"scaled up from a share of 0\.8"):
            study.amend("d", 21.0)
        study.amend("d", 26.0, covers=1)
        assert (study.answers[1].y_bar, study.answers[1].noise_std) == (26.0, None)


def test_the_mean_of_a_share_is_not_scaled(tmp_path):
    with sw.create_study(tmp_path / "a.db", pool("mean")) as study:
        study.tell("d", 20.0, covers=0.8)
        assert study.answers[0].y_bar == 20.0
        assert study.answers[0].noise_std > 0


def test_the_noise_of_a_share_is_what_sampling_gives():
    """Draw outputs from the model and samples of members, and scale their totals up."""
    sets = pool()
    model = sw.AggregateRegressor(**GIVEN).fit(sets[[*"abc"]], [15.0, 21.0, 9.0], pool=sets)
    one, rng = sets[["d"]], np.random.default_rng(1)
    drawn = model.sample_y(one.x, 40_000, random_state=2)
    taken = np.argsort(rng.random(drawn.shape), axis=0) < 3
    off = np.where(taken, drawn, 0.0).sum(axis=0) / 0.6 - drawn.sum(axis=0)
    centre = off - off.mean()
    expected = sampling_noise(model.fitted_, one, 0.6)
    assert np.sqrt(np.mean(centre**2)) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("weights", ["sum", "mean", "own"])
def test_the_noise_of_a_share_of_weights_and_means_is_what_sampling_gives(weights):
    """Half of 60 members answer; their total is scaled up by their share of the weight."""
    rng, size = np.random.default_rng(4), 60
    theta = {"sum": np.ones(size), "mean": np.full(size, 1 / size)}.get(weights)
    theta = rng.uniform(0.5, 2.0, size) if theta is None else theta
    x = rng.normal(size=(size, 2))
    sets = sw.Sets.from_arrays([x, *np.split(x[:8], 2)], weights=[theta, *np.split(theta[:8], 2)])
    model = sw.AggregateRegressor(**GIVEN).fit(sets.take([1, 2]), [2.0, -1.0], pool=sets)
    drawn = model.sample_y(x, 20_000, random_state=2)
    taken = np.argsort(rng.random(drawn.shape), axis=0) < size // 2
    theirs = np.where(taken, theta[:, None], 0.0)
    up = theta.sum() / theirs.sum(axis=0)
    off = up * (theirs * drawn).sum(axis=0) - theta @ drawn
    expected = sampling_noise(model.fitted_, sets.take([0]), 0.5)
    assert np.sqrt(np.mean(off**2)) == pytest.approx(expected, rel=0.04)  # ratios: up to 1/size


def test_a_set_of_one_individual_has_no_part(tmp_path):
    sets = sw.Sets.from_arrays([[[1.0]], [[2.0], [3.0]]])
    with sw.create_study(tmp_path / "a.db", sets) as study:
        with pytest.raises(sw.SettingError, match="set 0 has one individual, so no part of it"):
            study.tell(0, 1.0, covers=0.5)
        study.tell(0, 1.0, covers=1)
        assert study.answers[0].covers is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"of": [9]},
            "'9', number 1 of those named, is not a member of set 'd'; give row numbers from 1 to",
        ),
        ({"of": []}, "no member of set 'd' is named"),
        ({"of": [1, 1]}, "'1' is named twice"),
        ({"covers": 0}, "covers is 0; give a share above 0"),
        ({"covers": 1.2}, "give a share above 0, up to 1"),
        ({"of": [1], "covers": 0.5}, "not both"),
    ],
)
def test_parts_that_cannot_be_are_refused(tmp_path, options, said):
    with sw.create_study(tmp_path / "a.db", pool()) as study:
        with pytest.raises(sw.SumwiseError, match=said):
            study.tell("d", 1.0, **options)
        assert study.answers == ()
