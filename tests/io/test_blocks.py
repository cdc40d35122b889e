"""The block cache, and crowds that fill it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

import alance
from alance.io.blocks import BLOCK_BYTES, BlockCache

if TYPE_CHECKING:
    from alance.testing.lab import Lab

CONTENT = bytes(n * 41 % 249 for n in range(5 * BLOCK_BYTES + 1000))
SPANS = st.tuples(st.integers(0, len(CONTENT) - 1), st.integers(1, 3 * BLOCK_BYTES)).map(
    lambda one: (one[0], min(len(CONTENT), sum(one)))
)


@given(st.lists(st.tuples(SPANS, st.booleans()), max_size=20))
def test_what_it_gives_is_right(steps: list[tuple[tuple[int, int], bool]]) -> None:
    blocks = BlockCache(3 * BLOCK_BYTES)
    blocks.note_end("a", len(CONTENT))
    for (start, stop), is_put in steps:
        if is_put:
            first, behind = blocks.widened("a", start, stop)
            assert first <= start
            assert stop <= behind <= len(CONTENT)
            blocks.put("a", first, memoryview(CONTENT)[first:behind])
            assert blocks.num_bytes <= 3 * BLOCK_BYTES
        found = blocks.get("a", start, stop)
        assert found is None or bytes(found) == CONTENT[start:stop]
        if is_put and behind - first <= 3 * BLOCK_BYTES:
            assert found is not None
    assert blocks.get("b", 0, 1) is None


def test_an_object_of_unknown_size_is_not_read_beyond_what_is_asked() -> None:
    assert BlockCache(1 << 20).widened("a", 70_000, 70_100) == (BLOCK_BYTES, 70_100)


async def takes(lab: Lab, callers: int, **options: int) -> int:
    """Requests of many callers that take rows of the same column, twice."""
    async with alance.Session(**options) as session:
        dataset = await alance.dataset(
            "s3://lab/lineitem.lance", storage_options=lab.lance_options(), session=session
        )
        await dataset.take([0, 6000, 12_000], ["l_comment"])
        before = lab.stats()["requests"]
        for turn in range(2):
            found = await asyncio.gather(
                *(dataset.take([n * 97, 14_000 - n], ["l_comment"]) for n in range(callers))
            )
            assert [one.num_rows for one in found] == [2] * callers, turn
        return int(lab.stats()["requests"]) - before


async def test_a_crowd_fills_it_and_a_single_caller_does_not(lineitem_lab: Lab) -> None:
    lineitem_lab.config(latency_ms=5)
    crowd = await takes(lineitem_lab, 40)
    assert crowd <= 6
    without = await takes(lineitem_lab, 40, block_cache_bytes=0)
    assert crowd < without
    few = await takes(lineitem_lab, 2)
    assert few == await takes(lineitem_lab, 2, block_cache_bytes=0)
