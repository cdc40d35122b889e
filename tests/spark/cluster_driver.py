"""A program on a cluster whose executors get alance by an archive, for `test_spark_cluster.py`.

    python -m tests.spark.cluster_driver MASTER ARCHIVE FOLDER [long]

It leaves what it saw in `seen.json`, then dies in the middle of a write to `kept.lance`. With
`long` it does what takes longer, and ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import alance.spark
from alance.spark import jobs
from alance.spark.session import session
from tests.spark.cluster import ARCHIVE, PATIENT, POLL_S, SMALL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 4000
SCHEMA = "id long, k long, text string"


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def killing_executor(mark: Path):
    """Rows of a frame; after some the executor is killed, once."""

    def rows(batches):
        for batch in batches:
            yield batch
            if not mark.exists():
                mark.touch()
                os.kill(parent_of(os.getppid()), signal.SIGKILL)  # the JVM of this worker's daemon

    return rows


def stopping(mark: Path):
    """Rows of a frame; behind the first ones of a task nothing comes."""

    def rows(batches):
        for batch in batches:
            yield batch
            mark.touch()
            time.sleep(86_400)  # it ends with the executor

    return rows


def places(batches):
    for batch in batches:
        yield pa.record_batch({"path": [alance.__file__] * batch.num_rows})


def items(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, 4).selectExpr("id", "id % 7 as k", "cast(id as string) as text")


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def work(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Run all steps with tables on the executors; return the results."""
    lake = folder / "lake"
    seen: dict[str, Any] = {}
    frame = spark.range(0, 2, 1, 2).mapInArrow(places, "path string")
    seen["paths"] = [row.path for row in frame.collect()]

    items(spark).writeTo("lance.items").create()
    table = spark.table("lance.items")
    narrow = table.where("k = 3").select("id")
    seen["scan"] = narrow._jdf.queryExecution().executedPlan().toString()
    seen["filtered"] = len(narrow.collect())
    seen["count"] = table.count()

    spark.sql("DELETE FROM lance.items WHERE id % 10 = 1")
    spark.sql("UPDATE lance.items SET text = concat('x', text) WHERE id % 10 = 2")
    spark.sql(
        f"MERGE INTO lance.items t USING (SELECT id + {ROWS - 10} AS id FROM range(20)) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET k = 100 "
        "WHEN NOT MATCHED THEN INSERT (id, k, text) VALUES (s.id, 200, 'new')"
    )
    seen["indexed"] = jobs.build_index(spark, f"{lake}/items.lance", "k", task_bytes=1).counts
    killed = spark.table("lance.items").mapInArrow(killing_executor(folder / "killed"), SCHEMA)
    alance.spark.write(killed, f"{lake}/killed.lance")
    return seen


def work_long(spark: SparkSession, folder: Path) -> None:
    """Streams, and executors that are killed again and again."""
    uri, copy = f"{folder}/lake/killed.lance", f"{folder}/lake/copy.lance"
    killed = items(spark)
    for number in range(3):
        killed = killed.mapInArrow(killing_executor(folder / f"killed {number}"), SCHEMA)
    alance.spark.write(killed, uri)
    for batch in range(2):  # the second has nothing to do
        stream = spark.readStream.table("lance.killed")
        stream = stream.mapInArrow(killing_executor(folder / f"in stream {batch}"), SCHEMA)
        stream = stream.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
        stream.trigger(availableNow=True).toTable("lance.copy").awaitTermination()
    assert ids(spark.read.format("alance").load(copy)) == list(range(ROWS))


def die_in_write(spark: SparkSession, uri: str, mark: Path) -> None:
    """Append rows, and die with Spark when some tasks are in their midst."""
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()

    def watch() -> None:
        while not mark.exists():
            time.sleep(POLL_S)
        os.kill(jvm, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    rows = items(spark).mapInArrow(stopping(mark), SCHEMA)
    alance.spark.write(rows, uri, mode="append")


def main() -> None:
    master, archive, name, *is_long = sys.argv[1:]
    folder = Path(name)
    spark = session(
        "cluster",
        master=master,
        conf={
            **PATIENT,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.task.maxFailures": "8",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": SMALL,
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": SMALL,
            "spark.archives": archive,
            "spark.executorEnv.PYTHONPATH": ARCHIVE,
        },
        warehouse=str(folder / "lake"),
    )
    if is_long:
        work_long(spark, folder)
        return
    (folder / "seen.json").write_text(json.dumps(work(spark, folder)))
    alance.spark.write(items(spark).limit(10), f"{folder}/lake/kept.lance")
    die_in_write(spark, f"{folder}/lake/kept.lance", folder / "in last write")


if __name__ == "__main__":
    main()
