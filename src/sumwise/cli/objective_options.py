"""Options of `sumwise init` for costs, known noise, targets, and when to stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import rich_click as click

from sumwise.cli.options import to_number
from sumwise.data.tables import Individuals, number, read_inputs
from sumwise.errors import DataError, SettingError, SumwiseError

objective_options: Final = (
    click.option(
        "--cost",
        metavar="COLUMN|NUMBER",
        help="Cost of measuring a set, in any unit: a column with the same number in all rows of a "
        "set, or one number. Sets are then ranked by gain per cost, and ask takes a --budget.",
    ),
    click.option(
        "--noise-std",
        metavar="COLUMN|NUMBER",
        help="Standard deviation of known noise in a set's total, beyond the noise of its "
        "individuals, for example noise added for privacy; a column or a number, as for --cost.",
    ),
    click.option(
        "--targets",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Table of the individuals whose predictions matter, with the input columns. Default: "
        "all individuals. Used by the strategies IVR and EPIG.",
    ),
    click.option(
        "--target-weights",
        metavar="COLUMN",
        help="How much each of them matters: a column of --targets, or of DATA.",
    ),
    click.option(
        "--enough",
        metavar="NUMBER",
        help="Let status advise you to stop when the next questions improve predictions by less "
        "than this (standard deviation, in the unit of an individual's output).",
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
            text: None if _is_number(text) else f"given as {option}, or give a number"
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
        for option, text in (("--cost", self.cost), ("--noise-std", self.noise_std)):
            if text is not None and not _is_number(text):
                raise SettingError(
                    f"{option} is {text!r:.80}, and these individuals are beyond memory, where it "
                    "can be one number only. Give a number, raise --memory-limit, or begin the "
                    "study in Python, which takes an array with a number for each set"
                )
            _number(option, text)
        _number("--enough", self.enough)
        if self.target_weights is not None and self.targets is None:
            raise SettingError(
                "--target-weights would be a column of individuals that are beyond memory; write "
                "those who count to a file of their own and name it with --targets"
            )

    def read(self, made: Individuals) -> dict[str, Any]:
        """Arguments of `create_study`, some from columns of the table that was read."""
        x, name = None, self.target_weights
        weights = None if name is None else made.aside.get(name)
        if self.targets is not None:
            named = {} if name is None else {name: "given as --target-weights"}
            table, x = read_inputs(self.targets, made.x, named)
            weights = np.ones(len(x)) if name is None else table.numbers(name)
            for row in np.flatnonzero(weights < 0).tolist():
                raise DataError(
                    f"{table.where(row)}: {name!r:.80} is {weights[row]:g}; a weight is at "
                    "least 0, and 0 leaves an individual out"
                )
        return {
            "cost": _per_set("--cost", self.cost, made),
            "noise_std": _per_set("--noise-std", self.noise_std, made),
            "enough": _number("--enough", self.enough),
            "targets": x,
            "target_weights": None if name is None else weights,
        }

    def as_json(self, meant: Mapping[str, Any]) -> dict[str, Any]:
        """The options: columns by name, numbers as numbers."""
        numeric = {name: value for name, value in meant.items() if isinstance(value, float)}
        return {**asdict(self), **numeric}


def _is_number(text: str) -> bool:
    try:
        number(text)
    except SumwiseError:
        return False
    return True


def _number(option: str, text: str | None) -> float | None:
    """The number that was typed for an option, None if it was left out."""
    value = None if text is None else to_number(text, option)
    if value is not None and (value < 0 or (value == 0 and option == "--cost")):
        raise SettingError(f"{option} is {value:g}; it must be {_must(option)}")
    return value


def _must(option: str) -> str:
    return "above 0" if option == "--cost" else "at least 0"


def _per_set(option: str, text: str | None, made: Individuals) -> Any:
    """One number for each set, from a column; or the number that was typed."""
    if text is None or text not in made.aside:
        return _number(option, text)
    values, starts = made.aside[text], made.sets.starts
    first = values[starts[:-1]]
    for row in np.flatnonzero(values != np.repeat(first, made.sets.sizes)).tolist():
        other = first[np.searchsorted(starts, row, "right") - 1]
        raise DataError(
            f"{made.where(row)}: {text!r:.80} is {values[row]:g}, and {other:g} in another row of "
            f"the set. {option} is of the whole set; give all its rows the same."
        )
    for a in np.flatnonzero((first < 0) | ((first == 0) & (option == "--cost"))).tolist():
        raise DataError(
            f"{made.where(int(starts[a]))}: {text!r:.80} is {first[a]:g}; {option} must be "
            f"{_must(option)}. Correct it, or drop the rows of the set."
        )
    return first


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
