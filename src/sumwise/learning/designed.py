"""Questions of a study whose sets are designed: the next pool of its individuals, or a given set.

A pool that is asked for becomes a set of the study, after those that it began with, and stays one.
Until then it is in the question alone (`Ask.pool`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sumwise.acquisition.objective import Objective
from sumwise.acquisition.strategies import named
from sumwise.data.pool_rules import PoolRules
from sumwise.data.sets import Sets, as_objects
from sumwise.errors import PoolExhaustedError, SettingError, SumwiseError
from sumwise.learning.pools import (
    Designed,
    Taken,
    Weighted,
    candidates_of,
    design_among,
    pools_of,
    rows_in,
    uses_in,
)
from sumwise.learning.propose import UNKNOWN, Ask, Draws, NewPool, PoolState, Prices, propose
from sumwise.model.design import Design, Pool
from sumwise.model.fit import Model
from sumwise.util.shapes import Int, Mask, PerSet
from sumwise.util.text import count

NAME: Final = re.compile(r"pool ([1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True, eq=False)
class Designing:
    """What a study that designs its sets knows of its individuals."""

    rules: PoolRules
    candidates: Sets  # one-instance sets
    rows: Int[np.ndarray, " N"]  # where each of them is among the sets' individuals, first
    names: tuple[Hashable, ...]  # of the candidates
    n_begun: int  # sets that the study began with
    alone: bool  # whether each of them is an individual, so that no sets are given

    @classmethod
    def of(cls, rules: PoolRules, begun: Sets) -> Designing:
        """For these sets, see `begin`."""
        alone, candidates = bool((begun.sizes == 1).all()), candidates_of(begun)
        assert begun.members is not None  # see `begin`
        rows = np.unique(begun.members, return_index=True)[1]
        if candidates.row_ids is not None:
            names = candidates.row_ids.tolist()
        else:
            owners = np.searchsorted(begun.starts, rows, side="right") - 1
            numbers = (rows - begun.starts[owners] + 1).tolist()
            names = [begun.ids[a] for a in owners]
            names = names if alone else [*zip(names, numbers, strict=True)]
        return cls(rules, candidates, rows, tuple(names), len(begun), alone)

    def pool_at(self, sets: Sets, position: int) -> NewPool | None:
        """A pool that is there already; None for a set that the study began with."""
        if position < self.n_begun:
            return None
        ((rows, theta),) = rows_in(self.candidates, sets.take([position]))
        members = tuple(self.names[row] for row in rows)
        return NewPool(tuple(rows.tolist()), tuple(theta.tolist()), members, None)

    def positions(self, n_sets: int) -> list[int]:
        """Positions of the given sets and of pools; individuals by themselves are neither."""
        return [*range(self.n_begun if self.alone else 0, n_sets)]

    def made(self, state: PoolState) -> set[int]:
        """Positions of what was or is being measured, and of sets and pools that were skipped."""
        aside = (at for at in state.skipped if at >= self.n_begun or not self.alone)
        return {*state.answered, *state.claimed, *aside}

    def counts(self, state: PoolState) -> tuple[int, int, int, int]:
        """How many sets and pools there are to count, are measured, are being, and are skipped.

        Individuals by themselves count if they are measured; a pool that was given back does not.
        """
        made = self.made(state)
        given = set() if self.alone else set(range(self.n_begun))
        aside = sum(at in made for at in state.skipped)
        return len(made | given), len(state.answered), len(state.claimed), aside

    def used(self, sets: Sets, state: PoolState) -> Int[np.ndarray, " N"]:
        """In how many sets and pools that count as measured each candidate is."""
        found = rows_in(self.candidates, sets.take(sorted(self.made(state))))
        return uses_in(len(self.candidates), found)

    def joined(self, sets: Sets, pools: Sequence[Weighted], ids: Sequence[Hashable]) -> Sets:
        """The sets of a study with more pools, which are never asked for as they are."""
        new = pools_of(self.candidates, pools, ids, effect=self.rules.effect)
        if self.rules.effect:  # not those of earlier pools
            assert new.effects is not None
            new = replace(new, effects=new.effects + len(sets) - self.n_begun)
        both = Sets.concat([sets, new])
        return replace(both, origin=replace(sets.origin, extra=sets.origin.extra + len(new)))

    def extended(self, aims: Objective, pools: Sequence[Weighted]) -> Objective:
        """Costs and known noise of the study's sets, with those of more pools."""
        sizes = [len(rows) for rows, _ in pools]
        noise, cost = aims.noise_std, aims.cost
        if noise is not None:
            noise = np.append(noise, [self.rules.noise_of(size) for size in sizes])
        if cost is not None:
            cost = np.append(cost, [self.rules.cost_of(size) for size in sizes])
        return replace(aims, noise_std=noise, cost=cost)

    def planned(self, aims: Objective) -> PerSet | None:
        """Noise of pooling in each total, 0 for given sets."""
        if aims.noise_std is None or not (self.rules.noise_std or self.rules.noise_std_per_member):
            return None
        given = 0 if self.alone else self.n_begun
        return np.concatenate([np.zeros(given), aims.noise_std[given:]])

    def begun(self, sets: Sets, aims: Objective) -> tuple[Sets, Objective]:
        """The sets without pools, and what is known of them."""
        return sets.take(range(self.n_begun)), of_first(aims, self.n_begun)

    def taken(self, sets: Sets, state: PoolState, noise_std: PerSet | None) -> Taken:
        """What has become of candidates: who was or is being measured, or cannot be."""
        positions = [*state.answered, *state.claimed, *state.skipped]
        used = uses_in(len(self.candidates), rows_in(self.candidates, sets.take(positions)))
        allowed = np.ones(len(self.candidates), dtype=bool)
        if self.alone:
            allowed[[at for at in state.skipped if at < self.n_begun]] = False
        waiting = rows_in(self.candidates, sets.take(state.claimed))
        noise = None if noise_std is None else noise_std[list(state.claimed)].tolist()
        return Taken(used, allowed, waiting, noise)


