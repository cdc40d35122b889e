"""Programs run by `spark-submit`, where the `python3` that Spark finds by itself has no alance."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import lance
import pytest

from alance.spark.jar import connector
from alance.spark.java import find_java
from tests.spark.cluster import JOB_S

PROGRAM = """
import sys

import alance.spark
from alance.spark.session import session

spark = session(warehouse=sys.argv[1])
alance.spark.register(spark)
spark.range(10).writeTo("lance.items").create()
spark.range(10, 15).write.format("alance").mode("append").save(sys.argv[1] + "/items.lance")
stream = spark.readStream.table("lance.items").writeStream
stream = stream.option("checkpointLocation", sys.argv[1] + "/checkpoint").trigger(availableNow=True)
stream.toTable("lance.copy").awaitTermination()
spark.stop()
"""


def without_alance(folder: Path) -> str:
    """A PATH whose `python3` has no packages."""
    program = folder / "python3"
    folder.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S "$@"\n')
    program.chmod(0o755)
    return os.pathsep.join([str(folder), os.environ["PATH"]])


@pytest.mark.timeout(2 * JOB_S)
@pytest.mark.parametrize("has_jar", [False, True], ids=["jar is added", "jar is given"])
def test_a_program_registers_the_format_twice(tmp_path, has_jar):
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home, program = Path(spec.origin).parent, tmp_path / "program.py"
    program.write_text(PROGRAM)
    by_name = {
        name: value
        for name, value in os.environ.items()
        if "PYSPARK" not in name and name != "PYTHONPATH"
    }
    settings = ("master=local[1]", "ui.enabled=false", f"local.dir={tmp_path}/local")
    python = (f"pyspark.python={sys.executable}", f"pyspark.driver.python={sys.executable}")
    done = subprocess.run(
        [
            *(home / "bin" / "spark-submit", *(["--jars", connector()] if has_jar else [])),
            *(text for setting in (*settings, *python) for text in ("--conf", f"spark.{setting}")),
            *(program, tmp_path / "lake"),
        ],
        env={
            **by_name,
            "PATH": without_alance(tmp_path / "bin"),
            "JAVA_HOME": str(find_java()),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=JOB_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    for name in ("items", "copy"):
        table = lance.dataset(str(tmp_path / "lake" / f"{name}.lance")).to_table()
        assert sorted(table["id"].to_pylist()) == list(range(15))
