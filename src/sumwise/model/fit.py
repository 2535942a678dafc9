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

from sumwise.data.input_stats import Inputs
from sumwise.data.sets import Sets
from sumwise.errors import LabelError, SettingError
from sumwise.model import averaging, evidence, known_noise, posterior, scaling
from sumwise.model.basis import Auto, Basis, Neural, Scaled, draw
from sumwise.model.basis.auto import POWER
from sumwise.model.design import Design, embed, features
from sumwise.model.posterior import Hyperparameters, Posterior, Spectrum
from sumwise.util.shapes import Float

if TYPE_CHECKING:
    from sumwise.model.basis.neural import NeuralBasis

TYPICAL_NOISE_SHARE = 0.1  # of an individual's variance: where the weak prior on β is centred


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
        if isinstance(chosen, str):
            if chosen not in ("evidence", "adam"):
                raise SettingError(
                    f"hyperparameters is {chosen!r}; give 'evidence', 'adam' or two numbers (λ, β)"
                )
            return
        numbers = list(chosen) if isinstance(chosen, tuple | list | np.ndarray) else []
        if len(numbers) != 2 or not all(isinstance(v, int | float | np.number) for v in numbers):
            raise SettingError(
                f"hyperparameters is {chosen!r}; give 'evidence', 'adam' or two numbers (λ, β)"
            )
        for name, value in zip("λβ", numbers, strict=True):
            if not 1e-100 < value < 1e100:
                raise SettingError(f"{name} is {value}; precisions are positive, 1e-100 to 1e100")
        object.__setattr__(self, "hyperparameters", (float(numbers[0]), float(numbers[1])))


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What a model knows before any label: its basis on standardised inputs."""

    basis: Scaled
    power: float  # mean of ‖φ(x)‖² over instances
    start: Hyperparameters  # where Adam begins
    input_names: tuple[Hashable, ...] | None


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


def check_seed(seed: Any, name: str, *, or_none: bool = False) -> None:
    """Seeds are whole numbers, so that a run can be repeated from what was written down."""
    if or_none and seed is None:
        return
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise SettingError(f"{name} is {seed!r}; give a whole number of at least 0")


def prepare(config: ModelConfig, sets: Sets) -> Prepared:
    """Draw the basis and take the scaling of inputs from `sets`."""
    return prepare_on(
        config, sets, Inputs.of(sets.x if len(sets) else np.zeros((1, sets.n_inputs)))
    )


def prepare_on(config: ModelConfig, sets: Sets, inputs: Inputs) -> Prepared:
    """Draw the basis for inputs that are spread like this."""
    rng = np.random.default_rng(config.random_state)
    with np.errstate(all="ignore"):  # features that are not finite are refused by name
        drawn = draw(config, sets, inputs, rng)
    auto = isinstance(drawn, Auto)  # which is drawn for standardised inputs
    if config.standardize or auto:
        basis = Scaled(drawn, inputs.shift, inputs.scale)
    else:
        basis = Scaled(drawn, np.zeros(sets.n_inputs), np.ones(sets.n_inputs))
    power = POWER
    if not auto:
        power = float(np.mean(np.sum(features(basis, inputs.sample) ** 2, axis=1)))
    start = Hyperparameters(*np.exp(rng.standard_normal(2)).tolist())
    return Prepared(basis, power if 0 < power < math.inf else 1.0, start, sets.input_names)


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
        design: Theirs under `prepared.basis`.
        start: The model before the last label: where Adam begins. Without it, the random start.
        noise_std: Known noise of each measurement, beside that of its individuals, in user's units.
        learned: The basis, λ and β that were learned from these totals before, to be used again.
    """
    learner = (start or prepared).basis
    with np.errstate(all="ignore"):  # what overflows is refused by name
        seen = _seen(config, prepared, design, y_bar, noise_std)
        basis, hyper = learned or (prepared.basis, _before(config, prepared, start))
        found = learned is not None
        if learner.learns:
            assert labelled is not None  # it learns from individuals
            if learned is None:
                network = cast("NeuralBasis", learner.basis)
                trained, hyper = _train(config, network, basis, labelled, seen, hyper)
                basis = replace(basis, basis=trained)
            if learner.committee:
                n_members = features(basis, np.zeros((1, labelled.n_inputs))).shape[1]
                members = posterior.committee(n_members, hyper.noise_precision, seen.scale)
                return Model(basis, members, seen.offset, None, None, prepared.input_names)
            design = embed(labelled, basis)
            found = found or config.hyperparameters == "adam"  # along with the network
        auto = learner.basis if isinstance(learner.basis, Auto) else None
        choice = None if auto is None else _choose(config, auto, design, seen)
        if choice is not None:
            if not np.isfinite(choice.probability).all():
                raise _beyond_doubles(y_bar)
            design = replace(design, u=design.u * choice.amplitude)
        spectrum, hyper = _decompose(config, design, seen, hyper, choice is not None, found=found)
        value = evidence.log_evidence(spectrum, hyper)
        value -= len(design) * float(np.log(seen.scale).sum())
        amplitude = None if choice is None else choice.amplitude
        fitted = posterior.condition(spectrum, hyper, seen.scale, amplitude)
    if not (np.isfinite(value) and np.isfinite(fitted.mean).all()):
        raise _beyond_doubles(y_bar)
    return Model(basis, fitted, seen.offset, spectrum, value, prepared.input_names, choice)


