"""Tables with text: what encoding four columns costs, beside pandas' `get_dummies`.

Both make the same matrix of numbers in double precision, which is checked first. `get_dummies`
makes Booleans by default, in an eighth of the memory and less than half of the time; ours is
compared with either.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.report import Row, seconds
from benchmarks.timing import in_turns, say
from sumwise.data.frames import Table, as_frame
from sumwise.data.recipe import learn

SIZES = (10_000, 100_000, 1_000_000)
LEVELS = (3, 8, 12, 20)
LIMIT = 2.0


def run(full: bool) -> list[Row]:
    del full
    rows = []
    for n in SIZES:
        say(f"encoding: {n} rows")
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(
            {
                f"text {i}": rng.choice([f"level {j:02}" for j in range(k)], n)
                for i, k in enumerate(LEVELS)
            }
        )
        frame.insert(0, "number", rng.normal(size=n))
        _check(frame)
        jobs = {
            "ours": lambda frame=frame: learn(Table(as_frame(frame)), list(frame.columns)),
            "get_dummies, double precision": lambda frame=frame: pd.get_dummies(
                frame, dtype=float
            ).to_numpy(),
            "get_dummies, Booleans": lambda frame=frame: pd.get_dummies(frame),
        }
        times = in_turns(jobs, rounds=5)
        for peer in list(jobs)[1:]:
            ratio = times.ratio("ours", peer)
            rows.append(
                Row(
                    "encode four text columns",
                    f"{n} rows",
                    seconds(times.median("ours")),
                    peer,
                    seconds(times.median(peer)),
                    ratio,
                    f"at most {LIMIT:g} times",
                    ratio <= LIMIT,
                )
            )
    return rows


def _check(frame: pd.DataFrame) -> None:
    recipe, x = learn(Table(as_frame(frame)), list(frame.columns))
    theirs = pd.get_dummies(frame, dtype=float, prefix_sep=" = ")
    if list(recipe.labels) != list(theirs.columns) or not (x == theirs.to_numpy()).all():
        raise AssertionError("the encoded tables differ")
