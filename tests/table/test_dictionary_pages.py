"""Scans of pages with dictionaries: items of all sizes, with and without nulls."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance

if TYPE_CHECKING:
    from pathlib import Path

NUM_ROWS = 30_000
LONGEST = (1, 8, 9, 16, 17, 32, 33, 300)  # of texts: up to 32 bytes are copied as a whole
COINS = [Decimal(n) / 4 for n in range(40)]


def columns() -> dict[str, pa.Array]:
    """Columns of few distinct values, without nulls and with some."""
    rng = np.random.default_rng(3)
    items = {f"text {n}": pa.array(["", "é"[: n - 1], "x" * n]) for n in LONGEST}
    items["bytes"] = pa.array([bytes([n]) * n for n in range(20)])
    items["large"] = pa.array([f"{n:09}" for n in range(50)], pa.large_string())
    items["coins"] = pa.array(COINS, pa.decimal128(15, 2))
    items["many"] = pa.array([f"item {n * 7919:08}" for n in range(3000)])
    arrays = {}
    for name, values in items.items():
        arrays[name] = values.take(pa.array(rng.integers(0, len(values), NUM_ROWS)))
        absent = rng.random(NUM_ROWS) < 0.3
        arrays[f"{name}, nulls"] = values.take(
            pa.array(rng.integers(0, len(values), NUM_ROWS), mask=absent)
        )
    return arrays


@pytest.mark.parametrize("writer", [alance, lance])
async def test_what_is_scanned_is_what_was_written(tmp_path: Path, writer: object) -> None:
    written = pa.table(columns())
    uri = str(tmp_path / "t.lance")
    if writer is alance:
        await alance.write_dataset(written, uri)
    else:
        lance.write_dataset(written, uri)
    dataset = await alance.dataset(uri)
    (file,) = (tmp_path / "t.lance" / "data").iterdir()
    described = await (await alance.FileReader.open(str(file))).describe()
    encoded = {column.path for column in described.columns if "dictionary" in str(column.layouts)}
    # Others pylance finds not worth it.
    assert {*written.column_names} - encoded <= {"text 1", "text 1, nulls", "many", "many, nulls"}
    for size in (NUM_ROWS, 4093):  # which ends inside of chunks
        scanned = [batch async for batch in dataset.to_batches(batch_size=size)]
        assert pa.Table.from_batches(scanned).equals(written)
        for batch in scanned:
            batch.validate(full=True)
