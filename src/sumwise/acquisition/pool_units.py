"""Candidates that go into pools together, and the pools that an order of them begins with.

Candidates that must be together are one unit; where none must, everyone is a unit, and its number
is that of the candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from sumwise.acquisition.pool_value import Sums, Valued
from sumwise.data.pool_rules import PoolRules
from sumwise.util.shapes import Float, Int, Mask


@dataclass(frozen=True, slots=True)
class Limits:
    """What a pool must keep to, beside who may be in it with whom."""

    fewest: int
    most: int
    strata: int = 0  # how many must be covered
    cost: tuple[float, float] | None = None  # of a pool, and for each member

    @classmethod
    def of(cls, rules: PoolRules, most: int) -> Limits:
        """The limits of pools with at most so many members."""
        strata = 0 if rules.strata is None else len(np.unique(rules.strata[rules.strata >= 0]))
        cost = None if rules.cost is None else (rules.cost, rules.cost_per_member)
        return cls(rules.size[0], most, strata, cost)

    def ranked(self, scores: Any, members: Any) -> Any:
        """Gain per cost where pools cost something."""
        if self.cost is None:
            return scores
        return scores / (self.cost[0] + self.cost[1] * np.maximum(members, 1))  # nobody gains 0


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """A list of numbers for each of some things, one after another."""

    flat: Int[np.ndarray, " f"]
    starts: Int[np.ndarray, " n1"]

    @classmethod
    def of(cls, owner: Int[np.ndarray, " f"], values: Int[np.ndarray, " f"], n: int) -> Lists:
        """From pairs of an owner and a number, in the order that they have for each owner."""
        order = np.argsort(owner, kind="stable")
        return cls(values[order], np.searchsorted(owner[order], np.arange(n + 1)))

    def __getitem__(self, at: int) -> Int[np.ndarray, " m"]:
        return self.flat[self.starts[at] : self.starts[at + 1]]

    def joined(self, which: Int[np.ndarray, " w"]) -> tuple[Int[np.ndarray, " m"], Any]:
        """The lists of some, put together, and the length of each."""
        sizes = self.starts[which + 1] - self.starts[which]
        ends = np.cumsum(sizes)
        shift = np.repeat(self.starts[which] - (ends - sizes), sizes)
        return self.flat[shift + np.arange(len(shift))], sizes


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """All units, and who may not be with whom."""

    allowed: Mask  # which of them may be in a pool
    rows: Lists | None  # of candidates; None if everyone is alone
    classes: Lists | None  # that each has candidates of; at most one of a class is in a pool
    covers: Int[np.ndarray, " U"] | None  # candidates of a stratum
    blocks: Int[np.ndarray, " U"] | None  # that pools stay within
    links: Lists | None  # units that each one touches
    borders: Mapping[int, Set[int]] | None = None  # candidates that each one touches, by candidate

    @classmethod
    def of(cls, rules: PoolRules, allowed: Mask) -> Units:
        """Allowed candidates as units; those who must be together with one who is not are out."""
        n, rows, place = len(allowed), None, None
        if rules.within is not None:
            allowed = allowed & (rules.within >= 0)
        if rules.together is not None:
            rows, place = _together(rules.together, allowed)
            n, allowed = len(rows.starts) - 1, np.ones(len(rows.starts) - 1, dtype=bool)

        def unit_of(some: Any) -> Any:
            return some if place is None else place[some]

        pairs, covers, blocks = [np.empty((0, 2), dtype=int)], None, None
        for codes in (rules.apart, rules.strata):
            if codes is not None:
                some = np.flatnonzero((codes >= 0) & (unit_of(np.arange(len(codes))) >= 0))
                shift = 1 + max(int(each[:, 1].max(initial=-1)) for each in pairs)
                pairs.append(np.stack([unit_of(some), codes[some] + shift], axis=1))
        if rules.strata is not None:
            mine = unit_of(np.flatnonzero(rules.strata >= 0))
            covers = np.bincount(mine[mine >= 0], minlength=n)
        both = np.concatenate(pairs)
        if place is not None:
            allowed = allowed & _without_conflict(both, n)
        if rules.within is not None:
            blocks = rules.within if rows is None else _same(rules.within, rows)
        links = borders = None
        if rules.neighbours is not None:
            links = _links(unit_of(rules.neighbours), n)
            borders = None if place is None else _borders(rules.neighbours, place)
        classes = Lists.of(both[:, 0], both[:, 1], n) if len(both) else None
        return cls(allowed, rows, classes, covers, blocks, links, borders)

    def __len__(self) -> int:
        return len(self.allowed)

    @property
    def free(self) -> bool:
        """Whether anybody may be with anybody."""
        return self.rows is None and self.classes is None and self.links is None

    def members(self, which: Int[np.ndarray, " w"]) -> tuple[Int[np.ndarray, " m"], Any]:
        """Candidates in some units, and how many each unit has."""
        if self.rows is None:
            return which, np.ones(len(which), dtype=int)
        return self.rows.joined(which)

    def sums(self, valued: Valued, which: Int[np.ndarray, " w"]) -> Float[np.ndarray, "w P"]:
        """Sums of the rows of P of some units."""
        flat, sizes = self.members(which)
        p = valued.people.some(flat).p
        return p if len(flat) == len(which) else np.add.reduceat(p, np.cumsum(sizes) - sizes)

    def along(
        self, valued: Valued, which: Int[np.ndarray, " w"], directions: Float[np.ndarray, "P L"]
    ) -> Float[np.ndarray, "w L"]:
        """The same times some directions."""
        if self.rows is not None or 2 * len(which) < len(self):
            return self.sums(valued, which) @ directions
        return valued.people.along(directions)[which]


def _together(codes: Int[np.ndarray, " N"], allowed: Mask) -> tuple[Lists, Int[np.ndarray, " N"]]:
    """Units in the order of their first candidate, and the unit of each candidate, -1 for none."""
    n = len(codes)
    codes = np.where(codes >= 0, codes, np.arange(n) + int(codes.max(initial=0)) + 1)
    at = np.flatnonzero(~np.isin(codes, codes[~allowed]))
    _, first, unit = np.unique(codes[at], return_index=True, return_inverse=True)
    unit = np.argsort(np.argsort(first))[unit]
    place = np.full(n, -1)
    place[at] = unit
    return Lists.of(unit, at, len(first)), place


def _without_conflict(pairs: Int[np.ndarray, "C 2"], n: int) -> Mask:
    """Units that do not have two candidates of one class."""
    ok = np.ones(n, dtype=bool)
    if len(pairs):
        found, counts = np.unique(pairs, axis=0, return_counts=True)
        ok[found[counts > 1, 0]] = False
    return ok


def _same(codes: Int[np.ndarray, " N"], rows: Lists) -> Int[np.ndarray, " U"]:
    """The code that all candidates of a unit have; -1 where they differ."""
    if not len(rows.flat):
        return np.empty(0, dtype=int)
    low, high = (
        each.reduceat(codes[rows.flat], rows.starts[:-1]) for each in (np.minimum, np.maximum)
    )
    return np.where(low == high, low, -1)


def _links(pairs: Int[np.ndarray, "E 2"], n: int) -> Lists:
    """Units that each unit touches."""
    kept = pairs[(pairs >= 0).all(axis=1) & (pairs[:, 0] != pairs[:, 1])]
    both = np.unique(np.concatenate([kept, kept[:, ::-1]]), axis=0)
    return Lists.of(both[:, 0], both[:, 1], n)


def _borders(pairs: Int[np.ndarray, "E 2"], place: Int[np.ndarray, " N"]) -> dict[int, set[int]]:
    """Candidates that each candidate touches."""
    found: dict[int, set[int]] = {}
    for a, b in pairs[(place[pairs] >= 0).all(axis=1)].tolist():
        found.setdefault(a, set()).add(b)
        found.setdefault(b, set()).add(a)
    return found


# --- pools that an order begins with --------------------------------------------------------------


def prefix(
    valued: Valued, limits: Limits, units: Units, order: Int[np.ndarray, " c"]
) -> tuple[Int[np.ndarray, " k"], float] | None:
    """The best pool that takes units in this order, leaving out those that may not join."""
    order = order[: limits.most] if units.free else _joining(limits, units, order)
    if not len(order):
        return None
    flat, sizes = units.members(order)
    some, ends = valued.people.some(flat), np.cumsum(sizes) - 1
    along, m = np.cumsum(some.p, axis=0)[ends], ends + 1.0
    z, y, e = along @ valued.root, along @ valued.aims, along[:, valued.n_basis :]
    noise = m + valued.posterior.effect * _effects(valued, some.effects)[ends] - (e**2).sum(axis=1)
    noise = np.maximum(noise, 0.0) / valued.posterior.noise_precision
    exact = y if valued.curve is not None else None
    sums = Sums((z**2).sum(axis=1), (y**2).sum(axis=1), noise, m, m, m, exact)
    ok = m >= limits.fewest
    if units.covers is not None:
        ok &= np.cumsum(units.covers[order]) == limits.strata
    ranks = np.where(ok, limits.ranked(valued.scores(sums), m), -np.inf)
    for at in np.argsort(-ranks, kind="stable"):
        if ranks[at] == -np.inf:
            break
        if units.borders is None or _touching(flat[: ends[at] + 1], units.borders):
            return order[: at + 1], float(ranks[at])
    return None


def _joining(limits: Limits, units: Units, order: Int[np.ndarray, " c"]) -> Any:
    """Units that may join one another, one by one."""
    pool, members, taken, missing = list[int](), 0, set[int](), limits.strata
    inside = np.zeros(len(units), dtype=bool) if units.links is not None else None
    _, sizes = units.members(order)
    covers = np.zeros(len(order), dtype=int) if units.covers is None else units.covers[order]
    for unit, size, covered in zip(order.tolist(), sizes.tolist(), covers.tolist(), strict=True):
        classes = set() if units.classes is None else {*units.classes[unit].tolist()}
        if members + size + missing - covered > limits.most or taken & classes:
            continue
        if inside is not None and units.links is not None:
            if pool and not inside[units.links[unit]].any():
                continue
            inside[unit] = True
        pool.append(unit)
        members, taken, missing = members + size, taken | classes, missing - covered
        if members == limits.most:
            break
    return np.array(pool, dtype=int)


def _effects(valued: Valued, effects: Int[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Σ over effects of (how many of the first members have it)², for each number of them."""
    m = np.arange(1.0, len(effects) + 1)
    if valued.alone or valued.pooling.effect:
        return m if valued.alone else m**2
    before = np.tril(effects[:, None] == effects, -1).sum(axis=1)
    return np.cumsum(1.0 + 2 * before)


def _touching(rows: Int[np.ndarray, " m"], borders: Mapping[int, Set[int]]) -> bool:
    return len(parts(rows.tolist(), lambda at: borders.get(at, ()))) == 1


def parts(nodes: Sequence[int], neighbours: Callable[[int], Iterable[int]]) -> list[list[int]]:
    """The connected parts of some nodes of a graph."""
    left, found = {*nodes}, []
    for node in nodes:
        if node not in left:
            continue
        left.remove(node)
        part, todo = [node], [node]
        while todo and left:
            new = left.intersection(neighbours(todo.pop()))
            left -= new
            part += new
            todo += new
        found.append(part)
    return found
