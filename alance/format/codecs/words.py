"""Encodings of blocks of whole words, in the form that the kernel takes."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from alance.errors import UnsupportedError
from alance.format.codecs.fixed import Flat, InlineBitpacking, OutOfLineBitpacking
from alance.format.codecs.general import General

if TYPE_CHECKING:
    from alance.format.codecs.base import BlockCodec

# Encoding, bits of a word, start or packed width, step, True if the description has no number,
# compression.
KernelNumbers: TypeAlias = "tuple[int, int, int, int, bool, int]"
NO_NUMBERS: Final[KernelNumbers] = (0, 32, 0, 0, True, 0)


class NumbersForm(IntEnum):
    """Numbers of encodings of words in the kernel."""

    ARITHMETIC = 0
    FLAT = 1
    PACKED = 2
    BLOCKS = 3


def numbers_form(codec: BlockCodec, scheme: int = 0) -> KernelNumbers:
    """Return a codec of words in the kernel's form.

    Args:
        scheme: the kernel's number of the compression around the words; 0 for none.

    Raises:
        UnsupportedError: the codec does not store whole words.
    """
    match codec:
        case General(scheme=own, inner=inner):
            return numbers_form(inner, int(own))
        case Flat(bits_per_value=bits) if bits in (8, 16, 32, 64):
            return NumbersForm.FLAT, bits, 0, 0, False, scheme
        case InlineBitpacking(bits_per_value=bits):
            return NumbersForm.PACKED, bits, 0, 0, False, scheme
        case OutOfLineBitpacking(bits_per_value=bits, packed_bits=width):
            return NumbersForm.BLOCKS, bits, width, 0, False, scheme
    raise UnsupportedError(f"words stored by {type(codec).__name__}")
