"""`sumwise status`, `answers` and `history`: where a study stands, and how it got there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sumwise.cli import options
from sumwise.cli.options import Address
from sumwise.cli.output import placeholder, show, show_file, show_json, show_table, suggest, visible
from sumwise.data.about import About
from sumwise.data.tables import check_output, write_table
from sumwise.data.totals import PARTS
from sumwise.learning.parts import as_told, part_in_words
from sumwise.util.progress import waiting
from sumwise.util.text import count, moment, shown

if TYPE_CHECKING:
    from sumwise.learning.propose import Answer
    from sumwise.study.storage.records import Claim, Event, Skip

Rows: TypeAlias = list[dict[str, Any]]

FEW: Final = 20  # lines of a table, unless more are asked for
CLAIM: Final = ("set", "by", "number", "asked", "expires")
SKIP: Final = ("set", "by", "at", "note")
SUSPECT: Final = ("total", "expected", "std", "z", "moves")
ANSWER: Final = ("set", "total", "noise_std", "by", "at", "note")
EVENT: Final = (
    "number", "at", "what", "set", "total", "noise_std", "by", "note", "expected", "std",
    "information", "why",
)  # fmt: skip
NUMBERS: Final = ("total", "noise_std", "covers", "expected", "std", "information")
TIMES: Final = ("at", "asked", "expires")
LONGEST: Final = {"set": 30, "by": 20}  # characters of a cell on the screen


@options.study_command(options.cluster)
def status(address: Address) -> None:
    """Show progress, and how much there is still to learn.

    Prints an answer that may be wrong and whether the model beats guessing the mean, what is
    measured and being measured, how uncertain predictions are, and how much the next
    questions should improve them. With costs (init --cost) it adds what was spent; with a threshold
    (init --enough), whether more questions are worth asking.

    \b
      sumwise status schools.db
      sumwise status schools.db --json | python -m json.tool
    """
    with address.open() as study, waiting("computing the status"):
        found = study.status()
        claims = [_row(claim, CLAIM) for claim in study.claims]
        skips = [_row(skip, SKIP) for skip in study.skips]
    names = ("improvement", "stop", "advice", "explained", "worth", "going_on", "headline", "words")
    more = {name: getattr(found, name) for name in names}
    more["suspects"] = [
        {"set": each.id, **{name: getattr(each, name) for name in SUSPECT}}
        for each in found.suspects
    ]
    more["contradictions"] = [
        {"set": shown(each.set_id), "total": each.total, "expected": each.expected}
        | {"others": [*map(shown, each.others)]}
        for each in found.contradictions
    ]
    show_json({**asdict(found), **more, "claims": claims, "skips": skips})
    about = found.about
    what = "" if about == About() else f", measuring the {about.title}{about.in_unit} of sets"
    show(f"Study '{visible(found.name)}', strategy {found.strategy}{what}.")
    for sentence in found.words:
        show(sentence, bold=sentence in found.headline)
    held = ("set", "by", "asked", "expires")
    _show_first(claims, held, set="being measured", expires="held until")
    _show_first(skips, SKIP, set="skipped", at="since", note="why")
    if found.suspects:
        amend = address.typed("amend", found.suspects[0].id, placeholder(found.about))
        suggest(f"If the {found.about.word} to check is wrong:", amend)
    if found.stop:
        suggest("Next:", address.typed("predict"), address.typed("ask"))
    elif found.next_questions:
        suggest("Next:", address.typed("ask"), address.typed("predict"))
    elif claims:
        tell = address.typed("tell", claims[0]["set"], placeholder(found.about))
        suggest("Next, record what is being measured:", tell)
    else:
        suggest("Next:", address.typed("predict"))


def _show_first(rows: Rows, columns: Sequence[str], **headings: str) -> None:
    """Print the first rows, after an empty line; print nothing if there are none."""
    if rows:
        show()
        _show_rows(rows[:FEW], columns, **headings)
    if len(rows) > FEW:
        show(f"… and {len(rows) - FEW} more; --json lists all.")


@options.study_command(options.out("them"))
def answers(address: Address, out: Path | None, force: bool) -> None:
    """List the recorded totals, in order of arrival.

    Retracted totals are left out. For an amended total, only the latest value is listed. tell
    --from can read the file: a total of part of a set is written as it was told, with the members
    (of) or the share (covers).

    \b
      sumwise answers schools.db
      sumwise answers schools.db -o totals.csv
    """
    if out is not None:
        check_output(out, force)
    with address.open() as study:
        sets, about = study.state.record.sets, study.about
        rows = [_row(answer, ANSWER) for answer in study.answers]
        for row, told in zip(rows, study.answers, strict=True):
            row["part"] = part_in_words(told.of, told.covers, int(sets.sizes[told.position]))
            if out is not None:
                row |= as_told(told, sets, about)
    if out is not None:
        told_parts = [name for name in PARTS if any(row[name] for row in rows)]
        _write(rows, (*ANSWER, *told_parts), out, force, "answer")
        return
    show_json({"answers": rows})
    some = ("part",) if any(row["part"] for row in rows) else ()
    columns = ("set", "total", *some, "by", "at", "note")
    _show_rows(rows, columns, at="when", part="covers", total=about.word + about.in_unit)


@options.study_command(
    options.count(
        "--last", f"How many of the latest lines. Default: {FEW} on the screen, all in a file."
    ),
    options.out("it"),
)
def history(address: Address, last: int | None, out: Path | None, force: bool) -> None:
    """List every question, answer and correction, with who and when.

    A file also has what was expected of each question, and why it was asked.

    \b
      sumwise history schools.db
      sumwise history schools.db --last 100
      sumwise history schools.db -o history.csv
    """
    if out is not None:
        check_output(out, force)
    with address.open() as study:
        events, about = study.history(), study.about
    rows = [_row(event, EVENT) for event in events[-(last or len(events)) :]]
    if out is not None:
        _write(rows, EVENT, out, force, "line")
        return
    show_json(rows)
    few = rows[-(last or FEW) :]
    for row in few:
        row["when"] = moment(row["at"]).removesuffix(" UTC")
        if row["what"] == "renewed" and row["note"]:
            row["note"] = f"until {moment(row['note'])}"
    heads = ("when", "what", "set", "total", "by", "note")
    _show_rows(few, heads, total=about.word + about.in_unit)
    show(f"{len(few)} of {count(len(events), 'line')}; times are UTC.", err=True)


def _row(line: Claim | Skip | Answer | Event, columns: Sequence[str]) -> dict[str, Any]:
    """These columns of a line as plain values."""
    question = getattr(line, "question", None) or {}
    own = None if line.set_id is None else shown(line.set_id)
    known = {**question, "set": own, "total": getattr(line, "y_bar", None)}
    return {name: getattr(line, name, known.get(name)) for name in columns}


def _show_rows(rows: Rows, columns: Sequence[str], **headings: str) -> None:
    """Print a table of these columns, each under its name or under another heading."""
    cells = [[_cell(row, name) for name in columns] for row in rows]
    heads = [headings.get(name, name) for name in columns]
    show_table(heads, cells, right=("total", headings.get("total", "")))


def _cell(row: dict[str, Any], name: str) -> str:
    value = row[name]
    if value is None:
        return ""
    if name == "total":
        noise = row["noise_std"]
        return f"{value:.9g}" + ("" if noise is None else f" ± {noise:.3g}")
    return moment(value) if name in TIMES else visible(value, LONGEST.get(name, 60))


def _write(rows: Rows, columns: Sequence[str], out: Path, force: bool, thing: str) -> None:
    import pyarrow as pa

    kinds = {"number": pa.int64(), **dict.fromkeys(NUMBERS, pa.float64())}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])
    write_table(pa.Table.from_pylist(rows, schema), out, force)
    show_file(out, len(rows), thing)
