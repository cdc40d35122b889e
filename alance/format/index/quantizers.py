"""Quantizers of vector indices: codecs of vectors, which also compare them with queries.

  FLAT  vectors, uncompressed
  SQ    each component as one of 256 steps between two bounds
  PQ    each sub-vector as the number of a codebook entry
  RQ    rotated residuals (vector minus centroid) with a few bits per component (RaBitQ)

For PQ, a partition stores codes row by row, or transposed: the codes of the first sub-vector of all
rows, then the codes of the second, and so on. The residual (vector minus centroid) is coded; for
`dot`, the vector itself. In memory, each row also has the part of its distance that does not depend
on the query, so that one lookup table per query serves all partitions.

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.index.codes import (
    BYTE_ORDERS,
    PQ_CODES,
    SIGNS,
    bytes_of_list,
    list_of_bytes,
    untransposed,
)
from alance.format.index.ivf import integer, parse_tensor, tensor_of
from alance.format.index.values import METRICS, TYPES, Vectors, VectorType, values_of
from alance.format.numbers import as_numbers, to_arrow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from alance.base.arrays import Bytes, Float32s, Float64s, Int32s, Int64s
    from alance.format.index.ivf import Centroids, Partition
    from alance.format.proto import vector_index_pb2

    Details = vector_index_pb2.VectorIndexDetails
    Stored = Mapping[str, Any]  # metadata of a quantizer in its file

FLAT_VECTORS: Final = "flat"
SQ_CODES: Final = "__sq_code"
FACTORS: Final = ("__add_factors", "__scale_factors", "__error_factors")
EXTRA_CODES: Final = "__blocked_ex_codes"
EXTRA_FACTORS: Final = ("__add_factors_ex", "__scale_factors_ex")
ESTIMATOR: Final = "raw_query"
ROTATION_ROUNDS: Final = 4
SQ_BITS: Final = 8
# Allowed numbers of bits per code, by kind; the first is the default. FLAT has no codes.
CODE_BITS: Final[Mapping[str, tuple[int, ...]]] = {
    "PQ": (8, 4),
    "SQ": (SQ_BITS,),
    "RQ": (5, 1, 2, 3, 4, 6, 7, 8, 9),
}


@dataclass(frozen=True, slots=True)
class Quantizer(ABC):
    """Codec of the vectors of an index; compares them with queries.

    Attributes:
        KIND: last part of the index type's name, such as PQ.
        VERSION: index version in the index's manifest record.
        is_exact: True if distances are exact, False if they are estimated from codes.
        type: type of the column's vectors.
    """

    KIND: ClassVar[str]
    VERSION: ClassVar[int] = 1
    is_exact: ClassVar = False

    metric: str
    type: VectorType

    @property
    @abstractmethod
    def fields(self) -> tuple[pa.Field, ...]:
        """Columns of `auxiliary.idx` except the row ids."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that a search reads, except the row ids."""
        return tuple(columns_of([field.name for field in self.fields]))

    @property
    def metric_and_scale(self) -> tuple[int, float]:
        """Number of the metric, and the factor for squared distances.

        The factor is 0.5 for cosine, because |a - b|² / 2 = 1 - cos.
        """
        return METRICS.index(self.metric), 0.5 if self.metric == "cosine" else 1.0

    def queries(self, queries: Float64s) -> Float64s:
        """Return queries, normalized for `cosine`, in the form that codes are compared with."""
        return queries

    def check(self, schema: pa.Schema) -> None:
        """Check that a file has the columns that a search reads."""
        types = {field.name: field.type for field in self.fields}
        for name in self.columns:
            arrow = schema.field(name).type
            if _form(arrow) != _form(types[name]):
                raise CorruptFileError(
                    f"vector index: {name} of type {arrow}, expected {types[name]}"
                )

    def prepared(self, partition: Partition, centroid: Float32s) -> Partition:
        """Return a partition with the derived values that `add` needs; the result is cached.

        CPU work.
        """
        return partition

    @abstractmethod
    def add(
        self, nearest: _kernels.Nearest, numbers: Int32s, partition: Partition, mask: Bytes
    ) -> None:
        """Compare the rows of a partition with queries; collect the nearest rows in `nearest`.

        Args:
            numbers: positions in `nearest` of the queries to compare.
            mask: nonzero for eligible rows; empty for all rows.
        """

    def as_written(self) -> Self | None:
        """Return the quantizer with the layout of new files; None if alance cannot write it."""
        return self

    @abstractmethod
    def encode(self, vectors: Vectors, labels: Int64s, centroids: Float32s) -> list[pa.Array]:
        """Encode vectors as columns. CPU work.

        Args:
            labels: number of each vector's centroid; shape (n,).
            centroids: points; shape (k, dimension).
        """

    def laid_out(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Put the columns of a whole partition into the byte order of new files."""
        orders = [BYTE_ORDERS.get(field.name) for field in self.fields]
        return [
            column if order is None else list_of_bytes(order.stored_of(bytes_of_list(column)))
            for order, column in zip(orders, columns, strict=True)
        ]

    def graph_rows(self, columns: Sequence[pa.Array]) -> _kernels.GraphRows:
        """Return the rows of a whole partition for a graph build, from its stored columns.

        Raises:
            UnsupportedError: such codes cannot be compared with each other.
        """
        raise UnsupportedError(f"graphs of {self.KIND} codes: expected FLAT, SQ or PQ")

    @abstractmethod
    def storage(self) -> Stored:
        """Return the storage metadata that readers need."""

    def buffers(self) -> tuple[bytes, ...]:
        """Return the global buffers that `storage` refers to; the first one has number 2."""
        return ()

    @abstractmethod
    def describe(self, details: Details) -> None:
        """Record the kind of codes in the details of the index's record."""


def _form(type_: pa.DataType) -> object:
    """Return what two types of columns have in common if one can be read as the other."""
    vectors = VectorType.of(type_)
    return type_ if vectors is None else (vectors.name, vectors.dim, vectors.is_multi)


@dataclass(frozen=True, slots=True)
class FlatQuantizer(Quantizer):
    """Quantizer of uncompressed vectors."""

    KIND: ClassVar = "FLAT"
    is_exact: ClassVar = True

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(FLAT_VECTORS, self.type.arrow, nullable=False),)

    def add(
        self, nearest: _kernels.Nearest, numbers: Int32s, partition: Partition, mask: Bytes
    ) -> None:
        (values,) = partition.columns
        kind, metric = TYPES[self.type.name], METRICS.index(self.metric)
        rows = partition.ids, mask, values, kind, metric
        _kernels.add_vectors(nearest, numbers, *rows, graph=partition.graph, ef=partition.ef)

    def encode(self, vectors: Vectors, labels: Int64s, centroids: Float32s) -> list[pa.Array]:
        return [vectors.to_arrow(self.type.arrow)]

    def graph_rows(self, columns: Sequence[pa.Array]) -> _kernels.GraphRows:
        values, _ = values_of(columns[0])
        vectors = Vectors(values, self.type.name, self.type.dim, self.metric)
        return _kernels.GraphVectors(values, *vectors.kind)

    def storage(self) -> Stored:
        return {"dim": self.type.dim}

    def describe(self, details: Details) -> None:
        details.flat.SetInParent()


