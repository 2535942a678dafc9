"""What a fitted model says of outputs: of individuals, and of sets' totals, in the user's units."""

from __future__ import annotations

import numpy as np

from sumwise.data.sets import Sets
from sumwise.errors import InvalidSetError
from sumwise.model.design import Design, blocks, features
from sumwise.model.fit import Model, Prepared
from sumwise.model.posterior import BLOCK
from sumwise.util.shapes import Float


def predict_sets(
    model: Model, design: Design, *, include_noise: bool
) -> tuple[Float[np.ndarray, "A M"], Float[np.ndarray, "A M"]]:
    """Mean and standard deviation of each set's total (Eq. 14)."""
    variance = model.posterior.variance_along(design.u)
    if include_noise:
        variance = variance + design.noise_scale / model.posterior.noise_precision
    scale = model.posterior.output_scale
    total = np.empty((len(design), model.posterior.n_outputs))
    for low in range(0, len(design), BLOCK):  # of a design in single precision no copy is made
        total[low : low + BLOCK] = design.u[low : low + BLOCK] @ model.posterior.mean
    mean = design.theta_sum[:, None] * model.offset + scale * total
    return mean, scale * np.sqrt(variance)[:, None]


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
