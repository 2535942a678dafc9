"""How well a typical individual and the means of sets are known, now and after more totals.

Sums of outputs y, single individuals among them, have given the totals that are measured

    Var[y]       = ψᵀ S ψ + left/β,       ψ = φ − Σ_a g_a u_a
    Cov[y, ȳ_b]  = ψᵀ S u_b + e_b/β

with e_b the noise that y has in common with total b, and g_a = e_a/s_a. With L Lᵀ the covariance of
totals that come next and C that of y with them, each takes its column of (C L⁻ᵀ)² off Var[y], in
turn; a variance does not depend on what is measured. This is exact for a Gaussian model of disjoint
sets. A mixture has its own variances now, and the covariance of the whole mixture for what follows.
Of overlapping sets, and of counts, shares and amounts, only what S says is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from sumwise.acquisition import by_part
from sumwise.acquisition.known_noise import (
    independent_of_others,
    independent_rows,
    noise_among,
)
from sumwise.model.design import Design, Pool, features
from sumwise.model.fit import Labelled, Model
from sumwise.model.posterior import BLOCK, Posterior
from sumwise.model.predict import (
    Members,
    members_of,
    predict_individuals,
    predict_mean,
)
from sumwise.model.spread import each_part
from sumwise.util.files import let_go
from sumwise.util.progress import Slow
from sumwise.util.shapes import Float, Int, Mask, PerSet

SAMPLE: Final = 2000  # individuals, or sets, that stand for all if there are more
ROUNDING: Final = 1e-12  # of a variance
STEPS: Final = 5  # of bisection: a number of questions to about 3 %


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """How well some sums of outputs are known; see the module."""

    rows: Float[np.ndarray, "n K"]  # ψ
    variance: Float[np.ndarray, " n"]  # in squared units of the outputs
    weight: Float[np.ndarray, " n"]  # adds up to 1
    owner: Int[np.ndarray, " n"]  # position of the set whose total has the noise e; −1 for none
    noise: Float[np.ndarray, " n"]  # e, in units of 1/β
    left: float = 0.0  # variance of the noise of each before its set is measured, in those units

    @property
    def std(self) -> float:
        """Of a typical one: root of the mean variance."""
        return float(np.sqrt(self.weight @ self.variance))


def is_complete(pool: Pool) -> bool:
    """Whether what totals say of their own members besides is counted, so that it is known how far
    one can come: not of overlapping sets, nor where individuals stay in their files."""
    return pool.sets.members is None and not (pool.targets is not None and pool.targets.everyone)


def individuals(pool: Pool, model: Model, gone: Sequence[int] = ()) -> Known:
    """The individuals of the pool, or the targets where some are named, noise included.

    Counts, shares and amounts are taken per exposure and without noise.
    """
    posterior, targets = model.posterior, pool.targets
    x, weight, owner = _everyone(pool, gone)
    phi = features(pool.basis, x)
    variance, noise = posterior.variance_along(phi), np.zeros(len(x))
    if model.generalised is not None:
        return Known(phi, _unit(posterior) * variance, weight, np.full(len(x), -1), noise)
    variance += posterior.individual_noise
    if targets is None:
        own, theta = _in_measured(pool, model, x, owner), pool.sets.theta[_rows(pool, gone)]
        at = np.unique(own.row)
        if len(at):
            phi = _without_totals(phi, own, model.labelled, posterior)
            mine = replace(own, row=np.searchsorted(at, own.row))
            std = predict_individuals(model, x[at], own=mine)[1]
            variance[at] = (std**2).mean(axis=1) / _unit(posterior)
        noise = theta + posterior.effect * pool.design.theta_sum[owner]
        owner = np.where(np.isin(np.arange(len(x)), at), -1, owner)
    if targets is not None or pool.sets.members is not None:
        owner, noise = np.full(len(x), -1), np.zeros(len(x))
    left = 1 + posterior.effect
    return Known(phi, _unit(posterior) * variance, weight, owner, noise, left)


def guessed(pool: Pool, model: Model, known: Known, gone: Sequence[int] = ()) -> float:
    """What predicting the mean of all for everyone is off by: the root of the mean variance and of
    that of the means of predictions."""
    x, weight, owner = _everyone(pool, gone)
    own = None if pool.targets is not None else _in_measured(pool, model, x, owner)
    mean = predict_mean(model, x, own)
    between = weight @ (mean - weight @ mean) ** 2
    return float(np.sqrt(known.std**2 + between.mean()))


def means(
    design: Design,
    model: Model,
    positions: Int[np.ndarray, " n"],
    std: PerSet,
    own: Members | None,
) -> Known | None:
    """The means of sets; None where weights of a set add up to nothing or less.

    Args:
        design: Of these sets, without noise that measuring them would have.
        std: Of their totals.
        own: What they have in common with measured totals.
    """
    size, posterior = design.theta_sum, model.posterior
    if not len(size) or (size <= 0).any():
        return None
    u, owner = np.asarray(design.u, dtype=np.float64), positions
    if own is not None and len(own.row):
        u = _without_totals(u, own, model.labelled, posterior)
        owner = np.where(np.isin(np.arange(len(u)), own.row), -1, owner)
    noise = posterior.noise_scale(design) / size
    weight = np.full(len(u), 1 / len(u))
    own_noise = _unit(posterior) * noise / size / posterior.noise_precision
    variance = _but_rounding((std / size) ** 2, own_noise)
    return Known(u / size[:, None], variance, weight, owner, noise)


def after_each(
    known: Known, pool: Pool, posterior: Posterior, which: Sequence[int]
) -> Float[np.ndarray, " p1"]:
    """The typical standard deviation now, and as if one after the other of these sets was measured.

    Args:
        pool: As strategies see it (`given_answers`).
    """
    if not len(which):
        return np.array([known.std])
    u = np.asarray(pool.design.rows(list(which)).u, dtype=np.float64)
    towards = posterior.times(u).T
    across = known.rows @ towards
    mine = known.owner[:, None] == np.asarray(which)[None, :]
    across += mine * known.noise[:, None] / posterior.noise_precision
    among = u @ towards + noise_among(pool, posterior, which) / posterior.noise_precision
    taken = _unit(posterior) * np.cumsum(_one_by_one(among, across) ** 2, axis=1)
    left = _but_rounding(known.variance[:, None] - taken, known.variance[:, None])
    return np.sqrt(known.weight @ np.column_stack([known.variance, left]))


def _but_rounding(left: np.ndarray, of: np.ndarray) -> np.ndarray:
    """What is left of variances, and 0 where that is less than their rounding."""
    return np.where(left < ROUNDING * of, 0.0, left)


def _one_by_one(
    among: Float[np.ndarray, "p p"], across: Float[np.ndarray, "n p"]
) -> Float[np.ndarray, "n p"]:
    """What each total says besides those before it: across L⁻ᵀ, with L Lᵀ = among (Cholesky).

    A total that those before it tell but for rounding says nothing more.
    """
    lower, white = np.zeros_like(among), np.zeros_like(across)
    for j, own in enumerate(np.diagonal(among)):
        rest = among[:, j] - lower[:, :j] @ lower[j, :j]
        if rest[j] > ROUNDING * own:
            lower[:, j] = rest / np.sqrt(rest[j])
            white[:, j] = (across[:, j] - white[:, :j] @ lower[j, :j]) / lower[j, j]
    return white


# --- many sets at once ----------------------------------------------------------------------------


def joint_gram(pool: Pool, posterior: Posterior, which: Int[np.ndarray, " n"]) -> np.ndarray:
    """β S^½ Σ_a u_a u_aᵀ/s_a S^½ of these sets.

    It is too much where sets overlap and there are more of them than one block holds.
    """
    wanted = np.zeros(len(pool.design), dtype=bool)
    wanted[which] = True
    return np.sum(each_part(pool, partial(_gram, posterior), wanted), axis=0)


def _gram(posterior: Posterior, first: int, pool: Pool, wanted: Mask) -> np.ndarray:
    del first
    n_basis, which = pool.design.n_basis, np.flatnonzero(wanted)
    gram, alone = np.zeros((n_basis, n_basis)), independent_of_others(pool, which)
    root = posterior.root_times(np.eye(n_basis))
    wide = np.empty((min(BLOCK, len(which)), n_basis))  # used again: new memory takes its time
    half, product = np.empty_like(wide), np.empty_like(gram)
    kinds = (which[alone], False), (which[~alone], True)
    blocks = [(v[i : i + BLOCK], joint) for v, joint in kinds for i in range(0, len(v), BLOCK)]
    with Slow("adding up what all sets would tell", len(blocks)) as slow:
        for number, (at, joint) in enumerate(blocks, 1):
            if joint:
                design = independent_rows(pool, posterior, at)
            else:  # those that lie in a row are read where they are
                whole = at[-1] - at[0] == len(at) - 1
                design = pool.design.rows(slice(at[0], at[-1] + 1) if whole else at)
            wide[: len(design)] = design.u
            let_go(design.u)
            own = np.matmul(wide[: len(design)], root, out=half[: len(design)])
            own /= np.sqrt(posterior.noise(design))[:, None]
            gram += np.matmul(own.T, own, out=product)
            slow.at(number)
    return gram


def after_all(
    known: Known,
    pool: Pool,
    posterior: Posterior,
    which: Int[np.ndarray, " n"],
    gram: np.ndarray | None = None,
) -> float:
    """The typical standard deviation as if all these sets were measured.

    Args:
        gram: From `joint_gram`, where that is at hand.
    """
    gram = joint_gram(pool, posterior, which) if gram is None else gram
    lower = np.linalg.cholesky(np.eye(len(gram)) + gram)
    rows, variance = known.rows.copy(), known.variance / _unit(posterior)
    variance -= posterior.variance_along(known.rows)
    mine = np.flatnonzero(np.isin(known.owner, which))
    if len(mine):
        theirs = pool.design.rows(known.owner[mine])
        pull = known.noise[mine] / posterior.noise_scale(theirs)
        rows[mine] -= pull[:, None] * theirs.u
        variance[mine] -= pull * known.noise[mine] / posterior.noise_precision
    half = np.linalg.solve(lower, posterior.root_times(rows).T)
    variance += np.einsum("kn,kn->n", half, half)
    variance = _but_rounding(_unit(posterior) * variance, known.variance)
    return float(np.sqrt(known.weight @ variance))


def to_halve(
    known: Known, pool: Pool, posterior: Posterior, free: Int[np.ndarray, " n"], cost: PerSet | None
) -> Int[np.ndarray, " m"] | None:
    """The sets to measure until the typical standard deviation is half of what it is, best first.

    They are taken in the order of what each alone would gain, so about as many as that are enough.
    None if all of them are not.
    """
    goal = 0.5 * known.std
    if after_all(known, pool, posterior, free) > goal:
        return None
    gains = by_part.scores("IVR", pool, posterior, np.random.default_rng(0))[free]
    ranked = gains if cost is None else gains / cost[free]
    order = free[np.argsort(-ranked, kind="stable")]

    def enough(n: int) -> bool:
        return after_all(known, pool, posterior, order[:n]) <= goal

    low, high = 0, 1
    while high < len(order) and not enough(high):
        low, high = high, min(2 * high, len(order))
    for _ in range(STEPS):
        if high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
    return order[:high]


# --- rows -----------------------------------------------------------------------------------------


def _unit(posterior: Posterior) -> float:
    """Squared unit of the outputs; above 0 where that of tiny outputs would not be."""
    return max(float((posterior.output_scale**2).mean()), 1e-300)


def _rows(pool: Pool, gone: Sequence[int]) -> Int[np.ndarray, " n"]:
    """Individuals that stand for all."""
    sets = pool.sets
    rows = np.arange(int(sets.starts[sets.n_asked]))
    if len(gone):
        owner = np.searchsorted(sets.starts, rows, side="right") - 1
        rows = rows[~np.isin(owner, gone)] if not np.isin(owner, gone).all() else rows
    return rows[:: max(1, -(-len(rows) // SAMPLE))]


def _everyone(
    pool: Pool, gone: Sequence[int]
) -> tuple[Float[np.ndarray, "n D"], Float[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """Inputs of individuals, how much each counts, and the position of its set; −1 of targets."""
    if pool.targets is not None:
        targets = pool.targets
        return targets.x, targets.weight, np.full(len(targets.x), -1)
    rows = _rows(pool, gone)
    x = np.asarray(pool.sets.x[rows], dtype=np.float64)
    owner = np.searchsorted(pool.sets.starts, rows, side="right") - 1
    return x, np.full(len(rows), 1 / max(1, len(rows))), owner


def _in_measured(
    pool: Pool, model: Model, x: Float[np.ndarray, "n D"], owner: Int[np.ndarray, " n"]
) -> Members:
    """What individuals have in common with measured totals."""
    groups = [pool.sets.ids[at] for at in owner]
    return members_of(model, groups, x)


def _without_totals(
    rows: Float[np.ndarray, "n K"], own: Members, known: Labelled | None, posterior: Posterior
) -> Float[np.ndarray, "n K"]:
    """ψ of rows φ."""
    assert known is not None
    u, effect, out = np.asarray(known.design.u, dtype=np.float64), posterior.effect, rows.copy()
    if known.overlap is not None and known.lower is None:  # a mixture of overlapping sets
        return out
    if known.lower is not None:
        theta, shared = own.dense(0, len(rows), len(u))
        return out - np.linalg.solve(known.lower, (theta + effect * shared).T).T @ u
    scale = known.noise_scale + effect * known.design.effect_scale
    pull = (own.theta + effect * own.effect) / scale[own.total]
    np.subtract.at(out, own.row, pull[:, None] * u[own.total])
    return out
