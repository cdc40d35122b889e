"""Found by PySpark, which looks for packages of such names: `.format("alance")` without `register`.

A PySpark too old for alance finds nothing here, so that its other data sources go on working.
"""

from contextlib import suppress

with suppress(ImportError):
    from alance.spark.source import AlanceSource as DefaultSource  # noqa: F401
