"""A fitted model: basis, hyperparameters, posterior, and the way back to the user's units.

A basis is fixed once drawn, or it learns from the totals too (`Scaled.learns`): then it is fitted
first, and what follows is the same.

Under `"adam"` there is no offset: as in the paper, the bias feature carries the level. Centred, a
few labels look like noise alone and Adam drifts there (after 10 questions on Michigan's schools the
error was 19.7, and 17.0 without an offset; mean of 6 seeds).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sumwise.data.sets import Sets
from sumwise.data.targets import Inputs
from sumwise.errors import InvalidSetError, SettingError
from sumwise.model import averaging, evidence, known_noise, posterior, scaling
from sumwise.model.basis import Basis, Neural, Scaled, draw
from sumwise.model.basis.auto import POWER
from sumwise.model.basis.fixed import check_number
from sumwise.model.design import Design, Pool, embed, features
from sumwise.model.posterior import Hyperparameters, Posterior, Spectrum
from sumwise.model.scaling import Standardised
from sumwise.util.shapes import Float

if TYPE_CHECKING:
    from sumwise.model.basis import Auto
    from sumwise.model.basis.neural import NeuralBasis

TYPICAL_NOISE_SHARE = 0.1  # of an individual's variance: where the weak prior on β is centred
PRIOR_STD = 2.0  # of the weak prior on log λ and log β


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

    def __post_init__(self) -> None:
        check_seed(self.random_state, "random_state", or_none=True)
        chosen = self.hyperparameters
        if isinstance(chosen, str) and chosen in ("evidence", "adam"):
            return
        numbers = tuple(chosen) if isinstance(chosen, tuple | list | np.ndarray) else ()
        if len(numbers) != 2:
            raise SettingError(
                f"hyperparameters is {chosen!r}; give 'evidence', 'adam' or two numbers (λ, β)"
            )
        for name, value in zip("λβ", numbers, strict=True):
            check_number(value, name, 1e-100, 1e100)
        object.__setattr__(self, "hyperparameters", tuple(map(float, numbers)))

    def prepare(self, sets: Sets) -> Prepared:
        """Draw the basis and take the scaling of inputs from these sets."""
        return prepare(self, sets)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What a model knows before any label: its basis on standardised inputs."""

    basis: Scaled
    power: float  # mean of ‖φ(x)‖² over instances
    start: Hyperparameters  # where Adam begins
    input_names: tuple[Hashable, ...] | None
    adam: bool = False  # whether Adam, which loads numba, finds λ and β

    def pool(self, sets: Sets) -> Pool:
        """The sets as strategies see them before any answer."""
        return _pool(self, sets, numba_anyway=self.adam)


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """p(y | x, D) for any x, in the user's units."""

    basis: Scaled
    posterior: Posterior
    offset: Float[np.ndarray, " M"]
    spectrum: Spectrum | None  # None for a dropout network, which has no evidence either
    log_evidence: float | None
    input_names: tuple[Hashable, ...] | None
    choice: averaging.Choice | None = None  # of `basis="auto"`

    def pool(self, sets: Sets) -> Pool:
        """The sets as strategies see them under this model."""
        return _pool(self, sets)


def check_seed(seed: Any, name: str, *, or_none: bool = False) -> None:
    """Seeds are whole numbers, so that a run can be repeated from what was written down."""
    if not (or_none and seed is None):
        check_number(seed, name, 0, whole=True)


def prepare(config: ModelConfig, sets: Sets, inputs: Inputs | None = None) -> Prepared:
    """Draw the basis for inputs that are spread like `inputs`; like those of `sets` if left out."""
    if inputs is None:
        inputs = Inputs.of(sets.x if len(sets) else np.zeros((1, sets.n_inputs)))
    rng = np.random.default_rng(config.random_state)
    with np.errstate(all="ignore"):  # features that are not finite are refused by name
        basis = Scaled(draw(config, sets, inputs, rng), inputs.shift, inputs.scale)
    power = POWER
    if not basis.averages:  # candidates are drawn for standardised inputs
        if not config.standardize:
            basis = Scaled(basis.basis, np.zeros(sets.n_inputs), np.ones(sets.n_inputs))
        power = float(np.mean(np.sum(features(basis, inputs.sample) ** 2, axis=1)))
    return Prepared(
        basis,
        power if 0 < power < math.inf else 1.0,
        Hyperparameters(*np.exp(rng.standard_normal(2)).tolist()),
        sets.input_names,
        adam=config.hyperparameters == "adam",
    )


def _pool(known: Prepared | Model, sets: Sets, *, numba_anyway: bool = False) -> Pool:
    """Sets with the inputs that the scaling was taken from, by number and, if named, by name."""
    n_inputs = len(known.basis.shift)
    if sets.n_inputs != n_inputs:
        raise InvalidSetError(f"the sets have {sets.n_inputs} inputs; the model knows {n_inputs}")
    if None not in (sets.input_names, known.input_names) and sets.input_names != known.input_names:
        raise InvalidSetError(
            f"the sets have the inputs {sets.input_names}; the model knows {known.input_names}, in "
            "that order"
        )
    return Pool(sets, known.basis, embed(sets, known.basis, numba_anyway=numba_anyway))


