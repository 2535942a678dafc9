"""What a study says it has learned, against what was recorded when it was asked and told."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import sumwise as sw
from sumwise.learning import insight as looking
from sumwise.model.calibration import coverage, narrower, power, verdict
from sumwise.study.storage.schema import chain
from sumwise.util.threads import one_thread
from tests.builders import random_sets
from tests.marks import slow
from tests.oracles import joint, mutual_information
from tests.studies import play

MODELS = {
    "evidence": sw.AggregateRegressor("fourier", n_basis=16),
    "given": sw.AggregateRegressor("linear", hyperparameters=(0.5, 4.0)),
    "adam": sw.AggregateRegressor("fourier", n_basis=16, hyperparameters="adam"),
    "neural": sw.AggregateRegressor(sw.Neural(width=3, depth=2, n_basis=4, epochs=5)),
    "dropout": sw.AggregateRegressor(sw.Neural(width=3, depth=2, dropout=0.2, epochs=5, samples=8)),
}


def begun(tmp_path, problem, kind="evidence", **settings):
    strategy = "DAMI" if kind == "dropout" else "AggMI"
    named = {"model": MODELS[kind], "strategy": strategy, "seed": 3, "name": kind, **settings}
    return sw.create_study(tmp_path / "a.db", problem[0], **named)


def rows_of_chain(study):
    with study._database.read() as connection:
        return sorted(connection.execute(chain.select()).all())


# --- looking ahead, as it was ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*list(MODELS)[:-1], *slow("dropout")])
def test_forecasts_and_information_are_those_of_the_moment_of_asking(tmp_path, problem, kind):
    """The question recorded what it expected; nobody else was asking."""
    with begun(tmp_path, problem, kind) as study:
        asked, noise, spread = [], [], []
        for _ in range(7):  # networks are compiled for more sets after the fourth
            asked += play(study, problem[1], 1)
            noise.append(study.model.noise_precision_**-0.5)
            spread.append(math.sqrt(study.status().mean_variance))
        steps = study.insight().steps
    assert [step.set_id for step in steps] == [question.set_id for question in asked]
    assert [step.number for step in steps] == list(range(1, 8))
    assert [step.answer for step in steps] == [problem[1][step.set_id] for step in steps]
    close = {"rtol": 1e-9} if kind in ("evidence", "given", "adam") else {"rtol": 1e-5}
    information = [question.information for question in asked]
    assert_allclose([step.information for step in steps], information, **close)
    assert (steps[0].forecast, steps[0].forecast_std) == (None, None)
    for name, recorded in (("forecast", "expected"), ("forecast_std", "std")):
        before = [getattr(question, recorded) for question in asked[1:]]
        assert_allclose([getattr(step, name) for step in steps[1:]], before, **close)
    assert_allclose([step.noise_std for step in steps], noise, **close)
    assert_allclose([step.individual_std for step in steps], spread, **close)


def test_information_is_that_of_the_joint_gaussian(tmp_path, problem):
    sets, answers = problem
    settings = sw.AggregateRegressor("linear", hyperparameters=(0.5, 4.0), standardize=False)
    with begun(tmp_path, problem, model=settings) as study:
        play(study, answers, 6)
        steps = study.insight().steps
    phi = np.column_stack([sets.x, np.ones(len(sets.x))])
    model, seen = joint(sets, phi, 0.5, 4.0), []
    for step in steps:
        at = sets.position(step.set_id)
        assert_allclose(step.information, mutual_information(model, seen)[at], rtol=1e-9)
        seen.append(at)


def test_typical_errors_are_over_ten_forecasts_per_individual(tmp_path, problem):
    sets, answers = problem
    with begun(tmp_path, problem) as study:
        play(study, answers, 15)
        steps = study.insight().steps
    errors, naive = [], []
    for k, step in enumerate(steps):
        if k:
            own = sets[step.set_id].theta
            top = bottom = 0.0  # of the mean so far, by least squares with weights 1/Σθ²
            for earlier in steps[:k]:
                theta = sets[earlier.set_id].theta
                top += theta.sum() * earlier.answer / (theta**2).sum()
                bottom += theta.sum() ** 2 / (theta**2).sum()
            size = max(abs(own.sum()), math.sqrt((own**2).sum()))
            errors.append((step.answer - step.forecast) / size)
            naive.append((step.answer - own.sum() * top / bottom) / size)
            assert_allclose([step.error, step.naive_error], [errors[-1], naive[-1]], rtol=1e-9)
            for typical, all_so_far in (
                (step.typical_error, errors),
                (step.typical_naive_error, naive),
            ):
                last = all_so_far[-10:]
                assert_allclose(typical, math.sqrt(sum(e**2 for e in last) / len(last)), rtol=1e-9)
    assert steps[0].error is steps[0].typical_error is steps[0].typical_naive_error is None


def test_the_mean_for_all_is_what_naive_means_for_plain_sums(tmp_path):
    """For sums of θ = 1 the mean so far is that over all individuals measured."""
    rng = np.random.default_rng(1)
    sets = sw.Sets.from_arrays([rng.normal(size=(n, 2)) for n in (3, 1, 4)])
    with sw.create_study(tmp_path / "a.db", sets) as study:
        for set_id, y_bar in ((0, 30.0), (1, 14.0), (2, 44.0)):
            study.tell(set_id, y_bar)
        last = study.insight().steps[-1]
    assert_allclose(last.naive_error, (44.0 - 4 * 44.0 / 4) / 4)


def test_known_noise_blunts_information_and_errors(tmp_path, problem):
    sets, answers = problem
    told, noise = sets.ids[:6], [0.5, 0.0, 2.0, 0.3, 0.0, 4.0]
    model = sw.AggregateRegressor("linear", hyperparameters=(0.5, 4.0), standardize=False)
    with begun(tmp_path, problem, model=model) as study:
        for set_id, r in zip(told, noise, strict=True):
            study.tell(set_id, answers[set_id], noise_std=r or None)
        found = study.insight()
    phi = np.column_stack([sets.x, np.ones(len(sets.x))])
    plain = joint(sets, phi, 0.5, 4.0)
    signal = (plain.sums @ plain.latent @ plain.sums.T)[:6, :6]
    own = (sets.theta**2) @ (plain.sums[:6].T != 0) / 4.0 + np.square(noise)
    cov, y = signal + np.diag(own), np.array([answers[i] for i in told])
    for k, step in enumerate(found.steps):
        past = slice(0, k)
        pull = np.linalg.solve(cov[past, past], cov[past, k]) if k else np.empty(0)
        variance = cov[k, k] - pull @ cov[past, k]
        assert_allclose(step.information, 0.5 * math.log(variance / own[k]), rtol=1e-9)
        if k:
            assert_allclose(step.forecast, pull @ y[past], rtol=1e-9)
            assert_allclose(step.forecast_std, math.sqrt(variance), rtol=1e-9)
            theta = sets[step.set_id].theta
            size = max(abs(theta.sum()), np.linalg.norm(theta))
            assert_allclose(step.error, (y[k] - step.forecast) / size, rtol=1e-9)
    for k, row in enumerate(found.compared):
        others = [i for i in range(6) if i != k]
        pull = np.linalg.solve(cov[np.ix_(others, others)], cov[others, k])
        assert_allclose(row.predicted, pull @ y[others], rtol=1e-9)
        assert_allclose(row.std, math.sqrt(cov[k, k] - pull @ cov[others, k]), rtol=1e-9)


def test_known_noise_of_the_first_answer_is_measured_in_units_of_the_answers(tmp_path, problem):
    """Before it the model has no units: an answer in millions must not make noise look large."""
    taught = []
    for unit in (1.0, 1e6):
        with begun(tmp_path, problem, name=str(unit)) as study:
            study.tell("set 0", 50.0 * unit, noise_std=1.0 * unit)
            study.tell("set 1", 70.0 * unit)
            taught.append([step.information for step in study.insight().steps])
    assert_allclose(taught[0], taught[1], rtol=1e-6)


def test_many_answers_are_looked_at_in_even_steps(tmp_path, problem, monkeypatch):
    with begun(tmp_path, problem) as study:
        play(study, problem[1], 20)
        every = {step.number: step for step in study.insight().steps}
        monkeypatch.setattr(looking, "MOST", 5)
        some = study.insight()
    assert [step.number for step in some.steps] == [1, 6, 10, 15, 20]
    for step in some.steps:
        assert step.information == every[step.number].information
        assert step.forecast == every[step.number].forecast
        assert step.individual_std == every[step.number].individual_std
    assert len(some.compared) == 20


@pytest.mark.parametrize("kind", ["adam", *slow("neural")])
def test_looking_back_changes_nothing(place, problem, kind):
    with sw.create_study(place, problem[0], model=MODELS[kind]) as study:
        play(study, problem[1], 12)
        told = study.status()
        kept, history = rows_of_chain(study), study.history()
        study.insight()
        assert rows_of_chain(study) == kept
        assert study.history() == history
        assert study.status() == told
        assert study.claims == ()


@pytest.mark.parametrize("kind", ["evidence", *slow("adam", "neural")])
def test_another_process_sees_the_same(place, problem, kind):
    with sw.create_study(place, problem[0], model=MODELS[kind]) as study:
        play(study, problem[1], 12)
        here = study.insight()
    with sw.open_study(place) as study:
        there = study.insight()
    names = ("information", "individual_std", "noise_std", "typical_error", "typical_naive_error")
    for one, other in zip(here.steps[1:], there.steps[1:], strict=True):
        pairs = [(getattr(one, name), getattr(other, name)) for name in names]
        assert_allclose(*zip(*pairs, strict=True), rtol=1e-9)
    assert here.next_questions == there.next_questions


def test_answers_count_as_they_stand(tmp_path, problem):
    """One taken back and one corrected: as if they had been told so from the beginning."""
    told = {"set 0": 4.0, "set 1": 5.0, "set 2": -3.0, "set 3": 6.0, "set 4": 1.0}
    found = []
    for name in ("mended", "clean"):
        with begun(tmp_path, problem, name=name) as study:
            for set_id, y_bar in told.items():
                if name == "mended" or set_id != "set 2":
                    study.tell(set_id, 999.0 if (name, set_id) == ("mended", "set 1") else y_bar)
            if name == "mended":
                study.retract("set 2")
                study.amend("set 1", 5.0)
            found.append(study.insight())
    assert found[0].steps == found[1].steps
    assert found[0].compared == found[1].compared
    assert [row.set_id for row in found[0].compared] == ["set 0", "set 1", "set 3", "set 4"]


# --- looking back ---------------------------------------------------------------------------------


def test_answers_left_out_are_predicted_by_a_fit_without_them(tmp_path, problem):
    sets, answers = problem
    settings = {"basis": "linear", "hyperparameters": (0.5, 4.0), "standardize": False}
    with begun(tmp_path, problem, model=sw.AggregateRegressor(**settings)) as study:
        play(study, answers, 9)
        found = study.insight(level=0.8)
    assert found.by_forecast == ""
    told = [row.set_id for row in found.compared]
    for number, row in enumerate(found.compared, start=1):
        others = [i for i in told if i != row.set_id]
        alone = sw.AggregateRegressor(**settings).fit(sets[others], [answers[i] for i in others])
        mean, std = alone.predict_sets(sets[row.set_id], return_std=True)
        assert_allclose([row.predicted, row.std], [mean[0], std[0]], rtol=1e-9)
        assert row.number == number
        assert_allclose(row.z, (answers[row.set_id] - mean[0]) / std[0])
        reach = 1.2815515655446004 * std[0]
        assert_allclose([row.lower, row.upper], [mean[0] - reach, mean[0] + reach])
        assert row.outside == (abs(row.z) > 1.2815515655446004)
        assert_allclose(row.weight, sets[row.set_id].theta.sum())
    inside = {row.level: row.inside for row in found.calibration}
    assert inside[0.8] == sum(not row.outside for row in found.compared)


def test_the_typical_error_is_of_the_model_of_now_and_forgets_early_forecasts(tmp_path, problem):
    """Early forecasts are far off here, and say nothing of what the model does now."""
    sets, answers = problem
    settings = {"basis": "linear", "hyperparameters": (1e-3, 4.0)}
    with begun(tmp_path, problem, model=sw.AggregateRegressor(**settings)) as study:
        play(study, answers, 9)
        found = study.insight()
    told = [row.set_id for row in found.compared]
    y = np.array([answers[i] for i in told])
    weight = np.array([sets[i].theta.sum() for i in told])
    root = np.array([np.linalg.norm(sets[i].theta) for i in told])
    size = np.maximum(abs(weight), root)
    error = [(row.answer - row.predicted) / n for row, n in zip(found.compared, size, strict=True)]
    naive = []
    for a in range(len(told)):
        rest = np.arange(len(told)) != a
        mean = np.linalg.lstsq((weight / root)[rest, None], (y / root)[rest])[0][0]
        naive.append((y[a] - mean * weight[a]) / size[a])
    assert_allclose(found.typical_error, np.median(np.abs(error)))
    assert_allclose(found.typical_naive_error, np.median(np.abs(naive)))
    assert found.typical_error < found.steps[-1].typical_error


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("neural", "has learned"),
        pytest.param("dropout", "committee", marks=pytest.mark.slow),
    ],
)
def test_networks_are_judged_by_their_forecasts(tmp_path, problem, kind, words):
    """Their weights remember an answer that is left out now."""
    with begun(tmp_path, problem, kind) as study:
        play(study, problem[1], 12)
        found = study.insight()
    assert words in found.by_forecast
    assert [row.number for row in found.compared] == list(range(2, 13))
    for row, step in zip(found.compared, found.steps[1:], strict=True):
        assert (row.set_id, row.answer) == (step.set_id, step.answer)
        assert (row.predicted, row.std) == (step.forecast, step.forecast_std)
    assert found.calibration[0].answers == 11
    assert "of 11 weighted sums, each forecast before it was told, lie in" in found.trust
    assert found.typical_error == found.steps[-1].typical_error
    assert found.typical_naive_error == found.steps[-1].typical_naive_error


def test_uncertainty_under_a_network_is_averaged_over_a_sample(tmp_path, problem, monkeypatch):
    monkeypatch.setattr(looking, "SAMPLE", 30)
    with begun(tmp_path, problem, "neural") as study:
        play(study, problem[1], 3)
        last = study.insight().steps[-1].individual_std
        x = study.sets.x
        some = x[:: math.ceil(len(x) / 30)]
        _, std = study.model.predict(some, return_std=True, include_noise=False)
    assert len(some) <= 30 < len(x)
    assert_allclose(last, math.sqrt((std**2).mean()), rtol=1e-5)


# --- few answers, and what to ask next ------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_answers_give_few_numbers(tmp_path, problem, n):
    with begun(tmp_path, problem) as study:
        play(study, problem[1], n)
        found = study.insight()
    assert len(found.steps) == n
    assert found.compared == found.calibration == ()
    assert found.trust == "Too few answers to say whether the intervals are right."
    assert found.status.answers == n
    assert len(found.next_questions) == 5


def test_what_to_ask_next_is_what_will_be_asked(tmp_path, problem):
    with begun(tmp_path, problem) as study:
        play(study, problem[1], 4)
        study.ask(by="ann")
        study.skip("set 5")
        proposed = study.insight().next_questions
        asked = study.ask(5, by="bob")
    names = ("set_id", "score", "expected", "std", "information", "runner_up", "number")
    for one, other in zip(proposed, asked, strict=True):
        assert [getattr(one, name) for name in names] == [getattr(other, name) for name in names]
    assert {question.by for question in proposed} == {None}


def test_nothing_is_proposed_when_nothing_is_free(tmp_path):
    sets = random_sets([1, 2, 3, 1], np.random.default_rng(0))
    with sw.create_study(tmp_path / "a.db", sets, model=MODELS["given"]) as study:
        for set_id in (0, 1):
            study.tell(set_id, 1.0)
        assert [question.set_id for question in study.insight().next_questions] != []
        study.ask()
        study.skip(next(i for i in (2, 3) if i not in {c.set_id for c in study.claims}))
        assert study.insight().next_questions == ()


def test_the_level_is_that_of_the_intervals(tmp_path, problem):
    with begun(tmp_path, problem) as study:
        play(study, problem[1], 4)
        found = study.insight(level=0.99)
        assert [row.level for row in found.calibration] == [0.5, 0.8, 0.9, 0.95, 0.99]
        assert_allclose(found.compared[0].upper - found.compared[0].predicted,
                        2.5758293035489004 * found.compared[0].std)  # fmt: skip
        with pytest.raises(sw.SettingError, match="level is 90"):
            study.insight(level=90)


def test_a_slow_look_back_shows_how_far_it_is(tmp_path, problem, monkeypatch):
    shown = []

    class Bar(looking.Slow):
        def at(self, done):
            shown.append((self._what, done, self._total))

    monkeypatch.setattr(looking, "Slow", Bar)
    with begun(tmp_path, problem) as study:
        play(study, problem[1], 3)
        study.insight()
    assert shown == [("looking back", done, 4) for done in (1, 2, 3, 4)]


@pytest.fixture
def two_threads():
    """Two BLAS threads, however many the tests are run with."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(2, user_api="blas"):
        assert blas_threads() == {2}
        yield


