"""Writing: tasks write data files, and the driver commits them as one version."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from ray.data.block import BlockAccessor
from ray.data.datasource import Datasink

import alance
from alance import AlreadyExistsError, InvalidInputError, NotFoundError
from alance.distributed import may_be_visible, new_table, remove_data_files
from alance.operations import Append
from alance.ray.worker import Version, access, full_uri, run, run_task
from alance.types import DataFragment

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    import ray.data

    from alance import Dataset
    from alance.operations import Operation
    from alance.types import Mode, StorageOptions

WRITE_BYTES: Final = 128 << 20  # bytes of the blocks that Ray gathers for a task, and so for a file
NO_COLUMNS: Final = "the first blocks have no columns for a new table; write schema="


def write_table(
    dataset: ray.data.Dataset,
    uri: str | os.PathLike[str],
    *,
    mode: Mode = "create",
    schema: pa.Schema | None = None,
    max_rows_per_file: int = 1 << 20,
    data_storage_version: str | None = None,
    stable_row_ids: bool = False,
    message: str | None = None,
    storage_options: StorageOptions | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, Any] | None = None,
) -> int:
    """Write a dataset of Ray Data as one version of a table. Returns the number of the version.

    A task writes about 128 MiB of blocks. Rows of a task that Ray repeats are in the version once.
    A write that fails makes no version; a cleanup removes the files of its tasks, and of attempts
    that were killed, when they are seven days old. An append of no rows makes no version.

    A column of Ray's tensors becomes a column of vectors if they have one dimension, and otherwise
    of Arrow's fixed-shape tensors.

    Cost: one LIST and one GET; the files; a commit.

    Args:
        dataset: the rows.
        uri: URI or path of the table.
        mode: as for `alance.write_dataset`.
        schema: schema of a new table, to which rows are cast; None: that of the first rows, or if
            there are none, of the plan. Rows that are appended are cast to the schema of the table.
        max_rows_per_file, data_storage_version, stable_row_ids, message: as for
            `alance.write_dataset`.
        storage_options: options of the store, which all write tasks get.
        concurrency, ray_remote_args: as for `Dataset.write_datasink`.

    Raises:
        AlreadyExistsError: the table exists, and the mode is `create`.
        InvalidInputError: rows that do not fit the schema; a column of Python objects; or a new
            table without `schema`, if the first blocks have no columns, because a function returned
            no rows.
        CommitConflictError: a concurrent commit rules this one out.
        CommitStateUnknownError: it is unknown whether the version was committed.
        StoreError: the store failed.
    """
    target = _Target(
        full_uri(uri),
        mode,
        schema,
        max_rows_per_file,
        data_storage_version,
        stable_row_ids,
        message,
        storage_options,
    )
    sink = _TableSink(run(target.opened()), dataset.schema(fetch_if_missing=False))
    dataset.write_datasink(
        sink, concurrency=concurrency, ray_remote_args=dict(ray_remote_args or {})
    )
    return sink.version


@dataclass(frozen=True, slots=True)
class _Target:
    """Table to which rows are written. Sent to each task.

    Attributes:
        schema: schema of a new table; None if it is not known yet, or rows are appended.
        base: version to append to; None if the rows make a table or replace all rows.
        base_version: number of the version before the write; 0 if there is no table.
    """

    uri: str
    mode: Mode
    schema: pa.Schema | None
    max_rows_per_file: int
    data_storage_version: str | None
    stable_row_ids: bool
    message: str | None
    storage_options: StorageOptions | None = field(repr=False)
    base: Version | None = None
    base_version: int = 0

    async def opened(self) -> _Target:
        """Look for the table, and return the target with its latest version."""
        if self.mode not in ("create", "append", "overwrite"):
            raise InvalidInputError(f"mode={self.mode!r}: expected create, append or overwrite")
        try:
            dataset = await alance.dataset(self.uri, **access(self.storage_options))
        except NotFoundError:
            return self
        if self.mode == "create":
            raise AlreadyExistsError(
                f"dataset {self.uri!r}: exists already, its latest version is {dataset.version}; "
                "write mode='append' or mode='overwrite'"
            )
        base = Version.of(dataset, self.storage_options) if self.mode == "append" else None
        return replace(self, uri=dataset.uri, base=base, base_version=dataset.version)

    async def write(self, blocks: Iterable[Any]) -> tuple[bytes, ...]:
        """Write the blocks of a task; return the records of the fragments."""
        batches = (batch for block in blocks for batch in _batches(block))
        if self.base is None and self.schema is None:
            # The first blocks had no columns, as those of functions that return no row.
            if next(batches, None) is None:
                return ()
            raise InvalidInputError(f"dataset {self.uri!r}: {NO_COLUMNS}")
        if self.base is not None:
            fragments = await alance.write_fragments(
                batches, self.base.dataset(), max_rows_per_file=self.max_rows_per_file
            )
        else:
            fragments = await alance.write_fragments(
                batches,
                self.uri,
                mode="overwrite",
                schema=self.schema,
                max_rows_per_file=self.max_rows_per_file,
                data_storage_version=self.data_storage_version,
                **access(self.storage_options),
            )
        return tuple(fragment.SerializeToString() for fragment in fragments)

    async def commit(self, records: Iterable[bytes]) -> int:
        """Commit the fragments of all tasks. Returns the number of the version."""
        fragments = tuple(map(DataFragment.FromString, records))
        if self.base is not None and not fragments:
            return self.base_version
        if self.base is None and self.schema is None:
            raise InvalidInputError(f"dataset {self.uri!r}: {NO_COLUMNS}")
        operation: Operation = Append(fragments)
        if self.base is None:
            operation = new_table(self.schema, fragments)
        try:
            return (await self._commit(operation)).version
        except Exception as error:
            if not may_be_visible(error):
                await remove_data_files(self.uri, fragments, **access(self.storage_options))
            raise

    async def _commit(self, operation: Operation) -> Dataset:
        return await alance.commit(
            self.uri,
            operation,
            read_version=self.base_version,
            data_storage_version=self.data_storage_version,
            stable_row_ids=self.stable_row_ids,
            message=self.message,
            **access(self.storage_options),
        )


class _TableSink(Datasink):
    """A write. Pickled into each task.

    Args:
        planned: schema that Ray knows without running the plan; None if functions decide it.
    """

    def __init__(self, target: _Target, planned: ray.data.Schema | None = None) -> None:
        self.target = target
        self.planned = None if planned is None else planned.base_schema
        self.version = target.base_version

    def get_name(self) -> str:
        return "Lance"

    @property
    def min_bytes_per_write(self) -> int:
        """Bytes of blocks per task. With a minimum, Ray writes in tasks of their own, which know
        the schema of the first blocks.
        """
        return WRITE_BYTES

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Take the schema of the first blocks for a new table; without any, that of the plan."""
        schema = schema or self.planned  # Ray forgets the schema of blocks without rows
        is_unknown = self.target.base is None and self.target.schema is None
        if is_unknown and isinstance(schema, pa.Schema) and schema:
            self.target = replace(self.target, schema=_stored(schema))

    def write(self, blocks: Iterable[Any], ctx: object) -> tuple[bytes, ...]:
        """Write the blocks of a task."""
        return run_task(self.target.write(blocks))

    def on_write_complete(self, write_result: Any) -> None:
        """Commit what all tasks have written."""
        records = [record for part in write_result.write_returns for record in part]
        self.on_write_start()  # Ray calls it before only if there are blocks
        self.version = run(self.target.commit(records))


