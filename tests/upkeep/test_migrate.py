"""Manifests renamed from V1 to V2: both writers go on; an interrupted call is finished later."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import lance
import pytest

import alance
from tests.changing.both_ways import read, rows

if TYPE_CHECKING:
    from pathlib import Path


def make(path: Path, versions: int = 12, *, v2: bool = False) -> None:
    for number in range(versions):
        mode = "append" if number else "create"
        data = rows(number, number + 1)
        lance.write_dataset(data, path, mode=mode, enable_v2_manifest_paths=v2)


def manifests(path: Path) -> list[str]:
    return sorted(file.name for file in (path / "_versions").glob("*.manifest"))


@pytest.mark.parametrize("v2", [False, True])
async def test_names_as_by_pylance(tmp_path: Path, v2: bool) -> None:
    ours, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
    make(theirs, v2=v2)
    shutil.copytree(theirs, ours)
    dataset = await alance.dataset(ours)
    contents = {path.read_bytes() for path in (ours / "_versions").glob("*.manifest")}
    await dataset.migrate_manifest_paths_v2()
    lance.dataset(theirs).migrate_manifest_paths_v2()
    assert manifests(ours) == manifests(theirs)
    assert {path.read_bytes() for path in (ours / "_versions").glob("*.manifest")} == contents
    await dataset.migrate_manifest_paths_v2()
    assert manifests(ours) == manifests(theirs)
    lance.write_dataset(rows(12, 13), ours, mode="append")
    inserted = await (await dataset.checkout_latest()).insert(rows(13, 14))
    assert inserted.version == 14
    assert len({len(name) for name in manifests(ours)}) == 1
    assert read(ours)["id"].to_pylist() == list(range(14))
    assert await (await inserted.checkout_version(3)).count_rows() == 3
    lance.dataset(ours).migrate_manifest_paths_v2()


async def test_an_interrupted_migration_is_finished_by_the_next_call(tmp_path: Path) -> None:
    first, path = tmp_path / "first", tmp_path / "t.lance"
    make(first)
    finished, turns = False, 0
    while not finished:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(first, path)
        async with alance.Session() as session:
            dataset = await alance.dataset(path, session=session)
            task = asyncio.ensure_future(dataset.migrate_manifest_paths_v2())
            for _ in range(turns):
                if task.done():
                    break
                await asyncio.sleep(0 if turns < 20 else 0.001)
            finished = task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            again = await alance.dataset(path, version=7, session=session)
            assert await again.count_rows() == 7
            await again.migrate_manifest_paths_v2()
        assert {len(name) for name in manifests(path)} == {29}
        assert read(path)["id"].to_pylist() == list(range(12))
        turns += 1
    assert turns > 2
