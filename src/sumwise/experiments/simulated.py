"""`sumwise.simulate`: which strategy wins on a user's own data frame."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

from sumwise.data.pool_rules import PoolRules, read_rules
from sumwise.data.valid_sets import one_of
from sumwise.data.validate import count
from sumwise.errors import SettingError
from sumwise.experiments import simulate as experiment
from sumwise.experiments.comparison import Verdict, standings
from sumwise.experiments.datasets import Labelled, labelled_frame
from sumwise.experiments.pooled import ways
from sumwise.experiments.protocol import Experiment
from sumwise.experiments.simulation_page import curves_section, results_table, simulation_page
from sumwise.model.generalised.refusals import check_outputs
from sumwise.report.notebook import fixed, sections_html
from sumwise.report.page import Section, check_folder, save_page
from sumwise.util import html

POOLS: Final = ("size", "uses", "noise_std", "noise_std_per_member")  # settings of designed pools


class Kind(TypedDict, total=False):
    """What is simulated, if not strategies on plain numbers."""

    outputs: str
    exposure: Any
    trials: Any
    cost: Any
    design: bool
    size: Any
    uses: int | None
    noise_std: float
    noise_std_per_member: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Simulated:
    """What a simulation gave, in the units of the outputs."""

    data: Labelled
    plan: Experiment
    simulation: experiment.Simulation

    @property
    def verdict(self) -> Verdict:
        """Whether the questions beat random ones, or pools pay, and the model beats the mean."""
        return self.simulation.verdict

    @property
    def table(self) -> list[dict[str, Any]]:
        """A row for each strategy, or way to measure, the lowest average error first."""
        ends = self.simulation.in_the_end
        if self.simulation.designs:
            return [
                {
                    "measured": way.method,
                    "average_error": way.average,
                    "last_error": way.last,
                    "designed_less_it": None if way.difference is None else way.difference.mean,
                    "designed_need": way.designed_need,
                    **asdict(ends[way.method]),
                }
                for way in ways(self.simulation.errors)
            ]
        return [
            {
                "strategy": line.method,
                "average_error": line.average,
                "last_error": line.last,
                "difference_to_random": None if line.difference is None else line.difference.mean,
                "random_needs": None
                if line.random_needs is None
                else line.random_needs * self.simulation.scale.step,
                **asdict(ends[line.method]),
            }
            for line in standings(self.simulation.errors)
        ]

    def plot(self) -> Any:
        """Errors after each measurement, as an Altair chart."""
        return fixed(self._curves.charts[0])

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write a page that opens in any browser, offline, such as "simulation.html"."""
        place = Path(path)
        check_folder(place.parent)
        return save_page(simulation_page(self.data, self.plan, self.simulation), place)

    @property
    def _curves(self) -> Section:
        return curves_section(self.data, self.plan, self.simulation, self.verdict)

    def __repr__(self) -> str:
        return f"{self.verdict.headline}. {' '.join(self.verdict.sentences)}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """For notebooks: the verdict, the errors as a picture, and how each strategy did."""
        del include, exclude
        title = "Ways to measure" if self.simulation.designs else "All strategies"
        compared = Section(title, table=results_table(self.simulation))
        shown = html.paragraphs([repr(self)]) + sections_html([self._curves, compared])
        return {"text/plain": repr(self), "text/html": shown}


def simulate(
    frame: Any,
    *,
    by: Any,
    y: Any,
    x: Any = None,
    weights: str = "sum",
    methods: Sequence[str] | None = None,
    splits: int = experiment.SPLITS,
    queries: int | None = None,
    jobs: int = 1,
    **kind: Unpack[Kind],
) -> Simulated:
    """Find out which strategy wins on data like yours, whose outputs are all known.

    Each strategy learns from totals of sets only, and is tested on the individuals of held-out
    sets; docs/simulate.md explains the result.

    Args:
        frame: A pandas, polars or Arrow table with a row for each individual.
        by: Column that names the group; several columns together name it.
        y: Column with the output of every individual.
        x: Input columns; all other columns that can be inputs if left out.
        weights: What a measurement of a group gives: the `"sum"` or the `"mean"`.
        methods: Names of strategies; all if left out. Rand always takes part.
        splits: Number of random splits into sets to learn from and sets to be tested on.
        queries: Number of sets to measure in each split; 30, or as many as there are, if left out.
        jobs: Number of processes.
        **kind: `outputs`: what totals add up, as in `AggregateRegressor`; the error is that of each
            individual's count. `exposure` or `trials`: its column, as in `Sets.from_frame`.
            `cost`: the column with what measuring a group costs; gains are then weighed against
            costs, and errors are compared at equal costs.
            `design=True`: compare pools by design with the groups as they are, random pools and
            single individuals, in place of strategies; with it `size`, `uses`, `noise_std` and
            `noise_std_per_member` of pools, as in `design_pools`.

    >>> import numpy as np, pandas as pd, sumwise as sw
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"town": np.repeat(range(20), 4), "age": rng.uniform(20, 60, 80)})
    >>> frame["income"] = 2 * frame["age"] + rng.normal(size=80)
    >>> found = sw.simulate(
    ...     frame, by="town", y="income", methods=["IVR"], splits=2, queries=5
    ... )
    >>> sorted(row["strategy"] for row in found.table)
    ['IVR', 'Rand']
    """
    outputs, theta, rules = _read(kind, weights)
    if weights not in experiment.WEIGHTS:
        raise SettingError(f"weights is {weights!r:.80}; give 'sum' or 'mean'")
    chosen = [methods] if isinstance(methods, str) else methods
    for name in chosen or ():
        if name not in experiment.STRATEGIES:
            known = ", ".join(experiment.STRATEGIES)
            raise SettingError(f"no strategy is called {name!r:.80}; give some of {known}")
    data = labelled_frame(frame, by, y, x, theta, kind.get("cost"))
    n = None if queries is None else count(queries, "queries")
    wanted = chosen, count(splits, "splits"), n, weights, outputs, rules
    plan = experiment.experiment(data, *wanted)
    result = experiment.run(plan, experiment.splits_of(data), count(jobs, "jobs"))
    return Simulated(data, plan, result)


def _read(kind: Kind, weights: str) -> tuple[str, tuple[Any, str] | None, PoolRules | None]:
    """The outputs, the column of exposures with the name by which it was given, and what designed
    pools may be."""
    if odd := {*kind} - {*Kind.__annotations__}:
        raise SettingError(f"simulate has no argument {min(odd)!r:.60}")
    outputs = check_outputs(kind.get("outputs", "numbers"))
    column, said = one_of(weights, kind.get("exposure"), kind.get("trials"))
    design, given = kind.get("design", False), {*kind} & {*POOLS}
    if not isinstance(design, bool):
        raise SettingError(f"design is {design!r:.60}; give True or False")
    if given and not design:
        raise SettingError(f"{min(given)} is about designed pools; give design=True with it")
    rules = read_rules(0, None, {name: kind.get(name) for name in POOLS}) if design else None
    return outputs, None if said == "weights" else (column, said), rules
