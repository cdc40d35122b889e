"""What all codecs share: a protocol for each place where values are compressed, and descriptions.

Nearly all pages are decoded by the kernel. These codecs decode what it does not know, a chunk at a
time, and say what is wrong with damaged bytes. Descriptions are checked once, when a page is
opened.

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

# A fixed-size value of 16 GiB: no type has a larger one, and products with counts stay in int64.
MAX_BITS_PER_VALUE: Final = 1 << 37


MAX_REPEATED: Final = 1 << 30  # values of a block that has no bytes of them


class MiniBlockCodec(Protocol):
    """Values of a mini-block page: a fixed number of buffers a chunk."""

    @property
    def num_buffers(self) -> int:
        """Buffers of each chunk."""
        ...

    def decode_chunk(self, buffers: Sequence[Bytes], num_values: int) -> Block:
        """Values of a chunk; arrays are fresh, not views into the buffers.

        Raises:
            CorruptFileError: the bytes contradict the description or the number of values.
        """
        ...

    def max_bytes(self, num_values: int) -> int | None:
        """The most bytes that buffer 0 of a chunk with so many values may have, if known.

        Bounds what is decompressed for this codec.
        """
        ...


class BlockCodec(Protocol):
    """Values stored on their own: the levels of a chunk, a dictionary. One buffer."""

    def decode_block(self, data: Bytes, num_values: int) -> Block:
        """Values of a block; arrays are fresh, not views of `data`.

        Raises:
            CorruptFileError: the bytes contradict the description or the number of values.
            UnsupportedError: more values than are decoded at once.
        """
        ...

    def max_bytes(self, num_values: int) -> int | None:
        """The most bytes that a block with so many values may have, if known."""
        ...


class PerValueCodec(Protocol):
    """Values that decode one by one, as full-zip pages store them."""

    @property
    def encoded(self) -> Literal["fixed", "variable"]:
        """Whether an encoded value has always the same size."""
        ...

    @property
    def bits_per_value(self) -> int | None:
        """Size of an encoded value; None if it varies."""
        ...

    def decode_values(self, values: FixedWidth | VariableWidth) -> Block:
        """Decode the values that were unzipped from rows; may return a view of them.

        Args:
            values: `FixedWidth` of `bits_per_value`, or `VariableWidth` with offsets of any type.

        Raises:
            CorruptFileError: a value contradicts the description.
            UnsupportedError: strings of more bytes than 32-bit offsets can say.
        """
        ...


class HasBits(Protocol):
    """A message that says how many bits a value has."""

    @property
    def uncompressed_bits_per_value(self) -> int: ...


def variant(encoding: pb.CompressiveEncoding) -> str:
    """The name of the codec that is described.

    Raises:
        UnsupportedError: one that no file up to 2.3 has.
        CorruptFileError: none at all.
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
    """The name of a nested codec, which must be one of `allowed` inside `outer`.

    Raises:
        UnsupportedError: another one.
    """
    name = variant(encoding)
    if name not in allowed:
        raise UnsupportedError(f"{outer} of {name}: expected {' or '.join(sorted(allowed))}")
    return name


def refuse_compression(message: pb.Flat | pb.Variable | pb.InlineBitpacking, field: str) -> None:
    """Refuse a compression inside a codec that no writer makes."""
    if message.HasField(field):
        name = type(message).__name__
        raise UnsupportedError(f"{name}: compressed {field} inside the codec")


def flat_bits(message: pb.Flat) -> int:
    """Bits of a value of Flat.

    Raises:
        CorruptFileError: a width that no value has.
    """
    refuse_compression(message, "data")
    bits = message.bits_per_value
    if not 0 < bits <= MAX_BITS_PER_VALUE:
        raise CorruptFileError(f"flat: values of {bits} bits")
    return bits


def nested_flat_bits(encoding: pb.CompressiveEncoding, allowed: Collection[int], outer: str) -> int:
    """Bits of the Flat inside another codec, which must be one of `allowed`.

    Raises:
        UnsupportedError: another codec or width.
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
    """Bits of a value before it was bit-packed.

    Raises:
        UnsupportedError: a width that is not packed, such as 128.
    """
    bits = message.uncompressed_bits_per_value
    if bits not in (8, 16, 32, 64):
        raise UnsupportedError(f"{codec} of values of {bits} bits: expected 8, 16, 32 or 64")
    return bits
