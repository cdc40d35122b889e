"""Files of a new index segment, written to a folder of their own."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from contextlib import aclosing
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from alance.base.records import dataclass
from alance.file.budgets import PAGE_BYTES
from alance.file.write.page_writer import older_writers, writer_of
from alance.file_version import FileVersion
from alance.format.proto import table_pb2
from alance.format.schema import Schema
from alance.format.table.naming import INDICES
from alance.format.table.roaring import roaring_bytes
from alance.ops.version.objects import copy_object, discard_objects

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Callable,
        Collection,
        Iterable,
    )

    import pyarrow as pa

    from alance.file.write.writer import DataFileWriter
    from alance.format.field import Field
    from alance.ops.lookup.stored import SegmentEnd, StoredFile
    from alance.ops.version.snapshot import Snapshot


@dataclass(slots=True, eq=False)
class SegmentFiles:
    """Files of a new segment. Call `discard` if they are not committed.

    Attributes:
        files: written files, as the segment's record lists them.
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
        """Write a Lance file of the table's version, at least 2.0.

        Args:
            end: returns the metadata and buffers for the file's end; called after the last row.
            page_bytes: bytes of values per page; encoding a page takes four times as much memory.

        Raises:
            UnsupportedError: files of this version cannot hold the type.
            StoreError: the store failed.
        """
        fields = Schema.from_arrow(schema)
        metadata = dict(fields.metadata)
        writer = await self._writer(name, Schema(fields.fields, metadata), page_bytes)
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

    async def _writer(self, name: str, schema: Schema, page_bytes: int) -> DataFileWriter:
        session = self.snapshot.session
        version = max(self.snapshot.manifest.data_storage_version, FileVersion.V2_0)
        store, path = session.engine.registry.resolve(self._location(name))
        upload = store.open_upload(path)
        upload.background = session.engine.background
        await session.engine.pool.load(*older_writers(version))
        return writer_of(version)(
            upload,
            schema,
            version,
            session.engine.pool,
            threads=session.decode_threads,
            page_bytes=page_bytes,
            statistics=False,
        )

    def _location(self, name: str) -> str:
        return self.snapshot.table.folder(f"{INDICES}/{self.id}/{name}")

    async def copy(self, name: str, stored: StoredFile) -> None:
        """Copy a file of another segment, piece by piece.

        Raises:
            StoreError: the store failed.
        """
        source, engine = stored.file.source, self.snapshot.engine
        location = self._location(name)
        await copy_object(engine, source.location, location, source.file_bytes, "copy index")
        self.files.append(table_pb2.IndexFile(path=name, size_bytes=source.file_bytes))

    async def discard(self) -> None:
        """Remove the files. Errors of the store are ignored."""
        await discard_files(self.snapshot, self.id, self.files)


@dataclass(slots=True, eq=False)
class NewSegment(ABC):
    """A segment to build. Call `discard` if it is not committed.

    Attributes:
        column: path of the field.
        leaf: the field.
        name: name of the index.
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
        """Write the files of the segment and return its record."""

    async def discard(self) -> None:
        """Remove the files. Errors of the store are ignored."""
        await self.files.discard()

    def record(
        self, fragment_ids: Collection[int], *, version: int, details: tuple[str, bytes]
    ) -> table_pb2.IndexMetadata:
        """Return the manifest record of the segment with the files written so far.

        Args:
            fragment_ids: covered fragments.
            version: version of the index kind.
            details: type and bytes of the details message.
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
    """Remove the files of an uncommitted segment. Errors of the store are ignored."""
    places = [snapshot.table.folder(f"{INDICES}/{segment}/{file.path}") for file in files]
    await discard_objects(snapshot.engine, places)


async def discard_others(snapshot: Snapshot, record: table_pb2.IndexMetadata) -> None:
    """Remove `part_*` files of a segment that its record does not list, left by killed attempts.

    Cost: a LIST, and a DELETE if there are any. Errors of the store are ignored.
    """
    engine = snapshot.engine
    folder = snapshot.table.folder(f"{INDICES}/{uuid.UUID(bytes=record.uuid.uuid)}")
    store, path = engine.registry.resolve(folder)
    files = {f"{path}/{file.path}" for file in record.files}

    async def sweep() -> None:
        async with aclosing(store.list(path)) as objects:  # type: ignore[type-var]  # a generator
            leftovers = [
                entry.path
                async for entry in objects
                if entry.path not in files and is_part(entry.path[len(path) + 1 :])
            ]
        if leftovers:
            await store.delete(leftovers)

    await engine.background.discard(sweep(), store)


def is_part(name: str) -> bool:
    """True for `part_*`, the names that tasks of a build in parts give to a segment's files."""
    return name.startswith("part_")
