"""Tables with indices of pylance or alance, and filters to ask them."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import pickle
import uuid
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa
from lance.file import LanceFileReader

import alance
from alance.format.index.bitmap import parse_rows
from tests.indices.copies import write_copy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from alance.ops.read.rows import ScanPlan

NUM_ROWS: Final = 16_000
COLUMNS: Final = {"i": "BTREE", "s": "BITMAP", "f": "BTREE", "b": "BITMAP", "t": "BTREE"}
FILTERS: Final = (
    "i = 5",
    "i in (1, 2, 3)",
    "i is null",
    "i is not null and i < 3",
    "i between 100 and 120",
    "i < 10",
    "i > 4990 and s = 'v3'",
    "i = 3 or s = 'v7'",
    "not (i = 3 or s <> 'v7')",
    "not (i > 20 or i is null)",
    "i != 5 and i < 20",
    "i = 5 or id = 7",
    "i = 12 and id > 100",
    "i + 1 = 8",
    "f = cast('NaN' as double)",
    "f is null and i < 1000",
    "f < 5",
    "f = 0",
    "f > 6600",
    "isnan(f) and i < 100",
    "b",
    "not b",
    "b is null and s = 'v1'",
    "s like 'v1%' and i < 40",
    "s = 'v1' and b",
    "s in ('v1', 'zzz') or i = 17",
    "s is null and i = 9",
    "t = timestamp '2024-01-01 00:20:00'",
    "t < timestamp '2024-01-01 01:00:00' and s = 'v2'",
    "t = timestamp '2031-01-01 00:00:00'",
)


@cache
def rows(count: int = NUM_ROWS, first: int = 0) -> pa.Table:
    """Rows with nulls, NaN, both zeros and repeated values."""
    ids = range(first, first + count)
    start = dt.datetime(2024, 1, 1)
    floats = [math.nan if k % 5 == 0 else None if k % 13 == 0 else k / 3 for k in ids]
    floats[1:4] = [0.0, -0.0, -1.5]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "i": pa.array([None if k % 7 == 0 else k * 37 % 5000 for k in ids], pa.int64()),
            "s": pa.array([None if k % 11 == 0 else f"v{k % 50}" for k in ids]),
            "f": pa.array(floats, pa.float64()),
            "b": pa.array([None if k % 3 == 0 else k % 2 == 0 for k in ids]),
            "t": pa.array(
                [None if k % 17 == 0 else start + dt.timedelta(minutes=k % 3000) for k in ids],
                pa.timestamp("us"),
            ),
        }
    )


def by_pylance(path: Path, **options: Any) -> lance.LanceDataset:
    """A table of several fragments with indices that pylance made; some rows are deleted."""
    write_copy(path, _make_by_pylance, **options)
    return lance.dataset(path)


def _make_by_pylance(path: Path, **options: Any) -> None:
    dataset = lance.write_dataset(rows(), path, max_rows_per_file=6_000, **options)
    for column, kind in COLUMNS.items():
        dataset.create_scalar_index(column, kind)  # type: ignore[arg-type]
    dataset.delete("id % 17 = 3")


async def by_alance(path: Path, **options: Any) -> alance.Dataset:
    """The same with indices of alance."""
    lance.write_dataset(rows(), path, max_rows_per_file=6_000, **options)
    dataset = await alance.dataset(path)
    for column, kind in COLUMNS.items():
        dataset = await dataset.create_scalar_index(column, kind)
    return await dataset.delete("id % 17 = 3")


async def ids(dataset: alance.Dataset, condition: str, **options: Any) -> list[int]:
    """The ids that a filter keeps, in the order of the scan."""
    table = await dataset.to_table(["id"], filter=condition, **options)
    numbers: list[int] = table["id"].to_pylist()
    return numbers


async def agree(path: Path, filters: tuple[str, ...] = FILTERS) -> alance.Dataset:
    """Each filter gives the same by indices, without them, and by pylance."""
    dataset, theirs = await alance.dataset(path), lance.dataset(path)
    for condition in filters:
        row_ids = await ids(dataset, condition)
        assert row_ids == await ids(dataset, condition, use_scalar_index=False), condition
        expected = theirs.to_table(["id"], filter=condition)["id"].to_pylist()
        assert sorted(row_ids) == sorted(expected), condition
        assert await dataset.count_rows(condition) == len(row_ids), condition
    return dataset


async def plan_of(dataset: alance.Dataset, condition: str) -> ScanPlan:
    """Return the plan of a scan with a filter."""
    from alance.ops.read.options import ScanOptions
    from alance.ops.read.plan import plan_scan

    return await plan_scan(dataset._snapshot, ["id"], ScanOptions(filter=condition))


def typed() -> Mapping[str, pa.Array]:
    """Columns of the types that can be indexed, 300 rows each."""
    numbers = [None if k % 9 == 4 else k * 7 % 40 - 10 for k in range(300)]

    def of(type_: pa.DataType, make: Any) -> pa.Array:
        return pa.array([None if number is None else make(number) for number in numbers], type_)

    day = dt.date(2024, 1, 1)
    return {
        "i8": of(pa.int8(), int),
        "i32": of(pa.int32(), int),
        "u64": of(pa.uint64(), lambda item: item + (1 << 63)),
        "f16": of(pa.float16(), np.float16),
        "f32": of(pa.float32(), float),
        "bool": of(pa.bool_(), lambda item: item > 5),
        "text": of(pa.string(), lambda item: f"t{item}é"),
        "large": of(pa.large_string(), lambda item: f"t{item}"),
        "bytes": of(pa.binary(), lambda item: bytes([item + 10, 0])),
        "fixed": of(pa.binary(2), lambda item: bytes([item + 10, 255])),
        "day": of(pa.date32(), lambda item: day + dt.timedelta(days=item)),
        "milli": of(pa.date64(), lambda item: day + dt.timedelta(days=item)),
        "clock": of(pa.timestamp("ms"), lambda item: dt.datetime(2024, 1, 20, 5, item + 10)),
        "zoned": of(pa.timestamp("us", "UTC"), lambda item: dt.datetime(2024, 1, 20, 5, item + 10)),
        "time": of(pa.time64("us"), lambda item: dt.time(3, item + 10)),
        "span": of(pa.duration("s"), lambda item: dt.timedelta(seconds=item)),
        "dec": of(pa.decimal128(10, 2), lambda item: decimal.Decimal(item) / 4),
        "wide": of(pa.decimal256(50, 1), decimal.Decimal),
        "nothing": pa.nulls(300, pa.int32()),
    }


TYPED_FILTERS: Final = {
    "i8": "i8 = 3 or i8 > 25",
    "i32": "i32 between -3 and 4",
    "u64": "u64 >= 9223372036854775820",
    "f16": "f16 < 0",
    "f32": "f32 in (1, 2, 100)",
    "bool": "bool",
    "text": "text > 't2' and text < 't3'",
    "large": "large = 't5'",
    "bytes": "bytes > X'05'",
    "fixed": "fixed <= X'0bff'",
    "day": "day = date '2024-01-04'",
    "milli": "milli < date '2024-01-02'",
    "clock": "clock >= timestamp '2024-01-20 05:30:00'",
    "zoned": "zoned = timestamp '2024-01-20 05:15:00'",
    "time": "time < time '03:12:00'",
    "span": "span is null",
    "dec": "dec between 1.25 and 2.5",
    "wide": "wide = 3",
    "nothing": "nothing is not null",
}


def entries(dataset: lance.LanceDataset) -> list[dict[str, Any]]:
    """Return pylance's list of the segments of a table's indices."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return [dict(index) for index in dataset.list_indices()]


