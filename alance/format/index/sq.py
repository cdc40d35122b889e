"""Scalar quantization (IVF_SQ): each component is coded as one of 256 steps between two bounds."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.index.ivf import integer
from alance.format.index.values import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.base.arrays import Bytes, Float64s, Int32s
    from alance.format.index.ivf import Centroids, Partition


SQ_CODES: Final = "__sq_code"


@dataclass(frozen=True, slots=True)
class ScalarQuantizer:
    """Bounds of the components; for `cosine`, of the components of normalized vectors."""

    metric: str
    dim: int
    low: float
    high: float
    columns: tuple[str, ...] = field(default=(SQ_CODES,), init=False)
    is_exact: bool = field(default=False, init=False)

    @classmethod
    def parse(cls, centroids: Centroids, storage: Mapping[str, Any]) -> ScalarQuantizer:
        """Parse the metadata.

        Raises:
            CorruptFileError: the numbers contradict each other.
            UnsupportedError: components do not have 8 bits.
        """
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

    def queries(self, queries: Float64s) -> Float64s:
        """Return the queries unchanged."""
        return queries

    def check(self, schema: pa.Schema) -> None:
        """Check the width of the codes.

        Raises:
            CorruptFileError: the width differs.
        """
        codes_of(schema, SQ_CODES, self.dim)

    def prepared(self, partition: Partition) -> Partition:
        """Return the partition unchanged."""
        return partition

    def add(
        self, nearest: _kernels.Nearest, numbers: Int32s, partition: Partition, mask: Bytes
    ) -> None:
        """See `ivf.Quantizer`."""
        _kernels.add_sq(
            nearest,
            numbers,
            partition.ids,
            mask,
            partition.columns[0],
            self.low,
            self.high,
            METRICS.index(self.metric),
            scale_of(self.metric),
            partition.graph,
            partition.ef,
        )


def scale_of(metric: str) -> float:
    """Return the factor for squared distances: 0.5 for cosine, because |a - b|² / 2 = 1 - cos."""
    return 0.5 if metric == "cosine" else 1.0


def codes_of(schema: pa.Schema, name: str, width: int) -> None:
    """Check that a column of codes has `width` bytes per row.

    Raises:
        CorruptFileError: the column has another type.
    """
    if schema.field(name).type != pa.list_(pa.field("item", pa.uint8()), width):
        arrow = schema.field(name).type
        is_right = (
            pa.types.is_fixed_size_list(arrow)
            and arrow.value_type == pa.uint8()
            and arrow.list_size == width
        )
        if not is_right:
            raise CorruptFileError(
                f"vector index: codes of type {arrow}, expected {width} bytes a row"
            )
