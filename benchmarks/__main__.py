"""Run the cases and write the report: `make bench`.

python -m benchmarks [--scale 1] [--rounds 5] [--only TEXT] [--out FOLDER]

A complete run at scale 1 rewrites docs/benchmarks. With `--only`, or at another scale, results are
printed, and files are written only to the folder of `--out`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import lance
import vortex

import alance
from alance.testing.lab import Lab
from benchmarks.all_cases import ALL
from benchmarks.alone import NAMES, WORKS, measure_alone
from benchmarks.cases import Case, Opened
from benchmarks.cases_changes import run_changes
from benchmarks.cases_commits import run_commits
from benchmarks.cases_loop import run_loop
from benchmarks.cases_small import run_small, run_streams
from benchmarks.cases_texts import run_texts
from benchmarks.cases_vectors import run_vectors
from benchmarks.cases_writes import run_writes
from benchmarks.data import FOLDER, table, vortex_file
from benchmarks.measure import measure
from benchmarks.peer import VARIABLE, Peer, settings
from benchmarks.plot import plot, plot_recall
from benchmarks.report import line, report

LATENCY_MS: Final = 30
ALONE_ROUNDS: Final = 3
DOCS: Final = Path(__file__).parents[1] / "docs" / "benchmarks"


def vortex_store(lab: Lab) -> Any:
    """Return the lab's bucket as a store of Vortex."""
    return vortex.store.S3Store(
        FOLDER.name,
        endpoint=lab.endpoint,
        access_key_id="lab",
        secret_access_key="lab",
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


async def run_case(
    case: Case, lab: Lab, scale: float, rounds: int, peers: list[Peer]
) -> dict[str, Any]:
    """Measure a case on all sides."""
    path, other = table(case.table, scale), vortex_file(case.table, scale)
    uri, options = str(path), None
    open_vortex = partial(vortex.open, str(other), without_segment_cache=not case.is_cached)
    if case.remote:
        lab.rescan()
        lab.config(latency_ms=LATENCY_MS, total_mbps=case.mbps)
        uri, options = f"s3://{FOLDER.name}/{path.name}", lab.lance_options()
        open_vortex = partial(
            vortex.open,
            other.name,
            store=vortex_store(lab),
            without_segment_cache=not case.is_cached,
        )
    async with alance.Session() as session:
        dataset = await alance.dataset(uri, storage_options=options, session=session)
        theirs = lance.dataset(uri, storage_options=options)
        count = theirs.count_rows()
        opened = Opened(uri, dataset, theirs, options, count, open_vortex(), open_vortex)
        measured = await measure(case, opened, lab, rounds, peers)
    return {
        "table": case.table,
        "name": case.name,
        "remote": case.remote,
        "mbps": case.mbps,
        "calls": case.calls,
        "target": case.target,
        **measured.as_json(),
    }


async def run_cases(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure all cases that `--only` selects, and print each when it ends."""
    rows = []
    with ExitStack() as stack:
        lab = stack.enter_context(Lab(FOLDER.parent, buckets=(FOLDER.name,)))
        peers = [stack.enter_context(closing(Peer(threads))) for threads in settings()]
        for case in ALL:
            if arguments.only in case.label:
                scale, rounds = arguments.scale, arguments.rounds
                rows.append(await run_case(case, lab, scale, rounds, peers))
                print(line(rows[-1]), flush=True)
    return rows


def run_alone(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure work that needs a process of its own: imports, and the peak of memory."""
    rows = []
    for work, name in WORKS:
        label = f"alone {name or ''} {work}"
        if arguments.only not in label:
            continue
        paths = dict.fromkeys(("alance", "pylance"), str(name and table(name, arguments.scale)))
        paths["vortex"] = str(name and vortex_file(name, arguments.scale))
        sides = {
            side: measure_alone(side, work, path, ALONE_ROUNDS) for side, path in paths.items()
        }
        rows.append({"table": name, "name": NAMES[work], "sides": sides})
        print(label, sides, flush=True)
    return rows


def loop(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure how long crowds of callers block the event loop, on local files and on a lab."""
    with Lab(FOLDER.parent, buckets=(FOLDER.name,), latency_ms=LATENCY_MS) as lab:
        return asyncio.run(run_loop(lab, arguments.only, arguments.scale))


def commits(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure commits, on a lab of their own."""
    with Lab() as lab:
        return run_commits(lab, arguments.only, LATENCY_MS)


def changes(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure changes of tables, on local files and on a lab."""
    with Lab(FOLDER.parent, buckets=(FOLDER.name,), latency_ms=LATENCY_MS) as lab:
        return run_changes(lab, arguments.only, arguments.scale, ALONE_ROUNDS)


def vectors(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure indices of vectors; some searches run on a lab."""
    with Lab(FOLDER.parent, buckets=(FOLDER.name,), latency_ms=LATENCY_MS) as lab:
        return run_vectors(lab, arguments.only, arguments.scale, ALONE_ROUNDS)


def texts(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure indices of texts; some searches run on a lab."""
    with Lab(FOLDER.parent, buckets=(FOLDER.name,), latency_ms=LATENCY_MS) as lab:
        return run_texts(lab, arguments.only, arguments.scale, ALONE_ROUNDS)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the tables")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose label has this text")
    parser.add_argument("--note", default="", help="what else the machine did, for the report")
    parser.add_argument("--out", type=Path, help="folder for the report")
    parser.add_argument("--draw", action="store_true", help="only draw the results of --out anew")
    arguments = parser.parse_args()
    os.environ.setdefault(VARIABLE, str(os.cpu_count()))  # pylance reads it at its first work
    is_whole = not arguments.only and arguments.scale == 1
    folder = arguments.out or (DOCS if is_whole else None)
    if arguments.draw:
        folder = folder or DOCS
        results = json.loads((folder / "results.json").read_text())
    else:
        results = {
            "date": datetime.now(UTC).date().isoformat(),
            "alance": alance.__version__,
            "pylance": lance.__version__,
            "vortex": version("vortex-data"),
            "python": platform.python_version(),
            "processors": os.cpu_count(),
            "scale": arguments.scale,
            "note": arguments.note,
            "rounds": arguments.rounds,
            "alone_rounds": ALONE_ROUNDS,
            "latency_ms": LATENCY_MS,
            "cases": asyncio.run(run_cases(arguments)),
            "loop": loop(arguments),
            "alone": run_alone(arguments),
            "writes": run_writes(arguments.only, arguments.scale, ALONE_ROUNDS),
            "small": run_small(arguments.only, ALONE_ROUNDS),
            "streams": run_streams(ALONE_ROUNDS) if arguments.only in "streams" else [],
            "changes": changes(arguments),
            "vectors": vectors(arguments),
            "texts": texts(arguments),
            "commits": commits(arguments),
        }
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        (folder / "README.md").write_text(report(results))
        plot(results, folder / "ratios.svg")
        if results.get("vectors", {}).get("recall"):
            plot_recall(results["vectors"]["recall"], folder / "recall.svg")
        print(f"written: {folder}")


if __name__ == "__main__":
    main()
