"""Quantizers of vector indices: codecs of stored vectors, which compare them with queries.

  FLAT  vectors, uncompressed
  SQ    each component as one of 256 steps between two bounds
  PQ    each sub-vector as the number of a codebook entry
  RQ    rotated residuals (vector minus centroid) with a few bits per component (RaBitQ)

For PQ, a partition stores codes row by row, or transposed: the codes of the first sub-vector of all
rows, then the codes of the second, and so on. The residual (vector minus centroid) is coded; for
`dot`, the vector itself. In memory, each row also has the part of its distance that does not depend
on the query, so that one lookup table per query serves all partitions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.index.ivf import integer, parse_tensor
from alance.format.index.values import METRICS, NUMBER_WIDTHS, TYPES, VectorType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.base.arrays import Bytes, Float32s, Float64s, Int32s
    from alance.format.index.ivf import Centroids, Partition

FLAT_VECTORS: Final = "flat"
SQ_CODES: Final = "__sq_code"
PQ_CODES: Final = "__pq_code"
SIGNS: Final = "_rabit_codes"
FACTORS: Final = ("__add_factors", "__scale_factors", "__error_factors")
EXTRA_CODES: Final = "__blocked_ex_codes"
EXTRA_FACTORS: Final = ("__add_factors_ex", "__scale_factors_ex")
ESTIMATOR: Final = "raw_query"
ROTATION_ROUNDS: Final = 4


class Quantizer(ABC):
    """Codec of an index's stored vectors; compares them with queries.

    Attributes:
        is_exact: True if distances are exact, False if they are estimated from codes.
    """

    __slots__ = ()

    is_exact: ClassVar = False

    @property
    @abstractmethod
    def widths(self) -> Mapping[str, int]:
        """Bytes per row of each column of codes; 0 for factors, which are float32."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of `auxiliary.idx` except the row ids."""
        return tuple(self.widths)

    def queries(self, queries: Float64s) -> Float64s:
        """Return queries, normalized for `cosine`, in the form that codes are compared with."""
        return queries

    def check(self, schema: pa.Schema) -> None:
        """Check that a file has the columns of this quantizer."""
        for name, width in self.widths.items():
            arrow = schema.field(name).type
            is_list = pa.types.is_fixed_size_list(arrow)
            if width and (
                not is_list or (arrow.value_type, arrow.list_size) != (pa.uint8(), width)
            ):
                raise CorruptFileError(
                    f"vector index: codes of type {arrow}, expected {width} bytes a row"
                )
            if not width and arrow != pa.float32():
                raise CorruptFileError(f"vector index: {name} of type {arrow}")

    def prepared(self, partition: Partition) -> Partition:
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


@dataclass(frozen=True, slots=True)
class FlatQuantizer(Quantizer):
    """Quantizer of uncompressed vectors."""

    is_exact: ClassVar = True

    metric: str
    dim: int
    value_type: str

    @property
    def widths(self) -> Mapping[str, int]:
        return {FLAT_VECTORS: self.dim * NUMBER_WIDTHS[self.value_type]}

    def check(self, schema: pa.Schema) -> None:
        arrow = schema.field(FLAT_VECTORS).type
        type_ = VectorType.of(arrow)
        if type_ is None or (type_.name, type_.dim) != (self.value_type, self.dim):
            raise CorruptFileError(f"vector index: vectors of type {arrow}")

    def add(
        self, nearest: _kernels.Nearest, numbers: Int32s, partition: Partition, mask: Bytes
    ) -> None:
        (values,) = partition.columns
        kind, metric = TYPES[self.value_type], METRICS.index(self.metric)
        rows = partition.ids, mask, values, kind, metric
        _kernels.add_vectors(nearest, numbers, *rows, graph=partition.graph, ef=partition.ef)


@dataclass(frozen=True, slots=True)
class ScalarQuantizer(Quantizer):
    """Bounds of the components; for `cosine`, of the components of normalized vectors."""

    metric: str
    dim: int
    low: float
    high: float

    @classmethod
    def parse(cls, centroids: Centroids, storage: Mapping[str, Any]) -> ScalarQuantizer:
        if integer(storage, "num_bits") != 8:
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
        return cls(centroids.metric, centroids.dim, low, high)

    @property
    def widths(self) -> Mapping[str, int]:
        return {SQ_CODES: self.dim}

    def add(
        self, nearest: _kernels.Nearest, numbers: Int32s, partition: Partition, mask: Bytes
    ) -> None:
        (codes,) = partition.columns
        rows = partition.ids, mask, codes, self.low, self.high
        metric, scale = METRICS.index(self.metric), scale_of(self.metric)
        _kernels.add_sq(nearest, numbers, *rows, metric, scale, partition.graph, partition.ef)


