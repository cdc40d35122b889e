"""Every type, in both file versions, without nulls, with some and with nothing else."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from tests.reference.compare import assert_equal_rows
from tests.reference.types import CASES, NOT_BESIDE_OTHERS, column

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 240


@pytest.mark.parametrize(("name", "version"), CASES)
async def test_a_type_reads_as_pylance_reads_it(tmp_path: Path, name: str, version: str) -> None:
    table = pa.table(
        {
            "n": pa.array(range(ROWS)),
            "none": column(name, ROWS, 0.0),
            "some": column(name, ROWS, 0.3),
            "all": column(name, ROWS, 1.0),
        }
    )
    uri = str(tmp_path / "table")
    for start in range(0, ROWS, 100):
        # Copies: pylance cannot write slices of nested structs.
        part = table.take(pa.array(range(start, min(ROWS, start + 100))))
        lance.write_dataset(part, uri, data_storage_version=version, mode="append")
    theirs = lance.dataset(uri)
    theirs.delete("n % 7 = 3 AND n > 110")
    ours = await alance.dataset(uri)
    if name in NOT_BESIDE_OTHERS:
        remaining = [row for row in range(ROWS) if not (row % 7 == 3 and row > 110)]
        assert (await ours.to_table()).to_pylist() == table.take(pa.array(remaining)).to_pylist()
        assert (await ours.take([9, 150, 2])).to_pylist() == [
            table.slice(remaining[row], 1).to_pylist()[0] for row in (9, 150, 2)
        ]
        return
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert await ours.count_rows() == theirs.count_rows()
    assert_equal_rows(await ours.to_table(), theirs.to_table())
    rng = random.Random(name)
    rows = rng.choices(range(theirs.count_rows()), k=30)
    assert_equal_rows(await ours.take(rows), theirs.take(rows))
    assert_equal_rows(await ours.take(sorted(rows)), theirs.take(sorted(rows)))
    assert_equal_rows(
        await ours.to_table(["some"], offset=55, limit=101),
        theirs.to_table(["some"], offset=55, limit=101),
    )
    assert_equal_rows(
        await ours.to_table(["all", "n"], filter="n % 13 = 2", with_row_id=True),
        theirs.to_table(["all", "n"], filter="n % 13 = 2", with_row_id=True),
    )
