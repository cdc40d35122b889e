"""Requests and rounds of reads of 2.3 tables on an object store, compared with pylance's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

from tests.reference.served import check_scan, check_take, drawn_rows, served
from tests.v2_3.planar import planes_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import alance
    from alance.testing.lab import Lab

ROWS = 60_000
URI = "s3://lab/v2_3.lance"


def big_table() -> pa.Table:
    """Columns whose pages are dense, sparse with chunks, zipped and indexed."""
    rng = np.random.default_rng(7)
    numbers = rng.integers(0, 1 << 60, ROWS)
    mostly = rng.random(ROWS) < 0.8
    texts = [f"{number:x} and more" for number in numbers.tolist()]
    few = [rng.bytes(20_000).hex() for _ in range(60)]
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(rng.random(ROWS * 80).astype(np.float32)), 80, mask=pa.array(mostly)
    )
    lists = pa.ListArray.from_arrays(
        np.arange(0, 2 * ROWS + 1, 2, dtype=np.int32), pa.array(np.tile(numbers, 2))
    )
    structs = pa.StructArray.from_arrays([pa.array(np.tile(numbers, 2))], ["x"])
    pairs = pa.FixedSizeListArray.from_arrays(structs, 2)
    return pa.table(
        {
            "number": pa.array(numbers),
            "text": texts,
            "list": lists,
            "vectors": vectors,
            "few": pa.array([few[n % 60] if n % 50 == 0 else None for n in range(ROWS)]),
            "pairs": pa.ListArray.from_arrays(
                np.arange(0, ROWS + 1, dtype=np.int32), pairs, mask=pa.array(mostly)
            ),
            "seven": pa.array([7 if n % 3 else None for n in range(ROWS)]),
        }
    )


@pytest.fixture(scope="module")
def big_table_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("v2_3") / "v2_3.lance"
    lance.write_dataset(big_table(), path, data_storage_version="2.3")
    return path


@pytest.fixture
async def opened(lab: Lab, big_table_path: Path) -> AsyncIterator[alance.Dataset]:
    async with served(lab, big_table_path) as dataset:
        yield dataset


def test_the_table_has_all_kinds_of_pages(big_table_path: Path) -> None:
    kinds = planes_of(big_table_path)
    sparse = {("sparse", name) for name in ("chunked", "zipped", "constant", "indexed")}
    assert kinds.keys() >= sparse | {("dense", "chunked")}


@pytest.mark.parametrize(
    ("column", "rounds"),
    [
        ("number", 1),
        ("text", 1),
        ("list", 1),
        ("vectors", 1),
        ("few", 1),
        ("pairs", 1),
        ("seven", 0),
    ],
)
async def test_a_take_needs_few_rounds(
    opened: alance.Dataset, lab: Lab, column: str, rounds: int
) -> None:
    """One round where the state is known; no more requests than pylance's."""
    rows = drawn_rows(column, ROWS)
    await opened.take(rows[:1], [column])
    warm = range(0, ROWS, 997)
    assert await check_take(lab, opened, URI, rows, column, warm=warm) <= rounds


async def test_a_scan_reads_each_byte_once(opened: alance.Dataset, lab: Lab) -> None:
    """About the bytes of the file."""
    await check_scan(lab, opened, "v2_3.lance", ROWS)


async def test_an_explanation_names_the_columns_and_pages(opened: alance.Dataset) -> None:
    text = str(await opened.scanner(columns=["vectors"], filter="seven is null").explain())
    assert "vectors" in text
    assert "pages" in text
