"""Reading: the driver plans splits from the manifest, and tasks read them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import ray.data
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

import alance
from alance import InvalidInputError, ScanOptions
from alance.distributed import (
    ROW_ADDRESS,
    check_filter,
    field_ids,
    fragment_bytes,
    fragments_of,
    plan_splits,
    read_split,
    select_rows,
)
from alance.ray.filters import condition_of
from alance.ray.searching import search_by_tasks
from alance.ray.worker import Version, access, full_uri, run, stream
from alance.types import DataFragment, Fragment

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence

    from ray.data.expressions import Expr

    from alance import Dataset
    from alance.distributed import Piece, SelectedRows
    from alance.types import BlobHandling, StorageOptions

SPLIT_BYTES: Final = 64 << 20  # encoded bytes of a read task; Ray's blocks have at most 128 MiB
BATCH_BYTES: Final = 8 << 20  # approximate bytes of a batch
BATCH_ROWS: Final = 1 << 16


def read_table(
    uri: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    filter: str | None = None,
    nearest: Mapping[str, Any] | None = None,
    version: int | str | None = None,
    blob_handling: BlobHandling = "blobs_descriptions",
    storage_options: StorageOptions | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    ray_remote_args: Mapping[str, Any] | None = None,
) -> ray.data.Dataset:
    """Return a version of a table as a dataset of Ray Data, in the types of the table.

    A task reads a split: rows of some fragments, of about 64 MiB. The driver drops fragments and
    rows that cannot pass the filter, by indices and statistics. `select_columns` on the result
    reads only these columns, and `filter(expr=...)` without `filter` and `nearest` here reads only
    these rows; see docs/ray.md. Rows come in the order of the table if
    `DataContext.execution_options.preserve_order` is set.

    Cost: one LIST and one GET; with a filter also that of indices and statistics.

    Args:
        uri: URI or path of the table.
        columns: names of columns, also `_rowid` and `_rowaddr`; None: all columns of the table.
        filter: SQL text; only rows for which it is true are read. With `nearest`, only results for
            which it is true are returned.
        nearest: vector search, as in `ScanOptions`: the rows nearest to a query, with `_distance`.
            A single task searches by an index. Without one and without `filter`, this call runs the
            search, in tasks of about 64 MiB of vectors.
        version: number or tag of the version; None: the latest one.
        blob_handling: as in `ScanOptions`.
        storage_options: options of the store, which all read tasks get.
        concurrency, override_num_blocks, ray_remote_args: as for `ray.data.read_datasource`.

    Raises:
        NotFoundError: no such table or version.
        InvalidInputError: an unknown column, or bad SQL.
        StoreError: the store failed.
    """
    options = ScanOptions(filter=filter, nearest=nearest, blob_handling=blob_handling)

    async def planned() -> _TableSource | pa.Table:
        place = access(storage_options)
        dataset = await alance.dataset(full_uri(uri), version=version, **place)
        names = list(dataset.schema.names if columns is None else columns)
        source = _TableSource(dataset, names, options, storage_options)
        await source.select()
        rows = await search_by_tasks(dataset, names, options, storage_options, ray_remote_args)
        return source if rows is None else rows

    source = run(planned())
    if isinstance(source, pa.Table):
        return ray.data.from_arrow(source)
    return ray.data.read_datasource(
        source,
        concurrency=concurrency,
        override_num_blocks=override_num_blocks,
        ray_remote_args=dict(ray_remote_args or {}),
    )


@dataclass(frozen=True, slots=True)
class _SplitRead:
    """Work of a read task.

    Attributes:
        pieces: rows to read; None: the result of a search.
    """

    version: Version
    columns: tuple[str, ...]
    options: ScanOptions = field(repr=False)
    pieces: tuple[Piece, ...] | None = field(repr=False)
    schema: pa.Schema = field(repr=False)

    def tables(self) -> Iterator[pa.Table]:
        """Read the rows, or an empty table if there are none, so that Ray knows the columns."""
        count = 0
        for batch in stream(self._batches()):
            count += 1
            yield pa.Table.from_batches([batch], self.schema)
        if not count:
            yield self.schema.empty_table()

    async def _batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        columns = list(self.columns)
        if self.pieces is None:
            dataset = await self.version.opened()
            options = self.options
            rows = dataset.to_batches(
                columns,
                filter=options.filter,
                nearest=options.nearest,
                blob_handling=options.blob_handling,
            )
        else:
            rows = read_split(
                self.version.record,
                self.version.uri,
                self.pieces,
                columns,
                self.options,
                **access(self.version.storage_options),
            )
        async for batch in rows:
            yield batch


class _TableSource(Datasource):
    """A version of a table. It stays on the driver."""

    def __init__(
        self,
        dataset: Dataset,
        columns: list[str],
        options: ScanOptions,
        storage_options: StorageOptions | None,
    ) -> None:
        super().__init__()
        self._projection_map: dict[str, str] | None = None
        # Rows that filters select, by pickled filter. Shared by the copies that Ray makes.
        self._selected: dict[bytes, SelectedRows | None] = {}
        self._dataset, self._columns, self._options = dataset, columns, options
        self._takes_filters = options.filter is None is options.nearest
        self._version = Version.of(dataset, storage_options)
        self._schema = self._schema_of(columns)  # raises errors of columns and of the filter here

    def get_name(self) -> str:
        return "Lance"

    def supports_projection_pushdown(self) -> bool:
        return self._options.nearest is None

    def supports_predicate_pushdown(self) -> bool:
        return self._takes_filters

    def get_current_predicate(self) -> Expr | None:
        return self._predicate_expr

    def apply_predicate(self, predicate_expr: Expr) -> Datasource:
        """Return the source with a filter of Ray; without any change if a scan cannot do it."""
        pushed = super().apply_predicate(predicate_expr)
        condition = condition_of(pushed._predicate_expr, self._schema)
        try:
            check_filter(self._dataset, condition)
        except InvalidInputError:  # Ray reports it, or evaluates what a scan cannot
            return self
        if condition is None:
            return self
        pushed._options = replace(self._options, filter=condition)
        return pushed

    async def select(self) -> SelectedRows | None:
        """Find the rows that the filter may keep, once; None: any."""
        filter = self._options.filter
        if filter is None or self._options.nearest is not None:
            return None
        key = pickle.dumps(filter)
        if key not in self._selected:
            self._selected[key] = await select_rows(self._dataset, filter, self._columns)
        return self._selected[key]

    def estimate_inmemory_data_size(self) -> int:
        return sum(task.metadata.size_bytes for task in self.get_read_tasks(1))

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: object = None
    ) -> list[ReadTask]:
        """Plan the tasks. Ray calls it several times; only the first call may send requests."""
        names = self._columns if self._projection_map is None else list(self._projection_map)
        names = names or [ROW_ADDRESS]  # a block without columns has no rows; this costs no read
        schema = self._schema_of(names)
        splits: list[tuple[Piece, ...] | None] = [None]
        fields = None
        if self._options.nearest is None:
            fields = field_ids(self._dataset, names)
            planned = plan_splits(
                fragments_of(self._dataset),
                fields,
                split_bytes=SPLIT_BYTES,
                parallelism=parallelism,
                selected=run(self.select()),
            )
            splits = [*planned] or [()]
        tasks = []
        for pieces in splits:
            num_rows, metadata = self._metadata(pieces or (), fields, schema)
            batch_rows = BATCH_BYTES * num_rows // metadata.size_bytes
            options = replace(
                self._options,
                # Ray repeats a task whose worker died, and continues after the blocks that it
                # already has. So the batches must not depend on how fast bytes came.
                batch_size=max(1, min(BATCH_ROWS, batch_rows)),
                strict_batch_size=True,
            )
            work = _SplitRead(self._version, tuple(names), options, pieces, schema)
            tasks.append(ReadTask(_function(work), metadata, schema, per_task_row_limit))
        return tasks

    def _schema_of(self, names: list[str]) -> pa.Schema:
        options = self._options
        scan = self._dataset.scanner(
            names,
            filter=options.filter,
            nearest=options.nearest,
            blob_handling=options.blob_handling,
        )
        return scan.projected_schema

    def _metadata(
        self, pieces: Sequence[Piece], fields: frozenset[int] | None, schema: pa.Schema
    ) -> tuple[int, BlockMetadata]:
        """Return the number of stored rows of a split, and the metadata of its block for Ray."""
        num_rows = num_bytes = 0
        num_live: int | None = 0 if self._options.filter is self._options.nearest is None else None
        for piece in pieces:
            fragment = Fragment.from_protobuf(DataFragment.FromString(piece.fragment))
            live, rows = fragment.num_rows, fragment.physical_rows
            if piece.stop is not None:
                live = piece.stop - piece.start if live == rows else None
                rows = piece.stop - piece.start
            encoded = fragment_bytes(fragment, fields) * rows // max(1, fragment.physical_rows)
            num_bytes += max(encoded, rows * _fixed_bits(schema) // 8)
            num_rows += rows
            num_live = None if num_live is None or live is None else num_live + live
        # Ray takes a read of 0 bytes for a read of no rows, also if it is a search.
        return num_rows, BlockMetadata(num_live, max(1, num_bytes), None, None)


def _fixed_bits(schema: pa.Schema) -> int:
    """Return the bits per row of the columns of fixed width, for an estimate of memory."""
    bits = 0
    for field_ in schema:
        kind, count = field_.type, 1
        if pa.types.is_fixed_size_list(kind):
            kind, count = kind.value_type, kind.list_size
        if pa.types.is_primitive(kind):
            bits += kind.bit_width * count
    return bits


def _function(work: _SplitRead) -> Callable[[], Iterator[pa.Table]]:
    def read_rows() -> Iterator[pa.Table]:
        return work.tables()

    return read_rows
