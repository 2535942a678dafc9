"""A fitted model in words: what it is made of, and why."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from sumwise.data.recipe import Recipe
from sumwise.model.basis.auto import SCALINGS, Auto
from sumwise.model.basis.spatial import EARTH, Spatial
from sumwise.model.fit import Model
from sumwise.model.generalised.averaging import Generalised
from sumwise.model.mixture import Mixture
from sumwise.util.shapes import Float
from sumwise.util.text import count, shown

MOST_INPUTS: Final = 5  # named in the summary
LEAST_LINEAR: Final = 0.05  # below this share, the inputs of the linear part say little
LIKELIHOOD: Final = {
    "counts": "negative binomial with a log link",
    "shares": "binomial with a logit link and overdispersion",
    "amounts": "log-normal with a log link",
}
SCALED: Final = {
    "range": "inputs scaled to their range",
    "squash": "inputs with far values drawn in",
}


def summary(model: Model, lengthscale: float, recipe: Recipe | None = None) -> tuple[str, ...]:
    """Lines that say what the model is and how the answers chose it.

    Args:
        lengthscale: Factor of the hypotheses' length-scales.
        recipe: How inputs were made of the user's columns, if they are not those.
    """
    labels = len(model.labelled.design) if model.labelled is not None else 0
    lines = []
    if model.generalised is not None:
        lines += _generalised(model, model.generalised, labels)
        basis = model.basis.tangent.scaled.basis
        if labels and isinstance(basis, Auto):
            shares, learned = of_groups(model.generalised, basis), model.generalised.mean**2
            lines += _shape(basis, shares, learned, lengthscale, recipe or model.input_names)
    elif model.mixture is not None:
        lines += _mixed(model, model.mixture, labels, lengthscale, recipe)
    else:
        lines.append(f"Basis: {type(model.basis.basis).__name__}, fixed, not chosen by answers.")
    if labels and model.mixture is None and model.generalised is None:
        posterior = model.posterior
        each = _listed(posterior.output_scale / np.sqrt(posterior.noise_precision))
        lines.append(f"An individual's own noise is ± {each} (standard deviation).")
    if labels and model.log_evidence is not None:
        lines.append(f"Log evidence of {count(labels, 'answer')}: {model.log_evidence:.4g}.")
    return tuple(lines)


def _generalised(model: Model, known: Generalised, labels: int) -> list[str]:
    """Of counts, shares or amounts. What varies between individuals does so on the scale of η."""
    kind, n = known.likelihood.name, len(known.probability)
    still = f"a mixture of {n} hypotheses, weighed by how well each explains the answers"
    still = still if n > 1 else "one hypothesis"
    lines = [f"Model of {kind}: {LIKELIHOOD[kind]}; {still}."]
    if not labels:
        return lines
    phi, odds = known.measured.phi, known.likelihood.capped
    phi = phi - phi.mean(axis=0)
    signal = float(np.var(phi @ known.mean) + model.posterior.variance_along(phi).mean())
    own, effect = known.dispersion if odds else np.log1p(known.dispersion), known.effect
    percent = 100 * np.array([signal, own, effect]) / max(signal + own + effect, 1e-300)
    overall = float(known.likelihood.mean(np.array(known.level)))
    each, scale = ("trial", "odds") if odds else ("unit of exposure", "rates")
    each = "individual" if (known.measured.exposure == 1).all() else each
    return [
        *lines,
        f"All answers together are {overall:.3g} per {each}.",
        f"Of what varies between individuals in the logarithm of their {scale}, {percent[0]:.0f} % "
        f"is explained by the inputs, {percent[1]:.0f} % is their own and {percent[2]:.0f} % is "
        "shared by their set.",
        f"{scale.capitalize()} of individuals with the same inputs differ by {_factor(own)}, and "
        f"those of sets by {_factor(effect)} (one standard deviation)"
        + ("." if kind == "amounts" else "; chance adds to that."),
    ]


def _factor(variance: float) -> str:
    """A standard deviation of logarithms as what it multiplies or divides by.

    >>> _factor(0.01), _factor(1.0)
    ('11 %', 'a factor of 2.7')
    """
    factor = float(np.exp(np.sqrt(variance)))
    return f"{100 * (factor - 1):.0f} %" if factor < 1.5 else f"a factor of {factor:.2g}"


def _listed(values: Float[np.ndarray, " M"]) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


def _mixed(
    model: Model, mixed: Mixture, labels: int, unit: float, recipe: Recipe | None
) -> list[str]:
    if not labels:
        return [
            f"Model: a mixture of {len(mixed.probability)} hypotheses, all equally likely before "
            "any answer (linear parts, curves, length-scales, two scalings of inputs, noise, "
            "effects of sets)."
        ]
    shares, basis = powers(mixed), model.basis.basis
    assert isinstance(basis, Auto)  # a mixture has no other
    signal = float(shares[:-1].sum())
    noise, effect = model.posterior.output_scale * np.sqrt(mixed.noise)
    lines = [
        f"Model: a mixture of hypotheses ({len(mixed.probability)} are still likely), weighed by "
        "how well each explains the answers (its evidence).",
        f"Of what varies between individuals, {100 * signal:.0f} % is explained by the inputs and "
        f"{100 * (1 - signal):.0f} % is noise.",
        f"Noise of an individual: ± {_listed(noise)}; members of a set share an effect of ± "
        f"{_listed(effect)} (standard deviations).",
    ]
    learned = (model.posterior.mean**2).mean(axis=1)
    return lines + _shape(basis, shares, learned, unit, recipe or model.input_names)


def _shape(
    basis: Auto,
    shares: Float[np.ndarray, " G"],
    learned: Float[np.ndarray, " K"],
    unit: float,
    inputs: Recipe | tuple[Hashable, ...] | None,
) -> list[str]:
    """What the part that inputs explain is made of.

    Args:
        shares: The variance that each group of features has, the level last.
        learned: Squares of the coefficients.
        inputs: Their names, or how they were made of the user's columns.
    """
    power, lengths = basis.hypotheses.power, basis.lengths
    linear, rest = shares[: power.size].reshape(power.shape), shares[power.size : -1]
    signal, lines = float(linear.sum() + rest.sum()), list[str]()
    if signal <= 0:
        return lines
    if basis.spatial is not None:
        rest, place = np.split(rest, [-basis.spatial.lengths.shape[1]])
        lines.append(_of_place(place / signal, basis.spatial))
        signal = max(float(linear.sum() + rest.sum()), 1e-300)
    waves, curves = np.split(rest.reshape(2, -1), [lengths.shape[1]], axis=1)
    straight, bent, joint = (100 * part.sum() / signal for part in (linear, curves, waves))
    lines.append(
        f"Of {'the rest' if lines else 'what they explain'}, {straight:.0f} % is linear, "
        f"{bent:.0f} % are curves of single "
        f"inputs and {joint:.0f} % is smooth in all of them together."
    )
    if linear.sum() > LEAST_LINEAR * signal:
        each = (learned[: power.size].reshape(power.shape) * power).sum(axis=0)
        names = inputs if not isinstance(inputs, Recipe) else inputs.names
        if isinstance(inputs, Recipe):
            each = np.bincount(inputs.source_of, each)
        lines += _rests_on(each, names)
    if waves.sum() > 0:
        parts = 100 * waves.sum(axis=0) / waves.sum()
        said = ", ".join(
            f"{part:.0f} % at {unit * length:g}√D"
            for part, length in zip(parts, lengths[0].tolist(), strict=True)
        )
        lines.append(f"Length-scales of the last, D being the number of inputs: {said}.")
    by_scaling = 100 * (linear.sum(axis=1) + rest.reshape(2, -1).sum(axis=1)) / signal
    scalings = (f"{part:.0f} % {SCALED[s]}" for s, part in zip(SCALINGS, by_scaling, strict=True))
    lines.append(f"Scaling: {', '.join(scalings)}.")
    return lines


def _of_place(part: Float[np.ndarray, " L"], place: Spatial) -> str:
    """What share is smooth in the position alone, and over which distances."""
    unit, called = (EARTH, " km") if len(place.centre) == 3 else (1.0, "")
    far = place.lengths[0] * place.extent * unit
    shares = zip(100 * part / max(part.sum(), 1e-300), far, strict=True)
    said = ", ".join(f"{share:.0f} % at {length:.3g}{called}" for share, length in shares)
    share = f"{100 * part.sum():.0f} % is smooth in the position alone"
    return f"Of what they explain, {share} (length-scales: {said})."


def of_groups(known: Generalised, basis: Auto) -> Float[np.ndarray, " G"]:
    """The same of counts, shares and amounts, in units of the predictor's variance."""
    first = known.posteriors.priors.variances[:, [at.start for at in basis.groups]]
    linear = basis.hypotheses.power.ravel()
    return (known.probability @ first) * np.append(linear, np.ones(first.shape[1] - len(linear)))


