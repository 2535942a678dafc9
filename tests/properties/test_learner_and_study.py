"""A learner and a study with the same history ask the same questions and say the same of them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sumwise as sw
from tests.builders import random_sets

N_SETS = 9
RNG = np.random.default_rng(4)
SETS = random_sets(
    RNG.integers(1, 6, N_SETS).tolist(), RNG, ids=[f"set {a}" for a in range(N_SETS)]
)
TOTALS = dict(zip(SETS.ids, RNG.normal(3, 2, N_SETS).tolist(), strict=True))
PLACE = st.integers(0, N_SETS - 1)
STEPS = st.one_of(
    st.tuples(st.just("ask"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["tell", "amend", "retract", "skip", "unskip"]), PLACE),
    st.tuples(st.just("answer"), st.just(0)),  # the first open question
)
WAYS = [
    ({"model": sw.AggregateRegressor("fourier", n_basis=12)}, "AggMI"),
    ({"model": sw.AggregateRegressor(n_basis=12)}, "IVR"),
    (
        {"model": sw.AggregateRegressor("fourier", n_basis=8), "cost": [1.0 + a for a in range(9)]},
        "AggMI",
    ),
    ({"model": sw.AggregateRegressor("linear"), "noise_std": 0.5}, "Rand"),
]


def plain(questions):
    """Without what only a study knows: who is to answer, and until when."""
    return [dataclasses.replace(question, by=None, expires="") for question in questions]


def both(learner, study, rule, values, of_study=None):
    """Call a method of both; they refuse the same things in the same words. Gives whether it was
    done."""
    said = []
    for held, given_values in ((learner, values), (study, of_study or values)):
        try:
            getattr(held, rule)(*given_values)
        except sw.SumwiseError as error:
            said.append((type(error), str(error).split(" at 20")[0][:60]))
    assert len(said) in (0, 2)
    assert len(set(said)) < 2
    return not said


@pytest.mark.parametrize(("options", "strategy"), WAYS)
@settings(max_examples=min(8, settings.default.max_examples // 3), deadline=None)
@given(steps=st.lists(STEPS, max_size=14))
def test_the_same_history_gives_the_same_questions(tmp_path_factory, options, strategy, steps):
    path = tmp_path_factory.mktemp("studies") / "a.db"
    learner = sw.ActiveLearner(SETS, strategy=strategy, seed=3, **options)
    open_ = []
    with sw.create_study(path, SETS, strategy=strategy, seed=3, **options) as study:
        for step, value in [*steps, ("ask", 2)]:
            if step == "ask":
                missing = value - len(open_)
                if missing > 0 and both(learner, study, "ask", (value,), (missing,)):
                    open_ = [learner.ask()] if value == 1 else learner.ask(value)
                    assert plain(open_) == plain(asked(study))
                continue
            name = open_[0].set_id if step == "answer" and open_ else SETS.ids[value]
            total = TOTALS[name] + (7.5 if step == "amend" else 0.0)
            rule = "tell" if step == "answer" else step
            values = (total,) if rule in ("tell", "amend") else ()
            before = study.answers, study.skips
            did = both(learner, study, rule, (name, *values))
            if did and ((study.answers, study.skips) != before or rule == "skip"):
                for claim in study.claims:
                    study.release(claim.set_id)
                open_ = []
        told = [(a.number, a.set_id, a.y_bar, a.noise_std) for a in learner.answers]
        assert [(a.number, a.set_id, a.y_bar, a.noise_std) for a in study.answers] == told
        same_status(learner, study)
        np.testing.assert_array_equal(learner.predict().mean, study.predict().mean)
        np.testing.assert_array_equal(learner.predict_sets().upper, study.predict_sets().upper)


def asked(study):
    """The open questions of a study, as they were asked."""
    known = study.state.questions_of(study.claims)
    return [sw.Ask(**known[claim.position]) for claim in study.claims]


def same_status(learner, study):
    one, other = (dataclasses.asdict(held.status()) for held in (learner, study))
    for name in one.keys() - {"name"}:
        if isinstance(one[name], float):
            assert math.isclose(one[name], other[name], rel_tol=1e-9), name
        else:
            assert one[name] == other[name], name
