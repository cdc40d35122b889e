"""Sequences, strings with sequence offsets, and runs with coded children: bytes of the spec."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.format.codecs.block import block_codec
from alance.format.codecs.sequence import sequence_codec
from alance.format.layouts.miniblock import mini_block_codec
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference import encodings
from tests.reference.chunks import chunked, decode_chunks, fixed, strings
from tests.reference.decoders import decode_block, decode_sequence
from tests.reference.encodings import encoding_of
from tests.reference.fastlanes import pack

FLAT_32 = encodings.flat(32)
FLAT_64 = encodings.flat(64)


STRINGS: dict[str, tuple[str, list[str], list[bytes]]] = {
    "range": ("12080a06720408201803", ["414243" * 5], [b"ABC"] * 5),
    "constant": ("120a0a081a060a0400000000", [""], [b""] * 5),
    "runs without payload": (
        "12160a1442120a0672040820180112081a060a0404000000",
        ["414141"],
        [b"A" if row % 4 == 3 else b"" for row in range(15)],
    ),
    "runs of a range": (
        "12120a10420e0a0672040820180412040a020820",
        ["00000000000000005902000065000000", "41424344"],
        [b""] * 600 + [b"ABCD"] + [b""] * 100,
    ),
    "delta": (
        "12120a107a0e08201a0a220808201a040a020801",
        ["000000001f1f1f0f" * 12 + "000000001f0f1f0f" * 4, "41" * 300],
        [b"A" if row % 2 else b"" for row in range(600)],
    ),
}


@pytest.mark.parametrize("name", STRINGS)
def test_offsets_of_strings(name: str) -> None:
    text, buffers, expected = STRINGS[name]
    encoding = encoding_of(text)
    assert mini_block_codec(encoding).num_buffers == len(buffers)
    chunk = [bytes.fromhex(buffer) for buffer in buffers]
    assert strings(decode_chunks(encoding, chunked([chunk], [len(expected)]))) == expected
    three = decode_chunks(encoding, chunked([chunk] * 3, [len(expected)] * 3))
    assert strings(three) == expected * 3


def numbers(codec: pb.CompressiveEncoding, payload: bytes, count: int, **options: int) -> list[int]:
    data = np.frombuffer(payload, np.uint8)
    return decode_sequence(sequence_codec(codec, **options), data, count).tolist()


def test_indices_of_a_dictionary_are_decoded() -> None:
    payload = bytes.fromhex(
        "10000000000000000c0000000000000000000000010000000100000002000000000000000200000005000000"
    )
    assert numbers(encoding_of("3a0e0a040a02082012040a0208201803"), payload, 4) == [0, 2, 2, 5]


def test_positions_of_a_page() -> None:
    positions = [88 + 13 * row + row % 2 for row in range(300)]
    deltas = np.diff(positions).astype(np.uint64)
    payload = pack(np.resize(np.append(deltas, np.zeros(725)), 1024), 64, 4)
    assert hashlib.sha256(payload).hexdigest() == (
        "13cd25d6066e8efc1ed7f847100edbb9e76cfc694d015fedc9d873cfc48088df"
    )
    described = encoding_of("7a10084010581a0a220808401a040a020804")
    assert numbers(described, payload, 300) == positions


def test_counts_of_a_page() -> None:
    """Indices are packed, the two items are a range."""
    indices = [row % 2 for row in range(300)]
    payload = bytes.fromhex("8000000000000000" + "00" * 8) + pack(indices + [0] * 724, 32, 1)
    described = encoding_of("3a180a0a220808201a040a020801120872060840100118011802")
    assert len(payload) == 144
    assert numbers(described, payload, 300) == [1 + row % 2 for row in range(300)]


@pytest.mark.parametrize(
    ("described", "payload", "count"),
    [
        (pb.CompressiveEncoding(constant=pb.Constant()), b"", 1),
        (pb.CompressiveEncoding(constant=pb.Constant(value=b"123")), b"", 1),
        (pb.CompressiveEncoding(constant=pb.Constant(value=b"\xff" * 8)), b"", 1),
        (
            pb.CompressiveEncoding(
                range=pb.Range(uncompressed_bits_per_value=32, start=1, step=1 << 31)
            ),
            b"",
            3,
        ),
        (pb.CompressiveEncoding(range=pb.Range(uncompressed_bits_per_value=64)), b"", 3),
        (
            pb.CompressiveEncoding(range=pb.Range(uncompressed_bits_per_value=16, step=1)),
            b"",
            3,
        ),
        (FLAT_64, b"\xff" * 16, 2),
        (FLAT_64, b"\0" * 15, 2),
        (
            pb.CompressiveEncoding(
                delta=pb.Delta(uncompressed_bits_per_value=64, base=1, deltas=FLAT_64)
            ),
            (b"\xff" * 7 + b"\x7f") * 2,
            3,
        ),
        (
            pb.CompressiveEncoding(delta=pb.Delta(uncompressed_bits_per_value=64, deltas=FLAT_32)),
            b"\0" * 8,
            3,
        ),
        (
            pb.CompressiveEncoding(rle=pb.Rle(values=FLAT_64, run_lengths=FLAT_64)),
            b"\0" * 24,
            1,
        ),
        (
            pb.CompressiveEncoding(rle=pb.Rle(values=FLAT_64, run_lengths=FLAT_32)),
            b"\x08" + b"\0" * 15 + b"\x02\0\0\0",
            3,
        ),
        (
            pb.CompressiveEncoding(rle=pb.Rle(values=FLAT_64, run_lengths=FLAT_32)),
            b"\x08" + b"\0" * 19,
            0,
        ),
        (
            pb.CompressiveEncoding(
                dictionary=pb.Dictionary(indices=FLAT_32, items=FLAT_64, num_dictionary_items=1)
            ),
            b"\x04" + b"\0" * 7 + b"\x08" + b"\0" * 7 + b"\x01\0\0\0" + b"\0" * 8,
            1,
        ),
        (
            pb.CompressiveEncoding(
                dictionary=pb.Dictionary(indices=FLAT_32, items=FLAT_64, num_dictionary_items=1)
            ),
            b"\xff" * 16,
            1,
        ),
    ],
)
def test_sequences_that_contradict_themselves(
    described: pb.CompressiveEncoding, payload: bytes, count: int
) -> None:
    with pytest.raises(AlanceError) as caught:
        numbers(described, payload, count)
    assert isinstance(caught.value, CorruptFileError | UnsupportedError)


@pytest.mark.parametrize(
    ("lengths", "count"),
    [
        (pb.CompressiveEncoding(constant=pb.Constant(value=b"\x03\0\0\0")), 12),
        (
            pb.CompressiveEncoding(range=pb.Range(uncompressed_bits_per_value=32, step=2, start=1)),
            16,
        ),
    ],
)
def test_the_number_of_runs_follows_from_their_lengths(
    lengths: pb.CompressiveEncoding, count: int
) -> None:
    values = pb.CompressiveEncoding(
        range=pb.Range(uncompressed_bits_per_value=64, start=5, step=10)
    )
    described = pb.CompressiveEncoding(rle=pb.Rle(values=values, run_lengths=lengths))
    runs = [3] * 4 if count == 12 else [1, 3, 5, 7]
    items = [5 + 10 * run for run, length in enumerate(runs) for _ in range(length)]
    assert numbers(described, b"", count) == items
    with pytest.raises(CorruptFileError):
        numbers(described, b"", count + 1)


RUNS: dict[str, tuple[str, list[str], list[int]]] = {
    "16-bit lengths": (
        "420c0a040a02082012040a020810",
        ["0700000009000000", "2c010200"],
        [7] * 300 + [9] * 2,
    ),
    "packed values": (
        "42120a0a220808201a040a02080412040a020808",
        ["070000000800000009000000", "030106"],
        [7, 7, 7, 8, 9, 9, 9, 9, 9, 9],
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_runs_are_decoded_and_only_the_last_may_be_too_long(name: str) -> None:
    text, buffers, expected = RUNS[name]
    chunk = [bytes.fromhex(buffer) for buffer in buffers]
    codec = encoding_of(text)
    assert mini_block_codec(codec).num_buffers == len(buffers)
    assert (
        fixed(decode_chunks(codec, chunked([chunk] * 2, [len(expected)] * 2)), "<i4")
        == expected * 2
    )
    # The last run may be too long, and no other one.
    assert (
        fixed(decode_chunks(codec, chunked([chunk], [len(expected) - 1])), "<i4") == expected[:-1]
    )
    for count in (len(expected) + 1, 2, 0):
        with pytest.raises(CorruptFileError):
            decode_chunks(codec, chunked([chunk], [count]))


def test_runs_of_levels() -> None:
    codec = encoding_of("420c0a040a02081012040a020810")
    assert block_codec(codec).bits == 16
    content: Any = np.frombuffer(
        bytes.fromhex("06000000000000000000010000000a0086012c01"), np.uint8
    )
    block = decode_block(codec, content, 700)
    assert fixed(block, "<u2") == [0] * 10 + [1] * 390 + [0] * 300


def test_runs_with_both_parts_packed_are_refused() -> None:
    packed = "0a0a220808201a040a020804"
    lengths = "120a220808101a040a020804"
    with pytest.raises(UnsupportedError, match="both"):
        mini_block_codec(encoding_of(f"4218{packed}{lengths}"))
