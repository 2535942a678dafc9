"""Pools that are worth most: which candidates to measure together.

The best pool of 0/1 weights is sought from several starts. Each eigenvector of the relaxation
(`pool_bound`) orders the candidates; the best prefix of that order is a pool, whose gradient orders
them anew. After a few of these sweeps, candidates that came near any prefix go on a board, where
pools are improved by moves (`pool_board`); candidates that the best pool's gradient still prefers
join the board, until none does. A sweep is one product with the candidates' rows for all starts
together, and nothing else looks at all candidates.

Where pools stay within blocks or on a graph, each block or neighbourhood is an arena of its own;
those with the best pools after a short search are searched in full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from sumwise.acquisition.pool_board import Board
from sumwise.acquisition.pool_bound import Relaxed, gradient, relax
from sumwise.acquisition.pool_rows import Some, top
from sumwise.acquisition.pool_units import Limits, Units, prefix
from sumwise.acquisition.pool_value import Sums, Valued
from sumwise.acquisition.pool_weights import free_weights
from sumwise.data.pool_rules import PoolRules
from sumwise.util.shapes import Float, Int, Mask

STARTS: Final = 6  # eigenvectors, of both signs
SINGLES: Final = 48  # units that pools are grown from on a small board
FEW: Final = 4  # of them in a short search
KEPT: Final = (24, 20)  # starts that are improved on a graph, in a full and in a short search
SWEEPS: Final = 2
NEAR: Final = 12  # units beyond the largest pool that each sweep puts on the board
SMALL: Final = 128  # units that are all on the board
LARGE: Final = 1024  # units on a board, where one start does not need more
TRIED: Final = 6  # prefixes that are improved
ROUNDS: Final = 8
BLOCKS: Final = 12  # of those that pools stay within, and neighbourhoods, that are searched
FULL: Final = 3  # of these that are searched in full

# numbers of the units of a pool, its rank, and the same candidates with its members held
Pool: TypeAlias = tuple[np.ndarray, float, Valued]
Start: TypeAlias = tuple[float, np.ndarray, np.ndarray]  # rank, units, and others worth a look


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A pool: its candidates and their weights, its score, and a bound on that of any pool."""

    some: Some
    theta: Float[np.ndarray, " m"]
    score: float
    bound: float

    @property
    def rows(self) -> Int[np.ndarray, " m"]:
        """Numbers of the candidates."""
        return self.some.rows

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
    relaxed = relax(valued, valued.people.gram(allowed), most, STARTS)
    some = _binary(valued, rules, allowed, most, relaxed)
    best = None if some is None else (some, np.ones(len(some.rows)))
    if rules.weights is not None and best is not None:
        best = free_weights(valued, rules, allowed, most, relaxed, best)
    if best is None:
        return None
    score = valued.score(*best)
    return Found(*best, score, max(relaxed.bound, score))


def _binary(
    valued: Valued, rules: PoolRules, allowed: Mask, most: int, relaxed: Relaxed
) -> Some | None:
    """The best pool with weights of 1."""
    limits, units = Limits.of(rules, most), Units.of(rules, allowed)
    if not units.allowed.any():
        return None
    everyone = units.free and units.blocks is None and int(units.allowed.sum()) > SMALL
    arenas = [None] if everyone else _arenas(valued, limits, units, relaxed)
    found = _best_of(valued, limits, units, arenas, relaxed)
    if found is None:
        return None
    people = found[2].people  # with the members held
    return people.some(np.sort(units.members(found[0])[0]))


# --- where to search ------------------------------------------------------------------------------


def _arenas(
    valued: Valued, limits: Limits, units: Units, relaxed: Relaxed
) -> list[Int[np.ndarray, " u"]]:
    """Units that are searched together."""
    which = np.flatnonzero(units.allowed)
    if units.blocks is not None:
        return _blocks(valued, limits, units, which, relaxed)
    if units.links is not None and len(which) > SMALL:
        return _surroundings(valued, units, which)
    return [which]


