"""Product quantization (IVF_PQ): each sub-vector is coded as the number of a codebook entry.

A partition stores codes row by row, or transposed: the codes of the first sub-vector of all rows,
then the codes of the second, and so on. The residual (vector minus centroid) is coded; for `dot`,
the vector itself. In memory, each row also has the part of its distance that does not depend on the
query, so that one lookup table per query serves all partitions.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.index.ivf import integer, parse_tensor
from alance.format.index.sq import codes_of, scale_of
from alance.format.index.values import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from alance.base.arrays import Bytes, Float32s, Float64s, Int32s
    from alance.format.index.ivf import Centroids, Partition


PQ_CODES: Final = "__pq_code"


@dataclass(frozen=True, slots=True)
class ProductQuantizer:
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
    columns: tuple[str, ...] = field(default=(PQ_CODES,), init=False)
    is_exact: bool = field(default=False, init=False)

    @staticmethod
    def buffer_of(storage: Mapping[str, Any]) -> int:
        """Return the number of the global buffer of the codebook."""
        return integer(storage, "codebook_position")

    @classmethod
    def parse(
        cls, centroids: Centroids, storage: Mapping[str, Any], content: memoryview
    ) -> ProductQuantizer:
        """Parse the metadata and the codebook's tensor.

        Raises:
            CorruptFileError: the numbers contradict each other.
            UnsupportedError: codes have neither 4 nor 8 bits.
        """
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

    def queries(self, queries: Float64s) -> Float64s:
        """Return the queries unchanged."""
        return queries

    def check(self, schema: pa.Schema) -> None:
        """Check the width of the codes.

        Raises:
            CorruptFileError: the width differs.
        """
        codes_of(schema, PQ_CODES, self.parts * self.bits // 8)

    def prepared(self, partition: Partition) -> Partition:
        """Add the query-independent part of each row's distance."""
        (codes,) = partition.columns
        terms = self.book.terms(codes, self.centroids.values[partition.number])
        return replace(partition, columns=(codes, terms))

    def add(
        self, nearest: _kernels.Nearest, numbers: Int32s, partition: Partition, mask: Bytes
    ) -> None:
        """See `ivf.Quantizer`."""
        codes, terms = partition.columns
        self.book.add(
            nearest,
            numbers,
            partition.ids,
            mask,
            codes,
            terms,
            self.centroids.values[partition.number],
            partition.graph,
            partition.ef,
        )
