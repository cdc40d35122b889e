"""DatasetFragment: reads of one fragment of a dataset, and new columns for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance.base.calls import public
from alance.base.checks import check_count
from alance.base.deferred import Deferred
from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from alance.ops.read.options import ScanOptions
from alance.ops.read.take import as_positions, take_located
from alance.scanner import Framed, Scanner
from alance.session import table_at

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Sequence
    from typing import Unpack

    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    from alance import data_files
    from alance.datasets import Dataset
    from alance.format.proto.file_pb2 import Field as FieldMessage
    from alance.format.proto.table_pb2 import DataFragment
    from alance.format.table.fragment import Fragment
    from alance.operations import DataReplacementGroup
    from alance.ops.blobs import files as blob_files
    from alance.ops.blobs.files import BlobOptions
    from alance.ops.columns import add as columns_add
    from alance.ops.columns import join as columns_join
    from alance.ops.columns.sources import Transforms
    from alance.ops.read.options import (
        BlobMode,
        FragmentPandasArguments,
        FragmentScanArguments,
    )
    from alance.ops.rows import delete as rows_delete
    from alance.ops.upkeep import validate
    from alance.ops.version.conditions import Params
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import FragmentHandle, Snapshot
    from alance.ops.write import options as write_options
    from alance.ops.write import write as writer
    from alance.ops.write.options import Mode, WriteProgress
    from alance.ops.write.sources import Data
    from alance.session import StoreArguments
else:
    blob_files = Deferred("alance.ops.blobs.files")
    columns_add = Deferred("alance.ops.columns.add")
    columns_join = Deferred("alance.ops.columns.join")
    data_files = Deferred("alance.data_files")
    rows_delete = Deferred("alance.ops.rows.delete")
    validate = Deferred("alance.ops.upkeep.validate")
    write_options = Deferred("alance.ops.write.options")
    writer = Deferred("alance.ops.write.write")


MAX_ADDRESS_PART: Final = (1 << 32) - 1  # largest id and number of rows of a fragment: 32 bits each
MAX_BYTES: Final = 1 << 62  # maximum bytes of a file: no limit in practice


@public
class DatasetFragment(Framed):
    """One fragment of a dataset's version."""

    __slots__ = ("_position", "_snapshot")

    def __init__(self, snapshot: Snapshot, position: int) -> None:
        self._snapshot = snapshot
        self._position = position

    def __repr__(self) -> str:
        return f"DatasetFragment({self.fragment_id} of {self._snapshot.uri!r})"

    @property
    def fragment_id(self) -> int:
        """Id of the fragment, which never changes."""
        return int(self._snapshot.manifest.fragments.ids[self._position])

    @property
    def _handle(self) -> FragmentHandle:
        return self._snapshot.handles[self._position]

    @property
    def metadata(self) -> Fragment:
        """Record of the fragment in the manifest: data files, deletion file and row count."""
        return self._handle.fragment

    @property
    def physical_rows(self) -> int:
        """Number of stored rows, including deleted ones; 0 if the manifest does not record it, as
        manifests of old releases, and no read has counted them.
        """
        return self._handle.num_physical_rows

    async def count_rows(
        self, filter: str | pc.Expression | None = None, *, params: Params = None
    ) -> int:
        """Count the live rows, or the live rows for which a filter is true.

        Cost: as `Dataset.count_rows`, for this fragment.

        Args:
            filter, params: as for `Dataset.count_rows`.

        Raises:
            InvalidInputError: a bad filter, an unknown column, or wrong parameters.
        """
        return await self.scanner(filter=filter, params=params).count_rows()

    async def take(self, indices: object, columns: Columns = None) -> pa.Table:
        """Read rows by their offset among the fragment's live rows, in the given order.

        Cost: as `Dataset.take`.

        Args:
            indices: offsets from 0; a list, numpy or Arrow array of integers.
            columns: as for `Dataset.take`.

        Raises:
            InvalidInputError: an offset beyond the end, or an unknown column.
        """
        offsets = as_positions(indices, "indices")
        num_rows = await self._snapshot.live_count(self._handle)
        if len(offsets) and offsets.max() >= num_rows:
            raise InvalidInputError(
                f"index {offsets.max()}: fragment {self.fragment_id} has {num_rows} rows"
            )
        fragments = np.full(len(offsets), self._position, np.int64)
        return await take_located(self._snapshot, fragments, offsets, columns, live=True)

    def scanner(self, columns: Columns = None, **options: Unpack[FragmentScanArguments]) -> Scanner:
        """Return a scan of this fragment. Sends no request.

        Args:
            columns: as for `Dataset.take`.
            options: the fields of `ScanOptions`, except `fragments`.

        Raises:
            InvalidInputError: options that contradict each other or are out of range.
        """
        chosen = ScanOptions(**options, fragments=[self.fragment_id])
        return Scanner(self._snapshot, columns, chosen)

    def to_batches(
        self,
        columns: Columns = None,
        **options: Unpack[FragmentScanArguments],
    ) -> AsyncIterator[pa.RecordBatch]:
        """Scan as a stream of batches; see `Dataset.to_batches`.

        Cost: as `Dataset.to_batches`, for this fragment.

        Args:
            columns, options: as for `scanner`.

        Raises:
            InvalidInputError, CorruptFileError, StoreError: as from `Dataset.to_batches`.
        """
        return self.scanner(columns, **options).to_batches()

    async def to_table(
        self, columns: Columns = None, **options: Unpack[FragmentScanArguments]
    ) -> pa.Table:
        """Scan into memory.

        Cost: as `Dataset.to_table`, for this fragment.

        Args:
            columns, options: as for `scanner`.

        Raises:
            InvalidInputError, CorruptFileError, StoreError: as from `Dataset.to_batches`.
        """
        return await self.scanner(columns, **options).to_table()

    async def to_pandas(
        self,
        columns: Columns = None,
        *,
        blob_mode: BlobMode = "lazy",
        **options: Unpack[FragmentPandasArguments],
    ) -> pd.DataFrame:
        """Scan into a DataFrame of pandas; see `Dataset.to_pandas`.

        Cost: as `to_table`.

        Args:
            columns: as for `Dataset.take`.
            blob_mode, options: as for `Dataset.to_pandas`.

        Raises:
            MissingPackageError: pandas is not installed.
            InvalidInputError, CorruptFileError, StoreError: as from `Dataset.to_batches`.
        """
        return await self._frame(lambda file: file, columns, blob_mode=blob_mode, **options)

    async def head(self, num_rows: int = 5, columns: Columns = None) -> pa.Table:
        """Read the first rows.

        Cost: as `to_table` with a limit.

        Args:
            num_rows: maximum number of rows.
            columns: as for `Dataset.take`.

        Raises:
            InvalidInputError: a negative number of rows, or an unknown column.
            CorruptFileError, StoreError: as from `Dataset.to_batches`.
        """
        return await self.to_table(columns, limit=num_rows)

    async def validate(self) -> None:
        """Check that the fragment's files agree with the manifest; see `Dataset.validate`.

        The checks are: existence, size, footer and version of each data file, and the numbers of
        rows of its columns; the rows of the deletion file and their count; and, if all of that is
        correct, the objects with blobs of live rows. Other values are not read.

        Cost: one GET per file (two if a footer is larger than 64 KiB); a scan of the descriptions
        of blobs, and a HEAD or LIST for their objects.

        Raises:
            CorruptFileError: there are findings; the message lists all of them, one per line.
            StoreError: the store failed.
        """
        await self._snapshot.engine.pool.load(validate)
        await validate.validate_fragment(self._snapshot, self._handle)

    @classmethod
    async def create(
        cls,
        dataset_uri: str | os.PathLike[str],
        data: Data,
        fragment_id: int | None = None,
        *,
        mode: Mode = "append",
        schema: pa.Schema | None = None,
        data_storage_version: str | FileVersion | None = None,
        progress: WriteProgress | None = None,
        blobs: BlobOptions | None = None,
        **place: Unpack[StoreArguments],
    ) -> DataFragment:
        """Write rows as one fragment with one data file, without a commit.

        Cost: as `write_fragments` by URI.

        Args:
            dataset_uri: URI of the table, which need not exist yet.
            data: as for `write_dataset`.
            fragment_id: id in the result, which an append replaces by a new one; None: 0.
            mode, schema, data_storage_version, progress, blobs, place: as for `write_fragments`.

        Returns:
            The fragment for `operations.Append` or `operations.Overwrite`, a protobuf message.

        Raises:
            InvalidInputError: there are no rows, or more rows than a fragment can hold; or as from
                `write_fragments`.
            AlreadyExistsError, AccessError, UnsupportedError, StoreError: as from
                `write_fragments`.
        """
        number = 0 if fragment_id is None else fragment_id
        check_count("fragment_id", number, 0, MAX_ADDRESS_PART)
        session, table = table_at(dataset_uri, **place)
        await session.engine.pool.load(write_options, writer)
        chosen = blobs or blob_files.BlobOptions()
        options = write_options.WriteOptions(
            limits=write_options.Limits(MAX_ADDRESS_PART, MAX_BYTES, blobs=chosen),
            data_storage_version=FileVersion.of(data_storage_version),
            progress=progress,
        )
        looks = mode != "overwrite"
        with options.reporting():
            change, _ = await writer.write_fragments(
                session, table, None, data, mode, schema=schema, options=options, looks=looks
            )
        fragments = change.fragments
        if len(fragments) != 1:
            raise InvalidInputError(f"data: {len(fragments)} fragments, expected the rows of one")
        fragments[0].id = number
        return fragments[0]

    @classmethod
    async def create_from_file(
        cls, filename: str, dataset: Dataset, fragment_id: int = 0
    ) -> DataFragment:
        """Return a fragment of one existing data file, for `operations.Append`.

        The file was written by `FileWriter`, or belonged to a lost version. Its columns are matched
        to the table's by name; columns of the table that it lacks are null. The result is a
        protobuf message.

        Cost: one GET, or two if the footer is larger than 64 KiB.

        Args:
            filename: name of the file in the folder `data` of this branch.
            dataset: the table.
            fragment_id: id in the result, which an append replaces by a new one.

        Raises:
            NotFoundError: there is no such file.
            InvalidInputError: the name is not text or leaves the folder, `fragment_id` is negative
                or too large, or the table lacks a column, or has it with another type.
            CorruptFileError: the file is not a Lance file.
        """
        await dataset._snapshot.engine.pool.load(data_files)
        return await data_files.create_from_file(dataset, filename, fragment_id)

    async def delete(
        self, predicate: str | pc.Expression, *, params: Params = None
    ) -> DataFragment | None:
        """Mark the rows for which a predicate is true as deleted, without a commit.

        Many processes can share a delete. Each calls this for its fragments. Then one of them
        commits `operations.Delete(fragments, ids)` on the version that all of them read. There,
        `fragments` are the results, and `ids` are the ids of fragments whose result was None.

        Cost: a scan of the predicate's columns, and a PUT if some rows match, but not all.

        Args:
            predicate: SQL text or a pyarrow expression.
            params: values for `?` in the predicate, in order, or a mapping for `:name`.

        Returns:
            The fragment with its new deletion file, as a protobuf message; the unchanged fragment
            if no row matches; None if no row remains.

        Raises:
            InvalidInputError: bad SQL, an unknown column, or a predicate that is not boolean.
        """
        await self._snapshot.engine.pool.load(rows_delete)
        where = ScanOptions(filter=predicate, params=params, fragments=[self.fragment_id])
        return await rows_delete.delete_matching(self._snapshot, self._handle, where)

    async def delete_rows(self, offsets: object) -> DataFragment | None:
        """Mark rows by their physical offsets as deleted, without a commit; see `delete`.

        Cost: a GET of the deletion file if it is not cached, and a PUT. No PUT if no row remains,
        or without offsets.

        Args:
            offsets: offsets from 0, in any order, which count deleted rows as well; a list, numpy
                or Arrow array of integers. Already deleted rows remain deleted.

        Raises:
            InvalidInputError: an offset beyond the end.
        """
        await self._snapshot.engine.pool.load(rows_delete)
        rows = np.unique(as_positions(offsets, "offsets"))
        return await rows_delete.delete_offsets(self._snapshot, self._handle, rows)

    async def add_columns(
        self,
        transforms: Transforms,
        *,
        read_columns: Sequence[str] | None = None,
        batch_size: int | None = None,
    ) -> tuple[DataFragment, tuple[FieldMessage, ...]]:
        """Write new columns of this fragment, without a commit.

        Use it for backfills by many processes: each process calls this for its fragments, and one
        process commits `operations.Merge(fragments, schema)` with all fragments, in order, on the
        version that was read. Both parts of a result can be pickled. After a crash only the missing
        fragments have to be computed again, on the same version. A `checkpoint_file` of a
        `batch_udf` is not removed.

        Cost: a scan of the columns that are read, and the new file.

        Args:
            transforms: as for `Dataset.add_columns`, with rows of this fragment.
            read_columns: columns that are passed to the function; None: all.
            batch_size: maximum number of rows computed at once; None: a size that suits the pages.

        Returns:
            The fragment with one more file, and the fields of the table with the new columns, as
            protobuf messages.

        Raises:
            InvalidInputError: a column already exists, bad SQL, too many or too few rows, or values
                that do not fit.
        """
        await self._snapshot.engine.pool.load(columns_add)
        return await columns_add.add_to_fragment(
            self._snapshot,
            self._handle,
            transforms,
            read_columns=read_columns,
            batch_size=batch_size,
        )

    async def merge_columns(
        self,
        value_func: Transforms,
        columns: Sequence[str] | None = None,
        *,
        batch_size: int | None = None,
    ) -> tuple[DataFragment, tuple[FieldMessage, ...]]:
        """Call `add_columns`, under pylance's name and with pylance's arguments.

        Cost: as `add_columns`.

        Args:
            value_func: as `transforms` of `add_columns`.
            columns: as `read_columns` of `add_columns`.
            batch_size: as for `add_columns`.

        Raises:
            InvalidInputError: as from `add_columns`.
        """
        return await self.add_columns(value_func, read_columns=columns, batch_size=batch_size)

    async def merge(
        self, data: Data, left_on: str, right_on: str | None = None
    ) -> tuple[DataFragment, tuple[FieldMessage, ...]]:
        """Write the columns of other data, joined by a key, without a commit.

        Cost: a scan of the key column, and the new file. Memory: that of the data.

        Args:
            data: anything that `write_dataset` accepts; all its columns except the key are added.
            left_on: key column of the table, or `_rowid` or `_rowaddr`.
            right_on: key column of the data; None: the same name.

        Returns:
            The fragment with one more file, and the fields of the table with the new columns.

        Raises:
            InvalidInputError: a column already exists, or a key is missing or of another type.
        """
        await self._snapshot.engine.pool.load(columns_join)
        return await columns_join.merge_into_fragment(
            self._snapshot, self._handle, data, left_on, right_on
        )

    async def replace_columns(
        self,
        transforms: Transforms,
        *,
        read_columns: Sequence[str] | None = None,
        batch_size: int | None = None,
    ) -> DataReplacementGroup:
        """Write new values of existing columns, without a commit.

        `operations.DataReplacement` takes the results of any fragments; the same columns must be
        replaced in all of them.

        Cost: a scan of the columns that are read, and the new file.

        Args:
            transforms: as for `Dataset.replace_columns`, with rows of this fragment.
            read_columns: columns that are passed to the function; None: all.
            batch_size: maximum number of rows computed at once; None: a size that suits the pages.

        Raises:
            InvalidInputError: a column does not exist, its type cannot hold a value, there are too
                many or too few rows, or the fragment has no live rows.
        """
        await self._snapshot.engine.pool.load(columns_add)
        return await columns_add.replace_in_fragment(
            self._snapshot,
            self._handle,
            transforms,
            read_columns=read_columns,
            batch_size=batch_size,
        )

    async def update_columns(
        self, data: Data, left_on: str = "_rowid", right_on: str | None = None
    ) -> tuple[DataFragment, tuple[int, ...], bytes]:
        """Write new values of columns for the rows whose keys are in the data, without a commit.

        Rows keep their addresses. `operations.Update` takes the results as `updated_fragments`,
        `fields_modified` and, by the fragment's id, `updated_fragment_offset_bitmaps`, together
        with `update_mode=1`, which means that columns are rewritten.

        Cost: a scan of the key column and of the changed columns, and the new file. Memory: that of
        the data.

        Args:
            data: anything that `write_dataset` accepts, with a key and existing columns. If several
                rows have the same key, the last one is used.
            left_on: key column of the table, or `_rowid` or `_rowaddr`.
            right_on: key column of the data; None: the same name.

        Returns:
            The fragment, the ids of the fields in its new file, and the offsets of the physical
            rows with a key in the data, as a roaring bitmap.

        Raises:
            InvalidInputError: a column does not exist, or its type cannot hold a value.
        """
        await self._snapshot.engine.pool.load(columns_join)
        return await columns_join.update_in_fragment(
            self._snapshot, self._handle, data, left_on, right_on
        )
