"""Rows of open local files: the decoding job itself reads a column from the page cache.

A column is read just before it is decoded, into memory that the previous column has freed. So its
bytes are still in the processor's cache, and no memory is needed for reading ahead. The job waits
for the few bytes that the page cache lacks. If it lacks most of a file, reading ahead is faster.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from alance.base.records import dataclass
from alance.file.open.columns import PATIENCE, OwnStates
from alance.format.plans import ByteRange, NotAtHand, Pieces, answered, coalesce
from alance.io.disk import files
from alance.io.events import trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from alance import _kernels
    from alance.file.open.columns import ScanStates
    from alance.file.rows.fragment import OpenFragment
    from alance.format.plans import Extent
    from alance.io.disk.files import OpenFile
    from alance.io.reading.inline import Note


@dataclass(frozen=True, slots=True)
class LocalRows:
    """Rows `start` to `stop` of a fragment whose local files are open."""

    fragment: OpenFragment
    start: int
    stop: int
    states: ScanStates
    files: Mapping[str, files.OpenFile]  # open files by location
    note: Note

    def decode(self) -> pa.RecordBatch | None:
        """Decode the rows. Returns None if the page cache lacks much, or a file is not open."""
        if self.states.is_cold:
            return None
        spans = [(self.start, self.stop)]
        reading = self.fragment.read_parts([spans], OwnStates(), is_read=False)
        try:
            with self.fragment.lock:  # so that threads do not learn the same pages
                (task,) = answered(reading, self._read)
            return task.decode(self._reader)
        except NotAtHand:
            return None

    @contextmanager
    def _reader(
        self, paths: Sequence[str], pieces: Callable[[], Pieces]
    ) -> Iterator[_kernels.Source]:
        """Open the files as a source of bytes for the kernel; see `plans.Reader`.

        Raises:
            NotAtHand: a file is not open, cannot be read, or has waited for the disk too often.
        """
        opened = {path: self._file(path) for path in {*paths}}
        source = files.source([*map(opened.__getitem__, paths)], patience=PATIENCE)
        begun = trace.now()
        try:
            yield source
        except OSError:
            raise NotAtHand from None
        finally:
            self.states.were_held(source.reads - source.waits, source.waits)
        if self.note.recorder is not None:
            for extent in pieces().ranges():
                self.note.read(extent, begun)

    def _read(self, extents: Sequence[Extent]) -> list[memoryview]:
        """Read the ranges of a round; many ranges of one file take a single call."""
        ranges = [span for span in extents if isinstance(span, ByteRange)]
        if len(ranges) == len(extents) > 1 and len({span.path for span in ranges}) == 1:
            return self._read_many(ranges)
        return [self._read_one(span) for span in extents]

    def _read_many(self, ranges: Sequence[ByteRange]) -> list[memoryview]:
        spans = [(start, stop) for _, start, stop in ranges]
        plan = coalesce(spans, 0)
        starts, stops = np.array(plan.spans).T.copy()
        content = self._read_one(Pieces.of(ranges[0].path, starts, stops))
        ends = np.cumsum(stops - starts).tolist()
        return plan.cut(spans, [content[first:end] for first, end in pairwise([0, *ends])])

    def _read_one(self, extent: Extent) -> memoryview:
        begun = trace.now()
        if isinstance(extent, ByteRange):
            content, is_held = files.read_held(self._file(extent.path), (extent.start, extent.stop))
        else:
            content = files.read_pieces([*map(self._file, extent.paths)], "", extent)
            is_held = content is not None
        if content is not None:
            self.note.read(extent, begun)
        self.states.were_held(is_held, not is_held)
        if content is None or self.states.is_cold:
            raise NotAtHand
        return content

    def _file(self, path: str) -> OpenFile:
        file = self.files.get(path)
        if file is None:
            raise NotAtHand
        return file
