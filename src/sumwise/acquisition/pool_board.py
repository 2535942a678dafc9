"""Pools of a few dozen or hundred candidates: local search by adding, leaving out and exchanging.

On the board, the quadratic forms of every move follow from three Gram matrices of units
(`pool_units`) and their products with the pool, so that all moves are valued at once. The last
index of every array stands for nobody: a move is some units out (one, two or nobody) and some units
in. Of large pools, the moves that are looked at first are those of the units that are the easiest
to do without, and of those that gain most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any, Final

import numpy as np

from sumwise.acquisition.pool_rows import top
from sumwise.acquisition.pool_units import Limits, Units, parts
from sumwise.acquisition.pool_value import Sums, Valued
from sumwise.util.shapes import Float, Int, Mask

BETTER: Final = 1e-12  # relative gain of a move that counts
EXACT: Final = 64  # moves that are valued in full where the forms only bound their value
FEW: Final = 8  # of those by which a pool grows
TOGETHER: Final = 512  # moves that are looked at for whether the pool is connected, one by one
PAIRS: Final = 40  # units up to which two are exchanged for two
MOVES: Final = 2**13  # that are all looked at
FIRST: Final = 48  # units on either side of those that are looked at first, where there are more


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """Some units, with the forms of pools of them; a last row of zeros for nobody."""

    valued: Valued
    limits: Limits
    units: tuple[Int[np.ndarray, " k"], ...]  # numbers of the units in each, nobody left out
    forms: Float[np.ndarray, "3 u1 u1"]  # G, H and N
    y: Float[np.ndarray, "u1 J"]
    sizes: Float[np.ndarray, " u1"]
    covers: Float[np.ndarray, " u1"]
    conflict: Float[np.ndarray, "u1 u1"] | None
    touch: Mask | None  # (u, u)
    rows: tuple[Int[np.ndarray, " m"], ...] = ()  # of candidates, by unit
    borders: Mapping[int, Set[int]] | None = None

    @classmethod
    def of(
        cls,
        valued: Valued,
        limits: Limits,
        units: Units,
        which: Int[np.ndarray, " u"],
        core: Int[np.ndarray, " k"] | None = None,
    ) -> Board:
        """The board of the units with these numbers.

        Args:
            core: Other units, which are one on the board.
        """
        groups = [np.array([unit]) for unit in which.tolist()]
        groups += [] if core is None else [core]
        everyone = np.concatenate(groups)
        owner = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        flat, sizes = units.members(everyone)
        some = valued.people.some(flat)
        ends = np.cumsum(np.bincount(owner, sizes)).astype(int)
        first = ends - np.diff(ends, prepend=0)
        p = some.p if len(flat) == len(groups) else np.add.reduceat(some.p, first)
        z, y, e = p @ valued.root, p @ valued.aims, p[:, valued.n_basis :]
        m = np.diff(ends, prepend=0).astype(float)
        forms = np.zeros((3, len(m) + 1, len(m) + 1))
        noise = forms[2, :-1, :-1]
        for form, half in zip(forms, (z, y, e), strict=True):
            form[:-1, :-1] = half @ half.T if half.shape[1] else 0.0
        noise *= -1
        noise += _effects(valued, some.effects, np.repeat(owner, sizes), m)
        noise[np.diag_indices_from(noise)] += m * (1 + valued.alone * valued.posterior.effect)
        noise /= valued.posterior.noise_precision
        covers = np.zeros(len(m) + 1)
        if units.covers is not None:
            covers[:-1] = np.bincount(owner, units.covers[everyone])
        y, sizes = np.vstack([y, np.zeros(y.shape[1])]), np.append(m, 0.0)
        about = _conflict(units, everyone, owner), _touch(units, everyone, owner)
        rows = tuple(np.split(flat, ends[:-1])) if units.borders is not None else ()
        known = valued, limits, tuple(groups), forms, y, sizes, covers
        return cls(*known, *about, rows, units.borders)

    def numbers(self, pool: Sequence[int]) -> Int[np.ndarray, " k"]:
        """The units of a pool, by number."""
        return np.concatenate([self.units[at] for at in pool])

    def places(self, numbers: Int[np.ndarray, " k"]) -> list[int]:
        """Where on the board these units are."""
        wanted = {*numbers.tolist()}
        return [at for at, group in enumerate(self.units) if int(group[0]) in wanted]

    def value(self, pool: list[int]) -> float:
        """The rank of one pool: its score, or gain per cost."""
        g, h, n = np.maximum(self.forms[:, pool][:, :, pool].sum(axis=(1, 2)), 0.0)[:, None]
        m = self.sizes[pool].sum(keepdims=True)
        y = self.y[pool].sum(axis=0)[None] if self.valued.curve is not None else None
        score = self.valued.scores(Sums(g, h, n, m, m, m, y))
        return float(self.limits.ranked(score, m)[0])

    def singles(self) -> Float[np.ndarray, " u"]:
        """Ranks of all units by themselves."""
        g, h, n = np.maximum(np.diagonal(self.forms, axis1=1, axis2=2)[:, :-1], 0.0)
        m = self.sizes[:-1]
        y = self.y[:-1] if self.valued.curve is not None else None
        return self.limits.ranked(self.valued.scores(Sums(g, h, n, m, m, m, y)), m)

    def joined(self, pool: list[int]) -> bool:
        """Whether the pool is connected, where it must be."""
        if self.touch is None:
            return True
        if self.borders is None:
            return len(parts(pool, self._neighbours(pool).__getitem__)) == 1
        borders, people = self.borders, np.concatenate([self.rows[unit] for unit in pool])
        return len(parts(people.tolist(), lambda at: borders.get(at, ()))) == 1

    def _neighbours(self, pool: list[int]) -> dict[int, list[int]]:
        """Units of a pool that each of them touches."""
        assert self.touch is not None
        among = self.touch[np.ix_(pool, pool)]
        at, others = np.array(pool), dict[int, list[int]]()
        for unit, row in zip(pool, among, strict=True):
            others[unit] = at[row].tolist()
        return others

    # --- moves ----------------------------------------------------------------------------------

    def _moves(
        self,
        pool: list[int],
        outs: Int[np.ndarray, "a k"],
        ins: Int[np.ndarray, "b l"],
    ) -> tuple[Float[np.ndarray, "a b"], Mask, Float[np.ndarray, "3 a b"]]:
        """Ranks of the pools after these moves, which keep to the limits, and their forms."""
        along = self.forms[:, pool].sum(axis=1)  # (3, u1)
        now = along[:, pool].sum(axis=1)

        def change(units: Int[np.ndarray, "a k"], sign: int) -> Any:
            own = sum(self.forms[:, i, j] for i in units.T for j in units.T)
            return own + 2 * sign * along[:, units].sum(axis=2)

        left = change(outs, -1)[:, :, None] + change(ins, 1)[:, None] + now[:, None, None]
        across = sum(self.forms[:, i][:, :, j] for i in outs.T for j in ins.T)
        forms = np.maximum(left - 2 * across, 0.0)
        g, h, n = forms.reshape(3, -1)
        m = self._after(self.sizes, pool, outs, ins)
        flat = m.ravel()
        score = self.valued.scores(Sums(g, h, n, flat, flat, flat))
        ok = self._within(pool, outs, ins, m)
        return self.limits.ranked(score, flat).reshape(m.shape), ok, forms

    def _within(self, pool: list[int], outs: Any, ins: Any, m: Float[np.ndarray, "a b"]) -> Mask:
        """Which moves keep to the limits, but for who must be connected."""
        limits = self.limits
        ok: Any = (m <= limits.most) & (m >= limits.fewest)
        if limits.strata:
            ok &= self._after(self.covers, pool, outs, ins) == limits.strata
        if self.conflict is not None:
            met = self.conflict[:, pool].sum(axis=1)[ins].sum(axis=1)
            met = met + self.conflict[ins[:, 0], ins[:, -1]] * (ins.shape[1] > 1)
            across = sum(self.conflict[np.ix_(i, j)] for i in outs.T for j in ins.T)
            ok &= met[None] - across < 0.5
        return ok

    @staticmethod
    def _after(per_unit: Any, pool: Any, outs: Any, ins: Any) -> Any:
        now = per_unit[pool].sum()
        return now - per_unit[outs].sum(axis=1)[:, None] + per_unit[ins].sum(axis=1)[None]

    def _best(
        self, pool: list[int], outs: Any, ins: Any, least: float
    ) -> tuple[list[int], float] | None:
        """The best pool that is one of these moves away and ranks above `least`, and its rank."""
        ranks, ok, forms = self._moves(pool, outs, ins)
        ok &= ranks > least  # bounds are at least the values
        quick = self.borders is None and ins.shape[1] == 1
        if self.touch is not None and quick:
            some = np.flatnonzero(ok.any(axis=1))
            ok[some] &= self._connected(pool, outs[some, 0], ins[:, 0])
        ranks = np.where(ok, ranks, -np.inf)
        n, nobody = EXACT if self.valued.curve is not None else 1, len(self.sizes) - 1

        def moved(at: int) -> list[int]:
            gone, come = outs[at // len(ins)], ins[at % len(ins)]
            kept = [unit for unit in pool if unit not in gone]
            return kept + [unit for unit in come.tolist() if unit != nobody]

        if self.touch is None or quick:
            flat = top(ranks.ravel(), n)
        else:
            order = (at for at in top(ranks.ravel(), TOGETHER) if ranks.flat[at] > -np.inf)
            flat = np.array([*islice((at for at in order if self.joined(moved(at))), n)], int)
        flat = flat[ranks.flat[flat] > -np.inf]
        if not len(flat):
            return None
        values = ranks.flat[flat]
        if n > 1:
            values = self._exact(pool, outs[flat // len(ins)], ins[flat % len(ins)], forms, flat)
        at = int(np.argmax(values))
        return (moved(int(flat[at])), float(values[at])) if values[at] > least else None

    def _exact(
        self, pool: list[int], outs: Any, ins: Any, forms: Any, order: Int[np.ndarray, " e"]
    ) -> Float[np.ndarray, " e"]:
        """Ranks of the pools after some moves, in full."""
        g, h, n = forms.reshape(3, -1)[:, order]
        y = self.y[pool].sum(axis=0) - self.y[outs].sum(axis=1) + self.y[ins].sum(axis=1)
        m = self.sizes[pool].sum() - self.sizes[outs].sum(axis=1) + self.sizes[ins].sum(axis=1)
        return self.limits.ranked(self.valued.scores(Sums(g, h, n, m, m, m, y)), m)

    def _connected(self, pool: list[int], outs: Any, ins: Any) -> Mask:
        """After which exchanges a connected pool is connected: who comes must touch all of its
        parts that are left."""
        assert self.touch is not None
        nobody, inside = len(self.touch), dict[int, list[int]]()
        for unit, row in zip(pool, self.touch[np.ix_(pool, pool)], strict=True):
            inside[unit] = np.array(pool)[row].tolist()
        near = np.vstack([self.touch, np.zeros(nobody, dtype=bool)])[ins]
        ok = np.zeros((len(outs), len(ins)), dtype=bool)
        for a, gone in enumerate(outs):
            kept = [unit for unit in pool if unit != gone]
            rest = parts(kept, inside.__getitem__) if gone != nobody else [kept]
            hit = [near[:, part].any(axis=1) for part in rest]
            ok[a] = np.logical_and.reduce(hit) if hit else ins != nobody
            ok[a] |= (ins == nobody) & (len(rest) == 1)
        return ok

    def grow(self, units: Int[np.ndarray, " s"], *, largest: bool = False) -> list[list[int]]:
        """Pools that begin with one of these units each and gain others, one by one, until they
        are large enough; those that cannot be are left out.

        Args:
            largest: Go on as long as any unit may join.
        """
        inside = np.zeros((len(units), len(self.sizes)), dtype=bool)
        inside[np.arange(len(units)), units] = True
        found, growing = dict[int, list[int]](), np.arange(len(units))
        while len(growing):
            m, covered = inside[growing] @ self.sizes, inside[growing] @ self.covers
            for at in growing[(m >= self.limits.fewest) & (covered == self.limits.strata)].tolist():
                pool = np.flatnonzero(inside[at]).tolist()
                if self.borders is None or self.joined(pool):
                    found[at] = pool
            if not largest:
                growing = growing[[at not in found for at in growing.tolist()]]
            best = self._joining(inside[growing])
            growing, best = growing[best >= 0], best[best >= 0]
            inside[growing, best] = True
        return [*found.values()]

    def _joining(self, inside: Mask) -> Int[np.ndarray, " s"]:
        """The unit that is best to join each of some pools; -1 where none may.

        Args:
            inside: Who is in them, a row for each pool.
        """
        limits, some = self.limits, inside.astype(float)
        along = some @ self.forms  # (3, s, u1)
        change = np.diagonal(self.forms, axis1=1, axis2=2)[:, None] + 2 * along
        g, h, n = np.maximum((some * along).sum(axis=2)[:, :, None] + change, 0.0)
        m = (some @ self.sizes)[:, None] + self.sizes
        missing = limits.strata - (some @ self.covers)[:, None] - self.covers
        ok = ~inside & (m + missing <= limits.most) & (missing >= 0)
        ok[:, -1] = False
        if self.conflict is not None:
            ok &= some @ self.conflict < 0.5
        if self.touch is not None:
            ok[:, :-1] &= some[:, :-1] @ self.touch > 0.5
        m = np.maximum(m, 1.0)
        score = self.valued.scores(Sums(*(each.ravel() for each in (g, h, n, m, m, m))))
        ranks = limits.ranked(score.reshape(m.shape), m)
        ranks = np.where(ok, ranks, -np.inf)
        if self.valued.curve is not None:  # these ranks are bounds
            few, at = np.argsort(-ranks, axis=1)[:, :FEW], np.arange(len(some))[:, None]
            y = ((some @ self.y)[:, None] + self.y[few]).reshape(few.size, self.y.shape[1])
            g, h, n, m = (each[at, few].ravel() for each in (g, h, n, m))
            exact = self.limits.ranked(self.valued.scores(Sums(g, h, n, m, m, m, y)), m)
            exact = np.where(ok[at, few], exact.reshape(few.shape), -np.inf)
            ranks = np.full_like(ranks, -np.inf)
            ranks[at, few] = exact
        return np.where(ok.any(axis=1), np.argmax(ranks, axis=1), -1)

    def improve(
        self, pool: list[int], seen: set[tuple[int, ...]] | None = None
    ) -> tuple[list[int], float] | None:
        """The pool after moves that each make it better, and its rank.

        Args:
            seen: Pools that were looked at before, where nothing new can come of them: then None.
        """
        value = self.value(pool)
        seen = set() if seen is None else seen
        while True:
            name = tuple(sorted(pool))
            if name in seen:
                return None
            seen.add(name)
            least = value + BETTER * abs(value)
            found = self._better(pool, least)
            gained = -np.inf if found is None else self.value(found[0])
            if found is None or not gained > least:  # a move may seem to gain by rounding
                return [*name], value
            pool, value = found[0], gained

    def _better(self, pool: list[int], least: float) -> tuple[list[int], float] | None:
        """A pool that ranks above `least`, by one move."""
        nobody = len(self.sizes) - 1
        inside = np.zeros(nobody, dtype=bool)
        inside[pool] = True
        rest = np.flatnonzero(~inside)
        outs, ins = (np.append(each, nobody).astype(int)[:, None] for each in (pool, rest))
        if len(outs) * len(ins) > MOVES and self.touch is None:
            ranks = self._alone(pool, inside)
            go, come = (each[np.sort(top(ranks[each[:, 0]], FIRST))] for each in (outs, ins))
            found = self._best(pool, go, come, least)
            if found is not None:
                return found
        found = self._best(pool, outs, ins, least)
        if found is None and nobody <= PAIRS:
            found = self._best(pool, _pairs(pool, nobody), _pairs(rest, nobody), least)
        return found

    def _alone(self, pool: list[int], inside: Mask) -> Float[np.ndarray, " u1"]:
        """Ranks of the pools that each unit alone leaves or joins; nobody comes first."""
        sign = np.append(np.where(inside, -1.0, 1.0), 0.0)
        along = self.forms[:, pool].sum(axis=1)
        change = np.diagonal(self.forms, axis1=1, axis2=2) + 2 * sign * along
        g, h, n = np.maximum(along[:, pool].sum(axis=1)[:, None] + change, 0.0)
        m = np.maximum(self.sizes[pool].sum() + sign * self.sizes, 1.0)
        ranks = self.limits.ranked(self.valued.scores(Sums(g, h, n, m, m, m)), m)
        return np.append(ranks[:-1], np.inf)


def _effects(valued: Valued, effects: Any, owner: Any, sizes: Any) -> Any:
    """What units have in common because several candidates have an effect, in units of 1/β."""
    kappa = valued.posterior.effect
    if valued.alone:
        return 0.0
    if valued.pooling.effect:
        return kappa * np.outer(sizes, sizes)
    _, code = np.unique(effects, return_inverse=True)
    member = np.zeros((len(sizes), int(code.max()) + 1))
    np.add.at(member, (owner, code), 1.0)
    return kappa * (member @ member.T)


def _conflict(
    units: Units, everyone: Int[np.ndarray, " v"], owner: Int[np.ndarray, " v"]
) -> Float[np.ndarray, "u1 u1"] | None:
    """Which units must be apart."""
    if units.classes is None:
        return None
    found, sizes = units.classes.joined(everyone)
    if not len(found):
        return None
    n, (_, code) = int(owner[-1]) + 1, np.unique(found, return_inverse=True)
    member = np.zeros((n + 1, int(code.max()) + 1))
    member[np.repeat(owner, sizes), code] = 1.0
    conflict = (member @ member.T > 0).astype(float)
    np.fill_diagonal(conflict, 0.0)
    return conflict


def _touch(
    units: Units, everyone: Int[np.ndarray, " v"], owner: Int[np.ndarray, " v"]
) -> Mask | None:
    """Which units touch."""
    if units.links is None:
        return None
    place = np.full(len(units), -1)
    place[everyone] = owner
    found, sizes = units.links.joined(everyone)
    others, n = place[found], int(owner[-1]) + 1
    touch = np.zeros((n, n), dtype=bool)
    touch[np.repeat(owner, sizes)[others >= 0], others[others >= 0]] = True
    np.fill_diagonal(touch, False)
    return touch


def _pairs(units: Any, nobody: int) -> Int[np.ndarray, "a 2"]:
    """All pairs of these, one with nobody included."""
    every = [*map(int, units), nobody]
    return np.array([*combinations(every, 2)], dtype=int).reshape(-1, 2)
