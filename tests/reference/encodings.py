"""Descriptions of codecs that the kernel alone writes."""

from __future__ import annotations

from alance.format.encode import encodings
from alance.format.proto import encodings_v2_1_pb2 as pb


def inline_bitpacking(bits: int) -> pb.CompressiveEncoding:
    """Blocks of at most 1024 values, their width in front."""
    return pb.CompressiveEncoding(
        inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=bits)
    )


def rle(bits: int) -> pb.CompressiveEncoding:
    """Runs, their lengths of one byte."""
    return pb.CompressiveEncoding(
        rle=pb.Rle(values=encodings.flat(bits), run_lengths=encodings.flat(8))
    )


def byte_stream_split(bits: int) -> pb.CompressiveEncoding:
    """Bytes sorted by significance."""
    return pb.CompressiveEncoding(byte_stream_split=pb.ByteStreamSplit(values=encodings.flat(bits)))


def encoding_of(text: str) -> pb.CompressiveEncoding:
    """Parse a description in hexadecimal digits, as pylance wrote it."""
    return pb.CompressiveEncoding.FromString(bytes.fromhex(text))
