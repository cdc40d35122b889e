"""The record of an index hints how many bytes at the end of its file to read first."""

from __future__ import annotations

import pytest

from alance.format.container import TAIL_BYTES
from alance.format.index.ivf import MOST_HINTED, TAIL, hint_tail_bytes, hinted_tail_bytes
from alance.format.proto import vector_index_pb2


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("200000", 200_000),
        ("1", TAIL_BYTES),
        ("-7", TAIL_BYTES),
        ("much", TAIL_BYTES),
        ("9" * 30, MOST_HINTED),
    ],
)
def test_a_hint_is_kept_within_bounds(hint: str, expected: int) -> None:
    details = vector_index_pb2.VectorIndexDetails(runtime_hints={TAIL: hint})
    assert hinted_tail_bytes(details.SerializeToString()) == expected


def test_few_bytes_need_no_hint() -> None:
    details = vector_index_pb2.VectorIndexDetails()
    hint_tail_bytes(details, 1000)
    assert not details.runtime_hints
    assert hinted_tail_bytes(details.SerializeToString()) == TAIL_BYTES
    assert hinted_tail_bytes(b"\xff\xff") == TAIL_BYTES
    hint_tail_bytes(details, 100_000)
    assert hinted_tail_bytes(details.SerializeToString()) == TAIL_BYTES + 100_000
