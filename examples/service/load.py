"""64 callers of the service on a lab server: calls a second, how long they take, what they cost.

python examples/service/load.py [--latency-ms 10] [--callers 64] [--seconds 5]

The callers are one process with a small client of its own. A client that takes much longer for a
call than the service does measures itself: see the column of the callers' processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import numpy as np
import pyarrow as pa

import alance
from alance.testing.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    Request = tuple[str, Any, dict[str, str]]  # a path, what is posted to it, more headers
    Requests = Callable[[int], Request]

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


def wait_until_ready(url: str) -> None:
    """Wait until the service serves a version."""
    for _ in range(600):
        with suppress(OSError), urlopen(f"{url}/health/ready"):
            return
        time.sleep(0.05)
    raise TimeoutError("the service did not start")


class Caller:
    """A connection to the service, which is kept: one request after the other."""

    def __init__(self, url: str) -> None:
        self._host, _, self._port = url.removeprefix("http://").partition(":")

    async def __aenter__(self) -> Caller:
        self._reader, self._writer = await asyncio.open_connection(self._host, int(self._port))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()

    async def ask(self, request: Request) -> bytes:
        """What the service answers."""
        path, posted, headers = request
        body = b"" if posted is None else json.dumps(posted).encode()
        lines = [f"{'GET' if posted is None else 'POST'} {path} HTTP/1.1", f"host: {self._host}"]
        lines += [f"content-length: {len(body)}", "content-type: application/json"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join([*lines, "\r\n"]).encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        content = await self._content(head)
        if not head.startswith("http/1.1 20"):
            raise RuntimeError(f"{path}: {head.splitlines()[0]}: {content.decode()}")
        return content

    async def _content(self, head: str) -> bytes:
        if "transfer-encoding: chunked" not in head:
            length = head.partition("content-length: ")[2].partition("\r\n")[0]
            return await self._reader.readexactly(int(length))
        parts: list[bytes] = []
        while size := int(await self._reader.readline(), 16):
            parts.append(await self._reader.readexactly(size))
            await self._reader.readline()
        await self._reader.readline()
        return b"".join(parts)


async def drive(
    name: str, requests: Requests, callers: list[Caller], seconds: float, process: int, lab: Lab
) -> None:
    """Let callers ask one after the other, and print how it went."""
    times: list[float] = []
    worked, own = processor_s(process), time.process_time()
    begun = time.perf_counter()

    async def ask(number: int, caller: Caller) -> None:
        while (begun_at := time.perf_counter()) < begun + seconds:
            await caller.ask(requests(number))
            times.append(time.perf_counter() - begun_at)
            number += len(callers)

    with lab.recording() as seen:
        await asyncio.gather(*map(ask, range(len(callers)), callers))
    took = time.perf_counter() - begun
    middle, late = np.percentile(times, [50, 99]) * 1000
    costs = (processor_s(process) - worked, time.process_time() - own)
    service, ours = (cost * 1000 / len(times) for cost in costs)
    requests_each = seen.summary()["requests"] / len(times)
    numbers = f"{len(times) / took:.0f} | {middle:.0f} ms | {late:.0f} ms"
    print(
        f"| {name} | {numbers} | {service:.2f} ms | {ours:.2f} ms | {requests_each:.3f} |",
        flush=True,
    )


def processor_s(process: int) -> float:
    """Seconds for which a process had a processor (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def row_by_key(number: int) -> Request:
    return f"/tables/items/rows/{number * 7919 % ROWS}", None, {}


def nearest(number: int) -> Request:
    vector = [(number * place * 0.377) % 1 for place in range(1, SIZE + 1)]
    return "/tables/items/nearest", {"vector": vector, "k": 10}, {}


def best_texts(number: int) -> Request:
    words = f"{WORDS[number % 9]} {WORDS[(number // 9) % 9]}"
    return "/tables/items/text", {"query": words}, {}


def append(number: int) -> Request:
    row = {"id": ROWS + number, "text": "new", "vector": [0.5] * SIZE}
    return "/tables/items/rows", {"rows": [row]}, {"idempotency-key": f"load-{number}"}


CALLS: dict[str, Requests] = {
    "row by key": row_by_key,
    "10 nearest vectors": nearest,
    "10 best texts": best_texts,
    "append a row": append,
}


async def main(latency_ms: float, num_callers: int, seconds: float) -> None:
    """Make the table, start the service, and ask it all that it can."""
    with Lab() as lab:
        options = lab.lance_options()
        await make(options)
        lab.config(latency_ms=latency_ms)
        process, url = start(options)
        try:
            await asyncio.to_thread(wait_until_ready, url)
            async with AsyncExitStack() as stack:
                callers = [await stack.enter_async_context(Caller(url)) for _ in range(num_callers)]
                print("| calls | a second | median | 99 of 100 below | service | callers | store |")
                print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
                for name, requests in CALLS.items():
                    await drive(name, requests, callers, seconds, process.pid, lab)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency-ms", type=float, default=10.0)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    asyncio.run(main(args.latency_ms, args.callers, args.seconds))
