"""Columns of vectors, made of lists of Python floats and of arrays of numpy."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

_log: Final = logging.getLogger(__name__)


def as_vectors(name: str, array: pa.Array, logged: set[str]) -> pa.Array:
    """Convert lists of floats of equal length to vectors of float32, which can be searched.

    Other arrays are returned as they are.

    Args:
        logged: columns whose conversion is not logged again; the column is added.
    """
    if not (pa.types.is_list(array.type) and pa.types.is_floating(array.type.value_type)):
        return array
    num_lists, items = len(array) - array.null_count, array.flatten()
    if not len(items) or len(items) % num_lists or items.null_count:
        return array
    type_ = pa.list_(pa.float32(), len(items) // num_lists)
    try:
        converted = array.cast(type_)
    except pa.ArrowInvalid:  # lists of different lengths
        return array
    if name not in logged:
        logged.add(name)
        _log.info("column %r: lists of one length are written as %s", name, type_)
    return converted


def vectors(values: npt.NDArray[Any], type_: pa.DataType | None) -> pa.Array:
    """Build fixed-size lists from rows of an n-dimensional array; nested lists if n > 2."""
    array = pa.array(values.reshape(-1))
    for size in reversed(values.shape[1:]):
        array = pa.FixedSizeListArray.from_arrays(array, size)
    return array if type_ is None else array.cast(type_)
