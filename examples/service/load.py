"""64 callers of the service on a lab server: calls a second, how long they take, what they cost.

python examples/service/load.py [--latency-ms 10] [--callers 64] [--seconds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pyarrow as pa

import alance
from alance.testing.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Call = Callable[[int], Awaitable[httpx.Response]]

HERE = Path(__file__).parent
URI = "s3://lab/items"
ROWS, SIZE = 100_000, 64
WORDS = ["red", "green", "blue", "small", "large", "round", "square", "old", "new"]


async def make(options: dict[str, str]) -> None:
    """A table with indices for all that the service does."""
    random.seed(1)
    vectors = np.random.default_rng(1).random((ROWS, SIZE), np.float32)
    rows = {
        "id": np.arange(ROWS),
        "text": [" ".join(random.sample(WORDS, 3)) for _ in range(ROWS)],
        "vector": pa.FixedSizeListArray.from_arrays(vectors.ravel(), SIZE),
    }
    dataset = await alance.write_dataset(
        pa.table(rows), URI, mode="overwrite", storage_options=options
    )
    dataset = await dataset.create_scalar_index("id", "BTREE")
    dataset = await dataset.create_index("text", "INVERTED")
    await dataset.create_index("vector", "IVF_PQ", num_partitions=64, num_sub_vectors=16)


def start(
    options: dict[str, str], log: int | None = None, *, with_fastapi: bool = False
) -> tuple[subprocess.Popen[bytes], str]:
    """The service on a free port, by the command or within FastAPI, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {
        "TABLE": URI,
        "AWS_ENDPOINT": options["endpoint"],
        "AWS_ACCESS_KEY_ID": options["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": options["secret_access_key"],
        "AWS_REGION": options["region"],
        "AWS_ALLOW_HTTP": "true",
    }
    server = ["alance", "serve", URI, "--key", "id", "--ingest"]
    if with_fastapi:
        server = ["uvicorn", "--app-dir", str(HERE), "app:app", "--log-level", "warning"]
    process = subprocess.Popen(
        [sys.executable, "-m", *server, "--port", str(port)],
        env={**os.environ, **variables},
        stderr=log,
    )
    return process, f"http://127.0.0.1:{port}"


async def until_ready(client: httpx.AsyncClient) -> None:
    """Wait until the service serves a version."""
    for _ in range(600):
        try:
            if (await client.get("/health/ready")).status_code == 200:
                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(0.05)
    raise TimeoutError("the service did not start")


async def drive(
    name: str, call: Call, callers: int, seconds: float, process: int, lab: Lab
) -> None:
    """Let callers ask one after the other, and print how it went."""
    times: list[float] = []
    worked = processor_s(process)
    until = time.perf_counter() + seconds

    async def ask(caller: int) -> None:
        number = caller
        while (begun := time.perf_counter()) < until:
            answer = await call(number)
            answer.raise_for_status()
            times.append(time.perf_counter() - begun)
            number += callers

    with lab.recording() as seen:
        await asyncio.gather(*map(ask, range(callers)))
    middle, late = np.percentile(times, [50, 99]) * 1000
    worked_ms = (processor_s(process) - worked) * 1000 / len(times)
    asked = seen.summary()["requests"] / len(times)
    numbers = f"{len(times) / seconds:.0f} | {middle:.0f} ms | {late:.0f} ms"
    print(f"| {name} | {numbers} | {worked_ms:.1f} ms | {asked:.2f} |", flush=True)


def processor_s(process: int) -> float:
    """Seconds for which a process had a processor (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def main(latency_ms: float, callers: int, seconds: float) -> None:
    """Make the table, start the service, and ask it all that it can."""
    rng = np.random.default_rng(2)
    with Lab() as lab:
        options = lab.lance_options()
        await make(options)
        lab.config(latency_ms=latency_ms)
        process, url = start(options)
        limits = httpx.Limits(max_connections=callers)
        async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
            await until_ready(client)

            async def get(number: int) -> httpx.Response:
                return await client.get(f"/tables/items/rows/{number * 7919 % ROWS}")

            async def near(number: int) -> httpx.Response:
                query = {"vector": rng.random(SIZE).tolist(), "k": 10}
                return await client.post("/tables/items/nearest", json=query)

            async def texts(number: int) -> httpx.Response:
                words = f"{WORDS[number % 9]} {WORDS[(number // 9) % 9]}"
                return await client.post("/tables/items/text", json={"query": words})

            async def append(number: int) -> httpx.Response:
                row = {"id": ROWS + number, "text": "new", "vector": [0.5] * SIZE}
                key = {"idempotency-key": f"load-{number}"}
                return await client.post("/tables/items/rows", json={"rows": [row]}, headers=key)

            print("| calls | a second | median | 99 of 100 below | processor | store |")
            print("| --- | ---: | ---: | ---: | ---: | ---: |")
            calls: dict[str, Call] = {"row by key": get, "10 nearest vectors": near}
            calls |= {"10 best texts": texts, "append a row": append}
            for name, call in calls.items():
                await drive(name, call, callers, seconds, process.pid, lab)
        process.send_signal(signal.SIGTERM)
        process.wait(60)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency-ms", type=float, default=10.0)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    asyncio.run(main(given.latency_ms, given.callers, given.seconds))
