"""The options of the data source as keyword arguments of functions; see `alance.spark.options`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence


class SourceArguments(TypedDict, total=False):
    """The fields of `Options` that are no place."""

    memory_bytes: int
    decode_threads: int


class ReadArguments(SourceArguments, total=False):
    """The fields of `ReadOptions` but for what is read."""

    version: int | None
    tag: str | None
    asof: str | None
    limit: int | None
    with_row_id: bool
    with_row_address: bool
    partition_bytes: int
    min_partitions: int
    parallelism: int
    batch_size: int | None
    blobs: Literal["descriptions", "bytes"]
    pushdown: bool


class SelectArguments(ReadArguments, total=False):
    """The fields of `ReadOptions`."""

    columns: Sequence[str] | None
    filter: str | None


class WriteArguments(SourceArguments, total=False):
    """The fields of `WriteOptions` but for what is done with a table that is there."""

    max_rows_per_file: int
    max_bytes_per_file: int
    data_storage_version: str | None
    stable_row_ids: bool
    vectors: Sequence[str]
    message: str | None
    txn_app: str | None
    txn_version: int | None
    max_retries: int
