"""Batches of few rows and files of few rows: what they cost does not grow with their number."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.file.write import page_writer
from alance.file.write.small_batches import ENOUGH_BYTES, ENOUGH_ROWS, SmallBatches, merged
from alance.ops.write import sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("name", pa.string())])
PARTS = -(-100_000 // ENOUGH_ROWS)  # what 100,000 rows are for the encoder


def rows(start: int, count: int) -> pa.RecordBatch:
    numbers = range(start, start + count)
    columns = [list(numbers), [n / 7 for n in numbers], [f"name {n % 50}" for n in numbers]]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def small_batches(num_batches: int = 1000) -> Iterator[pa.RecordBatch]:
    """Return batches of 100 rows each, as views of one batch."""
    whole = rows(0, num_batches * 100)
    return (whole.slice(start, 100) for start in range(0, whole.num_rows, 100))


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each call by which the encoder takes rows of a column."""
    calls: list[int] = []
    leaf_values = page_writer.leaf_values

    def counting(field: Any, array: pa.Array) -> Any:
        calls.append(len(array))
        return leaf_values(field, array)

    monkeypatch.setattr(page_writer, "leaf_values", counting)
    monkeypatch.setattr(sources, "COLLECTION_S", 60.0)
    return calls


def ids(path: Path) -> list[int]:
    return lance.dataset(path).to_table(columns=["id"])["id"].to_pylist()  # type: ignore[no-any-return]


async def test_the_encoder_takes_small_batches_by_thousands_of_rows(
    tmp_path: Path, added: list[int]
) -> None:
    reader = pa.RecordBatchReader.from_batches(SCHEMA, small_batches())
    with alance.trace() as recorder:
        await alance.write_dataset(reader, tmp_path / "t")
    assert len(added) <= 3 * PARTS
    # A hop each to ask for rows, to join them, and for each thread that encodes; and to the end.
    assert len(recorder.hops) <= 4 * PARTS + 12
    assert ids(tmp_path / "t") == list(range(100_000))


async def test_a_stream_of_small_batches_costs_no_more(tmp_path: Path, added: list[int]) -> None:
    async with alance.ingest(tmp_path / "t", SCHEMA, commit_interval=None) as sink:
        for batch in small_batches():
            await sink.write(batch)
        assert sink.metrics.num_rows == 100_000
    assert len(added) <= 3 * PARTS
    assert ids(tmp_path / "t") == list(range(100_000))


@pytest.mark.parametrize("verb", ["append", "merge", "add_columns"])
async def test_all_that_write_join_small_batches(
    tmp_path: Path, added: list[int], verb: str
) -> None:
    dataset = await alance.write_dataset(rows(0, 10), tmp_path / "t")
    added.clear()
    reader = pa.RecordBatchReader.from_batches(SCHEMA, small_batches(200))
    match verb:
        case "append":
            await dataset.insert(reader)
        case "merge":
            await dataset.merge_insert("id").when_not_matched_insert_all().execute(reader)
        case _:
            whole = await alance.write_dataset(rows(0, 20_000), tmp_path / "u")
            added.clear()
            new = pa.schema([("y", pa.int64())])
            columns = (
                pa.RecordBatch.from_arrays([batch.column(0)], schema=new)
                for batch in small_batches(200)
            )
            await whole.add_columns(pa.RecordBatchReader.from_batches(new, columns))
    assert len(added) <= 3 * 4


async def test_files_of_few_rows_take_a_hop_each(tmp_path: Path) -> None:
    with alance.trace() as recorder:
        await alance.write_dataset(rows(0, 500), tmp_path / "t", max_rows_per_file=10)
    assert len(recorder.hops) <= 50 + 4
    assert len(list((tmp_path / "t/data").iterdir())) == 50
    assert ids(tmp_path / "t") == list(range(500))


@pytest.mark.parametrize("max_rows", [30, 250, 9000])
async def test_files_have_as_many_rows_as_they_may(tmp_path: Path, max_rows: int) -> None:
    reader = pa.RecordBatchReader.from_batches(SCHEMA, small_batches(200))
    await alance.write_dataset(reader, tmp_path / "t", max_rows_per_file=max_rows)
    counts = [part.physical_rows for part in lance.dataset(tmp_path / "t").get_fragments()]
    assert counts[:-1] == [max_rows] * (len(counts) - 1)
    assert sum(counts) == 20_000


