"""From ragged sets to one row per set, in one pass over the instances.

    u_a = Σ_n θ_an φ(x_an)          s_a = ‖θ_a‖²

A set enters everything that follows only through these two (and Σθ, which an offset of the
outputs is multiplied by). Instances are visited in blocks, so that memory beyond input and output
does not grow with their number; a set may span several blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from sumwise.data.sets import Sets
from sumwise.data.targets import Targets
from sumwise.errors import SettingError
from sumwise.model import overlap
from sumwise.model.basis import Basis, Scaled
from sumwise.model.nonlinear import Nonlinear
from sumwise.util.files import let_go
from sumwise.util.parted import Parted, Rows
from sumwise.util.shapes import Float, Int

MANY = 2**10  # rows that are copied at once
BLOCK_NUMBERS = 2**16  # features held at once: half a MB, which stays in a core's own cache
CHUNK = 2**15  # individuals in one call of the compiled kernel
COMPILED_ROWS = 2**11  # of them where it gives the features of each: 6 MB of these
COMPILED_FROM = 2**25  # features; below this, loading numba costs more than it saves
AGAIN_FROM = 2**23  # the same where features are needed again after every answer


def freeze(*arrays: np.ndarray | Parted) -> None:
    """Make arrays read-only: the model shares them with strategies and users."""
    for array in arrays:
        if isinstance(array, np.ndarray):  # rows in several places cannot be written to
            array.setflags(write=False)


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """What the model needs of each set."""

    u: Rows  # of every set; an array, or a `Parted`
    noise_scale: Float[np.ndarray, " A"]  # s_a
    theta_sum: Float[np.ndarray, " A"]
    effect: Float[np.ndarray, " A"] | None = None  # where sets overlap; see `effect_scale`
    left: Float[np.ndarray, " A"] | None = None  # share of its noise that is not known yet
    squares: Float[np.ndarray, " A"] | None = None  # ‖θ_a‖², where s_a has known noise in it
    nonlinear: Nonlinear | None = None  # of totals of counts, shares and amounts

    def __post_init__(self) -> None:
        freeze(self.u, self.noise_scale, self.theta_sum)

    @property
    def own_scale(self) -> Float[np.ndarray, " A"]:
        """‖θ_a‖²: the part of s_a that is noise of individuals."""
        return self.noise_scale if self.squares is None else self.squares

    @property
    def size(self) -> Float[np.ndarray, " A"]:
        """|Σθ|, by which a total's error is one per individual; ‖θ_a‖ where weights cancel."""
        if self.nonlinear is not None:
            return self.theta_sum  # exposures, which do not cancel
        return np.maximum(abs(self.theta_sum), np.sqrt(self.own_scale))

    @property
    def effect_scale(self) -> Float[np.ndarray, " A"]:
        """(Σθ)² over the individuals of each effect in the set, added up over effects."""
        return self.theta_sum**2 if self.effect is None else self.effect

    @property
    def n_basis(self) -> int:
        return self.u.shape[1]

    def __len__(self) -> int:
        return len(self.u)

    def part(self, index: Any) -> Design:
        """The same as `rows`, of which bounds are made: their u may stay rounded."""
        return self.rows(index)

    def rows(self, index: Any) -> Design:
        """The design of some sets: any NumPy index."""
        effect, left, squares = (
            None if v is None else v[index] for v in (self.effect, self.left, self.squares)
        )
        own = _gathered(self.u, index), self.noise_scale[index], self.theta_sum[index]
        bend = None if self.nonlinear is None else self.nonlinear.rows(index)
        return Design(*own, effect, left, squares, bend)

    def with_known_noise(
        self, noise_std: Float[np.ndarray, " A"], noise_precision: float
    ) -> Design:
        """The same sets with noise scale s_a + β r_a², where r_a is the known noise of a total."""
        noisy = self.noise_scale + noise_precision * noise_std**2
        return replace(self, noise_scale=noisy, squares=self.own_scale)


