"""The rows of candidates, in memory or on disk, and what a search asks of them.

Row n of P = [Φ | E] is a candidate: its features φ, and the part of its noise that earlier totals
tell (`acquisition.known_noise`). E is 0 except for candidates who have noise in common with these
totals. Those are *held*: all columns of their rows are in memory. All other rows are φ, which a
source gives in blocks, so that it need not be in memory; what a search wants of all candidates at
once is their Gram matrix, or those with the largest products along some directions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np

from sumwise.util.shapes import Float, Int, Mask

BLOCK: Final = 2**13  # rows that are multiplied at once
MOST_KEPT: Final = 32  # blocks from which rows are kept until it is looked at which still count


class Source(Protocol):
    """Features of all candidates."""

    def __len__(self) -> int: ...

    def blocks(self) -> Iterator[tuple[int, Float[np.ndarray, "b K"]]]:
        """All rows in order, some at a time, and the number of the first of them."""
        ...

    def take(self, rows: Int[np.ndarray, " m"]) -> Float[np.ndarray, "m K"]:
        """Some rows, given by rising numbers."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class InMemory:
    """Features that are there."""

    phi: Float[np.ndarray, "N K"]

    def __len__(self) -> int:
        return len(self.phi)

    def blocks(self) -> Iterator[tuple[int, Float[np.ndarray, "b K"]]]:
        """See `Source`."""
        return ((low, self.phi[low : low + BLOCK]) for low in range(0, len(self), BLOCK))

    def take(self, rows: Int[np.ndarray, " m"]) -> Float[np.ndarray, "m K"]:
        """See `Source`."""
        return self.phi[rows]


