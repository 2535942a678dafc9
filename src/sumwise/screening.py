"""The best of very many sets, without scoring each in full.

A pass in single precision gives bounds on every u_aᵀ S u_a; the sets that could be among the best
by these bounds are scored in double precision, by the strategy itself. So chosen sets and their
scores are those of scoring everything:

    u_aᵀ S u_a = (‖u_a‖² − Σ_i (1 − λ v_i) (r_iᵀ u_a)²) / λ,    v_i = 1 / (λ + β g_i)

With weights of at most 1, single precision is off by no more than κ ‖u_a‖² / λ (`_slack`): each
product r_iᵀ u_a by γ_K ‖u_a‖ in whatever order it is summed, and squares add up by Cauchy–Schwarz.

A question never teaches more after another one is answered, so bounds stay bounds. A learner keeps
one number per set from question to question (`Ceiling`), which mostly saves the pass; whoever has
none does the pass. A joint batch works with them too: a shortlist is worked
through until its best falls to the bound on all others (`joint`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sumwise.acquisition import TIE, Acquisition, named, refuse_non_finite, scores_of
from sumwise.design import Design, Pool
from sumwise.errors import PoolExhaustedError
from sumwise.posterior import Hyperparameters, Posterior
from sumwise.shapes import Bool, Float, Int

SCREENED_FROM: Final = 4096  # sets; fewer are scored in full at no cost worth mentioning
BLOCK: Final = 4096  # sets looked at together
SHORTLIST: Final = 1024  # sets at least
LOOK: Final = 256  # sets that are looked at to see what the best is like
FEW: Final = 16  # one in so many sets is scored in full without a pass over all
_UNIT: Final = 2.0**-24  # rounding of single precision
_TINY: Final = 1e-33  # squares below this may vanish in single precision
_HUGE: Final = 1e36  # and those above it overflow
# more than keys may differ by and scores still count as equal: those are logarithms, of up to 1,400
_MARGIN: Final = 4e-6

Key = Callable[[np.ndarray, np.ndarray, float], np.ndarray]
# strategies that rise with (u_aᵀ S u_a, s_a, β) ↦ this, and never rise when more is known
KEYS: Final[Mapping[str, Key]] = {
    "AggMI": lambda signal, noise_scale, beta: signal / noise_scale,
    "AggEnt": lambda signal, noise_scale, beta: signal + noise_scale / beta,
}


@dataclass(frozen=True, slots=True, eq=False)
class Ceiling:
    """What β u_aᵀ S u_a / s_a was at most when β/λ was `ratio`; more may be known since.

    β S = (λ/β I + Σ u uᵀ/s)⁻¹ falls with every label, and rises with β/λ by its factor at most.
    """

    high: Float[np.ndarray, " A"]
    ratio: float

    def under(self, hyper: Hyperparameters) -> Float[np.ndarray, " A"]:
        """The same for other λ and β."""
        return self.high * max(1.0, _ratio(hyper) / self.ratio)


def _ratio(hyper: Hyperparameters) -> float:
    return hyper.noise_precision / hyper.prior_precision


@dataclass(frozen=True, slots=True, eq=False)
class Leaders:
    """Sets that may be among the best, in order of position, with their scores."""

    positions: Int[np.ndarray, " c"]
    scores: Float[np.ndarray, " c"]
    ceiling: Ceiling | None = None  # for the next question

    def best(self, but: int | None = None) -> int:
        """Position of the best, of those that tie the first; on request, but for one set."""
        left = self.positions != but
        top = self.scores[left].max()
        return int(self.positions[left][self.scores[left] >= top - TIE * abs(top)][0])

    def score(self, position: int) -> float:
        return float(self.scores[np.searchsorted(self.positions, position)])


def screens(strategy: str | Acquisition, pool: Pool) -> bool:
    """Whether bounds help here."""
    return (
        isinstance(strategy, str)
        and strategy in KEYS
        and len(pool.design) >= SCREENED_FROM
        and bool(squares(pool).max() < _HUGE)
    )


def leaders(
    strategy: str | Acquisition,
    pool: Pool,
    posterior: Posterior,
    rng: np.random.Generator,
    allowed: Bool[np.ndarray, " A"],
    n: int = 1,
    also: int | None = None,
    ceiling: Ceiling | None = None,
) -> Leaders:
    """All allowed sets that could be among the best `n`, and `also`, scored in full.

    Args:
        ceiling: Of an earlier question on the same pool, since when labels were only added; it may
            save the pass over all sets.
    """
    count = int(allowed.sum())
    if not count:
        raise PoolExhaustedError("every set is measured already; nothing is left to ask")
    if not screens(strategy, pool):
        scores = scores_of(strategy, pool, posterior, rng)
        refuse_non_finite(scores, allowed, pool.sets.ids)
        positions = np.flatnonzero(allowed)
        return Leaders(positions, scores[positions])
    n = min(n, count)
    high: Float[np.ndarray, " A"] | None = None
    if ceiling is not None and strategy == "AggMI":
        high = ceiling.under(posterior.hyper)
        chosen = _under_ceiling(pool, posterior, high, allowed, n)
    if high is None or chosen.sum() > len(chosen) // FEW:
        low, high = bounds(str(strategy), pool.design, squares(pool), posterior)
        low[~allowed] = -np.inf
        cut = _nth_largest(low, n)
        chosen = allowed & (high >= cut - _MARGIN * abs(cut))
        high *= posterior.noise_precision
    if also is not None and allowed[also]:
        chosen[also] = True
    positions = np.flatnonzero(chosen)
    rows = pool.design.rows(positions)
    signal = posterior.variance_along(rows.u)
    scores = named(strategy)(replace(pool, design=rows, signal=signal, square=None), posterior, rng)
    if not np.isfinite(scores).all():
        scattered = np.zeros(len(allowed))
        scattered[positions] = scores
        refuse_non_finite(scattered, allowed, pool.sets.ids)
    kept = None
    if strategy == "AggMI":
        exact = posterior.noise_precision * signal / rows.noise_scale
        high[positions] = exact * (1 + _MARGIN)
        kept = Ceiling(high, _ratio(posterior.hyper))
    return Leaders(positions, scores, kept)


def _under_ceiling(
    pool: Pool,
    posterior: Posterior,
    high: Float[np.ndarray, " A"],
    allowed: Bool[np.ndarray, " A"],
    n: int,
) -> Bool[np.ndarray, " A"]:
    """Sets that may be among the best, by bounds of before and a look at the highest of them."""
    free = np.where(allowed, high, -np.inf)
    some = min(max(LOOK, n), int(allowed.sum()))
    top = np.argpartition(free, len(free) - some)[len(free) - some :]
    rows = pool.design.rows(top)
    exact = posterior.noise_precision * posterior.variance_along(rows.u) / rows.noise_scale
    if (exact > free[top]).any():  # so little is left to learn that rounding is all there is
        return allowed.copy()
    cut = _nth_largest(exact, min(n, some))
    return free >= cut * (1 - _MARGIN)


def squares(pool: Pool) -> Float[np.ndarray, " A"]:
    """‖u_a‖² of every set."""
    if pool.square is not None:
        return pool.square
    u = pool.design.u
    return np.einsum("ak,ak->a", u, u).astype(np.float64, copy=False)


def with_squares(pool: Pool) -> Pool:
    """The pool with what a screening pass needs, worked out once."""
    return replace(pool, square=squares(pool)) if len(pool.design) >= SCREENED_FROM else pool


def bounds(
    strategy: str, design: Design, square: Float[np.ndarray, " A"], posterior: Posterior
) -> tuple[Float[np.ndarray, " A"], Float[np.ndarray, " A"]]:
    """What the strategy's key of each set is at least, and at most."""
    weighted = _weighted(posterior)
    known = _explained(design.u, weighted)
    return _between(strategy, design, square, known, weighted, posterior.hyper)


