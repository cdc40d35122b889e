"""The report of the benchmarks says where alance loses, and leaves nothing out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.behind import losses_of, rows_of, section

PAGE = Path(__file__).parents[1] / "docs/benchmarks"
NOTHING: dict[str, Any] = {
    "cases": [], "alone": [], "writes": [], "small": [], "changes": [],
    "vectors": {}, "texts": {}, "commits": [],
}  # fmt: skip


def case(
    name: str, *, remote: bool = False, mbps: int = 0, **milliseconds: float
) -> dict[str, Any]:
    sides = {side: {"ms": ms} for side, ms in milliseconds.items()}
    return {"table": "lineitem", "name": name, "remote": remote, "mbps": mbps, "sides": sides}


def test_losses_are_listed_under_their_headings_worst_first() -> None:
    cases = [
        case("scan", alance=1.01, pylance=1.0, vortex=2.0),
        case("take", alance=6.0, pylance=3.0, vortex=2.0),
        case("count", alance=1.0, pylance=1.0),
        case("open", remote=True, mbps=200, alance=4.0, pylance=2.0),
        case("open", remote=True, alance=3.0, pylance=2.0),
    ]
    losses = losses_of({**NOTHING, "cases": cases})
    assert {heading: [row.side for row in rows] for heading, rows in losses.items()} == {
        "Local files": ["vortex", "pylance", "pylance"],
        "On the lab": ["pylance"],
        "On the lab of 200 MB/s": ["pylance"],
    }
    assert [row.ratio for row in losses["Local files"]] == [3.0, 2.0, 1.01]


def test_callers_are_compared_by_the_time_of_a_query() -> None:
    callers = [
        {"table": "t", "place": "lab", "callers": 64, "sides": {"alance": 50, "pylance": 100}}
    ]
    losses = losses_of({**NOTHING, "vectors": {"callers": callers}})
    assert [(row.work, row.ratio) for row in losses["Vectors"]] == [("t, lab, 64 callers", 2.0)]


def test_peaks_of_memory_and_sizes_of_files_count_and_the_reading_of_the_source_does_not() -> None:
    ours = {"ms": 1.0, "megabytes": 300.0, "file_megabytes": 9.0}
    theirs = {"ms": 2.0, "megabytes": 200.0, "file_megabytes": 6.0}
    reading = {"ms": 0.1, "megabytes": 1.0, "file_megabytes": 0.0}
    writes = [{"table": "events", "sides": {"alance": ours, "pylance": theirs, "reading": reading}}]
    losses = losses_of({**NOTHING, "writes": writes})
    assert [row.work for row in losses["Writing local tables"]] == [
        "events, peak memory",
        "events, size of files",
    ]


def test_a_report_without_losses_has_no_such_part() -> None:
    assert section({**NOTHING, "cases": [case("scan", alance=1.0, pylance=2.0)]}) == ""


def test_the_page_ends_with_the_losses_of_its_results() -> None:
    results = json.loads((PAGE / "results.json").read_text())
    assert (PAGE / "README.md").read_text().endswith(section(results))
    assert {row.heading for row in rows_of(results)} >= {"Local files", "On the lab", "Vectors"}