def of_first(aims: Objective, n: int) -> Objective:
    """What is known of the first n sets."""
    noise, cost = (None if v is None else v[:n] for v in (aims.noise_std, aims.cost))
    return replace(aims, noise_std=noise, cost=cost)


def begin(sets: Sets) -> Sets:
    """The sets that a study begins with, such that pools of their individuals may join them.

    Individuals by themselves have no effect in common with others; members of given sets do. Those
    who are sets of their own are named by these where they are in pools.
    """
    if sets.members is None:
        own = np.repeat(np.arange(len(sets)), sets.sizes)
        sets = replace(sets, members=np.arange(len(sets.x)), effects=own)
    if sets.row_ids is None and (sets.sizes == 1).all():
        sets = replace(sets, row_ids=as_objects(sets.ids))
    return sets


def priced(aims: Objective, sets: Sets, rules: PoolRules) -> Objective:
    """Costs and known noise of the sets that a study begins with, where its rules know them.

    Individuals by themselves are pools of one.
    """
    alone = bool((sets.sizes == 1).all())
    noise, cost = aims.noise_std, aims.cost
    if alone and not (noise is None and cost is None):
        raise SettingError(
            "cost and noise_std are those of given sets, and here are single individuals only. Say "
            "what a pool costs, and its noise, among the rules of pools (--pool-cost, "
            "--pool-noise-std in the shell); an individual by itself is a pool of one"
        )
    if (cost is None) != (rules.cost is None) and not alone:
        raise SettingError(
            "given sets and designed pools compete, so either both cost something or neither: give "
            "cost= for given sets, and the rules of pools a cost (cost, cost_per_member)"
        )
    if alone and rules.cost is not None:
        cost = np.full(len(sets), rules.cost_of(1))
    if noise is None and (rules.noise_std or rules.noise_std_per_member):
        noise = np.full(len(sets), rules.noise_of(1) if alone else 0.0)
    return replace(aims, noise_std=noise, cost=cost)


