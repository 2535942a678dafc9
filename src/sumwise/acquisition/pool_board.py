"""Pools of a few dozen or hundred candidates: local search by adding, leaving out and exchanging.

Candidates that must be together are one unit. On the board, the quadratic forms of every move
follow from three Gram matrices of units, so that all of them are valued at once. The last index of
every array stands for nobody: a move is some units out (one, two or nobody) and some units in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any, Final

import numpy as np

from sumwise.acquisition.pool_value import Sums, Valued
from sumwise.util.shapes import Float, Int, Mask

BETTER: Final = 1e-12  # relative gain of a move that counts
EXACT: Final = 64  # moves that are valued in full where the forms only bound their value
PAIRS: Final = 40  # units up to which two are exchanged for two


@dataclass(frozen=True, slots=True)
class Limits:
    """What a pool must keep to, beside who may be in it with whom."""

    fewest: int
    most: int
    strata: int = 0  # how many must be covered
    cost: tuple[float, float] | None = None  # of a pool, and for each member

    def ranked(self, scores: Any, members: Any) -> Any:
        """Gain per cost where pools cost something."""
        if self.cost is None:
            return scores
        return scores / (self.cost[0] + self.cost[1] * np.maximum(members, 1))  # nobody gains 0


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Candidates that go into pools together, and who may not be with whom."""

    rows: tuple[Int[np.ndarray, " m"], ...]  # of candidates
    p: Float[np.ndarray, "U P"]  # sums of their rows
    apart: Int[np.ndarray, "C 2"]  # unit and class, of each candidate that has one
    covers: Int[np.ndarray, " U"]  # candidates of a stratum
    links: tuple[Int[np.ndarray, " n"], ...] | None  # units that each one touches
    borders: Mapping[int, Set[int]] | None = None  # candidates that each one touches

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """Some units, with the forms of pools of them; a last row of zeros for nobody."""

    valued: Valued
    limits: Limits
    units: Int[np.ndarray, " u"]  # numbers of the units, nobody left out
    forms: Float[np.ndarray, "3 u1 u1"]  # G, H and N
    y: Float[np.ndarray, "u1 J"]
    sizes: Float[np.ndarray, " u1"]
    covers: Float[np.ndarray, " u1"]
    conflict: Float[np.ndarray, "u1 u1"]
    touch: Mask | None  # (u, u)
    rows: tuple[Int[np.ndarray, " m"], ...] = ()  # of candidates, by unit
    borders: Mapping[int, Set[int]] | None = None

    @classmethod
    def of(
        cls, valued: Valued, limits: Limits, units: Units, which: Int[np.ndarray, " u"]
    ) -> Board:
        """The board of the units with these numbers."""
        rows = [units.rows[i] for i in which]
        z, y = units.p[which] @ valued.root, units.p[which] @ valued.aims
        flat, sizes = np.concatenate(rows), np.array([len(each) for each in rows])
        noise = valued.noise_gram(flat)
        if len(flat) > len(rows):
            first = np.cumsum(sizes) - sizes
            noise = np.add.reduceat(np.add.reduceat(noise, first), first, axis=1)
        forms = np.zeros((3, len(rows) + 1, len(rows) + 1))
        forms[:, :-1, :-1] = z @ z.T, y @ y.T, noise
        place = np.full(len(units), -1)
        place[which] = np.arange(len(which))
        conflict = np.zeros((len(rows) + 1, len(rows) + 1))
        mine = units.apart[place[units.apart[:, 0]] >= 0] if len(units.apart) else units.apart
        if len(mine):
            member = np.zeros((len(rows), int(mine[:, 1].max()) + 1))
            member[place[mine[:, 0]], mine[:, 1]] = 1.0
            conflict[:-1, :-1] = member @ member.T > 0
            np.fill_diagonal(conflict, 0.0)
        touch = None
        if units.links is not None:
            touch = np.zeros((len(rows), len(rows)), dtype=bool)
            for at, number in enumerate(which.tolist()):
                others = place[units.links[number]]
                touch[at, others[others >= 0]] = True
        extra = np.append(sizes, 0.0), np.append(units.covers[which], 0.0)
        y = np.vstack([y, np.zeros(y.shape[1])])
        about = tuple(rows), units.borders
        return cls(valued, limits, which, forms, y, *extra, conflict, touch, *about)

    def value(self, pool: list[int]) -> float:
        """The rank of one pool: its score, or gain per cost."""
        at = np.ix_(pool, pool)
        g, h, n = (np.array([max(float(form[at].sum()), 0.0)]) for form in self.forms)
        m = np.array([self.sizes[pool].sum()])
        y = self.y[pool].sum(axis=0)[None] if self.valued.curve is not None else None
        score = self.valued.scores(Sums(g, h, n, m, m, m, y))
        return float(self.limits.ranked(score, m)[0])

    def fits(self, pool: list[int]) -> bool:
        """Whether the pool keeps to the limits."""
        m, covered = self.sizes[pool].sum(), self.covers[pool].sum()
        within = self.limits.fewest <= m <= self.limits.most and covered == self.limits.strata
        return bool(within and not self.conflict[np.ix_(pool, pool)].any() and self.joined(pool))

    def joined(self, pool: list[int], *, grows: bool = False) -> bool:
        """Whether the pool is connected, where it must be.

        Args:
            grows: Units count as connected whose candidates are connected by others later.
        """
        touch, borders = self.touch, self.borders
        if touch is None or borders is None:
            return True
        if grows:
            return _connected(pool, lambda at: np.flatnonzero(touch[at]).tolist())
        people = np.concatenate([self.rows[unit] for unit in pool]).tolist()
        return _connected(people, lambda at: borders.get(at, ()))

    # --- moves ----------------------------------------------------------------------------------

    def _moves(
        self,
        pool: list[int],
        outs: Int[np.ndarray, "a k"],
        ins: Int[np.ndarray, "b l"],
        *,
        grows: bool,
    ) -> tuple[Float[np.ndarray, "a b"], Mask]:
        """Ranks of the pools after these moves, and which of them keep to the limits.

        Args:
            grows: The pool is not large enough yet, and need not be after the move.
        """
        chosen = np.array(pool, dtype=int)

        def change(form: Any) -> Any:
            along = form[:, chosen].sum(axis=1)
            before = along[chosen].sum()
            gone, come = along[outs].sum(axis=1), along[ins].sum(axis=1)
            own_out = form[outs[:, :, None], outs[:, None, :]].sum(axis=(1, 2))
            own_in = form[ins[:, :, None], ins[:, None, :]].sum(axis=(1, 2))
            across = sum(
                form[np.ix_(outs[:, i], ins[:, j])]
                for i in range(outs.shape[1])
                for j in range(ins.shape[1])
            )
            left = (own_out - 2 * gone)[:, None] + (own_in + 2 * come)[None]
            return before + left - 2 * across

        g, h, n = (np.maximum(change(form), 0.0).ravel() for form in self.forms)
        m = self._after(self.sizes, chosen, outs, ins)
        flat = m.ravel()
        score = self.valued.scores(Sums(g, h, n, flat, flat, flat))
        limits = self.limits
        covered = self._after(self.covers, chosen, outs, ins)
        ok = (m <= limits.most) & (covered <= limits.strata) & (m > 0)
        if not grows:
            ok &= (m >= limits.fewest) & (covered == limits.strata)
        if self.conflict.any():
            twice = self.conflict[ins[:, 0], ins[:, -1]] * (ins.shape[1] > 1)
            met = self.conflict[:, chosen].sum(axis=1)[ins].sum(axis=1) + twice
            across = sum(
                self.conflict[np.ix_(outs[:, i], ins[:, j])]
                for i in range(outs.shape[1])
                for j in range(ins.shape[1])
            )
            ok &= met[None] - across < 0.5
        return limits.ranked(score, flat).reshape(m.shape), ok

    @staticmethod
    def _after(per_unit: Any, chosen: Any, outs: Any, ins: Any) -> Any:
        now = per_unit[chosen].sum()
        return now - per_unit[outs].sum(axis=1)[:, None] + per_unit[ins].sum(axis=1)[None]

    def _best(
        self, pool: list[int], outs: Any, ins: Any, least: float, *, grows: bool = False
    ) -> list[int] | None:
        """The best pool that is one of these moves away and ranks above `least`."""
        ranks, ok = self._moves(pool, outs, ins, grows=grows)
        ranks = np.where(ok, ranks, -np.inf).ravel()
        nobody = len(self.sizes) - 1

        def moved(at: int) -> list[int]:
            out, into = outs[at // len(ins)], ins[at % len(ins)]
            kept = [unit for unit in pool if unit not in out]
            return kept + [int(unit) for unit in into if unit != nobody]

        order = np.argsort(-ranks, kind="stable")
        order = order if self.touch is not None else order[:EXACT]
        order = order[ranks[order] > -np.inf]
        if self.valued.curve is None:
            for at in order[ranks[order] > least]:
                if self.joined(found := moved(int(at)), grows=grows):
                    return found
            return None
        joined = (found for at in order if self.joined(found := moved(int(at)), grows=grows))
        pools = [*islice(joined, EXACT)]
        values = [self.value(found) for found in pools]
        best = int(np.argmax(values)) if values else -1
        return pools[best] if best >= 0 and values[best] > least else None

    def grow(self, pool: list[int], *, largest: bool = False) -> list[int] | None:
        """The pool with more units, one by one, until it is large enough; None if it cannot be.

        Args:
            largest: Go on as long as any unit may join.
        """
        nobody, last = np.array([[len(self.sizes) - 1]]), pool if self.fits(pool) else None
        while last is None or largest:
            rest = np.setdiff1d(np.arange(len(self.units)), pool)[:, None]
            found = self._best(pool, nobody, rest, -np.inf, grows=True) if len(rest) else None
            if found is None:
                return last
            pool = found
            last = pool if self.fits(pool) else last
        return last

    def improve(self, pool: list[int]) -> tuple[list[int], float]:
        """The pool after moves that each make it better, and its rank."""
        nobody, value = len(self.sizes) - 1, self.value(pool)
        while True:
            least = value + BETTER * abs(value)
            rest = np.setdiff1d(np.arange(nobody), pool)
            outs, ins = (np.append(each, nobody)[:, None] for each in (pool, rest))
            found = self._best(pool, outs.astype(int), ins, least)
            if found is None and nobody <= PAIRS:
                found = self._best(pool, _pairs(pool, nobody), _pairs(rest, nobody), least)
            gained = -np.inf if found is None else self.value(found)
            if found is None or not gained > least:  # a move may seem to gain by rounding
                return sorted(pool), value
            pool, value = found, gained

    def prefix(self, order: Int[np.ndarray, " c"]) -> tuple[list[int], float] | None:
        """The best pool that takes units in this order, leaving out those that may not join."""
        pool: list[int] = []
        best: tuple[list[int], float] | None = None
        members, covered = 0.0, 0.0
        for unit in order.tolist():
            size, strata = self.sizes[unit], self.covers[unit]
            if members + size > self.limits.most or self.conflict[unit, pool].any():
                continue
            if self.touch is not None and pool and not self.touch[unit, pool].any():
                continue
            pool.append(unit)
            members, covered = members + size, covered + strata
            if (
                members >= self.limits.fewest
                and covered == self.limits.strata
                and self.joined(pool)
            ):
                value = self.value(pool)
                if best is None or value > best[1]:
                    best = pool.copy(), value
        return best


def _connected(nodes: Sequence[int], neighbours: Callable[[int], Iterable[int]]) -> bool:
    """Whether these nodes of a graph are connected through one another."""
    left, todo = {*nodes[1:]}, [nodes[0]]
    while todo and left:
        new = left.intersection(neighbours(todo.pop()))
        left -= new
        todo += new
    return not left


def _pairs(units: Any, nobody: int) -> Int[np.ndarray, "a 2"]:
    """All pairs of these, one with nobody included."""
    every = [*map(int, units), nobody]
    return np.array([*combinations(every, 2)], dtype=int).reshape(-1, 2)
