"""Tables with label, n-gram, zone map and bloom filter indices, and filters to ask them."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa

import alance
from tests.indices.copies import write_copy

if TYPE_CHECKING:
    from pathlib import Path

NUM_ROWS: Final = 26_000
COLUMNS: Final = {
    "tags": "LABEL_LIST",
    "marks": "LABEL_LIST",
    "s": "NGRAM",
    "z": "ZONEMAP",
    "f": "ZONEMAP",
    "b": "BLOOMFILTER",
    "k": "BLOOMFILTER",
}
KINDS: Final = {
    "LABEL_LIST": "LabelList",
    "NGRAM": "NGram",
    "ZONEMAP": "ZoneMap",
    "BLOOMFILTER": "BloomFilter",
}
FILTERS: Final = (
    "array_has(tags, 't777')",
    "array_contains(tags, 'nothing')",
    "array_has_any(tags, ['t5', 't777', 'zz'])",
    "array_has_all(tags, ['t5', 'u2'])",
    "array_has_any(marks, [3, 2000000]) or array_has(tags, 't8')",
    "array_has(marks, 12) and not array_has(tags, 't3')",
    "not array_has(tags, 't5') and z < 100",
    "array_has(tags, 't5') is true",
    "contains(s, 'Wörld 12')",
    "contains(s, 'o 123')",
    "contains(s, 'xy') and z < 300",
    "s like '%1999%'",
    "s like 'Hello 777%'",
    "s like '%no such text%'",
    "starts_with(s, 'Hello 7')",
    "s ilike '%HELLO%555%'",
    "regexp_like(s, '1234|4321$')",
    "regexp_like(s, 'h?ello 99[89]')",
    "s = 'Hello 1777 straße'",
    "s in ('Hello 18 æ', 'nothing') or contains(s, '25999')",
    "contains(s, 'ell') and contains(s, '4000')",
    "not contains(s, 'ell')",
    "z = 5000",
    "z < 100 or z > 25900",
    "z between 8100 and 8300 and array_has(tags, 't5')",
    "z is null and z is not null",
    "f < 3",
    "f >= 8600.5",
    "f = cast('NaN' as double) and z < 900",
    "b = 7",
    "b in (7, 14, 70000, 3)",
    "b = 7 or z = 12",
    "b = 8",
    "b between 7 and 20",
    "b is null and z < 50",
    "k = 'k25001'",
    "k in ('k1', 'nothing')",
    "k = 'k1' and b = 7",
)


@cache
def rows(count: int = NUM_ROWS, first: int = 0) -> pa.Table:
    """Rows with nulls, lists with nulls and without items, NaN, texts beyond ASCII."""
    ids = range(first, first + count)

    def tags(k: int) -> list[str | None] | None:
        if k % 11 == 0:
            return None
        return [] if k % 7 == 0 else [f"t{k % 900}", None if k % 13 == 0 else f"u{k % 3}", "t5"][:2]

    texts = [f"Hello {k} {('Wörld', 'straße', 'æ', 'xy')[k % 4]} {k % 500}" for k in ids]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "tags": pa.array([tags(k) for k in ids], pa.list_(pa.string())),
            "marks": pa.array([[k % 1000, k % 3, k % 3] for k in ids], pa.list_(pa.int32())),
            "s": pa.array([None if k % 9 == 0 else texts[k - first] for k in ids]),
            "z": pa.array([None if k % 10 == 3 else k for k in ids], pa.int64()),
            "f": pa.array([math.nan if k % 17_000 == 500 else k / 3 for k in ids], pa.float64()),
            "b": pa.array([None if k % 10 == 3 else k * 7 for k in ids], pa.int64()),
            "k": pa.array([f"k{k}" for k in ids]),
        }
    )


def by_pylance(path: Path, **options: Any) -> lance.LanceDataset:
    """A table of several fragments with indices that pylance made; some rows are deleted."""
    write_copy(path, _make_by_pylance, **options)
    return lance.dataset(path)


def _make_by_pylance(path: Path, **options: Any) -> None:
    dataset = lance.write_dataset(rows(), path, max_rows_per_file=10_000, **options)
    dataset.delete("id % 17 = 3 or (id > 12000 and id < 12100)")
    for column, kind in COLUMNS.items():
        dataset.create_scalar_index(column, kind)  # type: ignore[arg-type]
    dataset.delete("id % 19 = 4")


async def by_alance(path: Path, **options: Any) -> alance.Dataset:
    """The same with indices of alance."""
    lance.write_dataset(rows(), path, max_rows_per_file=10_000, **options)
    dataset = await alance.dataset(path)
    dataset = await dataset.delete("id % 17 = 3 or (id > 12000 and id < 12100)")
    for column, kind in COLUMNS.items():
        dataset = await dataset.create_scalar_index(column, kind)
    return await dataset.delete("id % 19 = 4")
