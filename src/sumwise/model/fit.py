"""A fitted model: basis, hyperparameters, posterior, and the way back to the user's units.

A basis is fixed once drawn, or it learns from the totals too (`Scaled.learns`): then it is fitted
first, and what follows is the same.

Under `"adam"` there is no offset: as in the paper, the bias feature carries the level. Centred, a
few labels look like noise alone and Adam drifts there (after 10 questions on Michigan's schools the
error was 19.7, and 17.0 without an offset; mean of 6 seeds).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from sumwise.data import validate
from sumwise.data.sets import Sets
from sumwise.data.targets import Inputs
from sumwise.errors import InvalidSetError, SettingError
from sumwise.model import evidence, known_noise, mixture_weights, posterior, scaling
from sumwise.model.basis import Basis, Neural, Scaled, draw
from sumwise.model.basis.auto import BIAS, Hypotheses
from sumwise.model.basis.fixed import MOST_WAVES, check_number
from sumwise.model.design import AGAIN_FROM, Design, Pool, all_features, embed, features
from sumwise.model.generalised import averaging, refusals
from sumwise.model.generalised.averaging import Generalised
from sumwise.model.generalised.likelihoods import LIKELIHOODS, Likelihood, Measured
from sumwise.model.generalised.tangent import Tangent, linearised, measured_design, usual_noise
from sumwise.model.mixture import Mixture
from sumwise.model.mixture_algebra import Totals
from sumwise.model.overlap import Overlap, apart
from sumwise.model.posterior import Hyperparameters, Posterior, Spectrum
from sumwise.model.scaling import Standardised
from sumwise.util.shapes import Float, Int
from sumwise.util.threads import one_thread

if TYPE_CHECKING:
    from sumwise.model.basis import Auto
    from sumwise.model.basis.neural import NeuralBasis

TYPICAL_NOISE_SHARE = 0.1  # of an individual's variance: where the weak prior on β is centred
PRIOR_STD = 2.0  # of the weak prior on log λ and log β
LEAST_KNOWN = 1e-3  # of individuals' noise: known noise of overlapping totals that is computed with


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Settings of a model; see `AggregateRegressor` for what they mean."""

    basis: str | Basis | Neural = "auto"
    n_basis: int = 128
    lengthscale: float = 1.0
    degree: int = 2
    hyperparameters: str | tuple[float, float] = "evidence"
    evidence_prior: bool = True
    standardize: bool = True
    random_state: int | None = 0
    outputs: str = "numbers"
    spatial: str | tuple[Hashable, Hashable] | None = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.spatial, str | None) or self.spatial not in (None, "auto"):
            pair = tuple(self.spatial) if isinstance(self.spatial, tuple | list) else ()
            two = len(pair) == 2 and pair[0] != pair[1]
            if not two or not isinstance(self.basis, str) or self.basis != "auto":
                said = "give two inputs' names, 'auto' or None; leave it out with another basis"
                raise SettingError(f"spatial is {self.spatial!r:.80}; {said} than 'auto'")
            object.__setattr__(self, "spatial", pair)
        if self.random_state is not None:
            validate.count(self.random_state, "random_state", 0)
        check_number(self.n_basis, "n_basis", 1, MOST_WAVES, whole=True)
        check_number(self.lengthscale, "lengthscale", 1e-100, 1e100)
        check_number(self.degree, "degree", 0, MOST_WAVES, whole=True)
        for name in ("evidence_prior", "standardize"):
            if not isinstance(given := getattr(self, name), bool | np.bool_):
                raise SettingError(f"{name} is {given!r:.60}; give True or False")
        chosen = self.hyperparameters
        if self.outputs != "numbers":
            refusals.check_settings(self.outputs, self.basis, chosen)
        if isinstance(chosen, str) and chosen in ("evidence", "adam"):
            if chosen == "adam" and isinstance(self.basis, str) and self.basis == "auto":
                raise SettingError(
                    "basis='auto' integrates λ and β over their prior, so there is nothing for "
                    "'adam' to search; use hyperparameters='evidence', or another basis"
                )
            return
        numbers = tuple(chosen) if isinstance(chosen, tuple | list | np.ndarray) else ()
        if len(numbers) != 2:
            raise SettingError(
                f"hyperparameters is {chosen!r}; give 'evidence', 'adam' or two numbers (λ, β)"
            )
        for name, value in zip("λβ", numbers, strict=True):
            check_number(value, name, 1e-100, 1e100)
        refusals.check_prior(self.outputs, float(numbers[0]))
        object.__setattr__(self, "hyperparameters", tuple(map(float, numbers)))

    @property
    def likelihood(self) -> Likelihood | None:
        """Of outputs that are not plain numbers."""
        return LIKELIHOODS.get(self.outputs)

    @property
    def given(self) -> Hyperparameters | None:
        """λ and β if the settings give them."""
        numbers = self.hyperparameters
        return None if isinstance(numbers, str) else Hyperparameters(*numbers)

    def prepare(self, sets: Sets, inputs: Inputs | None = None) -> Prepared:
        """Draw the basis for inputs spread like `inputs`; like those of `sets` if left out."""
        recipe, sets = sets.recipe, apart(sets)  # nobody counts twice
        if inputs is None:
            known = (sets.x, sets.starts) if len(sets) else (np.zeros((1, sets.n_inputs)),)
            inputs = Inputs.of(*known)
        if recipe is not None:
            inputs = replace(inputs, source=recipe.source_of)
        rng = np.random.default_rng(self.random_state)
        with np.errstate(all="ignore"):  # features that are not finite are refused by name
            basis = Scaled(draw(self, sets, inputs, rng), inputs.shift, inputs.scale)
        power = 1 + BIAS
        if not basis.averages:  # candidates are drawn for standardised inputs
            if not self.standardize:
                basis = Scaled(basis.basis, np.zeros(sets.n_inputs), np.ones(sets.n_inputs))
            with np.errstate(over="ignore", under="ignore"):
                power = float(np.mean(np.sum(features(basis, inputs.sample) ** 2, axis=1)))
        return Prepared(
            self,
            basis,
            power if 0 < power < math.inf else 1.0,
            Hyperparameters(*np.exp(rng.standard_normal(2)).tolist()),
            sets.input_names,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What a model knows before any label: its settings, and its basis on standardised inputs."""

    config: ModelConfig
    basis: Scaled
    power: float  # mean of ‖φ(x)‖² over instances
    start: Hyperparameters  # where Adam begins
    input_names: tuple[Hashable, ...] | None

    def drawn_for(self, sets: Sets) -> Prepared:
        """The same for other sets, with a position only if this has one: former ones have none."""
        known = self.config.spatial if "spatial_pair" in self.basis.arrays() else None
        drawn = replace(self.config, spatial=known).prepare(sets)
        return replace(drawn, config=self.config)

    @property
    def looks_at_individuals(self) -> bool:
        """Whether a fit needs the individuals of measured sets, and changes how sets are seen."""
        return self.basis.learns or self.config.likelihood is not None

    @property
    def n_basis(self) -> int:
        """K."""
        return features(self.basis, np.zeros((1, len(self.basis.shift)))).shape[1]

    def pool(self, sets: Sets) -> Pool:
        """The sets as strategies see them before any answer."""
        return _pool(self, sets, numba_anyway=self.config.hyperparameters == "adam")


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """The measured sets, whose members are predicted given their totals.

    Of overlapping sets, design and residual are those of whitened totals; see `model.overlap`.
    """

    ids: Sequence[Hashable]
    sets: Callable[[], Sets] | None  # with their individuals, which may have to be read
    design: Design
    noise_scale: Float[np.ndarray, " t"]  # of each total given w, with known noise, without effects
    residual: Float[np.ndarray, "t M"]  # totals less their expectation given w, in model units
    overlap: Overlap | None = None
    lower: Float[np.ndarray, "t t"] | None = None  # L of overlapping totals, in units of 1/β
    whole: Design | None = None  # of the sets with all members, where totals cover some of them
    in_whole: Float[np.ndarray, " t"] | None = None  # Σ over those of θ in both
    rest: tuple[Int[np.ndarray, " r"], Design] | None = None  # other members of such, if not linear


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """p(y | x, D) for any x, in the user's units."""

    basis: Scaled
    posterior: Posterior
    offset: Float[np.ndarray, " M"]
    spectrum: Spectrum | None  # None for a dropout network, which has no evidence either
    log_evidence: float | None
    input_names: tuple[Hashable, ...] | None
    mixture: Mixture | None = None  # of `basis="auto"`
    labelled: Labelled | None = None
    generalised: Generalised | None = None  # of outputs that are not plain numbers

    def pool(self, sets: Sets, phi: Float[np.ndarray, "N K"] | None = None) -> Pool:
        """The sets as strategies see them under this model.

        Args:
            phi: From an earlier pool of the same sets, if that has it.
        """
        if self.generalised is None:
            return _pool(self, sets)
        check_inputs(self, sets.n_inputs, sets.input_names)
        tangent = self.basis.tangent
        if phi is None and len(sets.x) * len(self.posterior.mean) < AGAIN_FROM:
            phi = all_features(sets.x, tangent.scaled, len(self.posterior.mean))
        with one_thread():  # products of single blocks
            design = linearised(sets, tangent, self.posterior.noise_precision, phi)
        return Pool(sets, self.basis, design, phi=phi)


def _pool(known: Prepared | Model, sets: Sets, *, numba_anyway: bool = False) -> Pool:
    check_inputs(known, sets.n_inputs, sets.input_names)
    return Pool(sets, known.basis, embed(sets, known.basis, numba_anyway=numba_anyway))


def check_inputs(
    known: Prepared | Model, n_inputs: int, names: tuple[Hashable, ...] | None
) -> None:
    """Refuse inputs that the model was not made for, by number and, if named, by name."""
    expected = len(known.basis.shift)
    if n_inputs != expected:
        raise InvalidSetError(f"the sets have {n_inputs} inputs; the model knows {expected}")
    if None not in (names, known.input_names) and names != known.input_names:
        raise InvalidSetError(
            f"the sets have the inputs {names}; the model knows {known.input_names}, in that order"
        )


def fit(
    prepared: Prepared,
    labelled: Sets | None,
    design: Design,
    y_bar: Float[np.ndarray, "t M"],
    start: Model | None = None,
    *,
    noise_std: Float[np.ndarray, " t"] | None = None,
    learned: tuple[Scaled, Hyperparameters] | None = None,
    members: tuple[Sequence[Hashable], Callable[[], Sets] | None] = ((), None),
    overlap: Overlap | None = None,
) -> Model:
    """The model after one total for each of some sets.

    Args:
        labelled: The sets themselves; a fixed basis needs no more than their design.
        design: Their design under `prepared.basis`.
        start: The model before the last label, where Adam begins; the random start if left out.
        noise_std: Known noise of each total beside that of its individuals, in the user's units.
        learned: The basis, λ and β that were learned from these totals before.
        members: Ids of the sets, and what gives them, where their members are to be predicted.
        overlap: Of the sets, where they may share individuals.
    """
    config, before = prepared.config, (start or prepared).basis
    if config.likelihood is not None:
        return _generalised(prepared, config.likelihood, labelled, y_bar, members)
    if overlap is not None:  # without totals that teach nothing
        design, y_bar, members = design.rows(overlap.kept), y_bar[overlap.kept], ((), None)
        noise_std = None if noise_std is None else noise_std[overlap.kept]
        labelled = None if labelled is None else overlap.measured
    with np.errstate(all="ignore"):  # numbers that overflow are refused by name
        data = scaling.standardise(
            design, y_bar, noise_std, config.hyperparameters, standardize=config.standardize
        )
        data = data if overlap is None else _resolved(data, config.given)
        prior = _weak_prior(prepared, data.variance)
        basis, hyper = learned or (prepared.basis, _first_guess(prepared, start, data.scale))
        if before.learns:
            assert labelled is not None  # it learns from individuals
            if learned is None:
                network = cast("NeuralBasis", before.basis)
                trained, hyper = _train(config, network, basis, labelled, data, hyper, prior)
                basis = replace(basis, basis=trained)
            if before.committee:
                n_members = features(basis, np.zeros((1, labelled.n_inputs))).shape[1]
                drawn = posterior.committee(n_members, hyper.noise_precision, data.scale)
                return Model(basis, drawn, data.offset, None, None, prepared.input_names)
            data = replace(data, design=embed(labelled, basis))
        if before.averages:
            return _mixed(prepared, data, y_bar, members, overlap)
        trained_too = before.learns and config.hyperparameters == "adam"  # with the network
        known = learned is not None or config.given is not None or trained_too
        search = None if known else config.hyperparameters
        data, lower, spectrum, hyper = _estimate(search, data, overlap, hyper, prior)
        value = evidence.log_evidence(spectrum, hyper) - _log_units(data, lower)
        fitted = posterior.condition(spectrum, hyper, data.scale)
    if not (np.isfinite(value) and np.isfinite(fitted.mean).all()):
        raise scaling.beyond_doubles(y_bar)
    left, names = _left(data, fitted, members, overlap, lower), prepared.input_names
    return Model(basis, fitted, data.offset, spectrum, value, names, labelled=left)


def _left(
    data: Standardised,
    fitted: Posterior,
    members: tuple[Sequence[Hashable], Callable[[], Sets] | None],
    overlap: Overlap | None,
    lower: Float[np.ndarray, "t t"] | None,
) -> Labelled:
    """What predictions of members need of the measured sets."""
    noisy = data.design_at(fitted.noise_precision)
    residual = data.totals - noisy.u @ fitted.mean
    return Labelled(*members, data.design, noisy.noise_scale, residual, overlap, lower)


def _resolved(data: Standardised, given: Hyperparameters | None) -> Standardised:
    """With known noise that rounding of what overlapping totals share cannot be taken for."""
    if data.noise_std is None:
        return data
    unit = data.variance if given is None else 1 / given.noise_precision
    least = LEAST_KNOWN * np.sqrt(unit * data.design.noise_scale)
    known = np.where(data.noise_std > 0, np.maximum(data.noise_std, least), 0.0)
    return replace(data, noise_std=known)


def _log_units(data: Standardised, lower: Float[np.ndarray, "t t"] | None = None) -> float:
    """Log of the volume that totals in the model's units have in the user's."""
    log_units = len(data.totals) * float(np.log(data.scale).sum())
    if lower is not None:
        log_units += len(data.scale) * float(np.log(np.diagonal(lower)).sum())
    return log_units


def _mixed(
    prepared: Prepared,
    data: Standardised,
    y_bar: Float[np.ndarray, "t M"],
    members: tuple[Sequence[Hashable], Callable[[], Sets] | None],
    overlap: Overlap | None,
) -> Model:
    """The model of `basis="auto"`: a mixture of hypotheses, weighed by the totals."""
    config, basis = prepared.config, cast("Auto", prepared.basis.basis)
    known, given = basis.hypotheses, config.given
    if given is not None:
        known = _at_given(known, given)
    freedom = max(0.0, len(data.design) - float(config.standardize))  # the offset takes one
    shared = None if overlap is None else (overlap.same, overlap.together)
    likeness = mixture_weights.likeness(basis.hypotheses)
    about = basis.groups, freedom, likeness, data.noise_std, shared
    totals = Totals(data.design, data.totals, *about)
    mixed = mixture_weights.fit(known, totals, known_scale=given is not None)
    mean = mixed.coefficients
    covariance = mixed.covariance(mean).mean(axis=0)
    if not (np.isfinite(covariance).all() and np.isfinite(mean).all()):
        raise scaling.beyond_doubles(y_bar)
    noise = mixed.noise.mean(axis=1)
    fitted = posterior.from_covariance(
        np.einsum("h,hkm->km", mixed.probability, mean), covariance, tuple(noise), data.scale
    )
    value = mixed.log_evidence - _log_units(data)
    lower = None
    if overlap is not None:
        data, lower = _whitened(data, overlap, fitted.noise_precision, fitted.effect)
    residual = data.totals - data.design.u @ fitted.mean
    left = Labelled(*members, data.design, data.design.noise_scale, residual, overlap, lower)
    return Model(
        prepared.basis, fitted, data.offset, None, value, prepared.input_names, mixed, left
    )


def _generalised(
    prepared: Prepared,
    likelihood: Likelihood,
    labelled: Sets | None,
    y_bar: Float[np.ndarray, "t M"],
    members: tuple[Sequence[Hashable], Callable[[], Sets] | None],
) -> Model:
    """The model of counts, shares or amounts."""
    assert labelled is not None  # it looks at individuals
    refusals.check_totals(likelihood, labelled, y_bar)
    phi = np.empty((0, prepared.n_basis))
    if len(labelled):
        phi = features(prepared.basis, labelled.x, prepared.n_basis)
    refusals.check_features(phi)
    totals = np.rint(y_bar[:, 0]) if likelihood.whole else y_bar[:, 0]  # 3 may be told as 3 + 1e-10
    measured = Measured(phi, labelled.theta, labelled.starts, totals)
    with one_thread(), np.errstate(over="ignore", under="ignore"):
        found = averaging.fit(prepared, likelihood, measured)
        tangent, noise = Tangent(prepared.basis, found), usual_noise(found)
        mean = found.mean[:, None]
        fitted = posterior.from_covariance(mean, found.covariance, (noise, 0.0), np.ones(1))
    design = measured_design(found, fitted.noise_precision)
    assert design.nonlinear is not None
    residual = y_bar - design.nonlinear.mean[:, None]
    left = Labelled(*members, design, design.noise_scale, residual)
    names, value = prepared.input_names, found.log_evidence
    return Model(
        tangent.as_basis, fitted, np.zeros(1), None, value, names, labelled=left, generalised=found
    )


def _at_given(known: Hypotheses, given: Hyperparameters) -> Hypotheses:
    """The hypotheses with the prior precision λ and the noise precision β that the user gives.

    What varies has the variance 1/λ in all, the level as much times `BIAS`, and the noise 1/β; sets
    have no effects of their own.
    """
    signal = 1 - known.noise
    kept = signal > 0
    variances = known.variances[kept] / given.prior_precision
    variances[:, :-1] /= signal[kept][:, None]
    noise = np.full(len(variances), 1 / given.noise_precision)
    return Hypotheses(variances, noise, np.zeros(len(noise)), known.power)


def _estimate(
    search: str | tuple[float, float] | None,
    data: Standardised,
    overlap: Overlap | None,
    hyper: Hyperparameters,
    prior: evidence.WeakPrior,
) -> tuple[Standardised, Float[np.ndarray, "t t"] | None, Spectrum, Hyperparameters]:
    """λ and β, and the spectrum at these.

    Overlapping totals are whitened. Where they have known noise, λ and β are those of independent
    totals: what whitens them moves with β.

    Args:
        search: `"evidence"` or `"adam"`; None where λ and β are known.
        hyper: Those, or where Adam begins.

    Returns:
        The data that the spectrum is of, L if they are whitened, the spectrum, λ and β.
    """
    by_adam, lower = search == "adam", None
    if overlap is not None and data.noise_std is None:
        data, lower = _whitened(data, overlap, hyper.noise_precision)
    if search is not None and data.noise_std is not None:
        hyper = known_noise.adam(data, hyper) if by_adam else known_noise.maximise(data, prior)
    if overlap is not None and lower is None:
        data, lower = _whitened(data, overlap, hyper.noise_precision)
        return data, lower, data.spectrum_at(hyper.noise_precision), hyper
    spectrum = data.spectrum_at(hyper.noise_precision)
    if search is not None and data.noise_std is None:
        hyper = evidence.adam(spectrum, hyper) if by_adam else evidence.maximise(spectrum, prior)
    return data, lower, spectrum, hyper


def _whitened(
    data: Standardised, overlap: Overlap, noise_precision: float, effect: float = 0.0
) -> tuple[Standardised, Float[np.ndarray, "t t"]]:
    """Totals whose noise is independent and has variance 1/β, and L."""
    known = None if data.noise_std is None else noise_precision * data.noise_std**2
    lower = overlap.lower(effect, known)
    half, design = np.linalg.inv(lower), data.design
    design = Design(half @ design.u, np.ones(len(half)), half @ design.theta_sum)
    return replace(data, design=design, totals=half @ data.totals, noise_std=None), lower


def _first_guess(
    prepared: Prepared, start: Model | None, scale: Float[np.ndarray, " M"]
) -> Hyperparameters:
    """λ and β that a search begins with, for outputs in units of `scale`.

    Those of `start` are in units of its own scale, which every label changes. Before any total
    other than 0 there was no scale, and λ and β are taken as they are; so are those of a dropout
    network, which is in former units itself.
    """
    if prepared.config.given is not None:
        return prepared.config.given
    if start is not None:
        hyper, before = start.posterior.hyper, start.spectrum
        if before is None or not (before.projected.any() or before.residual_power):
            return hyper
        change = float(np.exp(2 * np.log(scale / start.posterior.output_scale).mean()))
        return Hyperparameters(change * hyper.prior_precision, change * hyper.noise_precision)
    if prepared.config.hyperparameters == "adam":
        return prepared.start
    prior = _weak_prior(prepared, variance=1.0)
    return Hyperparameters(*map(math.exp, prior.centre))


def _train(
    config: ModelConfig,
    network: NeuralBasis,
    scaled: Scaled,
    labelled: Sets,
    data: Standardised,
    hyper: Hyperparameters,
    prior: evidence.WeakPrior,
) -> tuple[NeuralBasis, Hyperparameters]:
    """The basis, λ and β after learning from the labels."""
    n_outputs = data.totals.shape[1]
    if network.committee and n_outputs != 1:
        raise SettingError(
            f"a dropout network has one output and was given {n_outputs}; fit a model for "
            "each, or use basis='neural' without dropout"
        )
    if not len(labelled):
        return network, hyper
    fixed = config.given is not None
    trained, log_precisions = network.train(
        replace(labelled, x=(labelled.x - scaled.shift) / scaled.scale),
        data.totals,
        np.log([hyper.prior_precision, hyper.noise_precision]),
        pull=(prior.centre, prior.std**-2) if config.hyperparameters == "evidence" else None,
        fixed=fixed,
        noise_std=data.noise_std,
    )
    if fixed:
        return trained, hyper  # to the bit
    return trained, Hyperparameters(*np.exp(log_precisions).tolist())


def _weak_prior(prepared: Prepared, variance: float) -> evidence.WeakPrior:
    """Centred where an individual's prior variance is `variance`, a small share of it noise."""
    std = PRIOR_STD if prepared.config.evidence_prior else math.inf
    level, noise = math.log(prepared.power / variance), -math.log(TYPICAL_NOISE_SHARE * variance)
    return evidence.WeakPrior(level, noise, std)
