"""The arguments of a search, checked: a column, queries, and how to search."""

from __future__ import annotations

import math
import reprlib
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, cast, get_args

import numpy as np
import pyarrow as pa

from alance.checks import MOST, check_choice, check_count, unexpected
from alance.errors import InvalidInputError
from alance.format.index.values import ALIASES, VectorType, not_of_vectors
from alance.ops.read.options import ScanOptions
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pyarrow.compute as pc

    from alance.arrays import Float64s
    from alance.format.field import Field
    from alance.format.schema import Schema
    from alance.ops.version.conditions import Params
    from alance.ops.version.projection import Columns

Metric: TypeAlias = Literal["l2", "cosine", "dot", "hamming"]

DISTANCE: Final = "_distance"
DOC_INDEX: Final = "_doc_index"  # the place of an element in its row's list
QUERY_INDEX: Final = "query_index"
DEFAULT_K: Final = 10
MOST_ROWS: Final = 1 << 31  # of an answer, and all partitions of any index
LISTED: Final = 10  # times k vectors of lists are found by each vector of a query, as in pylance


class SearchArguments(TypedDict, total=False):
    """Keyword arguments of `Dataset.nearest` and `Dataset.nearest_many`.

    Attributes:
        metric: `l2` (squared), `cosine` (1 - cos), `dot` (1 - q·x) or `hamming` (number of
            different bits; uint8 only). None: the index's metric; without an index `l2`, and
            `hamming` for uint8.
        columns: as for `to_table`; `_distance` is added if it is not among them.
        filter: SQL text or a pyarrow expression.
        params: values for the parameters of that text.
        prefilter: True: the nearest among the rows that the filter keeps; False: those of the k
            nearest rows that the filter keeps.
        distance_range: least distance, and upper bound (exclusive); either may be None.
        use_index: False compares with every row.
        nprobes: partitions of the index to search; None: about the square root of their number.
        minimum_nprobes, maximum_nprobes: partitions to search in any case; and partitions to search
            at most, while fewer than k rows are found. `nprobes` sets both.
        refine_factor: multiple of k; so many rows of the index are compared exactly.
        ef: number of candidates on the graphs of HNSW indices; None: 1.5 k; at least k.
        fast_search: leave out rows that no index covers.
        fragments: ids of the fragments to search; None: all.
        use_scalar_index: use indices to find the rows that the filter may keep.
    """

    metric: str | None
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
    """How an index is searched; see `SearchArguments`."""

    use_index: bool = True
    minimum: int | None = None
    maximum: int | None = None
    effort: float | None = None
    refine_factor: int | None = None
    ef: int | None = None

    def partitions(self, total: int) -> tuple[int, int]:
        """Of so many partitions how many are searched in any case, and how many at most."""
        most = total if self.maximum is None else min(total, self.maximum)
        least = self.minimum
        if least is None or self.effort is not None:
            effort = 0.5 if self.effort is None else self.effort
            least = max(least or 1, round(total**effort))
        return min(least, most), most

    @property
    def refined(self) -> int:
        """How many times k rows an index is asked for."""
        return self.refine_factor or 1

    def width(self, k: int) -> int:
        """Rows that are looked for on a graph, of which the k nearest are asked."""
        return max(k, k + k // 2 if self.ef is None else self.ef)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search, checked.

    Attributes:
        path: the column's, as text.
        queries: shape (q, width x dimension), float64.
        dim: numbers of a vector.
        is_multi: rows are lists of vectors, and a query is one or more.
        is_batch: the answer tells the rows of the queries apart by `query_index`.
        metric: None: that of the index.
        lower, upper: the distances kept are at least the one, and below the other.
    """

    path: str
    value_type: str
    queries: Float64s
    dim: int
    is_batch: bool
    k: int
    metric: str | None
    lower: float
    upper: float
    probing: Probing
    fast_search: bool = False
    is_multi: bool = False

    @property
    def width(self) -> int:
        """Vectors of a query."""
        return int(self.queries.shape[1]) // self.dim

    @property
    def num_probed(self) -> int:
        """Rows that an index is asked for, by each vector."""
        return self.k * (LISTED if self.is_multi else self.probing.refined)

    @property
    def vectors(self) -> Float64s:
        """Of all queries; shape (q x width, dimension)."""
        return self.queries.reshape(-1, self.dim)

    @property
    def default_metric(self) -> str:
        """The metric where neither the caller nor an index has one."""
        return "hamming" if self.value_type == "uint8" else "l2"


_NEAREST: Final = (
    "column", "q", "k", "metric", "nprobes", "minimum_nprobes", "maximum_nprobes",
    "refine_factor", "use_index", "ef", "query_parallelism", "approx_mode", "distance_range",
    "search_effort",
)  # fmt: skip


OF_SCANS: Final = ("filter", "params", "fast_search", "fragments", "use_scalar_index")


def scan_arguments(arguments: Mapping[str, Any]) -> tuple[Columns, dict[str, Any], dict[str, Any]]:
    """Of the arguments of a search its columns, the options of its scan, and the others."""
    left = dict(arguments)
    columns = left.pop("columns", None)
    options: dict[str, Any] = {name: left.pop(name) for name in OF_SCANS if name in left}
    options["prefilter"] = left.pop("prefilter", True)
    return columns, options, left


def asked_by(
    column: str, query: object, k: int, arguments: SearchArguments
) -> tuple[Columns, ScanOptions]:
    """The columns and options of a scan that does what `Dataset.nearest` is asked.

    Raises:
        TypeError: an unknown argument.
    """
    columns, options, left = scan_arguments(arguments)
    unknown = set(left) - set(_NEAREST)
    if unknown:
        raise unexpected(unknown, SearchArguments.__annotations__, "nearest: ")
    return columns, ScanOptions(nearest={"column": column, "q": query, "k": k, **left}, **options)


def search_of(
    schema: Schema,
    asked: Mapping[str, Any],
    fast_search: bool = False,
    types: dict[str, VectorType] | None = None,
) -> Search:
    """The search that a mapping with the names of pylance's `nearest` asks for.

    Args:
        types: of the columns that were searched before, where they are remembered.

    Raises:
        InvalidInputError: an unknown name or column, a query of another shape or type than the
            vectors, or with NaN; numbers out of range.
    """
    unknown = set(asked) - set(_NEAREST)
    if unknown:
        raise InvalidInputError(
            f"nearest: unknown {', '.join(map(repr, sorted(unknown)))}; expected some of "
            f"{', '.join(_NEAREST)}"
        )
    column = asked.get("column")
    if not isinstance(column, str):
        raise InvalidInputError(f"nearest: column {reprlib.repr(column)}: expected a name")
    type_ = None if types is None else types.get(column)
    if type_ is None:
        type_ = vector_type(schema.field(column), column)
        if types is not None:
            types[column] = type_
    queries, is_batch = _queries(asked.get("q"), type_.dim, column, is_multi=type_.is_multi)
    metric = _metric(asked.get("metric"), type_.name, queries.reshape(-1, type_.dim))
    lower, upper = _range(asked.get("distance_range"))
    return Search(
        path=column,
        value_type=type_.name,
        queries=queries,
        dim=type_.dim,
        is_batch=is_batch,
        k=_count("k", asked.get("k")) or DEFAULT_K,
        metric=metric,
        lower=lower,
        upper=upper,
        probing=_probing(asked),
        fast_search=fast_search,
        is_multi=type_.is_multi,
    )


def vector_type(field: Field, column: str) -> VectorType:
    """The type of a column's vectors.

    Raises:
        InvalidInputError: no column of vectors.
    """
    type_ = VectorType.of(field.to_arrow().type)
    if type_ is None:
        raise not_of_vectors(column, field.to_arrow().type)
    return type_


def _queries(q: object, dim: int, column: str, *, is_multi: bool) -> tuple[Float64s, bool]:
    """The queries as a matrix, and whether they were given as several.

    A query of a column of lists has one dimension more, or is a single vector.
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
            f"query of shape {values.shape}: column {column!r} has vectors of dimension {dim}"
        )
    if not np.isfinite(values).all():
        raise InvalidInputError(f"query of column {column!r}: NaN or infinite values")
    return np.ascontiguousarray(values.reshape(shape[0], width)), is_batch


