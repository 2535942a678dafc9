"""Studies to try things on, and a clock that can be set: fixtures that `conftest.py` hands out."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sumwise as sw
from sumwise.study.storage import records
from tests.builders import random_sets

NETWORK = sw.Neural(width=4, depth=2, n_basis=6, epochs=20)
SETS = random_sets([1, 2, 3, 2], np.random.default_rng(0))
LINEAR = sw.AggregateRegressor("linear")
GIVEN = {"basis": "linear", "hyperparameters": (1.0, 4.0), "standardize": False}


def small_study(place: Any, hyperparameters: str = "evidence") -> Any:
    """A study of four sets with one answer, closed."""
    model = sw.AggregateRegressor("linear", hyperparameters=hyperparameters)
    with sw.create_study(place, SETS, model=model, strategy="AggMI") as study:
        study.tell(1, 5.0)
    return place


@cache
def _made(make: Callable[[Path], Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / "study.db")
        return (Path(folder) / "study.db").read_bytes()


def copy_of(make: Callable[[Path], Any], path: Path) -> Path:
    """The file of a study that `make` makes and closes, once for all tests of a worker."""
    path.write_bytes(_made(make))
    return path


def with_one_answer(path: Path) -> None:
    with sw.create_study(path, SETS, model=sw.AggregateRegressor("linear")) as study:
        study.tell(1, 5.0)


def change(path, statement, *values) -> None:
    """What somebody else does to the file of a study."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


@cache
def _problem() -> tuple[sw.Sets, dict[str, float]]:
    rng = np.random.default_rng(0)
    sets = random_sets(rng.integers(1, 9, 40).tolist(), rng, ids=[f"set {a}" for a in range(40)])
    y = np.sin(2 * sets.x[:, 0]) + sets.x[:, 1] + 0.1 * rng.normal(size=len(sets.x))
    y_bar = np.add.reduceat(sets.theta * y, sets.starts[:-1])
    return sets, dict(zip(sets.ids, y_bar.tolist(), strict=True))


@pytest.fixture(scope="module")
def problem():
    return _problem()


def _begun(path: Path) -> None:
    model = sw.AggregateRegressor("fourier", n_basis=24)
    sw.create_study(path, _problem()[0], model=model, strategy="AggMI", seed=3).close()


@pytest.fixture
def study(tmp_path):
    with sw.open_study(copy_of(_begun, tmp_path / "a.db")) as study:
        yield study


def with_wrong_total(place: Any) -> Any:
    """A study after three answers, of which that of set 1 is ten times what it should be."""
    rng = np.random.default_rng(1)
    parts = [rng.normal(size=(n, 1)) for n in (3, 4, 2, 5, 1, 6)]
    sets = sw.Sets.from_arrays(parts, ids=[f"set {a}" for a in range(len(parts))])
    study = sw.create_study(place, sets, model=sw.AggregateRegressor(**GIVEN), strategy="AggMI")
    right = [float((10 + 3 * part).sum()) for part in parts[:3]]
    study.tell_many(sets.ids[:3], right)
    study.amend("set 1", 10 * right[1])
    return study


class Clock(datetime):
    """A clock that a test can put forward."""

    ahead = timedelta(0)

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + cls.ahead


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(records, "datetime", Clock)
    monkeypatch.setattr("sumwise.study.storage.transactions.datetime", Clock)
    monkeypatch.setattr(Clock, "ahead", timedelta(0))
    return Clock


def play(study, answers, n):
    asked = []
    for _ in range(n):
        question = study.ask()
        study.tell(question.set_id, answers[question.set_id])
        asked.append(question)
    return asked
