"""A commit that is given up after a time says whether its version may have been made."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance import operations
from tests.reference.waiting import stuck

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

ROWS = pa.table({"id": range(10)})


async def appended(dataset: alance.Dataset, **options: Any) -> alance.Dataset:
    fragments = await alance.write_fragments(ROWS, dataset)
    return await alance.commit(dataset, operations.Append(tuple(fragments)), **options)


@pytest.mark.parametrize("timeout", [timedelta(minutes=30), 3600, 0.5e9, None])
async def test_in_time_it_is_a_commit_as_any_other(tmp_path: Path, timeout: Any) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "t")
    assert (await appended(dataset, commit_timeout=timeout)).version == 2
    assert lance.dataset(tmp_path / "t").count_rows() == 20


@pytest.mark.parametrize("timeout", [0, -1, timedelta(0), "1 s", True, float("nan")])
async def test_a_time_that_is_none_is_refused(tmp_path: Path, timeout: Any) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "t")
    with pytest.raises(alance.InvalidInputError, match=r"commit_timeout=.*greater than 0"):
        await appended(dataset, commit_timeout=timeout)
    if isinstance(timeout, timedelta):
        with pytest.raises(OSError, match="timeout must be non-zero"):
            lance.LanceDataset.commit(
                str(tmp_path / "t"),
                lance.LanceOperation.Append([]),
                read_version=1,
                commit_timeout=timeout,
            )


async def test_before_the_manifest_is_put_no_version_is_made(lab: Lab) -> None:
    uri, options = "s3://lab/commit-timeout-before", lab.lance_options()
    async with alance.Session() as session:
        dataset = await alance.write_dataset(ROWS, uri, storage_options=options, session=session)
        lab.config(faults=[{"op": "LIST", "action": "stall"}])
        with pytest.raises(alance.StoreError, match=r"given up after 0.2 s .*no version was made"):
            await appended(dataset, commit_timeout=0.2)
        lab.calm()
    assert (await alance.dataset(uri, storage_options=options)).version == 1


async def test_while_the_manifest_is_put_it_is_not_known(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, options = "s3://lab/commit-timeout-while", lab.lance_options()
    async with alance.Session() as session:
        dataset = await alance.write_dataset(ROWS, uri, storage_options=options, session=session)
        lab.config(faults=[{"op": "PUT", "key": "_versions", "action": "stall"}])
        since = lab.stats()["requests"]
        committing = asyncio.create_task(appended(dataset, commit_timeout=30))
        await stuck(lab, since)
        loop = asyncio.get_running_loop()
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + 30)
        with pytest.raises(alance.CommitStateUnknownError, match="the latest version tells"):
            await committing
        lab.calm()
