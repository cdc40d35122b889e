"""Conversion between Arrow and numpy without pandas, whose import takes 0.2 s."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from alance import _kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from alance.base.arrays import Bytes, Int32s, Int64s, Mask, UInt64s


def as_numbers(array: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return the values of an integer or float array without nulls; a view if it has one chunk."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return np.from_dlpack(array)


def as_mask(array: pa.BooleanArray) -> Mask:
    """Return the mask of slots that are true (false for nulls); shape (n,)."""
    validity, values = array.buffers()
    mask = _bits(values, array.offset, len(array))
    if array.null_count:
        mask &= _bits(validity, array.offset, len(array))
    return mask


def true_rows(array: pa.BooleanArray) -> Int64s:
    """Return the positions of true values, ascending; shape (n,)."""
    validity, values = array.buffers()
    if not len(array) or values is None:
        return np.empty(0, np.int64)
    valid = np.frombuffer(validity if array.null_count else b"", np.uint8)
    return _kernels.true_rows(np.frombuffer(values, np.uint8), valid, array.offset, len(array))


def validity_of(array: pa.Array) -> Mask | None:
    """Return the mask of valid slots, shape (n,). None if there are no nulls.

    Reads the bits directly, because Arrow's own function first imports all compute functions (30
    ms).
    """
    if not array.null_count:
        return None
    validity = array.buffers()[0]
    if validity is None or pa.types.is_dictionary(array.type):
        return as_mask(array.is_valid())
    return _bits(validity, array.offset, len(array))


def storage_type(arrow: pa.DataType) -> pa.DataType:
    """Return the storage type of an extension type, or the type itself."""
    return arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow


def is_text(arrow: pa.DataType) -> bool:
    """True if values are UTF-8 strings."""
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))


def is_variable(arrow: pa.DataType) -> bool:
    """True if values are strings or binary with offsets."""
    return bool(is_text(arrow) or pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow))


def is_variable_list(arrow: pa.DataType) -> bool:
    """True for lists of variable length, but not for maps."""
    return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow))


def is_large(arrow: pa.DataType) -> bool:
    """True if the offsets of strings or lists have 64 bits."""
    return bool(
        pa.types.is_large_string(arrow)
        or pa.types.is_large_binary(arrow)
        or pa.types.is_large_list(arrow)
    )


def storage_of(array: pa.Array) -> pa.Array:
    """Return the array without its extension type."""
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def bitmap(valid: Mask | None) -> pa.Buffer | None:
    """Pack a validity mask into Arrow's LSB-first bits. None if `valid` is None."""
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def bits_of(content: Bytes, start: int, count: int) -> Bytes:
    """Return `count` bits from `start` on, LSB first; a view if `start` is a multiple of 8."""
    part = content[start // 8 : (start + count + 7) // 8]
    if start % 8 == 0:
        return part
    bits = np.unpackbits(part, bitorder="little")[start % 8 :][:count]
    return np.packbits(bits, bitorder="little")


def bytes_of(array: pa.Array) -> Bytes:
    """Return the bytes of fixed-width values of whole bytes; a view.

    The bytes of nulls are arbitrary.
    """
    width = array.type.bit_width // 8
    content = array.buffers()[1]
    if content is None:
        return np.zeros(len(array) * width, np.uint8)
    return np.frombuffer(content, np.uint8, len(array) * width, array.offset * width)


def array_bytes(array: pa.Array) -> int:
    """Return the bytes of an array's values and validity, as `nbytes`, which takes 7 us."""
    if not pa.types.is_primitive(array.type):
        return int(array.nbytes)
    validity = array.buffers()[0]
    bits = array.type.bit_width + (validity is not None)
    return -(-len(array) * int(bits) // 8)


def numpy_type(kind: pa.DataType) -> np.dtype[Any]:
    """Return the numpy type of Arrow integers, floats, or other types that are stored as integers.

    Replaces `to_pandas_dtype`, which imports pandas in pyarrow 20 and fails without it.
    """
    is_unsigned = pa.types.is_unsigned_integer(kind)
    letter = "f" if pa.types.is_floating(kind) else "iu"[is_unsigned]
    return np.dtype(f"{letter}{kind.bit_width // 8}")


def bits_of_type(arrow: pa.DataType) -> int | None:
    """Return the bits per value of a fixed-width type, or of dictionary keys; else None."""
    try:
        return int(arrow.bit_width)
    except ValueError:
        return None


def canonical(array: pa.Array) -> pa.Array:
    """Replace -0.0 by 0.0 and all NaNs by the same NaN, so that equal floats have equal bits.

    Returns other arrays unchanged.
    """
    if not pa.types.is_floating(array.type):
        return array
    content = _kernels.canonical_floats(bytes_of(array), array.type.bit_width)
    if content is None:
        return array
    return to_arrow(content.view(numpy_type(array.type)), validity_of(array))


def offsets_in(array: pa.Array) -> Int32s | Int64s:
    """Return the offsets of strings or lists, including the final end.

    The result is a view if the buffer is aligned.
    """
    dtype = np.dtype(np.int64 if is_large(array.type) else np.int32)
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array) + 1, dtype)
    offsets = np.frombuffer(buffer, dtype, len(array) + 1, array.offset * dtype.itemsize)
    return offsets if offsets.flags.aligned else offsets.copy()


