"""A sink that flushes every ten rows: with maintenance, neither the table nor its reads degrade.

`make soak` makes 100 000 flushes, or SOAK_FLUSHES. What each sample measures is a line of
`build/flushes.jsonl`.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import numpy as np
import pyarrow as pa
import pytest

import alance

if TYPE_CHECKING:
    from collections.abc import Iterator

FLUSHES: Final = int(os.environ.get("SOAK_FLUSHES", "100000"))
ROWS: Final = 10  # a flush
PAYLOAD: Final = 900  # bytes a row, beside its key and its text
EVERY: Final = 16  # flushes between two runs of maintenance
SAMPLES: Final = 50
REPEATS: Final = 5  # of each read of a sample
MOST_WRITTEN: Final = 8  # bytes of files over bytes of rows
# Of a measure while the table grows to ten times its rows, by its fit: a share of 9 is linear.
MOST_GROWTH: Final = 1.0
POLICY: Final = alance.MaintenancePolicy(  # the default, with versions that may go at once
    older_than=timedelta(0), retain_versions=20, min_old_versions=30
)
SAMPLED: Final = Path(__file__).parents[2] / "build" / "flushes.jsonl"


def rows(start: int, num_words: int) -> pa.Table:
    """Rows of 1 KB; each text has one of `num_words` rare words, and ten that are common."""
    chance = np.random.default_rng(start)
    common = chance.integers(0, 5_000, (ROWS, 10)).tolist()
    ids = range(start, start + ROWS)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "text": [
                " ".join([f"rare{number % num_words}", *(f"word{word}" for word in words)])
                for number, words in zip(ids, common, strict=True)
            ],
            "payload": pa.array([chance.bytes(PAYLOAD) for _ in ids], pa.binary()),
        }
    )


@dataclass
class Sample:
    """State of the table before a run of maintenance, and the cost of reads by a new session."""

    flushes: int
    files: int
    fragments: int
    versions: int
    segments: int  # of the index that has most
    written: float  # bytes of all new files so far, over bytes of rows
    reads: dict[str, float] = field(default_factory=dict)

    def measures(self) -> dict[str, float]:
        """All numbers that are to stay flat."""
        values = {**asdict(self), **self.reads}
        return {
            name: values[name] for name in values if name not in ("flushes", "reads", "written")
        }


class Written:
    """Bytes of the files that appear below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self.num_bytes = 0
        self.files: set[str] = set()

    def look(self) -> None:
        """Count the files that are new. No version that a run makes is removed by that run."""
        current = set()
        for path, size in _files(self._folder):
            current.add(path)
            if path not in self.files:
                self.num_bytes += size
        self.files = current


def _files(folder: str) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            else:
                yield entry.path, entry.stat().st_size


async def cost_of_reads(uri: str, num_rows: int, num_words: int) -> dict[str, float]:
    """Requests, bytes and processor time of reads, each the mean of some by a new session."""
    costs: dict[str, float] = {}
    chance = np.random.default_rng(num_rows)
    for kind in ("get", "filter", "search"):
        requests = num_bytes = 0
        seconds = 0.0
        for key in chance.integers(0, num_rows - ROWS, REPEATS).tolist():
            async with alance.Session() as session:
                begun = time.process_time()
                with alance.trace() as trace:
                    dataset = await alance.dataset(uri, session=session)
                    if kind == "get":
                        table = await dataset.get_arrow(key, "id", ["id"])
                    elif kind == "filter":
                        table = await dataset.to_table(["id"], filter=f"id between {key} and {key}")
                    else:
                        word = f"rare{key % num_words}"
                        table = await dataset.search_text(word, columns=["id"])
                seconds += time.process_time() - begun
            assert table is not None
            ids = table["id"].to_pylist()
            if kind == "search":
                assert {number % num_words for number in ids} == {key % num_words}
            else:
                assert ids == [key]
            requests, num_bytes = requests + trace.num_requests, num_bytes + trace.num_bytes
        costs[f"{kind}_requests"] = requests / REPEATS
        costs[f"{kind}_bytes"] = num_bytes / REPEATS
        costs[f"{kind}_ms"] = 1000 * seconds / REPEATS
    return costs


