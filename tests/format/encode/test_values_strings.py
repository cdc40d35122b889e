"""Byte strings: encoded and decoded, and which codec is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import InvalidInputError
from alance.format.blocks import VariableWidth
from alance.format.codecs.strings import SymbolTable
from alance.format.numbers import strings_of
from alance.format.v2_0.encode import compressed
from tests.reference import fsst
from tests.reference.chunks import strings, variable
from tests.reference.encoded import hints, through_block, through_chunks, through_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

RNG = np.random.default_rng(5)
WORDS = [b"carefully ", b"final ", b"requests ", b"sleep ", b"furiously ", "Äpfel ".encode(), b"\0"]
SENTENCES = [b"".join(WORDS[i] for i in RNG.integers(0, len(WORDS), n)) for n in [0, 1, 3, 7] * 700]
NOISE = [RNG.bytes(n) for n in [5, 0, 12, 31] * 700]
BINARY = [bytes([RNG.integers(60, 120)]) * 20 for _ in range(2000)]
SETS = {
    "none": [],
    "one": [b"x"],
    "empty": [b""] * 3000,
    "letters": [b"a", b"b", b"c"] * 1500,
    "sentences": SENTENCES,
    "noise": NOISE,
    "bytes": BINARY,
    "escapes": [bytes([255, 255, 0]) * 4, b"\xff"] * 1500,
    "two": [b"left", b"right"],
}
VERSIONS = ["2.1", "2.2"]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("dtype", ["i4", "i8"])
@pytest.mark.parametrize("compression", [None, "none", "lz4", "zstd", "fsst"])
def test_strings_come_back(name: str, dtype: str, compression: str | None) -> None:
    values = variable(SETS[name], dtype)
    for version in VERSIONS:
        request = hints(version) if compression is None else hints(version, compression=compression)
        for _, result in [
            through_chunks(values, request),
            through_rows(values, request),
            through_block(values, request),
        ]:
            assert strings(result) == SETS[name]
            assert isinstance(result, VariableWidth)
            assert result.offsets.dtype == dtype


@settings(max_examples=100)
@given(
    texts=st.lists(st.binary(max_size=30), max_size=50),
    times=st.integers(1, 80),
    version=st.sampled_from(VERSIONS),
    compression=st.sampled_from(["none", "lz4", "zstd", "fsst"]),
    chunk_bytes=st.sampled_from(["1", "100", "4096", "100000"]),
)
def test_any_strings_come_back(
    texts: list[bytes], times: int, version: str, compression: str, chunk_bytes: str
) -> None:
    values = variable(texts * times)
    options = hints(version, compression=compression, minichunk_size=chunk_bytes)
    assert strings(through_chunks(values, options)[1]) == texts * times
    assert strings(through_rows(values, options)[1]) == texts * times


def test_chunks_as_they_are_known() -> None:
    encoded, _ = through_chunks(variable([b"ab", b"", b"cde"]), hints())
    assert encoded.encoding.SerializeToString().hex() == "12060a040a020820"
    assert encoded.buffers[0].tobytes().hex() == (
        "100000001200000012000000150000006162636465484848"
    )
    encoded, _ = through_chunks(variable([b"ab", b"", b"cde"], "i8"), hints())
    assert encoded.encoding.SerializeToString().hex() == "12060a040a020840"
    assert encoded.buffers[0].tobytes().hex() == (
        "20000000000000002200000000000000220000000000000025000000000000006162636465484848"
    )


@pytest.mark.parametrize(
    ("dtype", "texts", "expected"),
    [
        (
            "i4",
            [b"x", b"yy", b"zzz"],
            "2000000018000000000000000100000003000000060000007879797a7a7a",
        ),
        (
            "i8",
            [b"x", b"yy"],
            "40000000000000002800000000000000000000000000000001000000000000000300000000000000787979",
        ),
    ],
)
def test_blocks_as_they_are_known(dtype: str, texts: list[bytes], expected: str) -> None:
    from tests.reference.pages.dictionary import encode_items

    _, data = encode_items(variable(texts, dtype), hints("2.1"))
    assert data.tobytes().hex() == expected


def test_chunks_are_as_full_as_they_may_be() -> None:
    encoded, _ = through_chunks(variable([b"x" * 20] * 1000), hints(compression="none"))
    assert encoded.counts.tolist() == [128] * 7 + [104]
    encoded, _ = through_chunks(variable([b""] * 5000), hints(compression="none"))
    assert encoded.counts.tolist() == [512] * 8 + [904]
    options = hints(compression="none", minichunk_size="1000000")
    assert through_chunks(variable([b""] * 5000), options)[0].counts.tolist() == [2048, 2048, 904]


def test_one_huge_string_among_others() -> None:
    texts = [b"small"] * 7 + [b"huge" * 5000] + [b"small"] * 7
    encoded, result = through_chunks(variable(texts), hints("2.2", compression="none"))
    assert strings(result) == texts
    assert encoded.counts.tolist() == [4, 2, 2, 7]
    assert strings(through_chunks(variable(texts), hints("2.1"))[1]) == texts
    texts[7] *= 2
    options = hints("2.1", compression="none")
    with pytest.raises(InvalidInputError, match="fullzip"):
        through_chunks(variable(texts), options)
    assert strings(through_chunks(variable(texts), hints("2.2"))[1]) == texts


@pytest.mark.parametrize(
    ("name", "codec"),
    [("sentences", "fsst"), ("noise", "variable"), ("letters", "variable"), ("bytes", "fsst")],
)
def test_the_codec_is_chosen_by_the_data(name: str, codec: str) -> None:
    encoded, _ = through_chunks(variable(SETS[name]), hints())
    assert encoded.encoding.WhichOneof("compression") == codec
    assert through_rows(variable(SETS[name]), hints())[0] == codec


def test_long_strings_are_compressed_one_by_one() -> None:
    texts = [b"A" * 40000, b"", b"B" * 40000]
    assert through_rows(variable(texts), hints())[0] == "general"
    assert through_rows(variable(texts), hints(compression="none"))[0] == "variable"
    assert through_rows(variable([RNG.bytes(40000)]), hints())[0] == "variable"


def test_zstd_values_as_they_are_known() -> None:
    from tests.reference.pages.one_by_one import per_value

    encoding, result = per_value(variable([b"A" * 40000, b"", b"B" * 40000]), hints())
    assert encoding.SerializeToString().hex() == "52100a04080210001a0812060a040a020820"
    assert [unit.hex() for unit in strings(result)] == [
        "409c00000000000028b52ffd60409b55000010414101003b1c1d6001",
        "000000000000000028b52ffd2000010000",
        "409c00000000000028b52ffd60409b55000010424201003b1c1d6001",
    ]


def codes_of(texts: Sequence[bytes], dtype: str = "i4") -> tuple[list[bytes], list[bytes]]:
    """The symbols that are learned, and the strings as codes."""
    result = compressed(variable(texts, dtype))
    assert result is not None
    table, codes = result
    symbols = SymbolTable.parse(table)
    assert symbols is not None
    content = symbols.symbols.tobytes()
    words = [content[8 * i :][:n] for i, n in enumerate(symbols.lengths.tolist())]
    return words, strings(codes)


@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_codes_mean_the_strings(dtype: str) -> None:
    words, codes = codes_of(SENTENCES, dtype)
    assert [fsst.decode(code, words) for code in codes] == SENTENCES
    assert sum(map(len, codes)) < 0.3 * sum(map(len, SENTENCES))


def test_bytes_that_the_sample_lacks_are_escaped() -> None:
    texts = [b"abcabcabc"] * 30000
    texts[17777] = b"\xfe\xff\x00abc"
    words, codes = codes_of(texts)
    assert fsst.decode(codes[17777], words) == texts[17777]
    assert codes[17777].startswith(b"\xff")


def test_what_does_not_shrink_is_left_alone() -> None:
    assert compressed(variable(NOISE * 3)) is None
    assert compressed(variable([])) is None
    assert compressed(variable([b""] * 10)) is None
    assert compressed(variable([b"abc"] * 10)) is None


def test_strings_longer_than_the_sample() -> None:
    texts = [b"some words " * 20000, b"", b"others " * 9000]
    words, codes = codes_of(texts)
    assert [fsst.decode(code, words) for code in codes] == texts


def test_strings_from_the_middle_of_a_buffer() -> None:
    """Arrow's offsets may be where no processor likes them."""
    whole = variable(SENTENCES)
    odd = np.zeros(1900 * 4 + 1, np.uint8)
    odd[1:] = np.ascontiguousarray(whole.offsets[100:2000]).view(np.uint8)
    buffers = [None, pa.py_buffer(odd).slice(1), pa.py_buffer(whole.data)]
    part = VariableWidth(*strings_of(pa.Array.from_buffers(pa.binary(), 1899, buffers)))
    for candidate in [hints(), hints(compression="none"), hints(compression="zstd")]:
        assert strings(through_chunks(part, candidate)[1]) == SENTENCES[100:1999]