def strings_of(array: pa.Array) -> tuple[Int32s | Int64s, Bytes]:
    """Return the offsets and bytes of strings as views. A null may have bytes, too."""
    data = array.buffers()[2]
    return offsets_in(array), np.frombuffer(data or b"", np.uint8)


def strings_array(
    arrow: pa.DataType,
    offsets: npt.NDArray[np.integer[Any]],
    data: Bytes | bytes,
    valid: Mask | None = None,
) -> pa.Array:
    """Build strings from offsets and bytes without a copy: the inverse of `strings_of`."""
    buffers = [bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(arrow, len(offsets) - 1, buffers)


def lists_of(array: pa.Array) -> tuple[Int64s, pa.Array]:
    """Return the offsets of lists, from 0 and with the final end, and the items of all lists."""
    starts = offsets_in(array).astype(np.int64)
    first, last = int(starts[0]), int(starts[-1])
    return starts - first, array.values.slice(first, last - first)


def items_of(array: pa.Array) -> pa.Array:
    """Return the items of fixed-size lists, including the items of null lists."""
    size = array.type.list_size
    return array.values.slice(array.offset * size, len(array) * size)


def mask_bytes(valid: Mask | None) -> Bytes:
    """Convert a mask to a byte per row for kernels.

    Empty if `valid` is None, which means all rows.
    """
    return np.empty(0, np.uint8) if valid is None else valid.view(np.uint8)


def ascending(numbers: UInt64s) -> UInt64s:
    """Return the numbers in ascending order.

    Takes 14 ms for 900 000 row addresses, 2 ms if they are in order; `np.sort` takes 46 ms.
    """
    return _kernels.order_of(numbers)[0]


def is_first(values: npt.NDArray[Any]) -> Mask:
    """Return the mask of the values that differ from the one before; shape (n,)."""
    is_new = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_new[1:])
    return is_new


def union(values: Int64s, more: Int64s) -> Int64s:
    """Return the distinct values of two ascending arrays, ascending.

    Unlike `np.union1d`, this neither hashes nor holds the interpreter's lock.
    """
    merged = np.concatenate((values, more))
    merged.sort(kind="stable")  # merges the two in one pass
    return merged[is_first(merged)]


def distinct(values: Int64s) -> tuple[Int64s, Int64s]:
    """Return the distinct values, ascending, and the index of each value among them; shape (n,).

    Replaces `np.unique`, whose first call imports more of numpy and blocks the event loop for 15
    ms.
    """
    order = values.argsort()
    ordered = values[order]
    is_new = is_first(ordered)
    places = np.empty(len(values), np.int64)
    places[order] = is_new.cumsum() - 1
    return ordered[is_new], places


