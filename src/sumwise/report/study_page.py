"""A study or a learner as one page: what has been learned, how far to trust it, what to ask next.

It holds no path, address or time of writing, so the same answers give the same page.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from sumwise.data.about import About
from sumwise.data.sets import LazySets, Sets
from sumwise.learning.insight import Insight
from sumwise.learning.learner import ActiveLearner
from sumwise.learning.left_out import FEWEST
from sumwise.learning.parts import part_in_words
from sumwise.learning.propose import Answer
from sumwise.model.calibration import percent
from sumwise.model.predict import Predictions, input_columns
from sumwise.report import decision, groups
from sumwise.report.decision import count_of
from sumwise.report.individuals import MOST, Shown, standing_out
from sumwise.report.maps import map_sections
from sumwise.report.page import Section, TextTable, check_folder, page, save_page, versions
from sumwise.report.panels import LONG, spending, study_panels
from sumwise.study.storage.records import Event, Snapshot
from sumwise.study.study import Study
from sumwise.util.text import NONE, as_given, figure, label, moment

MOST_INPUTS: Final = 6  # columns of individuals' inputs
OF_STUDY: Final = ("created", "upgraded")  # events that are no work on a set
UNNAMED: Final = "someone"  # where no name was given
ATTEMPTS: Final = 3  # to read a study while answers keep arriving


def write(study: Study | ActiveLearner, path: str | os.PathLike[str]) -> Path:
    """Write the page of a study or a learner, whole or not at all."""
    place = Path(path)
    check_folder(place.parent)
    return save_page(page_of(study), place)


def page_of(study: Study | ActiveLearner) -> str:
    """One HTML page that needs no network."""
    if isinstance(study, ActiveLearner):
        insight = study.insight()
        answers, held, people, named = study.answers, [], [], "Learner"
        known, cost, found = study.sets, study.aims.cost, _predicted(study, insight)
    else:
        for _ in range(ATTEMPTS):  # until no answer arrives while the study is read
            seen = study.state.snapshot()
            insight, history = study.insight(), study.history()
            found = _predicted(study, insight)
            if study.answers == seen.answers:
                break
        answers, held, people = seen.answers, _open(seen), [_people(seen.answers, history)]
        named, kept = label(study.name, LONG), study.state.record
        known, cost = kept.sets, kept.aims.cost  # of former sets, too: some are measured
    status, (predictions, totals), maps = insight.status, found, map_sections(study)
    appendix = [
        *(
            replace(each, title="More maps", charts=each.charts[1:])
            for each in maps
            if each.charts[1:]
        ),
        *study_panels(insight),
        *held,
        Section("The model", study.model.summary().splitlines()),
    ]
    if cost is not None and answers:
        appendix.append(spending(insight, cost[[answer.position for answer in answers]]))
    if totals is not None and len(totals):
        appendix.append(groups.table(totals, _weights(known, totals, status.about), status))
    appendix += [
        _answers(answers, insight, known.sizes),
        *people,
        _settings(study, study.sets, status.strategy),
        _individuals(study, predictions, status.about),
    ]
    folded = [replace(section, appendix=True) for section in appendix]
    first = [replace(section, charts=section.charts[:1]) for section in maps]
    most = groups.MOST_BESIDE_A_MAP if first else groups.MOST
    at = [answer.position for answer in answers]
    sizes = float(np.median(known.sizes[at])) if at else 0.0, float(np.median(known.sizes))
    sections = [*_first_part(study, insight, known, totals, sizes, most), *first, *folded]
    return page(_title(named, insight), _lead(insight, study.sets.n_rows), sections)


def _first_part(
    study: Study | ActiveLearner,
    insight: Insight,
    known: Sets,
    totals: Predictions | None,
    sizes: tuple[float, float],
    most: int,
) -> list[Section]:
    """What is seen without opening anything, but for a map."""
    sections = [decision.at_a_glance(insight, study.sets.n_rows, sizes)]
    if totals is not None and len(totals):
        weight = _weights(known, totals, insight.status.about)
        sections.append(groups.by_set(totals, weight, insight.status, most))
    return sections


def _predicted(
    study: Study | ActiveLearner, insight: Insight
) -> tuple[Shown | None, Predictions | None]:
    """Individuals that are shown and all sets; before the first answer predictions have no unit."""
    if not insight.status.answers + insight.status.known:
        return None, None
    return standing_out(study, insight.level), study.predict_sets(insight.level)


def _weights(known: Sets, totals: Predictions, about: About) -> np.ndarray:
    """Σθ of the sets that are predicted."""
    if about.outputs == "numbers" and about.weights != "weighted":  # without reading individuals
        sums = known.sizes.astype(float) if about.weights == "sum" else np.ones(len(known))
    else:
        sums = np.add(*known.weight_sums())
    return sums[[known.position(set_id) for set_id in totals.ids or ()]]


def _title(named: str, insight: Insight) -> str:
    status = insight.status
    done = f"{status.answers:,} of {count_of(status.sets, 'set')}"
    title = f"{named}: {count_of(status.answers, 'pool') if status.alone else done} measured"
    if status.suspects:
        title += f"; check {label(status.suspects[0].set_id)} first"
    if no_better(insight):
        title += f"; no better than guessing the {status.usual}"
    return title


# --- the finding ----------------------------------------------------------------------------------


def _lead(insight: Insight, n_individuals: int) -> str:
    status, individuals = insight.status, count_of(n_individuals, "individual")
    told = status.answers + status.known
    if not told and status.alone:
        return f"Nothing is measured yet: pools are designed of {individuals}. The first is below."
    if not told:
        return (
            f"Nothing is measured yet: {count_of(status.sets, 'set')} hold {individuals}. What to "
            "ask first is below."
        )
    about = status.about
    word = about.word
    outputs = "outputs" if about.outputs == "numbers" else about.outputs
    what = outputs if about.outcome is None else label(about.outcome)
    are = "are" if about.outcome is None or about.is_whole else "is"
    totals = f"one {word}" if told == 1 else f"{told:,} {word}s"
    unit = "" if about.unit is None else f", in {about.unit}"
    said = f"From {totals} the {what} of {individuals} {are} predicted{unit}."
    if about.bounded:
        said += " Predictions and intervals are cut at the bounds of an individual's output."
    if told < FEWEST:
        return f"{said} How well shows from {FEWEST} answers on."
    return " ".join((*status.headline, said))


def no_better(insight: Insight) -> bool:
    """Whether the model is no better than the mean of the other answers, or of earlier ones."""
    now, naive = insight.typical_error, insight.typical_naive_error
    return now is not None and naive is not None and now >= naive


# --- sections -------------------------------------------------------------------------------------


def _open(seen: Snapshot) -> list[Section]:
    """Questions that are being answered, and sets that are left out."""
    claimed = [
        (label(c.set_id, LONG), _person(c.by), moment(c.asked), moment(c.expires))
        for c in seen.claims
    ]
    skipped = [
        (label(s.set_id, LONG), _person(s.by), moment(s.at), label(s.note or NONE, 200))
        for s in seen.skips
    ]
    lists = (
        ("Open questions", ("set", "with", "asked", "free again"), claimed),
        ("Skipped sets", ("set", "by", "when", "why"), skipped),
    )
    return [Section(title, table=_first(heads, rows)) for title, heads, rows in lists if rows]


def _answers(answers: Sequence[Answer], insight: Insight, sizes: np.ndarray) -> Section:
    title, about = "Every answer", insight.status.about
    if not answers:
        return Section(title, ["There are none yet."])
    steps = {step.number: step for step in insight.steps}
    compared = {row.number: row for row in insight.compared}
    rows: list[tuple[str, ...]] = []
    outside: set[tuple[int, int]] = set()
    for number, told in list(enumerate(answers, start=1))[-MOST:]:
        step, row = steps.get(number), compared.get(number)
        noise = "" if told.noise_std is None else f" (± {figure(told.noise_std)})"
        part = part_in_words(told.of, told.covers, int(sizes[told.position]))
        noise += "" if part is None else f", {part}"
        if row is not None and row.outside:
            outside.add((len(rows), 5))
        rows.append(
            (
                f"{number:,}",
                label(told.set_id, LONG),
                as_given(told.y_bar) + noise,
                _about(step.forecast, step.forecast_std) if step else NONE,
                _about(row.predicted, row.std) if row and not insight.by_forecast else NONE,
                f"{row.z:.1f}".replace("-", "−") if row else NONE,
                figure(step.information) if step else NONE,
                *((_person(told.by), moment(told.at)) if told.at else ()),
            )
        )
    columns = (
        "", "set", f"{about.word}{about.in_unit}", "expected before it", "predicted without it",
        "off by (std)", "taught (nats)", *(("by", "when") if answers[0].at else ()),
    )  # fmt: skip
    caption = (
        f"± is one standard deviation, noise included. Bold: outside the "
        f"{percent(insight.level)} interval. {_cut(len(answers), 'last')}"
    )
    return Section(title, table=TextTable(columns, rows, caption.strip(), outside))


def _individuals(study: Study | ActiveLearner, shown: Shown | None, about: About) -> Section:
    title = "Individuals" if about.outcome is None else f"Individuals: {label(about.outcome)}"
    if shown is None:
        return Section(title, ["Predictions have no unit before the first answer."])
    sets, (rows, x, found) = study.sets, shown
    of_input = input_columns(sets, x)
    names = list(of_input) if sets.input_names else [f"input {d + 1}" for d in range(len(of_input))]
    values = list(of_input.values())[:MOST_INPUTS]
    own, heads = sets.row_ids, [label(name) for name in names[:MOST_INPUTS]]
    if about.outputs != "numbers" and about.weights != "sum":
        values.append(sets.rows_at(rows)[1])
        heads.append("trials" if about.outputs == "shares" else "exposure")
    ends = as_given if about.is_whole else lambda end: figure(end, 4)
    owners = np.searchsorted(sets.starts, rows, side="right") - 1
    lines = [
        (
            label(sets.ids[owner], LONG),
            f"{row - sets.starts[owner] + 1:,}" if own is None else label(own[row], LONG),
            *(_as_given(column[i]) for column in values),
            figure(float(found.mean[i]), 4),
            f"{ends(float(found.lower[i]))} to {ends(float(found.upper[i]))}",
        )
        for i, (row, owner) in enumerate(zip(rows.tolist(), owners.tolist(), strict=True))
    ]
    columns = (
        "set",
        "no." if own is None else "id",
        *heads,
        f"predicted{about.in_unit}",
        f"{percent(found.level)} interval",
    )
    words = _which(sets.n_rows, found.level)
    return Section(title, [words], table=TextTable(columns, lines))


def _as_given(value: Any) -> str:
    """An input as the user's table has it."""
    if value is None:
        return NONE
    return as_given(float(value)) if isinstance(value, float | int) else label(value)


