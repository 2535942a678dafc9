"""Lower and upper bounds on the scores of very many sets, from one pass in single precision.

    u_aᵀ S u_a = (‖u_a‖² − Σ_i (1 − λ v_i) (r_iᵀ u_a)²) / λ,    v_i = 1 / (λ + β g_i)

With weights of at most 1, single precision errs by no more than κ ‖u_a‖² / λ (`_slack`): each
product r_iᵀ u_a errs by at most γ_K ‖u_a‖ in any order of summation, and squares add up by
Cauchy–Schwarz. Where all directions are known, as those of a mixture are,

    u_aᵀ S u_a = Σ_i v_i (r_iᵀ u_a)²

needs those alone whose v_i is no less than a small share of the largest, v; the others add no more
than this share of v ‖u_a‖².

The numerator of IVR is ‖Q u_a‖² with Q = V^½ Φ S, and a part that rises with u_aᵀ S u_a. Singular
vectors below a small singular value σ are left out, so its root errs by at most
(γ_K ‖Q‖ + σ) ‖u_a‖.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from sumwise.acquisition.prediction import of_members, targets_of, unit_of
from sumwise.model.design import Pool
from sumwise.model.posterior import Posterior
from sumwise.util.shapes import Float, PerSet

BLOCK: Final = 4096  # sets per product
_UNIT: Final = 2.0**-24  # rounding of single precision
_TINY: Final = 1e-33  # squares below this may underflow in single precision
HUGE: Final = 1e36  # squares above this may overflow
_LEFT_OUT: Final = 1e-3  # singular values of Q, in units of the largest
_FAINT: Final = 1e-4  # variances of directions, likewise
_FAINT_IN_NOISE: Final = 1e-3  # the same where the signal is only a part of what divides

Key = Callable[[np.ndarray, np.ndarray, float], np.ndarray]
Between = tuple[np.ndarray, np.ndarray]  # one number per set each


def signal_to_noise(signal: np.ndarray, noise_scale: np.ndarray, beta: float) -> np.ndarray:
    """u_aᵀ S u_a / s_a, with which AggMI rises."""
    return signal / noise_scale


def total_variance(signal: np.ndarray, noise_scale: np.ndarray, beta: float) -> np.ndarray:
    """u_aᵀ S u_a + s_a / β, with which AggEnt rises."""
    return signal + noise_scale / beta


def squares(pool: Pool) -> PerSet:
    """‖u_a‖² of every set."""
    if pool.square is not None:
        return pool.square
    u = pool.design.u
    return np.einsum("ak,ak->a", u, u).astype(np.float64, copy=False)


def bounds(key: Key, pool: Pool, posterior: Posterior) -> Between:
    """Bounds on the key of each set."""
    signal = _signal_rows(posterior)
    (found,), power = _squared_projections(pool, signal.rows)
    low, high = signal.between(power, found)
    noise_scale, beta = posterior.noise_scale(pool.design), posterior.noise_precision
    return key(low, noise_scale, beta), key(high, noise_scale, beta)


class _Signal(NamedTuple):
    """Rows whose squared products with u_a add up to u_aᵀ S u_a, or to what is missing from it."""

    rows: Float[np.ndarray, "r K"]  # of length 1 at most
    unit: float  # v, or 1/λ
    explained: bool  # whether they add up to what is missing from ‖u_a‖²
    faint: float  # share of v ‖u_a‖² that is left out at most

    def between(self, power: PerSet, found: PerSet) -> Between:
        slack = _slack(self.rows) * power + _TINY
        left, more = (power - found, 0.0) if self.explained else (found, self.faint * power)
        ends = np.maximum(left - slack, 0.0), np.maximum(left + slack + more, 0.0)
        return ends[0] * self.unit, ends[1] * self.unit


def _signal_rows(posterior: Posterior, faint: float = _FAINT) -> _Signal:
    variances, directions = posterior.variances, posterior.directions
    most = float(variances.max(initial=0.0))
    if len(directions) == directions.shape[1] and 0 < most < math.inf:
        kept = variances > faint * most
        rows = np.sqrt(variances[kept] / most)[:, None] * directions[kept]
        return _Signal(rows, most, False, faint)
    share = 1 - posterior.hyper.prior_precision * variances
    rows = np.sqrt(np.clip(share, 0.0, 1.0))[:, None] * directions
    return _Signal(rows, 1 / posterior.hyper.prior_precision, True, 0.0)


def variance_reduction_between(pool: Pool, posterior: Posterior) -> Between | None:
    """Bounds on the IVR of each set; None if nothing can be learned."""
    phi, weight = targets_of(pool, posterior)
    towards = posterior.times(phi * np.sqrt(weight)[:, None])
    powers, axes = np.linalg.eigh(towards.T @ towards)
    values, axes = np.sqrt(np.maximum(powers[::-1], 0.0)), axes.T[::-1]
    if not 1e-150 < values[0] < 1e150:
        return None
    values, unit = values / values[0], unit_of(posterior) * float(values[0]) ** 2
    used = int((values > _LEFT_OUT).sum())
    left_out = _LEFT_OUT if used < len(values) else 0.0
    rows, signal = values[:used, None] * axes[:used], _signal_rows(posterior, _FAINT_IN_NOISE)
    (found, along), power = _squared_projections(pool, rows, signal.rows)
    found = np.sqrt(found)
    length = np.sqrt(power * (1 + _slack(rows[:0])) + _TINY)
    wide = _gamma(rows) * float(np.linalg.norm(rows)) + left_out
    off = wide * length + (used + 2) * _UNIT * found + _TINY**0.5
    noise, squared = posterior.noise(pool.design), unit_of(posterior)
    least, most = signal.between(power, along)
    low = unit * np.maximum(found - off, 0.0) ** 2 + squared * of_members(pool, posterior, least)
    high = unit * (found + off) ** 2 + squared * of_members(pool, posterior, most)
    return low / (noise + most), high / (noise + least)


def _squared_projections(
    pool: Pool, *rows: Float[np.ndarray, "r K"]
) -> tuple[list[PerSet], PerSet]:
    """Σ_i (row_iᵀ u_a)² of every set for each list of rows, and ‖u_a‖², in one pass."""
    u = pool.design.u
    columns = np.ascontiguousarray(np.concatenate(rows).T, dtype=np.float32)
    ends = np.cumsum([len(each) for each in rows])[:-1]
    found = [np.zeros(len(u)) for _ in rows]
    block = np.empty((min(BLOCK, len(u)), u.shape[1]), np.float32)
    along = np.empty((len(block), columns.shape[1]), np.float32)
    for start in range(0, len(u), BLOCK):
        here = slice(start, min(start + BLOCK, len(u)))
        some = u[here]
        if some.dtype != np.float32:
            block[: len(some)] = some
            some = block[: len(some)]
        product = np.matmul(some, columns, out=along[: len(some)])
        for part, sums in zip(np.split(product, ends, axis=1), found, strict=True):
            sums[here] = np.einsum("ai,ai->a", part, part)
    return found, squares(pool)


def _gamma(rows: Float[np.ndarray, "r K"]) -> float:
    """Largest error of a product with one of these rows, in units of both lengths."""
    n_basis = rows.shape[1]
    return (n_basis + 4) * _UNIT / (1 - n_basis * _UNIT)


def _slack(rows: Float[np.ndarray, "r K"]) -> float:
    """κ: largest error of squared products with these rows, and of ‖u‖², in units of ‖u‖²."""
    n_rows, n_basis = rows.shape
    gamma, power = _gamma(rows), float(np.einsum("rk,rk->", rows, rows))
    products = 2 * gamma * power**0.5 + gamma**2 * power
    return 1.01 * (products + (n_rows + 2 + n_basis + 2) * _UNIT)
