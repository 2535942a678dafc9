"""Rows of one array that lie in several places, such as files, as one array-like.

A design on disk may lie in many files, or in objects of a store. What goes through all sets takes
slices of some thousand rows, and what needs a few sets takes these; both are arrays in memory then.
NumPy can turn it all into an array as well, which takes the memory of all rows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from sumwise.util.shapes import Float, Int

SOME: Final = 2**12  # rows at a time in products with all rows


@dataclass(frozen=True, eq=False, repr=False)
class Parted:
    """Pieces below one another; each has `shape`, `dtype`, and rows by slice and by positions."""

    pieces: Sequence[Any]  # at least one, of the same width and dtype

    @cached_property
    def starts(self) -> Int[np.ndarray, " p1"]:
        """The first row of each piece, and the number of rows."""
        return np.concatenate([[0], np.cumsum([len(piece) for piece in self.pieces])])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.starts[-1]), int(self.pieces[0].shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers."""
        return np.dtype(self.pieces[0].dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        """One row, or some of them: an integer, a slice, a mask, or integers in any order."""
        if isinstance(index, slice):
            low, high, step = index.indices(len(self))
            if step == 1:
                return self._between(low, max(low, high))
            return self._at(np.arange(low, high, step))
        at = np.asarray(index)
        if at.dtype == bool:
            if at.shape != (len(self),):
                raise IndexError(f"a mask of shape {at.shape} for {len(self)} rows")
            return self._at(np.flatnonzero(at))
        if at.size and at.dtype.kind not in "iu":
            raise IndexError(f"rows are chosen by integers, not by {at.dtype}")
        at = at.astype(np.int64)
        if at.size and not (-len(self) <= at.min() and at.max() < len(self)):
            raise IndexError(f"there are {len(self)} rows, and {index!r:.40} asks for others")
        found = self._at(np.where(at < 0, at + len(self), at).reshape(-1))
        return found.reshape(*at.shape, self.shape[1])

    def _between(self, low: int, high: int) -> np.ndarray:
        first = int(np.searchsorted(self.starts, low, side="right")) - 1
        found: list[np.ndarray] = []
        for piece, start in zip(self.pieces[first:], self.starts[first:], strict=False):
            if start >= high:
                break
            found.append(piece[max(0, low - start) : high - start])
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else np.empty((0, self.shape[1]), self.dtype)

    def _at(self, rows: Int[np.ndarray, " n"]) -> np.ndarray:
        out = np.empty((len(rows), self.shape[1]), self.dtype)
        piece = np.searchsorted(self.starts, rows, side="right") - 1
        order = np.argsort(piece, kind="stable")
        ends = np.flatnonzero(np.diff(piece[order], append=-1)) + 1
        for low, high in zip(np.append(0, ends), ends, strict=False):
            mine = order[low:high]
            number = piece[mine[0]]
            out[mine] = self.pieces[number][rows[mine] - self.starts[number]]
        return out

    def __matmul__(self, other: Any) -> np.ndarray:
        """The product, some rows at a time."""
        right = np.asarray(other)
        rows = range(0, max(len(self), 1), SOME)
        return np.concatenate([self[low : low + SOME] @ right for low in rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("rows that lie in several places cannot be one array without a copy")
        return np.array(self[:], dtype=dtype)


# to a type checker it is an array, because everything that takes all rows can take either
if TYPE_CHECKING:
    Rows: TypeAlias = Float[np.ndarray, "..."]
elif "jaxtyping" in sys.modules:
    Rows = Float[np.ndarray, "..."] | Parted
else:
    Rows = object
