"""Reading a table: the driver plans partitions from the manifest, and tasks read Arrow batches.

Spark (4.2 to 4.3) plans a DataFrame once and uses the reader, with its pushed filters, for all
later queries of the DataFrame. A filter pushed for one query would drop rows of the next. So
filters are pushed down only if the option `pushdown` promises a single query, and only filters that
mean the same in alance's SQL (`alance.spark.filters`). The connector plans each query separately,
and always pushes filters down.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from alance import ScanOptions
from alance.distributed import (
    ROW_ADDRESS,
    ROW_ID,
    field_ids,
    fragments_of,
    plan_splits,
    read_extremes,
    read_split,
    select_rows,
)
from alance.spark.filters import _EPOCH, FilterCall, FilterColumn, FilterConstant, sql_of
from alance.spark.types import arrow_schema, converted
from alance.spark.versions import access
from alance.spark.worker import run, stream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from alance import ColumnOrdering, Dataset
    from alance.distributed import Piece, SelectedRows
    from alance.spark.options import ReadOptions
    from alance.spark.versions import Version
    from alance.types import Fragment

_OPS: Final[Mapping[type[Filter], str]] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


def as_sql(condition: Filter, schema: pa.Schema) -> str | None:
    """Translate a filter to SQL text; None if it is left to Spark.

    Args:
        schema: schema of the table.
    """
    tree = _tree(condition)
    return None if tree is None else sql_of(tree, schema)


def _tree(condition: Filter) -> FilterCall | None:
    if isinstance(condition, Not):
        child = _tree(condition.child)
        return None if child is None else FilterCall("NOT", (child,))
    column = FilterColumn(getattr(condition, "attribute", ()))
    if isinstance(condition, IsNull | IsNotNull):
        return FilterCall("IS_NULL" if isinstance(condition, IsNull) else "IS_NOT_NULL", (column,))
    is_list = isinstance(condition, In)
    if not is_list and type(condition) not in _OPS:
        return None
    values = condition.value if isinstance(condition, In) else (getattr(condition, "value", None),)
    return FilterCall("IN" if is_list else _OPS[type(condition)], (column, *map(_constant, values)))


def _constant(value: object) -> FilterConstant:
    if isinstance(value, bool):
        return FilterConstant(str(value).lower())
    if isinstance(value, int | float | str):
        return FilterConstant(str(value))
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return FilterConstant(str((value - _EPOCH).days))
    return FilterConstant(None)  # null: such a filter is left to Spark


class PartitionRows(InputPartition):
    """Rows that one task reads."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)

    def __repr__(self) -> str:
        return f"PartitionRows({len(self.pieces)} fragments)"


def plan(
    fragments: Sequence[Fragment],
    fields: frozenset[int] | None,
    options: ReadOptions,
    selected: SelectedRows | None = None,
) -> list[PartitionRows]:
    """Plan the partitions of a read, in row order. No request.

    Args:
        fields: ids of the fields to read; None: all.
        selected: rows that the filter may keep; None: any.
    """
    splits = plan_splits(
        fragments,
        fields,
        split_bytes=options.partition_bytes,
        min_splits=options.min_partitions,
        parallelism=options.parallelism,
        limit=options.limit,
        is_filtered=options.filter is not None,
        selected=selected,
    )
    return [PartitionRows(split) for split in splits]


def columns_of(dataset: Dataset, options: ReadOptions) -> list[str]:
    """Return the names of the columns that a read yields, in order."""
    names = options.columns
    columns = list(dataset.schema.names if names is None else names)
    for is_output, name in ((options.with_row_id, ROW_ID), (options.with_row_address, ROW_ADDRESS)):
        if is_output and name not in columns:
            columns.append(name)
    return columns


def planned(
    dataset: Dataset,
    names: Sequence[str],
    options: ReadOptions,
    ids: Collection[int] | None = None,
    selected: SelectedRows | None = None,
) -> list[PartitionRows]:
    """Plan the partitions of a read of columns of a version. No request.

    Args:
        ids: fragments to read; None: all.
        selected: result of `selected_rows` for these columns and options.
    """
    fragments = [
        fragment for fragment in fragments_of(dataset) if ids is None or fragment.id in ids
    ]
    return plan(fragments, field_ids(dataset, names), options, selected)


async def selected_rows(
    dataset: Dataset, names: Sequence[str], options: ReadOptions, *, counts: bool = False
) -> SelectedRows | None:
    """Select the rows that the filter of a read may keep, by indices and statistics.

    Returns None if any row may pass. A read with a limit is one task, which reads statistics itself
    and ends early.

    Cost: see `select_rows`.

    Args:
        names: columns to read.
        counts: True if rows are only counted.
    """
    if options.filter is None:
        return None
    return await select_rows(
        dataset, options.filter, names, counts=counts, use_stats=options.limit is None
    )


class AlanceReader(DataSourceReader):
    """Reader of one version. Pickled into each task."""

    def __init__(
        self,
        schema: StructType,
        options: ReadOptions,
        version: Version,
        dataset: Dataset | None = None,
    ) -> None:
        self.schema = schema
        self.options = options
        self.version = version
        self._dataset = dataset

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_dataset": None}

    def __repr__(self) -> str:
        return f"AlanceReader({self.options.path!r})"

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the tasks. Spark has already pickled the reader, so attributes set here are lost.

        Cost: without a filter no request, because the manifest has been read; about 10 us per
        fragment. With a filter, see `select_rows`.
        """
        assert self._dataset is not None
        names = self.schema.names
        selected = run(selected_rows(self._dataset, names, self.options))
        return planned(self._dataset, names, self.options, selected=selected)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a partition, in exactly Spark's types."""
        # Spark's own class, if no partition was planned
        if not isinstance(partition, PartitionRows):
            return iter(())
        schema, names = arrow_schema(self.schema), self.schema.names
        batches = stream(read_pieces(self.version, names, self.options, partition.pieces))
        return (converted(batch, schema) for batch in batches)


def read_pieces(
    version: Version,
    names: Sequence[str],
    options: ReadOptions,
    pieces: Sequence[Piece],
    *,
    flat: bool = True,
    order_by: Sequence[ColumnOrdering] = (),
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Read the rows of one partition, in the types of the table."""
    chosen = replace(
        _scan_options(options), filter=options.filter, limit=options.limit, order_by=order_by
    )
    return read_split(
        version.record,
        version.options.path,
        pieces,
        names,
        chosen,
        flat=flat,
        **access(version.options),
    )


def read_extreme_pieces(
    version: Version, names: Sequence[str], options: ReadOptions, pieces: Sequence[Piece]
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Read the rows of a partition that contain the least and greatest values of some columns."""
    return read_extremes(
        version.record,
        version.options.path,
        pieces,
        names,
        _scan_options(options),
        **access(version.options),
    )


def _scan_options(options: ReadOptions) -> ScanOptions:
    return ScanOptions(
        batch_size=options.batch_size,
        io_buffer_bytes=options.memory_bytes,
        blob_handling=options.blob_handling,
    )


class PushingReader(AlanceReader):
    """A reader with filter pushdown, for a DataFrame that serves a single query."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Push down the filters that mean the same in alance's SQL; Spark evaluates the others.

        No filter is pushed down if the read has a limit. Yields the filters that Spark has to
        evaluate.
        """
        assert self._dataset is not None
        taken = [] if self.options.filter is None else [f"({self.options.filter})"]
        for condition in filters:
            text = as_sql(condition, self._dataset.schema)
            if text is None or self.options.limit is not None:
                yield condition
            else:
                taken.append(text)
        self.options = replace(self.options, filter=" AND ".join(taken) or None)