def _which(n: int, level: float) -> str:
    """Which individuals are shown: all, or those that stand out."""
    reach = f"Of all outputs, {percent(level)} should lie in their interval."
    if n <= MOST:
        return f"Numbered within their set, in the order of the table given. {reach}"
    return (
        f"Of {n:,} individuals, the {MOST // 2} with the highest and the {MOST // 2} with the "
        "lowest predictions, highest first; numbered within their set, in the order of the table "
        f"given. For all of them: sumwise predict … -o predictions.csv. {reach}"
    )


def _people(answers: Sequence[Answer], history: Sequence[Event]) -> Section:
    """What each person did; the one with most answers comes first."""
    done = Counter((event.by, event.what) for event in history if event.what not in OF_STUDY)
    if not done:
        return Section("History", [f"Begun {moment(history[0].at)}; nothing else yet."])
    people = sorted(
        {by for by, _ in done}, key=lambda by: (-done[by, "told"], by is None, by or "")
    )
    usual = ("asked", "told", "amended", "retracted", "skipped", "released")
    columns = [what for what in usual if any(done[by, what] for by in people)]
    standing = Counter(told.by for told in answers)
    rows = [
        (
            _person(by),
            f"{standing[by]:,}",
            *(f"{done[by, what]:,}" if done[by, what] else NONE for what in columns),
        )
        for by in people
    ]
    words = (
        f"Begun {moment(history[0].at)}; the latest of "
        f"{count_of(len(history), 'event')} was {moment(history[-1].at)}."
    )
    return Section("History", [words], table=_first(("who", "answers that stand", *columns), rows))


