"""Totals of sets that share individuals: what they have in common.

With Θ the weights of all individuals in all totals and Z the effects that individuals have, the
noise of totals given w has the covariance

    σ² Θ Θᵀ + τ² Θ Z Zᵀ Θᵀ

which is diagonal for disjoint sets. A total without known noise whose row of Θ is a combination of
others teaches nothing that these do not (`independent`). The rest is whitened, which makes
independent totals of it: L⁻¹ of the totals and their rows u, L Lᵀ being the covariance above.

Θ is sparse; products cost as much as there are individuals in the sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sumwise.data.sets import Sets
from sumwise.util.shapes import Float, Int

ROUNDING: Final = 1e-9  # of a squared length: a total of which less is left follows from others


def weights(sets: Sets) -> tuple[Any, Any]:
    """Θ by individual, and Θ Z by effect, as sparse matrices with a row per set."""
    from scipy.sparse import csr_array

    assert sets.members is not None
    assert sets.effects is not None
    owner, found = np.repeat(np.arange(len(sets)), sets.sizes), []
    for columns in (sets.members, sets.effects):
        shape = len(sets), int(columns.max(initial=-1)) + 1
        found.append(csr_array((sets.theta, (owner, columns)), shape=shape))
    return found[0], found[1]


def scales(sets: Sets) -> tuple[Float[np.ndarray, " A"], Float[np.ndarray, " A"]]:
    """Diagonals of Θ Θᵀ and Θ Z Zᵀ Θᵀ."""
    squares = np.add.reduceat(sets.theta**2, sets.starts[:-1]) if len(sets) else np.empty(0)
    if len(sets) == len(sets.x):  # individuals
        return squares, squares
    own, effect = ((part * part).sum(axis=1) for part in weights(sets))
    return np.maximum(own, ROUNDING * squares), np.asarray(effect)


def apart(sets: Sets) -> Sets:
    """Disjoint sets: every individual once, with those that have the same effect."""
    if sets.members is None or sets.effects is None:
        return sets
    _, first = np.unique(sets.members, return_index=True)
    first = first[np.argsort(sets.effects[first], kind="stable")]
    groups, starts = np.unique(sets.effects[first], return_index=True)
    ends = np.append(starts, len(first))
    return Sets(tuple(groups.tolist()), sets.x[first], np.ones(len(first)), ends, sets.input_names)


def shared(mine: Sets, theirs: Sets) -> tuple[Any, Any]:
    """Θ Θᵀ and Θ Z Zᵀ Θᵀ between two lists of sets, as sparse matrices."""
    if not _same_people(mine, theirs):
        from scipy.sparse import csr_array

        empty = csr_array((len(mine), len(theirs)))
        return empty, empty
    pairs = zip(weights(mine), weights(theirs), strict=True)
    own, effect = (_product(a, b) for a, b in pairs)
    return own, effect


def _product(a: Any, b: Any) -> Any:
    """a bᵀ; columns that one of them does not have are 0."""
    width = min(a.shape[1], b.shape[1])
    return (a[:, :width] @ b[:, :width].T).tocsr()


def _same_people(mine: Sets, theirs: Sets) -> bool:
    """Whether numbers of individuals mean the same in both: they have the same inputs."""
    if mine.members is None or theirs.members is None:
        return False
    if not len(mine) or not len(theirs):
        return True
    numbers, first = np.unique(theirs.members, return_index=True)
    at = np.minimum(np.searchsorted(numbers, mine.members), len(numbers) - 1)
    both = np.flatnonzero(numbers[at] == mine.members)
    return bool((mine.x[both] == theirs.x[first[at[both]]]).all())


def independent(
    gram: Float[np.ndarray, "t t"], size: Float[np.ndarray, " t"] | None = None
) -> Int[np.ndarray, " k"]:
    """Numbers of the vectors that are no combination of those before them, by Gram–Schmidt.

    Args:
        gram: Products of the vectors.
        size: Squared lengths that rounding is measured by; those of the vectors if left out.
    """
    from scipy.sparse.csgraph import connected_components

    least = ROUNDING * (np.diagonal(gram) if size is None else size)
    _, label = connected_components(gram != 0, directed=False)  # others have nothing in common
    order, kept = np.argsort(label, kind="stable"), list[int]()
    for part in np.split(order, np.flatnonzero(np.diff(label[order])) + 1):
        left = gram[np.ix_(part, part)]
        for j, at in enumerate(part.tolist()):
            if left[j, j] > least[at]:
                kept.append(at)
                column = left[j:, j] / left[j, j] ** 0.5
                left[j:, j:] -= np.outer(column, column)
    return np.array(sorted(kept), dtype=int)


@dataclass(frozen=True, slots=True, eq=False)
class Overlap:
    """Measured sets that may share individuals."""

    pool: Sets  # all sets that are known, measured or not
    measured: Sets  # those whose totals teach something
    kept: Int[np.ndarray, " k"]  # their numbers among all measured sets
    same: Float[np.ndarray, "k k"]  # Θ Θᵀ
    together: Float[np.ndarray, "k k"]  # Θ Z Zᵀ Θᵀ

    @classmethod
    def of(cls, pool: Sets, measured: Sets, noise_std: Float[np.ndarray, " t"] | None) -> Overlap:
        """Without the totals that follow from those before them.

        Args:
            noise_std: Known noise of the totals: one that has it never follows from others.
        """
        same, together = (part.toarray() for part in shared(measured, measured))
        exact = np.ones(len(measured), bool) if noise_std is None else noise_std == 0
        among = np.flatnonzero(exact)
        teaching = among[independent(same[np.ix_(among, among)])]
        kept = np.sort(np.concatenate([teaching, np.flatnonzero(~exact)]))
        if not _same_people(pool, measured):
            pool = measured
        some = np.ix_(kept, kept)
        return cls(pool, measured.take(kept), kept, same[some], together[some])

    def lower(
        self, effect: float, known: Float[np.ndarray, " k"] | None
    ) -> Float[np.ndarray, "k k"]:
        """L of the measured totals, in units of 1/β.

        Args:
            effect: κ, the variance of a set's effect.
            known: Variance of the known noise of each.
        """
        noise = self.same + effect * self.together
        if known is not None:
            noise = noise + np.diag(known)
        return np.linalg.cholesky(noise)

    def of_sets(self, sets: Sets) -> tuple[Any, Any]:
        """What sets have in common with the measured ones."""
        return shared(sets, self.measured)

    def of_rows(self, rows: Int[np.ndarray, " n"]) -> tuple[Any, Any]:
        """θ of some rows of the pool in each measured total, and Σθ of their effect."""
        assert self.pool.members is not None
        assert self.pool.effects is not None
        numbers = self.pool.members[rows], self.pool.effects[rows]
        own, effect = map(_columns, weights(self.measured), numbers)
        return own, effect


def _columns(matrix: Any, which: Int[np.ndarray, " n"]) -> Any:
    """Some columns, as rows; those that are not there are 0."""
    from scipy.sparse import csr_array, vstack

    there = matrix.T.tocsr()
    nobody = csr_array((1, matrix.shape[0]))
    return vstack([there, nobody]).tocsr()[np.minimum(which, there.shape[0])]
