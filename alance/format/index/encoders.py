"""How a new vector index stores vectors: as they are, or coded.

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.format.index import flat, pq, rabitq, sq
from alance.format.index.ivf import tensor_of
from alance.format.index.values import Vectors, values_of
from alance.format.index.vector_codes import packed_signs, transposed, untransposed
from alance.format.numbers import as_numbers, to_arrow
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.arrays import Bytes, Float32s, Int64s
    from alance.format.index.ivf import Quantizer
    from alance.format.index.values import VectorType
    from alance.format.proto import vector_index_pb2

    Details = vector_index_pb2.VectorIndexDetails

SQ_BITS: Final = 8
# The widths of codes by kind, the first of which is the usual one; FLAT has none.
BITS: Final[Mapping[str, tuple[int, ...]]] = {
    "PQ": (8, 4),
    "SQ": (SQ_BITS,),
    "RQ": (5, 1, 2, 3, 4, 6, 7, 8, 9),
}


class Encoder(Protocol):
    """Codes the vectors of an index.

    Attributes:
        KIND: the end of the index's type.
        VERSION: of the index, in its record.
    """

    KIND: ClassVar[str]
    VERSION: ClassVar[int]

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """The columns of codes."""

    def encode(self, vectors: Vectors, labels: Int64s, centroids: Float32s) -> list[pa.Array]:
        """The columns for some vectors; CPU work.

        Args:
            labels: the number of each one's centroid; shape (n,).
            centroids: points; shape (k, dimension).
        """

    def laid_out(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """The columns of a whole partition as they are stored."""

    def storage(self) -> Mapping[str, Any]:
        """What readers are told of the codes."""

    def buffers(self) -> tuple[bytes, ...]:
        """Global buffers that `storage` refers to, the first of which has number 2."""

    def describe(self, details: Details) -> None:
        """Note the codes in the details of the index's record."""


def list_of_bytes(codes: Bytes) -> pa.Array:
    """Bytes as fixed-size lists; shape (n, width)."""
    type_ = pa.list_(pa.uint8(), codes.shape[1])
    return pa.FixedSizeListArray.from_arrays(to_arrow(codes.reshape(-1)), type=type_)


@runtime_checkable
class LinkableEncoder(Encoder, Protocol):
    """Codes by which the rows of a partition can be compared with each other, and so be linked."""

    def graph_rows(self, columns: Sequence[pa.Array], metric: str) -> _kernels.GraphRows:
        """The rows of a whole partition by its stored columns, whose memory is shared."""