def _gathered(u: Rows, index: Any) -> np.ndarray:
    """Some rows; where they are many and lie all over a mapped file, its pages are let go of."""
    if isinstance(index, slice) or len(at := np.asarray(index)) <= MANY:
        return u[index]
    at = np.flatnonzero(at) if at.dtype == bool else at
    out = np.empty((len(at), u.shape[1]), u.dtype)
    for low in range(0, len(at), MANY):
        out[low : low + MANY] = u[at[low : low + MANY]]
        let_go(u)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Parts of a pool on shared storage, and what runs a function on them; see `model.spread`."""

    starts: Int[np.ndarray, " p1"]  # position of the first set of each part, and of the end
    source: Callable[[int, int], Pool]  # opens the sets between two positions, on any machine
    run: Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]  # results in any order


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Sets that may be asked for, as a strategy sees them."""

    sets: Sets
    basis: Scaled
    design: Design
    signal: Float[np.ndarray, " A"] | None = None  # u_aᵀ S u_a, if it is up to date
    moment: Float[np.ndarray, "K K"] | None = None  # mean of φ φᵀ over individuals, if known
    targets: Targets | None = None  # whose predictions count; all individuals if None
    square: Float[np.ndarray, " A"] | None = None  # ‖u_a‖², if known
    explained: Float[np.ndarray, "A t"] | None = None  # noise of overlapping sets that is known
    phi: Float[np.ndarray, "N K"] | None = None  # φ, where it is needed again and not large
    spread: Spread | None = None  # where work on all sets is done in parts, perhaps elsewhere


def embed(
    sets: Sets, basis: Scaled, *, compiled: bool | None = None, numba_anyway: bool = False
) -> Design:
    """u_a, s_a and Σθ of every set.

    Args:
        compiled: Use the numba kernel where it applies. By default when numba is installed and
            there is enough to do; the numbers agree to rounding.
        numba_anyway: Loading numba costs nothing here, because what follows needs it too.
    """
    if not len(sets):
        n_basis = features(basis, np.zeros((1, sets.n_inputs))).shape[1]
        return Design(np.empty((0, n_basis)), np.empty(0), np.empty(0))
    if compiled is None:
        compiled = worth_compiling(len(sets.x), basis, numba_anyway)
    u = _embed_compiled(sets, basis) if compiled else None
    if u is None:
        u = sum_features(sets.x, sets.theta, sets.starts, basis)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(u.sum())  # a mask of `u` would be an eighth of it
    for a, row in enumerate(() if finite else u):
        if not np.isfinite(row).all():
            raise SettingError(
                f"the basis gives a feature that is not finite in set {sets.ids[a]!r}. "
                "Rescale the inputs (standardize=True does) or choose another basis."
            )
    first = sets.starts[:-1]
    theta_sum = np.add.reduceat(sets.theta, first)
    if sets.members is not None:
        noise_scale, effect = overlap.scales(sets)
        return Design(u, noise_scale, theta_sum, effect)
    return Design(u, np.add.reduceat(sets.theta**2, first), theta_sum)


def features(
    basis: Basis, x: Float[np.ndarray, "N D"], n_basis: int | None = None
) -> Float[np.ndarray, "N K"]:
    """φ of every row, checked: a user's basis may return anything.

    Args:
        n_basis: How many features there must be, where that is known.
    """
    try:
        with np.errstate(all="ignore"):  # callers refuse sums that overflow
            phi = np.asarray(basis(x))
    except (TypeError, ValueError) as error:
        raise SettingError(f"the basis fails on inputs of shape {x.shape}: {error}") from error
    right = phi.ndim == 2 and len(phi) == len(x) and 0 < phi.shape[1] == (n_basis or phi.shape[1])
    if not right or phi.dtype.kind not in "biuf":
        raise SettingError(
            f"the basis gave {phi.dtype} of shape {phi.shape} for {len(x)} rows; it must give "
            f"numbers of shape ({len(x)}, {n_basis or 'K'}), the same K always"
        )
    return phi.astype(np.float64, copy=False)


