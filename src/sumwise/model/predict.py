"""Predictions of a fitted model, of individuals and of sets' totals, in the user's units.

`Predictions` is the same as a table: a mean, a standard deviation and an interval for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import NormalDist
from typing import Any, Final, TypeAlias

import numpy as np

from sumwise.data.frames import as_frame, with_columns
from sumwise.data.sets import Sets
from sumwise.errors import DataError, InvalidSetError, SettingError
from sumwise.model.design import Design, blocks, features
from sumwise.model.fit import Labelled, Model
from sumwise.model.generalised import predict as generalised
from sumwise.model.posterior import BLOCK
from sumwise.util import html
from sumwise.util.files import let_go
from sumwise.util.progress import Slow
from sumwise.util.shapes import Float, Int
from sumwise.util.text import shown
from sumwise.util.threads import n_cores, one_thread

SPAN: Final = 1024  # rows that a thread predicts at a time, under all hypotheses of a mixture
PREFIX: Final = "sumwise_"
ENDS: Final = ("mean", "std", "lower", "upper")  # the columns at the end of a table


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """What rows have in common with measured totals: an entry for each such pair.

    A row is an individual, or a set; then weights in a total are multiplied by those in the set and
    added up.
    """

    row: Int[np.ndarray, " e"]  # in rising order
    total: Int[np.ndarray, " e"]  # number of the measured set
    theta: Float[np.ndarray, " e"]  # weight in the total; 0 for one that it does not contain
    effect: Float[np.ndarray, " e"]  # Σθ of the individuals that share the row's effect of its set

    @classmethod
    def of_measured(cls, total: Int[np.ndarray, " A"], design: Design, known: Labelled) -> Members:
        """Disjoint sets with the number of each among the measured ones, −1 for others."""
        row = np.flatnonzero(total >= 0)
        at, measured = total[row], known.design
        same = measured.own_scale if known.in_whole is None else known.in_whole
        return cls(row, at, same[at], design.theta_sum[row] * measured.theta_sum[at])

    @classmethod
    def of_sparse(cls, theta: Any, effect: Any) -> Members:
        """From two sparse matrices with a column for each total."""
        row, total = (abs(theta) + abs(effect)).nonzero()
        order = np.argsort(row, kind="stable")
        row, total = row[order], total[order]
        values = (np.asarray(part[row, total]).ravel() for part in (theta, effect))
        return cls(row, total, *values)

    def dense(
        self, low: int, high: int, n_totals: int
    ) -> tuple[Float[np.ndarray, "n t"], Float[np.ndarray, "n t"]]:
        """θ and effect of rows `low:high`, by row and total."""
        begin, end = np.searchsorted(self.row, [low, high])
        at = self.row[begin:end] - low, self.total[begin:end]
        theta, effect = np.zeros((2, high - low, n_totals))
        theta[at], effect[at] = self.theta[begin:end], self.effect[begin:end]
        return theta, effect


def members_of(
    model: Model,
    groups: Sequence[Hashable],
    x: Float[np.ndarray, "N D"],
    exposure: Float[np.ndarray, " N"] | None = None,
) -> Members:
    """The rows that belong to measured sets.

    A row with the inputs (and the exposure, where it is given) of a member of its set is that
    member, each member once, in order. Other
    rows of a measured set are individuals that its total does not contain; where sets overlap, it
    is not known whose effects they have.
    """
    known = model.labelled
    if known is not None and known.overlap is not None:
        pool = known.overlap.pool
        owner = np.array([pool.position(g) if g in pool else -1 for g in groups], dtype=int)
        found = _matched(pool.starts, pool.x, owner, x)
        row = np.flatnonzero(found >= 0)
        own = Members.of_sparse(*known.overlap.of_rows(found[row]))
        return replace(own, row=row[own.row])
    numbers = {} if known is None else {name: a for a, name in enumerate(known.ids)}
    total = np.array([numbers.get(name, -1) for name in groups], dtype=int)
    row = np.flatnonzero(total >= 0)
    theta = np.zeros(len(row))
    if known is None or known.sets is None or not len(row):
        return Members(row, total[row], theta, theta)
    sets = known.sets()
    theirs = sets.x
    if exposure is not None:  # a row with another exposure is another individual
        theirs, x = (np.column_stack(each) for each in ((theirs, sets.theta), (x, exposure)))
    found = _matched(sets.starts, theirs, total, x)[row]
    theta = np.where(found >= 0, sets.theta[found], 0.0)
    return Members(row, total[row], theta, known.design.theta_sum[total[row]])


def members_at(model: Model, groups: Sequence[Hashable], theta: Float[np.ndarray, " N"]) -> Members:
    """The same for rows that are known to be members, with these weights."""
    known = model.labelled
    numbers = {} if known is None else {name: a for a, name in enumerate(known.ids)}
    total = np.array([numbers.get(name, -1) for name in groups], dtype=int)
    row = np.flatnonzero(total >= 0)
    if known is None or not len(row):
        return Members(row, row, np.empty(0), np.empty(0))
    total = total[row]
    return Members(row, total, theta[row], known.design.theta_sum[total])


def _matched(
    starts: Int[np.ndarray, " A1"],
    known: Float[np.ndarray, "n D"],
    owner: Int[np.ndarray, " N"],
    x: Float[np.ndarray, "N D"],
) -> Int[np.ndarray, " N"]:
    """The row of sets that each row of x is, by inputs within its set; −1 where there is none.

    Of rows that are not found, those that are a member's in single precision are that member.

    Args:
        owner: Position of the set of each row; −1 for none.
    """
    found, taken = np.full(len(owner), -1), np.zeros(len(known), dtype=bool)
    for kind in (np.float64, np.float32):  # what is not found may have been rounded on its way
        with np.errstate(over="ignore"):
            theirs, mine = ((rows + 0.0).astype(kind) for rows in (known, x))
        left = np.flatnonzero((owner >= 0) & (found < 0))
        waiting: dict[tuple[int, bytes], list[int]] = {}
        for a in np.unique(owner[left]).tolist():
            own = np.arange(starts[a], starts[a + 1])
            for n in own[~taken[own]][::-1].tolist():  # the first is taken first
                waiting.setdefault((a, theirs[n].tobytes()), []).append(n)
        for n in left.tolist():
            same = waiting.get((int(owner[n]), mine[n].tobytes()))
            found[n] = same.pop() if same else -1
        taken[found[found >= 0]] = True
    return found


def _recognised(pool: Sets, sets: Sets) -> Sets:
    """Disjoint sets, with the numbers that their individuals have in a pool of overlapping ones.

    An individual is the one with the same inputs in the set of the same name; others are new.
    """
    if sets.members is not None:
        return sets
    owner = np.array([pool.position(name) if name in pool else -1 for name in sets.ids], dtype=int)
    found = _matched(pool.starts, pool.x, np.repeat(owner, sets.sizes), sets.x)
    new = np.arange(len(found))
    members, effects = (
        np.where(found >= 0, known[found], known.max(initial=-1) + 1 + new)
        for known in (pool.members, pool.effects)
        if known is not None
    )
    return replace(sets.take(range(len(sets))), members=members, effects=effects)


def in_common(model: Model, sets: Sets, design: Design) -> Members | None:
    """What sets have in common with measured totals; None if nothing is measured.

    Of disjoint sets, one that has the name of a measured set and other individuals counts as
    another.
    """
    known = model.labelled
    if known is None or not len(known.design):
        return None
    if known.overlap is not None:
        return Members.of_sparse(*known.overlap.of_sets(_recognised(known.overlap.pool, sets)))
    numbers = {name: a for a, name in enumerate(known.ids)}
    total = np.array([numbers.get(name, -1) for name in sets.ids], dtype=int)
    at = np.flatnonzero(total >= 0)
    mine, theirs = (
        np.column_stack([rows.u, rows.theta_sum])
        for rows in (
            design.rows(at),
            (known.design if known.whole is None else known.whole).rows(total[at]),
        )
    )
    same = (abs(mine - theirs) <= 1e-9 * np.maximum(abs(mine), 1.0)).all(axis=1)
    total[at[~same]] = -1
    return Members.of_measured(total, design, known)


def predict_sets(
    model: Model, design: Design, *, include_noise: bool, own: Members | None = None
) -> tuple[Float[np.ndarray, "A M"], Float[np.ndarray, "A M"]]:
    """Mean and standard deviation of each set's total (Eq. 14).

    Args:
        own: What the sets have in common with measured totals, which they are predicted given.
    """
    scale, posterior = model.posterior.output_scale, model.posterior
    if model.generalised is not None:
        assert design.nonlinear is not None
        totals, spread, _ = _generalised_totals(model, design, own)
        if not include_noise:
            spread = np.sqrt(posterior.variance_along(design.u))
        return totals[:, None], spread[:, None]
    mean = np.empty((len(design), posterior.n_outputs))
    for low in range(0, len(design), BLOCK):  # of a design in single precision no copy is made
        some = design.u[low : low + BLOCK]
        mean[low : low + BLOCK] = some @ posterior.mean
        let_go(some)
    spread = _spread(model, design, include_noise)
    if include_noise and own is not None and len(own.row):
        at = np.unique(own.row)
        mean[at], spread[at] = _in_blocks(model, design.rows, own, at)
    return design.theta_sum[:, None] * model.offset + scale * mean, scale * np.sqrt(spread)


def _spread(model: Model, design: Design, include_noise: bool) -> Float[np.ndarray, "A M"]:
    """Variance of sums of outputs, for each output, in the model's units.

    Outputs share a posterior; those of a mixture have the average of theirs there, and a scale of
    their own in the mixture.
    """
    posterior = model.posterior
    if model.mixture is not None and posterior.n_outputs > 1:
        out = np.empty((len(design), posterior.n_outputs))
        for low in range(0, len(design), BLOCK):
            rows = design.rows(slice(low, low + BLOCK))
            noise = rows.noise_scale * include_noise, rows.effect_scale * include_noise
            u = np.asarray(rows.u, dtype=np.float64)
            out[low : low + BLOCK] = model.mixture.moments(u, noise)[1]
        return out
    variance = posterior.variance_along(design.u)
    if include_noise:
        variance = variance + posterior.noise(design)
    return np.repeat(variance[:, None], posterior.n_outputs, axis=1)


def _given_totals(
    model: Model, design: Design, own: Members
) -> tuple[Float[np.ndarray, "n M"], Float[np.ndarray, "n M"]]:
    """Mean and variance of sums of outputs, noise included, given measured totals.

    Args:
        design: Of the sums, u and noise scales as if each were the total of a set.
    """
    known = model.labelled
    assert known is not None
    u = np.asarray(design.u, dtype=np.float64)
    if model.mixture is not None:
        noise = design.noise_scale, design.effect_scale
        return model.mixture.moments(u, noise, own.dense(0, len(u), len(known.design)))
    posterior, beta = model.posterior, model.posterior.noise_precision
    if known.lower is not None:
        theta, _ = own.dense(0, len(u), len(known.design))
        white = np.linalg.solve(known.lower, theta.T).T
        mean = u @ posterior.mean + white @ known.residual
        variance = posterior.variance_along(u - white @ known.design.u)
        rest = design.noise_scale - np.einsum("nt,nt->n", white, white)
        variance += np.maximum(rest, 0.0) / beta
        return mean, np.repeat(variance[:, None], posterior.n_outputs, axis=1)
    pull = np.zeros(len(u))
    pull[own.row] = own.theta / known.noise_scale[own.total]
    rows, left = np.zeros_like(u), np.zeros((len(u), posterior.n_outputs))
    rows[own.row], left[own.row] = known.design.u[own.total], known.residual[own.total]
    taken = np.zeros(len(u))
    taken[own.row] = pull[own.row] * own.theta
    mean = u @ posterior.mean + pull[:, None] * left
    variance = posterior.variance_along(u - pull[:, None] * rows)
    variance += np.maximum(design.noise_scale - taken, 0.0) / beta
    return mean, np.repeat(variance[:, None], posterior.n_outputs, axis=1)


def predict_mean(
    model: Model,
    x: Float[np.ndarray, "N D"],
    own: Members | None = None,
    exposure: Float[np.ndarray, " N"] | None = None,
) -> Float[np.ndarray, "N M"]:
    """Mean of each individual's output (Eq. 23), of members of measured sets given their totals."""
    if model.generalised is not None:
        return _generalised(model, x, exposure, own)[0][:, None]
    mean = np.empty((len(x), model.posterior.n_outputs))
    for low, high in blocks(x, model.basis):
        with np.errstate(all="ignore"):
            mean[low:high] = features_of(model, x[low:high]) @ model.posterior.mean
    if own is not None and len(own.row):
        rows = np.unique(own.row)
        mean[rows] = _in_blocks(model, _alone(model, x), own, rows)[0]
    return finite_rows(model.offset + model.posterior.output_scale * mean)


