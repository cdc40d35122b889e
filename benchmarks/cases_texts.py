"""Indices of texts: the cost of building them, and of searches by words.

python -m benchmarks.cases_texts SIDE PATH   builds an index alone, and prints JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from benchmarks.alone import peak_megabytes, with_bytecode
from benchmarks.sides import Ours, Theirs, opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.testing.lab import Lab

K: Final = 10
TABLE: Final = "documents"
COLUMNS: Final = ["id", "_score"]
SIDES: Final = ("alance", "pylance", "lancedb", "tantivy")
CALLERS: Final = 64
CALLS: Final = 512
ABOUT: Final = """\
300 000 texts of 5 to 59 words, of 30 000 words of which the n-th is 1/n as frequent as the first;
searches for the 10 best, any word. Indices are built by processes of their own. Of searches on the
local disk the median of the wall time of each is told, and the mean of the processor time, when
what they read is in memory. On the lab the **first** search of an open table reads what the index
says of itself, **others** (20, one after the other) the lists that are not in memory, and **again**
are the same 20 once more. Tantivy searches an index of its own, without a table.
"""


def queries_of(kind: str, count: int, words: Sequence[str], seed: int) -> list[str]:
    """Return queries of some words."""
    rng = np.random.default_rng(seed)
    total = len(words)
    if kind == "1 rare word":
        chosen = rng.integers(total // 6, total, (count, 1))
    elif kind == "1 frequent word":
        chosen = rng.integers(0, 50, (count, 1))
    elif kind == "3 frequent words":
        chosen = np.array([rng.choice(100, 3, replace=False) for _ in range(count)])
    else:
        shares = 1 / np.arange(1, total + 1)
        chosen = rng.choice(total, (count, int(kind.split()[0])), p=shares / shares.sum())
    return [" ".join(words[place] for place in row) for row in chosen.tolist()]


KINDS: Final = (
    "1 rare word", "1 frequent word", "2 words", "3 words", "3 frequent words", "8 words",
)  # fmt: skip


LABELS: Final = (
    "texts build", *(f"texts local {kind}" for kind in KINDS), "texts lab",
    "texts callers local", "texts callers lab",
)  # fmt: skip


class Alance(Ours[str]):
    """Searches by alance."""

    async def ask(self, query: str, **options: Any) -> int:
        """Search; return the number of rows."""
        return len(await self.dataset.search_text(query, K, columns=COLUMNS))


class Pylance(Theirs[str]):
    """Searches by pylance."""

    def find(self, query: str, **options: Any) -> int:
        """Search; return the number of rows."""
        words = {"query": query, "columns": ["text"]}
        scanner = self.dataset.scanner(columns=COLUMNS, full_text_query=words, limit=K)
        return int(scanner.to_table().num_rows)

    async def ask(self, query: str) -> int:
        """Search in the calling thread; return the number of rows."""
        return self.find(query)


class LanceDB(Ours[str]):
    """Searches by LanceDB; its dataset is a table of a database."""

    dataset: Any

    async def ask(self, query: str, **options: Any) -> int:
        """Search; return the number of rows."""
        search = self.dataset.query().nearest_to_text(query, columns=["text"]).limit(K)
        return len(await search.select(COLUMNS).to_arrow())


class Tantivy:
    """Searches for the same words by tantivy, after which pylance's index is designed.

    They show what a search can cost: tantivy has the ids beside its index, and no table.
    """

    def __init__(self, path: Path) -> None:
        import tantivy

        schema = tantivy.SchemaBuilder().add_integer_field("id", stored=True)
        schema = schema.add_text_field("text", tokenizer_name="en_stem").build()
        folder = path.with_suffix(".tantivy")
        is_new = not folder.exists()
        folder.mkdir(exist_ok=True)
        self._index = tantivy.Index(schema, str(folder))
        if is_new:
            self._fill(path)
        self._index.reload()
        self._searcher = self._index.searcher()

    def _fill(self, path: Path) -> None:
        import lance
        import tantivy

        writer = self._index.writer(256 << 20, 1)
        for batch in lance.dataset(str(path)).to_batches(columns=["id", "text"]):
            for number, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                writer.add_document(tantivy.Document(id=number, text=text))
        writer.commit()
        writer.wait_merging_threads()

    async def ask(self, text: str) -> int:
        query = self._index.parse_query(text, ["text"])
        hits = self._searcher.search(query, K, count=False).hits
        return len([self._searcher.doc(place)["id"] for _, place in hits])


Side: TypeAlias = Alance | Pylance | LanceDB | Tantivy


async def measured(side: Side, texts: Sequence[str], lab: Lab | None = None) -> dict[str, float]:
    """Run searches one after the other; return the median of their times and means of the rest."""
    from benchmarks.measure import waves

    before = lab.stats()["requests"] if lab else 0
    times = []
    cpu = time.process_time()
    for text in texts:
        begun = time.perf_counter()
        await side.ask(text)
        times.append(time.perf_counter() - begun)
    cpu = time.process_time() - cpu
    log = [record for record in lab.log(before) if "op" in record] if lab else []
    return {
        "ms": statistics.median(times) * 1e3,
        "cpu_ms": cpu / len(texts) * 1e3,
        "requests": len(log) / len(texts),
        "rounds": waves(log) / len(texts),
        "kilobytes": sum(record.get("out", 0) for record in log) / len(texts) / 1e3,
    }


async def run_local(only: str, path: Path, words: Sequence[str]) -> list[dict[str, Any]]:
    """Measure searches of each kind on data in memory; return the best of three rounds."""
    import lancedb

    results: list[dict[str, Any]] = []
    if not any(only in f"texts local {kind}" for kind in KINDS):
        return results
    async with opened(str(path), None, Alance, Pylance) as datasets:
        database = await lancedb.connect_async(str(path.parent))
        others = {"lancedb": LanceDB(await database.open_table(path.stem))}
        sides: dict[str, Side] = {**datasets, **others, "tantivy": Tantivy(path)}
        for kind in KINDS:
            if only not in f"texts local {kind}":
                continue
            texts = queries_of(kind, 40, words, 5)
            rounds: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
            for number in range(4):
                for name, side in sides.items():
                    figures = await measured(side, texts)
                    if number:
                        rounds[name].append(figures)
            best = {
                name: {what: min(figures[what] for figures in own) for what in own[0]}
                for name, own in rounds.items()
            }
            results.append({"place": "local", "what": kind, "sides": best})
            print(line(results[-1]), flush=True)
    return results


async def run_lab(lab: Lab, only: str, path: Path, words: Sequence[str]) -> list[dict[str, Any]]:
    """Measure a first search on the lab, then other searches, then the same ones again."""
    if only not in "texts lab":
        return []
    lab.rescan()
    texts = queries_of("3 words", 21, words, 7)
    parts = {"first": slice(0, 1), "others": slice(1, 21), "again": slice(1, 21)}
    by_moment: dict[str, dict[str, Any]] = {when: {} for when in parts}
    async with opened(str(path), None, Alance, Pylance) as sides:  # modules are imported
        for side in sides.values():
            await side.ask(texts[0])
    uri = f"s3://{path.parent.name}/{path.name}"
    async with opened(uri, lab.lance_options(), Alance, Pylance) as sides:
        for name, side in sides.items():
            for when, part in parts.items():
                by_moment[when][name] = await measured(side, texts[part], lab)
    results = [
        {"place": "lab", "what": f"3 words, {when}", "sides": values}
        for when, values in by_moment.items()
    ]
    for result in results:
        print(line(result), flush=True)
    return results


async def run_crowds(lab: Lab, only: str, path: Path, words: Sequence[str]) -> list[dict[str, Any]]:
    """Measure queries per second of concurrent callers; each runs one query after the other."""
    texts = queries_of("3 words", CALLS, words, 9)
    remote = (f"s3://{path.parent.name}/{path.name}", lab.lance_options())
    results: list[dict[str, Any]] = []
    for place, (uri, options) in {"local": (str(path), None), "lab": remote}.items():
        if only not in f"texts callers {place}":
            continue
        rates: dict[str, dict[str, float]] = {}
        async with opened(uri, options, Alance, Pylance) as sides:
            for name, side in sides.items():
                await side.crowd(texts, CALLERS)
                begun, cpu = time.perf_counter(), time.process_time()
                await side.crowd(texts, CALLERS)
                wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
                rates[name] = {"rate": len(texts) / wall, "cpu_ms": cpu / len(texts) * 1e3}
        results.append({"place": place, "callers": CALLERS, "sides": rates})
        print(results[-1], flush=True)
    return results


def run_builds(only: str, path: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Build the index with both sides, each in a process of its own; return the medians."""
    sides: dict[str, dict[str, float]] = {}
    if only not in "texts build":
        return sides
    for side in ("alance", "pylance"):
        runs: list[dict[str, float]] = []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(dir=path.parent) as folder:
                copy = Path(folder) / "copy"
                shutil.copytree(path, copy, copy_function=os.link)
                command = [sys.executable, "-m", "benchmarks.cases_texts", side, str(copy)]
                done = subprocess.run(
                    command, check=True, capture_output=True, text=True, env=with_bytecode()
                )
                runs.append(json.loads(done.stdout))
        sides[side] = {what: statistics.median(run[what] for run in runs) for what in runs[0]}
    print(sides, flush=True)
    return sides


