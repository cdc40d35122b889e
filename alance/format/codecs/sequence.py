"""Sequences (2.3): unsigned numbers of 32 or 64 bits, whose count is stored elsewhere.

The string offsets of a mini-block chunk are a sequence; so are the slots and counts of a sparse
page. A sequence has one buffer (its payload) or none. By codec:

    constant     no payload: all numbers are the value in the description; an empty sequence may
                 have no value
    range        no payload: start + step * i
    flat, inline_bitpacking, out_of_line_bitpacking    as blocks
    general      around flat, as a block
    delta        the first number is `base`, each other number is the previous number plus the
                 next of `deltas`; payload of `deltas`
    rle          u64 size of the values' payload, the values' payload, the lengths' payload;
                 lengths have 32 bits; the size of one of the payloads gives the number of runs
    dictionary   u64 size of the indices' payload, u64 size of the items' payload, both payloads;
                 indices have 32 bits

If no nested codec has a payload, the sequence has none either, not even sizes.

Source: encodings_v2_1.proto, CompressiveEncoding, messages Delta, Rle, Dictionary and Variable;
docs/format/encodings.md, "Sequences and metadata-only codecs" and "Mini-block, sequence offsets".
"""

from __future__ import annotations

from enum import IntEnum
from math import isqrt
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.codecs.base import (
    MiniBlockCodec,
    expect,
    refuse_compression,
    variant,
)
from alance.format.codecs.fixed import Flat, InlineBitpacking, OutOfLineBitpacking
from alance.format.codecs.general import GeneralBlock
from alance.format.codecs.rle import split_payload
from alance.format.codecs.strings import Variable
from alance.format.codecs.words import NO_NUMBERS, NumbersForm, numbers_form
from alance.format.numbers import offsets_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from alance.base.arrays import Bytes, Int64s
    from alance.format.codecs.base import BlockCodec
    from alance.format.codecs.words import KernelNumbers
    from alance.format.proto import encodings_v2_1_pb2 as pb

MAX_DICTIONARY_NUMBERS: Final = 4096  # maximum distinct numbers of a dictionary
MAX_NUMBER: Final = (1 << 63) - 1  # maximum of 64-bit numbers; no position in a file is larger
# Encoding; items or values; indices or lengths; base, or number of items.
KernelSequence: TypeAlias = "tuple[int, KernelNumbers, KernelNumbers, int]"
EMPTY_SEQUENCE: Final[KernelSequence] = (0, (0, 64, 0, 0, True, 0), NO_NUMBERS, 0)
STORED_CODECS: Final = frozenset(["flat", "inline_bitpacking", "out_of_line_bitpacking", "general"])


class SequenceForm(IntEnum):
    """Numbers of encodings of sequences in the kernel."""

    PLAIN = 0
    DELTA = 1
    RUNS = 2
    DISTINCT = 3


