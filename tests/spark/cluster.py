"""A standalone cluster on this machine: a master and workers as processes of Spark's own programs.

The Python of its executors has the packages that alance needs, and not alance itself: this comes
with an application, as an archive (`packed`).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import alance
from alance.spark.jar import connector
from alance.spark.java import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator

END_S = 30.0  # then a process is killed
JOB_S = 3600.0  # of a program: some 15 s on a machine that does nothing else, minutes on a busy one
# Spark takes processes for dead, or gives up, that a busy machine has not let run for a while.
PATIENT = {
    "spark.network.timeout": "1200s",
    "spark.python.authenticate.socketTimeout": "1200s",
    "spark.sql.broadcastTimeout": "1200s",
}
# Spark gives the process of a source in Python, and that of a function of `foreachBatch` over
# Connect, ten seconds to import and connect.
LATE = "Python worker failed to connect back"
POLL_S = 0.05
SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # of a JVM that does little
ARCHIVE = "alance_packages"  # how executors name it


def spark_home() -> Path:
    return folder_of("pyspark") / "pyspark"


def folder_of(package: str) -> Path:
    """Return the folder from which a package is imported."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parents[1]


def python_without_alance(folder: Path) -> Path:
    """A program that runs Python with the packages of this one, but for alance."""
    needed = ("numpy", "pandas", "pyarrow", "obstore", "pyroaring")
    folders = os.pathsep.join(dict.fromkeys(str(folder_of(package)) for package in needed))
    program = folder / "python3"
    python, path = shlex.quote(sys.executable), shlex.quote(folders)
    program.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:"{path} exec {python} -S "$@"\n')
    program.chmod(0o755)
    return program


def packed(folder: Path) -> str:
    """An archive with alance and its kernels, and the name by which executors have it."""
    root, kernels = Path(alance.__file__).parents[1], find_spec("_alance_kernels")
    assert kernels is not None
    assert kernels.origin is not None
    packages = folder / "packages"
    shutil.copytree(root / "alance", packages / "alance", ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(kernels.origin, packages)
    return f"{shutil.make_archive(str(packages), 'zip', packages)}#{ARCHIVE}"


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a Spark process: this one's, without Python's package paths."""
    by_name = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYSPARK", "PYTHONPATH", "SPARK", "VIRTUAL_ENV"))
    }
    return {
        **by_name,
        "JAVA_HOME": str(find_java()),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"{SMALL} -Dspark.worker.timeout=1200",
        **more,
    }


class Daemon:
    """A process of Spark, which begins at once, and the processes that it starts.

    Attributes:
        log: what it and they print.
    """

    def __init__(self, folder: Path, name: str, command: list[str], env: dict[str, str]) -> None:
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                cwd=folder,
                start_new_session=True,
            )

    def awaited(self, words: str) -> str:
        """Wait until it has printed some words; gives what follows them in their line."""
        pattern = re.compile(re.escape(words) + r"(.*)\n")
        while (match := pattern.search(self.log.read_text())) is None:
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(POLL_S)
        return match[1].strip()

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """Workers with a core each, whose Python has no alance; gives the URL of their master."""
    env = environment(PYSPARK_PYTHON=str(python_without_alance(folder)))
    program, package = str(spark_home() / "bin" / "spark-class"), "org.apache.spark.deploy"
    own = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with ExitStack() as ends:
        master = Daemon(folder, "master", [program, f"{package}.master.Master", *own], env)
        ends.callback(master.end)
        url = master.awaited("Starting Spark master at ")
        command = [program, f"{package}.worker.Worker", *own, "--cores", "1", "--memory", "1g"]
        begun = []
        for name in (f"worker{number}" for number in range(workers)):
            options = ["--work-dir", str(folder / name), url]
            begun.append(Daemon(folder, name, [*command, *options], env))
            ends.callback(begun[-1].end)
        for worker in begun:
            worker.awaited("Successfully registered with master ")
        yield url


@contextmanager
def connect_server(folder: Path, *, has_connector: bool = True) -> Iterator[str]:
    """A server of Spark Connect; gives its URL."""
    settings = {
        "master": "local[2]",
        "jars": str(connector()) if has_connector else "",
        "ui.enabled": "false",
        "sql.shuffle.partitions": "2",
        "connect.grpc.binding.address": "127.0.0.1",
        "connect.grpc.binding.port": "0",
        "driver.extraJavaOptions": SMALL,
        "local.dir": str(folder / "local"),
        "pyspark.python": sys.executable,
    }
    program = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = [str(spark_home() / "bin" / "spark-submit"), "--class", program]
    for name, value in {**{f"spark.{key}": settings[key] for key in settings}, **PATIENT}.items():
        command += ["--conf", f"{name}={value}"]
    env = environment(SPARK_DAEMON_MEMORY="1g", PYSPARK_PYTHON=sys.executable)
    server = Daemon(folder, "connect", [*command, "spark-internal"], env)
    try:
        port = server.awaited("Spark Connect server started at: ").rpartition(":")[2]
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.end()
