"""Arrow arrays of vectors as the kernels want them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.format.numbers import as_mask, as_numbers

if TYPE_CHECKING:
    from alance.arrays import Bytes, Float32s, Int64s, Mask

NO_MASK: Final = np.empty(0, np.uint8)  # all rows count
# The numbers of the kernels, `vectors.hpp`.
TYPES: Final = {"float16": 0, "bfloat16": 1, "float32": 2, "float64": 3, "uint8": 4}
METRICS: Final = ("l2", "cosine", "dot", "hamming")  # by their numbers, here and in the kernels
ALIASES: Final = {"euclidean": "l2"}


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors of finite numbers, and how they are compared.

    Attributes:
        values: the bytes of the numbers, row after row.
        type: of the numbers, as of `TYPES`.
        dim: numbers of a vector.
    """

    values: Bytes
    type: str
    dim: int
    metric: str

    @property
    def kind(self) -> tuple[int, int, int]:
        """Type, dimension and metric, as kernels take them behind the values."""
        return TYPES[self.type], self.dim, METRICS.index(self.metric)

    def points(self) -> Float32s:
        """As they are compared: in float32, of length one by cosine, bits by hamming; CPU work.

        Returns:
            shape (n, dimension); by hamming (n, 8 x dimension).
        """
        wide = 8 * self.dim if self.metric == "hamming" else self.dim
        if self.type == "float32" and self.metric != "cosine":
            return self.values.view(np.float32).reshape(-1, wide)
        return _kernels.vector_points(self.values, *self.kind).reshape(-1, wide)

    def nearest(self, centroids: Float32s) -> Int64s:
        """The number of the nearest centroid of each, by dot of the greatest product; CPU work.

        Args:
            centroids: points; shape (k, dimension).
        """
        return _kernels.nearest_centroids(self.values, *self.kind, centroids.reshape(-1))

    def to_arrow(self, type_: pa.DataType) -> pa.Array:
        """The vectors as fixed-size lists of their type; shared, not copied."""
        count = len(self.values) // (type_.value_type.bit_width // 8)
        items = pa.Array.from_buffers(type_.value_type, count, [None, pa.py_buffer(self.values)])
        return pa.FixedSizeListArray.from_arrays(items, type=type_)


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


def lists_of(array: pa.Array) -> tuple[Bytes, Int64s, Bytes]:
    """Lists of vectors: the bytes of the values of all, where each list ends, which are no null.

    Vectors that are null or have nulls are left out.

    Returns:
        ends: in vectors; shape (n,). The last is as `values_of` gives it.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not len(array):
        return NO_MASK, np.empty(0, np.int64), NO_MASK
    offsets = as_numbers(array.offsets).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    vectors = array.values.slice(first, last - first)
    values, valid = values_of(vectors)
    ends = offsets[1:] - first
    if len(valid):
        kept = valid.view(np.bool_)
        values = values.reshape(len(vectors), -1)[kept].reshape(-1)
        ends = np.concatenate([[0], np.cumsum(kept)])[ends]
    is_there = as_mask(array.is_valid()).view(np.uint8) if array.null_count else NO_MASK
    return values, ends, is_there


def whole_vectors(array: pa.Array, type_: str, metric: str) -> tuple[Vectors, Mask]:
    """The vectors that can be indexed, and which of the rows have one: no null and no NaN.

    Args:
        type_: of their numbers, as of `TYPES`.
    """
    dim = array.type.list_size
    values, valid = values_of(array)
    is_whole = _kernels.whole_vectors(values, TYPES[type_], dim)
    if len(valid):
        is_whole &= valid
    mask = is_whole.view(np.bool_)
    if not mask.all():
        values = values.reshape(len(mask), -1)[mask].reshape(-1)
    return Vectors(values, type_, dim, metric), mask