@dataclass(frozen=True, slots=True, eq=False)
class Some:
    """Some candidates: their numbers, rows of P and effects."""

    rows: Int[np.ndarray, " m"]
    p: Float[np.ndarray, "m P"]
    effects: Int[np.ndarray, " m"]

    def part(self, which: Any) -> Some:
        """Some of them, by place."""
        return Some(self.rows[which], self.p[which], self.effects[which])


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """All candidates; make one with `of`."""

    source: Source
    held: Int[np.ndarray, " c"]  # numbers of those who are held, rising
    p: Float[np.ndarray, "c P"]  # their rows
    first: Float[np.ndarray, "c K"]  # what the source gives of them
    effects: Int[np.ndarray, " N"] | None  # None if each has an effect of its own
    counted: Mask  # whose φ φᵀ are in `products`
    products: Float[np.ndarray, "K K"]

    @classmethod
    def of(
        cls,
        source: Source,
        some: Some,
        effects: Int[np.ndarray, " N"] | None,
        n_basis: int,
    ) -> Candidates:
        """Candidates of whom some are held.

        Args:
            some: Their numbers rise.
            effects: Number of the effect that each has.
            n_basis: K.
        """
        alone = effects is None or len(np.unique(effects)) == len(effects)
        none = np.zeros(len(source), dtype=bool), np.zeros((n_basis, n_basis))
        first = some.p[:, :n_basis]
        return cls(source, some.rows, some.p, first, None if alone else effects, *none)

    def __len__(self) -> int:
        return len(self.source)

    @property
    def width(self) -> int:
        """P: how many columns rows have."""
        return self.p.shape[1]

    @property
    def n_basis(self) -> int:
        """K: how many of them are features."""
        return self.first.shape[1]

    def some(self, rows: Int[np.ndarray, " m"]) -> Some:
        """Candidates with these numbers, in any order."""
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        p, (at, there) = np.zeros((len(rows), self.width)), self._among_held(ordered)
        p[there] = self.p[at[there]]
        if not there.all():
            p[~there, : self.n_basis] = self.source.take(ordered[~there])
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return Some(rows, p[back], self.effects_of(rows))

    def effects_of(self, rows: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
        """Numbers of the effects that some have."""
        return rows if self.effects is None else self.effects[rows]

    def _among_held(self, rows: Any) -> tuple[Int[np.ndarray, " m"], Mask]:
        """The place of each among those who are held, and whether it is there."""
        at = np.minimum(np.searchsorted(self.held, rows), max(len(self.held) - 1, 0))
        return at, self.held[at] == rows if len(self.held) else np.zeros(len(rows), dtype=bool)

    def holding(self, some: Some) -> Candidates:
        """The same with more who are held."""
        rows, at = np.unique(some.rows, return_index=True)
        new = ~self._among_held(rows)[1]
        if not new.any():
            return self
        held = np.concatenate([self.held, rows[new]])
        p = np.concatenate([self.p, some.p[at[new]]])
        first = np.concatenate([self.first, some.p[at[new], : self.n_basis]])
        order = np.argsort(held)
        return replace(self, held=held[order], p=p[order], first=first[order])

    def changed(self, p: Float[np.ndarray, "c Q"]) -> Candidates:
        """The same with other rows of those who are held, less columns of noise that nobody has."""
        used = (p[:, self.n_basis :] != 0).any(axis=0)
        return replace(self, p=p[:, np.append(np.ones(self.n_basis, dtype=bool), used)])

    @property
    def _has_noise(self) -> Mask:
        """Who of those who are held have noise in common with earlier totals."""
        noise: Mask = (self.p[:, self.n_basis :] != 0).any(axis=1)
        return noise

    # --- all candidates -------------------------------------------------------------------------

    def counting(self, allowed: Mask) -> Candidates:
        """The same with products of those who are allowed and share no noise with earlier totals,
        from a look at all."""
        counted = allowed.copy()
        counted[self.held[self._has_noise]] = False
        products = np.zeros_like(self.products)
        for low, phi in self.source.blocks():
            some = counted[low : low + len(phi)]
            phi = phi if some.all() else phi[some]
            products += phi.T @ phi
        return replace(self, counted=counted, products=products)

    def gram(self, allowed: Mask) -> Float[np.ndarray, "P P"]:
        """PᵀP of the candidates who are allowed.

        Of rows that were counted and are not in memory, only those that have changed since are
        looked at; they must be few.
        """
        made, noisy, k = self, self._has_noise, self.n_basis
        aside = allowed != self.counted
        aside[self.held] = False
        if isinstance(self.source, InMemory) or aside.any():
            made = self.counting(allowed)
        differ = noisy | (allowed != made.counted)[self.held]
        before = self.first[made.counted[self.held] & differ]
        now = self.p[allowed[self.held] & differ]
        products = now.T @ now
        products[:k, :k] += made.products - before.T @ before
        return products

    def along(self, directions: Float[np.ndarray, "P L"]) -> Float[np.ndarray, "N L"]:
        """P times some directions, where that fits in memory."""
        out = np.empty((len(self), directions.shape[1]))
        for low, phi in self.source.blocks():
            out[low : low + len(phi)] = phi @ directions[: self.n_basis]
        out[self.held] = self.p @ directions
        return out

    def tops(
        self, directions: Float[np.ndarray, "P L"], n: int, allowed: Mask
    ) -> tuple[list[Int[np.ndarray, " n"]], Candidates]:
        """The allowed candidates with the largest products along each direction, in falling order,
        the first of equal ones first; and the same candidates, with these held, too."""
        k, own = self.n_basis, (self.p @ directions).T
        rows = [np.empty(0, dtype=int) for _ in own]
        scores, least = [np.empty(0) for _ in own], np.full(len(own), -np.inf)
        across, kept = np.ascontiguousarray(directions[:k].T), list[tuple[Any, Any]]()
        for low, phi in self.source.blocks():
            here, new = across @ phi.T, np.zeros(len(phi), dtype=bool)
            a, b = np.searchsorted(self.held, [low, low + len(phi)])
            here[:, self.held[a:b] - low] = own[:, a:b]
            may = allowed[low : low + len(phi)]
            if not may.all():
                here[:, ~may] = -np.inf
            larger = here > least[:, None]
            for j in np.flatnonzero(larger.any(axis=1)).tolist():
                at = np.flatnonzero(larger[j])
                at = at[top(here[j, at], n)]
                both = np.concatenate([scores[j], here[j, at]])
                order = np.argsort(-both, kind="stable")[:n]
                new[at[order[order >= len(rows[j])] - len(rows[j])]] = True
                scores[j], rows[j] = both[order], np.concatenate([rows[j], at + low])[order]
                least[j] = scores[j][-1] if len(order) == n else -np.inf
            if new.any():
                kept.append((low + np.flatnonzero(new), phi[new]))
            if len(kept) > MOST_KEPT:
                kept = [_those(kept, np.concatenate(rows))]
        return rows, self.holding(self._as_first(*_those(kept, np.concatenate(rows))))

    def _as_first(self, rows: Int[np.ndarray, " m"], phi: Float[np.ndarray, "m K"]) -> Some:
        """Candidates who have no noise in common with earlier totals."""
        p = np.zeros((len(rows), self.width))
        p[:, : self.n_basis] = phi
        return Some(rows, p, self.effects_of(rows))


def _those(
    some: Sequence[tuple[Any, Any]], wanted: Int[np.ndarray, " w"]
) -> tuple[Int[np.ndarray, " m"], Float[np.ndarray, "m K"]]:
    """Of some numbers and rows, those that are wanted."""
    numbers, phi = (np.concatenate(each) for each in zip(*some, strict=True))
    kept = np.isin(numbers, wanted)
    return numbers[kept], phi[kept]


def top(scores: Float[np.ndarray, " u"], n: int) -> Int[np.ndarray, " n"]:
    """The largest, in falling order; the first of equal ones comes first."""
    some = np.arange(len(scores))
    if n < len(scores):
        least = np.partition(scores, len(scores) - n)[len(scores) - n]
        above = np.flatnonzero(scores > least)
        equal = np.flatnonzero(scores == least)[: n - len(above)]
        some = np.sort(np.concatenate([above, equal]))
    return some[np.argsort(-scores[some], kind="stable")]
