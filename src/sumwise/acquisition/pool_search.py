"""Pools that are worth most: which candidates to measure together.

The best pool of 0/1 weights is sought from several starts. Each eigenvector of the relaxation
(`pool_bound`) orders the candidates; the best prefix of that order is a pool, whose gradient orders
them anew. After a few of these sweeps, candidates that came near any prefix go on a board, where
pools are improved by moves (`pool_board`); candidates that the best pool's gradient still prefers
join the board, until none does. A sweep is one product with the candidates' rows for all starts
together, and nothing else looks at all candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sumwise.acquisition.pool_board import Board, Limits, Units
from sumwise.acquisition.pool_bound import Relaxed, gradient, relax
from sumwise.acquisition.pool_value import Sums, Valued
from sumwise.acquisition.pool_weights import free_weights
from sumwise.data.pool_rules import PoolRules
from sumwise.util.shapes import Float, Int, Mask

STARTS: Final = 6  # eigenvectors, of both signs
SINGLES: Final = 48  # units that pools are grown from on a small board
SWEEPS: Final = 2
NEAR: Final = 12  # units beyond the largest pool that each sweep puts on the board
SMALL: Final = 128  # units that are all on the board
TRIED: Final = 6  # prefixes that are improved
ROUNDS: Final = 4
BLOCKS: Final = 12  # of those that pools stay within, searched in full


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A pool: rows of candidates, their weights, its score, and a bound on that of any pool."""

    rows: Int[np.ndarray, " m"]
    theta: Float[np.ndarray, " m"]
    score: float
    bound: float

    @property
    def fraction(self) -> float:
        """How much of the bound is reached."""
        return min(self.score / self.bound, 1.0) if self.bound > 0 else 1.0


def search(valued: Valued, rules: PoolRules, allowed: Mask, most: int) -> Found | None:
    """The best pool that is found; None if none keeps to the rules.

    Args:
        allowed: Candidates that may be in a pool.
        most: Members that money pays for, and the rules allow.
    """
    if not allowed.any() or most < 1:
        return None
    relaxed = relax(valued, allowed, most, STARTS)
    rows = _binary(valued, rules, allowed, most, relaxed)
    best = None if rows is None else (rows, np.ones(len(rows)))
    if rules.weights is not None and best is not None:
        best = free_weights(valued, rules, allowed, most, relaxed, best)
    if best is None:
        return None
    score = valued.score(*best)
    return Found(*best, score, max(relaxed.bound, score))


def _binary(
    valued: Valued, rules: PoolRules, allowed: Mask, most: int, relaxed: Relaxed
) -> Int[np.ndarray, " m"] | None:
    """Rows of the best pool with weights of 1."""
    limits = limits_of(rules, most)
    units = units_of(valued, rules, allowed)
    if not len(units):
        return None
    arenas = [np.arange(len(units))]
    if rules.within is not None:
        arenas = _blocks(valued, limits, units, rules.within, relaxed)
    elif units.links is not None and len(units) > SMALL:
        arenas = _surroundings(valued, units)
    best: tuple[list[int], float] | None = None
    for which in arenas:
        found = _searched(valued, limits, units, which, relaxed)
        if found is not None and (best is None or found[1] > best[1]):
            best = found
    if best is None:
        return None
    return np.sort(np.concatenate([units.rows[unit] for unit in best[0]]))


def limits_of(rules: PoolRules, most: int) -> Limits:
    """The limits of pools with at most so many members."""
    strata = 0 if rules.strata is None else len(np.unique(rules.strata[rules.strata >= 0]))
    cost = None if rules.cost is None else (rules.cost, rules.cost_per_member)
    return Limits(rules.size[0], most, strata, cost)


