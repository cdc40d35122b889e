"""validate and repair: objects of blobs that are gone or cut are told, whatever kind they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import alance
from alance import CorruptFileError
from tests.blobs.blob_tables import all_kinds, table_of
from tests.blobs.test_managed_blobs import managed

if TYPE_CHECKING:
    from pathlib import Path


async def findings(table: Path) -> str:
    """Return the findings of `validate` in a session of its own; empty if there are none."""
    async with alance.Session() as session:
        dataset = await alance.dataset(table, session=session)
        try:
            await dataset.validate()
        except CorruptFileError as error:
            return str(error)
    return ""


@pytest.mark.parametrize("is_gone", [True, False])
async def test_each_object_that_is_gone_or_cut_is_told(tmp_path: Path, is_gone: bool) -> None:
    """Packed and dedicated ones, of columns and inside of structs and lists."""
    all_kinds(tmp_path, "t", lists=True)
    assert await findings(tmp_path / "t") == ""
    objects = sorted((tmp_path / "t").rglob("*.blob"))
    assert len(objects) == 3
    for place in objects:
        content = place.read_bytes()
        if is_gone:
            place.unlink()
        else:
            place.write_bytes(content[:-1])
        message = await findings(tmp_path / "t")
        assert "1 finding" in message
        assert f"/{place.name}'" in message
        expected = "is not there" if is_gone else f"blobs end at {len(content)}"
        assert expected in message
        place.write_bytes(content)
    assert await findings(tmp_path / "t") == ""


@pytest.mark.parametrize("name", ["t/_blobs/x.blob", "base/sub/x.blob"])
async def test_objects_that_the_table_keeps_are_looked_at(tmp_path: Path, name: str) -> None:
    managed(tmp_path)
    place = tmp_path / name
    content = place.read_bytes()
    assert await findings(tmp_path / "t") == ""
    place.write_bytes(content[:12])
    assert "has 12 bytes, blobs end at" in await findings(tmp_path / "t")
    place.unlink()
    assert f"{name}' is not there" in await findings(tmp_path / "t")


async def test_objects_of_rows_that_are_deleted_are_not_needed(tmp_path: Path) -> None:
    data = table_of([b"a" * 200, b"b" * 300])
    dataset = await alance.write_dataset(data, tmp_path / "t", data_storage_version="2.2")
    gone = next(place for place in (tmp_path / "t").rglob("*.blob") if place.stat().st_size == 300)
    await dataset.delete("id = 1")
    gone.unlink()
    assert await findings(tmp_path / "t") == ""


async def test_repair_leaves_what_is_lost_and_names_a_version_that_has_none_of_it(
    tmp_path: Path,
) -> None:
    many = table_of([bytes([number]) * 200 for number in range(12)])  # so many are listed
    dataset = await alance.write_dataset(many, tmp_path / "t", data_storage_version="2.2")
    before = {*(tmp_path / "t").rglob("*.blob")}
    await dataset.insert(many)
    gone = max({*(tmp_path / "t").rglob("*.blob")} - before)
    gone.unlink()
    report = await alance.repair(tmp_path / "t")
    assert (report.remedies, report.good_version) == ((), 1)
    assert len(report.left) == 1
    assert f"/{gone.name}' is not there" in report.left[0]
    report = await alance.repair(tmp_path / "t", dry_run=False, restore=True)
    assert report.new_version == 3
    assert await findings(tmp_path / "t") == ""
