"""`sumwise tell`, `amend` and `retract`: totals that were measured."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

import rich_click as click

from sumwise.cli import options
from sumwise.cli.options import Address, option, to_number
from sumwise.cli.output import named, show, show_json, suggest, talk, with_error
from sumwise.learning.propose import far_from
from sumwise.util.text import count, shown
from sumwise.util.threads import one_thread


@options.set_command(
    click.argument("total", required=False),
    option(
        "--from FILE",
        "Read totals from a CSV or Parquet file with the columns set and total, and optionally by, "
        "note and noise_std. In place of set it may have the columns that were --by of the study. "
        "Either all rows are recorded or none.",
        into="file",
        type=options.PATH,
    ),
    options.by("Who measured."),
    options.note,
    options.noise,
    required=False,
)
def tell(
    address: Address,
    set_text: str | None,
    total: str | None,
    file: Path | None,
    by: str | None,
    note: str | None,
    noise_std: str | None,
) -> None:
    """Record the measured total of a set, or of many sets from a file.

    A set need not have been asked for. Recording the same total twice does no harm; a different
    total for the same set is refused: correct it with amend.

    \b
      sumwise tell schools.db "Ann Arbor" 843
      sumwise tell schools.db 82010 -12.5 --by ann --note "second visit"
      sumwise tell schools.db --from totals.csv --by ann
    """
    wanted = "give a SET and its TOTAL, or a file with --from"
    if file is not None:
        if (set_text, note, noise_std) != (None, None, None):
            raise click.UsageError(f"{wanted}, in which notes and noise are columns")
        _tell_file(address, file, by)
        return
    if set_text is None or total is None:
        raise click.UsageError(wanted)
    value, noise = _measured(set_text, total, noise_std)
    with one_thread(), address.find(set_text) as (study, own):
        expected = study.expected(own)
        _, new = study.record(own, value, by, note, noise)
        measured, sets = study.progress
        noises = study.aims.noise_std
        planned = 0.0 if noises is None else float(noises[study.ids.index(own)])
    mean, std = expected or (None, None)
    told = {"set": shown(own), "total": value, "measured": measured, "new": new}
    show_json({**told, "expected": mean, "std": std})
    said = "Recorded" if new else "Already recorded"
    show(f"{said}: {named(own)} is {value:.12g}. {measured} of {count(sets, 'set')} measured.")
    _warn_if_far(address, own, value, noise, expected)
    if noise is None and planned and new:
        suggest(
            f"It is recorded without known noise, although ± {planned:.6g} was planned. If it has "
            "that noise:",
            address.typed("amend", shown(own), total, "--noise-std", f"{planned:.6g}"),
        )
    suggest("Next:", address.typed("ask", by=by))


def _tell_file(address: Address, file: Path, by: str | None) -> None:
    from sumwise.data.tables import read_totals

    with address.open() as study:
        told, ignored = read_totals(file, study.state.record.sets, by)
        new, rows = study.tell_many(**told), len(told["y_bar"])
        measured, sets = study.progress
    if ignored:
        talk(f"Ignored columns: {', '.join(map(named, ignored))}.")
    rest = f", {rows - new} already recorded" if rows > new else ""
    show_json({"rows": rows, "new": new, "measured": measured})
    show(
        f"{count(new, 'new total')} recorded from {count(rows, 'row')}{rest}. "
        f"{measured} of {count(sets, 'set')} measured."
    )
    suggest("Next:", address.typed("status"), address.typed("ask"))


@options.set_command(
    click.argument("total"), options.by("Who corrects it."), options.note, options.noise
)
def amend(
    address: Address,
    set_text: str,
    total: str,
    by: str | None,
    note: str | None,
    noise_std: str | None,
) -> None:
    """Correct a recorded total.

    History keeps the former total. Known noise stays as it was unless --noise-std is given;
    --noise-std 0 removes it.

    \b
      sumwise amend schools.db "Ann Arbor" 834 --note "two digits were swapped"
      sumwise amend schools.db 82010 10500 --noise-std 20
    """
    value, noise = _measured(set_text, total, noise_std)
    with address.find(set_text) as (study, own):
        expected = study.expected(own)
        stored, _ = study.record(own, value, by, note, noise, correct=True)
    show_json({"set": shown(own), "total": value})
    show(f"Corrected: {named(own)} is {value:.12g}.")
    _warn_if_far(address, own, value, stored.noise_std, expected)


@options.set_command(options.by("Who withdraws it."), options.note)
def retract(address: Address, set_text: str, by: str | None, note: str | None) -> None:
    """Withdraw a recorded total.

    The set may be asked for again, and history keeps the total.

    \b
      sumwise retract schools.db "Ann Arbor" --note "wrong district"
      sumwise retract schools.db 82010 --by ann
    """
    with address.find(set_text) as (study, own):
        study.retract(own, by=by, note=note)
    show_json({"retracted": shown(own)})
    show(f"Withdrawn: {named(own)} is no longer measured.")


def _measured(set_text: str, total: str, noise_std: str | None) -> tuple[float, float | None]:
    """The numbers that were typed, refused before the study is opened."""
    value = to_number(total, f"the total of {set_text!r:.80}")
    return value, None if noise_std is None else to_number(noise_std, "--noise-std")


def _warn_if_far(
    address: Address,
    own: Hashable,
    value: float,
    noise: float | None,
    expected: tuple[float, float] | None,
) -> None:
    """Point out a total that may be mistyped."""
    missed = far_from(expected, value, noise)
    if missed is not None:
        show(f"That is far from the expected {with_error(*missed)}.")
        suggest("If it is mistyped:", address.typed("amend", shown(own), "TOTAL"))
