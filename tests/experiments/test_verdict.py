"""The verdict in words, on made-up curves: each outcome is called what it is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sumwise.experiments import comparison
from sumwise.experiments.comparison import number_format, verdict
from tests.tables import WOBBLE, made_up


def test_a_clear_win_says_by_how_much_and_what_it_saves():
    found = verdict(made_up({"IVR": -1.0, "MaxN": 0.5, "Rand": 0.0}))
    assert (found.outcome, found.best, found.best_is_clear) == ("wins", "IVR", True)
    assert found.headline == "IVR beats Random"
    assert "the error of IVR is 1.00 below Random's (95 % interval: " in found.sentences[0]
    assert "IVR needs 4 of 6 measurements for the error that Random has after 6: 2 saved." in (
        found.sentences
    )


def test_a_win_on_the_way_that_random_makes_up_saves_nothing():
    errors = made_up({"IVR": -1.0, "Rand": 0.0})
    errors["IVR"][:, -1] += 2.0
    found = verdict(errors)
    assert found.outcome == "wins"
    assert found.sentences[-1].startswith("By the last measurement Random has caught up")


def test_a_win_with_the_last_measurement_is_not_called_made_up_for():
    errors = made_up({"IVR": -1.0, "Rand": 0.0})
    errors["IVR"][:, :-1] = errors["Rand"][:, -1:] + 0.1
    errors["Rand"][:, :-1] += 5.0
    found = verdict(errors)
    assert found.outcome == "wins"
    assert found.sentences[-1].startswith("IVR needs 6 of 6 measurements for the error that Rand")


def test_another_strategy_that_is_better_still_is_named():
    found = verdict(made_up({"IVR": -1.0, "MaxN": -2.0, "Rand": 0.0}))
    assert found.headline == "IVR beats Random; the lowest error is that of MaxN"
    assert found.sentences[-1].endswith("1.00 below that of IVR: a significant difference.")
    errors = made_up({"IVR": -1.0, "Rand": 0.0})
    errors["MaxN"] = errors["IVR"] - 0.1 + WOBBLE
    assert verdict(errors).sentences[-1].endswith("that of IVR: not a significant difference.")


def test_no_clear_difference_is_called_that():
    found = verdict(made_up({"IVR": 0.0, "Rand": 0.0}, noise=1.0, seed=3))
    assert found.outcome == "even"
    assert found.headline == "IVR and Random cannot be told apart with so few splits"
    many = verdict(made_up({"IVR": 0.0, "Rand": 0.0}, splits=12, noise=1.0, seed=3))
    assert many.headline == "No clear difference between IVR and Random"
    assert "Chance alone could give that difference." in found.sentences
    assert "(95 % interval: −" in found.sentences[0]
    assert not found.best_is_clear


def test_another_clear_winner_is_named_where_ours_is_not_ahead():
    even = verdict(made_up({"IVR": 0.0, "MaxN": -3.0, "Rand": 0.0}, noise=0.5, seed=3))
    lowest = "; the lowest error is that of MaxN"
    assert even.headline == "IVR and Random cannot be told apart with so few splits" + lowest
    lost = verdict(made_up({"IVR": 1.0, "MaxN": -3.0, "Rand": 0.0}))
    assert lost.headline == "Random is better than IVR" + lowest
    assert "of MaxN, 3.00 below that of Random: a significant difference" in lost.sentences[-2]
    assert lost.sentences[-1].startswith("MaxN needs ")


def test_the_best_of_several_must_do_more_than_luck_could():
    errors = made_up({"IVR": 0.5, "Rand": 0.0}, noise=0.01)
    errors["MaxN"] = errors["Rand"] - 0.98 + WOBBLE  # clear on its own, not as the best of two
    assert comparison.difference(errors, "MaxN", "Rand").sign == -1
    found = verdict(errors)
    assert found.best == "MaxN"
    assert not found.best_is_clear
    assert found.headline == "Random is better than IVR"
    assert "not a significant difference for the best of 2" in found.sentences[-1]


def test_a_loss_is_called_a_loss():
    found = verdict(made_up({"IVR": 1.0, "MaxN": 2.0, "Rand": 0.0}))
    assert (found.outcome, found.best, found.best_is_clear) == ("loses", "Rand", False)
    assert found.headline == "Random is better than IVR"
    assert "Drawing groups at random was better here." in found.sentences
    assert found.sentences[-1] == "No strategy had a lower average error than Random."


def test_one_split_gives_no_verdict():
    found = verdict(made_up({"IVR": -1.0, "MaxN": -2.0, "Rand": 0.0}, splits=1))
    assert found.outcome == "unknown"
    assert found.headline == "One split gives no verdict"
    assert not found.best_is_clear
    assert "interval" not in " ".join(found.sentences)


def test_without_ours_the_best_is_judged_by_a_wider_interval():
    found = verdict(made_up({"MI": -1.0, "MaxN": -2.0, "Rand": 0.0}))
    assert (found.subject, found.outcome, found.headline) == ("MaxN", "wins", "MaxN beats Random")
    assert "(95 % interval, widened for the best of 2: " in found.sentences[0]


@pytest.mark.parametrize(
    ("size", "shown"), [(17.5, "−1.50"), (1234.0, "−2"), (0.002, "−1.500000"), (1e9, "−1.50e+00")]
)
def test_errors_have_as_many_decimals_as_their_size_needs(size, shown):
    assert number_format({"Rand": np.full((2, 2), size)})(-1.5) == shown


# --- beside guessing the mean ---------------------------------------------------------------------


@pytest.mark.parametrize("splits", [8, 12])
@pytest.mark.parametrize("level", [-1.0, 0.0, 1.0])
def test_the_headline_says_when_the_model_does_not_beat_guessing_the_mean(level, splits):
    errors = made_up({"IVR": 0.0, "Rand": 3.0}, splits=splits)
    scatter = 0.5 * np.random.default_rng(1).normal(size=splits)
    guess = errors["IVR"][:, -1] - level + scatter - scatter.mean()
    test = stats.ttest_rel(errors["IVR"][:, -1], guess)
    assert (test.pvalue < 0.05) == (level != 0)
    few = "with so few splits the model cannot be told apart from guessing the mean"
    said = {
        -1.0: "",
        0.0: few if splits < 10 else "the model does not clearly beat guessing the mean",
        1.0: "the model is worse than guessing the mean",
    }[level]
    found = verdict(errors, guess=guess)
    assert found.no_better == said
    assert found.headline == "IVR beats Random" + (f"; {said}" if said else "")
    assert (found.outcome, found.focus) == ("wins", "IVR")
    if said:
        ends = test.confidence_interval(0.95)
        low, high = (f"{end:.2f}".replace("-", "−") for end in (ends.low, ends.high))
        assert f"95 % interval of the difference: {low} to {high}" in found.sentences[-1]


def test_one_split_says_nothing_of_the_mean():
    errors = made_up({"IVR": -1.0, "Rand": 0.0}, splits=1)
    assert verdict(errors, guess=np.zeros(1)).headline == "One split gives no verdict"
