"""`sumwise status`, `answers` and `history`: where a study stands, and how it got there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import rich_click as click

from sumwise.cli import options
from sumwise.cli.common import waiting
from sumwise.cli.options import Address
from sumwise.cli.output import show, show_file, show_json, show_table, suggest, talk, visible
from sumwise.data.tables import check_output, write_table
from sumwise.util.text import count, moment, shown

if TYPE_CHECKING:
    from sumwise.learning.propose import Answer
    from sumwise.study.storage.records import Claim, Event, Skip

    Line: TypeAlias = Claim | Skip | Answer | Event

FEW: Final = 20  # lines of a table, unless more are asked for
CLAIM: Final = ("set", "by", "number", "asked", "expires")
SKIP: Final = ("set", "by", "at", "note")
ANSWER: Final = ("set", "total", "noise_std", "by", "at", "note")
EVENT: Final = (
    "number", "at", "what", "set", "total", "noise_std", "by", "note", "expected", "std",
    "information", "why",
)  # fmt: skip
NUMBERS: Final = ("total", "noise_std", "expected", "std", "information")


# --- status ---------------------------------------------------------------------------------------


@options.study_command()
def status(address: Address, as_json: bool) -> None:
    """Show progress, and how much there is still to learn.

    Prints what is measured and being measured, how uncertain predictions are, and how much the next
    questions should improve them. With costs (init --cost) it adds what was spent; with a threshold
    (init --enough), whether more questions are worth asking.

    \b
      sumwise status schools.db
      sumwise status schools.db --json | python -m json.tool
    """
    with address.open() as study, waiting("computing the status"):
        found, claims, skips = study.status(), study.claims, study.skips
    if as_json:
        more = {name: getattr(found, name) for name in ("improvement", "stop", "advice", "words")}
        more["claims"] = [_row(claim, CLAIM) for claim in claims]
        more["skips"] = [_row(skip, SKIP) for skip in skips]
        show_json({**asdict(found), **more})
        return
    show(f"Study '{visible(found.name)}', strategy {found.strategy}.")
    for sentence in found.words:
        show(sentence)
    _show_first(
        ("being measured", "by", "asked", "held until"),
        [(*_who(claim), moment(claim.asked), moment(claim.expires)) for claim in claims],
    )
    _show_first(
        ("skipped", "by", "since", "why"),
        [(*_who(skip), moment(skip.at), visible(skip.note or "")) for skip in skips],
    )
    if found.stop:
        suggest("Next:", address.typed("predict"), address.typed("ask"))
    elif found.answers + found.open_claims + found.skipped < found.sets:
        suggest("Next:", address.typed("ask"), address.typed("predict"))
    elif claims:
        first = shown(claims[0].set_id)
        suggest("Next, record what is being measured:", address.typed("tell", first, "TOTAL"))
    else:
        suggest("Next:", address.typed("predict"))


def _who(line: Line) -> tuple[str, str]:
    own = "" if line.set_id is None else visible(shown(line.set_id), 30)
    return own, visible(line.by or "", 20)


def _show_first(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the first rows, after an empty line; print nothing if there are none."""
    if rows:
        click.echo()
        show_table(columns, rows[:FEW])
    if len(rows) > FEW:
        show(f"… and {len(rows) - FEW} more; --json lists all.")


# --- answers --------------------------------------------------------------------------------------


@options.study_command(options.out("them"), options.force)
def answers(address: Address, out: Path | None, force: bool, as_json: bool) -> None:
    """List the recorded totals, in order of arrival.

    Retracted totals are left out, and of an amended total only the latest value is listed. The
    file can be read by tell --from.

    \b
      sumwise answers schools.db
      sumwise answers schools.db -o totals.csv
    """
    if out is not None:
        check_output(out, force)
    with address.open() as study:
        found = study.answers
    rows = [_row(answer, ANSWER) for answer in found]
    if out is not None:
        _write(rows, "answer", out, force, as_json)
        return
    if as_json:
        show_json({"answers": rows})
        return
    lines = []
    for answer in found:
        own, by = _who(answer)
        lines.append((own, _total(answer), by, moment(answer.at), visible(answer.note or "")))
    show_table(("set", "total", "by", "when", "note"), lines, right=("total",))


# --- history --------------------------------------------------------------------------------------


@options.study_command(
    click.option(
        "--last",
        type=click.IntRange(min=1),
        metavar="NUMBER",
        help=f"How many of the latest lines. Default: {FEW} on the screen, all in a file.",
    ),
    options.out("it"),
    options.force,
)
def history(
    address: Address, last: int | None, out: Path | None, force: bool, as_json: bool
) -> None:
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
        events = study.history()
    whole = last is None and (out is not None or as_json)
    lines = events if whole else events[-(last or FEW) :]
    rows = [_row(event, EVENT) for event in lines]
    if out is not None:
        _write(rows, "line", out, force, as_json)
        return
    if as_json:
        show_json(rows)
        return
    table = []
    for event in lines:
        (own, by), when = _who(event), moment(event.at).removesuffix(" UTC")
        note = event.note or ""
        note = f"until {moment(note)}" if note and event.what == "renewed" else visible(note)
        table.append((when, event.what, own, _total(event), by, note))
    show_table(("when", "what", "set", "total", "by", "note"), table, right=("total",))
    talk(f"{len(lines)} of {count(len(events), 'line')}; times are UTC.")


# --- rows -----------------------------------------------------------------------------------------


def _row(line: Line, columns: Sequence[str]) -> dict[str, Any]:
    """These columns of a line as plain values."""
    question = getattr(line, "question", None) or {}
    own = None if line.set_id is None else shown(line.set_id)
    known = {**question, "set": own, "total": getattr(line, "y_bar", None)}
    return {name: getattr(line, name, known.get(name)) for name in columns}


def _total(line: Answer | Event) -> str:
    """A total if there is one, and its known noise if there is any."""
    noise = "" if line.noise_std is None else f" ± {line.noise_std:.3g}"
    return "" if line.y_bar is None else f"{line.y_bar:.9g}{noise}"


def _write(rows: list[dict[str, Any]], thing: str, out: Path, force: bool, as_json: bool) -> None:
    import pyarrow as pa

    columns = ANSWER if thing == "answer" else EVENT
    kinds = {"number": pa.int64(), **dict.fromkeys(NUMBERS, pa.float64())}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])
    write_table(pa.Table.from_pylist(rows, schema), out, force)
    show_file(as_json, out, len(rows), thing)
