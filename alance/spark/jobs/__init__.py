"""Jobs of a pipeline: each a function over a Spark session that gives a `Summary`."""

from alance.spark.jobs.backfill import backfill
from alance.spark.jobs.base import Progress, Summary
from alance.spark.jobs.indexing import build_index
from alance.spark.jobs.rows import delete, merge
from alance.spark.jobs.transfer import export, ingest
from alance.spark.jobs.upkeep import cleanup, compact, validate

__all__ = [
    "Progress",
    "Summary",
    "backfill",
    "build_index",
    "cleanup",
    "compact",
    "delete",
    "export",
    "ingest",
    "merge",
    "validate",
]
