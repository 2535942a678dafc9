"""Pools by design: which individuals to measure together.

Where the user decides the grouping, the sets themselves are chosen. `design_pools` gives pools that
are jointly good: each is worked out as if those before it were measured. Designed pools are sets
that may share individuals, so that fits and predictions treat them as any overlapping sets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Unpack

import numpy as np

from sumwise.acquisition.known_noise import given_answers
from sumwise.acquisition.objective import Objective, read
from sumwise.acquisition.pool_rows import Candidates, InMemory, Some
from sumwise.acquisition.pool_search import Found, search
from sumwise.acquisition.pool_value import Pooling, Valued, aimed, value_candidates
from sumwise.acquisition.strategies import DEFAULT, named
from sumwise.data import validate
from sumwise.data.about import About
from sumwise.data.frames import Table, as_frame
from sumwise.data.parquet import Scan
from sumwise.data.pool_refusals import refuse_impossible
from sumwise.data.pool_rules import PoolOptions, PoolRules, read_rules
from sumwise.data.sets import Sets
from sumwise.errors import NonFiniteScoreError, PoolExhaustedError, SettingError, SumwiseError
from sumwise.learning.estimator import AggregateRegressor
from sumwise.learning.propose import ROUNDING, UNKNOWN
from sumwise.model import predict
from sumwise.model.design import Pool
from sumwise.model.fit import Model
from sumwise.outofcore.design_store import Embedded
from sumwise.util import html
from sumwise.util.shapes import Int, Mask
from sumwise.util.text import count
from sumwise.util.threads import one_thread

STRATEGIES: Final = ("AggMI", "IVR", "EPIG")

Weighted = tuple[np.ndarray, np.ndarray]  # rows of candidates, and their weights


@dataclass(frozen=True, slots=True)
class Certificate:
    """The value of a pool, and an upper bound on the value of any pool."""

    value: float  # its score
    bound: float  # on the score of any pool, by the relaxation to real weights

    @property
    def fraction(self) -> float:
        """The share of the bound that the pool reaches."""
        return min(self.value / self.bound, 1.0) if self.bound > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Designed:
    """A pool that is worth measuring."""

    rows: tuple[int, ...]  # of candidates
    theta: tuple[float, ...]
    score: float
    bound: float
    expected: float  # its total by the model
    std: float  # of that expectation, noise included
    information: float  # nats that its total should teach about the model
    cost: float | None
    why: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pools(Sets):
    """Designed pools: a `Sets` with a certificate for each pool."""

    rows: tuple[Int[np.ndarray, " m"], ...] = ()  # of candidates, by pool
    certificates: tuple[Certificate, ...] = ()  # each with value, bound and fraction
    why: tuple[str, ...] = ()  # a sentence for each pool
    costs: tuple[float, ...] | None = None  # of measuring each pool, where it costs anything

    def __repr__(self) -> str:
        return Sets.__repr__(self).replace("Sets:", "Pools:", 1)

    def _repr_html_(self) -> str:
        names = np.concatenate(self.rows) if self.row_ids is None else self.row_ids
        who = [", ".join(map(str, each)) for each in np.split(names, self.starts[1:-1])]
        reached = [f"{100 * each.fraction:.0f} %" for each in self.certificates]
        rows = list(zip(self.ids, who, reached, strict=True))
        return html.paragraphs([repr(self)]) + html.table(("pool", "members", "of the bound"), rows)


def design_pools(
    candidates: Any,
    model: AggregateRegressor,
    n: int = 1,
    size: Any = (1, 20),
    strategy: str = DEFAULT,
    *,
    pending: Sets | None = None,
    targets: Any = None,
    target_weights: Any = None,
    budget: float | None = None,
    **rules: Unpack[PoolOptions],
) -> Pools:
    """Pools of candidates to measure, chosen jointly.

    Args:
        candidates: The individuals that may go into pools: a table with the model's inputs, an
            (N, D) array, a `Sets` whose individuals they are, or the rows of Parquet files
            (`Sets.scan_parquet`, `by` the column that names them), which need not fit in memory.
        model: A fitted model; before any answer, one that was fitted on no sets.
        n: Number of pools; with a budget, the largest number.
        size: The fewest and the most members of a pool, or one number.
        strategy: AggMI, IVR or EPIG; see `sumwise.score`.
        pending: Pools from earlier calls that are being measured: the model is conditioned on them,
            and they count for `uses`.
        targets, target_weights: Individuals whose predictions count, as in `sumwise.score`; by
            default all candidates.
        budget: What all pools may cost together.
        **rules: What a pool may be; see `PoolRules`. `uses`, `together`, `apart`, `strata`,
            `within` and `neighbours` say who may be in it, `weights`, `effect`, `noise_std` and
            `noise_std_per_member` how it is measured, `cost` and `cost_per_member` what it costs;
            pools are then ranked by gain per cost.

    >>> import numpy as np, sumwise as sw
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> model = sw.AggregateRegressor("linear").fit(sw.Sets.from_arrays([x[:5]]), [3.0])
    >>> pools = sw.design_pools(x, model, n=2, size=(2, 4), uses=1)
    >>> pools
    Pools: 2 sets of 4 instances (8 in all), 2 inputs; ids 'pool 1', 'pool 2'
    >>> bool(np.isin(pools.rows[0], pools.rows[1]).any())
    False
    """
    if isinstance(candidates, Scan):
        from sumwise.learning.pools_scanned import design_scanned

        aims: Any = {"targets": targets, "target_weights": target_weights}
        asked: Any = {"n": n, "strategy": strategy, "pending": pending, "budget": budget, **aims}
        return design_scanned(candidates, model, {**rules, "size": size}, **asked)
    fitted, sets, table = _candidates(candidates, model)
    if not len(sets):
        raise SettingError("there are no candidates; give at least one individual")
    people = candidates_of(sets, natural=isinstance(candidates, Sets))
    read_in = read_rules(len(people), table, {**rules, "size": size}, _ids(sets))
    aims = read(people, {"targets": targets, "target_weights": target_weights}, "design_pools")
    money = money_in(budget, read_in)
    waiting = [] if pending is None else rows_in(people, pending)
    used = uses_in(len(people), [*measured_in(people, fitted), *waiting])
    known: Any = {"n": validate.count(n, "n"), "used": used, "pending": waiting}
    found = design(people, fitted, strategy, read_in, aims=aims, budget=money, **known)
    return as_pools(people, found, earlier_sets(fitted, pending), read_in)


def money_in(budget: float | None, rules: PoolRules) -> float:
    """What all pools may cost, checked."""
    if budget is None:
        return math.inf
    money = validate.amount(budget, "budget", "cost")
    if rules.cost is None:
        raise SettingError("a budget needs costs; give cost, cost_per_member or both")
    return money


def earlier_sets(model: Model, pending: Sets | None = None) -> list[Sets]:
    """Sets whose names and effects new pools must not have."""
    overlap = None if model.labelled is None else model.labelled.overlap
    told = [] if overlap is None else [overlap.pool, overlap.measured]
    return told if pending is None else [*told, pending]


def as_pools(
    people: Sets,
    found: Sequence[Designed],
    earlier: Sequence[Sets],
    rules: PoolRules,
    known: Int[np.ndarray, " k"] | None = None,
) -> Pools:
    """Pools with their certificates.

    Args:
        known: Numbers of the candidates that `people` has, rising; all if left out.
    """
    taken = {name for each in earlier for name in each.ids}
    numbers = range(1, len(found) + len(taken) + 1)
    ids = [name for k in numbers if (name := f"pool {k}") not in taken]
    each = [(np.array(pool.rows), np.array(pool.theta)) for pool in found]
    place = each
    if known is not None:
        place = [(np.searchsorted(known, rows), theta) for rows, theta in each]
    made = pools_of(people, place, ids[: len(found)], effect=rules.effect, earlier=earlier)
    own: dict[str, Any] = {
        field.name: getattr(made, field.name) for field in fields(Sets) if field.init
    }
    word = About(weights="mean" if rules.mean else "sum")
    return Pools(
        **own,
        rows=tuple(rows for rows, _ in each),
        certificates=tuple(Certificate(pool.score, pool.bound) for pool in found),
        why=tuple(word.worded(pool.why) for pool in found),
        costs=None if rules.cost is None else tuple(pool.cost or 0.0 for pool in found),
    )


def design(
    candidates: Sets,
    model: Model,
    strategy: str,
    rules: PoolRules,
    *,
    n: int = 1,
    aims: Objective | None = None,
    used: Int[np.ndarray, " N"] | None = None,
    pending: Sequence[Weighted] = (),
    budget: float = math.inf,
) -> list[Designed]:
    """The next `n` pools, or as many as a budget pays for; nothing is claimed.

    Args:
        candidates: One-instance sets, see `candidates_of`.
        aims: Its targets count.
        used: In how many pools each candidate is already.
        pending: Rows and weights of totals that are being measured.
    """
    pool = candidates.pool(model)
    if aims is not None and aims.targets is not None:
        pool = replace(pool, targets=aims.targets, moment=None)
    none = np.zeros(len(candidates), dtype=int)
    taken = Taken(none if used is None else used, none == 0, pending)
    return design_among(pool, model, strategy, rules, taken, n=n, budget=budget)


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """What has become of candidates."""

    used: Int[np.ndarray, " N"]  # in how many pools each is
    allowed: Mask  # who may be in a pool
    pending: Sequence[Weighted] = ()  # rows and weights of totals that are being measured
    noise_std: Sequence[float] | None = None  # known noise of these; that of pools if left out


@dataclass(frozen=True, slots=True, eq=False)
class Among:
    """Candidates that pools are made of, in memory or not."""

    people: Candidates
    pool: Pool  # says whose predictions count
    sets: Callable[[Int[np.ndarray, " m"]], Sets]  # gives some of them as one-instance sets


def design_among(
    pool: Pool,
    model: Model,
    strategy: str,
    rules: PoolRules,
    taken: Taken,
    *,
    n: int = 1,
    budget: float = math.inf,
    fewer: bool = False,
) -> list[Designed]:
    """The same for candidates as the model sees them.

    Args:
        fewer: Give fewer pools where there are no more that keep to the rules.
    """
    refuse_model(strategy, model, rules)
    among = Among(people_of(pool, model), pool, pool.sets.take)
    known: Any = {"n": n, "budget": budget, "fewer": fewer}
    return design_from(among, model, strategy, rules, taken, **known)


@one_thread()  # many small products: threads would wait for one another
def design_from(
    among: Among,
    model: Model,
    strategy: str,
    rules: PoolRules,
    taken: Taken,
    *,
    n: int,
    budget: float,
    fewer: bool = False,
    told: Callable[[int], None] = lambda made: None,
) -> list[Designed]:
    """The same for candidates that may be on disk.

    Args:
        told: Called with the number of pools that are made.
    """
    used, made, paid = taken.used.copy(), list[Designed](), 0.0
    free, before = _free(taken.allowed, used, rules), _waiting(taken, rules, model)
    known = model.posterior, _pooling(rules, model), free, before
    valued = value_candidates(strategy, among.people, among.pool, *known)
    while len(made) < n:
        free = _free(taken.allowed, used, rules)
        most = min(rules.size[1], _affordable(rules, budget, paid), int(free.sum()))
        if budget < math.inf and made and most < rules.size[0]:
            break
        try:
            found = _next(valued, rules, free, most, f"{len(made)} of {n} pools were")
        except SumwiseError:
            if fewer:
                break
            raise
        waiting = len(before) + len(made)
        seen = valued, rules, found
        made.append(_described(among.sets(found.rows), model, *seen, int(free.sum()), waiting))
        paid += made[-1].cost or 0.0
        used[found.rows] += 1
        told(len(made))
        if len(made) < n:
            valued = aimed(valued.after(found.some, found.theta), among.pool)
    return made


def _free(allowed: Mask, used: Int[np.ndarray, " N"], rules: PoolRules) -> Mask:
    return allowed if rules.uses is None else allowed & (used < rules.uses)


def people_of(pool: Pool, model: Model) -> Candidates:
    """Candidates after the answers that the model knows."""
    sets, k = pool.sets, pool.design.u.shape[1]
    effects = np.arange(len(sets)) if sets.effects is None else sets.effects
    known = None if model.labelled is None else model.labelled.overlap
    rows, p = np.empty(0, dtype=int), np.empty((0, k))
    if known is not None and sets.members is not None:
        theirs: Any = known.measured
        touched = np.isin(sets.members, theirs.members) | np.isin(effects, theirs.effects)
        rows = np.flatnonzero(touched)
    if len(rows):
        some = replace(pool, sets=sets.take(rows), design=pool.design.rows(rows))
        seen = given_answers(some, model)
        assert seen.explained is not None
        p = np.hstack([seen.design.u, seen.explained])
    return Candidates.of(InMemory(pool.design.u), Some(rows, p, effects[rows]), effects, k)


def _waiting(
    taken: Taken, rules: PoolRules, model: Model
) -> list[tuple[np.ndarray, np.ndarray, float | None]]:
    """Rows and weights of totals that are being measured, and their known noise in the model's
    units; a mean is told as its total."""
    unit = float(model.posterior.output_scale[0])
    stds = [None] * len(taken.pending) if taken.noise_std is None else taken.noise_std
    found = []
    for (rows, theta), std in zip(taken.pending, stds, strict=True):
        times = len(rows) if rules.mean else 1
        found.append((rows, theta * times, None if std is None else (std * times / unit) ** 2))
    return found


def _next(valued: Valued, rules: PoolRules, free: Mask, most: int, before: str) -> Found:
    refuse_impossible(rules, free, most)
    try:
        found = search(valued, rules, free, most)
    except np.linalg.LinAlgError:
        raise _too_large() from None
    if found is None:
        left = count(int(free.sum()), "free candidate")
        raise PoolExhaustedError(
            f"no pool that keeps to all rules was found among {left} ({before}); allow other "
            "sizes, or drop a rule"
        )
    if not (math.isfinite(found.score) and math.isfinite(found.bound)):
        raise _too_large()
    return found


def _too_large() -> NonFiniteScoreError:
    return NonFiniteScoreError(
        "what pools are worth cannot be computed: numbers of candidates, or noise and totals, are "
        "too large for the model; rescale them, or use a basis that scales inputs"
    )


def candidates_of(sets: Sets, *, natural: bool = True) -> Sets:
    """The individuals of the sets, each once, as one-instance sets.

    Args:
        natural: Whether individuals keep the effect of the set that they are in.
    """
    n = len(sets.own_x)
    if sets.members is None:
        rows = members = np.arange(n)
        effects = np.repeat(np.arange(len(sets)), sets.sizes)[:n]
    else:
        assert sets.effects is not None
        members, rows = np.unique(sets.members[:n], return_index=True)
        effects = sets.effects[:n][rows]
    effects = effects if natural else members
    names = None if sets.row_ids is None else sets.row_ids[rows]
    starts, ids = np.arange(len(rows) + 1), tuple(range(len(rows)))
    known = ids, sets.x[rows], np.ones(len(rows)), starts, sets.input_names
    return Sets(*known, members.copy(), effects.copy(), sets.recipe, names)


def pools_of(
    candidates: Sets,
    pools: Sequence[Weighted],
    ids: Sequence[Hashable],
    *,
    effect: bool = False,
    earlier: Sequence[Sets] = (),
) -> Sets:
    """Pools as sets of the same individuals.

    Args:
        effect: Whether each pool has an effect of its own, in place of those of its members.
        earlier: Sets whose effects are others.
    """
    assert candidates.members is not None
    assert candidates.effects is not None
    sizes = [len(rows) for rows, _ in pools]
    rows = np.concatenate([rows for rows, _ in pools])
    theta = np.concatenate([np.asarray(theta, dtype=float) for _, theta in pools])
    effects = candidates.effects[rows]
    if effect:
        known = [each.effects for each in (candidates, *earlier) if each.effects is not None]
        first = max(int(each.max(initial=-1)) for each in known) + 1
        effects = first + np.repeat(np.arange(len(pools)), sizes)
    names = None if candidates.row_ids is None else candidates.row_ids[rows]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    own = tuple(ids), candidates.x[rows], theta, starts, candidates.input_names
    return Sets(*own, candidates.members[rows], effects, candidates.recipe, names)


def rows_in(candidates: Sets, sets: Sets) -> list[Weighted]:
    """Rows of candidates, and weights, of sets of the same individuals."""
    if not isinstance(sets, Sets) or sets.members is None:
        raise SettingError(
            "these sets do not say which candidates are in them; give pools that design_pools made "
            "of the same candidates"
        )
    assert candidates.members is not None
    place = np.full(int(max(candidates.members.max(), sets.members.max(initial=0))) + 1, -1)
    place[candidates.members] = np.arange(len(candidates))
    rows = place[sets.members]
    there = rows >= 0
    if not (sets.x[there] == candidates.x[rows[there]]).all():
        there[:] = False  # numbers mean other individuals
    ends = zip(sets.starts[:-1], sets.starts[1:], strict=True)
    found = ((rows[a:b][there[a:b]], sets.theta[a:b][there[a:b]]) for a, b in ends)
    return [(each, theta) for each, theta in found if len(each)]


def uses_in(n: int, pools: Sequence[Weighted]) -> Int[np.ndarray, " N"]:
    """In how many of these pools each of n candidates is."""
    used = np.zeros(n, dtype=int)
    for rows, _ in pools:
        used[rows] += 1
    return used


def measured_in(candidates: Sets, model: Model) -> list[Weighted]:
    """Totals that the model knows, where its sets say who is in them."""
    known = model.labelled
    if known is None or known.overlap is None:
        return []
    return rows_in(candidates, known.overlap.measured)


def _ids(sets: Sets) -> list[Hashable] | None:
    """The user's ids of candidates, if they have any."""
    return None if sets.row_ids is None else sets.row_ids.tolist()


