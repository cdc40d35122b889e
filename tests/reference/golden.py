"""Golden tables beside which the rows stand that their release read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pathlib import Path


def expected(path: Path) -> pa.Table:
    """Return the rows that the release of `path`.lance read from it."""
    with pa.ipc.open_file(f"{path}.arrow") as reader:
        return reader.read_all()


def rows(table: pa.Table) -> dict[str, list[object]]:
    """Plain values; moments as integers, which hold nanoseconds too."""
    plain = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_timestamp(column.type) or pa.types.is_date64(column.type):
            column = column.cast(pa.int64())
        plain[name] = column.to_pylist()
    return plain
