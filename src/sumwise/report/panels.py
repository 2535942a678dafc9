"""What a study has learned: five panels, each rows, words and a chart that draws the rows.

The report and the labelling page show the same panels. A panel that has too little to show has no
chart and says in words what is missing. Ids come from users: they are shortened, and never a
field name or part of an expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from sumwise.acquisition.strategies import ACQUISITIONS
from sumwise.learning.insight import WINDOW, Compared, Insight
from sumwise.learning.left_out import FEWEST
from sumwise.learning.propose import NewPool
from sumwise.model.calibration import headline, percent
from sumwise.report import theme
from sumwise.report.curves import Rows, label_rows, named_lines
from sumwise.report.page import Section, TextTable
from sumwise.report.theme import COLOURS, DASHES, GREY, channels, chart_of, finish, tooltips
from sumwise.util.shapes import Float
from sumwise.util.text import NONE, figure, label

Row = dict[str, Any]

MOST: Final = 1000  # answers drawn one by one
FEW: Final = 10  # answers below which shares of them are not drawn
FEW_ROWS: Final = 10  # of a table beside a chart
LONG: Final = 40  # characters of an id in a table
MOST_NAMED: Final = 50  # members of a pool in a sentence
BAR: Final = 34  # height of a row of bars
ERROR, EVERYONE, SPREAD = "forecast error", "same for everyone", "uncertainty"
LINES: Final = {  # of progress: colour and dashes
    ERROR: (COLOURS[1], DASHES[1]),
    EVERYONE: (GREY, DASHES[2]),
    SPREAD: (COLOURS[0], DASHES[0]),
}
INSIDE, OUTSIDE = "inside", "outside"
PERCENT: Final = "format(100 * datum.value, '.3~g') + ' %'"


def study_panels(insight: Insight) -> list[Section]:
    """All five, in the order in which a reader wants them."""
    return [panel(insight) for panel in PANELS.values()]


def progress(insight: Insight) -> Section:
    """After each answer but the first: uncertainty of individuals, typical errors of forecasts."""
    title = "Progress"
    rows: list[Row] = [
        {
            "answer": step.number,
            "set": label(step.set_id),
            SPREAD: step.individual_std,
            ERROR: step.typical_error,
            EVERYONE: step.typical_naive_error,
        }
        for step in insight.steps[1:]  # one answer alone does not tell how outputs spread
    ]
    if len(insight.steps) < FEWEST:
        return Section(title, [_needs("How the error falls shows", insight)], rows=rows)
    about, per, usual = insight.status.about, insight.status.per, insight.status.usual
    now = about.per_exposure(figure(insight.typical_error or 0.0))
    if insight.by_forecast:
        said = f"Forecasts are off by {now} per {per}"
        how = f"Over the last {WINDOW} answers."
        then = ""
    else:
        where = f"in a {_thing(insight)}'s {usual}" if per == "individual" else f"per {per}"
        said = f"Half of the predictions are off by less than {now} {where}"
        how = "By the current model, which predicts each answer from all the others."
        then = (
            "The lines show forecasts that were made when less was known; the heading describes "
            "the current model. "
        )
    noise = about.per_exposure(figure(insight.steps[-1].noise_std))
    of = "" if about.outputs == "numbers" else f"'s {usual}"
    words = [
        f"Before each answer the model forecasts it. “{ERROR.capitalize()}” is the typical error "
        f"of these forecasts over the last {WINDOW} answers; “{EVERYONE}” is that of predicting "
        f"the {usual} so far for every individual. {then}",
        f"Errors are those of a {_thing(insight)}'s {usual}: errors of its individuals are larger, "
        "and cancel in part.",
        f"“{SPREAD.capitalize()}” is the model's average uncertainty about an "
        f"individual{of}; the individuals' own noise, {noise} by the latest estimate, "
        "is not in it; only answers about its own set reduce that. Uncertainty may also rise: the "
        "model's settings are estimated anew with every answer, and a surprise makes it less sure.",
    ]
    naive = about.per_exposure(figure(insight.typical_naive_error or 0.0))
    against = f"The same for everyone would be off by {naive}."
    off = ("error or uncertainty" if per == "individual" else f"per {per}") + about.in_unit
    chart = _progress_chart(rows, said, [how, against], off)
    return Section(title, words, [chart], _progress_table(rows), rows)


def _progress_chart(rows: Rows, title: str, subtitle: Sequence[str], off: str) -> Any:
    """Lines of error and uncertainty, each with its name at its end."""
    import altair as alt

    points = [
        {"answer": row["answer"], "set": row["set"], "strategy": name, "mean": row[name]}
        for name in LINES
        for row in rows
    ]
    top = 1.05 * max(point["mean"] for point in points) or 1.0
    names = label_rows([{**point, "low": 0.0, "high": top} for point in points])
    first, last = rows[0]["answer"], rows[-1]["answer"]
    x = theme.count_axis("answer:Q", "answers", (first, last), last, padding=8)
    highest = max(top, *(name["place"] for name in names))
    y = alt.Y("mean:Q", title=off).axis(gridOpacity=0.5)
    y = y.scale(domain=[0, highest], nice=False)
    tooltip = tooltips(
        ("strategy:N", "what"),
        ("mean:Q", off, ",.4~g"),
        ("answer:Q", "after answer"),
        ("set:N", "of set"),
    )
    colour, dash = channels((alt.Color, alt.StrokeDash), "strategy:N", LINES)
    lines = chart_of(points, "progress").encode(x, y, colour)
    layers = named_lines(lines, dash, tooltip, names, points=len(rows) <= theme.MOST_POINTS)
    return finish(alt.layer(*layers), title, subtitle, height=theme.HEIGHT, wide=True)


def _progress_table(rows: Sequence[Row]) -> TextTable:
    """The first, the last, and some in between."""
    some = np.unique(np.linspace(0, len(rows) - 1, FEW_ROWS).round().astype(int))
    shown = [rows[at] for at in some]
    cells = [(f"{row['answer']:,}", *(figure(row[name]) for name in LINES)) for row in shown]
    return TextTable(("after answer", *LINES), cells)


def information(insight: Insight) -> Section:
    """What each answer taught, in nats."""
    import altair as alt

    title = "Information per answer"
    status = insight.status
    rows: list[Row] = [
        {"answer": step.number, "set": label(step.set_id), "information": step.information}
        for step in insight.steps
    ]
    left = status.sets - status.answers - status.skipped
    every = "every individual" if status.alone else f"all {left:,} sets that are left"
    still = (
        f"Measuring {every} would teach about {figure(status.information_left)} nats more."
        if left or status.alone
        else "Nothing is left to measure."
    )
    if len(rows) < FEWEST:
        return Section(title, [_needs("What answers teach shows", insight), still], rows=rows)
    words = (
        "How much an answer narrows down what the individuals may be, in nats: at 0.7 nats it "
        "halves what was possible. It is judged by the model before the answer, so it does not "
        "depend on the value measured."
    )
    last = rows[-1]["answer"]
    x = theme.count_axis("left:Q", "answers", (0.4, last + 0.6), last)
    y = alt.Y("information:Q", title="nats").axis(gridOpacity=0.5, tickCount=5)
    tooltip = tooltips(
        ("answer:Q", "answer"), ("set:N", "set"), ("information:Q", "taught, in nats", ".3~g")
    )
    bars = [{**row, "left": row["answer"] - 0.4, "right": row["answer"] + 0.4} for row in rows]
    chart = chart_of(bars, "information").mark_rect(color=COLOURS[0])
    chart = chart.encode(x, alt.X2("right:Q"), y, alt.Y2Datum(0), tooltip=tooltip)
    chart = finish(chart, "What each answer taught", [still], height=200, wide=True)
    return Section(title, [words], [chart], rows=rows)


def predicted(insight: Insight) -> Section:
    """Each answer beside what is predicted without knowing it."""
    title = "Predicted and answered"
    rows = _predicted_rows(insight)
    if insight.status.answers < FEWEST:
        said = _needs("How answers compare with predictions shows", insight)
        return Section(title, [said], rows=rows)
    words = (
        f"{insight.by_forecast} Each answer is compared with the forecast made before it."
        if insight.by_forecast
        else "Each answer is compared with what the model predicts for it from all the others, "
        "with the settings it has now."
    )
    words += (
        " On the line they agree. An answer far outside may be mistyped, or its "
        f"{_thing(insight)} unlike the others."
    )
    if len(rows) < len(insight.compared):
        words += (
            f" Of {len(insight.compared):,} answers {len(rows):,} are drawn, the farthest among "
            "them."
        )
    n, outside = len(insight.compared), sum(row.outside for row in insight.compared)
    level = percent(insight.level)
    more = "At least about" if insight.status.about.is_whole else "About"
    chart = _predicted_chart(
        rows,
        f"{n - outside} of {n} answers lie in their {level} interval",
        [f"{more} {insight.level * n:.0f} should."],
        level=level,
        per=("" if insight.unit is None else f" per {insight.unit}") + insight.status.about.in_unit,
        word=insight.status.about.word,
    )
    return Section(title, [words], [chart], rows=rows)


def _predicted_rows(insight: Insight) -> list[Row]:
    """Each answer and what is predicted without knowing it, per unit of weight if there is one.

    Beyond `MOST` answers, those far from their prediction and an evenly spaced subset of the rest.
    """
    rows = []
    for row in _thinned(insight.compared):
        weight = 1.0 if insight.unit is None else row.weight
        names = ("answer", "predicted", "lower", "upper")
        each = {name: getattr(row, name) / weight for name in names}
        side = OUTSIDE if row.outside else INSIDE
        total = {insight.status.about.word: row.answer, "z": row.z, "interval": side}
        rows.append({"set": label(row.set_id), **each, **total})
    return rows


def _thinned(rows: Sequence[Compared]) -> Sequence[Compared]:
    if len(rows) <= MOST:
        return rows
    half = MOST // 2
    farthest_first = np.argsort([-abs(row.z) for row in rows], kind="stable")
    rest = np.sort(farthest_first[half:])
    kept = np.sort([*farthest_first[:half], *rest[:: -(-len(rest) // half)]])
    return [rows[at] for at in kept]


def _predicted_chart(
    rows: Rows, title: str, subtitle: Sequence[str], *, level: str, per: str, word: str
) -> Any:
    """Predictions with intervals against answers; those outside stand out in colour and shape."""
    import altair as alt

    low = min(min(row["answer"], row["lower"]) for row in rows)
    high = max(max(row["answer"], row["upper"]) for row in rows)
    margin = 0.03 * (high - low) or 1.0
    ends = [low - margin, high + margin]
    scale = alt.Scale(domain=ends, nice=False, zero=False)
    axis = alt.Axis(gridOpacity=0.5, tickCount=6)
    x = alt.X("answer:Q", title=f"answered{per}", scale=scale, axis=axis)
    y = alt.Y("predicted:Q", title=f"predicted without knowing it{per}", scale=scale, axis=axis)
    inside, outside = (f"{side} the {level} interval" for side in (INSIDE, OUTSIDE))
    values = [{**row, "side": outside if row["interval"] == OUTSIDE else inside} for row in rows]
    looks = {inside: (COLOURS[0], "circle"), outside: (COLOURS[1], "diamond")}
    legend = alt.Legend(title=None, orient="top", labelFontSize=13, symbolOpacity=1, labelLimit=300)
    colour, shape = channels((alt.Color, alt.Shape), "side:N", looks, legend)
    tooltip = tooltips(
        ("set:N", "set"),
        (f"{word}:Q", "answer", ",.6~g"),
        ("answer:Q", f"answered{per}", ",.4~g"),
        ("predicted:Q", "predicted", ",.4~g"),
        ("lower:Q", f"{level} interval from", ",.4~g"),
        ("upper:Q", "to", ",.4~g"),
        ("z:Q", "standard deviations off", ".2f"),
    )
    base = chart_of(values, "predicted").encode(x, colour)
    point = base.mark_point(filled=True, size=70, opacity=1, stroke="white", strokeWidth=0.5)
    layers = [
        _diagonal(ends),
        base.mark_rule(strokeWidth=1.5, opacity=0.55).encode(y="lower:Q", y2="upper:Q"),
        point.encode(y, shape, tooltip=tooltip),
    ]
    return finish(alt.layer(*layers), title, subtitle, height=420, wide=True)


def calibration(insight: Insight) -> Section:
    """Shares of answers in intervals that were made for a share, with what chance allows."""
    import altair as alt

    title = "Are the intervals right?"
    names = ("level", "share", "low", "high", "inside", "answers")
    rows = [{name: getattr(row, name) for name in names} for row in insight.calibration]
    if len(insight.compared) < FEW:
        return Section(title, [insight.trust, f"A chart follows from {FEW} answers on."], rows=rows)
    words = (
        "How many answers lie in the interval that the model gives for them without knowing them. "
        "On the line intervals hold what they promise, below it they are too narrow. Bars are what "
        "chance allows for so few answers (95 %)."
    )
    if insight.status.about.is_whole:
        words += (
            " A whole number is spread evenly over its unit, so an answer at the end of its "
            "interval may count as outside."
        )
    levels = [row.level for row in insight.calibration]
    begin = 0.4 if min(levels) >= 0.4 else 0.0
    x = alt.X("level:Q", title="share of answers that intervals are made for")
    x = x.scale(domain=[begin, 1.0], nice=False)
    x = x.axis(values=levels, labelExpr=PERCENT, grid=False, labelOverlap=True)
    y = alt.Y("share:Q", title="share that lies inside").scale(domain=[0, 1], nice=False)
    y = y.axis(labelExpr=PERCENT, gridOpacity=0.5, tickCount=6)
    tooltip = tooltips(
        ("level:Q", "made for", ".3~%"),
        ("share:Q", "inside", ".3~%"),
        ("inside:Q", "answers inside"),
        ("answers:Q", "of"),
        ("low:Q", "by chance from", ".0%"),
        ("high:Q", "to", ".0%"),
    )
    base = chart_of(rows, "calibration").encode(x, tooltip=tooltip)
    chart = alt.layer(
        _diagonal([begin, 1.0]),
        base.mark_rule(color=COLOURS[0], strokeWidth=2.5).encode(y="low:Q", y2="high:Q"),
        base.mark_point(filled=True, size=110, opacity=1, color=COLOURS[0]).encode(y),
    )
    found = insight.status.about.worded(headline(insight.calibration, insight.level))
    chart = finish(chart, found, [], height=260, wide=True)
    cells = [
        (
            percent(row.level),
            f"{row.inside} of {row.answers}",
            f"{100 * row.share:.0f} %",
            f"{100 * row.low:.0f} to {100 * row.high:.0f} %",
        )
        for row in insight.calibration
    ]
    table = TextTable(("made for", "answers inside", "share", "chance allows"), cells)
    return Section(title, [insight.trust, words], [chart], table, rows)


def _diagonal(ends: Sequence[float]) -> Any:
    line = chart_of([{"at": end} for end in ends], "diagonal").encode(x="at:Q", y="at:Q")
    return line.mark_line(color=GREY, strokeWidth=1.5, strokeDash=[2, 3])


def questions(insight: Insight) -> Section:
    """A bar for each question of what ranks it, and a mark for its runner-up."""
    import altair as alt

    title, priced = "What to ask next", any(ask.cost for ask in insight.next_questions)
    rows: list[Row] = [
        {
            "question": f"{rank}. {label(question.set_id)}",
            "score": question.score_per_cost if priced else question.score,
            "information": question.information,
            "expected": question.expected,
            "std": question.std,
            "runner-up": NONE if question.runner_up is None else label(question.runner_up),
            "second": question.runner_up_score_per_cost if priced else question.runner_up_score,
        }
        for rank, question in enumerate(insight.next_questions, start=1)
    ]
    if not rows:
        why = "Every set is measured, being measured or skipped; nothing is free to ask."
        if insight.status.candidates:
            why = "No other pool can be designed of the individuals who are left."
        return Section(title, [why])
    words = "The next questions, each as if those above it and all open ones were answered."
    if not insight.status.answers:
        words += " Nothing is measured yet, so the expected answers are only guesses."
    ranked = _ranked_by(insight.status.strategy) + (", per unit of cost" if priced else "")
    y = alt.Y("question:N", title=None, sort=[row["question"] for row in rows])
    y = y.axis(labelFontSize=13, labelLimit=260, ticks=False, domain=False)
    x = alt.X("score:Q", title=ranked).axis(gridOpacity=0.5, tickCount=6)
    tooltip = tooltips(
        ("question:N", "set"),
        ("score:Q", ranked, ".3~g"),
        ("information:Q", "expected to teach, in nats", ".3~g"),
        ("expected:Q", "expected answer", ",.4~g"),
        ("std:Q", "give or take", ",.3~g"),
        ("runner-up:N", "runner-up"),
        ("second:Q", "which has", ".3~g"),
    )
    base = chart_of(rows, "questions").encode(y, tooltip=tooltip)
    layers = [base.mark_bar(color=COLOURS[0], height=18).encode(x)]
    marked = rows[0]["second"] is not None
    if marked:
        tick = base.mark_tick(color=COLOURS[1], thickness=4, size=26, opacity=1)
        layers.append(tick.encode(x="second:Q"))
    chart = finish(
        alt.layer(*layers),
        "What ranks the next questions",
        ["Marks: the runner-up of each."] if marked else [],
        height=BAR * len(rows),
        wide=True,
    )
    return Section(title, [words], [chart], _question_table(insight), rows)


def _ranked_by(name: str) -> str:
    """What the scores of a strategy are."""
    strategy = ACQUISITIONS.get(name)  # None of a user's own function
    if strategy is not None and strategy.is_information:
        return "expected to teach, in nats"
    return "taken off the mean variance of predictions" if name == "IVR" else f"score by {name}"


def _question_table(insight: Insight) -> TextTable:
    known = insight.status.answers > 0
    cells = [
        (
            str(rank),
            label(asked.set_id, LONG),
            f"{figure(asked.expected, 4)} ± {figure(asked.std)}" if known else NONE,
            figure(asked.information),
            NONE if asked.runner_up is None else label(asked.runner_up, LONG),
            asked.why if asked.pool is None else f"{_together(asked.pool)} {asked.why}",
        )
        for rank, asked in enumerate(insight.next_questions, start=1)
    ]
    return TextTable(("", "set", "expected answer", "teaches (nats)", "runner-up", "why"), cells)


def _together(pool: NewPool) -> str:
    few = [label(name) for name in pool.members[:MOST_NAMED]]
    more = len(pool.members) - len(few)
    return f"Together: {', '.join(few)}{f' and {more} more' if more else ''}."


def _thing(insight: Insight) -> str:
    """What is measured."""
    return "pool" if insight.status.alone else "set"


def _needs(what: str, insight: Insight) -> str:
    answers = insight.status.answers
    have = {0: "there are none yet", 1: "there is 1"}.get(answers, f"there are {answers}")
    return f"{what} from {FEWEST} answers on; {have}."


PANELS: Final = {  # by the names that the labelling page has for them
    "progress": progress,
    "information": information,
    "predicted": predicted,
    "calibration": calibration,
    "next": questions,
}


def spending(insight: Insight, costs: Float[np.ndarray, " t"]) -> Section:
    """A row for each answer: what it cost, what was spent by then, and what had been learned.

    Args:
        costs: Of all answers, in order of arrival.
    """
    spent = np.cumsum(costs)
    taught = np.cumsum([step.information for step in insight.steps])
    complete = len(insight.steps) >= len(costs)  # a sum over some of the answers would say nothing
    rows = [
        (
            f"{step.number}",
            label(step.set_id),
            figure(float(costs[step.number - 1])),
            figure(float(spent[step.number - 1])),
            figure(float(known)) if complete else NONE,
            f"± {figure(step.individual_std)}",
        )
        for step, known in zip(insight.steps, taught, strict=True)
        if step.number <= len(costs)  # others have arrived since the costs were read
    ]
    words = (
        "Information is what the answers taught, in nats, added up; uncertainty is that of a "
        "prediction without its own noise, as a standard deviation."
    )
    heads = ("answer", "set", "cost", "spent by then", "information by then", "uncertainty left")
    return Section("What the money has bought", [words], table=TextTable(heads, rows))
