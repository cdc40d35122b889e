"""Spark sessions: registers the format in a session, and builds sessions that alance can use.

The data source class holds the storage options of its registration, and Spark pickles the class
into the tasks. Jobs on the driver need the options, too, so this process stores them under a name
that is in the session's configuration. Sessions that Spark clones, as for `foreachBatch`, therefore
have both.
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

REGISTRATION_KEY: Final = "spark.alance.registration"  # key in a session's configuration
# `lance` resolves tables by name and by path; `alance`, the format's name, only by path, like
# `parquet`.
CATALOGS: Final = ("spark.sql.catalog.lance", "spark.sql.catalog.alance")
CATALOG_CLASS: Final = "alance.spark.AlanceCatalog"  # class of the connector
EXTENSIONS_CLASS: Final = "alance.spark.AlanceExtensions"
WAREHOUSE: Final = CATALOGS[0] + ".warehouse"
PYTHON_SOURCE: Final = (
    "org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource"
)

RANGE_ROWS: Final = 1 << 20  # rows of a range, more than the cores of any cluster

_options: Final[dict[str, dict[str, str]]] = {}
_parallelism: Final[dict[str, int]] = {}


def register(
    spark: SparkSession,
    *,
    storage_options: Mapping[str, str] | None = None,
    warehouse: str | None = None,
) -> None:
    """Register the format `alance` in a session, and with the connector the catalog `lance`.

    Args:
        storage_options: options for all tables that this session reads, writes, follows or passes
            to jobs; None: those of an earlier registration, if any. They are sent to the executors
            with the tasks, and appear in no plan and no log. Options of a single call take
            precedence.
        warehouse: path or URI of the folder whose tables the catalog finds by name; None:
            unchanged. Without a warehouse, tables are only found by path.
    """
    from alance.spark.jar import add_connector, server_has_connector
    from alance.spark.searching import TablePlaces, register_functions
    from alance.spark.source import AlanceSource, with_defaults

    name = spark.conf.get(REGISTRATION_KEY, None) or uuid.uuid4().hex
    if storage_options is None:
        storage_options = _options.get(name, {})
    has_connector = add_connector(spark)
    _register_source(spark, with_defaults(storage_options) if storage_options else AlanceSource)
    _options[name] = dict(storage_options)
    spark.conf.set(REGISTRATION_KEY, name)
    unset = [catalog for catalog in CATALOGS if spark.conf.get(catalog, None) is None]
    for catalog in unset if has_connector else ():
        spark.conf.set(catalog, CATALOG_CLASS)
    if unset == [*CATALOGS] and not server_has_connector(spark):
        for catalog in CATALOGS:
            spark.conf.unset(catalog)
    if warehouse is not None:
        spark.conf.set(WAREHOUSE, warehouse)
    register_functions(spark, TablePlaces(dict(storage_options), _warehouses(spark)))


def _register_source(spark: SparkSession, source: type[AlanceSource]) -> None:
    """Register a data source under the same name as the connector's source.

    Without Spark Connect, this calls Spark's JVM, because Spark's own `register` refuses a name
    that a jar uses. (It accepts the name only if the `python3` of PYSPARK_PYTHON or PATH finds a
    source of that name.) With Spark Connect, `register` is the only way.
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
    """Return the warehouses of a session's catalogs, by catalog name."""
    prefix, suffix, settings = "spark.sql.catalog.", ".warehouse", spark.conf.getAll
    return {
        key[len(prefix) : -len(suffix)]: folder
        for key, folder in settings.items()
        if key.startswith(prefix)
        and key.endswith(suffix)
        and settings.get(key[: -len(suffix)]) == CATALOG_CLASS
    }


def register_once(spark: SparkSession) -> None:
    """Register the format unless it is already registered in the session."""
    if spark.conf.get(REGISTRATION_KEY, None) is None:
        register(spark)


def storage_of(spark: SparkSession, storage_options: Mapping[str, str] | None) -> dict[str, str]:
    """Combine the session's storage options with those of a call, which take precedence."""
    name = spark.conf.get(REGISTRATION_KEY, None)
    return {**_options.get(name or "", {}), **(storage_options or {})}


def parallelism_of(spark: SparkSession) -> int:
    """Return the number of tasks that run at once.

    Cost: none; with Spark Connect, a small job at the first call after each `register`.
    """
    context = getattr(spark, "_sc", None)
    if context is not None:
        return int(context.defaultParallelism)
    name = spark.conf.get(REGISTRATION_KEY, None) or ""
    # a Connect server shows it only as the number of partitions of a range
    if name not in _parallelism:
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
    """Return the running session, or a new one, with the format registered.

    Before Java is started, JAVA_HOME is set to the result of `find_java`. PYSPARK_PYTHON is set to
    this interpreter unless it has a value, so that local workers have the driver's packages.
    PYTHONPATH passes the folder of alance to local workers if this process imports from it.

    Args:
        master: URL of the master; None: the one of `spark-submit` or the configuration, else
            `local[*]`.
        conf: settings of Spark.
        warehouse: warehouse of the catalog `lance`; see `register`.

    Raises:
        NotFoundError: no session is running, and no Java was found.
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
        for key, value in _with_extensions(conf or {}).items():
            builder = builder.config(key, value)
        running = builder.getOrCreate()
    if warehouse is None:
        register_once(running)
    else:
        register(running, warehouse=warehouse)
    return running


def _with_extensions(conf: Mapping[str, str]) -> dict[str, str]:
    """Add the connector and its statements, which Spark loads when it starts."""
    from alance.spark.jar import connector_or_none

    jar = None if "SPARK_REMOTE" in os.environ else connector_or_none()
    if jar is None:
        return dict(conf)
    more = {"spark.jars": str(jar), "spark.sql.extensions": EXTENSIONS_CLASS}
    return {**conf, **{key: ",".join(filter(None, [conf.get(key), more[key]])) for key in more}}


def _prepare() -> None:
    # Imported here, because `python -m alance.spark.java` warns if its package has already imported
    # the module.
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
