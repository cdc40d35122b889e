"""Pages of one value, or none: the kernel builds their rows beside those of other pages."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.format.layouts.constant import ConstantTask

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 20_000
STRUCT = pa.struct([("a", pa.int32()), ("s", pa.string())])
COLUMNS: dict[str, tuple[pa.DataType, Any]] = {  # by name: a type, and the value of a row
    "number": (pa.int32(), lambda n: 7),
    "no numbers": (pa.int64(), lambda n: None),
    "numbers and nulls": (pa.int16(), lambda n: 5 if n % 3 else None),
    "then others": (pa.int32(), lambda n: 7 if n < 15_000 else n),
    "text": (pa.string(), lambda n: "the same text"),
    "large text": (pa.large_string(), lambda n: "x" * 50),
    "no text": (pa.string(), lambda n: None),
    "bool": (pa.bool_(), lambda n: True),
    "no bools": (pa.bool_(), lambda n: None),
    "decimal": (pa.decimal128(10, 2), lambda n: None),
    "vector": (pa.list_(pa.float32(), 3), lambda n: [1.0, 2.0, 3.0]),
    "no vectors": (pa.list_(pa.float32(), 3), lambda n: None),
    "no lists": (pa.list_(pa.int32()), lambda n: None),
    "empty lists": (pa.list_(pa.int32()), lambda n: []),
    "empty or no lists": (pa.list_(pa.string()), lambda n: [] if n % 2 else None),
    "lists of a number": (pa.list_(pa.int32()), lambda n: [4] * (n % 4)),
    "lists of nulls": (pa.list_(pa.string()), lambda n: [None] * (n % 4)),
    "struct": (STRUCT, lambda n: {"a": 1, "s": None}),
    "no structs": (STRUCT, lambda n: None),
    "structs and nulls": (STRUCT, lambda n: {"a": 3, "s": "q"} if n % 5 else None),
    "lists of structs": (pa.list_(STRUCT), lambda n: [{"a": 3, "s": "q"}] * (n % 3)),
    "maps": (pa.map_(pa.string(), pa.int32()), lambda n: [("k", 1)] * (n % 3)),
}


@pytest.mark.parametrize("writer", ["pylance", "alance"])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_the_kernel_builds_rows_of_constant_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, writer: str
) -> None:
    table = pa.table(
        {
            name: pa.array([value(n) for n in range(ROWS)], arrow)
            for name, (arrow, value) in COLUMNS.items()
            if version != "2.1" or name != "maps"  # of which 2.1 has none
        }
    )
    uri = str(tmp_path / "table")
    if writer == "pylance":
        lance.write_dataset(table, uri, data_storage_version=version, max_rows_per_file=7000)
    else:
        await alance.write_dataset(table, uri, data_storage_version=version, max_rows_per_file=7000)
    rng = random.Random(5)
    with monkeypatch.context() as patched:
        patched.setattr(ConstantTask, "decode", lambda _: pytest.fail("decoded by the codecs"))
        async with alance.Session() as session:
            ds = await alance.dataset(uri, session=session)
            assert (await ds.to_table(offset=6000, limit=2500)).equals(table.slice(6000, 2500))
            for rows in ([1, 5, 6999, 7000, ROWS - 1], [3, 3, 2], rng.sample(range(ROWS), 3000)):
                assert (
                    (await ds.take(rows)).combine_chunks().equals(table.take(rows).combine_chunks())
                ), len(rows)
    ds = await alance.dataset(uri)
    assert (await ds.to_table()).equals(table)


async def test_a_column_of_nulls_beside_columns_of_other_fragments(tmp_path: Path) -> None:
    """Appends leave out a column, which gets values later."""
    uri = str(tmp_path / "table")
    first = pa.table({"n": range(3000), "late": pa.nulls(3000, pa.string())})
    lance.write_dataset(first, uri, data_storage_version="2.1")
    second = pa.table({"n": range(3000, 6000), "late": [str(n) for n in range(3000, 6000)]})
    lance.write_dataset(second, uri, mode="append")
    lance.write_dataset(pa.table({"n": range(6000, 6100)}), uri, mode="append")
    ds = await alance.dataset(uri)
    rows = np.random.default_rng(7).choice(6100, 500, replace=False)
    taken = await ds.take(rows.tolist())
    assert taken["n"].to_pylist() == rows.tolist()
    assert taken["late"].to_pylist() == [
        str(row) if 3000 <= row < 6000 else None for row in rows.tolist()
    ]
    assert (await ds.to_table(filter="late IS NULL")).num_rows == 3100
