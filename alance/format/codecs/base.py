"""Interfaces of codecs, one for each use, and functions that parse descriptions.

The kernel decodes nearly all pages. These codecs decode the other pages, chunk by chunk, and raise
precise errors for damaged bytes. A description is checked once, when a page is opened.

Source: encodings_v2_1.proto, CompressiveEncoding; docs/format/encodings.md, "Overview".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol

from google.protobuf.unknown_fields import UnknownFieldSet

from alance.errors import CorruptFileError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from alance.base.arrays import Bytes
    from alance.format.blocks import Block, FixedWidth, VariableWidth
    from alance.format.proto import encodings_v2_1_pb2 as pb

# Maximum bits of a fixed-size value, 16 GiB. No type has larger values, and products with counts
# fit into int64.
MAX_BITS_PER_VALUE: Final = 1 << 37


MAX_REPEATED: Final = 1 << 30  # maximum values of a block without bytes, such as a constant


class MiniBlockCodec(Protocol):
    """Codec for the values of mini-block pages; a chunk has a fixed number of buffers."""

    @property
    def num_buffers(self) -> int:
        """Number of buffers of each chunk."""
        ...

    def decode_chunk(self, buffers: Sequence[Bytes], num_values: int) -> Block:
        """Decode a chunk into new arrays, which are not views of the buffers.

        Raises:
            CorruptFileError: the bytes contradict the description or the number of values.
        """
        ...

    def max_bytes(self, num_values: int) -> int | None:
        """Return an upper bound for the size of buffer 0 of a chunk with `num_values` values.

        Larger buffers are refused. Returns None if there is no bound.
        """
        ...


class BlockCodec(Protocol):
    """Codec for values in a single buffer: the levels of a chunk, or a dictionary."""

    def decode_block(self, data: Bytes, num_values: int) -> Block:
        """Decode a block into new arrays, which are not views of `data`.

        Raises:
            CorruptFileError: the bytes contradict the description or the number of values.
            UnsupportedError: the block has too many values to be decoded at once.
        """
        ...

    def max_bytes(self, num_values: int) -> int | None:
        """Return an upper bound for the size of a block; None if there is no bound."""
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

    def decode_values(self, values: FixedWidth | VariableWidth) -> Block:
        """Decode values that were unzipped from rows; the result may be a view of them.

        Args:
            values: `FixedWidth` with `bits_per_value`, or `VariableWidth` with offsets of any type.

        Raises:
            BatchTooLargeError: strings have more bytes than 32-bit offsets can address.
            CorruptFileError: a value contradicts the description.
        """
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
