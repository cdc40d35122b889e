"""The connector for Spark's planner: a jar that is compiled on first use, cached and loaded.

Its sources are in `java/`. They are compiled against PySpark's own jars, by the `javac` of the Java
that Spark uses. The jar is cached for this user under a name that identifies the sources and
Spark's jars. Without a JDK, Spark reads with the Python data source, and a warning is logged.

  python -m alance.spark.jar      prints the jar's path, for `--jars` of a cluster or a server
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from alance import NotFoundError
from alance.spark.java import MISSING, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES: Final = Path(__file__).parent / "java"
PROVIDER: Final = "alance.spark.AlanceProvider"
SERVICE: Final = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
LOADER: Final = "org.apache.spark.util.MutableURLClassLoader"
RELEASE: Final = "17"
# part of the error message of Spark 4.3, and of earlier versions
NO_CLASS: Final = ("cannot find the plugin class", "plugin class not found")
COMPILE_S: Final = 300.0  # javac takes some seconds

_log = logging.getLogger("alance.spark")


def connector() -> Path:
    """Return the path of the jar; compile it if it is not cached.

    Cost: a run of javac (some seconds) once for each version of the sources and of Spark.

    Raises:
        NotFoundError: no javac, no Spark jars, or a cache folder that others may write to.
    """
    jars = _spark_jars()
    sources = sorted(SOURCES.glob("*.java"))
    digest = hashlib.sha256("\n".join(sorted(jar.name for jar in jars)).encode())
    for source in sources:
        digest.update(source.read_bytes())
    folder = _cache_folder()
    jar = folder / f"connector-{digest.hexdigest()[:16]}.jar"
    if not jar.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            os.replace(_compiled(sources, jars, Path(scratch)), jar)
    return jar


def _compiled(sources: list[Path], jars: list[Path], scratch: Path) -> Path:
    home = find_java()
    if home is None:
        raise NotFoundError(MISSING)
    javac = home / "bin" / "javac"
    program = str(javac) if javac.exists() else shutil.which("javac")
    if program is None:
        raise NotFoundError(f"no javac in {home} or PATH; a JDK {RELEASE} has one, a JRE does not")
    classes = scratch / "classes"
    path = os.pathsep.join(map(str, jars))
    arguments = ["-nowarn", "-encoding", "UTF-8", "-source", RELEASE, "-target", RELEASE]
    try:
        done = subprocess.run(
            [program, *arguments, "-cp", path, "-d", classes, *sources],
            capture_output=True,
            text=True,
            timeout=COMPILE_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NotFoundError(f"{program}: {error}") from error
    if done.returncode:
        raise NotFoundError(f"{program} failed against the jars of Spark: {done.stderr}")
    jar = scratch / "connector.jar"
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(SERVICE, PROVIDER + "\n")
        for compiled in sorted(classes.rglob("*.class")):
            archive.write(compiled, compiled.relative_to(classes))
    return jar


def _spark_jars() -> list[Path]:
    from pyspark.find_spark_home import _find_spark_home

    jars = sorted((Path(_find_spark_home()) / "jars").glob("*.jar"))
    if not jars:
        raise NotFoundError("no jars of Spark in SPARK_HOME or PySpark")
    return jars


def _cache_folder() -> Path:
    """Return the cache folder, which only this user can write to, because its jars are executed.

    Raises:
        NotFoundError: the folder cannot be created or written, or others may write to it.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "alance"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
        if about.st_uid != os.geteuid() or about.st_mode & 0o022:
            raise NotFoundError(f"{folder}: others may write to it, no jar is kept or found there")
        if not os.access(folder, os.W_OK):
            raise NotFoundError(f"{folder}: cannot be written")
    except OSError as error:
        raise NotFoundError(f"{folder}: {error}") from error
    return folder


def add_connector(spark: SparkSession) -> bool:
    """Load the connector into a session's JVM and its executors, unless it is already loaded.

    Returns:
        True if the session has the connector. With Spark Connect always True, because its server
        loads it when it starts (see `server_has_connector`).
    """
    context = getattr(spark, "_sc", None)
    if context is None or _is_loaded(context._jvm):
        return True
    jar = connector_or_none()
    if jar is None:
        return False
    loader = _loader(context._jvm)
    if loader is None:
        _warn(f"Spark's class loader takes no jars: start it with --jars {jar}")
        return False
    loader.addURL(context._jvm.java.io.File(str(jar)).toURI().toURL())
    context._jsc.addJar(str(jar))
    return True


def server_has_connector(spark: SparkSession) -> bool:
    """True if the server of Spark Connect was started with the connector.

    Always True without Connect. Logs a warning if the result is False. The catalog `alance` must be
    configured. Cost: one request.
    """
    if getattr(spark, "_sc", None) is not None:
        return True
    from pyspark.errors import PySparkException

    try:
        spark.sql("SHOW PROCEDURES IN alance.system")
    except PySparkException as error:
        if not any(words in str(error) for words in NO_CLASS):
            raise
        _warn(
            "the server of Spark Connect has no connector, and no catalogs `lance` and `alance`: "
            "start it with --jars and what `python -m alance.spark.jar` prints there"
        )
        return False
    return True


def _is_loaded(jvm: Any) -> bool:
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(PROVIDER.replace(".", "/") + ".class") is not None


def _loader(jvm: Any) -> Any:
    """Return Spark's outermost class loader, which all threads share; None if it is not Spark's."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    outermost = None
    while loader is not None:
        if loader.getClass().getName() == LOADER:
            outermost = loader
        loader = loader.getParent()
    return outermost


@cache
def connector_or_none() -> Path | None:
    """Return the path of the jar. If there is none, warn once and return None."""
    try:
        return connector()
    except NotFoundError as error:
        _warn(str(error))
        return None


def _warn(reason: str) -> None:
    _log.warning("no connector: Spark reads with the data source in Python; %s", reason)


def main() -> int:
    """Print the jar's path and return 0; if there can be no jar, print the reason and return 1."""
    try:
        print(connector())
    except NotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
