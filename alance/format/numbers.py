"""Arrow arrays as numpy arrays, without pandas: pyarrow's own way imports it, which takes 0.2 s."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt


def as_numbers(array: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """The values of an integer or float array without nulls; shared where it is one chunk."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return np.from_dlpack(array)


def as_mask(array: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """Where a boolean array is true, and not null; shape (n,)."""
    validity, values = array.buffers()
    mask = _bits(values, array.offset, len(array))
    if array.null_count:
        mask &= _bits(validity, array.offset, len(array))
    return mask


def _bits(buffer: pa.Buffer, offset: int, count: int) -> npt.NDArray[np.bool_]:
    first = offset // 8
    content = np.frombuffer(buffer, np.uint8)[first : (offset + count + 7) // 8]
    bits = np.unpackbits(content, bitorder="little")[offset - 8 * first :][:count]
    return bits.view(np.bool_)


def to_arrow(values: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Numbers or booleans as an Arrow array; numbers are shared, not copied.

    Args:
        values: shape (n,).
        valid: shape (n,), false where the array is null; None: nowhere.
    """
    data = values
    if values.dtype == np.bool_:
        data = np.packbits(values, bitorder="little")
    validity = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    arrow = pa.from_numpy_dtype(values.dtype)
    content = pa.py_buffer(np.ascontiguousarray(data))
    return pa.Array.from_buffers(arrow, len(values), [validity, content])
