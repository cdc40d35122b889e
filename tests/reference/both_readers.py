"""Files that alance writes, read by alance and by pylance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from lance.file import LanceFileReader

import alance
from tests.reference.compare import assert_equal_values
from tests.reference.types import NOT_BESIDE_OTHERS
from tests.reference.written import file_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def check_written(
    path: Path, table: pa.Table, version: str, *, alone: bool = False, **options: object
) -> None:
    """A file of these rows gives them: all, some, a part; and pylance the same, if not `alone`."""
    _write(path, file_bytes(table, version, **options))
    session = alance.Session()
    reader = await alance.FileReader.open(str(path), session=session)
    assert reader.num_rows == table.num_rows
    result = await reader.to_table()
    result.validate(full=True)
    assert_equal_values(result, table)
    rows = [row * 7919 % table.num_rows for row in range(min(table.num_rows, 9))]
    assert_equal_values(await reader.take(rows), table.take(pa.array(rows, pa.int64())))
    start, stop = table.num_rows // 3, table.num_rows * 2 // 3
    part = await reader.to_table(start=start, stop=stop)
    assert_equal_values(part, table.slice(start, stop - start))
    await session.aclose()
    if alone:
        return
    theirs = LanceFileReader(str(path))
    assert theirs.metadata().num_rows == table.num_rows
    assert_equal_values(theirs.read_all().to_table(), table)
    if rows:
        rows = sorted(set(rows))
        result = theirs.take_rows(rows).to_table()
        assert_equal_values(result, table.take(pa.array(rows, pa.int64())))


async def check_columns(
    folder: Path, name: str, columns: Mapping[str, pa.Array], version: str
) -> None:
    """Columns of the type `name` in one file, or each in its own where pylance needs that."""
    if name in NOT_BESIDE_OTHERS:
        for nulls, array in columns.items():
            alone = name.startswith("struct")
            await check_written(
                folder / f"{nulls}.lance", pa.table({"c": array}), version, alone=alone
            )
        return
    await check_written(folder / "file.lance", pa.table(columns), version)
