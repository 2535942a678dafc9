"""The report of a simulation: the verdict first, then what it rests on.

It holds no date, time or path, so the same table and settings give the same page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from sumwise.acquisition.strategies import ACQUISITIONS
from sumwise.experiments import comparison, pooled
from sumwise.experiments.comparison import RANDOM, ROUNDING, Standing, Verdict
from sumwise.experiments.datasets import Labelled
from sumwise.experiments.protocol import Experiment
from sumwise.experiments.simulate import Simulation, training_groups
from sumwise.report.curves import SIDES, differences, how_averaged, learning_curves
from sumwise.report.page import Section, TextTable, page, versions
from sumwise.util.text import NONE, count, label

FEW_GROUPS: Final = 25
HARDLY: Final = 0.95  # of the error of a guess: a model above this has hardly learned


def simulation_page(table: Labelled, plan: Experiment, simulation: Simulation) -> str:
    """One HTML page that needs no network."""
    found, errors = simulation.verdict, simulation.errors
    if simulation.designs:
        measured, asked = "What is measured", pooled.ASKED
        compared = [
            Section("Designed pools and other ways to measure", table=pooled.ways_table(errors)),
            pooled.errors_section(errors),
        ]
    else:
        measured = "What each strategy asks for"
        asked = {name: ACQUISITIONS[name].asks_for for name in plan.columns}
        compared = [
            _against_random(table, comparison.standings(errors), found),
            _saved(simulation, found),
            Section("All strategies", table=strategy_table(simulation)),
        ]
    sections = [
        curves_section(table, plan, simulation, found),
        *compared,
        Section("Group means and intervals", table=in_the_end_table(simulation)),
        Section("Before you rely on this", caveats(table, plan, simulation)),
        _what_was_done(table, plan),
        Section(measured, table=TextTable(("", ""), [*asked.items()])),
    ]
    title = f"Simulation on {table.file}: {found.headline}"
    return page(title, " ".join(found.sentences), sections)


def curves_section(
    table: Labelled, plan: Experiment, simulation: Simulation, found: Verdict
) -> Section:
    """Errors after each measurement."""
    lit = list(dict.fromkeys((found.subject, RANDOM, found.best)))
    lit = list(plan.columns) if simulation.designs else lit
    others, usual = len(plan.methods) - len(lit), simulation.usual
    rate = "" if usual == "mean" else f"{usual} "
    chart = learning_curves(
        simulation.errors,
        lit=lit,
        wide=True,
        title=found.headline,
        subtitle=[f"Error of an individual's prediction; {how_averaged([plan.splits], 'split')}."],
        x_title=_x_title(simulation),
        step=simulation.scale.step,
        y_title=f"error of {label(table.y, 40)} (RMSE)",
        reference=(f"{usual} for all", simulation.guess_error),
    )
    words = (
        f"How far off is a prediction of {label(table.y, 40)} for individuals in groups that were "
        "held back, made from the totals measured so far? The error is the root mean square, in "
        f"the unit of the column; lower is better. “{usual.capitalize()} for all” predicts the "
        f"same {rate}for everyone: the {usual} of the individuals in the groups to learn from."
    )
    if others:
        words += " The others are in grey: point at a line for its name, or see the table below."
    head = "Error by what was spent" if simulation.scale.costs else "Error after each measurement"
    return Section(head, [words], [chart])


def _x_title(simulation: Simulation) -> str:
    if simulation.scale.costs:
        return "cost of all measurements so far"
    return "measurements" if simulation.designs else "groups measured"


def in_the_end_table(simulation: Simulation) -> TextTable:
    """Errors of group means, and what intervals cover, after the last measurement."""
    show = comparison.number_format(simulation.errors)
    found = simulation.in_the_end
    order = sorted(found, key=lambda method: found[method].group_error)
    rows = [
        (
            method,
            show(found[method].group_error),
            f"{found[method].group_covered:.0%}",
            f"{found[method].covered:.0%}",
            *([f"{found[method].measurements:.1f}"] if simulation.scale.costs else []),
        )
        for method in order
    ]
    columns = (
        "measured" if simulation.designs else "strategy", "error of\ngroup means",
        "group means\nin 90 % intervals", "individuals\nin 90 % intervals",
        *(["measurements"] if simulation.scale.costs else []),
    )  # fmt: skip
    caption = (
        "After the last measurement, of groups that were held back: the root mean square error of "
        "the mean of a group's individuals, and the shares of group means and of individuals that "
        "lie in their 90 % intervals. Shares well below 90 % mean that the model is too certain."
    )
    return TextTable(columns, rows, caption, frozenset({(0, 0), (0, 1)}))


def _against_random(table: Labelled, lines: Sequence[Standing], found: Verdict) -> Section:
    rows = [
        {"strategy": line.method, **asdict(gap), "side": SIDES[1 + gap.sign]}
        for line in lines
        if (gap := line.difference) is not None
    ]
    bars = "one split gives no intervals" if rows[0]["low"] is None else "bars are 95 % intervals"
    chart = differences(
        rows,
        title="Average error, compared with Random split by split",
        subtitle=[f"To the left of zero is better; {bars}."],
        x_title=f"difference to Random in the error of {label(table.y, 40)}",
    )
    words = (
        "Within a split all strategies have the same groups and the same model to start from, so "
        "what is compared is the difference within each split, averaged over all measurements."
    )
    if len(rows) > 1 and found.outcome != "unknown":
        words += (
            f" With {len(rows)} intervals at 95 %, one may miss zero by luck; the verdict allows "
            "for that."
        )
    return Section("Compared with Random", [words], [chart])


def _saved(simulation: Simulation, found: Verdict) -> Section:
    errors = simulation.errors
    asked, show = errors[RANDOM].shape[1], comparison.number_format(errors)
    method, scale = found.focus, simulation.scale
    rows = [
        (
            scale.amount(s.query),
            show(s.error),
            scale.needed(s.random_needs, asked),
            show(s.random_error),
            scale.needed(s.needs, asked),
        )
        for s in comparison.savings(errors, method)
    ]
    columns = (
        "spent" if scale.costs else "measurements", f"error of {method}", "Random needs for it",
        "error of Random", f"{method} needs for it",
    )  # fmt: skip
    caption = (
        f"{'What' if scale.costs else 'How many measurements'} does Random need for the error "
        f"of {method}, and {method} for Random's? From the mean curves; Random is credited "
        f"with the first time it gets there, {method} with the time from which it stays there."
    )
    title = "Costs saved" if scale.costs else "Measurements saved"
    return Section(title, table=TextTable(columns, rows, caption))


def results_table(simulation: Simulation) -> TextTable:
    """How each strategy, or each way to measure, did."""
    if simulation.designs:
        return pooled.ways_table(simulation.errors)
    return strategy_table(simulation)


def strategy_table(simulation: Simulation) -> TextTable:
    """How each strategy did, the lowest average first."""
    errors, scale = simulation.errors, simulation.scale
    lines, show = comparison.standings(errors), comparison.number_format(errors)
    rows = []
    for line in lines:
        gap, spread = line.difference, line.standard_error
        average = show(line.average) + ("" if spread is None else f" ± {show(spread)}")
        against = random_needs = NONE
        if gap is not None:
            against = show(gap.mean) + gap.interval(show)
            random_needs = scale.needed(line.random_needs, errors[RANDOM].shape[1])
        rows.append((line.method, average, show(line.last), against, random_needs))
    lowest = min(line.last for line in lines) * ROUNDING
    last = {(row, 2) for row, line in enumerate(lines) if line.last <= lowest}
    columns = (
        "strategy", "average error", "in the\nend" if scale.costs else "after the\nlast",
        "difference to Random\n(95 % interval)", "Random needs\nfor the last",
    )  # fmt: skip
    caption = (
        "Lowest average first; bold is the lowest of a column. ± is one standard error over "
        f"splits. “Random needs”: {'costs' if scale.costs else 'measurements'} until Random has "
        "the strategy's last error."
    )
    return TextTable(columns, rows, caption, frozenset({(0, 0), (0, 1), *last}))


def caveats(table: Labelled, plan: Experiment, simulation: Simulation) -> list[str]:
    """What a reader should weigh before believing the verdict; the most serious first."""
    errors = simulation.errors
    show, most = comparison.number_format(errors), training_groups(table)
    lowest = min(float(runs[:, -1].mean()) for runs in errors.values())
    guess = simulation.guess_error
    designs, best = (
        simulation.designs,
        "the best way" if simulation.designs else "the best strategy",
    )
    found = {
        f"After the last measurement {best} is off by {show(lowest)}, and the same "
        f"{simulation.usual} for everyone by {show(guess)}. The inputs tell little about the "
        f"target, or these totals are too few; who wins then means little.": (
            lowest > HARDLY * guess
        ),
        f"{count(plan.splits, 'split')} only, so the intervals are rough; run {comparison.FEW} or "
        "more.": plan.splits < comparison.FEW,
        f"{table.n_groups} groups only: {most} to learn from and {table.n_groups - most} to be "
        "tested on in each split. What holds for so few groups may not hold for others.": (
            table.n_groups < FEW_GROUPS
        ),
        f"{plan.queries} of {most} groups are measured in the end, so all strategies end with "
        "much the same groups; what differs is how soon they learn.": (
            plan.queries > most / 2 and not designs and not simulation.scale.costs
        ),
        "Measurements are counted, not what they cost: some strategies prefer large groups. If a "
        "large group costs more, give its cost.": not (designs or simulation.scale.costs),
        **(dict.fromkeys(pooled.caveats(plan.rules), True) if designs else {}),
        "Splits share groups, so the intervals speak of other splits of these data, not of other "
        "data. Your next data must be like these for the verdict to carry over.": True,
    }
    return [caveat for caveat, holds in found.items() if holds]


def measures(plan: Experiment, groups: int) -> str:
    """What each strategy does, in words."""
    if plan.budget is None:
        return f"measure {plan.queries} of {groups:,} groups"
    return f"spend {plan.budget:,.4g} each on measuring some of {groups:,} groups"


def _what_was_done(table: Labelled, plan: Experiment) -> Section:
    learned = training_groups(table)
    designs = plan.columns[0] == pooled.DESIGNED
    pools = [("pools", pooled.in_words(plan.rules))] if designs else []
    of = "group or pool, or that of one individual" if designs else "group"
    told = "totals are measured" if designs else "are measured"
    measured = str(plan.queries)
    if plan.budget is not None:
        measured = f"as many as {plan.budget:,.4g} pays for"
    rows = [
        ("data", f"{table.file}: {len(table.data.y):,} individuals in {table.n_groups:,} groups"),
        ("groups", f"by {', '.join(table.by)}"),
        ("target", table.y),
        ("inputs", ", ".join(table.x)),
        ("left out", ", ".join(table.left_out) or "none"),
        (
            "protocol",
            f"{count(plan.splits, 'split')}; in each, {learned:,} groups to learn from, of which "
            f"{measured} {told}, and the individuals of {table.n_groups - learned:,} "
            "other groups to be tested on",
        ),
        *pools,
        ("a measurement tells", f"the {plan.weights} of the target over a {of}, and nothing else"),
        (
            "model",
            "the library's default, basis 'auto': linear parts and waves of several length-scales, "
            "weighed by evidence after each measurement, as are λ and β",
        ),
        ("seeds", "fixed by the number of the split and the name of the strategy"),
        versions(),
    ]
    return Section("What was done", table=TextTable(("", ""), rows))
