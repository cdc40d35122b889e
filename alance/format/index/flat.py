"""Storage of uncompressed vectors by partition (IVF_FLAT)."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.index.values import METRICS, TYPES, VectorType

if TYPE_CHECKING:
    import pyarrow as pa

    from alance.base.arrays import Bytes, Float64s, Int32s
    from alance.format.index.ivf import Centroids, Partition


FLAT_VECTORS: Final = "flat"


@dataclass(frozen=True, slots=True)
class FlatQuantizer:
    """Quantizer of uncompressed vectors."""

    metric: str
    dim: int
    value_type: str
    columns: tuple[str, ...] = field(default=(FLAT_VECTORS,), init=False)
    is_exact: bool = field(default=True, init=False)

    @classmethod
    def parse(cls, centroids: Centroids, value_type: str) -> FlatQuantizer:
        """Return the quantizer of an index; its storage metadata is not needed."""
        return cls(centroids.metric, centroids.dim, value_type)

    def queries(self, queries: Float64s) -> Float64s:
        """Return the queries unchanged."""
        return queries

    def check(self, schema: pa.Schema) -> None:
        """Check that the file has vectors of the column's type.

        Raises:
            CorruptFileError: the type differs.
        """
        arrow = schema.field(FLAT_VECTORS).type
        type_ = VectorType.of(arrow)
        if type_ is None or (type_.name, type_.dim) != (self.value_type, self.dim):
            raise CorruptFileError(f"vector index: vectors of type {arrow}")

    def prepared(self, partition: Partition) -> Partition:
        """Return the partition unchanged."""
        return partition

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
