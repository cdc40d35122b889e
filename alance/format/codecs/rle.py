"""Run-length codec.

A chunk of a mini-block page has two buffers: the values of runs, and their lengths. A block has one
buffer:

    u64    bytes of the values
    ...    values
    rest   lengths

In files up to 2.2, values are flat and lengths are bytes, so a run longer than 255 is stored as
several runs. In 2.3, lengths have 8, 16 or 32 bits. Values and lengths are each one of:

    flat                     raw
    out_of_line_bitpacking   packed; the other buffer must be flat, as its size gives the number of
                             runs
    general                  compressed, around one of these

Only the last run may exceed the chunk; its excess is dropped.

Source: encodings_v2_1.proto, message Rle; docs/format/encodings.md, "Rle".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from alance.base.records import dataclass
from alance.errors import UnsupportedError
from alance.format.codecs.base import expect, variant
from alance.format.codecs.fixed import Flat, OutOfLineBitpacking
from alance.format.codecs.general import Scheme
from alance.format.codecs.words import NumbersForm, numbers_form

if TYPE_CHECKING:
    from collections.abc import Collection

    from alance.format.codecs.words import KernelNumbers
    from alance.format.proto import encodings_v2_1_pb2 as pb


@dataclass(frozen=True, slots=True)
class Rle:
    """Run-length codec for values of fixed width; values and lengths in the kernel's form."""

    num_buffers: ClassVar[int] = 2

    values: KernelNumbers
    lengths: KernelNumbers

    @classmethod
    def from_proto(cls, message: pb.Rle) -> Rle:
        values = _numbers(message.values, (8, 16, 32, 64), "rle")
        lengths = _numbers(message.run_lengths, (8, 16, 32), "rle lengths")
        if NumbersForm.FLAT not in (values[0], lengths[0]):
            raise UnsupportedError("rle: both values and lengths are bit-packed")
        return cls(values, lengths)

    @property
    def bits_per_value(self) -> int:
        return self.values[1]

    @property
    def is_plain(self) -> bool:
        """True for raw values and raw lengths of one byte, as in files up to 2.2."""
        raw_values = numbers_form(Flat(self.bits_per_value))
        return (self.values, self.lengths) == (raw_values, numbers_form(Flat(8)))

    @property
    def form(self) -> tuple[KernelNumbers, KernelNumbers]:
        """Values and lengths in the kernel's form."""
        return self.values, self.lengths


def _numbers(
    encoding: pb.CompressiveEncoding, widths: Collection[int], outer: str
) -> KernelNumbers:
    """Parse the codec of the values of runs, or of their lengths."""
    scheme = 0
    if variant(encoding) == "general":
        scheme = int(Scheme.from_proto(encoding.general.compression))
        encoding = encoding.general.values
    codec: Flat | OutOfLineBitpacking
    if expect(encoding, ("flat", "out_of_line_bitpacking"), outer) == "flat":
        codec = Flat.from_proto(encoding.flat)
    else:
        codec = OutOfLineBitpacking.from_proto(encoding.out_of_line_bitpacking)
    if codec.bits_per_value not in widths:
        raise UnsupportedError(f"{outer} of {codec.bits_per_value} bits: expected {widths}")
    return numbers_form(codec, scheme)
