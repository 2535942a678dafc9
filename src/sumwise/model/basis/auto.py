"""Features of several kinds side by side; the totals decide which of them are needed.

    range:   z = 2 (x − middle) / half width of x          as they are, far points far away
    squash:  z = 2 tanh(x/2), standardised                 far points drawn in

each give a linear part z and waves √(2/W) cos(c − B z / (e √D)) of three length-scales e; a bias
comes last. A candidate model is one input scaling with one length-scale and one share of the
linear part (`CANDIDATES`). Every part is normalised to a mean power of 1 over individuals, so a
candidate is a list of prior variances, one per part (`VARIANCES`), and all have the same sum.

`sumwise.model.averaging` computes the probability of each candidate; features never change, so
nothing is embedded twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from sumwise.data.targets import Inputs
from sumwise.model.basis.fixed import RandomFourierFeatures, Waves
from sumwise.util.shapes import Float

SCALINGS: Final = ("range", "squash")
LENGTHSCALES: Final = (0.5, 1.0, 2.0)  # times √D
LINEAR_SHARES: Final = (0.0, 0.5, 0.9, 1.0)
FARTHEST: Final = 4.0  # half a range beyond all individuals, from where on nothing changes
BIAS: Final = 1.0  # prior variance of the level, beside 1 for all that varies
PARTS: Final = (
    *((scaling, None) for scaling in SCALINGS),  # linear
    *((scaling, length) for scaling in SCALINGS for length in LENGTHSCALES),  # waves
    ("bias", None),
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model among those that totals choose from."""

    scaling: str
    linear: float  # share of prior variance that is linear
    lengthscale: float | None  # of the rest, in √D; None if there is no rest

    @property
    def variances(self) -> list[float]:
        """Prior variance of each of `PARTS`."""
        waves = {(self.scaling, self.lengthscale): 1 - self.linear} if self.linear < 1 else {}
        own = {(self.scaling, None): self.linear, ("bias", None): BIAS, **waves}
        return [own.get(part, 0.0) for part in PARTS]


CANDIDATES: Final = tuple(
    Candidate(scaling, linear, length)
    for scaling in SCALINGS
    for linear in LINEAR_SHARES
    for length in (LENGTHSCALES if linear < 1 else (None,))
)


VARIANCES: Final[Float[np.ndarray, "C P"]] = np.array([c.variances for c in CANDIDATES])
VARIANCES.setflags(write=False)
POWER: Final = 1 + BIAS  # mean of ‖φ‖² under any candidate


