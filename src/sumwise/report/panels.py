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
from sumwise.learning.insight import FEWEST, WINDOW, Compared, Insight
from sumwise.model.calibration import FEW, headline, percent
from sumwise.report import panel_charts as draw
from sumwise.report.page import Section, TextTable
from sumwise.report.panel_charts import ERROR, EVERYONE, INSIDE, OUTSIDE, SPREAD
from sumwise.util.shapes import Float
from sumwise.util.text import NONE, figure, label

Row = dict[str, Any]

MOST: Final = 1000  # answers drawn one by one
FEW_ROWS: Final = 10  # of a table beside a chart
LONG: Final = 40  # characters of an id in a table


# --- rows -----------------------------------------------------------------------------------------


def progress_rows(insight: Insight) -> list[Row]:
    """After each answer but the first: uncertainty of individuals, typical errors of forecasts."""
    return [
        {
            "answer": step.number,
            "set": label(step.set_id),
            SPREAD: step.individual_std,
            ERROR: step.typical_error,
            EVERYONE: step.typical_naive_error,
        }
        for step in insight.steps[1:]  # one answer alone does not tell how outputs spread
    ]


def information_rows(insight: Insight) -> list[Row]:
    """What each answer taught, in nats."""
    return [
        {"answer": step.number, "set": label(step.set_id), "information": step.information}
        for step in insight.steps
    ]


def predicted_rows(insight: Insight) -> list[Row]:
    """Each answer and what is predicted without knowing it, per unit of weight if there is one.

    Beyond `MOST` answers, those far from their prediction and an evenly spaced subset of the rest.
    """
    rows = []
    for row in _thinned(insight.compared):
        weight = row.weight if insight.unit is not None else 1.0
        rows.append(
            {
                "set": label(row.set_id),
                "answer": row.answer / weight,
                "predicted": row.predicted / weight,
                "lower": row.lower / weight,
                "upper": row.upper / weight,
                "total": row.answer,
                "z": row.z,
                "interval": OUTSIDE if row.outside else INSIDE,
            }
        )
    return rows


