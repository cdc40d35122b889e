"""The files of a segment of an index: written below a folder of their own, and read in order."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from contextlib import aclosing
from dataclasses import field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.errors import CorruptFileError
from alance.file.budgets import PAGE_BYTES
from alance.file.fragment import open_fragment
from alance.file.page_writer import older_writers, writer_of
from alance.file.recall import ScanStates
from alance.file_version import FileVersion
from alance.format.proto import table_pb2
from alance.format.schema import Schema
from alance.format.table.naming import INDICES
from alance.format.table.roaring import roaring_bytes
from alance.io.readahead import in_turn
from alance.ops.index.sort import BATCH_ROWS
from alance.ops.version.index_files import opened_files
from alance.ops.version.objects import copy_object, discard_objects
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Awaitable,
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    import pyarrow as pa

    from alance.arrays import Bytes, Int64s
    from alance.file.plain import PlainFile
    from alance.format.field import Field
    from alance.format.table.indices import Index
    from alance.ops.version.snapshot import Snapshot


class SegmentEnd(NamedTuple):
    """What follows the rows of a file.

    Attributes:
        metadata: of the schema, beside what it has.
        buffers: global buffers, numbered from 1 on.
    """

    metadata: Mapping[str, str]
    buffers: Sequence[Bytes] = ()


NO_END: Final = SegmentEnd({})


@dataclass(slots=True, eq=False)
class SegmentFiles:
    """The files of a new segment. Whoever does not commit it calls `discard`.

    Attributes:
        files: those that are there, as the segment's record lists them.
    """

    snapshot: Snapshot
    id: uuid.UUID = field(default_factory=uuid.uuid4)
    files: list[table_pb2.IndexFile] = field(default_factory=list)

    async def write(
        self,
        name: str,
        schema: pa.Schema,
        batches: AsyncGenerator[pa.RecordBatch, None],
        end: Callable[[], SegmentEnd] | None = None,
        *,
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        """Write a file of the table's version, at least 2.0.

        Args:
            end: gives what the file's end has, when all rows have passed.
            page_bytes: values of a page; encoding one takes four times as much.

        Raises:
            UnsupportedError: files of the version do not hold the type.
            StoreError: the store failed.
        """
        session = self.snapshot.session
        version = max(self.snapshot.manifest.data_storage_version, FileVersion.V2_0)
        location = self.snapshot.table.folder(f"{INDICES}/{self.id}/{name}")
        store, path = session.engine.registry.resolve(location)
        fields = Schema.from_arrow(schema)
        metadata = dict(fields.metadata)
        upload = store.open_upload(path)
        upload.background = session.engine.background
        await session.engine.pool.load(*older_writers(version))
        writer = writer_of(version)(
            upload,
            Schema(fields.fields, metadata),
            version,
            session.engine.pool,
            threads=session.decode_threads,
            page_bytes=page_bytes,
            statistics=False,
        )
        try:
            async with aclosing(batches):
                async for batch in batches:
                    await writer.write(batch)
            if end is not None:
                last = end()
                metadata.update(last.metadata)  # the schema is at the end of the file
                for content in last.buffers:
                    writer.add_buffer(content)
            written = await writer.finish()
        except BaseException:
            await writer.abort()
            raise
        self.files.append(table_pb2.IndexFile(path=name, size_bytes=written.num_bytes))

    async def copy(self, name: str, stored: StoredFile) -> None:
        """Copy a file of another segment, a piece at a time.

        Raises:
            StoreError: the store failed.
        """
        location = self.snapshot.table.folder(f"{INDICES}/{self.id}/{name}")
        source = stored.file.source
        await copy_object(
            self.snapshot.engine, source.location, location, source.file_bytes, "copy index"
        )
        self.files.append(table_pb2.IndexFile(path=name, size_bytes=source.file_bytes))

    async def discard(self) -> None:
        """Remove the files, as far as the store can be reached."""
        await discard_files(self.snapshot, self.id, self.files)


@dataclass(slots=True, eq=False)
class NewSegment(ABC):
    """A segment that is to be built. Whoever does not commit it calls `discard`.

    Attributes:
        column: the path of the field.
        leaf: that field.
        name: of the index.
    """

    snapshot: Snapshot
    column: str
    leaf: Field
    name: str
    files: SegmentFiles = field(init=False)

    def __post_init__(self) -> None:
        self.files = SegmentFiles(self.snapshot)

    @abstractmethod
    async def build(self, fragment_ids: Collection[int]) -> table_pb2.IndexMetadata:
        """The record of the segment, whose files are then there."""

    async def discard(self) -> None:
        """Remove the files, as far as the store can be reached."""
        await self.files.discard()

    def record(
        self, fragment_ids: Collection[int], *, version: int, details: tuple[str, bytes]
    ) -> table_pb2.IndexMetadata:
        """The segment's record in the manifest, of the files that are there.

        Args:
            fragment_ids: the fragments that it covers.
            version: of the kind of index.
            details: the type of the details' message, and its bytes.
        """
        record = table_pb2.IndexMetadata(
            fields=[self.leaf.id],
            name=self.name,
            dataset_version=self.snapshot.version,
            fragment_bitmap=roaring_bytes(np.array(sorted(fragment_ids), np.int64)),
            index_version=version,
            created_at=int(time.time() * 1000),
            files=self.files.files,
        )
        record.uuid.uuid = self.files.id.bytes
        record.index_details.type_url, record.index_details.value = details
        return record


async def discard_files(
    snapshot: Snapshot, segment: uuid.UUID, files: Iterable[table_pb2.IndexFile]
) -> None:
    """Remove the files of a segment that no version has, as far as the store can be reached."""
    places = [snapshot.table.folder(f"{INDICES}/{segment}/{file.path}") for file in files]
    await discard_objects(snapshot.engine, places)


async def discard_others(snapshot: Snapshot, record: table_pb2.IndexMetadata) -> None:
    """Remove what attempts that were killed have left beside the parts of a segment.

    Cost: a LIST, and a DELETE where there is something; as far as the store can be reached.
    """
    engine = snapshot.engine
    folder = snapshot.table.folder(f"{INDICES}/{uuid.UUID(bytes=record.uuid.uuid)}")
    store, path = engine.registry.resolve(folder)
    files = {f"{path}/{file.path}" for file in record.files}

    async def sweep() -> None:
        async with aclosing(store.list(path)) as objects:  # type: ignore[type-var]  # a generator
            left = [
                entry.path
                async for entry in objects
                if entry.path not in files and is_part(entry.path[len(path) + 1 :])
            ]
        if left:
            await store.delete(left)

    await engine.background.discard(sweep(), store)


def is_part(name: str) -> bool:
    """Whether a file of a segment is one of those that tasks write, each under another name."""
    return name.startswith("part_")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a segment that is there."""

    snapshot: Snapshot
    file: PlainFile

    @classmethod
    async def open(cls, snapshot: Snapshot, index: Index, name: str) -> StoredFile:
        """Cost: one GET where the size is told, rarely two.

        Raises:
            NotFoundError: no such file.
            CorruptFileError: no Lance file.
        """
        (file,) = await opened_files(snapshot, index, [name])
        return cls(snapshot, file)

    @property
    def schema(self) -> pa.Schema:
        """Of the columns, with the file's metadata."""
        return self.file.schema.to_arrow()

    @property
    def metadata(self) -> Mapping[str, str]:
        """Of the schema."""
        return self.file.schema.metadata

    @property
    def num_rows(self) -> int:
        """Rows of the file."""
        return self.file.num_rows

    @property
    def bytes_per_row(self) -> int:
        """About, as they are stored."""
        return -(-self.file.source.file_bytes // max(1, self.num_rows))

    async def buffer(self, number: int) -> bytes:
        """A global buffer.

        Raises:
            CorruptFileError: the file has no such buffer.
        """
        plan = self.file.container.read_buffer(number)
        return bytes(await self.snapshot.engine.drive(plan, "index buffer"))

    async def told_buffer(self, key: str) -> memoryview:
        """The global buffer whose number the metadata has.

        Raises:
            CorruptFileError: the file has no such buffer.
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
        """The rows of each span. Cost: a round each, begun one ahead.

        Args:
            changed: CPU work, done where rows are decoded; spans in any order, maybe at once.
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
        """What becomes of the rows of some partitions at a time. Memory: some partitions.

        Args:
            ends: where the rows of each end; shape (partitions,).
            work: is given rows, the number of their first partition, and where among them those of
                each partition end. CPU.
        """
        cuts, rows = [0], [0]  # the first of some partitions, and their first row
        while rows[-1] < (int(ends[-1]) if len(ends) else 0):
            stop = int(np.searchsorted(ends, rows[-1] + BATCH_ROWS, "left")) + 1
            cuts.append(min(stop, len(ends)))
            rows.append(int(ends[cuts[-1] - 1]))
        async with aclosing(self.batches(pairwise(rows))) as batches:
            for (start, stop), row in zip(pairwise(cuts), rows, strict=False):
                own = partial(work, await anext(batches), start, ends[start:stop] - row)
                changed = await self.snapshot.engine.pool.run(own)
                if changed.num_rows:
                    yield changed


def spans_of(num_rows: int, step: int = BATCH_ROWS) -> Iterator[tuple[int, int]]:
    """Rows in order, so many at a time."""
    return ((start, min(num_rows, start + step)) for start in range(0, num_rows, step))
