"""What cannot be the total of counts, shares or amounts, said where it is told."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sumwise.errors import InvalidSetError, LabelError, SettingError
from sumwise.model.basis.neural_config import Neural
from sumwise.model.generalised.likelihoods import LIKELIHOODS, Likelihood
from sumwise.util.shapes import Float

if TYPE_CHECKING:
    from sumwise.data.sets import Sets

LEAST_PRECISION: Final = 1e-3  # λ: below, a feature of 1 makes rates e³⁰ times as high
OUTPUTS: Final = ("numbers", *LIKELIHOODS)
LARGEST: Final = 2.0**53  # of a count: beyond, not every whole number is a double
STEEPEST: Final = 1e100  # of a total per exposure, or one over that: its square is still a number
WHOLE: Final = 1e-9  # of a count: how far from whole what was added up elsewhere may be
WANTED: Final = {"counts": "count", "shares": "number of successes", "amounts": "total"}
EXPOSURE: Final = {"counts": "exposure", "shares": "number of trials", "amounts": "exposure"}


def check_outputs(outputs: Any) -> str:
    """The name of a kind of output."""
    if not isinstance(outputs, str) or outputs not in OUTPUTS:
        raise SettingError(f"outputs is {outputs!r:.60}; give one of {', '.join(OUTPUTS)}")
    return outputs


def check_settings(outputs: Any, basis: Any, hyperparameters: Any) -> None:
    """Refuse settings that go with plain numbers only."""
    kind = check_outputs(outputs)
    neural = isinstance(basis, Neural) or (isinstance(basis, str) and basis == "neural")
    if neural or hasattr(basis, "__equinox_module__") or type(basis).__module__ == "equinox":
        raise SettingError(
            f"a neural basis learns from numbers, not from {kind}; use basis='auto' or another "
            "basis, or outputs='numbers'"
        )
    if isinstance(hyperparameters, str) and hyperparameters == "adam":
        raise SettingError(
            f"'adam' searches λ and β of plain numbers, not of {kind}; use "
            "hyperparameters='evidence', or outputs='numbers'"
        )


def check_prior(outputs: str, prior_precision: float) -> None:
    """Refuse a λ whose outputs would be beyond all numbers."""
    if outputs != "numbers" and prior_precision < LEAST_PRECISION:
        raise SettingError(
            f"λ is {prior_precision:g}; for {outputs} it is the precision of w on the scale of "
            f"logarithms or logits, and must be at least {LEAST_PRECISION:g}"
        )


def refuse_noise(outputs: str, what: str = "noise_std") -> None:
    """Refuse known noise beside that of the outputs themselves."""
    if outputs != "numbers":
        raise SettingError(
            f"{what} is noise of plain numbers; {outputs} have noise of their own, which is "
            "estimated. Leave it out, or use outputs='numbers'"
        )


def check_sets(outputs: str, sets: Sets, where: Callable[[int], str] | None = None) -> None:
    """Refuse weights that cannot be exposures, and sets that overlap.

    Args:
        where: Gives the place of a row in words, if it comes from a file.
    """
    if outputs == "numbers":
        return
    if sets.members is not None:
        raise SettingError(
            f"sets that share individuals are for plain numbers, not for {outputs}; give each "
            "individual to one set, or use outputs='numbers'"
        )
    theta, name = sets.theta, EXPOSURE[outputs]
    means = len(theta) and np.array_equal(theta, np.repeat(1.0 / sets.sizes, sets.sizes))
    if means and (sets.sizes > 1).any():
        raise SettingError(
            f"outputs={outputs!r} takes the {WANTED[outputs]} of a set, not a mean: make the sets "
            "without weights='mean', and tell that"
        )
    for row in np.flatnonzero(~_usable(outputs, theta)).tolist():
        owner = int(np.searchsorted(sets.starts, row, side="right")) - 1
        place = f"individual {row - sets.starts[owner] + 1} of set {sets.ids[owner]!r:.80}"
        raise InvalidSetError(
            f"{place if where is None else where(row)}: the {name} is {theta[row]:g}; it must "
            f"be {_must(outputs, theta[row])} for outputs={outputs!r}. Correct it, or drop the row."
        )


def refuse_exposures(
    outputs: str, theta: Float[np.ndarray, " N"], where: Callable[[int], str]
) -> None:
    """Refuse weights that cannot be exposures.

    Args:
        where: Says what has the weight with this number.
    """
    for row in np.flatnonzero(~_usable(outputs, theta)).tolist():
        raise InvalidSetError(
            f"{where(row)} has the {EXPOSURE[outputs]} {theta[row]:g}; it must be "
            f"{_must(outputs, theta[row])} for outputs={outputs!r}. Drop the row or correct it."
        )


def _usable(outputs: str, theta: Float[np.ndarray, " N"]) -> np.ndarray:
    if outputs == "shares":
        return (theta > 0) & (theta <= LARGEST) & (theta == np.rint(theta))
    return (theta >= 1 / STEEPEST) & (theta <= STEEPEST)


def _must(outputs: str, value: float) -> str:
    """What an exposure that is not usable should be."""
    if outputs == "shares":
        return f"at most {LARGEST:.0f}" if value > LARGEST else "a whole number above 0"
    return "above 0" if value <= 0 else f"from {1 / STEEPEST:g} to {STEEPEST:g}"


def check_features(phi: Float[np.ndarray, "N K"]) -> None:
    """Refuse features whose squares are beyond all numbers."""
    if (most := float(np.abs(phi).max(initial=0.0))) > STEEPEST:
        raise SettingError(
            f"the basis gives a feature of {most:g}, whose square is too large. Rescale "
            "the inputs (standardize=True does) or choose another basis"
        )


def check_total(likelihood: Likelihood, set_id: Hashable, total: float, exposure: float) -> None:
    """Refuse a total that no outputs of this kind add up to."""
    kind, of = likelihood.name, f"the total of set {set_id!r:.80} is {total:.12g}"
    if kind == "amounts" and not total > 0:
        raise LabelError(f"{of}; amounts are above 0. Is it mistyped, or was nothing measured?")
    least = exposure / STEEPEST if kind == "amounts" else -math.inf
    most = exposure * STEEPEST if kind == "amounts" else min(exposure * STEEPEST, LARGEST)
    if not least <= total <= most:
        raise LabelError(
            f"{of}, which is too extreme to use (exposures are known: this set has "
            f"{exposure:.9g}). Is it mistyped? Otherwise rescale it, or the exposures"
        )
    if kind == "amounts":
        return
    if total < 0:
        raise LabelError(f"{of}; a count is at least 0. Is it mistyped?")
    if abs(total - round(total)) > WHOLE * max(1.0, total):
        raise LabelError(
            f"{of}, which is not a whole number: give the count, not the rate or the share "
            f"({'trials' if kind == 'shares' else 'exposures'} are known: this set has "
            f"{exposure:.9g})"
        )
    if likelihood.capped and total > exposure:
        raise LabelError(
            f"{of}, and it has {exposure:.9g} trials: there are more successes than trials. Is it "
            "mistyped, or are trials missing?"
        )


def check_totals(likelihood: Likelihood, sets: Sets, y_bar: Float[np.ndarray, "t M"]) -> None:
    """The same for all totals of some sets, which must have one output."""
    if y_bar.shape[1] != 1:
        raise SettingError(
            f"{likelihood.name} are learned one output at a time, and totals have "
            f"{y_bar.shape[1]}; fit a model for each"
        )
    check_sets(likelihood.name, sets)
    if not len(sets):
        return
    exposure = np.add.reduceat(sets.theta, sets.starts[:-1])
    for name, total, own in zip(sets.ids, y_bar[:, 0].tolist(), exposure.tolist(), strict=True):
        check_total(likelihood, name, total, own)
