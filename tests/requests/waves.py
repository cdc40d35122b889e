"""How many requests of a recording were one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.testing.recording import Record


def waves(records: Sequence[Record]) -> int:
    """Requests one after the other: each wave begins when all before have ended."""
    count, end = 0, float("-inf")
    for one in sorted(records, key=lambda record: record["t0"]):
        count += one["t0"] >= end
        end = max(end, one["t2"])
    return count
