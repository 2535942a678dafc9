"""Options for pools by design, of `sumwise init` and `simulate`: what a pool may be."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import rich_click as click

from sumwise.cli.options import option, to_number
from sumwise.data.dialect import Reading
from sumwise.data.individuals import Individuals
from sumwise.data.pool_rules import LABELS
from sumwise.data.tables import read_table
from sumwise.errors import DataError, SettingError
from sumwise.util.text import count, shown

NAME: Final = {"pool_cost": "cost", "pool_cost_per_member": "cost_per_member"} | {
    "pool_noise_std": "noise_std",
    "pool_noise_std_per_member": "noise_std_per_member",
}
GEOMETRY: Final = "geometry"
MEANS: Final = {
    "together": "all or none of each",
    "apart": "at most one of each",
    "strata": "one of each",
    "within": "all of one",
}

size_options: Final = (
    option(
        "--size FEWEST-MOST",
        "How many individuals a pool has, such as 2-10, or 8. Default with --design: 1-20.",
    ),
    option(
        "--uses NUMBER",
        "In how many pools an individual can be over the whole study; 1 if its sample is used up. "
        "Default: any number.",
        type=click.IntRange(1),
    ),
)
noise_options: Final = (
    option("--pool-noise-std NUMBER", "Standard deviation of the noise of measuring a pool."),
    option(
        "--pool-noise-std-per-member NUMBER",
        "Standard deviation of the noise that each member adds to a pool's total.",
    ),
)
design_options: Final = (
    option(
        "--design",
        "Design the sets: ask chooses which individuals to measure together. Without --by there "
        "are no other sets; with --by, given sets and designed pools compete.",
    ),
    *size_options,
    option("--together COLUMN", "All individuals with the same label are in a pool, or none."),
    option("--apart COLUMN", "At most one individual with the same label is in a pool."),
    option("--strata COLUMN", "A pool has exactly one individual with each label."),
    option("--within COLUMN", "All members of a pool have the same label: a plate, a county."),
    option(
        "--neighbours FILE|geometry",
        "A pool is connected: a table whose first two columns are ids of individuals that touch, "
        "or geometry for the polygons of DATA.",
    ),
    option(
        "--weight-range LOW,HIGH",
        "If members can be diluted: choose their weights in this range. Default: equal weights.",
    ),
    option("--pool-effect", "Members of a pool share an effect, as members of natural groups do."),
    *noise_options,
    option("--pool-cost NUMBER", "What measuring a pool costs."),
    option("--pool-cost-per-member NUMBER", "What each member of a pool adds to its cost."),
)


@dataclass(frozen=True, slots=True)
class Design:
    """The options as they were typed."""

    design: bool
    size: str | None
    uses: int | None
    together: str | None
    apart: str | None
    strata: str | None
    within: str | None
    neighbours: str | None
    weight_range: str | None
    pool_effect: bool
    pool_noise_std: str | None
    pool_noise_std_per_member: str | None
    pool_cost: str | None
    pool_cost_per_member: str | None

    def check(self, by: Sequence[str]) -> None:
        """Refuse options that mean nothing without --design, and no sets without it."""
        if not by and not self.design:
            raise click.UsageError(
                "name the column of the sets with --by; or add --design, and sets are designed"
            )
        for name, value in asdict(self).items():
            if value and not self.design:
                typed = name.replace("_", "-")
                raise click.UsageError(f"--{typed} describes designed pools; add --design")

    @property
    def as_json(self) -> dict[str, Any]:
        """The options that were given, as one entry; none without --design."""
        given = {name: value for name, value in asdict(self).items() if value and name != "design"}
        return {"design": given} if self.design else {}

    @property
    def labels(self) -> dict[str, str]:
        """Columns with labels, by the rule that they are of."""
        return {name: column for name in LABELS if (column := getattr(self, name)) is not None}

    def rules(self, data: Path, made: Individuals, mean: bool, reading: Reading) -> dict[str, Any]:
        """The rules of pools for `create_study`, some from columns of the table."""
        typed = numbers({name: getattr(self, name) for name in NAME})
        given: dict[str, Any] = {"uses": self.uses, "effect": self.pool_effect, **typed}
        given["weights"] = "mean" if mean else None
        if self.size is not None:
            given["size"] = pool_size(self.size)
        if self.weight_range is not None:
            if mean:
                raise click.UsageError("--weight-range excludes --weights mean; give one of them")
            given["weights"] = _range(self.weight_range)
        given |= self._labels(data, made, reading)
        if self.neighbours == GEOMETRY:
            if made.geometry is None:
                raise SettingError(
                    f"{data} has no geometries; give --neighbours a table of pairs of ids"
                )
            given["neighbours"] = list(made.geometry.wkb)
        elif self.neighbours is not None:
            given["neighbours"] = _pairs(Path(self.neighbours), made, reading)
        return {name: value for name, value in given.items() if value is not None}

    def _labels(self, data: Path, made: Individuals, reading: Reading) -> dict[str, list[Any]]:
        if not self.labels:
            return {}
        table = read_table(data, {*self.labels.values()}.__contains__, reading)
        table.require_each({column: f"given as --{name}" for name, column in self.labels.items()})
        found = {}
        for name, column in self.labels.items():
            values, missing = table.frame.get_column(column).to_list(), table.missing(column)
            found[name] = [None if missing[row] else values[row] for row in made.order.tolist()]
        return found

    @property
    def asked(self) -> str:
        """What a question of the study is about."""
        return "whom to measure together" if self.design else "which set to measure"

    def words(self, rules: Mapping[str, Any]) -> str:
        """What a pool may be, in a sentence."""
        low, high = rules.get("size", (1, 20))
        said = [f"{low} to {high} individuals" if low < high else count(low, "individual")]
        if self.uses is not None:
            said.append(f"each individual in at most {count(self.uses, 'pool')}")
        said += [f"{MEANS[name]} {column}" for name, column in self.labels.items()]
        if self.neighbours is not None:
            said.append("connected")
        return f"Pools have {', '.join(said)}."


def numbers(typed: Mapping[str, str | None]) -> dict[str, float]:
    """Costs and noise that were given, by the names that rules have for them."""
    return {
        NAME[name]: to_number(text, f"--{name.replace('_', '-')}")
        for name, text in typed.items()
        if text is not None
    }


def pool_size(text: str) -> tuple[int, int]:
    """Fewest and most members, of "2-10" or "8"."""
    found = re.fullmatch(r"\s*(\d{1,9})\s*(?:[-–,:]\s*(\d{1,9}))?\s*", text)
    if found is None:
        raise click.UsageError(f"--size {text!r:.40} is not a size of pools; write 2-10, or 8")
    return int(found[1]), int(found[2] or found[1])


def _range(text: str) -> tuple[float, float]:
    low, mark, high = text.partition(",")
    if not mark:
        raise click.UsageError(f"--weight-range {text!r:.40} is not a range; write 0,2")
    return to_number(low, "--weight-range"), to_number(high, "--weight-range")


def _pairs(file: Path, made: Individuals, reading: Reading) -> list[tuple[Any, Any]]:
    """Pairs of ids in a table."""
    table = read_table(file, lambda name: True, reading)
    columns = list(table.frame.columns)[:2]
    if len(columns) < 2:
        raise DataError(f"{file} has one column; give two, with the ids of individuals that touch")
    rows = made.sets.row_ids
    names = {shown(name): name for name in (made.sets.ids if rows is None else rows.tolist())}
    if all(str(name) in names for name in columns):
        raise DataError(
            f"{file} begins with a pair of individuals, {columns[0]!r:.40} and {columns[1]!r:.40}; "
            "give it a heading above them"
        )
    keys = [table.keys([name], "of --neighbours") for name in columns]
    for row, pair in enumerate(zip(*keys, strict=True)):
        for name in pair:
            if shown(name) not in names:
                raise DataError(
                    f"{table.where(row)}: {shown(name)!r:.80} is not an individual of the study; "
                    "give ids as they are in its table"
                )
    return [(names[shown(a)], names[shown(b)]) for a, b in zip(*keys, strict=True)]
