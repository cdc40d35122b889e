"""Run-length coding against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from tests.reference.chunks import chunked

Run = tuple[int, int]  # value, length


def expand(chunks: list[list[bytes]], counts: list[int], bits: int) -> np.ndarray:
    at = chunked(chunks, counts)
    out = _kernels.expand_runs(
        at.data, at.starts[0], at.sizes[0], at.starts[1], at.sizes[1], at.counts, bits
    )
    return out.view(f"u{bits // 8}")


def chunk_of(runs: list[Run], bits: int) -> list[bytes]:
    values = np.array([value for value, _ in runs], f"u{bits // 8}")
    return [values.tobytes(), bytes(length for _, length in runs)]


@given(
    st.sampled_from([8, 16, 32, 64]),
    st.lists(
        st.lists(st.tuples(st.integers(0, 255), st.integers(1, 255)), max_size=20), max_size=5
    ),
    st.integers(0, 300),
)
def test_runs_are_repeated_like_numpy(bits: int, chunks: list[list[Run]], cut: int) -> None:
    dtype = f"u{bits // 8}"
    expected, counts = [np.zeros(0, dtype)], []
    for runs in chunks:
        values = np.repeat(np.array([v for v, _ in runs], dtype), [n for _, n in runs])
        # Only the last run may be too long.
        count = len(values) - min(cut, runs[-1][1] - 1) if runs else 0
        expected.append(values[:count])
        counts.append(count)
    out = expand([chunk_of(runs, bits) for runs in chunks], counts, bits) if chunks else []
    np.testing.assert_array_equal(out, np.concatenate(expected))


@pytest.mark.parametrize(
    ("runs", "count", "message"),
    [
        ([(1, 3), (2, 0), (3, 4)], 7, "length 0"),
        ([(1, 3), (2, 3)], 7, "runs hold 6"),
        ([(1, 3), (2, 3)], 3, "runs hold 6"),
        ([(1, 3), (2, 3)], 2, "runs hold 6"),
        ([(1, 1)], 0, "runs hold 1"),
        ([], 1, "runs hold 0"),
        ([(1, 3)], -3, "-3 values"),
    ],
)
def test_runs_that_do_not_make_the_count_are_refused(
    runs: list[Run], count: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        expand([chunk_of(runs, 32)], [count], 32)


def test_values_must_be_as_many_as_lengths() -> None:
    with pytest.raises(ValueError, match="8 bytes of values for 1 runs"):
        expand([[bytes(8), b"\7"]], [7], 32)


def test_other_widths_are_refused() -> None:
    with pytest.raises(ValueError, match="24 bits"):
        _kernels.expand_runs(np.zeros(0, np.uint8), *[np.zeros(0, np.int64)] * 5, 24)


def test_blocks_are_split_behind_the_size_of_their_values() -> None:
    blocks = [(4).to_bytes(8, "little") + b"aaaabb", (0).to_bytes(8, "little")]
    at = chunked([[block] for block in blocks], [0, 0])
    parts = _kernels.split_runs(at.data, at.starts[0], at.sizes[0])
    value_starts, value_sizes, length_starts, length_sizes = (part.tolist() for part in parts)
    assert value_starts == (at.starts[0] + 8).tolist()
    assert value_sizes == [4, 0]
    assert length_starts == [value_starts[0] + 4, value_starts[1]]
    assert length_sizes == [2, 0]


@pytest.mark.parametrize("block", [b"1234567", (1).to_bytes(8, "little"), b"\xff" * 20])
def test_blocks_shorter_than_their_values_are_refused(block: bytes) -> None:
    at = chunked([[block]], [0])
    with pytest.raises(ValueError, match="rle"):
        _kernels.split_runs(at.data, at.starts[0], at.sizes[0])
