"""Spark with alance, Spark with its own Parquet, and alance without Spark.

    python -m benchmarks.spark [--scale 1] [--rounds 3] [--out FOLDER]

Needs Java. In each round all ways of a case run in turn; times are the minimum over the rounds,
without the first. Processor time is the sum of this process, the JVM and the Python workers. Memory
is the peak of resident memory in a round: of the JVM, and of all Python processes that it started.
The last table has the requests of queries to a store.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

import alance
import alance.spark
from alance.spark import jobs
from alance.spark.session import session
from alance.testing.lab import Lab
from benchmarks.cases import PERCENT, THREE
from benchmarks.data import FOLDER, lineitem, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

CORES: Final = 2
MIB: Final = 1 << 10  # KiB, the unit of the system
TWO: Final = ["l_orderkey", "l_extendedprice"]
SUMS: Final = "rows long, total double"
UPDATE: Final = {"l_comment": "'seen'"}
ROWS: Final = 2 << 20


@dataclass(frozen=True)
class Case:
    """Work that is done in several ways.

    Attributes:
        ways: the ways by name; the others are compared with the first.
        target: name of a way, and its intended ratio to the first; None: no target.
    """

    name: str
    ways: dict[str, Callable[[], Any]]
    target: tuple[str, float] | None = None


def processes() -> dict[int, list[str]]:
    """Return the fields of `/proc/PID/stat`, from the state on, of this process and descendants."""
    parents: dict[int, list[int]] = {}
    states: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # has ended
            continue
        pid = int(path.parent.name)
        parents.setdefault(int(fields[1]), []).append(pid)
        states[pid] = fields
    ours, pending = {}, [os.getpid()]
    while pending:
        pid = pending.pop()
        if pid in states:
            ours[pid] = states[pid]
        pending += parents.get(pid, [])
    return ours


def processor_seconds() -> float:
    """Return the processor time of this process and its descendants, including ended ones."""
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(sum(map(int, fields[11:15])) for fields in processes().values()) / ticks


def forget_peaks() -> None:
    """Reset the peaks of resident memory of our processes."""
    for pid in processes():
        with suppress(OSError):  # has ended
            Path(f"/proc/{pid}/clear_refs").write_text("5")


def peaks() -> dict[str, float]:
    """Return peaks of resident memory in MiB: of the JVM, and of Python processes it started."""
    sums = {"jvm_mib": 0.0, "python_mib": 0.0}
    for pid in processes():
        with suppress(OSError):
            text = Path(f"/proc/{pid}/status").read_text()
            peak = re.search(r"VmHWM:\s+(\d+)", text)
            if pid != os.getpid() and peak is not None:
                name = "jvm_mib" if text.startswith("Name:\tjava") else "python_mib"
                sums[name] += int(peak[1]) / MIB
    return sums


def timed(work: Callable[[], Any]) -> tuple[dict[str, float], bool]:
    """Measure a run; also return True if all processes lived until its end.

    The processor time of a process that ends is lost: Spark ends Python workers after an idle
    minute.
    """
    forget_peaks()
    before, spent, begun = processes().keys(), processor_seconds(), time.perf_counter()
    work()
    seconds, spent = time.perf_counter() - begun, processor_seconds() - spent
    return {"s": seconds, "cpu_s": spent, **peaks()}, before <= processes().keys()


def measure(case: Case, rounds: int) -> dict[str, dict[str, float]]:
    """Return the minimum of seconds and processor seconds of each way, and its peak of memory."""
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in case.ways}
    for number in range(rounds + 1):
        for name, work in case.ways.items():
            run, is_whole = timed(work)
            while number and not is_whole:
                run, is_whole = timed(work)
            if number:
                seen[name].append(run)
    return {
        name: {
            key: (max if key.endswith("mib") else min)(run[key] for run in runs) for key in runs[0]
        }
        for name, runs in seen.items()
    }


def summed() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that counts the rows and sums a column of Arrow batches."""

    def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows, total = 0, 0.0
        for batch in batches:
            rows += batch.num_rows
            total += float(pc.sum(batch.column("l_extendedprice")).as_py() or 0)
        yield pa.record_batch({"rows": [rows], "total": [total]})

    return add


