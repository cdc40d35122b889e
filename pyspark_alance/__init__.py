"""Package that PySpark finds by its name, so that `.format("alance")` works without `register`.

A PySpark that is too old for alance finds no data source here, so that its other data sources work.
"""

from contextlib import suppress

with suppress(ImportError):
    from alance.spark.source import AlanceSource as DefaultSource  # noqa: F401