def blas_threads():
    from threadpoolctl import threadpool_info

    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_looking_back_is_done_on_one_thread(tmp_path, problem, monkeypatch, two_threads):
    during, plain = set(), looking._step

    def watched(*args):
        during.update(blas_threads())
        return plain(*args)

    monkeypatch.setattr(looking, "_step", watched)
    with begun(tmp_path, problem) as study:
        play(study, problem[1], 3)
        study.insight()
    assert during == {1}
    assert blas_threads() == {2}


def test_the_last_to_leave_gives_the_threads_back(two_threads):
    first, second = one_thread(), one_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert blas_threads() == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == {2}


# --- whether intervals are right ------------------------------------------------------------------


def judged(z, level=0.9):
    return verdict(coverage(z, level), level, "each predicted from the others")


def within(inside, n):
    """How far off `n` values are of which so many lie inside, and half of these well inside."""
    return [0.5 + 0.6 * (k % 2) for k in range(inside)] + [9.0] * (n - inside)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("n", [3, 12, 29, 30, 60])
def test_power_is_the_probability_that_the_verdict_calls_narrow_intervals_narrow(n, level):
    narrow = stats.binom(n, narrower(level))
    noticed = sum(
        narrow.pmf(k)
        for k in range(n + 1)
        if stats.binomtest(k, n).proportion_ci(0.95, "exact").high < level
    )
    assert_allclose(power(n, level), noticed, atol=1e-12)


