"""The two ends of a write that many share: fields and rules before it, its commit, its leftovers.

The files are written by `alance.write_fragments`, and become a version by `alance.commit`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from alance import _kernels
from alance.errors import AlanceError, AlreadyExistsError, NotFoundError
from alance.format.proto import table_pb2
from alance.format.schema import Schema
from alance.format.table.fragment import DataFile
from alance.format.table.operations import Overwrite
from alance.ops.write import write
from alance.session import Session
from alance.versioning.table import open_table
from alance.versioning.tokens import Notes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alance.datasets import Dataset
    from alance.format.proto.table_pb2 import DataFragment
    from alance.io.store import Store


def append_schema(dataset: Dataset) -> pa.Schema:
    """The Arrow schema of rows that are appended to a version."""
    return write.table_schema(dataset._snapshot.manifest)


def new_table(schema: pa.Schema, fragments: Sequence[DataFragment]) -> Overwrite:
    """The operation that makes a table of fragments, or puts them in the place of all rows.

    Args:
        schema: that the fragments were written with.
    """
    fields = Schema.from_arrow(schema)
    return Overwrite(
        new_schema=write.messages_of(fields),
        fragments=tuple(fragments),
        schema_metadata={key: text.encode() for key, text in fields.metadata.items()},
    )


def has_fields_of(dataset: Dataset, schema: pa.Schema) -> bool:
    """Whether fragments of a new table, written with a schema, fit a table that is there."""

    def shape(fields: Schema) -> list[tuple[int, str, str, bool]]:
        return [
            (one.message.id, one.message.name, one.message.logical_type, one.message.nullable)
            for one in fields.walk()
        ]

    return shape(dataset._snapshot.schema) == shape(Schema.from_arrow(schema))


def producer_properties(producer: str, sequence: int) -> dict[str, str]:
    """The `properties` of a commit of one batch, by which it is committed once.

    A version that follows one with this batch, or a later one of the producer, is refused by a
    `CommitConflictError`; `last_sequence` tells which batches a table has.

    Args:
        sequence: number of the batch, one above that of the batch before.
    """
    return Notes(producers={producer: (sequence - 1, sequence)}).properties()


async def remove_data_files(
    uri: str,
    fragments: Iterable[bytes | DataFragment],
    *,
    storage_options: Mapping[str, str] | None = None,
    session: Session | None = None,
) -> None:
    """Remove the data files of fragments that no version names, as far as the store can be reached.

    What stays is removed by a later cleanup.

    Args:
        uri: of the table, or of the branch, that they were written for.
        fragments: their records.
    """
    session = session or Session.of_loop()
    table = open_table(session.engine.registry, uri, storage_options=storage_options)
    places = []
    for fragment in fragments:
        record = (
            table_pb2.DataFragment.FromString(fragment) if isinstance(fragment, bytes) else fragment
        )
        for file in record.files:
            location = table.new_data_file(DataFile.from_protobuf(file).path)
            places.append(table.registry.resolve(location))
    for store, path in places:
        with suppress(AlanceError):  # an orphan, which cleanup finds
            await store.delete([path])


async def put_once(
    uri: str,
    content: bytes,
    *,
    storage_options: Mapping[str, str] | None = None,
    session: Session | None = None,
) -> bytes:
    """Write a small object unless it is there, such as a note of what a task has done.

    Returns:
        What is there now: the content, or that of who was first.
    """
    store, path = _opened(uri, storage_options, session)
    try:
        await store.put(path, content, if_absent=True)
    except AlreadyExistsError:
        return bytes(await store.get(path))
    return content


async def get_object(
    uri: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    session: Session | None = None,
) -> bytes | None:
    """The content of a small object, such as of `put_once`; None: it is not there."""
    store, path = _opened(uri, storage_options, session)
    try:
        return bytes(await store.get(path))
    except NotFoundError:
        return None


def _opened(
    uri: str, storage_options: Mapping[str, str] | None, session: Session | None
) -> tuple[Store, str]:
    session = session or Session.of_loop()
    return session.engine.registry.open(uri, storage_options=storage_options)


def release_memory(kept_bytes: int) -> None:
    """Give memory that is not used back to the system, at the end of a task: some ms.

    Args:
        kept_bytes: of blocks that decoding uses again.
    """
    _kernels.release_memory(kept_bytes)
    pa.default_memory_pool().release_unused()
