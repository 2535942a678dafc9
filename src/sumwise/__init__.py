"""Choose which totals to measure; learn every part.

>>> import sumwise as sw
>>> sets = sw.Sets.from_arrays([[[0.0], [1.0]], [[2.0]]], ids=["a", "b"])
>>> sw.ActiveLearner(sets).ask().set_id
'a'
"""

from __future__ import annotations

from sumwise.acquisition import ACQUISITIONS, Acquisition
from sumwise.basis import BASES, Basis, Neural
from sumwise.errors import (
    DataError,
    InvalidSetError,
    LabelError,
    MissingExtraError,
    NonFiniteScoreError,
    PoolExhaustedError,
    SettingError,
    SumwiseError,
    UnknownSetError,
)
from sumwise.estimator import AggregateRegressor
from sumwise.loop import ActiveLearner, Answer, Ask
from sumwise.selection import score, select
from sumwise.sets import Sets

__version__ = "0.1.0"

__all__ = [
    "ACQUISITIONS",
    "BASES",
    "Acquisition",
    "ActiveLearner",
    "AggregateRegressor",
    "Answer",
    "Ask",
    "Basis",
    "DataError",
    "InvalidSetError",
    "LabelError",
    "MissingExtraError",
    "Neural",
    "NonFiniteScoreError",
    "PoolExhaustedError",
    "Sets",
    "SettingError",
    "SumwiseError",
    "UnknownSetError",
    "score",
    "select",
]
