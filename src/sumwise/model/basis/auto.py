"""Features of several kinds side by side; the totals decide which of them are needed.

    range:   z = 2 (x − middle) / half width of x          as they are, far points far away
    squash:  z = 2 tanh(x/2), standardised                 far points drawn in

each give three kinds of features, and a bias comes last:

    linear   z_d of every input
    waves    √(2/W) cos(c − B z / (e √D)), of all inputs together, for three length-scales e,
             or four of one or two inputs, which can be learned in more detail
    curves   of every input alone: a_m sin(ω_m (z_d + L)), m = 1 … M

The curves are a Gaussian process of one input on [−L, L] by its first eigenfunctions, ω_m = πm/2L
and a_m = exp(−(ℓ ω_m)²/4) (Solin and Särkkä 2020). Features other than the bias are centred, so the
bias alone carries the level. Where two inputs are a position, there are waves of it alone as well
(`spatial`), before the bias.

A hypothesis is a model of an individual's output as a share of its variance: a prior variance for
each group of features (one input of a linear part, the curve of one input, or the waves of one
length-scale), the share that is noise, and how much of the noise the members of a set have in
common (`Hypotheses`). `sumwise.model.mixture_weights` weighs the hypotheses by the totals; features
never change, so nothing is embedded twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from sumwise.data.targets import Inputs
from sumwise.model.basis import spatial
from sumwise.model.basis.fixed import RandomFourierFeatures, Waves
from sumwise.model.basis.spatial import PREFIX, Position, Spatial
from sumwise.util.shapes import Float, Int

SCALINGS: Final = ("range", "squash")
LENGTHSCALES: Final = (0.5, 1.0, 2.0)  # of waves, times √D
OF_FEW_INPUTS: Final = (0.25, 0.5, 1.0, 2.0)  # the same where short ones can be learned
FEW_INPUTS: Final = 2
FARTHEST: Final = 4.0  # half a range beyond all individuals, from where on nothing changes
BOUNDARY: Final = 5.0  # L; squashed inputs beyond it are rare, and see a mirrored curve
CURVE_LENGTHSCALE: Final = 1.5  # ℓ of the curve of one input
CURVE: Final = 5  # M; the next function would have a seventh of the first one's amplitude
VANISHING: Final = 1e-20  # mean power of a part that is rounding
RARE: Final = 0.5  # of the variance of an input: where a sample has less, it has missed the rest
FEWEST: Final = 3  # functions that make a curve; with room for fewer, there is none
OF_PLACE: Final = (1.0, 0.8, 0.4)  # shares of the signal that waves of a position can have
BIAS: Final = 1.0  # prior variance of the level, in units of an individual's variance
N_HYPOTHESES: Final = 400
MADE_OF: Final = (  # shares of the signal that are linear, curves of single inputs, waves
    (1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0),
    (0.5, 0.5, 0.0),
    (0.5, 0.0, 0.5),
    (0.9, 0.1, 0.0),
    (0.9, 0.0, 0.1),
)
RELEVANCE: Final = (0.3, 1.0, math.inf)  # parameter of the Dirichlet prior of inputs' shares
NOISE: Final = (2.0, 1.0)  # Beta prior of the share of an individual's variance that is noise
PRECISE: Final = (0.2, 0.3)  # probability that noise is small instead: log-uniform up to this share
LEAST: Final = 1e-3  # of that share, and of signal where there is any
NO_SIGNAL: Final = 0.05  # prior probability that the inputs say nothing
# intra-class correlation of noise: prior probability that it is 0, and otherwise its Beta prior
CLUSTERS: Final = (0.1, (1.0, 8.0))  # groups as they are: pupils in schools, houses in towns
PANELS: Final = (0.02, (3.0, 2.0))  # the same unit again and again: years of one state
DRAWN: Final = (0.7, (1.0, 8.0))  # individuals at random: pooled samples
ALIKE: Final = (0.05, 0.15)  # of inputs: below, sets are drawn; above, equal sets are panels
OF_HYPOTHESES: Final = frozenset(  # names of arrays that former versions did not store
    f"auto_{name}" for name in ("variances", "noise", "correlation", "power")
)
OF_CURVES: Final = frozenset(f"auto_{name}" for name in ("curve", "means"))  # likewise, later
OF_LENGTHS: Final = frozenset({"auto_lengths", "auto_bent"})  # likewise, last


def prior_correlation(
    sizes: Int[np.ndarray, " A"], inputs: Inputs
) -> tuple[float, tuple[float, float]]:
    """The prior of the intra-class correlation of noise for sets like these.

    A few dozen totals hardly tell the noise of individuals from effects of sets; those of sets of
    one size cannot tell them apart at all. So the prior counts, and sets show of which kind they
    are. Inputs of individuals that were drawn at random are no more alike within sets than
    between. Sets of one size whose inputs are alike are repeated observations of the same units,
    which have far more in common than pupils of one school.
    """
    varies = inputs.high > inputs.low
    alike = float(inputs.alike[varies].mean()) if varies.any() else 0.0
    if alike < ALIKE[0]:
        return DRAWN
    equal = len(sizes) > 1 and bool((sizes == sizes[0]).all())
    return PANELS if equal and alike > ALIKE[1] else CLUSTERS


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
        *,
        n_lengths: int = len(LENGTHSCALES),
        bent: Int[np.ndarray, " C"] | None = None,
        source: Int[np.ndarray, " D"] | None = None,
        correlation: tuple[float, tuple[float, float]] = CLUSTERS,
    ) -> Hypotheses:
        """From the prior that the constants of this module describe.

        Args:
            power: Mean square of each input's linear feature, by scaling.
            n_lengths: How many length-scales waves have.
            bent: Inputs that have a curve, if any have.
            source: The user's column that each input comes from; inputs of one column share its
                relevance.
            correlation: Prior of ρ, see `prior_correlation`.
        """
        n_inputs, count = power.shape[1], N_HYPOTHESES
        source = np.arange(n_inputs) if source is None else source
        curves = bent is not None and len(bent) > 0
        scaling = rng.integers(len(SCALINGS), size=count)
        made_of = np.array([shares for shares in MADE_OF if curves or not shares[1]])
        linear, curved, waves = made_of[rng.integers(len(made_of), size=count)].T
        length = rng.integers(n_lengths, size=count)
        parameter = rng.choice(RELEVANCE, count)
        alike = np.isinf(parameter)
        of_column = count, int(source.max(initial=-1)) + 1
        relevance = rng.standard_gamma(np.where(alike, 1.0, parameter)[:, None], of_column)
        relevance = np.where(alike[:, None], 1.0, relevance + 1e-9)[:, source]
        noise = np.clip(rng.beta(*NOISE, count), LEAST, 1 - LEAST)
        small = PRECISE[1] * np.exp(rng.uniform(math.log(LEAST), 0.0, count))
        noise = np.where(rng.random(count) < PRECISE[0], small, noise)
        noise[rng.random(count) < NO_SIGNAL] = 1.0
        none, prior = correlation
        shared = np.where(rng.random(count) < none, 0.0, rng.beta(*prior, count))
        varies = power[scaling] > 0
        relevance = np.where(varies, relevance, 0.0) / np.bincount(source)[source]
        relevance /= np.maximum(relevance.sum(axis=1, keepdims=True), 1e-300)
        lengths = np.eye(n_lengths)[length] * waves[:, None]
        of_scaling = lengths
        if bent is not None and curves:
            own = relevance[:, bent]
            if len(bent) < n_inputs:
                own = own / np.maximum(own.sum(axis=1, keepdims=True), 1e-300)
            of_scaling = np.hstack([lengths, curved[:, None] * own])
        here = np.eye(len(SCALINGS))[scaling][:, :, None]
        slopes = linear[:, None] * relevance / np.where(varies, power[scaling], 1.0)
        signal = [(here * part[:, None, :]).reshape(count, -1) for part in (slopes, of_scaling)]
        variances = np.hstack([*signal, np.full((count, 1), BIAS)])
        variances[:, :-1] *= (1 - noise)[:, None]
        return cls(variances, noise, shared, power)

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
    lengths: Float[np.ndarray, "2 L"]  # e of each length-scale, and how many waves have it
    bent: Int[np.ndarray, " C"]  # inputs that have a curve: not those that stand for text
    shift: Float[np.ndarray, "2 D"]  # of each scaling, after 2 tanh(x/2) for `squash`
    scale: Float[np.ndarray, "2 D"]
    centre: Float[np.ndarray, "2 D"]  # mean of each scaling, which linear parts leave out
    size: Float[np.ndarray, " P"]  # root mean power of each part before it is normalised
    curve: Float[np.ndarray, "2 M"]  # ω and a
    means: Float[np.ndarray, "2 V"]  # of waves and curves of each scaling, before they are scaled
    variances: Float[np.ndarray, "H G"]  # as in `Hypotheses`
    noise: Float[np.ndarray, " H"]
    correlation: Float[np.ndarray, " H"]
    power: Float[np.ndarray, "2 D"]
    spatial: Spatial | None = None
    averages = True

    @classmethod
    def draw(
        cls,
        inputs: Inputs,
        n_basis: int,
        lengthscale: float,
        rng: np.random.Generator,
        correlation: tuple[float, tuple[float, float]] = CLUSTERS,
        position: Position | None = None,
    ) -> Auto:
        """For inputs like these, which it will see as (x − shift) / scale.

        Args:
            n_basis: Twice the number of waves of each length-scale, less what curves take.
            lengthscale: What all length-scales are multiplied by.
            correlation: Prior of ρ, see `prior_correlation`.
            position: From `spatial.find`.
        """
        n_inputs = len(inputs.shift)
        drawn = RandomFourierFeatures.draw(n_basis, n_inputs, lengthscale, rng)  # which checks them
        if n_basis < 3:  # too few waves to halve
            drawn = RandomFourierFeatures.draw(3, n_inputs, lengthscale, rng)
        n_waves = (len(drawn.phases) + 1) // 2
        source = np.arange(n_inputs) if inputs.source is None else inputs.source
        shared = np.bincount(source)
        bent = np.flatnonzero(shared[source] == 1)
        curve = _curve(n_waves, len(bent), float(lengthscale))
        bent = bent[: len(bent) * bool(curve.shape[1])]
        n_waves -= math.ceil(len(bent) * curve.shape[1] / len(LENGTHSCALES))
        lengths = _lengths(n_waves, len(shared))
        # inputs of one column count together as one: D is the number of columns
        closer = np.sqrt(n_inputs / (len(shared) * shared[source]))
        most = int(lengths[1].max())
        some, low, high = (
            (x - inputs.shift) / inputs.scale for x in (inputs.subsample, inputs.low, inputs.high)
        )
        squashed = 2 * np.tanh(some / 2)
        widths = np.stack([(high - low) / 4, squashed.std(axis=0)])
        n_curves = len(bent) * curve.shape[1]
        plain = cls(
            drawn.frequencies[:most] * closer,
            drawn.phases[:most],
            lengths,
            bent,
            np.stack([(low + high) / 2, squashed.mean(axis=0)]),
            np.where(widths > [[0.0], [1e-12]], widths, 1.0),  # 1 for inputs that do not vary
            np.zeros((2, n_inputs)),
            np.ones(3 + 2 * (lengths.shape[1] + len(bent))),
            curve,
            np.zeros((2, int(lengths[1].sum()) + n_curves)),
            *(np.empty(0),) * 4,
        )
        basis, power = plain._normalised(some)
        power = _linear_power(basis, power, (low, high), source)
        about = {"n_lengths": lengths.shape[1], "bent": bent, "source": source}
        known = Hypotheses.draw(power, rng, **about, correlation=correlation)
        place = position and Spatial.draw(position, inputs, int(n_basis), float(lengthscale))
        return basis.with_hypotheses(known).with_spatial(place)

    def _normalised(self, x: Float[np.ndarray, "N D"]) -> tuple[Auto, Float[np.ndarray, "2 D"]]:
        """The basis with centred parts of equal power, and the power of each linear feature."""
        n_inputs, level = x.shape[1], self(x).mean(axis=0)
        centred = replace(
            self,
            centre=level[: 2 * n_inputs].reshape(2, n_inputs),
            means=level[2 * n_inputs : -1].reshape(2, -1),
        )
        power = (centred(x) ** 2).mean(axis=0)
        parts = np.array([power[at].sum() for at in centred.columns])
        size = np.sqrt(np.where(parts > VANISHING, parts, 1.0))
        linear = power[: 2 * n_inputs].reshape(2, n_inputs) / size[:2, None] ** 2
        return replace(centred, size=size), linear

    def with_spatial(self, place: Spatial | None) -> Auto:
        """With waves of a position; each hypothesis comes again, with some of its signal there."""
        if place is None:
            return self
        known, number = self.hypotheses, np.arange(len(self.noise))
        share = np.array(OF_PLACE)[number % len(OF_PLACE)][:, None]
        length = np.eye(place.lengths.shape[1])[number // len(OF_PLACE) % place.lengths.shape[1]]
        own = length * share * (1 - known.noise)[:, None]
        rest, bias = known.variances[:, :-1], known.variances[:, -1:]
        both = np.block([[rest, 0 * own, bias], [rest * (1 - share), own, bias]])
        noise, shared = np.tile([known.noise, known.correlation], 2)
        drawn = Hypotheses(both, noise, shared, known.power)
        return replace(self, spatial=place).with_hypotheses(drawn)

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
        """Where the features of each part are: linear, waves and curves by scaling, bias."""
        n_inputs, n_curve = self.frequencies.shape[1], self.curve.shape[1]
        of_scaling = self.lengths[1].astype(int).tolist() + [n_curve] * len(self.bent)
        place = [] if self.spatial is None else self.spatial.lengths[1].astype(int).tolist()
        ends = np.cumsum([0, n_inputs, n_inputs, *of_scaling, *of_scaling, *place, 1]).tolist()
        return [slice(low, high) for low, high in pairwise(ends)]

    def scaled(self, x: Float[np.ndarray, "N D"]) -> list[Float[np.ndarray, "N D"]]:
        """The inputs in each of `SCALINGS`."""
        ranged = (x - self.shift[0]) / self.scale[0]
        squashed = (2 * np.tanh(x / 2) - self.shift[1]) / self.scale[1]
        views = [np.clip(ranged, -FARTHEST, FARTHEST), squashed]
        return views if self.spatial is None else [*views, self.spatial.scaled(x)]

    def __call__(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N K"]:
        out = np.empty((len(x), self.columns[-1].stop))
        n_waves, n_curve = int(self.lengths[1].sum()), self.curve.shape[1]
        for z, family in zip(self.scaled(x), self.waves, strict=True):
            if family.linear is None:  # of a position
                cosines = np.cos(family.phases - z @ family.frequencies.T)
                out[:, family.first : -1] = family.amplitude * cosines - family.centre
                continue
            columns, centre, size = family.linear
            out[:, columns] = (z - centre) / size
            of_all = family.phases[:n_waves] - z @ family.frequencies[:n_waves].T
            of_one = family.phases[n_waves:].reshape(-1, n_curve) if n_curve else 0.0
            of_one = (of_one - z[:, self.bent, None] * self.curve[0]).reshape(len(x), -1)
            cosines = np.cos(np.hstack([of_all, of_one]))
            out[:, family.first : family.stop] = family.amplitude * cosines - family.centre
        out[:, -1] = 1.0
        return out

    @property
    def waves(self) -> tuple[Waves, ...]:
        """Waves and curves of each scaling together, with its linear part."""
        n_inputs, (turns, sizes) = self.frequencies.shape[1], self.curve
        counts = self.lengths[1].astype(int)
        far = self.lengths[0] * math.sqrt(n_inputs)
        of_all = [self.frequencies[:n] / e for e, n in zip(far, counts, strict=True)]
        of_one = np.kron(
            np.eye(n_inputs)[self.bent], turns[:, None]
        )  # a_m sin(ω_m (z + L)), as a cosine
        frequencies = np.concatenate([*of_all, of_one])
        curve_phases = np.tile(math.pi / 2 - turns * BOUNDARY, len(self.bent))
        phases = np.concatenate([*(self.phases[:n] for n in counts), curve_phases])
        plain = np.append(np.repeat(np.sqrt(2 / counts), counts), np.tile(sizes, len(self.bent)))
        columns = self.columns
        own = len(self.size[3:]) // 2  # parts of each scaling
        families = []
        for i, means in enumerate(self.means):
            parts = slice(2 + i * own, 2 + (i + 1) * own)
            widths = [at.stop - at.start for at in columns[parts]]
            size = np.repeat(self.size[parts], widths)
            linear = columns[i], self.centre[i], self.size[i]
            first = columns[parts][0].start
            waves = Waves(first, frequencies, phases, plain / size, means / size, linear)
            families.append(waves)
        if (place := self.spatial) is not None:
            drawn = place.frequencies, place.phases, place.amplitude, place.means
            families.append(Waves(families[-1].stop, *drawn, farthest=spatial.FARTHEST))
        return tuple(families)

    def arrays(self) -> dict[str, np.ndarray]:
        """What was drawn, by the names it is stored under."""
        own = (name for name in self.__slots__ if name != "spatial")
        drawn = {f"auto_{name}": getattr(self, name) for name in own}
        place = () if self.spatial is None else self.spatial.__slots__
        return drawn | {f"{PREFIX}{name}": getattr(self.spatial, name) for name in place}

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> Auto:
        """The basis with these arrays; those of former versions lack some.

        The first versions had no hypotheses. Such a basis gets them from a seed of their own. Each
        input has the power it has in `draw`: standardised inputs that are divided by `scale` have
        the mean square 1/scale², squashed ones 1, and those that do not vary (their scale is 1)
        none. Later ones had neither curves nor centred waves, and then the same length-scales
        for any number of inputs.
        """
        absent = former, uncentred, equal = lacking(arrays)
        names = {f"auto_{name}": name for name in self.__slots__ if name != "spatial"}
        wanted = names.keys() - frozenset().union(*absent)
        place = Spatial.__slots__ if f"{PREFIX}pair" in arrays else ()
        found = Spatial(*(arrays[f"{PREFIX}{name}"] for name in place)) if place else None
        basis = replace(self, **{names[key]: arrays[key] for key in wanted}, spatial=found)
        if equal:
            n_waves = [len(basis.phases)] * len(LENGTHSCALES)
            basis = replace(basis, lengths=np.array([LENGTHSCALES, n_waves]))
            n_bent = 0 if uncentred else basis.frequencies.shape[1] * bool(basis.curve.shape[1])
            basis = replace(basis, bent=np.arange(n_bent))
        if uncentred:
            means = np.zeros((2, int(basis.lengths[1].sum())))
            basis = replace(basis, curve=np.empty((2, 0)), means=means)
        if not former:
            return basis
        varies = basis.scale[1] != 1.0
        power = np.stack([varies / basis.scale[0] ** 2, varies])
        power /= np.maximum(power.sum(axis=1, keepdims=True), 1e-300)
        return basis.with_hypotheses(Hypotheses.draw(power, np.random.default_rng([0, 3])))


def lacking(arrays: Mapping[str, Any]) -> list[frozenset[str]]:
    """Names of hypotheses, curves and length-scales, or none if there are any of them."""
    added = OF_HYPOTHESES, OF_CURVES, OF_LENGTHS
    return [names if arrays.keys().isdisjoint(names) else frozenset() for names in added]


def as_former(
    drawn: Mapping[str, np.ndarray], stored: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Arrays of the shapes that the version of `stored` gave a basis like this."""
    n_inputs, n_curve = drawn["auto_frequencies"].shape[1], drawn["auto_curve"].shape[1]
    n_lengths, bent = len(LENGTHSCALES), stored.get("auto_curve", np.empty(0)).size > 0
    n_waves, wanted = int(drawn["auto_lengths"][1].sum()) // n_lengths, dict(drawn)
    if bent < (n_curve > 0) or np.size(stored.get("auto_lengths", 0)) != drawn["auto_lengths"].size:
        n_waves += 0 if bent else math.ceil(n_inputs * n_curve / n_lengths)
        n_curve, of_scaling = n_curve * bent, n_lengths + n_inputs * bent
        shapes = {
            "frequencies": (n_waves, n_inputs),
            "phases": (n_waves,),
            "lengths": (2, n_lengths),
            "bent": (n_inputs * bent,),
            "size": (3 + 2 * of_scaling,),
            "curve": (2, n_curve),
            "means": (2, n_lengths * n_waves + n_inputs * n_curve),
            "variances": (len(drawn["auto_noise"]), 2 * n_inputs + 2 * of_scaling + 1),
        }
        whole = {"bent"}
        wanted |= {
            f"auto_{name}": np.zeros(shape, int if name in whole else float)
            for name, shape in shapes.items()
        }
    return {name: wanted[name] for name in wanted.keys() - frozenset().union(*lacking(stored))}


