"""Many small fragments, whose pages are decoded together: the same rows as one by one."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import CorruptFileError
from alance.file.rows.whole import WholeRows
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from pathlib import Path


ROWS = 2000


def table(seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    n = np.arange(ROWS)
    words = np.array(["red", "green", "blue", "a longer colour name"])
    nulls = rng.random(ROWS) < 0.2
    nulls[:400] = False  # some fragments have none
    lists = [None if i % 11 == 3 else list(range(i % 5)) for i in range(ROWS)]
    quantities = [decimal.Decimal(int(q)) for q in rng.integers(1, 50, ROWS)]
    colours = words[rng.integers(0, 4, ROWS)]
    return pa.table(
        {
            "n": n,
            "some": pa.array(rng.integers(0, 9, ROWS), mask=nulls),
            "colour": pa.array(colours, mask=nulls),
            "coded": pa.array(colours.tolist()).dictionary_encode(),
            "text": [f"text number {i * 7919 % 10007} of many" for i in range(ROWS)],
            "quantity": pa.array(quantities, pa.decimal128(15, 2)),
            "flag": n % 3 == 0,
            "lists": pa.array(lists, pa.list_(pa.int32())),
            "pair": pa.array([{"a": int(i), "b": f"b{i % 4}"} for i in n]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(ROWS * 4)), 4),
            "same": pa.array([7] * ROWS),
            "none": pa.nulls(ROWS, pa.int64()),
        }
    )


def plain(result: pa.Table) -> pa.Table:
    """The same values, whatever the dictionaries of chunks."""
    for number, field in enumerate(result.schema):
        if pa.types.is_dictionary(field.type):
            result = result.set_column(number, field.name, result[field.name].cast(pa.string()))
    return result


def written(path: Path, rows: pa.Table, version: str, num_rows: int) -> str:
    lance.write_dataset(rows, str(path), max_rows_per_file=num_rows, data_storage_version=version)
    return str(path)


@pytest.mark.parametrize(("version", "num_rows"), thinned(["2.0", "2.1", "2.2"], [1, 37, 1000]))
async def test_small_fragments_have_the_rows_of_pylance(
    tmp_path: Path, version: str, num_rows: int
) -> None:
    rows = table() if num_rows > 1 else table().slice(300, 200)
    where = written(tmp_path / "t", rows, version, num_rows)
    result = await (await alance.dataset(where)).to_table()
    assert plain(result).equals(plain(lance.dataset(where).to_table()))
    assert plain(result).equals(plain(rows))


@pytest.mark.parametrize("num_rows", [15, 100])
async def test_deletions_filters_meta_columns(tmp_path: Path, num_rows: int) -> None:
    where = written(tmp_path / "t", table(), "2.1", num_rows)
    lance.dataset(where).delete("n % 7 = 2 or (n > 500 and n < 730)")
    lance.dataset(where).add_columns({"twice": "n * 2"})
    theirs, ours = lance.dataset(where), await alance.dataset(where)
    for condition in (None, "some = 4", "n % 100 = 5", "n >= 0", "colour = 'red'", "n < 0"):
        for columns in (None, ["colour", "n"], ["text"], ["twice", "pair"]):
            rows = await ours.to_table(columns=columns, filter=condition, with_row_id=True)
            result = theirs.to_table(columns=columns, filter=condition, with_row_id=True)
            result = result.select(rows.column_names)
            assert plain(rows).equals(plain(result)), (condition, columns)
    assert await ours.count_rows("some = 4") == theirs.count_rows("some = 4")
    batches = [to_batch async for to_batch in ours.to_batches(batch_size=10)]
    assert all(batch.num_rows <= 10 for batch in batches)
    assert plain(pa.Table.from_batches(batches)).equals(plain(theirs.to_table()))


async def test_fragments_of_other_columns_between(tmp_path: Path) -> None:
    where = written(tmp_path / "t", table().select(["n", "text"]), "2.1", 50)
    lance.dataset(where).add_columns({"twice": "n * 2"})
    lance.write_dataset(table(1).select(["n"]), where, mode="append", max_rows_per_file=50)
    lance.write_dataset(
        pa.table({"n": np.arange(90), "text": ["x"] * 90, "twice": np.arange(90)}),
        where,
        mode="append",
        max_rows_per_file=9,
    )
    assert (await (await alance.dataset(where)).to_table()).equals(lance.dataset(where).to_table())


async def test_no_column_of_usual_types_is_read_fragment_by_fragment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nested columns, pages with dictionaries and of one value are decoded by one call, too."""
    rows = table().drop_columns(["coded"])
    where = written(tmp_path / "t", rows, "2.1", 37)
    monkeypatch.setattr(WholeRows, "_one_by_one", lambda _: pytest.fail("one by one"))
    assert (await (await alance.dataset(where)).to_table()).equals(rows)
    dataset = await (await alance.dataset(where)).optimize.compact_files()
    assert len(dataset.fragments) == 1


@pytest.mark.parametrize(
    ("column", "number"), [("n", 0), ("colour", 0), ("lists", 0), ("pair", 1), ("coded", 0)]
)
@pytest.mark.parametrize("compacts", [False, True])
async def test_damage_is_found_and_named(
    tmp_path: Path, column: str, number: int, compacts: bool
) -> None:
    where = written(tmp_path / "t", table().select([column]), "2.1", 50)
    path = sorted((tmp_path / "t" / "data").iterdir())[17]
    async with alance.Session() as session:  # whose cache nobody else asks
        described = await (await alance.FileReader.open(str(path), session=session)).describe()
    content, start = bytearray(path.read_bytes()), described.columns[number].pages[0].start
    content[start : start + 2] = b"\xff\xff"  # the chunk words of the first page
    path.write_bytes(bytes(content))
    dataset = await alance.dataset(where)
    with pytest.raises(CorruptFileError) as caught:
        await (dataset.optimize.compact_files() if compacts else dataset.to_table())
    message = str(caught.value) + "".join(caught.value.__notes__)
    assert path.name in message
    assert f"page 0 of column {number}" in message
    assert f"in field {column!r}" in message
