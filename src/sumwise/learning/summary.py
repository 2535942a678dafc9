"""A fitted model in words: what it is made of, and why."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from sumwise.model.averaging import Choice
from sumwise.model.basis.auto import CANDIDATES, LENGTHSCALES, SCALINGS, Candidate
from sumwise.model.fit import Model
from sumwise.util.text import count, shown

MOST_INPUTS: Final = 5  # named in the summary
LEAST_LINEAR: Final = 0.05  # below this share, the inputs of the linear part say little
SCALED: Final = {
    "range": "inputs scaled to their range",
    "squash": "inputs with far values drawn in",
}


def summary(model: Model, lengthscale: float) -> tuple[str, ...]:
    """Lines that say what the model is and how the answers chose it.

    Args:
        lengthscale: Factor of the candidates' length-scales.
    """
    labels = None if model.spectrum is None else model.spectrum.n_labels
    lines = []
    if model.choice is not None:
        lines += _chosen(model.choice, labels or 0, model.input_names, lengthscale)
    else:
        lines.append(f"Basis: {type(model.basis.basis).__name__}, fixed, not chosen by answers.")
    posterior = model.posterior
    if labels:
        noise = posterior.output_scale / np.sqrt(posterior.noise_precision)
        each = ", ".join(f"{value:.3g}" for value in noise)
        lines.append(f"An individual's own noise is ± {each} (standard deviation).")
    if labels and model.log_evidence is not None:
        lines.append(f"Log evidence of {count(labels, 'answer')}: {model.log_evidence:.4g}.")
    return tuple(lines)


def _chosen(
    choice: Choice, labels: int, names: tuple[Hashable, ...] | None, unit: float
) -> list[str]:
    if not labels:
        return [
            f"Basis: the average of {len(CANDIDATES)} candidates, all alike before any answer "
            "(linear parts, three length-scales, two scalings of the inputs)."
        ]
    order = np.argsort(-choice.probability, kind="stable")
    first, second = (CANDIDATES[i] for i in order[:2])
    chances = choice.probability[order[:2]]
    lengths = ", ".join(
        f"{100 * choice.of_lengthscale(length):.0f} % at {unit * length:g}√D"
        for length in LENGTHSCALES
    )
    scalings = ", ".join(f"{100 * choice.of_scaling(s):.0f} % {SCALED[s]}" for s in SCALINGS)
    return [
        f"Basis: the average of {len(CANDIDATES)} candidates, weighed by how well each explains "
        f"the answers (its evidence).",
        f"Linear in the inputs: {100 * choice.linear:.0f} % of what varies.",
        *_rests_on(choice, names),
        f"Length-scales of the rest, D being the number of inputs: {lengths}.",
        f"Scaling: {scalings}.",
        f"Most likely is {_name(first, unit)} (probability {chances[0]:.2f}), next "
        f"{_name(second, unit)} ({chances[1]:.2f}).",
    ]


def _rests_on(choice: Choice, names: tuple[Hashable, ...] | None) -> list[str]:
    """Each input's part of the linear variance; inputs without names are counted from 1."""
    n_inputs = len(choice.relevance)
    if n_inputs == 1 or choice.linear < LEAST_LINEAR:
        return []
    called = names or tuple(f"input {d + 1}" for d in range(n_inputs))
    percent = 100 * choice.relevance / n_inputs
    order = np.argsort(-percent, kind="stable")[:MOST_INPUTS]
    parts = [f"{shown(called[d])} ({percent[d]:.0f} %)" for d in order]
    if n_inputs > len(order):
        rest = n_inputs - len(order)
        others = "one more input" if rest == 1 else f"{rest} more inputs"
        parts.append(f"{others} ({np.delete(percent, order).sum():.0f} %)")
    return [f"The linear part rests on {', '.join(parts)}."]


def _name(candidate: Candidate, unit: float) -> str:
    scaled = SCALED[candidate.scaling]
    if candidate.lengthscale is None:
        return f"a linear model of {scaled}"
    linear = f"{100 * candidate.linear:.0f} % linear" if candidate.linear else "not linear"
    return f"length-scale {unit * candidate.lengthscale:g}√D, {linear}, {scaled}"
