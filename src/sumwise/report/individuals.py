"""The individuals that a report shows: all, or those with the highest and the lowest predictions.

Where individuals stay in their files, their means are worked out part by part, and only those that
stand out are read and predicted with intervals.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from sumwise.learning.learner import ActiveLearner
from sumwise.learning.moment import predict_rows
from sumwise.model.predict import Predictions
from sumwise.outofcore.predict_parquet import highest_and_lowest
from sumwise.outofcore.scanned_sets import ScannedSets
from sumwise.study.study import Study
from sumwise.util.shapes import Float, Int

MOST: Final = 1000  # rows of a table


class Shown(NamedTuple):
    """Some individuals in the order in which they are shown."""

    rows: Int[np.ndarray, " n"]  # of the sets
    x: Float[np.ndarray, "n D"]
    found: Predictions


def standing_out(study: Study | ActiveLearner, level: float) -> Shown:
    """What is predicted of individuals that stand out."""
    sets, about = study.sets, study.about
    if isinstance(sets, ScannedSets):
        model = study.model.fitted()
        rows = np.sort(sets.rows_of(*highest_and_lowest(model, sets.scan, MOST, about.ends)))
        found, x = predict_rows(model, study.answers, sets, rows, level, about)
    else:
        found, x, rows = study.predict(level=level), sets.x, np.arange(sets.n_rows)
    at = np.arange(len(rows))
    if sets.n_rows > MOST:
        order = np.argsort(-found.mean, kind="stable")
        at = np.concatenate([order[: MOST // 2], order[-(MOST // 2) :]])
    ends = np.stack([found.lower, found.upper])[:, at]
    return Shown(rows[at], x[at], Predictions(found.mean[at], found.std[at], level, ends=ends))
