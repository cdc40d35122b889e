"""Reads a lineitem table from a local S3 server and shows what was asked of the server.

    make demo

The table was written by pylance (`tests/golden/lineitem.py`); the server answers after 30 ms, as a
cloud store does.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pyarrow as pa

import alance
from alance.testing.lab import Lab

TABLE = Path(__file__).parents[1] / "tests" / "golden" / "lineitem.lance"
LATENCY_MS = 30
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


async def main() -> None:
    """Open, take, scan with a filter; then the same rows again, warm."""
    with Lab() as lab:
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
            found = [batch async for batch in dataset.to_batches(COLUMNS, filter=condition)]
        table = pa.Table.from_batches(found)
        show(table.slice(0, 8))
        print(f"{table.num_rows} rows in {len(found)} batches")
        print(scan.summary())
        print(scan.waterfall())
        asked = [opening, cold, warm, scan]
        title("in all")
        print(
            f"alance asked for {sum(one.num_requests for one in asked)} requests, "
            f"{sum(one.num_bytes for one in asked):,} bytes; "
            f"the server counted {lab.stats()['requests']} requests"
        )
        await dataset.session.aclose()


if __name__ == "__main__":
    asyncio.run(main())