def pool_of(pool: Pool, sets: Sets, more: Design) -> Pool:
    """Sets as strategies see them, with those that have joined."""
    design = pool.design
    squares = design.squares
    if squares is not None:
        squares = np.append(squares, more.own_scale)
    own = Design(
        np.vstack([design.u, more.u]),
        np.append(design.noise_scale, more.noise_scale),
        np.append(design.theta_sum, more.theta_sum),
        np.append(design.effect_scale, more.effect_scale),
        squares=squares,
    )
    return replace(pool, sets=sets, design=own, signal=None, square=None, phi=None)


def with_asked(
    pool: Pool, model: Model, designing: Designing, aims: Objective, asked: Sequence[Ask]
) -> tuple[Pool, Objective]:
    """The sets with pools that are in questions alone, and what is known of all of them."""
    new = [ask for ask in asked if ask.pool is not None and ask.set_id not in pool.sets]
    if not new:
        return pool, aims
    each = [weighted(ask.pool) for ask in new if ask.pool is not None]
    sets = designing.joined(pool.sets, each, [ask.set_id for ask in new])
    more = sets.take(range(len(pool.sets), len(sets))).pool(model).design
    known = designing.extended(aims, each)
    if known.noise_std is not None:
        unit = float(model.posterior.output_scale[0])
        noise = known.noise_std[len(pool.sets) :] / unit
        more = more.with_known_noise(noise, model.posterior.noise_precision)
    return pool_of(pool, sets, more), known


def weighted(pool: NewPool) -> Weighted:
    """Rows of candidates and their weights."""
    return np.array(pool.rows, dtype=int), np.array(pool.theta)


def names_after(ids: Sequence[Hashable]) -> Iterator[str]:
    """Names of pools that are not taken, in order."""
    found = (NAME.fullmatch(name) for name in ids if isinstance(name, str))
    last, taken = max((int(each[1]) for each in found if each), default=0), {*ids}
    while True:
        last += 1
        if (name := f"pool {last}") not in taken:
            yield name


@dataclass(frozen=True, slots=True, eq=False)
class Sought:
    """All that the next questions depend on."""

    pool: Pool  # the study's sets
    people: Pool  # candidates
    model: Model
    strategy: str
    state: PoolState
    aims: Objective


def propose_pools(
    sought: Sought,
    designing: Designing,
    draws: Draws,
    n: int,
    budget: float = math.inf,
    *,
    fewer: bool = False,
) -> list[Ask]:
    """The next n questions, or as many as a budget pays for.

    Args:
        fewer: Give fewer questions where there are no more, and none instead of a refusal.
    """
    asked: list[Ask] = []
    if designing.alone:
        try:
            return _designed(sought, designing, n, budget, fewer=fewer)
        except SumwiseError:
            if fewer:
                return asked
            raise
    paid = 0.0
    while len(asked) < n:
        try:
            ask = _better(sought, designing, draws, budget - paid)
        except SumwiseError:
            if fewer or (asked and budget < math.inf):
                break
            raise
        asked.append(ask)
        paid += ask.cost or 0.0
        if len(asked) < n:
            sought = _after(sought, designing, ask)
    return asked


def chosen_set(sought: Sought, designing: Designing, draws: Draws, position: int) -> Ask:
    """The question for a set that is there already and was chosen by the user."""
    sets, state = sought.pool.sets, sought.state
    state = replace(state, skipped=[at for at in state.skipped if at != position])
    sought = replace(sought, state=state)
    if not _free(sought, designing, everyone=True)[position]:
        times = count(designing.rules.uses or 0, "time")
        raise SettingError(
            f"set {sets.ids[position]!r} has members who were used {times} already, which is "
            "as often as they may be; ask for another"
        )
    others = set(range(len(sets))) - {position}
    seen = sought.model, sought.strategy, replace(state, gone=sorted(others)), draws
    prices = Prices(sought.aims.cost)
    (ask,) = propose(sought.pool, *seen, wanted=position, prices=prices, runner_up=False)
    size = count(int(sets.sizes[position]), "individual")
    why = f"Chosen by hand ({size}): {named(sought.strategy).reason}."
    pool = designing.pool_at(sets, position)
    return replace(ask, why=why if state.answered else f"{why} {UNKNOWN}", pool=pool)


