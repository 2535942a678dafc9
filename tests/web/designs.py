"""Studies that design their sets: sera that may be pooled, and villages with households."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sumwise as sw

LINEAR = sw.AggregateRegressor("linear")


def sera(path: Path, n: int = 40, **options: Any) -> Any:
    """An open study that pools tubes of serum, and the level in each tube."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"tube": [f"S{k:03d}" for k in range(n)]})
    table["age"], table["bmi"] = rng.uniform(20, 80, n).round(), rng.uniform(18, 35, n).round(1)
    level = (0.1 * table.age + 0.3 * table.bmi + rng.normal(0, 0.5, n)).round(2)
    sets = sw.Sets.from_frame(table, by="tube", x=["age", "bmi"], id="tube")
    design = {"size": (2, 8), "uses": 1, **options.pop("design", {})}
    settings = {"name": "Sera", "model": LINEAR, "design": design, "seed": 0, **options}
    return sw.create_study(path, sets, **settings), dict(zip(table.tube, level, strict=True))


def villages(path: Path, **options: Any) -> Any:
    """An open study of three villages of four households each, which may also be pooled."""
    x = np.random.default_rng(3).normal(size=(12, 2))
    arrays = [x[:4], x[4:8], x[8:]]
    sets = sw.Sets.from_arrays(arrays, ids=["Aba", "Bem", "Cor"])
    design = {"size": (2, 4), "uses": 2, **options.pop("design", {})}
    return sw.create_study(path, sets, model=LINEAR, design=design, seed=0, **options)


def measure(study: Any, level: Any, by: str = "ann") -> str:
    """Ask for a pool and tell its total; gives its name."""
    asked = study.ask(by=by)
    study.tell(asked.set_id, round(sum(level[tube] for tube in asked.members), 2), by=by)
    return str(asked.set_id)