@dataclass(frozen=True, slots=True)
class ScalarQuantizer(Quantizer):
    """Scalar quantization: each component is coded as one of 256 steps between two bounds.

    For `cosine`, these are components of normalized vectors.
    """

    KIND: ClassVar = "SQ"

    low: float
    high: float

    @classmethod
    def parse(cls, centroids: Centroids, storage: Stored, type_: VectorType) -> Self:
        if integer(storage, "num_bits") != SQ_BITS:
            raise UnsupportedError(f"vector index: components of {storage['num_bits']} bits")
        bounds = storage.get("bounds")
        try:
            low, high = float(bounds["start"]), float(bounds["end"])  # type: ignore[index]
        except (TypeError, KeyError, ValueError):
            raise CorruptFileError(f"vector index: bounds {bounds!r}") from None
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise CorruptFileError(f"vector index: bounds {bounds!r}")
        if integer(storage, "dim") != centroids.dim:
            raise CorruptFileError(
                f"vector index: dimension {storage['dim']}, the centroids have {centroids.dim}"
            )
        return cls(centroids.metric, type_, low, high)

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(SQ_CODES, pa.list_(pa.uint8(), self.type.dim)),)

    def add(
        self, nearest: _kernels.Nearest, numbers: Int32s, partition: Partition, mask: Bytes
    ) -> None:
        (codes,) = partition.columns
        rows = partition.ids, mask, codes, self.low, self.high
        graph = partition.graph, partition.ef
        _kernels.add_sq(nearest, numbers, *rows, *self.metric_and_scale, *graph)

    def encode(self, vectors: Vectors, labels: Int64s, centroids: Float32s) -> list[pa.Array]:
        unit = (self.high - self.low) / 255 if self.high > self.low else 1
        steps = vectors.points() - np.float32(self.low)
        steps /= np.float32(unit)
        return [list_of_bytes(np.clip(steps, 0, 255, out=steps).astype(np.uint8))]

    def graph_rows(self, columns: Sequence[pa.Array]) -> _kernels.GraphRows:
        codes, is_dot = as_numbers(columns[0].flatten()), self.metric == "dot"
        return _kernels.GraphBytes(codes, self.type.dim, self.low, self.high, is_dot)

    def storage(self) -> Stored:
        return {
            "dim": self.type.dim,
            "num_bits": SQ_BITS,
            "bounds": {"start": self.low, "end": self.high},
        }

    def describe(self, details: Details) -> None:
        details.sq.num_bits = SQ_BITS


