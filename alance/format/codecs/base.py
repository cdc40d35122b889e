"""Interfaces of codecs, one for each use of a codec, and helpers that parse descriptions.

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

    from alance.arrays import Bytes
    from alance.format.blocks import Block, FixedWidth, VariableWidth
    from alance.format.proto import encodings_v2_1_pb2 as pb

# A fixed-size value of 16 GiB: no type has larger values, and products with counts stay in int64.
MAX_BITS_PER_VALUE: Final = 1 << 37


MAX_REPEATED: Final = 1 << 30  # most values of a block without bytes, such as a constant


class MiniBlockCodec(Protocol):
    """Codec of the values of mini-block pages; a chunk has a fixed number of buffers."""

    @property
    def num_buffers(self) -> int:
        """Buffers of each chunk."""
        ...

    def decode_chunk(self, buffers: Sequence[Bytes], num_values: int) -> Block:
        """Decode a chunk; arrays are fresh, not views into the buffers.

        Raises:
            CorruptFileError: the bytes contradict the description or the number of values.
        """
        ...

    def max_bytes(self, num_values: int) -> int | None:
        """Return the upper bound of the bytes of buffer 0 of a chunk with so many values.

        Larger contents are refused. None if there is no bound.
        """
        ...


class BlockCodec(Protocol):
    """Codec of values in a single buffer: the levels of a chunk, or a dictionary."""

    def decode_block(self, data: Bytes, num_values: int) -> Block:
        """Decode a block; arrays are fresh, not views of `data`.

        Raises:
            CorruptFileError: the bytes contradict the description or the number of values.
            UnsupportedError: the block has too many values to be decoded at once.
        """
        ...

    def max_bytes(self, num_values: int) -> int | None:
        """Return the upper bound of the bytes of a block with so many values, or None."""
        ...


class PerValueCodec(Protocol):
    """Codec of values that are encoded one by one, as in full-zip pages."""

    @property
    def encoded(self) -> Literal["fixed", "variable"]:
        """`fixed` if all encoded values have the same size."""
        ...

    @property
    def bits_per_value(self) -> int | None:
        """Bits of an encoded value; None if sizes vary."""
        ...

    def decode_values(self, values: FixedWidth | VariableWidth) -> Block:
        """Decode values that were unzipped from rows; may return a view of them.

        Args:
            values: `FixedWidth` of `bits_per_value`, or `VariableWidth` with offsets of any type.

        Raises:
            BatchTooLargeError: strings have more bytes than 32-bit offsets can address.
            CorruptFileError: a value contradicts the description.
        """
        ...


class HasBits(Protocol):
    """A message with the number of bits of a value."""

    @property
    def uncompressed_bits_per_value(self) -> int: ...


def variant(encoding: pb.CompressiveEncoding) -> str:
    """Return the name of the described codec.

    Raises:
        UnsupportedError: the codec does not occur in files up to 2.3.
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
    """Return the name of a codec nested in `outer`.

    Raises:
        UnsupportedError: the codec is not in `allowed`.
    """
    name = variant(encoding)
    if name not in allowed:
        raise UnsupportedError(f"{outer} of {name}: expected {' or '.join(sorted(allowed))}")
    return name


def refuse_compression(message: pb.Flat | pb.Variable | pb.InlineBitpacking, field: str) -> None:
    """Refuse buffer compression inside a codec; no writer uses it.

    Raises:
        UnsupportedError: the message has the field.
    """
    if message.HasField(field):
        name = type(message).__name__
        raise UnsupportedError(f"{name}: compressed {field} inside the codec")


def flat_bits(message: pb.Flat) -> int:
    """Return the bits of a Flat value.

    Raises:
        CorruptFileError: the width is 0 or too large.
    """
    refuse_compression(message, "data")
    bits = message.bits_per_value
    if not 0 < bits <= MAX_BITS_PER_VALUE:
        raise CorruptFileError(f"flat: values of {bits} bits")
    return bits


def nested_flat_bits(encoding: pb.CompressiveEncoding, allowed: Collection[int], outer: str) -> int:
    """Return the bits of a value of a Flat nested in another codec.

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
    """Return the bits of a value before it was bit-packed.

    Raises:
        UnsupportedError: values of this width cannot be packed, such as 128.
    """
    bits = message.uncompressed_bits_per_value
    if bits not in (8, 16, 32, 64):
        raise UnsupportedError(f"{codec} of values of {bits} bits: expected 8, 16, 32 or 64")
    return bits
