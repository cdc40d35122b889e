"""Requests of a new process that uses a disk cache which others have filled."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.testing.lab import Lab
from alance.versioning import load
from tests.io.disk_files import files_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from alance.testing.lab import Recording

FILES, ROWS = 3, 60_000  # rows a file


def drawn_rows(rows: int, seed: int) -> pa.Table:
    """Numbers, words of few and of many values, lists, structs: pages with all kinds of state."""
    rng = np.random.default_rng(seed)
    words = np.array(["carefully", "final", "deposits", "sleep", "quickly"])
    lengths = rng.integers(0, 4, rows)
    ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    items = pa.array(rng.integers(0, 1000, ends[-1]))
    return pa.table(
        {
            "key": pa.array(rng.integers(0, 1 << 40, rows)),
            "amount": pa.array(rng.integers(0, 10_000_000, rows) / 100),
            "flag": pa.array(words[rng.integers(0, 5, rows)]),
            "text": pa.array([f"{words[n % 5]} {n} {'x' * (n % 40)}" for n in range(rows)]),
            "items": pa.ListArray.from_arrays(pa.array(ends), items),
            "pair": pa.StructArray.from_arrays(
                [pa.array(rng.integers(0, 1 << 30, rows)), pa.array(rng.random(rows))], ["a", "b"]
            ),
            "long": pa.array([f"{n}" * 60 for n in range(rows)]),
        }
    )


@dataclass
class Cold:
    """A table on the lab that each call meets with a new session, as a new process does."""

    lab: Lab
    folder: Path
    uri: str
    path: Path

    async def run(
        self,
        work: Callable[[alance.Dataset], Awaitable[object]],
        *,
        trust_versions: bool = False,
        cache_dir: Path | None = None,
        **options: object,
    ) -> tuple[object, list[str], Recording]:
        """The result, the operations that the server saw, and what it recorded."""
        session = alance.Session(
            cache_dir=cache_dir or self.folder, trust_versions=trust_versions, decode_threads=2
        )
        with self.lab.recording() as seen:
            async with session:
                dataset = await alance.dataset(
                    self.uri,
                    storage_options=self.lab.lance_options(),
                    session=session,
                    **options,  # type: ignore[arg-type]
                )
                result = await work(dataset)
        return result, [str(record["op"]).lower() for record in seen.records], seen

    async def take(self, rows: list[int], **options: object) -> tuple[list[str], int, pa.Table]:
        """Operations, rounds and rows of a take in a cold session, which are the right ones."""
        result, operations, seen = await self.run(lambda item: item.take(rows), **options)
        assert isinstance(result, pa.Table)
        assert result.equals(lance.dataset(self.path).take(rows))
        return operations, seen.rounds, result

    @property
    def manifest(self) -> bytes:
        """The only manifest."""
        (path,) = (self.path / "_versions").glob("*.manifest")
        return path.read_bytes()

    def publish_as_long(self, table: pa.Table, before: bytes) -> None:
        """As of `publish`, with a manifest as long as another: a clock's digits change lengths."""
        self.publish(table)
        while len(self.manifest) != len(before):
            self.publish(table)
        assert self.manifest != before

    def publish(self, table: pa.Table, **options: object) -> None:
        """Make the table anew at the same place, and let the server see it."""
        shutil.rmtree(self.path, ignore_errors=True)
        lance.write_dataset(table, self.path, **options)  # type: ignore[arg-type]
        self.lab.rescan()


@pytest.fixture(scope="module")
def _table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cold") / "cold.lance"
    for number in range(FILES):
        lance.write_dataset(drawn_rows(ROWS, number), path, mode="append" if number else "create")
    return path


@pytest.fixture
def cold(lab: Lab, _table: Path, tmp_path: Path) -> Iterator[Cold]:
    path = Path(lab.root) / "lab" / "cold.lance"
    shutil.copytree(_table, path)
    lab.rescan()
    lab.config(waits_for=os.getpid())
    yield Cold(lab, tmp_path / "cache", "s3://lab/cold.lance", path)
    shutil.rmtree(path)
    lab.rescan()


