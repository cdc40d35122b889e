"""Codecs of files 2.1 to 2.3 decoded in numpy: the oracle for encoders and for the kernel.

Each function raises CorruptFileError for bytes that contradict the description or the count.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.errors import BatchTooLargeError, CorruptFileError, kernel_errors
from alance.format.blocks import (
    Block,
    FixedSizeListBlock,
    FixedWidth,
    NullBlock,
    StructBlock,
    VariableWidth,
)
from alance.format.codecs.fixed import (
    ByteStreamSplit,
    Constant,
    FixedSizeList,
    Flat,
    InlineBitpacking,
    OutOfLineBitpacking,
)
from alance.format.codecs.general import General, Scheme, decompress
from alance.format.codecs.rle import Rle
from alance.format.codecs.sequence import (
    MAX_NUMBER,
    Arithmetic,
    Delta,
    Distinct,
    NumberRuns,
    SequenceVariable,
    Stored,
)
from alance.format.codecs.strings import Fsst, Variable
from alance.format.codecs.structs import Child, PackedStruct, VariablePackedStruct
from alance.format.codecs.words import NumbersForm

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from alance.base.arrays import Bytes, Int32s, Int64s
    from alance.format.codecs.base import BlockCodec, MiniBlockCodec, PerValueCodec
    from alance.format.codecs.sequence import SequenceCodec
    from alance.format.codecs.words import KernelNumbers

PACKED_AT_ONCE: Final = 1024  # values per packed block


def decode_chunk(codec: MiniBlockCodec, buffers: Sequence[Bytes], num_values: int) -> Block:
    """Decode the values of a mini-block chunk."""
    match codec:
        case General(scheme=scheme, inner=inner):
            return decode_chunk(inner, [content_of(scheme, buffers[0]), *buffers[1:]], num_values)
        case Flat() | InlineBitpacking():
            return decode_block(codec, buffers[0], num_values)
        case ByteStreamSplit(bits_per_value=bits):
            planes = _checked(buffers[0], num_values, bits, "byte stream split")
            planes = planes.reshape(bits // 8, num_values)
            return FixedWidth(bits, num_values, np.ascontiguousarray(planes.T).reshape(-1))
        case Rle():
            return _decode_runs(codec, buffers, num_values)
        case FixedSizeList():
            widths = [level.items_per_row for level in codec.levels if level.has_validity]
            *validity, items = [
                _checked(buffer, num_values, bits)
                for buffer, bits in zip(buffers, [*widths, codec.item_bits], strict=True)
            ]
            return _nested(codec, num_values, validity, items)
        case PackedStruct():
            rows = FixedWidth(
                codec.bits_per_value,
                num_values,
                _checked(buffers[0], num_values, codec.bits_per_value),
            )
            return _members(codec, rows)
        case Variable():
            return _string_chunk(codec, buffers[0], num_values)
        case Fsst():
            return _expanded(codec, _string_chunk(codec.inner, buffers[0], num_values))
        case SequenceVariable():
            return _sequence_chunk(codec, buffers, num_values)
    raise AssertionError(codec)


def decode_block(codec: BlockCodec, data: Bytes, num_values: int) -> Block:
    """Decode values in a single buffer: levels, or the items of a dictionary."""
    match codec:
        case General(scheme=scheme, inner=inner):
            return decode_block(inner, content_of(scheme, data), num_values)
        case Flat(bits_per_value=bits):
            return FixedWidth(bits, num_values, _checked(data, num_values, bits))
        case InlineBitpacking(bits_per_value=bits):
            return FixedWidth(bits, num_values, _inline_unpacked(data, num_values, bits))
        case OutOfLineBitpacking(bits_per_value=bits, packed_bits=width):
            return FixedWidth(bits, num_values, unpacked(data, num_values, bits, width))
        case Rle():
            return _decode_runs(codec, split_payload(data), num_values)
        case FixedSizeList(bits_per_value=bits):
            rows = FixedWidth(bits, num_values, _checked(data, num_values, bits))
            return decode_values(codec, rows)
        case Variable():
            return _string_block(codec, data, num_values)
        case Constant(value=value):
            if len(data):
                raise CorruptFileError(f"constant: a block of {len(data)} bytes")
            return _repeated(value, num_values)
    raise AssertionError(codec)


def decode_values(codec: PerValueCodec, values: FixedWidth | VariableWidth) -> Block:
    """Decode values that were unzipped from the rows of a full-zip page."""
    match codec:
        case Flat(bits_per_value=bits):
            return _fixed(values, bits)
        case Constant(value=value):
            return _repeated(value, _fixed(values, 0).num_values)
        case PackedStruct(bits_per_value=bits):
            return _members(codec, _fixed(values, bits))
        case FixedSizeList(bits_per_value=bits):
            return _zipped_lists(codec, _fixed(values, bits))
        case Variable():
            return _strings(codec, _variable(values))
        case Fsst():
            return _expanded(codec, _strings(codec.inner, _variable(values)))
        case General(scheme=scheme, inner=inner):
            units = _variable(values)
            bounds = units.offsets.astype(np.int64, copy=False)
            parts = decompress(scheme, units.data, bounds[:-1], np.diff(bounds))
            return _strings(inner, VariableWidth(*parts))
        case VariablePackedStruct():
            return _packed_rows(codec, _variable(values))
    raise AssertionError(codec)


def content_of(scheme: Scheme, unit: Bytes) -> Bytes:
    """Decompress a single unit."""
    return decompress(scheme, unit, np.zeros(1, np.int64), np.array([len(unit)]))[1]


def _checked(data: Bytes, num_values: int, bits: int, codec: str = "flat") -> Bytes:
    """Copy the bytes of values after checking their number."""
    if len(data) != (num_values * bits + 7) // 8:
        raise CorruptFileError(f"{codec}: {len(data)} bytes for {num_values} values of {bits} bits")
    return data.copy()


def _fixed(values: FixedWidth | VariableWidth, bits: int) -> FixedWidth:
    if isinstance(values, VariableWidth) or values.bits_per_value != bits:
        raise CorruptFileError(f"zipped values that are not of {bits} bits")
    return values


def _variable(values: FixedWidth | VariableWidth) -> VariableWidth:
    if isinstance(values, FixedWidth):
        raise CorruptFileError(f"values of {values.bits_per_value} bits, described as variable")
    return values


def _repeated(value: bytes, num_values: int) -> FixedWidth:
    data = np.tile(np.frombuffer(value, np.uint8), num_values)
    return FixedWidth(8 * len(value), num_values, data)


def _inline_unpacked(data: Bytes, num_values: int, bits: int) -> Bytes:
    """Unpack at most 1024 values whose width precedes them."""
    word = bits // 8
    if num_values > PACKED_AT_ONCE:
        raise CorruptFileError(f"bit-packing: {num_values} values in one block of 1024")
    if num_values == 0 and len(data) == 0:
        return data
    width = int.from_bytes(data[:word].tobytes(), "little")
    if len(data) < word or width > bits or len(data) != word + 128 * width:
        raise CorruptFileError(f"bit-packing: a block of {len(data)} bytes with width {width}")
    return unpacked(data[word:], PACKED_AT_ONCE, bits, width)[: num_values * word]


def _decode_runs(codec: Rle, buffers: Sequence[Bytes], num_values: int) -> FixedWidth:
    values, lengths = (
        content_of(Scheme(scheme), buffer) if scheme else buffer
        for (*_, scheme), buffer in zip((codec.values, codec.lengths), buffers, strict=True)
    )
    is_flat = codec.values[0] == NumbersForm.FLAT
    flat, stored = (codec.values, values) if is_flat else (codec.lengths, lengths)
    runs = len(stored) // (flat[1] // 8)
    if runs > num_values or (runs == 0 and num_values):
        raise CorruptFileError(f"rle: {runs} runs in {num_values} values")
    repeats = _numbers(codec.lengths, lengths, runs).astype(np.int64)
    items = _numbers(codec.values, values, runs)
    if (repeats == 0).any():
        raise CorruptFileError("rle: a run of length 0")
    total = int(repeats.sum())
    if total < num_values or (runs and total - int(repeats[-1]) >= num_values):
        raise CorruptFileError(f"rle: runs hold {total} values, the chunk has {num_values}")
    repeats[-1:] -= total - num_values
    data = np.repeat(items, repeats).view(np.uint8)
    return FixedWidth(codec.bits_per_value, num_values, data)


def _numbers(form: KernelNumbers, raw: Bytes, runs: int) -> npt.NDArray[np.unsignedinteger]:
    kind, bits, width, *_ = form
    codec = Flat(bits) if kind == NumbersForm.FLAT else OutOfLineBitpacking(bits, width)
    block = decode_block(codec, raw, runs)
    assert isinstance(block, FixedWidth)
    return block.data.view(f"<u{bits // 8}")


def _column(rows: FixedWidth, start: int, bits: int) -> Bytes:
    """Copy a member out of rows: `bits` bits of each row, from the row's byte `start` on."""
    matrix = rows.data.reshape(rows.num_values, rows.bits_per_value // 8)
    column = matrix[:, start : start + (bits + 7) // 8]
    if bits % 8 == 0:
        return np.ascontiguousarray(column).reshape(-1)
    single = np.unpackbits(column, axis=1, count=bits, bitorder="little")
    return np.packbits(single, bitorder="little")


def _zipped_lists(codec: FixedSizeList, rows: FixedWidth) -> Block:
    validity: list[Bytes] = []
    start = 0
    for level in codec.levels:
        if level.has_validity:
            validity.append(_column(rows, start, level.items_per_row))
            start += -(-level.items_per_row // 8)
    return _nested(codec, rows.num_values, validity, _column(rows, start, codec.item_bits))


def _nested(codec: FixedSizeList, num_rows: int, validity: Sequence[Bytes], items: Bytes) -> Block:
    """Wrap items in their lists."""
    num_items = num_rows * codec.levels[-1].items_per_row
    block: Block = NullBlock(num_items)
    if codec.bits_per_item is not None:
        block = FixedWidth(codec.bits_per_item, num_items, items)
    remaining = list(validity)
    for level in reversed(codec.levels):
        bits = remaining.pop() if level.has_validity else None
        block = FixedSizeListBlock(level.dimension, block, bits)
    return block


def _members(codec: PackedStruct, rows: FixedWidth) -> StructBlock:
    starts = accumulate((bits // 8 for bits in codec.child_bits), initial=0)
    children = tuple(
        FixedWidth(bits, rows.num_values, _column(rows, start, bits))
        for bits, start in zip(codec.child_bits, starts, strict=False)
    )
    return StructBlock(rows.num_values, children)


def _packed_rows(codec: VariablePackedStruct, rows: VariableWidth) -> StructBlock:
    bounds = rows.offsets.astype(np.int64)
    places, ends = bounds[:-1], bounds[1:]
    children = []
    for part in codec.parts:
        starts, sizes = _places(part, rows.data, places, ends)
        with kernel_errors:
            offsets, data = _kernels.concat_spans(rows.data, starts, sizes)
        bits = part.codec.bits_per_value
        values = VariableWidth(offsets, data) if bits is None else FixedWidth(bits, len(ends), data)
        children.append(decode_values(part.codec, values))
        places = starts + sizes
    if (places != ends).any():
        raise CorruptFileError("packed rows: bytes behind the last member of a row")
    return StructBlock(rows.num_values, tuple(children))


def _places(part: Child, data: Bytes, starts: Int64s, ends: Int64s) -> tuple[Int64s, Int64s]:
    """Return the starts and the sizes in bytes of a member's values."""
    if part.bits_per_length is None:
        assert part.codec.bits_per_value is not None
        sizes = np.full(len(starts), part.codec.bits_per_value // 8, np.int64)
        if (sizes > ends - starts).any():
            raise CorruptFileError("packed rows: a row ends inside a value")
        return starts, sizes
    width = part.bits_per_length // 8
    if (ends - starts < width).any():
        raise CorruptFileError("packed rows: a row ends inside a length")
    lengths = data[starts[:, None] + np.arange(width)].view(f"<u{width}").reshape(-1)
    starts = starts + width
    if (lengths > (ends - starts).astype(np.uint64)).any():
        raise CorruptFileError("packed rows: a value leaves its row")
    return starts, lengths.astype(np.int64)


def _string_chunk(codec: Variable, chunk: Bytes, num_values: int) -> VariableWidth:
    word = codec.bits_per_offset // 8
    if num_values == 0 and len(chunk) == 0:
        return VariableWidth(np.zeros(1, f"i{word}"), chunk)
    if len(chunk) % word or num_values >= len(chunk) // word:
        raise CorruptFileError(f"variable: {num_values} values in {len(chunk)} bytes")
    stored = chunk[: word * (num_values + 1)].view(f"<i{word}")
    first, last = int(stored[0]), int(stored[-1])
    if not word * (num_values + 1) <= first <= last <= len(chunk) or (np.diff(stored) < 0).any():
        raise CorruptFileError(f"variable: offsets from {first} to {last} of {len(chunk)} bytes")
    return VariableWidth(stored - stored[0], chunk[first:last].copy())


def _string_block(codec: Variable, block: Bytes, num_values: int) -> VariableWidth:
    """Decode strings behind a header of the offsets' bits and the start of the strings' bytes."""
    bits, word = codec.bits_per_offset, codec.bits_per_offset // 8
    if len(block) < word * (3 + num_values):
        raise CorruptFileError(f"variable: {num_values} values in a block of {len(block)} bytes")
    stored_bits, bytes_start = np.frombuffer(block, f"<u{word}", 2).tolist()
    offsets = np.frombuffer(block, f"<i{word}", num_values + 1, offset=2 * word).copy()
    data = block[bytes_start:].copy()
    if stored_bits != bits or offsets[0] or offsets[-1] > len(data) or (np.diff(offsets) < 0).any():
        raise CorruptFileError(f"variable: a block of {stored_bits} bits, offsets {offsets}")
    return VariableWidth(offsets, data[: offsets[-1]])


def _sequence_chunk(
    codec: SequenceVariable, buffers: Sequence[Bytes], num_values: int
) -> VariableWidth:
    data = buffers[-1]
    payload = buffers[0] if codec.offsets.has_payload else data[:0]
    offsets = decode_sequence(codec.offsets, payload, num_values + 1)
    if offsets[0] or offsets[-1] != len(data) or (offsets[1:] < offsets[:-1]).any():
        raise CorruptFileError("variable: offsets do not rise from 0 to the end of the bytes")
    return _strings(Variable(codec.offsets.bits), VariableWidth(offsets, data.copy()))


def _strings(codec: Variable, strings: VariableWidth) -> VariableWidth:
    """Return strings with offsets of the codec's width."""
    dtype = np.dtype(f"i{codec.bits_per_offset // 8}")
    if int(strings.offsets[-1]) > np.iinfo(dtype).max:
        raise BatchTooLargeError(f"strings of {strings.offsets[-1]} bytes with 32-bit offsets")
    offsets: Int32s | Int64s = strings.offsets.astype(dtype, copy=False)
    return VariableWidth(offsets, strings.data)


def _expanded(codec: Fsst, strings: VariableWidth) -> VariableWidth:
    if codec.table is None:
        return strings
    symbols, lengths = codec.table
    with kernel_errors:
        return VariableWidth(*_kernels.decode_fsst(strings.offsets, strings.data, symbols, lengths))


def unpacked(data: Bytes, num_values: int, bits: int, width: int) -> Bytes:
    """Unpack blocks of 1024 values of `width` bits; the last block may be shorter and raw."""
    starts, sizes = np.zeros(1, np.int64), np.full(1, len(data), np.int64)
    counts = np.full(1, num_values, np.int64)
    with kernel_errors:
        return _kernels.unpack_blocks(data, starts, sizes, counts, bits, width)


def split_payload(data: Bytes) -> list[Bytes]:
    """Split a buffer of runs: u64 size of the values, the values, the lengths."""
    stop = _sum_of_sizes(data, 1)
    return [data[8:stop], data[stop:]]


def _sum_of_sizes(data: Bytes, count: int) -> int:
    """Return the end of the parts whose u64 sizes a buffer begins with."""
    start = 8 * count
    sizes = [int.from_bytes(data[at : at + 8].tobytes(), "little") for at in range(0, start, 8)]
    if start + sum(sizes) > len(data):
        raise CorruptFileError(f"rle or dictionary: parts of {sizes} bytes in {len(data)}")
    return start + sum(sizes)


def decode_sequence(codec: SequenceCodec, payload: Bytes, count: int) -> Int64s:
    """Decode a sequence of `count` numbers; the payload is empty if the codec has none."""
    match codec:
        case Arithmetic(start=start, step=step):
            codec.check(count)
            return start + step * np.arange(count, dtype=np.int64)
        case Stored():
            return _stored_numbers(codec, payload, count)
        case Delta():
            return _sums(codec, payload, count)
        case NumberRuns():
            return _number_runs(codec, payload, count)
        case Distinct():
            return _distinct_numbers(codec, payload, count)
    raise AssertionError(codec)


def _stored_numbers(codec: Stored, payload: Bytes, count: int) -> Int64s:
    block = decode_block(codec.codec, payload, count)
    assert isinstance(block, FixedWidth)
    numbers = np.frombuffer(block.data, f"<u{codec.bits // 8}")
    if (numbers > MAX_NUMBER).any():
        raise CorruptFileError("sequence: a number that is not below 2^63")
    return numbers.astype(np.int64)


def _sums(codec: Delta, payload: Bytes, count: int) -> Int64s:
    if count == 0:
        raise CorruptFileError("delta: a sequence without numbers")
    deltas = decode_sequence(codec.deltas, payload, count - 1).tolist()
    numbers = [*accumulate(deltas, initial=codec.base)]
    if numbers[-1] > min(MAX_NUMBER, (1 << codec.bits) - 1):
        raise CorruptFileError(f"delta: numbers to {numbers[-1]} in {codec.bits} bits")
    return np.array(numbers, np.int64)


def _number_runs(codec: NumberRuns, payload: Bytes, count: int) -> Int64s:
    parts = split_payload(payload) if codec.has_payload else [payload, payload]
    runs = _num_runs(codec, count, len(parts[0]), len(parts[1]))
    if runs > count:
        raise CorruptFileError(f"runs: {runs} of them in {count} numbers")
    lengths = decode_sequence(codec.lengths, parts[1], runs)
    if (lengths == 0).any() or int(lengths.sum()) != count:
        raise CorruptFileError(f"runs: lengths of together {lengths.sum()} in {count} numbers")
    numbers: Int64s = np.repeat(decode_sequence(codec.values, parts[0], runs), lengths)
    return numbers


def _num_runs(codec: NumberRuns, count: int, value_bytes: int, length_bytes: int) -> int:
    """Return the number of runs, which is not stored, from their lengths or a payload's size."""
    match codec.lengths:
        case Arithmetic(start=start, step=0):
            return count // max(start, 1)
        case Arithmetic(start=start, step=step):
            lengths = range(start, start + step * (count + 1), step)
            sums = [0, *accumulate(lengths)]
            return next(runs for runs, total in enumerate(sums) if total >= count)
    if isinstance(codec.values, Stored) and isinstance(codec.values.codec, Flat):
        return value_bytes // (codec.bits // 8)
    return length_bytes // 4


def _distinct_numbers(codec: Distinct, payload: Bytes, count: int) -> Int64s:
    index_part = item_part = payload
    if codec.has_payload:
        stop = _sum_of_sizes(payload, 2)
        start = 16 + int.from_bytes(payload[:8].tobytes(), "little")
        index_part, item_part = payload[16:start], payload[start:stop]
    indices = decode_sequence(codec.indices, index_part, count)
    if (indices >= codec.num_items).any():
        raise CorruptFileError(f"an index beyond {codec.num_items} distinct numbers")
    numbers: Int64s = decode_sequence(codec.items, item_part, codec.num_items)[indices]
    return numbers
