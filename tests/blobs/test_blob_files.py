"""Blobs as async files, and what reading them asks of a store."""

from __future__ import annotations

import asyncio
import io
import os
import random
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from lance import blob_array

import alance
from alance import InvalidInputError
from tests.blobs.blob_tables import all_kinds, contents, table_of

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

CONTENT = random.Random(7).randbytes(3_000_000)


async def single_blob(tmp_path: Path, **options: Any) -> alance.BlobFile:
    await alance.write_dataset(table_of([CONTENT]), tmp_path / "t")
    (blob,) = await (await alance.dataset(tmp_path / "t")).take_blobs("b", indices=[0], **options)
    assert blob is not None
    return blob


async def test_a_blob_reads_as_a_file(tmp_path: Path) -> None:
    blob = await single_blob(tmp_path)
    like = io.BytesIO(CONTENT)
    draw = random.Random(3)
    for _ in range(300):
        if draw.random() < 0.4:
            place = draw.randrange(len(CONTENT) + 10)
            assert blob.seek(place) == like.seek(place)
        count = draw.choice([0, 1, 10, 1000, 600_000])
        assert await blob.read(count) == like.read(count)
        assert blob.tell() == like.tell()
    blob.seek(0)
    assert await blob.readall() == CONTENT
    assert await blob.readall() == b""


async def test_a_blob_is_streamed_in_pieces(tmp_path: Path) -> None:
    blob = await single_blob(tmp_path)
    pieces = [piece async for piece in blob]
    assert [len(piece) for piece in pieces] == [1 << 20, 1 << 20, 3_000_000 - (2 << 20)]
    assert b"".join(pieces) == CONTENT
    blob.seek(10)
    assert b"".join([piece async for piece in blob.chunks(700_001)]) == CONTENT[10:]
    with pytest.raises(InvalidInputError, match="positive"):
        _ = [piece async for piece in blob.chunks(0)]


async def test_reads_at_once_follow_each_other(tmp_path: Path) -> None:
    blob = await single_blob(tmp_path)
    parts = await asyncio.gather(*(blob.read(1000) for _ in range(20)))
    assert b"".join(parts) == CONTENT[:20_000]
    ranges = [(5, 10), (2_999_990, 10), (0, 0), (7, 1)]
    result = await blob.read_ranges(ranges)
    assert result == [CONTENT[start : start + count] for start, count in ranges]
    assert await blob.read_range(100, 50) == CONTENT[100:150]
    assert blob.tell() == 20_000
    for wrong in ((-1, 2), (0, -1), (2_999_999, 2)):
        with pytest.raises(InvalidInputError, match="the blob has 3000000"):
            await blob.read_range(*wrong)
    with pytest.raises(InvalidInputError, match="buffer_size"):
        await single_blob(tmp_path / "other", buffer_size=-1)


async def test_nulls_and_order(tmp_path: Path) -> None:
    values = [b"a", None, b"", b"d" * 70, b"e" * 500]
    dataset = await alance.write_dataset(table_of(values), tmp_path / "t")
    rows = [3, 1, 4, 1, 2, 0, 3]
    blobs = await dataset.take_blobs("b", indices=rows)
    assert [item and await item.readall() for item in blobs] == [values[row] for row in rows]
    assert await dataset.read_blobs("b", indices=rows) == [(row, values[row]) for row in rows]
    theirs = lance.dataset(tmp_path / "t").read_blobs("b", indices=rows)
    assert await dataset.read_blobs("b", addresses=rows) == theirs


async def test_every_kind_by_ids_and_addresses(tmp_path: Path) -> None:
    all_kinds(tmp_path, "t")
    dataset = await alance.dataset(tmp_path / "t")
    table = await dataset.to_table(["id"], with_row_address=True, with_row_id=True)
    for column in ("b", "x.b"):
        want = contents(tmp_path / "t", column)
        places = table["_rowaddr"].to_pylist()
        by_address = await dataset.read_blobs(column, addresses=places)
        assert by_address == list(zip(places, want, strict=True))
        assert await dataset.read_blobs(column, row_ids=table["_rowid"].to_pylist()) == by_address


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("neighbours", [True, False])
async def test_blobs_of_a_store_come_in_one_round(lab: Lab, version: str, neighbours: bool) -> None:
    """100 blobs of 100 KB: in no more requests than pylance asks, all at once."""
    uri, options = f"s3://lab/round-{version}-{neighbours}", lab.lance_options()
    values = [random.Random(number).randbytes(100_000) for number in range(300)]
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    data = pa.table({"b": pa.array(values, pa.large_binary())}, pa.schema([field]))
    lance.write_dataset(data, uri, storage_options=options, data_storage_version=version)
    rows = list(range(100, 200))
    if not neighbours:
        rows = sorted(random.Random(1).sample(range(300), 100))
    lab.config(waits_for=os.getpid())
    theirs = lance.dataset(uri, storage_options=options)
    with lab.recording() as pylance:
        theirs.read_blobs("b", indices=rows)
    async with alance.Session() as session:
        dataset = await alance.dataset(uri, storage_options=options, session=session)
        with lab.recording() as taken:
            files = await dataset.take_blobs("b", indices=rows)
        with lab.recording() as read:
            results = await asyncio.gather(*(file.readall() for file in files if file is not None))
        with lab.recording() as whole:
            again = await dataset.read_blobs("b", indices=rows)
    lab.calm()
    assert list(results) == [values[row] for row in rows]
    assert [item for _, item in again] == list(results)
    assert taken.rounds <= 2
    assert read.rounds == 1
    assert whole.rounds <= 2
    total = taken.summary()["requests"] + read.summary()["requests"]
    assert total <= pylance.summary()["requests"] + neighbours  # large reads are two at once
    if neighbours:
        assert read.summary()["requests"] <= 3
    assert read.summary()["get_bytes"] <= 2.5 * 100 * 100_000


async def test_small_reads_of_a_store_are_read_ahead(lab: Lab) -> None:
    uri, options = "s3://lab/ahead", lab.lance_options()
    dataset = await alance.write_dataset(table_of([CONTENT]), uri, storage_options=options)
    (blob,) = await dataset.take_blobs("b", indices=[0])
    assert blob is not None
    with lab.recording() as seen:
        parts = [await blob.read(1000) for _ in range(1000)]
    assert b"".join(parts) == CONTENT[:1_000_000]
    assert seen.summary()["requests"] <= 3
    (blob,) = await dataset.take_blobs("b", indices=[0], buffer_size=0)
    assert blob is not None
    with lab.recording() as seen:
        assert await blob.read(10) == CONTENT[:10]
    assert seen.summary()["get_bytes"] <= 64 << 10


async def test_payloads_are_not_held(lab: Lab) -> None:
    """A writer holds only the batch, and the bytes of uploads under way."""
    uri, options = "s3://lab/large", lab.lance_options()
    step = [bytes([number]) * (5 << 20) for number in range(3)]

    async def batches() -> Any:
        for _ in range(8):
            yield pa.record_batch([blob_array(step)], schema=schema)

    schema = pa.schema([alance.blob_field("b")]).set(0, lance.blob_field("b"))
    before = pa.total_allocated_bytes()
    peak = 0

    def seen(_: object) -> None:
        nonlocal peak
        peak = max(peak, pa.total_allocated_bytes() - before)

    dataset = await alance.write_dataset(batches(), uri, storage_options=options, progress=seen)
    assert peak < 90 << 20
    assert [len(item or b"") for _, item in await dataset.read_blobs("b", indices=[0, 23])] == [
        5 << 20
    ] * 2