@dataclass(frozen=True, slots=True)
class ProductQuantizer(Quantizer):
    """Codebook of an index, and the layout of its codes.

    Attributes:
        codebook: entries of all sub-vectors, flattened from shape (parts, dimension / parts,
            2^bits).
        book: the codebook as a kernel object.
        bits: number of bits per code.
        parts: number of sub-vectors.
        is_transposed: True if partitions store codes by sub-vector instead of by row.
    """

    centroids: Centroids
    codebook: Float32s
    book: _kernels.ProductBook
    bits: int
    parts: int
    is_transposed: bool

    @classmethod
    def parse(
        cls, centroids: Centroids, storage: Mapping[str, Any], content: memoryview
    ) -> ProductQuantizer:
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
        by_code = codebook.reshape(parts, 1 << bits, dim // parts)
        by_component = np.ascontiguousarray(by_code.transpose(0, 2, 1)).reshape(-1)
        is_transposed = storage.get("transposed") is True
        finite = centroids.values[np.isfinite(centroids.values).all(axis=1)]
        origin = finite.mean(axis=0) if len(finite) else np.zeros(dim, np.float32)
        metric = METRICS.index(centroids.metric)
        book = _kernels.ProductBook(
            by_component, origin, bits, parts, is_transposed, metric, scale_of(centroids.metric)
        )
        return cls(centroids, by_component, book, bits, parts, is_transposed)

    @property
    def widths(self) -> Mapping[str, int]:
        return {PQ_CODES: self.parts * self.bits // 8}

    def prepared(self, partition: Partition) -> Partition:
        """Add the query-independent part of each row's distance."""
        (codes,) = partition.columns
        terms = self.book.terms(codes, self.centroids.values[partition.number])
        return replace(partition, columns=(codes, terms))

    def add(
        self, nearest: _kernels.Nearest, numbers: Int32s, partition: Partition, mask: Bytes
    ) -> None:
        codes, terms = partition.columns
        rows = partition.ids, mask, codes, terms, self.centroids.values[partition.number]
        self.book.add(nearest, numbers, *rows, partition.graph, partition.ef)


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
    def parse(cls, storage: Mapping[str, Any], dim: int, content: memoryview | None) -> Rotation:
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
    """Rotation and rotated centroids of an index."""

    metric: str
    rotation: Rotation
    centroids: Float32s
    extra: int  # bits per component in addition to its sign
    is_packed: bool

    @classmethod
    def parse(
        cls, centroids: Centroids, storage: Mapping[str, Any], content: memoryview | None
    ) -> Rabitq:
        bits, dim = integer(storage, "num_bits"), integer(storage, "code_dim")
        if storage.get("query_estimator") != ESTIMATOR:
            raise UnsupportedError(f"vector index: estimator {storage.get('query_estimator')!r}")
        if not 1 <= bits <= 9 or dim != centroids.dim or dim % 8:
            raise CorruptFileError(
                f"vector index: {bits} bits of dimension {dim}, the centroids have {centroids.dim}"
            )
        rotation = Rotation.parse(storage, dim, content)
        rotated = rotation.apply(centroids.values.astype(np.float64))
        centres = np.ascontiguousarray(rotated, np.float32)
        return cls(centroids.metric, rotation, centres, bits - 1, storage.get("packed") is True)

    @property
    def widths(self) -> Mapping[str, int]:
        dim = self.centroids.shape[1]
        if not self.extra:
            return {SIGNS: dim // 8, **dict.fromkeys(FACTORS[:2], 0)}
        extra_bytes = self.extra * ((dim + 63) // 64) * 8
        return {SIGNS: dim // 8, **dict.fromkeys(EXTRA_FACTORS, 0), EXTRA_CODES: extra_bytes}

    def queries(self, queries: Float64s) -> Float64s:
        """Rotate queries like the stored vectors."""
        return self.rotation.apply(queries)

    def add(
        self, nearest: _kernels.Nearest, numbers: Int32s, partition: Partition, mask: Bytes
    ) -> None:
        signs, add, factor, *extra = partition.columns
        codes = extra[0] if extra else np.empty(0, np.uint8)
        rows = partition.ids, mask, signs, self.is_packed, self.extra, codes, add, factor
        centroid = self.centroids[partition.number]
        metric, scale = METRICS.index(self.metric), scale_of(self.metric)
        _kernels.add_rabitq(nearest, numbers, *rows, centroid, metric, scale)


def scale_of(metric: str) -> float:
    """Return the factor for squared distances: 0.5 for cosine, because |a - b|² / 2 = 1 - cos."""
    return 0.5 if metric == "cosine" else 1.0


def columns_of(names: Sequence[str]) -> list[str]:
    """Return the columns that a search reads: all except unused RaBitQ factors."""
    unread = {*FACTORS[2:]}
    if EXTRA_FACTORS[0] in names:
        unread |= {*FACTORS}
    return [name for name in names if name not in unread]


def buffer_of(kind: str, storage: Mapping[str, Any]) -> int | None:
    """Return the number of the global buffer that a quantizer needs; None if it needs none.

    PQ needs its codebook; RaBitQ the matrix of its rotation, unless it rotates by signs.
    """
    if kind == "PQ":
        return integer(storage, "codebook_position")
    if kind == "RQ" and storage.get("rotation_type", "matrix") != "fast":
        return integer(storage, "rotate_mat_position")
    return None


def quantizer_of(
    centroids: Centroids, storage: Mapping[str, Any], content: memoryview | None, value_type: str
) -> Quantizer:
    """Build the quantizer of an index.

    Args:
        content: content of the global buffer that the quantizer needs; None if it needs none.
        value_type: type of the column's values, a key of `values.TYPES`.
    """
    if centroids.kind == "PQ":
        if content is None:
            raise CorruptFileError("vector index: IVF_PQ without the number of its codebook")
        return ProductQuantizer.parse(centroids, storage, content)
    if centroids.kind == "SQ":
        return ScalarQuantizer.parse(centroids, storage)
    if centroids.kind == "RQ":
        if centroids.has_graphs:
            raise UnsupportedError("vector index of type IVF_HNSW_RQ")
        return Rabitq.parse(centroids, storage, content)
    return FlatQuantizer(centroids.metric, centroids.dim, value_type)
