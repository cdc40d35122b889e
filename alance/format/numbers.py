"""Arrow arrays as numpy arrays, without pandas, whose import takes 0.2 s; offsets and positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from alance import _kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from alance.arrays import Bytes, Int64s, Mask, UInt64s


def as_numbers(array: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """The values of an integer or float array without nulls; shared where it is one chunk."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return np.from_dlpack(array)


def as_mask(array: pa.BooleanArray) -> Mask:
    """Where a boolean array is true, and not null; shape (n,)."""
    validity, values = array.buffers()
    mask = _bits(values, array.offset, len(array))
    if array.null_count:
        mask &= _bits(validity, array.offset, len(array))
    return mask


def true_rows(array: pa.BooleanArray) -> Int64s:
    """The places of a boolean array that are true, ascending; shape (n,)."""
    validity, values = array.buffers()
    if not len(array) or values is None:
        return np.empty(0, np.int64)
    valid = np.frombuffer(validity if array.null_count else b"", np.uint8)
    return _kernels.true_rows(np.frombuffer(values, np.uint8), valid, array.offset, len(array))


def validity_of(array: pa.Array) -> Mask | None:
    """Where an array is not null, shape (n,); None: everywhere.

    From the bits themselves: Arrow's own function, the first time, imports all others (30 ms).
    """
    if not array.null_count:
        return None
    validity = array.buffers()[0]
    if validity is None or pa.types.is_dictionary(array.type):
        return as_mask(array.is_valid())
    return _bits(validity, array.offset, len(array))


def mask_bytes(valid: Mask | None) -> Bytes:
    """A mask as kernels take it: a byte a row; no byte where it is None, and every row counts."""
    return np.empty(0, np.uint8) if valid is None else valid.view(np.uint8)


def distinct(values: Int64s) -> tuple[Int64s, Int64s]:
    """The distinct values, ascending, and the place of each value among them; shape (n,).

    Like `np.unique`, whose first call imports more of numpy: 15 ms that the loop would stand.
    """
    order = values.argsort()
    ordered = values[order]
    is_new = np.empty(len(values), np.bool_)
    is_new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    places = np.empty(len(values), np.int64)
    places[order] = is_new.cumsum() - 1
    return ordered[is_new], places


def places_in(values: Int64s, sought: Int64s) -> tuple[Int64s, Mask]:
    """How many of ascending values are below each sought one, and which are among them."""
    places = np.searchsorted(values, sought)
    if not len(values):
        return places, np.zeros(len(sought), np.bool_)
    return places, values[np.minimum(places, len(values) - 1)] == sought


def offsets_of(sizes: npt.NDArray[Any] | Sequence[int]) -> Int64s:
    """Where each of some pieces begins that stand end to end, and the end; shape (n + 1,)."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def positions_of(starts: Int64s, counts: Int64s) -> Int64s:
    """The numbers of some ranges, one range behind the other; shape (sum of `counts`,)."""
    shifts = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    positions: Int64s = shifts + np.arange(len(shifts))
    return positions


def unsigned(numbers: npt.NDArray[np.integer[Any]]) -> UInt64s:
    """Whole numbers as unsigned ones of 64 bits in the same order."""
    if numbers.dtype.kind == "u":
        return numbers.astype(np.uint64)
    return numbers.astype(np.int64).view(np.uint64) ^ np.uint64(1 << 63)


def _bits(buffer: pa.Buffer, offset: int, count: int) -> Mask:
    first = offset // 8
    content = np.frombuffer(buffer, np.uint8)[first : (offset + count + 7) // 8]
    bits = np.unpackbits(content, bitorder="little")[offset - 8 * first :][:count]
    return bits.view(np.bool_)


def to_arrow(values: npt.NDArray[Any], valid: Mask | None = None) -> pa.Array:
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


def as_scalar(value: object, arrow: pa.DataType | None = None) -> pa.Scalar:
    """A value as an Arrow scalar of a type (default: what Arrow infers).

    Whole numbers stand for what a type stores: days of a date, units of a timestamp, the digits
    of a decimal.
    """
    if value is None:
        return pa.nulls(1, arrow or pa.null())[0]
    if isinstance(value, str | bytes):
        content = value.encode() if isinstance(value, str) else value
        inferred = pa.string() if isinstance(value, str) else pa.binary()
        offsets = np.array([0, len(content)], np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        scalar = pa.Array.from_buffers(inferred, 1, buffers)[0]
        return scalar if arrow is None or arrow == inferred else scalar.cast(arrow)
    if isinstance(value, bool):
        return to_arrow(np.array([value]))[0]
    if isinstance(value, int):
        arrow = arrow or pa.int64()
        if not pa.types.is_floating(arrow):
            signed = not pa.types.is_unsigned_integer(arrow)
            content = value.to_bytes(arrow.bit_width // 8, "little", signed=signed)
            return pa.Array.from_buffers(arrow, 1, [None, pa.py_buffer(content)])[0]
    if isinstance(value, int | float):
        arrow = arrow or pa.float64()
        dtype = {16: np.float16, 32: np.float32, 64: np.float64}[arrow.bit_width]
        return to_arrow(np.array([value], dtype))[0]
    raise TypeError(f"no Arrow scalar of {type(value).__name__}")


def text_array(contents: Sequence[bytes], arrow: pa.DataType) -> pa.Array:
    """Texts or bytes as an array of a large type: of Arrow's own calls the first loads pandas."""
    ends = offsets_of([len(content) for content in contents])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(contents))]
    return pa.Array.from_buffers(arrow, len(contents), buffers)


def packed(texts: Sequence[str]) -> tuple[Int64s, Bytes]:
    """Offsets and bytes of texts, as the kernel wants them."""
    contents = [text.encode() for text in texts]
    return offsets_of(list(map(len, contents))), np.frombuffer(b"".join(contents), np.uint8)


def contents_of(texts: pa.Array) -> tuple[Int64s, Bytes]:
    """Offsets and bytes of texts, or of bytes of any type, as the kernel wants them; shared where
    the type is a large one. What stands in the place of nulls is there, too.
    """
    if not (pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)):
        texts = texts.cast(pa.large_binary())
    _, offsets, data = texts.buffers()
    if offsets is None or not len(texts):
        return np.zeros(len(texts) + 1, np.int64), np.empty(0, np.uint8)
    starts = np.frombuffer(offsets, np.int64, len(texts) + 1, 8 * texts.offset)
    return starts, np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def python_value(value: pa.Scalar) -> Any:
    """A value for messages: text where Python has none such, as of years beyond 9999."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return pa.repeat(value, 1).cast(pa.string())[0].as_py()
