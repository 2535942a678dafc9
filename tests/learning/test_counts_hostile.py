"""Counts, shares and amounts that are extreme, and what is said or predicted of them."""

from __future__ import annotations

import numpy as np
import pytest

import sumwise as sw
from sumwise.errors import InvalidSetError, LabelError, SumwiseError
from tests.learning.test_counts_learner import learned
from tests.study.test_counts_study import areas, sets_of

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize(
    ("outputs", "total"),
    [("counts", 1e16), ("counts", 1e150), ("amounts", 1e-300), ("amounts", 1e149)],
)
def test_totals_that_cannot_be_computed_with_are_refused(outputs, total):
    sets = sets_of(areas())
    learner = sw.ActiveLearner(sets, outputs=outputs)
    with pytest.raises(LabelError, match=r"is too extreme to use .*this set has"):
        learner.tell("c0", total)
    assert not learner.labels
    with pytest.raises(LabelError, match="is too extreme to use"):
        sw.AggregateRegressor(outputs=outputs).fit(sets, {"c0": total})


@pytest.mark.parametrize(
    ("outputs", "totals"), [("counts", (1e15, 0, 1)), ("amounts", (1e-90, 1e90, 1.0))]
)
def test_totals_far_apart_are_computed_with(outputs, totals):
    learner = sw.ActiveLearner(sets_of(areas()), outputs=outputs)
    for name, total in zip(("c0", "c1", "c2"), totals, strict=True):
        learner.tell(name, total)
    found = learner.predict()
    assert np.isfinite([found.mean, found.std, found.lower, found.upper]).all()
    assert np.isfinite(learner.ask().score)


@pytest.mark.parametrize("outputs", ["counts", "shares"])
def test_whole_but_for_rounding_is_whole(outputs):
    """Nothing but 0 has no successes, and 1e-300 successes have no logarithm to speak of."""
    found = []
    for totals in ((1e-300, 3 + 1e-10, 5 - 1e-10), (0, 3, 5)):
        learner = sw.ActiveLearner(sets_of(areas()), outputs=outputs)
        for name, total in zip(("c0", "c1", "c2"), totals, strict=True):
            learner.tell(name, total)
        found.append(learner.predict().mean)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("outputs", "exposure", "words"),
    [
        ("counts", 1e120, "from 1e-100 to 1e[+]100"),
        ("amounts", 1e-120, "from 1e-100 to 1e[+]100"),
        ("shares", 1e17, "at most 9007199254740992"),
        ("shares", np.nan, "a whole number above 0"),
    ],
)
def test_exposures_whose_squares_are_no_numbers_are_refused(outputs, exposure, words):
    learner, frame = learned(outputs)
    with pytest.raises(InvalidSetError, match=f"row 0 has .*{words}"):
        learner.predict(frame.drop(columns="people"), exposure=np.full(len(frame), exposure))
    if np.isfinite(exposure):
        with pytest.raises(InvalidSetError, match=words):
            sw.ActiveLearner(sets_of(frame.assign(people=exposure)), outputs=outputs)


@pytest.mark.parametrize("outputs", ["counts", "shares", "amounts"])
def test_a_member_with_another_exposure_is_another_individual(outputs):
    learner, frame = learned(outputs)
    own = learner.predict(frame)
    np.testing.assert_allclose(own.mean, learner.predict().mean)
    other = learner.predict(frame.assign(people=1)).to_pandas()
    name = "share" if outputs == "shares" else "rate"
    np.testing.assert_allclose(other["mean"], other[name])
    if outputs == "shares":
        assert (other["mean"] <= 1).all()
        assert (other["upper"] <= 1).all()
    backwards = frame.assign(age=0.5)  # exposures tell those with the same inputs apart
    learner = sw.ActiveLearner(sets_of(backwards), outputs=outputs)
    learner.tell("c0", 7)
    found = learner.predict(backwards[::-1].reset_index(drop=True)).mean[::-1]
    np.testing.assert_allclose(found, learner.predict().mean)


@pytest.mark.parametrize("outputs", ["numbers", "counts"])
def test_a_basis_whose_squares_are_no_numbers_is_refused(outputs):
    model = sw.AggregateRegressor(lambda x: 1e200 * x, outputs=outputs)
    with pytest.raises(SumwiseError, match="Rescale"):
        model.fit(sets_of(areas()), {"c0": 3, "c1": 5})
