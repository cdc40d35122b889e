"""What takes least bytes in chunks is said by one kernel: against the sizes of all three forms."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alance import _kernels

FLAT, PACKED, RUNS = 0, 1, 2
BITS = (8, 16, 32, 64)


def sizes(values: list[int], bits: int) -> tuple[int, int, int]:
    """Bytes as they are, bit-packed, and as runs."""
    blocks = [values[first : first + 1024] for first in range(0, len(values), 1024)]
    packed = sum(bits // 8 + 128 * max(value.bit_length() for value in block) for block in blocks)
    lengths = [len(list(run)) for _, run in groupby(values)]
    parts = [min(4096, length - first) for length in lengths for first in range(0, length, 4096)]
    entries = sum(-(-part // 255) for part in parts)
    return len(values) * bits // 8, packed, entries * (bits // 8 + 1)


@given(
    st.sampled_from(BITS),
    st.lists(
        st.tuples(st.integers(0, 255), st.sampled_from([1, 2, 30, 255, 256, 5000])),
        min_size=1,
        max_size=60,
    ),
    st.sampled_from([None, 0.0, 0.01, 0.5, 2.0]),
)
@example(8, [(255, 1), (3, 1)], None)  # runs as large as flat values
@example(16, [(value % 2, 3) for value in range(44)], None)
def test_the_smallest_form_is_taken(
    bits: int, runs: list[tuple[int, int]], most_runs: float | None
) -> None:
    values = [value for value, length in runs for _ in range(length)]
    flat, packed, as_runs = sizes(values, bits)
    num_runs = len(list(groupby(values)))
    expected = PACKED if packed < flat else FLAT
    is_allowed = most_runs is None or num_runs < most_runs * len(values)
    # On a tie runs go before bit-packing, and flat values before both.
    if is_allowed and (as_runs < flat if expected == FLAT else as_runs <= packed):
        expected = RUNS
    data = np.array(values, f"<u{bits // 8}").view(np.uint8)
    assert _kernels.chunk_form(data, bits, most_runs) == expected


@pytest.mark.parametrize("bits", BITS)
def test_no_values_are_as_they_are(bits: int) -> None:
    assert _kernels.chunk_form(np.empty(0, np.uint8), bits, None) == FLAT


def test_values_of_other_widths_are_refused() -> None:
    with pytest.raises(ValueError, match="24 bits"):
        _kernels.chunk_form(np.zeros(6, np.uint8), 24, None)