# --- inside ---------------------------------------------------------------------------------------


def fitted_of(model: Any) -> Model:
    """The fitted model of an estimator."""
    if not isinstance(model, AggregateRegressor):
        raise SettingError(
            f"model is a {type(model).__name__}; give a fitted AggregateRegressor (a learner's is "
            "learner.model)"
        )
    return model.fitted()


def _candidates(given: Any, model: Any) -> tuple[Model, Sets, Table | None]:
    fitted = fitted_of(model)
    if isinstance(given, Embedded):
        raise SettingError(
            "candidates are a design of sets on disk; give the scan that it was made of "
            "(design.scan), whose rows are individuals"
        )
    if isinstance(given, Sets):
        return fitted, given, None
    frame = None if isinstance(given, np.ndarray | list | tuple) else as_frame(given)
    table = None if frame is None else Table(frame, "candidates", "candidates, row {}".format)
    return fitted, model.sets_of(given), table


def refuse_model(strategy: str, model: Model, rules: PoolRules) -> None:
    """Refuse models that pools are not designed for."""
    outputs = "numbers" if model.generalised is None else model.generalised.likelihood.name
    refuse_design(strategy, outputs, model.posterior.n_outputs, rules)


def refuse_design(strategy: str, outputs: str, n_outputs: int, rules: PoolRules) -> None:
    """Refuse what pools are not designed for.

    Args:
        outputs: Of the model: numbers, counts, shares or amounts.
        n_outputs: How many there are of each individual.
    """
    if strategy not in STRATEGIES:
        raise SettingError(
            f"pools are designed by {', '.join(STRATEGIES)}, and strategy is {strategy!r:.60}"
        )
    if outputs != "numbers":
        raise SettingError(
            f"pools are designed for plain numbers, and this model is one of {outputs}; measure "
            "given sets, or use outputs='numbers'"
        )
    if n_outputs > 1 and (rules.noise_std or rules.noise_std_per_member):
        raise SettingError(
            f"noise of pooling works with one output, and the model has {n_outputs}; leave it out, "
            "or design with a model for each"
        )


