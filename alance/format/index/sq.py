"""Scaled bytes: each component of a vector as one of 256 steps between two bounds (IVF_SQ)."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.index.ivf import integer
from alance.format.index.values import METRICS
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.arrays import Bytes, Float64s, Int32s
    from alance.format.index.ivf import Centroids, Partition


CODES: Final = "__sq_code"


@dataclass(frozen=True, slots=True)
class ScalarQuantizer:
    """The bounds of components; of cosine, of vectors of length one."""

    metric: str
    dim: int
    low: float
    high: float
    columns: tuple[str, ...] = field(default=(CODES,), init=False)
    is_exact: bool = field(default=False, init=False)

    @classmethod
    def parse(cls, centroids: Centroids, told: Mapping[str, Any]) -> ScalarQuantizer:
        """From the metadata.

        Raises:
            CorruptFileError: numbers that contradict each other.
            UnsupportedError: other than 8 bits.
        """
        if integer(told, "num_bits") != 8:
            raise UnsupportedError(f"vector index: components of {told['num_bits']} bits")
        bounds = told.get("bounds")
        try:
            low, high = float(bounds["start"]), float(bounds["end"])  # type: ignore[index]
        except (TypeError, KeyError, ValueError):
            raise CorruptFileError(f"vector index: bounds {bounds!r}") from None
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise CorruptFileError(f"vector index: bounds {bounds!r}")
        if integer(told, "dim") != centroids.dim:
            raise CorruptFileError(
                f"vector index: dimension {told['dim']}, the centroids have {centroids.dim}"
            )
        return cls(centroids.metric, centroids.dim, low, high)

    def queries(self, queries: Float64s) -> Float64s:
        """As they are."""
        return queries

    def check(self, schema: pa.Schema) -> None:
        """Raises CorruptFileError: codes of another width."""
        codes_of(schema, CODES, self.dim)

    def kept(self, partition: Partition) -> Partition:
        """As it is."""
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
    """What squared distances of vectors of length one are multiplied with, to be 1 - cos."""
    return 0.5 if metric == "cosine" else 1.0


def codes_of(schema: pa.Schema, name: str, width: int) -> None:
    """Raises CorruptFileError: the column does not have so many bytes a row."""
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