def _alone(model: Model, x: Float[np.ndarray, "N D"]) -> Callable[[np.ndarray], Design]:
    """Gives the design of some individuals, each as a set of its own."""

    def design(rows: np.ndarray) -> Design:
        ones = np.ones(len(rows))
        return Design(features_of(model, x[rows]), ones, ones.copy())

    return design


def _in_blocks(
    model: Model, design: Callable[[np.ndarray], Design], own: Members, rows: Int[np.ndarray, " m"]
) -> tuple[Float[np.ndarray, "m M"], Float[np.ndarray, "m M"]]:
    """Mean and variance of some rows given measured totals, in the model's units."""
    mean, variance = np.empty((2, len(rows), model.posterior.n_outputs))
    place = np.searchsorted(rows, own.row)
    for low in range(0, len(rows), BLOCK):
        high = min(low + BLOCK, len(rows))
        begin, end = np.searchsorted(place, [low, high])
        entries = (v[begin:end] for v in (own.total, own.theta, own.effect))
        some = Members(place[begin:end] - low, *entries)
        here = design(rows[low:high])
        mean[low:high], variance[low:high] = _given_totals(model, here, some)
    return mean, variance


def predict_individuals(
    model: Model,
    x: Float[np.ndarray, "N D"],
    *,
    include_noise: bool = True,
    own: Members | None = None,
    on_progress: Callable[[int], None] = lambda rows: None,
    exposure: Float[np.ndarray, " N"] | None = None,
) -> tuple[Float[np.ndarray, "N M"], Float[np.ndarray, "N M"]]:
    """Mean and standard deviation of each individual's output (Eq. 23), with its noise or without.

    Args:
        own: What rows have in common with measured totals; not used without noise.
        on_progress: Called with the number of rows that are done.
        exposure: Of counts, shares and amounts, which are per exposure where none is given.
    """
    if model.generalised is not None:
        one_mean, one_std, *_ = _generalised(
            model, x, exposure, own, noise=include_noise, on_progress=on_progress
        )
        return one_mean[:, None], one_std[:, None]
    posterior = model.posterior
    mean, spread = np.empty((2, len(x), posterior.n_outputs))
    for low, high in blocks(x, model.basis):
        with np.errstate(all="ignore"):
            phi, ones = features_of(model, x[low:high]), np.ones(high - low)
            mean[low:high] = phi @ posterior.mean
            spread[low:high] = _spread(model, Design(phi, ones, ones), include_noise)
        on_progress(high)
    if include_noise and own is not None and len(own.row):
        rows = np.unique(own.row)
        alone = spread[rows]
        mean[rows], given = _in_blocks(model, _alone(model, x), own, rows)
        spread[rows] = np.where(given > 1e-20 * alone, given, 0.0)  # below is rounding
    scale = posterior.output_scale
    return finite_rows(model.offset + scale * mean), finite_rows(scale * np.sqrt(spread))