def _weighted(posterior: Posterior) -> Float[np.ndarray, "r K"]:
    """Rows √(1 − λ v_i) r_i: what is known of w along each direction."""
    share = 1 - posterior.hyper.prior_precision * posterior.variances
    return np.sqrt(np.clip(share, 0.0, 1.0))[:, None] * posterior.directions


def _between(
    strategy: str,
    design: Design,
    square: Float[np.ndarray, " A"],
    known: Float[np.ndarray, " A"],
    weighted: Float[np.ndarray, "r K"],
    hyper: Hyperparameters,
) -> tuple[Float[np.ndarray, " A"], Float[np.ndarray, " A"]]:
    lam, beta = hyper.prior_precision, hyper.noise_precision
    slack = _slack(weighted) * square + _TINY
    left = square - known
    low, high = (np.maximum(left + side, 0.0) / lam for side in (-slack, slack))
    key = KEYS[strategy]
    return key(low, design.noise_scale, beta), key(high, design.noise_scale, beta)


def _explained(
    u: Float[np.ndarray, "A K"], weighted: Float[np.ndarray, "r K"]
) -> Float[np.ndarray, " A"]:
    """Σ_i (1 − λ v_i) (r_iᵀ u_a)², in single precision."""
    out = np.zeros(len(u), np.float32)
    if not len(weighted):
        return out
    columns = np.ascontiguousarray(weighted.T, dtype=np.float32)
    along = np.empty((min(BLOCK, len(u)), columns.shape[1]), np.float32)
    block = np.empty((len(along), u.shape[1]), np.float32)
    for start in range(0, len(u), BLOCK):
        rows = u[start : start + BLOCK]
        if rows.dtype != np.float32:
            block[: len(rows)] = rows
            rows = block[: len(rows)]
        product = np.matmul(rows, columns, out=along[: len(rows)])
        np.einsum("ai,ai->a", product, product, out=out[start : start + BLOCK])
    return out


