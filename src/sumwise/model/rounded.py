"""The design of very many sets in 16 bits for each number, and in full where it is asked for.

    u_a = t_a q_a + e_a,    q_a whole numbers up to 32,767,    ‖e_a‖ kept beside them

Bounds on scores are made of t_a q_a and ‖e_a‖ (`sumwise.acquisition.bounds`). Everything else sees
u_a itself, which is summed up again from the individuals of those sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from sumwise.model.design import BLOCK_NUMBERS, Design, freeze
from sumwise.util.shapes import Float, Int, PerSet

MOST: Final = 32_767  # the largest code
LONGEST_STEP: Final = float(np.finfo(np.float32).max)
FEW: Final = 16  # more than one set in 16 are read with all others
KEPT: Final = 2**12  # rows that stay in memory after they were asked for


@dataclass(frozen=True, slots=True, eq=False)
class Rounded:
    """Rows u_a of very many sets, rounded."""

    codes: Int[np.ndarray, "A K"]  # q_a, in 16 bits
    step: Float[np.ndarray, " A"]  # t_a, in single precision: products with q_a are exact in double
    off: Float[np.ndarray, " A"]  # ‖u_a − t_a q_a‖ or a little more, in single precision
    square: Float[np.ndarray, " A"]  # ‖t_a q_a‖²

    @classmethod
    def of(cls, u: Float[np.ndarray, "A K"]) -> Rounded:
        n_sets, n_basis = u.shape
        codes, square = np.empty((n_sets, n_basis), np.int16), np.empty(n_sets)
        step, off = np.empty((2, n_sets), np.float32)
        for low in range(0, n_sets, rows := max(1, BLOCK_NUMBERS // n_basis)):
            here = slice(low, low + rows)
            step[here] = np.minimum(abs(u[here]).max(axis=1) / MOST, LONGEST_STEP)
            steps = step[here, None].astype(np.float64)
            codes[here] = np.clip(np.rint(u[here] / np.where(steps > 0, steps, 1.0)), -MOST, MOST)
            near = codes[here] * steps
            with np.errstate(over="ignore"):  # such sets are not screened
                square[here] = np.einsum("ak,ak->a", near, near)
                length = np.linalg.norm(u[here] - near, axis=1).astype(np.float32)
            off[here] = np.nextafter(length, np.float32(np.inf))  # which is more than it is wrong
        return cls(codes, step, off, square)

    def rows(self, index: Any) -> Rounded:
        return Rounded(self.codes[index], self.step[index], self.off[index], self.square[index])


class Exact:
    """Rows u_a as they are, read when they are asked for; a few thousand stay in memory."""

    def __init__(
        self,
        shape: tuple[int, int],
        some: Callable[[Int[np.ndarray, " n"]], Float[np.ndarray, "n K"]],
        every: Callable[[], Float[np.ndarray, "A K"]],
    ) -> None:
        self._shape, self._some, self._every = shape, some, every
        self._known: dict[int, np.ndarray] = {}

    @cached_property
    def whole(self) -> Float[np.ndarray, "A K"]:
        """All rows, which stay in memory."""
        return self._every()

    def at(self, positions: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n K"]:
        n_sets, n_basis = self._shape
        if "whole" in vars(self) or len(positions) > n_sets // FEW:
            return self.whole[positions]
        wanted, known = positions.tolist(), self._known
        if missing := [a for a in dict.fromkeys(wanted) if a not in known]:
            fresh = dict(zip(missing, self._some(np.array(missing)), strict=True))
            known = {**known, **fresh}
            self._known = known if len(known) <= KEPT else fresh
        return np.array([known[a] for a in wanted]).reshape(-1, n_basis)


class RoundedDesign(Design):
    """A `Design` whose `u` is rounded in memory, and in full where it is used."""

    __slots__ = ("_exact", "_positions", "rounded")
    rounded: Rounded
    _exact: Exact
    _positions: Int[np.ndarray, " A"] | None

    def __init__(
        self,
        rounded: Rounded,
        noise_scale: PerSet,
        theta_sum: PerSet,
        exact: Exact,
        positions: Int[np.ndarray, " A"] | None = None,
        squares: PerSet | None = None,
    ) -> None:
        known = {"rounded": rounded, "_exact": exact, "_positions": positions}
        plain = {"noise_scale": noise_scale, "theta_sum": theta_sum, "squares": squares}
        others = dict.fromkeys(("effect", "left", "nonlinear"))
        for name, value in {**known, **plain, **others}.items():
            object.__setattr__(self, name, value)
        freeze(noise_scale, theta_sum)

    @property
    def u(self) -> Float[np.ndarray, "A K"]:
        """All rows: only strategies without bounds look at them."""
        whole = self._exact.whole
        return whole if self._positions is None else whole[self._positions]

    @property
    def n_basis(self) -> int:
        return self.rounded.codes.shape[1]

    def __len__(self) -> int:
        return len(self.noise_scale)

    def rows(self, index: Any) -> Design:
        u = self._exact.at(self._at(index))
        squares = None if self.squares is None else self.squares[index]
        return Design(u, self.noise_scale[index], self.theta_sum[index], squares=squares)

    def part(self, index: Any) -> Design:
        own = self.noise_scale[index], self.theta_sum[index], self._exact, self._at(index)
        squares = None if self.squares is None else self.squares[index]
        return RoundedDesign(self.rounded.rows(index), *own, squares)

    def with_known_noise(
        self, noise_std: Float[np.ndarray, " A"], noise_precision: float
    ) -> Design:
        noisy = self.noise_scale + noise_precision * noise_std**2
        own = self._exact, self._positions, self.own_scale
        return RoundedDesign(self.rounded, noisy, self.theta_sum, *own)

    def _at(self, index: Any) -> Int[np.ndarray, " n"]:
        every = np.arange(len(self)) if self._positions is None else self._positions
        return every[index]
