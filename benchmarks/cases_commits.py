"""Commits on the lab: single appends, eight appenders in one process, eight processes.

python -m benchmarks.cases_commits SIDE URI OPTIONS COUNT appends on request; prints JSON.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.testing.lab import Lab

ROWS: Final = pa.table({"a": list(range(100)), "b": ["text"] * 100})
APPENDERS, COMMITS = 8, 120
SINGLE: Final = 9  # appends one after the other; the median is reported

Times = dict[str, float]


def shown(wall: float, times: list[float]) -> Times:
    """Return milliseconds: of all appends together, and of one append."""
    times = sorted(times)
    return {
        "ms": wall * 1e3,
        "p50_ms": statistics.median(times) * 1e3,
        "p99_ms": times[int(len(times) * 0.99)] * 1e3,
    }


def our_handle(uri: str, options: dict[str, str]) -> Times:
    """Append one after the other, each time to the version that the last append created."""
    import alance

    async def main() -> list[float]:
        dataset = await alance.dataset(uri, storage_options=options)
        times = []
        for _ in range(SINGLE):
            begun = time.perf_counter()
            dataset = await dataset.insert(ROWS)
            times.append(time.perf_counter() - begun)
        return times

    return _median(asyncio.run(main()))


def our_uri(uri: str, options: dict[str, str]) -> Times:
    """Append by URI, each time in a new session without cached metadata."""
    import alance

    async def main() -> list[float]:
        times = []
        for _ in range(SINGLE):
            async with alance.Session() as session:
                begun = time.perf_counter()
                await alance.write_dataset(
                    ROWS, uri, mode="append", storage_options=options, session=session
                )
                times.append(time.perf_counter() - begun)
        return times

    return _median(asyncio.run(main()))


def our_many(uri: str, options: dict[str, str]) -> Times:
    """Append in many tasks of one process, each with its own handle."""
    import alance

    async def main() -> Times:
        times: list[float] = []
        dataset = await alance.dataset(uri, storage_options=options)

        async def append(handle: alance.Dataset) -> None:
            for _ in range(COMMITS // APPENDERS):
                begun = time.perf_counter()
                handle = await handle.insert(ROWS)
                times.append(time.perf_counter() - begun)

        begun = time.perf_counter()
        await asyncio.gather(*(append(dataset) for _ in range(APPENDERS)))
        return shown(time.perf_counter() - begun, times)

    return asyncio.run(main())


def their_handle(uri: str, options: dict[str, str]) -> Times:
    """Do the work of `our_handle` with pylance."""
    import lance

    dataset = lance.dataset(uri, storage_options=options)
    return _median([_timed(lambda: dataset.insert(ROWS)) for _ in range(SINGLE)])


def their_uri(uri: str, options: dict[str, str]) -> Times:
    """Do the work of `our_uri` with pylance."""
    import lance

    def append() -> None:
        lance.write_dataset(ROWS, uri, mode="append", storage_options=options)

    return _median([_timed(append) for _ in range(SINGLE)])


def their_many(uri: str, options: dict[str, str]) -> Times:
    """Append with pylance in many threads of one process."""
    import lance

    def append(_: int) -> list[float]:
        dataset = lance.dataset(uri, storage_options=options)
        return [_timed(lambda: dataset.insert(ROWS)) for _ in range(COMMITS // APPENDERS)]

    begun = time.perf_counter()
    with ThreadPoolExecutor(APPENDERS) as pool:
        times = [seconds for many in pool.map(append, range(APPENDERS)) for seconds in many]
    return shown(time.perf_counter() - begun, times)


def _timed(work: Callable[[], object]) -> float:
    """Return the seconds until `work` succeeds.

    It is repeated after a failure: pylance gives up after 30 s of conflicts.
    """
    begun = time.perf_counter()
    while True:
        try:
            work()
        except OSError as error:
            if "Too many concurrent writers" not in str(error):
                raise
        else:
            return time.perf_counter() - begun


def _median(times: list[float]) -> Times:
    return {"ms": statistics.median(times[1:]) * 1e3}  # the first one connects and probes


def processes(side: str, uri: str, options: dict[str, str]) -> Times:
    """Append in several processes that begin at the same time."""
    command = [sys.executable, "-m", "benchmarks.cases_commits", side, uri, json.dumps(options)]
    command.append(str(COMMITS // APPENDERS))
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(APPENDERS)
    ]
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    begun = time.perf_counter()
    outputs = []
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        assert process.stdout is not None
        outputs.append(json.loads(process.stdout.readline()))
    wall = time.perf_counter() - begun
    for process in running:
        process.communicate()
    return shown(wall, [time for many in outputs for time in many])


def child(side: str, uri: str, options: dict[str, str], count: int) -> None:
    """Append in one of these processes."""
    times: list[float] = []
    if side == "pylance":
        import lance

        theirs = lance.dataset(uri, storage_options=options)
        print("ready", flush=True)
        sys.stdin.readline()
        times = [_timed(lambda: theirs.insert(ROWS)) for _ in range(count)]
    else:
        import alance

        async def main() -> None:
            dataset = await alance.dataset(uri, storage_options=options)
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            for _ in range(count):
                begun = time.perf_counter()
                dataset = await dataset.insert(ROWS)
                times.append(time.perf_counter() - begun)

        asyncio.run(main())
    print(json.dumps(times), flush=True)


# The work, its target (ratio, or milliseconds: of all appends, of the 99th percentile), both sides.
CASES: Final[list[tuple[str, dict[str, float], dict[str, Callable[[str, dict[str, str]], Times]]]]]
CASES = [
    ("append by handle", {"ratio": 0.6}, {"alance": our_handle, "pylance": their_handle}),
    ("append by URI", {"ratio": 0.6}, {"alance": our_uri, "pylance": their_uri}),
    (
        f"{APPENDERS} appenders in one process, {COMMITS} commits",
        {"ms": 4000, "p99_ms": 500},
        {"alance": our_many, "pylance": their_many},
    ),
    (
        f"{APPENDERS} processes, {COMMITS} commits",
        {"ms": 12_000, "p99_ms": 3000},
        {
            "alance": lambda uri, options: processes("alance", uri, options),
            "pylance": lambda uri, options: processes("pylance", uri, options),
        },
    ),
]


def run_commits(lab: Lab, only: str, latency_ms: float) -> list[dict[str, Any]]:
    """Measure all cases that `only` selects, and print each when it ends. Blocks."""
    import lance

    rows = []
    options = lab.lance_options()
    bucket = next(folder.name for folder in lab.root.iterdir() if folder.is_dir())
    for number, (name, target, sides) in enumerate(CASES):
        if only not in f"lab {name}":
            continue
        results = {}
        for side, run in sides.items():
            uri = f"s3://{bucket}/commits-{number}-{side}.lance"
            lab.config(latency_ms=0)
            lance.write_dataset(ROWS, uri, mode="overwrite", storage_options=options)
            lab.config(latency_ms=latency_ms)
            results[side] = run(uri, options)
            lab.config(latency_ms=0)
            count = lance.dataset(uri, storage_options=options).count_rows()
            results[side]["appends"] = count / ROWS.num_rows - 1
        rows.append({"name": name, "target": target, "sides": results})
        print(line(rows[-1]), flush=True)
    return rows


def line(case: dict[str, Any]) -> str:
    """Return a row of the table."""
    ours, theirs, target = case["sides"]["alance"], case["sides"]["pylance"], case["target"]
    cells = [case["name"]]
    for key in ("ms", "p99_ms"):
        cells += [f"{side[key]:,.0f}" if key in side else "-" for side in (ours, theirs)]
    cells.append(f"{ours['ms'] / theirs['ms']:.2f}")
    if "ratio" in target:
        cells.append(f"{target['ratio']:.2f}")
    else:
        cells.append(f"{target['ms']:,.0f} ms, p99 {target['p99_ms']:,.0f} ms")
    return f"| {' | '.join(cells)} |"


def section(cases: list[dict[str, Any]], latency_ms: float) -> str:
    """Return the part of the report about commits."""
    names = ["work", "alance ms", "pylance ms", "alance p99 ms", "pylance p99 ms", "ratio"]
    names.append("target")
    head = [f"| {' | '.join(names)} |", f"|---|{'---:|' * (len(names) - 1)}"]
    text = (
        f"100 rows a commit, {latency_ms:g} ms to the first byte. A commit that gives up is "
        "repeated, and its time counts.\n"
    )
    return "\n".join(["## Commits on the lab\n", text, *head, *map(line, cases), ""])


if __name__ == "__main__":
    child(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4]))
