"""Tables that are made to clean up after themselves: `auto_cleanup_options`, as of pylance."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"a": [1, 2]})


@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
async def test_a_new_table_cleans_up_whoever_writes_it(tmp_path: Path, mode: Any) -> None:
    dataset = await alance.write_dataset(
        ROWS, tmp_path / "t", mode=mode, auto_cleanup_options={"interval": 3, "retain_versions": 1}
    )
    assert dataset.config == {
        "lance.auto_cleanup.interval": "3",
        "lance.auto_cleanup.retain_versions": "1",
    }
    await (await dataset.insert(ROWS)).insert(ROWS)  # the third version
    versions = [version["version"] for version in lance.dataset(tmp_path / "t").versions()]
    assert versions == [2, 3]  # the one before stays, so that who has it open can go on
    theirs = lance.write_dataset(ROWS, tmp_path / "t", mode="append")
    lance.write_dataset(ROWS, theirs, mode="append")
    theirs = lance.write_dataset(ROWS, theirs, mode="append")  # the sixth
    assert [version["version"] for version in theirs.versions()] == [5, 6]


async def test_the_configuration_is_that_of_pylance(tmp_path: Path) -> None:
    options: Any = {"interval": 3, "older_than_seconds": 0}
    theirs = lance.write_dataset(ROWS, tmp_path / "theirs", auto_cleanup_options=options)
    ours = await alance.write_dataset(ROWS, tmp_path / "ours", auto_cleanup_options=options)
    assert ours.config == theirs.config()
    for path in ("ours", "theirs"):
        dataset = await alance.dataset(tmp_path / path)
        dataset = await (await dataset.insert(ROWS)).insert(ROWS)
        assert [version.version for version in await dataset.versions()] == [2, 3]


async def test_a_table_that_is_there_begins_and_ends_it(tmp_path: Path) -> None:
    options: Any = {"interval": 3, "older_than_seconds": 0}
    theirs = lance.write_dataset(ROWS, tmp_path / "theirs")
    theirs.optimize.enable_auto_cleanup(options)
    ours = await alance.write_dataset(ROWS, tmp_path / "ours")
    ours = await ours.optimize.enable_auto_cleanup(options, message="from now on")
    assert ours.config == theirs.config()
    theirs = lance.write_dataset(ROWS, tmp_path / "ours", mode="append")  # the third version
    assert [version["version"] for version in theirs.versions()] == [2, 3]
    ours = await (await alance.dataset(tmp_path / "ours")).optimize.enable_auto_cleanup(
        {"interval": 2, "retain_versions": 1}
    )
    assert ours.config == {
        "lance.auto_cleanup.interval": "2",
        "lance.auto_cleanup.retain_versions": "1",
    }
    assert [version.version for version in await ours.versions()] == [3, 4]
    for wrong in ({"interval": 2}, {"interval": 0, "retain_versions": 1}, {"every": 2}):
        with pytest.raises(InvalidInputError, match="auto_cleanup_options"):
            await ours.optimize.enable_auto_cleanup(wrong)
    ours = await (await ours.update_config({"mine": "1"})).optimize.disable_auto_cleanup()
    assert (ours.version, ours.config) == (6, {"mine": "1"})
    assert (await ours.optimize.disable_auto_cleanup()).version == 6


async def test_a_table_that_is_there_keeps_its_own(tmp_path: Path) -> None:
    options: Any = {"interval": 3, "older_than_seconds": 60}
    await alance.write_dataset(ROWS, tmp_path / "t", auto_cleanup_options=options)
    options = {"interval": 5, "older_than_seconds": 90}
    lance.write_dataset(ROWS, tmp_path / "p", auto_cleanup_options=options)
    for mode in ("append", "overwrite"):
        for path in ("t", "p"):
            before = (await alance.dataset(tmp_path / path)).config
            after = await alance.write_dataset(
                ROWS,
                tmp_path / path,
                mode=mode,
                auto_cleanup_options={"interval": 9, "older_than_seconds": 9},
            )
            assert after.config == before


async def test_ages_that_no_calendar_has_keep_all_versions(tmp_path: Path) -> None:
    options: Any = {"interval": 1, "older_than_seconds": 10**30}
    dataset = await alance.write_dataset(ROWS, tmp_path / "t", auto_cleanup_options=options)
    dataset = await (await dataset.insert(ROWS)).insert(ROWS)
    stats = await dataset.cleanup_old_versions(older_than=timedelta.max)
    assert stats.old_versions == 0
    assert len(await dataset.versions()) == 3
    explained = await dataset.explain_cleanup_old_versions(older_than=timedelta.min)
    assert explained.versions == (1, 2)


BAD: list[Any] = [
    {},
    "daily",
    {"interval": 3},
    {"older_than_seconds": 3},
    {"interval": 0, "retain_versions": 1},
    {"interval": True, "retain_versions": 1},
    {"interval": 3, "older_than_seconds": -1},
    {"interval": 3, "older_than_seconds": 1.5},
    {"interval": 3, "older_than": "3d"},
]


@pytest.mark.parametrize("options", BAD)
async def test_options_that_say_nothing_are_refused_before_rows_are_written(
    tmp_path: Path, options: Any
) -> None:
    with pytest.raises(InvalidInputError, match="auto_cleanup_options"):
        await alance.write_dataset(ROWS, tmp_path / "t", auto_cleanup_options=options)
    with pytest.raises(NotFoundError):
        await alance.dataset(tmp_path / "t")
