"""Merges of keys into a large table, with an index of the key and without, beside pylance.

python -m benchmarks.merges [--rows 20000000] [--keys 100 10000 1000000] [--rounds 1]

Each merge is an upsert into a copy of the table in the lab's store; nine of ten keys exist. The
command prints the processor time, the requests and the bytes of each side, and alance's as shares
of pylance's best: with an index, the better of pylance's merges by index and by scan.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import shutil
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa

import alance
from alance.testing.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TABLES: Final = Path(__file__).parents[1] / "build" / "merges"
COLUMNS: Final = ("cpu_s", "wall_s", "requests", "read_mb", "written_mb")
PIECE: Final = 1 << 18  # rows that are generated at once


def rows_of(ids: np.ndarray) -> pa.Table:
    """Return rows of some 100 bytes, computed from their keys."""
    numbers = ids.astype(np.int64)
    return pa.table(
        {
            "id": pa.array(numbers),
            "kind": pa.array((numbers % 1000).astype(np.int32)),
            "price": pa.array(numbers * 0.25),
            "at": pa.array(numbers * 1_000_000, pa.timestamp("us")),
            "name": pa.array([f"name {number % 100_000:06}" for number in numbers.tolist()]),
            "text": pa.array(
                [f"{number * 7919 % 2**61:020} {number:030}" for number in numbers.tolist()]
            ),
        }
    )


def table_of(num_rows: int, *, is_indexed: bool) -> Path:
    """Return the path of a table of `num_rows` unordered keys, with a B-tree or without."""
    path = TABLES / f"merged-{num_rows}{'-indexed' if is_indexed else ''}.lance"
    if path.exists():
        return path
    if is_indexed:
        shutil.copytree(table_of(num_rows, is_indexed=False), path, copy_function=os.link)
        lance.dataset(path).create_scalar_index("id", "BTREE")
        return path
    ids = np.random.default_rng(7).permutation(num_rows) * 2

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, num_rows, PIECE):
            yield from rows_of(ids[start : start + PIECE]).to_batches()

    TABLES.mkdir(parents=True, exist_ok=True)
    reader = pa.RecordBatchReader.from_batches(rows_of(ids[:1]).schema, batches())
    lance.write_dataset(reader, path)
    return path


def source_of(num_rows: int, num_keys: int) -> pa.Table:
    """Return rows to upsert; nine of ten have a key of the table."""
    generator = np.random.default_rng(num_keys)
    old = generator.choice(num_rows, num_keys * 9 // 10, replace=False) * 2
    new = generator.choice(num_rows, num_keys - len(old), replace=False) * 2 + 1
    rows = rows_of(generator.permutation(np.concatenate([old, new])))
    return rows.set_column(2, "price", pa.array(np.zeros(num_keys)))


def upsert(builder: Any) -> Any:
    """Make a merge update and insert; return its builder."""
    return builder.when_matched_update_all().when_not_matched_insert_all()


def ours(uri: str, options: dict[str, str], rows: pa.Table) -> None:
    """Upsert with alance, in a session of its own."""

    async def work() -> None:
        async with alance.Session() as session:
            dataset = await alance.dataset(uri, storage_options=options, session=session)
            await upsert(dataset.merge_insert("id")).execute(rows)

    asyncio.run(work())


def theirs(uri: str, options: dict[str, str], rows: pa.Table, *, by_index: bool) -> None:
    """Upsert with pylance, in a session of its own."""
    dataset = lance.dataset(uri, storage_options=options, session=lance.Session())
    upsert(dataset.merge_insert("id")).use_index(by_index).execute(rows)


def measured(lab: Lab, source: Path, work: Callable[[str, dict[str, str]], None]) -> dict[str, Any]:
    """Measure a merge into a copy of a table."""
    copy = TABLES / "merged-copy.lance"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy, copy_function=os.link)
    lab.rescan()
    gc.collect()
    with lab.recording() as seen:
        wall, cpu = time.perf_counter(), time.process_time()
        work(f"s3://{TABLES.name}/{copy.name}", lab.lance_options())
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    shutil.rmtree(copy)
    summary = seen.summary()
    return {
        "cpu_s": cpu,
        "wall_s": wall,
        "requests": summary["requests"],
        "read_mb": summary["bytes_out"] / 1e6,
        "written_mb": summary["bytes_in"] / 1e6,
    }


def best(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the minimum of each number."""
    return {name: min(run[name] for run in runs) for name in COLUMNS}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--keys", type=int, nargs="*", default=[100, 10_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", choices=("", "indexed", "plain"))
    arguments = parser.parse_args()
    print(f"| keys | index | side | {' | '.join(COLUMNS)} |")
    print(f"|---|---|---|{'---:|' * len(COLUMNS)}")
    with Lab(TABLES.parent, buckets=(TABLES.name,)) as lab:
        for is_indexed in (True, False):
            kind = "indexed" if is_indexed else "plain"
            if arguments.only not in ("", kind):
                continue
            table = table_of(arguments.rows, is_indexed=is_indexed)
            for work in (ours, partial(theirs, by_index=is_indexed)):  # imports, pools
                measured(lab, table, partial(work, rows=source_of(arguments.rows, 10)))
            for count in arguments.keys:
                compare(lab, table, source_of(arguments.rows, count), kind, arguments.rounds)


def compare(lab: Lab, table: Path, rows: pa.Table, kind: str, rounds: int) -> None:
    """Merge with each side in turn; print a line for each, and the shares."""
    sides: dict[str, Callable[[str, dict[str, str]], None]] = {
        "alance": lambda uri, options: ours(uri, options, rows),
        "pylance, scan": lambda uri, options: theirs(uri, options, rows, by_index=False),
    }
    if kind == "indexed":
        sides["pylance, index"] = lambda uri, options: theirs(uri, options, rows, by_index=True)
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    for number in range(rounds):
        for side in list(sides)[:: 1 if number % 2 else -1]:
            try:
                runs[side].append(measured(lab, table, sides[side]))
            except OSError as error:  # pylance has too little memory for a million keys by an index
                print(f"| {rows.num_rows:,} | {kind} | {side} | {str(error)[:40]} |", flush=True)
    least = {side: best(results) for side, results in runs.items() if results}
    peer = best([result for side, result in least.items() if side != "alance"])
    shares = {name: least["alance"][name] / max(1e-9, peer[name]) for name in COLUMNS}
    for side, values in {**least, "share": shares}.items():
        cells = [f"{values[name]:,.2f}" for name in COLUMNS]
        print(f"| {rows.num_rows:,} | {kind} | {side} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