def _pooling(rules: PoolRules, model: Model) -> Pooling:
    unit = float(model.posterior.output_scale[0])
    fixed, each = (noise / unit for noise in (rules.noise_std, rules.noise_std_per_member))
    return Pooling(fixed**2, each**2, rules.effect, rules.mean)


def _affordable(rules: PoolRules, budget: float, paid: float) -> int:
    """How many members the rest of a budget pays for."""
    if rules.cost is None or budget == math.inf:
        return rules.size[1]
    left = budget * (1 + ROUNDING) - paid - rules.cost
    if left < 0:
        return 0
    if left <= rules.size[1] * rules.cost_per_member:
        return int(left / rules.cost_per_member)
    return rules.size[1]


def _described(
    members: Sets,
    model: Model,
    valued: Valued,
    rules: PoolRules,
    found: Found,
    free: int,
    waiting: int,
) -> Designed:
    theta = found.theta / len(found.rows) if rules.mean else found.theta
    pools, earlier = [(np.arange(len(members)), theta)], earlier_sets(model)
    own = pools_of(members, pools, ["pool"], effect=rules.effect, earlier=earlier)
    seen = own.pool(model).design
    mean, std = predict.predict_sets(
        model, seen, include_noise=True, own=predict.in_common(model, own, seen)
    )
    sums = valued.sums_of(found.some, found.theta)
    teaches = replace(valued, strategy="AggMI").scores(sums)[0]
    cost = rules.cost_of(len(found.rows))
    record = named(valued.strategy)
    who = count(len(found.rows), "individual")
    given = f", allowing for {count(waiting, 'open question')}" if waiting else ""
    reaches = int(100 * found.fraction + 1e-6)
    why = (
        f"Best pool found among {count(free, 'candidate')} ({who}){given}: "
        f"{record.reason}. It reaches {reaches} % of what any pool could gain."
    )
    if cost is not None:
        why += f" It costs {cost:.6g}."
    if model.labelled is None or not len(model.labelled.design):
        why += f" {UNKNOWN}"
    off = math.hypot(std[0, 0], rules.noise_of(len(theta)))
    values = (found.score, found.bound, float(mean[0, 0]), off, float(teaches))
    return Designed(tuple(found.rows.tolist()), tuple(theta.tolist()), *values, cost, why)
