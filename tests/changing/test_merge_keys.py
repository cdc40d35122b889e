"""Merges by keys of many kinds, and by keys that stand in several rows, as by pylance."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from tests.changing.both_ways import Twins, read, rows
from tests.changing.merges import BUDGETS, CLAUSES, KINDS, merge, source
from tests.reference.floats import TYPES, ranks, specials
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=KINDS)
def twins(request: pytest.FixtureRequest, tmp_path: Path) -> Twins:
    return Twins.make(tmp_path, **request.param)


KEYS: dict[str, tuple[pa.Array, pa.Array]] = {
    "NaN": (pa.array([float("nan"), 1.0]), pa.array([1.0, float("nan"), 2.0])),
    "half": (
        pa.array(np.array([1, 2], np.float16)),
        pa.array(np.array([-0.0, 2], np.float16)),
    ),
    "bool": (pa.array([True, False, None]), pa.array([None, True])),
    "int8": (pa.array([1, -1, None], pa.int8()), pa.array([-1, 2], pa.int8())),
    "string": (pa.array(["x", "", None, "é"]), pa.array(["", "é", "ab", None])),
    "large string": (
        pa.array(["x", "", None], pa.large_string()),
        pa.array(["", "y", None], pa.large_string()),
    ),
    "dictionary": (
        pa.array(["x", "y", None]).dictionary_encode(),
        pa.array(["z", "x", None]).dictionary_encode(),
    ),
    "binary": (pa.array([b"1", b""]), pa.array([b"", b"\0", b"1"])),
    "fixed binary": (
        pa.array([b"123", b"456"], pa.binary(3)),
        pa.array([b"456", b"457"], pa.binary(3)),
    ),
    "timestamp": (
        pa.array([1, 2, None], pa.timestamp("us", "UTC")),
        pa.array([3, 1], pa.timestamp("us", "UTC")),
    ),
    "date": (pa.array([1, 2], pa.date32()), pa.array([3, 1], pa.date32())),
    "decimal": (pa.array([1, 2], pa.decimal128(9, 2)), pa.array([2, 3], pa.decimal128(9, 2))),
    "struct": (
        pa.array([{"x": 1, "y": "a"}, {"x": 1, "y": "b"}]),
        pa.array([{"x": 1, "y": "b"}, {"x": 2, "y": "a"}]),
    ),
    "vector": (
        pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)),
        pa.array([[1.0, 2.0], [3.0, 5.0]], pa.list_(pa.float32(), 2)),
    ),
}


@pytest.mark.parametrize("kind", KEYS)
async def test_kinds_of_keys(tmp_path: Path, kind: str) -> None:
    old, new = KEYS[kind]
    table = pa.table({"k": old, "v": pa.array(range(len(old)), pa.int64())})
    data = pa.table({"k": new, "v": pa.array(range(100, 100 + len(new)), pa.int64())})
    twins = Twins.make(tmp_path, table, data_storage_version="2.2")
    await merge(twins, CLAUSES["upsert"], data, "k", BUDGETS[1])
    await merge(twins, CLAUSES["insert and delete others"], data.slice(1), "k")


@pytest.mark.parametrize(
    ("form", "kind"), thinned(["plain", "struct", "vector", "beside text"], [*TYPES])
)
async def test_equal_floats_are_equal_keys(tmp_path: Path, kind: str, form: str) -> None:
    """Every NaN matches every NaN, and 0.0 matches -0.0, which pylance tells apart."""

    def rows_of(values: pa.Array) -> pa.Table:
        count = pa.array(range(len(values)), pa.int64())
        keys = {
            "plain": lambda: values,
            "struct": lambda: pa.StructArray.from_arrays([values], ["m"]),
            "vector": lambda: pa.FixedSizeListArray.from_arrays(values, 1),
            "beside text": lambda: values,
        }[form]()
        return pa.table({"k": keys, "s": pa.array(["x"] * len(values)), "v": count})

    on = ["k", "s"] if form == "beside text" else "k"
    array = pa.array(specials(kind))
    distinct = {number: place for place, number in enumerate(ranks(array))}
    table = rows_of(array.take(pa.array([*distinct.values()])))  # of each the last
    dataset = await alance.write_dataset(table, tmp_path / "t")
    for value in array:
        data = rows_of(pa.repeat(value, 1))
        merge = dataset.merge_insert(on).when_matched_update_all().when_not_matched_insert_all()
        dataset = await merge.execute(data)
        assert dataset.summary["num_updated_rows"] == 1, value
        assert dataset.summary["num_inserted_rows"] == 0, value
    assert await dataset.count_rows() == len(distinct)


@pytest.mark.parametrize(
    "on", [["a", "b"], ["b", "a"], ["a", "a"], ["b", "c", "a"], ["A"]], ids=str
)
async def test_several_key_columns(tmp_path: Path, on: list[str]) -> None:
    def table(*triples: tuple[Any, Any, Any]) -> pa.Table:
        a, b, c = zip(*triples, strict=True)
        return pa.table(
            {
                "a": pa.array(a, pa.int32()),
                "b": pa.array(b, pa.string()),
                "c": pa.array(c, pa.int64()),
            }
        )

    twins = Twins.make(
        tmp_path, table((1, "x", 1), (2, "x", 2), (3, None, 3), (4, "", 4), (None, "y", 5))
    )
    await merge(
        twins,
        CLAUSES["upsert"],
        table((1, "x", 1), (2, "xx", 2), (3, None, 3), (4, "", 9), (None, "y", 5)),
        on,
        BUDGETS[1],
    )


async def test_several_rows_of_the_table_for_one(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path, pa.concat_tables([rows(0, 5), rows(2, 7)]))
    counts = await merge(twins, CLAUSES["upsert"], source(2, 3, 6, 8))
    assert counts["num_updated_rows"] == 5
    assert counts["num_inserted_rows"] == 1


async def test_several_rows_of_the_data_for_none(twins: Twins) -> None:
    counts = await merge(twins, CLAUSES["upsert"], source(70, 70, None, None))
    assert counts["num_inserted_rows"] == 4


async def test_several_rows_of_the_data_where_nothing_changes(twins: Twins) -> None:
    await merge(twins, CLAUSES["insert"], source(3, 3, 40))
    await merge(twins, CLAUSES["insert and delete others"], source(3, 3, 41))


async def test_a_condition_leaves_one_of_several_rows(twins: Twins) -> None:
    data = pa.concat_tables([source(3, 5), source(5)]).set_column(
        1, "v", pa.array([1.0, 2.0, 50.0])
    )
    await merge(twins, lambda m: m.when_matched_update_all("source.v > 10"), data)


def keyed(table: pa.Table) -> pa.Table:
    """The rows of a table with a primary key."""
    key = pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"})
    return table.cast(pa.schema([key, *list(table.schema)[1:]]))


@pytest.mark.parametrize("name", ["upsert", "update", "insert", "delete", "replace"])
async def test_the_primary_key_is_the_default_key(tmp_path: Path, name: str) -> None:
    """Not named, it is the key; and the transaction has a filter of it."""
    twins = Twins.make(tmp_path, keyed(rows(0, 6)))
    await merge(twins, CLAUSES[name], source(3, 9), None)
    await merge(twins, CLAUSES[name], source(9, 4), "id")


async def test_a_primary_key_is_not_inserted_twice(tmp_path: Path) -> None:
    """Whoever comes second is run again, and finds the row that was inserted."""
    twins = Twins.make(tmp_path, keyed(rows(0, 6)))
    ours, theirs = await alance.dataset(str(twins.ours)), lance.dataset(str(twins.ours))
    older = lance.dataset(str(twins.ours))
    upsert = CLAUSES["upsert"]
    first = await ours.upsert(source(50, 51))
    assert upsert(theirs.merge_insert("id")).execute(source(51, 52))["num_inserted_rows"] == 1
    second = await ours.upsert(source(52, 53))
    assert dict(second.summary) == {
        "num_inserted_rows": 1,
        "num_updated_rows": 1,
        "num_deleted_rows": 0,
    }
    others = await asyncio.gather(*(ours.upsert(source(60, 61 + index)) for index in range(4)))
    assert sum(other.summary["num_inserted_rows"] for other in others) == 5
    assert upsert(older.merge_insert("id")).execute(source(60, 70))["num_inserted_rows"] == 1
    ids = read(twins.ours).column("id").to_pylist()
    assert sorted(ids) == [*range(6), 50, 51, 52, 53, 60, 61, 62, 63, 64, 70]
    assert first.version == 2
    assert lance.dataset(str(twins.ours)).read_transaction(2) is not None


@pytest.mark.parametrize("on", [["id"], ["id", "v"], ["v", "id"]])
async def test_no_key_is_inserted_twice_by_merges_at_the_same_time(
    tmp_path: Path, on: list[str]
) -> None:
    """Also without a primary key: the later merge is run again, and finds the row."""
    twins = Twins.make(tmp_path, rows(0, 6))
    ours = await alance.dataset(str(twins.ours))
    data = [source(60, 61 + number) for number in range(4)]
    upsert = CLAUSES["upsert"]
    merges = [upsert(ours.merge_insert(on)).execute(table) for table in data]
    merged = await asyncio.gather(*merges)
    assert sum(dataset.summary["num_inserted_rows"] for dataset in merged) == 5
    ids = lance.dataset(str(twins.ours)).to_table(["id"])["id"].to_pylist()
    assert sorted(ids) == [*range(6), 60, 61, 62, 63, 64]
    lance.dataset(str(twins.ours)).merge_insert("id").when_not_matched_insert_all().execute(
        source(64, 65)
    )
    assert lance.dataset(str(twins.ours)).count_rows() == 12


async def test_merges_of_many_other_keys_are_not_run_again(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path, rows(0, 6))
    ours = await alance.dataset(str(twins.ours))
    operations = [
        (await CLAUSES["upsert"](ours.merge_insert("id")).execute_uncommitted(rows(low, high)))[0]
        for low, high in ((100, 5000), (5000, 9900), (9000, 9999))
    ]
    for operation in operations[:2]:
        await alance.commit(ours, operation)
    with pytest.raises(alance.RetryableConflictError, match="may insert rows of the same key"):
        await alance.commit(ours, operations[2])
    theirs = lance.dataset(str(twins.ours))
    assert theirs.count_rows() == 6 + 9800
    assert theirs.read_transaction(3) is not None


async def test_without_a_primary_key_other_writers_are_no_conflict(tmp_path: Path) -> None:
    """Appends, updates and merges by another column at the same time are all kept."""
    twins = Twins.make(tmp_path, rows(0, 6))
    ours = await alance.dataset(str(twins.ours))
    upsert = CLAUSES["upsert"](ours.merge_insert("id"))
    operation, _ = await upsert.execute_uncommitted(source(70))
    await ours.insert(rows(80, 81))
    await (await ours.checkout_latest()).update({"v": "v + 1"}, "id = 3")
    await CLAUSES["insert"](ours.merge_insert("v")).execute(rows(90, 91))
    await alance.commit(ours, operation)
    ids = lance.dataset(str(twins.ours)).to_table(["id"])["id"].to_pylist()
    assert sorted(ids) == [*range(6), 70, 80, 90]


async def test_many_keys_are_inserted(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path, keyed(rows(0, 6)))
    ours = await alance.dataset(str(twins.ours))
    results = await asyncio.gather(
        ours.upsert(keyed(rows(0, 5000))), ours.upsert(keyed(rows(4000, 9000)))
    )
    assert sum(item.summary["num_inserted_rows"] for item in results) == 9000 - 6
    assert await (await ours.checkout_latest()).count_rows() == 9000
