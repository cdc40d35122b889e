"""The options of a scan, shared by every method that scans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

from alance.checks import check_callback, check_choice, check_counts, public_arguments
from alance.errors import InvalidInputError
from alance.ops.version.conditions import bound
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import pyarrow as pa
    import pyarrow.compute as pc

    from alance.ops.read.scan_stats import ScanStatsCallback
    from alance.ops.search.text.query import TextQuery
    from alance.ops.version.conditions import Condition, Params

BlobHandling: TypeAlias = Literal["all_binary", "blobs_descriptions", "all_descriptions"]
BlobMode: TypeAlias = Literal["lazy", "bytes", "descriptions"]


@dataclass(frozen=True, slots=True)
class ColumnOrdering:
    """A column that rows are sorted by.

    Attributes:
        column_name: name, or path of a member of structs.
        ascending: False: the greatest first. NaN is greater than all numbers.
        nulls_first: nulls before all values; else behind them, whatever the direction.
    """

    column_name: str
    ascending: bool = True
    nulls_first: bool = False

    def __str__(self) -> str:
        sign = "" if self.ascending else "-"
        return f"{sign}{self.column_name}{' (nulls first)' if self.nulls_first else ''}"


OrderBy: TypeAlias = Sequence[str | ColumnOrdering]


class FragmentScanArguments(TypedDict, total=False):
    """Keyword arguments of a scan of one fragment: the fields of `ScanOptions`."""

    filter: str | pc.Expression | None
    params: Params
    limit: int | None
    offset: int | None
    batch_size: int | None
    batch_size_bytes: int | None
    strict_batch_size: bool
    with_row_id: bool
    with_row_address: bool
    scan_in_order: bool
    batch_readahead: int | None
    io_buffer_bytes: int | None
    late_materialization: bool | None
    include_deleted_rows: bool
    order_by: OrderBy | None
    use_scalar_index: bool
    use_stats: bool
    blob_handling: BlobHandling
    nearest: Mapping[str, Any] | None
    full_text_query: str | TextQuery | Mapping[str, Any] | None
    prefilter: bool
    fast_search: bool
    scan_stats_callback: ScanStatsCallback | None


class ScanArguments(FragmentScanArguments, total=False):
    """Keyword arguments of a scan: the fields of `ScanOptions`."""

    fragments: Collection[int] | None


class FrameArguments(TypedDict, total=False):
    """Keyword arguments of pyarrow's `Table.to_pandas`, all of which `to_pandas` accepts."""

    categories: Sequence[str] | None
    coerce_temporal_nanoseconds: bool
    date_as_object: bool
    deduplicate_objects: bool
    ignore_metadata: bool
    integer_object_nulls: bool
    maps_as_pydicts: Literal["lossy", "strict"] | None
    memory_pool: pa.MemoryPool | None
    safe: bool
    self_destruct: bool
    split_blocks: bool
    strings_to_categorical: bool
    timestamp_as_object: bool
    types_mapper: Callable[[pa.DataType], Any] | None
    use_threads: bool
    zero_copy_only: bool


class FragmentPandasArguments(FragmentScanArguments, FrameArguments, total=False):
    """Keyword arguments of `to_pandas` of a fragment; see `PandasArguments`."""


class PandasArguments(ScanArguments, FrameArguments, total=False):
    """Keyword arguments of `to_pandas`: the fields of `ScanOptions`, and those of pyarrow's
    `to_pandas`.
    """


