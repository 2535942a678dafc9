"""Parquet files beyond memory: an index, a sort, a design on disk, predictions, Dask."""
