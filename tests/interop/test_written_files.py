"""Files that alance writes, read by pylance and by alance: equal to what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import alance
from tests.reference.types import ONLY_2_2, TYPES, column
from tests.reference.written import file_bytes

if TYPE_CHECKING:
    from pathlib import Path

# Their columns are longer than those beside them, which pylance takes for an error.
NOT_BESIDE_OTHERS = ("vector of structs", "struct with vector of structs")
CASES = [
    (name, version)
    for name in TYPES
    for version in ("2.1", "2.2")
    if version == "2.2" or name not in ONLY_2_2
]


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def check(
    path: Path, table: pa.Table, version: str, *, alone: bool = False, **options: object
) -> None:
    write(path, file_bytes(table, version, **options))
    expected = table.to_pylist()
    reader = await alance.files.FileReader.open(str(path))
    assert reader.num_rows == table.num_rows
    found = await reader.to_table()
    found.validate(full=True)
    assert repr(found.to_pylist()) == repr(expected)
    rows = [row * 7919 % table.num_rows for row in range(min(table.num_rows, 9))]
    assert repr((await reader.take(rows)).to_pylist()) == repr([expected[row] for row in rows])
    start, stop = table.num_rows // 3, table.num_rows * 2 // 3
    part = await reader.to_table(start=start, stop=stop)
    assert repr(part.to_pylist()) == repr(expected[start:stop])
    if alone:
        return
    theirs = LanceFileReader(str(path))
    assert theirs.metadata().num_rows == table.num_rows
    found = theirs.read_all().to_table()
    assert repr(found.to_pylist()) == repr(expected)
    if rows:
        found = theirs.take_rows(sorted(set(rows))).to_table()
        assert repr(found.to_pylist()) == repr([expected[row] for row in sorted(set(rows))])


@pytest.mark.parametrize(("name", "version"), CASES)
async def test_types(tmp_path: Path, name: str, version: str) -> None:
    columns = {f"c{nulls * 10:g}": column(name, 300, nulls) for nulls in (0.0, 0.3, 1.0)}
    if name in NOT_BESIDE_OTHERS:
        for nulls, array in columns.items():
            path = tmp_path / f"{nulls}.lance"
            await check(path, pa.table({"c": array}), version, alone=name.startswith("struct"))
        return
    await check(tmp_path / "file.lance", pa.table(columns), version)
