"""Scans of many columns: one call of the kernel a part, and the same values as pylance gives."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import alance
from alance.errors import CorruptFileError
from alance.file.rows.tasks import ColumnsShare, FragmentTask
from alance.format.schema import Schema

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 20_000
PAGED = ("2.1", "2.2", "2.3")


def table() -> pa.Table:
    """Columns of every kind of page that the kernel takes, with and without nulls."""
    rng = np.random.default_rng(5)
    nulls = rng.random(ROWS) < 0.2
    runs = np.repeat(rng.integers(0, 50, ROWS // 100), 100)
    words = [f"word {i * 7919 % 10007} of the column" for i in range(ROWS)]
    few = pa.array([f"k{i}" for i in range(40)])
    cents = [decimal.Decimal(int(i)) / 100 for i in rng.integers(0, 10**6, ROWS)]
    values = {
        "packed": rng.integers(0, 1000, ROWS),
        "flat": rng.random(ROWS),
        "bytes": rng.integers(0, 200, ROWS).astype(np.uint8),
        "runs": runs,
        "flags": rng.random(ROWS) < 0.5,
        "words": words,
        "few": few.take(pa.array(rng.integers(0, 40, ROWS))),
        "ids": [f"{number:032x}" for number in rng.integers(0, 1 << 60, ROWS).tolist()],
        "umlauts": [f"ä{i % 97}€" for i in range(ROWS)],
        "cents": pa.array(cents, pa.decimal128(12, 2)),
        "days": pa.array(rng.integers(0, 20_000, ROWS).astype(np.int32), pa.date32()),
        "large": pa.array(words, pa.large_string()),
        "blob": pa.array([text.encode() for text in words], pa.binary()),
        "codes": numbers_in_lists(rng.integers(0, 256, 16 * ROWS).astype(np.uint8), 16),
        "halves": numbers_in_lists(rng.random(3 * ROWS).astype(np.float16), 3),
        "pairs": numbers_in_lists(rng.random(2 * ROWS), 2),
    }
    arrays = {name: pa.array(column) for name, column in values.items()}
    mask = pa.array(nulls)
    arrays |= {
        f"some_{name}": pa.compute.if_else(mask, pa.scalar(None, array.type), array)
        for name, array in arrays.items()
    }
    gaps = pa.array(rng.random(4 * ROWS), mask=rng.random(4 * ROWS) < 0.1)
    arrays["gaps"] = pa.FixedSizeListArray.from_arrays(gaps, 4)
    arrays["last_null"] = pa.array([*range(ROWS - 1), None], pa.int32())
    return pa.table(arrays)


def numbers_in_lists(numbers: np.ndarray, dim: int) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers), dim)


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return table()


@pytest.fixture(scope="module", params=PAGED)
def opened(
    request: pytest.FixtureRequest, rows: pa.Table, tmp_path_factory: pytest.TempPathFactory
) -> lance.LanceDataset:
    path = str(tmp_path_factory.mktemp("wide") / "t.lance")
    return lance.write_dataset(rows, path, data_storage_version=request.param)


async def scanned(uri: str, **options: object) -> pa.Table:
    dataset = await alance.dataset(uri)
    batches = [batch async for batch in dataset.to_batches(**options)]  # type: ignore[arg-type]
    return pa.Table.from_batches(batches)


def check(table: pa.Table, expected: pa.Table) -> None:
    table.validate(full=True)
    for name in expected.column_names:
        assert table[name].combine_chunks().equals(expected[name].combine_chunks()), name


async def test_all_kinds_of_pages_are_read_as_pylance_reads_them(
    opened: lance.LanceDataset, rows: pa.Table
) -> None:
    check(await scanned(opened.uri), rows)


@pytest.mark.parametrize("batch_size", [777, 1024, 5000])
async def test_parts_begin_and_end_anywhere_in_a_chunk(
    opened: lance.LanceDataset, rows: pa.Table, batch_size: int
) -> None:
    check(await scanned(opened.uri, batch_size=batch_size), rows)


async def test_ranges_that_cross_pages_are_put_together(tmp_path: Path) -> None:
    path, count = str(tmp_path / "t.lance"), 1_200_000
    rng = np.random.default_rng(2)
    mask = rng.random(count) < 0.1
    long = pa.table(
        {
            "numbers": rng.integers(0, 1 << 62, count),
            "floats": pa.array(rng.random(count), mask=mask),
            "texts": pa.array(rng.integers(0, 1 << 60, count)).cast(pa.string()),
            "flags": pa.array(rng.random(count) < 0.5, mask=mask),
        }
    )
    lance.write_dataset(long, path, data_storage_version="2.1")
    check(await scanned(path, batch_size=300_000), long)


async def test_what_we_write_is_read_the_same(rows: pa.Table, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    await alance.write_dataset(rows, uri)
    check(await scanned(uri, batch_size=4000), rows)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, ROWS - 1), st.integers(1, ROWS))
def test_any_range_of_rows_is_a_slice_of_all(
    narrow: tuple[alance.sync.Dataset, pa.Table], start: int, count: int
) -> None:
    dataset, expected = narrow
    check(dataset.to_table(offset=start, limit=count), expected.slice(start, count))


@pytest.fixture(scope="module")
def narrow(
    rows: pa.Table, tmp_path_factory: pytest.TempPathFactory
) -> tuple[alance.sync.Dataset, pa.Table]:
    import alance.sync

    names = ["packed", "some_runs", "some_flags", "words", "some_few", "some_ids", "last_null"]
    names += ["codes", "some_halves", "gaps"]
    path = str(tmp_path_factory.mktemp("narrow") / "t.lance")
    lance.write_dataset(rows.select(names), path, data_storage_version="2.1")
    return alance.sync.dataset(path), rows.select(names)


def numbers(num_columns: int) -> pa.Table:
    column = pa.array(np.arange(ROWS, dtype=np.int32))
    return pa.table({f"c{number}": column for number in range(num_columns)})


@pytest.mark.parametrize("num_columns", [200, 400])
async def test_a_part_is_one_call_of_the_kernel_whatever_the_number_of_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_columns: int
) -> None:
    calls = 0
    decode = ColumnsShare.decode

    def counted(self: ColumnsShare, *arguments: object) -> object:
        nonlocal calls
        calls += 1
        return decode(self, *arguments)  # type: ignore[arg-type]

    def never(*arguments: object) -> None:
        raise AssertionError("a column was decoded by itself")

    path = str(tmp_path / "t.lance")
    lance.write_dataset(numbers(num_columns), path, data_storage_version="2.1")
    monkeypatch.setattr(ColumnsShare, "decode", counted)
    monkeypatch.setattr(FragmentTask, "column", never)
    dataset = await alance.dataset(path)
    batches = [batch async for batch in dataset.to_batches()]
    assert calls == len(batches) <= 3


async def test_lists_of_numbers_are_decoded_beside_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object) -> None:
        raise AssertionError("a column was decoded by itself")

    path = str(tmp_path / "t.lance")
    count = 10 * ROWS
    codes = np.random.default_rng(3).integers(0, 256, 16 * count).astype(np.uint8)
    table = pa.table({"id": range(count), "code": numbers_in_lists(codes, 16)})
    lance.write_dataset(table, path, data_storage_version="2.1")
    monkeypatch.setattr(FragmentTask, "column", never)
    check(await scanned(path), table)


async def test_maps_json_and_lists_of_vectors_are_decoded_beside_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object) -> None:
        raise AssertionError("a column was decoded by itself")

    path, count = str(tmp_path / "t.lance"), 3 * ROWS
    vector = pa.list_(pa.float32(), 4)
    entries = [None if row % 7 == 0 else [(f"k{row}", row), ("", None)] for row in range(count)]
    vectors = [None if row % 5 == 0 else [[float(row)] * 4] * (row % 3) for row in range(count)]
    documents = [None if row % 3 == 0 else f'{{"a":{row}}}' for row in range(count)]
    table = pa.table(
        {
            "id": range(count),
            "map": pa.array(entries, pa.map_(pa.string(), pa.int64())),
            "vectors": pa.array(vectors, pa.list_(vector)),
            "struct": pa.array(
                [None if row % 4 == 0 else {"v": [row] * 4} for row in range(count)],
                pa.struct([("v", vector)]),
            ),
            "json": pa.array(documents, pa.json_()),
        }
    )
    lance.write_dataset(table, path, data_storage_version="2.2")
    monkeypatch.setattr(FragmentTask, "column", never)
    check(await scanned(path), table)
    rows = [count - 1, 0, 5, 5, 21]
    async with alance.Session() as session:
        taken = await (await alance.dataset(path, session=session)).take(rows)
    check(taken, table.take(rows))


async def test_columns_that_the_kernel_does_not_take_stand_beside_the_others(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(1)
    count = 50_000
    mixed = pa.table(
        {
            "a": rng.integers(0, 1 << 40, count),
            "none": pa.nulls(count, pa.int32()),
            "b": rng.random(count),
            "lists": pa.array([[1] * (i % 3) for i in range(count)]),
            "pair": pa.array([{"x": i, "y": str(i)} for i in range(count)]),
            "same": np.full(count, 7),
            "c": [f"text {i}" for i in range(count)],
        }
    )
    path = str(tmp_path / "t.lance")
    lance.write_dataset(mixed, path, data_storage_version="2.1")
    check(await scanned(path), lance.dataset(path).to_table())
    check(await scanned(path, columns=["c", "none", "a"]), mixed.select(["c", "none", "a"]))


async def test_an_error_names_field_and_page(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(
        pa.table({"good": range(100_000), "bad": [f"wörd {i}" for i in range(100_000)]}),
        str(path),
        data_storage_version="2.1",
    )
    (file,) = (path / "data").iterdir()
    content = file.read_bytes()
    file.write_bytes(content.replace("wörd".encode(), b"w\xff\xffrd"))
    with pytest.raises(CorruptFileError, match="UTF-8") as caught:
        await scanned(str(path))
    assert "in field 'bad'" in caught.value.__notes__


def test_a_name_is_looked_up_among_many() -> None:
    arrow = numbers(50).schema
    schema = Schema.from_arrow(arrow)
    assert schema.project(["c7", "c49"]).by_name.keys() == {"c7", "c49"}
    assert schema.field("c31") is schema.fields[31]
