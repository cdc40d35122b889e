"""The format in a session of Spark, and the storage options that it was registered with.

The data source has the options in its class, which Spark pickles into the tasks. Jobs that work
from the driver need them, too: they are kept in this process, under a name that the session's
configuration has. So sessions that Spark clones, as for `foreachBatch`, find both.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

NAME: Final = "spark.alance.registration"  # in a session's configuration

_options: Final[dict[str, dict[str, str]]] = {}


def register(spark: SparkSession, *, storage_options: Mapping[str, str] | None = None) -> None:
    """Make the format `alance` known to a session.

    Args:
        storage_options: of all tables that this session reads, writes, follows or gives to jobs;
            they go to the executors with the tasks, and are in no plan and no log. Options of a
            single call come on top. None: those of the registration before, where there was one.
    """
    from alance.spark.source import AlanceSource, with_defaults

    name = spark.conf.get(NAME, None) or uuid.uuid4().hex
    if storage_options is None:
        storage_options = _options.get(name, {})
    spark.dataSource.register(with_defaults(storage_options) if storage_options else AlanceSource)
    _options[name] = dict(storage_options)
    spark.conf.set(NAME, name)


def register_once(spark: SparkSession) -> None:
    """Register the format where a session does not know it yet."""
    if spark.conf.get(NAME, None) is None:
        register(spark)


def storage_of(spark: SparkSession, given: Mapping[str, str] | None) -> dict[str, str]:
    """The storage options of a call: those that the session was registered with, and its own."""
    name = spark.conf.get(NAME, None)
    return {**_options.get(name or "", {}), **(given or {})}