def _best_of(
    valued: Valued,
    limits: Limits,
    units: Units,
    arenas: Sequence[Int[np.ndarray, " u"] | None],
    relaxed: Relaxed,
) -> Pool | None:
    """The best pool of all arenas; of many, only the best are searched in full.

    Args:
        arenas: Numbers of units; None for all who are allowed, where anybody may be with anybody.
    """
    if len(arenas) > FULL:
        short = [_searched(valued, limits, units, which, relaxed, short=True) for which in arenas]
        ranks = np.array([-np.inf if found is None else found[1] for found in short])
        some = np.argsort(-ranks, kind="stable")
        if ranks[some[0]] > -np.inf:
            arenas = [arenas[at] for at in some[:FULL]]
    full = [_searched(valued, limits, units, which, relaxed) for which in arenas]
    found = [each for each in full if each is not None]
    return max(found, key=lambda each: each[1]) if found else None


def _blocks(
    valued: Valued, limits: Limits, units: Units, which: Int[np.ndarray, " u"], relaxed: Relaxed
) -> list[Int[np.ndarray, " u"]]:
    """Units of each block; of many blocks, those with the best prefixes."""
    assert units.blocks is not None
    codes = units.blocks[which]
    which, codes = which[codes >= 0], codes[codes >= 0]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    blocks = np.split(which[order], starts[1:])
    if len(blocks) <= BLOCKS:
        return blocks
    codes = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
    scores = units.along(valued, which[order], relaxed.directions)
    tried = [
        _prefix_values(valued, limits, units, which[order], codes, along)
        for along in (*scores.T, *-scores.T)
    ]
    values = np.max(tried, axis=0)
    best = np.argsort(-values, kind="stable")[:BLOCKS]
    return [blocks[at] for at in np.sort(best)]


def _prefix_values(
    valued: Valued,
    limits: Limits,
    units: Units,
    which: Int[np.ndarray, " u"],
    codes: Int[np.ndarray, " u"],
    scores: Float[np.ndarray, " u"],
) -> Float[np.ndarray, " B"]:
    """The rank of the best of some prefixes of each block (1, 3, 7, … units), roughly: what others
    tell of their noise is left out.

    Args:
        codes: Numbers of their blocks, rising.
    """
    order = np.lexsort((-scores, codes))
    begin = np.searchsorted(codes, np.arange(codes[-1] + 1))
    place = np.arange(len(order)) - begin[codes]
    last = limits.most - 1
    kept = place <= last
    order, code, step = order[kept], codes[kept], np.log2(1 + np.minimum(place[kept], last))
    first = np.flatnonzero(np.diff(code * 64 + step.astype(int), prepend=-1))
    sums = np.add.reduceat(units.sums(valued, which[order]), first)
    members = np.add.reduceat(units.members(which[order])[1].astype(float), first)
    block = code[first]
    head = np.searchsorted(block, np.arange(block[-1] + 1))

    def prefixes(values: Any) -> Any:
        total = np.concatenate([np.zeros_like(values[:1]), np.cumsum(values, axis=0)])
        return total[1:] - total[head[block]]

    along, m = prefixes(sums), prefixes(members)
    z, y = along @ valued.root, along @ valued.aims
    noise = m * (1 + valued.posterior.effect) / valued.posterior.noise_precision
    forms = Sums(np.einsum("sk,sk->s", z, z), np.einsum("sj,sj->s", y, y), noise, m, m, m)
    ranks = limits.ranked(valued.scores(forms), m)
    large = np.append(head[1:], len(block)) - 1  # as large a pool as there is in the block
    ok = (m >= limits.fewest) | np.isin(np.arange(len(m)), large)
    found: Float[np.ndarray, " B"] = np.maximum.reduceat(np.where(ok, ranks, -np.inf), head)
    return found