def _settings(study: Study | ActiveLearner, sets: Sets, strategy: str) -> Section:
    known = (sets.input_names or ()) if sets.recipe is None else sets.recipe.names
    names = ", ".join(label(name) for name in known[:20])
    inputs = count_of(len(known) or sets.n_inputs, "input") + (f": {names}" if names else "")
    inputs += ", …" if len(known) > 20 else ""
    sizes, kind = sets.sizes, "sets"
    designing = study.state.record.designing if isinstance(study, Study) else None
    if designing is not None and designing.alone:
        sizes, kind = sizes[designing.n_begun :], "pools"
    span = (
        f", of {sizes.min():,} to {count_of(int(sizes.max()), 'individual')}" if len(sizes) else ""
    )
    rows = [
        (kind, f"{len(sizes):,}{span}"),
        ("individuals", f"{sets.n_rows:,}, each with {inputs}"),
        ("a measurement tells", _told(sets, study.about)),
        ("model", _model(study.model.get_params())),
        ("strategy", f"{strategy}, seed {study.seed}"),
        versions(),
    ]
    return Section("What was done", table=TextTable(("", ""), rows))


def _told(sets: Sets, about: About) -> str:
    if about.outputs != "numbers":
        return f"the {about.title} of a set"
    weighed = about.weights
    if not isinstance(sets, LazySets):
        same = np.allclose(sets.theta * np.repeat(sets.sizes, sets.sizes), 1, rtol=1e-9)
        weighed = "sum" if (sets.theta == 1).all() else "mean" if same else "weighted"
    return f"{'a weighted sum' if weighed == 'weighted' else f'the {weighed}'} over a set"