def _slack(weighted: Float[np.ndarray, "r K"]) -> float:
    """κ: how far ‖u‖² less what is explained may be off, in units of ‖u‖²."""
    n_rows, n_basis = weighted.shape
    gamma = (n_basis + 4) * _UNIT / (1 - n_basis * _UNIT)
    power = float(np.einsum("rk,rk->", weighted, weighted))
    products = 2 * gamma * power**0.5 + gamma**2 * power
    return 1.01 * (products + (n_rows + 2 + n_basis + 2) * _UNIT)


def _nth_largest(values: Float[np.ndarray, " A"], n: int) -> float:
    if n == 1:
        return float(values.max())
    return float(np.partition(values, -n)[-n])


# --- joint batches --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Shortlist:
    """Some sets, and a bound on the key of all that were left out."""

    positions: Int[np.ndarray, " c"]
    rows: Design
    rest: float


def shortlist(
    design: Design, high: Float[np.ndarray, " A"], allowed: Bool[np.ndarray, " A"], size: int
) -> Shortlist:
    """The `size` allowed sets with the highest bounds, in order of position."""
    high = np.where(allowed, high, -np.inf)
    others = len(high) - min(size, int(allowed.sum()))
    order = np.argpartition(high, others)
    positions = np.sort(order[others:])
    rest = float(high[order[:others]].max()) if others else -np.inf
    return Shortlist(positions, design.rows(positions), rest)


def greedy(
    strategy: str,
    pool: Pool,
    found: Shortlist,
    root: Float[np.ndarray, "K K"],
    posterior: Posterior,
    n: int,
) -> tuple[list[int], Float[np.ndarray, "p K"], Float[np.ndarray, "K K"]]:
    """Up to `n` of a shortlist, one after another, each as if those before it were answered.

    Stops where a set that was left out could be better. With S = M Mᵀ and z = Mᵀ u_p / √s_p,
    knowing set p takes S to S − w wᵀ, w = M z √(β / (1 + β‖z‖²)), and M to M (I − α z zᵀ) with
    α = (1 − (1 + β‖z‖²)^−½) / ‖z‖². Differences of u_aᵀ S u_a only say who is worth a full look.

    Args:
        root: M, of what is known so far; `posterior` need not know of sets picked before.

    Returns:
        Positions, the w of each, and the last M.
    """
    rows, beta = found.rows, posterior.noise_precision
    u = rows.u.astype(np.float64, copy=False)
    key = KEYS[strategy]
    signal = np.einsum("ak,ak->a", along := u @ root, along)
    fuzz = 1e-10 * signal
    left = np.ones(len(u), dtype=bool)
    picked, changes = [], [np.empty((0, root.shape[1]))]
    for _ in range(min(n, len(u))):
        high = np.where(left, key(signal + fuzz, rows.noise_scale, beta), -np.inf)
        low = np.where(left, key(signal - fuzz, rows.noise_scale, beta), -np.inf)
        top = low.max()
        near = np.flatnonzero(high >= top - _MARGIN * abs(top))
        exact = np.einsum("ak,ak->a", along := u[near] @ root, along)
        some = replace(pool, design=rows.rows(near), signal=exact, square=None)
        scores = named(strategy)(some, posterior, np.random.default_rng(0))
        at = int(np.flatnonzero(scores >= scores.max() - TIE * abs(scores.max()))[0])
        chosen, best = int(near[at]), float(key(exact[at], rows.noise_scale[near[at]], beta))
        if best - _MARGIN * abs(best) <= found.rest:
            break
        picked.append(int(found.positions[chosen]))
        left[chosen] = False
        z = root.T @ u[chosen] / np.sqrt(rows.noise_scale[chosen])
        length = float(z @ z)
        forward = root @ z
        change = forward * np.sqrt(beta / (1 + beta * length))
        changes.append(change[None])
        signal -= (u @ change) ** 2
        if length > 0:
            root = root - np.outer((1 - (1 + beta * length) ** -0.5) / length * forward, z)
    return picked, np.concatenate(changes), root


def joint(
    strategy: str, pool: Pool, posterior: Posterior, allowed: Bool[np.ndarray, " A"], n: int
) -> list[int]:
    """Positions of a joint batch, the same as picking one after another from all."""
    design, square, free = pool.design, squares(pool), allowed.copy()
    lam = posterior.hyper.prior_precision
    root = posterior.root_times(np.eye(design.u.shape[1]))
    weighted = _weighted(posterior)
    known = _explained(design.u, weighted).astype(np.float64)
    size = max(SHORTLIST, len(design) // 8)
    picked: list[int] = []
    while True:
        high = _between(strategy, design, square, known, weighted, posterior.hyper)[1]
        found = shortlist(design, high, free, size)
        new, changes, root = greedy(strategy, pool, found, root, posterior, n - len(picked))
        picked += new
        if len(picked) == n:
            return picked
        free[new] = False
        known += _explained(design.u, lam**0.5 * changes)
        weighted = np.concatenate([weighted, lam**0.5 * changes])
        if not new:
            size *= 4  # many sets are nearly as good