def _linear_power(
    basis: Auto,
    power: Float[np.ndarray, "2 D"],
    ends: tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]],
    source: Int[np.ndarray, " D"],
) -> Float[np.ndarray, "2 D"]:
    """The power of each linear feature, by which the prior of slopes is scaled.

    A sample may miss what is rare. Over all individuals the variance of an input is 1, which is
    1 / (high − low)² of its range squared: p (1 − p) of a level that the share p has. No power is
    taken to be far below that. Effects of the levels of one column have the same prior variance,
    however rare a level is, and together they have the variance of the column.

    Args:
        power: The same in a sample.
        ends: The least and the greatest value of each input, standardised.
        source: The column that each input comes from.
    """
    low, high = ends
    varies = high > low
    part = np.where(varies, 1 / np.where(varies, high - low, 1.0) ** 2, 0.0)
    both = zip(basis.scaled(low[None]), basis.scaled(high[None]), strict=True)
    step = np.concatenate([above - below for below, above in both]) / basis.size[:2, None]
    levels, whole = np.bincount(source)[source], np.bincount(source, part)[source]
    shared = np.where(levels > 1, whole / levels, 0.0) * step**2
    own = np.maximum(power, RARE * part * step**2)
    return np.where(varies, np.where(levels > 1, shared, own), 0.0)


def _lengths(n_waves: int, n_inputs: int) -> Float[np.ndarray, "2 L"]:
    """Length-scales of waves, and how many have each: three times `n_waves` in all."""
    if n_inputs > FEW_INPUTS or n_waves < len(OF_FEW_INPUTS):
        return np.array([LENGTHSCALES, [n_waves] * len(LENGTHSCALES)])
    room = len(LENGTHSCALES) * n_waves
    longer = [max(1, room // part) for part in (5, 8, 12)]  # the shortest needs the most waves
    return np.array([OF_FEW_INPUTS, [room - sum(longer), *longer]])


def _curve(n_waves: int, n_inputs: int, unit: float) -> Float[np.ndarray, "2 M"]:
    """ω and a of as many functions as half of the waves' room gives each input."""
    count = min(CURVE, len(LENGTHSCALES) * n_waves // (2 * max(1, n_inputs)))
    turns = math.pi * np.arange(1, 1 + (count if count >= FEWEST else 0)) / (2 * BOUNDARY)
    with np.errstate(over="ignore", under="ignore"):
        exponents = (CURVE_LENGTHSCALE * unit / 2) ** 2 * (turns[:1] ** 2 - turns**2)
        return np.stack([turns, np.exp(exponents)])
