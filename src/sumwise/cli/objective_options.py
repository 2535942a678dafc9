"""What `sumwise init` is told about costs, known noise, targets and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import rich_click as click

from sumwise.cli.options import to_number
from sumwise.data.tables import column_names, number, numbers, place, read_table, require
from sumwise.errors import DataError, SettingError, SumwiseError
from sumwise.util.shapes import Float

if TYPE_CHECKING:
    from sumwise.data.tables import Individuals

PER_SET: Final = {"cost": "above 0", "noise_std": "at least 0"}


@dataclass(frozen=True, slots=True)
class Wishes:
    """As they were typed; None where nothing was said."""

    cost: str | None = None
    noise_std: str | None = None
    targets: Path | None = None
    target_weights: str | None = None
    enough: str | None = None

    @property
    def columns(self) -> dict[str, str | None]:
        """Columns of the table, and what they were given as; None for what may be a number."""
        named = {"--cost": self.cost, "--noise-std": self.noise_std}
        found = {
            text: None if _as_number(text) is not None else f"given as {option}, or give a number"
            for option, text in named.items()
            if text is not None
        }
        if self.target_weights is not None and self.targets is None:
            found[self.target_weights] = "given as --target-weights"
        return found

    @property
    def hidden(self) -> tuple[str, ...]:
        """A column of the targets, which is hardly an input where the table has it too."""
        return () if self.target_weights is None else (self.target_weights,)


def wish_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--cost, --noise-std, --targets, --target-weights and --enough."""
    for option in reversed(
        (
            click.option(
                "--cost",
                metavar="COLUMN|NUMBER",
                help="What measuring a set costs, in any unit: a column with the same number in "
                "all rows of a set, or one number. Sets are asked for by gain per cost then, and "
                "ask takes a --budget.",
            ),
            click.option(
                "--noise-std",
                metavar="COLUMN|NUMBER",
                help="Standard deviation of noise that measuring a set will have beside that of "
                "its individuals, such as noise added for privacy; a column or a number as well.",
            ),
            click.option(
                "--targets",
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="Table of the individuals whose predictions count, with the input columns; "
                "all individuals if left out. For the strategies IVR and EPIG.",
            ),
            click.option(
                "--target-weights",
                metavar="COLUMN",
                help="How much each of them counts: a column of --targets, or of DATA.",
            ),
            click.option(
                "--enough",
                metavar="NUMBER",
                help="status says that you may stop when the next questions improve predictions "
                "by less than this (standard deviation, in the unit of an individual's output).",
            ),
        )
    ):
        command = option(command)
    return command


def understood(wishes: Wishes, made: Individuals) -> dict[str, Any]:
    """Arguments of `create_study`, from columns of the table that `made` was read from."""
    meant = {
        name: _per_set(_option(name), getattr(wishes, name), made, must)
        for name, must in PER_SET.items()
    }
    weights = None if wishes.target_weights is None else made.aside.get(wishes.target_weights)
    return {**meant, "enough": _enough(wishes), **_aimed(wishes, made.x, weights)}


def without_columns(wishes: Wishes) -> dict[str, Any]:
    """The same but for targets, where individuals stay in their files: numbers alone."""
    meant: dict[str, Any] = {"enough": _enough(wishes)}
    for name, must in PER_SET.items():
        text, option = getattr(wishes, name), _option(name)
        value = _as_number(text)
        if text is not None and value is None:
            raise SettingError(
                f"{option} is {text!r:.80}, and these individuals are beyond memory, where it can "
                "be one number only. Give a number, raise --memory-limit, or begin the study in "
                "Python, which takes an array with a number for each set"
            )
        meant[name] = _within(option, value, must)
    if wishes.target_weights is not None and wishes.targets is None:
        raise SettingError(
            "--target-weights would be a column of individuals that are beyond memory; write those "
            "who count to a file of their own and name it with --targets"
        )
    return meant


def targets_of(wishes: Wishes, inputs: Sequence[str]) -> dict[str, Any]:
    """Targets in a file of their own."""
    return _aimed(wishes, inputs, None)