async def test_a_cold_take_of_a_row_costs_two_rounds(cold: Cold) -> None:
    operations, rounds, _ = await cold.take([70_000])
    assert operations[:2] == ["list", "get"]
    assert rounds > 2
    operations, rounds, _ = await cold.take([70_001])
    assert operations.count("list") == 1
    assert rounds == 2


async def test_other_columns_and_pages_are_learned_bit_by_bit(cold: Cold) -> None:
    for column in ("key", "items", "long"):
        result, _, _ = await cold.run(lambda item, column=column: item.take([9], [column]))
        assert result.equals(lance.dataset(cold.path).take([9], [column]))  # type: ignore[attr-defined]
    _, operations, seen = await cold.run(lambda item: item.take([9], ["long", "items", "key"]))
    assert (operations.count("list"), seen.rounds) == (1, 2)


async def test_nothing_is_guessed_where_the_disk_knows(cold: Cold) -> None:
    await cold.take([70_000])
    with alance.trace() as first:
        await cold.run(lambda item: item.take([70_000]))
    session = alance.Session(block_cache_bytes=0)
    async with session:
        dataset = await alance.dataset(
            cold.uri, storage_options=cold.lab.lance_options(), session=session
        )
        await dataset.take([70_000])
        with alance.trace() as warm:
            await dataset.take([70_000])
    assert first.num_bytes == warm.num_bytes  # and nothing for the LIST


async def test_a_session_that_was_left_open_writes_too(cold: Cold) -> None:
    session = alance.Session(cache_dir=cold.folder)
    dataset = await alance.dataset(
        cold.uri, storage_options=cold.lab.lance_options(), session=session
    )
    await dataset.take([4])
    disk = session.engine.cache.disk
    assert disk is not None
    await disk.flush()
    assert (await cold.take([4]))[1] == 2
    await session.aclose()


async def test_a_pinned_version_asks_for_its_manifest_unless_versions_are_trusted(
    cold: Cold,
) -> None:
    await cold.take([5], version=FILES)
    operations, rounds, _ = await cold.take([5], version=FILES)
    assert (operations.count("list"), rounds) == (0, 2)
    await cold.take([5], version=FILES, trust_versions=True)
    operations, rounds, _ = await cold.take([5], version=FILES, trust_versions=True)
    assert (operations.count("list"), rounds) == (0, 1)


async def test_a_trusted_version_of_the_older_names_costs_one_round(cold: Cold) -> None:
    cold.publish(drawn_rows(ROWS, 7), enable_v2_manifest_paths=False)
    for _ in range(2):
        operations, rounds, _ = await cold.take([5], version=1, trust_versions=True)
    assert rounds == 1
    assert "list" not in operations


async def test_a_table_made_again_at_the_same_place_is_seen(cold: Cold) -> None:
    """Same names of manifests, same number of versions, and the same sizes."""
    first = drawn_rows(ROWS, 1)
    cold.publish(first)
    for _ in range(2):
        await cold.take([5, 50_000])
        await cold.take([5, 50_000], version=1)
    before = cold.manifest
    again = first.set_column(0, "key", pa.array(np.arange(ROWS) + (1 << 39)))
    cold.publish_as_long(again, before)
    _, _, result = await cold.take([5, 50_000])
    assert result["key"].to_pylist() == [(1 << 39) + 5, (1 << 39) + 50_000]
    _, _, result = await cold.take([5, 50_000], version=1)
    assert result["key"].to_pylist() == [(1 << 39) + 5, (1 << 39) + 50_000]


