"""A trace tells what is read, and changes nothing of it: as the lab's server saw it, and as the
bytes of local files tell, of which all that the trace does not name may be anything.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import alance
from tests.parity.combinations import ALL, covering
from tests.parity.reads import NUMBERS, Scan, Take, drawn_reads
from tests.parity.tables import VERSIONS
from tests.reference.compare import assert_equal_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alance.io.events.trace import RequestEvent
    from alance.testing.lab import Record
    from tests.parity.combinations import Case
    from tests.parity.conftest import Tables

LAB = [case for case in covering(ALL, seed=1) if case.place == "lab"]


def as_seen(records: Iterable[Record]) -> Counter[tuple[str, str, int, int]]:
    """Requests as the server noted them: kind, object, first byte, bytes."""
    seen: Counter[tuple[str, str, int, int]] = Counter()
    for record in records:
        key = record["key"] or record["prefix"].rstrip("/")
        start = record.get("range", (0,))[0] if record["op"] == "GET" else 0
        num_bytes = record["out"] if record["op"] == "GET" else 0
        seen[record["op"].lower(), key, start, num_bytes] += 1
    return seen


def as_traced(recorder: alance.Recorder) -> Counter[tuple[str, str, int, int]]:
    """The same of a trace."""
    return Counter(
        (
            "get" if event.kind == "tail" else event.kind,
            event.location.removeprefix("s3://lab/"),
            event.start,
            event.num_bytes,
        )
        for event in recorder.events
    )


@pytest.mark.parametrize("case", LAB, ids=str)
async def test_a_trace_is_what_the_server_saw(tables: Tables, case: Case) -> None:
    path = tables.path(case.version, case.size, case.history)
    theirs = tables.theirs(path)
    reads = drawn_reads(case.version, case.history, f"traces {case}", 3)
    async with tables.ours(path, "lab") as dataset:
        for read in reads:
            for seed in (0, 1):
                places = read.places(theirs, seed)
                with tables.lab.recording() as seen, alance.trace() as recorder:
                    await read.ours(dataset, places)
                assert as_traced(recorder) == as_seen(seen.records), f"{read}, seed {seed}"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_trace_changes_no_request_of_a_take(tables: Tables, version: str) -> None:
    """Sessions that do the same, one of them traced, ask the same of the server."""
    path = tables.path(version, "large", "deleted")
    theirs = tables.theirs(path)
    reads = [
        read
        for read in drawn_reads(version, "deleted", f"same {version}", 4)
        if isinstance(read, Take)
    ]
    for read in reads:
        async with tables.ours(path, "lab") as plain, tables.ours(path, "lab") as watched:
            for seed in (0, 0, 0, 1):
                places = read.places(theirs, seed)
                with tables.lab.recording() as seen:
                    await read.ours(plain, places)
                with tables.lab.recording() as also_seen, alance.trace():
                    await read.ours(watched, places)
                assert as_seen(also_seen.records) == as_seen(seen.records), str(read)


def bytes_read() -> int:
    """Bytes that this process has read so far, by any call and of anything."""
    counters = Path("/proc/self/io").read_text()
    return int(counters.split("rchar: ")[1].split()[0])


def spans(event: RequestEvent) -> list[tuple[int, int]]:
    """The ranges that an event says were read: its pieces, the nearest ones with what is between.

    What lies between pieces that are near each other is read with them, by one call.
    """
    if event.stop - event.start == event.num_bytes:
        return [(event.start, event.stop)]
    pieces = sorted(event.ranges)
    gaps = sorted((after[0] - before[1], before[1]) for before, after in pairwise(pieces))
    num_bytes = sum(stop - start for start, stop in pieces)
    joined = []
    for size, start in gaps:
        if num_bytes >= event.num_bytes:
            break
        joined.append((start, start + size))
        num_bytes += size
    assert num_bytes == event.num_bytes
    return [*pieces, *joined]


class Spoiled:
    """A copy of a table whose bytes come and go."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._contents = {file: file.read_bytes() for file in (path / "data").rglob("*.lance")}

    def keep(self, recorder: alance.Recorder) -> None:
        """Overwrite all bytes of data files but those that the trace names."""
        for file, content in self._contents.items():
            spoiled = bytearray(b"\xa5" * len(content))
            for event in recorder.events:
                if event.location == f"file://{file}":
                    for start, stop in spans(event):
                        spoiled[start:stop] = content[start:stop]
            self._write(file, bytes(spoiled))

    def restore(self) -> None:
        """All bytes as they were."""
        for file, content in self._contents.items():
            self._write(file, content)

    @staticmethod
    def _write(file: Path, content: bytes) -> None:
        with file.open("r+b") as opened:  # the same file: sessions have it open
            opened.write(content)


ROWS = Take("offsets", "some", (*NUMBERS, "text", "wide", "list", "struct"))
WHOLE = Scan((*NUMBERS, "text", "list"), {})
FILTERED = Scan(("key", "text", "structs"), {"filter": "key % 700 = 1"})
LOCAL = [
    pytest.param(version, read, id=f"{version}, {name}")
    for version in VERSIONS
    for name, read in (("take", ROWS), ("scan", WHOLE), ("filter", FILTERED))
]


@pytest.mark.parametrize(("version", "read"), LOCAL)
async def test_a_local_trace_names_what_is_read(
    tables: Tables, version: str, read: Take | Scan, tmp_path: Path
) -> None:
    """At first, at the second, third and fourth call: no byte beside is read, and none named that
    was not.
    """
    source = tables.path(version, "large", "deleted")
    theirs = tables.theirs(source)
    places = read.places(theirs, 0)
    answer = read.theirs(theirs, places)
    copy = Spoiled(tables.copy(source, tmp_path / "t"))
    for earlier in range(4):
        async with tables.ours(copy.path, "local") as dataset:
            for _ in range(earlier):
                await read.ours(dataset, places)
            before = bytes_read()
            with alance.trace() as recorder:
                await read.ours(dataset, places)
            assert recorder.num_bytes <= bytes_read() - before
            copy.keep(recorder)
            if earlier:
                assert_equal_rows(await read.ours(dataset, places), answer)
        if not earlier:
            async with tables.ours(copy.path, "local") as dataset:
                assert_equal_rows(await read.ours(dataset, places), answer)
        copy.restore()
