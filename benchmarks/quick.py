"""Ratios of processor time to pylance for several kinds of work, in about a minute.

python -m benchmarks.quick [--seconds 60]

Tables are written to a temporary folder. In each round both sides do a row's work in turn, and the
ratio is the median over the rounds. No number makes the command fail.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa

import alance
from alance.testing.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ROUNDS: Final = 7  # maximum; fewer if the time of a row is over
LATENCY_MS: Final = 10
NARROW_ROWS: Final = 400_000
WIDE_COLUMNS: Final = 1000
NESTED_ROWS: Final = 40_000
PARTS: Final = 4  # fragments of the table `parts`
FRAGMENTS: Final = 200
FILES: Final = 100
BATCHES: Final = 300


@dataclass(frozen=True)
class Row:
    """A row of the table: the same work by both sides.

    Attributes:
        times: number of repetitions in a round.
    """

    name: str
    times: int
    ours: Callable[[], Awaitable[object]]
    theirs: Callable[[], object]


def narrow() -> pa.Table:
    """Return a table of an unordered key, a category, a number and a text."""
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "id": rng.permutation(NARROW_ROWS),
            "kind": rng.integers(0, 100, NARROW_ROWS, np.int32),
            "x": rng.random(NARROW_ROWS),
            "name": [f"name {n % 9973}" for n in range(NARROW_ROWS)],
        }
    )


def wide() -> pa.Table:
    """Return a table of many columns of numbers."""
    values = np.random.default_rng(2).random(2000)
    return pa.table({f"c{n}": values + n for n in range(WIDE_COLUMNS)})


def nested() -> pa.Table:
    """Return a table of lists of numbers, and of structs with a text."""
    rng = np.random.default_rng(3)
    ends = np.append(0, np.cumsum(rng.integers(0, 6, NESTED_ROWS))).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(ends), pa.array(rng.random(ends[-1])))
    names = pa.array([f"name {n % 977}" for n in range(NESTED_ROWS)])
    sizes = pa.array(rng.integers(0, 1 << 30, NESTED_ROWS))
    return pa.table(
        {"scores": lists, "device": pa.StructArray.from_arrays([names, sizes], ["os", "size"])}
    )


def small(num_rows: int) -> pa.Table:
    """Return a table of few rows: a number, a fraction and a short text."""
    numbers = range(num_rows)
    return pa.table({"id": numbers, "x": [n / 7 for n in numbers], "s": [str(n) for n in numbers]})


async def count(batches: Any) -> int:
    """Count the rows of a stream of batches, which are dropped."""
    return sum([batch.num_rows async for batch in batches])


def their_scan(dataset: lance.LanceDataset, **options: Any) -> int:
    """Count the rows of a scan by pylance, which are dropped."""
    return sum(batch.num_rows for batch in dataset.to_batches(**options))


def tables_in(folder: Path) -> dict[str, str]:
    """Write the tables with pylance; return their paths by name."""
    tables = {"narrow": narrow(), "wide": wide(), "nested": nested(), "tiny": small(10)}
    paths = {name: str(folder / f"{name}.lance") for name in (*tables, "parts", "pieces")}
    for name, rows in tables.items():
        lance.write_dataset(rows, paths[name], data_storage_version="2.1")
    rows = small(10 * FRAGMENTS)
    lance.write_dataset(rows, paths["pieces"], max_rows_per_file=10, max_rows_per_group=10)
    part_rows = NARROW_ROWS // PARTS
    lance.write_dataset(tables["narrow"], paths["parts"], max_rows_per_file=part_rows)
    for name in ("narrow", "parts"):
        indexed = lance.dataset(paths[name])
        indexed.create_scalar_index("id", "BTREE")
        indexed.create_scalar_index("kind", "BITMAP")
    return paths


async def reads(paths: dict[str, str], session: alance.Session) -> list[Row]:
    """Return the rows that read local tables: by open handles, by new ones, and in new sessions."""
    ours = {name: await alance.dataset(path, session=session) for name, path in paths.items()}
    their_session = lance.Session()
    theirs = {name: lance.dataset(path, session=their_session) for name, path in paths.items()}
    keys, their_keys = itertools.count(1), itertools.count(1)
    spread = np.random.default_rng(4).integers(0, NESTED_ROWS, 100).tolist()
    few_columns = [f"c{n}" for n in range(0, WIDE_COLUMNS, WIDE_COLUMNS // 10)]
    few_rows = list(range(0, 2000, 200))
    across = [10 * n for n in range(FRAGMENTS)]

    async def by_new_handle() -> object:
        dataset = await alance.dataset(paths["narrow"], session=session)
        return await dataset.to_table(filter=f"id = {next(keys) * 7919 % NARROW_ROWS}")

    def their_new_handle() -> object:
        dataset = lance.dataset(paths["narrow"], session=their_session)
        return dataset.to_table(filter=f"id = {next(their_keys) * 7919 % NARROW_ROWS}")

    async def in_new_session(name: str, use: Callable[[alance.Dataset], Awaitable[Any]]) -> object:
        async with alance.Session() as own:
            return await use(await alance.dataset(paths[name], session=own))

    def their_new_session(name: str, use: Callable[[lance.LanceDataset], object]) -> object:
        return use(lance.dataset(paths[name], session=lance.Session()))

    async def schema_of(dataset: alance.Dataset) -> pa.Schema:
        return dataset.schema

    return [
        Row(
            "narrow: scan 4 columns",
            1,
            lambda: count(ours["narrow"].to_batches()),
            lambda: their_scan(theirs["narrow"]),
        ),
        Row(
            "narrow: filter of 1 %",
            1,
            lambda: count(ours["narrow"].to_batches(filter="x < 0.01")),
            lambda: their_scan(theirs["narrow"], filter="x < 0.01"),
        ),
        Row(
            "narrow: count of texts like '%99%'",
            1,
            lambda: ours["narrow"].count_rows("name like '%99%'"),
            lambda: theirs["narrow"].count_rows("name like '%99%'"),
        ),
        Row(
            "narrow: all rows in the order of a number",
            1,
            lambda: ours["narrow"].to_table(["id", "x"], order_by=["x"]),
            lambda: theirs["narrow"].scanner(["id", "x"], order_by=["x"]).to_table(),
        ),
        Row(
            "narrow: take 100 rows",
            10,
            lambda: ours["narrow"].take(spread),
            lambda: theirs["narrow"].take(spread),
        ),
        Row(
            f"wide: open {WIDE_COLUMNS} columns, new session",
            3,
            lambda: in_new_session("wide", schema_of),
            lambda: their_new_session("wide", lambda dataset: dataset.schema),
        ),
        Row(
            "wide: open, take 10 rows of 10 columns",
            3,
            lambda: in_new_session("wide", lambda dataset: dataset.take(few_rows, few_columns)),
            lambda: their_new_session("wide", lambda own: own.take(few_rows, few_columns)),
        ),
        Row(
            "wide: scan all",
            1,
            lambda: count(ours["wide"].to_batches()),
            lambda: their_scan(theirs["wide"]),
        ),
        Row(
            "nested: scan all",
            1,
            lambda: count(ours["nested"].to_batches()),
            lambda: their_scan(theirs["nested"]),
        ),
        Row(
            "nested: take 100 rows",
            10,
            lambda: ours["nested"].take(spread),
            lambda: theirs["nested"].take(spread),
        ),
        Row(
            "tiny: open and count, new session",
            20,
            lambda: in_new_session("tiny", lambda dataset: dataset.count_rows()),
            lambda: their_new_session("tiny", lambda dataset: dataset.count_rows()),
        ),
        Row(
            f"{FRAGMENTS} fragments: open, take a row of each",
            1,
            lambda: in_new_session("pieces", lambda dataset: dataset.take(across)),
            lambda: their_new_session("pieces", lambda dataset: dataset.take(across)),
        ),
        Row("B-tree: a key, new handle", 10, by_new_handle, their_new_handle),
        Row(
            "B-tree: a key, new session",
            5,
            lambda: in_new_session("narrow", lambda own: own.to_table(filter="id = 77")),
            lambda: their_new_session("narrow", lambda own: own.to_table(filter="id = 77")),
        ),
        Row(
            f"B-tree: a key, new session, {PARTS} fragments",
            5,
            lambda: in_new_session("parts", lambda own: own.to_table(filter="id = 77")),
            lambda: their_new_session("parts", lambda own: own.to_table(filter="id = 77")),
        ),
        Row(
            "bitmap: count of a value, new session",
            5,
            lambda: in_new_session("narrow", lambda own: own.count_rows("kind = 7")),
            lambda: their_new_session("narrow", lambda own: own.count_rows("kind = 7")),
        ),
    ]


def remote(lab: Lab, uri: str) -> Row:
    """Return the row that reads a table on the lab in a new session."""
    options = lab.lance_options()
    spread = np.random.default_rng(5).integers(0, NARROW_ROWS, 100).tolist()

    async def take() -> object:
        async with alance.Session() as own:
            dataset = await alance.dataset(uri, storage_options=options, session=own)
            return await dataset.take(spread)

    def their_take() -> object:
        return lance.dataset(uri, storage_options=options, session=lance.Session()).take(spread)

    return Row(f"lab at {LATENCY_MS} ms: open, take 100 rows", 1, take, their_take)


def writes(folder: Path) -> list[Row]:
    """Return the rows that write small tables."""
    files, batches = small(10 * FILES), small(100 * BATCHES).to_batches(max_chunksize=100)
    path, their_path = str(folder / "ours.lance"), str(folder / "theirs.lance")
    lance.write_dataset(files, their_path)
    in_files: dict[str, Any] = {"max_rows_per_file": 10, "mode": "overwrite"}

    def reader() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(batches[0].schema, batches)

    return [
        Row(
            f"write {BATCHES} batches of 100 rows",
            1,
            lambda: alance.write_dataset(reader(), path, mode="overwrite"),
            lambda: lance.write_dataset(reader(), their_path, mode="overwrite"),
        ),
        Row(
            f"write {FILES} files of 10 rows",
            1,
            lambda: alance.write_dataset(files, path, **in_files),
            lambda: lance.write_dataset(files, their_path, max_rows_per_group=10, **in_files),
        ),
    ]


def indices(folder: Path, parts: str) -> list[Row]:
    """Return the rows that build an index, or extend the indices of a copied table."""
    path, their_path = (
        str(shutil.copytree(parts, folder / f"{side}-parts.lance")) for side in ("ours", "theirs")
    )
    more = narrow().slice(0, NARROW_ROWS // 20)

    async def build() -> object:
        dataset = await alance.dataset(path)
        return await dataset.create_scalar_index("id", "BTREE", replace=True)

    async def extend() -> object:
        dataset = await alance.write_dataset(more, path, mode="append")
        return await dataset.optimize.optimize_indices()

    def their_extend() -> object:
        dataset = lance.write_dataset(more, their_path, mode="append")
        return dataset.optimize.optimize_indices()

    return [
        Row(
            "B-tree: build of a key in no order",
            1,
            build,
            lambda: lance.dataset(their_path).create_scalar_index("id", "BTREE", replace=True),
        ),
        Row("append 5 %, bring a B-tree and a bitmap index up to date", 1, extend, their_extend),
    ]


async def measured(row: Row, seconds: float) -> tuple[float, float, float]:
    """Return medians: milliseconds of processor time of a run, ours and theirs; their ratio."""
    begun, sides = time.perf_counter(), []
    for number in range(ROUNDS + 1):
        ours = theirs = 0.0
        for is_ours in (True, False) if number % 2 else (False, True):
            used = time.process_time()
            for _ in range(row.times):
                if is_ours:
                    await row.ours()
                else:
                    row.theirs()
            used = time.process_time() - used
            ours, theirs = (used, theirs) if is_ours else (ours, used)
        if number:  # the first round loads modules and fills caches
            sides.append((ours, theirs))
            if time.perf_counter() - begun > seconds:
                break
    each = 1e3 / row.times
    own, other = (statistics.median(side) * each for side in zip(*sides, strict=True))
    return own, other, statistics.median(ours / theirs for ours, theirs in sides)


async def run(seconds: float) -> None:
    """Measure all rows, and print each when it ends."""
    print(f"| processor time, ms | alance | pylance {lance.__version__} | ratio |")
    print("|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="alance-quick-") as name:
        folder = Path(name) / "bucket"
        folder.mkdir()
        paths = tables_in(folder)
        with Lab(Path(name), buckets=(folder.name,), latency_ms=LATENCY_MS) as lab:
            async with alance.Session() as session:
                uri = f"s3://{folder.name}/narrow.lance"
                rows = [*await reads(paths, session), remote(lab, uri), *writes(folder)]
                rows += indices(folder, paths["parts"])
                gc.collect()
                gc.freeze()
                for row in rows:
                    own, other, ratio = await measured(row, seconds / len(rows))
                    print(f"| {row.name} | {own:.2f} | {other:.2f} | {ratio:.2f} |", flush=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="that rows may take in all")
    asyncio.run(run(parser.parse_args().seconds))


if __name__ == "__main__":
    main()