def alone(uri: str, columns: list[str] | None) -> Callable[[], object]:
    """Return the same work in this process, on as many threads as Spark has cores."""

    async def scan() -> list[pa.RecordBatch]:
        async with alance.Session(decode_threads=CORES) as own:
            dataset = await alance.dataset(uri, session=own)
            return [batch async for batch in _reduced(dataset, columns)]

    return lambda: asyncio.run(scan())


async def _reduced(dataset: alance.Dataset, columns: list[str] | None) -> Any:
    add = summed()
    async for batch in dataset.to_batches(columns):
        for reduced in add(iter([batch])):
            yield reduced


def noop(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def joined(frame: Any, side: Any, key: str) -> None:
    frame.join(side, key).agg({"l_extendedprice": "sum"}).collect()


QUERIES: Final[dict[str, Callable[[Any], Any]]] = {
    "count": lambda frame: frame.count(),
    "sum of a column": lambda frame: frame.agg({"l_extendedprice": "sum"}).collect(),
    "2 columns": lambda frame: noop(frame.select(*TWO)),
    "a filter that 1 % meet, all columns": lambda frame: noop(frame.where(PERCENT)),
    "all columns": noop,
    "least, greatest and number of 3 columns": lambda frame: (
        frame.selectExpr(*(f"{fn}({c})" for c in THREE for fn in ("min", "max", "count")))
    ).collect(),
    "10 rows of the greatest prices, all columns": lambda frame: (
        frame.orderBy("l_extendedprice", ascending=False).limit(10).collect()
    ),
    "join with 1 % of its own rows": lambda frame: joined(
        frame, frame.where(PERCENT).select("l_orderkey").distinct(), "l_orderkey"
    ),
}


def requests_of_queries(spark: SparkSession, uri: str) -> list[dict[str, Any]]:
    """Return the requests of queries to a store, by the log of a local S3 server.

    Each query is a new DataFrame. Spark's Parquet is missing: PySpark has no client of S3.
    """
    seen = []
    with Lab() as lab:
        shutil.copytree(uri, lab.root / "lab" / "lineitem.lance")
        lab.rescan()
        session = spark.newSession()
        alance.spark.register(session, storage_options=lab.lance_options())
        stored = sum(path.stat().st_size for path in Path(uri, "data").iterdir())
        for name, query in QUERIES.items():
            with lab.recording() as recording:
                query(session.read.format("alance").load("s3://lab/lineitem.lance"))
            numbers = recording.summary()
            requests, num_bytes = numbers["requests"], numbers["bytes_out"]
            share = num_bytes / stored
            seen.append({"name": name, "requests": requests, "bytes": num_bytes, "share": share})
    return seen


def cases(spark: SparkSession, uri: str, parquet: str, scratch: Path) -> list[Case]:
    """Return all cases."""

    def folder() -> str:
        for old in scratch.glob("copy-*"):
            shutil.rmtree(old)
        return str(scratch / f"copy-{time.monotonic_ns()}")

    def total(frame: Any) -> Any:
        return frame.agg({"rows": "sum", "total": "sum"}).collect()

    def read(**options: Any) -> Any:
        return alance.spark.read(spark, uri, **options)

    def on_copy(job: Callable[[str], Any]) -> Callable[[], None]:
        def work() -> None:
            copy = folder()
            shutil.copytree(uri, copy)
            job(copy)

        return work

    def plain(verb: Callable[[alance.Dataset], Any]) -> Callable[[], None]:
        """A verb of alance in this process."""

        async def done(copy: str) -> None:
            async with alance.Session(decode_threads=CORES) as own:
                await verb(await alance.dataset(copy, session=own))

        return on_copy(lambda copy: asyncio.run(done(copy)))

    source = spark.read.parquet(parquet)
    suppliers = source.select("l_suppkey").distinct().selectExpr("*", "l_suppkey % 100 as nation")
    small, small_parquet = str(scratch / "suppliers.lance"), str(scratch / "suppliers.parquet")
    alance.spark.write(suppliers, small)
    suppliers.write.parquet(small_parquet)
    sides = {id(source): spark.read.parquet(small_parquet)}
    all_cases = [
        Case(
            "write, all columns",
            {
                "Parquet of Spark": lambda: source.write.parquet(folder()),
                "alance in Spark": lambda: alance.spark.write(source, folder()),
            },
            ("alance in Spark", 1.0),
        )
    ]
    other = spark.read.format("alance").load(uri)
    sides[id(other)] = spark.read.format("alance").load(small)

    queries: dict[str, Callable[[Any], Any]] = {
        **QUERIES,
        "join with a filtered small table": lambda frame: joined(
            frame, sides[id(frame)].where("nation = 7"), "l_suppkey"
        ),
    }
    all_cases += [
        Case(
            f"query: {name}",
            {
                "Parquet of Spark": lambda query=query: query(source),
                "alance in Spark": lambda query=query: query(other),
            },
            ("alance in Spark", 1.0),
        )
        for name, query in queries.items()
    ]
    for name, columns in (("all columns", None), ("2 columns", TWO)):
        all_cases += [
            Case(
                f"sum over Arrow batches, {name}",
                {
                    "alance alone": alone(uri, columns),
                    "map_batches": lambda columns=columns: total(
                        alance.spark.map_batches(spark, uri, summed(), SUMS, columns=columns)
                    ),
                    "source, then mapInArrow": lambda columns=columns: total(
                        read(columns=columns).mapInArrow(summed(), SUMS)
                    ),
                    "a job of Spark that does nothing": lambda: (
                        spark.range(0, CORES, 1, CORES)
                        .mapInArrow(lambda batches: batches, "id long")
                        .count()
                    ),
                },
                ("map_batches", 1.5),
            ),
        ]
    beside: dict[str, tuple[Callable[[alance.Dataset], Any], Callable[[str], Any]]] = {
        "B-tree of a column": (
            lambda dataset: dataset.create_scalar_index("l_partkey", "BTREE"),
            lambda copy: jobs.build_index(spark, copy, "l_partkey"),
        ),
        "update of 1 %": (
            lambda dataset: dataset.update(UPDATE, where=PERCENT),
            lambda copy: jobs.update(spark, copy, UPDATE, where=PERCENT),
        ),
        "compaction to files of twice the rows": (
            lambda dataset: dataset.optimize.compact_files(target_rows_per_fragment=ROWS),
            lambda copy: jobs.compact(spark, copy, target_rows_per_fragment=ROWS),
        ),
    }
    for name, (verb, job) in beside.items():
        all_cases.append(
            Case(f"job: {name}", {"alance alone": plain(verb), "job of Spark": on_copy(job)})
        )
    return all_cases


def report(results: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    lines = [
        "| | seconds | processor | ratio | of processor | JVM, MiB | Python, MiB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for case in results["cases"]:
        first = next(iter(case["ways"].values()))
        lines.append(f"| **{case['name']}** | | | | | | |")
        for name, way in case["ways"].items():
            ratio, of_processor = way["s"] / first["s"], way["cpu_s"] / (first["cpu_s"] or 0.01)
            lines.append(
                f"| {name} | {way['s']:.2f} | {way['cpu_s']:.2f} | {ratio:.2f} "
                f"| {of_processor:.2f} | {way['jvm_mib']:.0f} | {way['python_mib']:.0f} |"
            )
    lines += ["", "| asked of a store | requests | MB | of the table's bytes |"]
    lines += ["| --- | ---: | ---: | ---: |"]
    for query in results["asked"]:
        megabytes, share = query["bytes"] / 1e6, query["share"]
        lines.append(f"| {query['name']} | {query['requests']} | {megabytes:.2f} | {share:.3f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of lineitem; 1: 6 million rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--out", type=Path, help="folder for the results")
    args = parser.parse_args()
    uri = str(table("lineitem", args.scale))
    parquet = str(FOLDER / f"lineitem-{args.scale:g}.parquet")
    lineitem(args.scale)  # writes the file if it does not exist
    spark = session(
        "benchmarks",
        master=f"local[{CORES}]",
        conf={
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": "3g",
        },
    )
    spark.sparkContext.setLogLevel("OFF")
    measured: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases(spark, uri, parquet, Path(scratch)):
            if args.only not in case.name:
                continue
            ways = measure(case, args.rounds)
            measured.append({"name": case.name, "target": case.target, "ways": ways})
            shown = {name: (round(w["s"], 2), round(w["cpu_s"], 2)) for name, w in ways.items()}
            print(case.name, shown, flush=True)
        requests = requests_of_queries(spark, uri) if args.only in "asked of a store" else []
    spark.stop()
    results = {"scale": args.scale, "rounds": args.rounds, "cases": measured, "asked": requests}
    text = report(results)
    print(text)
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "spark.json").write_text(json.dumps(results, indent=1) + "\n")
        (args.out / "spark.md").write_text(text)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
