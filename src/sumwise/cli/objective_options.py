"""Options of `sumwise init` for costs, known noise, targets, and when to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import rich_click as click

from sumwise.cli.options import to_number
from sumwise.data.tables import (
    Individuals,
    number,
    numbers,
    place,
    read_table,
    require,
)
from sumwise.errors import DataError, SettingError, SumwiseError
from sumwise.util.shapes import Float

MUST: Final = {"cost": "above 0", "noise_std": "at least 0", "enough": "at least 0"}
OPTIONS: Final = {"cost": "--cost", "noise_std": "--noise-std", "enough": "--enough"}

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
        for name, text in (("cost", self.cost), ("noise_std", self.noise_std)):
            if text is not None and not _is_number(text):
                raise SettingError(
                    f"{OPTIONS[name]} is {text!r:.80}, and these individuals are beyond memory, "
                    "where it can be one number only. Give a number, raise --memory-limit, or "
                    "begin the study in Python, which takes an array with a number for each set"
                )
            _number(name, text)
        _number("enough", self.enough)
        if self.target_weights is not None and self.targets is None:
            raise SettingError(
                "--target-weights would be a column of individuals that are beyond memory; write "
                "those who count to a file of their own and name it with --targets"
            )

    def read(self, made: Individuals) -> dict[str, Any]:
        """Arguments of `create_study`, some from columns of the table that was read."""
        weights = None if self.target_weights is None else made.aside.get(self.target_weights)
        x = None
        if self.targets is not None:
            x, weights = _read_targets(self.targets, made.x, self.target_weights)
        return {
            "cost": _per_set("cost", self.cost, made),
            "noise_std": _per_set("noise_std", self.noise_std, made),
            "enough": _number("enough", self.enough),
            "targets": x,
            "target_weights": weights,
        }

    def as_json(self, meant: Mapping[str, Any]) -> dict[str, Any]:
        """The options: columns by name, numbers as numbers."""
        return {
            **{
                name: meant[name] if isinstance(meant[name], float) else getattr(self, name)
                for name in MUST
            },
            "targets": None if self.targets is None else str(self.targets),
            "target_weights": self.target_weights,
        }


def _is_number(text: str) -> bool:
    try:
        number(text)
    except SumwiseError:
        return False
    return True


def _number(name: str, text: str | None) -> float | None:
    """The number that was typed for an option, None if it was left out."""
    if text is None:
        return None
    value = to_number(text, OPTIONS[name])
    if value < 0 or (value == 0 and MUST[name] == "above 0"):
        raise SettingError(f"{OPTIONS[name]} is {value:g}; it must be {MUST[name]}")
    return value


def _per_set(name: str, text: str | None, made: Individuals) -> Any:
    """One number for each set, from a column; or the number that was typed."""
    if text is None or text not in made.aside:
        return _number(name, text)
    values, sets, option = made.aside[text], made.sets, OPTIONS[name]
    low = np.minimum.reduceat(values, sets.starts[:-1])
    high = np.maximum.reduceat(values, sets.starts[:-1])
    for a in np.flatnonzero(low != high).tolist():
        rows = range(sets.starts[a], sets.starts[a + 1])
        other = next(row for row in rows if values[row] != values[rows[0]])
        raise DataError(
            f"{made.where(other)}: {text!r:.80} is {values[other]:g}, and {values[rows[0]]:g} in "
            f"another row of the set. {option} is of the whole set; give all its rows the same."
        )
    for a in np.flatnonzero((low < 0) | ((low == 0) & (name == "cost"))).tolist():
        raise DataError(
            f"{made.where(int(sets.starts[a]))}: {text!r:.80} is {low[a]:g}; {option} must be "
            f"{MUST[name]}. Correct it, or drop the rows of the set."
        )
    return low


def _read_targets(
    path: Path, inputs: Sequence[str], weights: str | None
) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, " N"] | None]:
    table = read_table(path, text=lambda name: False)
    names, where = table.column_names, place(path)
    require(names, inputs, "an input of the study", path)
    require(names, () if weights is None else (weights,), "given as --target-weights", path)
    x = np.column_stack([numbers(table, name, where) for name in inputs])
    if weights is None:
        return x, None
    weight = numbers(table, weights, where)
    for row in np.flatnonzero(weight < 0).tolist():
        raise DataError(
            f"{where(row)}: {weights!r:.80} is {weight[row]:g}; a weight is at least 0, and 0 "
            "leaves an individual out"
        )
    return x, weight


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
