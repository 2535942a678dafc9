"""`sumwise simulate`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import rich_click as click

from sumwise.cli import options
from sumwise.cli.design_options import noise_options, numbers, pool_size, size_options
from sumwise.cli.options import gathered, option
from sumwise.cli.output import show, show_json, show_table, talk
from sumwise.cli.progress import progress_bar
from sumwise.data.dialect import Reading
from sumwise.data.pool_rules import PoolRules, read_rules
from sumwise.distributed import runs_on
from sumwise.errors import SettingError
from sumwise.experiments import simulate as experiment
from sumwise.experiments.comparison import number_format, savings, standings
from sumwise.experiments.datasets import Labelled, read_labelled
from sumwise.experiments.pooled import DESIGNED, as_json, in_words
from sumwise.experiments.protocol import QUERIES, Experiment
from sumwise.experiments.simulation_page import (
    caveats,
    in_the_end_table,
    measures,
    results_table,
    simulation_page,
)
from sumwise.report.page import check_folder, save_page
from sumwise.util.text import count


@dataclass(frozen=True, slots=True)
class Design:
    """What designed pools may be, as it was typed."""

    design: bool
    size: str | None
    uses: int | None
    pool_noise_std: str | None
    pool_noise_std_per_member: str | None

    @property
    def rules(self) -> PoolRules | None:
        """None without --design."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        if not given.pop("design"):
            for name in given:
                typed = name.replace("_", "-")
                raise click.UsageError(f"--{typed} describes designed pools; add --design")
            return None
        size = None if self.size is None else pool_size(self.size)
        noise = {name: text for name, text in given.items() if name.startswith("pool_")}
        return read_rules(0, None, {"size": size, "uses": self.uses, **numbers(noise)})


@options.command(
    click.argument("data", type=options.PATH),
    options.by_columns,
    option("--y COLUMN", "Target column, known for every row.", required=True),
    options.x,
    options.without,
    options.reading(),
    option(
        "--weights sum|mean",
        "What measuring a set gives.",
        type=click.Choice(experiment.WEIGHTS),
        default="sum",
    ),
    *options.exposure,
    options.outputs,
    option(
        "--methods NAME",
        f"Strategy to compare; may be repeated: {', '.join(experiment.STRATEGIES)}. Default: all. "
        "Rand is always included.",
        type=click.Choice(experiment.STRATEGIES),
        multiple=True,
    ),
    option(
        "--cost COLUMN",
        "Column with what measuring a set costs, the same in all of its rows. Strategies whose "
        "scores are gains then choose by gain per cost, and errors are compared at equal costs.",
    ),
    option(
        "--design",
        "Compare pools by design with the groups as they are, random pools and single individuals, "
        "instead of strategies.",
    ),
    *size_options,
    *noise_options,
    options.count(
        "--splits",
        "Number of random splits into training and test sets; more reduce the influence of chance.",
        experiment.SPLITS,
    ),
    options.count(
        "--queries",
        f"Number of sets to measure in each split. Default: {QUERIES}, or all training sets.",
    ),
    options.jobs,
    options.dask,
    option("--out FILE", "File for the report.", type=options.FILE, default="simulation.html"),
    options.force,
    options.as_json,
    gathered("design", Design),
)
def simulate(
    data: Path,
    by: tuple[str, ...],
    y: str,
    x: tuple[str, ...],
    without: tuple[str, ...],
    weights: str,
    methods: tuple[str, ...],
    design: Design,
    splits: int,
    queries: int | None,
    jobs: int,
    dask: str | None,
    out: Path,
    force: bool,
    reading: Reading,
    outputs: str,
    exposure: str | None,
    trials: str | None,
    cost: str | None,
) -> None:
    """Find out which strategy wins on data like yours.

    DATA is a table (CSV, Parquet, Excel, GeoJSON or GeoPackage) in which every individual's target
    is known. Each strategy learns from totals of sets only, and is tested on the individuals of
    held-out sets. Prints which strategy wins, by how much, how many measurements it saves
    compared with random choice, and whether the model beats guessing the mean. Writes a report
    that opens in any browser, offline. With --design, it says what pools by design would save.

    \b
      sumwise simulate schools.csv --by district --y math4
      sumwise simulate schools.csv --by district --y math4 --methods IVR --methods AggMI
      sumwise simulate fields.parquet --by state --y yield --x rain --x soil
      sumwise simulate schools.csv --by district --y math4 --cost hours
      sumwise simulate areas.csv --by county --y deaths --outputs counts --exposure population
      sumwise simulate serum.csv --by clinic --y titre --design --size 1-10 --uses 1
    """
    _refuse_to_overwrite(out, data, force)  # before the work, not after it
    column, said = options.theta_column(weights, exposure, trials)
    counted = None if said is None else (column, said)
    table = read_labelled(data, by, y, x, without, reading, counted, cost)
    chosen, rules = methods or None, design.rules
    plan = experiment.experiment(table, chosen, splits, queries, weights, outputs, rules)
    talk(_intro(table, plan))
    click.echo(err=True)
    with runs_on(dask, jobs) as jobs, progress_bar("simulating") as on_progress:
        result = experiment.run(plan, experiment.splits_of(table), jobs, on_progress)
    page = simulation_page(table, plan, result)
    _refuse_to_overwrite(out, data, force)
    save_page(page, out)
    show_json(_as_json(table, plan, result, out, outputs))
    _show_result(table, plan, result, out)


