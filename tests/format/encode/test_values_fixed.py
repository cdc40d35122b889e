"""Fixed-width values: encoded and decoded, and which codec is chosen."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import InvalidInputError
from alance.format.blocks import FixedWidth
from tests.reference.encoded import hints, through_block, through_chunks, through_rows
from tests.reference.fastlanes import DIGESTS

WIDTHS = [1, 7, 8, 16, 24, 32, 64, 128, 256]
COUNTS = [0, 1, 2, 255, 256, 1023, 1024, 1025, 4095, 4096, 4097, 5000]
COMPRESSIONS = [{}, {"compression": "none"}, {"compression": "lz4"}, {"compression": "zstd"}]


def values_of(bits: int, count: int, kind: str, seed: int = 0) -> FixedWidth:
    rng = np.random.default_rng(seed)
    if bits % 8:
        return FixedWidth(
            bits, count, trimmed(rng.integers(0, 256, -(-count * bits // 8)), bits * count)
        )
    width = bits // 8
    data = np.zeros((count, width), np.uint8)
    if kind == "noise":
        data = rng.integers(0, 256, (count, width), np.uint8)
    elif kind == "small":
        data[:, 0] = rng.integers(0, 50, count)
    elif kind == "negative":
        data[:] = 255
        data[:, 0] = rng.integers(0, 50, count)
    elif kind == "runs":
        data[:] = np.repeat(rng.integers(0, 256, (count // 300 + 1, width)), 300, axis=0)[:count]
    elif kind == "one large":
        data[count // 2 : count // 2 + 1] = 255
    return FixedWidth(bits, count, data.reshape(-1))


def trimmed(data: np.ndarray, num_bits: int) -> np.ndarray:
    """Bytes whose bits behind the last are 0."""
    bits = np.unpackbits(data.astype(np.uint8), count=num_bits, bitorder="little")
    return np.packbits(bits, bitorder="little")


def check_equal(result: object, values: FixedWidth) -> None:
    assert isinstance(result, FixedWidth)
    assert result.bits_per_value == values.bits_per_value
    assert result.num_values == values.num_values
    np.testing.assert_array_equal(
        trimmed(result.data, values.num_values * values.bits_per_value), values.data
    )


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("kind", ["zeros", "noise", "small", "negative", "runs", "one large"])
def test_chunks_come_back(bits: int, kind: str) -> None:
    for count in COUNTS:
        values = values_of(bits, count, kind)
        for version in ["2.1", "2.2"]:
            for keys in COMPRESSIONS:
                _, result = through_chunks(values, hints(version, **keys))
                check_equal(result, values)


@settings(max_examples=60)
@given(
    bits=st.sampled_from([8, 16, 32, 64]),
    stretches=st.lists(
        st.tuples(st.integers(0, 2**64 - 1), st.integers(1, 3000), st.integers(0, 64)), max_size=6
    ),
    bss=st.sampled_from(["off", "on", "auto"]),
    compression=st.sampled_from([None, "lz4", "zstd", "none", "fsst"]),
)
def test_any_mixture_comes_back(
    bits: int, stretches: list[tuple[int, int, int]], bss: str, compression: str | None
) -> None:
    parts = [
        np.full(length, value, np.uint64)
        + np.arange(length, dtype=np.uint64) % (1 << min(wild, 63))
        for value, length, wild in stretches
    ]
    content = np.concatenate([np.zeros(0, np.uint64), *parts]).astype(f"u{bits // 8}")
    values = FixedWidth(bits, len(content), content.view(np.uint8))
    keys = {"bss": bss} | ({} if compression is None else {"compression": compression})
    check_equal(through_chunks(values, hints("2.2", **keys))[1], values)
    for version in ["2.1", "2.2"]:
        check_equal(through_block(values, hints(version))[1], values)


@pytest.mark.parametrize(
    ("bits", "kind", "codec"),
    [
        (32, "zeros", "inline_bitpacking"),
        (32, "noise", "flat"),
        (32, "small", "inline_bitpacking"),
        (32, "runs", "rle"),
        (64, "negative", "flat"),
        (128, "zeros", "flat"),
        (1, "noise", "flat"),
    ],
)
def test_the_codec_is_chosen_by_the_data(bits: int, kind: str, codec: str) -> None:
    encoded, _ = through_chunks(values_of(bits, 5000, kind), hints())
    assert encoded.encoding.WhichOneof("compression") == codec


def test_floats_are_split_where_compression_is_asked_for() -> None:
    rng = np.random.default_rng(0)
    content = rng.integers(0, 400, 5000).astype(np.float64) / 4
    content[7], content[8] = np.nan, -np.inf
    values = FixedWidth(64, 5000, content.view(np.uint8))
    encoded, result = through_chunks(values, hints(compression="zstd"))
    assert encoded.encoding.general.values.WhichOneof("compression") == "byte_stream_split"
    assert set(encoded.counts.tolist()) == {512, 5000 % 512}
    check_equal(result, values)
    encoded, _ = through_chunks(values, hints(compression="zstd", bss="off"))
    assert encoded.encoding.general.values.WhichOneof("compression") == "flat"


def test_few_runs_are_needed_where_a_threshold_says_so() -> None:
    values = values_of(32, 4096, "runs")
    options = hints(rle_threshold="0.001")
    assert through_chunks(values, options)[0].encoding.WhichOneof("compression") == "flat"
    options = hints(rle_threshold="0.5")
    assert through_chunks(values, options)[0].encoding.WhichOneof("compression") == "rle"


def test_runs_as_they_are_known() -> None:
    content = np.array([7] * 300 + [9, 9], np.int32)
    encoded, _ = through_chunks(FixedWidth(32, 302, content.view(np.uint8)), hints())
    assert encoded.encoding.SerializeToString().hex() == "420c0a040a02082012040a020808"
    assert [buffer.tobytes().hex() for buffer in encoded.buffers] == [
        "070000000700000009000000",
        "ff2d02",
    ]


def test_packed_bits_as_they_are_known() -> None:
    content = (np.arange(200) // 3 % 2).astype(np.uint8)
    encoded, _ = through_chunks(FixedWidth(8, 200, content), hints())
    assert encoded.encoding.SerializeToString().hex() == "2a020808"
    assert (
        encoded.buffers[0].tobytes().hex()
        == "01" + "000202030101" * 12 + "000000010101" * 9 + "0000"
    )


@pytest.mark.parametrize(("bits", "width", "digest"), DIGESTS)
@pytest.mark.parametrize("baseline", [True, False])
def test_packed_blocks_as_they_are_known(
    bits: int, width: int, digest: str, baseline: bool
) -> None:
    i = np.arange(1024, dtype=np.uint64)
    if bits == 64 and width > 7:
        content = (i * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - width)
    else:
        content = ((i * np.uint64(2654435761) + np.uint64(12345)) >> np.uint64(5)) % np.uint64(
            1 << width
        )
    data = content.astype(f"u{bits // 8}").view(np.uint8)
    packed = _kernels.pack_blocks(data, 1024, bits, width, baseline=baseline)
    assert len(packed) == 128 * width
    header = width.to_bytes(bits // 8, "little")
    assert sha256(header + packed.tobytes()).hexdigest() == digest


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_every_width_packs_in_both_versions_of_the_loop(bits: int) -> None:
    rng = np.random.default_rng(bits)
    for width in range(1, bits + 1):
        content = (
            rng.integers(0, 1 << width, 2024, np.uint64, endpoint=False)
            if width < 64
            else (rng.integers(0, 2**64 - 1, 2024, np.uint64, endpoint=True))
        )
        for part in (content[:1024], content[1024:], content):
            data = part.astype(f"u{bits // 8}").view(np.uint8)
            packed = _kernels.pack_blocks(data, len(part), bits, width)
            other = _kernels.pack_blocks(data, len(part), bits, width, baseline=True)
            assert bytes(other) == bytes(packed)
            result = _kernels.unpack_blocks(packed, len(part), bits, width)
            np.testing.assert_array_equal(result, data)


def test_buffers_may_stand_anywhere() -> None:
    whole = np.arange(40001, dtype=np.uint8) % 50
    for start in range(1, 8):
        data = whole[start : start + 40000 - 8]
        for bits in [32, 64]:
            values = FixedWidth(bits, len(data) * 8 // bits, data)
            check_equal(through_chunks(values, hints())[1], values)
            check_equal(through_chunks(values, hints(compression="lz4", bss="on"))[1], values)


def test_values_too_wide_for_chunks_are_refused() -> None:
    wide = FixedWidth(8 * 4093, 3, np.zeros(3 * 4093, np.uint8))
    with pytest.raises(InvalidInputError, match="4093 bytes"):
        through_chunks(wide, hints())
    narrower = FixedWidth(8 * 4092, 3, np.zeros(3 * 4092, np.uint8))
    assert through_chunks(narrower, hints())[0].counts.tolist() == [2, 1]


@pytest.mark.parametrize("bits", [1, 8, 32, 128, 1000 * 8])
def test_rows_come_back(bits: int) -> None:
    for count in [0, 1, 9]:
        values = values_of(bits, count, "noise")
        name, result = through_rows(values, hints())
        assert name == "flat"
        if bits == 1:
            unpacked = np.unpackbits(values.data, count=count, bitorder="little")
            values = FixedWidth(8, count, unpacked)
        check_equal(result, values)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("compression", "gzip"),
        ("dict_size_ratio", "7"),
        ("dict_max_size", "-1"),
        ("dict_max_size", "much"),
    ],
)
def test_keys_that_say_nothing_are_refused(key: str, text: str) -> None:
    with pytest.raises(InvalidInputError, match=key.replace("_", "-")):
        through_chunks(values_of(32, 10, "noise"), hints(**{key: text}))
