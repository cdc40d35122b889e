"""The report: results as JSON, tables as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from benchmarks import (
    behind,
    cases_changes,
    cases_commits,
    cases_crowds,
    cases_loop,
    cases_small,
    cases_texts,
    cases_vectors,
    cases_writes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SECTIONS: Final[dict[str, Callable[[Any], str]]] = {
    "loop": cases_loop.section,
    "writes": cases_writes.section,
    "small": cases_small.section,
    "streams": cases_small.stream_section,
    "changes": cases_changes.section,
    "vectors": cases_vectors.section,
    "texts": cases_texts.section,
}
HOW: Final = """# Benchmarks

![Ratios of wall times](ratios.svg)

Made by `make bench` (`python -m benchmarks`), which writes this page, `ratios.svg` and
`results.json` anew. The tables are written by pylance once and kept in `build/bench`; Vortex reads
a file of its own with the same rows.

- A number is the median of {rounds} rounds, after one that is not counted. In each round all sides
  run in turn, in an order that changes from round to round: the machine is shared, so the ratio of
  two sides is worth more than either time.
- **ratio** is the wall time of alance over that of pylance, less is better; **target** is what is
  aimed at, none where none was set. In brackets: processor time of the process, all threads.
- pylance is a process for each of two settings: with one thread that decodes and with as many as
  there are processors. The faster one is told and compared; **threads** says which that is, and in
  brackets what the other took. In tables without that column it has one for each processor.
- Vortex gives the same Arrow types as the others (its own views of strings would be cheaper). It
  takes rows that ascend; they are put into the order asked for. All sides are in one state: each
  has an open handle and knows what it has learned of the file (a new one where the row says so),
  and reads the data in each round: local files out of the page cache, scans from the lab. So
  Vortex's cache of segments, which would keep all bytes that it has read, is off. It is on in
  takes from the lab, where alance's block cache keeps bytes, too.
- The lab is `alance.testing.lab` on the same machine, with {latency} ms to the first byte and no
  limit of bandwidth but where a heading names one. Requests, **rounds** (waves of requests, each
  sent after all before had ended) and megabytes are what it counted in the last round, of alance /
  pylance / Vortex.
- The collector of cycles leaves alone what stood before the rounds (`gc.freeze`).
- Memory and import times are those of processes of their own, medians of {alone}.

{about}
"""


def report(results: dict[str, Any]) -> str:
    """Return the page."""
    about = (
        f"alance {results['alance']}, pylance {results['pylance']}, Vortex {results['vortex']}, "
        f"Python {results['python']}, {results['processors']} processors, "
        f"scale {results['scale']:g}, {results['date']}."
    )
    if results.get("note"):
        about += f"\n\n{results['note']}"
    parts = [
        HOW.format(
            rounds=results["rounds"],
            latency=results["latency_ms"],
            alone=results["alone_rounds"],
            about=about,
        )
    ]
    for heading, cases in behind.under_headings(results["cases"]).items():
        parts.append("\n".join([f"## {heading}\n", *_table(cases), ""]))
    if crowds := [case for case in results["cases"] if case["calls"]]:
        parts.append(cases_crowds.section(crowds))
    if results["alone"]:
        parts.append("\n".join(["## Memory and import\n", *_alone(results["alone"]), ""]))
    for name, section in SECTIONS.items():
        if results[name]:
            parts.append(section(results[name]))
    if results["commits"]:
        parts.append(cases_commits.section(results["commits"], results["latency_ms"]))
    parts.append(behind.section(results))
    return "\n".join(parts)


def line(case: dict[str, Any]) -> str:
    """Return a row of the tables of cases."""
    sides = case["sides"]
    cells = [case["table"], case["name"], *map(_time, (sides["alance"], sides["pylance"]))]
    others = " / ".join(f"{side['ms']:,.1f}" for side in case["other_threads"].values())
    cells.append(f"{sides['pylance']['threads']}" + (f" ({others})" if others else ""))
    cells += [_time(sides.get("vortex")), f"{ratio(case):.2f}", _number(case["target"], 2)]
    if case["remote"]:
        three = [sides["alance"], sides["pylance"], sides.get("vortex")]
        cells += [
            " / ".join("-" if numbers is None else f"{numbers[what]:{form}}" for numbers in three)
            for what, form in (("requests", ",d"), ("rounds", "d"), ("megabytes", ".1f"))
        ]
    return f"| {' | '.join(cells)} |"


def ratio(case: dict[str, Any], side: str = "alance") -> float:
    """Return the ratio of a side's wall time to that of pylance."""
    return float(case["sides"][side]["ms"] / case["sides"]["pylance"]["ms"])


def _table(cases: Sequence[dict[str, Any]]) -> list[str]:
    names = ["table", "work", "alance ms (cpu)", "pylance ms (cpu)", "threads", "Vortex ms (cpu)"]
    names += ["ratio", "target"]
    names += ["requests", "rounds", "MB"] if cases[0]["remote"] else []
    marks = ["---", "---", *["---:"] * (len(names) - 2)]
    return [f"| {' | '.join(names)} |", f"|{'|'.join(marks)}|", *map(line, cases)]


def _alone(works: Iterable[dict[str, Any]]) -> list[str]:
    lines = [
        "| table | work | alance peak MB | pylance peak MB | Vortex peak MB "
        "| alance ms | pylance ms | Vortex ms |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for work in works:
        sides = [work["sides"][name] for name in ("alance", "pylance", "vortex")]
        cells = [work["table"] or "", work["name"]]
        cells += [f"{side['megabytes']:.0f}" for side in sides]
        cells += [f"{side['ms']:.0f}" for side in sides]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _time(side: dict[str, Any] | None) -> str:
    return "-" if side is None else f"{side['ms']:,.1f} ({side['cpu_ms']:,.0f})"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
