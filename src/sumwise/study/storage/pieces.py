"""Individuals in pieces, so that those of some sets are read without all others.

A study with very many sets keeps its design rounded (`sumwise.model.rounded`), and sums up u_a
again where it is needed. A piece has the inputs and weights of consecutive sets, mostly 32 KB of
numbers, and a checksum of its own in the database. It is packed in one of two ways, whichever is
smaller; nothing is rounded.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sumwise.data.sets import Sets
from sumwise.data.valid_sets import starts_of
from sumwise.errors import DataError
from sumwise.model import serialize
from sumwise.model.basis import Scaled
from sumwise.model.design import Design, sum_features
from sumwise.model.rounded import Exact, Rounded, RoundedDesign
from sumwise.util.shapes import Float, Int

PIECE: Final = 2**15  # bytes of numbers
PREFIX: Final = "individuals/"
_PLAIN, _PLANES = b"\0", b"\1"  # first byte of a piece: how its numbers are packed
_LENGTHS: Final = np.dtype("<u4")
_NUMBERS: Final = np.dtype("<f8")
SUMS: Final = "sums"

ROUNDED_FROM: Final = 2**26  # bytes of a design in double precision
LARGEST: Final = 2**29  # bytes of one that is rounded
SMALL: Final = 64  # individuals per set: summing up more would take longer than reading rows

Read = Callable[[Sequence[str]], Mapping[str, bytes]]  # contents of blobs by name


@dataclass(frozen=True, slots=True)
class Pieces:
    """Where individuals are, and how to get them."""

    starts: Int[np.ndarray, " A1"]  # of the sets
    n_inputs: int
    each: int  # sets in a piece
    read: Read

    def of_sets(
        self, positions: Int[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, " N"], Int[np.ndarray, " n1"]]:
        """Inputs and weights of the individuals of some sets, and where each set begins."""
        known = self._unpacked(np.unique(positions // self.each))
        parts = []
        for at in positions.tolist():
            number = at // self.each
            begin = self.starts[number * self.each]
            parts.append(known[number][:, self.starts[at] - begin : self.starts[at + 1] - begin])
        rows = np.concatenate(parts, axis=1)
        return rows[1:].T, rows[0], starts_of([part.shape[1] for part in parts])

    def all(self) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, " N"]]:
        """Inputs and weights of all individuals."""
        x, theta = np.empty((self.starts[-1], self.n_inputs)), np.empty(self.starts[-1])
        numbers = np.arange(-(-(len(self.starts) - 1) // self.each))
        for low in range(0, len(numbers), 100):
            for number, rows in self._unpacked(numbers[low : low + 100]).items():
                begin = self.starts[number * self.each]
                here = slice(begin, begin + rows.shape[1])
                x[here], theta[here] = rows[1:].T, rows[0]
        return x, theta

    def _unpacked(self, numbers: Int[np.ndarray, " p"]) -> dict[int, np.ndarray]:
        content = self.read([f"{PREFIX}{number}" for number in numbers])
        last = len(self.starts) - 1
        found = {}
        for number in numbers.tolist():
            ends = self.starts[[number * self.each, min((number + 1) * self.each, last)]]
            shape = 1 + self.n_inputs, int(ends[1] - ends[0])
            found[number] = _unpack(content[f"{PREFIX}{number}"], shape)
        return found


def worth_it(sets: Sets, n_basis: int) -> bool:
    """Whether a study is smaller and asks sooner if its individuals are in pieces."""
    numbers = len(sets) * n_basis
    return (
        sets.members is None
        and 8 * numbers >= ROUNDED_FROM
        and 2 * numbers <= LARGEST
        and len(sets.theta) <= SMALL * len(sets)
    )


def sets_in_a_piece(sets: Sets) -> int:
    return max(1, int(PIECE * len(sets) // (8 * (sets.n_inputs + 1) * len(sets.theta))))


def pack_individuals(sets: Sets) -> dict[str, bytes]:
    """All pieces, by name."""
    each, packed = sets_in_a_piece(sets), {}
    for number, first in enumerate(range(0, len(sets), each)):
        here = slice(sets.starts[first], sets.starts[min(first + each, len(sets))])
        rows = np.vstack([sets.theta[here], sets.x[here].T])
        plain = _PLAIN + zlib.compress(rows.astype(_NUMBERS).tobytes(), 1)
        packed[f"{PREFIX}{number}"] = min(plain, _in_planes(rows), key=len)
    return packed


def _in_planes(rows: Float[np.ndarray, "D1 N"]) -> bytes:
    """First bytes of all numbers, then second bytes, and so on; those that are noise stay as they
    are, because reading these back would take longest."""
    planes = []
    for plane in rows.astype(_NUMBERS).reshape(-1, 1).view(np.uint8).T:
        raw = plane.tobytes()
        small = zlib.compress(raw, 1)
        planes.append(small if len(small) < 0.95 * len(raw) else raw)
    lengths = np.array([len(plane) for plane in planes], _LENGTHS)
    return b"".join([_PLANES, lengths.tobytes(), *planes])


def _unpack(packed: bytes, shape: tuple[int, int]) -> Float[np.ndarray, "D1 N"]:
    try:
        if packed[:1] == _PLAIN:
            return np.frombuffer(zlib.decompress(packed[1:]), _NUMBERS).reshape(shape)
        size, begin = shape[0] * shape[1], 1 + 8 * _LENGTHS.itemsize
        each = np.empty((size, 8), np.uint8)
        for k, length in enumerate(np.frombuffer(packed[1:begin], _LENGTHS).tolist()):
            plane = packed[begin : begin + length]
            raw = plane if length == size else zlib.decompress(plane)
            each[:, k] = np.frombuffer(raw, np.uint8)
            begin += length
        return each.view(_NUMBERS).reshape(shape)
    except (zlib.error, ValueError) as error:
        raise DataError(f"the individuals of the study cannot be read ({error})") from error


def pack_rounded(design: Design, each: int) -> dict[str, bytes]:
    """The design but for its numbers beyond 16 bits, and how many sets are in a piece."""
    rounded = Rounded.of(design.u)
    sums = {"noise_scale": design.noise_scale, "theta_sum": design.theta_sum, "each": each}
    own = {"step": rounded.step, "off": rounded.off, "square": rounded.square}
    return {
        "rounded": rounded.codes.astype("<i2").tobytes(),
        SUMS: zlib.compress(serialize.to_bytes({**sums, **own}), 1),
    }


def unpack_sums(packed: bytes) -> dict[str, np.ndarray]:
    """What is beside the codes."""
    what = "the sums of the study's design"
    try:
        return serialize.from_bytes(zlib.decompress(packed), what)
    except zlib.error as error:
        raise DataError(f"{what} cannot be read ({error})") from error


def unpack_rounded(
    codes: bytes,
    known: Mapping[str, np.ndarray],
    pieces: Pieces,
    basis: Scaled,
    every: Callable[[], Any],
) -> RoundedDesign:
    """The design that `pack_rounded` packed.

    Args:
        known: From `unpack_sums`.
        every: All u_a.
    """
    rows = np.frombuffer(codes, "<i2").reshape(len(pieces.starts) - 1, -1)

    def some(positions: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n K"]:
        return sum_features(*pieces.of_sets(positions), basis)

    rounded = Rounded(rows, known["step"], known["off"], known["square"])
    return RoundedDesign(
        rounded, known["noise_scale"], known["theta_sum"], Exact(rows.shape, some, every)
    )
