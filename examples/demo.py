"""Reads and writes lineitem tables on a local S3 server and shows what was asked of the server.

    make demo

The table that is read was written by pylance (`tests/golden/lineitem.py`); the one that is written
comes from `tpchgen-cli` as a stream. The server answers after 30 ms, as a cloud store does.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import alance
from alance.testing.lab import Lab

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

TABLE = Path(__file__).parents[1] / "tests" / "golden" / "lineitem.lance"
LATENCY_MS = 30
SCALE = 0.1  # of the lineitem table that is written: 600 572 rows
PRODUCERS = 3
COLUMNS = ["l_orderkey", "l_quantity", "l_shipdate", "l_shipmode", "l_comment"]


def show(rows: pa.Table) -> None:
    """Print rows as a table."""
    texts = [[str(value)[:24] for value in column.to_pylist()] for column in rows.columns]
    names = rows.column_names
    widths = [max(map(len, [name, *column])) for name, column in zip(names, texts, strict=True)]
    for line in [names, *zip(*texts, strict=True)]:
        print("  ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True)))


def title(text: str) -> None:
    """Print a heading."""
    print(f"\n── {text} {'─' * max(0, 96 - len(text))}")


async def read(lab: Lab) -> None:
    """Open, take, scan with a filter; then the same rows again, warm."""
    shutil.copytree(TABLE, Path(lab.root) / "lab" / "lineitem.lance")
    lab.rescan()
    lab.config(latency_ms=LATENCY_MS)

    title("open s3://lab/lineitem.lance: one LIST, one GET")
    with alance.trace() as opening:
        dataset = await alance.dataset(
            "s3://lab/lineitem.lance", storage_options=lab.lance_options()
        )
    print(dataset, f"{await dataset.count_rows()} rows in {len(dataset.fragments)} fragments")
    print(opening.summary())

    rows = [7, 4_242, 9_999, 14_000]
    title(f"take rows {rows}: nothing is known of the files yet")
    with alance.trace() as cold:
        show(await dataset.take(rows, COLUMNS))
    print(cold.summary())
    print(cold.waterfall())

    title("take other rows: the search cache knows the pages")
    with alance.trace() as warm:
        show(await dataset.take([11, 2_500, 12_345], COLUMNS))
    print(warm.summary())
    print(warm.waterfall())

    condition = "l_shipdate < date '1993-01-01' AND l_shipmode = 'AIR' AND l_quantity > 48"
    title(f"scan where {condition}")
    with alance.trace() as scan:
        batches = [batch async for batch in dataset.to_batches(COLUMNS, filter=condition)]
    table = pa.Table.from_batches(batches)
    show(table.slice(0, 8))
    print(f"{table.num_rows} rows in {len(batches)} batches")
    print(scan.summary())
    print(scan.waterfall())
    recorders = [opening, cold, warm, scan]
    title("in all")
    print(
        f"alance asked for {sum(recorder.num_requests for recorder in recorders)} requests, "
        f"{sum(recorder.num_bytes for recorder in recorders):,} bytes; "
        f"the server counted {lab.stats()['requests']} requests"
    )


def read_group(path: Path, number: int) -> pa.Table:
    """One row group of a Parquet file.

    Opened, read and closed by one call, in one thread: pyarrow allows no two threads in one
    `ParquetFile`, nor may it be closed while a thread still reads.
    """
    with pq.ParquetFile(path) as file:
        return file.read_row_group(number)


async def batches_of(path: Path, groups: Iterable[int]) -> AsyncIterator[pa.RecordBatch]:
    """Some row groups of a Parquet file, a batch at a time."""
    for number in groups:
        rows = await asyncio.to_thread(read_group, path, number)
        for batch in rows.to_batches(max_chunksize=1 << 14):
            yield batch


async def write(lab: Lab, path: Path) -> None:
    """Ingest a Parquet file by several producers; take, scan and compare."""
    metadata = await asyncio.to_thread(pq.read_metadata, path)
    uri, options = "s3://lab/ingested.lance", lab.lance_options()
    num_rows = metadata.num_rows
    title(f"ingest {num_rows:,} rows by {PRODUCERS} producers, a version every half second")
    begun = time.perf_counter()

    async def produce(sink: alance.Sink, number: int) -> None:
        async for batch in batches_of(path, range(number, metadata.num_row_groups, PRODUCERS)):
            await sink.write(batch)

    with lab.recording() as seen:
        async with alance.ingest(
            uri,
            metadata.schema.to_arrow_schema(),
            commit_interval=0.5,
            max_rows_per_file=200_000,
            storage_options=options,
        ) as sink:
            await asyncio.gather(*(produce(sink, number) for number in range(PRODUCERS)))
    seconds = time.perf_counter() - begun
    done = sink.metrics
    print(
        f"{done.committed_rows:,} rows in {done.num_files} files and {done.num_commits} commits, "
        f"{seconds:.1f} s; {done.num_waits} writes waited for room"
    )
    sent = Counter(request["op"] for request in seen.records)
    print("the server counted", ", ".join(f"{count} {name}" for name, count in sent.items()))

    title("take 1000 of these rows, and scan all: the same as in the Parquet file")
    dataset = await alance.dataset(uri, storage_options=options)
    begun = time.perf_counter()
    scanned = await dataset.to_table()
    print(f"scan: {scanned.num_rows:,} rows in {time.perf_counter() - begun:.2f} s")
    rows = random.Random(7).sample(range(num_rows), 1000)
    begun = time.perf_counter()
    taken = await dataset.take(rows)
    print(f"take: {taken.num_rows:,} rows in {time.perf_counter() - begun:.2f} s")
    check(taken.equals(scanned.take(rows)), "the take gives the rows of the scan")
    of_parquet = (await asyncio.to_thread(pq.read_table, path)).cast(scanned.schema)
    check(sort(scanned).equals(sort(of_parquet)), "the scan gives the rows of the Parquet file")
    print(f"all rows are there, each once, in {dataset}")


def sort(table: pa.Table) -> pa.Table:
    """In an order that does not depend on who was first."""
    keys = [("l_orderkey", "ascending"), ("l_linenumber", "ascending")]
    return table.sort_by(keys).combine_chunks()


def check(is_so: bool, what: str) -> None:
    """End the demo where something is wrong."""
    if not is_so:
        raise SystemExit(f"wrong: {what}")


def make_lineitem(folder: str) -> Path:
    """A lineitem table as a Parquet file, by `tpchgen-cli`."""
    command = [str(Path(sys.executable).parent / "tpchgen-cli"), "parquet", "-s", str(SCALE)]
    subprocess.run([*command, "-T", "lineitem", "-o", folder], check=True)
    return Path(folder, "lineitem.parquet")


async def main() -> None:
    """Read, then write."""
    with Lab() as lab, tempfile.TemporaryDirectory() as folder:
        await read(lab)
        await write(lab, await asyncio.to_thread(make_lineitem, folder))
        await alance.Session.of_loop().aclose()


if __name__ == "__main__":
    asyncio.run(main())
