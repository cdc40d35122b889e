"""Changes by many processes: their preparation, commit and cleanup.

`alance.write_fragments` writes the files of new rows, and `alance.commit` makes a version of them.
For deleted or replaced rows, the driver receives roaring bitmaps of their offsets by fragment, and
with stable row ids the ids of moved rows. New columns are written by one task per fragment; after
an interruption, finished files are reused.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import AlanceError, AlreadyExistsError, InvalidInputError, NotFoundError
from alance.file.batches import empty_batch
from alance.format.proto import table_pb2
from alance.format.schema import Schema
from alance.format.table.fragment import DataFile
from alance.format.table.operations import Delete, Overwrite, Update
from alance.ops.columns.add import add_to_fragment, grown, merge_of
from alance.ops.columns.backfill import owned_ids
from alance.ops.columns.sources import opened, source_of
from alance.ops.merge.inserted import InsertedKeys
from alance.ops.merge.plan import check_inserted, gaps_of, named_keys, source_fields
from alance.ops.merge.rows import completed
from alance.ops.rows.moved import ChangedRows, prepare_rows
from alance.ops.version.commits import PreparedChange
from alance.ops.version.options import CommitOptions
from alance.ops.version.projection import ROW_ADDRESS
from alance.ops.write import write
from alance.ops.write.blob_moves import moved_blobs
from alance.ops.write.sources import conform
from alance.session import open_store, table_at
from alance.versioning.tokens import Notes

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
    from typing import Unpack

    from alance.base.arrays import Int64s, UInt64s
    from alance.datasets import Dataset
    from alance.format.proto.table_pb2 import DataFragment
    from alance.fragment import DatasetFragment
    from alance.ops.columns.sources import Transforms
    from alance.ops.version.options import CommitArguments
    from alance.ops.version.snapshot import Snapshot
    from alance.session import OpenArguments


def append_schema(dataset: Dataset) -> pa.Schema:
    """Return the Arrow schema of rows to append to a version.

    Args:
        dataset: the version.
    """
    return write.table_schema(dataset._snapshot.manifest)


def new_table(schema: pa.Schema, fragments: Sequence[DataFragment]) -> Overwrite:
    """Return the operation that creates a table from fragments, or replaces all rows by them.

    Args:
        schema: schema with which the fragments were written.
        fragments: records of the fragments.
    """
    fields = Schema.from_arrow(schema)
    return Overwrite(
        new_schema=fields.messages,
        fragments=tuple(fragments),
        schema_metadata={key: text.encode() for key, text in fields.metadata.items()},
    )


def has_fields_of(dataset: Dataset, schema: pa.Schema) -> bool:
    """Return True if fragments of a new table, written with a schema, also fit an existing table.

    Args:
        dataset: the existing table.
        schema: schema with which the fragments were written.
    """

    def shape(fields: Schema) -> list[tuple[int, str, str, bool]]:
        return [
            (
                field.message.id,
                field.message.name,
                field.message.logical_type,
                field.message.nullable,
            )
            for field in fields.walk()
        ]

    return shape(dataset._snapshot.schema) == shape(Schema.from_arrow(schema))


def producer_properties(producer: str, sequence: int) -> dict[str, str]:
    """Return `properties` for a batch's commit, which prevent a second commit of the batch.

    A commit raises a `CommitConflictError` if the table already has this batch, or a later batch of
    the producer; `last_sequence` returns the last batch that a table has.

    Args:
        producer: name of the producer.
        sequence: number of the batch, one more than the previous batch's.
    """
    return Notes(producers={producer: (sequence - 1, sequence)}).properties()


async def remove_data_files(
    uri: str, fragments: Iterable[bytes | DataFragment], **place: Unpack[OpenArguments]
) -> None:
    """Remove the data files of fragments that no version names.

    A later cleanup removes files that could not be removed.

    Cost: a DELETE per file. Errors of the store are ignored.

    Args:
        uri: URI of the table, or of the branch, for which the files were written.
        fragments: records of the fragments.
        place: `storage_options` and `session`, as for `dataset`.

    Raises:
        InvalidInputError: a bad URI or option.
    """
    _, table = table_at(uri, **place)
    places = []
    for fragment in fragments:
        record = (
            table_pb2.DataFragment.FromString(fragment) if isinstance(fragment, bytes) else fragment
        )
        for file in record.files:
            location = table.new_data_file(DataFile.from_protobuf(file).path)
            places.append(table.registry.resolve(location))
    for store, path in places:
        with suppress(AlanceError):  # a cleanup will remove the orphan
            await store.delete([path])


async def put_once(uri: str, content: bytes, **place: Unpack[OpenArguments]) -> bytes:
    """Write a small object unless it exists, such as a record of a finished task.

    Cost: one PUT; also a GET if the object exists.

    Args:
        uri: URI of the object.
        content: content of the object.
        place: `storage_options` and `session`, as for `dataset`.

    Returns:
        The stored content, which may be that of an earlier writer.

    Raises:
        StoreError: the store failed.
    """
    _, store, path = open_store(uri, **place)
    try:
        await store.put(path, content, if_absent=True)
    except AlreadyExistsError:
        return bytes(await store.get(path))
    return content


async def put_object(uri: str, content: bytes, **place: Unpack[OpenArguments]) -> None:
    """Write a small object, and replace an existing one.

    Cost: one PUT.

    Args:
        uri: URI of the object.
        content: content of the object.
        place: `storage_options` and `session`, as for `dataset`.

    Raises:
        StoreError: the store failed.
    """
    _, store, path = open_store(uri, **place)
    await store.put(path, content)


async def get_object(uri: str, **place: Unpack[OpenArguments]) -> bytes | None:
    """Return the content of a small object, such as one written by `put_once`.

    Returns None if there is no such object.

    Cost: one GET.

    Args:
        uri: URI of the object.
        place: `storage_options` and `session`, as for `dataset`.

    Raises:
        StoreError: the store failed.
    """
    _, store, path = open_store(uri, **place)
    try:
        return bytes(await store.get(path))
    except NotFoundError:
        return None


def release_memory(retained_bytes: int) -> None:
    """Return unused memory to the system at the end of a task, which takes some ms.

    Args:
        retained_bytes: bytes of blocks that are not returned, because decoding will use them again.
    """
    _kernels.release_memory(retained_bytes)
    pa.default_memory_pool().release_unused()


async def delete_rows(dataset: Dataset, offsets: Mapping[int, Int64s], predicate: str) -> Dataset:
    """Commit a version without some rows.

    Cost: for the fragments that lose rows, a GET per deletion file that is not cached, and a PUT
    unless all rows of the fragment are deleted; and a commit.

    Args:
        dataset: the version to which the offsets apply.
        offsets: physical offsets of live rows by fragment id; shape (n,), sorted and unique.
        predicate: condition of the rows, which is recorded in the transaction.

    Raises:
        RetryableConflictError: other commits changed the same rows; determine the rows again.
        CommitConflictError: a newer version rules this one out.
    """
    change = Delete(predicate=predicate)
    prepared = await prepare_rows(dataset._snapshot, change, ChangedRows(offsets))
    return type(dataset)(await prepared.commit())


def inserted_keys(dataset: Dataset, on: Sequence[str] = ()) -> InsertedKeys:
    """Return an empty collection of the keys that a merge inserts, for `replace_rows`.

    Each task adds its new rows to a copy (`add_rows`), and the driver joins the copies (`join`).
    The commit is then refused if an earlier commit may have inserted one of the keys.

    Args:
        dataset: the version that the merge reads.
        on: columns by which the merge finds rows of the table; empty if it compares rows in another
            way, which means that it may insert any key.

    Raises:
        InvalidInputError: the table has no such column.
    """
    schema = dataset._snapshot.schema
    return InsertedKeys.of(schema, named_keys(on, schema))


async def replace_rows(
    dataset: Dataset,
    offsets: Mapping[int, Int64s],
    *,
    moved: Sequence[bytes] = (),
    inserted: Sequence[bytes] = (),
    row_ids: UInt64s | None = None,
    columns: Sequence[str] | None = None,
    keys: InsertedKeys | None = None,
) -> Dataset:
    """Commit a version without some rows, and with new fragments.

    Cost: for the fragments that lose rows, a GET per deletion file that is not cached, and a PUT
    unless all rows of the fragment are deleted; and a commit.

    Args:
        dataset: the version to which the offsets apply.
        offsets: physical offsets of live rows by fragment id; shape (n,), sorted and unique.
        moved: records of fragments with new values of these rows.
        inserted: records of fragments with other rows.
        row_ids: ids of the moved rows, in the order of `moved`; required if ids are stable.
        columns: columns with new values; None: all.
        keys: keys of the rows in `inserted` if a merge adds them because the table lacks them, see
            `inserted_keys`; None: the rows are added in any case.

    Raises:
        InvalidInputError: an unknown column, or more row ids than rows.
        RetryableConflictError: other commits changed the same rows, or may have inserted the same
            keys; determine the rows again.
        CommitConflictError: a newer version rules this one out.
    """
    snapshot = dataset._snapshot
    schema = snapshot.schema if columns is None else snapshot.schema.project(columns)
    fields = tuple(sorted(field.id for field in schema.walk())) if moved else ()
    prepared = await prepare_rows(
        snapshot,
        Update(
            fields_for_preserving_frag_bitmap=fields,
            inserted_rows=None if keys is None else keys.filter(),
        ),
        ChangedRows(
            offsets,
            new_fragments=[
                table_pb2.DataFragment.FromString(record) for record in (*moved, *inserted)
            ],
            row_ids=row_ids if snapshot.has_stable_row_ids else None,
        ),
    )
    return type(dataset)(await prepared.commit())


@dataclass(frozen=True, slots=True)
class SourceGaps:
    """Columns of a table that the source of a merge lacks. Pickled once for all tasks.

    Attributes:
        names: columns that the source lacks, as a whole or in part.
        source_schema: columns of the source, with the types of the table.
        fragments: records of the version whose rows are replaced.
    """

    names: tuple[str, ...]
    source_schema: pa.Schema
    fragments: tuple[bytes, ...]

    @classmethod
    def of(cls, dataset: Dataset, source: pa.Schema) -> SourceGaps | None:
        """Return the gaps of a source; None if it has all columns.

        Args:
            dataset: the version whose rows are replaced.
            source: columns, or members of structs, that have new values.

        Raises:
            InvalidInputError: the table lacks a column, or a type never fits it.
            UnsupportedError: missing columns have blobs that cannot be moved.
        """
        base = dataset._snapshot
        schema = base.schema
        source_schema = pa.schema(source_fields(schema, source))
        conform(empty_batch(source), source_schema)
        names = gaps_of(schema, source_schema)
        if not names:
            return None
        moved_blobs(base, names)
        records = (fragment.message.SerializeToString() for fragment in base.manifest.fragments)
        return cls(names, source_schema, tuple(records))

    @staticmethod
    def check_inserted(dataset: Dataset, source: pa.Schema) -> None:
        """Raise an error if rows with these columns cannot become rows of the table.

        Args:
            dataset: the table.
            source: schema of the rows.

        Raises:
            InvalidInputError: the table lacks a column, a column's type never fits the table's, or
                a missing column is not nullable.
        """
        schema = dataset._snapshot.schema
        source_schema = pa.schema(source_fields(schema, source))
        rows = conform(empty_batch(source), source_schema)
        check_inserted(schema.to_arrow(), rows)

    async def filled(
        self, dataset: Dataset, batches: Iterator[pa.RecordBatch]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Stream rows of the source with the missing columns taken from the rows that they replace.

        Cost: a take of the missing columns per batch.

        Args:
            dataset: the version with its fragments; see `open_record`.
            batches: rows with a column `_rowaddr`, the address of the replaced row.

        Raises:
            InvalidInputError: a value does not fit the table.
            StoreError: the store failed.
        """
        run = dataset._snapshot.engine.pool.run
        while (batch := await run(partial(next, batches, None))) is not None:
            async with aclosing(self.rows(dataset, batch)) as parts:
                async for part in parts:
                    yield part

    def rows(self, dataset: Dataset, batch: pa.RecordBatch) -> AsyncGenerator[pa.RecordBatch, None]:
        """Stream the rows of one batch as `filled` does, in their order.

        Args:
            dataset: the version with its fragments; see `open_record`.
            batch: rows with a column `_rowaddr`, as in `filled`.
        """
        places = batch.column(ROW_ADDRESS).to_numpy().astype(np.uint64)
        rows = conform(batch.drop_columns([ROW_ADDRESS]), self.source_schema)
        return completed(dataset._snapshot, self.names, rows, places)