def _refuse_to_overwrite(out: Path, data: Path, force: bool) -> None:
    check_folder(out.parent)
    if out.exists() and data.exists() and out.samefile(data):
        raise SettingError(f"{out} is the input file itself; name another file with --out")
    if out.exists() and not force:
        raise SettingError(f"{out} exists; name another file with --out, or pass --force")


# --- words --------------------------------------------------------------------------------------


def _intro(table: Labelled, plan: Experiment) -> str:
    learned = experiment.training_groups(table)
    text = (
        f"{len(table.data.y):,} individuals in {table.n_groups:,} groups by {', '.join(table.by)}; "
        f"target {table.y}; inputs {', '.join(table.x)}."
    )
    if table.left_out:
        reasons = (f"{name} ({reason})" for name, reason in table.left_out.items())
        text += f" Left out: {', '.join(reasons)}."
    if plan.columns[0] == DESIGNED:
        return (
            f"{text} In each of {count(plan.splits, 'split')}, {plan.queries} measurements each "
            f"are made of designed pools ({in_words(plan.rules)}), given groups, random pools and "
            f"individuals, among the individuals of {learned:,} groups. Those of the other "
            f"{table.n_groups - learned:,} are the test."
        )
    return (
        f"{text} In each of {count(plan.splits, 'split')}, {len(plan.methods)} strategies "
        f"{measures(plan, learned)}, one at a time, and are tested on the individuals "
        f"of the other {table.n_groups - learned:,}."
    )


def _show_result(
    table: Labelled, plan: Experiment, result: experiment.Simulation, out: Path
) -> None:
    number, found = number_format(result.errors), result.verdict
    show()
    show(f"Error of {table.y} (root mean square), lowest average first")
    table_of = results_table(result)
    show_table(table_of.columns, table_of.rows, table_of.columns[1:], table_of.bold, show_edge=True)
    guess, same = number(result.guess_error), "mean" if result.usual == "mean" else "same rate"
    show(
        f"For scale: predicting the {same} for everyone is off by {guess}."
        + (
            f" ± is one standard error over {plan.splits} splits."
            if plan.splits > 1 and not result.designs
            else ""
        )
    )
    show()
    show(f"{found.headline}. {' '.join(found.sentences)}", bold=True)
    show()
    show("Means of groups, and what 90 % intervals cover")
    ends = in_the_end_table(result)
    show_table(ends.columns, ends.rows, ends.columns[1:], ends.bold, show_edge=True)
    show()
    for caveat in caveats(table, plan, result):
        show(f"- {caveat}")
    show()
    show(f"Report: {out}", wrap=False)
    show(f"Simulating took {result.seconds:.1f} s.")


def _as_json(
    table: Labelled, plan: Experiment, result: experiment.Simulation, out: Path, outputs: str
) -> dict[str, Any]:
    found = result.verdict
    plan_of = {name: getattr(plan, name) for name in ("splits", "queries", "weights")}
    plan_of["outputs"] = outputs
    plan_of["budget"] = plan.budget
    if result.designs:
        compared = as_json(result.errors, plan.rules)
    else:
        saved = {"strategy": found.focus, "table": savings(result.errors, found.focus)}
        compared = {"strategies": standings(result.errors), "savings": saved}
    return {
        "data": table.file,
        **{name: getattr(table, name) for name in ("by", "y", "x")},
        "left_out": list(table.left_out),
        "individuals": len(table.data.y),
        "groups": table.n_groups,
        "training_groups": experiment.training_groups(table),
        "plan": {"methods": plan.columns, **plan_of},
        **compared,
        "verdict": found,
        "caveats": caveats(table, plan, result),
        "in_the_end": result.in_the_end,
        "guess_error": result.guess_error,
        "errors": result.errors,
        "report": out,
        "seconds": result.seconds,
    }