def test_intervals_are_called_right_only_where_wrong_ones_would_have_shown():
    for n in range(3, 80):
        said = judged(within(round(0.9 * n), n))
        assert ("about right" in said) == (power(n, 0.9) >= 0.8)
    assert [n for n in range(3, 80) if power(n, 0.9) >= 0.8][:3] == [29, 33, 34]


def test_intervals_are_judged_in_words():
    unseen = (
        "Totals of sets were checked, not individuals: errors that cancel within a set, and sets "
        "unlike those measured, go unnoticed."
    )
    assert judged(within(11, 12)) == (
        "Nothing unusual, but too few totals to judge the intervals: 11 of 12 totals, each "
        "predicted from the others, lie in intervals made for 90 %. 12 are too few to notice "
        f"intervals that hold only 70 % instead of 90 %. {unseen}"
    )
    assert judged(within(36, 40)) == (
        "The intervals are about right: 36 of 40 totals, each predicted from the others, lie in "
        "intervals made for 90 %. 40 totals would show intervals that hold only 70 % with a "
        f"probability of 89 %. {unseen}"
    )
    narrow = judged(within(60, 100))
    assert narrow.startswith("The intervals are too narrow: only 60 of 100 totals, each predicted")
    assert narrow.endswith(f"made for 90 %, fewer than chance explains. {unseen}")
    assert judged(within(100, 100)).startswith("The intervals are too wide: 100 of 100 totals")
    assert judged([]) == "Too few answers to say whether the intervals are right."


