"""Blocks of whole words: flat, bit-packed or run-length coded, in the form that the kernel takes.

  flat                     the words
  inline_bitpacking        a packed block of at most 1024 words of T bits behind their width W,
                           which has T / 8 bytes
  out_of_line_bitpacking   packed blocks of 1024 words; the rest raw, or as one more block; the
                           description has W, which is 0 if all words are 0
  rle                      runs: their values and their lengths, which are flat; only the last run
                           may exceed the chunk

A packed block has `128 * W` bytes in the unified transposed order of FastLanes (see
kernels/codecs/bitpacking.cpp). A chunk of a mini-block page has a buffer for the values of runs and
one for their lengths. A block has both in one buffer, behind the u64 size of the values.

In files up to 2.2, lengths of runs are bytes, so a run longer than 255 is stored as several runs.
In 2.3, they have 8, 16 or 32 bits, and values or lengths (not both, as the size of one gives the
number of runs) may be packed, and may be compressed.

Source: encodings_v2_1.proto, messages Flat, InlineBitpacking, OutOfLineBitpacking and Rle;
docs/format/encodings.md, "Bit-packing" and "Rle".
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from alance.errors import UnsupportedError
from alance.format.codecs.base import expect, flat_bits, nested_flat_bits, refuse_compression
from alance.format.codecs.general import Scheme

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from alance.format.proto import encodings_v2_1_pb2 as pb

WORD_BITS: Final = (8, 16, 32, 64)


class NumbersForm(IntEnum):
    """Numbers of encodings of words in the kernel."""

    ARITHMETIC = 0
    FLAT = 1
    PACKED = 2
    BLOCKS = 3


class KernelNumbers(NamedTuple):
    """Codec of words.

    Attributes:
        start: first of equally spaced numbers, or width of packed words.
        is_empty: True if the description has no number, so that there are no words.
        scheme: compression around the words; 0 for none.
    """

    form: NumbersForm
    bits: int
    start: int = 0
    step: int = 0
    is_empty: bool = False
    scheme: int = 0

    @property
    def has_payload(self) -> bool:
        """True if the words have a buffer; the description alone defines others."""
        return self.form != NumbersForm.ARITHMETIC


KernelRuns: TypeAlias = "tuple[KernelNumbers, KernelNumbers]"
KernelWords: TypeAlias = "tuple[KernelNumbers | None, KernelRuns | None]"
NO_NUMBERS: Final = KernelNumbers(NumbersForm.ARITHMETIC, 32, is_empty=True)
PLAIN_LENGTHS: Final = KernelNumbers(NumbersForm.FLAT, 8)


def numbers_of(
    encoding: pb.CompressiveEncoding,
    allowed: Collection[str],
    outer: str,
    compressed: Collection[str] = ("flat",),
) -> KernelNumbers:
    """Parse a codec of words.

    Args:
        allowed: names of the allowed codecs.
        outer: name of the enclosing codec, for errors.
        compressed: names of the codecs that are allowed inside `general`.
    """
    name = expect(encoding, allowed, outer)
    if name != "general":
        return NUMBERS[name](getattr(encoding, name))
    scheme = Scheme.from_proto(encoding.general.compression)
    inner = numbers_of(encoding.general.values, compressed, "general words")
    return inner._replace(scheme=int(scheme))


def flat_numbers(message: pb.Flat) -> KernelNumbers:
    """Parse raw words."""
    return KernelNumbers(NumbersForm.FLAT, flat_bits(message))


def inline_numbers(message: pb.InlineBitpacking) -> KernelNumbers:
    """Parse words that are packed behind their width."""
    refuse_compression(message, "values")
    return KernelNumbers(NumbersForm.PACKED, _packable_bits(message.uncompressed_bits_per_value))


def packed_numbers(message: pb.OutOfLineBitpacking) -> KernelNumbers:
    """Parse words that are packed to the width in the description."""
    bits = _packable_bits(message.uncompressed_bits_per_value)
    width = nested_flat_bits(message.values, range(bits), "bit-packing")
    return KernelNumbers(NumbersForm.BLOCKS, bits, width)


NUMBERS: Final[Mapping[str, Callable[[Any], KernelNumbers]]] = {
    "flat": flat_numbers,
    "inline_bitpacking": inline_numbers,
    "out_of_line_bitpacking": packed_numbers,
}


def _packable_bits(bits: int) -> int:
    if bits not in WORD_BITS:
        raise UnsupportedError(f"bit-packing of values of {bits} bits: expected 8, 16, 32 or 64")
    return bits


def runs_of(message: pb.Rle) -> KernelRuns:
    values = _part(message.values, WORD_BITS, "rle")
    lengths = _part(message.run_lengths, (8, 16, 32), "rle lengths")
    if NumbersForm.FLAT not in (values.form, lengths.form):
        raise UnsupportedError("rle: both values and lengths are bit-packed")
    return values, lengths


def _part(encoding: pb.CompressiveEncoding, widths: Collection[int], outer: str) -> KernelNumbers:
    stored = ("flat", "out_of_line_bitpacking")
    numbers = numbers_of(encoding, ("general", *stored), outer, stored)
    if numbers.bits not in widths:
        raise UnsupportedError(f"{outer} of {numbers.bits} bits: expected {widths}")
    return numbers


def are_plain(runs: KernelRuns) -> bool:
    """True for raw values and raw lengths of one byte, as in files up to 2.2."""
    values, lengths = runs
    return lengths == PLAIN_LENGTHS and values == KernelNumbers(NumbersForm.FLAT, values.bits)
