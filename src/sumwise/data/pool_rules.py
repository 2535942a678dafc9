"""What a pool of candidates may be: its size, who may be in it with whom, and what it costs.

`read_rules` turns what users give (columns, arrays of labels, polygons) into `PoolRules`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, TypedDict

import numpy as np

from sumwise.data import validate
from sumwise.data.adjacency import neighbours_of, pairs_of
from sumwise.data.frames import Table, group_codes
from sumwise.errors import DataError, InvalidSetError, SettingError
from sumwise.util.shapes import Int

LABELS: Final = ("together", "apart", "strata", "within")
LARGEST: Final = 1e100  # weight; beyond, its square cannot be computed with


class PoolOptions(TypedDict, total=False):
    """Options of `read_rules` beside the size, with the meaning that they have in `PoolRules`."""

    uses: int | None
    together: Any
    apart: Any
    strata: Any
    within: Any
    neighbours: Any
    weights: Any
    effect: bool
    noise_std: float
    noise_std_per_member: float
    cost: float | None
    cost_per_member: float


@dataclass(frozen=True, slots=True, eq=False)
class PoolRules:
    """What a pool may be. Codes are whole numbers, one for each candidate.

    Args:
        size: Fewest and most members.
        uses: Each candidate is in at most so many pools over the whole study; None: in any number.
        together: Candidates with the same code ≥ 0 are all in a pool or all out; -1: free.
        apart: At most one of the candidates with the same code ≥ 0 is in a pool; -1: free.
        strata: A pool has exactly one candidate of each code ≥ 0; -1: free, in no stratum.
        within: All members of a pool have the same code ≥ 0; -1: never in a pool.
        neighbours: Pairs of rows that touch; a pool must be connected.
        weights: θ is free between these; None: θ = 1, or 1 over the number of members.
        mean: Whether measuring a pool gives the mean of its members.
        effect: Whether a pool has an effect of its own, as natural sets do.
        noise_std: Of measuring a pool, in the user's units.
        noise_std_per_member: Each member adds noise of this standard deviation; variances add up.
        cost: Of a pool; None: measuring costs nothing.
        cost_per_member: Is added to `cost` for each member.
    """

    size: tuple[int, int] = (1, 20)
    uses: int | None = None
    together: Int[np.ndarray, " N"] | None = None
    apart: Int[np.ndarray, " N"] | None = None
    strata: Int[np.ndarray, " N"] | None = None
    within: Int[np.ndarray, " N"] | None = None
    neighbours: Int[np.ndarray, "E 2"] | None = None
    weights: tuple[float, float] | None = None
    mean: bool = False
    effect: bool = False
    noise_std: float = 0.0
    noise_std_per_member: float = 0.0
    cost: float | None = None
    cost_per_member: float = 0.0

    def noise_of(self, members: int) -> float:
        """Standard deviation of the noise that pooling adds to what is measured of a pool."""
        each = self.noise_std_per_member / math.sqrt(members if self.mean else 1 / members)
        return math.hypot(self.noise_std, each)

    def cost_of(self, members: int) -> float | None:
        """What measuring a pool costs."""
        return None if self.cost is None else self.cost + self.cost_per_member * members

    def to_json(self) -> str:
        """All of it as text; an infinite bound of weights is null there."""
        known: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, value in known.items():
            if isinstance(value, np.ndarray):
                known[name] = value.tolist()
        if self.weights is not None:
            known["weights"] = [end if math.isfinite(end) else None for end in self.weights]
        return json.dumps(known, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes, n: int) -> PoolRules:
        """What `to_json` has written for so many candidates; anything else is refused."""
        try:
            known = json.loads(text)
            names = {each.name for each in fields(cls)}
            if not isinstance(known, dict) or {*known} != names:
                raise ValueError(f"it does not have the names of rules: {known!r:.80}")
            if type(known["mean"]) is not bool or (known["mean"] and known["weights"]):
                raise ValueError(f"mean is {known['mean']!r:.40}")
            for name in ("noise_std", "noise_std_per_member", "cost_per_member"):
                validate.real(known[name], name)  # where users leave it out, it is stored as 0
            for name in LABELS:
                known[name] = None if known[name] is None else _stored_codes(known[name], name, n)
            if known["neighbours"] is not None:
                known["neighbours"] = pairs_of(known["neighbours"], n)
            if known["weights"] is not None:
                low, high = known["weights"]
                ends = (-math.inf if low is None else low, math.inf if high is None else high)
                known["weights"] = ends
            return cls(**{**known, **_numbers(known)})
        except (ValueError, TypeError, RecursionError) as error:
            raise DataError(
                f"the study's rules for pools cannot be read ({error!s:.200})"
            ) from error


# --- what users give ------------------------------------------------------------------------------


def read_rules(
    n: int,
    table: Table | None,
    options: Mapping[str, Any],
    ids: Sequence[Hashable] | None = None,
) -> PoolRules:
    """The rules that users state, checked and with numbers in the place of labels.

    Labels (together, apart, strata, within) are the name of a column of the table, or an array with
    one entry for each candidate. A candidate whose label is missing (None, NaN, -1) is free; of
    `within`, it is never in a pool.

    Args:
        n: How many candidates there are.
        options: Those of `PoolRules` by name, and None for those that are left out. `size` may be
            one number, and every pool has exactly so many members then. `neighbours` may be pairs
            of row numbers or ids, the geometries of candidates, or the column that holds these.
        ids: Of candidates, which pairs of neighbours may be given by.

    >>> rules = read_rules(4, None, {"size": 2, "apart": ["Ann", "Ann", None, "Bo"]})
    >>> rules.size, rules.apart
    ((2, 2), array([ 0,  0, -1,  1]))
    """
    names = ("size", *PoolOptions.__annotations__)
    for name in options:
        if name not in names:
            raise SettingError(f"{name!r:.60} is not a rule for pools; give {', '.join(names)}")
    given = {name: value for name, value in options.items() if value is not None}
    read: dict[str, Any] = {}
    for name in LABELS:
        if name in given:
            read[name] = group_labels(given[name], n, table, name)
    if "neighbours" in given:
        read["neighbours"] = neighbours_of(given["neighbours"], n, table, ids)
    return PoolRules(**_numbers(given), **read)


def _numbers(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is not about single candidates, checked; what is missing is as `PoolRules` has it."""
    size, uses, effect = given.get("size", (1, 20)), given.get("uses"), given.get("effect", False)
    if not isinstance(effect, bool | np.bool_):
        raise SettingError(f"effect is {effect!r:.60}; give True or False")
    out: dict[str, Any] = {
        "size": _size(size),
        "uses": None if uses is None else validate.count(uses, "uses"),
        "weights": None,
        "mean": bool(given.get("mean", False)),  # as stored
        "effect": bool(effect),
    }
    weights = given.get("weights")
    if isinstance(weights, str) and weights in ("sum", "mean"):
        out["mean"] = weights == "mean"
    elif weights is not None:
        out["weights"] = _weights(weights)
    units = {"noise_std": "the outcome", "noise_std_per_member": "the outcome"}
    for name, unit in {**units, "cost": "money", "cost_per_member": "money"}.items():
        value = validate.real(0.0 if given.get(name) is None else given[name], name)
        out[name] = validate.amount(value, name, unit, or_zero=True)
    if out["cost"] + out["cost_per_member"] == 0:
        if given.get("cost") is not None:
            raise SettingError(
                "cost and cost_per_member are 0, so that pools would cost nothing. Give one of "
                "them above 0, or leave cost out."
            )
        out["cost"] = None
    return out


