"""Codecs of files 2.1 to 2.3 decoded in numpy: the oracle for encoders and for the kernel.

Each function raises CorruptFileError for bytes that contradict the description or the count.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

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
from alance.format.codecs.general import Scheme, decompress
from alance.format.codecs.sequence import MAX_NUMBER, SequenceForm, check_count, sequence_codec
from alance.format.codecs.strings import SymbolTable
from alance.format.codecs.words import NumbersForm
from alance.format.numbers import offsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from alance.base.arrays import Bytes, Int32s, Int64s
    from alance.format.codecs.sequence import SequenceCodec
    from alance.format.codecs.words import KernelNumbers
    from alance.format.proto import encodings_v2_1_pb2 as pb

    Encoding = pb.CompressiveEncoding

PACKED_AT_ONCE: Final = 1024  # values per packed block


def decode_chunk(encoding: Encoding, buffers: Sequence[Bytes], num_values: int) -> Block:
    """Decode the values of a mini-block chunk."""
    match encoding.WhichOneof("compression"):
        case "general":
            content = content_of(encoding.general.compression.scheme, buffers[0])
            return decode_chunk(encoding.general.values, [content, *buffers[1:]], num_values)
        case "flat" | "inline_bitpacking":
            return decode_block(encoding, buffers[0], num_values)
        case "byte_stream_split":
            bits = encoding.byte_stream_split.values.flat.bits_per_value
            planes = _checked(buffers[0], num_values, bits, "byte stream split")
            planes = planes.reshape(bits // 8, num_values)
            return FixedWidth(bits, num_values, np.ascontiguousarray(planes.T).reshape(-1))
        case "rle":
            return _decode_runs(encoding.rle, buffers, num_values)
        case "fixed_size_list":
            lists = lists_of(encoding.fixed_size_list)
            widths = [items for _, items, has_validity in lists.levels if has_validity]
            *validity, items = [
                _checked(buffer, num_values, bits)
                for buffer, bits in zip(buffers, [*widths, lists.item_bits], strict=True)
            ]
            return _nested(lists, num_values, validity, items)
        case "packed_struct":
            bits = encoding.packed_struct.values.flat.bits_per_value
            rows = FixedWidth(bits, num_values, _checked(buffers[0], num_values, bits))
            return _members(encoding.packed_struct, rows)
        case "variable" if encoding.variable.offsets.HasField("flat"):
            return _string_chunk(encoding.variable, buffers[0], num_values)
        case "variable":
            return _sequence_chunk(encoding.variable, buffers, num_values)
        case "fsst":
            codes = _string_chunk(encoding.fsst.values.variable, buffers[0], num_values)
            return _expanded(encoding.fsst, codes)
    raise AssertionError(encoding)


def decode_block(encoding: Encoding, data: Bytes, num_values: int) -> Block:
    """Decode values in a single buffer: levels, or the items of a dictionary."""
    match encoding.WhichOneof("compression"):
        case "general":
            content = content_of(encoding.general.compression.scheme, data)
            return decode_block(encoding.general.values, content, num_values)
        case "flat":
            bits = encoding.flat.bits_per_value
            return FixedWidth(bits, num_values, _checked(data, num_values, bits))
        case "inline_bitpacking":
            bits = encoding.inline_bitpacking.uncompressed_bits_per_value
            return FixedWidth(bits, num_values, _inline_unpacked(data, num_values, bits))
        case "out_of_line_bitpacking":
            packed = encoding.out_of_line_bitpacking
            bits, width = packed.uncompressed_bits_per_value, packed.values.flat.bits_per_value
            return FixedWidth(bits, num_values, unpacked(data, num_values, bits, width))
        case "rle":
            return _decode_runs(encoding.rle, split_payload(data), num_values)
        case "fixed_size_list":
            bits = lists_of(encoding.fixed_size_list).row_bits
            rows = FixedWidth(bits, num_values, _checked(data, num_values, bits))
            return decode_values(encoding, rows)
        case "variable":
            return _string_block(encoding.variable, data, num_values)
    raise AssertionError(encoding)


def decode_values(encoding: Encoding, values: FixedWidth | VariableWidth) -> Block:
    """Decode values that were unzipped from the rows of a full-zip page."""
    match encoding.WhichOneof("compression"):
        case "flat":
            return _fixed(values, encoding.flat.bits_per_value)
        case "packed_struct":
            bits = encoding.packed_struct.values.flat.bits_per_value
            return _members(encoding.packed_struct, _fixed(values, bits))
        case "fixed_size_list":
            lists = lists_of(encoding.fixed_size_list)
            return _zipped_lists(lists, _fixed(values, lists.row_bits))
        case "variable":
            return _strings(_offset_bits(encoding.variable), _variable(values))
        case "fsst":
            bits = _offset_bits(encoding.fsst.values.variable)
            return _expanded(encoding.fsst, _strings(bits, _variable(values)))
        case "general":
            units = _variable(values)
            bounds = units.offsets.astype(np.int64, copy=False)
            scheme = Scheme(encoding.general.compression.scheme)
            parts = [decompress(scheme, units.data[at:end]) for at, end in pairwise(bounds)]
            content = np.frombuffer(b"".join(parts), np.uint8)
            strings = VariableWidth(offsets_of([*map(len, parts)]), content)
            return _strings(_offset_bits(encoding.general.values.variable), strings)
        case "variable_packed_struct":
            return _packed_rows(encoding.variable_packed_struct, _variable(values))
    raise AssertionError(encoding)


class Lists(NamedTuple):
    """Nested fixed-size lists: dimension, items of a row and validity of each level."""

    levels: list[tuple[int, int, bool]]  # outermost first
    bits_per_item: int | None  # None if all items are null and take no bytes

    @property
    def item_bits(self) -> int:
        return self.levels[-1][1] * (self.bits_per_item or 0)

    @property
    def row_bits(self) -> int:
        """Bits of a zipped row."""
        return self.item_bits + sum(8 * -(-items // 8) for _, items, valid in self.levels if valid)


def lists_of(message: pb.FixedSizeList) -> Lists:
    """Parse a description of fixed-size lists."""
    levels = [(message.items_per_value, message.items_per_value, message.has_validity)]
    while message.values.HasField("fixed_size_list"):
        message = message.values.fixed_size_list
        dimension = message.items_per_value
        levels.append((dimension, levels[-1][1] * dimension, message.has_validity))
    is_flat = message.values.HasField("flat")
    return Lists(levels, message.values.flat.bits_per_value if is_flat else None)


def _offset_bits(message: pb.Variable) -> int:
    return message.offsets.flat.bits_per_value


def content_of(scheme: int, unit: Bytes) -> Bytes:
    """Decompress a single unit."""
    return decompress(Scheme(scheme), unit)


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


def _decode_runs(message: pb.Rle, buffers: Sequence[Bytes], num_values: int) -> FixedWidth:
    encodings, contents = [], []
    for encoding, buffer in zip((message.values, message.run_lengths), buffers, strict=True):
        is_packed = encoding.HasField("general")
        scheme = encoding.general.compression.scheme
        contents.append(content_of(scheme, buffer) if is_packed else buffer)
        encodings.append(encoding.general.values if is_packed else encoding)
    flat = 0 if encodings[0].HasField("flat") else 1
    runs = len(contents[flat]) // (encodings[flat].flat.bits_per_value // 8)
    if runs > num_values or (runs == 0 and num_values):
        raise CorruptFileError(f"rle: {runs} runs in {num_values} values")
    items, lengths = (
        _words(decode_block(encoding, content, runs))
        for encoding, content in zip(encodings, contents, strict=True)
    )
    repeats = lengths.astype(np.int64)
    if (repeats == 0).any():
        raise CorruptFileError("rle: a run of length 0")
    total = int(repeats.sum())
    if total < num_values or (runs and total - int(repeats[-1]) >= num_values):
        raise CorruptFileError(f"rle: runs hold {total} values, the chunk has {num_values}")
    repeats[-1:] -= total - num_values
    data = np.repeat(items, repeats).view(np.uint8)
    return FixedWidth(8 * items.itemsize, num_values, data)


def _words(block: Block) -> npt.NDArray[np.unsignedinteger]:
    assert isinstance(block, FixedWidth)
    return block.data.view(f"<u{block.bits_per_value // 8}")


def _column(rows: FixedWidth, start: int, bits: int) -> Bytes:
    """Copy a member out of rows: `bits` bits of each row, from the row's byte `start` on."""
    matrix = rows.data.reshape(rows.num_values, rows.bits_per_value // 8)
    column = matrix[:, start : start + (bits + 7) // 8]
    if bits % 8 == 0:
        return np.ascontiguousarray(column).reshape(-1)
    single = np.unpackbits(column, axis=1, count=bits, bitorder="little")
    return np.packbits(single, bitorder="little")


def _zipped_lists(lists: Lists, rows: FixedWidth) -> Block:
    validity: list[Bytes] = []
    start = 0
    for _, items_per_row, has_validity in lists.levels:
        if has_validity:
            validity.append(_column(rows, start, items_per_row))
            start += -(-items_per_row // 8)
    return _nested(lists, rows.num_values, validity, _column(rows, start, lists.item_bits))


def _nested(lists: Lists, num_rows: int, validity: Sequence[Bytes], items: Bytes) -> Block:
    """Wrap items in their lists."""
    num_items = num_rows * lists.levels[-1][1]
    block: Block = NullBlock(num_items)
    if lists.bits_per_item is not None:
        block = FixedWidth(lists.bits_per_item, num_items, items)
    remaining = list(validity)
    for dimension, _, has_validity in reversed(lists.levels):
        bits = remaining.pop() if has_validity else None
        block = FixedSizeListBlock(dimension, block, bits)
    return block


def _members(message: pb.PackedStruct, rows: FixedWidth) -> StructBlock:
    starts = accumulate((bits // 8 for bits in message.bits_per_value), initial=0)
    children = tuple(
        FixedWidth(bits, rows.num_values, _column(rows, start, bits))
        for bits, start in zip(message.bits_per_value, starts, strict=False)
    )
    return StructBlock(rows.num_values, children)


def _packed_rows(message: pb.VariablePackedStruct, rows: VariableWidth) -> StructBlock:
    bounds = rows.offsets.astype(np.int64)
    places, ends = bounds[:-1], bounds[1:]
    children = []
    for part in message.fields:
        starts, sizes = _places(part, rows.data, places, ends)
        with kernel_errors:
            offsets, data = _kernels.concat_spans(rows.data, starts, sizes)
        bits = part.bits_per_value
        values = FixedWidth(bits, len(ends), data) if bits else VariableWidth(offsets, data)
        children.append(decode_values(part.value, values))
        places = starts + sizes
    if (places != ends).any():
        raise CorruptFileError("packed rows: bytes behind the last member of a row")
    return StructBlock(rows.num_values, tuple(children))


def _places(
    part: pb.VariablePackedStruct.FieldEncoding, data: Bytes, starts: Int64s, ends: Int64s
) -> tuple[Int64s, Int64s]:
    """Return the starts and the sizes in bytes of a member's values."""
    if part.bits_per_value:
        sizes = np.full(len(starts), part.bits_per_value // 8, np.int64)
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


def _string_chunk(message: pb.Variable, chunk: Bytes, num_values: int) -> VariableWidth:
    word = _offset_bits(message) // 8
    if num_values == 0 and len(chunk) == 0:
        return VariableWidth(np.zeros(1, f"i{word}"), chunk)
    if len(chunk) % word or num_values >= len(chunk) // word:
        raise CorruptFileError(f"variable: {num_values} values in {len(chunk)} bytes")
    stored = chunk[: word * (num_values + 1)].view(f"<i{word}")
    first, last = int(stored[0]), int(stored[-1])
    if not word * (num_values + 1) <= first <= last <= len(chunk) or (np.diff(stored) < 0).any():
        raise CorruptFileError(f"variable: offsets from {first} to {last} of {len(chunk)} bytes")
    return VariableWidth(stored - stored[0], chunk[first:last].copy())


def _string_block(message: pb.Variable, block: Bytes, num_values: int) -> VariableWidth:
    """Decode strings behind a header of the offsets' bits and the start of the strings' bytes."""
    bits = _offset_bits(message)
    word = bits // 8
    if len(block) < word * (3 + num_values):
        raise CorruptFileError(f"variable: {num_values} values in a block of {len(block)} bytes")
    stored_bits, bytes_start = np.frombuffer(block, f"<u{word}", 2).tolist()
    offsets = np.frombuffer(block, f"<i{word}", num_values + 1, offset=2 * word).copy()
    data = block[bytes_start:].copy()
    if stored_bits != bits or offsets[0] or offsets[-1] > len(data) or (np.diff(offsets) < 0).any():
        raise CorruptFileError(f"variable: a block of {stored_bits} bits, offsets {offsets}")
    return VariableWidth(offsets, data[: offsets[-1]])


def _sequence_chunk(
    message: pb.Variable, buffers: Sequence[Bytes], num_values: int
) -> VariableWidth:
    codec = sequence_codec(message.offsets, bits=32)
    data = buffers[-1]
    payload = buffers[0] if codec.has_payload else data[:0]
    offsets = decode_sequence(codec, payload, num_values + 1)
    if offsets[0] or offsets[-1] != len(data) or (offsets[1:] < offsets[:-1]).any():
        raise CorruptFileError("variable: offsets do not rise from 0 to the end of the bytes")
    return _strings(codec.bits, VariableWidth(offsets, data.copy()))


def _strings(bits: int, strings: VariableWidth) -> VariableWidth:
    """Return strings with offsets of the codec's width."""
    dtype = np.dtype(f"i{bits // 8}")
    if int(strings.offsets[-1]) > np.iinfo(dtype).max:
        raise BatchTooLargeError(f"strings of {strings.offsets[-1]} bytes with 32-bit offsets")
    offsets: Int32s | Int64s = strings.offsets.astype(dtype, copy=False)
    return VariableWidth(offsets, strings.data)


def _expanded(message: pb.Fsst, strings: VariableWidth) -> VariableWidth:
    table = SymbolTable.parse(message.symbol_table)
    if table is None:
        return strings
    with kernel_errors:
        return VariableWidth(*_kernels.decode_fsst(strings.offsets, strings.data, *table))


def unpacked(data: Bytes, num_values: int, bits: int, width: int) -> Bytes:
    """Unpack blocks of 1024 values of `width` bits; the last block may be shorter and raw."""
    with kernel_errors:
        return _kernels.unpack_blocks(data, num_values, bits, width)


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
    match codec.form:
        case SequenceForm.PLAIN:
            return _numbers(codec.items, payload, count)
        case SequenceForm.DELTA:
            return _sums(codec, payload, count)
        case SequenceForm.RUNS:
            return _number_runs(codec, payload, count)
    return _distinct_numbers(codec, payload, count)


def _numbers(codec: KernelNumbers, payload: Bytes, count: int) -> Int64s:
    if codec.form == NumbersForm.ARITHMETIC:
        check_count(codec, count)
        return codec.start + codec.step * np.arange(count, dtype=np.int64)
    if codec.scheme:
        payload = content_of(codec.scheme, payload)
    if codec.form == NumbersForm.FLAT:
        data = _checked(payload, count, codec.bits)
    elif codec.form == NumbersForm.PACKED:
        data = _inline_unpacked(payload, count, codec.bits)
    else:
        data = unpacked(payload, count, codec.bits, codec.start)
    numbers = np.frombuffer(data, f"<u{codec.bits // 8}")
    if (numbers > MAX_NUMBER).any():
        raise CorruptFileError("sequence: a number that is not below 2^63")
    return numbers.astype(np.int64)


def _sums(codec: SequenceCodec, payload: Bytes, count: int) -> Int64s:
    if count == 0:
        raise CorruptFileError("delta: a sequence without numbers")
    deltas = _numbers(codec.items, payload, count - 1).tolist()
    numbers = [*accumulate(deltas, initial=codec.extra)]
    if numbers[-1] > min(MAX_NUMBER, (1 << codec.bits) - 1):
        raise CorruptFileError(f"delta: numbers to {numbers[-1]} in {codec.bits} bits")
    return np.array(numbers, np.int64)


def _number_runs(codec: SequenceCodec, payload: Bytes, count: int) -> Int64s:
    parts = split_payload(payload) if codec.has_payload else [payload, payload]
    runs = _num_runs(codec, count, len(parts[0]), len(parts[1]))
    if runs > count:
        raise CorruptFileError(f"runs: {runs} of them in {count} numbers")
    lengths = _numbers(codec.others, parts[1], runs)
    if (lengths == 0).any() or int(lengths.sum()) != count:
        raise CorruptFileError(f"runs: lengths of together {lengths.sum()} in {count} numbers")
    numbers: Int64s = np.repeat(_numbers(codec.items, parts[0], runs), lengths)
    return numbers


def _num_runs(codec: SequenceCodec, count: int, value_bytes: int, length_bytes: int) -> int:
    """Return the number of runs, which is not stored, from their lengths or a payload's size."""
    lengths = codec.others
    if not lengths.has_payload:
        if lengths.step == 0:
            return count // max(lengths.start, 1)
        stop = lengths.start + lengths.step * (count + 1)
        sums = [0, *accumulate(range(lengths.start, stop, lengths.step))]
        return next(runs for runs, total in enumerate(sums) if total >= count)
    if codec.items.form == NumbersForm.FLAT:
        return value_bytes // (codec.bits // 8)
    return length_bytes // 4


def _distinct_numbers(codec: SequenceCodec, payload: Bytes, count: int) -> Int64s:
    index_part = item_part = payload
    if codec.has_payload:
        stop = _sum_of_sizes(payload, 2)
        start = 16 + int.from_bytes(payload[:8].tobytes(), "little")
        index_part, item_part = payload[16:start], payload[start:stop]
    indices = _numbers(codec.others, index_part, count)
    if (indices >= codec.extra).any():
        raise CorruptFileError(f"an index beyond {codec.extra} distinct numbers")
    numbers: Int64s = _numbers(codec.items, item_part, codec.extra)[indices]
    return numbers
