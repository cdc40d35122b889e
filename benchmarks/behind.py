"""The rows of the report in which another side is ahead of alance."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ABOUT: Final = """\
Every row of this page in which alance needs more than another side, by the heading that it stands
under, worst first. Ratios are of wall times, except where the row says otherwise; of callers they
are of the time per query. Those near one are within the noise of the machine. Vortex reads one
file, tantivy and faiss an index of their own, none of them a table: they show what is possible.
"""


class Row(NamedTuple):
    """The comparison in one row of a table of the report.

    Attributes:
        heading: heading of the report above the table.
        needs: time, memory or size by side, in one unit; less is better.
    """

    heading: str
    work: str
    needs: dict[str, float]


class Loss(NamedTuple):
    """A row in which `side` needs less than alance, by `ratio`."""

    ratio: float
    work: str
    side: str


def section(results: dict[str, Any]) -> str:
    """Return the last part of the report; empty if no other side is ahead."""
    losses = losses_of(results)
    if not losses:
        return ""
    parts = ["## Where alance loses\n", ABOUT]
    for heading, rows in losses.items():
        parts += [f"**{heading}**\n", "| work | beside | ratio |", "|---|---|---:|"]
        parts += [f"| {row.work} | {row.side} | {row.ratio:.2f} |" for row in rows]
        parts.append("")
    return "\n".join(parts)


def losses_of(results: dict[str, Any]) -> dict[str, list[Loss]]:
    """Return the losses by heading, worst first; headings without a loss are omitted."""
    losses: dict[str, list[Loss]] = {}
    for row in rows_of(results):
        for side, need in row.needs.items():
            if (ratio := row.needs["alance"] / need) > 1:
                losses.setdefault(row.heading, []).append(Loss(ratio, row.work, side))
    return {
        heading: sorted(rows, key=attrgetter("ratio"), reverse=True)
        for heading, rows in losses.items()
    }


def rows_of(results: dict[str, Any]) -> Iterator[Row]:
    """Yield the rows of all tables that compare times, memory or sizes."""
    for heading, cases in under_headings(results["cases"]).items():
        for case in cases:
            work = f"{case['table']}: {case['name']}"
            yield Row(heading, work, _of(case, "ms"))
            if "p99_ms" in case["sides"]["alance"]:
                yield Row(heading, f"{work}, p99", _of(case, "p99_ms"))
    for case in results["alone"]:
        work = f"{case['name']} {case['table'] or ''}".rstrip()
        yield Row("Memory and import", work, _of(case, "ms"))
        yield Row("Memory and import", f"{work}, peak memory", _of(case, "megabytes"))
    for case in results["writes"]:
        for key, of in (
            ("ms", ""),
            ("megabytes", ", peak memory"),
            ("file_megabytes", ", size of files"),
        ):
            yield Row("Writing local tables", f"{case['table']}{of}", _of_two(case, key))
    for case in results["small"]:
        yield Row("Small batches and files", f"{case['name']}, processor time", dict(case["sides"]))
    for case in results["changes"]:
        yield Row("Changing tables", case["name"], _of(case, "ms"))
    for case in results["commits"]:
        yield Row("Commits on the lab", case["name"], _of(case, "ms"))
        if "p99_ms" in case["sides"]["alance"]:
            yield Row("Commits on the lab", f"{case['name']}, p99", _of(case, "p99_ms"))
    yield from _searches(results["vectors"], results["texts"])


def under_headings(cases: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Group the cases by the heading of their table, local ones first."""
    headings: dict[str, list[dict[str, Any]]] = {}
    for case in sorted(cases, key=lambda case: (case["remote"], case["mbps"])):
        limit = f" of {case['mbps']} MB/s" if case["mbps"] else ""
        heading = f"On the lab{limit}" if case["remote"] else "Local files"
        headings.setdefault(heading, []).append(case)
    return headings


def _searches(vectors: dict[str, Any], texts: dict[str, Any]) -> Iterator[Row]:
    for case in vectors.get("builds", ()):
        work = f"build {case['kind']}, {case['table']}"
        yield Row("Vectors", work, _of(case, "ms"))
        yield Row("Vectors", f"{work}, peak memory", _of(case, "megabytes"))
    for case in vectors.get("recall", ()):
        refined = ", refined" if case["refine_factor"] else ""
        where = f"{case['table']}, {case['place']}, {case['when']}"
        yield Row("Vectors", f"{where}, {case['nprobes']} partitions{refined}", _of(case, "ms"))
    for case in vectors.get("callers", ()):
        work = f"{case['table']}, {case['place']}, {case['callers']} callers"
        yield Row("Vectors", work, _inverses(case["sides"]))
    for case in texts.get("searches", ()):
        yield Row("Texts", f"{case['place']}, {case['what']}", _of(case, "ms"))
    for case in texts.get("callers", ()):
        rates = {side: figures["rate"] for side, figures in case["sides"].items()}
        yield Row("Texts", f"{case['place']}, {case['callers']} callers", _inverses(rates))
    if builds := texts.get("builds"):
        for key, of in (("seconds", ""), ("megabytes", ", peak memory")):
            yield Row("Texts", f"build{of}", _of({"sides": builds}, key))


def _of(case: dict[str, Any], key: str) -> dict[str, float]:
    return {side: figures[key] for side, figures in case["sides"].items()}


def _of_two(case: dict[str, Any], key: str) -> dict[str, float]:
    """Return the values of alance and pylance, without the side that only reads the source."""
    return {side: case["sides"][side][key] for side in ("alance", "pylance")}


def _inverses(rates: dict[str, float]) -> dict[str, float]:
    return {side: 1 / rate for side, rate in rates.items()}
