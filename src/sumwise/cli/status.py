"""`sumwise status`, `answers` and `history`: where a study stands, and how it got there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import rich_click as click

from sumwise.cli.common import SETTINGS, waiting
from sumwise.cli.options import force_option, opened, repeated, study_options, url_argument
from sumwise.cli.output import new_table, show, show_json, show_table, suggest, talk, typed, visible
from sumwise.data.tables import check_output, write_table
from sumwise.learning.status import Status
from sumwise.util.text import count, moment, shown

if TYPE_CHECKING:
    from sumwise.study.storage.records import Claim, Event, Skip

FEW: Final = 20  # lines of a table, unless more are asked for


@click.command(context_settings=SETTINGS)
@url_argument
@study_options
def status(url: str, name: str | None, as_json: bool) -> None:
    """Where the study stands, and how much there is still to learn.

    What is measured, what somebody is measuring, how sure the model is of individuals, and how
    much surer the next questions should make it. Where init was given --cost, what was spent; where
    it was given --enough, whether more questions still pay.

    \b
      sumwise status schools.db
      sumwise status schools.db --json | python -m json.tool
    """
    with opened(url, name) as study, waiting("working it out"):
        found, claims, skips = study.status(), study.claims, study.skips
    if as_json:
        show_json(_status_json(found, claims, skips))
        return
    show(f"Study '{visible(found.name)}', strategy {found.strategy}.")
    for sentence in found.words:
        show(sentence)
    if claims:
        click.echo()
        _show_claims(claims)
    if skips:
        click.echo()
        _show_skips(skips)
    again = repeated(url, name)
    if found.stop:
        suggest("Next:", typed("predict", *again), typed("ask", *again))
    elif found.answers + found.open_claims + found.skipped < found.sets:
        suggest("Next:", typed("ask", *again), typed("predict", *again))
    elif claims:
        first = shown(claims[0].set_id)
        suggest("Next, tell what is being measured:", typed("tell", *again, first, "TOTAL"))
    else:
        suggest("Next:", typed("predict", *again))


def _show_claims(claims: Sequence[Claim]) -> None:
    table = new_table(("being measured", "by", "asked", "held until"))
    for claim in claims[:FEW]:
        who = "" if claim.by is None else visible(claim.by, 30)
        table.add_row(
            visible(shown(claim.set_id), 30), who, moment(claim.asked), moment(claim.expires)
        )
    show_table(table)
    _say_more(len(claims))


def _show_skips(skips: Sequence[Skip]) -> None:
    table = new_table(("skipped", "by", "since", "why"))
    for skip in skips[:FEW]:
        who, why = visible(skip.by or "", 30), visible(skip.note or "")
        table.add_row(visible(shown(skip.set_id), 30), who, moment(skip.at), why)
    show_table(table)
    _say_more(len(skips))


def _say_more(lines: int) -> None:
    if lines > FEW:
        show(f"… and {lines - FEW} more; --json lists all.")


def _status_json(found: Status, claims: Sequence[Claim], skips: Sequence[Skip]) -> dict[str, Any]:
    held = [
        {
            "set": shown(claim.set_id),
            "by": claim.by,
            "number": claim.number,
            "asked": claim.asked,
            "expires": claim.expires,
        }
        for claim in claims
    ]
    aside = [
        {"set": shown(skip.set_id), "by": skip.by, "at": skip.at, "note": skip.note}
        for skip in skips
    ]
    verdict = {"improvement": found.improvement, "stop": found.stop, "advice": found.advice}
    return {**asdict(found), **verdict, "words": found.words, "claims": held, "skips": aside}


@click.command(context_settings=SETTINGS)
@url_argument
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Write them to a file that ends in .csv or .parquet.",
)
@force_option
@study_options
def answers(url: str, name: str | None, out: Path | None, force: bool, as_json: bool) -> None:
    """Totals as they stand, in the order in which they came.

    What was taken back is not there, and what was corrected is there once. A file of them is what
    tell --from reads.

    \b
      sumwise answers schools.db
      sumwise answers schools.db -o totals.csv
    """
    import pyarrow as pa

    if out is not None:
        check_output(out, force)
    with opened(url, name) as study:
        found = study.answers
    rows = [
        {
            "set": shown(answer.set_id),
            "total": answer.y_bar,
            "noise_std": answer.noise_std,
            "by": answer.by,
            "at": answer.at,
            "note": answer.note,
        }
        for answer in found
    ]
    if out is not None:
        names = ("set", "total", "noise_std", "by", "at", "note")
        kinds = dict.fromkeys(("total", "noise_std"), pa.float64())
        schema = pa.schema([(name, kinds.get(name, pa.string())) for name in names])
        write_table(pa.Table.from_pylist(rows, schema), out, force)
    if as_json:
        show_json({"file": str(out), "rows": len(rows)} if out is not None else {"answers": rows})
    elif out is not None:
        show(f"{count(len(rows), 'answer')} written to {visible(str(out), 500)}.")
    else:
        table = new_table(("set", "total", "by", "when", "note"), right=("total",))
        for answer in found:
            noise = "" if answer.noise_std is None else f" ± {answer.noise_std:.3g}"
            who, why = visible(answer.by or "", 20), visible(answer.note or "", 60)
            told = f"{answer.y_bar:.9g}{noise}"
            table.add_row(visible(shown(answer.set_id), 30), told, who, moment(answer.at), why)
        show_table(table)


@click.command(context_settings=SETTINGS)
@url_argument
@click.option(
    "--last",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help=f"How many of the latest lines; {FEW} on the screen and all in a file if left out.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Write it to a file that ends in .csv or .parquet.",
)
@force_option
@study_options
def history(
    url: str, name: str | None, last: int | None, out: Path | None, force: bool, as_json: bool
) -> None:
    """Who asked, told, corrected and took back what, and when.

    A file also has what was expected of each question, and why it was asked.

    \b
      sumwise history schools.db
      sumwise history schools.db --last 100
      sumwise history schools.db -o history.csv
    """
    if out is not None:
        check_output(out, force)
    with opened(url, name) as study:
        events = study.history()
    whole = last is None and (out is not None or as_json)
    lines = events if whole else events[-(last or FEW) :]
    if out is not None:
        write_table(_event_table(lines), out, force)
        if as_json:
            show_json({"file": str(out), "rows": len(lines)})
        else:
            show(f"{count(len(lines), 'line')} of history written to {visible(str(out), 500)}.")
    elif as_json:
        show_json([_event_json(event) for event in lines])
    else:
        _show_events(lines, len(events))


def _show_events(lines: Sequence[Event], of: int) -> None:
    table = new_table(("when", "what", "set", "total", "by", "note"), right=("total",))
    for event in lines:
        total = "" if event.y_bar is None else f"{event.y_bar:.9g}"
        noise = "" if event.noise_std is None else f" ± {event.noise_std:.3g}"
        until = event.what == "renewed" and event.note is not None
        note = f"until {moment(event.note or '')}" if until else visible(event.note or "", 60)
        table.add_row(
            moment(event.at).removesuffix(" UTC"),
            event.what,
            "" if event.set_id is None else visible(shown(event.set_id), 30),
            total + noise,
            visible(event.by or "", 20),
            note,
        )
    show_table(table)
    talk(f"{len(lines)} of {count(of, 'line')}; times are UTC.")


def _event_json(event: Event) -> dict[str, Any]:
    asked = event.question
    return {
        "number": event.number,
        "at": event.at,
        "what": event.what,
        "set": None if event.set_id is None else shown(event.set_id),
        "total": event.y_bar,
        "noise_std": event.noise_std,
        "by": event.by,
        "note": event.note,
        "expected": None if asked is None else asked["expected"],
        "std": None if asked is None else asked["std"],
        "information": None if asked is None else asked["information"],
        "why": None if asked is None else asked["why"],
    }


def _event_table(lines: Sequence[Event]) -> Any:
    import pyarrow as pa

    kinds = {"number": pa.int64()} | dict.fromkeys(
        ("total", "noise_std", "expected", "std", "information"), pa.float64()
    )
    rows = [_event_json(event) for event in lines]
    return pa.table(
        {
            name: pa.array([row[name] for row in rows], kinds.get(name, pa.string()))
            for name in (rows[0] if rows else kinds)
        }
    )
