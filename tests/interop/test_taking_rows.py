"""Rows taken in one call of the kernel, from files and from memory."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import AlanceError, CorruptFileError
from alance.file.rows.tasks import ColumnsShare
from alance.io.reading.scheduler import Scheduler
from tests.reference.compare import assert_equal_rows
from tests.reference.thinned import paired

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from alance.format.plans import Reader

ROWS = 5000
HINTS: list[dict[str, str]] = [
    {},
    {"compression": "none"},
    {"compression": "fsst"},
    {"rle-threshold": "0.99", "bss": "off"},
    {"bss": "on", "compression": "none"},
    {"dict-divisor": "1", "dict-size-ratio": "1.0"},
    {"structural-encoding": "fullzip"},
    {"minichunk-size": "256"},
]


@cache
def columns(nulls: float) -> dict[str, pa.Array]:
    """The same for all tests: of Python objects, it takes longer to make than to write and read."""
    rng = random.Random(1)

    def with_nulls(values: list[Any]) -> list[Any]:
        return [None if rng.random() < nulls else value for value in values]

    numbers = [rng.randrange(-100, 100) for _ in range(ROWS)]
    runs = [n // 200 for n in range(ROWS)]
    text = ["".join(rng.choices("lance of arrow", k=rng.randrange(20))) for _ in range(ROWS)]
    return {
        "small": pa.array(with_nulls(numbers), pa.int16()),
        "wide": pa.array(with_nulls([n << 50 for n in numbers]), pa.int64()),
        "bytes": pa.array(with_nulls([n & 127 for n in numbers]), pa.int8()),
        "runs": pa.array(with_nulls(runs), pa.int32()),
        "runs of nulls": pa.array([None if n // 700 % 2 else n for n in range(ROWS)], pa.uint32()),
        "floats": pa.array(with_nulls([n / 7 for n in numbers]), pa.float32()),
        "doubles": pa.array(with_nulls([n / 7 for n in numbers]), pa.float64()),
        "flags": pa.array(with_nulls([n > 3 for n in numbers]), pa.bool_()),
        "money": pa.array(with_nulls(numbers), pa.decimal128(20, 2)),
        "days": pa.array(with_nulls([abs(n) for n in numbers]), pa.date32()),
        "text": pa.array(with_nulls(text), pa.string()),
        "large text": pa.array(with_nulls(text), pa.large_string()),
        "words": pa.array(with_nulls([item[:2] for item in text]), pa.string()),
        "vectors": pa.array(with_nulls([[n, 1.5] for n in numbers]), pa.list_(pa.float32(), 2)),
        "fixed": pa.array(with_nulls([b"abcde"] * ROWS), pa.binary(5)),
        **nested(rng, with_nulls, text),
    }


def nested(
    rng: random.Random, sample: Callable[[list[Any]], list[Any]], text: list[str]
) -> dict[str, pa.Array]:
    def lists(values: Callable[[], Any], longest: int) -> list[list[Any]]:
        return [sample([values() for _ in range(rng.randrange(longest))]) for _ in range(ROWS)]

    def number() -> int:
        return rng.randrange(1000)

    def word() -> str:
        return rng.choice(text)

    structs = [{"a": number(), "b": word(), "c": [number(), None]} for _ in range(ROWS)]
    long = [[number()] * (3000 if n % 900 == 7 else n % 3) for n in range(ROWS)]
    return {
        "lists": pa.array(sample(lists(number, 6)), pa.list_(pa.int32())),
        "lists of text": pa.array(sample(lists(word, 5)), pa.list_(pa.string())),
        "lists of lists": pa.array(
            sample(lists(lambda: [number()] * rng.randrange(3), 4)), pa.list_(pa.list_(pa.int64()))
        ),
        "long lists": pa.array(sample(long), pa.list_(pa.int32())),
        "structs": pa.array(sample(structs)),
        "lists of structs": pa.array(
            sample(lists(lambda: {"x": number(), "y": word()}, 4)),
        ),
        "maps": pa.array(
            sample([[("k", number())] * (n % 3) for n in range(ROWS)]),
            pa.map_(pa.string(), pa.int32()),
        ),
    }


class Counted:
    """Counter of the kernel's calls that decode rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        decode = ColumnsShare.decode

        def counting(share: ColumnsShare, read: Reader) -> pa.RecordBatch | None:
            self.count += 1
            return decode(share, read)

        monkeypatch.setattr(ColumnsShare, "decode", counting)