def places_in(values: npt.NDArray[Any], sought: npt.NDArray[Any]) -> tuple[Int64s, Mask]:
    """Return the insertion point of each `sought` in ascending `values`, and the mask of hits."""
    places = np.searchsorted(values, sought)
    if not len(values):
        return places, np.zeros(len(sought), np.bool_)
    return places, values[np.minimum(places, len(values) - 1)] == sought


def offsets_of(sizes: npt.NDArray[Any] | Sequence[int]) -> Int64s:
    """Return the start and end offsets of consecutive pieces; shape (n + 1,)."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def positions_of(starts: Int64s, counts: Int64s) -> Int64s:
    """Enumerate the numbers of consecutive ranges; shape (sum of `counts`,)."""
    shifts = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    positions: Int64s = shifts + np.arange(len(shifts))
    return positions


def unsigned(numbers: npt.NDArray[np.integer[Any]]) -> UInt64s:
    """Map integers to unsigned 64-bit integers in the same order."""
    if numbers.dtype.kind == "u":
        return numbers.astype(np.uint64)
    return numbers.astype(np.int64).view(np.uint64) ^ np.uint64(1 << 63)


def _bits(buffer: pa.Buffer, offset: int, count: int) -> Mask:
    first = offset // 8
    content = np.frombuffer(buffer, np.uint8)[first : (offset + count + 7) // 8]
    bits = np.unpackbits(content, bitorder="little")[offset - 8 * first :][:count]
    return bits.view(np.bool_)


def to_arrow(values: npt.NDArray[Any], valid: Mask | None = None) -> pa.Array:
    """Convert numbers or booleans to an Arrow array; contiguous numbers are not copied."""
    data = values
    if values.dtype == np.bool_:
        data = np.packbits(values, bitorder="little")
    arrow = pa.from_numpy_dtype(values.dtype)
    content = pa.py_buffer(np.ascontiguousarray(data))
    return pa.Array.from_buffers(arrow, len(values), [bitmap(valid), content])


def as_scalar(value: object, arrow: pa.DataType | None = None) -> pa.Scalar:
    """Convert a value to an Arrow scalar; if `arrow` is None, Arrow infers the type.

    An integer is taken as the stored integer of any type, such as days of a date, units of a
    timestamp, or digits of a decimal.

    Raises:
        TypeError: the Python type does not fit the Arrow type.
    """
    if value is None:
        return pa.nulls(1, arrow or pa.null())[0]
    if isinstance(value, str | bytes):
        content = value.encode() if isinstance(value, str) else value
        inferred = pa.string() if isinstance(value, str) else pa.binary()
        scalar = strings_array(inferred, np.array([0, len(content)], np.int32), content)[0]
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


def text_array(
    contents: Sequence[bytes | memoryview], arrow: pa.DataType, valid: Mask | None = None
) -> pa.Array:
    """Build an array of a large string or binary type; Arrow's constructors would load pandas."""
    return strings_array(arrow, offsets_of(list(map(len, contents))), b"".join(contents), valid)


def packed(texts: Sequence[str]) -> tuple[Int64s, Bytes]:
    """Encode texts as offsets and bytes for kernels."""
    contents = [text.encode() for text in texts]
    return offsets_of(list(map(len, contents))), np.frombuffer(b"".join(contents), np.uint8)


def contents_of(texts: pa.Array) -> tuple[Int64s, Bytes]:
    """Return the 64-bit offsets and the bytes of strings for kernels.

    They are views for large types. A null may have bytes, too.
    """
    starts, data = strings_of(texts if is_large(texts.type) else texts.cast(pa.large_binary()))
    return starts.view(np.int64), data


def python_value(value: pa.Scalar) -> Any:
    """Convert a scalar to Python for messages. A value that Python cannot hold becomes text."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return pa.repeat(value, 1).cast(pa.string())[0].as_py()
