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
from typing import TYPE_CHECKING, Final, NamedTuple

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.base import expect, variant
from alance.format.codecs.words import NO_NUMBERS, KernelNumbers, NumbersForm, numbers_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from alance.format.proto import encodings_v2_1_pb2 as pb

MAX_DICTIONARY_NUMBERS: Final = 4096  # maximum distinct numbers of a dictionary
MAX_NUMBER: Final = (1 << 63) - 1  # maximum of 64-bit numbers; no position in a file is larger
NUMBER_CODECS: Final = frozenset(
    ["flat", "inline_bitpacking", "out_of_line_bitpacking", "general", "constant", "range"]
)
IN_DELTA: Final = NUMBER_CODECS - {"general"}
IN_RUNS: Final = frozenset(["flat", "out_of_line_bitpacking", "constant", "range"])


class SequenceForm(IntEnum):
    """Numbers of encodings of sequences in the kernel."""

    PLAIN = 0
    DELTA = 1
    RUNS = 2
    DISTINCT = 3


class SequenceCodec(NamedTuple):
    """Codec of a sequence, in the kernel's form.

    Attributes:
        items: the numbers, differences, values of runs, or distinct numbers.
        others: lengths of runs, or indices; `NO_NUMBERS` for other sequences.
        extra: base of differences, or number of distinct numbers; else 0.
    """

    form: SequenceForm
    items: KernelNumbers
    others: KernelNumbers = NO_NUMBERS
    extra: int = 0

    @property
    def bits(self) -> int:
        """Bits per number: 32 or 64."""
        return self.items.bits

    @property
    def has_payload(self) -> bool:
        """True if the sequence has a buffer."""
        return self.items.has_payload or self.others.has_payload

    @property
    def is_arithmetic(self) -> bool:
        """True if the description alone defines equal or equally spaced numbers."""
        return self.form == SequenceForm.PLAIN and not self.items.has_payload


EMPTY_SEQUENCE: Final = SequenceCodec(
    SequenceForm.PLAIN, KernelNumbers(NumbersForm.ARITHMETIC, 64, is_empty=True)
)


def sequence_codec(encoding: pb.CompressiveEncoding, *, bits: int = 64) -> SequenceCodec:
    """Return the codec for a sequence.

    Args:
        bits: bits per number, for a constant without a value.
    """
    match variant(encoding):
        case "delta":
            return _delta(encoding.delta)
        case "rle":
            values = _numbers(encoding.rle.values, IN_RUNS, "runs", bits)
            lengths = _numbers(encoding.rle.run_lengths, IN_RUNS, "lengths of runs", 32)
            _check_32(lengths, "lengths of runs")
            if lengths.has_payload and NumbersForm.FLAT not in (values.form, lengths.form):
                raise UnsupportedError("runs whose number neither values nor lengths tell")
            return SequenceCodec(SequenceForm.RUNS, values, lengths)
        case "dictionary":
            indices = _numbers(encoding.dictionary.indices, IN_RUNS, "indices", 32)
            items = _numbers(encoding.dictionary.items, IN_RUNS, "distinct numbers", bits)
            _check_32(indices, "indices")
            count = encoding.dictionary.num_dictionary_items
            if not 1 <= count <= MAX_DICTIONARY_NUMBERS:
                raise CorruptFileError(
                    f"sequence: {count} distinct numbers, at most {MAX_DICTIONARY_NUMBERS}"
                )
            return SequenceCodec(SequenceForm.DISTINCT, items, indices, count)
    numbers = _numbers(encoding, NUMBER_CODECS, "a sequence", bits)
    return SequenceCodec(SequenceForm.PLAIN, numbers)


def _delta(message: pb.Delta) -> SequenceCodec:
    bits = _checked_bits(message.uncompressed_bits_per_value)
    deltas = _numbers(message.deltas, IN_DELTA, "delta", bits)
    if deltas.bits != bits or message.base >= 1 << (bits - (bits == 64)):
        raise CorruptFileError(
            f"delta: from {message.base} by numbers of {deltas.bits} bits, described are {bits}"
        )
    return SequenceCodec(SequenceForm.DELTA, deltas, extra=message.base)


def _numbers(
    encoding: pb.CompressiveEncoding, allowed: Collection[str], outer: str, bits: int
) -> KernelNumbers:
    """Parse a sequence that has no nested sequences."""
    match expect(encoding, allowed, outer):
        case "constant":
            return _constant(encoding.constant, bits)
        case "range":
            start, step = encoding.range.start, encoding.range.step
            if not 0 < step <= MAX_NUMBER:
                raise CorruptFileError(f"sequence: a range with step {step}")
            bits = _checked_bits(encoding.range.uncompressed_bits_per_value)
            return KernelNumbers(NumbersForm.ARITHMETIC, bits, start, step)
    numbers = numbers_of(encoding, allowed, outer)
    _checked_bits(numbers.bits)
    return numbers


def _constant(message: pb.Constant, bits: int) -> KernelNumbers:
    if not message.HasField("value"):
        return KernelNumbers(NumbersForm.ARITHMETIC, bits, is_empty=True)
    size = len(message.value)
    if size not in (4, 8):
        raise CorruptFileError(f"sequence: a constant of {size} bytes")
    value = int.from_bytes(message.value, "little")
    return KernelNumbers(NumbersForm.ARITHMETIC, 8 * size, value)


def _checked_bits(bits: int) -> int:
    if bits not in (32, 64):
        raise UnsupportedError(f"sequence: numbers of {bits} bits, expected 32 or 64")
    return bits


def _check_32(numbers: KernelNumbers, what: str) -> None:
    if numbers.bits != 32:
        raise UnsupportedError(f"{what} of {numbers.bits} bits, expected 32")


def check_count(numbers: KernelNumbers, count: int) -> None:
    """Check that equally spaced numbers may be `count` numbers."""
    if numbers.is_empty and count:
        raise CorruptFileError(f"sequence: {count} numbers, the description has none")
    last = numbers.start + numbers.step * max(count - 1, 0)
    if last > min(MAX_NUMBER, (1 << numbers.bits) - 1):
        raise CorruptFileError(f"sequence: numbers to {last} in {numbers.bits} bits")
