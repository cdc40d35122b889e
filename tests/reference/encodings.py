"""Builders of codec descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.format.proto import encodings_v2_1_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.codecs.general import Scheme

Encoding = pb.CompressiveEncoding


def inline_bitpacking(bits: int) -> pb.CompressiveEncoding:
    """Blocks of at most 1024 values, their width in front."""
    return pb.CompressiveEncoding(
        inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=bits)
    )


def rle(bits: int) -> pb.CompressiveEncoding:
    """Runs, their lengths of one byte."""
    return pb.CompressiveEncoding(rle=pb.Rle(values=flat(bits), run_lengths=flat(8)))


def byte_stream_split(bits: int) -> pb.CompressiveEncoding:
    """Bytes sorted by significance."""
    return pb.CompressiveEncoding(byte_stream_split=pb.ByteStreamSplit(values=flat(bits)))


def encoding_of(text: str) -> pb.CompressiveEncoding:
    """Parse a description in hexadecimal digits, as pylance wrote it."""
    return pb.CompressiveEncoding.FromString(bytes.fromhex(text))


def flat(bits: int) -> Encoding:
    """Describe uncompressed values."""
    return Encoding(flat=pb.Flat(bits_per_value=bits))


def variable(bits_per_offset: int) -> Encoding:
    """Describe byte strings."""
    return Encoding(variable=pb.Variable(offsets=flat(bits_per_offset)))


def out_of_line_bitpacking(bits: int, width: int) -> Encoding:
    """Describe values that are bit-packed to `width` bits."""
    return Encoding(
        out_of_line_bitpacking=pb.OutOfLineBitpacking(
            uncompressed_bits_per_value=bits, values=flat(width)
        )
    )


def fsst(table: bytes, values: Encoding) -> Encoding:
    """Describe strings as codes of the symbols in `table`."""
    return Encoding(fsst=pb.Fsst(symbol_table=table, values=values))


def general(scheme: Scheme, level: int | None, values: Encoding) -> Encoding:
    """Describe general compression of the bytes that `values` describes."""
    compression = pb.BufferCompression(scheme=pb.CompressionScheme.Name(scheme.value))
    if level is not None:
        compression.level = level
    return Encoding(general=pb.General(compression=compression, values=values))


def fixed_size_list(dimension: int, has_validity: bool, items: Encoding) -> Encoding:
    """Describe lists of `dimension` items."""
    return Encoding(
        fixed_size_list=pb.FixedSizeList(
            items_per_value=dimension, values=items, has_validity=has_validity
        )
    )


def packed_struct(child_bits: Sequence[int]) -> Encoding:
    """Describe packed structs: fixed-width children, zipped into rows without compression."""
    rows = flat(sum(child_bits))
    return Encoding(packed_struct=pb.PackedStruct(bits_per_value=child_bits, values=rows))


def empty_constant() -> Encoding:
    """Describe items that are all null; in a sparse page, also a set without numbers."""
    return Encoding(constant=pb.Constant())
