"""Sorted runs: files of Arrow blocks that index build tasks write for the merge.

A file is a sequence of blocks of about 256 KiB, each an Arrow record batch in the IPC format. The
part records the block lengths, so any block can be read by its byte range.
"""

from __future__ import annotations

import uuid
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.plans import ByteRange
from alance.format.table.naming import INDICES
from alance.ops.index.values.options import DEFAULT_VALUE_OPTIONS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Sequence
    from typing import TypeAlias

    from alance.format.proto import table_pb2
    from alance.ops.index.values.options import ValueOptions
    from alance.ops.version.snapshot import Snapshot

    Block: TypeAlias = tuple[int, int, int]

RUN_BLOCK_BYTES: Final = 256 << 10
READ_BYTES: Final = 8 << 20  # per GET when runs are read one after the other


@dataclass(frozen=True, slots=True)
class IndexPart:
    """The result of a task of an index build: rows of some fragments, sorted. Can be pickled.

    Attributes:
        read_version: version that the task read.
        fragments: records of the fragments in the manifest of this version.
        path: path of the part's file, below the table's folder. No version names the file, so
            cleanup removes it.
        num_rows: number of the table's rows in the part.
        blocks: rows, bytes and CRC-32 of each block.
        start: position of the first block in the file.
        firsts: first value of every `stride`-th block, as an Arrow batch in the IPC format, by
            which `ranges` splits a merge; empty for an inverted index and in results of ranges.
        stride: number of blocks from a value in `firsts` to the next.
        partitions: for an inverted index: numbers of the written partitions; there are no blocks.
        files: for an inverted index: names and bytes of the files in the folder of `path`.
        details: for an inverted index: the settings by which texts became tokens.
        options: for an index of values: options of the index.
        null_rows: for labels and zones: the null rows, as a row set.
        type: for JSON values: type of the values, which may differ between parts. None if all are
            null, and for other values.
        schema: for an index of values: schema of the run; None if the merging process knows it.
    """

    column: str
    kind: str
    read_version: int
    fragments: tuple[table_pb2.DataFragment, ...]
    path: str
    num_rows: int
    blocks: tuple[Block, ...]
    partitions: tuple[int, ...] = ()
    files: tuple[tuple[str, int], ...] = ()
    details: bytes = b""
    start: int = 0
    firsts: bytes = b""
    stride: int = 1
    options: ValueOptions = DEFAULT_VALUE_OPTIONS
    null_rows: bytes = b""
    type: pa.DataType | None = None
    schema: pa.Schema | None = None

    def cut(self, first: int, last: int) -> IndexPart:
        """Return a part with only some of its blocks, for reading.

        Args:
            first: number of the first block.
            last: number after the last block.
        """
        start = self.start + sum(size for _, size, _ in self.blocks[:first])
        blocks = self.blocks[first:last]
        return replace(self, blocks=blocks, start=start, fragments=(), firsts=b"")

    @property
    def build(self) -> str:
        """Name of the folder of the part's file."""
        return self.path.split("/")[-2]

    @property
    def num_bytes(self) -> int:
        """Total bytes of the part's files."""
        blocks = sum(num_bytes for _, num_bytes, _ in self.blocks)
        return blocks + sum(size for _, size in self.files)

    @property
    def paths(self) -> list[str]:
        """Paths of the part's files, below the table's folder."""
        if not self.details:
            return [self.path]
        folder = self.path.rpartition("/")[0]
        return [f"{folder}/{name}" for name, _ in self.files]


async def write_run(
    snapshot: Snapshot, build: str, batches: AsyncIterable[pa.RecordBatch]
) -> tuple[str, tuple[Block, ...], list[pa.Array]]:
    """Write a run; return its path below the table's folder, its blocks and their first values.

    Raises:
        StoreError: the store failed; the file is removed.
    """
    engine = snapshot.engine
    path = f"{INDICES}/{build}/{uuid.uuid4()}.run"
    store, place = engine.registry.resolve(snapshot.table.folder(path))
    blocks: list[Block] = []
    firsts: list[pa.Array] = []
    async with store.open_upload(place) as upload:
        upload.background = engine.background
        async for batch in batches:
            for block, content, value in await engine.pool.run(lambda batch=batch: _cut(batch)):  # type: ignore[misc]
                blocks.append(block)
                firsts.append(value)
                await upload.write(memoryview(content))
        await upload.finish()
    return path, tuple(blocks), firsts


async def run_batches(
    snapshot: Snapshot, parts: Sequence[IndexPart], schema: pa.Schema
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield the batches of one run after another. Cost: a GET per 8 MiB.

    Raises:
        CorruptFileError, NotFoundError, StoreError: a part cannot be read.
    """
    for part in parts:
        ends = np.cumsum([size for _, size, _ in part.blocks])
        start = 0
        while start < len(ends):
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + READ_BYTES, "right")))
            for batch in await read_blocks(snapshot, part, start, stop, schema):
                yield batch
            start = stop


async def read_blocks(
    snapshot: Snapshot, part: IndexPart, start: int, stop: int, schema: pa.Schema
) -> list[pa.RecordBatch]:
    """Return consecutive blocks of a part. Cost: one GET per 8 MiB.

    Args:
        schema: schema of the result. Stored values are cast to it, such as integers to floats.

    Raises:
        CorruptFileError: the checksum of a block is wrong.
        NotFoundError: the file is gone.
    """
    first = part.start + sum(num_bytes for _, num_bytes, _ in part.blocks[:start])
    blocks = part.blocks[start:stop]
    num_bytes = sum(size for _, size, _ in blocks)
    location = snapshot.table.folder(part.path)
    (content,) = await snapshot.engine.scheduler.read(
        [ByteRange(location, first, first + num_bytes)], reason="index run"
    )

    def parse() -> list[pa.RecordBatch]:
        stored = part.schema or schema
        batches, at = [], 0
        for number, (num_rows, size, checksum) in enumerate(blocks, start):
            block = content[at : at + size]
            if zlib.crc32(block) != checksum:
                raise CorruptFileError(f"index run {part.path!r}: block {number} of {size} bytes")
            batch = pa.ipc.read_record_batch(pa.py_buffer(block), stored)
            assert batch.num_rows == num_rows
            batches.append(batch if stored == schema else batch.cast(schema, safe=False))
            at += size
        return batches

    return await snapshot.engine.decode(parse, num_bytes)


def _cut(batch: pa.RecordBatch) -> list[tuple[Block, pa.Buffer, pa.Array]]:
    count = max(1, -(-batch.nbytes // RUN_BLOCK_BYTES))
    step = max(1, -(-batch.num_rows // count))
    blocks = []
    for at in range(0, batch.num_rows, step):
        content = batch.slice(at, step).serialize()
        num_rows = min(step, batch.num_rows - at)
        value = pa.concat_arrays([batch.column(0).slice(at, 1)])  # a copy, not a view
        blocks.append(((num_rows, content.size, zlib.crc32(content)), content, value))
    return blocks
