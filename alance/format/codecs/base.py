"""Parsed codecs, a type for each use, and functions that parse descriptions.

A description is parsed and checked once, when a page is opened. The kernel decodes all pages, from
the form that `layouts/row_pages.py` makes of the parsed codecs.

Source: encodings_v2_1.proto, CompressiveEncoding; docs/format/encodings.md, "Overview".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from google.protobuf.unknown_fields import UnknownFieldSet

from alance.errors import CorruptFileError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Collection

    from alance.format.codecs.fixed import (
        Constant,
        FixedSizeList,
        Flat,
        InlineBitpacking,
        OutOfLineBitpacking,
    )
    from alance.format.codecs.general import General
    from alance.format.codecs.rle import Rle
    from alance.format.codecs.strings import Variable
    from alance.format.proto import encodings_v2_1_pb2 as pb

# Maximum bits of a fixed-size value, 16 GiB. No type has larger values, and products with counts
# fit into int64.
MAX_BITS_PER_VALUE: Final = 1 << 37

# Codec for values in a single buffer: the levels of a chunk, or a dictionary.
BlockCodec: TypeAlias = (
    "Constant | FixedSizeList | Flat | General | InlineBitpacking | OutOfLineBitpacking | Rle"
    " | Variable"
)


class MiniBlockCodec(Protocol):
    """Codec for the values of mini-block pages; a chunk has a fixed number of buffers."""

    @property
    def num_buffers(self) -> int:
        """Number of buffers of each chunk."""
        ...


class PerValueCodec(Protocol):
    """Codec for values that are encoded one by one, as in full-zip pages."""

    @property
    def encoded(self) -> Literal["fixed", "variable"]:
        """The text `fixed` if all encoded values have the same size, else `variable`."""
        ...

    @property
    def bits_per_value(self) -> int | None:
        """Bits per encoded value; None if sizes vary."""
        ...


class HasBits(Protocol):
    """Message with the number of bits per value."""

    @property
    def uncompressed_bits_per_value(self) -> int: ...


def variant(encoding: pb.CompressiveEncoding) -> str:
    """Return the name of the described codec.

    Raises:
        UnsupportedError: the codec is not one of files up to 2.3.
        CorruptFileError: the description has no codec.
    """
    name: str | None = encoding.WhichOneof("compression")
    if name is not None:
        return name
    unknown = UnknownFieldSet(encoding)
    tags = [unknown[i].field_number for i in range(len(unknown))]
    if not tags:
        raise CorruptFileError("compression: a description without a codec")
    raise UnsupportedError(f"compression number {tags[0]}: not in files up to 2.3")


def expect(encoding: pb.CompressiveEncoding, allowed: Collection[str], outer: str) -> str:
    """Return the name of a codec that is nested in another codec.

    Raises:
        UnsupportedError: the name is not in `allowed`.
    """
    name = variant(encoding)
    if name not in allowed:
        raise UnsupportedError(f"{outer} of {name}: expected {' or '.join(sorted(allowed))}")
    return name


def refuse_compression(message: pb.Flat | pb.Variable | pb.InlineBitpacking, field: str) -> None:
    """Refuse compression of buffers inside a codec, which no writer uses.

    Raises:
        UnsupportedError: the message has the field.
    """
    if message.HasField(field):
        name = type(message).__name__
        raise UnsupportedError(f"{name}: compressed {field} inside the codec")


def flat_bits(message: pb.Flat) -> int:
    """Return the bits per value of a Flat codec.

    Raises:
        CorruptFileError: the width is 0 or too large.
    """
    refuse_compression(message, "data")
    bits = message.bits_per_value
    if not 0 < bits <= MAX_BITS_PER_VALUE:
        raise CorruptFileError(f"flat: values of {bits} bits")
    return bits


def nested_flat_bits(encoding: pb.CompressiveEncoding, allowed: Collection[int], outer: str) -> int:
    """Return the bits per value of a Flat codec that is nested in another codec.

    Raises:
        UnsupportedError: the nested codec is not Flat, or its width is not in `allowed`.
    """
    expect(encoding, ("flat",), outer)
    refuse_compression(encoding.flat, "data")
    bits = encoding.flat.bits_per_value
    if bits not in allowed:
        bits = flat_bits(encoding.flat)
    if bits not in allowed:
        widths = " or ".join(map(str, sorted(allowed)))
        raise UnsupportedError(f"{outer} of flat values of {bits} bits: expected {widths}")
    return bits


def packable_bits(message: HasBits, codec: str) -> int:
    """Return the bits per value before bit-packing.

    Raises:
        UnsupportedError: values of this width, such as 128 bits, cannot be packed.
    """
    bits = message.uncompressed_bits_per_value
    if bits not in (8, 16, 32, 64):
        raise UnsupportedError(f"{codec} of values of {bits} bits: expected 8, 16, 32 or 64")
    return bits
