"""The block cache, and crowds that fill it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import alance
from alance.format.plans import ByteRange
from alance.io.caches.blocks import BLOCK_ENTRY_BYTES, CACHED_BLOCK_BYTES, BlockCache
from alance.io.reading.booking import RangeRequest, from_blocks
from alance.io.reading.reads import Landed, Read
from tests.reference.served import opened_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from alance.testing.lab import Lab

CONTENT = bytes(n * 41 % 249 for n in range(5 * CACHED_BLOCK_BYTES + 1000))
SPANS = st.tuples(st.integers(0, len(CONTENT) - 1), st.integers(1, 3 * CACHED_BLOCK_BYTES)).map(
    lambda span: (span[0], min(len(CONTENT), sum(span)))
)


class Reader:
    """A read that notes what it is given."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, memoryview]] = []

    def bring(self, location: str, spans: Sequence[tuple[int, memoryview]]) -> None:
        self.spans += spans


def widened(blocks: BlockCache, span: tuple[int, int], *, everywhere: bool) -> tuple[int, int]:
    bounds = np.array([span])
    first, behind = blocks.widened("a", bounds[:, 0], bounds[:, 1], everywhere=everywhere)
    return int(first[0]), int(behind[0])


@given(
    st.lists(st.tuples(SPANS, st.sampled_from(["as asked", "near", "everywhere"])), max_size=20),
    st.lists(SPANS, min_size=1, max_size=8),
)
def test_what_it_gives_is_right(
    steps: list[tuple[tuple[int, int], str]], spans: list[tuple[int, int]]
) -> None:
    blocks = BlockCache(4 * CACHED_BLOCK_BYTES)
    blocks.note_end("a", len(CONTENT))
    for span, how in steps:
        first, behind = span
        if how != "as asked":
            first, behind = widened(blocks, span, everywhere=how == "everywhere")
        assert first <= span[0]
        assert span[1] <= behind <= len(CONTENT)
        blocks.put("a", first, memoryview(CONTENT)[first:behind])
        assert blocks.num_bytes <= 4 * CACHED_BLOCK_BYTES
        reader, bounds = Reader(), np.array([span, *spans])
        is_missing = blocks.answer("a", bounds[:, 0], bounds[:, 1], reader)  # type: ignore[arg-type]
        if is_missing is None:
            is_missing = np.ones(len(bounds), np.bool_)
        landed = Landed(reader.spans)
        for (start, stop), missing in zip(bounds.tolist(), is_missing.tolist(), strict=True):
            assert missing or bytes(landed.cut(start, stop)) == CONTENT[start:stop]
        if behind - first <= 3 * CACHED_BLOCK_BYTES:
            assert not is_missing[0]
    other = blocks.answer("b", np.array([0]), np.array([1]), Reader())  # type: ignore[arg-type]
    assert other is None


def test_ranges_are_widened_where_something_of_their_block_is_kept() -> None:
    blocks = BlockCache(1 << 20)
    blocks.note_end("a", len(CONTENT))
    blocks.put("a", 70_000, memoryview(CONTENT)[70_000:70_100])
    near, far = (80_000, 80_100), (3 * CACHED_BLOCK_BYTES + 5, 3 * CACHED_BLOCK_BYTES + 9)
    assert widened(blocks, near, everywhere=False) == (CACHED_BLOCK_BYTES, 2 * CACHED_BLOCK_BYTES)
    assert widened(blocks, far, everywhere=False) == far
    assert widened(blocks, far, everywhere=True) == (3 * CACHED_BLOCK_BYTES, 4 * CACHED_BLOCK_BYTES)
    across = (80_000, 2 * CACHED_BLOCK_BYTES + 1)
    assert widened(blocks, across, everywhere=False) == (CACHED_BLOCK_BYTES, across[1])


def test_what_lies_inside_of_new_bytes_is_not_kept_twice() -> None:
    blocks = BlockCache(1 << 20)
    for start in range(0, 50_000, 1000):
        blocks.put("a", start, memoryview(CONTENT)[start : start + 100])
    blocks.put("a", 0, memoryview(CONTENT)[:CACHED_BLOCK_BYTES])
    assert blocks.num_bytes == CACHED_BLOCK_BYTES + BLOCK_ENTRY_BYTES


