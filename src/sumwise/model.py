"""A fitted model: basis, hyperparameters, posterior, and the way back to the user's units.

Inputs are standardised with the mean and standard deviation of the instances of all sets.
Outputs are centred and scaled from the totals alone: with y = offset + scale · f(x),

    ȳ_a = offset Σθ_a + scale Σ_n θ_an f(x_an),

so the offset is the least-squares slope of ȳ on Σθ with weights 1/s, and the scale the root mean
square of what is left, per unit of √s. Inside, everything is in those units.

Under `"adam"` there is no offset: as in the paper, the bias feature carries the level. Centred, a
few labels look like noise alone and Adam drifts there (after 10 questions on Michigan's schools the
error was 19.7, and 17.0 without an offset; mean of 6 seeds).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sumwise import evidence, posterior
from sumwise.basis import Basis, Scaled, draw
from sumwise.design import Design, blocks, features
from sumwise.errors import InvalidSetError, LabelError, SettingError
from sumwise.posterior import Hyperparameters, Posterior, Spectrum
from sumwise.sets import Sets
from sumwise.shapes import Float

TYPICAL_NOISE_SHARE = 0.1  # of an individual's variance: where the weak prior on β is centred


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Settings of a model; see `AggregateRegressor` for what they mean."""

    basis: str | Basis = "fourier"
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
    spectrum: Spectrum
    log_evidence: float
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
        shift, scale = _location_and_spread(sets.x)
    drawn = draw(
        config.basis,
        sets.n_inputs,
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
    design: Design,
    y_bar: Float[np.ndarray, "t M"],
    start: Hyperparameters | None = None,
) -> Model:
    """The model after one total per row of `design`.

    Args:
        start: Where Adam begins: the previous question's values, or the random start.
    """
    offset, scale = np.zeros(y_bar.shape[1]), np.ones(y_bar.shape[1])
    if config.standardize and config.hyperparameters != "adam":
        offset = _offset(design, y_bar)
    with np.errstate(all="ignore"):  # what overflows is refused by name
        inside = _centred(design, y_bar, offset)
        if config.standardize and isinstance(config.hyperparameters, str):
            scale = _scale(design, inside, offset)  # given numbers are in the user's units
        inside = inside / scale
        if not np.isfinite(inside).all():
            raise _beyond_doubles(y_bar)
        spectrum = posterior.decompose(design, inside)
        hyper = _hyperparameters(config, prepared, spectrum, start)
        value = evidence.log_evidence(spectrum, hyper) - len(design) * float(np.log(scale).sum())
        fitted = posterior.condition(spectrum, hyper, scale)
    if not (np.isfinite(value) and np.isfinite(fitted.mean).all()):
        raise _beyond_doubles(y_bar)
    return Model(prepared.basis, fitted, offset, spectrum, value, prepared.input_names)


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
    return _finite_rows(model.offset + model.posterior.output_scale * mean)


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
    return _finite_rows(model.posterior.output_scale * np.sqrt(variance)[:, None])


def features_of(model: Model, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N K"]:
    """φ of every row, as many features as the model knows."""
    return features(model.basis, x, len(model.posterior.mean))


def _finite_rows(values: Float[np.ndarray, "N M"]) -> Float[np.ndarray, "N M"]:
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


def _location_and_spread(
    x: Float[np.ndarray, "N D"],
) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]]:
    """Mean and standard deviation of each column; a constant column gets 1."""
    peak = np.maximum(abs(x).max(axis=0), np.finfo(float).tiny)
    unit = x / peak  # so that huge and tiny inputs neither overflow nor vanish when squared
    mean, spread = unit.mean(axis=0), unit.std(axis=0)
    # a column that varies by rounding alone is divided by its size, which makes it vanish
    scale = np.where(spread > 1e-14, spread * peak, peak)
    return mean * peak, np.where(abs(x).max(axis=0) > 0, scale, 1.0)


def _offset(design: Design, y_bar: Float[np.ndarray, "t M"]) -> Float[np.ndarray, " M"]:
    pull = design.theta_sum / design.noise_scale
    total = float(pull @ design.theta_sum)
    return (pull @ y_bar) / total if total > 0 else np.zeros(y_bar.shape[1])


def _centred(
    design: Design, y_bar: Float[np.ndarray, "t M"], offset: Float[np.ndarray, " M"]
) -> Float[np.ndarray, "t M"]:
    """What the offset leaves of the totals; rounding is not taken for signal."""
    left = y_bar - design.theta_sum[:, None] * offset
    return np.where(abs(left) <= 1e-14 * abs(y_bar), 0.0, left)


def _scale(
    design: Design, left: Float[np.ndarray, "t M"], offset: Float[np.ndarray, " M"]
) -> Float[np.ndarray, " M"]:
    """Root mean square of what the offset leaves; the offset itself if it leaves nothing."""
    freedom = max(1, len(design) - 1)
    each = left / np.sqrt(design.noise_scale)[:, None]
    peak = abs(each).max(axis=0, initial=0.0)
    unit = each / np.where(peak > 0, peak, 1.0)  # whose squares neither overflow nor vanish
    root = peak * np.sqrt(np.sum(unit**2, axis=0) / freedom)
    return np.where(root > 0, root, np.where(offset != 0, abs(offset), 1.0))


def _hyperparameters(
    config: ModelConfig, prepared: Prepared, spectrum: Spectrum, start: Hyperparameters | None
) -> Hyperparameters:
    chosen = config.hyperparameters
    if not isinstance(chosen, str):
        return Hyperparameters(*chosen)
    if chosen == "adam":
        return evidence.adam(spectrum, start or prepared.start)
    return evidence.maximise(
        spectrum, _weak_prior(prepared, spectrum), use_prior=config.evidence_prior
    )


def _weak_prior(prepared: Prepared, spectrum: Spectrum) -> evidence.WeakPrior:
    """Centred where an individual's prior variance is that of the labels, a tenth of it noise."""
    n_pairs = spectrum.n_labels * spectrum.n_outputs
    power = float((spectrum.projected**2).sum()) + spectrum.residual_power
    variance = power / n_pairs if n_pairs and 0 < power < math.inf else 1.0
    return evidence.WeakPrior(
        math.log(prepared.power / variance), -math.log(TYPICAL_NOISE_SHARE * variance)
    )