def test_other_levels_are_mentioned_where_they_differ():
    close = judged([0.1 * k for k in range(-10, 10)])  # all within one standard deviation
    assert close.startswith("Too few totals to judge the intervals: 20 of 20 totals")
    assert "for 90 %; but 20 in those for 80 %, more than chance explains. 20 are too" in close
    off = judged([0.0] * 4 + [1.0] * 34 + [9.0] * 2)
    assert off.startswith("The intervals are about right at 90 %: 38 of 40 totals")
    assert "; but 4 in those for 50 %, fewer than chance explains" in off


def test_normal_errors_are_about_right():
    z = np.random.default_rng(0).normal(size=200).tolist()
    assert judged(z).startswith("The intervals are about right: ")
    assert "too narrow" in judged([2 * off for off in z])
    assert "too wide" in judged([off / 3 for off in z])


def test_shares_are_counted_at_each_level():
    rows = coverage([0.0, 0.7, 1.3, 1.7, 2.5], 0.9)
    assert [row.inside for row in rows] == [1, 2, 3, 4]
    assert [row.share for row in rows] == [0.2, 0.4, 0.6, 0.8]
    assert coverage([], 0.9) == ()


def test_the_noise_of_individuals_is_that_of_status(tmp_path, problem):
    sets, answers = problem
    with sw.create_study(tmp_path / "a.db", sets) as study:
        study.tell_many(list(answers)[:5], list(answers.values())[:5])
        last, status = study.insight().steps[-1], study.status()
    assert last.noise_std == pytest.approx(status.noise_variance**0.5)
