"""What learners and studies say of counts, shares and amounts."""

import re
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import sumwise as sw
from sumwise.learning.left_out import left_out
from sumwise.learning.propose import Expected, far_from
from sumwise.report.panels import progress
from tests.marks import slow

KINDS = ("counts", "shares", "amounts")
ONE = ["counts", *slow("shares", "amounts")]
PER = {"counts": "unit of exposure", "shares": "trial", "amounts": "unit of exposure"}


def made(kind, n_sets=40, seed=0, exposures=True):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 20, n_sets)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    n = starts[-1]
    x, e = rng.normal(size=(n, 2)), np.ones(n)
    if exposures:
        e = rng.integers(1, 30, n).astype(float)
    eta = -1 + 0.5 * x[:, 0] - 0.4 * np.sin(2 * x[:, 1])
    eta += 0.3 * np.repeat(rng.normal(size=n_sets), sizes)
    if kind == "shares":
        y = rng.binomial(e.astype(int), 1 / (1 + np.exp(-eta)))
    else:
        y = e * np.exp(eta) * rng.gamma(2, 0.5, n)
        y = rng.poisson(y) if kind == "counts" else y
    cut = [slice(*ends) for ends in pairwise(starts)]
    weights = [e[at] for at in cut] if exposures else None
    sets = sw.Sets.from_arrays([x[at] for at in cut], weights=weights)
    return sets, np.add.reduceat(y, starts[:-1]).astype(float)


def learner_of(kind, n=24, **more):
    sets, totals = made(kind, **more)
    learner = sw.ActiveLearner(sets, outputs=kind)
    learner.tell_many({a: float(totals[a]) for a in range(n)})
    return learner, totals


told = cache(learner_of)  # for tests that only look at it


@pytest.mark.parametrize("kind", KINDS)
def test_status_speaks_of_outputs_per_exposure(kind):
    learner, _ = told(kind)
    said = " ".join(learner.status().words)
    predicted = {"counts": "The rate of a typical", "shares": "The share of a typical"}
    assert predicted.get(kind, "The mean of a typical") in said
    assert "noise of its own" not in said
    assert "per individual" not in said
    assert f"{kind} of individuals vary" in said
    assert learner.status().per == PER[kind]


def test_without_exposures_errors_are_per_individual():
    learner, _ = learner_of("counts", exposures=False)
    assert learner.status().per == "individual"
    assert "exposure" not in " ".join(learner.status().words)


@pytest.mark.parametrize("kind", KINDS)
def test_the_naive_guess_is_the_rate_of_all_other_answers(kind):
    learner, totals = told(kind)
    sets, n = learner.sets, 24
    exposure = np.add.reduceat(sets.theta, sets.starts[:-1])[:n]
    y = totals[:n]
    others = (y.sum() - y) / (exposure.sum() - exposure)
    status = learner.status()
    expected = np.median(np.abs(y / exposure - others))
    assert status.typical_naive_error == pytest.approx(expected, rel=1e-9)
    assert 0.3 * expected < status.typical_error < 1.5 * expected


@pytest.mark.parametrize("kind", ONE)
def test_a_total_ten_times_too_large_is_named_first(kind):
    learner, totals = learner_of(kind, n=36)
    assert learner.status().suspects == ()
    bad = int(np.argsort(learner.sets.sizes[:36])[-6])
    wrong = 10 * totals[bad]
    if kind == "shares":
        wrong = learner.sets.theta[slice(*learner.sets.starts[bad : bad + 2])].sum()
    learner.amend(bad, float(wrong))
    status = learner.status()
    first = status.suspects[0]
    assert first.set_id == bad
    assert first.chance < 1e-5
    assert first.z > 4
    assert f"Check {bad} first: the other answers suggest" in status.headline[0]
    assert f"as far out as {wrong:.9g} has a probability of" in status.headline[0]
    assert f"per {PER[kind]}" in status.headline[0]


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_judged_by_the_probability_of_what_is_as_far_out(kind):
    learner, totals = told(kind)
    mean, std = learner.expected(30)
    expected = learner.expected(30)
    assert isinstance(expected, Expected)
    assert far_from(expected, float(totals[30]), None) is None
    most = learner.sets.theta[slice(*learner.sets.starts[30:32])].sum()
    wrong = most if kind == "shares" else np.rint(50 * mean)
    assert far_from(expected, float(wrong), None) == (mean, std)
    assert expected.chance(float(wrong)) < 6e-5 < expected.chance(float(np.rint(mean)))


def test_skewed_outputs_are_not_far_where_a_gaussian_would_be():
    """A few standard deviations above are common, and as few below impossible."""
    learner, _ = told("amounts")
    expected = learner.expected(30)
    mean, std = expected
    above, below = mean + 4.2 * std, 1e-3 * mean
    assert far_from((mean, std), above, None) is not None
    assert far_from(expected, above, None) is None
    assert far_from((mean, std), below, None) is None
    assert far_from(expected, below, None) == (mean, std)


