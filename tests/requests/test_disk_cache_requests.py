"""What a process that knows nothing asks of an object store, with what others left on disk."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from alance.testing.lab import Lab

FILES, ROWS = 3, 60_000  # rows a file


def some_rows(rows: int, seed: int) -> pa.Table:
    """Numbers, words of few and of many values, lists: pages with all kinds of state."""
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
    ) -> tuple[object, list[str], alance.Recorder]:
        """The result, the operations that the server saw, and what was recorded."""
        session = alance.Session(
            cache_dir=cache_dir or self.folder, trust_versions=trust_versions, decode_threads=2
        )
        with self.lab.recording() as seen, alance.trace() as recorder:
            async with session:
                dataset = await alance.dataset(
                    self.uri,
                    storage_options=self.lab.lance_options(),
                    session=session,
                    **options,  # type: ignore[arg-type]
                )
                result = await work(dataset)
        return result, [str(one["op"]).lower() for one in seen.records if "op" in one], recorder

    async def take(self, rows: list[int], **options: object) -> tuple[list[str], int, pa.Table]:
        """Operations, rounds and rows of a take in a cold session, which are the right ones."""
        found, operations, recorder = await self.run(lambda one: one.take(rows), **options)
        assert isinstance(found, pa.Table)
        assert found.equals(lance.dataset(self.path).take(rows))
        return operations, recorder.rounds, found

    def publish(self, table: pa.Table, **options: object) -> None:
        """Make the table anew at the same place, and let the server see it."""
        shutil.rmtree(self.path, ignore_errors=True)
        lance.write_dataset(table, self.path, **options)  # type: ignore[arg-type]
        self.lab.rescan()


@pytest.fixture(scope="module")
def _table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cold") / "cold.lance"
    for number in range(FILES):
        lance.write_dataset(some_rows(ROWS, number), path, mode="append" if number else "create")
    return path


@pytest.fixture
def cold(lineitem_lab: Lab, _table: Path, tmp_path: Path) -> Iterator[Cold]:
    path = Path(lineitem_lab.root) / "lab" / "cold.lance"
    shutil.copytree(_table, path)
    lineitem_lab.rescan()
    lineitem_lab.config(latency_ms=40)  # longer than planning takes on a busy machine
    yield Cold(lineitem_lab, tmp_path / "cache", "s3://lab/cold.lance", path)
    shutil.rmtree(path)
    lineitem_lab.rescan()


async def test_a_cold_take_of_a_row_costs_two_rounds(cold: Cold) -> None:
    operations, rounds, _ = await cold.take([70_000])
    assert operations[:2] == ["list", "get"]
    assert rounds > 2
    operations, rounds, _ = await cold.take([70_001])
    assert operations.count("list") == 1
    assert rounds == 2
