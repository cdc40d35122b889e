"""Compressed units: the forms that are read, and what a damaged one may cost."""

from __future__ import annotations

import contextlib

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.general import MAX_UNIT_BYTES, Scheme, decompress, decompress_zstd
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference.built_values import (
    as_dictionary,
    as_levels,
    check,
    in_full_zip,
    in_mini_blocks,
    levels_of,
)
from tests.reference.chunks import variable_chunk
from tests.reference.encodings import flat, rle

SCHEMES = [Scheme.LZ4, Scheme.ZSTD]


def compress(scheme: Scheme, content: bytes) -> bytes:
    if scheme is Scheme.ZSTD:
        return len(content).to_bytes(8, "little") + zstandard.compress(content)
    block = pa.Codec("lz4_raw").compress(content, asbytes=True) if content else b"\0"
    return len(content).to_bytes(4, "little") + block


def general(scheme: Scheme, values: pb.CompressiveEncoding) -> pb.CompressiveEncoding:
    compression = pb.BufferCompression(scheme=scheme.value)  # type: ignore[arg-type]
    return pb.CompressiveEncoding(general=pb.General(compression=compression, values=values))


VARIABLE = pb.CompressiveEncoding(variable=pb.Variable(offsets=flat(32)))


def units(scheme: Scheme, parts: list[bytes]) -> list[bytes]:
    return [decompress(scheme, np.frombuffer(part, np.uint8)).tobytes() for part in parts]


@pytest.mark.parametrize("scheme", SCHEMES)
@given(contents=st.lists(st.binary(max_size=300), max_size=5))
def test_units_give_what_was_compressed(scheme: Scheme, contents: list[bytes]) -> None:
    assert units(scheme, [compress(scheme, content) for content in contents]) == contents


def zstd_frame(content: bytes, **options: bool) -> bytes:
    return zstandard.ZstdCompressor(**options).compress(content)


@pytest.mark.parametrize(
    "unit",
    [
        (5).to_bytes(8, "little") + zstd_frame(b"hello", write_content_size=False),
        (5).to_bytes(8, "little") + zstd_frame(b"hello", write_checksum=True),
        zstd_frame(b"hello"),
        zstd_frame(b"hello", write_content_size=False),
        zstd_frame(b"hello", write_checksum=True),
    ],
    ids=["no size in the frame", "checksum", "no prefix", "no size at all", "no prefix, checksum"],
)
def test_zstd_forms_that_are_read(unit: bytes) -> None:
    assert units(Scheme.ZSTD, [unit]) == [b"hello"]


def test_an_empty_zstd_unit_is_an_empty_value() -> None:
    assert units(Scheme.ZSTD, [b"", compress(Scheme.ZSTD, b"a"), b""]) == [b"", b"a", b""]


def test_a_large_zstd_frame_without_any_size_is_read() -> None:
    content = bytes(5_000_000)
    assert units(Scheme.ZSTD, [zstd_frame(content, write_content_size=False)]) == [content]


@pytest.mark.parametrize("size", [0, 4, 6, 2**31, 2**63, 2**64 - 1])
@pytest.mark.parametrize("has_size", [True, False])
def test_a_zstd_prefix_that_is_not_the_size_is_refused(size: int, has_size: bool) -> None:
    unit = size.to_bytes(8, "little") + zstd_frame(b"hello", write_content_size=has_size)
    with pytest.raises(CorruptFileError, match="zstd"):
        units(Scheme.ZSTD, [unit])


@pytest.mark.parametrize(
    "unit",
    [
        b"\x05",
        b"1234567",
        bytes(8),
        (5).to_bytes(8, "little") + b"garbage",
        compress(Scheme.ZSTD, b"hello")[:-1],
        compress(Scheme.ZSTD, b"hello") + b"!",
        compress(Scheme.ZSTD, b"hello") + zstd_frame(b""),
        zstd_frame(b"hello")[:-1],
    ],
)
def test_damaged_zstd_units_are_refused(unit: bytes) -> None:
    with pytest.raises(CorruptFileError, match="zstd"):
        units(Scheme.ZSTD, [unit])