async def test_a_table_made_again_between_list_and_get_is_not_kept_under_the_old_tag(
    cold: Cold, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold.publish(drawn_rows(ROWS, 1))
    before, find = cold.manifest, load.latest

    async def late(engine: object, table: object) -> load.ManifestLocation:
        result = await find(engine, table)  # type: ignore[arg-type]
        cold.publish_as_long(drawn_rows(ROWS, 2), before)
        return result

    monkeypatch.setattr(load, "latest", late)
    await cold.take([5])
    monkeypatch.undo()
    contents = [path.read_bytes() for path in files_of(cold.folder)]
    assert contents
    assert not any(cold.manifest in content for content in contents)
    await cold.take([5])
    assert any(cold.manifest in path.read_bytes() for path in files_of(cold.folder))


async def test_deletion_vectors_are_kept(cold: Cold) -> None:
    lance.dataset(cold.path).delete("key % 3 = 0")
    cold.lab.rescan()
    await cold.take([70_000])
    operations, rounds, _ = await cold.take([70_001])
    assert (operations.count("list"), rounds) == (1, 2)


async def test_a_cold_scan_of_a_column_costs_two_rounds(cold: Cold) -> None:
    async def scan(dataset: alance.Dataset) -> pa.Table:
        batches = [batch async for batch in dataset.to_batches(columns=["key"])]
        return pa.Table.from_batches(batches)

    for _ in range(2):
        result, operations, seen = await cold.run(scan)
        assert result.equals(lance.dataset(cold.path).to_table(["key"]))  # type: ignore[attr-defined]
    assert (operations.count("list"), seen.rounds) == (1, 2)


async def test_a_small_table_is_kept_whole(cold: Cold) -> None:
    cold.publish(drawn_rows(50, 3))
    await cold.take([7])
    operations, _, _ = await cold.take([8])
    assert operations == ["list"]


async def test_one_bucket_name_on_two_servers_is_two_places(cold: Cold, tmp_path: Path) -> None:
    """The same paths, versions, sizes; and trusted, so that no tag tells them apart."""
    with Lab() as other:
        path = Path(other.root) / "lab" / "cold.lance"
        cold.publish(drawn_rows(ROWS, 1))
        lance.write_dataset(drawn_rows(ROWS, 2), path)
        other.rescan()
        elsewhere = Cold(other, cold.folder, cold.uri, path)
        for candidate in (cold, elsewhere, cold, elsewhere):
            await candidate.take([5], version=1, trust_versions=True)


async def test_nothing_secret_and_no_name_lands_in_the_folder(cold: Cold) -> None:
    options = {**cold.lab.lance_options(), "secret_access_key": "hush-hush-5ecret"}
    async with alance.Session(cache_dir=cold.folder) as session:
        dataset = await alance.dataset(cold.uri, storage_options=options, session=session)
        await dataset.take([1])
    files = files_of(cold.folder)
    assert files
    for file in files:
        assert file.stat().st_mode & 0o077 == 0
        for word in (b"hush-hush", b"5ecret", cold.lab.endpoint.encode(), b"access_key"):
            assert word not in file.read_bytes()
            assert word.decode() not in str(file)


async def test_few_files_for_many_columns(cold: Cold) -> None:
    await cold.take([1, 70_000, 130_000])
    assert len(files_of(cold.folder)) == FILES + 1


async def test_local_tables_leave_nothing(tmp_path: Path, golden: Path) -> None:
    async with alance.Session(cache_dir=tmp_path / "cache") as session:
        dataset = await alance.dataset(golden / "lineitem.lance", session=session)
        await dataset.take([1])
    assert not files_of(tmp_path)


async def test_what_cannot_be_written_is_read_all_the_same(
    cold: Cold, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("not a folder")
    for _ in range(2):
        caplog.clear()
        operations, _, _ = await cold.take([3], cache_dir=blocked)
        assert operations[:2] == ["list", "get"]
        assert len(caplog.records) == 1
    assert blocked.read_text() == "not a folder"


async def test_a_cleared_cache_is_cold_again(cold: Cold) -> None:
    await cold.take([3])
    async with alance.Session(cache_dir=cold.folder) as session:
        await session.clear_disk_cache()
    assert (await cold.take([3]))[1] > 2


async def test_many_trains_of_thought_recall_at_once(cold: Cold) -> None:
    async def crowd(dataset: alance.Dataset) -> list[pa.Table]:
        return list(await asyncio.gather(*(dataset.take([n * 1000]) for n in range(40))))

    for _ in range(2):
        result, _, seen = await cold.run(crowd)
        theirs = lance.dataset(cold.path)
        assert all(
            item.equals(theirs.take([n * 1000]))
            for n, item in enumerate(result)  # type: ignore[arg-type, var-annotated]
        )
    assert seen.rounds == 2