def units_of(valued: Valued, rules: PoolRules, allowed: Mask) -> Units:
    """Allowed candidates as units; those who must be together with one who is not are left out."""
    n = len(allowed)
    codes = np.arange(n) + (0 if rules.together is None else int(rules.together.max(initial=0)) + 1)
    if rules.together is not None:
        codes = np.where(rules.together >= 0, rules.together, codes)
    if rules.within is not None:
        allowed = allowed & (rules.within >= 0)
    whole = ~np.isin(codes, codes[~allowed])
    at = np.flatnonzero(whole)
    _, first, unit = np.unique(codes[at], return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))  # in order of their first candidate
    unit = rank[unit]
    order = np.argsort(unit, kind="stable")
    rows = np.split(at[order], np.cumsum(np.bincount(unit))[:-1]) if len(at) else []
    p = valued.p[at]
    if len(rows) < len(at):
        p = np.add.reduceat(p[order], np.cumsum(np.bincount(unit)) - np.bincount(unit))
    place = np.full(n, -1)
    place[at] = unit
    apart, covers = [np.empty((0, 2), dtype=int)], np.zeros(len(rows), dtype=int)
    shift = 0
    for codes_of in (rules.apart, rules.strata):
        if codes_of is not None:
            some = at[codes_of[at] >= 0]
            apart.append(np.stack([place[some], codes_of[some] + shift], axis=1))
            shift += int(codes_of.max(initial=-1)) + 1
    if rules.strata is not None:
        covers = np.bincount(place[at], rules.strata[at] >= 0, len(rows)).astype(int)
    pairs = np.concatenate(apart)
    ok = _without_conflict(pairs, len(rows))
    links = None if rules.neighbours is None else _links(rules.neighbours, place, len(rows))
    borders = None if rules.neighbours is None else _borders(rules.neighbours, place)
    made = Units(tuple(rows), p, pairs, covers, links, borders)
    return made if ok.all() else _only(made, ok)


def _without_conflict(pairs: Int[np.ndarray, "C 2"], n: int) -> Mask:
    """Units that do not have two candidates of one class."""
    ok = np.ones(n, dtype=bool)
    if len(pairs):
        found, counts = np.unique(pairs, axis=0, return_counts=True)
        ok[found[counts > 1, 0]] = False
    return ok


def _only(units: Units, ok: Mask) -> Units:
    """Some of the units, numbered anew."""
    place = np.cumsum(ok) - 1
    kept = ok[units.apart[:, 0]]
    apart = units.apart[kept].copy()
    apart[:, 0] = place[apart[:, 0]]
    links = None
    if units.links is not None:
        links = tuple(
            place[each[ok[each]]] for each, mine in zip(units.links, ok, strict=True) if mine
        )
    rows = tuple(each for each, mine in zip(units.rows, ok, strict=True) if mine)
    return Units(rows, units.p[ok], apart, units.covers[ok], links, units.borders)


def _links(
    pairs: Int[np.ndarray, "E 2"], place: Int[np.ndarray, " N"], n: int
) -> tuple[Int[np.ndarray, " n"], ...]:
    """Units that each unit touches."""
    a, b = place[pairs[:, 0]], place[pairs[:, 1]]
    kept = (a >= 0) & (b >= 0) & (a != b)
    both = np.unique(
        np.concatenate([np.stack([a, b])[:, kept], np.stack([b, a])[:, kept]], axis=1), axis=1
    )
    ends = np.searchsorted(both[0], np.arange(n + 1))
    return tuple(both[1, ends[i] : ends[i + 1]] for i in range(n))


def _borders(pairs: Int[np.ndarray, "E 2"], place: Int[np.ndarray, " N"]) -> dict[int, set[int]]:
    """Candidates that each candidate touches."""
    found: dict[int, set[int]] = {}
    for a, b in pairs[(place[pairs] >= 0).all(axis=1)].tolist():
        found.setdefault(a, set()).add(b)
        found.setdefault(b, set()).add(a)
    return found


# --- where to search ------------------------------------------------------------------------------


def _blocks(
    valued: Valued, limits: Limits, units: Units, within: Int[np.ndarray, " N"], relaxed: Relaxed
) -> list[Int[np.ndarray, " u"]]:
    """Units of each block; of many blocks, those with the best prefixes."""
    first = np.array([rows[0] for rows in units.rows])
    same = np.array([len(np.unique(within[rows])) == 1 for rows in units.rows])
    codes = np.where(same, within[first], -1)
    blocks = [np.flatnonzero(codes == code) for code in np.unique(codes[codes >= 0])]
    if len(blocks) <= BLOCKS:
        return blocks
    values = []
    for which in blocks:
        scores = units.p[which] @ relaxed.directions
        tried = [_prefix_value(valued, limits, units, which, s) for s in (*scores.T, *-scores.T)]
        values.append(max(tried, default=-np.inf))
    best = np.argsort(-np.array(values), kind="stable")[:BLOCKS]
    return [blocks[i] for i in sorted(best)]


