"""Options of `sumwise init` for costs, known noise, targets, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from sumwise.cli.options import PATH, option, to_number
from sumwise.data.dialect import Reading
from sumwise.data.frames import NUMBER
from sumwise.data.individuals import Individuals, read_inputs
from sumwise.errors import DataError, SettingError
from sumwise.util.shapes import Float

objective_options: Final = (
    option(
        "--cost COLUMN|NUMBER",
        "Cost of measuring a set, in any unit: a column with the same number in all rows of a set, "
        "or one number. Sets are then ranked by gain per cost, and ask takes a --budget.",
    ),
    option(
        "--noise-std COLUMN|NUMBER",
        "Standard deviation of known noise in a set's total, beyond the noise of its individuals, "
        "for example noise added for privacy; a column or a number, as for --cost.",
    ),
    option(
        "--targets FILE",
        "Table of the individuals whose predictions matter, with the input columns. Default: all "
        "individuals. Used by the strategies IVR and EPIG.",
        type=PATH,
    ),
    option(
        "--target-weights COLUMN",
        "How much each of them matters: a column of --targets, or of DATA.",
    ),
    option(
        "--enough NUMBER",
        "If the next questions improve predictions by less than this, status says that you may "
        "stop (standard deviation, in the unit of an individual's output).",
    ),
)


@dataclass(frozen=True, slots=True)
class Objective:
    """The options as they were typed."""

    cost: str | None
    noise_std: str | None
    targets: Path | None
    target_weights: str | None
    enough: str | None

    @property
    def columns(self) -> dict[str, str | None]:
        """Columns of the table and the option of each; None if the name may be a number."""
        named = {self.cost: "--cost", self.noise_std: "--noise-std"}
        found = {
            text: None if NUMBER.fullmatch(text.strip()) else f"given as {option}, or give a number"
            for text, option in named.items()
            if text is not None
        }
        if self.target_weights is not None and self.targets is None:
            found[self.target_weights] = "given as --target-weights"
        return found

    @property
    def hidden(self) -> tuple[str, ...]:
        """A column of the targets, which is not an input if DATA has it too."""
        return () if self.target_weights is None else (self.target_weights,)

    def refuse_columns(self) -> None:
        """Refuse columns of individuals beyond memory, and numbers out of range."""
        for name, text in (("--cost", self.cost), ("--noise-std", self.noise_std)):
            if text is not None and not NUMBER.fullmatch(text.strip()):
                raise SettingError(
                    f"{name} is {text!r:.80}, and these individuals are beyond memory, where it "
                    "can be one number only. Give a number, raise --memory-limit, or begin the "
                    "study in Python, which takes an array with a number for each set"
                )
            _number(name, text)
        _number("--enough", self.enough)
        if self.target_weights is not None and self.targets is None:
            raise SettingError(
                "--target-weights would be a column of individuals that are beyond memory; write "
                "the individuals that count to another file and name it with --targets"
            )

    def read(self, made: Individuals, reading: Reading) -> dict[str, Any]:
        """Arguments of `create_study`, some from columns of the table that was read."""
        x = weights = None
        name, where = self.target_weights, made.where
        if self.targets is not None:
            named = {} if name is None else {name: "given as --target-weights"}
            recipe = made.sets.recipe
            table, found = read_inputs(self.targets, made.x, named, recipe, reading)
            x = found.x if recipe is None else recipe.filled(found)
            where = table.where
        if name is not None:
            weights = made.aside[name] if x is None else table.numbers(name)
            _check_range("--target-weights", weights, lambda row: f"{where(row)}: {name!r:.80}")
        return {
            "cost": _per_set("--cost", self.cost, made),
            "noise_std": _per_set("--noise-std", self.noise_std, made),
            "enough": _number("--enough", self.enough),
            "targets": x,
            "target_weights": weights,
        }

    def as_json(self, meant: Mapping[str, Any]) -> dict[str, Any]:
        """The options: columns by name, numbers as numbers."""
        numeric = {name: value for name, value in meant.items() if isinstance(value, float)}
        return {**asdict(self), **numeric}


def _number(name: str, text: str | None) -> float | None:
    """The number that was typed for an option, None if it was left out."""
    if text is None:
        return None
    value = to_number(text, name)
    _check_range(name, np.array([value]), lambda _: name)
    return value


def _per_set(name: str, text: str | None, made: Individuals) -> Any:
    """One number for each set, from a column; or the number that was typed."""
    if text is None or text not in made.aside:
        return _number(name, text)
    values, starts = made.aside[text], made.sets.starts
    first = values[starts[:-1]]
    expected = np.repeat(first, made.sets.sizes)
    for row in np.flatnonzero(values != expected).tolist():
        raise DataError(
            f"{made.where(row)}: {text!r:.80} is {values[row]:g}, and {expected[row]:g} in another "
            f"row of the set. {name} is of the whole set; give all its rows the same."
        )
    _check_range(name, first, lambda a: f"{made.where(int(starts[a]))}: {text!r:.80}")
    return first


def _check_range(name: str, values: Float[np.ndarray, " n"], what: Callable[[int], str]) -> None:
    """Refuse negative numbers, and costs of 0; `what` names the value at a position."""
    low, least = (values <= 0, "above 0") if name == "--cost" else (values < 0, "at least 0")
    for at in np.flatnonzero(low).tolist():
        raise DataError(f"{what(at)} is {values[at]:g}; it must be {least}")


def sentences(meant: Mapping[str, Any]) -> list[str]:
    """What was understood, in sentences."""
    words = []
    if meant["cost"] is not None:
        words.append(f"Measuring a set costs {_span(meant['cost'])}.")
    if meant["noise_std"] is not None:
        words.append(
            f"Totals are expected to have known noise of ± {_span(meant['noise_std'])}; give the "
            "actual noise of each with tell --noise-std."
        )
    if meant["targets"] is not None:
        words.append(f"Predictions count for {len(meant['targets'])} targets.")
    elif meant["target_weights"] is not None:
        some = int(np.count_nonzero(meant["target_weights"]))
        words.append(f"Predictions count for {some} of {len(meant['target_weights'])} individuals.")
    if meant["enough"] is not None:
        words.append(f"You may stop when improvements fall below {meant['enough']:.6g}.")
    return words


def _span(values: Any) -> str:
    low, high = f"{np.min(values):.6g}", f"{np.max(values):.6g}"
    return low if low == high else f"{low} to {high}"
