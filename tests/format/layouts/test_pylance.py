"""Pages of files that pylance writes: whole, and any rows of them in every way."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from alance.format.layouts.base import max_repetition
from alance.format.layouts.blob import BlobPage
from alance.format.layouts.constant import ConstantPage
from alance.format.layouts.fullzip import FullZipPage
from alance.format.layouts.miniblock import MiniBlockPage

if TYPE_CHECKING:
    from collections.abc import Callable

NUM_ROWS = 700
MINI, FULL, CONSTANT = MiniBlockPage, FullZipPage, ConstantPage


def structural(kind: str) -> dict[bytes, bytes]:
    return {b"lance-encoding:structural-encoding": kind.encode()}


def ints(rng: random.Random, nulls: float = 0.1) -> int | None:
    return None if rng.random() < nulls else rng.randrange(1 << 20)


def texts(rng: random.Random, longest: int = 12) -> str | None:
    return None if rng.random() < 0.1 else "".join(rng.choices("abcdef", k=rng.randrange(longest)))


def lists(rng: random.Random, make: Callable[[random.Random], Any], longest: int = 5) -> Any:
    chance = rng.random()
    if chance < 0.15:
        return None
    return [make(rng) for _ in range(rng.randrange(longest) if chance < 0.9 else 0)]


def struct_of(rng: random.Random, make: Callable[[random.Random], Any]) -> Any:
    return None if rng.random() < 0.1 else {"x": make(rng)}


CASES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any], type, dict[bytes, bytes]]] = {
    "int32": (pa.int32(), ints, MINI, {}),
    "int64 without nulls": (pa.int64(), lambda rng: ints(rng, 0), MINI, {}),
    "bool": (pa.bool_(), lambda rng: rng.choice([True, False, None]), MINI, {}),
    "runs": (pa.int32(), lambda rng: int(rng.random() < 0.02), MINI, {}),
    "utf8": (pa.utf8(), texts, MINI, {}),
    "few texts": (pa.utf8(), lambda rng: rng.choice(["aaaaaaaaaa", "bbbbbbbbbbb", None]), MINI, {}),
    "dictionary": (pa.dictionary(pa.int16(), pa.utf8()), texts, MINI, {}),
    "list": (pa.list_(pa.int32()), lambda rng: lists(rng, ints), MINI, {}),
    "list of bool": (
        pa.list_(pa.bool_()),
        lambda rng: lists(rng, lambda inner: inner.choice([True, False, None])),
        MINI,
        {},
    ),
    "long lists": (pa.list_(pa.int16()), lambda rng: lists(rng, ints_16, 80), MINI, {}),
    "list of utf8": (pa.list_(pa.utf8()), lambda rng: lists(rng, texts), MINI, {}),
    "list of list": (
        pa.list_(pa.list_(pa.int32())),
        lambda rng: lists(rng, lambda inner: lists(inner, ints)),
        MINI,
        {},
    ),
    "list of struct of list": (
        pa.list_(pa.struct({"x": pa.list_(pa.int32())})),
        lambda rng: lists(rng, lambda inner: struct_of(inner, lambda two: lists(two, ints))),
        MINI,
        {},
    ),
    "struct of struct": (
        pa.struct({"x": pa.struct({"x": pa.utf8()})}),
        lambda rng: struct_of(rng, lambda inner: struct_of(inner, texts)),
        MINI,
        {},
    ),
    "vector with null items": (
        pa.list_(pa.int16(), 3),
        lambda rng: rng.choice([None, [1, None, 3], [4, 5, 6]]),
        MINI,
        {},
    ),
    "zipped int64": (pa.int64(), ints, FULL, structural("fullzip")),
    "zipped int64 without nulls": (
        pa.int64(),
        lambda rng: ints(rng, 0),
        FULL,
        structural("fullzip"),
    ),
    "zipped binary": (
        pa.binary(),
        lambda rng: None if rng.random() < 0.1 else rng.randbytes(rng.randrange(400)),
        FULL,
        {},
    ),
    "zipped large utf8": (
        pa.large_utf8(),
        lambda rng: texts(rng, 400),
        FULL,
        {b"lance-encoding:compression": b"zstd"},
    ),
    "zipped list": (
        pa.list_(pa.int32()),
        lambda rng: lists(rng, ints),
        FULL,
        structural("fullzip"),
    ),
    "zipped list of utf8": (
        pa.list_(pa.utf8()),
        lambda rng: lists(rng, texts),
        FULL,
        structural("fullzip"),
    ),
    "zipped list of list": (
        pa.list_(pa.list_(pa.binary())),
        lambda rng: lists(rng, lambda inner: lists(inner, lambda two: two.randbytes(2))),
        FULL,
        structural("fullzip"),
    ),
    "wide vector": (
        pa.list_(pa.float32(), 80),
        lambda rng: None if rng.random() < 0.1 else [float(rng.randrange(9)) for _ in range(80)],
        FULL,
        {},
    ),
    "nulls": (pa.int32(), lambda rng: None, CONSTANT, {}),
    "null lists": (
        pa.list_(pa.int32()),
        lambda rng: lists(rng, lambda inner: None),
        CONSTANT,
        {},
    ),
}


def ints_16(rng: random.Random) -> int:
    return rng.randrange(1 << 15)


def stored(value: Any, kind: pa.DataType) -> Any:
    """An Arrow value as `rows` gives it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return (stored(value["x"], kind.field(0).type),)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return [stored(item, kind.value_type) for item in value]
    if pa.types.is_boolean(kind):
        return bytes([value])
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    return np.array(value, kind.to_pandas_dtype()).tobytes()


