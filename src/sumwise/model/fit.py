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
from typing import TYPE_CHECKING, cast

import numpy as np

from sumwise.data import validate
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
        if self.random_state is not None:
            validate.count(self.random_state, "random_state", 0)
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

    @property
    def given(self) -> Hyperparameters | None:
        """λ and β if the settings give them."""
        numbers = self.hyperparameters
        return None if isinstance(numbers, str) else Hyperparameters(*numbers)

    def prepare(self, sets: Sets, inputs: Inputs | None = None) -> Prepared:
        """Draw the basis for inputs spread like `inputs`; like those of `sets` if left out."""
        if inputs is None:
            inputs = Inputs.of(sets.x if len(sets) else np.zeros((1, sets.n_inputs)))
        rng = np.random.default_rng(self.random_state)
        with np.errstate(all="ignore"):  # features that are not finite are refused by name
            basis = Scaled(draw(self, sets, inputs, rng), inputs.shift, inputs.scale)
        power = POWER
        if not basis.averages:  # candidates are drawn for standardised inputs
            if not self.standardize:
                basis = Scaled(basis.basis, np.zeros(sets.n_inputs), np.ones(sets.n_inputs))
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

    def pool(self, sets: Sets) -> Pool:
        """The sets as strategies see them before any answer."""
        return _pool(self, sets, numba_anyway=self.config.hyperparameters == "adam")


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
    config, before = prepared.config, (start or prepared).basis
    with np.errstate(all="ignore"):  # numbers that overflow are refused by name
        data = scaling.standardise(
            design, y_bar, noise_std, config.hyperparameters, standardize=config.standardize
        )
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
                members = posterior.committee(n_members, hyper.noise_precision, data.scale)
                return Model(basis, members, data.offset, None, None, prepared.input_names)
            data = replace(data, design=embed(labelled, basis))
        choice, amplitude = None, None
        if before.averages:
            choice = averaging.choose(cast("Auto", before.basis), data, prior, config.given)
            if not np.isfinite(choice.probability).all():
                raise scaling.beyond_doubles(y_bar)
            amplitude = choice.amplitude
            data = replace(data, design=replace(design, u=design.u * amplitude))
        trained_too = before.learns and config.hyperparameters == "adam"  # with the network
        if learned is not None or config.given is not None or trained_too:
            spectrum = data.spectrum_at(hyper.noise_precision)
        else:
            spectrum, hyper = _estimate(config, data, hyper, prior, averaged=before.averages)
        value = evidence.log_evidence(spectrum, hyper)
        value -= len(design) * float(np.log(data.scale).sum())
        fitted = posterior.condition(spectrum, hyper, data.scale, amplitude)
    if not (np.isfinite(value) and np.isfinite(fitted.mean).all()):
        raise scaling.beyond_doubles(y_bar)
    return Model(basis, fitted, data.offset, spectrum, value, prepared.input_names, choice)


def _estimate(
    config: ModelConfig,
    data: Standardised,
    hyper: Hyperparameters,
    prior: evidence.WeakPrior,
    *,
    averaged: bool,
) -> tuple[Spectrum, Hyperparameters]:
    """λ and β in the way that the settings name, and the spectrum at these.

    Args:
        hyper: Where Adam begins.
        averaged: Whether candidates were averaged; then log λ and log β are their posterior means.
    """
    by_adam = config.hyperparameters == "adam"
    if data.noise_std is not None:
        hyper = known_noise.adam(data, hyper) if by_adam else known_noise.maximise(data, prior)
    spectrum = data.spectrum_at(hyper.noise_precision)
    if averaged and not by_adam and config.evidence_prior:
        hyper = evidence.means(spectrum, prior)
        if data.noise_std is not None:  # it was fixed at the maximiser's β
            spectrum = data.spectrum_at(hyper.noise_precision)
    elif data.noise_std is None:
        hyper = evidence.adam(spectrum, hyper) if by_adam else evidence.maximise(spectrum, prior)
    return spectrum, hyper


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
    share = averaging.NOISE_SHARE if prepared.basis.averages else TYPICAL_NOISE_SHARE
    std = PRIOR_STD if prepared.config.evidence_prior else math.inf
    level, noise = math.log(prepared.power / variance), -math.log(share * variance)
    return evidence.WeakPrior(level, noise, std)
