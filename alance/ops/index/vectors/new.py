"""A new vector index: its kind, its options, and the checks against a version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict

import numpy as np
import pyarrow as pa

from alance.base.checks import (
    check_choice,
    check_count,
    check_counts,
    did_you_mean,
    public_arguments,
)
from alance.base.records import dataclass
from alance.errors import InvalidInputError, UnsupportedError
from alance.format.field import struct_paths
from alance.format.index.hnsw import DEFAULT_LINKS, MAX_LINKS, Links
from alance.format.index.quantizers import CODE_BITS
from alance.format.index.values import METRIC_ALIASES, METRICS, TYPES, VectorType, not_of_vectors
from alance.ops.index.new import check_name, refuse_reuse
from alance.ops.index.texts.new import TextIndexArguments
from alance.ops.index.values.options import ValueIndexArguments
from alance.ops.index.values.sort import SORT_MEMORY_BYTES
from alance.ops.version.options import CommitArguments

if TYPE_CHECKING:
    from alance.format.field import Field
    from alance.format.proto import table_pb2
    from alance.ops.version.snapshot import Snapshot

VectorIndexKind: TypeAlias = Literal[
    "IVF_FLAT", "IVF_SQ", "IVF_RQ", "IVF_PQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ"
]
WITHOUT_GRAPHS: Final = {"IVF_FLAT": "FLAT", "IVF_PQ": "PQ", "IVF_SQ": "SQ", "IVF_RQ": "RQ"}
WITH_GRAPHS: Final = {"IVF_HNSW_FLAT": "FLAT", "IVF_HNSW_PQ": "PQ", "IVF_HNSW_SQ": "SQ"}
INDEX_TYPES: Final = {**WITHOUT_GRAPHS, **WITH_GRAPHS}
VECTOR_PARTITION_ROWS: Final = 8192
# Relative gain at which the k-means of centroids ends: half as many rounds as 1e-4. With 320
# partitions that costs 0.3 to 1.7 points of recall. With 1 M x 128 in 1000 partitions the recall is
# 0.805 and 0.883 (20 and 50 partitions searched); 1e-4 gives 0.768 and 0.900, and pylance's
# centroids 0.737 and 0.890 (60 queries).
LEAST_TRAINING_GAIN: Final = 5e-4
_LEAST_LINKS: Final = Links(m=2, ef_construction=1, max_level=1)


class VectorIndexArguments(TypedDict, total=False):
    """Keyword arguments of `Dataset.create_index` for vectors; see `VectorIndexOptions`."""

    num_partitions: int | None
    target_partition_size: int | None
    num_sub_vectors: int | None
    num_bits: int | None
    sample_rate: int
    max_iters: int
    min_gain: float
    ivf_centroids: object | None
    pq_codebook: object | None
    memory_bytes: int
    m: int
    ef_construction: int
    max_level: int


@public_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class VectorIndexOptions:
    """Options of training and building a vector index.

    Attributes:
        num_partitions: number of partitions; default: one per `target_partition_size` rows.
        target_partition_size: approximate number of rows per partition; default: 8192.
        num_sub_vectors: number of sub-vectors, each with a code (IVF_PQ); default: a 16th of the
            dimension if that is a whole number, else an 8th.
        num_bits: bits per code: 8 or 4 for IVF_PQ (default 8), 1 to 9 for IVF_RQ (default 5), 8 for
            IVF_SQ.
        sample_rate: number of sampled vectors per partition and per codebook entry.
        max_iters: maximum number of k-means rounds.
        min_gain: relative decrease of the mean distance from the centroids below which k-means
            stops; 0 runs until the distance no longer falls. docs/indices.md has measurements.
        ivf_centroids: centroids to use instead of training; shape (partitions, dimension).
        pq_codebook: codebook to use instead of training; shape (num_sub_vectors, 2^num_bits, width
            of a sub-vector). As in pylance, the same values in the same order may also be passed in
            the shape (2^num_bits, dimension).
        memory_bytes: approximate bytes of codes sorted in memory, and of the sample; further codes
            are spilled to the local disk.
        m: number of links per row in a graph (IVF_HNSW_*); the lowest level has twice as many.
        ef_construction: number of nearest candidates from which links are chosen.
        max_level: maximum number of levels of a graph.
    """

    num_partitions: int | None = None
    target_partition_size: int | None = None
    num_sub_vectors: int | None = None
    num_bits: int | None = None
    sample_rate: int = 256
    max_iters: int = 50
    min_gain: float = LEAST_TRAINING_GAIN
    ivf_centroids: object | None = None
    pq_codebook: object | None = None
    memory_bytes: int = SORT_MEMORY_BYTES
    m: int = DEFAULT_LINKS.m
    ef_construction: int = DEFAULT_LINKS.ef_construction
    max_level: int = DEFAULT_LINKS.max_level

    def __post_init__(self) -> None:
        check_counts(self, "num_partitions", "target_partition_size", "num_sub_vectors", "num_bits")
        for name, least in (("sample_rate", 2), ("max_iters", 1), ("memory_bytes", 1 << 20)):
            check_count(name, getattr(self, name), least)
        gain = self.min_gain
        if type(gain) not in (int, float) or not 0 <= gain < 1:
            raise InvalidInputError(f"min_gain={gain!r}: expected a share from 0 to below 1")
        if self.num_partitions is not None and self.target_partition_size is not None:
            raise InvalidInputError(
                "num_partitions and target_partition_size: expected one of both"
            )
        for name, least, most in zip(Links._fields, _LEAST_LINKS, MAX_LINKS, strict=True):
            check_count(name, getattr(self, name), least, most)


@dataclass(frozen=True, slots=True)
class NewVectorIndex:
    """Description of a vector index to create."""

    column: str
    kind: str
    name: str | None
    metric: str
    replace: bool
    options: VectorIndexOptions


@dataclass(frozen=True, slots=True)
class CheckedVectors:
    """A new vector index, checked against a version.

    Attributes:
        type: type of the vectors.
        kind: kind of codes: FLAT, PQ, SQ or RQ.
        has_graphs: True if the rows of each partition are linked in a graph.
        old: segments that it replaces.
    """

    column: str
    leaf: Field
    type: VectorType
    name: str
    kind: str
    has_graphs: bool
    metric: str
    options: VectorIndexOptions
    old: tuple[table_pb2.IndexMetadata, ...] = ()

    @property
    def index_type(self) -> str:
        """Name of the kind without graphs, such as `IVF_PQ`, as in `IndexPart.kind`."""
        return f"IVF_{self.kind}"

    @property
    def dim(self) -> int:
        """Dimension of a vector."""
        return self.type.dim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers in centroids and codebooks."""
        return self.type.dtype

    @property
    def links(self) -> Links | None:
        """Options of the graphs; None without graphs."""
        options = self.options
        if not self.has_graphs:
            return None
        return Links(options.m, options.ef_construction, options.max_level)

    @property
    def num_sub_vectors(self) -> int:
        """Number of sub-vectors, each with a code."""
        count = self.options.num_sub_vectors
        return count or self.dim // (16 if self.dim % 16 == 0 else 8)

    @property
    def num_bits(self) -> int:
        """Bits of a code; 0 if vectors are stored as they are."""
        return self.options.num_bits or CODE_BITS.get(self.kind, (0,))[0]


