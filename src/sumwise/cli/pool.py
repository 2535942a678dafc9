"""`sumwise pool`: individuals join, leave, move and are corrected while a study goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import rich_click as click

from sumwise.cli import SETTINGS, Main, options
from sumwise.cli.options import Address, option, to_number
from sumwise.cli.output import message, show, show_json, suggest
from sumwise.data.dialect import Reading
from sumwise.util.progress import waiting
from sumwise.util.text import count

GROUP: Final = option(
    "--set COLUMN",
    "Column that names the set; may be repeated. Default: --by of init, or set.",
    into="group",
    multiple=True,
)
ID: Final = option(
    "--id COLUMN",
    "Column with the id of each individual. Default: --id of init, or id.",
    into="row_id",
)


@click.group(cls=Main, context_settings=SETTINGS)
def pool() -> None:
    """Change who is in the sets: individuals join, leave or are corrected.

    A total belongs to the members that a set had when it was measured. If the members change, the
    former set keeps the total under a name such as "Ann Arbor (until 2026-03-31)", and Ann Arbor
    may be asked for again. Corrected inputs do not change members, so totals stay with their sets.
    Either all rows of a file are used or none. The history records the change.

    \b
      sumwise pool add schools.db opened.csv --set district --id school
      sumwise pool drop schools.db closed.csv --id school
      sumwise pool correct schools.db corrected.csv --set district --id school
      sumwise pool refresh meters.db   # of a study on Parquet files
    """


def _change(
    address: Address,
    kind: str,
    file: Path,
    numbers: dict[str, str | None],
    reading: Reading,
    **given: Any,
) -> None:
    from sumwise.data.individuals import read_changes
    from sumwise.data.pool_tables import Columns

    group, row_id = given.pop("group") or None, given.pop("row_id")
    changes: dict[str, Any] = {
        name: None if text is None else to_number(text, f"--{name.replace('_', '-')}")
        for name, text in numbers.items()
    }
    with address.open() as study, waiting("changing the pool"):
        sets, weights = study.state.record.sets, given.get("weights")
        texts = group or (*sets.origin.by, "set"), row_id or sets.origin.id or "id"
        named = Columns((*texts[0], row_id or "id"), texts[1], weights=weights)
        changes[kind] = read_changes(file, sets, named, reading)
        said = study.change_pool(**changes, group=group, id=row_id, **given)
        counts = {"sets": len(study.ids), "individuals": int(study.sets.sizes.sum())}
        former = study.progress[1] - len(study.ids)
    show_json({"changed": said, **counts})
    show(
        f"{message(said)}. The pool has {counts['sets']} sets of {counts['individuals']} "
        "individuals now"
        + (f", beside {count(former, 'former set')} still measured." if former else ".")
    )
    suggest("Next:", address.typed("ask", by=given["by"]))


@options.study_command(
    click.argument("file", type=options.PATH),
    GROUP,
    ID,
    option("--weights COLUMN", "Column with the weights, in a study whose individuals have them."),
    option("--cost NUMBER", "What measuring each new set costs, in a study with costs."),
    option("--noise-std NUMBER", "Known noise of each new set, in a study with known noise."),
    options.by("Who changes the pool."),
    options.note,
    options.reading(),
)
def add(
    address: Address, file: Path, cost: str | None, noise_std: str | None, **given: Any
) -> None:
    """Let individuals join.

    FILE is a table as for init, with a row for each: its set, its id if rows of the study have
    ids, and the study's input columns. Sets that do not exist yet are added.

    \b
      sumwise pool add schools.db opened.csv --set district --id school
      sumwise pool add plots.db plots-2026.csv --cost 3.5 --note "second season"
    """
    _change(address, "add", file, {"cost": cost, "noise_std": noise_std}, **given)


@options.study_command(
    click.argument("file", type=options.PATH),
    GROUP,
    ID,
    options.by("Who changes the pool."),
    options.note,
    options.reading(centroids=False),
)
def drop(address: Address, file: Path, **given: Any) -> None:
    """Let individuals leave.

    FILE names each by its id. If rows of the study have no ids, it names each by its set and a
    column row (1 for the first), as in predictions. A set without members leaves the pool.

    \b
      sumwise pool drop schools.db closed.csv --id school
      sumwise predict meters.db -o rows.csv   # keep the lines of those who leave, then
      sumwise pool drop meters.db rows.csv
    """
    _change(address, "drop", file, {}, **given)


@options.study_command(
    click.argument("file", type=options.PATH),
    GROUP,
    ID,
    options.by("Who changes the pool."),
    options.note,
    options.reading(),
)
def correct(address: Address, file: Path, **given: Any) -> None:
    """Correct inputs, or move individuals to other sets.

    FILE names each as for drop, and has the input columns that change; others may be left out. If
    rows have ids, another set moves the individual to that set. This is how to split a set, or to
    merge two into one.

    \b
      sumwise pool correct schools.db corrected.csv --id school
      sumwise pool correct schools.db new-districts.csv --set district --id school
    """
    _change(address, "correct", file, {}, **given)


@options.study_command(
    click.argument("files", nargs=-1),
    option("--cost NUMBER", "What measuring each new set costs, in a study with costs."),
    option("--noise-std NUMBER", "Known noise of each new set, in a study with known noise."),
    options.by("Who brings the pool up to date."),
    options.note,
)
def refresh(
    address: Address,
    files: tuple[str, ...],
    cost: str | None,
    noise_std: str | None,
    **given: Any,
) -> None:
    """Take the Parquet files of a study as they are now.

    Finds new, changed and removed files, and embeds again only what has changed. FILES says where
    to look, if they are elsewhere than they were. A set that has as many rows as before keeps its
    total.

    \b
      sumwise pool refresh meters.db
      sumwise pool refresh meters.db /data/meters --note "November"
    """
    amount = None if cost is None else to_number(cost, "--cost")
    noise = None if noise_std is None else to_number(noise_std, "--noise-std")
    with address.open() as study:
        said = study.refresh_pool(list(files) or None, cost=amount, noise_std=noise, **given)
        record = study.state.record
        n_gone, sizes = len(record.pool.retired), record.sets.sizes
        individuals = sizes.sum() - sizes[list(record.pool.retired)].sum()
        counts = {"sets": len(sizes) - n_gone, "individuals": int(individuals)}
    show_json({"changed": said, **counts})
    show(
        f"{message(said)}. The pool has {counts['sets']} sets of {counts['individuals']} "
        "individuals now."
    )
    suggest("Next:", address.typed("ask", by=given["by"]))


for _command in (add, drop, correct, refresh):
    pool.add_command(_command)
