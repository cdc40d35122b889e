"""Levels of chunks: encoded and decoded, and which codec is chosen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from alance.format.blocks import FixedWidth
from alance.format.codecs.block import block_codec
from tests.reference.chunks import Chunk, decode_blocks
from tests.reference.pages.levels import level_blocks

VERSIONS = [FileVersion.V2_1, FileVersion.V2_2]


def through(levels: np.ndarray, counts: list[int], version: FileVersion | None) -> tuple[str, str]:
    """The description and the bytes of levels, which must decode to themselves."""
    levels = levels.astype(np.uint16)
    all_counts = np.array(counts, np.int64)
    encoding, data, sizes = level_blocks(levels, all_counts, int(levels.max(initial=0)), version)
    assert sizes.sum() == len(data)
    ends = np.cumsum(sizes)
    blocks = [data[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    assert block_codec(encoding).bits == 16
    result = decode_blocks(encoding, [*map(Chunk, [[block] for block in blocks], counts)])
    assert isinstance(result, FixedWidth) or not counts
    if not isinstance(result, FixedWidth):
        return encoding.SerializeToString().hex(), data.tobytes().hex()
    assert result.bits_per_value == 16
    np.testing.assert_array_equal(result.data.view(np.uint16), levels)
    return encoding.SerializeToString().hex(), data.tobytes().hex()


@settings(max_examples=150)
@given(
    counts=st.lists(st.sampled_from([0, 1, 63, 64, 65, 200, 1023, 1024, 1025, 3000]), max_size=5),
    most=st.sampled_from([0, 1, 2, 3, 300, 65535]),
    runs=st.sampled_from([1, 3, 40, 700]),
    version=st.sampled_from([None, *VERSIONS]),
)
def test_levels_come_back(
    counts: list[int], most: int, runs: int, version: FileVersion | None
) -> None:
    rng = np.random.default_rng(most)
    levels = np.repeat(rng.integers(0, most + 1, sum(counts) // runs + 1), runs)[: sum(counts)]
    through(levels, counts, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_few_levels_as_they_are_known(version: FileVersion) -> None:
    encoding, data = through(np.arange(70) % 2, [70], version)
    assert encoding == "2a020810"
    assert data.startswith("0100000001010000010100000101000001000000010000000100")
    assert len(data) == 2 * 130


def test_many_levels_as_they_are_known() -> None:
    encoding, data = through(np.arange(1030) % 5 == 2, [1024, 6], FileVersion.V2_1)
    assert encoding == "220808101a040a020801"
    assert data.startswith("10428410218408214208104284102184")
    assert data.endswith("000000000000010000000000")
    assert len(data) == 2 * (128 + 12)


def test_runs_of_levels_as_they_are_known() -> None:
    levels = np.repeat([0, 1, 0], [10, 390, 300])
    encoding, data = through(levels, [700], FileVersion.V2_2)
    assert encoding == "420c0a040a02081012040a020808"
    assert data == "0a00000000000000000001000100000000000aff87ff2d"
    assert through(levels, [700], FileVersion.V2_1)[0] == "2a020810"


def test_few_levels_are_stored_as_they_are() -> None:
    assert through(np.arange(64) % 2, [64], FileVersion.V2_1)[0] == "0a020810"


def test_a_chunk_that_its_size_cannot_say_takes_another_codec() -> None:
    # Runs are best for the page, but not for the first chunk, which would have 100000 bytes.
    levels = np.concatenate([np.arange(40000) % 2 + np.arange(40000) // 2 % 2, np.zeros(10**6)])
    encoding, _ = through(levels, [40000] + [50000] * 20, FileVersion.V2_2)
    assert encoding.startswith("22")


def test_more_levels_than_a_chunk_can_hold_are_refused() -> None:
    levels = np.arange(65000, dtype=np.uint16)
    with pytest.raises(InvalidInputError, match="65000 levels"):
        level_blocks(levels, np.array([65000]), 65535)


def test_a_level_above_the_highest_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="at most 1"):
        level_blocks(np.full(10, 2, np.uint16), np.array([10]), 1)