def _aimed(
    wishes: Wishes, inputs: Sequence[str], weights: Float[np.ndarray, " N"] | None
) -> dict[str, Any]:
    if wishes.targets is None:
        return {"targets": None, "target_weights": weights}
    x, weight = _read_targets(wishes.targets, inputs, wishes.target_weights)
    return {"targets": x, "target_weights": weight}


def _enough(wishes: Wishes) -> float | None:
    enough = None if wishes.enough is None else to_number(wishes.enough, "--enough")
    return _within("--enough", enough, "at least 0")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _per_set(option: str, text: str | None, made: Individuals, must: str) -> Any:
    """One number for each set, from a column; or the number that was typed."""
    if text is None or text not in made.aside:
        return _within(option, _as_number(text), must)
    values, sets = made.aside[text], made.sets
    low = np.minimum.reduceat(values, sets.starts[:-1])
    high = np.maximum.reduceat(values, sets.starts[:-1])
    for a in np.flatnonzero(low != high).tolist():
        rows = range(sets.starts[a], sets.starts[a + 1])
        other = next(row for row in rows if values[row] != values[rows[0]])
        raise DataError(
            f"{made.where(other)}: {text!r:.80} is {values[other]:g}, and {values[rows[0]]:g} in "
            f"another row of the set. {option} is of the whole set; give all its rows the same."
        )
    for a in np.flatnonzero((low < 0) | ((low == 0) & (must == "above 0"))).tolist():
        raise DataError(
            f"{made.where(int(sets.starts[a]))}: {text!r:.80} is {low[a]:g}; {option} must be "
            f"{must}. Correct it, or drop the rows of the set."
        )
    return low


def _within(option: str, value: float | None, must: str) -> float | None:
    if value is not None and (value < 0 or (value == 0 and must == "above 0")):
        raise SettingError(f"{option} is {value:g}; it must be {must}")
    return value


def _as_number(text: str | None) -> float | None:
    try:
        return None if text is None else number(text)
    except SumwiseError:
        return None


def _read_targets(
    path: Path, inputs: Sequence[str], weights: str | None
) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, " N"] | None]:
    table = read_table(path, text=lambda name: False)
    names, where = column_names(table, path), place(path)
    require(names, inputs, "an input of the study", path)
    require(names, () if weights is None else (weights,), "given as --target-weights", path)
    if not table.num_rows:
        raise DataError(f"{path} has a heading and no rows; name at least one individual")
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


def as_json_too(wishes: Wishes, meant: Mapping[str, Any]) -> dict[str, Any]:
    """Columns by name, numbers as numbers."""
    numbers_too = {
        name: meant[name] if isinstance(meant[name], float) else getattr(wishes, name)
        for name in (*PER_SET, "enough")
    }
    return {
        **numbers_too,
        "targets": None if wishes.targets is None else str(wishes.targets),
        "target_weights": wishes.target_weights,
    }


def said(meant: Mapping[str, Any]) -> list[str]:
    """What was understood, in sentences without text of the user's."""
    words = []
    if meant["cost"] is not None:
        words.append(f"Measuring a set costs {_span(meant['cost'])}.")
    if meant["noise_std"] is not None:
        words.append(
            f"Totals are to have noise of ± {_span(meant['noise_std'])} of their own; say what "
            "each has had when it is told."
        )
    if meant["targets"] is not None:
        words.append(f"Predictions count for {len(meant['targets'])} targets.")
    elif meant["target_weights"] is not None:
        some = int(np.count_nonzero(meant["target_weights"]))
        words.append(f"Predictions count for {some} of {len(meant['target_weights'])} individuals.")
    if meant["enough"] is not None:
        words.append(f"An improvement of predictions by {meant['enough']:.6g} is worth asking for.")
    return words


def _span(values: Any) -> str:
    low, high = f"{np.min(values):.6g}", f"{np.max(values):.6g}"
    return low if low == high else f"{low} to {high}"
