"""What the record of an index tells of the end of its file."""

from __future__ import annotations

import pytest

from alance.format.container import TAIL_BYTES
from alance.format.index.ivf import MOST_TOLD, TAIL, tell_tail, told_tail
from alance.format.proto import vector_index_pb2


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("200000", 200_000),
        ("1", TAIL_BYTES),
        ("-7", TAIL_BYTES),
        ("much", TAIL_BYTES),
        ("9" * 30, MOST_TOLD),
    ],
)
def test_a_hint_is_kept_within_bounds(hint: str, expected: int) -> None:
    details = vector_index_pb2.VectorIndexDetails(runtime_hints={TAIL: hint})
    assert told_tail(details.SerializeToString()) == expected


def test_few_bytes_are_not_told() -> None:
    details = vector_index_pb2.VectorIndexDetails()
    tell_tail(details, 1000)
    assert not details.runtime_hints
    assert told_tail(details.SerializeToString()) == TAIL_BYTES
    assert told_tail(b"\xff\xff") == TAIL_BYTES
    tell_tail(details, 100_000)
    assert told_tail(details.SerializeToString()) == TAIL_BYTES + 100_000
