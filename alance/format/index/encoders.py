"""Encoders of the vectors of a new index: uncompressed, or as quantizer codes.

A partition stores PQ codes by column, and RaBitQ signs in blocks of 32 rows. In these orders, only
whole partitions can be decoded, not single rows.

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.format.index.ivf import tensor_of
from alance.format.index.quantizers import (
    ESTIMATOR,
    EXTRA_CODES,
    EXTRA_FACTORS,
    FACTORS,
    FLAT_VECTORS,
    PQ_CODES,
    SIGNS,
    SQ_CODES,
    FlatQuantizer,
    ProductQuantizer,
    Rabitq,
    Rotation,
    ScalarQuantizer,
)
from alance.format.index.values import Vectors, values_of
from alance.format.numbers import as_numbers, to_arrow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.base.arrays import Bytes, Float32s, Int64s
    from alance.format.index.quantizers import Quantizer
    from alance.format.index.values import VectorType
    from alance.format.proto import vector_index_pb2

    Details = vector_index_pb2.VectorIndexDetails

SQ_BITS: Final = 8
# Allowed numbers of bits per code, by kind; the first is the default. FLAT has no codes.
CODE_BITS: Final[Mapping[str, tuple[int, ...]]] = {
    "PQ": (8, 4),
    "SQ": (SQ_BITS,),
    "RQ": (5, 1, 2, 3, 4, 6, 7, 8, 9),
}
BLOCK_ROWS: Final = 32
# Rows of the first half of a block, in stored order. Row r shares each byte with row r + 16: r has
# the low nibble.
_PAIRED: Final = np.array([0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15])


class Encoder(ABC):
    """Encoder of the vectors of an index.

    Attributes:
        KIND: last part of the index type's name, such as PQ.
        VERSION: index version in the index's manifest record.
    """

    __slots__ = ()

    KIND: ClassVar[str]
    VERSION: ClassVar[int] = 1

    @property
    @abstractmethod
    def fields(self) -> tuple[pa.Field, ...]:
        """Columns of the codes."""

    @abstractmethod
    def encode(self, vectors: Vectors, labels: Int64s, centroids: Float32s) -> list[pa.Array]:
        """Encode vectors as columns. CPU work.

        Args:
            labels: number of each vector's centroid; shape (n,).
            centroids: points; shape (k, dimension).
        """

    def laid_out(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Put the columns of a whole partition into stored byte order."""
        return list(columns)

    @abstractmethod
    def storage(self) -> Mapping[str, Any]:
        """Return the storage metadata that readers need."""

    def buffers(self) -> tuple[bytes, ...]:
        """Return the global buffers that `storage` refers to; the first one has number 2."""
        return ()

    @abstractmethod
    def describe(self, details: Details) -> None:
        """Record the kind of codes in the details of the index's record."""


class LinkableEncoder(Encoder):
    """Encoder whose codes can be compared with each other, as a graph build needs."""

    __slots__ = ()

    @abstractmethod
    def graph_rows(self, columns: Sequence[pa.Array], metric: str) -> _kernels.GraphRows:
        """Return the rows of a whole partition for a graph build, from its stored columns."""


def list_of_bytes(codes: Bytes) -> pa.Array:
    """Return bytes of shape (n, width) as fixed-size lists."""
    type_ = pa.list_(pa.uint8(), codes.shape[1])
    return pa.FixedSizeListArray.from_arrays(to_arrow(codes.reshape(-1)), type=type_)


def bytes_of_list(column: pa.Array) -> Bytes:
    """Return fixed-size lists as bytes of shape (n, width): the inverse of `list_of_bytes`."""
    return as_numbers(column.flatten()).reshape(len(column), -1)


@dataclass(frozen=True, slots=True)
class FlatEncoder(LinkableEncoder):
    """Encoder of uncompressed vectors."""

    KIND: ClassVar = "FLAT"

    type: VectorType

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(FLAT_VECTORS, self.type.arrow, nullable=False),)

    def encode(self, vectors: Vectors, labels: Int64s, centroids: Float32s) -> list[pa.Array]:
        return [vectors.to_arrow(self.type.arrow)]

    def graph_rows(self, columns: Sequence[pa.Array], metric: str) -> _kernels.GraphRows:
        values, _ = values_of(columns[0])
        vectors = Vectors(values, self.type.name, self.type.dim, metric)
        return _kernels.GraphVectors(values, *vectors.kind)

    def storage(self) -> Mapping[str, Any]:
        return {"dim": self.type.dim}

    def describe(self, details: Details) -> None:
        details.flat.SetInParent()


