"""Runs the cases and prints a table: medians of alternating rounds, and their ratios.

python -m benchmarks [--scale 1] [--rounds 5] [--only TEXT] [--out FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import lance

import alance
from alance.testing.lab import Lab
from benchmarks.cases import CASES, Case, Opened
from benchmarks.data import FOLDER, table

LATENCY_MS = 30


@dataclass
class Side:
    """What one side took, round by round."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    requests: int = 0
    megabytes: float = 0.0

    @property
    def median(self) -> float:
        """Milliseconds."""
        return statistics.median(self.wall) * 1e3

    @property
    def cpu_median(self) -> float:
        """Milliseconds of processor time."""
        return statistics.median(self.cpu) * 1e3


async def measure(case: Case, opened: Opened, lab: Lab, rounds: int) -> tuple[Side, Side]:
    """Both sides in turn; the first round is not counted."""
    ours, theirs = Side(), Side()
    for number in range(rounds + 1):
        for side in (ours, theirs) if number % 2 else (theirs, ours):
            before = lab.stats()["requests"] if case.remote else 0
            wall, cpu = time.perf_counter(), time.process_time()
            if side is ours:
                await case.ours(opened)
            else:
                await asyncio.to_thread(case.theirs, opened)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if case.remote:
                log = lab.log(before)
                side.requests = len(log)
                side.megabytes = sum(one.get("out", 0) for one in log) / 1e6
            if number:
                side.wall.append(wall)
                side.cpu.append(cpu)
    return ours, theirs


async def run(arguments: argparse.Namespace) -> list[str]:
    """The lines of the report."""
    lines = [
        f"alance {alance.__version__} and pylance {lance.__version__}, scale {arguments.scale:g}, "
        f"medians of {arguments.rounds} rounds; remote: {LATENCY_MS} ms to the first byte.",
        "",
        "| where | table | work | alance ms (cpu) | pylance ms (cpu) | ratio | target "
        "| requests | MB |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    with Lab(FOLDER.parent, buckets=(FOLDER.name,)) as lab:
        for case in CASES:
            where = "lab" if case.remote else "local"
            label = f"{where} {case.table} {case.name}"
            if arguments.only and arguments.only not in label:
                continue
            path = table(case.table, arguments.scale)
            lab.rescan()
            lab.config(latency_ms=LATENCY_MS)
            uri = f"s3://{FOLDER.name}/{path.name}" if case.remote else str(path)
            options = lab.lance_options() if case.remote else None
            async with alance.Session() as session:
                dataset = await alance.dataset(uri, storage_options=options, session=session)
                theirs = lance.dataset(uri, storage_options=options)
                opened = Opened(uri, dataset, theirs, options, theirs.count_rows())
                one, other = await measure(case, opened, lab, arguments.rounds)
            asked = f"{one.requests} / {other.requests}" if case.remote else ""
            moved = f"{one.megabytes:.1f} / {other.megabytes:.1f}" if case.remote else ""
            lines.append(
                f"| {where} | {case.table} | {case.name} "
                f"| {one.median:.1f} ({one.cpu_median:.0f}) "
                f"| {other.median:.1f} ({other.cpu_median:.0f}) "
                f"| {one.median / other.median:.2f} | {case.target:.2f} | {asked} | {moved} |"
            )
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the tables")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose label has this text")
    parser.add_argument("--out", type=Path, help="file for the report, as Markdown")
    arguments = parser.parse_args()
    lines = asyncio.run(run(arguments))
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