@dataclass(frozen=True, slots=True, eq=False)
class Auto:
    """All parts as one basis, of inputs that are standardised; see the module."""

    frequencies: Float[np.ndarray, "W D"]  # B
    phases: Float[np.ndarray, " W"]
    shift: Float[np.ndarray, "2 D"]  # of each scaling, after 2 tanh(x/2) for `squash`
    scale: Float[np.ndarray, "2 D"]
    centre: Float[np.ndarray, "2 D"]  # mean of each scaling, which linear parts leave out
    size: Float[np.ndarray, " P"]  # root mean power of each part before it is normalised
    averages = True

    @classmethod
    def draw(
        cls, inputs: Inputs, n_basis: int, lengthscale: float, rng: np.random.Generator
    ) -> Auto:
        """For inputs like these, which it will see as (x − shift) / scale.

        Args:
            n_basis: Twice the number of waves of each length-scale.
            lengthscale: What all of `LENGTHSCALES` are multiplied by.
        """
        n_inputs = len(inputs.shift)
        drawn = RandomFourierFeatures.draw(n_basis, n_inputs, lengthscale, rng)  # which checks them
        if n_basis < 3:  # too few waves to halve
            drawn = RandomFourierFeatures.draw(3, n_inputs, lengthscale, rng)
        n_waves = (len(drawn.phases) + 1) // 2
        some, low, high = (
            (x - inputs.shift) / inputs.scale for x in (inputs.subsample, inputs.low, inputs.high)
        )
        squashed = 2 * np.tanh(some / 2)
        widths = np.stack([(high - low) / 4, squashed.std(axis=0)])
        plain = cls(
            drawn.frequencies[:n_waves],
            drawn.phases[:n_waves],
            np.stack([(low + high) / 2, squashed.mean(axis=0)]),
            np.where(widths > [[0.0], [1e-12]], widths, 1.0),  # 1 for inputs that do not vary
            np.zeros((2, n_inputs)),
            np.ones(len(PARTS)),
        )
        centred = replace(plain, centre=np.stack([z.mean(axis=0) for z in plain.scaled(some)]))
        power = (centred(some) ** 2).mean(axis=0)
        parts = np.array([power[at].sum() for at in centred.columns])
        return replace(centred, size=np.sqrt(np.where(parts > 0, parts, 1.0)))

    @property
    def columns(self) -> list[slice]:
        """Where the features of each part are."""
        n_waves, n_inputs = self.frequencies.shape
        widths = [n_inputs] * 2 + [n_waves] * (len(PARTS) - 3) + [1]
        ends = np.cumsum([0, *widths]).tolist()
        return [slice(low, high) for low, high in pairwise(ends)]

    def amplitude(
        self, variances: Float[np.ndarray, " P"], relevance: Float[np.ndarray, " D"]
    ) -> Float[np.ndarray, " K"]:
        """Prior standard deviation of every coefficient, from the variance of every part.

        Args:
            relevance: What the variances of linear parts are multiplied by, input by input.
        """
        each = np.repeat(variances, [at.stop - at.start for at in self.columns])
        each[: len(SCALINGS) * len(relevance)] *= np.tile(relevance, len(SCALINGS))
        return np.sqrt(each)

    def scaled(self, x: Float[np.ndarray, "N D"]) -> list[Float[np.ndarray, "N D"]]:
        """The inputs in each of `SCALINGS`."""
        ranged = (x - self.shift[0]) / self.scale[0]
        squashed = (2 * np.tanh(x / 2) - self.shift[1]) / self.scale[1]
        return [np.clip(ranged, -FARTHEST, FARTHEST), squashed]

    def __call__(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N K"]:
        columns, both = self.columns, self.scaled(x)
        out = np.empty((len(x), columns[-1].stop))
        far, amplitude = math.sqrt(x.shape[1]), math.sqrt(2 / len(self.phases))
        waves = iter(range(2, len(PARTS) - 1))
        for i, z in enumerate(both):
            out[:, columns[i]] = (z - self.centre[i]) / self.size[i]
            angles = z @ self.frequencies.T
            for length in LENGTHSCALES:
                part = next(waves)
                wave = np.cos(self.phases - angles / (length * far))
                out[:, columns[part]] = wave * (amplitude / self.size[part])
        out[:, -1] = 1.0
        return out

    @property
    def waves(self) -> tuple[Waves, ...]:
        """The three length-scales of each scaling together, with its linear part."""
        n_waves, n_inputs = self.frequencies.shape
        count, far = len(LENGTHSCALES), math.sqrt(n_inputs)
        turns = np.concatenate([self.frequencies / (length * far) for length in LENGTHSCALES])
        sizes = self.size[2 : 2 + 2 * count].reshape(2, count)
        return tuple(
            Waves(
                2 * n_inputs + i * count * n_waves,
                turns,
                np.tile(self.phases, count),
                np.repeat(math.sqrt(2 / n_waves) / own, n_waves),
                (self.columns[i], self.centre[i], self.size[i]),
            )
            for i, own in enumerate(sizes)
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """What was drawn, by the names it is stored under."""
        return {f"auto_{name}": getattr(self, name) for name in self.__slots__}

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> Auto:
        return Auto(**{name: arrays[f"auto_{name}"] for name in self.__slots__})
