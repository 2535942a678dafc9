"""The local functions on a Dask cluster.

`on(client)` is a map: what `AggregateRegressor.embed` and `predict_parquet` do in threads, they do
on the workers with `run=on(client)`, where all see the same folders. `embed`, `fit`, `score` and
`select` keep the design in the memory of the workers instead (`learning.cluster`).
"""

from sumwise.learning.cluster import ClusterPool, embed, fit, score, select
from sumwise.outofcore.dask import connect, on, runs_on

__all__ = ["ClusterPool", "connect", "embed", "fit", "on", "runs_on", "score", "select"]
