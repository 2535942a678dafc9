"""How well individuals and means of sets are known, against the joint Gaussian of all outputs.

The oracle reads the export of a study: it inverts the dense covariance of what was measured, and
knows no basis, posterior or design.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import sumwise as sw
from sumwise.util.text import figure
from tests.studies import GIVEN

LAM, BETA = 1.0, 4.0  # of GIVEN
SIZES = (3, 1, 4, 2, 5, 2, 1, 3, 2, 4)
FIELDS = (
    "individual_std", "individual_std_after", "individual_std_all", "guess_std", "set_std",
    "set_std_after",
)  # fmt: skip


def table(seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"g": np.repeat([f"s{a}" for a in range(len(SIZES))], SIZES)})
    for name in ("a", "b"):
        frame[name] = rng.normal(size=len(frame))
    return frame.assign(w=rng.uniform(0.5, 3.0, len(frame)))


def exported(study, folder):
    """Inputs, weights and owners of all individuals, and the answers, as they are in the files."""
    place = study.export(folder)
    assert json.loads((place / "study.json").read_text())
    return pd.read_csv(place / "answers.csv", dtype={"set": str})


def dense(frame, theta, answers, rest, every):
    """The figures of a status: now, after the sets in `rest`, and after those in `every`."""
    phi = np.column_stack([frame[["a", "b"]], np.ones(len(frame))])
    joint = phi @ phi.T / LAM + np.eye(len(frame)) / BETA
    names = frame["g"].unique().tolist()
    total = np.array([np.where(frame["g"] == name, theta, 0.0) for name in names])
    each = total / total.sum(axis=1, keepdims=True)
    first = [names.index(name) for name in answers["set"]]
    noise = answers["noise_std"].fillna(0.0).to_numpy() ** 2

    def given(also):
        at = [*first, *(names.index(name) for name in also)]
        rows, known = total[at], np.append(noise, np.zeros(len(also)))
        across = joint @ rows.T
        inverse = np.linalg.inv(rows @ across + np.diag(known) + 1e-12 * np.eye(len(at)))
        return joint - across @ inverse @ across.T, across @ inverse

    def individual(left):
        return np.sqrt(np.diag(left).mean())

    def of_sets(left):
        return np.sqrt(np.diag(each @ left @ each.T).mean())

    (now, pull), (after, _), (last, _) = given([]), given(rest), given(every)
    mean = pull @ answers["total"].to_numpy()
    return {
        "individual_std": individual(now),
        "individual_std_after": individual(after),
        "individual_std_all": individual(last),
        "guess_std": np.sqrt(individual(now) ** 2 + mean.var()),
        "set_std": of_sets(now),
        "set_std_after": of_sets(after),
    }


@pytest.mark.parametrize("weights", ["sum", "mean", "w"])
@pytest.mark.parametrize("noise", [None, 0.7])
def test_a_status_is_that_of_the_joint_gaussian(tmp_path, weights, noise):
    frame = table()
    sets = sw.Sets.from_frame(frame, by="g", x=["a", "b"], weights=weights)
    sizes = frame.groupby("g")["g"].transform("size").to_numpy()
    theta = {"sum": np.ones(len(frame)), "mean": 1 / sizes}.get(weights, frame["w"].to_numpy())
    model = sw.AggregateRegressor(**GIVEN)
    with sw.create_study(tmp_path / "a.db", sets, model=model) as study:
        study.tell("s2", 9.0, noise_std=noise)
        study.tell("s7", -4.0)
        study.claim("s0")
        status, coming = study.status(), study.propose(5)
        answers = exported(study, tmp_path / "out")
    rest = ["s0", *(ask.set_id for ask in coming)]
    every = sorted({*frame["g"]} - {*answers["set"]})
    expected = dense(frame, theta, answers, rest, every)
    for name in FIELDS:
        assert getattr(status, name) == pytest.approx(expected[name], rel=1e-6), name
    assert status.individual_std_after < status.individual_std
    # each question says what it does beyond those before it
    stds = [dense(frame, theta, answers, rest[:n], [])["individual_std_after"] for n in range(1, 7)]
    assert [ask.individual_std for ask in coming] == pytest.approx(stds[:-1], rel=1e-6)
    assert [ask.individual_std_after for ask in coming] == pytest.approx(stds[1:], rel=1e-6)
    assert f"from ±{figure(stds[0])} to ±{figure(stds[1])}" in coming[0].why


def learner_of(scale=1.0, n=8, seed=0, **options):
    rng = np.random.default_rng(seed)
    sets = sw.Sets.from_arrays([rng.normal(size=(int(n), 2)) for n in rng.integers(1, 7, 14)])
    y = 20 + 3 * sets.x[:, 0] + np.sin(2 * sets.x[:, 1]) + 0.5 * rng.normal(size=len(sets.x))
    totals = scale * np.add.reduceat(y, sets.starts[:-1])
    learner = sw.ActiveLearner(sets, seed=0, **options)
    for a in range(n):
        learner.tell(a, float(totals[a]))
    return learner


def test_a_mixture_is_as_certain_as_its_predictions():
    learner = learner_of()
    status, each, sets = learner.status(), learner.predict(), learner.predict_sets()
    assert status.individual_std == pytest.approx(np.sqrt((each.std**2).mean()), rel=1e-9)
    means = sets.std / learner.sets.sizes
    assert status.set_std == pytest.approx(np.sqrt((means**2).mean()), rel=1e-9)
    guess = np.sqrt((each.std**2).mean() + each.mean.var())
    assert status.guess_std == pytest.approx(guess, rel=1e-9)
    assert status.explained == pytest.approx(1 - (status.individual_std / guess) ** 2, rel=1e-9)


def test_outputs_in_another_unit_have_every_figure_in_that_unit():
    ours, theirs = learner_of(), learner_of(scale=1000.0)
    one, other = ours.status(), theirs.status()
    for name in FIELDS:
        assert getattr(other, name) == pytest.approx(1000 * getattr(one, name), rel=1e-6), name
    assert other.explained == pytest.approx(one.explained, rel=1e-6)
    for mine, asked in zip(ours.propose(3), theirs.propose(3), strict=True):
        assert asked.individual_std_after == pytest.approx(1000 * mine.individual_std_after)


def test_where_all_is_measured_means_are_known_and_nothing_is_bought():
    learner = learner_of(n=14, cost=2.0, model=sw.AggregateRegressor(**GIVEN))
    status = learner.status()
    assert status.set_std == pytest.approx(0.0, abs=1e-6)
    assert status.individual_std_after == status.individual_std
    assert (status.next_buys, status.going_on, status.worth) == (None, None, None)
    assert learner.insight().halving is None
    assert "Nothing is left to ask." in status.words


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_what_would_be_left_of_a_known_mean_is_not_rounding(scale):
    status = learner_of(scale, n=10).status()
    assert status.set_std_after == 0.0
    assert "to ±0" in status.next_buys
    assert learner_of(scale, n=14).status().set_std == 0.0


def test_outputs_too_small_to_square_are_not_called_nan():
    assert "nan" not in " ".join(learner_of(1e-200).status().words)


def test_halving_takes_as_many_sets_as_it_says():
    """Sets of one individual: with nearly all of them, little is left unknown."""
    rng = np.random.default_rng(0)
    sets = sw.Sets.from_arrays([rng.normal(size=(1, 2)) for _ in range(40)])
    learner = sw.ActiveLearner(sets, model=sw.AggregateRegressor(**GIVEN), cost=3.0)
    for a in range(3):
        learner.tell(a, float(sets.x[a].sum()))
    halving = learner.insight().halving
    assert halving.cost == 3.0 * halving.questions
    now = learner.status().individual_std
    for a in range(3, 3 + halving.questions):
        learner.tell(a, 0.0)
    assert learner.status().individual_std == pytest.approx(0.5 * now, rel=0.1)
    hopeless = learner_of(n=4, cost=3.0).insight().halving
    assert (hopeless.questions, hopeless.cost) == (None, 30.0)


def test_targets_are_whose_uncertainty_is_told():
    far, given = np.array([[6.0, 6.0], [7.0, 6.0]]), sw.AggregateRegressor(**GIVEN)
    learner = learner_of(targets=far, model=given)
    aimed, plain = learner.status(), learner_of(model=given).status()
    _, std = learner.model.predict(far, return_std=True)
    assert aimed.individual_std == pytest.approx(np.sqrt((std**2).mean()), rel=1e-6)
    assert aimed.individual_std > plain.individual_std
    assert "a typical individual among the targets" in learner.ask().why
