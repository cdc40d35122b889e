"""Pages of files that pylance writes: whole, and any rows of them in every way."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.reference.built_pages import pylance_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.reference.built_pages import ReadFile

NUM_ROWS = 700
MINI, FULL, CONSTANT = "mini-block", "full-zip", "constant"


def requested(kind: str) -> dict[bytes, bytes]:
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


CASES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any], str, dict[bytes, bytes]]] = {
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
        lambda rng: lists(rng, lambda outer: struct_of(outer, lambda inner: lists(inner, ints))),
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
    "zipped int64": (pa.int64(), ints, FULL, requested("fullzip")),
    "zipped int64 without nulls": (
        pa.int64(),
        lambda rng: ints(rng, 0),
        FULL,
        requested("fullzip"),
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
    "zipped list": (pa.list_(pa.int32()), lambda rng: lists(rng, ints), FULL, requested("fullzip")),
    "zipped list of utf8": (
        pa.list_(pa.utf8()),
        lambda rng: lists(rng, texts),
        FULL,
        requested("fullzip"),
    ),
    "zipped list of list": (
        pa.list_(pa.list_(pa.binary())),
        lambda rng: lists(rng, lambda outer: lists(outer, lambda inner: inner.randbytes(2))),
        FULL,
        requested("fullzip"),
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


def table_of(name: str, num_rows: int = NUM_ROWS) -> tuple[pa.Table, list[Any]]:
    kind, make, _, metadata = CASES[name]
    rng = random.Random(name)
    values = [make(rng) for _ in range(num_rows)]
    field = pa.field("c", kind, metadata=metadata)
    table = pa.table([pa.array(values, kind)], schema=pa.schema([field]))
    return table, values


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


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., ReadFile]:
    """`write(table, version)`: the file of a column, as pylance writes it."""

    def written(table: pa.Table, version: str, **options: Any) -> ReadFile:
        path = tmp_path / f"{len([*tmp_path.iterdir()])}.lance"
        return pylance_file(table, version, path, **options)

    return written


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
    write: Callable[..., ReadFile],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LANCE_MINIBLOCK_MAX_VALUES", chunk_values)
    table, expected = table_of(name)
    file = write(table, version)
    assert file.layouts == {CASES[name][2]}
    assert file.all_rows() == expected
    for numbers in choices(NUM_ROWS):
        for rows in file.ways(numbers):
            assert rows == [expected[number] for number in numbers]


@pytest.mark.parametrize("name", ["list", "list of utf8", "zipped list of list"])
def test_every_range_of_rows_can_be_read(
    name: str, write: Callable[..., ReadFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCE_MINIBLOCK_MAX_VALUES", "2")
    table, expected = table_of(name, 40)
    file = write(table, "2.1")
    for start in range(40):
        for stop in range(start, 41):
            assert file.range(start, stop, warm=True) == expected[start:stop]
            assert len(file.ranges) == (start < stop)


@pytest.mark.parametrize("value", [7, "text", b"x" * 40, True, 2.5])
@pytest.mark.parametrize("nulls", [False, True])
def test_constant_pages_are_read_in_every_way(
    value: Any, nulls: bool, write: Callable[..., ReadFile]
) -> None:
    kind = pa.binary(40) if isinstance(value, bytes) else pa.scalar(value).type
    values = [value, None if nulls else value, value] * 50
    file = write(pa.table({"c": pa.array(values, kind)}), "2.2")
    assert file.layouts == {CONSTANT}
    assert file.all_rows() == values
    for numbers in choices(150):
        for rows in file.ways(numbers):
            assert rows == [values[number] for number in numbers]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blob_pages_are_read_in_every_way(version: str, write: Callable[..., ReadFile]) -> None:
    field = pa.field("c", pa.large_binary(), metadata={b"lance-encoding:blob": b"true"})
    values = [b"hello", None, b"", b"x" * 100] * 30
    file = write(pa.table([values], schema=pa.schema([field])), version)
    assert all(layout.startswith("blob") for layout in file.layouts)
    for numbers in choices(120):
        for rows in file.ways(numbers):
            payloads = [
                None if row is None else file.content[row["position"] :][: row["size"]]
                for row in rows
            ]
            assert payloads == [values[number] for number in numbers]


def test_variable_packed_structs_with_nulls(write: Callable[..., ReadFile]) -> None:
    kind = pa.struct({"a": pa.int32(), "b": pa.utf8()})
    field = pa.field("c", kind, metadata={b"lance-encoding:packed": b"true"})
    values = [None if i % 7 == 3 else {"a": i, "b": "x" * (i % 5)} for i in range(200)]
    file = write(pa.table([pa.array(values, kind)], schema=pa.schema([field])), "2.2")
    assert file.layouts == {FULL}
    assert file.all_rows() == values
    for numbers in choices(200):
        for rows in file.ways(numbers):
            assert rows == [values[number] for number in numbers]


def test_a_column_of_many_pages(write: Callable[..., ReadFile]) -> None:
    values = [list(range(i % 4)) for i in range(30_000)]
    column = pa.array(values, pa.list_(pa.int64()))
    batches = [column.slice(first, 5_000) for first in range(0, 30_000, 5_000)]
    file = write(pa.table({"c": pa.chunked_array(batches)}), "2.1", data_cache_bytes=20_000)
    assert len(file.description().columns[-1].pages) > 1
    assert file.all_rows() == values
    for rows in file.ways(range(100, 29_000, 17)):
        assert rows == values[100:29_000:17]
