"""Names that are longer than a file system takes: told at once, and nothing is made."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from pathlib import Path

LONG = "n" * 300  # a file system takes 255 bytes
BOUND_S = 15.0  # half of what looking for the outcome of a put takes


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    return await alance.write_dataset(pa.table({"x": [1]}), tmp_path / "table")


async def test_a_long_name_of_a_tag_is_refused(dataset: alance.Dataset) -> None:
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(InvalidInputError, match="too long"):
            await dataset.tags.create(LONG, 1)
    assert await dataset.tags.list() == {}


async def test_a_long_name_of_a_branch_is_refused(dataset: alance.Dataset) -> None:
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(InvalidInputError, match="too long"):
            await dataset.create_branch(LONG)
    assert await dataset.branches.list() == {}


async def test_a_name_that_is_asked_for(dataset: alance.Dataset) -> None:
    async with asyncio.timeout(BOUND_S):
        with pytest.raises((InvalidInputError, alance.NotFoundError)):
            await dataset.checkout_version(LONG)


async def test_a_long_name_of_a_table_is_refused(tmp_path: Path) -> None:
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(InvalidInputError, match="too long"):
            await alance.write_dataset(pa.table({"x": [1]}), tmp_path / LONG)
    assert not any(os.scandir(tmp_path))


async def test_a_long_name_of_a_file_is_refused(tmp_path: Path) -> None:
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(InvalidInputError, match="too long"):
            async with alance.FileWriter.open(tmp_path / LONG) as writer:
                await writer.write(pa.table({"x": [1]}))
    assert not any(os.scandir(tmp_path))
