"""RaBitQ (IVF_RQ): rotated residuals (vector minus centroid) with a few bits per component."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.index.ivf import integer, parse_tensor
from alance.format.index.sq import codes_of, scale_of
from alance.format.index.values import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.base.arrays import Bytes, Float32s, Float64s, Int32s
    from alance.format.index.ivf import Centroids, Partition


SIGNS: Final = "_rabit_codes"
FACTORS: Final = ("__add_factors", "__scale_factors", "__error_factors")
EXTRA_CODES: Final = "__blocked_ex_codes"
EXTRA_FACTORS: Final = ("__add_factors_ex", "__scale_factors_ex")
ESTIMATOR: Final = "raw_query"
ROTATION_ROUNDS: Final = 4


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
    def of_bytes(cls, content: Bytes, dim: int) -> Rotation:
        """Parse stored signs: one bit per sign, whole bytes per round."""
        bits = np.unpackbits(content.reshape(ROTATION_ROUNDS, -1), axis=1, bitorder="little")[
            :, :dim
        ]
        return cls((1.0 - 2.0 * bits).astype(np.float64), np.empty((0, 0)))

    def to_bytes(self) -> list[int]:
        """Return the stored signs: the inverse of `of_bytes`."""
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
class Rabitq:
    """Rotation and rotated centroids of an index."""

    metric: str
    rotation: Rotation
    centroids: Float32s
    extra: int  # bits per component in addition to its sign
    is_packed: bool
    columns: tuple[str, ...]
    is_exact: bool = field(default=False, init=False)

    @staticmethod
    def buffer_of(storage: Mapping[str, Any]) -> int | None:
        """Return the number of the global buffer with the matrix; None for a rotation by signs."""
        if storage.get("rotation_type", "matrix") == "fast":
            return None
        return integer(storage, "rotate_mat_position")

    @classmethod
    def parse(
        cls, centroids: Centroids, storage: Mapping[str, Any], content: memoryview | None
    ) -> Rabitq:
        """Parse the metadata and the matrix.

        Raises:
            CorruptFileError: the numbers contradict each other.
            UnsupportedError: the distance estimator is unknown.
        """
        bits, dim = integer(storage, "num_bits"), integer(storage, "code_dim")
        if storage.get("query_estimator") != ESTIMATOR:
            raise UnsupportedError(f"vector index: estimator {storage.get('query_estimator')!r}")
        if not 1 <= bits <= 9 or dim != centroids.dim or dim % 8:
            raise CorruptFileError(
                f"vector index: {bits} bits of dimension {dim}, the centroids have {centroids.dim}"
            )
        rotation = _rotation(storage, dim, content)
        rotated = rotation.apply(centroids.values.astype(np.float64))
        names: tuple[str, ...] = (SIGNS, *FACTORS[:2])
        if bits > 1:
            names = (SIGNS, *EXTRA_FACTORS, EXTRA_CODES)
        is_packed = storage.get("packed") is True
        centres = np.ascontiguousarray(rotated, np.float32)
        return cls(centroids.metric, rotation, centres, bits - 1, is_packed, names)

    def queries(self, queries: Float64s) -> Float64s:
        """Rotate queries like the stored vectors."""
        return self.rotation.apply(queries)

    def check(self, schema: pa.Schema) -> None:
        """Check the types of the columns.

        Raises:
            CorruptFileError: a column has another width or type.
        """
        dim = self.centroids.shape[1]
        codes_of(schema, SIGNS, dim // 8)
        if self.extra:
            codes_of(schema, EXTRA_CODES, self.extra * ((dim + 63) // 64) * 8)
        for name in self.columns[1:3]:
            if schema.field(name).type != pa.float32():
                raise CorruptFileError(f"vector index: {name} of type {schema.field(name).type}")

    def prepared(self, partition: Partition) -> Partition:
        """Return the partition unchanged."""
        return partition

    def add(
        self, nearest: _kernels.Nearest, numbers: Int32s, partition: Partition, mask: Bytes
    ) -> None:
        """See `ivf.Quantizer`."""
        signs, add, factor, *extra = partition.columns
        _kernels.add_rabitq(
            nearest,
            numbers,
            partition.ids,
            mask,
            signs,
            self.is_packed,
            self.extra,
            extra[0] if extra else np.empty(0, np.uint8),
            add,
            factor,
            self.centroids[partition.number],
            METRICS.index(self.metric),
            scale_of(self.metric),
        )


def _rotation(storage: Mapping[str, Any], dim: int, content: memoryview | None) -> Rotation:
    if content is not None:
        matrix = parse_tensor(content, 2).astype(np.float64)
        if matrix.shape != (dim, dim):
            raise CorruptFileError(f"vector index: a rotation of shape {matrix.shape}")
        return Rotation(np.empty((0, dim)), matrix)
    signs, row_bytes = storage.get("fast_rotation_signs"), (dim + 7) // 8
    try:
        content = memoryview(bytes(signs))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise CorruptFileError("vector index: signs that are not bytes") from None
    if not isinstance(signs, list) or len(content) != ROTATION_ROUNDS * row_bytes:
        raise CorruptFileError(f"vector index: {len(content)} bytes of signs")
    return Rotation.of_bytes(np.frombuffer(content, np.uint8), dim)