def fit(
    config: ModelConfig,
    prepared: Prepared,
    labelled: Sets | None,
    design: Design,
    y_bar: Float[np.ndarray, "t M"],
    start: Model | None = None,
    *,
    noise_std: Float[np.ndarray, " t"] | None = None,
    learned: tuple[Scaled, Hyperparameters] | None = None,
) -> Model:
    """The model after one total for each of some sets.

    Args:
        labelled: The sets themselves; a fixed basis needs no more than their design.
        design: Their design under `prepared.basis`.
        start: The model before the last label, where Adam begins; the random start if left out.
        noise_std: Known noise of each measurement, besides that of its individuals, in the user's
            units.
        learned: The basis, λ and β that were learned from these totals before.
    """
    before = (start or prepared).basis
    with np.errstate(all="ignore"):  # numbers that overflow are refused by name
        data = scaling.standardise(
            design, y_bar, noise_std, config.hyperparameters, standardize=config.standardize
        )
        prior = _weak_prior(config, prepared, data.variance)
        basis, hyper = learned or (prepared.basis, _first_guess(config, prepared, start))
        if before.learns:
            assert labelled is not None  # it learns from individuals
            if learned is None:
                network = cast("NeuralBasis", before.basis)
                trained, hyper = _train(config, network, basis, labelled, data, hyper, prior)
                basis = replace(basis, basis=trained)
            if before.committee:
                n_members = features(basis, np.zeros((1, labelled.n_inputs))).shape[1]
                members = posterior.committee(n_members, hyper.noise_precision, data.scale)
                return Model(basis, members, data.offset, None, None, prepared.input_names)
            design = embed(labelled, basis)
        choice = None
        if before.averages:
            fixed = None if isinstance(config.hyperparameters, str) else hyper
            choice = averaging.choose(cast("Auto", before.basis), design, data, prior, fixed)
            if not np.isfinite(choice.probability).all():
                raise scaling.beyond_doubles(y_bar)
            design = replace(design, u=design.u * choice.amplitude)
        trained_too = before.learns and config.hyperparameters == "adam"  # with the network
        if learned is not None or trained_too or not isinstance(config.hyperparameters, str):
            spectrum = _decompose(design, data, hyper)
        else:
            spectrum, hyper = _estimate(config, design, data, hyper, prior, choice is not None)
        value = evidence.log_evidence(spectrum, hyper)
        value -= len(design) * float(np.log(data.scale).sum())
        amplitude = None if choice is None else choice.amplitude
        fitted = posterior.condition(spectrum, hyper, data.scale, amplitude)
    if not (np.isfinite(value) and np.isfinite(fitted.mean).all()):
        raise scaling.beyond_doubles(y_bar)
    return Model(basis, fitted, data.offset, spectrum, value, prepared.input_names, choice)


def _decompose(design: Design, data: Standardised, hyper: Hyperparameters) -> Spectrum:
    """The labelled sets, decomposed with the noise scales that known noise gives at this β."""
    if data.noise_std is not None:
        design = design.with_known_noise(data.noise_std, hyper.noise_precision)
    return posterior.decompose(design, data.totals)


def _estimate(
    config: ModelConfig,
    design: Design,
    data: Standardised,
    hyper: Hyperparameters,
    prior: evidence.WeakPrior,
    averaged: bool,
) -> tuple[Spectrum, Hyperparameters]:
    """λ and β in the way that the settings name, and the spectrum at these.

    Args:
        hyper: Where Adam begins.
        averaged: Whether candidates were averaged; then log λ and log β are their posterior means.
    """
    by_adam, noise_std = config.hyperparameters == "adam", data.noise_std
    if noise_std is not None:
        known = design, data.totals, noise_std
        hyper = known_noise.adam(*known, hyper) if by_adam else known_noise.maximise(*known, prior)
    spectrum = _decompose(design, data, hyper)
    if averaged and not by_adam and config.evidence_prior:
        hyper = evidence.means(spectrum, prior)  # known noise is fixed at the maximiser's β
        return _decompose(design, data, hyper) if noise_std is not None else spectrum, hyper
    if noise_std is None:
        hyper = evidence.adam(spectrum, hyper) if by_adam else evidence.maximise(spectrum, prior)
    return spectrum, hyper


def _first_guess(config: ModelConfig, prepared: Prepared, start: Model | None) -> Hyperparameters:
    """λ and β that a search begins with."""
    if not isinstance(config.hyperparameters, str):
        return Hyperparameters(*config.hyperparameters)
    if start is not None:
        return start.posterior.hyper
    if config.hyperparameters == "adam":
        return prepared.start
    prior = _weak_prior(config, prepared, variance=1.0)
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
    fixed = not isinstance(config.hyperparameters, str)
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


def _weak_prior(config: ModelConfig, prepared: Prepared, variance: float) -> evidence.WeakPrior:
    """Centred where an individual's prior variance is `variance`, a small share of it noise."""
    share = averaging.NOISE_SHARE if prepared.basis.averages else TYPICAL_NOISE_SHARE
    std = PRIOR_STD if config.evidence_prior else math.inf
    level, noise = math.log(prepared.power / variance), -math.log(share * variance)
    return evidence.WeakPrior(level, noise, std)
