"""Requests and rounds of appends on an object store."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance

if TYPE_CHECKING:
    from alance.testing.lab import Lab

ROWS = pa.table({"a": list(range(50)), "b": ["text"] * 50})


@pytest.fixture
def place(lab: Lab, request: pytest.FixtureRequest) -> tuple[Lab, str]:
    """A lab with a table that pylance has written, and its URI."""
    uri = f"s3://lab/{request.node.name}.lance"
    lance.write_dataset(ROWS, uri, storage_options=lab.lance_options())
    lab.config(waits_for=os.getpid())
    return lab, uri


async def probe(lab: Lab, uri: str) -> None:
    """The first commit to a store probes it; that is not what is counted here."""
    await alance.write_dataset(ROWS, f"{uri}.probe", storage_options=lab.lance_options())


async def test_an_append_by_handle_takes_two_rounds(place: tuple[Lab, str]) -> None:
    lab, uri = place
    await probe(lab, uri)
    dataset = await alance.dataset(uri, storage_options=lab.lance_options())
    for _ in range(2):
        with lab.recording() as seen:
            dataset = await dataset.insert(ROWS)
        assert sorted(record["op"] for record in seen.records) == ["LIST", "PUT", "PUT", "PUT"]
        assert seen.rounds == 2
    assert lance.dataset(uri, storage_options=lab.lance_options()).count_rows() == 150


async def test_an_append_by_uri_takes_three_rounds(place: tuple[Lab, str]) -> None:
    lab, uri = place
    options = lab.lance_options()
    await probe(lab, uri)
    async with alance.Session() as session:
        with lab.recording() as seen:
            await alance.write_dataset(
                ROWS, uri, mode="append", storage_options=options, session=session
            )
        assert sorted(record["op"] for record in seen.records) == [
            "GET",
            "LIST",
            "PUT",
            "PUT",
            "PUT",
        ]
        assert seen.rounds == 3
        with lab.recording() as seen:
            await alance.write_dataset(
                ROWS, uri, mode="append", storage_options=options, session=session
            )
        assert seen.rounds == 2
    theirs = lance.dataset(uri, storage_options=options)
    theirs.validate()
    assert (theirs.count_rows(), theirs.version) == (150, 3)


async def test_a_wrong_guess_of_the_columns_is_put_right(place: tuple[Lab, str]) -> None:
    lab, uri = place
    options = lab.lance_options()
    await probe(lab, uri)
    theirs = lance.dataset(uri, storage_options=options)
    theirs.add_columns({"c": "a * 2"})
    theirs.drop_columns(["a"])
    rows = pa.table({"b": ["x"], "c": [7]})
    async with alance.Session() as session:
        with lab.recording() as seen:
            dataset = await alance.write_dataset(
                rows, uri, mode="append", storage_options=options, session=session
            )
    assert dataset.version == 4
    assert seen.rounds <= 6  # two remove what was written by the guess
    theirs = lance.dataset(uri, storage_options=options)
    theirs.validate()
    assert theirs.to_table().slice(50).to_pylist() == [{"b": "x", "c": 7}]
    data = Path(lab.root, "lab", uri.rpartition("/")[2], "data")
    assert len(os.listdir(data)) == 3  # two of pylance, and one


async def test_concurrent_appends_share_versions(place: tuple[Lab, str]) -> None:
    lab, uri = place
    options = lab.lance_options()
    await probe(lab, uri)
    first = await alance.dataset(uri, storage_options=options)

    async def append(number: int) -> int:
        dataset = first
        for _ in range(3):
            if number % 2:
                dataset = await dataset.insert(ROWS)
            else:
                dataset = await alance.write_dataset(
                    ROWS, uri, mode="append", storage_options=options
                )
        return dataset.version

    with lab.recording() as seen:
        versions = await asyncio.gather(*(append(number) for number in range(12)))
    assert max(versions) <= 12
    puts = [record["key"] for record in seen.records if record["op"] == "PUT"]
    assert sum("/data/" in key for key in puts) == 36
    assert sum("/_versions/" in key for key in puts) <= 13
    theirs = lance.dataset(uri, storage_options=options)
    theirs.validate()
    assert theirs.count_rows() == 37 * 50


async def test_a_table_that_was_made_again_is_not_mixed_up(place: tuple[Lab, str]) -> None:
    lab, uri = place
    lab.calm()
    options = lab.lance_options()
    dataset = await alance.dataset(uri, storage_options=options)
    for _ in range(3):
        dataset = await dataset.insert(ROWS)
    shutil.rmtree(Path(lab.root, "lab", uri.rpartition("/")[2]))
    lab.rescan()
    with pytest.raises(alance.CommitConflictError, match="version 4 is no more"):
        await dataset.insert(ROWS)
    lance.write_dataset(ROWS, uri, storage_options=options)
    with pytest.raises(alance.CommitConflictError, match="the latest version is 1"):
        await dataset.insert(ROWS)
    written = await alance.write_dataset(ROWS, uri, mode="append", storage_options=options)
    assert (written.version, await written.count_rows()) == (2, 100)
    lance.dataset(uri, storage_options=options).validate()
