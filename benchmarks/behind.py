"""Where alance loses: the rows of all tables of the report that another side is ahead in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST: Final = 1.05  # ratios nearer to one are noise of the machine
ABOUT: Final = """\
All rows of this page in which alance takes more than {least:g} times what another takes: wall time,
of small batches processor time, of callers by their queries a second. The worst come first. Vortex
reads one file, tantivy and faiss an index of their own, none of them a table: the limit of what can
be had.
"""


class Row(NamedTuple):
    """A row of a table of the report."""

    part: str
    work: str
    times: dict[str, float]  # of each side, in one unit


def section(results: dict[str, Any]) -> str:
    """A part of the report; empty where nobody is ahead."""
    rows = sorted(
        (
            (row.times["alance"] / time, row, side)
            for row in rows_of(results)
            for side, time in row.times.items()
            if row.times["alance"] > LEAST * time
        ),
        key=lambda ranked: -ranked[0],
    )
    if not rows:
        return ""
    lines = ["| part | work | beside | ratio |", "|---|---|---|---:|"]
    lines += [f"| {row.part} | {row.work} | {side} | {ratio:.2f} |" for ratio, row, side in rows]
    return "\n".join(["## Where alance loses\n", ABOUT.format(least=LEAST), *lines, ""])


def rows_of(results: dict[str, Any]) -> Iterator[Row]:
    """All rows of all tables that compare times."""
    for case in results["cases"]:
        part = "lab" if case["remote"] else "local files"
        yield Row(part, f"{case['table']}: {case['name']}", _milliseconds(case["sides"]))
    for case in results["alone"]:
        work = f"{case['name']} {case['table'] or ''}".rstrip()
        yield Row("a process of its own", work, _milliseconds(case["sides"]))
    for case in results["writes"]:
        sides = {side: case["sides"][side] for side in ("alance", "pylance")}
        yield Row("writing", case["table"], _milliseconds(sides))
    for case in results["small"]:
        yield Row("small", case["name"], case["sides"])
    for part in ("changes", "commits"):
        for case in results[part]:
            yield Row(part, case["name"], _milliseconds(case["sides"]))
    yield from _searches(results["vectors"], results["texts"])


def _searches(vectors: dict[str, Any], texts: dict[str, Any]) -> Iterator[Row]:
    for case in vectors["builds"]:
        yield Row("vectors", f"build {case['kind']}, {case['table']}", _milliseconds(case["sides"]))
    for case in vectors["recall"]:
        refined = ", refined" if case["refine_factor"] else ""
        where = f"{case['table']}, {case['place']}, {case['when']}"
        work = f"{where}, {case['nprobes']} partitions{refined}"
        yield Row("vectors", work, _milliseconds(case["sides"]))
    for case in vectors["callers"]:
        work = f"{case['table']}, {case['place']}, {case['callers']} callers"
        yield Row("vectors", work, {side: 1 / rate for side, rate in case["sides"].items()})
    for case in texts.get("searches", ()):
        yield Row("texts", f"{case['place']}, {case['what']}", _milliseconds(case["sides"]))
    for case in texts.get("callers", ()):
        sides = {side: 1 / told["rate"] for side, told in case["sides"].items()}
        yield Row("texts", f"{case['place']}, {case['callers']} callers", sides)
    if texts.get("builds"):
        sides = {side: told["seconds"] for side, told in texts["builds"].items()}
        yield Row("texts", "build", sides)


def _milliseconds(sides: dict[str, dict[str, float]]) -> dict[str, float]:
    return {side: told["ms"] for side, told in sides.items()}
