"""The encodings that a writer may ask for, over shapes of data that suit them and that do not."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from tests.reference.compare import assert_equal_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 6000

ENCODINGS: dict[str, dict[str, str]] = {
    "default": {},
    "zstd": {"compression": "zstd"},
    "lz4": {"compression": "lz4"},
    "none": {"compression": "none"},
    "fsst": {"compression": "fsst"},
    "mini-block": {"structural-encoding": "miniblock"},
    "full-zip": {"structural-encoding": "fullzip"},
    "full-zip zstd": {"structural-encoding": "fullzip", "compression": "zstd"},
    "rle": {"rle-threshold": "0.99", "bss": "off"},
    "bss": {"bss": "on", "compression": "lz4"},
    "dictionary": {"dict-divisor": "1", "dict-size-ratio": "1.0"},
    "small chunks": {"minichunk-size": "256"},
}


def with_nulls(values: list[object], rng: random.Random, share: float) -> list[object]:
    return [None if rng.random() < share else value for value in values]


def shapes(rng: random.Random) -> dict[str, pa.Array]:
    """Arrays that lead to different decisions of a writer."""
    small = [rng.randrange(50) for _ in range(ROWS)]
    runs = [number // 300 % 7 for number in range(ROWS)]
    floats = [rng.gauss(20, 1) for _ in range(ROWS)]
    words = ["".join(rng.choices("etaoin shrdlu", k=rng.randrange(24))) for _ in range(ROWS)]
    colours = [rng.choice(["red", "green", "ultramarine blue"]) for _ in range(ROWS)]
    wide = [rng.randbytes(rng.randrange(300)) for _ in range(ROWS // 10)] * 10
    pairs = [{"a": item, "b": two} for item, two in zip(small, words, strict=True)]
    lists = [small[:length] for length in (rng.randrange(9) for _ in range(ROWS))]
    return {
        "small": pa.array(small, pa.int32()),
        "small nulls": pa.array(with_nulls(small, rng, 0.2), pa.int64()),
        "runs": pa.array(runs, pa.int16()),
        "run of nulls": pa.array([None if n < ROWS // 2 else n for n in range(ROWS)], pa.uint32()),
        "large": pa.array([rng.getrandbits(63) for _ in range(ROWS)], pa.int64()),
        "floats": pa.array(floats, pa.float64()),
        "singles": pa.array(with_nulls(floats, rng, 0.1), pa.float32()),
        "flags": pa.array(with_nulls([bool(item % 3) for item in small], rng, 0.1), pa.bool_()),
        "words": pa.array(words),
        "colours": pa.array(with_nulls(colours, rng, 0.1), pa.large_string()),
        "wide": pa.array(wide, pa.binary()),
        "constant": pa.array(["the same"] * ROWS),
        "vectors": pa.array([[item, 2.0, 3.0] for item in floats], pa.list_(pa.float32(), 3)),
        "pairs": pa.array(with_nulls(pairs, rng, 0.1)),
        "lists": pa.array(with_nulls(lists, rng, 0.1), pa.list_(pa.int32())),
    }


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("encoding", list(ENCODINGS))
async def test_a_requested_encoding_is_read_by_both(
    tmp_path: Path, encoding: str, version: str
) -> None:
    metadata = {f"lance-encoding:{key}": value for key, value in ENCODINGS[encoding].items()}
    arrays = shapes(random.Random(encoding))
    fields = [pa.field(name, array.type, metadata=metadata) for name, array in arrays.items()]
    table = pa.table(list(arrays.values()), schema=pa.schema(fields))
    uri = str(tmp_path / "table")
    lance.write_dataset(table, uri, data_storage_version=version, max_rows_per_file=ROWS // 2 + 7)
    await check(uri)


PACKED: dict[str, Callable[[random.Random], dict[str, object]]] = {
    "fixed": lambda rng: {"a": rng.randrange(99), "b": rng.random()},
    "variable": lambda rng: {"a": rng.randrange(99), "b": "x" * rng.randrange(9), "c": b"y"},
    "vector": lambda rng: {"a": rng.randrange(99), "b": [rng.random(), 2.0]},
}
PACKED_TYPES = {
    "fixed": pa.struct([("a", pa.int32()), ("b", pa.float64())]),
    "variable": pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.binary())]),
    "vector": pa.struct([("a", pa.int32()), ("b", pa.list_(pa.float32(), 2))]),
}


@pytest.mark.parametrize(
    ("kind", "version"),
    [("fixed", "2.1"), ("fixed", "2.2"), ("variable", "2.2"), ("vector", "2.2")],
)
async def test_packed_structs_are_read_by_both(tmp_path: Path, kind: str, version: str) -> None:
    rng = random.Random(kind)
    array = pa.array([PACKED[kind](rng) for _ in range(2000)], PACKED_TYPES[kind])
    field = pa.field("p", array.type, metadata={"lance-encoding:packed": "true"})
    uri = str(tmp_path / "table")
    lance.write_dataset(
        pa.table([array], schema=pa.schema([field])), uri, data_storage_version=version
    )
    await check(uri)


async def test_pages_of_many_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many batches make many pages; few values a chunk make rows that span chunks."""
    monkeypatch.setenv("LANCE_MINIBLOCK_MAX_VALUES", "64")
    rng = random.Random(5)
    arrays = shapes(rng)
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table(arrays), uri, data_storage_version="2.2")
    await check(uri)


async def check(uri: str) -> None:
    """Whole, in part, single rows; cold and warm."""
    theirs = lance.dataset(uri)
    count = theirs.count_rows()
    rng = random.Random(uri.rsplit("/", 1)[-1])
    rows = [rng.randrange(count) for _ in range(40)]
    cold = await alance.dataset(uri)
    assert_equal_rows(await cold.take(rows), theirs.take(rows))
    assert_equal_rows(await cold.to_table(), theirs.to_table())
    assert_equal_rows(await cold.take(rows[:3]), theirs.take(rows[:3]))
    start, length = count // 3, count // 2
    assert_equal_rows(
        await cold.to_table(offset=start, limit=length),
        theirs.to_table(offset=start, limit=length),
    )
