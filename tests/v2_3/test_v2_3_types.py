"""Tables of 2.3 by pylance: every type with few and many nulls, dense and sparse."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from tests.reference.compare import assert_equal_rows
from tests.reference.types import TYPES, column
from tests.v2_3.planar import planes_of, sparse_table

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 240
NULLS = {"none": 0.0, "some": 0.3, "most": 0.8, "all": 1.0}
# Their columns are longer than others, which pylance takes for an error.
PYLANCE_CANNOT_READ = ("vector of structs", "struct with vector of structs")
EXTENSIONS = [name for name in TYPES if isinstance(TYPES[name][0], pa.BaseExtensionType)]


async def check(table: pa.Table, uri: str, name: str) -> None:
    """Write a table in three files, and read it in many ways."""
    for start in range(0, ROWS, 100):
        part = table.take(pa.array(range(start, min(ROWS, start + 100))))
        lance.write_dataset(part, uri, data_storage_version="2.3", mode="append")
    theirs = lance.dataset(uri)
    theirs.delete("n % 7 = 3 AND n > 110")
    ours = await alance.dataset(uri)
    remaining = [row for row in range(ROWS) if not (row % 7 == 3 and row > 110)]
    rows = random.Random(name).choices(range(len(remaining)), k=30)
    if name in PYLANCE_CANNOT_READ:
        values = table.take(pa.array(remaining)).to_pylist()
        assert (await ours.to_table()).to_pylist() == values
        assert (await ours.take(rows)).to_pylist() == [values[row] for row in rows]
        return
    assert await ours.count_rows() == len(remaining)
    assert_equal_rows(await ours.to_table(), theirs.to_table())
    for candidate in (rows, sorted(rows)):
        assert_equal_rows(await ours.take(candidate), theirs.take(candidate))
    assert_equal_rows(
        await ours.to_table(["most"], offset=55, limit=101),
        theirs.to_table(["most"], offset=55, limit=101),
    )
    assert_equal_rows(
        await ours.to_table(["some", "n"], filter="n % 13 = 2"),
        theirs.to_table(["some", "n"], filter="n % 13 = 2"),
    )


def nullable_columns(name: str) -> pa.Table:
    columns = {what: column(name, ROWS, nulls) for what, nulls in NULLS.items()}
    return pa.table({"n": pa.array(range(ROWS)), **columns})


@pytest.mark.parametrize("name", TYPES)
async def test_a_table_of_each_type_is_read_equal(tmp_path: Path, name: str) -> None:
    await check(nullable_columns(name), str(tmp_path / "table"), name)


@pytest.mark.parametrize("name", [name for name in TYPES if name not in EXTENSIONS])
async def test_a_type_asked_to_be_sparse(tmp_path: Path, name: str) -> None:
    await check(sparse_table(nullable_columns(name)), str(tmp_path / "table"), name)
    assert any(structure == "sparse" for structure, _ in planes_of(tmp_path / "table"))
