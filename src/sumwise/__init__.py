"""Choose which totals to measure; learn every part.

>>> import sumwise as sw
>>> sets = sw.Sets.from_arrays([[[0.0], [1.0]], [[2.0]]], ids=["a", "b"])
>>> sw.ActiveLearner(sets).ask().set_id
'a'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sumwise.acquisition import ACQUISITIONS, Acquisition
from sumwise.basis import BASES, Basis, Neural
from sumwise.embedded import Embedded
from sumwise.errors import (
    DataError,
    InvalidSetError,
    LabelError,
    MissingExtraError,
    NonFiniteScoreError,
    PoolExhaustedError,
    SettingError,
    StorageError,
    SumwiseError,
    UnknownSetError,
)
from sumwise.estimator import AggregateRegressor
from sumwise.loop import ActiveLearner, Answer, Ask
from sumwise.scan import Scan
from sumwise.selection import score, select
from sumwise.sets import Sets

if TYPE_CHECKING:
    from sumwise.studies import create_study, import_study, open_study
    from sumwise.study import Study

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
    "Embedded",
    "InvalidSetError",
    "LabelError",
    "MissingExtraError",
    "Neural",
    "NonFiniteScoreError",
    "PoolExhaustedError",
    "Scan",
    "Sets",
    "SettingError",
    "StorageError",
    "Study",
    "SumwiseError",
    "UnknownSetError",
    "create_study",
    "import_study",
    "open_study",
    "score",
    "select",
]


def __getattr__(name: str) -> Any:
    """Studies need SQLAlchemy, which is loaded when the first one is made or opened."""
    if name in ("Study", "create_study", "import_study", "open_study"):
        from sumwise import studies

        return getattr(studies, name)
    raise AttributeError(f"module 'sumwise' has no attribute {name!r}")
