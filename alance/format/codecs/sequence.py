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
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Protocol, TypeAlias

from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.base import (
    MiniBlockCodec,
    expect,
    refuse_compression,
    variant,
)
from alance.format.codecs.fixed import Flat, InlineBitpacking, OutOfLineBitpacking
from alance.format.codecs.general import General
from alance.format.codecs.strings import Variable
from alance.format.codecs.words import NO_NUMBERS, NumbersForm, numbers_form

if TYPE_CHECKING:
    from collections.abc import Collection

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
        block = General.from_proto(encoding.general, inner)
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


def _is_flat(codec: Arithmetic | Stored) -> bool:
    return isinstance(codec, Stored) and isinstance(codec.codec, Flat)


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
