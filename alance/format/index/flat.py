"""Vectors as they are, by partition (IVF_FLAT)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance import _kernels
from alance.errors import CorruptFileError
from alance.format.index.values import METRICS, TYPES

if TYPE_CHECKING:
    from alance.arrays import Bytes, Float64s, Int32s
    from alance.format.index.ivf import Centroids, Partition


VECTORS: Final = "flat"


@dataclass(frozen=True, slots=True)
class Flat:
    """The vectors of the column."""

    metric: str
    dim: int
    value_type: str
    columns: tuple[str, ...] = field(default=(VECTORS,), init=False)
    is_exact: bool = field(default=True, init=False)

    @classmethod
    def parse(cls, centroids: Centroids, value_type: str) -> Flat:
        """There is nothing to parse."""
        return cls(centroids.metric, centroids.dim, value_type)

    def queries(self, queries: Float64s) -> Float64s:
        """As they are."""
        return queries

    def check(self, schema: pa.Schema) -> None:
        """Raises CorruptFileError: no vectors of the column's type."""
        arrow = schema.field(VECTORS).type
        width = 2 if self.value_type == "bfloat16" else None
        item = arrow.value_type if pa.types.is_fixed_size_list(arrow) else arrow
        if isinstance(item, pa.ExtensionType):
            item = item.storage_type
        right = item.bit_width // 8 == width if width else str(item) == _NAMES[self.value_type]
        if item is arrow or arrow.list_size != self.dim or not right:
            raise CorruptFileError(f"vector index: vectors of type {arrow}")

    def add(
        self, nearest: _kernels.Nearest, numbers: Int32s, partition: Partition, mask: Bytes
    ) -> None:
        """See `ivf.Quantizer`."""
        (values,) = partition.columns
        kind, metric = TYPES[self.value_type], METRICS.index(self.metric)
        _kernels.add_vectors(
            nearest,
            numbers,
            partition.ids,
            mask,
            values,
            kind,
            metric,
            graph=partition.graph,
            ef=partition.ef,
        )


_NAMES = {"float16": "halffloat", "float32": "float", "float64": "double", "uint8": "uint8"}
