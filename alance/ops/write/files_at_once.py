"""Data files of many small fragments: encoded in one pool job, and put several at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.base.records import dataclass
from alance.file.write.page_writer import encode_file
from alance.format.table.naming import data_file_name
from alance.ops.version.objects import discard_objects
from alance.ops.write.files import data_file_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from alance.format.proto import table_pb2
    from alance.format.schema import Schema
    from alance.io.stores.store import Store
    from alance.ops.version.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class FileAtOnce:
    """A written file. Call `discard` if it is not used."""

    snapshot: Snapshot
    record: table_pb2.DataFile

    @property
    def location(self) -> str:
        """Location of the file."""
        return self.snapshot.table.new_data_file(self.record.path)

    @property
    def place(self) -> tuple[Store, str]:
        """Store of the file, and its path in the store."""
        return self.snapshot.engine.registry.resolve(self.location)

    async def discard(self) -> None:
        """Remove the file. Errors of the store are ignored."""
        await discard_objects(self.snapshot.engine, [self.location])


async def write_at_once(
    snapshot: Snapshot, schema: Schema, batches: Callable[[], Sequence[pa.RecordBatch]]
) -> list[FileAtOnce]:
    """Write a file for each of several batches, all of them in memory.

    The files are invisible in the table.

    Args:
        schema: schema of the files; without blobs of version 2.
        batches: returns the rows of each file, none of them empty; CPU work.

    Raises:
        InvalidInputError: the format cannot hold a value.
        StoreError: the store failed; the files are removed if possible.
    """
    version = snapshot.manifest.data_storage_version

    def encode() -> list[tuple[FileAtOnce, bytes]]:
        files = []
        for batch in batches():
            content, written = encode_file(schema, version, batch)
            record = data_file_of(data_file_name(), version, written)
            files.append((FileAtOnce(snapshot, record), content))
        return files

    files = await snapshot.engine.pool.run(encode)
    places = [file.place for file, _ in files]
    try:
        if files:
            (store, _), contents = places[0], [content for _, content in files]
            paths = [path for _, path in places]
            await store.put_many(list(zip(paths, contents, strict=True)))
    except BaseException:
        await discard_objects(snapshot.engine, [file.location for file, _ in files])
        raise
    return [file for file, _ in files]
