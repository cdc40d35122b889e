"""Quantizers of vector indices by kind of codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.errors import UnsupportedError
from alance.format.index.flat import FlatQuantizer
from alance.format.index.pq import ProductQuantizer
from alance.format.index.rabitq import Rabitq
from alance.format.index.sq import ScalarQuantizer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from alance.format.index.ivf import Centroids, Quantizer


def columns_of(names: Sequence[str]) -> list[str]:
    """Return the columns that a search reads: all except unused RaBitQ factors."""
    unread = {"__error_factors"}
    if "__add_factors_ex" in names:
        unread |= {"__add_factors", "__scale_factors"}
    return [name for name in names if name not in unread]


def buffer_of(kind: str, storage: Mapping[str, Any]) -> int | None:
    """Return the number of the global buffer that a quantizer needs; None if it needs none.

    Raises:
        CorruptFileError: the quantizer's metadata lacks the number.
    """
    if kind == "PQ":
        return ProductQuantizer.buffer_of(storage)
    return Rabitq.buffer_of(storage) if kind == "RQ" else None


def quantizer_of(
    centroids: Centroids, storage: Mapping[str, Any], content: memoryview | None, value_type: str
) -> Quantizer:
    """Build the quantizer of an index.

    Args:
        storage: the quantizer's metadata.
        content: content of the global buffer that the quantizer needs; None if it needs none.
        value_type: type of the column's values, a key of `values.TYPES`.

    Raises:
        CorruptFileError: the metadata are inconsistent, or do not match the centroids.
        UnsupportedError: the metadata are valid, but alance cannot read such an index.
    """
    if centroids.kind == "PQ":
        assert content is not None
        return ProductQuantizer.parse(centroids, storage, content)
    if centroids.kind == "SQ":
        return ScalarQuantizer.parse(centroids, storage)
    if centroids.kind == "RQ":
        if centroids.has_graphs:
            raise UnsupportedError("vector index of type IVF_HNSW_RQ")
        return Rabitq.parse(centroids, storage, content)
    return FlatQuantizer.parse(centroids, value_type)
