"""What a study measures: the outcome's name and unit, how a set sums it up, and its bounds.

With every output between `low` and `high`, a total lies between

    Σθ⁺·low + Σθ⁻·high    and    Σθ⁺·high + Σθ⁻·low

where θ⁺ and θ⁻ are the positive and the negative weights of its individuals.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypedDict

import numpy as np

from sumwise.data.frames import is_unicode
from sumwise.data.sets import Sets
from sumwise.data.validate import real
from sumwise.errors import DataError, LabelError, SettingError
from sumwise.util.shapes import Float

WORDS: Final = {"sum": "total", "mean": "mean", "weighted": "weighted sum"}
LONGEST: Final = 80  # characters of an outcome, a unit or an individual's name
ROUNDING: Final = 1e-9  # of the range of a total: what was added up elsewhere is rounded
NOISES: Final = 4.0  # standard deviations that known noise may carry a total out of its range
COUNTED: Final = {"counts": "count", "shares": "count", "amounts": "total"}  # of a set
OWN_BOUNDS: Final = {
    "counts": "a count is at least 0",
    "shares": "successes are at least 0 and at most the trials",
    "amounts": "an amount is above 0",
}


class AboutOptions(TypedDict, total=False):
    """What users may say of it."""

    outputs: str | None
    outcome: str | None
    unit: str | None
    individual: str | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class About:
    """What is measured. The default is what studies are that say nothing of it.

    >>> about = About(outcome="maths score", unit="points", weights="mean", low=0, high=100)
    >>> about.word, about.title, about.quantity("61.5")
    ('mean', 'mean maths score', '61.5 points')
    """

    outcome: str | None = None  # of an individual, such as "maths score"
    unit: str | None = None
    weights: str = "sum"  # what measuring a set gives: a key of `WORDS`
    low: float | None = None  # the least that an individual's output can be
    high: float | None = None
    outputs: str = "numbers"  # as the model's settings, with which it is stored
    individual: str | None = None  # what an individual is, such as "school"

    def __post_init__(self) -> None:
        if self.bounded and self.outputs != "numbers":
            raise SettingError(
                f"low and high are bounds of plain numbers, and {self.outputs} have their own: "
                f"{OWN_BOUNDS[self.outputs]}. Leave low and high (--min, --max) out"
            )
        for name in ("outcome", "unit", "individual"):
            text = getattr(self, name)
            usable = text is None or (isinstance(text, str) and is_unicode(text))
            if not usable or (text is not None and not (text.strip() and text.isprintable())):
                raise SettingError(f"{name} is {text!r:.60}; give a word or two that can be seen")
            if text is not None and len(text) > LONGEST:
                raise SettingError(f"{name} has {len(text)} characters; give at most {LONGEST}")
        if self.weights not in WORDS:
            raise SettingError(f"weights is {self.weights!r:.60}; give one of {', '.join(WORDS)}")
        for name in ("low", "high"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, real(getattr(self, name), name))
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise SettingError(
                f"an output is at least low={self.low:g} and at most high={self.high:g}; give a "
                "low that is below high"
            )

    # --- words --------------------------------------------------------------------------------

    @property
    def word(self) -> str:
        """What measuring a set gives: total, mean, weighted sum or count."""
        return COUNTED.get(self.outputs, WORDS[self.weights])

    @property
    def title(self) -> str:
        """The same of what, such as "mean maths score" or "count of deaths".

        >>> About(outcome="mean temperature", weights="mean").title
        'mean temperature'
        """
        what = "successes" if self.outcome is None and self.outputs == "shares" else self.outcome
        if what is None or what.lower().startswith(f"{self.word} "):
            return what or self.word
        return f"{self.word} {'of ' if self.is_whole else ''}{what}"

    @property
    def is_whole(self) -> bool:
        """Whether what is measured is a whole number."""
        return self.outputs in ("counts", "shares")

    def worded(self, text: str) -> str:
        """A text that speaks of totals, with the word for what is measured instead.

        >>> About(weights="mean").worded("Totals of 3 sets; one total is missing.")
        'Means of 3 sets; one mean is missing.'
        """
        text = re.sub(r"\btotal(?=s?\b)", self.word, text)
        return re.sub(r"\bTotal(?=s?\b)", self.word.capitalize(), text)

    @property
    def one(self) -> str:
        """What an individual is called."""
        return self.individual or "individual"

    @property
    def in_unit(self) -> str:
        """ " (points)" after the name of a column or an axis; empty without a unit."""
        return "" if self.unit is None else f" ({self.unit})"

    def quantity(self, number: str) -> str:
        """A number with its unit."""
        return number if self.unit is None else f"{number} {self.unit}"

    def per_exposure(self, number: str) -> str:
        """A number of what individuals are predicted by, with its unit; a share has none."""
        return number if self.outputs == "shares" else self.quantity(number)

    # --- bounds -------------------------------------------------------------------------------

    @property
    def bounded(self) -> bool:
        return self.low is not None or self.high is not None

    @property
    def ends(self) -> tuple[float, float]:
        """Bounds of an output, infinite where none is given."""
        return (
            -math.inf if self.low is None else self.low,
            math.inf if self.high is None else self.high,
        )

    def ranges(self, sets: Sets) -> Float[np.ndarray, "2 A"]:
        """The least and the greatest that the total of each set can be."""
        if self.weights == "weighted":
            above, below = sets.weight_sums()
        else:  # known without reading the individuals
            above = sets.sizes.astype(float) if self.weights == "sum" else np.ones(len(sets))
            below = np.zeros(len(sets))
        low, high = self.ends
        return np.stack(
            [_times(above, low) + _times(below, high), _times(above, high) + _times(below, low)]
        )

    def check(self, total: float, noise_std: float | None, sets: Sets, whole: bool = True) -> None:
        """Refuse a total that no outputs within the bounds add up to.

        Args:
            sets: The one set that was measured.
            noise_std: Known noise, which may carry a total a little out of its range.
            whole: Whether that set has all its members; of a part of them, means are weighted sums.
        """
        if not self.bounded:
            return
        about = self if whole else About(None, None, "weighted", self.low, self.high)
        low, high = about.ranges(sets)[:, 0].tolist()
        size = max(abs(end) for end in (total, low, high) if math.isfinite(end))
        slack = ROUNDING * size + NOISES * (noise_std or 0.0)
        if low - slack <= total <= high + slack:
            return
        raise impossible(self, sets.ids[0], total, low, high, noise_std)

    # --- storage ------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        known = asdict(self)
        del known["outputs"]  # which the model's settings have
        return {name: value for name, value in known.items() if value is not None}

    @classmethod
    def from_json(cls, known: Any) -> About:
        """What `to_json` gave; anything else is refused."""
        names = {*cls.__dataclass_fields__} - {"outputs"}
        if not isinstance(known, Mapping) or {*known} - names:
            raise DataError(f"what the study measures cannot be read: {known!r:.80}")
        return cls(**known)

    def pack(self) -> bytes:
        return json.dumps(self.to_json()).encode()

    @classmethod
    def unpack(cls, packed: bytes) -> About:
        try:
            return cls.from_json(json.loads(packed))
        except ValueError as error:
            raise DataError(f"what the study measures cannot be read ({error})") from error


def impossible(
    about: About, set_id: Hashable, total: float, low: float, high: float, noise: float | None
) -> LabelError:
    if math.isinf(low) or math.isinf(high):
        end = f"at most {high:.9g}" if math.isinf(low) else f"at least {low:.9g}"
    else:
        end = f"from {low:.9g} to {high:.9g}"
    ends = [
        f"at {name} {value:.9g}"
        for name, value in (("least", about.low), ("most", about.high))
        if value is not None
    ]
    more = f", and 4 times its noise of ± {noise:.6g} does not explain that" if noise else ""
    return LabelError(
        f"the {about.word} of set {set_id!r} is {total:.12g}, which is impossible: each output is "
        f"{' and '.join(ends)}, so the {about.word} is {end}{more}. Is it mistyped, or "
        "does it belong to other individuals?"
    )


def weights_of(sets: Sets, rows: Any = slice(None)) -> str:
    """How sets are weighed, as a key of `WORDS`, read off θ of these rows."""
    theta = sets.theta[rows]
    if (theta == 1.0).all():
        return "sum"
    return "mean" if (theta == np.repeat(1.0 / sets.sizes, sets.sizes)[rows]).all() else "weighted"


def _times(weight: Float[np.ndarray, " A"], end: float) -> Float[np.ndarray, " A"]:
    """weight · end, and 0 where the weight is 0 and the end infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(weight == 0, 0.0, weight * end)