@dataclass(frozen=True, slots=True)
class FlatEncoder:
    """Vectors as they are."""

    KIND: ClassVar = "FLAT"
    VERSION: ClassVar = 1

    type: VectorType

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(flat.VECTORS, self.type.arrow, nullable=False),)

    def encode(self, vectors: Vectors, labels: Int64s, centroids: Float32s) -> list[pa.Array]:
        return [vectors.to_arrow(self.type.arrow)]

    def laid_out(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        return list(columns)

    def graph_rows(self, columns: Sequence[pa.Array], metric: str) -> _kernels.GraphRows:
        values, _ = values_of(columns[0])
        vectors = Vectors(values, self.type.name, self.type.dim, metric)
        return _kernels.GraphVectors(values, *vectors.kind)

    def storage(self) -> Mapping[str, Any]:
        return {"dim": self.type.dim}

    def buffers(self) -> tuple[bytes, ...]:
        return ()

    def describe(self, details: Details) -> None:
        details.flat.SetInParent()


@dataclass(frozen=True, slots=True)
class ScalarEncoder:
    """Components as steps between two bounds."""

    KIND: ClassVar = "SQ"
    VERSION: ClassVar = 1

    dim: int
    low: float
    high: float

    @classmethod
    def trained(cls, points: Float32s) -> ScalarEncoder:
        """By the least and greatest component of a sample."""
        return cls(points.shape[1], float(points.min()), float(points.max()))

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(sq.CODES, pa.list_(pa.uint8(), self.dim)),)

    def encode(self, vectors: Vectors, labels: Int64s, centroids: Float32s) -> list[pa.Array]:
        codes = _kernels.encode_sq(vectors.values, *vectors.kind, self.low, self.high)
        return [list_of_bytes(codes.reshape(-1, self.dim))]

    def laid_out(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        return list(columns)

    def graph_rows(self, columns: Sequence[pa.Array], metric: str) -> _kernels.GraphRows:
        codes = as_numbers(columns[0].flatten())
        return _kernels.GraphBytes(codes, self.dim, self.low, self.high, metric == "dot")

    def storage(self) -> Mapping[str, Any]:
        return {
            "dim": self.dim,
            "num_bits": SQ_BITS,
            "bounds": {"start": self.low, "end": self.high},
        }

    def buffers(self) -> tuple[bytes, ...]:
        return ()

    def describe(self, details: Details) -> None:
        details.sq.num_bits = SQ_BITS


@dataclass(frozen=True, slots=True)
class ProductEncoder:
    """Parts of vectors by the number of the nearest value in a codebook.

    Attributes:
        codebook: shape (parts, 2^bits, dimension / parts), float32.
        dtype: of the codebook as it is stored: that of the column.
        of_residuals: what is coded is what a vector is beside its centroid (all metrics but dot).
        is_transposed: of stored codes: column after column; what is written here is.
    """

    KIND: ClassVar = "PQ"
    VERSION: ClassVar = 1

    codebook: Float32s
    dtype: np.dtype[Any]
    of_residuals: bool
    is_transposed: bool = True

    @property
    def parts(self) -> int:
        """Parts of a vector."""
        return len(self.codebook)

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return int(self.codebook.shape[1]).bit_length() - 1

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        width = self.parts * self.bits // 8
        return (pa.field(pq.CODES, pa.list_(pa.uint8(), width)),)

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
        (column,) = columns
        codes = as_numbers(column.flatten()).reshape(len(column), -1)
        return [list_of_bytes(transposed(codes))]

    def graph_rows(self, columns: Sequence[pa.Array], metric: str) -> _kernels.GraphRows:
        (column,) = columns
        codes = as_numbers(column.flatten()).reshape(len(column), -1)
        if self.is_transposed:
            codes = untransposed(codes)
        codebook, by_product = self.codebook.reshape(-1), metric == "dot"
        return _kernels.GraphProducts(
            codes.reshape(-1), codebook, self.parts, self.bits, by_product
        )

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
        # The shape is that of whole vectors; the values lie part by part.
        stored = self.codebook.astype(self.dtype).reshape(self.codebook.shape[1], -1)
        return (tensor_of(stored).SerializeToString(deterministic=True),)

    def describe(self, details: Details) -> None:
        details.pq.num_bits = self.bits
        details.pq.num_sub_vectors = self.parts


@dataclass(frozen=True, slots=True)
class RabitqEncoder:
    """A few bits a component of what rotated vectors are beside their centroids.

    Attributes:
        rotation: by signs.
        bits: of a component, 1 to 9.
    """

    KIND: ClassVar = "RQ"
    VERSION: ClassVar = 2

    rotation: rabitq.Rotation
    bits: int

    @classmethod
    def drawn(cls, dim: int, bits: int, seed: int) -> RabitqEncoder:
        """With signs at random. There is nothing to train."""
        return cls(rabitq.Rotation.drawn(dim, seed), bits)

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        dim, extra = self.rotation.signs.shape[1], self.bits - 1
        fields = [(rabitq.SIGNS, pa.list_(pa.uint8(), dim // 8))]
        fields += [(name, pa.float32()) for name in rabitq.FACTORS]
        if extra:
            fields.append((rabitq.EXTRA, pa.list_(pa.uint8(), extra * -(-dim // 64) * 8)))
            fields += [(name, pa.float32()) for name in rabitq.EXTRA_FACTORS]
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
        codes = as_numbers(signs.flatten()).reshape(len(signs), -1)
        return [list_of_bytes(packed_signs(codes)), *others]

    def storage(self) -> Mapping[str, Any]:
        return {
            "rotate_mat_position": None,
            "fast_rotation_signs": self.rotation.to_bytes(),
            "rotation_type": "fast",
            "code_dim": self.rotation.signs.shape[1],
            "num_bits": self.bits,
            "packed": True,
            "query_estimator": rabitq.ESTIMATOR,
        }

    def buffers(self) -> tuple[bytes, ...]:
        return ()

    def describe(self, details: Details) -> None:
        details.rq.num_bits = self.bits


def encoder_like(quantizer: Quantizer, type_: VectorType) -> Encoder | None:
    """The encoder whose codes a quantiser reads; None: none of these.

    Args:
        type_: of the vectors.
    """
    match quantizer:
        case flat.Flat():
            return FlatEncoder(type_)
        case sq.ScalarQuantizer(dim=dim, low=low, high=high):
            return ScalarEncoder(dim, low, high)
        case pq.ProductQuantizer(parts=parts, bits=bits):
            by_code = quantizer.codebook.reshape(parts, -1, 1 << bits).transpose(0, 2, 1)
            codebook = np.ascontiguousarray(by_code)
            return ProductEncoder(codebook, type_.dtype, quantizer.centroids.metric != "dot")
        case rabitq.Rabitq(rotation=rotation, extra=extra) if len(rotation.signs):
            return RabitqEncoder(rotation, extra + 1)
    return None