def _size(size: Any) -> tuple[int, int]:
    """Fewest and most members."""
    if isinstance(size, int | np.integer):
        return (validate.count(size, "size"),) * 2
    ends = list(size) if isinstance(size, Sequence | np.ndarray) and np.ndim(size) == 1 else []
    whole = all(isinstance(e, int | np.integer) and not isinstance(e, bool) for e in ends)
    if len(ends) != 2 or not whole or not 1 <= ends[0] <= ends[1]:
        raise SettingError(
            f"size is {size!r:.60}; give the fewest and the most members of a pool, such as "
            "(1, 20), or one whole number above 0"
        )
    return int(ends[0]), int(ends[1])


def _weights(weights: Any) -> tuple[float, float]:
    """Bounds of θ; infinite ones are allowed."""
    ends = list(weights) if isinstance(weights, Sequence | np.ndarray) else []
    real = all(
        isinstance(e, int | float | np.integer | np.floating) and not isinstance(e, bool)
        for e in ends
    )
    try:
        low, high = (float(end) for end in ends) if real else (0.0, 0.0)
    except (ValueError, OverflowError, TypeError):
        low, high = 0.0, 0.0
    if not low < high:
        raise SettingError(
            f"weights is {weights!r:.60}; give 'sum', 'mean', or the least and the greatest weight "
            "of a member, such as (0, 2), the first below the second"
        )
    sizes = [abs(end) for end in (low, high) if math.isfinite(end)]
    if max(sizes, default=0.0) > LARGEST or max(abs(low), abs(high)) < 1 / LARGEST:
        raise SettingError(
            f"weights is {weights!r:.60}; give ends nearer to 1, or infinity where there is none"
        )
    return low, high


def group_labels(given: Any, n: int, table: Table | None, name: str) -> Int[np.ndarray, " N"]:
    """Labels as whole numbers from 0, in order of first appearance; -1 where one is missing."""
    if isinstance(given, str):
        values = _column(given, table, name)
    elif isinstance(given, bytes | Mapping | set | frozenset):
        raise SettingError(
            f"{name} is {given!r:.60}; give the name of a column, or an array with a label for "
            "each candidate"
        )
    else:
        values = validate.as_list(given.tolist() if isinstance(given, np.ndarray) else given, name)
    if len(values) != n:
        raise InvalidSetError(
            f"{name} has {len(values)} entries, and there are {n} candidates; give one for each"
        )
    keys: list[Hashable] = []
    for row, value in enumerate(values):
        try:
            hash(value)
            keys.append(None if _is_missing(value) else value)
        except (TypeError, ValueError) as error:
            raise InvalidSetError(
                f"row {row}: {name} is {value!r:.60}, which cannot be a label. Use text, numbers "
                "or dates."
            ) from error
    _, codes = group_codes([None, *keys])  # what is missing comes first
    return codes[1:] - 1


def _column(name: str, table: Table | None, option: str) -> list[Any]:
    if table is None:
        raise SettingError(
            f"{option} is {name!r:.60}, and candidates have no columns. Give a data frame, or an "
            "array with an entry for each candidate."
        )
    table.require([name], f"given as {option}")
    values = table.frame.get_column(name).to_list()
    return [None if m else v for v, m in zip(values, table.missing(name), strict=True)]


def _is_missing(value: Any) -> bool:
    """Whether a label is None, NaN, NaT, pandas.NA or -1."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return bool(value != value) or (isinstance(value, int | float | np.number) and value == -1)


def _stored_codes(codes: Any, name: str, n: int) -> Int[np.ndarray, " N"]:
    whole = isinstance(codes, list) and all(type(c) is int and -1 <= c < n for c in codes)
    if not whole or len(codes) != n:
        raise ValueError(f"{name} must be {n} codes")
    return np.array(codes, dtype=int)
