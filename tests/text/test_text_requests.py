"""Requests and rounds of searches by words on an object store."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from tests.reference.served import opened_on

if TYPE_CHECKING:
    from alance.testing.lab import Lab

NUM_ROWS = 20_000
URI = "s3://lab/texts"
pytestmark = pytest.mark.usefixtures("far")


def words(count: int) -> list[str]:
    return [f"w{number}" for number in range(count)]


@pytest.fixture(scope="module", autouse=True)
def _searched(lab_server: Lab, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("texts") / "t"
    chance = random.Random(4)
    vocabulary = words(20_000)
    weights = [*accumulate(1 / (place + 3) for place in range(len(vocabulary)))]
    texts = [
        f"only{number} " + " ".join(chance.choices(vocabulary, cum_weights=weights, k=12))
        for number in range(NUM_ROWS)
    ]
    rows = pa.table({"id": range(NUM_ROWS), "text": texts})
    lance.write_dataset(rows, path, max_rows_per_file=NUM_ROWS // 2)
    lance.dataset(path).create_scalar_index("text", "INVERTED", with_position=True)
    shutil.copytree(path, Path(lab_server.root) / "lab" / "texts")
    lab_server.rescan()


async def test_a_cold_search_takes_few_rounds_and_reads_few_posting_lists(lab: Lab) -> None:
    async with opened_on(lab, URI) as dataset:
        lab.config(waits_for=os.getpid())
        with lab.recording() as seen:
            rows = await dataset.search_text("only77 w1 w15000", 10, columns=["id"])
        # Heads; tokens, documents and page states; posting lists; rows.
        assert seen.rounds == 4
        assert len(seen.records) <= 16
        assert rows["id"][0].as_py() == 77


async def test_a_warm_search_reads_posting_lists_and_rows_alone(lab: Lab) -> None:
    async with opened_on(lab, URI) as dataset:
        await dataset.search_text("only77", 10, columns=["id"])
        lab.config(waits_for=os.getpid())
        with lab.recording() as seen:
            await dataset.search_text("w500 w700", 10, columns=["id"])
        assert seen.rounds == 2
        with lab.recording() as seen:
            await dataset.search_text("w500 w700", 10, columns=["_rowid"])
        assert seen.records == []
        phrase = alance.PhraseQuery("w1 w2")
        with lab.recording() as seen:
            await dataset.search_text(phrase, 10, columns=["_rowid"])
        assert seen.rounds == 1  # all lists at once, with their positions


async def test_the_parts_of_a_query_share_a_round(lab: Lab) -> None:
    async with opened_on(lab, URI) as dataset:
        await dataset.search_text("only77", 10, columns=["_rowid"])
        lab.config(waits_for=os.getpid())
        either = alance.MatchQuery("w40") | alance.MatchQuery("w41 w42")
        with lab.recording() as seen:
            await dataset.search_text(either, 10, columns=["_rowid"])
        assert seen.rounds == 1


async def test_searches_at_once_share_the_take_of_their_rows(lab: Lab) -> None:
    async with opened_on(lab, URI, block_cache_bytes=0) as dataset:
        texts = [f"w{number} w{2 * number}" for number in range(64)]
        alone = [await dataset.search_text(text, 10, columns=["id", "text"]) for text in texts]
        lab.config(waits_for=os.getpid())
        with lab.recording() as seen:
            rows = await asyncio.gather(
                *(dataset.search_text(text, 10, columns=["id", "text"]) for text in texts)
            )
        assert rows == alone
        assert seen.rounds == 1
        assert len(seen.records) < 64
        other = await asyncio.gather(
            dataset.search_text("w3", 4, columns={"twice": "id * 2"}),
            dataset.search_text("w4", 4, columns=["id", "_rowid"]),
            dataset.search_text("w5", 5000, columns=["id"]),
        )
        assert other[0]["twice"].to_pylist() == [
            2 * number for number in (await dataset.search_text("w3", 4))["id"].to_pylist()
        ]


async def test_a_cancelled_search_withdraws_its_requests(lab: Lab) -> None:
    lab.config(latency_ms=1)
    async with opened_on(lab, URI) as dataset:
        before = len(asyncio.all_tasks())
        for wait in (0, 0.001, 0.005, 0.02, 0.05):
            search = asyncio.ensure_future(dataset.search_text("w1 w2", 10))
            await asyncio.sleep(wait)
            search.cancel()
            await asyncio.gather(search, return_exceptions=True)
            assert len(asyncio.all_tasks()) == before
        assert len(await dataset.search_text("w1 w2", 10)) == 10