def _metric(name: object, value_type: str, queries: Float64s) -> str | None:
    if name is None:
        return None
    metric = ALIASES.get(str(name).lower(), str(name).lower())
    check_choice("metric", metric, get_args(Metric))
    if metric == "hamming" and value_type != "uint8":
        raise InvalidInputError(f"metric='hamming': vectors of {value_type}, expected uint8")
    if metric == "cosine" and not queries.any(axis=1).all():
        raise InvalidInputError("metric='cosine': a query of zeros has no direction")
    return metric


def _range(asked: object) -> tuple[float, float]:
    if asked is None:
        return -math.inf, math.inf
    try:
        low, high = cast("tuple[Any, Any]", asked)
        lower = -math.inf if low is None else float(low)
        upper = math.inf if high is None else float(high)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"distance_range={asked!r}: expected a pair of numbers or None"
        ) from None
    if math.isnan(lower) or math.isnan(upper) or lower > upper:
        raise InvalidInputError(f"distance_range={asked!r}: expected the smaller number first")
    return lower, upper


def _count(name: str, value: object) -> int | None:
    if value is None:
        return None
    check_count(name, value, most=MOST)
    return min(int(value), MOST_ROWS)  # type: ignore[call-overload,no-any-return]  # an integer


def _probing(asked: Mapping[str, Any]) -> Probing:
    nprobes = _count("nprobes", asked.get("nprobes"))
    minimum = _count("minimum_nprobes", asked.get("minimum_nprobes"))
    maximum = _count("maximum_nprobes", asked.get("maximum_nprobes"))
    if nprobes is not None and (minimum is not None or maximum is not None):
        raise InvalidInputError("nprobes beside minimum_nprobes or maximum_nprobes: it is both")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise InvalidInputError(f"minimum_nprobes={minimum} above maximum_nprobes={maximum}")
    effort = asked.get("search_effort")
    if effort is not None and not (isinstance(effort, int | float) and 0 <= effort <= 1):
        raise InvalidInputError(f"search_effort={effort!r}: expected a number from 0 to 1")
    if effort is not None:
        nprobes = None
    return Probing(
        use_index=bool(asked.get("use_index", True)),
        minimum=minimum if nprobes is None else nprobes,
        maximum=maximum if nprobes is None else nprobes,
        effort=effort,
        refine_factor=_count("refine_factor", asked.get("refine_factor")),
        ef=_count("ef", asked.get("ef")),
    )