def _batches(block: Any) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a block of Ray, which may be a pandas frame, in the types of a table."""
    table = BlockAccessor.for_block(block).to_arrow()
    if not table.num_rows:
        return
    schema = _stored(table.schema)
    for batch in table.to_batches():
        arrays = [
            _values(array, field_.type) for array, field_ in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _stored(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a table for the schema of a block."""
    fields = []
    for field_ in schema:
        kind = field_.type
        name = getattr(kind, "extension_name", "")
        if name.startswith("ray.data.arrow_pickled_object"):
            raise InvalidInputError(
                f"column {field_.name!r}: has Python objects; return values of an Arrow type"
            )
        shape = getattr(kind, "shape", (None,))
        if None in shape:  # no tensors, or tensors of several shapes, which stay what they are
            pass
        elif len(shape) == 1:
            kind = pa.list_(kind.value_type, shape[0])
        elif not isinstance(kind, pa.FixedShapeTensorType):
            kind = pa.fixed_shape_tensor(kind.value_type, shape)
        fields.append(field_.with_type(kind))
    return pa.schema(fields, schema.metadata)


def _values(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the values of a column of Ray's tensors in the type of a table."""
    if array.type == kind or not isinstance(array, pa.ExtensionArray):
        return array
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    values = array.storage.cast(storage)
    return pa.ExtensionArray.from_storage(kind, values) if storage is not kind else values