class SequenceCodec(Protocol):
    """Codec for sequences."""

    @property
    def form(self) -> KernelSequence:
        """The codec in the kernel's form."""
        ...

    @property
    def bits(self) -> int:
        """Bits per number: 32 or 64."""
        ...

    @property
    def has_payload(self) -> bool:
        """True if the sequence has a buffer."""
        ...

    def decode(self, payload: Bytes, count: int) -> Int64s:
        """Decode a sequence of `count` numbers.

        Args:
            payload: empty if the codec has no payload.

        Raises:
            CorruptFileError: the bytes contradict the description or the count.
        """
        ...


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Equal or equally spaced numbers, which the description defines completely."""

    has_payload: ClassVar[bool] = False

    bits: int
    start: int
    step: int
    # True if the description has no value, so that the sequence must be empty.
    is_empty: bool = False

    @classmethod
    def of_constant(cls, message: pb.Constant, bits: int) -> Arithmetic:
        if not message.HasField("value"):
            return cls(bits, 0, 0, is_empty=True)
        if len(message.value) not in (4, 8):
            raise CorruptFileError(f"sequence: a constant of {len(message.value)} bytes")
        return cls(8 * len(message.value), int.from_bytes(message.value, "little"), 0)

    @classmethod
    def of_range(cls, message: pb.Range) -> Arithmetic:
        if not 0 < message.step <= MAX_NUMBER:
            raise CorruptFileError(f"sequence: a range with step {message.step}")
        return cls(checked_bits(message.uncompressed_bits_per_value), message.start, message.step)

    @property
    def kernel(self) -> KernelNumbers:
        return NumbersForm.ARITHMETIC, self.bits, self.start, self.step, self.is_empty, 0

    def check(self, count: int) -> None:
        """Check that the sequence may have `count` numbers.

        Raises:
            CorruptFileError: the last number is too large, or the description has no value.
        """
        if self.is_empty and count:
            raise CorruptFileError(f"sequence: {count} numbers, the description has none")
        last = self.start + self.step * max(count - 1, 0)
        if last > min(MAX_NUMBER, (1 << self.bits) - 1):
            raise CorruptFileError(f"sequence: numbers to {last} in {self.bits} bits")

    @property
    def form(self) -> KernelSequence:
        return SequenceForm.PLAIN, self.kernel, NO_NUMBERS, 0

    def decode(self, payload: Bytes, count: int) -> Int64s:
        self.check(count)
        return self.start + self.step * np.arange(count, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Stored:
    """Numbers that another codec stores as a block."""

    has_payload: ClassVar[bool] = True

    bits: int
    codec: BlockCodec

    @property
    def kernel(self) -> KernelNumbers:
        return numbers_form(self.codec)

    @property
    def form(self) -> KernelSequence:
        return SequenceForm.PLAIN, self.kernel, NO_NUMBERS, 0

    def decode(self, payload: Bytes, count: int) -> Int64s:
        block = self.codec.decode_block(payload, count)
        if not isinstance(block, FixedWidth) or block.bits_per_value != self.bits:
            raise CorruptFileError(f"sequence: numbers of {self.bits} bits expected")
        # Read 64-bit numbers as signed, so that numbers from 2^63 on become negative.
        raw = block.data.view("<i8" if self.bits == 64 else "<u4")
        numbers = raw.astype(np.int64, copy=not raw.flags.aligned)
        if self.bits == 64 and (numbers < 0).any():
            raise CorruptFileError("sequence: a number that is not below 2^63")
        return numbers


def arithmetic_or_stored(
    encoding: pb.CompressiveEncoding, allowed: Collection[str], outer: str, *, bits: int
) -> Arithmetic | Stored:
    """Return the codec for a sequence that has no nested sequences.

    Args:
        allowed: names of the allowed codecs.
        outer: name of the enclosing codec, for errors.
        bits: bits per number, for a constant without a value.

    Raises:
        UnsupportedError: the codec is not allowed, or its numbers do not have 32 or 64 bits.
        CorruptFileError: the description is inconsistent.
    """
    name = expect(encoding, allowed, outer)
    if name == "constant":
        return Arithmetic.of_constant(encoding.constant, bits)
    if name == "range":
        return Arithmetic.of_range(encoding.range)
    if name == "general":
        expect(encoding.general.values, ("flat",), "a compressed sequence")
        inner = Flat.from_proto(encoding.general.values.flat)
        block = GeneralBlock.from_proto(encoding.general, inner)
        return Stored(checked_bits(inner.bits_per_value), block)
    codec: Flat | InlineBitpacking | OutOfLineBitpacking
    if name == "flat":
        codec = Flat.from_proto(encoding.flat)
    elif name == "inline_bitpacking":
        codec = InlineBitpacking.from_proto(encoding.inline_bitpacking)
    else:
        codec = OutOfLineBitpacking.from_proto(encoding.out_of_line_bitpacking)
    return Stored(checked_bits(codec.bits_per_value), codec)


def checked_bits(bits: int) -> int:
    """Return the bits per number after checking them.

    Raises:
        UnsupportedError: `bits` is neither 32 nor 64.
    """
    if bits not in (32, 64):
        raise UnsupportedError(f"sequence: numbers of {bits} bits, expected 32 or 64")
    return bits


NUMBER_CODECS: Final = STORED_CODECS | {"constant", "range"}
IN_DELTA: Final = NUMBER_CODECS - {"general"}
IN_RUNS: Final = frozenset(["flat", "out_of_line_bitpacking", "constant", "range"])


def sequence_codec(encoding: pb.CompressiveEncoding, *, bits: int = 64) -> SequenceCodec:
    """Return the codec for a sequence.

    Args:
        bits: bits per number, for a constant without a value.

    Raises:
        UnsupportedError: a codec is unknown, or not allowed here.
        CorruptFileError: the description is inconsistent.
    """
    match variant(encoding):
        case "delta":
            return Delta.from_proto(encoding.delta)
        case "rle":
            return NumberRuns.from_proto(encoding.rle, bits)
        case "dictionary":
            return Distinct.from_proto(encoding.dictionary, bits)
    return arithmetic_or_stored(encoding, NUMBER_CODECS, "a sequence", bits=bits)


class Delta(NamedTuple):
    """Non-decreasing numbers, stored as differences."""

    bits: int
    base: int
    deltas: Arithmetic | Stored

    @classmethod
    def from_proto(cls, message: pb.Delta) -> Delta:
        bits = checked_bits(message.uncompressed_bits_per_value)
        deltas = arithmetic_or_stored(message.deltas, IN_DELTA, "delta", bits=bits)
        if deltas.bits != bits or message.base >= 1 << (bits - (bits == 64)):
            raise CorruptFileError(
                f"delta: from {message.base} by numbers of {deltas.bits} bits, described are {bits}"
            )
        return cls(bits, message.base, deltas)

    @property
    def has_payload(self) -> bool:
        return self.deltas.has_payload

    @property
    def form(self) -> KernelSequence:
        return SequenceForm.DELTA, self.deltas.kernel, NO_NUMBERS, self.base

    def decode(self, payload: Bytes, count: int) -> Int64s:
        if count == 0:
            raise CorruptFileError("delta: a sequence without numbers")
        numbers = offsets_of(self.deltas.decode(payload, count - 1)) + self.base
        limit = MAX_NUMBER if self.bits == 64 else (1 << 32) - 1
        # The first sum above 63 bits overflows, so it is smaller than the sum before.
        if (numbers[1:] < numbers[:-1]).any() or not 0 <= numbers[-1] <= limit:
            raise CorruptFileError(f"delta: numbers beyond {limit}")
        return numbers


class NumberRuns(NamedTuple):
    """Run-length codec for a sequence."""

    bits: int
    values: Arithmetic | Stored
    lengths: Arithmetic | Stored

    @classmethod
    def from_proto(cls, message: pb.Rle, bits: int) -> NumberRuns:
        values = arithmetic_or_stored(message.values, IN_RUNS, "runs", bits=bits)
        lengths = arithmetic_or_stored(message.run_lengths, IN_RUNS, "lengths of runs", bits=32)
        if lengths.bits != 32:
            raise UnsupportedError(f"lengths of runs of {lengths.bits} bits, expected 32")
        if isinstance(lengths, Stored) and not (_is_flat(values) or _is_flat(lengths)):
            raise UnsupportedError("runs whose number neither values nor lengths tell")
        return cls(values.bits, values, lengths)

    @property
    def has_payload(self) -> bool:
        return self.values.has_payload or self.lengths.has_payload

    @property
    def form(self) -> KernelSequence:
        return SequenceForm.RUNS, self.values.kernel, self.lengths.kernel, 0

    def decode(self, payload: Bytes, count: int) -> Int64s:
        value_part = length_part = payload
        if self.has_payload:
            value_part, length_part = split_payload(payload)
        runs = self._num_runs(count, len(value_part), len(length_part))
        if runs > count:
            raise CorruptFileError(f"runs: {runs} of them in {count} numbers")
        lengths = self.lengths.decode(length_part, runs)
        if (lengths == 0).any() or int(lengths.sum()) != count:
            raise CorruptFileError(f"runs: lengths of together {lengths.sum()} in {count} numbers")
        numbers: Int64s = np.repeat(self.values.decode(value_part, runs), lengths)
        return numbers

    def _num_runs(self, count: int, value_bytes: int, length_bytes: int) -> int:
        """Return the number of runs, which is not stored, from the size of a payload."""
        lengths = self.lengths
        if isinstance(lengths, Arithmetic) and lengths.step == 0:
            return count // max(lengths.start, 1)
        if isinstance(lengths, Arithmetic):
            most = isqrt(2 * count // lengths.step + 1) + 2
            sums = np.cumsum(lengths.start + lengths.step * np.arange(most, dtype=np.float64))
            return int(np.searchsorted(sums, count)) + 1 if count else 0
        return value_bytes // (self.bits // 8) if _is_flat(self.values) else length_bytes // 4


class Distinct(NamedTuple):
    """Dictionary codec for a sequence: indices into a few distinct numbers."""

    bits: int
    indices: Arithmetic | Stored
    items: Arithmetic | Stored
    num_items: int

    @classmethod
    def from_proto(cls, message: pb.Dictionary, bits: int) -> Distinct:
        indices = arithmetic_or_stored(message.indices, IN_RUNS, "indices", bits=32)
        items = arithmetic_or_stored(message.items, IN_RUNS, "distinct numbers", bits=bits)
        if indices.bits != 32:
            raise UnsupportedError(f"indices of {indices.bits} bits, expected 32")
        if not 1 <= message.num_dictionary_items <= MAX_DICTIONARY_NUMBERS:
            raise CorruptFileError(
                f"sequence: {message.num_dictionary_items} distinct numbers, "
                f"at most {MAX_DICTIONARY_NUMBERS}"
            )
        return cls(items.bits, indices, items, message.num_dictionary_items)

    @property
    def has_payload(self) -> bool:
        return self.indices.has_payload or self.items.has_payload

    @property
    def form(self) -> KernelSequence:
        return SequenceForm.DISTINCT, self.items.kernel, self.indices.kernel, self.num_items

    def decode(self, payload: Bytes, count: int) -> Int64s:
        index_part = item_part = payload
        if self.has_payload:
            index_part, item_part = _two_payloads(payload)
        indices = self.indices.decode(index_part, count)
        if len(indices) and int(indices.max()) >= self.num_items:
            raise CorruptFileError(f"index {indices.max()} into {self.num_items} distinct numbers")
        numbers: Int64s = self.items.decode(item_part, self.num_items)[indices]
        return numbers


def _is_flat(codec: Arithmetic | Stored) -> bool:
    return isinstance(codec, Stored) and isinstance(codec.codec, Flat)


def _two_payloads(data: Bytes) -> tuple[Bytes, Bytes]:
    """Split a buffer into its two payloads, which follow their sizes."""
    if len(data) < 16:
        raise CorruptFileError("sequence: a dictionary outside of its bytes")
    first, second = (int(size) for size in data[:16].view("<u8"))
    if 16 + first + second > len(data):
        raise CorruptFileError("sequence: a dictionary with parts outside of its bytes")
    return data[16 : 16 + first], data[16 + first : 16 + first + second]


def variable_codec(message: pb.Variable) -> MiniBlockCodec:
    """Return the codec for strings in mini-blocks; it depends on the codec of their offsets.

    Raises:
        UnsupportedError: the codec of the offsets is unknown.
        CorruptFileError: the description is inconsistent.
    """
    if variant(message.offsets) == "flat":
        return Variable.from_proto(message)
    refuse_compression(message, "values")
    return SequenceVariable(sequence_codec(message.offsets, bits=32))


class SequenceVariable(NamedTuple):
    """Byte strings in mini-blocks whose offsets are a sequence.

        payload of the offsets   a buffer of its own, if their codec has a payload
        bytes                    without padding

    A chunk of n values has n + 1 offsets, from 0 to its number of bytes.
    """

    offsets: SequenceCodec

    @property
    def num_buffers(self) -> int:
        return 1 + self.offsets.has_payload

    def decode_chunk(self, buffers: Sequence[Bytes], num_values: int) -> VariableWidth:
        data = buffers[-1]
        payload = buffers[0] if self.offsets.has_payload else data[:0]
        offsets = self.offsets.decode(payload, num_values + 1)
        if offsets[0] or offsets[-1] != len(data) or (offsets[1:] < offsets[:-1]).any():
            raise CorruptFileError("variable: offsets do not rise from 0 to the end of the bytes")
        strings = VariableWidth(offsets, data.copy())
        return VariableWidth(Variable(self.offsets.bits).offsets_of(strings), strings.data)

    def max_bytes(self, num_values: int) -> None:
        return None
