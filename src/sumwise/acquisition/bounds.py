"""Lower and upper bounds on the scores of very many sets, from one pass in single precision.

    u_aᵀ S u_a = (‖u_a‖² − Σ_i (1 − λ v_i) (r_iᵀ u_a)²) / λ,    v_i = 1 / (λ + β g_i)

With weights of at most 1, single precision errs by no more than κ ‖u_a‖² / λ (`_slack`): each
product r_iᵀ u_a errs by at most γ_K ‖u_a‖ in any order of summation, and squares add up by
Cauchy–Schwarz. Where all directions are known, as those of a mixture are,

    u_aᵀ S u_a = Σ_i v_i (r_iᵀ u_a)²

is such a sum as well. Only leading r_i are needed: as they are orthonormal, the others add no less
than 0 and no more than the largest weight among them times ‖u_a‖² − Σ_i (r_iᵀ u_a)², the part of
u_a that the leading ones do not see.

The numerator of IVR is ‖Q u_a‖² with Q = V^½ Φ S, and a part that rises with u_aᵀ S u_a. Of Q, r_i
are singular vectors and weights squared singular values, and the root of the sum over the leading
ones errs by at most γ_K ‖Q‖ ‖u_a‖.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np

from sumwise.acquisition.prediction import of_members, targets_of, unit_of
from sumwise.model.design import Pool
from sumwise.model.posterior import Posterior
from sumwise.util.files import let_go
from sumwise.util.shapes import Float, PerSet
from sumwise.util.threads import one_thread

BLOCK: Final = 4096  # sets per product
_UNIT: Final = 2.0**-24  # rounding of single precision
_TINY: Final = 1e-33  # squares below this may underflow in single precision
HUGE: Final = 1e36  # squares above this may overflow
_FAINT: Final = 1e-5  # weights that are left out, in units of the largest
_FAINT_IN_NOISE: Final = 1e-2  # the same where the signal is only a part of what divides
ALONE: Final = 2**14  # sets that are worth a thread of their own
KEPT: Final = 9 * 10**8  # bytes of a mapped file that stay in memory until the next question
MANY: Final = 2**31  # rows: all that are not faint

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
    signal = _Signal.of(posterior, _FAINT)
    (found,), power = _projections(pool, signal.rows)
    low, high = signal.between(power, found)
    noise_scale, beta = posterior.noise_scale(pool.design), posterior.noise_precision
    return key(low, noise_scale, beta), key(high, noise_scale, beta)


class _Rows(NamedTuple):
    """The first of orthonormal rows, by the size of their weights, which is 1 at most."""

    rows: Float[np.ndarray, "r K"]
    weights: Float[np.ndarray, " r"]
    rest: float  # the largest weight that is left out
    diagonal: Float[np.ndarray, " K"] | None = None  # weights of u_k² that are added

    @classmethod
    def leading(
        cls,
        rows: Float[np.ndarray, "R K"],
        weights: Float[np.ndarray, " R"],
        faint: float,
        most: int = MANY,
        diagonal: Float[np.ndarray, " K"] | None = None,
    ) -> _Rows:
        size = abs(weights)
        order = np.argsort(-size)
        n = min(int((size > faint).sum()), most)
        rest = float(size[order[n]]) if n < len(order) else 0.0
        return cls(rows[order[:n]], weights[order[:n]], rest, diagonal)

    def slack(self, power: PerSet) -> PerSet:
        """Largest error of the sum."""
        return _slack(float(abs(self.weights).sum()), *self.rows.shape) * power + _TINY

    def missing(self, power: PerSet, inside: PerSet) -> PerSet:
        """What the rows that are left out add at most, where those that are not have `inside`."""
        slack = _slack(len(self.rows), *self.rows.shape)
        return self.rest * np.maximum(power - inside + slack * power, 0.0)


class _Signal(NamedTuple):
    """u_aᵀ S u_a as a sum over rows, beside ‖u_a‖² or weighted squares of single features."""

    rows: _Rows
    unit: float
    whole: bool = False  # whether ‖u_a‖² is added

    @classmethod
    def of(cls, posterior: Posterior, faint: float, most: int = MANY) -> _Signal:
        variances, directions = posterior.variances, posterior.directions
        largest = float(variances.max(initial=0.0))
        if len(directions) < directions.shape[1] or not 0 < largest < math.inf:
            share = np.clip(1 - posterior.hyper.prior_precision * variances, 0.0, 1.0)
            rows = _Rows.leading(directions, -share, faint, most)
            return cls(rows, 1 / posterior.hyper.prior_precision, whole=True)
        weights = variances / largest
        if most == MANY or (weights > faint).sum() <= most:
            return cls(_Rows.leading(directions, weights, faint, most), largest)
        inside = (directions.T * weights) @ directions
        diagonal = np.clip(np.diagonal(inside), 0.0, 1.0)
        powers, axes = np.linalg.eigh(inside - np.diag(diagonal))
        return cls(_Rows.leading(axes.T, powers, faint, most, diagonal), largest)

    def between(self, power: PerSet, found: Between) -> Between:
        weighted, inside = found
        if self.whole:
            weighted = power + weighted
        slack, missing = self.rows.slack(power), self.rows.missing(power, inside)
        low, high = weighted - slack, weighted + slack + missing
        if self.whole or self.rows.diagonal is not None:  # weights may be negative
            low -= missing
        return np.maximum(low, 0.0) * self.unit, np.maximum(high, 0.0) * self.unit


def variance_reduction_between(
    pool: Pool, posterior: Posterior, most: int = MANY
) -> Between | None:
    """Bounds on the IVR of each set; None if nothing can be learned.

    Args:
        most: Rows of each of the two sums: with fewer, bounds are wider, and take less time.
    """
    phi, weight = targets_of(pool, posterior)
    towards = posterior.times(phi * np.sqrt(weight)[:, None])
    powers, axes = np.linalg.eigh(towards.T @ towards)
    largest = float(powers[-1])
    if not 1e-300 < largest < 1e300:
        return None
    rows = _Rows.leading(axes.T, np.maximum(powers / largest, 0.0), _FAINT, most)
    signal, unit = _Signal.of(posterior, _FAINT_IN_NOISE, most), unit_of(posterior) * largest
    (found, along), power = _projections(pool, rows, signal.rows)
    n, n_basis = rows.rows.shape
    root, length = np.sqrt(found[0]), np.sqrt(power * (1 + _slack(0.0, 0, n_basis)) + _TINY)
    off = _gamma(n_basis) * math.sqrt(rows.weights.sum()) * length
    off += (n + 2) * _UNIT * root + _TINY**0.5
    low, high = np.maximum(root - off, 0.0) ** 2, (root + off) ** 2 + rows.missing(power, found[1])
    noise, squared = posterior.noise(pool.design), unit_of(posterior)
    least, most_of = signal.between(power, along)
    low = unit * low + squared * of_members(pool, posterior, least)
    high = unit * high + squared * of_members(pool, posterior, most_of)
    return low / (noise + most_of), high / (noise + least)


def _projections(pool: Pool, *parts: _Rows) -> tuple[list[Between], PerSet]:
    """Σ_i w_i (row_iᵀ u_a)² + Σ_k d_k u_ak² and Σ_i (row_iᵀ u_a)² of every set, and ‖u_a‖².

    The last of the parts alone may have d.
    """
    u, diagonal = pool.design.u, parts[-1].diagonal
    width = u.shape[1] * u.dtype.itemsize
    columns = np.concatenate([each.rows for each in parts]).T.astype(np.float32, order="C")
    ends = np.cumsum([0, *(len(each.rows) for each in parts)])
    weights = np.zeros((columns.shape[1], 2 * len(parts)), np.float32)
    for k, each in enumerate(parts):
        here = slice(ends[k], ends[k + 1])
        weights[here, 2 * k], weights[here, 2 * k + 1] = each.weights, 1.0
    found = np.empty((2 * len(parts), len(u)))

    def look(span: range) -> None:
        block = np.empty((min(BLOCK, len(u)), u.shape[1]), np.float32)
        along = np.empty((len(block), columns.shape[1]), np.float32)
        for start in span:
            here = slice(start, min(start + BLOCK, len(u)))
            some = u[here]
            if some.dtype != np.float32:
                block[: len(some)] = some
                some = block[: len(some)]
            product = np.matmul(some, columns, out=along[: len(some)])
            np.square(product, out=product)
            found[:, here] = (product @ weights).T
            if diagonal is not None:
                squared = np.square(some, out=block[: len(some)])
                found[-2, here] += squared @ diagonal.astype(np.float32)
            if here.stop * width > KEPT:
                let_go(u[here])

    n_threads = min(os.cpu_count() or 1, len(u) // ALONE)
    if n_threads < 2:
        look(range(0, len(u), BLOCK))
    else:
        spans = [range(i * BLOCK, len(u), n_threads * BLOCK) for i in range(n_threads)]
        with one_thread(), ThreadPoolExecutor(n_threads) as threads:
            list(threads.map(look, spans))
    return list(zip(found[::2], found[1::2], strict=True)), squares(pool)


def _gamma(n_basis: int) -> float:
    """Largest error of a product with a row of length 1, in units of both lengths."""
    return (n_basis + 4) * _UNIT / (1 - n_basis * _UNIT)


def _slack(power: float, n_rows: int, n_basis: int) -> float:
    """κ: largest error of squared products whose weights add up to `power`, and of ‖u‖².

    In units of ‖u‖².
    """
    gamma = _gamma(n_basis)
    products = 2 * gamma * power**0.5 + gamma**2 * power
    return 1.01 * (products + (n_rows + 2 + n_basis + 2) * _UNIT)
