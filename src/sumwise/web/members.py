"""Who is in pools that were designed: as rows of responses, and as a plate layout."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sumwise.data.sets import Sets
from sumwise.learning.designed import Designing
from sumwise.learning.pools import Weighted, rows_in
from sumwise.learning.propose import NewPool
from sumwise.util.shapes import Int
from sumwise.util.text import shown

ROWS: Final = "ABCDEFGH"  # of a plate with 96 wells
COLUMNS: Final = 12

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """The individuals that pools are designed of, as the page names them."""

    designing: Designing
    texts: tuple[str, ...]
    owners: Int[np.ndarray, " N"]  # the set that the study began with where each of them is
    numbers: Int[np.ndarray, " N"]  # and its number there, from 1
    places: Int[np.ndarray, " M"]  # which of them has this number as a member of sets

    @classmethod
    def of(cls, designing: Designing, sets: Sets) -> People:
        members, rows = designing.candidates.members, designing.rows
        assert members is not None
        places = np.zeros(int(members.max()) + 1, dtype=int)
        places[members] = np.arange(len(members))
        owners = np.searchsorted(sets.starts, rows, side="right") - 1
        texts = tuple(map(shown, designing.names))
        return cls(designing, texts, owners, rows - sets.starts[owners] + 1, places)

    def at(self, sets: Sets, rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Which individuals are in these rows of sets."""
        assert sets.members is not None
        return self.places[sets.members[rows]]

    def own_rows(self, sets: Sets, rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Rows of the same individuals among those that the study began with."""
        return self.designing.rows[self.at(sets, rows)]

    def of_set(self, sets: Sets, position: int) -> Weighted:
        """Who is in a set, and with which weights."""
        return rows_in(self.designing.candidates, sets.take([position]))[0]

    def rows(self, pool: Weighted, name: Callable[[int], Row]) -> list[Row]:
        """Members of a pool, in order.

        Args:
            name: Gives the set at a position.
        """
        which, theta = pool
        return [
            {
                "id": self.texts[at],
                "set": name(int(self.owners[at])),
                "row": self.numbers[at],
                "weight": weight,
            }
            for at, weight in zip(which.tolist(), theta.tolist(), strict=True)
        ]

    def designed(
        self, pool: Weighted, name: Callable[[int], Row], known: Mapping[str, Any] | None = None
    ) -> Row:
        """What a response says of a pool beside its name.

        Args:
            known: Its `score` and `bound`, if these are known.
        """
        score, bound = ((known or {}).get(key) for key in ("score", "bound"))
        fraction = None
        if score is not None and bound is not None:
            fraction = min(score / bound, 1.0) if bound > 0 else 1.0
        about = {"bound": bound, "fraction": fraction}
        return {"designed": True, "members": self.rows(pool, name), **about}


def weighted(pool: NewPool) -> Weighted:
    """Who is in a pool that is proposed."""
    return np.array(pool.rows), np.array(pool.theta)


def plate(pools: Iterable[tuple[Hashable, Sequence[str], np.ndarray]]) -> dict[str, list[Any]]:
    """A table with a row for each member of these pools: their wells, column by column.

    The share of a member is that of its weight in the pool; there is none where weights have both
    signs, or add up to nothing.

    Args:
        pools: Name, members and weights of each.

    >>> plate([("pool 1", ["ann", "bob"], np.array([1.0, 3.0]))])["share"]
    [0.25, 0.75]
    """
    names = ("plate", "well", "pool", "individual", "weight", "share")
    table: dict[str, list[Any]] = {name: [] for name in names}
    for pool, members, theta in pools:
        mixed = theta.min() < 0 < theta.max() or not theta.any()
        shares = [None] * len(theta) if mixed else (theta / theta.sum()).tolist()
        for member, weight, share in zip(members, theta.tolist(), shares, strict=True):
            before = len(table["well"])
            number, well = divmod(before, len(ROWS) * COLUMNS)
            column, row = divmod(well, len(ROWS))
            values = (number + 1, f"{ROWS[row]}{column + 1}", pool, member, weight, share)
            for name, value in zip(names, values, strict=True):
                table[name].append(value)
    return table