@dataclass(frozen=True, slots=True)
class ScalarEncoder(LinkableEncoder):
    """Scalar quantization: each component is coded as one of 256 steps between two bounds."""

    KIND: ClassVar = "SQ"

    dim: int
    low: float
    high: float

    @classmethod
    def trained(cls, points: Float32s) -> ScalarEncoder:
        """Return an encoder whose bounds are the smallest and largest component of a sample."""
        return cls(points.shape[1], float(points.min()), float(points.max()))

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(SQ_CODES, pa.list_(pa.uint8(), self.dim)),)

    def encode(self, vectors: Vectors, labels: Int64s, centroids: Float32s) -> list[pa.Array]:
        codes = _kernels.encode_sq(vectors.values, *vectors.kind, self.low, self.high)
        return [list_of_bytes(codes.reshape(-1, self.dim))]

    def graph_rows(self, columns: Sequence[pa.Array], metric: str) -> _kernels.GraphRows:
        codes = as_numbers(columns[0].flatten())
        return _kernels.GraphBytes(codes, self.dim, self.low, self.high, metric == "dot")

    def storage(self) -> Mapping[str, Any]:
        return {
            "dim": self.dim,
            "num_bits": SQ_BITS,
            "bounds": {"start": self.low, "end": self.high},
        }

    def describe(self, details: Details) -> None:
        details.sq.num_bits = SQ_BITS


