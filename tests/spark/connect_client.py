"""A program that is a client of Spark Connect, for `test_spark_connect.py`.

    SPARK_REMOTE=sc://... python -m tests.spark.connect_client FOLDER [paths | streams]

It leaves what it saw in `seen.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException

import alance.spark
from alance import sync
from alance.spark import jobs
from alance.spark.session import parallelism_of, session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

UNITS = np.eye(4, dtype=np.float32)
# Spark gives the process of a function of `foreachBatch` ten seconds to import and connect.
LATE = "Python worker failed to connect back"


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def refused(call: Callable[[], object]) -> str:
    """Return the first line of a call's error."""
    try:
        call()
    except (PySparkException, sync.AlanceError) as error:
        return str(error).splitlines()[0]
    return "nothing was refused"


def by_path(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Tables by their paths: read and written, by functions of Arrow batches, by jobs."""
    uri, rows = str(folder / "plain.lance"), spark.range(0, 100, 1, 2).selectExpr("id", "id % 5 k")
    alance.spark.write(rows, uri)
    rows.where("id < 5").write.format("alance").mode("append").save(uri)
    frame = spark.read.format("alance").load(uri).where("k = 2").select("id")
    seen: dict[str, Any] = {"plan": frame._explain_string(), "read": ids(frame)}
    batches = alance.spark.map_batches(spark, uri, iter, "id long", columns=["id"])
    seen["mapped"] = batches.count()
    merged = jobs.merge(spark, uri, spark.range(5), ["id"])
    progress: list[alance.Progress] = []
    built = jobs.build_index(spark, uri, "k", on_progress=progress.append)
    seen["jobs"] = [merged.counts["rows_updated"], built.counts["rows"]]
    seen["progress"] = [progress[-1].stage, progress[-1].done, progress[-1].total]
    seen["parallelism"] = parallelism_of(spark)
    seen["no table"] = refused(lambda: spark.read.format("alance").load(uri + "-").count())
    seen["no column"] = refused(lambda: alance.spark.read(spark, uri, columns=["x"]).count())
    return seen


def by_name(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Tables of SQL, and searches in them."""
    spark.sql("CREATE TABLE lance.items (id BIGINT, k BIGINT)")
    spark.range(100).selectExpr("id", "id % 5 as k").writeTo("lance.items").append()
    spark.sql("UPDATE lance.items SET k = 9 WHERE length(cast(id as string)) = 1")
    spark.sql("DELETE FROM lance.items WHERE id = 99")
    spark.sql(
        "MERGE INTO lance.items t USING (SELECT id FROM range(95, 105)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET k = 50 "
        "WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, 60)"
    )
    counts = spark.sql("SELECT k, count(*) AS n FROM lance.items WHERE k > 5 GROUP BY k").collect()
    tables = spark.sql("CALL lance.system.versions(table => 'lance.items')")
    values = pa.FixedSizeListArray.from_arrays(pa.array(UNITS.ravel()), 4)
    sync.write_dataset(pa.table({"id": range(4), "v": values}), str(folder / "lake/units.lance"))
    query = "SELECT id FROM alance_nearest('units', 'v', array(0, 0.9, 0, 0.5), 2)"
    return {
        "changed": {row.k: row.n for row in counts},
        "old": spark.sql("SELECT * FROM lance.items VERSION AS OF 2").count(),
        "versions": tables.count(),
        "nearest": [row.id for row in spark.sql(query).collect()],
    }


def run(writer: Any) -> str:
    """Run a query to its end, or give the error of a process that Spark has not waited for."""
    try:
        writer.start().awaitTermination()
    except PySparkException as error:
        if LATE not in str(error):
            raise
        return str(error)
    return ""


def streamed(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Streams from and to tables, and a function of batches, which runs on the server."""
    copy, each = str(folder / "lake" / "copy.lance"), str(folder / "each.lance")

    def put(frame: DataFrame, number: int) -> None:
        alance.spark.write(frame, each, mode="append")

    def followed(name: str) -> Any:
        writer = spark.readStream.table("lance.items").writeStream.trigger(availableNow=True)
        return writer.option("checkpointLocation", str(folder / name))

    followed("first").toTable("lance.copy").awaitTermination()
    while LATE in run(followed("second").foreachBatch(put)):
        pass
    return {
        "copied": ids(spark.read.format("alance").load(copy)),
        "each": sync.dataset(each).count_rows(),
    }


def main() -> None:
    folder = Path(sys.argv[1])
    spark = session(warehouse=str(folder / "lake"))
    seen = by_path(spark, folder)
    if sys.argv[2:] == ["paths"]:
        seen["no catalog"] = refused(lambda: spark.sql("CREATE TABLE lance.items (id BIGINT)"))
    else:
        seen |= by_name(spark, folder)
    if sys.argv[2:] == ["streams"]:
        seen |= streamed(spark, folder)
    (folder / "seen.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
