"""A database as the first version made it, kept so that later versions can be tried on it.

`python -m tests.first_database` wrote it when schema 0001 was released; it is not to be run again.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np

import sumwise as sw
from tests.builders import random_sets

FIRST = Path(__file__).with_name("databases") / "v0001.db"
QUESTIONS = {"evidence": "c", "adam": "d", "neural": "d"}  # what each asks next
MODELS = {
    "evidence": sw.AggregateRegressor("fourier", n_basis=8),
    "adam": sw.AggregateRegressor("linear", hyperparameters="adam"),
    "neural": sw.AggregateRegressor(sw.Neural(width=3, depth=2, n_basis=4, epochs=10)),
}


def make() -> dict[str, str]:
    FIRST.unlink(missing_ok=True)
    rng = np.random.default_rng(7)
    sets = random_sets([2, 1, 3, 2, 1, 4, 2, 3], rng, n_inputs=2, ids=[*"abcdefg", ("h", 1.5)])
    asked = {}
    for name, model in MODELS.items():
        settings = {"name": name, "model": model, "seed": 1, "claim_days": 1e-6}
        with sw.create_study(FIRST, sets, **settings) as study:
            for number in range(3):
                question = study.ask(by="ann")
                noise = 2.5 if number == 0 and name == "evidence" else None
                study.tell(question.set_id, 10.0 + number, note="ü", noise_std=noise)
            asked[name] = study.ask(by="bob").set_id
    connection = sqlite3.connect(FIRST)
    connection.execute("PRAGMA journal_mode = DELETE")  # all in one file
    connection.execute("VACUUM")
    connection.close()
    return asked


if __name__ == "__main__":
    print(make())