def _hint(new: NewVectorIndex, type_name: str) -> str:
    """Return a hint for an unknown type: the call for scalar indices, or similar names of types."""
    from alance.ops.index.values.options import KINDS_IN_ERRORS

    if isinstance(new.column, str) and new.column.upper() in (*INDEX_TYPES, "INVERTED"):
        return f"; the column comes first: create_index({new.kind!r}, {new.column!r})"
    scalar = [*(kind.index_type for kind in KINDS_IN_ERRORS), "JSON"]
    if type_name in scalar:
        column = repr(new.column) if isinstance(new.column, str) else "column"
        return f": write create_scalar_index({column}, {type_name!r})"
    return did_you_mean(type_name, [*INDEX_TYPES, "INVERTED", *scalar])


def check_new_vectors(base: Snapshot, new: NewVectorIndex) -> CheckedVectors:
    """Check that a version can have a new vector index; return the index with its vectors' type.

    Raises:
        UnsupportedError: an unknown type of index, or a table with a fragment-reuse index.
        InvalidInputError: an unknown column, a column without vectors, or options that do not fit
            the column.
        AlreadyExistsError: the name is in use.
    """
    type_name = new.kind.upper() if isinstance(new.kind, str) else ""
    kind = INDEX_TYPES.get(type_name)
    if kind is None:
        raise UnsupportedError(
            f"index of type {new.kind!r}: not written by this alance, expected "
            f"{', '.join(INDEX_TYPES)}, or INVERTED for texts; "
            f"create_scalar_index builds the other types{_hint(new, type_name)}"
        )
    metric = str(new.metric).lower()
    metric = METRIC_ALIASES.get(metric, metric)
    check_choice("metric", metric, METRICS)
    refuse_reuse(base)
    column = base.schema.in_this_case(new.column)
    leaf = base.schema.field(column)
    if leaf.id not in struct_paths(base.schema.fields):
        raise InvalidInputError(f"column {column!r}: in a list, expected one value a row")
    type_ = _checked_type(column, leaf.to_arrow().type, type_name, metric)
    name, old = check_name(base, new.name, column, leaf, replace=new.replace)
    has_graphs = type_name in WITH_GRAPHS
    checked = CheckedVectors(column, leaf, type_, name, kind, has_graphs, metric, new.options, old)
    _check_codes(checked)
    return checked


