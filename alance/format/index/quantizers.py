"""The quantisers of vector indices by their kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.errors import UnsupportedError
from alance.format.index.flat import Flat
from alance.format.index.pq import ProductQuantizer
from alance.format.index.rabitq import Rabitq
from alance.format.index.sq import ScalarQuantizer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from alance.format.index.ivf import Centroids, Quantizer


def columns_of(names: Sequence[str]) -> list[str]:
    """The columns that are read: of bit codes not those of coarser estimates."""
    unread = {"__error_factors"}
    if "__add_factors_ex" in names:
        unread |= {"__add_factors", "__scale_factors"}
    return [name for name in names if name not in unread]


def buffer_of(kind: str, told: Mapping[str, Any]) -> int | None:
    """The global buffer that a quantiser needs besides; None: none.

    Raises:
        CorruptFileError: its metadata lack it.
    """
    if kind == "PQ":
        return ProductQuantizer.buffer_of(told)
    return Rabitq.buffer_of(told) if kind == "RQ" else None


def quantizer_of(
    centroids: Centroids, told: Mapping[str, Any], content: memoryview | None, value_type: str
) -> Quantizer:
    """The quantiser of an index.

    Args:
        told: its metadata.
        content: the buffer that it needs besides.
        value_type: of the column's values, as for `values.TYPES`.

    Raises:
        CorruptFileError: metadata that contradict themselves, or the centroids.
        UnsupportedError: valid, but not read here.
    """
    if centroids.kind == "PQ":
        assert content is not None
        return ProductQuantizer.parse(centroids, told, content)
    if centroids.kind == "SQ":
        return ScalarQuantizer.parse(centroids, told)
    if centroids.kind == "RQ":
        if centroids.has_graphs:
            raise UnsupportedError("vector index of type IVF_HNSW_RQ")
        return Rabitq.parse(centroids, told, content)
    return Flat.parse(centroids, value_type)
