"""Studies for the browser tests: districts with names, and totals that are known beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sumwise as sw

TOWNS = tuple(
    [
        "Ann Arbor",
        "Detroit",
        "Flint",
        "Lansing",
        "Saginaw",
        "Kalamazoo",
        "Battle Creek",
        "Muskegon",
        "Holland",
        "Midland",
        "Bay City",
        "Jackson",
        "Monroe",
        "Owosso",
        "Alpena",
        "Cadillac",
        "Petoskey",
        "Marquette",
        "Houghton",
        "Escanaba",
        "Traverse City",
        "Port Huron",
        "Adrian",
        "Niles",
        "Ludington",
        "Manistee",
        "Gaylord",
        "Grayling",
        "Ionia",
        "Sturgis",
    ]
)
MODEL = sw.AggregateRegressor("fourier", n_basis=32)


@dataclass(frozen=True)
class Place:
    """A study in a file, and what measuring each of its sets would give."""

    path: Path
    totals: dict[str, float]


def schools(
    path: Path, answers: int = 0, names=TOWNS, inputs=("lunch", "enrolment"), **wishes: Any
) -> Place:
    """A study of one set for each name, some of them answered by Ann and Bob in turn.

    Args:
        wishes: What `create_study` is told of costs and when to stop.
    """
    rng = np.random.default_rng(7)
    owners = np.repeat(names, rng.integers(2, 14, len(names)))
    lunch, enrolment = rng.uniform(5, 80, len(owners)), rng.uniform(150, 900, len(owners))
    y = 95 - 0.5 * lunch + 4 * np.sin(enrolment / 120) + rng.normal(0, 3, len(owners))
    frame = pd.DataFrame({"district": owners, inputs[0]: lunch, inputs[1]: enrolment, "y": y})
    sets = sw.Sets.from_frame(frame, by="district", x=list(inputs))
    totals = frame.groupby("district")["y"].sum().round(1).to_dict()
    settings = {"name": "Michigan schools", "model": MODEL, "seed": 0, **wishes}
    with sw.create_study(path, sets, **settings) as study:
        for turn in range(answers):
            by = ("ann", "bob")[turn % 2]
            question = study.ask(by=by)
            study.tell(question.set_id, totals[question.set_id], by=by)
    return Place(path, totals)


def told(place: Place) -> dict[str, float]:
    """Answers as they are in the file."""
    with sw.open_study(place.path) as study:
        return {answer.set_id: answer.y_bar for answer in study.answers}


def events(place: Place, what: str) -> list[Any]:
    with sw.open_study(place.path) as study:
        return [event for event in study.history() if event.what == what]