def blocks(x: Float[np.ndarray, "N D"], basis: Basis) -> Iterator[tuple[int, int]]:
    """Row ranges whose features fit the block size."""
    if not len(x):
        return iter(())
    n_basis = features(basis, x[:1]).shape[1]
    step = max(1, BLOCK_NUMBERS // n_basis)
    return ((i, min(i + step, len(x))) for i in range(0, len(x), step))


def feature_blocks(
    x: Float[np.ndarray, "N D"], basis: Scaled, compiled: bool | None = None
) -> Iterator[tuple[int, int, Float[np.ndarray, "n K"]]]:
    """Row ranges and their features, which are needed again after every answer.

    Args:
        compiled: As in `embed`.
    """
    if compiled is None:
        compiled = worth_compiling(len(x), basis, again=True)
    ranges = blocks(x, basis)
    if compiled:
        from sumwise.model import kernels

        ranges = ((i, min(i + COMPILED_ROWS, len(x))) for i in range(0, len(x), COMPILED_ROWS))
    for low, high in ranges:
        rows, phi = np.asarray(x[low:high], dtype=np.float64), None
        if compiled:
            each = np.ones(len(rows)), np.arange(len(rows) + 1)
            phi = kernels.sum_runs(rows.T, *each, basis, rows.dtype)
        yield low, high, features(basis, rows) if phi is None else phi


def all_features(
    x: Float[np.ndarray, "N D"], basis: Scaled, n_basis: int
) -> Float[np.ndarray, "N K"]:
    """φ of all rows, some at a time."""
    phi = np.empty((len(x), n_basis))
    for low, high, some in feature_blocks(x, basis):
        phi[low:high] = some
    return phi


def sum_by_set(
    starts: Int[np.ndarray, " A1"], low: int, high: int, rows: Float[np.ndarray, "n ..."]
) -> tuple[slice, Float[np.ndarray, "a ..."]]:
    """Which sets rows `low:high` belong to, and the sums of these rows over each."""
    a = int(np.searchsorted(starts, low, side="right")) - 1
    b = int(np.searchsorted(starts, high, side="left"))
    return slice(a, b), np.add.reduceat(rows, np.maximum(starts[a:b], low) - low)


def add_products(
    x: Float[np.ndarray, "N D"], basis: Basis, products: Float[np.ndarray, "K K"]
) -> None:
    """Add φ φᵀ of every individual to `products`."""
    for low, high in blocks(x, basis):
        phi = features(basis, x[low:high], len(products))
        products += phi.T @ phi


def sum_features(
    x: Float[np.ndarray, "N D"],
    theta: Float[np.ndarray, " N"],
    starts: Int[np.ndarray, " A1"],
    basis: Basis,
) -> Float[np.ndarray, "A K"]:
    """u of every run of rows `starts[a]:starts[a + 1]`, block by block; see `embed`."""
    u: Float[np.ndarray, "A K"] | None = None
    for low, high in blocks(x, basis):
        rows = np.asarray(x[low:high], dtype=np.float64)
        phi = features(basis, rows, None if u is None else u.shape[1])
        if u is None:
            u = np.zeros((len(starts) - 1, phi.shape[1]))
        with np.errstate(all="ignore"):
            where, sums = sum_by_set(starts, low, high, theta[low:high, None] * phi)
            u[where] += sums
    assert u is not None  # there is at least one row
    return u


def worth_compiling(
    n_individuals: int, basis: Scaled, numba_anyway: bool = False, *, again: bool = False
) -> bool:
    """Whether `kernels.sum_runs` applies to the basis and saves time, loading numba included.

    Args:
        again: Features are needed again after every answer.
    """
    least = AGAIN_FROM if again else COMPILED_FROM
    return (
        bool(basis.waves)
        and (numba_anyway or n_individuals * (basis.waves[-1].stop + 1) >= least)
        and find_spec("numba") is not None
    )


def some_sets(starts: Int[np.ndarray, " A1"], rows: int) -> Iterator[tuple[int, int]]:
    """Ranges of sets that have so many rows together, or of one that has more."""
    low = 0
    while low < len(starts) - 1:
        high = int(np.searchsorted(starts, starts[low] + rows, side="right")) - 1
        yield low, (low := max(low + 1, high))


def _embed_compiled(sets: Sets, basis: Scaled) -> Float[np.ndarray, "A K"] | None:
    """By the compiled kernel, some sets at a time; None where inputs are too far out for it."""
    from sumwise.model import kernels

    u = np.empty((len(sets), basis.waves[-1].stop + 1))
    for first, last in some_sets(sets.starts, CHUNK):
        begin, end = sets.starts[first], sets.starts[last]
        part = sets.x[begin:end].T, sets.theta[begin:end], sets.starts[first : last + 1] - begin
        sums = kernels.sum_runs(*part, basis, u.dtype)
        if sums is None:
            return None
        u[first:last] = sums
    return u