def test_plain_numbers_are_judged_by_standard_deviations_as_before():
    sets, totals = made("amounts")
    learner = sw.ActiveLearner(sets, strategy="MaxN")
    learner.tell_many({a: float(totals[a]) for a in range(24)})
    moment = learner._moment()
    assert left_out(moment.fit.pool, moment.fit.model, learner.answers).chances is None
    mean, std = learner.expected(30)
    assert far_from((mean, std), mean + 4.01 * std, None) is not None
    assert far_from((mean, std), mean + 3.99 * std, None) is None


@pytest.mark.parametrize("kind", KINDS)
def test_summary_says_how_outputs_vary(kind):
    learner, totals = told(kind)
    before = sw.ActiveLearner(learner.sets, outputs=kind).model.summary()
    assert f"Model of {kind}" in before
    said = learner.model.summary()
    sets = learner.sets
    rate = totals[:24].sum() / np.add.reduceat(sets.theta, sets.starts[:-1])[:24].sum()
    assert f"All answers together are {rate:.3g} per {PER[kind]}" in said
    shares = [int(part) for part in re.findall(r"(\d+) %(?= is|\n)", said)[:3]]
    assert 98 <= sum(shares) <= 102
    assert "Of what they explain" in said
    assert "The linear part rests on input" in said
    assert "Log evidence of 24 answers" in said
    assert "Tangent" not in said


@pytest.mark.parametrize("kind", ONE)
def test_insight_has_whole_numbers_and_a_step_for_each_answer(kind):
    learner, totals = learner_of(kind, n=9)
    insight = learner.insight()
    assert [step.answer for step in insight.steps] == totals[:9].tolist()
    ends = np.array([(row.lower, row.upper) for row in insight.compared])
    assert (ends >= 0).all()
    whole = (ends == np.rint(ends)).all()
    assert whole == (kind != "amounts")
    exposure = np.array([row.weight for row in insight.compared])
    if kind == "shares":
        assert (ends[:, 1] <= exposure).all()
    assert insight.unit == PER[kind]
    assert ("ties at the ends" in insight.trust) == whole
    assert all(step.information > 0 for step in insight.steps)
    # every step has the tangent of its own model
    then = learner_of(kind, n=6)[0].status()
    assert insight.steps[5].individual_std == pytest.approx(then.mean_variance**0.5, rel=1e-6)
    assert insight.steps[5].noise_std == pytest.approx(then.noise_variance**0.5, rel=1e-6)
    so_far = totals[:8].sum() / exposure[:8].sum()
    naive = totals[8] / exposure[8] - so_far
    assert insight.steps[-1].naive_error == pytest.approx(naive, rel=1e-9)


def test_only_some_answers_are_replayed_where_there_are_many(monkeypatch):
    monkeypatch.setattr("sumwise.learning.insight.MOST_SLOW", 4)
    learner, _ = learner_of("counts", n=12, n_sets=16)
    assert [step.number for step in learner.insight().steps] == [1, 5, 8, 12]


@pytest.mark.parametrize("kind", ONE)
def test_a_report_has_the_words_of_its_outputs(kind, tmp_path):
    learner, _ = learner_of(kind, n=8, n_sets=16)
    page = learner.report(tmp_path / "report.html").read_text()
    text = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    text = re.sub(r"\s*<[^>]+>\s*", "|", text)
    assert f"per {PER[kind]}" in text
    assert "weighted sum" not in text
    assert "per individual" not in text
    assert {"shares": "|trials|"}.get(kind, "|exposure|") in text
    assert f"the {kind} of" in text
    intervals = re.findall(r"\|([\d.,e−]+) to ([\d.,e−]+)\|", text.split("|Individuals|")[-1])
    assert len(intervals) > 100
    dots = any("." in end for pair in intervals for end in pair)
    assert dots == (kind == "amounts")


def test_a_study_says_what_a_learner_says(tmp_path):
    learner, totals = learner_of("counts", n=8, n_sets=12)
    with sw.create_study(tmp_path / "s.db", learner.sets, outputs="counts") as study:
        study.tell_many({a: float(totals[a]) for a in range(8)})
        assert study.status().words == learner.status().words
        assert tuple(study.expected(10)) == tuple(learner.expected(10))
        assert study.insight().trust == learner.insight().trust
        assert (
            "The rate of a typical individual is known"
            in study.report(tmp_path / "s.html").read_text()
        )


def test_shares_have_no_unit_and_a_first_question_expects_nothing():
    frame = pd.DataFrame({"herd": list("aabbccdd"), "age": range(8), "size": [9] * 8})
    herds = sw.Sets.from_frame(frame, by="herd", x="age", trials="size")
    learner = sw.ActiveLearner(herds, outputs="shares", outcome="infected", unit="cows")
    first = learner.ask()
    assert "expected " not in str(first).split(".")[0]
    assert "± " not in first._repr_html_()
    for herd, total in zip("abc", (3, 5, 8), strict=True):
        learner.tell(herd, total)
    assert "cows" not in " ".join(learner.status().words)
    assert "cows" not in " ".join(progress(learner.insight()).words)
    assert ", expected " in str(learner.ask())