def coverage(path: Path) -> dict[str, list[list[int]]]:
    """The live fragments that the segments of each index cover, as pylance sees it."""
    dataset = lance.dataset(path)
    live = {fragment.fragment_id for fragment in dataset.get_fragments()}
    mapping: dict[str, list[list[int]]] = {}
    for entry in entries(dataset):
        mapping.setdefault(entry["name"], []).append(sorted(live & set(entry["fragment_ids"])))
    return {name: sorted(parts) for name, parts in mapping.items()}


def content(path: Path) -> dict[str, dict[str, Any]]:
    """The columns of all index files, by index and file; row numbers as sets by value."""
    mapping: dict[str, dict[str, Any]] = {}
    for entry in entries(lance.dataset(path)):
        for file in sorted((path / "_indices" / entry["uuid"]).iterdir()):
            reader = LanceFileReader(str(file))
            schema = reader.metadata().schema
            columns = reader.read_all().to_table().to_pydict()
            if "ids" in columns:
                pairs = zip(map(repr, columns["values"]), columns.pop("ids"), strict=True)
                columns["pairs"] = sorted(pairs)
            if "bitmaps" in columns:
                columns["bitmaps"] = [
                    parse_rows(memoryview(column)).to_numpy().tolist()
                    for column in columns["bitmaps"]
                ]
            metadata = dict(schema.metadata or {})
            mapping.setdefault(entry["name"], {})[file.name] = (
                schema.remove_metadata(),
                metadata,
                repr(columns),
            )
    return mapping


async def opened_with_sizes(path: Path, session: alance.Session) -> alance.Dataset:
    """Open a dataset whose manifest has the sizes that its index files have now."""
    dataset = await alance.dataset(path, session=session)
    for index in dataset._snapshot.manifest.indices:
        folder = path / "_indices" / str(uuid.UUID(bytes=index.uuid.uuid))
        for file in index.files:
            file.size_bytes = (folder / file.path).stat().st_size
    return dataset


def pickled_copy(value: Any) -> Any:
    """Return a value as another process gets it."""
    return pickle.loads(pickle.dumps(value))