@dataclass(frozen=True)
class ProductQuantizer(Quantizer):
    """Product quantization: each sub-vector is coded as the number of its nearest codebook entry.

    Attributes:
        codebook: shape (parts, 2^bits, dimension / parts), float32.
        origin: any point near the queries and the centroids; shape (dimension,).
        is_transposed: True if partitions store codes by sub-vector instead of by row.
    """

    KIND: ClassVar = "PQ"

    codebook: Float32s
    origin: Float32s
    is_transposed: bool = True

    @classmethod
    def parse(
        cls, centroids: Centroids, storage: Stored, content: memoryview | None, type_: VectorType
    ) -> Self:
        if content is None:
            raise CorruptFileError("vector index: IVF_PQ without the number of its codebook")
        bits, parts = integer(storage, "nbits"), integer(storage, "num_sub_vectors")
        dim = integer(storage, "dimension")
        if bits not in (4, 8):
            raise UnsupportedError(f"vector index: product codes of {bits} bits")
        codebook = parse_tensor(content, 2).astype(np.float32)
        if (
            dim != centroids.dim
            or parts < 1
            or dim % parts
            or (bits == 4 and parts % 2)
            or codebook.shape != (1 << bits, dim)
        ):
            raise CorruptFileError(
                f"vector index: {parts} codes of {bits} bits, a codebook of shape "
                f"{codebook.shape}, centroids of dimension {centroids.dim}"
            )
        by_code, origin = codebook.reshape(parts, 1 << bits, -1), origin_of(centroids.values)
        is_transposed = storage.get("transposed") is True
        return cls(centroids.metric, type_, by_code, origin, is_transposed)

    @property
    def parts(self) -> int:
        """Number of sub-vectors."""
        return len(self.codebook)

    @property
    def bits(self) -> int:
        """Number of bits per code."""
        return int(self.codebook.shape[1]).bit_length() - 1

    @cached_property
    def book(self) -> _kernels.ProductBook:
        """Codebook as a kernel object. CPU work, once."""
        by_component = np.ascontiguousarray(self.codebook.transpose(0, 2, 1)).reshape(-1)
        shape = self.bits, self.parts, self.is_transposed
        return _kernels.ProductBook(by_component, self.origin, *shape, *self.metric_and_scale)

    @cached_property
    def _code_distances(self) -> Float32s:
        """Distances between codebook entries, at most 256 KiB per part. CPU work, once."""
        is_dot = self.metric == "dot"
        return _kernels.code_distances(self.codebook.reshape(-1), self.parts, self.bits, is_dot)

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        width = self.parts * self.bits // 8
        return (pa.field(PQ_CODES, pa.list_(pa.uint8(), width)),)

    def prepared(self, partition: Partition, centroid: Float32s) -> Partition:
        """Add the query-independent part of each row's distance, and the centroid."""
        (codes,) = partition.columns
        return replace(partition, columns=(codes, self.book.terms(codes, centroid), centroid))

    def add(
        self, nearest: _kernels.Nearest, numbers: Int32s, partition: Partition, mask: Bytes
    ) -> None:
        codes, terms, centroid = partition.columns
        rows = partition.ids, mask, codes, terms, centroid
        self.book.add(nearest, numbers, *rows, partition.graph, partition.ef)

    def as_written(self) -> Self:
        return replace(self, is_transposed=True)

    def encode(self, vectors: Vectors, labels: Int64s, centroids: Float32s) -> list[pa.Array]:
        codes = _kernels.encode_pq(
            vectors.values,
            *vectors.kind,
            labels,
            centroids.reshape(-1)[: 0 if self.metric == "dot" else None],
            self.codebook.reshape(-1),
            self.parts,
            self.bits,
        )
        return [list_of_bytes(codes.reshape(-1, self.parts * self.bits // 8))]

    def graph_rows(self, columns: Sequence[pa.Array]) -> _kernels.GraphRows:
        codes = bytes_of_list(*columns)
        if self.is_transposed:
            codes = untransposed(codes)
        distances, shape = self._code_distances, (self.parts, self.bits)
        return _kernels.GraphProducts(codes.reshape(-1), distances, *shape)

    def storage(self) -> Stored:
        return {
            "codebook_position": 2,
            "nbits": self.bits,
            "num_sub_vectors": self.parts,
            "dimension": self.parts * self.codebook.shape[2],
            "codebook_tensor": [],
            "transposed": True,
        }

    def buffers(self) -> tuple[bytes, ...]:
        # The stored shape is (2^bits, dimension), but the values are stored by sub-vector.
        stored = self.codebook.astype(self.type.dtype).reshape(self.codebook.shape[1], -1)
        return (tensor_of(stored).SerializeToString(deterministic=True),)

    def describe(self, details: Details) -> None:
        details.pq.num_bits = self.bits
        details.pq.num_sub_vectors = self.parts


@dataclass(frozen=True, slots=True)
class Rotation:
    """Rotation of vectors by a matrix, or by rounds of random signs and Walsh-Hadamard transforms.

    Attributes:
        signs: signs of each round, 1 or -1, shape (4, dimension); empty for a rotation by a matrix.
        matrix: shape (dimension, dimension); empty for a rotation by signs.
    """

    signs: Float64s
    matrix: Float64s

    @classmethod
    def drawn(cls, dim: int, seed: int) -> Rotation:
        """Draw a rotation by random signs; the same seed gives the same rotation."""
        signs = np.random.default_rng(seed).integers(0, 2, (ROTATION_ROUNDS, dim)) * 2 - 1
        return cls(signs.astype(np.float64), np.empty((0, 0)))

    @classmethod
    def parse(cls, storage: Stored, dim: int, content: memoryview | None) -> Rotation:
        """Parse a stored matrix, or signs: one bit per sign, whole bytes per round."""
        if content is not None:
            matrix = parse_tensor(content, 2).astype(np.float64)
            if matrix.shape != (dim, dim):
                raise CorruptFileError(f"vector index: a rotation of shape {matrix.shape}")
            return cls(np.empty((0, dim)), matrix)
        signs, row_bytes = storage.get("fast_rotation_signs"), (dim + 7) // 8
        try:
            packed = np.frombuffer(bytes(signs), np.uint8)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise CorruptFileError("vector index: signs that are not bytes") from None
        if not isinstance(signs, list) or len(packed) != ROTATION_ROUNDS * row_bytes:
            raise CorruptFileError(f"vector index: {len(packed)} bytes of signs")
        bits = np.unpackbits(packed.reshape(-1, row_bytes), axis=1, bitorder="little")
        return cls((1.0 - 2.0 * bits[:, :dim]).astype(np.float64), np.empty((0, 0)))

    def to_bytes(self) -> list[int]:
        """Return the stored signs, as `parse` reads them."""
        content: list[int] = np.packbits(self.signs < 0, axis=1, bitorder="little").ravel().tolist()
        return content

    def apply(self, vectors: Float64s) -> Float64s:
        """Rotate vectors; shape (n, dimension)."""
        if not len(self.signs):
            turned: Float64s = vectors @ self.matrix.T
            return turned
        flat = np.ascontiguousarray(vectors, np.float64).reshape(-1)
        return _kernels.rotated(flat, self.signs.reshape(-1)).reshape(vectors.shape)


@dataclass(frozen=True, slots=True)
class Rabitq(Quantizer):
    """RaBitQ: a few bits per component of the rotated residual (vector minus centroid).

    Attributes:
        bits: bits per component, of which one is its sign.
        is_packed: True if partitions store signs in blocks of rows.
    """

    KIND: ClassVar = "RQ"
    VERSION: ClassVar = 2

    rotation: Rotation
    bits: int
    is_packed: bool = True

    @classmethod
    def parse(
        cls, centroids: Centroids, storage: Stored, content: memoryview | None, type_: VectorType
    ) -> Self:
        if centroids.has_graphs:
            raise UnsupportedError("vector index of type IVF_HNSW_RQ")
        bits, dim = integer(storage, "num_bits"), integer(storage, "code_dim")
        if storage.get("query_estimator") != ESTIMATOR:
            raise UnsupportedError(f"vector index: estimator {storage.get('query_estimator')!r}")
        if not 1 <= bits <= 9 or dim != centroids.dim or dim % 8:
            raise CorruptFileError(
                f"vector index: {bits} bits of dimension {dim}, the centroids have {centroids.dim}"
            )
        rotation = Rotation.parse(storage, dim, content)
        return cls(centroids.metric, type_, rotation, bits, storage.get("packed") is True)

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        dim, extra = self.type.dim, self.bits - 1
        fields = [(SIGNS, pa.list_(pa.uint8(), dim // 8))]
        fields += [(name, pa.float32()) for name in FACTORS]
        if extra:
            fields.append((EXTRA_CODES, pa.list_(pa.uint8(), extra * -(-dim // 64) * 8)))
            fields += [(name, pa.float32()) for name in EXTRA_FACTORS]
        return tuple(pa.field(name, type_) for name, type_ in fields)

    def queries(self, queries: Float64s) -> Float64s:
        """Rotate queries like the stored vectors."""
        return self.rotation.apply(queries)

    def prepared(self, partition: Partition, centroid: Float32s) -> Partition:
        """Add the rotated centroid."""
        (rotated,) = self.rotation.apply(centroid.astype(np.float64).reshape(1, -1))
        return replace(partition, columns=(*partition.columns, rotated.astype(np.float32)))

    def add(
        self, nearest: _kernels.Nearest, numbers: Int32s, partition: Partition, mask: Bytes
    ) -> None:
        signs, *extra, add, factor, centroid = partition.columns
        codes = extra[0] if extra else np.empty(0, np.uint8)
        rows = partition.ids, mask, signs, self.is_packed, self.bits - 1, codes, add, factor
        _kernels.add_rabitq(nearest, numbers, *rows, centroid, *self.metric_and_scale)

    def as_written(self) -> Self | None:
        return replace(self, is_packed=True) if len(self.rotation.signs) else None

    def encode(self, vectors: Vectors, labels: Int64s, centroids: Float32s) -> list[pa.Array]:
        signs, extra, *factors = _kernels.encode_rabitq(
            vectors.values,
            *vectors.kind,
            labels,
            centroids.reshape(-1),
            self.rotation.signs.astype(np.float32).reshape(-1),
            self.bits - 1,
        )
        count, numbers = len(labels), [to_arrow(values) for values in factors]
        columns = [list_of_bytes(signs.reshape(count, vectors.dim // 8)), *numbers[:3]]
        if self.bits > 1:
            width = self.fields[4].type.list_size
            columns += [list_of_bytes(extra.reshape(count, width)), *numbers[3:]]
        return columns

    def storage(self) -> Stored:
        return {
            "rotate_mat_position": None,
            "fast_rotation_signs": self.rotation.to_bytes(),
            "rotation_type": "fast",
            "code_dim": self.type.dim,
            "num_bits": self.bits,
            "packed": True,
            "query_estimator": ESTIMATOR,
        }

    def describe(self, details: Details) -> None:
        details.rq.num_bits = self.bits


def origin_of(centroids: Float32s) -> Float32s:
    """Return the mean of the finite centroids; zeros if there are none."""
    finite = centroids[np.isfinite(centroids).all(axis=1)]
    return finite.mean(axis=0) if len(finite) else np.zeros(centroids.shape[1], np.float32)


def columns_of(names: Sequence[str]) -> list[str]:
    """Return the columns that a search reads: all except unused RaBitQ factors."""
    unread = FACTORS if EXTRA_FACTORS[0] in names else FACTORS[2:]
    return [name for name in names if name not in unread]


def buffer_of(storage: Stored) -> int | None:
    """Return the number of the global buffer that a quantizer needs; None if it needs none.

    PQ needs its codebook; RaBitQ the matrix of its rotation, unless it rotates by signs.
    """
    if "codebook_position" in storage:
        return integer(storage, "codebook_position")
    if storage.get("rotation_type", "fast") != "fast":
        return integer(storage, "rotate_mat_position")
    return None


def quantizer_of(
    centroids: Centroids, storage: Stored, content: memoryview | None, type_: VectorType
) -> Quantizer:
    """Build the quantizer of an index.

    Args:
        content: content of the global buffer that the quantizer needs; None if it needs none.
        type_: type of the column's vectors.
    """
    if centroids.kind == "PQ":
        return ProductQuantizer.parse(centroids, storage, content, type_)
    if centroids.kind == "SQ":
        return ScalarQuantizer.parse(centroids, storage, type_)
    if centroids.kind == "RQ":
        return Rabitq.parse(centroids, storage, content, type_)
    return FlatQuantizer(centroids.metric, type_)
