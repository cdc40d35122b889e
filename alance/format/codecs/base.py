"""Codecs in the kernel's form, a type for each use, and functions that parse descriptions.

A description is parsed and checked once, when a page is opened. The kernel decodes all pages.

Source: encodings_v2_1.proto, CompressiveEncoding; docs/format/encodings.md, "Overview".
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from google.protobuf.unknown_fields import UnknownFieldSet

from alance.errors import CorruptFileError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from alance.base.arrays import Bytes, UInt64s
    from alance.format.codecs.sequence import SequenceCodec
    from alance.format.codecs.words import KernelRuns, KernelWords
    from alance.format.proto import encodings_v2_1_pb2 as pb

# Maximum bits of a fixed-size value, 16 GiB. No type has larger values, and products with counts
# fit into int64.
MAX_BITS_PER_VALUE: Final = 1 << 37
MOST_BITS: Final = (1 << 31) - 1  # of a value in the kernel
# Symbols and their lengths (None without symbols), and the kernel's number of the compression.
KernelStrings: TypeAlias = "tuple[tuple[UInt64s, Bytes] | None, int]"
PLAIN_STRINGS: Final[KernelStrings] = (None, 0)
# Bytes of a value, or minus the bytes of its length; its strings; its masks; the number of its own
# members, which follow it.
KernelMember: TypeAlias = "tuple[int, KernelStrings, Sequence[int], int]"
C = TypeVar("C")


class ValuesForm(IntEnum):
    """Numbers of value encodings in the kernel."""

    FLAT = 0
    PACKED = 1
    RUNS = 2
    SPLIT = 3
    STRINGS = 4
    FSST = 5
    ZIPPED = 6


class MiniBlockCodec(NamedTuple):
    """Codec for the values of mini-block pages; a chunk has a fixed number of buffers.

    Attributes:
        bits: bits per value, or per offset of strings.
        scheme: compression of the first buffer; 0 for none.
        masks: items per value at each depth of fixed-size lists, 0 at a depth without item
            validity; empty if no depth has item validity.
        symbols: symbols of FSST and their lengths.
        offsets: codec of the offsets of strings; None for plain offsets.
        runs: codec of values and lengths; None for plain runs, and for other values.
    """

    kind: ValuesForm
    bits: int
    num_buffers: int = 1
    scheme: int = 0
    masks: Sequence[int] = ()
    symbols: tuple[UInt64s, Bytes] | None = None
    offsets: SequenceCodec | None = None
    runs: KernelRuns | None = None


class PerValueCodec(NamedTuple):
    """Codec for values that are encoded one by one, as in full-zip pages.

    Attributes:
        bits: bits per encoded value; None if sizes vary.
        masks: as in `MiniBlockCodec`.
        has_null_items: True for fixed-size lists whose items are all null, and take no bytes.
        members: members of packed structs whose sizes vary, each followed by those inside it.
        num_members: members of the struct itself.
    """

    bits: int | None
    masks: Sequence[int] = ()
    has_null_items: bool = False
    strings: KernelStrings = PLAIN_STRINGS
    members: Sequence[KernelMember] = ()
    num_members: int = 0


class BlockCodec(NamedTuple):
    """Codec for values in a single buffer: the levels of a chunk, or a dictionary.

    Attributes:
        bits: bits per value, or per offset of strings.
        words: numbers or runs; None if values are not whole words.
        is_raw: True for items of a dictionary that have no codec: fixed-width values or strings.
        scheme: compression of the buffer; 0 for none.
    """

    bits: int
    words: KernelWords | None = None
    is_raw: bool = False
    is_text: bool = False
    masks: Sequence[int] = ()
    scheme: int = 0


def look_up(
    table: Mapping[str, Callable[[Any], C]], encoding: pb.CompressiveEncoding, place: str
) -> C:
    """Parse a description by the codecs that are allowed in a place."""
    name = variant(encoding)
    if name not in table:
        raise UnsupportedError(f"compression {name} in {place}: expected one of {sorted(table)}")
    return table[name](getattr(encoding, name))


def variant(encoding: pb.CompressiveEncoding) -> str:
    """Return the name of the described codec."""
    name: str | None = encoding.WhichOneof("compression")
    if name is not None:
        return name
    unknown = UnknownFieldSet(encoding)
    tags = [unknown[i].field_number for i in range(len(unknown))]
    if not tags:
        raise CorruptFileError("compression: a description without a codec")
    raise UnsupportedError(f"compression number {tags[0]}: not in files up to 2.3")


def expect(encoding: pb.CompressiveEncoding, allowed: Collection[str], outer: str) -> str:
    """Return the name of a codec that is nested in another codec."""
    name = variant(encoding)
    if name not in allowed:
        raise UnsupportedError(f"{outer} of {name}: expected {' or '.join(sorted(allowed))}")
    return name


def refuse_compression(message: pb.Flat | pb.Variable | pb.InlineBitpacking, field: str) -> None:
    """Refuse compression of buffers inside a codec, which no writer uses."""
    if message.HasField(field):
        name = type(message).__name__
        raise UnsupportedError(f"{name}: compressed {field} inside the codec")


def flat_bits(message: pb.Flat) -> int:
    """Return the bits per value of a Flat codec."""
    refuse_compression(message, "data")
    bits = message.bits_per_value
    if not 0 < bits <= MAX_BITS_PER_VALUE:
        raise CorruptFileError(f"flat: values of {bits} bits")
    return bits


def nested_flat_bits(encoding: pb.CompressiveEncoding, allowed: Collection[int], outer: str) -> int:
    """Return the bits per value of a Flat codec that is nested in another codec."""
    expect(encoding, ("flat",), outer)
    refuse_compression(encoding.flat, "data")
    bits = encoding.flat.bits_per_value
    if bits not in allowed:
        bits = flat_bits(encoding.flat)
    if bits not in allowed:
        widths = " or ".join(map(str, sorted(allowed)))
        raise UnsupportedError(f"{outer} of flat values of {bits} bits: expected {widths}")
    return bits


def kernel_bits(bits: int) -> int:
    """Return the bits of a value, which must have less than 256 MiB."""
    if bits > MOST_BITS:
        raise UnsupportedError(f"values of {bits} bits: at most {MOST_BITS}")
    return bits