def test_a_frame_is_not_decompressed_beyond_its_limit() -> None:
    content = bytes(1_000_000)
    for has_size in (True, False):
        for prefix in (b"", len(content).to_bytes(8, "little")):
            unit = prefix + zstd_frame(content, write_content_size=has_size)
            with pytest.raises(ValueError, match="zstd"):
                decompress_zstd(unit, 999_999)
            assert decompress_zstd(unit, 1_000_000) == content


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_size_that_the_bytes_cannot_hold_allocates_nothing(scheme: Scheme) -> None:
    prefix = 4 if scheme is Scheme.LZ4 else 8
    unit = (MAX_UNIT_BYTES).to_bytes(prefix, "little") + bytes(100)
    with pytest.raises(CorruptFileError):
        units(scheme, [unit])


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
def test_damage_raises_only_our_error(scheme: Scheme, data: st.DataObject) -> None:
    unit = bytearray(compress(scheme, b"hello hello hello " * 20))
    for _ in range(data.draw(st.integers(1, 3))):
        unit[data.draw(st.integers(0, len(unit) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptFileError):
        units(scheme, [bytes(unit)])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_only_the_first_buffer_of_a_chunk_is_compressed(scheme: Scheme) -> None:
    values = np.array([7, 9], "<i4").tobytes()
    chunks = [[compress(scheme, values), b"\xff\x01"], [compress(scheme, values[:4]), b"\3"]]
    file = in_mini_blocks(pa.int32(), general(scheme, rle(32)), chunks, [256, 3])
    check(file, [7] * 255 + [9] + [7] * 3)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_strings_in_compressed_chunks_are_read(scheme: Scheme) -> None:
    values = [[b"a", b"bc"], [b"", b"def"], [b"g"]]
    chunks = [[compress(scheme, variable_chunk(part))] for part in values]
    file = in_mini_blocks(pa.binary(), general(scheme, VARIABLE), chunks, [2, 2, 1])
    check(file, [b"a", b"bc", b"", b"def", b"g"])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_chunks_that_are_compressed_twice_are_not_supported(scheme: Scheme) -> None:
    """No known writer makes such chunks."""
    chunks = [[compress(scheme, compress(scheme, variable_chunk([b"a", b"bc"])))]]
    encoding = general(scheme, general(scheme, VARIABLE))
    with pytest.raises(UnsupportedError, match="general of general"):
        in_mini_blocks(pa.binary(), encoding, chunks, [2]).all_rows()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_compressed_levels_are_decoded(scheme: Scheme) -> None:
    levels = [np.array(part, "<u2").tobytes() for part in ([0, 1, 1, 0], [1, 0, 1])]
    chunks = [compress(scheme, part) for part in levels]
    file = as_levels(general(scheme, flat(16)), chunks, [4, 3])
    assert levels_of(file) == [0, 1, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_more_content_than_the_inner_codec_can_use_is_refused(scheme: Scheme) -> None:
    unit = compress(scheme, bytes(1_000_000))
    file = in_mini_blocks(pa.int32(), general(scheme, flat(32)), [[unit]], [1000])
    with pytest.raises(CorruptFileError, match=scheme.name.lower()):
        file.all_rows()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("bits", [32, 64])
def test_values_that_are_compressed_one_by_one_are_read(scheme: Scheme, bits: int) -> None:
    values = [b"a" * 1000, b"", b"xyz"]
    units = [compress(scheme, value) for value in values]
    encoding = general(scheme, VARIABLE)
    check(in_full_zip(pa.binary(), encoding, units, bits_per_length=bits), values)


def test_a_dictionary_of_one_block_is_decoded() -> None:
    unit = compress(Scheme.ZSTD, np.arange(3, dtype="<i8").tobytes())
    check(as_dictionary(pa.int64(), general(Scheme.ZSTD, flat(64)), unit, 3), [0, 1, 2])
