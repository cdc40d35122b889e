"""Listings that never end by themselves: a server that always says that more follows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import alance
from alance.errors import StoreError
from alance.io.cloud import remote, remote_list
from alance.io.loop.limits import TimeLimits
from tests.io.conftest import Place, lab_options

if TYPE_CHECKING:
    from alance.testing.lab import Lab

BOUND_S = 60.0  # of tests whose listing would never end


async def names(place: Place) -> list[str]:
    async with asyncio.timeout(BOUND_S):
        return [meta.path async for meta in place.store.list(place.folder)]


@pytest.mark.parametrize("count", [1, 7, 120])
async def test_a_page_that_comes_again_and_again_is_an_error(
    lab: Lab, bucket: Place, count: int
) -> None:
    for number in range(count):
        await bucket.store.put(bucket.path(f"{number:03}"), b"content")
    assert len(await names(bucket)) == count
    lab.config(faults=[{"op": "LIST", "action": "endless"}])
    with pytest.raises(StoreError, match="again and again, and does not end"):
        await names(bucket)


async def test_the_names_of_a_folder_do_not_fill_the_memory(
    lab: Lab, bucket: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "LOOK_S", 0)
    for name in ("a", "b/c", "b/d", "e/f"):
        await bucket.store.put(bucket.path(name), b"content")
    folders, objects = await bucket.store.list_level(bucket.folder)
    assert folders == [bucket.path("b"), bucket.path("e")]
    assert objects == [bucket.path("a")]
    lab.config(faults=[{"op": "LIST", "action": "endless"}])
    with pytest.raises(StoreError, match="again and again, and does not end"):
        async with asyncio.timeout(BOUND_S):
            await bucket.store.list_level(bucket.folder)
    never = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(remote_list, "MAX_FOLDER_NAMES", 2)
    lab.config(faults=[])
    listing = bucket.store.list(bucket.folder)
    with pytest.raises(StoreError, match="has more than 2 names"):
        await remote_list.check_level(never, listing, bucket.folder, "place")


async def test_pages_without_an_object_end_in_an_error(
    lab: Lab, bucket: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket.store, "limits", TimeLimits(timeout_s=0.5))
    await bucket.store.put(bucket.path("a"), b"content")
    lab.config(faults=[{"op": "LIST", "action": "hollow"}])
    with pytest.raises(StoreError, match="no complete answer within"):
        await names(bucket)
    with pytest.raises(StoreError, match="no complete answer within"):
        async with asyncio.timeout(BOUND_S):
            await bucket.store.list_level(bucket.folder)


async def test_versions_of_a_table_whose_listing_never_ends(lab: Lab) -> None:
    options = lab_options(lab)
    uri = "s3://lab/unending/table"
    dataset = await alance.write_dataset(pa.table({"x": [1]}), uri, storage_options=options)
    lab.config(faults=[{"op": "LIST", "action": "endless"}])
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(StoreError, match="does not end"):
            await dataset.versions()


async def test_a_listing_of_more_keys_than_a_page_has_is_whole(lab: Lab, bucket: Place) -> None:
    folder = lab.root / "lab" / bucket.folder
    folder.mkdir(parents=True)
    for number in range(1100):
        (folder / f"{number:04}").touch()
    lab.rescan()
    assert len(await names(bucket)) == 1100


def test_a_round_is_seen_wherever_it_begins() -> None:
    for before in range(40):
        for length in range(1, 40):
            rounds = remote_list._RepetitionCheck()
            keys = [*range(before), *range(1000, 1000 + length)]
            assert not any(rounds.is_again(str(key)) for key in keys)
            again = (str(1000 + number % length) for number in range(4 * (before + length)))
            assert any(map(rounds.is_again, again))