async def test_files_end_where_their_bytes_are_enough(tmp_path: Path) -> None:
    reader = pa.RecordBatchReader.from_batches(SCHEMA, small_batches(200))
    await alance.write_dataset(reader, tmp_path / "t", max_bytes_per_file=50_000)
    sizes = [file.stat().st_size for file in (tmp_path / "t/data").iterdir()]
    assert len(sizes) > 5
    assert max(sizes) < 100_000
    assert ids(tmp_path / "t") == list(range(20_000))


async def test_what_came_before_an_error_is_accepted(tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from small_batches(3)
        raise ZeroDivisionError

    async with alance.ingest(tmp_path / "t", SCHEMA) as sink:
        with pytest.raises(ZeroDivisionError):
            await sink.write(failing())
    assert ids(tmp_path / "t") == list(range(300))


NO_MAPS = ("map", "2.1")
TYPES: dict[str, list[pa.Array]] = {
    "bool": [pa.array([True, None, False]), pa.array([False] * 5)],
    "text": [pa.array(["a", None, ""]), pa.array(["b" * 300])],
    "dictionary": [
        pa.array(["x", "y", None]).dictionary_encode(),
        pa.array(["z", "x"]).dictionary_encode(),
    ],
    "vector": [
        pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
        pa.array([[3.0, 4.0]], pa.list_(pa.float32(), 2)),
    ],
    "lists": [
        pa.array([[{"a": [1]}, None], None, []], pa.list_(pa.struct([("a", pa.list_(pa.int8()))]))),
        pa.array([[{"a": None}]], pa.list_(pa.struct([("a", pa.list_(pa.int8()))]))),
    ],
    "null": [pa.nulls(2), pa.nulls(3)],
    "map": [
        pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
        pa.array([[], [("l", None)]], pa.map_(pa.string(), pa.int32())),
    ],
}


@pytest.mark.parametrize(
    ("name", "version"),
    [(name, version) for name in TYPES for version in ("2.1", "2.2") if (name, version) != NO_MAPS],
)
async def test_joined_rows_are_those_that_came(tmp_path: Path, name: str, version: str) -> None:
    """Slices, too, of arrays that begin with other rows."""
    arrays = [array.slice(skip) for array in TYPES[name] for skip in (0, 1)]
    batches = [pa.RecordBatch.from_arrays([array], ["c"]) for array in arrays if len(array)]
    table = await alance.write_dataset(
        iter(batches), tmp_path / "t", schema=batches[0].schema, data_storage_version=version
    )
    values = [value for batch in batches for value in batch.column(0).to_pylist()]
    assert (await table.to_table())["c"].to_pylist() == values
    assert lance.dataset(tmp_path / "t").to_table()["c"].to_pylist() == values


def test_large_batches_wait_for_none_and_are_not_copied() -> None:
    waiting = SmallBatches()
    small, large = rows(0, 10), rows(0, ENOUGH_ROWS)
    assert waiting.add(small) == ()
    assert waiting.add(large) == [small]
    assert waiting.are_enough
    (alone,) = merged(waiting.take())
    assert alone is large


def test_slices_of_several_large_batches_do_not_keep_all_of_these() -> None:
    waiting = SmallBatches()
    first, second = rows(0, 50_000), rows(0, 50_000)
    assert waiting.add(first.slice(0, 10)) == ()
    assert waiting.add(first.slice(10, 10)) == ()
    assert len(waiting.add(second.slice(0, 10))) == 2
    assert waiting.num_rows == 10


def test_sizes_of_slices_are_about_right() -> None:
    whole = pa.record_batch({"n": pa.array(range(100_000))})
    waiting = SmallBatches()
    sizes = []
    for start in range(0, 8000, 100):
        waiting.add(whole.slice(start, 100))
        sizes.append(waiting.num_bytes)
    assert {after - before for before, after in pairwise(sizes)} == {800}


def test_wide_rows_are_enough_sooner() -> None:
    waiting = SmallBatches()
    added = 0
    while not waiting.are_enough:
        waiting.add(pa.record_batch({"blob": [bytes(100_000)]}))
        added += 1
    assert added == -(-ENOUGH_BYTES // 100_000)
    assert len(merged(waiting.take())) == 1


def test_batches_of_several_types_stay_apart() -> None:
    batches = [pa.record_batch({"a": [1]}), pa.record_batch({"a": ["x"]})]
    assert merged(batches) is batches
