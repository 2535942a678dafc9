"""Questions about sets that overlap: what is left to learn of each, given what is known.

Given w and the totals that are measured or asked for, part of the noise of an overlapping set is
known. With k its covariances with the noise L Lᵀ of these totals, and U their rows,

    ȳ_a | w, D  has the row  u_a − Uᵀ (L Lᵀ)⁻¹ k  and noise of variance  n_a − kᵀ (L Lᵀ)⁻¹ k

so strategies see an ordinary design with other rows and less noise (`Design.left`). A set that
follows from what is known has no row and no noise, and nothing is gained by asking for it. Pools of
disjoint sets are left as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from sumwise.model import overlap
from sumwise.model.design import Design, Pool
from sumwise.model.fit import Model
from sumwise.model.posterior import Posterior
from sumwise.util.shapes import Float, Int, Mask

NOTHING: Final = 1e-30  # share of noise that is left of a total that is known: logarithms need one


def given_answers(pool: Pool, model: Model) -> Pool:
    """The pool as strategies are to see it after the answers that the model knows."""
    known = model.labelled
    if pool.sets.members is None:
        return pool
    pool = replace(pool, explained=np.empty((len(pool.design), 0)))
    if known is None or known.overlap is None or known.lower is None:
        return pool
    across = _noise(known.overlap.of_sets(pool.sets), model.posterior)
    white = np.linalg.solve(known.lower, across.T).T
    return _explained(pool, model.posterior, white, known.design.u)


def given_questions(pool: Pool, posterior: Posterior, which: Any) -> tuple[Pool, Posterior]:
    """The pool and the posterior as if the sets at these positions were measured, too."""
    if pool.explained is None:
        return pool, posterior.condition_on(pool.design.rows(which))
    rows, white = _whitened(pool, posterior, which)
    return _explained(pool, posterior, white, rows.u), posterior.condition_on(rows)


def independent_of_others(pool: Pool, which: Int[np.ndarray, " n"]) -> Mask:
    """Which of these sets share no individual and no effect with another of them, nor with totals
    that are known."""
    if pool.explained is None or pool.sets.members is None or pool.sets.effects is None:
        return np.ones(len(which), dtype=bool)
    sets = pool.sets.take(which)
    alone = ~pool.explained[which].any(axis=1)
    owner = np.repeat(np.arange(len(sets)), sets.sizes)
    for numbers in (sets.members, sets.effects):
        assert numbers is not None
        pairs = np.unique(np.stack([numbers, owner]), axis=1)
        shared = np.bincount(pairs[0])[pairs[0]] > 1
        alone[pairs[1, shared]] = False
    return alone


def independent_rows(pool: Pool, posterior: Posterior, which: Any) -> Design:
    """A design whose totals are independent given w and teach what those of these sets do."""
    if pool.explained is None:
        return pool.design.rows(which)
    return _whitened(pool, posterior, which)[0]


def noise_among(pool: Pool, posterior: Posterior, which: Any) -> Float[np.ndarray, "n n"]:
    """Covariances of the noise of these totals, in units of 1/β."""
    if pool.explained is None:
        return np.diag(posterior.noise_scale(pool.design.rows(which)))
    return _shared(pool, posterior, which)[1]


def _whitened(
    pool: Pool, posterior: Posterior, which: Any
) -> tuple[Design, Float[np.ndarray, "A p"]]:
    """Independent totals in place of those of some sets, and covariances of all noise with them."""
    across, among, some = _shared(pool, posterior, which)
    kept = overlap.independent(among, posterior.noise_scale(replace(some, left=None)))
    half = np.linalg.inv(np.linalg.cholesky(among[np.ix_(kept, kept)]))
    rows = Design(half @ some.u[kept], np.ones(len(kept)), np.zeros(len(kept)))
    return rows, across[:, kept] @ half.T


def _shared(
    pool: Pool, posterior: Posterior, which: Any
) -> tuple[Float[np.ndarray, "A n"], Float[np.ndarray, "n n"], Design]:
    """Covariances of the noise of all totals with those of some sets, those among these, noise of
    measuring included, and their rows."""
    assert pool.explained is not None
    which = np.asarray(which, dtype=int)
    across = _noise(overlap.shared(pool.sets, pool.sets.take(which)), posterior)
    across -= pool.explained @ pool.explained[which].T
    among, some = across[which], pool.design.rows(which)
    among[np.diag_indices_from(among)] = posterior.noise_scale(some)
    return across, among, some


def _noise(shared: tuple[Any, Any], posterior: Posterior) -> Float[np.ndarray, "A t"]:
    """Covariances of noise in units of 1/β."""
    own, effect = shared
    return (own + posterior.effect * effect).toarray()


def _explained(
    pool: Pool, posterior: Posterior, white: Float[np.ndarray, "A t"], u: Float[np.ndarray, "t K"]
) -> Pool:
    """The pool after independent totals with rows u, of noise 1/β, became known.

    Args:
        white: Covariances of the noise of all sets with theirs.
    """
    assert pool.explained is not None
    design = pool.design
    before = posterior.noise_scale(replace(design, left=None))
    left = posterior.noise_scale(design) - np.einsum("at,at->a", white, white)
    known = left <= overlap.ROUNDING * before
    rows = np.where(known[:, None], 0.0, design.u - white @ u)
    design = replace(design, u=rows, left=np.where(known, NOTHING, left / before))
    explained = np.hstack([pool.explained, white])
    return replace(pool, design=design, explained=explained, signal=None, square=None)
