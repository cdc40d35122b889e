"""What reads of 0.1 tables ask of an object store: rounds and requests, beside pylance's."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alance.testing.lab import Lab

ROWS = 120_000
URI = "s3://lab/v0_1.lance"


def big_table() -> pa.Table:
    """Columns of all shapes, each of pages that are read in parts."""
    rng = np.random.default_rng(7)
    numbers = rng.integers(0, 1 << 60, ROWS)
    texts = [f"{number:x} and some more text" for number in numbers.tolist()]
    lists = pa.ListArray.from_arrays(
        np.arange(0, 2 * ROWS + 1, 2, dtype=np.int32), pa.array([*texts, *texts])
    )
    return pa.table(
        {
            "number": pa.array(numbers),
            "gaps": pa.array(numbers, mask=rng.random(ROWS) < 0.1),
            "text": texts,
            "list": pa.ListArray.from_arrays(
                np.arange(0, 4 * ROWS + 1, 4, dtype=np.int32), pa.array(np.tile(numbers, 4))
            ),
            "texts": lists,
            "struct": pa.StructArray.from_arrays([pa.array(numbers), pa.array(texts)], ["n", "t"]),
            "few": pa.array([texts[n % 5] for n in range(ROWS)]),
        }
    )


@pytest.fixture(scope="module")
def _big_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("v0_1") / "v0_1.lance"
    lance.write_dataset(big_table(), path, data_storage_version="0.1")
    return path


@pytest.fixture
async def opened(lineitem_lab: Lab, _big_table: Path) -> AsyncIterator[alance.Dataset]:
    target = Path(lineitem_lab.root) / "lab" / "v0_1.lance"
    if not target.exists():
        shutil.copytree(_big_table, target)
        lineitem_lab.rescan()
    lineitem_lab.config(latency_ms=20)
    session = alance.Session()
    yield await alance.dataset(URI, storage_options=lineitem_lab.lance_options(), session=session)
    await session.aclose()


@pytest.mark.parametrize(
    ("column", "rounds"),
    [
        ("number", 1),
        ("gaps", 1),
        ("few", 2),
        ("text", 2),
        ("struct", 2),
        ("list", 2),
        ("texts", 3),
    ],
)
async def test_takes(opened: alance.Dataset, lineitem_lab: Lab, column: str, rounds: int) -> None:
    """One round, one more for strings and for a level of lists; no more requests than pylance's."""
    rows = sorted(random.Random(column).sample(range(ROWS), 30))
    theirs = lance.dataset(URI, storage_options=lineitem_lab.lance_options())
    await opened.take([1], [column])
    theirs.take([1], columns=[column])
    with lineitem_lab.recording() as seen, alance.trace() as recorder:
        ours = await opened.take(rows, [column])
    assert recorder.rounds <= rounds
    with lineitem_lab.recording() as their_seen:
        found = theirs.take(rows, columns=[column])
    assert ours.column(0).to_pylist() == found.column(0).to_pylist()
    assert _requests(seen) <= _requests(their_seen)


async def test_a_cold_take_costs_one_round_more(opened: alance.Dataset) -> None:
    """The footer with all metadata, and the rows."""
    with alance.trace() as recorder:
        await opened.take([ROWS // 2], ["number", "gaps"])
    assert recorder.rounds == 2


async def test_a_scan_reads_each_byte_once(opened: alance.Dataset, lineitem_lab: Lab) -> None:
    """About the bytes of the file, in few requests."""
    total = sum(
        path.stat().st_size
        for path in (Path(lineitem_lab.root) / "lab" / "v0_1.lance" / "data").iterdir()
    )
    with alance.trace() as recorder:
        table = await opened.to_table()
    assert table.num_rows == ROWS
    assert recorder.num_bytes < 1.2 * total


async def test_late_columns_of_few_rows(opened: alance.Dataset, lineitem_lab: Lab) -> None:
    """A filter in fewer requests than pylance's: its batches are small and lie near each other."""
    condition = {"columns": ["text", "texts"], "filter": "number < 10000000000000"}
    with lineitem_lab.recording() as seen:
        found = await opened.to_table(**condition)
    theirs = lance.dataset(URI, storage_options=lineitem_lab.lance_options())
    with lineitem_lab.recording() as their_seen:
        assert found.equals(theirs.to_table(**condition))
    assert found.num_rows < 100
    assert _requests(seen) < _requests(their_seen)


def _requests(seen: object) -> int:
    return len([one for one in seen.records if "op" in one])  # type: ignore[attr-defined]
