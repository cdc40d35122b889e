"""Other engines over a dataset: what DuckDB, Polars and readers of pyarrow datasets ask of a scan.

An engine asks for columns, a filter and a number of rows, and these are all that is read. Engines
block the threads that they run in; scans go on in the event loop of the dataset.

Where to change what:
    calls of an engine's threads into the event loop: `bridge`
    a dataset as a pyarrow dataset: `arrow`
    SQL by DuckDB: `sql`
    a dataset as a lazy frame of Polars: `lazy`
"""
