"""Lower and upper bounds on the scores of very many sets, from one pass in single precision.

    u_aᵀ S u_a = (‖u_a‖² − Σ_i (1 − λ v_i) (r_iᵀ u_a)²) / λ,    v_i = 1 / (λ + β g_i)

With weights of at most 1, single precision errs by no more than κ ‖u_a‖² / λ (`_slack`): each
product r_iᵀ u_a errs by at most γ_K ‖u_a‖ in any order of summation, and squares add up by
Cauchy–Schwarz. Where all directions are known, as those of a mixture are,

    u_aᵀ S u_a = Σ_i v_i (r_iᵀ u_a)²

is such a sum as well. Only leading r_i are needed: as they are orthonormal, the others add no less
than 0 and no more than the largest weight among them times ‖u_a‖² − Σ_i (r_iᵀ u_a)², the part of
u_a that the leading ones do not see.

A first look at IVR takes fewer rows. Let e_i be the eigenvectors of S^½ Φᵀ V Φ S^½, p_i their
eigenvalues, falling, and t_i = S^½ e_i. Then

    u_aᵀ S u_a = Σ_i (t_iᵀ u_a)²    and    Σ_j v_j c_ja² = Σ_i p_i (t_iᵀ u_a)²

What t_i beyond the first n add to the divisor they add p_{n+1} times at most to the numerator. So
without them the quotient is too small only where it is below p_{n+1}.

The numerator of IVR is ‖Q u_a‖² with Q = V^½ Φ S, and a part that rises with u_aᵀ S u_a. Of Q, r_i
are singular vectors and weights squared singular values, and the root of the sum over the leading
ones errs by at most γ_K ‖Q‖ ‖u_a‖.

Where ũ_a is in memory in place of u_a (`sumwise.model.rounded`), all this bounds the sums of ũ_a.
Their weights are 1 at most, so the root of a sum for u_a differs by no more than ‖u_a − ũ_a‖.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from sumwise.acquisition.prediction import (
    aims_of,
    features_of,
    of_members,
    slope_of_members,
    towards_aims,
    unit_of,
)
from sumwise.data.targets import Targets
from sumwise.model.basis import Scaled
from sumwise.model.design import Pool
from sumwise.model.posterior import Posterior
from sumwise.model.rounded import RoundedDesign
from sumwise.util.files import let_go
from sumwise.util.shapes import Float, PerSet
from sumwise.util.threads import n_cores, one_thread

BLOCK: Final = 4096  # sets per product
_UNIT: Final = 2.0**-24  # rounding of single precision
_TINY: Final = 1e-33  # squares below this may underflow in single precision
HUGE: Final = 1e36  # squares above this may overflow
_FAINT: Final = 1e-5  # weights that are left out, in units of the largest
_FAINT_IN_NOISE: Final = 1e-2  # the same where the signal is only a part of what divides
ALONE: Final = 2**14  # sets that are worth a thread of their own
KEPT: Final = 25 * 10**7  # bytes of a mapped file that stay in memory until the next question

SOME: Final = 256  # sets that say what the best score is about
SPARE: Final = 8  # rows beyond those that are needed at least: with more, fewer sets are left
MOST_ROWS: Final = 64  # beyond, all rows at once take no longer

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
    if isinstance(pool.design, RoundedDesign):
        return pool.design.rounded.square
    u = pool.design.u
    return np.einsum("ak,ak->a", u, u).astype(np.float64, copy=False)


def bounds(key: Key, pool: Pool, posterior: Posterior) -> Between:
    """Bounds on the key of each set."""
    signal = _signal(posterior, _FAINT)
    (found,), power = _projections(pool, signal.rows)
    low, high = signal.between(power, found, _off(pool))
    noise_scale, beta = posterior.noise_scale(pool.design), posterior.noise_precision
    return key(low, noise_scale, beta), key(high, noise_scale, beta)


class _Rows(NamedTuple):
    """The first of orthonormal rows, by the size of their weights, which is 1 at most."""

    rows: Float[np.ndarray, "r K"]
    weights: Float[np.ndarray, " r"]
    rest: float  # the largest weight that is left out

    @classmethod
    def leading(
        cls,
        rows: Float[np.ndarray, "R K"],
        weights: Float[np.ndarray, " R"],
        faint: float,
    ) -> _Rows:
        size = abs(weights)
        order = np.argsort(-size)
        n = int((size > faint).sum())
        rest = float(size[order[n]]) if n < len(order) else 0.0
        return cls(rows[order[:n]], weights[order[:n]], rest)

    def slack(self, power: PerSet) -> PerSet:
        """Largest error of the sum."""
        return _slack(float(abs(self.weights).sum()), *self.rows.shape) * power + _TINY

    def missing(self, power: PerSet, inside: PerSet) -> PerSet:
        """What the rows that are left out add at most, where those that are not have `inside`."""
        slack = _slack(len(self.rows), *self.rows.shape)
        return self.rest * np.maximum(power - inside + slack * power, 0.0)


class _Signal(NamedTuple):
    """u_aᵀ S u_a as a sum over rows, beside ‖u_a‖² where it is that of the prior."""

    rows: _Rows
    unit: float
    whole: bool = False  # whether ‖u_a‖² is added

    def between(self, power: PerSet, found: Between, off: PerSet | None) -> Between:
        weighted, inside = found
        if self.whole:
            weighted = power + weighted
        slack, missing = self.rows.slack(power), self.rows.missing(power, inside)
        low, high = weighted - slack, weighted + slack + missing
        if self.whole:  # weights are negative
            low -= missing
        low, high = _widened(np.maximum(low, 0.0), np.maximum(high, 0.0), off)
        return low * self.unit, high * self.unit


# What follows depends on the posterior and the targets alone, so it is the same for each part.


@lru_cache(maxsize=2)
def _signal(posterior: Posterior, faint: float) -> _Signal:
    variances, directions = posterior.variances, posterior.directions
    largest = _largest(posterior)
    if len(directions) < directions.shape[1] or not 0 < largest < math.inf:
        share = np.clip(1 - posterior.hyper.prior_precision * variances, 0.0, 1.0)
        rows = _Rows.leading(directions, -share, faint)
        return _Signal(rows, 1 / posterior.hyper.prior_precision, whole=True)
    return _Signal(_Rows.leading(directions, variances / largest, faint), largest)


@lru_cache(maxsize=2)
def _axes(
    posterior: Posterior, basis: Scaled, aims: Targets
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, "K K"], float] | None:
    """p, the rows t_i, and the largest variance of w; None if these numbers are extreme."""
    half = posterior.root_times(features_of(basis, aims) * np.sqrt(aims.weight)[:, None])
    powers, axes = np.linalg.eigh(half.T @ half)
    powers, top, scale = np.maximum(powers[::-1], 0.0), float(powers[-1]), _largest(posterior)
    if not (1e-300 < top < 1e300 and 1e-300 < scale < 1e300 and 1e-300 < top * scale < 1e300):
        return None
    return powers, posterior.root_times(axes.T[::-1]), scale


@lru_cache(maxsize=2)
def _rows_of_numerator(
    posterior: Posterior, basis: Scaled, aims: Targets
) -> tuple[_Rows, float] | None:
    """Singular vectors of Q, and its largest singular value, squared; None if it is extreme."""
    towards = towards_aims(posterior, basis, aims)
    powers, axes = np.linalg.eigh(towards @ towards.T)
    largest = float(powers[-1])
    if not 1e-300 < largest < 1e300:
        return None
    return _Rows.leading(axes.T, np.maximum(powers / largest, 0.0), _FAINT), largest


# --- the variance of targets ----------------------------------------------------------------------


def variance_reduction_below(pool: Pool, posterior: Posterior) -> PerSet | None:
    """Upper bounds on the IVR of each set from the leading t_i; None if these are too many."""
    known = _axes(posterior, pool.basis, aims_of(pool))
    if known is None:
        return None
    (powers, t, scale), unit = known, unit_of(posterior)
    top = float(powers[0])
    n = _needed(pool, posterior, t, powers)
    if n > MOST_ROWS:
        return None
    leading, rest = t[:n] / math.sqrt(scale), float(powers[n]) if n < len(powers) else 0.0
    power, squared = squares(pool), np.einsum("rk,rk->r", leading, leading)
    lengths = [math.sqrt(each @ squared) for each in (powers[:n] / top, np.ones(n))]
    below = np.empty(len(power))

    def use(here: slice, found: Float[np.ndarray, "2 a"]) -> None:
        some = replace(pool, design=pool.design.part(here), signal=None, square=None)
        length = np.sqrt(power[here] * (1 + _slack(0.0, 0, t.shape[1])) + _TINY)
        (root, off), (seen, unsure) = (
            (root, _gamma(t.shape[1]) * far * length + (n + 2) * _UNIT * root + _TINY**0.5)
            for root, far in zip(np.sqrt(found), lengths, strict=True)
        )
        _, high = _widened(root, (root + off) ** 2, _off(some))
        least, _ = _widened(np.maximum(seen - unsure, 0.0) ** 2, seen, _off(some))
        least *= scale
        gain = unit * (top * scale * high + of_members(some, posterior, least))
        faint = unit * (rest + slope_of_members(some, posterior))
        below[here] = np.maximum(gain / (posterior.noise(some.design) + least), faint)

    _by_block(pool, [_Rows(leading, powers[:n] / top, rest)], use)
    return below


def _needed(
    pool: Pool,
    posterior: Posterior,
    t: Float[np.ndarray, "K K"],
    powers: Float[np.ndarray, " K"],
) -> int:
    """How many t_i bounds need so that those that are left out matter to poor sets only.

    Some sets, rounded as they may be, say what the best score is about.
    """
    here = slice(None, None, max(1, len(pool.design) // SOME))
    some = replace(pool, design=pool.design.part(here), signal=None, square=None)
    if isinstance(some.design, RoundedDesign):
        u = some.design.rounded.codes * some.design.rounded.step[:, None]
    else:
        u = some.design.u
    along = np.square(u @ t.T)
    signal = along.sum(axis=1)
    gain = along @ powers + of_members(some, posterior, signal)
    reached = float((gain / (posterior.noise(some.design) + signal)).max())
    loud = int((powers > _FAINT * _FAINT * powers[0]).sum())  # single precision has those beside
    slope = slope_of_members(some, posterior).max()
    return min(int((powers + slope > reached).sum()) + SPARE, loud)


def variance_reduction_between(pool: Pool, posterior: Posterior) -> Between | None:
    """Bounds on the IVR of each set; None if nothing can be learned."""
    known = _rows_of_numerator(posterior, pool.basis, aims_of(pool))
    if known is None:
        return None
    rows, largest = known
    signal, unit = _signal(posterior, _FAINT_IN_NOISE), unit_of(posterior) * largest
    (found, along), power = _projections(pool, rows, signal.rows)
    n, n_basis = rows.rows.shape
    root, length = np.sqrt(found[0]), np.sqrt(power * (1 + _slack(0.0, 0, n_basis)) + _TINY)
    off = _gamma(n_basis) * math.sqrt(rows.weights.sum()) * length
    off += (n + 2) * _UNIT * root + _TINY**0.5
    low, high = np.maximum(root - off, 0.0) ** 2, (root + off) ** 2 + rows.missing(power, found[1])
    low, high = _widened(low, high, _off(pool))
    noise, squared = posterior.noise(pool.design), unit_of(posterior)
    least, most = signal.between(power, along, _off(pool))
    low = unit * low + squared * of_members(pool, posterior, least)
    high = unit * high + squared * of_members(pool, posterior, most)
    return low / (noise + most), high / (noise + least)


def _largest(posterior: Posterior) -> float:
    """The largest variance of w along any direction."""
    if len(posterior.directions) < posterior.directions.shape[1]:
        return 1 / posterior.hyper.prior_precision
    return float(posterior.variances.max(initial=0.0))


def _projections(pool: Pool, *parts: _Rows) -> tuple[list[Between], PerSet]:
    """Σ_i w_i (row_iᵀ u_a)² and Σ_i (row_iᵀ u_a)² of every set, and ‖u_a‖²."""
    everywhere = np.empty((2 * len(parts), len(pool.design)))

    def use(here: slice, found: Float[np.ndarray, "p2 a"]) -> None:
        everywhere[:, here] = found

    _by_block(pool, parts, use)
    return list(zip(everywhere[::2], everywhere[1::2], strict=True)), squares(pool)


def _by_block(
    pool: Pool, parts: Sequence[_Rows], use: Callable[[slice, Float[np.ndarray, "p2 a"]], None]
) -> None:
    """Call `use` with both sums of some sets at a time, which stay in cache, on several threads."""
    rounded = pool.design.rounded if isinstance(pool.design, RoundedDesign) else None
    u = pool.design.u if rounded is None else rounded.codes
    width = u.shape[1] * u.dtype.itemsize
    columns = np.concatenate([each.rows for each in parts]).T.astype(np.float32, order="C")
    ends = np.cumsum([0, *(len(each.rows) for each in parts)])
    weights = np.zeros((columns.shape[1], 2 * len(parts)), np.float32)
    for k, each in enumerate(parts):
        here = slice(ends[k], ends[k + 1])
        weights[here, 2 * k], weights[here, 2 * k + 1] = each.weights, 1.0

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
            found = (product @ weights).T.astype(np.float64)
            if here.stop * width > KEPT:
                let_go(u[here])
            if rounded is not None:
                found *= np.square(rounded.step[here], dtype=np.float64)
            use(here, found)

    n_threads = min(n_cores(), len(u) // ALONE)
    if n_threads < 2:
        look(range(0, len(u), BLOCK))
    else:
        spans = [range(i * BLOCK, len(u), n_threads * BLOCK) for i in range(n_threads)]
        with one_thread(), ThreadPoolExecutor(n_threads) as threads:
            list(threads.map(look, spans))


def _off(pool: Pool) -> PerSet | None:
    """‖u_a − ũ_a‖ at most, where ũ is in memory in place of u."""
    return pool.design.rounded.off if isinstance(pool.design, RoundedDesign) else None


def _widened(low: PerSet, high: PerSet, off: PerSet | None) -> Between:
    """Bounds of a sum for u, from those for ũ: weights are 1 at most, so its root is Lipschitz."""
    if off is None:
        return low, high
    return np.maximum(np.sqrt(low) - off, 0.0) ** 2, (np.sqrt(high) + off) ** 2


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
