"""Upkeep of tables whose versions an external store or a lock keeps, and of tables in memory."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import alance
from alance.errors import NotFoundError, UnsupportedError
from alance.io.stores.memory import MemoryStore
from alance.versioning.external_store import Entry
from tests.changing.both_ways import rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["plain", "kept", "locked"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    store = MemoryStore(f"memory://{tmp_path.name}/")
    entries: dict[str, Any] = {"store": store}
    if request.param == "kept":
        entries["manifest_store"] = alance.SqliteStore(tmp_path / "versions.sqlite")
    if request.param == "locked":

        class Lock:
            async def __aenter__(self) -> None: ...

            async def __aexit__(self, *error: object) -> None: ...

        entries["commit_lock"] = lambda version: Lock()
    return entries


async def test_all_of_it(options: dict[str, Any]) -> None:
    dataset = await alance.write_dataset(rows(0, 12), "t", max_rows_per_file=3, **options)
    dataset = await dataset.delete("id = 5")
    dataset = await dataset.insert(rows(12, 15))
    expected = (await dataset.to_table())["id"]
    dataset = await dataset.optimize.compact_files()
    assert dataset.version == 5
    assert len(dataset.fragments) == 1
    await dataset.validate()
    row = options.get("manifest_store")
    if row is not None:  # a committer that stopped before its manifest got its name
        store = options["store"]
        entry = await row.get_latest("t")
        staged = f"{entry.path}-12345678-1234-1234-1234-123456789012"
        await store.copy(entry.path, staged)
        await store.delete([entry.path])
        await row.put_if_exists("t", Entry(5, staged, entry.num_bytes))
    stats = await dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert (stats.old_versions, stats.data_files_removed, stats.deletion_files_removed) == (4, 5, 1)
    again = await alance.dataset("t", **options)
    assert again.version == 5
    await again.validate()
    assert (await again.to_table())["id"].equals(expected)
    with pytest.raises(NotFoundError):
        await again.checkout_version(2)
    if row is not None:
        with pytest.raises(UnsupportedError, match="kept by an external store"):
            await again.migrate_manifest_paths_v2()
    else:
        await again.migrate_manifest_paths_v2()
    assert (await again.insert(rows(0, 1))).version == 6
