"""A fitted model: basis, hyperparameters, posterior, and the way back to the user's units.

A basis is fixed once drawn, or it learns from the totals as well (`Trainable`): then fitting it
comes first, and what follows is the same.

Under `"adam"` there is no offset: as in the paper, the bias feature carries the level. Centred, a
few labels look like noise alone and Adam drifts there (after 10 questions on Michigan's schools the
error was 19.7, and 17.0 without an offset; mean of 6 seeds).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sumwise import evidence, known_noise, posterior, scaling
from sumwise.basis import Basis, Neural, Scaled, Trainable, draw
from sumwise.design import Design, blocks, embed, features
from sumwise.errors import InvalidSetError, LabelError, SettingError
from sumwise.posterior import Hyperparameters, Posterior, Spectrum
from sumwise.sets import Sets
from sumwise.shapes import Float

TYPICAL_NOISE_SHARE = 0.1  # of an individual's variance: where the weak prior on β is centred


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Settings of a model; see `AggregateRegressor` for what they mean."""

    basis: str | Basis | Neural = "fourier"
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


def check_seed(seed: Any, name: str, *, or_none: bool = False) -> None:
    """Seeds are whole numbers, so that a run can be repeated from what was written down."""
    if or_none and seed is None:
        return
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise SettingError(f"{name} is {seed!r}; give a whole number of at least 0")


