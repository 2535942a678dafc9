"""`sumwise tell`, `amend` and `retract`: totals that were measured."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import rich_click as click

from sumwise.cli import options
from sumwise.cli.options import Address, option, to_number
from sumwise.cli.output import (
    named,
    placeholder,
    show,
    show_json,
    suggest,
    talk,
    visible,
    with_error,
)
from sumwise.data.about import About
from sumwise.data.dialect import Reading
from sumwise.errors import DataError
from sumwise.learning.parts import part_in_words
from sumwise.learning.propose import Answer, far_from
from sumwise.util.text import count, moment, shown
from sumwise.util.threads import one_thread

if TYPE_CHECKING:
    from sumwise.study.storage.records import Claim, Skip
    from sumwise.study.study import Study


UNPLANNED: Final = "It is recorded without known noise, although"


@options.set_command(
    click.argument("total", required=False),
    option(
        "--from FILE",
        "Read totals from a table (CSV, Parquet or Excel) with the columns set and total (or mean, "
        "count, or the --outcome), and "
        "optionally by, note, noise_std, and covers or of (ids of members, separated by ;) where a "
        "total covers part of its set. Instead of set it may have the columns that were --by of "
        "the study. Either all rows are recorded or none.",
        into="file",
        type=options.PATH,
    ),
    options.by("Who measured."),
    options.note,
    options.noise,
    *options.part,
    options.reading(centroids=False),
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
    of: Path | None,
    covers: str | None,
    reading: Reading,
) -> None:
    """Record the measured total of a set, or of many sets from a file.

    The set need not have been asked for. You may record the same total twice. A different total
    is refused: correct it with amend. A total that is impossible within the bounds of an output
    (init --min, --max) is refused too. For counts and shares, tell the count, not the rate.

    If only some members answered, name them with --of: the others are then predicted as outside
    the total. If you know only their share c, use --covers, which assumes a random sample of the
    set: the total is divided by c (a mean is not), and gets known noise, √((1 − c) / c · Σθ²)
    times the standard deviation that the model expects within the set.

    \b
      sumwise tell schools.db "Ann Arbor" 843
      sumwise tell schools.db 82010 -12.5 --by ann --note "second visit"
      sumwise tell schools.db --from totals.csv --by ann
      sumwise tell schools.db "Ann Arbor" 512 --of answered.csv
      sumwise tell schools.db "Ann Arbor" 512 --covers 0.8
    """
    wanted = "give a SET and its TOTAL, or a file with --from"
    if file is not None:
        if any(given is not None for given in (set_text, note, noise_std, of, covers)):
            raise click.UsageError(f"{wanted}, in which notes, noise, covers and of are columns")
        _tell_file(address, file, by, reading)
        return
    if set_text is None or total is None:
        raise click.UsageError(wanted)
    value, noise, share = _measured(set_text, total, noise_std, covers)
    with one_thread(), address.find(set_text) as (study, own):
        members = None if of is None else read_members(of, reading)
        expected = study.expected(own, members)
        before = _taken(study, by)
        stored, new = study.record(own, value, by, note, noise, of=members, covers=share)
        kept, (measured, done, more) = study.state.record, _progress(study)
        about, size = kept.about, int(kept.sets.sizes[stored.position])
        noises, part = kept.aims.noise_std, part_in_words(stored.of, stored.covers, size)
    planned = 0.0 if noises is None else float(noises[stored.position])
    mean, std = expected or (None, None)
    told = {"set": shown(own), "total": value, "measured": measured, "new": new}
    told |= {"noise_std": stored.noise_std, "part": part, "expected": mean, "std": std}
    show_json(told)
    said = f"{'Recorded' if new else 'Already recorded'}: {_sentence(about, stored, part)}"
    show(f"{said} {done}")
    _remark(stored, before, new)
    _warn_if_far(address, about, own, stored.y_bar, stored.noise_std, expected)
    if noise is None and share is None and planned and new and stored.noise_std is None:
        again = address.typed("amend", shown(own), total, "--noise-std", f"{planned:.6g}")
        suggest(f"{UNPLANNED} ± {planned:.6g} was planned. If it has that noise:", again)
    suggest("Next:", address.typed("ask", by=by) if more else address.typed("predict"))


def _progress(study: Study) -> tuple[int, str, bool]:
    """How much is measured, also in a sentence, and whether more can be asked for."""
    (measured, sets), designing = study.progress, study.state.record.designing
    if designing is None:
        return measured, f"{measured} of {count(sets, 'set')} measured.", measured < sets
    what = "pool" if designing.alone else "set"
    return measured, f"{count(measured, what)} measured.", True


def _sentence(about: About, stored: Answer, part: str | None) -> str:
    own, value = named(stored.set_id), about.quantity(f"{stored.y_bar:.12g}")
    what = f"{about.title} of {own}" if about != About() else own
    return f"{what} is {value}{f' ({part})' if part else ''}."


def _taken(study: Study, by: str | None) -> list[Claim | Skip]:
    """Skips, and claims of others."""
    return [*study.skips, *(claim for claim in study.claims if claim.by != by)]


def _remark(stored: Answer, before: Sequence[Claim | Skip], new: bool) -> None:
    """Say what is special about a new answer: its noise, a set that was skipped, or is held."""
    if not new:
        return
    if stored.noise_std is not None:
        show(f"It has known noise of ± {stored.noise_std:.6g}, which lowers its weight.")
    for each in before:
        if each.set_id != stored.set_id:
            continue
        who = "a person without a name" if each.by is None else visible(each.by, 40)
        if hasattr(each, "expires"):
            show(f"{who} holds this set until {moment(each.expires)}; recorded anyway.")
        else:
            why = f" ({visible(each.note, 60)})" if each.note else ""
            show(f"The set was skipped by {who}{why}; it is measured now.")


def read_members(file: Path, reading: Reading) -> list[str]:
    """Ids or numbers of members from a table: its only column, or the one called id or row."""
    from sumwise.data.tables import read_table

    table = read_table(file, lambda name: True, reading)
    names = [name for name in table.frame.columns if name in ("id", "row")]
    names = names if len(table.frame.columns) > 1 else list(table.frame.columns)
    if len(names) != 1:
        raise DataError(
            f"{file} must list the members that the total covers, in its only column or in one "
            "called id or row"
        )
    values = table.frame.get_column(names[0]).to_list()
    return ["" if value is None else shown(value) for value in values]


def _tell_file(address: Address, file: Path, by: str | None, reading: Reading) -> None:
    from sumwise.data.totals import read_totals

    with address.open() as study:
        about = study.about
        told, ignored = read_totals(file, study.state.record.sets, by, reading, about)
        if "part" in ignored:  # as `sumwise answers` wrote it once
            said = "of parts, scaled up. Give them as measured, with a column 'of' or 'covers'."
            raise DataError(f"{file} has totals {said} Nothing was stored.")
        new, rows = study.tell_many(**told), len(told["y_bar"])
        measured, done, more = _progress(study)
        same = _told_input(study)
    if same is not None:
        talk(
            f"Every total is the total of the input {named(same)}. If that input is the outcome "
            "itself, the model only copies it: make a study without it (init --not)."
        )
    if ignored:
        talk(f"Ignored columns: {', '.join(map(named, ignored))}.")
    rest = f", {rows - new} already recorded" if rows > new else ""
    show_json({"rows": rows, "new": new, "measured": measured})
    show(f"{count(new, f'new {about.word}')} recorded from {count(rows, 'row')}{rest}. {done}")
    then = "ask" if more else "predict"
    suggest("Next:", address.typed("status"), address.typed(then))


def _told_input(study: Study) -> Hashable | None:
    """The input whose own totals are those that were measured, if there is one."""
    answers = [answer for answer in study.answers if answer.of is None]
    if len(answers) < 3 or study.scan is not None:
        return None
    import numpy as np

    sets = study.sets
    sums = np.add.reduceat(sets.theta[:, None] * sets.x, sets.starts[:-1])
    own, told = sums[[a.position for a in answers]], np.array([a.y_bar for a in answers])
    same = np.isclose(own, told[:, None], rtol=1e-9, atol=0).all(axis=0) & (np.ptp(own, axis=0) > 0)
    labels = sets.input_names if sets.recipe is None else sets.recipe.labels
    return labels[int(np.argmax(same))] if same.any() and labels else None


@options.set_command(
    click.argument("total"),
    options.by("Who corrects it."),
    options.note,
    options.noise,
    *options.part,
)
def amend(
    address: Address,
    set_text: str,
    total: str,
    by: str | None,
    note: str | None,
    noise_std: str | None,
    of: Path | None,
    covers: str | None,
) -> None:
    """Correct a recorded total.

    History keeps the former total. Known noise stays as it was unless --noise-std is given;
    --noise-std 0 removes it. The total covers the members it covered, unless --of or --covers is
    given; --covers 1 is the whole set.

    \b
      sumwise amend schools.db "Ann Arbor" 834 --note "two digits were swapped"
      sumwise amend schools.db 82010 10500 --noise-std 20
    """
    value, noise, share = _measured(set_text, total, noise_std, covers)
    with address.find(set_text) as (study, own):
        members = None if of is None else read_members(of, Reading())
        told: dict[str, Any] = {"of": members, "covers": share}
        stored, _ = study.record(own, value, by, note, noise, correct=True, **told)
        expected = None if stored.of is not None else study.expected(own)
        about, size = study.about, int(study.state.record.sets.sizes[stored.position])
    part = part_in_words(stored.of, stored.covers, size)
    show_json({"set": shown(own), "total": value})
    some = f" ({part})" if part else ""
    show(f"Corrected: {named(own)} is {about.quantity(f'{stored.y_bar:.12g}')}{some}.")
    _warn_if_far(address, about, own, stored.y_bar, stored.noise_std, expected)


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


def _measured(
    set_text: str, total: str, noise_std: str | None, covers: str | None
) -> tuple[float, float | None, float | None]:
    """The numbers that were typed, refused before the study is opened."""
    value = to_number(total, f"the total of {set_text!r:.80}")
    noise = None if noise_std is None else to_number(noise_std, "--noise-std")
    return value, noise, None if covers is None else to_number(covers, "--covers")


def _warn_if_far(
    address: Address,
    about: About,
    own: Hashable,
    value: float,
    noise: float | None,
    expected: tuple[float, float] | None,
) -> None:
    """Point out a total that may be mistyped."""
    missed = far_from(expected, value, noise)
    if missed is not None:
        show(f"That is far from the expected {with_error(*missed)}.")
        suggest("If it is mistyped:", address.typed("amend", shown(own), placeholder(about)))
