"""Older versions made the newest ones again."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import lance
import pytest

import alance
from alance.errors import InvalidInputError, NotFoundError
from tests.versions.conftest import (
    make,
    manifest_of,
    numbers,
    plain,
    rows_by_pylance,
    transaction_of,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("stable", [False, True])
async def test_as_pylance_does(tmp_path: Path, stable: bool) -> None:
    theirs = make(tmp_path, enable_stable_row_ids=stable)
    ours = str(tmp_path / "ours.lance")
    shutil.copytree(theirs, ours)
    for version in (1, 3, 5, 2):
        lance.dataset(theirs, version=version).restore()
        dataset = await (await alance.dataset(ours)).restore(version)
        assert transaction_of(ours) == transaction_of(theirs)
        assert plain(manifest_of(ours).message, "path") == plain(
            manifest_of(theirs).message, "path"
        )
        assert dataset.version == lance.dataset(theirs).version
        assert rows_by_pylance(ours) == rows_by_pylance(theirs)
        for path in (ours, theirs):
            lance.write_dataset(numbers(20, 22), path, mode="append")
        highest = [manifest_of(path).message.max_fragment_id for path in (ours, theirs)]
        assert highest[0] == highest[1]
        read = await (await alance.dataset(ours)).to_table(["a"])
        assert read["a"].to_pylist() == rows_by_pylance(ours)


async def test_this_version_and_tags(table: str) -> None:
    first = await alance.dataset(table, version=1)
    assert (await first.restore(message="back")).version == 4
    assert rows_by_pylance(table) == list(range(10))
    lance.dataset(table).tags.create("two", 2)
    restored = await first.restore("two")
    assert (restored.version, await restored.count_rows()) == (5, 15)
    assert (await restored.restore()).version == 6
    with pytest.raises(NotFoundError, match="no version 99"):
        await first.restore(99)
    with pytest.raises(NotFoundError, match="no tag"):
        await first.restore("nope")
    assert await first.latest_version() == 6


async def test_versions_of_other_branches(table: str) -> None:
    branch = lance.dataset(table).create_branch("dev", 2)
    branch.insert(numbers(50, 51))
    branch.tags.create("there", ("dev", 3))
    main = await alance.dataset(table)
    with pytest.raises(InvalidInputError, match="on branch 'dev'"):
        await main.restore("there")
    dev = await main.checkout_branch("dev")
    restored = await dev.restore(2)
    assert (restored.version, restored.branch) == (4, "dev")
    assert lance.dataset(table).checkout_version(("dev", None)).count_rows() == 15
    assert rows_by_pylance(table) == [n for n in range(15) if n != 3]


async def test_a_column_dropped_and_back(table: str) -> None:
    lance.dataset(table).drop_columns(["b"])
    restored = await (await alance.dataset(table)).restore(3)
    assert restored.schema.names == ["a", "b", "s"]
    assert lance.dataset(table).to_table().num_rows == 14
