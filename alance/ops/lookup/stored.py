"""Files of an existing segment, read sequentially; and the metadata at the end of new files."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.file.open.columns import ScanStates
from alance.file.rows.fragment import open_fragment
from alance.io.loop.readahead import in_turn
from alance.ops.version.index_files import opened_files

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Awaitable,
        Callable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    import pyarrow as pa

    from alance.base.arrays import Bytes, Int64s
    from alance.file.open.plain import PlainFile
    from alance.format.table.indices import Index
    from alance.ops.version.snapshot import Snapshot

SPAN_ROWS: Final = 64 << 10  # rows of an index file per read


class SegmentEnd(NamedTuple):
    """Metadata and global buffers at the end of a file.

    Attributes:
        metadata: entries to add to the schema's metadata.
        buffers: global buffers, numbered from 1.
    """

    metadata: Mapping[str, str]
    buffers: Sequence[Bytes] = ()


NO_END: Final = SegmentEnd({})


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of an existing segment."""

    snapshot: Snapshot
    file: PlainFile

    @classmethod
    async def open(cls, snapshot: Snapshot, index: Index, name: str) -> StoredFile:
        """Open a file of a segment. Cost: one GET if its size is recorded, rarely two.

        Raises:
            NotFoundError: the file does not exist.
            CorruptFileError: the file is not a Lance file.
        """
        (file,) = await opened_files(snapshot, index, [name])
        return cls(snapshot, file)

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the columns, with the file's metadata."""
        return self.file.schema.to_arrow()

    @property
    def metadata(self) -> Mapping[str, str]:
        """Metadata of the schema."""
        return self.file.schema.metadata

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.file.num_rows

    @property
    def bytes_per_row(self) -> int:
        """Mean stored bytes per row, rounded up."""
        return -(-self.file.source.file_bytes // max(1, self.num_rows))

    async def buffer(self, number: int) -> bytes:
        """Return a global buffer.

        Raises:
            CorruptFileError: the file has no such buffer.
        """
        plan = self.file.container.read_buffer(number)
        return bytes(await self.snapshot.engine.drive(plan, "index buffer"))

    async def buffer_by_key(self, key: str) -> memoryview:
        """Return the global buffer whose number is in the metadata entry `key`.

        Raises:
            CorruptFileError: the metadata has no such number, or the file no such buffer.
        """
        text = self.metadata.get(key, "none")
        if not text.isascii() or not text.isdigit():
            raise CorruptFileError(f"index file: number {text!r} of a global buffer")
        return memoryview(await self.buffer(int(text)))

    async def batches(
        self,
        spans: Iterable[tuple[int, int]],
        changed: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda batch: batch,
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows of each span. Cost: one round each; the next span is read ahead.

        Args:
            changed: transforms a batch; CPU work in the decode threads, for several spans in any
                order or at once.
        """
        engine = self.snapshot.engine
        file, states = self.file, ScanStates(self.snapshot.engine.cache)
        opened = await engine.drive(
            open_fragment(file.schema, [file.source], file.num_rows, engine.cache), "open index"
        )

        async def read(start: int, stop: int) -> pa.RecordBatch:
            task = await engine.drive(opened.read(start, stop, states), "index", bulk=True)
            return await engine.pool.run(lambda: changed(task.decode()))

        async def works() -> AsyncGenerator[Awaitable[pa.RecordBatch], None]:
            for start, stop in spans:
                yield read(start, stop)

        async with aclosing(in_turn(works(), ahead=1)) as batches:
            async for batch in batches:
                yield batch

    async def by_partition(
        self, ends: Int64s, work: Callable[[pa.RecordBatch, int, Int64s], pa.RecordBatch]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the results of `work` on some partitions at a time. Memory: some partitions.

        Args:
            ends: end row of each partition; shape (partitions,).
            work: receives rows, the number of their first partition, and the end of each partition
                within these rows. CPU work.
        """
        cuts, rows = [0], [0]  # first partition and first row of each read
        while rows[-1] < (int(ends[-1]) if len(ends) else 0):
            stop = int(np.searchsorted(ends, rows[-1] + SPAN_ROWS, "left")) + 1
            cuts.append(min(stop, len(ends)))
            rows.append(int(ends[cuts[-1] - 1]))
        async with aclosing(self.batches(pairwise(rows))) as batches:
            for (start, stop), row in zip(pairwise(cuts), rows, strict=False):
                own = partial(work, await anext(batches), start, ends[start:stop] - row)
                changed = await self.snapshot.engine.pool.run(own)
                if changed.num_rows:
                    yield changed


def spans_of(num_rows: int, step: int = SPAN_ROWS) -> Iterator[tuple[int, int]]:
    """Split rows into ranges of at most `step`, as (start, stop)."""
    return ((start, min(num_rows, start + step)) for start in range(0, num_rows, step))


async def non_empty(
    stored: StoredFile,
    changed: Callable[[pa.RecordBatch], pa.RecordBatch],
    step: int = SPAN_ROWS,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield the transformed rows of a file, without empty batches.

    Args:
        changed: transforms a batch; CPU work in the decode threads.
        step: rows per read.
    """
    async with aclosing(stored.batches(spans_of(stored.num_rows, step), changed)) as batches:
        async for batch in batches:
            if batch.num_rows:
                yield batch


def check_columns(stored: StoredFile, names: list[str], second: pa.DataType) -> None:
    """Check the column names of a file, and the type of its second column.

    Raises:
        CorruptFileError: the names or the type differ.
    """
    schema = stored.schema
    if schema.names != names or schema.field(1).type != second:
        raise CorruptFileError(f"index file with columns {schema}, expected {names}")
