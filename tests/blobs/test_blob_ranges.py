"""`read_blob_ranges` beside pylance's: parts of many blobs, of every kind, in one round."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import alance
from alance import InvalidInputError
from tests.blobs.blob_tables import all_kinds, table_of

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

REQUESTS = [(0, 0, 5), (2, 199, 1), (1, 10, 20), (2, 0, 0), (3, 7, 9), (5, 19, 1), (4, 900, 100)]


@pytest.mark.parametrize("selector", ["indices", "addresses", "ids"])
async def test_parts_of_blobs_are_those_of_pylance(tmp_path: Path, selector: Any) -> None:
    theirs = all_kinds(tmp_path, str(tmp_path / "t"))
    rows = list(range(6))
    if selector != "indices":
        name = "_rowaddr" if selector == "addresses" else "_rowid"
        table = theirs.to_table(["id"], with_row_address=True, with_row_id=True)
        rows = table[name].to_pylist()
    requests = [(rows[row], offset, length) for row, offset, length in REQUESTS]
    dataset = await alance.dataset(tmp_path / "t")
    parts = await dataset.read_blob_ranges("b", requests, selector=selector)
    assert parts == theirs.read_blob_ranges("b", requests, selector=selector)
    assert await dataset.read_blob_ranges("b", [], selector=selector) == []


async def test_parts_that_are_near_share_a_request(lab: Lab) -> None:
    uri, options = "s3://lab/blobs/ranges", lab.lance_options()
    values = [bytes([number]) * 50 for number in range(20)]
    await alance.write_dataset(table_of(values), uri, mode="overwrite", storage_options=options)
    dataset = await alance.dataset(uri, storage_options=options)
    requests = [(row, row, 30) for row in range(20) for _ in range(2)]
    await dataset.read_blob_ranges("b", requests[:1], selector="indices")
    with alance.trace() as recorder:
        parts = await dataset.read_blob_ranges("b", requests, selector="indices")
    assert [part for _, _, part in parts] == [bytes([row]) * 30 for row, _, _ in requests]
    blobs = [event for event in recorder.events if "blobs" in event.reasons]
    assert len(blobs) == 1


@pytest.mark.parametrize(
    ("requests", "selector", "message"),
    [
        ([(1, 0, 51)], "indices", "range of 51 bytes at 0: the blob has 50"),
        ([(1, 60, 0)], "indices", "range of 0 bytes at 60: the blob has 50"),
        ([(1, -1, 2)], "indices", r"request \(1, -1, 2\): expected \(row, offset, length\)"),
        ([(1, 2)], "indices", r"expected \(row, offset, length\)"),
        ([None], "indices", r"request None: expected \(row, offset, length\)"),
        (None, "indices", r"None: expected a list of \(row, offset, length\)"),
        ([(1, 0, 1)], "rows", "selector='rows': expected one of ids, addresses, indices"),
        ([(99, 0, 1)], "indices", "99"),
    ],
)
async def test_what_no_blob_has_is_refused(
    tmp_path: Path, requests: Any, selector: Any, message: str
) -> None:
    all_kinds(tmp_path, str(tmp_path / "t"))
    dataset = await alance.dataset(tmp_path / "t")
    with pytest.raises(InvalidInputError, match=message):
        await dataset.read_blob_ranges("b", requests, selector=selector)
    with pytest.raises(InvalidInputError, match="no blob column"):
        await dataset.read_blob_ranges("id", [(0, 0, 1)], selector="indices")


async def test_parts_are_counted_in_whole_bytes(tmp_path: Path) -> None:
    all_kinds(tmp_path, str(tmp_path / "t"))
    (blob,) = await (await alance.dataset(tmp_path / "t")).take_blobs("b", indices=[1])
    async with asyncio.timeout(60):  # none of it waits
        for wrong in ((1.5, 2), ("a", 1)):
            with pytest.raises(InvalidInputError, match=r"expected \(offset, length\)"):
                await blob.read_range(*wrong)
        with pytest.raises(InvalidInputError, match=r"num_bytes=1\.5: expected an integer"):
            await blob.read(1.5)
    with pytest.raises(InvalidInputError, match="offset='x': expected an integer"):
        blob.seek("x")
    assert await blob.read_range(1, 2) == b"bb"