def table_of(name: str, num_rows: int = NUM_ROWS) -> tuple[pa.Table, list[Any]]:
    kind, make, _, metadata = CASES[name]
    rng = random.Random(name)
    values = [make(rng) for _ in range(num_rows)]
    field = pa.field("c", kind, metadata=metadata)
    table = pa.table([pa.array(values, kind)], schema=pa.schema([field]))
    return table, [stored(value, kind) for value in values]


def choices(num_rows: int) -> list[list[int]]:
    """Rows to take: ends, neighbours, few, many, all."""
    rng = random.Random(num_rows)
    few = sorted(rng.sample(range(num_rows), 7))
    many = sorted(rng.sample(range(num_rows), num_rows // 3))
    start = num_rows // 3
    return [
        [0],
        [num_rows - 1],
        [start],
        list(range(start, start + 5)),
        list(range(start, num_rows - 1)),
        [0, num_rows - 1],
        few,
        many,
        list(range(num_rows)),
    ]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize(
    ("name", "chunk_values"),
    [
        (name, chunk_values)
        for name, (_, _, kind, _) in CASES.items()
        for chunk_values in (["64", "4096"] if kind is MINI else ["4096"])
    ],
)
def test_rows_of_a_page_are_those_written(
    name: str,
    chunk_values: str,
    version: str,
    write_pages: Callable,
    rows: Callable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LANCE_MINIBLOCK_MAX_VALUES", chunk_values)
    table, expected = table_of(name)
    ((page,),) = write_pages(table, version)
    assert isinstance(page.layout, CASES[name][2])
    assert rows(page.read_page()) == expected
    assert page.rounds <= 1
    for numbers in choices(NUM_ROWS):
        for way in page.ways(numbers):
            assert page.rounds <= 1
            assert rows(way) == [expected[number] for number in numbers]


@pytest.mark.parametrize("name", ["list", "list of utf8", "zipped list of list"])
def test_every_range_of_rows_can_be_read(
    name: str, write_pages: Callable, rows: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCE_MINIBLOCK_MAX_VALUES", "2")
    table, expected = table_of(name, 40)
    ((page,),) = write_pages(table, "2.1")
    state = page.run(page.layout.load())
    for start in range(40):
        for stop in range(start, 41):
            decoded = page.run(page.layout.read(state, start, stop)).decode()
            assert len(page.ranges) == (start < stop)
            assert rows(decoded) == expected[start:stop]


@pytest.mark.parametrize("value", [7, "text", b"x" * 40, True, 2.5])
@pytest.mark.parametrize("nulls", [False, True])
def test_constant_pages_are_read_in_every_way(
    value: Any, nulls: bool, write_pages: Callable, rows: Callable
) -> None:
    kind = pa.binary(40) if isinstance(value, bytes) else pa.scalar(value).type
    values = [value, None if nulls else value, value] * 50
    ((page,),) = write_pages(pa.table({"c": pa.array(values, kind)}), "2.2")
    assert isinstance(page.layout, ConstantPage)
    items = [stored(item, kind) for item in values]
    assert rows(page.read_page()) == items
    for numbers in choices(150):
        for way in page.ways(numbers):
            assert rows(way) == [items[number] for number in numbers]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blob_pages_are_read_in_every_way(
    version: str, write_pages: Callable, rows: Callable
) -> None:
    field = pa.field("c", pa.large_binary(), metadata={b"lance-encoding:blob": b"true"})
    values = [b"hello", None, b"", b"x" * 100] * 30
    ((page,),) = write_pages(pa.table([values], schema=pa.schema([field])), version)
    assert isinstance(page.layout, BlobPage)
    for numbers in choices(120):
        for way in page.ways(numbers):
            payloads = [
                None
                if row is None
                else page.content[int.from_bytes(row[0], "little") :][
                    : int.from_bytes(row[1], "little")
                ]
                for row in rows(way)
            ]
            assert payloads == [values[number] for number in numbers]


def test_variable_packed_structs_with_nulls(write_pages: Callable, rows: Callable) -> None:
    kind = pa.struct({"a": pa.int32(), "b": pa.utf8()})
    field = pa.field("c", kind, metadata={b"lance-encoding:packed": b"true"})
    values = [None if i % 7 == 3 else {"a": i, "b": "x" * (i % 5)} for i in range(200)]
    ((page,),) = write_pages(pa.table([pa.array(values, kind)], schema=pa.schema([field])), "2.2")
    assert isinstance(page.layout, FullZipPage)
    items = [
        None if value is None else (value["a"].to_bytes(4, "little"), value["b"].encode())
        for value in values
    ]
    assert rows(page.read_page()) == items
    for numbers in choices(200):
        for way in page.ways(numbers):
            assert rows(way) == [items[number] for number in numbers]


def test_a_column_of_many_pages(write_pages: Callable, rows: Callable) -> None:
    values = [list(range(i % 4)) for i in range(30_000)]
    table = pa.table({"c": pa.array(values, pa.list_(pa.int64()))})
    ((*pages,),) = write_pages(table, "2.1", data_cache_bytes=20_000)
    result = [row for page in pages for row in rows(page.read_page())]
    assert result == [stored(value, pa.list_(pa.int64())) for value in values]
    assert all(max_repetition(page.read_page().layers) == 1 for page in pages)
