"""Sets of individuals and where they come from: arrays, data frames, tables and Parquet files."""
