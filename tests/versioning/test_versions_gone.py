"""Commits by handles whose next versions have been cleaned up."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance import operations
from alance.errors import NotFoundError, RetryableConflictError
from tests.versions.conftest import rows_by_pylance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def rows(*numbers: int) -> pa.Table:
    return pa.table({"a": pa.array(numbers, pa.int64())})


def make(path: Path, *, stable: bool = False) -> str:
    """Versions 1 to 4 with a row each."""
    lance.write_dataset(rows(1), path, enable_stable_row_ids=stable)
    for number in range(2, 5):
        lance.write_dataset(rows(number), path, mode="append")
    return str(path)


def clean(path: str) -> None:
    """Leave the last version alone."""
    lance.dataset(path).cleanup_old_versions(older_than=timedelta(0))


CHANGES: dict[str, tuple[Callable[[Any], Any], list[int]]] = {
    "insert": (lambda d: d.insert(rows(9)), [1, 2, 3, 4, 9]),
    "delete": (lambda d: d.delete("a = 1"), [2, 3, 4]),
    "update": (lambda d: d.update({"a": "7"}, "a = 1"), [2, 3, 4, 7]),
    "config": (lambda d: d.update_config({"k": "v"}), [1, 2, 3, 4]),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("stable", [False, True])
async def test_a_change_is_made_on_top_of_the_latest_version(
    tmp_path: Path, what: str, stable: bool
) -> None:
    """As by pylance."""
    change, expected = CHANGES[what]
    path = make(tmp_path / "ours", stable=stable)
    theirs = make(tmp_path / "theirs", stable=stable)
    dataset = await alance.dataset(path, version=1)
    old = lance.dataset(theirs, version=1)
    clean(path)
    clean(theirs)
    result = await change(dataset)
    change(old)
    assert result.version == lance.dataset(theirs).version == 5
    assert sorted(rows_by_pylance(path)) == sorted(rows_by_pylance(theirs)) == expected
    assert sorted((await result.to_table())["a"].to_pylist()) == expected
    lance.dataset(path).validate()
    assert result.config == lance.dataset(theirs).config()


async def test_appends_that_wait_together(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    handles = [await alance.dataset(path, version=version) for version in (1, 2, 4, 1)]
    clean(path)
    await asyncio.gather(*(item.insert(rows(n)) for n, item in enumerate(handles, 5)))
    assert sorted(rows_by_pylance(path)) == list(range(1, 9))


async def test_rows_for_other_columns_are_not_added(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    dataset = await alance.dataset(path, version=1)
    lance.dataset(path).add_columns({"b": "a + 1"})
    clean(path)
    with pytest.raises(RetryableConflictError, match=r"version \d is no more"):
        await dataset.insert(rows(9))
    await (await dataset.checkout_latest()).insert(rows(9))
    assert rows_by_pylance(path) == [1, 2, 3, 4, 9]


async def test_what_must_be_there_once_is_not_added_unseen(tmp_path: Path) -> None:
    """A version that is gone may have had it."""
    path = make(tmp_path / "t")
    async with alance.ingest(path, history=1) as sink:
        await sink.write(rows(5), token="five")
        await sink.flush()
        for number in (6, 7):
            lance.write_dataset(rows(number), path, mode="append")
        clean(path)
        await sink.write(rows(8), token="eight")
        with pytest.raises(RetryableConflictError, match="is no more"):
            await sink.flush()
        await sink.abort()
    assert rows_by_pylance(path) == [1, 2, 3, 4, 5, 6, 7]


async def test_a_version_that_is_gone_is_not_restored(tmp_path: Path) -> None:
    """Its files may be gone as well."""
    path = make(tmp_path / "t")
    dataset = await alance.dataset(path, version=1)
    clean(path)
    with pytest.raises(NotFoundError, match="no version 1"):
        await dataset.restore()
    assert lance.dataset(path).version == 4


@pytest.mark.parametrize("by_uri", [False, True])
async def test_restore_as_an_operation(tmp_path: Path, by_uri: bool) -> None:
    path = make(tmp_path / "t")
    target = path if by_uri else await alance.dataset(path)
    committed = await alance.commit(target, operations.Restore(version=2))
    assert committed.version == 5
    assert rows_by_pylance(path) == [1, 2]
    with pytest.raises(NotFoundError, match="no version 77"):
        await alance.commit(target, operations.Restore(version=77))
