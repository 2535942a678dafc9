"""Waves of a position alone: of the pair of inputs that says where an individual is.

    degrees  p = (cos lat cos lon, cos lat sin lon, sin lat), a point of the unit sphere
    plane    p = (x, y) as it is
    z = (p − centre) / extent,    cos ωᵀz/e and sin ωᵀz/e for each length-scale e

The extent is √6 times the root mean square distance from the centre: the side of a square that is
evenly filled. So nothing depends on the unit of a plane or on where longitudes begin, and distances
on the sphere are chords. The covariance is exp(−d²/2e²): ω is normal, Φ⁻¹ of the points
frac(½ + k g^−j) with g^(P+1) = g + 1, which fill the unit cube more evenly than draws do.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sumwise.data.targets import Inputs
from sumwise.errors import SettingError
from sumwise.util.shapes import Float, Int

LENGTHS: Final = np.array([1.0, 0.3, 0.1, 0.03])  # e, in extents
WAVES: Final = (1 / 8, 1 / 4, 1 / 2, 1)  # W of each, over `n_basis`
FARTHEST: Final = 2.0  # extents from the centre, from where on nothing changes
EVEN: Final = {2: 1.324717957244746, 3: 1.2207440846057596}  # g
EARTH: Final = 6371.0  # km, its radius
PAIRS: Final = (("longitude", "latitude"), ("lon", "lat"), ("lng", "lat"), ("easting", "northing"))
RANGE: Final = ([-180.0, -90.0], [360.0, 90.0])  # of longitude and latitude
PREFIX: Final = "spatial_"  # of the names that arrays are stored under
Position = tuple[Any, bool]  # numbers of two inputs, and whether they are degrees


def find(wanted: Any, names: Sequence[Hashable] | None, inputs: Inputs) -> Position | None:
    """Which two inputs are a position, longitude first; None if there is none.

    Args:
        wanted: Their names; `"auto"` for those whose names and values leave no doubt.
        names: Of all inputs.
    """
    known, given = [*(names or range(len(inputs.low)))], wanted != "auto"
    if not given:
        known = [str(name).lower() for name in known]
        wanted = next((pair for pair in PAIRS if all(known.count(n) == 1 for n in pair)), None)
    if wanted is None:
        return None
    for name in [each for each in wanted if each not in known]:
        raise SettingError(
            f"spatial names {name!r:.80}, which is none of the inputs {known!r:.500}; name two "
            "that are numbers"
        )
    starts = [str(name).lower()[:3] for name in wanted]
    called = {*starts} in ({"lon", "lat"}, {"lng", "lat"})
    wanted = wanted[::-1] if called and starts[0] == "lat" else wanted
    pair = np.array([known.index(name) for name in wanted])
    low, high = inputs.low[pair], inputs.high[pair]
    degrees = called and bool(((low >= RANGE[0]) & (high <= RANGE[1])).all())
    return (pair, degrees) if (degrees or given or not called) and (low < high).any() else None


@dataclass(frozen=True, slots=True, eq=False)
class Spatial:
    """The waves, of inputs that are standardised; see the module."""

    pair: Int[np.ndarray, " 2"]
    shift: Float[np.ndarray, " 2"]  # of the pair: what it was standardised with
    scale: Float[np.ndarray, " 2"]
    centre: Float[np.ndarray, " P"]  # P is 3 on the sphere and 2 in a plane
    extent: Float[np.ndarray, " 1"]
    lengths: Float[np.ndarray, "2 L"]  # e of each length-scale, and how many waves have it
    frequencies: Float[np.ndarray, "W P"]  # ω/e
    phases: Float[np.ndarray, " W"]
    amplitude: Float[np.ndarray, " W"]  # by which each length-scale has a mean power of 1
    means: Float[np.ndarray, " W"]  # of the waves, which are centred

    @classmethod
    def draw(cls, position: Position, inputs: Inputs, n_basis: int, unit: float) -> Spatial:
        """For inputs like these, with all length-scales multiplied by `unit`."""
        from scipy.special import ndtri

        pair, degrees = position
        p = points(inputs.subsample[:, pair], degrees)
        centre, axes = p.mean(axis=0), p.shape[1]
        extent = np.sqrt(6 * ((p - centre) ** 2).sum(axis=1).mean(keepdims=True))
        extent = np.where(extent > 0, extent, 1.0)
        half, lengths = [math.ceil(n_basis * part / 2) for part in WAVES], unit * LENGTHS
        k, counts = np.arange(1, max(half) + 1)[:, None], 2 * np.array(half)
        omega = ndtri(np.modf(0.5 + k * EVEN[axes] ** -np.arange(1.0, axes + 1))[0])
        each = [np.tile(omega[:n] / e, (2, 1)) for e, n in zip(lengths, half, strict=True)]
        frequencies = np.concatenate(each)
        phases = np.concatenate([np.repeat([0.0, math.pi / 2], n) for n in half])
        cosines = np.cos(phases - (p - centre) / extent @ frequencies.T)
        power = np.add.reduceat(cosines.var(axis=0), np.cumsum(counts) - counts)
        amplitude = np.repeat(1 / np.sqrt(np.where(power > 0, power, 1.0)), counts)
        waves = frequencies, phases, amplitude, amplitude * cosines.mean(axis=0)
        about = inputs.shift[pair], inputs.scale[pair], centre, extent, np.stack([lengths, counts])
        return cls(pair, *about, *waves)

    def scaled(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N P"]:
        """z of standardised inputs."""
        p = points(x[:, self.pair] * self.scale + self.shift, len(self.centre) == 3)
        return np.clip((p - self.centre) / self.extent, -FARTHEST, FARTHEST)


def points(own: Float[np.ndarray, "N 2"], degrees: bool) -> Float[np.ndarray, "N P"]:
    """p of pairs in the user's units."""
    if not degrees:
        return own.astype(np.float64)
    lon, lat = np.radians(own.T.astype(np.float64))
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
