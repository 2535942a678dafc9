"""Features of several kinds side by side; the totals decide which of them are needed.

    range:   z = 2 (x − middle) / half width of x          as they are, far points far away
    squash:  z = 2 tanh(x/2), standardised                 far points drawn in

each give a linear part z and waves √(2/W) cos(c − B z / (e √D)) of three length-scales e; a bias
comes last. A hypothesis is a model of an individual's output as a share of its variance: a prior
variance for each group of features (a group is one input of a linear part, or the waves of one
length-scale), the share that is noise, and how much of the noise the members of a set have in
common (`Hypotheses`). `sumwise.model.mixture` weighs the hypotheses by the totals; features never
change, so nothing is embedded twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from sumwise.data.targets import Inputs
from sumwise.model.basis.fixed import RandomFourierFeatures, Waves
from sumwise.util.shapes import Float

SCALINGS: Final = ("range", "squash")
LENGTHSCALES: Final = (0.5, 1.0, 2.0)  # times √D
LINEAR_SHARES: Final = (0.0, 0.5, 0.9, 1.0)
FARTHEST: Final = 4.0  # half a range beyond all individuals, from where on nothing changes
BIAS: Final = 1.0  # prior variance of the level, in units of an individual's variance
N_HYPOTHESES: Final = 400
NOISE: Final = (2.0, 1.0)  # Beta prior of the share of an individual's variance that is noise
PRECISE: Final = (0.3, 0.3)  # probability that noise is small instead: log-uniform up to this share
LEAST: Final = 1e-3  # of that share, and of signal where there is any
NO_SIGNAL: Final = 0.05  # prior probability that the inputs say nothing
NO_CORRELATION: Final = 0.1  # prior probability that sets have no effect of their own
CORRELATION: Final = (1.0, 6.0)  # otherwise, Beta prior of the intra-class correlation of noise
ALIKE: Final = 0.2  # prior probability that all inputs of a linear part matter alike
RELEVANCE: Final = 0.3  # otherwise, parameter of the Dirichlet prior of their shares
PARTS: Final = (
    *((scaling, None) for scaling in SCALINGS),  # linear
    *((scaling, length) for scaling in SCALINGS for length in LENGTHSCALES),  # waves
    ("bias", None),
)
OF_HYPOTHESES: Final = frozenset(  # names of arrays that former versions did not store
    f"auto_{name}" for name in ("variances", "noise", "correlation", "power")
)


@dataclass(frozen=True, slots=True, eq=False)
class Hypotheses:
    """Models of an individual's output, in units of its variance, equally likely before answers."""

    variances: Float[np.ndarray, "H G"]  # prior variance of the coefficients of each group
    noise: Float[np.ndarray, " H"]  # share of the variance that is noise
    correlation: Float[np.ndarray, " H"]  # ρ: what part of the noise the members of a set share
    power: Float[np.ndarray, "2 D"]  # mean square of each input's linear feature, by scaling

    @classmethod
    def draw(
        cls,
        power: Float[np.ndarray, "2 D"],
        rng: np.random.Generator,
    ) -> Hypotheses:
        """From the prior that the constants of this module describe.

        Args:
            power: Mean square of each input's linear feature, by scaling.
        """
        n_inputs, n_waves = power.shape[1], len(LENGTHSCALES)
        scaling = rng.integers(len(SCALINGS), size=N_HYPOTHESES)
        linear = rng.choice(LINEAR_SHARES, N_HYPOTHESES)
        length = rng.integers(n_waves, size=N_HYPOTHESES)
        relevance = rng.standard_gamma(RELEVANCE, (N_HYPOTHESES, n_inputs)) + 1e-9
        relevance[rng.random(N_HYPOTHESES) < ALIKE] = 1.0
        noise = np.clip(rng.beta(*NOISE, N_HYPOTHESES), LEAST, 1 - LEAST)
        small = PRECISE[1] * np.exp(rng.uniform(math.log(LEAST), 0.0, N_HYPOTHESES))
        noise = np.where(rng.random(N_HYPOTHESES) < PRECISE[0], small, noise)
        noise[rng.random(N_HYPOTHESES) < NO_SIGNAL] = 1.0
        correlation = rng.beta(*CORRELATION, N_HYPOTHESES)
        correlation[rng.random(N_HYPOTHESES) < NO_CORRELATION] = 0.0
        varies = power[scaling] > 0
        relevance = np.where(varies, relevance, 0.0)
        relevance /= np.maximum(relevance.sum(axis=1, keepdims=True), 1e-300)
        variances = np.zeros((N_HYPOTHESES, 2 * n_inputs + 2 * n_waves + 1))
        rows = np.arange(N_HYPOTHESES)[:, None]
        own = scaling[:, None] * n_inputs + np.arange(n_inputs)
        variances[rows, own] = linear[:, None] * relevance / np.where(varies, power[scaling], 1.0)
        variances[rows[:, 0], 2 * n_inputs + scaling * n_waves + length] = 1 - linear
        variances *= (1 - noise)[:, None]
        variances[:, -1] = BIAS
        return cls(variances, noise, correlation, power)

    def take(self, which: Any) -> Hypotheses:
        """Some of them."""
        return replace(
            self,
            variances=self.variances[which],
            noise=self.noise[which],
            correlation=self.correlation[which],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Auto:
    """All parts as one basis, of inputs that are standardised; see the module."""

    frequencies: Float[np.ndarray, "W D"]  # B
    phases: Float[np.ndarray, " W"]
    shift: Float[np.ndarray, "2 D"]  # of each scaling, after 2 tanh(x/2) for `squash`
    scale: Float[np.ndarray, "2 D"]
    centre: Float[np.ndarray, "2 D"]  # mean of each scaling, which linear parts leave out
    size: Float[np.ndarray, " P"]  # root mean power of each part before it is normalised
    variances: Float[np.ndarray, "H G"]  # as in `Hypotheses`
    noise: Float[np.ndarray, " H"]
    correlation: Float[np.ndarray, " H"]
    power: Float[np.ndarray, "2 D"]
    averages = True

    @classmethod
    def draw(
        cls,
        inputs: Inputs,
        n_basis: int,
        lengthscale: float,
        rng: np.random.Generator,
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
            *(np.empty(0),) * 4,
        )
        centred = replace(plain, centre=np.stack([z.mean(axis=0) for z in plain.scaled(some)]))
        power = (centred(some) ** 2).mean(axis=0)
        parts = np.array([power[at].sum() for at in centred.columns])
        size = np.sqrt(np.where(parts > 0, parts, 1.0))
        linear = power[: 2 * n_inputs].reshape(2, n_inputs) / size[:2, None] ** 2
        return replace(centred, size=size).with_hypotheses(Hypotheses.draw(linear, rng))

    def with_hypotheses(self, drawn: Hypotheses) -> Auto:
        own = {name: getattr(drawn, name) for name in Hypotheses.__slots__}
        return replace(self, **own)

    @property
    def hypotheses(self) -> Hypotheses:
        return Hypotheses(self.variances, self.noise, self.correlation, self.power)

    @property
    def groups(self) -> list[slice]:
        """Where the features of each group are: one for each linear input, then as `columns`."""
        n_linear = 2 * self.frequencies.shape[1]
        return [*(slice(k, k + 1) for k in range(n_linear)), *self.columns[2:]]

    @property
    def columns(self) -> list[slice]:
        """Where the features of each part are."""
        n_waves, n_inputs = self.frequencies.shape
        widths = [n_inputs] * 2 + [n_waves] * (len(PARTS) - 3) + [1]
        ends = np.cumsum([0, *widths]).tolist()
        return [slice(low, high) for low, high in pairwise(ends)]

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
        """The basis with these arrays; those of former versions have no hypotheses.

        Such a basis gets them from a seed of their own. Each input has the power it has in `draw`:
        standardised inputs that are divided by `scale` have the mean square 1/scale², squashed
        ones 1, and those that do not vary (their scale is 1) none.
        """
        former = arrays.keys().isdisjoint(OF_HYPOTHESES)
        names = {f"auto_{name}": name for name in self.__slots__}
        wanted = names.keys() - OF_HYPOTHESES if former else names.keys()
        basis = replace(self, **{names[key]: arrays[key] for key in wanted})
        if not former:
            return basis
        varies = basis.scale[1] != 1.0
        power = np.stack([varies / basis.scale[0] ** 2, varies])
        power /= np.maximum(power.sum(axis=1, keepdims=True), 1e-300)
        return basis.with_hypotheses(Hypotheses.draw(power, np.random.default_rng([0, 3])))
