"""Arrow arrays of vectors as the byte arrays that kernels take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.numbers import (
    as_mask,
    bytes_of,
    is_variable_list,
    items_of,
    lists_of,
    mask_bytes,
    offsets_of,
    storage_of,
    storage_type,
    validity_of,
)
from alance.format.types import BFLOAT16, EXTENSION_NAME

if TYPE_CHECKING:
    from alance.base.arrays import Bytes, Float32s, Int64s

NO_MASK: Final = np.empty(0, np.uint8)  # an empty mask stands for all rows
# Number of each type in the kernels (`vectors.hpp`).
TYPES: Final = {"float16": 0, "bfloat16": 1, "float32": 2, "float64": 3, "uint8": 4}
# Bytes per number.
NUMBER_WIDTHS: Final = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "uint8": 1}
# The position of a metric is its number in files and kernels.
METRICS: Final = ("l2", "cosine", "dot", "hamming")
METRIC_ALIASES: Final = {"euclidean": "l2"}
_NUMBER_TYPE_NAMES: Final = {
    "halffloat": "float16", "float": "float32", "double": "float64", "uint8": "uint8"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class VectorType:
    """Type of the vectors of a column.

    Attributes:
        name: type of the numbers, a key of `TYPES`.
        arrow: Arrow type of a vector: a fixed-size list.
        is_multi: True if a row is a list of vectors.
    """

    name: str
    dim: int
    arrow: pa.DataType
    is_multi: bool = False

    @classmethod
    def of(cls, type_: pa.DataType) -> VectorType | None:
        """Return the vector type of an Arrow type.

        Returns None if the type is neither a vector nor a list of vectors. A tensor is treated as
        the fixed-size list that stores it.
        """
        is_multi = is_variable_list(type_)
        arrow = type_.value_type if is_multi else type_
        if isinstance(arrow, pa.FixedShapeTensorType):
            arrow = arrow.storage_type
        if not pa.types.is_fixed_size_list(arrow) or arrow.list_size < 1:
            return None
        item = arrow.value_field
        extension = (item.metadata or {}).get(EXTENSION_NAME.encode(), b"").decode()
        if isinstance(item.type, pa.BaseExtensionType):
            extension = item.type.extension_name
        name = "bfloat16" if extension == BFLOAT16 else _NUMBER_TYPE_NAMES.get(str(item.type), "")
        return cls(name, arrow.list_size, arrow, is_multi) if name else None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of stored centroids and codebooks: the vectors' type, but float32 for bfloat16."""
        return np.dtype("float32" if self.name == "bfloat16" else self.name)


def not_of_vectors(column: str, type_: pa.DataType) -> InvalidInputError:
    """Return the error for a column without vectors, with the remedy for lists of floats."""
    is_list = is_variable_list(type_)
    remedy = ""
    if is_list and pa.types.is_floating(type_.value_type):
        new = f'{{"path": "{column}", "data_type": pa.list_(pa.float32(), dimension)}}'
        remedy = f"; `alter_columns({new})` makes vectors of its lists"
    return InvalidInputError(
        f"column {column!r} is of type {type_}: expected a fixed-size list of "
        f"{', '.join(TYPES)}, or lists of such{remedy}"
    )


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors of finite numbers, with their metric.

    Attributes:
        values: bytes of the numbers, row after row.
        type: type of the numbers, a key of `TYPES`.
        metric: one of `METRICS`.
    """

    values: Bytes
    type: str
    dim: int
    metric: str

    @property
    def kind(self) -> tuple[int, int, int]:
        """Type, dimension and metric, as the kernel arguments that follow the values."""
        return TYPES[self.type], self.dim, METRICS.index(self.metric)

    @property
    def rows(self) -> Bytes:
        """Bytes of each vector; shape (n, bytes)."""
        return self.values.reshape(-1, self.dim * NUMBER_WIDTHS[self.type])

    def points(self) -> Float32s:
        """Return the vectors as float32 points for comparisons; a view if possible. CPU work.

        Returns:
            float32, shape (n, dimension); normalized for cosine. For hamming, bits of shape (n, 8 x
            dimension).
        """
        wide = 8 * self.dim if self.metric == "hamming" else self.dim
        if self.type == "float32" and self.metric != "cosine":
            return self.values.view(np.float32).reshape(-1, wide)
        return _kernels.vector_points(self.values, *self.kind).reshape(-1, wide)

    def nearest(self, centroids: Float32s) -> Int64s:
        """Return the number of the nearest centroid for each vector. CPU work.

        For dot, the nearest centroid is the one with the largest dot product.

        Args:
            centroids: points; shape (k, dimension).
        """
        return _kernels.nearest_centroids(self.values, *self.kind, centroids.reshape(-1))

    def to_arrow(self, type_: pa.DataType) -> pa.Array:
        """Return the vectors as fixed-size lists of an Arrow type; a view, not a copy."""
        item = type_.value_type
        stored = storage_type(item)
        count = len(self.values) // (stored.bit_width // 8)
        items = pa.Array.from_buffers(stored, count, [None, pa.py_buffer(self.values)])
        if stored is not item:
            items = pa.ExtensionArray.from_storage(item, items)
        return pa.FixedSizeListArray.from_arrays(items, type=type_)


def values_of(vectors: pa.Array) -> tuple[Bytes, Bytes]:
    """Return the bytes of the vectors, row by row, and the mask of rows without nulls.

    The mask is empty if there are no nulls.
    """
    if isinstance(vectors, pa.ChunkedArray):
        vectors = vectors.combine_chunks()
    vectors = storage_of(vectors)
    items = storage_of(items_of(vectors))
    valid = NO_MASK
    if vectors.null_count or items.null_count:
        whole = as_mask(vectors.is_valid())
        if items.null_count:
            whole &= as_mask(items.is_valid()).reshape(len(vectors), -1).all(axis=1)
        valid = whole.view(np.uint8)
    return bytes_of(items), valid


def vector_lists_of(array: pa.Array) -> tuple[Bytes, Int64s, Bytes]:
    """Return the vectors of all lists, except vectors that are null or contain nulls.

    Returns:
        The bytes of the vectors; the offsets of the lists, counted in vectors, shape (n + 1,); and
        the mask of non-null lists, which is empty if no list is null.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not len(array):
        return NO_MASK, np.zeros(1, np.int64), NO_MASK
    offsets, vectors = lists_of(array)
    values, valid = values_of(vectors)
    if len(valid):
        is_whole = valid.view(np.bool_)
        values = values.reshape(len(vectors), -1)[is_whole].reshape(-1)
        offsets = offsets_of(is_whole)[offsets]
    return values, offsets, mask_bytes(validity_of(array))


def whole_vectors(array: pa.Array, type_: VectorType, metric: str) -> tuple[Vectors, Int64s]:
    """Return the vectors with only finite numbers, and the row of each vector. CPU work."""
    rows = np.arange(len(array))
    if type_.is_multi:
        values, offsets, valid = vector_lists_of(array)
        rows = np.repeat(rows, np.diff(offsets))
        valid = valid[rows] if len(valid) else valid
    else:
        values, valid = values_of(array)
    vectors = Vectors(values, type_.name, type_.dim, metric)
    is_whole = np.ones(len(rows), np.bool_) if not len(valid) else valid.view(np.bool_)
    if type_.name != "uint8":  # also if float32, in which vectors are compared, cannot hold them
        is_whole = is_whole & np.isfinite(replace(vectors, metric="l2").points()).all(axis=1)
    if is_whole.all():
        return vectors, rows
    return replace(vectors, values=vectors.rows[is_whole].reshape(-1)), rows[is_whole]