def _beyond_doubles(y_bar: Float[np.ndarray, "t M"]) -> LabelError:
    return LabelError(
        f"totals from {y_bar.min():.3g} to {y_bar.max():.3g} cannot be computed with: their "
        "squares, or those of the weights or of noise_std, leave the range of double precision. "
        "Is one of them mistyped? Otherwise rescale them."
    )


# --- helpers ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """The labels in the model's units, and how to get there."""

    totals: Float[np.ndarray, "t M"]
    noise_std: Float[np.ndarray, " t"] | None  # known noise, if there is any
    offset: Float[np.ndarray, " M"]
    scale: Float[np.ndarray, " M"]
    prior: evidence.WeakPrior  # centred on their size


def _seen(
    config: ModelConfig,
    prepared: Prepared,
    design: Design,
    y_bar: Float[np.ndarray, "t M"],
    noise_std: Float[np.ndarray, " t"] | None,
) -> _Seen:
    offset, scale = np.zeros(y_bar.shape[1]), np.ones(y_bar.shape[1])
    known = noise_std if noise_std is not None and noise_std.any() else None
    weighed, spread, least = design, 0.0, 0.0
    if known is not None:
        if y_bar.shape[1] != 1:
            raise SettingError(
                "known measurement noise (noise_std) works with one output, and there are "
                f"{y_bar.shape[1]}; fit a model for each, or leave noise_std out"
            )
        weighed, spread = known_noise.weighing(design, y_bar, known, config.hyperparameters)
    if config.standardize and config.hyperparameters != "adam":
        offset = scaling.offset_of(weighed, y_bar)
    inside = scaling.centred(design, y_bar, offset)
    if config.standardize and isinstance(config.hyperparameters, str):
        scale = scaling.scale_of(weighed, inside, offset)  # given numbers are in user's units
        scale = np.maximum(scale, spread)
    inside = inside / scale
    if known is not None:
        known = known / scale
        least = float((spread / scale[0]) ** 2) * max(1, len(design) - 1) / len(design)
    if not np.isfinite(inside).all() or (known is not None and not np.isfinite(known**2).all()):
        raise _beyond_doubles(y_bar)
    return _Seen(inside, known, offset, scale, _weak_prior(prepared, weighed, inside, least))


def _choose(config: ModelConfig, basis: Auto, design: Design, seen: _Seen) -> averaging.Choice:
    fixed = None
    if not isinstance(config.hyperparameters, str):
        fixed = Hyperparameters(*config.hyperparameters)
    return averaging.choose(
        basis,
        design,
        seen.totals,
        seen.noise_std,
        seen.prior,
        fixed=fixed,
        use_prior=config.evidence_prior,
    )