def _thinned(rows: Sequence[Compared]) -> Sequence[Compared]:
    if len(rows) <= MOST:
        return rows
    half = MOST // 2
    farthest_first = np.argsort([-abs(row.z) for row in rows], kind="stable")
    rest = np.sort(farthest_first[half:])
    kept = np.sort([*farthest_first[:half], *rest[:: -(-len(rest) // half)]])
    return [rows[at] for at in kept]


def calibration_rows(insight: Insight) -> list[Row]:
    """Shares of answers in intervals that were made for a share."""
    names = ("level", "share", "low", "high", "inside", "answers")
    return [{name: getattr(row, name) for name in names} for row in insight.calibration]


def question_rows(insight: Insight) -> list[Row]:
    """What to ask next; `second` is the runner-up's information where scores are information."""
    by_information = ACQUISITIONS[insight.status.strategy].is_information
    return [
        {
            "question": f"{rank}. {label(question.set_id)}",
            "information": question.information,
            "expected": question.expected,
            "std": question.std,
            "runner-up": NONE if question.runner_up is None else label(question.runner_up),
            "second": question.runner_up_score if by_information else None,
        }
        for rank, question in enumerate(insight.next_questions, start=1)
    ]


# --- panels ---------------------------------------------------------------------------------------


def study_panels(insight: Insight) -> list[Section]:
    """All five, in the order in which a reader wants them."""
    return [
        progress(insight),
        information(insight),
        predicted(insight),
        calibration(insight),
        questions(insight),
    ]


def progress(insight: Insight) -> Section:
    rows, title = progress_rows(insight), "Progress"
    if len(insight.steps) < FEWEST:
        return Section(title, [_needs("How the error falls shows", insight)], rows=rows)
    last, now = insight.steps[-1], figure(insight.typical_error or 0.0)
    if insight.by_forecast:
        said, how = f"Forecasts are off by {now} per individual", f"Over the last {WINDOW} answers."
        then = ""
    else:
        said = f"Half of the predictions are off by less than {now} per individual"
        how = "By the current model, which predicts each answer from all the others."
        then = (
            "The lines show forecasts that were made when less was known; the heading describes "
            "the current model. "
        )
    words = (
        f"Before each answer the model forecasts it. “{ERROR.capitalize()}” is the typical error "
        f"of these forecasts over the last {WINDOW} answers; “{EVERYONE}” is that of predicting "
        f"the mean so far for every individual. {then}The error of a total is divided by the "
        "square root of its size, which gives that of one individual if individuals err "
        f"independently. “{SPREAD.capitalize()}” is the model's average uncertainty about an "
        f"individual; the individuals' own noise, {figure(last.noise_std)} by the latest estimate, "
        "is not in it, and no question removes that. Uncertainty may also rise: the model's "
        "settings are estimated anew with every answer, and a surprise makes it less sure."
    )
    naive = figure(insight.typical_naive_error or 0.0)
    against = f"The same for everyone would be off by {naive}."
    chart = draw.progress_chart(rows, said, [how, against])
    return Section(title, [words], [chart], _progress_table(rows), rows)


def information(insight: Insight) -> Section:
    rows, title = information_rows(insight), "Information per answer"
    status = insight.status
    left = status.sets - status.answers - status.skipped
    still = (
        f"Measuring all {left:,} sets that are left would teach about "
        f"{figure(status.information_left)} nats more."
        if left
        else "Nothing is left to measure."
    )
    if len(rows) < FEWEST:
        return Section(title, [_needs("What answers teach shows", insight), still], rows=rows)
    words = (
        "How much an answer narrows down what the individuals may be, in nats: at 0.7 nats it "
        "halves what was possible. It is judged by the model before the answer, so it does not "
        "depend on the value measured."
    )
    chart = draw.information_chart(rows, "What each answer taught", [still])
    return Section(title, [words], [chart], rows=rows)


def predicted(insight: Insight) -> Section:
    rows, title = predicted_rows(insight), "Predicted and answered"
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
        " On the line they agree. An answer far outside may be mistyped, or its set unlike the "
        "others."
    )
    if len(rows) < len(insight.compared):
        words += (
            f" Of {len(insight.compared):,} answers {len(rows):,} are drawn, the farthest among "
            "them."
        )
    n, outside = len(insight.compared), sum(row.outside for row in insight.compared)
    level = percent(insight.level)
    chart = draw.predicted_chart(
        rows,
        f"{n - outside} of {n} answers lie in their {level} interval",
        [f"About {insight.level * n:.0f} should."],
        level=level,
        per="" if insight.unit is None else f" per {insight.unit}",
    )
    return Section(title, [words], [chart], rows=rows)


def calibration(insight: Insight) -> Section:
    rows, title = calibration_rows(insight), "Are the intervals right?"
    if len(insight.compared) < FEW:
        return Section(title, [insight.trust, f"It shows from {FEW} answers on."], rows=rows)
    words = (
        "How many answers lie in the interval that the model gives for them without knowing them. "
        "On the line intervals hold what they promise, below it they are too narrow. Bars are what "
        "chance allows for so few answers (95 %)."
    )
    chart = draw.calibration_chart(rows, headline(insight.calibration, insight.level), [])
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


def questions(insight: Insight) -> Section:
    rows, title = question_rows(insight), "What to ask next"
    status = insight.status
    if not rows:
        why = "Every set is measured, being measured or skipped; nothing is free to ask."
        return Section(title, [why])
    words = "The next questions, each as if those above it and all open ones were answered."
    if not status.answers:
        words += " Nothing is measured yet, so the expected answers are only guesses."
    marks = ["Marks: the runner-up of each."] if rows[0]["second"] is not None else []
    chart = draw.question_chart(rows, "What the next answers are expected to teach", marks)
    return Section(title, [words], [chart], _question_table(insight), rows)


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


def _progress_table(rows: Sequence[Row]) -> TextTable:
    """The first, the last, and some in between."""
    step = (len(rows) - 1) / (FEW_ROWS - 1)
    some = sorted({round(i * step) for i in range(FEW_ROWS)})
    lines = (ERROR, EVERYONE, SPREAD)
    cells = [
        (
            f"{rows[at]['answer']:,}",
            *(NONE if rows[at][name] is None else figure(rows[at][name]) for name in lines),
        )
        for at in some
    ]
    return TextTable(("after answer", *lines), cells)


def _question_table(insight: Insight) -> TextTable:
    known = insight.status.answers > 0
    cells = [
        (
            str(rank),
            label(asked.set_id, LONG),
            f"{figure(asked.expected, 4)} ± {figure(asked.std)}" if known else NONE,
            figure(asked.information),
            NONE if asked.runner_up is None else label(asked.runner_up, LONG),
            asked.why,
        )
        for rank, asked in enumerate(insight.next_questions, start=1)
    ]
    return TextTable(("", "set", "expected answer", "teaches (nats)", "runner-up", "why"), cells)


def _needs(what: str, insight: Insight) -> str:
    answers = insight.status.answers
    have = {0: "there are none yet", 1: "there is 1"}.get(answers, f"there are {answers}")
    return f"{what} from {FEWEST} answers on; {have}."