def test_an_object_of_unknown_size_is_not_read_beyond_what_is_asked() -> None:
    span = widened(BlockCache(1 << 20), (70_000, 70_100), everywhere=True)
    assert span == (CACHED_BLOCK_BYTES, 70_100)


async def takes(lab: Lab, callers: int, **options: int) -> int:
    """Requests of many callers that take rows of the same column, twice."""
    async with opened_on(lab, "s3://lab/lineitem.lance", **options) as dataset:
        await dataset.take([0, 6000, 12_000], ["l_comment"])
        before = lab.stats()["requests"]
        for turn in range(2):
            results = await asyncio.gather(
                *(dataset.take([n * 97, 14_000 - n], ["l_comment"]) for n in range(callers))
            )
            assert [item.num_rows for item in results] == [2] * callers, turn
        return int(lab.stats()["requests"]) - before


def test_ends_of_objects_are_forgotten_where_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("alance.io.caches.blocks.MAX_ENDS", 2)
    blocks = BlockCache(1 << 20)
    for location in ("a", "b", "a", "c"):
        blocks.note_end(location, 5 * CACHED_BLOCK_BYTES + (location == "a"))
    assert widened(blocks, (3, 5), everywhere=True) == (0, 5)  # the oldest one
    blocks.note_end("a", 5 * CACHED_BLOCK_BYTES)
    assert widened(blocks, (3, 5), everywhere=True) == (0, CACHED_BLOCK_BYTES)


async def test_it_is_asked_again_only_for_what_may_have_come() -> None:
    blocks = BlockCache(3 * CACHED_BLOCK_BYTES)
    read = Read([ByteRange("a", 5, 9)], "", None, asyncio.get_running_loop())
    request = from_blocks(blocks, "a", RangeRequest(read, np.array([5]), np.array([9])))
    assert request is not None
    assert from_blocks(blocks, "a", request) is request
    assert (blocks.hits, blocks.misses) == (0, 1)
    blocks.put("a", 0, memoryview(CONTENT)[:CACHED_BLOCK_BYTES])
    assert from_blocks(blocks, "a", request) is None
    assert (blocks.hits, blocks.misses) == (1, 1)
    read.finish_if_complete()
    assert await read == [CONTENT[5:9]]


async def test_a_crowd_reads_whole_blocks(lineitem_lab: Lab) -> None:
    lineitem_lab.config(latency_ms=5)
    crowd = await takes(lineitem_lab, 40)
    assert crowd <= 6
    assert crowd < await takes(lineitem_lab, 40, block_cache_bytes=0)


async def test_takes_by_one_caller_keep_what_they_read(lab: Lab) -> None:
    """The first reads what it asks for alone, the next one the whole block."""
    uri, options = "s3://lab/kept.lance", lab.lance_options()
    numbers = np.random.default_rng(1).integers(0, 1 << 60, 200_000)
    await alance.write_dataset({"number": numbers}, uri, storage_options=options)
    async with alance.Session() as session:
        dataset = await alance.dataset(uri, storage_options=options, session=session)
        await dataset.take([0])  # opens the file
        num_bytes = []
        for row in (100_000, 100_000, 101_000, 102_000):
            with alance.trace() as recorder:
                table = await dataset.take([row])
            assert table["number"].to_pylist() == [numbers[row]]
            num_bytes.append(recorder.num_bytes)
    first, again, near, nearer = num_bytes
    assert 0 < first < CACHED_BLOCK_BYTES / 2
    assert near == CACHED_BLOCK_BYTES
    assert again == nearer == 0


async def test_a_take_of_more_than_it_holds_leaves_it_alone(lineitem_lab: Lab) -> None:
    options = lineitem_lab.lance_options()
    async with alance.Session(block_cache_bytes=16 << 10) as session:
        dataset = await alance.dataset(
            "s3://lab/lineitem.lance", storage_options=options, session=session
        )
        await dataset.take([5], ["l_orderkey"])
        await dataset.take(range(0, 12_000, 50), ["l_comment"])
        with alance.trace() as recorder:
            await dataset.take([5], ["l_orderkey"])
    assert recorder.num_bytes == 0