def _checked_type(column: str, arrow: pa.DataType, kind: str, metric: str) -> VectorType:
    type_ = VectorType.of(arrow)
    if type_ is None:
        raise not_of_vectors(column, arrow)
    is_bits = metric == "hamming"
    if is_bits and kind != "IVF_FLAT":
        raise InvalidInputError(f"metric='hamming': expected IVF_FLAT, not {kind}")
    if is_bits != (type_.name == "uint8"):
        expected = [name for name in TYPES if is_bits == (name == "uint8")]
        raise InvalidInputError(
            f"column {column!r} of type {arrow}: metric {metric!r} is of vectors of "
            f"{' or '.join(expected)}"
        )
    if type_.is_multi and metric != "cosine":
        raise InvalidInputError(
            f"column {column!r} of type {arrow}: indices of lists of vectors are by cosine, "
            f"not {metric}"
        )
    return type_


def _check_codes(checked: CheckedVectors) -> None:
    kind, bits, dim = checked.kind, checked.options.num_bits, checked.dim
    widths = CODE_BITS.get(kind, ())
    if bits is not None and bits not in widths:
        expected = " or ".join(map(str, sorted(widths))) or "none"
        raise InvalidInputError(f"num_bits={bits}: of IVF_{kind} expected {expected}")
    if kind == "RQ" and dim % 8:
        raise InvalidInputError(f"IVF_RQ: vectors have {dim} numbers, expected a multiple of 8")
    parts = checked.num_sub_vectors
    if kind == "PQ" and (parts < 1 or dim % parts):
        raise InvalidInputError(
            f"num_sub_vectors={parts}: vectors have {dim} numbers, expected a divisor"
        )
    if kind == "PQ" and bits == 4 and parts % 2:
        raise InvalidInputError(f"num_sub_vectors={parts}: expected an even number of 4-bit codes")


def numbers_of_shape(
    values: object, shape: tuple[int | None, ...], what: str
) -> np.ndarray[Any, Any]:
    """Convert the caller's values to an array and check its shape.

    Args:
        shape: expected shape; None for any length.
        what: name of the argument, for the error message.

    Raises:
        InvalidInputError: the array has another shape, or values that are not finite numbers.
    """
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if isinstance(values, pa.FixedSizeListArray):
        width = values.type.list_size
        values = values.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    array = np.asarray(values)
    fits = len(shape) == array.ndim and all(
        size in (None, length) for size, length in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        expected = " x ".join("n" if size is None else str(size) for size in shape)
        raise InvalidInputError(
            f"{what}: expected finite numbers of shape {expected}, not "
            f"{array.dtype} of {array.shape}"
        )
    return array


class IndexArguments(VectorIndexArguments, TextIndexArguments, total=False):
    """Keyword arguments of `Dataset.create_index`, for vectors or for texts."""


class ScalarIndexArguments(ValueIndexArguments, TextIndexArguments, CommitArguments, total=False):
    """Keyword arguments of `Dataset.create_scalar_index`: commit, values and texts."""
