"""Many answers at once, all or none of them, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from sumwise.data.checks import as_list
from sumwise.errors import LabelError, SettingError, SumwiseError
from sumwise.study.storage import arguments, records, transactions
from sumwise.study.storage.records_values import Kept
from sumwise.study.storage.schema import answers, claims, events, skips

Place = Callable[[int], str]  # where a row is, in words
Check = Callable[[Hashable, Any, Any], tuple[Hashable, float, float | None]]


@dataclass(frozen=True, slots=True)
class Row:
    """An answer to be kept."""

    set_id: Hashable
    y_bar: float
    noise_std: float | None
    by: str | None
    note: str | None


def rows_of(
    check: Check, set_ids: Any, y_bar: Any, by: Any, note: Any, noise_std: Any, where: Place
) -> list[Row]:
    """Columns as rows, each value checked; one value stands for a whole column."""
    ids = as_list(set_ids, "set_ids")
    if not ids:
        raise SettingError("no answers were given; give at least one set id and its total")
    columns = [
        ids,
        _column(y_bar, "y_bar", len(ids), alone=False),
        _column(noise_std, "noise_std", len(ids)),
        _column(by, "by", len(ids)),
        _column(note, "note", len(ids)),
    ]
    rows = []
    for number, (set_id, total, noise, who, why) in enumerate(zip(*columns, strict=True)):
        try:
            texts = arguments.text(who, "by"), arguments.text(why, "note")
            rows.append(Row(*check(set_id, total, noise), *texts))
        except SumwiseError as error:
            raise _refusal(error, where(number)) from None
    return rows


def _column(values: Any, name: str, length: int, *, alone: bool = True) -> Sequence[Any]:
    single = values is None or np.isscalar(values) or getattr(values, "ndim", 1) == 0
    if alone and single:
        return [values] * length
    listed = as_list(values, name)
    if len(listed) != length:
        raise SettingError(f"{name} has {len(listed)} values for {length} sets; give one for each")
    return listed


def _refusal(error: SumwiseError, place: str) -> SumwiseError:
    return type(error)(f"{place}: {str(error).rstrip('.')}. Nothing was stored.")


def tell(connection: sa.Connection, kept: Kept, rows: Sequence[Row], where: Place) -> int:
    """Keep all of these answers; gives how many were new."""
    state = records.state(connection, kept, lock=True)
    mine = sa.select(answers).where(answers.c.study_id == kept.id)
    known: dict[int, Any] = {row.position: row for row in connection.execute(mine)}
    fresh: dict[int, Row] = {}
    for number, row in enumerate(rows):
        position = kept.sets.position(row.set_id)
        before = known.get(position) or fresh.get(position)
        if before is None:
            fresh[position] = row
        elif (before.y_bar, before.noise_std) != (row.y_bar, row.noise_std):
            raise _refusal(_another(row, before, position in known), where(number))
    if not fresh:
        return 0
    _refuse_retracted(connection, kept, rows, fresh, where)
    at, arrival = records.now(), state.arrivals
    told = [
        {
            "study_id": kept.id,
            "position": position,
            "at": at,
            "y_bar": row.y_bar,
            "noise_std": row.noise_std,
            "by": row.by,
            "note": row.note,
        }
        for position, row in fresh.items()
    ]
    order = range(arrival, arrival + len(told))
    connection.execute(
        answers.insert(), [{**row, "arrival": n} for row, n in zip(told, order, strict=True)]
    )
    connection.execute(events.insert(), [{**row, "what": "told"} for row in told])
    held = sa.select(claims.c.position).where(claims.c.study_id == kept.id)
    aside = sa.select(skips.c.position).where(skips.c.study_id == kept.id)
    for position in fresh.keys() & set(connection.execute(held.union(aside)).scalars()):
        records.drop_claim(connection, kept, position)
        records.drop_skip(connection, kept, position)
    records.advance(connection, kept, arrivals=len(fresh))
    return len(fresh)


def _refuse_retracted(
    connection: sa.Connection,
    kept: Kept,
    rows: Sequence[Row],
    fresh: Mapping[int, Row],
    where: Place,
) -> None:
    """A file that is told again must not bring back what somebody has taken back since."""
    kinds = ("told", "amended", "retracted")
    mine = (events.c.study_id == kept.id) & events.c.what.in_(kinds)
    said: dict[int, set[tuple[float, float | None]]] = {}  # all that was ever told of a set
    last: dict[int, Any] = {}  # when that was taken back
    for event in connection.execute(sa.select(events).where(mine).order_by(events.c.id)):
        if event.position in fresh:
            said.setdefault(event.position, set()).add((event.y_bar, event.noise_std))
            last[event.position] = event
    for position, event in last.items():
        row = fresh[position]
        if (row.y_bar, row.noise_std) in said[position]:
            raise _refusal(
                LabelError(
                    f"set {row.set_id!r} was told {transactions.value(row.y_bar, row.noise_std)} "
                    f"before, and that was taken back{transactions.signed(event)}. Drop the row; "
                    "if it is right after all, tell this set alone"
                ),
                where(rows.index(row)),
            )


def _another(row: Row, before: Any, stored: bool) -> LabelError:
    value = transactions.value(row.y_bar, row.noise_std)
    if stored:
        return transactions.another_answer(row.set_id, before, row.y_bar, row.noise_std)
    return LabelError(
        f"set {row.set_id!r} is there twice, with "
        f"{transactions.value(before.y_bar, before.noise_std)} and with {value}; keep one."
    )
