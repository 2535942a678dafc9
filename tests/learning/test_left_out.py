"""Answers that may be wrong: planted ones are named first, right ones hardly ever, everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import sumwise as sw
from sumwise.learning.left_out import Judged, Suspect, farthest, left_out, suspects
from sumwise.learning.propose import Answer
from sumwise.learning.status import Status
from tests.builders import totals
from tests.studies import GIVEN, NETWORK, play, with_wrong_total


def made(seed, n=30, noise=0.5):
    """Sets and their totals: a level of 20, a slope, and noise."""
    rng = np.random.default_rng(seed)
    sets = sw.Sets.from_arrays([rng.normal(size=(rng.integers(1, 9), 2)) for _ in range(n)])
    y = 20 + 3 * sets.x[:, 0] + noise * rng.normal(size=len(sets.x))
    return sets, totals(sets, y)


def told(sets, y_bar):
    return [Answer(a + 1, sets.ids[a], float(y), position=a) for a, y in enumerate(y_bar)]


def named(sets, y_bar, n):
    """Positions that are suspected after the first `n` answers, by the default model."""
    model = sw.AggregateRegressor().fit(sets[:n], y_bar[:n], pool=sets).fitted()
    answers = told(sets, y_bar[:n])
    return [
        each.position
        for each in suspects(left_out(sets.pool(model), model, answers), answers, None)
    ]


# --- how far is too far ---------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 4, 7, 20, 150, 1000])
def test_the_farthest_of_right_answers_is_beyond_in_one_of_a_hundred_studies(n):
    tails = stats.t(n, scale=1 / stats.t(n).std())  # of standard deviation one
    any_beyond = 2 * n * tails.sf(farthest(n))
    assert any_beyond == pytest.approx(0.01) if farthest(n) > 4 else any_beyond < 0.01
    assert farthest(n) >= 4


@pytest.mark.slow  # as often with answers of the model itself is quick
def test_right_answers_are_named_no_more_often_than_promised():
    studies = [(seed, n) for seed in range(25) for n in (3, 5, 10, 25)]
    wrong = sum(bool(named(*made(seed), n)) for seed, n in studies)
    assert wrong <= stats.binom(len(studies), 0.01).ppf(0.999)


def test_answers_that_the_model_itself_would_give_are_named_no_more_often_than_promised():
    wrong, studies = 0, 300
    for rng in np.random.default_rng(0).spawn(studies):
        sets = sw.Sets.from_arrays([rng.normal(size=(n, 2)) for n in rng.integers(1, 6, 20)])
        y = sets.x @ rng.normal(size=2) + rng.normal() + 0.5 * rng.normal(size=len(sets.x))
        model = sw.AggregateRegressor(**GIVEN).fit(sets, totals(sets, y)).fitted()
        answers = told(sets, totals(sets, y))
        wrong += bool(suspects(left_out(sets.pool(model), model, answers), answers, None))
    assert wrong <= stats.binom(studies, 0.01).ppf(0.999)


def test_the_line_is_drawn_where_it_should_be():
    answers = told(sw.Sets.from_arrays([np.ones((1, 1))] * 5), [0.0] * 5)
    judged = Judged(tuple((k, 2.0 * farthest(5) * (1 + (k - 2.5) / 1e6), 2.0) for k in range(1, 6)))
    assert {each.position for each in suspects(judged, answers, None)} == {2, 3, 4}


@pytest.mark.parametrize("slip", [10.0, 0.1, -1.0], ids=["ten times", "a tenth", "sign"])
def test_a_wrong_total_is_named_first(slip):
    found = []
    for seed in range(8):
        sets, y_bar = made(seed)
        place = int(np.argsort(sets.sizes)[len(sets) // 2 + seed])  # not the smallest sets
        y_bar[place] *= slip
        found.append(named(sets, y_bar, 30)[:1] == [place])
    assert sum(found) >= 7


@pytest.mark.parametrize(("n", "slip"), [(3, 1000.0), (4, 100.0), (5, -1.0), (8, -1.0)])
def test_a_wrong_total_of_few_does_not_hide_behind_the_scale_it_sets(tmp_path, n, slip):
    sets, y_bar = made(2)
    with sw.create_study(tmp_path / "few.db", sets) as study:
        study.tell_many(list(sets.ids[:n]), y_bar[:n].tolist())
        assert study.status().suspects == ()
        study.amend(sets.ids[1], slip * y_bar[1])
        first = study.status().suspects[0]
        others = np.delete(np.arange(n), 1)
    assert first.position == 1
    if n == 3:  # farther than three standard deviations, which the scale of all would make of it
        alone = sw.AggregateRegressor().fit(sets.take(others), y_bar[others], pool=sets)
        mean, std = alone.predict_sets(sets.take([1]), return_std=True)
        assert_allclose([first.expected, first.std], [mean[0], std[0]], rtol=1e-9)


# --- one study, against fits without each answer --------------------------------------------------


@pytest.fixture
def wrong(tmp_path):
    with with_wrong_total(tmp_path / "wrong.db") as study:
        yield study


def test_from_the_third_answer_on_a_wrong_total_is_named_with_what_others_expect(wrong):
    status = wrong.status()
    suspect = status.suspects[0]
    assert (suspect.set_id, suspect.position, suspect.id) == ("set 1", 1, "set 1")
    known = {answer.set_id: answer.y_bar for answer in wrong.answers}
    assert suspect.total == known["set 1"]

    others = [i for i in known if i != "set 1"]
    assert len(others) == 2
    everything = sw.AggregateRegressor(**GIVEN).fit(wrong.sets[list(known)], list(known.values()))
    alone = sw.AggregateRegressor(**GIVEN).fit(wrong.sets[others], [known[i] for i in others])
    mean, std = alone.predict_sets(wrong.sets["set 1"], return_std=True)
    assert_allclose([suspect.expected, suspect.std], [mean[0], std[0]], rtol=1e-9)
    assert_allclose(suspect.z, (known["set 1"] - mean[0]) / std[0])

    moved = everything.predict_sets(wrong.sets) - alone.predict_sets(wrong.sets)
    each = np.repeat(moved / wrong.sets.sizes, wrong.sets.sizes)  # θ is 1
    assert_allclose(suspect.moves, np.sqrt(np.mean(each**2)), rtol=1e-9)

    assert status.words[0] == status.to_check == status.headline[0]
    assert status.to_check.startswith("Check set 1 first: it is ")
    assert wrong.insight().status == status


def test_two_answers_say_nothing_and_a_corrected_one_is_fine(wrong):
    right = wrong.answers[1].y_bar / 10
    wrong.amend("set 1", right)
    assert wrong.status().suspects == ()
    assert wrong.status().to_check is None
    wrong.amend("set 1", 10 * right)
    assert wrong.status().suspects != ()
    wrong.retract("set 0")
    assert wrong.status().suspects == ()


def test_an_answer_with_much_known_noise_is_not_suspected(wrong):
    suspect = wrong.status().suspects[0]
    wrong.amend("set 1", suspect.total, noise_std=abs(suspect.total))
    assert wrong.status().suspects == ()


def test_the_paper_preset_names_it_without_fitting_again(tmp_path):
    sets, y_bar = made(0)
    y_bar[7] *= 10
    with sw.create_study(tmp_path / "a.db", sets, preset="paper") as study:
        study.tell_many(sets.ids, y_bar)
        first = study.status().suspects[0]
    assert (first.position, first.moves) == (7, None)


def test_a_network_is_not_judged_by_answers_that_it_has_learned_from(tmp_path, problem):
    with sw.create_study(
        tmp_path / "a.db", problem[0], model=sw.AggregateRegressor(NETWORK)
    ) as study:
        play(study, problem[1], 3)
        status = study.status()
    assert (status.suspects, status.typical_error, status.typical_naive_error) == ((), None, None)


# --- several --------------------------------------------------------------------------------------


def test_of_several_the_one_that_moves_predictions_most_comes_first():
    answers = told(
        sw.Sets.from_arrays([np.ones((1, 1))] * 9), [0.0, 9.0, 20.0, -30.0, 0.5, *[8.0] * 4]
    )
    judged = Judged(tuple((number, 0.0, 1.0) for number in range(1, 10)))
    asked = []

    def moves(answer):
        asked.append(answer.position)
        return float(answer.position)

    assert [each.position for each in suspects(judged, answers, None)] == [3, 2, 1, 5, 6, 7, 8]
    found = suspects(judged, answers, moves)
    assert asked == [3, 2, 1]  # few fits, of the farthest
    assert [each.position for each in found] == [3, 2, 1, 5, 6, 7, 8]
    assert [each.moves for each in found] == [3.0, 2.0, 1.0, *[None] * 4]


def status_with(*found, **known):
    counts = {"sets": 40, "answers": 12, "open_claims": 0, "skipped": 0, "questions": 12}
    left = dict.fromkeys(("information_left", "mean_variance", "mean_variance_after"), 1.0)
    rest = {"next_questions": 5, "noise_variance": 1.0, "suspects": found}
    return Status("s", "IVR", **counts, **left, **rest, **known)


def test_the_sentence_says_what_to_check_how_far_off_it_is_and_what_it_moves():
    first, second = (
        Suspect(58, 3, 1180.0, 100.0, 120.0, 12.34),
        Suspect("b\n\u202e", 4, 0.0, 9.0, 2.0),
    )
    assert status_with(first).to_check == (
        "Check 58 first: it is 9.0 standard deviations from what the other answers let expect "
        "(1180 in place of 100 ± 120), and it moves predictions by 12.3 per individual."
    )
    assert status_with(first, second).to_check.endswith(
        "and of 2 such answers it moves predictions most, by 12.3 per individual. Because of "
        "it, right ones may look wrong: b."
    )
    assert status_with(second).to_check.endswith("(0 in place of 9.00 ± 2.00).")
    assert status_with(*[second] * 9).to_check.endswith("look wrong: b, b, b, b and 4 more.")


def test_a_model_that_does_not_beat_the_mean_is_called_that():
    useless = status_with(typical_error=2.0, typical_naive_error=1.5)
    assert useless.headline == useless.words[:1]
    assert useless.headline[0].startswith("So far the model does not beat guessing the mean: ")
    assert "its median error per individual is 2.00" in useless.headline[0]
    assert "guessing their mean is 1.50" in useless.headline[0]
    assert status_with(typical_error=1.4, typical_naive_error=1.5).headline == ()
    assert status_with().headline == ()


def test_overfitting_noise_does_not_beat_the_mean(tmp_path):
    rng = np.random.default_rng(0)
    sets = sw.Sets.from_arrays([rng.normal(size=(2, 8)) for _ in range(12)])
    model = sw.AggregateRegressor("linear", hyperparameters=(1e-6, 1e6))
    with sw.create_study(tmp_path / "a.db", sets, model=model) as study:
        study.tell_many(sets.ids, rng.normal(50, 1, len(sets)))
        status, found = study.status(), study.insight()
    assert status.typical_error == found.typical_error > found.typical_naive_error
    assert "does not beat guessing the mean" in " ".join(status.headline)
