"""Choose which totals to measure; learn every part.

>>> import sumwise as sw
>>> sets = sw.Sets.from_arrays([[[0.0], [1.0]], [[2.0]]], ids=["a", "b"])
>>> sw.ActiveLearner(sets).ask().set_id
'a'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from sumwise.acquisition.strategies import ACQUISITIONS, Acquisition
    from sumwise.data.parquet import Scan
    from sumwise.data.sets import Sets
    from sumwise.experiments.simulated import simulate
    from sumwise.learning.estimator import AggregateRegressor
    from sumwise.learning.learner import ActiveLearner
    from sumwise.learning.pools import Pools, design_pools
    from sumwise.learning.propose import Answer, Ask
    from sumwise.learning.selection import score, select
    from sumwise.model.basis import BASES, Basis, Neural
    from sumwise.outofcore.design_store import Embedded
    from sumwise.study.create import create_study, import_study, open_study
    from sumwise.study.study import Study

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
    "Pools",
    "Scan",
    "Sets",
    "SettingError",
    "StorageError",
    "Study",
    "SumwiseError",
    "UnknownSetError",
    "create_study",
    "design_pools",
    "import_study",
    "open_study",
    "score",
    "select",
    "simulate",
]


# where the other names live: they are loaded at first use, so that `sumwise --help` and completion
# in a shell need no NumPy, and only studies need SQLAlchemy
_HOMES: Final = {
    "acquisition.strategies": ("ACQUISITIONS", "Acquisition"),
    "model.basis": ("BASES", "Basis", "Neural"),
    "outofcore.design_store": ("Embedded",),
    "experiments.simulated": ("simulate",),
    "learning.estimator": ("AggregateRegressor",),
    "learning.learner": ("ActiveLearner",),
    "learning.pools": ("Pools", "design_pools"),
    "learning.propose": ("Answer", "Ask"),
    "data.parquet": ("Scan",),
    "learning.selection": ("score", "select"),
    "data.sets": ("Sets",),
    "study.create": ("create_study", "import_study", "open_study"),
    "study.study": ("Study",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"sumwise.{home}"), name)
            return value
    raise AttributeError(f"module 'sumwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
