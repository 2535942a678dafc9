"""`sumwise tell`, `amend` and `retract`: totals that were measured."""

from __future__ import annotations

from collections.abc import Hashable
from math import hypot
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from sumwise.cli.common import SETTINGS
from sumwise.cli.options import (
    Signed,
    by_option,
    find_set,
    noise_option,
    note_option,
    opened,
    repeated,
    set_argument,
    study_options,
    url_argument,
)
from sumwise.cli.output import named, show, show_json, suggest, talk, typed, visible, with_error
from sumwise.data.tables import number
from sumwise.errors import LabelError, SumwiseError
from sumwise.learning.propose import FAR
from sumwise.util.text import count, shown
from sumwise.util.threads import one_thread

if TYPE_CHECKING:
    from sumwise.study.study import Study


@click.command(cls=Signed, context_settings=SETTINGS)
@url_argument
@set_argument(required=False)
@click.argument("total", required=False)
@click.option(
    "--from",
    "file",
    type=click.Path(path_type=Path),
    help="Take totals from a CSV or Parquet file with columns set and total, and if you like by, "
    "note and noise_std. All rows are kept, or none.",
)
@by_option("Who measured.")
@note_option
@noise_option
@study_options
def tell(
    url: str,
    name: str | None,
    set_text: str | None,
    total: str | None,
    file: Path | None,
    by: str | None,
    note: str | None,
    noise_std: str | None,
    as_json: bool,
) -> None:
    """The measured total of a set, or of many from a file.

    Sets may be told that nobody asked for. Telling the same once more does no harm; another total
    for the same set is refused: correct it with amend.

    \b
      sumwise tell schools.db "Ann Arbor" 843
      sumwise tell schools.db 82010 -12.5 --by ann --note "second visit"
      sumwise tell schools.db --from totals.csv --by ann
    """
    if (file is None) != (set_text is not None and total is not None):
        raise click.UsageError("give a SET and its TOTAL, or a file with --from")
    if file is not None:
        if set_text is not None or note is not None or noise_std is not None:
            raise click.UsageError("with --from, notes and noise stand in the file")
        _tell_file(url, name, file, by, as_json)
        return
    assert set_text is not None  # checked above
    assert total is not None
    value = _number(total, f"the total of {set_text!r:.80}")
    noise = None if noise_std is None else _number(noise_std, "--noise-std")
    with one_thread(), opened(url, name) as study:
        own = find_set(study, set_text)
        before, foreseen = len(study.answers), study.expected(own)
        study.tell(own, value, by=by, note=note, noise_std=noise)
        measured, sets = len(study.answers), len(study.ids)
        planned = _planned(study, own)
    if as_json:
        mean, std = foreseen or (None, None)
        told = {"set": shown(own), "total": value, "measured": measured, "new": measured > before}
        show_json({**told, "expected": mean, "std": std})
        return
    said = "Kept" if measured > before else "Known already"
    show(f"{said}: {named(own)} is {value:.12g}. {measured} of {count(sets, 'set')} measured.")
    _doubt(own, value, noise, foreseen, (url, name))
    if noise is None and planned and measured > before:
        again = typed("amend", *repeated(url, name), shown(own), total, "--noise-std")
        talk(f"It is taken without noise of its own, where ± {planned:.6g} was planned.")
        suggest("If it has that:", f"{again} {planned:.6g}")
    suggest("Next:", typed("ask", *repeated(url, name), *_who(by)))


def _tell_file(url: str, name: str | None, file: Path, by: str | None, as_json: bool) -> None:
    from sumwise.cli.labels import read_totals

    with opened(url, name) as study:
        read = read_totals(file, study.ids, by)
        columns = (read.set_ids, read.y_bar, read.by, read.note, read.noise_std)
        fresh = study.tell_many(*columns, where=read.where)
        measured, sets = len(study.answers), len(study.ids)
    if read.ignored:
        talk(f"Columns that mean nothing here: {', '.join(map(visible, read.ignored))}.")
    if as_json:
        show_json({"rows": len(read.y_bar), "new": fresh, "measured": measured})
        return
    old = len(read.y_bar) - fresh
    rest = f", {old} known already" if old else ""
    show(
        f"{count(fresh, 'new total')} kept of {count(len(read.y_bar), 'row')}{rest}. "
        f"{measured} of {count(sets, 'set')} measured."
    )
    suggest("Next:", typed("status", *repeated(url, name)), typed("ask", *repeated(url, name)))


@click.command(cls=Signed, context_settings=SETTINGS)
@url_argument
@set_argument()
@click.argument("total")
@by_option("Who corrects it.")
@note_option
@noise_option
@study_options
def amend(
    url: str,
    name: str | None,
    set_text: str,
    total: str,
    by: str | None,
    note: str | None,
    noise_std: str | None,
    as_json: bool,
) -> None:
    """Correct a total that was told.

    History keeps what was said before. Known noise stays as it was unless it is given anew;
    --noise-std 0 takes it away.

    \b
      sumwise amend schools.db "Ann Arbor" 834 --note "two digits were swapped"
      sumwise amend schools.db 82010 10500 --noise-std 20
    """
    value = _number(total, f"the total of {set_text!r:.80}")
    noise = None if noise_std is None else _number(noise_std, "--noise-std")
    with opened(url, name) as study:
        own = find_set(study, set_text)
        foreseen = study.expected(own)
        study.amend(own, value, by=by, note=note, noise_std=noise)
        noise = next(told.noise_std for told in study.answers if told.set_id == own)
    if as_json:
        show_json({"set": shown(own), "total": value})
        return
    show(f"Corrected: {named(own)} is {value:.12g}.")
    _doubt(own, value, noise, foreseen, (url, name))


@click.command(cls=Signed, context_settings=SETTINGS)
@url_argument
@set_argument()
@by_option("Who takes it back.")
@note_option
@study_options
def retract(
    url: str, name: str | None, set_text: str, by: str | None, note: str | None, as_json: bool
) -> None:
    """Take a total back that was told.

    The set may be asked for again, and history keeps what was said.

    \b
      sumwise retract schools.db "Ann Arbor" --note "wrong district"
      sumwise retract schools.db 82010 --by ann
    """
    with opened(url, name) as study:
        own = find_set(study, set_text)
        study.retract(own, by=by, note=note)
    if as_json:
        show_json({"retracted": shown(own)})
    else:
        show(f"Taken back: {named(own)} is no longer measured.")


def _doubt(
    own: Hashable,
    value: float,
    noise: float | None,
    foreseen: tuple[float, float] | None,
    where: tuple[str, str | None],
) -> None:
    """A slip of a finger is noticed best while the paper is still on the table."""
    if foreseen is None:
        return
    mean, spread = foreseen[0], hypot(foreseen[1], noise or 0.0)
    if abs(value - mean) <= FAR * spread:
        return
    show(f"That is far from the {with_error(mean, spread)} that was expected.")
    suggest("If it is mistyped:", typed("amend", *repeated(*where), shown(own), "TOTAL"))


def _planned(study: Study, own: Hashable) -> float:
    """Noise that measuring this set was to have."""
    noise = study.aims.noise_std
    return 0.0 if noise is None else float(noise[study.ids.index(own)])


def _number(text: str, what: str) -> float:
    try:
        return number(text)
    except SumwiseError as error:
        raise LabelError(f"{what}: {error}. Nothing was stored.") from None


def _who(by: str | None) -> tuple[str, ...]:
    return () if by is None else ("--by", by)
