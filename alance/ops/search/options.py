"""Checked arguments of a vector search: column, queries, and options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, cast, get_args

import numpy as np
import pyarrow as pa

from alance.base.checks import (
    INT64_MAX,
    check_choice,
    check_count,
    check_type,
    did_you_mean,
    unexpected,
)
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.index.values import METRIC_ALIASES, VectorType, not_of_vectors
from alance.ops.read.options import ScanOptions

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow.compute as pc

    from alance.base.arrays import Float64s
    from alance.format.field import Field
    from alance.format.schema import Schema
    from alance.ops.version.conditions import Params
    from alance.ops.version.projection import Columns

Metric: TypeAlias = Literal["l2", "cosine", "dot", "hamming"]

DISTANCE: Final = "_distance"
DOC_INDEX: Final = "_doc_index"  # position of an element in its row's list
QUERY_INDEX: Final = "query_index"
DEFAULT_K: Final = 10
MAX_RESULT_ROWS: Final = 1 << 31  # limit of counts, above the partitions of any index
LIST_FACTOR: Final = 10  # candidates per vector of a multi-vector query, in multiples of k
SCORE: Final = "_score"


class SearchArguments(TypedDict, total=False):
    """Keyword arguments of `Dataset.nearest` and `Dataset.nearest_many`.

    Attributes:
        metric: `l2` (squared), `cosine` (1 - cos), `dot` (1 - q·x) or `hamming` (number of
            different bits; uint8 only). None for the index's metric; without an index `l2`, or
            `hamming` for uint8.
        columns: as for `to_table`; `_distance` is added if it is missing.
        filter: SQL text or a pyarrow expression.
        params: values for the parameters of the SQL text.
        prefilter: True to search only the rows that pass the filter; False to apply the filter to
            the k nearest rows.
        distance_range: lower bound (inclusive) and upper bound (exclusive) of distances; each may
            be None.
        use_index: False to compare all rows.
        nprobes: number of partitions of the index to search; None for about the square root of
            their number.
        minimum_nprobes, maximum_nprobes: number of partitions to search in any case, and maximum
            number to search until k rows are found. `nprobes` sets both.
        refine_factor: number of rows from the index to compare exactly, in multiples of k; None for
            no exact comparison.
        ef: number of candidates in the graphs of HNSW indices, at least k; None for 1.5 k.
        fast_search: True to omit rows that no index covers.
        fragments: ids of the fragments to search; None for all.
        use_scalar_index: True to use indices to find the rows that may pass the filter.
    """

    metric: Metric | None
    columns: Columns
    filter: str | pc.Expression | None
    params: Params
    prefilter: bool
    distance_range: tuple[float | None, float | None] | None
    use_index: bool
    nprobes: int | None
    minimum_nprobes: int | None
    maximum_nprobes: int | None
    refine_factor: int | None
    ef: int | None
    fast_search: bool
    fragments: Collection[int] | None
    use_scalar_index: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Probing:
    """Options of the search in an index; see `SearchArguments`.

    Attributes:
        effort: exponent e from 0 to 1. Of n partitions, at least n^e and at least `minimum` are
            searched, but at most `maximum`. None: only `minimum` counts, or e = 0.5 if it is None.
    """

    use_index: bool = True
    minimum: int | None = None
    maximum: int | None = None
    effort: float | None = None
    refine_factor: int | None = None
    ef: int | None = None

    def partitions(self, total: int) -> tuple[int, int]:
        """Return the smallest and the largest number of partitions to search, out of `total`."""
        most = total if self.maximum is None else min(total, self.maximum)
        least = self.minimum
        if least is None or self.effort is not None:
            effort = 0.5 if self.effort is None else self.effort
            least = max(least or 1, round(total**effort))
        return min(least, most), most

    @property
    def refined(self) -> int:
        """Number of candidates from an index, in multiples of k."""
        return self.refine_factor or 1

    def width(self, k: int) -> int:
        """Return the number of candidates of a graph search for k rows."""
        return max(k, k + k // 2 if self.ef is None else self.ef)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSearch:
    """A checked vector search.

    Attributes:
        path: path of the column.
        queries: shape (q, width x dimension), float64.
        type: type of the vectors. If rows are lists of vectors, a query has one or more vectors.
        is_batch: True if the caller passed a batch of queries; then the output has `query_index`.
        metric: metric of the distances; None for that of the index.
        lower, upper: bounds with lower <= distance < upper.
    """

    path: str
    type: VectorType
    queries: Float64s
    is_batch: bool
    k: int
    metric: str | None
    lower: float
    upper: float
    probing: Probing
    fast_search: bool = False

    @property
    def width(self) -> int:
        """Number of vectors per query."""
        return int(self.queries.shape[1]) // self.type.dim

    @property
    def num_probed(self) -> int:
        """Number of candidates from an index for each vector of a query."""
        return self.k * (LIST_FACTOR if self.type.is_multi else self.probing.refined)

    @property
    def vectors(self) -> Float64s:
        """Vectors of all queries; shape (q x width, dimension)."""
        return self.queries.reshape(-1, self.type.dim)

    @property
    def default_metric(self) -> str:
        """Metric used if neither the caller nor an index sets one."""
        return "hamming" if self.type.name == "uint8" else "l2"


_NEAREST: Final = (
    "column", "q", "k", "metric", "nprobes", "minimum_nprobes", "maximum_nprobes",
    "refine_factor", "use_index", "ef", "query_parallelism", "approx_mode", "distance_range",
    "search_effort",
)  # fmt: skip


# Defaults, other than None, of the arguments of vector and text searches.
SEARCH_DEFAULTS: Final = {
    "prefilter": True,
    "use_index": True,
    "fast_search": False,
    "use_scalar_index": True,
}
OF_SCANS: Final = ("filter", "params", "fast_search", "fragments", "use_scalar_index")


def scan_arguments(arguments: Mapping[str, Any]) -> tuple[Columns, dict[str, Any], dict[str, Any]]:
    """Split the arguments of a search into columns, scan options, and others."""
    others = dict(arguments)
    columns = others.pop("columns", None)
    options: dict[str, Any] = {name: others.pop(name) for name in OF_SCANS if name in others}
    options["prefilter"] = others.pop("prefilter", SEARCH_DEFAULTS["prefilter"])
    return columns, options, others


def scan_options(
    column: str, query: object, k: int, arguments: SearchArguments
) -> tuple[Columns, ScanOptions]:
    """Return the columns and scan options for a call of `Dataset.nearest`.

    Raises:
        TypeError: an argument is unknown.
    """
    columns, options, own = scan_arguments(arguments)
    unknown = set(own) - set(_NEAREST)
    if unknown:
        raise unexpected(unknown, SearchArguments.__annotations__, "nearest: ")
    return columns, ScanOptions(nearest={"column": column, "q": query, "k": k, **own}, **options)


def search_of(
    schema: Schema,
    arguments: Mapping[str, Any],
    fast_search: bool = False,
    types: dict[str, VectorType] | None = None,
) -> VectorSearch:
    """Check the arguments of `nearest`, named as in pylance, and return the search.

    Args:
        types: memo of the vector types of columns; None for no memo.

    Raises:
        InvalidInputError: a name or column is unknown; the query does not have the vectors' shape
            or is not numeric and finite; a number is out of range.
    """
    check_type(
        "nearest", arguments, Mapping, "a mapping: {'column': 'vector', 'q': [...], 'k': 10}"
    )
    unknown = set(arguments) - set(_NEAREST)
    if unknown:
        raise InvalidInputError(
            f"nearest: unknown {', '.join(map(repr, sorted(unknown)))}; expected some of "
            f"{', '.join(_NEAREST)}{did_you_mean(min(unknown), _NEAREST)}"
        )
    column = arguments.get("column")
    if not isinstance(column, str):
        swapped = "; the column comes before the query" * isinstance(arguments.get("q"), str)
        raise InvalidInputError(
            f"nearest: column: got {type(column).__name__}, expected a name{swapped}"
        )
    type_ = None if types is None else types.get(column)
    if type_ is None:
        type_ = vector_type(schema.field(column), column)
        if types is not None:
            types[column] = type_
    queries, is_batch = _queries(arguments.get("q"), type_.dim, column, is_multi=type_.is_multi)
    metric = _metric(arguments.get("metric"), type_.name, queries.reshape(-1, type_.dim))
    lower, upper = _range(arguments.get("distance_range"))
    return VectorSearch(
        path=column,
        type=type_,
        queries=queries,
        is_batch=is_batch,
        k=_count("k", arguments.get("k")) or DEFAULT_K,
        metric=metric,
        lower=lower,
        upper=upper,
        probing=_probing(arguments),
        fast_search=fast_search,
    )


def vector_type(field: Field, column: str) -> VectorType:
    """Return the type of a column's vectors.

    Raises:
        InvalidInputError: the column does not have vectors.
    """
    type_ = VectorType.of(field.to_arrow().type)
    if type_ is None:
        raise not_of_vectors(column, field.to_arrow().type)
    return type_


def _queries(q: object, dim: int, column: str, *, is_multi: bool) -> tuple[Float64s, bool]:
    """Return the queries as a matrix, and True if the caller passed a batch.

    For a column of lists of vectors, a query is a matrix or a single vector.
    """
    if isinstance(q, pa.ChunkedArray | pa.Array | pa.Scalar):
        q = q.to_pylist() if not isinstance(q, pa.Scalar) else q.as_py()
    try:
        array = np.asarray(q)
        if array.dtype.kind == "c":
            raise TypeError("complex numbers")
        values = np.asarray(array, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"query of column {column!r}: expected numbers ({error})") from None
    is_batch = values.ndim == 2 + is_multi
    shape = values.shape if is_batch else (1, *values.shape)
    width = math.prod(shape[1:])
    if values.ndim not in (1, 2, 2 + is_multi) or shape[-1] != dim or not width:
        raise InvalidInputError(
            f"query of shape {values.shape}: column {column!r} has vectors of dimension {dim}; "
            f"expected {dim} numbers"
        )
    if not np.isfinite(values).all():
        raise InvalidInputError(f"query of column {column!r}: NaN or infinite values")
    return np.ascontiguousarray(values.reshape(shape[0], width)), is_batch


def _metric(name: object, value_type: str, queries: Float64s) -> str | None:
    if name is None:
        return None
    metric = METRIC_ALIASES.get(str(name).lower(), str(name).lower())
    check_choice("metric", metric, get_args(Metric))
    if metric == "hamming" and value_type != "uint8":
        raise InvalidInputError(f"metric='hamming': vectors of {value_type}, expected uint8")
    if metric == "cosine" and not queries.any(axis=1).all():
        raise InvalidInputError("metric='cosine': a query of zeros has no direction")
    return metric


def _range(bounds: object) -> tuple[float, float]:
    if bounds is None:
        return -math.inf, math.inf
    try:
        low, high = cast("tuple[Any, Any]", bounds)
        lower = -math.inf if low is None else float(low)
        upper = math.inf if high is None else float(high)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"distance_range={bounds!r}: expected a pair of numbers or None"
        ) from None
    if math.isnan(lower) or math.isnan(upper) or lower > upper:
        raise InvalidInputError(f"distance_range={bounds!r}: expected the smaller number first")
    return lower, upper


def _count(name: str, value: object) -> int | None:
    if value is None:
        return None
    check_count(name, value, most=INT64_MAX)
    return min(int(value), MAX_RESULT_ROWS)  # type: ignore[call-overload,no-any-return]  # an integer


def _probing(arguments: Mapping[str, Any]) -> Probing:
    nprobes = _count("nprobes", arguments.get("nprobes"))
    minimum = _count("minimum_nprobes", arguments.get("minimum_nprobes"))
    maximum = _count("maximum_nprobes", arguments.get("maximum_nprobes"))
    if nprobes is not None and (minimum is not None or maximum is not None):
        raise InvalidInputError("nprobes beside minimum_nprobes or maximum_nprobes: it is both")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise InvalidInputError(f"minimum_nprobes={minimum} above maximum_nprobes={maximum}")
    effort = arguments.get("search_effort")
    if effort is not None and not (isinstance(effort, int | float) and 0 <= effort <= 1):
        raise InvalidInputError(f"search_effort={effort!r}: expected a number from 0 to 1")
    if effort is not None:
        nprobes = None
    return Probing(
        use_index=bool(arguments.get("use_index", SEARCH_DEFAULTS["use_index"])),
        minimum=minimum if nprobes is None else nprobes,
        maximum=maximum if nprobes is None else nprobes,
        effort=effort,
        refine_factor=_count("refine_factor", arguments.get("refine_factor")),
        ef=_count("ef", arguments.get("ef")),
    )
