"""Unpacking against the oracle, for every width of value and code."""

from __future__ import annotations

import numpy as np
import pytest

from alance import _kernels
from tests.reference.fastlanes import pack

WIDTHS = [8, 16, 32, 64]


def random_values(width: int, packed: int, count: int = 1024) -> np.ndarray:
    rng = np.random.default_rng(width * 100 + packed)
    words = rng.integers(0, 2**64, count, dtype=np.uint64, endpoint=False)
    return words >> np.uint64(64 - packed) if packed else np.zeros(count, np.uint64)


def unpack_blocks(
    content: bytes, count: int, width: int, packed: int, *, baseline: bool = False
) -> np.ndarray:
    data = np.frombuffer(content, np.uint8)
    return _kernels.unpack_blocks(data, count, width, packed, baseline).view(f"u{width // 8}")


@pytest.mark.parametrize("baseline", [False, True], ids=["best", "baseline"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_packed_width_is_unpacked_like_the_oracle(width: int, baseline: bool) -> None:
    for packed in range(width + 1):
        values = random_values(width, packed)
        out = unpack_blocks(pack(values, width, packed), 1024, width, packed, baseline=baseline)
        np.testing.assert_array_equal(out, values)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("packed_tail", [False, True], ids=["raw tail", "packed tail"])
@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 3000])
def test_blocks_of_one_width_with_either_tail(width: int, packed_tail: bool, count: int) -> None:
    packed = width // 2 - 1
    values = random_values(width, packed, count)
    whole, tail = values[: count // 1024 * 1024], values[count // 1024 * 1024 :]
    content = b"".join(pack(block, width, packed) for block in whole.reshape(-1, 1024))
    if packed_tail and len(tail):
        filled = np.zeros(1024, np.uint64)
        filled[: len(tail)] = tail
        content += pack(filled, width, packed)
    else:
        content += tail.astype(f"u{width // 8}").tobytes()
    np.testing.assert_array_equal(unpack_blocks(content, count, width, packed), values)


def test_a_tail_of_either_form_and_equal_size_is_raw() -> None:
    # 64 values of 16 bits take as many bytes as one block at 1 bit.
    values = np.arange(64, dtype=np.uint16)
    np.testing.assert_array_equal(unpack_blocks(values.tobytes(), 64, 16, 1), values)


@pytest.mark.parametrize("size", [0, 127, 129, 1022, 1025])
def test_blocks_of_another_size_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match="values of width"):
        unpack_blocks(bytes(size), 1000, 8, 1)


def test_a_negative_number_of_values_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 values"):
        unpack_blocks(b"", -1, 8, 1)


@pytest.mark.parametrize("width", [0, 1, 24, 128])
def test_other_widths_of_values_are_refused(width: int) -> None:
    with pytest.raises(ValueError, match=f"values of {width} bits"):
        unpack_blocks(b"", 0, width, 0)


@pytest.mark.parametrize("packed", [-1, 17])
def test_other_packed_widths_are_refused(packed: int) -> None:
    with pytest.raises(ValueError, match=f"width {packed}"):
        unpack_blocks(b"", 0, 16, packed)
