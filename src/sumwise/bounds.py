"""What scores of very many sets are at least, and at most: one pass in single precision.

    u_aᵀ S u_a = (‖u_a‖² − Σ_i (1 − λ v_i) (r_iᵀ u_a)²) / λ,    v_i = 1 / (λ + β g_i)

With weights of at most 1, single precision is off by no more than κ ‖u_a‖² / λ (`_slack`): each
product r_iᵀ u_a by γ_K ‖u_a‖ in whatever order it is summed, and squares add up by Cauchy–Schwarz.
Where features have amplitudes, u stands for a ∘ u throughout.

The numerator of IVR is ‖Q u_a‖² with Q = V^½ Φ S. Its singular vectors beyond a small singular
value σ are left out, so its root is off by (γ_K ‖Q‖ + σ) ‖u_a‖ at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from sumwise.acquisition.prediction import targets_of, unit_of
from sumwise.design import Design, Pool
from sumwise.posterior import Posterior
from sumwise.shapes import Float

BLOCK: Final = 4096  # sets looked at together
_UNIT: Final = 2.0**-24  # rounding of single precision
_TINY: Final = 1e-33  # squares below this may vanish in single precision
HUGE: Final = 1e36  # and those above it overflow
_LEFT_OUT: Final = 1e-4  # singular values of Q, in units of the largest

Key = Callable[[np.ndarray, np.ndarray, float], np.ndarray]
# strategies that rise with (u_aᵀ S u_a, s_a, β) ↦ this, and never rise when more is known
KEYS: Final[Mapping[str, Key]] = {
    "AggMI": lambda signal, noise_scale, beta: signal / noise_scale,
    "AggEnt": lambda signal, noise_scale, beta: signal + noise_scale / beta,
}
Between = tuple[np.ndarray, np.ndarray]  # one number per set each


def squares(pool: Pool) -> Float[np.ndarray, " A"]:
    """‖u_a‖² of every set."""
    if pool.square is not None:
        return pool.square
    u = pool.design.u
    return np.einsum("ak,ak->a", u, u).astype(np.float64, copy=False)


def powers(pool: Pool, posterior: Posterior) -> Float[np.ndarray, " A"]:
    """‖a ∘ u_a‖² of every set, to single precision where there are amplitudes."""
    if posterior.amplitude is None:
        return squares(pool)
    u, weight = pool.design.u, (posterior.amplitude**2).astype(np.float32)
    out = np.empty(len(u))
    for low in range(0, len(u), BLOCK):
        rows = u[low : low + BLOCK].astype(np.float32, copy=False)
        out[low : low + BLOCK] = np.square(rows) @ weight
    return out


def bounds(
    strategy: str, design: Design, power: Float[np.ndarray, " A"], posterior: Posterior
) -> Between:
    """What the key of each set is at least, and at most.

    Args:
        power: From `powers`.
    """
    weighted = known_rows(posterior)
    known = explained(design.u, weighted, posterior.amplitude)
    return key_between(strategy, design, power, known, weighted, posterior)


def known_rows(posterior: Posterior) -> Float[np.ndarray, "r K"]:
    """Rows √(1 − λ v_i) r_i: what is known of w along each direction."""
    share = 1 - posterior.hyper.prior_precision * posterior.variances
    return np.sqrt(np.clip(share, 0.0, 1.0))[:, None] * posterior.directions


def key_between(
    strategy: str,
    design: Design,
    power: Float[np.ndarray, " A"],
    known: Float[np.ndarray, " A"],
    weighted: Float[np.ndarray, "r K"],
    posterior: Posterior,
) -> Between:
    beta, key = posterior.noise_precision, KEYS[strategy]
    low, high = _signal_between(power, known, weighted, posterior)
    return key(low, design.noise_scale, beta), key(high, design.noise_scale, beta)


def _signal_between(
    power: Float[np.ndarray, " A"],
    known: Float[np.ndarray, " A"],
    weighted: Float[np.ndarray, "r K"],
    posterior: Posterior,
) -> Between:
    slack, left = _slack(weighted) * power + _TINY, power - known
    lam = posterior.hyper.prior_precision
    return np.maximum(left - slack, 0.0) / lam, np.maximum(left + slack, 0.0) / lam


def variance_reduction_between(
    pool: Pool, power: Float[np.ndarray, " A"], posterior: Posterior
) -> Between | None:
    """What IVR of each set is at least, and at most; None if nothing can be learned."""
    phi, weight = targets_of(pool)
    towards = posterior.inner(phi * np.sqrt(weight)[:, None])
    _, values, axes = np.linalg.svd(towards, full_matrices=False)
    if not 1e-150 < values[0] < 1e150:
        return None
    rows = (values / values[0])[:, None] * axes
    used = int((values > _LEFT_OUT * values[0]).sum())
    left_out = float(values[used] / values[0]) if used < len(values) else 0.0
    rows = rows[:used]
    found = np.sqrt(explained(pool.design.u, rows, posterior.amplitude).astype(np.float64))
    length = np.sqrt(power * (1 + _slack(rows[:0])) + _TINY)
    wide = _gamma(rows) * float(np.linalg.norm(rows)) + left_out
    off = wide * length + (used + 2) * _UNIT * found + _TINY**0.5
    weighted = known_rows(posterior)
    known = explained(pool.design.u, weighted, posterior.amplitude)
    noise = pool.design.noise_scale / posterior.noise_precision
    least, most = _signal_between(power, known, weighted, posterior)
    unit = unit_of(posterior) * float(values[0]) ** 2
    low = unit * np.maximum(found - off, 0.0) ** 2 / (noise + most)
    return low, unit * (found + off) ** 2 / (noise + least)


def explained(
    u: Float[np.ndarray, "A K"],
    rows: Float[np.ndarray, "r K"],
    amplitude: Float[np.ndarray, " K"] | None,
) -> Float[np.ndarray, " A"]:
    """Σ_i (row_iᵀ u_a)², in single precision."""
    out = np.zeros(len(u), np.float32)
    if not len(rows):
        return out
    outer = rows if amplitude is None else rows * amplitude
    columns = np.ascontiguousarray(outer.T, dtype=np.float32)
    along = np.empty((min(BLOCK, len(u)), columns.shape[1]), np.float32)
    block = np.empty((len(along), u.shape[1]), np.float32)
    for start in range(0, len(u), BLOCK):
        some = u[start : start + BLOCK]
        if some.dtype != np.float32:
            block[: len(some)] = some
            some = block[: len(some)]
        product = np.matmul(some, columns, out=along[: len(some)])
        np.einsum("ai,ai->a", product, product, out=out[start : start + BLOCK])
    return out


def _gamma(rows: Float[np.ndarray, "r K"]) -> float:
    """How far a product with one of these may be off, in units of both lengths."""
    n_basis = rows.shape[1]
    return (n_basis + 4) * _UNIT / (1 - n_basis * _UNIT)


def _slack(weighted: Float[np.ndarray, "r K"]) -> float:
    """κ: how far ‖u‖² less what is explained may be off, in units of ‖u‖²."""
    n_rows, n_basis = weighted.shape
    gamma, power = _gamma(weighted), float(np.einsum("rk,rk->", weighted, weighted))
    products = 2 * gamma * power**0.5 + gamma**2 * power
    return 1.01 * (products + (n_rows + 2 + n_basis + 2) * _UNIT)