def _better(sought: Sought, designing: Designing, draws: Draws, budget: float) -> Ask:
    """The best given set, or the best pool, whichever gains more (per cost, where that counts)."""
    found: list[Ask] = []
    refused: list[SumwiseError] = []
    ways: Sequence[Callable[[], Ask]] = (
        lambda: _given(sought, designing, draws, budget),
        lambda: _designed(sought, designing, 1, budget, fewer=False)[0],
    )
    for way in ways:
        try:
            found.append(way())
        except SumwiseError as error:
            refused.append(error)
    if not found:
        raise refused[-1]
    # the given set, where both are the same
    best = max(found, key=lambda ask: ask.score_per_cost or ask.score)
    other = next((ask for ask in found if ask is not best), None)
    if other is None:
        return best
    second = best.runner_up_score if best.pool is None else None
    if second is not None and second >= other.score:
        return best
    name, score = other.set_id, other.score
    return replace(best, runner_up=name, runner_up_score=score, runner_up_cost=other.cost)


def _given(sought: Sought, designing: Designing, draws: Draws, budget: float) -> Ask:
    """The best given set."""
    free = _free(sought, designing)
    gone = (*sought.state.gone, *np.flatnonzero(~free).tolist())
    state, prices = replace(sought.state, gone=gone), Prices(sought.aims.cost, budget)
    seen = sought.pool, sought.model, sought.strategy, state, draws
    found = propose(*seen, n=1, prices=prices)
    if not found:
        raise PoolExhaustedError(f"the budget of {budget:g} pays for no given set")
    return found[0]


def _free(sought: Sought, designing: Designing, *, everyone: bool = False) -> Mask:
    """Which sets are given, and have no member that was used as often as it may be.

    Args:
        everyone: Look at all sets, given or designed.
    """
    sets, rules = sought.pool.sets, designing.rules
    free = (np.arange(len(sets)) < designing.n_begun) | everyone
    if rules.uses is not None:
        taken = designing.taken(sets, sought.state, None)
        spent = np.flatnonzero(taken.used >= rules.uses)
        assert sets.members is not None
        assert designing.candidates.members is not None
        gone = np.isin(sets.members, designing.candidates.members[spent])
        free &= ~np.logical_or.reduceat(gone, sets.starts[:-1])
    return free


def _designed(
    sought: Sought, designing: Designing, n: int, budget: float, *, fewer: bool
) -> list[Ask]:
    """The next pools."""
    sets, state, rules = sought.pool.sets, sought.state, designing.rules
    taken = designing.taken(sets, state, sought.aims.noise_std)
    seen = sought.people, sought.model, sought.strategy, rules, taken
    found = design_among(*seen, n=n, budget=budget, fewer=fewer)
    names = zip(names_after(sets.ids), found, strict=False)
    return [
        _ask(each, name, designing, state.questions + number)
        for number, (name, each) in enumerate(names)
    ]


def _ask(found: Designed, name: str, designing: Designing, number: int) -> Ask:
    members = tuple(designing.names[row] for row in found.rows)
    return Ask(
        set_id=name,
        score=found.score,
        expected=found.expected,
        std=found.std,
        why=found.why,
        information=found.information,
        number=number,
        cost=found.cost,
        pool=NewPool(found.rows, found.theta, members, found.bound),
    )


def _after(sought: Sought, designing: Designing, ask: Ask) -> Sought:
    """The same with a question that is open."""
    pool, aims = with_asked(sought.pool, sought.model, designing, sought.aims, [ask])
    state = sought.state
    claimed = (*state.claimed, pool.sets.position(ask.set_id))
    state = replace(state, claimed=claimed, questions=state.questions + 1)
    return replace(sought, pool=pool, aims=aims, state=state)