def growth(samples: list[Sample], name: str) -> float:
    """Growth of a measure from a tenth of the flushes to the end, as a share, by a linear fit."""
    last = samples[-1].flushes
    points = [(own.flushes, own.measures()[name]) for own in samples if 10 * own.flushes >= last]
    slope, start = np.polyfit(*map(np.array, zip(*points, strict=True)), 1)
    begin, end = start + slope * last / 10, start + slope * last
    return float(end / begin) - 1


async def flushed(folder: Path, num_flushes: int, log: TextIO) -> list[Sample]:
    """Flush, maintain and measure, in turns; each sample is a line of the log."""
    uri, written, samples = str(folder), Written(folder), list[Sample]()
    num_words = num_flushes * ROWS // 20  # each is in twenty rows at the end
    first = rows(0, num_words)
    dataset = await alance.write_dataset(first, uri)
    dataset = await dataset.create_scalar_index("id", "BTREE")
    await dataset.create_scalar_index("text", "INVERTED")
    num_bytes, step = first.nbytes, max(EVERY, num_flushes // SAMPLES // EVERY * EVERY)
    async with alance.ingest(uri, commit_interval=None) as sink:
        for number in range(1, num_flushes):
            batch = rows(number * ROWS, num_words)
            num_bytes += batch.nbytes
            await sink.write(batch)
            await sink.flush()
            if number % EVERY:
                continue
            written.look()
            dataset = await dataset.checkout_latest()
            if number % step == 0:
                health = await dataset.health()
                sample = Sample(
                    number,
                    len(written.files),
                    health.num_fragments,
                    health.num_versions,
                    max(index.num_segments for index in health.indices),
                    written.num_bytes / num_bytes,
                    await cost_of_reads(uri, health.num_rows, num_words),
                )
                samples.append(sample)
                print(json.dumps(asdict(sample)), file=log, flush=True)
            report = await dataset.maintain(POLICY)
            assert {own.outcome for own in report.steps} <= {"done"}, report
            written.look()
    return samples


@pytest.mark.parametrize(
    "num_flushes",
    [
        pytest.param(40, id="short"),
        pytest.param(FLUSHES, marks=[pytest.mark.soak, pytest.mark.timeout(0)], id="long"),
    ],
)
async def test_a_table_of_many_small_flushes_stays_in_order(
    tmp_path: Path, num_flushes: int
) -> None:
    is_long = num_flushes == FLUSHES
    SAMPLED.parent.mkdir(exist_ok=True)
    with (SAMPLED if is_long else tmp_path / SAMPLED.name).open("w") as log:
        samples = await flushed(tmp_path / "t", num_flushes, log)
    dataset = await alance.dataset(tmp_path / "t")
    await dataset.validate()
    assert await dataset.count_rows(filter="id >= 0") == num_flushes * ROWS
    for sample in samples:
        assert sample.fragments <= 80, sample
        assert sample.versions <= 20 + 30 + 2 * EVERY, sample
        assert sample.segments <= 8, sample
        assert sample.written <= MOST_WRITTEN, sample
    if is_long:
        grown = {name: growth(samples, name) for name in samples[0].measures()}
        print(
            f"{num_flushes} flushes, {samples[-1].written:.2f} bytes written for each of the rows"
        )
        print({name: f"{share:+.0%}" for name, share in grown.items()})
        # Only printed: times, which depend on what else the machine does, and bytes of a search,
        # because a new session reads the length of each document in the index (6 bytes).
        printed = {"search_bytes", *(name for name in grown if name.endswith("_ms"))}
        flat = {name: share for name, share in grown.items() if name not in printed}
        assert max(flat.values()) <= MOST_GROWTH, grown
