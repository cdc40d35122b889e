"""Pipeline jobs: functions of a Spark session that return a `Summary`."""

from alance.spark.jobs.backfill import backfill
from alance.spark.jobs.base import Summary
from alance.spark.jobs.indexing import build_index
from alance.spark.jobs.merging import When, merge
from alance.spark.jobs.rows import delete, update
from alance.spark.jobs.transfer import export, ingest
from alance.spark.jobs.upkeep import cleanup, compact, maintain, validate

__all__ = [
    "Summary",
    "When",
    "backfill",
    "build_index",
    "cleanup",
    "compact",
    "delete",
    "export",
    "ingest",
    "maintain",
    "merge",
    "update",
    "validate",
]
