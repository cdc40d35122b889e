"""DatasetFragment: reads of one fragment of a dataset, and new columns of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alance.deferred import Deferred
from alance.errors import InvalidInputError
from alance.ops.read.options import ScanOptions
from alance.ops.read.positions import as_positions
from alance.ops.read.take import take_located
from alance.scanner import Framed, Scanner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from typing import Unpack

    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    from alance.format.proto.file_pb2 import Field as FieldMessage
    from alance.format.proto.table_pb2 import DataFragment
    from alance.format.table.fragment import Fragment
    from alance.operations import DataReplacementGroup
    from alance.ops.columns import add as columns_add
    from alance.ops.columns import join as columns_join
    from alance.ops.columns.sources import Transforms
    from alance.ops.read.options import (
        BlobMode,
        FragmentPandasArguments,
        FragmentScanArguments,
    )
    from alance.ops.version.conditions import Params
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import FragmentHandle, Snapshot
    from alance.ops.write.sources import Data
else:
    columns_add = Deferred("alance.ops.columns.add")
    columns_join = Deferred("alance.ops.columns.join")


class DatasetFragment(Framed):
    """One fragment of a dataset's version. Row offsets count live rows from 0."""

    __slots__ = ("_position", "_snapshot")

    def __init__(self, snapshot: Snapshot, position: int) -> None:
        self._snapshot = snapshot
        self._position = position

    def __repr__(self) -> str:
        return f"DatasetFragment({self.fragment_id} of {self._snapshot.uri!r})"

    @property
    def fragment_id(self) -> int:
        """The fragment's id, which it keeps for life."""
        return int(self._snapshot.manifest.fragments.ids[self._position])

    @property
    def _handle(self) -> FragmentHandle:
        return self._snapshot.handles[self._position]

    @property
    def metadata(self) -> Fragment:
        """Data files, deletion file and row count, as the manifest has them."""
        return self._handle.fragment

    @property
    def physical_rows(self) -> int:
        """Rows stored, deleted ones included."""
        return self._handle.num_physical_rows

    async def count_rows(
        self, filter: str | pc.Expression | None = None, *, params: Params = None
    ) -> int:
        """The number of live rows, or of those for which the filter is true."""
        return await self.scanner(filter=filter, params=params).count_rows()

    async def take(self, indices: object, columns: Columns = None) -> pa.Table:
        """Rows by their offset among the fragment's live rows, in the order asked for.

        Raises:
            InvalidInputError: an offset beyond the end.
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
        """A scan of this fragment; options are the fields of `ScanOptions`."""
        chosen = ScanOptions(**options, fragments=[self.fragment_id])
        return Scanner(self._snapshot, columns, chosen)

    def to_batches(
        self,
        columns: Columns = None,
        **options: Unpack[FragmentScanArguments],
    ) -> AsyncIterator[pa.RecordBatch]:
        """Scan as a stream of batches."""
        return self.scanner(columns, **options).to_batches()

    async def to_table(
        self, columns: Columns = None, **options: Unpack[FragmentScanArguments]
    ) -> pa.Table:
        """Scan into memory."""
        return await self.scanner(columns, **options).to_table()

    async def to_pandas(
        self,
        columns: Columns = None,
        *,
        blob_mode: BlobMode = "lazy",
        **options: Unpack[FragmentPandasArguments],
    ) -> pd.DataFrame:
        """Scan into a DataFrame of pandas; see `Dataset.to_pandas`."""
        return await self._frame(lambda file: file, columns, blob_mode=blob_mode, **options)

    async def head(self, num_rows: int, columns: Columns = None) -> pa.Table:
        """The first rows."""
        return await self.to_table(columns, limit=num_rows)

    async def add_columns(
        self,
        transforms: Transforms,
        *,
        read_columns: Sequence[str] | None = None,
        batch_size: int | None = None,
    ) -> tuple[DataFragment, tuple[FieldMessage, ...]]:
        """Write new columns of this fragment, without a commit.

        For backfills that many processes share: each gives the fragments that it did, and one
        commits `operations.Merge(fragments, schema)` with those of all, in their order, on the
        version that they were made from. Both parts can be pickled. What is given is done: after
        a crash only the other fragments need to be made, as long as they are of the same version.
        A `checkpoint_file` of a `batch_udf` stays.

        Args:
            transforms: what `Dataset.add_columns` takes; rows are those of this fragment.
            read_columns: that the function gets; None: all.
            batch_size: rows that are computed at once at most.

        Returns:
            The fragment with one more file, and the fields of the table with the new columns;
            protobuf messages.

        Raises:
            InvalidInputError: a column that exists, bad SQL, rows too many or too few, values
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
        """`add_columns` by the name that it has elsewhere."""
        return await self.add_columns(value_func, read_columns=columns, batch_size=batch_size)

    async def merge(
        self, data: Data, left_on: str, right_on: str | None = None
    ) -> tuple[DataFragment, tuple[FieldMessage, ...]]:
        """Write the columns of other data, joined by a key, without a commit.

        Args:
            data: anything that `write_dataset` takes; all its columns but the key are added.
            left_on: the key column of the table; `_rowid` and `_rowaddr` are some, too.
            right_on: that of the data; None: the same name.

        Returns:
            The fragment with one more file, and the fields of the table with the new columns.

        Raises:
            InvalidInputError: a column that exists, a key that is not there or of another type.
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
        """Write other values of columns that exist, without a commit.

        `operations.DataReplacement` takes what this gives, of any fragments; in all of them the
        same columns must be replaced.

        Args:
            transforms: what `Dataset.replace_columns` takes; rows are those of this fragment.

        Raises:
            InvalidInputError: a column that does not exist, values that its type cannot hold, rows
                too many or too few.
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
        """Write other values of columns for the rows whose key some data has, without a commit.

        Rows keep their places. `operations.Update` takes what this gives, as `updated_fragments`,
        `fields_modified` and, by the fragment's id, `updated_fragment_offset_bitmaps`; with
        `update_mode=1`, which is the rewriting of columns.

        Args:
            data: anything that `write_dataset` takes: a key, and columns that exist. It is held in
                memory; of several rows with one key the last counts.
            left_on: the key column of the table; `_rowid` and `_rowaddr` are some, too.
            right_on: that of the data; None: the same name.

        Returns:
            The fragment, the ids of the fields in its new file, and which of its physical rows
            were found, as a roaring bitmap.

        Raises:
            InvalidInputError: a column that does not exist, or values that its type cannot hold.
        """
        await self._snapshot.engine.pool.load(columns_join)
        return await columns_join.update_in_fragment(
            self._snapshot, self._handle, data, left_on, right_on
        )