def _surroundings(
    valued: Valued, units: Units, which: Int[np.ndarray, " u"]
) -> list[Int[np.ndarray, " u"]]:
    """Units near the best single ones, on a graph."""
    assert units.links is not None
    seeds = which[np.argsort(-_single_values(valued, units, which), kind="stable")]
    arenas, taken = [], ~units.allowed
    seen = taken.copy()
    for seed in seeds.tolist():
        if taken[seed]:
            continue
        near, todo = [seed], deque([seed])
        seen[seed] = True
        while todo and len(near) < SMALL:
            links = units.links[todo.popleft()]
            new = links[~seen[links]]
            seen[new] = True
            near += new.tolist()
            todo += new.tolist()
        seen[near] = False
        taken[near[: max(1, SMALL // 4)]] = True
        arenas.append(np.sort(near[:SMALL]))
        if len(arenas) == BLOCKS:
            break
    return arenas


def _single_values(
    valued: Valued, units: Units, which: Int[np.ndarray, " u"]
) -> Float[np.ndarray, " u"]:
    """Scores of units by themselves."""
    out = np.empty(len(which))
    for low in range(0, len(which), 4096):
        some = which[low : low + 4096]
        p, m = units.sums(valued, some), units.members(some)[1].astype(float)
        z, y, known = p @ valued.root, p @ valued.aims, p[:, valued.n_basis :]
        g, h, e = (np.einsum("uk,uk->u", each, each) for each in (z, y, known))
        noise = np.maximum(m * (1 + valued.posterior.effect) - e, 0.0)
        noise /= valued.posterior.noise_precision
        out[low : low + 4096] = valued.scores(Sums(g, h, noise, m, m, m))
    return out


# --- one arena ------------------------------------------------------------------------------------


def _searched(
    valued: Valued,
    limits: Limits,
    units: Units,
    which: Int[np.ndarray, " u"] | None,
    relaxed: Relaxed,
    *,
    short: bool = False,
) -> Pool | None:
    """The best pool of these units.

    Args:
        short: Look at few starts, and of many units only at prefixes.
    """
    if which is not None and len(which) <= SMALL:
        board = Board.of(valued, limits, units, which)
        found = _improved(board, _small_starts(board, units, which, relaxed, short=short))
        return None if found is None else (*found, valued)
    tried, near, valued = _prefixes(valued, limits, units, which, relaxed)
    if short and tried:
        return tried[0][1], tried[0][0], valued
    if tried:
        board, starts = _board_of(valued, limits, units, tried)
    else:
        if not len(near):
            near = (np.flatnonzero(units.allowed) if which is None else which)[:SMALL]
        board = Board.of(valued, limits, units, near)
        starts = _grown(board, SINGLES)
    best = _improved(board, starts)
    for _ in range(ROUNDS if best is not None else 0):
        assert best is not None
        chosen, value = best
        directions = _gradients(board.valued, units, [chosen]).T
        (near,), valued = _tops(board.valued, units, which, directions, 4 * (limits.most + NEAR))
        known = board.numbers(range(len(board.units)))
        if np.isin(near, known).all():
            break
        board, starts = _board_of(valued, limits, units, [(value, chosen, near)])
        found = _improved(board, starts)
        if found is None or not found[1] > value * (1 + 1e-12):
            break
        best = found
    return None if best is None else (*best, board.valued)


def _improved(
    board: Board, starts: Sequence[list[int]]
) -> tuple[Int[np.ndarray, " k"], float] | None:
    """The best pool that moves lead to, by the numbers of its units, and its rank."""
    seen = set[tuple[int, ...]]()
    ends = [end for start in starts if (end := board.improve(start, seen)) is not None]
    if not ends:
        return None
    pool, value = max(ends, key=lambda end: end[1])
    return np.sort(board.numbers(pool)), value


def _small_starts(
    board: Board, units: Units, which: Int[np.ndarray, " u"], relaxed: Relaxed, *, short: bool
) -> list[list[int]]:
    """Prefixes along eigenvectors, and pools that grow from the best single units."""
    along = units.along(board.valued, which, relaxed.directions)
    orders = (which[np.argsort(-scores, kind="stable")] for scores in (*along.T, *-along.T))
    starts = [prefix(board.valued, board.limits, units, order) for order in orders]
    pools = [board.places(start[0]) for start in starts if start is not None]
    pools += _grown(board, FEW if short else SINGLES)
    pools = [*{tuple(sorted(pool)): pool for pool in pools}.values()]
    if board.touch is None:
        return pools
    return sorted(pools, key=lambda pool: -board.value(pool))[: KEPT[short]]


def _grown(board: Board, singles: int) -> list[list[int]]:
    """Pools that grow from the best single units."""
    order = np.argsort(-board.singles(), kind="stable")
    small = order[board.sizes[order] <= board.limits.most][:singles]
    grown = board.grow(small)
    if board.touch is not None:  # single moves do not lead everywhere on a graph
        grown += board.grow(small, largest=True)
    return grown


def _prefixes(
    valued: Valued,
    limits: Limits,
    units: Units,
    which: Int[np.ndarray, " u"] | None,
    relaxed: Relaxed,
) -> tuple[list[Start], Int[np.ndarray, " u"], Valued]:
    """The best prefixes that sweeps find; some units; and the same candidates with these held."""
    directions = np.hstack([relaxed.directions, -relaxed.directions])
    tried: dict[tuple[int, ...], Start] = {}
    near = np.empty(0, dtype=int)
    for _ in range(SWEEPS + 1 if directions.shape[1] else 0):
        tops, valued = _tops(valued, units, which, directions, limits.most + NEAR)
        near, found = np.unique(np.concatenate(tops)), dict[tuple[int, ...], Start]()
        for order in tops:
            start = prefix(valued, limits, units, order)
            if start is not None:
                found[tuple(sorted(start[0].tolist()))] = start[1], start[0], order
        found = {name: start for name, start in found.items() if name not in tried}
        if not found:
            break
        tried |= found
        directions = _gradients(valued, units, [start[1] for start in found.values()]).T
    return sorted(tried.values(), key=lambda start: -start[0]), near, valued


def _board_of(
    valued: Valued, limits: Limits, units: Units, starts: Sequence[Start]
) -> tuple[Board, list[list[int]]]:
    """A board, and where on it the best pools are that it has room for.

    Args:
        starts: The best first.
    """
    _, pool, near = starts[0]
    if units.free and 2 * len(pool) > LARGE:  # most of the members are beyond doubt
        core = near[np.isin(near, pool)][: len(pool) - LARGE // 8]
        others = near[~np.isin(near, pool)][: LARGE // 8]
        edge = np.union1d(np.setdiff1d(pool, core), others)
        board = Board.of(valued, limits, units, edge, core)
        return board, [board.places(pool)]
    every = np.union1d(pool, near[:LARGE])
    for _, each, mine in starts[1:]:
        more = np.union1d(every, np.union1d(each, mine))
        every = more if len(more) <= LARGE else every
    board = Board.of(valued, limits, units, every)
    fits = [each for _, each, _ in starts if np.isin(each, every).all()]
    return board, [
        board.places(each) for each in fits[: max(1, min(TRIED, LARGE // 4 // len(pool)))]
    ]


def _tops(
    valued: Valued, units: Units, which: Int[np.ndarray, " u"] | None, directions: Any, n: int
) -> tuple[list[Int[np.ndarray, " n"]], Valued]:
    """The units with the largest products along each direction, in falling order; and the same
    candidates with these held.

    Args:
        which: Units to choose from; None for all who are allowed, each a candidate.
    """
    if which is None:
        found, people = valued.people.tops(directions, n, units.allowed)
        return found, replace(valued, people=people)
    scores = units.along(valued, which, directions).T
    tops = [top(each, n) for each in scores]
    if units.covers is not None:
        pairs = zip(tops, scores, strict=True)
        tops = [_with_strata(units, which, found, each) for found, each in pairs]
    return [which[found] for found in tops], valued


def _with_strata(
    units: Units, which: Int[np.ndarray, " u"], found: Any, scores: Any
) -> Int[np.ndarray, " n"]:
    """The same with the best few of every class, so that each stratum can be covered."""
    assert units.classes is not None
    classes, sizes = units.classes.joined(which)
    at = np.repeat(np.arange(len(which)), sizes)
    order = np.lexsort((-scores[at], classes))
    rank = np.arange(len(order)) - np.searchsorted(classes[order], classes[order])
    every = np.unique(np.concatenate([found, at[order[rank < 3]]]))
    return every[np.argsort(-scores[every], kind="stable")]


def _gradients(
    valued: Valued, units: Units, pools: Sequence[Int[np.ndarray, " k"]]
) -> Float[np.ndarray, "b P"]:
    """The gradients at some pools, given by the numbers of their units."""
    along = np.stack([units.sums(valued, pool).sum(axis=0) for pool in pools])
    members = np.array([len(units.members(pool)[0]) for pool in pools], dtype=float)
    return gradient(valued, along, members)
