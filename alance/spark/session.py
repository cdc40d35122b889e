"""A Spark session with what alance needs: Java found, Python workers of this very environment."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from alance import NotFoundError
from alance.spark.java import MISSING, find_java

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


def session(
    name: str = "alance", *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """The running session, or a new one, with the format registered.

    JAVA_HOME and PYSPARK_PYTHON are set where they are not: to the Java that `find_java` finds, and
    to this interpreter, so that local workers have the packages that the driver has. Folders from
    which this process imports are handed to local workers by PYTHONPATH.

    Args:
        master: None: what `spark-submit` or the configuration say, or `local[*]`.
        conf: settings of Spark.

    Raises:
        NotFoundError: there is no Java, and none is running.
    """
    from pyspark.sql import SparkSession

    from alance.spark.registration import register_once

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
    register_once(running)
    return running


def _prepare() -> None:
    home = find_java()
    if home is None:
        raise NotFoundError(MISSING)
    os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    known = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    if root in sys.path and root not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *known])