@dataclass(frozen=True, slots=True)
class ProductEncoder(LinkableEncoder):
    """Product quantization: each sub-vector is coded as the number of its nearest codebook entry.

    Attributes:
        codebook: shape (parts, 2^bits, dimension / parts), float32.
        dtype: type of the stored codebook: the type of the column's numbers.
        of_residuals: True to encode the residual (vector minus centroid); False only for `dot`.
        is_transposed: True if `graph_rows` gets codes by sub-vector, as `laid_out` returns them;
            False for codes by row, as in some existing indices.
    """

    KIND: ClassVar = "PQ"

    codebook: Float32s
    dtype: np.dtype[Any]
    of_residuals: bool
    is_transposed: bool = True

    @property
    def parts(self) -> int:
        """Number of sub-vectors."""
        return len(self.codebook)

    @property
    def bits(self) -> int:
        """Number of bits per code."""
        return int(self.codebook.shape[1]).bit_length() - 1

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        width = self.parts * self.bits // 8
        return (pa.field(PQ_CODES, pa.list_(pa.uint8(), width)),)

    def encode(self, vectors: Vectors, labels: Int64s, centroids: Float32s) -> list[pa.Array]:
        codes = _kernels.encode_pq(
            vectors.values,
            *vectors.kind,
            labels,
            centroids.reshape(-1) if self.of_residuals else centroids.reshape(-1)[:0],
            self.codebook.reshape(-1),
            self.parts,
            self.bits,
        )
        return [list_of_bytes(codes.reshape(-1, self.parts * self.bits // 8))]

    def laid_out(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        return [list_of_bytes(transposed(bytes_of_list(*columns)))]

    def graph_rows(self, columns: Sequence[pa.Array], metric: str) -> _kernels.GraphRows:
        codes = bytes_of_list(*columns)
        if self.is_transposed:
            codes = untransposed(codes)
        codebook, shape = self.codebook.reshape(-1), (self.parts, self.bits)
        return _kernels.GraphProducts(codes.reshape(-1), codebook, *shape, metric == "dot")

    def storage(self) -> Mapping[str, Any]:
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
        stored = self.codebook.astype(self.dtype).reshape(self.codebook.shape[1], -1)
        return (tensor_of(stored).SerializeToString(deterministic=True),)

    def describe(self, details: Details) -> None:
        details.pq.num_bits = self.bits
        details.pq.num_sub_vectors = self.parts


@dataclass(frozen=True, slots=True)
class RabitqEncoder(Encoder):
    """RaBitQ: a few bits per component of the rotated residual (vector minus centroid)."""

    KIND: ClassVar = "RQ"
    VERSION: ClassVar = 2

    rotation: Rotation
    bits: int

    @classmethod
    def drawn(cls, dim: int, bits: int, seed: int) -> RabitqEncoder:
        """Return an encoder with a random rotation; RaBitQ needs no training."""
        return cls(Rotation.drawn(dim, seed), bits)

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        dim, extra = self.rotation.signs.shape[1], self.bits - 1
        fields = [(SIGNS, pa.list_(pa.uint8(), dim // 8))]
        fields += [(name, pa.float32()) for name in FACTORS]
        if extra:
            fields.append((EXTRA_CODES, pa.list_(pa.uint8(), extra * -(-dim // 64) * 8)))
            fields += [(name, pa.float32()) for name in EXTRA_FACTORS]
        return tuple(pa.field(name, type_) for name, type_ in fields)

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

    def laid_out(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        signs, *others = columns
        return [list_of_bytes(packed_signs(bytes_of_list(signs))), *others]

    def storage(self) -> Mapping[str, Any]:
        return {
            "rotate_mat_position": None,
            "fast_rotation_signs": self.rotation.to_bytes(),
            "rotation_type": "fast",
            "code_dim": self.rotation.signs.shape[1],
            "num_bits": self.bits,
            "packed": True,
            "query_estimator": ESTIMATOR,
        }

    def describe(self, details: Details) -> None:
        details.rq.num_bits = self.bits


def transposed(codes: Bytes) -> Bytes:
    """Return codes of shape (n, m) by column: in the same shape, with the bytes of shape (m, n)."""
    return np.ascontiguousarray(codes.T).reshape(codes.shape)


def untransposed(stored: Bytes) -> Bytes:
    """Return the codes of a partition row by row, shape (n, m): the inverse of `transposed`."""
    num_rows, width = stored.shape
    return np.ascontiguousarray(stored.reshape(width, num_rows).T)


def packed_signs(codes: Bytes) -> Bytes:
    """Pack the sign bits of a partition into blocks of 32 rows.

    Args:
        codes: signs of 8 components per byte; shape (n, width).
    """
    num_rows, width = codes.shape
    whole = num_rows // BLOCK_ROWS * BLOCK_ROWS
    blocks = codes[:whole].reshape(-1, BLOCK_ROWS, width).transpose(0, 2, 1)
    first, second = blocks[..., _PAIRED], blocks[..., _PAIRED + 16]
    low = (first & 15) | (second & 15) << 4
    high = first >> 4 | second & 240
    stored = np.concatenate([low, high], axis=2)
    return np.concatenate([stored.ravel(), codes[whole:].T.ravel()]).reshape(num_rows, width)


def unpacked_signs(stored: Bytes) -> Bytes:
    """Unpack the sign bits of a partition, shape (n, width): the inverse of `packed_signs`."""
    num_rows, width = stored.shape
    whole = num_rows // BLOCK_ROWS * BLOCK_ROWS
    content = stored.ravel()
    blocks = content[: whole * width].reshape(-1, width, BLOCK_ROWS)
    low, high = blocks[..., :16], blocks[..., 16:]
    codes = np.empty(blocks.shape, np.uint8)
    codes[..., _PAIRED] = (low & 15) | (high & 15) << 4
    codes[..., _PAIRED + 16] = low >> 4 | high & 240
    rest = content[whole * width :].reshape(width, num_rows - whole).T
    return np.concatenate([codes.transpose(0, 2, 1).reshape(whole, width), rest])


def encoder_like(quantizer: Quantizer, type_: VectorType) -> Encoder | None:
    """Return the encoder that writes the codes of a quantizer.

    Returns None if alance cannot write such codes, as for RaBitQ with a rotation matrix.
    """
    match quantizer:
        case FlatQuantizer():
            return FlatEncoder(type_)
        case ScalarQuantizer(dim=dim, low=low, high=high):
            return ScalarEncoder(dim, low, high)
        case ProductQuantizer(parts=parts, bits=bits):
            by_code = quantizer.codebook.reshape(parts, -1, 1 << bits).transpose(0, 2, 1)
            codebook = np.ascontiguousarray(by_code)
            return ProductEncoder(codebook, type_.dtype, quantizer.centroids.metric != "dot")
        case Rabitq(rotation=rotation, extra=extra) if len(rotation.signs):
            return RabitqEncoder(rotation, extra + 1)
    return None
