"""Asks a table on a local S3 server in SQL and by Polars, and copies it; tells what was read.

python examples/engines.py
"""

from __future__ import annotations

import asyncio

import numpy as np
import polars as pl
import pyarrow as pa

import alance
from alance.testing.lab import Lab

URI = "s3://lab/readings.lance"
CITIES = ("oslo", "bergen", "trondheim", "bodo")


def readings(count: int) -> pa.Table:
    """Temperatures of some cities; three are hot."""
    heat = np.random.default_rng(4).normal(10, 3, count)
    heat[[5, 700, 9000]] = 38
    return pa.table(
        {
            "id": range(count),
            "city": [CITIES[n % len(CITIES)] for n in range(count)],
            "heat": heat,
            "note": [f"as sensor {n % 97} read it, written down with care" for n in range(count)],
        }
    )


async def main(lab: Lab) -> None:
    options = lab.lance_options()
    dataset = await alance.write_dataset(readings(10_000), URI, storage_options=options)

    with lab.recording() as seen:
        rows = await dataset.sql(
            "select city, count(*) as n, avg(heat) as mean from dataset group by city order by city"
        )
    for row in rows.to_pylist():
        print(f"{row['city']}: {row['n']} readings, {row['mean']:.1f} degrees")
    print(f"read {seen.summary()['get_bytes'] / 1000:.0f} kB: two columns")

    frame = await dataset.to_polars_lazy()
    hot = await frame.filter(pl.col("heat") > 30).select("city", "heat").collect_async()
    print(f"polars: {hot.height} hot days")

    backup = await dataset.deep_clone("s3://lab/backup.lance")
    print(f"backup: {(await backup.stats()).num_rows} rows")


if __name__ == "__main__":
    with Lab() as lab:
        asyncio.run(main(lab))