def _decompose(
    config: ModelConfig,
    design: Design,
    seen: _Seen,
    hyper: Hyperparameters,
    averaged: bool,
    *,
    found: bool,
) -> tuple[Spectrum, Hyperparameters]:
    """The labelled sets decomposed, and λ and β: `hyper` if they are found already or given."""
    averaged = averaged and config.hyperparameters == "evidence" and config.evidence_prior
    if seen.noise_std is not None:
        if not found:
            args = (design, seen.totals, seen.noise_std, hyper, seen.prior)
            hyper = known_noise.search(*args, config.hyperparameters, config.evidence_prior)
        if not found and averaged:  # means around the maximum, where r is worth so many s
            near = design.with_known_noise(seen.noise_std, hyper.noise_precision)
            hyper = averaging.typical(posterior.decompose(near, seen.totals), seen.prior)
        design = design.with_known_noise(seen.noise_std, hyper.noise_precision)
        return posterior.decompose(design, seen.totals), hyper
    spectrum = posterior.decompose(design, seen.totals)
    if not found and averaged:
        hyper = averaging.typical(spectrum, seen.prior)
    elif not found and config.hyperparameters == "evidence":
        hyper = evidence.maximise(spectrum, seen.prior, use_prior=config.evidence_prior)
    if not found and config.hyperparameters == "adam":
        hyper = evidence.adam(spectrum, hyper)
    return spectrum, hyper


def _before(config: ModelConfig, prepared: Prepared, start: Model | None) -> Hyperparameters:
    """λ and β that a search begins with."""
    if not isinstance(config.hyperparameters, str):
        return Hyperparameters(*config.hyperparameters)
    if start is not None:
        return start.posterior.hyper
    if config.hyperparameters == "adam":
        return prepared.start
    centre = _weak_prior(prepared, None, np.empty((0, 1)))
    return Hyperparameters(
        math.exp(centre.log_prior_precision), math.exp(centre.log_noise_precision)
    )


def _train(
    config: ModelConfig,
    learner: NeuralBasis,
    scaled: Scaled,
    labelled: Sets,
    seen: _Seen,
    hyper: Hyperparameters,
) -> tuple[NeuralBasis, Hyperparameters]:
    """The basis, and λ and β, that have learned from the labels."""
    n_outputs, prior = seen.totals.shape[1], seen.prior
    if learner.committee and n_outputs != 1:
        raise SettingError(
            f"a dropout network has one output and was given {n_outputs}; fit a model for "
            "each, or use basis='neural' without dropout"
        )
    if not len(labelled):
        return learner, hyper
    fixed, pull = not isinstance(config.hyperparameters, str), None
    if config.hyperparameters == "evidence" and config.evidence_prior:
        centre = np.array([prior.log_prior_precision, prior.log_noise_precision])
        pull = (centre, prior.std**-2)
    standard = replace(labelled, x=(labelled.x - scaled.shift) / scaled.scale)
    trained, log_precisions = learner.train(
        standard,
        seen.totals,
        np.log([hyper.prior_precision, hyper.noise_precision]),
        pull=pull,
        fixed=fixed,
        noise_std=seen.noise_std,
    )
    if fixed:
        return trained, hyper  # to the bit
    return trained, Hyperparameters(*np.exp(log_precisions).tolist())


def _weak_prior(
    prepared: Prepared,
    design: Design | None,
    inside: Float[np.ndarray, "t M"],
    least: float = 0.0,
) -> evidence.WeakPrior:
    """Centred where an individual's prior variance is that of the labels, a tenth of it noise.

    Args:
        least: What is taken for that variance if the labels, being blurred, show less by chance.
    """
    power = 0.0 if design is None else float((inside**2 / design.noise_scale[:, None]).sum())
    variance = power / inside.size if inside.size and 0 < power < math.inf else 1.0
    variance = max(variance, least if math.isfinite(least) else 0.0)
    level = math.log(prepared.power / variance)
    if isinstance(prepared.basis.basis, Auto):
        noise = -math.log(averaging.NOISE_SHARE * variance)
        return evidence.WeakPrior(level, noise, averaging.PRIOR_STD)
    return evidence.WeakPrior(level, -math.log(TYPICAL_NOISE_SHARE * variance))
