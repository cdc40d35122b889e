"""Arrow arrays of vectors as the kernels want them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.format.numbers import as_mask

if TYPE_CHECKING:
    from alance.arrays import Bytes

NO_MASK: Final = np.empty(0, np.uint8)  # all rows count
# The numbers of the kernels, `vectors.hpp`.
TYPES: Final = {"float16": 0, "bfloat16": 1, "float32": 2, "float64": 3, "uint8": 4}


def values_of(vectors: pa.Array) -> tuple[Bytes, Bytes]:
    """The bytes of the values, row after row; and which rows are whole (empty: all)."""
    if isinstance(vectors, pa.ChunkedArray):
        vectors = vectors.combine_chunks()
    if isinstance(vectors, pa.ExtensionArray):
        vectors = vectors.storage
    dim = vectors.type.list_size
    items = vectors.values.slice(vectors.offset * dim, len(vectors) * dim)
    if isinstance(items, pa.ExtensionArray):
        items = items.storage
    valid = NO_MASK
    if vectors.null_count or items.null_count:
        whole = as_mask(vectors.is_valid())
        if items.null_count:
            whole &= as_mask(items.is_valid()).reshape(-1, dim).all(axis=1)
        valid = whole.view(np.uint8)
    width = items.type.bit_width // 8
    content = items.buffers()[-1]
    if content is None:
        return np.empty(0, np.uint8), valid
    start = items.offset * width
    return np.frombuffer(content, np.uint8)[start : start + len(items) * width], valid