def _model(settings: dict[str, Any]) -> str:
    basis, chosen = settings["basis"], settings["hyperparameters"]
    named = basis if isinstance(basis, str) else repr(basis)
    detail = {
        "fourier": f"{settings['n_basis']} random Fourier features, length-scale "
        f"{settings['lengthscale']:g}",
        "polynomial": f"polynomial features of degree {settings['degree']}",
        "linear": "linear in the inputs",
    }.get(named, label(named, 200))
    by = {"evidence": "λ and β by maximum evidence", "adam": "λ and β by the paper's Adam"}
    how = by[chosen] if isinstance(chosen, str) else f"λ = {chosen[0]:g}, β = {chosen[1]:g}"
    which = "inputs and outputs"
    scaled = "standardised" if settings["standardize"] else "as they are"
    if settings["outputs"] != "numbers":
        how = how if not isinstance(chosen, str) else "hypotheses weighed by their evidence"
        detail, which = f"{settings['outputs']}; {detail}", "inputs"
    seed = settings["random_state"]
    drawn = "" if seed is None else f", basis drawn with seed {seed}"
    return f"{detail}; {which} {scaled}; {how}{drawn}"


# --- cells ----------------------------------------------------------------------------------------


def _about(mean: float | None, std: float | None) -> str:
    if mean is None or std is None:
        return NONE
    return f"{figure(mean, 4)} ± {figure(std)}"


def _person(by: str | None) -> str:
    return UNNAMED if by is None else label(by)


def _first(columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> TextTable:
    return TextTable(columns, rows[:MOST], _cut(len(rows), "first"))


def _cut(n: int, which: str) -> str:
    return f"The {which} {MOST:,} of {n:,}." if n > MOST else ""