@dataclass(frozen=True, slots=True)
class ColumnBackfill:
    """Columns that many processes compute. Can be pickled if its transforms can.

        files = {}
        for fragment in dataset.fragments:
            _, files[fragment.fragment_id] = await backfill.execute(fragment)
        dataset = await backfill.commit(dataset, files)

    Attributes:
        transforms: SQL text by column, or a `BatchUdf`.
        read_columns: columns passed to a function; None: all.
        batch_size: maximum number of rows computed at once; None: a size that suits the pages.
    """

    transforms: Transforms
    read_columns: tuple[str, ...] | None = None
    batch_size: int | None = None

    async def check(self, dataset: Dataset) -> None:
        """Raise an error if the columns cannot be added, before anything is computed.

        Cost: no request.

        Args:
            dataset: the version.

        Raises:
            InvalidInputError: a column that exists, or bad SQL.
        """
        await self._grown(dataset._snapshot)

    @staticmethod
    def source(fragment: DatasetFragment) -> str:
        """Return a fingerprint of a fragment's data files, which does not depend on deleted rows.

        Equal fingerprints give equal new values.

        Args:
            fragment: fragment of any version of the table.
        """
        return source_of(fragment._handle, None)

    async def execute(self, fragment: DatasetFragment) -> tuple[str, bytes]:
        """Write the new columns of one fragment.

        Cost: a scan of the columns that are read, and the new file.

        Args:
            fragment: fragment of the version that is extended.

        Returns:
            The fragment's `source`, and the record of the new file, which is empty if there is
            nothing to write.

        Raises:
            InvalidInputError: a value does not fit; the file is removed.
        """
        handle = fragment._handle
        await fragment._snapshot.prepare([handle])
        record, _ = await add_to_fragment(
            fragment._snapshot,
            handle,
            self.transforms,
            read_columns=self.read_columns,
            batch_size=self.batch_size,
        )
        is_written = len(record.files) > len(handle.fragment.files)
        return source_of(handle, None), record.files[-1].SerializeToString() if is_written else b""

    async def commit(
        self, dataset: Dataset, files: Mapping[int, bytes], **commit: Unpack[CommitArguments]
    ) -> Dataset:
        """Commit a version with the new files of all fragments.

        Cost: a commit.

        Args:
            dataset: the version from which the columns were computed.
            files: records from `execute` by fragment id, of fragments with the same `source`.
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: a fragment has no file in `files`.
            RetryableConflictError: another commit was first.
            CommitConflictError: a newer version rules this one out.
        """
        options = CommitOptions(**commit)
        snapshot = dataset._snapshot
        schema, new = await self._grown(snapshot)
        fragments = []
        for handle in snapshot.handles:
            if handle.id not in files:
                raise InvalidInputError(f"new columns: no file for fragment {handle.id}")
            fragment = table_pb2.DataFragment()
            fragment.CopyFrom(handle.fragment.message)
            if files[handle.id]:
                file = fragment.files.add()
                file.ParseFromString(files[handle.id])
                file.fields[:] = owned_ids(new)
            fragments.append(fragment)
        change = merge_of(snapshot, schema, new, fragments)
        return type(dataset)(await PreparedChange(snapshot, change, options).commit())

    async def _grown(self, snapshot: Snapshot) -> tuple[Schema, Schema]:
        """Return the schema with the new fields, and the schema of only the new fields."""
        columns = await opened(snapshot, self.transforms, self.read_columns, self.batch_size)
        return await grown(snapshot, columns)
