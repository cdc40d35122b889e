"""Sessions of Spark: the format in one, and one with what alance needs.

The data source has the storage options that it was registered with in its class, which Spark
pickles into the tasks. Jobs that work from the driver need them, too: they are kept in this
process, under a name that the session's configuration has. So sessions that Spark clones, as for
`foreachBatch`, find both.
"""

from __future__ import annotations

import os
import sys
import uuid
from typing import TYPE_CHECKING, Final

from alance import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from alance.spark.source import AlanceSource

NAME: Final = "spark.alance.registration"  # in a session's configuration
# `lance` has tables by name and by path; the name of the format, as `parquet` does, by path.
CATALOGS: Final = ("spark.sql.catalog.lance", "spark.sql.catalog.alance")
CATALOG_CLASS: Final = "alance.spark.AlanceCatalog"  # in the connector
WAREHOUSE: Final = CATALOGS[0] + ".warehouse"
PYTHON_SOURCE: Final = (
    "org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource"
)

RANGE_ROWS: Final = 1 << 20  # more than any cluster has cores

_options: Final[dict[str, dict[str, str]]] = {}
_parallelism: Final[dict[str, int]] = {}


def register(
    spark: SparkSession,
    *,
    storage_options: Mapping[str, str] | None = None,
    warehouse: str | None = None,
) -> None:
    """Make the format `alance` known to a session, and with the connector the catalog `lance`.

    Args:
        storage_options: of all tables that this session reads, writes, follows or gives to jobs;
            they go to the executors with the tasks, and are in no plan and no log. Options of a
            single call come on top. None: those of the registration before, where there was one.
        warehouse: path or URI of the folder whose tables the catalog has by name. None: as it was;
            where there is none, it has tables by their path alone.
    """
    from alance.spark.jar import add_connector, server_has_connector
    from alance.spark.searching import Places, register_functions
    from alance.spark.source import AlanceSource, with_defaults

    name = spark.conf.get(NAME, None) or uuid.uuid4().hex
    if storage_options is None:
        storage_options = _options.get(name, {})
    has_connector = add_connector(spark)
    _register_source(spark, with_defaults(storage_options) if storage_options else AlanceSource)
    _options[name] = dict(storage_options)
    spark.conf.set(NAME, name)
    unset = [catalog for catalog in CATALOGS if spark.conf.get(catalog, None) is None]
    for catalog in unset if has_connector else ():
        spark.conf.set(catalog, CATALOG_CLASS)
    if unset == [*CATALOGS] and not server_has_connector(spark):
        for catalog in CATALOGS:
            spark.conf.unset(catalog)
    if warehouse is not None:
        spark.conf.set(WAREHOUSE, warehouse)
    register_functions(spark, Places(dict(storage_options), _warehouses(spark)))


def _register_source(spark: SparkSession, source: type[AlanceSource]) -> None:
    """Make a data source known under its name, beside the one of the connector.

    Spark's own `register` refuses a name that a jar has, unless the `python3` that it starts by
    itself (PYSPARK_PYTHON or the one in PATH, not `spark.pyspark.python`) found a source of that
    name. Sessions of another process (Connect) have only that one.
    """
    context = getattr(spark, "_sc", None)
    if context is None:
        spark.dataSource.register(source)
        return
    from pyspark.sql.udf import _wrap_function

    kind = getattr(context._jvm, PYTHON_SOURCE)
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    manager.registerDataSource(source.name(), kind(_wrap_function(context, source)))


def _warehouses(spark: SparkSession) -> dict[str, str]:
    """The folders of the catalogs of a session, by name."""
    prefix, suffix, settings = "spark.sql.catalog.", ".warehouse", spark.conf.getAll
    return {
        key[len(prefix) : -len(suffix)]: folder
        for key, folder in settings.items()
        if key.startswith(prefix)
        and key.endswith(suffix)
        and settings.get(key[: -len(suffix)]) == CATALOG_CLASS
    }


def register_once(spark: SparkSession) -> None:
    """Register the format where a session does not know it yet."""
    if spark.conf.get(NAME, None) is None:
        register(spark)


def storage_of(spark: SparkSession, storage_options: Mapping[str, str] | None) -> dict[str, str]:
    """The storage options of a call: those that the session was registered with, and its own."""
    name = spark.conf.get(NAME, None)
    return {**_options.get(name or "", {}), **(storage_options or {})}


def parallelism_of(spark: SparkSession) -> int:
    """Tasks that run at once. Cost: over Spark Connect a job, once a registration."""
    context = getattr(spark, "_sc", None)
    if context is not None:
        return int(context.defaultParallelism)
    name = spark.conf.get(NAME, None) or ""
    if name not in _parallelism:  # a server tells it by the parts that it makes of a range
        parts = spark.range(RANGE_ROWS).selectExpr("spark_partition_id() AS part")
        _parallelism[name] = parts.agg({"part": "max"}).collect()[0][0] + 1
    return _parallelism[name]


def session(
    name: str = "alance",
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    warehouse: str | None = None,
) -> SparkSession:
    """The running session, or a new one, with the format registered.

    JAVA_HOME and PYSPARK_PYTHON are set where they are not: to the Java that `find_java` finds, and
    to this interpreter, so that local workers have the packages that the driver has. Folders from
    which this process imports are handed to local workers by PYTHONPATH.

    Args:
        master: None: what `spark-submit` or the configuration say, or `local[*]`.
        conf: settings of Spark.
        warehouse: of the catalog `lance`; see `register`.

    Raises:
        NotFoundError: there is no Java, and none is running.
    """
    from pyspark.sql import SparkSession

    from alance.spark.session import register_once

    running = SparkSession.getActiveSession()
    if running is None:
        if "SPARK_REMOTE" not in os.environ:
            _prepare()
        builder = SparkSession.builder.appName(name)
        if master is not None:
            builder = builder.master(master)
        for key, value in (conf or {}).items():
            builder = builder.config(key, value)
        running = builder.getOrCreate()
    if warehouse is None:
        register_once(running)
    else:
        register(running, warehouse=warehouse)
    return running


def _prepare() -> None:
    # Here, as `python -m alance.spark.java` warns of a module that its package has imported.
    from alance.spark.java import MISSING, find_java

    home = find_java()
    if home is None:
        raise NotFoundError(MISSING)
    os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    if root in sys.path and root not in folders:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *folders])