def split_arguments(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What of `PandasArguments` a scan is told, and what pyarrow."""
    of_frame = FrameArguments.__annotations__
    scan = {name: value for name, value in arguments.items() if name not in of_frame}
    return scan, {name: value for name, value in arguments.items() if name in of_frame}


@public_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """Options of a scan; each is an argument of `to_table`, `to_batches` and `scanner`.

    Attributes:
        filter: SQL text or a pyarrow expression; rows for which it is true are kept.
        params: values for the `?` of the text, in their order, or a mapping for `:name`.
        limit: number of rows at most.
        offset: number of rows to skip first, after the filter.
        batch_size: rows of a batch at most; None: as the pages suggest (about 64 Ki).
        batch_size_bytes: approximate bytes of a batch at most; a larger row is a batch by itself.
        strict_batch_size: all batches except the last have `batch_size` rows; short batches are
            joined, which copies them.
        with_row_id: add the column `_rowid` (uint64).
        with_row_address: add the column `_rowaddr` (uint64): fragment id << 32 | row offset.
        scan_in_order: False gives batches as soon as they are ready.
        batch_readahead: batches decoded ahead of the consumer; None: one per decode thread.
        io_buffer_bytes: bytes fetched ahead, and decoded at once, at least 1 MiB; None: as suits
            the store, at most the session's.
        fragments: ids of the fragments to scan; None: all.
        late_materialization: read the filter's columns first, and the other columns only for the
            rows that it keeps; None: if that reads fewer bytes.
        include_deleted_rows: also give deleted rows, with a null `_rowid`; needs `with_row_id`.
        order_by: columns to sort by, in the output or not: `name`, `-name` for descending, or a
            `ColumnOrdering`. With a `limit` these columns are scanned, and the other columns are
            taken for the rows of the result; without, all rows are in memory.
        use_scalar_index: use B-tree and bitmap indices to find the rows that a filter may keep.
        use_stats: skip rows by statistics of the files, if they have any.
        blob_handling: `blobs_descriptions` gives blob columns as position and size, `all_binary` as
            their bytes. (`to_pandas` has `blob_mode`, which gives files.)
        nearest: give the rows nearest to a query, with `_distance`, nearest first; `column`, `q`,
            `k`, `metric`, ... under pylance's names. See `Dataset.nearest`.
        full_text_query: give the rows that match a query of words, with `_score`, best first: a
            text, a `MatchQuery` or another query, or a mapping with `query` and `columns`. `limit`
            is the number of rows. See `Dataset.search_text`.
        prefilter: True applies the filter before the search, False to the results of the search.
        fast_search: leave out rows that the index of a search does not cover. Without a search,
            leave out fragments that the indices of the filter do not cover.
        scan_stats_callback: called with `ScanStatistics`, on the event loop, after the last batch.
            Its errors are logged.
    """

    filter: str | pc.Expression | None = None
    params: Params = None
    limit: int | None = None
    offset: int | None = None
    batch_size: int | None = None
    batch_size_bytes: int | None = None
    strict_batch_size: bool = False
    with_row_id: bool = False
    with_row_address: bool = False
    scan_in_order: bool = True
    batch_readahead: int | None = None
    io_buffer_bytes: int | None = None
    fragments: Collection[int] | None = None
    late_materialization: bool | None = None
    include_deleted_rows: bool = False
    order_by: OrderBy | None = None
    use_scalar_index: bool = True
    use_stats: bool = True
    blob_handling: BlobHandling = "blobs_descriptions"
    nearest: Mapping[str, Any] | None = None
    full_text_query: str | TextQuery | Mapping[str, Any] | None = None
    prefilter: bool = False
    fast_search: bool = False
    scan_stats_callback: ScanStatsCallback | None = None

    def __post_init__(self) -> None:
        check_counts(self, "limit", "offset", least=0)
        check_counts(self, "batch_size", "batch_size_bytes", "batch_readahead", "io_buffer_bytes")
        check_choice("blob_handling", self.blob_handling, get_args(BlobHandling))
        if self.strict_batch_size and (self.batch_size is None or self.batch_size_bytes):
            raise InvalidInputError(
                "strict_batch_size=True needs batch_size=, and no batch_size_bytes="
            )
        if self.include_deleted_rows and not self.with_row_id:
            raise InvalidInputError("include_deleted_rows=True needs with_row_id=True")
        check_callback("scan_stats_callback", self.scan_stats_callback)
        bound(self.filter, self.params)


def condition_of(options: ScanOptions) -> Condition | None:
    """The filter of a scan with the values of its parameters."""
    return bound(options.filter, options.params)


def checked_defaults(options: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Arguments for all scans of a dataset.

    Raises:
        InvalidInputError: not a mapping, an unknown argument, or a value that no scan takes.
    """
    if not isinstance(options, Mapping | None):
        raise InvalidInputError(
            f"default_scan_options: expected a mapping, found {type(options).__name__}"
        )
    if not options:
        return {}
    defaults = dict(options)
    taken = ["columns", *(field.name for field in fields(ScanOptions))]
    for name in defaults:
        if name not in taken:
            raise InvalidInputError(
                f"default_scan_options: unknown option {name!r}, expected some of "
                f"{', '.join(sorted(taken))}"
            )
    ScanOptions(**{name: value for name, value in defaults.items() if name != "columns"})
    return defaults


def orderings_of(order_by: OrderBy | None) -> tuple[ColumnOrdering, ...]:
    """The columns to sort by, the first one first.

    Raises:
        InvalidInputError: something that is neither a name nor a `ColumnOrdering`.
    """
    if isinstance(order_by, str | ColumnOrdering) or not isinstance(order_by, Iterable | None):
        raise InvalidInputError(
            f"order_by={order_by!r}: expected a list of names and ColumnOrderings"
        )
    return tuple(_ordering(key) for key in order_by or ())


def _ordering(key: str | ColumnOrdering) -> ColumnOrdering:
    if isinstance(key, ColumnOrdering):
        return key
    if not isinstance(key, str):
        raise InvalidInputError(f"order_by: {key!r} is neither a name nor a ColumnOrdering")
    return ColumnOrdering(key.removeprefix("-"), ascending=not key.startswith("-"))
