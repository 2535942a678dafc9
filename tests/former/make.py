"""Studies, a design folder and an export as sumwise made them when its modules lay side by side.

`python -m tests.former.make` wrote the files in this folder with version 0.1.0 of November 2026,
before the modules were moved into packages. It is not to be run again: later versions are tried
on what is kept here, in `test_former.py`.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sumwise as sw

HERE = Path(__file__).parent
SIZES = [2, 1, 3, 2, 1, 4, 2, 3, 5, 1, 2, 6]
IDS = [*"abcdefghij", ("k", 1.5), 12]


def sets() -> sw.Sets:
    rng = np.random.default_rng(11)
    x = [rng.normal(size=(n, 3)) for n in SIZES]
    theta = [rng.uniform(0.5, 2.0, n) * (1 if n % 3 else -1) for n in SIZES]
    return sw.Sets.from_arrays(x, weights=theta, ids=IDS)


def studies(folder: Path) -> dict[str, dict]:
    cost = {set_id: 1.0 + a for a, set_id in enumerate(IDS)}
    return {
        "auto": {},
        "paper": {"preset": "paper"},
        "fourier": {
            "model": sw.AggregateRegressor("fourier", n_basis=12),
            "strategy": "AggMI",
            "noise_std": 0.5,
        },
        "linear": {
            "model": sw.AggregateRegressor("linear", hyperparameters=(1.0, 4.0)),
            "strategy": "EPIG",
            "cost": cost,
            "targets": np.ones((2, 3)),
            "target_weights": [1.0, 2.0],
            "enough": 0.01,
        },
        "polynomial": {
            "model": sw.AggregateRegressor("polynomial", standardize=False),
            "strategy": "QBC",
        },
    }


def play(study: sw.Study) -> None:
    for number in range(5):
        question = study.ask(by="ann")
        study.tell(question.set_id, 3.0 * number - 4.0, note="ü", noise_std=0.25 * (number == 2))
    study.amend(question.set_id, 7.5, note="a slip")
    measured = {answer.set_id for answer in study.answers}
    study.skip(next(set_id for set_id in study.ids if set_id not in measured), note="no access")


def found(study: sw.Study) -> dict:
    """The next question and all predictions, as JSON that keeps every bit."""
    (question,) = study.propose(1)
    return {
        "set_id": repr(question.set_id),
        "score": question.score,
        "expected": question.expected,
        "std": question.std,
        "individuals": columns(study.predict()),
        "sets": columns(study.predict_sets()),
    }


def columns(predictions) -> dict[str, list[float]]:
    names = ("mean", "std", "lower", "upper")
    return {name: np.ravel(getattr(predictions, name)).tolist() for name in names}


def scan() -> sw.Scan:
    return sw.Sets.scan_parquet(HERE / "pool", by="set", x=["x0", "x1", "x2"], weights="theta")


def write_pool() -> None:
    every = sets()
    owner = np.repeat(np.arange(len(every)), every.sizes)
    table = pa.table(
        {
            "set": [f"{a:02}" for a in owner],
            **{f"x{d}": every.x[:, d] for d in range(3)},
            "theta": every.theta,
        }
    )
    (HERE / "pool").mkdir()
    pq.write_table(table.slice(0, 17), HERE / "pool" / "0.parquet", row_group_size=7)
    pq.write_table(table.slice(17), HERE / "pool" / "1.parquet", row_group_size=7)


def main() -> None:
    for name in ("pool", "design", "export"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    (HERE / "studies.db").unlink(missing_ok=True)
    expected = {}
    for name, settings in studies(HERE).items():
        with sw.create_study(HERE / "studies.db", sets(), name=name, seed=5, **settings) as study:
            play(study)
            expected[name] = found(study)
            if name == "auto":
                study.export(HERE / "export")
    connection = sqlite3.connect(HERE / "studies.db")
    connection.execute("PRAGMA journal_mode = DELETE")  # all in one file
    connection.execute("VACUUM")
    connection.close()
    write_pool()
    model = sw.AggregateRegressor("fourier", n_basis=8, random_state=3)
    learner = sw.ActiveLearner(model.embed(scan(), HERE / "design"), strategy="AggMI")
    for number in range(3):
        learner.tell(learner.ask().set_id, 2.0 * number - 1.0)
    ask = learner.ask()
    expected["design"] = {"labels": dict(learner.labels), "set_id": ask.set_id, "score": ask.score}
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
