"""The local functions on a Dask cluster.

`on(client)` is a map: what `AggregateRegressor.embed` and `predict_parquet` do in threads, they do
on the workers with `run=on(client)`, where all see the same folders.

`embed` keeps the design in the memory of the workers instead, in as many slices as there are parts
of the files; nothing is written, and no set's row leaves its worker unless it is among the best.
What travels per question is the posterior (t vectors of K numbers) one way, and each slice's few
best sets the other way. A worker that dies takes its slices along; Dask makes them again.
"""

from __future__ import annotations

from sumwise.learning.cluster import Scored, fit, positions_of, rows_of, score, select
from sumwise.learning.cluster_pool import ClusterPool, Slice, embed
from sumwise.outofcore.dask import connect, on, runs_on

__all__ = [
    "ClusterPool",
    "Scored",
    "Slice",
    "connect",
    "embed",
    "fit",
    "on",
    "positions_of",
    "rows_of",
    "runs_on",
    "score",
    "select",
]