@settings(max_examples=100)
@given(
    texts=st.lists(st.text("abß\0", max_size=40).map(str.encode), min_size=1, max_size=30),
    most=st.integers(1, 2000),
)
def test_any_table_encodes_any_strings(texts: list[bytes], most: int) -> None:
    block = variable(texts)
    symbols, lengths, plain, _ = _kernels.learn_fsst(block.offsets, block.data, most)
    assert plain <= len(block.data)
    other = variable([bytes(reversed(text)) + b"?" for text in texts])
    offsets, codes = _kernels.encode_fsst(other.offsets, other.data, symbols, lengths)
    result = _kernels.decode_fsst(offsets, codes[: offsets[-1]], symbols, lengths)
    assert strings(VariableWidth(*result)) == strings(other)


def test_kernels_refuse_offsets_that_leave_their_bytes() -> None:
    data = np.zeros(4, np.uint8)
    none = np.zeros(0, np.uint64)
    for wrong in [[0, 5], [3, 1], [-1, 2], []]:
        offsets = np.array(wrong, np.int32)
        with pytest.raises(ValueError, match="offsets"):
            _kernels.learn_fsst(offsets, data, 100)
        with pytest.raises(ValueError, match="offsets"):
            _kernels.encode_fsst(offsets, data, none, none.view(np.uint8))