@pytest.mark.parametrize(
    ("version", "number", "nulls"), paired(["2.1", "2.2"], range(len(HINTS)), [0.0, 0.3])
)
async def test_files_and_memory_give_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, version: str, nulls: float
) -> None:
    metadata = {f"lance-encoding:{key}": value for key, value in HINTS[number].items()}
    rng = random.Random(number)
    arrays = dict(columns(nulls))
    fields = [pa.field(name, array.type, metadata=metadata) for name, array in arrays.items()]
    if version == "2.1":  # which has no maps
        arrays.pop("maps")
        fields.pop()
    table = pa.table(list(arrays.values()), schema=pa.schema(fields))
    uri = str(tmp_path / "table")
    lance.write_dataset(table, uri, data_storage_version=version, max_rows_per_file=ROWS // 2 + 99)
    counted = Counted(monkeypatch)
    async with alance.Session() as session:
        ds = await alance.dataset(uri, session=session)
        for count in (1, 7, 400, ROWS):
            rows = rng.choices(range(ROWS), k=count)
            expected = table.take(rows)
            before = counted.count
            assert_equal_rows(await ds.take(rows), expected)
            assert counted.count > before
            with monkeypatch.context() as patched:
                patched.setattr(Scheduler, "reader", lambda *_: None)
                assert_equal_rows(await ds.take(rows), expected)


async def test_with_meta_columns_and_nested_fields_beside(tmp_path: Path) -> None:
    nested = pa.array([{"a": n, "b": [n, None]} if n % 3 else None for n in range(900)])
    table = pa.table({"n": range(900), "s": nested, "t": [str(n) for n in range(900)]})
    uri = str(tmp_path / "table")
    written = lance.write_dataset(table, uri, max_rows_per_file=400)
    written.delete("n % 10 = 4")
    ds = await alance.dataset(uri)
    rows = [5, 700, 5, 13, 399, 400]
    taken = await ds.take(rows, ["t", "s", "_rowaddr", "n"])
    expected = written.take(rows)
    for name in ("t", "s", "n"):
        assert taken[name].to_pylist() == expected[name].to_pylist()
    addresses = np.array(taken["_rowaddr"].to_pylist())
    assert (await ds.take_addresses(addresses, ["n"]))["n"].equals(taken["n"])


@pytest.mark.parametrize("seed", range(40))
async def test_spoiled_chunks_are_refused_or_read(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    hint = rng.choice(HINTS)
    metadata = {f"lance-encoding:{key}": value for key, value in hint.items()}
    arrays = columns(rng.choice([0.0, 0.3]))
    fields = [pa.field(name, array.type, metadata=metadata) for name, array in arrays.items()]
    table = pa.table(list(arrays.values()), schema=pa.schema(fields))
    uri = tmp_path / "table"
    lance.write_dataset(table, str(uri), data_storage_version="2.2")
    (path,) = (uri / "data").iterdir()
    content = bytearray(path.read_bytes())
    async with alance.Session() as session:
        ds = await alance.dataset(uri, session=session)
        await ds.take([0])  # what is known of the pages is right; then the chunks are spoiled
        for _ in range(len(content) // 60):
            content[rng.randrange(len(content) * 9 // 10)] = rng.randrange(256)
        with path.open("r+b") as file:
            file.write(content)
        for count in (3, 200, ROWS):
            with suppress(AlanceError):
                assert (await ds.take(rng.sample(range(ROWS), count))).num_rows == count


async def test_a_file_that_got_shorter_is_refused(tmp_path: Path) -> None:
    uri = tmp_path / "table"
    lance.write_dataset(pa.table({"a": np.random.default_rng(1).random(50_000)}), str(uri))
    async with alance.Session() as session:
        ds = await alance.dataset(uri, session=session)
        await ds.take([0, 49_000])
        (path,) = (uri / "data").iterdir()
        with path.open("r+b") as file:
            file.truncate(1000)
        with pytest.raises(CorruptFileError, match="ends"):
            await ds.take([0, 49_000])