def _generalised(
    model: Model,
    x: Float[np.ndarray, "N D"],
    exposure: Float[np.ndarray, " N"] | None,
    own: Members | None,
    level: float | None = None,
    *,
    noise: bool = True,
    on_progress: Callable[[int], None] = lambda rows: None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, standard deviation and interval of counts, shares or amounts, and where the model
    extrapolates beyond reason."""
    assert model.generalised is not None
    mean, std, ends = np.empty(len(x)), np.empty(len(x)), np.empty((2, len(x)))
    beyond = np.zeros(len(x), dtype=bool)
    inside = _numbers(own, len(x))
    counted = np.zeros(len(x))
    if own is not None:
        counted[own.row] = own.theta
    for low in range(0, len(x), BLOCK):
        here = slice(low, min(low + BLOCK, len(x)))
        phi = features(model.basis.tangent.scaled, x[here], len(model.posterior.mean))
        whose = None if inside is None else generalised.Inside(inside[here], counted[here])
        e = None if exposure is None else exposure[here]
        known = model.generalised
        found, beyond[here] = generalised.individuals(known, phi, e, whose, level, noise=noise)
        mean[here], std[here] = found[:2]
        if found[2] is not None:
            ends[:, here] = found[2]
        on_progress(here.stop)
    finite_rows(np.stack([mean, std], axis=1))
    return mean, std, ends, beyond


def _generalised_totals(
    model: Model, design: Design, own: Members | None, level: float | None = None
) -> generalised.Found:
    """Totals of counts, shares or amounts; members whom a total does not cover are added to it."""
    assert model.generalised is not None
    numbers, known = _numbers(own, len(design)), model.labelled
    of = partial(generalised.totals, model.generalised, model.posterior, level=level)
    mean, std, ends = of(design, numbers)
    if numbers is None or known is None or known.rest is None:
        return mean, std, ends
    some, others = known.rest
    rows = np.flatnonzero(np.isin(numbers, some))
    if len(rows):
        more, std[rows], beyond = of(others.rows(np.searchsorted(some, numbers[rows])), None)
        mean[rows] += more
        if ends is not None and beyond is not None:
            ends[:, rows] += beyond
    return mean, std, ends


def _numbers(own: Members | None, n_rows: int) -> Int[np.ndarray, " N"] | None:
    """The number of the measured set of each row, −1 for none."""
    if own is None:
        return None
    numbers = np.full(n_rows, -1)
    numbers[own.row] = own.total
    return numbers


def interval(
    model: Model,
    x: Float[np.ndarray, "N D"],
    level: float,
    own: Members | None = None,
    exposure: Float[np.ndarray, " N"] | None = None,
) -> Predictions:
    """Mean, standard deviation and quantiles of each individual's output, noise included.

    Of a mixture, the quantiles are its own; otherwise they are those of a Gaussian.
    """
    if model.generalised is not None:
        one_mean, one_std, ends, beyond = _generalised(model, x, exposure, own, level)
        name = "share" if model.generalised.likelihood.capped else "rate"
        rate = one_mean if exposure is None else one_mean / exposure
        more = {name: rate, "extrapolates": beyond}
        return Predictions(one_mean, one_std, level, ends=ends, more=more)
    if model.mixture is None:
        mean, std = (values[:, 0] for values in predict_individuals(model, x, own=own))
        return Predictions(mean, std, level)

    def rows(low: int, high: int) -> Rows:
        with np.errstate(all="ignore"):
            return features_of(model, x[low:high]), *np.ones((2, high - low))

    found, mixture = _of_mixture(model, len(x), rows, level, own), model.mixture
    least = 1e-10 * np.sqrt(mixture.probability @ mixture.spread[:, 0])  # below is rounding
    sure = found[1] <= least
    found[:, sure] = found[0, sure] * np.array([[1.0], [0.0], [1.0], [1.0]])
    found *= model.posterior.output_scale[0]
    mean, *ends = model.offset[0] + found[[0, 2, 3]]
    both = finite_rows(np.stack([mean, found[1]], axis=1))
    return Predictions(both[:, 0], both[:, 1], level, ends=np.stack(ends))


Rows: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]  # u, and scales of both kinds of noise


def _of_mixture(
    model: Model,
    n: int,
    rows: Callable[[int, int], Rows],
    level: float,
    own: Members | None,
) -> Float[np.ndarray, "4 n"]:
    """Mean, standard deviation and quantiles of n rows, in the model's units, by threads.

    Args:
        rows: Gives those between two.
    """
    mixture, found = model.mixture, np.empty((4, n))
    assert mixture is not None

    def predict(low: int) -> int:
        high = min(low + SPAN, n)
        shared = None
        if own is not None and np.diff(np.searchsorted(own.row, [low, high])):
            shared = own.dense(low, high, len(mixture.totals))
        u, *noise = rows(low, high)
        about = np.asarray(u, dtype=np.float64), (noise[0], noise[1])
        found[:, low:high] = mixture.interval(*about, level, shared)
        let_go(u)
        np.sqrt(found[1, low:high], out=found[1, low:high])
        return high

    with ExitStack() as opened:
        slow, spans = opened.enter_context(Slow("predicting", n)), range(0, n, SPAN)
        mapped: Any = map
        if len(spans) > 1 and n_cores() > 1:
            opened.enter_context(one_thread())
            mapped = opened.enter_context(ThreadPoolExecutor(n_cores())).map
        for high in mapped(predict, spans):
            slow.at(high)
    return found


def averaged(
    mean: Float[np.ndarray, "..."], std: Float[np.ndarray, "..."], n_rows: int
) -> tuple[Float[np.ndarray, "n M"], Float[np.ndarray, "n M"]]:
    """Moments of a mixture in equal parts of as many predictions as each of the rows has."""
    means, stds = (v.reshape(n_rows, -1, v.shape[1] if v.ndim > 1 else 1) for v in (mean, std))
    centre = means.mean(axis=1)
    return centre, np.sqrt((stds**2).mean(axis=1) + means.var(axis=1))


def average_into(found: Predictions, rows: Int[np.ndarray, " r"], each: Predictions) -> None:
    """Write to some rows the mixture of as many predictions as `each` has for one of them."""
    n_rows = len(rows)
    (mean,), (std,) = (v.T for v in averaged(each.mean, each.std, n_rows))
    wider = std / np.sqrt((each.std**2).reshape(n_rows, -1).mean(axis=1))
    below, above = (
        wider * ends.reshape(n_rows, -1).mean(axis=1)
        for ends in (each.mean - each.lower, each.upper - each.mean)
    )
    columns = found.mean, found.std, found.lower, found.upper
    ends = [mean - below, mean + above]
    if found.more:  # quantiles of a mixture are among those of its parts, and whole where these are
        several = [v.reshape(n_rows, -1) for v in (each.lower, each.upper)]
        ends = [np.maximum(ends[0], several[0].min(1)), np.minimum(ends[1], several[1].max(1))]
        if all((v == np.rint(v)).all() for v in several):
            ends = [np.floor(ends[0]), np.ceil(ends[1])]
        for name, values in found.more.items():
            own = each.more[name].reshape(n_rows, -1)
            values[rows] = own.any(axis=1) if values.dtype == bool else own.mean(axis=1)
    for column, values in zip(columns, (mean, std, *ends), strict=True):
        column[rows] = values


def interval_sets(model: Model, design: Design, level: float, own: Members | None) -> Predictions:
    """The same for the totals of sets, given what was measured."""
    if model.generalised is not None:
        one_mean, one_std, whole = _generalised_totals(model, design, own, level)
        return Predictions(one_mean, one_std, level, ends=whole)
    if model.mixture is None:
        mean, std = (v[:, 0] for v in predict_sets(model, design, include_noise=True, own=own))
        return Predictions(mean, std, level)

    def rows(low: int, high: int) -> Rows:
        some = design.rows(slice(low, high))
        return some.u, some.noise_scale, some.effect_scale

    found = _of_mixture(model, len(design), rows, level, own)
    found *= model.posterior.output_scale[0]
    mean, *ends = design.theta_sum * model.offset[0] + found[[0, 2, 3]]
    # a measured total is known but for rounding
    unsure = found[1] > 1e-12 * abs(mean)
    std, both = np.where(unsure, found[1], 0.0), np.where(unsure, np.stack(ends), mean)
    return Predictions(mean, std, level, ends=both)


def features_of(model: Model, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N K"]:
    """φ of every row, as many features as the model knows."""
    return features(model.basis, x, len(model.posterior.mean))


def finite_rows(values: Float[np.ndarray, "N M"]) -> Float[np.ndarray, "N M"]:
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0, 0])
        raise InvalidSetError(
            f"row {row} has no finite prediction: its inputs are too far from those that the model "
            "was fitted on, or the basis is not defined there. Leave it out, or take another basis."
        )
    return values


# --- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Predictions:
    """What is expected of individuals or of sets, in the units of the answers."""

    mean: Float[np.ndarray, " n"]
    std: Float[np.ndarray, " n"]  # noise included
    level: float  # the share of values that should lie between lower and upper
    ids: tuple[Hashable, ...] | None = None  # the set of each row, if rows belong to sets
    beside: Mapping[str, Any] = field(default_factory=dict)  # ours in a table: row, or measured
    inputs: Mapping[str, Any] = field(default_factory=dict)  # the user's own columns
    ends: Float[np.ndarray, "2 n"] | None = None  # of the interval; those of a Gaussian if None
    frame: Any = None  # the user's data frame whose rows these are, if they came in one
    more: Mapping[str, np.ndarray] = field(default_factory=dict)  # rates, and where they are beyond

    @property
    def lower(self) -> Float[np.ndarray, " n"]:
        return self._ends[0]

    @property
    def upper(self) -> Float[np.ndarray, " n"]:
        return self._ends[1]

    @property
    def _ends(self) -> Float[np.ndarray, "2 n"]:
        if self.ends is not None:
            return self.ends
        reach = NormalDist().inv_cdf(0.5 + 0.5 * self.level) * self.std
        return np.stack([self.mean - reach, self.mean + reach])

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        return f"Predictions: {len(self)} rows with intervals of {100 * self.level:g} %"

    def _repr_html_(self) -> str:
        some = self._table(html.FEW)
        return html.paragraphs([repr(self)]) + html.table(some.columns, some.rows(), len(self))

    def to_pandas(self) -> Any:
        """A pandas table with the columns of `to_arrow`; a pandas frame keeps its index."""
        return self._table().to_pandas()

    def to_polars(self) -> Any:
        """A polars table with the columns of `to_arrow`."""
        return self._table().to_polars()

    def to_arrow(self) -> Any:
        """An Arrow table: set, what comes along, mean, std, lower and upper; of counts, shares and
        amounts also the rate (or share) and whether it extrapolates beyond reason.

        Rows of a data frame that was passed to `predict` come with all of its columns. A named
        index of pandas is a column as well.

        Whole numbers and text stay what they are; other ids become the text that is shown of them.
        Our columns are called sumwise_mean and so on where one of the user's has such a name.
        """
        try:
            table = self._table().to_arrow()
        except (TypeError, ValueError) as error:  # Arrow's own are these
            reason = next(iter(str(error).splitlines()), "")
            raise DataError(
                f"the table has a column that Arrow cannot hold ({reason:.200}); drop it, or use "
                "to_pandas"
            ) from error
        unnamed = [name for name in table.column_names if name.startswith("__index_level_")]
        return table.drop_columns(unnamed) if self.frame is not None else table

    def _table(self, rows: int | None = None) -> Any:
        """A frame of narwhals, of the first rows or of all: the user's own with more columns, or
        an Arrow table."""
        import pyarrow as pa

        last = {name: getattr(self, name)[:rows] for name in ENDS}
        last |= {name: values[:rows] for name, values in self.more.items()}
        if self.frame is not None:
            table = as_frame(self.frame)
            ours = own_names([*last], table.columns)
            some = table if rows is None else table.head(rows)
            return with_columns(some, {ours[name]: last[name] for name in last})
        first = {} if self.ids is None else {"set": _id_column(self.ids[:rows])}
        first |= {name: values[:rows] for name, values in self.beside.items() if first}
        ours = own_names([*first, *last], self.inputs)
        first, last = ({ours[name]: part[name] for name in part} for part in (first, last))
        inputs = {name: values[:rows] for name, values in self.inputs.items()}
        return as_frame(pa.table({**first, **inputs, **last}))


def own_names(names: Sequence[str], theirs: Collection[str]) -> dict[str, str]:
    """What our columns are called beside the user's: all get a prefix if one would clash."""
    prefix = PREFIX if set(names) & set(theirs) else ""
    for name in names:
        if prefix + name in theirs:
            raise DataError(f"there is a column {prefix + name!r} already; rename it")
    return {name: prefix + name for name in names}


def _id_column(ids: Sequence[Hashable] | np.ndarray) -> Any:
    import pyarrow as pa

    if set(map(type, ids)) in ({str}, {int}):
        with suppress(pa.ArrowInvalid, OverflowError):  # a whole number may be of any size
            return pa.array(ids)
    return pa.array([shown(name) for name in ids], pa.string())


def individuals(sets: Sets, rows: int | None = None) -> dict[str, Any]:
    """Set ids, numbers within the set, ids of their own and inputs of the first individuals.

    Args:
        rows: How many; all if left out.
    """
    rows = int(sets.starts[sets.n_asked]) if rows is None else rows  # each individual once
    owners = np.repeat(np.arange(len(sets)), sets.sizes)[:rows]
    beside: dict[str, Any] = {"row": np.arange(len(owners)) - sets.starts[owners] + 1}
    if sets.row_ids is not None:
        beside["id"] = _id_column(sets.row_ids[:rows])
    return {
        "ids": tuple(sets.ids[a] for a in owners),
        "beside": beside,
        "inputs": input_columns(sets, sets.x[:rows]),
    }


def input_columns(sets: Sets, x: Float[np.ndarray, "n D"]) -> dict[str, Any]:
    """The user's columns of some individuals, by name."""
    if sets.recipe is not None:
        return {str(name): values for name, values in sets.recipe.decode(x).items()}
    names = sets.input_names or tuple(f"x{d}" for d in range(sets.n_inputs))
    return {str(name): x[:, d] for d, name in enumerate(names)}


def check_level(level: Any) -> float:
    number = isinstance(level, int | float | np.number) and not isinstance(level, bool)
    if not (number and level > 0 and 0.5 + 0.5 * level < 1):
        raise SettingError(f"level is {level!r}; give a number between 0 and 1, such as 0.9")
    return float(level)
