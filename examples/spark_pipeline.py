"""A pipeline on Spark, end to end on two cores: `make demo-spark`.

TPC-H's lineitem as Parquet -> a Lance table -> a column of vectors -> streaming appends, while a
service reads the table with `await` -> compaction -> an index -> rows by a filter and by row id.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import alance.spark
from alance.spark import jobs
from alance.spark.session import session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

DIMENSION = 16


def say(text: object) -> None:
    print(text, flush=True)


def generate(folder: Path, scale: float) -> None:
    """Lineitem as Parquet files."""
    program = Path(sys.executable).parent / "tpchgen-cli"
    subprocess.run(
        [program, "parquet", "-s", str(scale), "--tables=lineitem", f"--output-dir={folder}"],
        check=True,
        capture_output=True,
    )


def embeddings(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A vector for each comment: in life a model, here counts of letters."""
    texts = batch.column("l_comment")
    letters = np.frombuffer("".join(texts.to_pylist()).encode(), np.uint8)
    rows = np.repeat(np.arange(len(texts)), pc.binary_length(texts))
    counts = np.bincount(rows * DIMENSION + letters % DIMENSION, minlength=len(texts) * DIMENSION)
    values = pa.array(counts.astype(np.float32))
    return pa.record_batch({"embedding": pa.FixedSizeListArray.from_arrays(values, DIMENSION)})


def stream(spark: SparkSession, folder: Path, uri: str) -> None:
    """Append new orders, file by file, each file one version of the table."""
    frame = alance.spark.read(spark, uri, limit=3_000)
    frame.repartition(3).write.parquet(str(folder / "new"))
    reader = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1)
    writer = reader.parquet(str(folder / "new")).writeStream.format("alance")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(uri).awaitTermination()


async def serve(uri: str, ended: threading.Event) -> tuple[int, set[int]]:
    """A service: looks for the latest version, and reads some rows of it, again and again."""
    dataset = await alance.dataset(uri)
    reads, versions = 0, {dataset.version}
    while not ended.is_set():
        dataset = await dataset.checkout_latest()
        rows = await dataset.sample(8, ["l_orderkey", "embedding"])
        assert rows.num_rows == 8
        versions.add(dataset.version)
        reads += 1
        await asyncio.sleep(0.02)
    return reads, versions


def stream_beside_service(spark: SparkSession, folder: Path, uri: str) -> None:
    """Spark in this thread, which its session belongs to; the service's event loop in another."""
    ended = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        service = pool.submit(lambda: asyncio.run(serve(uri, ended)))
        try:
            stream(spark, folder, uri)
        finally:
            ended.set()
        reads, versions = service.result()
    say(f"the service read {reads} times, and saw versions {sorted(versions)}")


def lengths(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task gives of the Arrow batches that it reads: a row, whatever their number."""
    rows, squares = 0, 0.0
    for batch in batches:
        vectors = batch.column("embedding").flatten().to_numpy()
        rows, squares = rows + batch.num_rows, squares + float((vectors**2).sum())
    yield pa.record_batch({"rows": [rows], "squares": [squares]})


def norm(spark: SparkSession, uri: str) -> None:
    """The vectors pass no JVM: they are read where the function runs."""
    frame = alance.spark.map_batches(
        spark, uri, lengths, "rows long, squares double", columns=["embedding"]
    )
    (sums,) = frame.selectExpr("sum(rows) as rows", "sum(squares) as squares").collect()
    say(f"{sums.rows} vectors, their mean square length is {sums.squares / sums.rows:.1f}")


async def by_key_and_row_id(uri: str) -> None:
    dataset = await alance.dataset(uri)
    condition = "l_partkey = 7"
    rows = await dataset.to_table(["l_orderkey"], filter=condition)
    say(f"{rows.num_rows} rows with {condition}")
    say(await dataset.scanner(["l_orderkey"], filter=condition).explain())
    ids = (await dataset.sample(5, ["_rowid"], seed=1))["_rowid"].to_pylist()
    rows = await dataset.take_rows(ids, ["l_orderkey", "l_comment"])
    say(f"rows {ids} of version {dataset.version}:")
    for row in rows.to_pylist():
        say(f"  {row}")


def main() -> None:
    """Run the pipeline."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="1: six million rows")
    parser.add_argument("--master", default="local[2]")
    args = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder, uri = Path(name), f"{name}/lineitem.lance"
        generate(folder, args.scale)
        spark = session(
            "pipeline",
            master=args.master,
            conf={
                "spark.ui.enabled": "false",
                "spark.ui.showConsoleProgress": "false",
                # A run of a minute is not worth what the JVM's second compiler takes.
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            },
        )
        spark.sparkContext.setLogLevel("ERROR")
        source = str(folder / "lineitem.parquet")
        say(jobs.ingest(spark, source, uri, stable_row_ids=True, target_bytes=8 << 20))
        field = pa.field("embedding", pa.list_(pa.float32(), DIMENSION))
        say(
            jobs.backfill(
                spark, uri, embeddings, schema=pa.schema([field]), read_columns=["l_comment"]
            )
        )
        stream_beside_service(spark, folder, uri)
        say(jobs.compact(spark, uri))
        say(jobs.build_index(spark, uri, "l_partkey"))
        norm(spark, uri)
        say(
            jobs.validate(
                spark, uri, nulls=["embedding"], checks={"quantity": "l_quantity between 1 and 50"}
            )
        )
        asyncio.run(by_key_and_row_id(uri))
        spark.stop()
    say(f"done in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
