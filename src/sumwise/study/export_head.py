"""study.json of an exported study: settings, counters, and checksums of what must not change."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np

from sumwise.acquisition.objective import Objective, StudyOptions, read
from sumwise.acquisition.strategies import ACQUISITIONS, per_cost
from sumwise.data import validate
from sumwise.data.frames import to_float
from sumwise.data.sets import Sets
from sumwise.data.targets import Targets
from sumwise.errors import DataError, SettingError, SumwiseError
from sumwise.model.fit import ModelConfig, check_seed
from sumwise.model.serialize import pack_config, unpack_config
from sumwise.study.export_csv import LARGEST_WHOLE
from sumwise.study.export_tables import BASIS, SETS
from sumwise.study.storage import records
from sumwise.study.storage.id_json import many_from_json, many_to_json
from sumwise.study.storage.records import StudyRecord

FORMAT: Final = 1
STUDY: Final = "study.json"
COUNTERS: Final = ("questions", "arrivals", "changes")
NEVER_EDITED: Final = (SETS, BASIS)  # answers mean nothing once these are others


@dataclass(frozen=True, slots=True)
class Head:
    """What study.json says."""

    name: str
    created: str
    config: ModelConfig
    strategy: str
    seed: int
    claim_days: float
    counters: Mapping[str, int]
    inputs: tuple[Hashable, ...] | None
    sha256: Mapping[str, str]  # of the files that must not change
    aims: Objective = field(default_factory=Objective)


def described(
    kept: StudyRecord, sets: Sets, counters: Mapping[str, int], sha256: Mapping[str, str]
) -> bytes:
    """What the file says of a study."""
    names = sets.input_names
    known = {
        "format": FORMAT,
        "name": kept.name,
        "created": kept.created,
        "strategy": kept.strategy,
        "seed": kept.seed,
        "claim_days": kept.claim_days,
        **counters,
        "inputs": None if names is None else json.loads(many_to_json(names)),
        "model": json.loads(pack_config(kept.config)),
        "sha256": dict(sha256),
        **({"aims": _plain(kept.aims)} if kept.aims else {}),
    }
    try:
        return json.dumps(known, indent=2, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a surrogate pair, in the name of an input
        return json.dumps(known, indent=2).encode()


def understood(content: bytes) -> Head:
    """What `described` wrote, everything in it checked."""
    try:
        known = json.loads(content.decode("utf-8-sig"))
        version = known["format"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"{STUDY} is no description of a study ({error!r:.80}).") from None
    if version != FORMAT or isinstance(version, bool | float):
        if isinstance(version, int) and version > FORMAT:
            raise DataError(
                f"{STUDY} was written by a newer sumwise (format {version}; this one knows "
                f"{FORMAT}). Update it: pip install --upgrade sumwise"
            )
        raise DataError(f"{STUDY} has format {version!r:.20}; this sumwise knows {FORMAT}.")
    try:
        return _checked(known)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, SumwiseError) as error:
        what = f"{error.args[0]!r} is missing" if type(error) is KeyError else str(error)
        raise DataError(f"{STUDY} cannot be used: {what:.300}") from None


def _checked(known: Mapping[str, Any]) -> Head:
    if known["strategy"] not in ACQUISITIONS:
        raise DataError(f"no strategy is called {known['strategy']!r:.60}")
    check_seed(known["seed"], "seed")
    for name in COUNTERS:
        if type(known[name]) is not int or not 0 <= known[name] <= LARGEST_WHOLE:
            raise DataError(f"{name} is {known[name]!r:.60}; it must be a whole number from 0 on")
    created = datetime.fromisoformat(known["created"])
    if created.tzinfo is None:
        raise DataError(f"created is {known['created']!r:.60}; a time needs its zone, as +00:00")
    names, sha256 = known["inputs"], known["sha256"]
    return Head(
        visible(known["name"]),
        records.stamp(created),
        unpack_config(json.dumps(known["model"])),
        known["strategy"],
        known["seed"],
        validate.days(known["claim_days"], "claim_days"),
        {name: known[name] for name in COUNTERS},
        None if names is None else many_from_json(json.dumps(names)),
        {name: str(sha256[name]) for name in NEVER_EDITED},
        _aims(known["aims"]) if "aims" in known else Objective(),
    )


def _plain(wanted: Objective) -> dict[str, Any]:
    """Numbers and lists; a float is written so that it comes back the same."""
    targets = wanted.targets
    return {
        "noise_std": None if wanted.noise_std is None else wanted.noise_std.tolist(),
        "cost": None if wanted.cost is None else wanted.cost.tolist(),
        "enough": wanted.enough,
        "targets": None if targets is None else targets.x.tolist(),
        "target_weights": None if targets is None else targets.weight.tolist(),
    }


def _aims(known: Mapping[str, Any]) -> Objective:
    """What `_plain` wrote; `check_aims` sees whether it fits the sets."""

    def numbers(name: str) -> Any:
        if known[name] is None:
            return None
        values = to_float(known[name], name)
        if not np.isfinite(values).all() or (name != "targets" and (values < 0).any()):
            raise DataError(f"{name} has a number that cannot be used")
        return values

    if not isinstance(known, dict):
        raise DataError(f"aims is {known!r:.60}; leave it out, or give what an export wrote there")
    enough, x, weight = numbers("enough"), numbers("targets"), numbers("target_weights")
    if (x is None) != (weight is None):
        raise DataError("targets and target_weights go together; give both, or null for both")
    if enough is not None and enough.ndim:
        raise DataError(f"enough is {known['enough']!r:.60}; give one number")
    targets = None if x is None or weight is None else Targets(x, weight)
    level = None if enough is None else float(enough)
    return Objective(targets, numbers("noise_std"), numbers("cost"), level)


def check_aims(head: Head, sets: Sets) -> None:
    """Refuse costs, noise and targets that do not fit the sets or the strategy."""
    wanted = head.aims
    for name, values in (("noise_std", wanted.noise_std), ("cost", wanted.cost)):
        if values is not None and not values.ndim:
            raise DataError(
                f"{STUDY} cannot be used: {name} is one number; give a list with one for each of "
                f"{len(sets)} sets"
            )
    try:
        given = {"noise_std": wanted.noise_std, "cost": wanted.cost, "enough": wanted.enough}
        read(sets, given, "import_study", StudyOptions)
        per_cost(head.strategy, np.zeros(len(sets)), wanted.cost)
    except SettingError as error:
        raise DataError(f"{STUDY} cannot be used: {error}") from None
    if wanted.targets is None:
        return
    x, weight = wanted.targets.x, wanted.targets.weight
    if x.ndim != 2 or not len(x) or x.shape[1] != sets.n_inputs or weight.shape != (len(x),):
        raise DataError(
            f"{STUDY} cannot be used: targets have shape {x.shape} and their weights "
            f"{weight.shape}, where the sets have {sets.n_inputs} inputs"
        )
    if abs(weight.sum() - 1) > 1e-9:
        raise DataError(
            f"{STUDY} cannot be used: target_weights add up to {weight.sum():g}; they must add up "
            "to 1"
        )


def visible(name: Any) -> str:
    """The name of a study."""
    text = validate.text(name, "name")
    if not text or not text.strip():
        raise SettingError(f"name is {name!r}; give a study a name that can be seen")
    return text