def _prefix_value(
    valued: Valued, limits: Limits, units: Units, which: Int[np.ndarray, " u"], scores: Any
) -> float:
    """The rank of the best prefix, noise of pools with common effects left out."""
    order = which[np.argsort(-scores, kind="stable")[: limits.most]]
    along = np.cumsum(units.p[order], axis=0)
    z, y = along @ valued.root, along @ valued.aims
    m = np.cumsum([len(units.rows[i]) for i in order]).astype(float)
    ok = (m <= limits.most) & (m >= limits.fewest)
    if not ok.any():
        return -np.inf
    noise = m * (1 + valued.posterior.effect) / valued.posterior.noise_precision
    sums = Sums((z**2).sum(axis=1), (y**2).sum(axis=1), noise, m, m, m)
    return float(limits.ranked(valued.scores(sums), m)[ok].max())


def _surroundings(valued: Valued, units: Units) -> list[Int[np.ndarray, " u"]]:
    """Units near the best single ones, on a graph."""
    assert units.links is not None
    seeds = np.argsort(-_single_values(valued, units), kind="stable")
    arenas, taken = [], np.zeros(len(units), dtype=bool)
    for seed in seeds:
        if taken[seed]:
            continue
        near: list[int] = []
        todo, seen = [int(seed)], {int(seed)}
        while todo and len(near) < SMALL:
            at = todo.pop(0)
            near.append(at)
            new = [other for other in units.links[at].tolist() if other not in seen]
            seen.update(new)
            todo += new
        taken[near[: max(1, SMALL // 4)]] = True
        arenas.append(np.array(sorted(near)))
        if len(arenas) == BLOCKS:
            break
    return arenas


def _single_values(valued: Valued, units: Units) -> Float[np.ndarray, " U"]:
    """Scores of units by themselves."""
    z, y = units.p @ valued.root, units.p @ valued.aims
    m = np.array([len(rows) for rows in units.rows], dtype=float)
    known = units.p[:, valued.n_basis :]
    noise = m * (1 + valued.posterior.effect) - np.einsum("up,up->u", known, known)
    noise = np.maximum(noise, 0.0) / valued.posterior.noise_precision
    sums = Sums(np.einsum("uk,uk->u", z, z), np.einsum("uj,uj->u", y, y), noise, m, m, m)
    return valued.scores(sums)


# --- one arena ------------------------------------------------------------------------------------


def _searched(
    valued: Valued, limits: Limits, units: Units, which: Int[np.ndarray, " u"], relaxed: Relaxed
) -> tuple[list[int], float] | None:
    """The best pool of these units, by their numbers, and its rank."""
    if len(which) <= SMALL:
        board = Board.of(valued, limits, units, which)
        starts = _small_starts(board, units, relaxed)
    else:
        board, starts = _large_starts(valued, limits, units, which, relaxed)
    best: tuple[list[int], float] | None = None
    for pool in starts:
        found = board.improve(pool)
        if best is None or found[1] > best[1]:
            best = found
    if best is None:
        return None
    chosen, value = board.units[best[0]].tolist(), best[1]
    for _ in range(ROUNDS if len(which) > SMALL else 0):
        near = _nearest(units, which, _gradients(valued, units, [chosen]), limits)
        if np.isin(near, board.units).all():
            break
        board = Board.of(valued, limits, units, np.union1d(near, chosen))
        found = board.improve(np.searchsorted(board.units, chosen).tolist())
        if not found[1] > value * (1 + 1e-12):
            break
        chosen, value = board.units[found[0]].tolist(), found[1]
    return chosen, value


def _small_starts(board: Board, units: Units, relaxed: Relaxed) -> list[list[int]]:
    """Prefixes along eigenvectors, and pools that grow from single units."""
    along = units.p[board.units] @ relaxed.directions
    starts = [board.prefix(np.argsort(-s, kind="stable")) for s in (*along.T, *-along.T)]
    pools = [start[0] for start in starts if start is not None]
    singles = sorted(range(len(board.units)), key=lambda unit: -board.value([unit]))
    small = [unit for unit in singles[:SINGLES] if board.sizes[unit] <= board.limits.most]
    grown = [board.grow([unit]) for unit in small]
    if board.touch is not None:  # single moves do not lead everywhere on a graph
        grown += [board.grow([unit], largest=True) for unit in small]
    pools += [pool for pool in grown if pool is not None]
    return [list(pool) for pool in dict.fromkeys(tuple(sorted(pool)) for pool in pools)]


def _large_starts(
    valued: Valued, limits: Limits, units: Units, which: Int[np.ndarray, " u"], relaxed: Relaxed
) -> tuple[Board, list[list[int]]]:
    """A board of the units that sweeps come near, and the best prefixes on it."""
    p = units.p if len(which) == len(units) else units.p[which]
    directions = np.hstack([relaxed.directions, -relaxed.directions])
    seen: list[Any] = []
    pools: dict[tuple[int, ...], float] = {}
    for _ in range(SWEEPS + 1):
        scores = p @ directions
        tops = [_top(column, limits.most + NEAR) for column in scores.T]
        if limits.strata:
            tops = [
                _with_strata(units, which, top, column)
                for top, column in zip(tops, scores.T, strict=True)
            ]
        near = (
            np.unique(np.concatenate([*tops, *seen])) if tops else np.arange(min(len(which), SMALL))
        )
        seen.append(near)
        board = Board.of(valued, limits, units, which[near])
        found = []
        for top in tops:
            start = board.prefix(np.searchsorted(near, top))
            if start is not None:
                found.append(board.units[start[0]].tolist())
                pools[tuple(sorted(found[-1]))] = start[1]
        if not found:
            break
        directions = _gradients(valued, units, found).T
    best = sorted(pools, key=lambda pool: -pools[pool])[:TRIED]
    starts = [np.searchsorted(board.units, pool).tolist() for pool in best]
    if not starts:
        singles = sorted(range(len(board.units)), key=lambda unit: -board.value([unit]))
        grown = (board.grow([unit]) for unit in singles[:SINGLES])
        starts = [pool for pool in grown if pool is not None]
    return board, starts


def _top(scores: Float[np.ndarray, " u"], n: int) -> Int[np.ndarray, " n"]:
    """The largest, in falling order; the first of equal ones comes first."""
    n = min(n, len(scores))
    some = np.sort(np.argpartition(-scores, n - 1)[:n])
    return some[np.argsort(-scores[some], kind="stable")]


def _with_strata(units: Units, which: Any, top: Any, scores: Any) -> Int[np.ndarray, " n"]:
    """The same with the best few of every class, so that each stratum can be covered."""
    place = np.full(len(units), -1)
    place[which] = np.arange(len(which))
    mine = units.apart[place[units.apart[:, 0]] >= 0]
    at, classes = place[mine[:, 0]], mine[:, 1]
    order = np.lexsort((-scores[at], classes))
    rank = np.arange(len(order)) - np.searchsorted(classes[order], classes[order])
    few = at[order[rank < 3]]
    every = np.unique(np.concatenate([top, few]))
    return every[np.argsort(-scores[every], kind="stable")]


def _gradients(
    valued: Valued, units: Units, pools: Sequence[Sequence[int]]
) -> Float[np.ndarray, "b P"]:
    """The gradients at some pools, given by the numbers of their units."""
    along = np.stack([units.p[list(pool)].sum(axis=0) for pool in pools])
    members = np.array([sum(len(units.rows[unit]) for unit in pool) for pool in pools], float)
    return gradient(valued, along, members)


def _nearest(
    units: Units, which: Int[np.ndarray, " u"], directions: Float[np.ndarray, "b P"], limits: Limits
) -> Int[np.ndarray, " n"]:
    """Units that gradients prefer, by number."""
    p = units.p if len(which) == len(units) else units.p[which]
    tops = [_top(scores, 2 * (limits.most + NEAR)) for scores in (p @ directions.T).T]
    return np.unique(which[np.concatenate(tops)])
