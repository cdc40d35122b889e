"""Scans of datasets for other engines: DuckDB, Polars, and readers of pyarrow datasets.

An engine requests columns, a filter and a number of rows; nothing else is read. Engines block the
threads that they run in; scans run in the event loop of the dataset.

Where to change what:
    calls of an engine's threads into the event loop: `bridge`
    a dataset as a pyarrow dataset: `arrow`
    SQL by DuckDB: `sql`
    a dataset as a lazy frame of Polars: `lazy`
"""