def run_texts(lab: Lab, only: str, scale: float, rounds: int) -> dict[str, Any]:
    """Run all measurements of texts."""
    if not any(only in label for label in LABELS):
        return {}
    from benchmarks.data import drawn_words, table

    path, words = table(TABLE, scale), drawn_words()
    return {
        "builds": run_builds(only, path, rounds),
        "searches": [
            *asyncio.run(run_local(only, path, words)),
            *asyncio.run(run_lab(lab, only, path, words)),
        ],
        "callers": asyncio.run(run_crowds(lab, only, path, words)),
    }


def line(point: dict[str, Any]) -> str:
    """Return a row of the table of searches."""
    ours, theirs = point["sides"]["alance"], point["sides"]["pylance"]
    cells = [point["place"], point["what"]]
    others = [point["sides"].get(name) for name in SIDES[2:]]
    cells += [
        "" if side is None else f"{side['ms']:.2f} ({side['cpu_ms']:.2f})"
        for side in (ours, theirs, *others)
    ]
    cells += [f"{ours[what] / theirs[what]:.2f}" for what in ("ms", "cpu_ms")]
    for what in ("requests", "rounds", "kilobytes"):
        is_remote = point["place"] != "local"
        cells.append(f"{ours[what]:.1f} / {theirs[what]:.1f}" if is_remote else "")
    return f"| {' | '.join(cells)} |"