def powers(mixed: Mixture) -> Float[np.ndarray, " G"]:
    """Share of an individual's variance that each group of features has, over the mixture.

    A linear feature has the power its hypotheses were drawn for; other groups have a power of 1.
    """
    linear = mixed.hypotheses.power.ravel()
    power = np.append(linear, np.ones(mixed.hypotheses.variances.shape[1] - len(linear)))
    return (mixed.probability @ mixed.hypotheses.variances) * power


def _rests_on(linear: Float[np.ndarray, " D"], names: tuple[Hashable, ...] | None) -> list[str]:
    """Each input's part of what the linear part has learned, as a share of its variance.

    Inputs without names are counted from 1.
    """
    n_inputs = len(linear)
    if n_inputs == 1 or not linear.sum() > 0:
        return []
    called = names or tuple(f"input {d + 1}" for d in range(n_inputs))
    percent = 100 * linear / linear.sum()
    order = np.argsort(-percent, kind="stable")[:MOST_INPUTS]
    parts = [f"{shown(called[d])} ({percent[d]:.0f} %)" for d in order]
    if n_inputs > len(order):
        rest = n_inputs - len(order)
        others = "one more input" if rest == 1 else f"{rest} more inputs"
        parts.append(f"{others} ({np.delete(percent, order).sum():.0f} %)")
    return [f"The linear part rests on {', '.join(parts)}."]
