"""The local functions on a Dask cluster.

`on(client)` is a map over its workers. What is done with `run=on(client)` is the same as without:
`AggregateRegressor.embed` and `predict_parquet` on parts of files, and questions, scores and the
status of a study on parts of a design on disk. All workers see the same folders.
"""

from sumwise.outofcore.dask import connect, on, runs_on

__all__ = ["connect", "on", "runs_on"]