def prepare(config: ModelConfig, sets: Sets) -> Prepared:
    """Draw the basis and take the scaling of inputs from `sets`."""
    rng = np.random.default_rng(config.random_state)
    shift, scale = np.zeros(sets.n_inputs), np.ones(sets.n_inputs)
    if config.standardize and len(sets):
        shift, scale = scaling.location_and_spread(sets.x)
    drawn = draw(
        config.basis,
        sets,
        n_basis=config.n_basis,
        lengthscale=config.lengthscale,
        degree=config.degree,
        rng=rng,
    )
    basis = Scaled(drawn, shift, scale)
    some = sets.x[:: max(1, len(sets.x) // 128)] if len(sets) else np.zeros((1, sets.n_inputs))
    power = float(np.mean(np.sum(features(basis, some) ** 2, axis=1)))
    start = Hyperparameters(*np.exp(rng.standard_normal(2)).tolist())
    return Prepared(basis, power if 0 < power < math.inf else 1.0, start, sets.input_names)


def fit(
    config: ModelConfig,
    prepared: Prepared,
    labelled: Sets,
    design: Design,
    y_bar: Float[np.ndarray, "t M"],
    start: Model | None = None,
    *,
    noise_std: Float[np.ndarray, " t"] | None = None,
    learned: tuple[Scaled, Hyperparameters] | None = None,
) -> Model:
    """The model after one total for each of the `labelled` sets.

    Args:
        design: Theirs under `prepared.basis`.
        start: The model before the last label: where Adam begins. Without it, the random start.
        noise_std: Known noise of each measurement, beside that of its individuals, in user's units.
        learned: The basis, λ and β that were learned from these totals before, to be used again.
    """
    offset, scale = np.zeros(y_bar.shape[1]), np.ones(y_bar.shape[1])
    learner = (start or prepared).basis.basis
    blur = _blur(learner, y_bar, noise_std)
    with np.errstate(all="ignore"):  # what overflows is refused by name
        weighed = design
        if blur is not None:
            weighed = known_noise.weighing(design, y_bar, blur, config.hyperparameters)
        if config.standardize and config.hyperparameters != "adam":
            offset = scaling.offset_of(weighed, y_bar)
        inside = scaling.centred(design, y_bar, offset)
        if config.standardize and isinstance(config.hyperparameters, str):
            scale = scaling.scale_of(weighed, inside, offset)  # given numbers are in user's units
        inside = inside / scale
        if not np.isfinite(inside).all():
            raise _beyond_doubles(y_bar)
        basis, hyper = prepared.basis, _before(config, prepared, start)
        prior = _weak_prior(prepared, weighed, inside)
        if learned is not None:
            basis, hyper = learned
        if isinstance(learner, Trainable):
            if learned is None:
                trained, hyper = _train(config, learner, basis, labelled, inside, hyper, prior)
                basis = replace(basis, basis=trained)
            if learner.committee:
                n_members = features(basis, np.zeros((1, labelled.n_inputs))).shape[1]
                members = posterior.committee(n_members, hyper.noise_precision, scale)
                return Model(basis, members, offset, None, None, prepared.input_names)
            design = embed(labelled, basis)
        if blur is not None:
            if learned is None:
                how = (config.hyperparameters, config.evidence_prior)
                hyper = known_noise.search(design, inside, blur / scale, hyper, prior, *how)
            design = known_noise.blurred(design, blur / scale, hyper.noise_precision)
        spectrum = posterior.decompose(design, inside)
        if blur is not None or learned is not None:
            pass  # λ and β are found
        elif config.hyperparameters == "evidence":
            hyper = evidence.maximise(spectrum, prior, use_prior=config.evidence_prior)
        elif config.hyperparameters == "adam" and not isinstance(learner, Trainable):
            hyper = evidence.adam(spectrum, hyper)
        value = evidence.log_evidence(spectrum, hyper) - len(design) * float(np.log(scale).sum())
        fitted = posterior.condition(spectrum, hyper, scale)
    if not (np.isfinite(value) and np.isfinite(fitted.mean).all()):
        raise _beyond_doubles(y_bar)
    return Model(basis, fitted, offset, spectrum, value, prepared.input_names)


def _beyond_doubles(y_bar: Float[np.ndarray, "t M"]) -> LabelError:
    return LabelError(
        f"totals from {y_bar.min():.3g} to {y_bar.max():.3g} cannot be computed with: their "
        "squares, or those of the weights, leave the range of double precision. Is one of "
        "them mistyped? Otherwise rescale them."
    )


def predict_mean(model: Model, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N M"]:
    """Mean of each individual's output (Eq. 23)."""
    mean = np.empty((len(x), model.posterior.n_outputs))
    for low, high in blocks(x, model.basis):
        with np.errstate(all="ignore"):
            mean[low:high] = features_of(model, x[low:high]) @ model.posterior.mean
    return finite_rows(model.offset + model.posterior.output_scale * mean)


def predict_std(
    model: Model, x: Float[np.ndarray, "N D"], *, include_noise: bool
) -> Float[np.ndarray, "N M"]:
    """Standard deviation of each individual's output (Eq. 23), its own noise included or not."""
    variance = np.empty(len(x))
    for low, high in blocks(x, model.basis):
        with np.errstate(all="ignore"):
            phi = features_of(model, x[low:high])
            variance[low:high] = model.posterior.variance_along(phi)
    if include_noise:
        variance += 1 / model.posterior.noise_precision
    return finite_rows(model.posterior.output_scale * np.sqrt(variance)[:, None])


def features_of(model: Model, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N K"]:
    """φ of every row, as many features as the model knows."""
    return features(model.basis, x, len(model.posterior.mean))


def finite_rows(values: Float[np.ndarray, "N M"]) -> Float[np.ndarray, "N M"]:
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0, 0])
        raise InvalidSetError(
            f"row {row} has no finite prediction: its inputs are too far from those the model was "
            "fitted on, or the basis is not defined there. Leave it out, or choose another basis."
        )
    return values


def check_inputs(known: Prepared | Model, sets: Sets) -> None:
    """Sets have the inputs that the scaling was taken from, by number and, if named, by name."""
    n_inputs = len(known.basis.shift)
    if sets.n_inputs != n_inputs:
        raise InvalidSetError(f"the sets have {sets.n_inputs} inputs; the model knows {n_inputs}")
    if None not in (sets.input_names, known.input_names) and sets.input_names != known.input_names:
        raise InvalidSetError(
            f"the sets have the inputs {sets.input_names}; the model knows {known.input_names}, in "
            "that order"
        )


def predict_sets(
    model: Model, design: Design, *, include_noise: bool
) -> tuple[Float[np.ndarray, "A M"], Float[np.ndarray, "A M"]]:
    """Mean and standard deviation of each set's total (Eq. 14)."""
    variance = model.posterior.variance_along(design.u)
    if include_noise:
        variance = variance + design.noise_scale / model.posterior.noise_precision
    scale = model.posterior.output_scale
    mean = design.theta_sum[:, None] * model.offset + scale * (design.u @ model.posterior.mean)
    return mean, scale * np.sqrt(variance)[:, None]


# --- helpers ----------------------------------------------------------------------------------


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


def _blur(
    learner: Basis, y_bar: Float[np.ndarray, "t M"], noise_std: Float[np.ndarray, " t"] | None
) -> Float[np.ndarray, " t"] | None:
    """Known noise, if there is any; refused where the maths has no place for it."""
    if noise_std is None or not noise_std.any():
        return None
    if isinstance(learner, Trainable) or y_bar.shape[1] != 1:
        raise SettingError(
            "known measurement noise (noise_std) works with a fixed basis and one output; choose "
            "'fourier', 'linear' or 'polynomial', or leave noise_std out"
        )
    return noise_std


def _train(
    config: ModelConfig,
    learner: Trainable,
    scaled: Scaled,
    labelled: Sets,
    inside: Float[np.ndarray, "t M"],
    hyper: Hyperparameters,
    prior: evidence.WeakPrior,
) -> tuple[Trainable, Hyperparameters]:
    """The basis, and λ and β, that have learned from the labels."""
    if learner.committee and inside.shape[1] != 1:
        raise SettingError(
            f"a dropout network has one output and was given {inside.shape[1]}; fit a model for "
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
        inside,
        np.log([hyper.prior_precision, hyper.noise_precision]),
        pull=pull,
        fixed=fixed,
    )
    if fixed:
        return trained, hyper  # to the bit
    return trained, Hyperparameters(*np.exp(log_precisions).tolist())


def _weak_prior(
    prepared: Prepared, design: Design | None, inside: Float[np.ndarray, "t M"]
) -> evidence.WeakPrior:
    """Centred where an individual's prior variance is that of the labels, a tenth of it noise."""
    power = 0.0 if design is None else float((inside**2 / design.noise_scale[:, None]).sum())
    variance = power / inside.size if inside.size and 0 < power < math.inf else 1.0
    return evidence.WeakPrior(
        math.log(prepared.power / variance), -math.log(TYPICAL_NOISE_SHARE * variance)
    )
