"""Options of scans, shared by all methods that scan."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, get_args

from alance.base.checks import (
    check_callback,
    check_choice,
    check_counts,
    list_hint,
    public_arguments,
)
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.ops.version.conditions import bound

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import pyarrow as pa
    import pyarrow.compute as pc

    from alance.ops.read.scan_stats import ScanStatsCallback
    from alance.ops.search.text.query import TextQuery
    from alance.ops.version.conditions import Condition, Params

_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80  # characters of an option's value
BlobHandling: TypeAlias = Literal["all_binary", "blobs_descriptions", "all_descriptions"]
BlobMode: TypeAlias = Literal["lazy", "bytes", "descriptions"]


@public_arguments
@dataclass(frozen=True, slots=True)
class ColumnOrdering:
    """Column to sort by.

    Attributes:
        column_name: name, or path of a struct member.
        ascending: False for descending order. NaN is larger than all numbers.
        nulls_first: True to place nulls before all values, False to place them last; in both
            directions.
    """

    column_name: str
    ascending: bool = True
    nulls_first: bool = False

    def __str__(self) -> str:
        sign = "" if self.ascending else "-"
        return f"{sign}{self.column_name}{' (nulls first)' if self.nulls_first else ''}"


OrderBy: TypeAlias = Sequence[str | ColumnOrdering]


class FragmentScanArguments(TypedDict, total=False):
    """Keyword arguments of a scan of one fragment, which are fields of `ScanOptions`."""

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
    """Keyword arguments of a scan, which are the fields of `ScanOptions`."""

    fragments: Collection[int] | None


class FrameArguments(TypedDict, total=False):
    """Keyword arguments of pyarrow's `Table.to_pandas`; `to_pandas` accepts all of them."""

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
    """Keyword arguments of a fragment's `to_pandas`; see `PandasArguments`."""


class PandasArguments(ScanArguments, FrameArguments, total=False):
    """Keyword arguments of `to_pandas`: the fields of `ScanOptions`, and pyarrow's arguments."""


def split_arguments(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split `PandasArguments` into arguments of the scan and arguments of pyarrow."""
    of_frame = FrameArguments.__annotations__
    scan = {name: value for name, value in arguments.items() if name not in of_frame}
    return scan, {name: value for name, value in arguments.items() if name in of_frame}


@public_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """Options of a scan; each is an argument of `to_table`, `to_batches` and `scanner`.

    Attributes:
        filter: SQL text or a pyarrow expression; only rows for which it is true are returned.
        params: values for each `?` of the text, in order, or a mapping for `:name`.
        limit: maximum number of rows.
        offset: number of rows to skip first, after the filter.
        batch_size: maximum rows of a batch; None for a size that suits the pages (about 64 Ki).
        batch_size_bytes: approximate maximum bytes of a batch; a larger row is a batch by itself.
        strict_batch_size: True if all batches except the last must have `batch_size` rows; short
            batches are joined, which copies them.
        with_row_id: True to add the column `_rowid` (uint64).
        with_row_address: True to add the column `_rowaddr` (uint64): fragment id << 32 | row
            offset.
        scan_in_order: False to return batches as soon as they are ready.
        batch_readahead: number of batches to decode ahead of the consumer; None for one per decode
            thread.
        io_buffer_bytes: bytes to fetch ahead, and to decode at once, at least 1 MiB; None for a
            value that suits the store, at most the session's.
        fragments: ids of the fragments to scan; None for all.
        late_materialization: True to read the filter's columns first, and the other columns only
            for rows that pass the filter; None to do so if that reads fewer bytes.
        include_deleted_rows: True to return deleted rows, too, with a null `_rowid`; needs
            `with_row_id`.
        order_by: columns to sort by, which need not be in the output: `name`, `-name` for
            descending order, or a `ColumnOrdering`. With a `limit`, these columns are scanned, and
            the other columns are taken for the rows of the result. Without one, all rows are in
            memory.
        use_scalar_index: True to use indices to find the rows that may pass a filter.
        use_stats: True to skip rows by statistics of the files, if they have any.
        blob_handling: `blobs_descriptions` returns blob columns as position and size, `all_binary`
            as bytes. (`to_pandas` has `blob_mode`, which returns files.)
        nearest: vector search: returns the rows nearest to a query, with `_distance`, nearest
            first. A mapping with `column`, `q`, `k`, `metric`, ..., named as in pylance. See
            `Dataset.nearest`.
        full_text_query: text search: returns the rows that match a query, with `_score`, best
            first. A text, a `MatchQuery` or another query, or a mapping with `query` and `columns`.
            `limit` is the number of rows. See `Dataset.search_text`.
        prefilter: True to apply the filter before the search, False to apply it to the results.
        fast_search: True to omit rows that the index of a search does not cover; for a scan without
            a search, True to omit fragments that the indices of the filter do not cover.
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


def described(options: ScanOptions) -> list[str]:
    """Return the options that are not defaults as short texts, without values of parameters."""
    changed = {
        field.name: value
        for field in fields(options)
        if (value := getattr(options, field.name)) is not field.default and field.name != "params"
    }
    if isinstance(changed.get("nearest"), Mapping):
        changed["nearest"] = changed["nearest"].get("column")
    return [f"{name}={_SHORT.repr(value)}" for name, value in changed.items()]


def condition_of(options: ScanOptions) -> Condition | None:
    """Return the filter of a scan, with the values of its parameters; None without a filter."""
    return bound(options.filter, options.params)


def checked_defaults(options: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Check the default arguments for all scans of a dataset, and return them.

    Raises:
        InvalidInputError: the options are not a mapping, an argument is unknown, or a value is
            invalid.
    """
    if not isinstance(options, Mapping | None):
        raise InvalidInputError(
            f"default_scan_options: expected a mapping, found {type(options).__name__}"
        )
    if not options:
        return {}
    defaults = dict(options)
    taken = ["columns", *(field.name for field in fields(ScanOptions))]
    if unknown := [name for name in defaults if name not in taken]:
        raise InvalidInputError(
            f"default_scan_options: unknown option {unknown[0]!r}, expected some of "
            f"{', '.join(sorted(taken))}"
        )
    ScanOptions(**{name: value for name, value in defaults.items() if name != "columns"})
    return defaults


def orderings_of(order_by: OrderBy | None) -> tuple[ColumnOrdering, ...]:
    """Return the columns to sort by, in order of precedence.

    Raises:
        InvalidInputError: a key is neither a name nor a `ColumnOrdering`.
    """
    if isinstance(order_by, str | ColumnOrdering) or not isinstance(order_by, Iterable | None):
        raise InvalidInputError(
            f"order_by={order_by!r}: expected a list of names and ColumnOrderings"
            f"{list_hint('order_by', order_by)}"
        )
    return tuple(_ordering(key) for key in order_by or ())


def _ordering(key: str | ColumnOrdering) -> ColumnOrdering:
    if isinstance(key, ColumnOrdering):
        return key
    if not isinstance(key, str):
        raise InvalidInputError(
            f"order_by: {key!r} is neither a name nor a ColumnOrdering; a name with - before it "
            "sorts in descending order: '-price'"
        )
    return ColumnOrdering(key.removeprefix("-"), ascending=not key.startswith("-"))