def section(results: dict[str, Any]) -> str:
    """Return the part of the report about texts."""
    parts = ["## Texts\n", ABOUT]
    names = ["where", "search", *(f"{name} ms (cpu)" for name in SIDES)]
    names += ["ratio", "of cpu", "requests", "rounds", "KB"]
    if results["searches"]:
        parts += [f"| {' | '.join(names)} |", f"|{'---|' * 2}{'---:|' * (len(names) - 2)}"]
    parts += map(line, results["searches"])
    for crowd in results["callers"]:
        ours, theirs = crowd["sides"]["alance"], crowd["sides"]["pylance"]
        parts.append(
            f"\n{crowd['callers']} callers, {crowd['place']}: {ours['rate']:,.0f} queries/s "
            f"({ours['cpu_ms']:.2f} ms of processor each), pylance {theirs['rate']:,.0f} "
            f"({theirs['cpu_ms']:.2f})."
        )
    if results["builds"]:
        ours, theirs = results["builds"]["alance"], results["builds"]["pylance"]
        parts.append(
            f"\nBuilding: {ours['seconds']:.1f} s ({ours['cpu']:.1f} of processor), "
            f"{ours['megabytes']:,.0f} MB at most; pylance {theirs['seconds']:.1f} s "
            f"({theirs['cpu']:.1f}), {theirs['megabytes']:,.0f} MB."
        )
    return "\n".join([*parts, ""])


def main() -> None:
    """Build an index of texts, and print its cost."""
    side, path = sys.argv[1:]
    begun = time.perf_counter()
    if side == "alance":
        import alance.sync

        alance.sync.dataset(path).create_scalar_index("text", "INVERTED")
    else:
        import lance

        lance.dataset(path).create_scalar_index("text", "INVERTED")
    figures = {"seconds": time.perf_counter() - begun, "cpu": time.process_time()}
    print(json.dumps({**figures, "megabytes": peak_megabytes()}))


if __name__ == "__main__":
    main()
