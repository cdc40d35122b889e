"""Several producers write events into one table on a local S3 server; one crashes and comes back.
Then a feed of changes by key corrects some of them.

python examples/ingest.py
"""

from __future__ import annotations

import asyncio
import time

import pyarrow as pa

import alance
from alance.testing.lab import Lab

URI = "s3://lab/events.lance"
SCHEMA = pa.schema([("sensor", pa.string()), ("number", pa.int64()), ("value", pa.float64())])
BATCHES, ROWS = 30, 100


def measured(sensor: str, part: int) -> pa.RecordBatch:
    """The rows of one batch."""
    numbers = range(part * ROWS, (part + 1) * ROWS)
    values = [n * 0.5 for n in numbers]
    return pa.record_batch([[sensor] * ROWS, list(numbers), values], schema=SCHEMA)


async def produce(sensor: str, options: dict[str, str], *, crashes_at: int | None = None) -> None:
    """Send all batches of a sensor; begins behind those that the table has."""
    async with alance.ingest(
        URI, SCHEMA, producer=sensor, commit_interval=0.2, storage_options=options
    ) as sink:
        print(f"{sensor}: {sink.last_sequence} batches are there")
        for part in range(sink.last_sequence, BATCHES):
            if part == crashes_at:
                await asyncio.sleep(0.3)  # some of it was committed
                await sink.write(measured(sensor, part))
                raise RuntimeError(f"{sensor}: crashed with a batch in its buffer")
            await sink.write(measured(sensor, part))
            await asyncio.sleep(0.02)
    done = sink.metrics
    print(f"{sensor}: {done.committed_rows} rows in {done.num_commits} commits")


async def correct(options: dict[str, str]) -> None:
    """Send changes by key: a value that was wrong, and an event that was none."""
    changes = [
        {"kind": "update", "sensor": "sensor-a", "number": 0, "value": -1.0},
        {"kind": "delete", "sensor": "sensor-a", "number": 1, "value": None},
    ]
    async with alance.ingest(
        URI, on=["sensor", "number"], kind="kind", storage_options=options
    ) as sink:
        await sink.write(changes, token="corrections of Monday")
        assert not await sink.write(changes, token="corrections of Monday"), "it is there already"
    print(f"corrected in {sink.metrics.num_commits} commit")


async def main() -> None:
    """Run the producers, then read what they wrote."""
    with Lab(latency_ms=30) as lab:
        options = lab.lance_options()
        begun = time.perf_counter()
        ended = await asyncio.gather(
            *(produce(f"sensor-{name}", options) for name in "abc"),
            produce("sensor-d", options, crashes_at=20),
            return_exceptions=True,
        )
        print(*(error for error in ended if error is not None), sep="\n")
        await produce("sensor-d", options)
        dataset = await alance.dataset(URI, storage_options=options)
        rows = await dataset.to_table()
        print(
            f"{rows.num_rows} rows, {dataset.version} versions, {len(dataset.fragments)} fragments "
            f"in {time.perf_counter() - begun:.1f} s"
        )
        stored = sorted(zip(rows["sensor"].to_pylist(), rows["number"].to_pylist(), strict=True))
        sent = [(f"sensor-{name}", n) for name in "abcd" for n in range(BATCHES * ROWS)]
        assert stored == sent, "each row is there once"
        await correct(options)
        dataset = await dataset.checkout_latest()
        assert await dataset.count_rows() == len(sent) - 1
        assert await dataset.count_rows("value = -1") == 1
        await dataset.session.aclose()


if __name__ == "__main__":
    asyncio.run(main())
