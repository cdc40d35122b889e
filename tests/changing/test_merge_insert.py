"""Merges, the same as pylance's for the same call: messages, rows, row ids and versions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError
from alance.ops import merge_rows
from tests.changing.both_ways import META, Twins, files_of, latest, plain, read, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Clauses = Callable[[Any], Any]

KINDS = [
    pytest.param({}, id="addresses"),
    pytest.param({"enable_stable_row_ids": True, "data_storage_version": "2.2"}, id="stable-2.2"),
]
CLAUSES: dict[str, Clauses] = {
    "upsert": lambda merge: merge.when_matched_update_all().when_not_matched_insert_all(),
    "update": lambda merge: merge.when_matched_update_all(),
    "insert": lambda merge: merge.when_not_matched_insert_all(),
    "delete": lambda merge: merge.when_matched_delete(),
    "delete and insert": lambda m: m.when_matched_delete().when_not_matched_insert_all(),
    "if": lambda m: m.when_matched_update_all(
        "source.v > target.v and target.s is not null"
    ).when_not_matched_insert_all(),
    "if nothing": lambda merge: merge.when_matched_update_all("source.v < 0 and target.id > 3"),
    "if unknown": lambda merge: merge.when_matched_update_all("source.s > target.s"),
    "others": lambda merge: merge.when_not_matched_by_source_delete(),
    "some others": lambda merge: merge.when_not_matched_by_source_delete("v > 10 and s <> 's9'"),
    "replace": lambda m: (
        m.when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete()
    ),
    "replace some": lambda m: (
        m.when_matched_update_all("source.id <> 7")
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete("id >= 10")
    ),
    "insert and delete others": lambda m: (
        m.when_not_matched_insert_all().when_not_matched_by_source_delete()
    ),
    "the last word": lambda merge: merge.when_matched_delete().when_matched_update_all(),
}
BUDGETS = [1 << 28, 1]  # bytes: all in memory, all on the disk and in many parts


@pytest.fixture(params=KINDS)
def twins(request: pytest.FixtureRequest, tmp_path: Path) -> Twins:
    return Twins.make(tmp_path, **request.param)


def source(*ids: int | None) -> pa.Table:
    """Rows as of `rows`, with other values."""
    table = rows(0, len(ids))
    values = pa.array([None if one is None else one * 2.0 for one in ids], pa.float64())
    return table.set_column(0, "id", pa.array(ids, pa.int64())).set_column(1, "v", values)


async def merge(
    twins: Twins, clauses: Clauses, data: pa.Table, on: Any = "id", memory: int = BUDGETS[0]
) -> dict[str, Any]:
    """The same merge by both; what they leave must be the same, but for the order of new rows."""
    told = clauses(lance.dataset(str(twins.theirs)).merge_insert(on)).execute(data)
    ours = await alance.dataset(str(twins.ours))
    given = data if memory == BUDGETS[0] else data.to_reader(max_chunksize=3)
    changed = await clauses(ours.merge_insert(on)).memory_budget(memory).execute(given)
    assert dict(changed.summary) == told
    mine, other = latest(twins.ours), latest(twins.theirs)
    assert mine.transaction is not None
    assert other.transaction is not None
    assert unordered(mine.transaction) == unordered(other.transaction)
    assert unordered(mine.message) == unordered(other.message)
    found, expected = read(twins.ours), read(twins.theirs)
    assert found.schema.equals(expected.schema, check_metadata=True)
    if mine.has_stable_row_ids:
        assert by_value(found, *META[2:]) == by_value(expected, *META[2:])
        moved = updated_ids(found)
        assert moved == updated_ids(expected)
    else:
        assert by_value(found) == by_value(expected)
    return dict(told)


def unordered(message: Any) -> Any:
    """A message without what says in which order rows stand in new fragments."""
    found = plain(message)

    def without(value: Any) -> None:
        if isinstance(value, dict):
            if "row ids" in value:
                for name in ("row ids", "created"):
                    value[name] = sorted(value[name] or [])
            for one in value.values():
                without(one)
        elif isinstance(value, list):
            for one in value:
                without(one)

    without(found)
    return found


def by_value(table: pa.Table, *more: str) -> list[str]:
    names = [name for name in table.column_names if name not in META]
    return sorted(map(str, table.select([*names, *more]).to_pylist()))


def updated_ids(table: pa.Table) -> set[tuple[Any, int]]:
    """The rows that are not new in their version, and their row ids."""
    created, updated = (table.column(name) for name in META[2:])
    return {
        (row["id"], row["_rowid"])
        for row, one, two in zip(table.to_pylist(), created, updated, strict=True)
        if one != two or one.as_py() == 1
    }


@pytest.mark.parametrize("name", CLAUSES)
async def test_clauses(twins: Twins, name: str) -> None:
    clauses = CLAUSES[name]
    await merge(twins, clauses, source(3, 4, 5, 7, 9, 25, 26, None), memory=BUDGETS[1])
    await merge(twins, clauses, source(26, 5, 1, 25, 30))
    await merge(twins, clauses, source(), memory=BUDGETS[1])
    lance.dataset(str(twins.ours)).merge_insert("id").when_matched_delete().execute(source(1, 30))
    found = await (await alance.dataset(str(twins.ours))).to_table(["id"])
    assert not {1, 30} & set(found.column("id").to_pylist())


@pytest.mark.parametrize("columns", [["id", "s"], ["n", "v", "id"], ["id"]], ids=str)
@pytest.mark.parametrize("name", ["upsert", "update", "insert", "delete", "replace", "others"])
async def test_columns_that_the_data_lacks(tmp_path: Path, name: str, columns: list[str]) -> None:
    for number, options in enumerate(
        (
            {"enable_v2_manifest_paths": False},
            {"enable_stable_row_ids": True},
        )
    ):
        twins = Twins.make(tmp_path / str(number), **options)
        data = source(3, 4, 5, 7, 9, 25, None).select(columns)
        await merge(twins, CLAUSES[name], data, memory=BUDGETS[1 - number])
        await merge(
            twins, CLAUSES[name], source(25, 4, 19).select(columns[::-1]), "id", BUDGETS[number]
        )


def bits(*values: int) -> pa.Array:
    return pa.array(np.array(values, np.uint64).view(np.float64))


KEYS: dict[str, tuple[pa.Array, pa.Array]] = {
    "zeros": (pa.array([0.0, 1.0]), pa.array([-0.0, 1.0])),
    "NaN": (pa.array([float("nan"), 1.0]), pa.array([1.0, float("nan"), 2.0])),
    "other NaNs": (bits(0x7FF8000000000000), bits(0x7FF8000000000001, 0xFFF8000000000000)),
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


async def test_conditions_name_columns_in_many_ways(twins: Twins) -> None:
    data = source(3, 4, 5).select(["id", "s"])
    for condition in ("v > 5", "target.id <> 4", "target.n.a = 3", "target._rowid > 3", "1 = 1"):
        await merge(twins, lambda m, c=condition: m.when_matched_update_all(c), data)  # type: ignore[misc]


async def test_after_deletions(twins: Twins) -> None:
    await twins.change("delete", "id in (3, 7, 8, 15, 16, 17, 18, 19)")
    await merge(twins, CLAUSES["replace"], source(2, 3, 8, 9, 19))
    await twins.change("update", {"v": "-v"}, where="id < 9")
    await merge(twins, CLAUSES["upsert"], source(2, 3, 8, 50))


def keyed(table: pa.Table) -> pa.Table:
    """The rows of a table with a primary key."""
    key = pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"})
    return table.cast(pa.schema([key, *list(table.schema)[1:]]))


@pytest.mark.parametrize("name", ["upsert", "update", "insert", "delete", "replace"])
async def test_primary_key(tmp_path: Path, name: str) -> None:
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
    others = await asyncio.gather(*(ours.upsert(source(60, 61 + one)) for one in range(4)))
    assert sum(one.summary["num_inserted_rows"] for one in others) == 5
    assert upsert(older.merge_insert("id")).execute(source(60, 70))["num_inserted_rows"] == 1
    ids = read(twins.ours).column("id").to_pylist()
    assert sorted(ids) == [*range(6), 50, 51, 52, 53, 60, 61, 62, 63, 64, 70]
    assert first.version == 2
    assert lance.dataset(str(twins.ours)).read_transaction(2) is not None


async def test_many_keys_are_inserted(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path, keyed(rows(0, 6)))
    ours = await alance.dataset(str(twins.ours))
    made = await asyncio.gather(
        ours.upsert(keyed(rows(0, 5000))), ours.upsert(keyed(rows(4000, 9000)))
    )
    assert sum(one.summary["num_inserted_rows"] for one in made) == 9000 - 6
    assert await (await ours.checkout_latest()).count_rows() == 9000


async def test_a_match_that_is_to_fail(twins: Twins) -> None:
    before = files_of(twins.ours)
    ours = await alance.dataset(str(twins.ours))
    merge_ = ours.merge_insert("id").when_matched_fail().when_not_matched_insert_all()
    with pytest.raises(InvalidInputError, match="has the key id = 4 of row 1 of the data"):
        await merge_.execute(source(50, 4))
    assert files_of(twins.ours) == before
    await merge(
        twins, lambda m: m.when_matched_fail().when_not_matched_insert_all(), source(50, 51)
    )


async def test_blobs_that_the_data_lacks(tmp_path: Path) -> None:
    """Their bytes move with the rows."""
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64()), blob])
    values = [None if one % 3 == 2 else bytes([one]) * one * 100 for one in range(12)]
    table = pa.table([list(range(12)), list(range(12)), values], schema=schema)
    path = str(tmp_path / "t.lance")
    lance.write_dataset(table, path, max_rows_per_file=5, data_storage_version="2.1")
    dataset = await alance.dataset(path)
    made = await dataset.upsert(pa.table({"id": [3, 8, 7, 20], "v": [30, 80, 70, 200]}), "id")
    assert dict(made.summary)["num_updated_rows"] == 3
    found = await made.to_table(blob_handling="all_binary")
    expected = dict(enumerate(values)) | {20: None}
    assert {row["id"]: row["b"] for row in found.to_pylist()} == expected
    lance.dataset(path).validate()


async def test_wide_rows_are_taken_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    taken = merge_rows.take_addresses

    async def take(snapshot: Any, places: Any, columns: Any) -> pa.Table:
        sizes.append(len(places))
        return await taken(snapshot, places, columns)

    monkeypatch.setattr(merge_rows, "take_addresses", take)
    monkeypatch.setattr(merge_rows, "TAKEN_BYTES", 400)
    twins = Twins.make(tmp_path)
    await merge(twins, CLAUSES["upsert"], source(*range(3, 40)).select(["id", "v"]))
    assert sum(sizes) == 17
    assert 0 < max(sizes) < 17


async def test_members_that_the_data_lacks(tmp_path: Path) -> None:
    """They keep their values, and are null in rows that are inserted."""
    inner = pa.struct([("p", pa.int64()), ("q", pa.string())])
    whole = pa.struct([("x", pa.int64()), ("y", pa.string()), ("z", inner)])
    values = [
        None if one == 2 else {"x": one, "y": f"y{one}", "z": {"p": one, "q": f"q{one}"}}
        for one in range(6)
    ]
    table = pa.table({"id": pa.array(range(6)), "s": pa.array(values, whole)})
    part = pa.struct([("z", pa.struct([("q", pa.string())])), ("x", pa.int64())])
    new = [{"x": 10, "z": {"q": "new"}}, None, {"x": None, "z": None}, {"x": 7, "z": {"q": "r"}}]
    twins = Twins.make(tmp_path, table)
    for data in (
        pa.table({"id": [1, 3, 2, 9], "s": pa.array(new, part)}),
        pa.table({"id": [2, 4], "s": pa.array([{"y": "only"}, {"y": None}])}),
    ):
        told = CLAUSES["upsert"](lance.dataset(str(twins.theirs)).merge_insert("id")).execute(data)
        made = await (await alance.dataset(str(twins.ours))).upsert(data, "id")
        assert dict(made.summary) == told
        assert by_value(read(twins.ours)) == by_value(read(twins.theirs))


async def test_members_that_cannot_be_filled(tmp_path: Path) -> None:
    struct = pa.array([{"x": 1, "y": 2}])
    table = pa.table({"id": [1], "s": struct, "l": [[{"x": 1, "y": 2}]]})
    dataset = await alance.write_dataset(table, str(tmp_path / "t.lance"))
    part = pa.array([{"x": 5}])
    for data, on, text in (
        (pa.table({"id": [1], "l": [[{"x": 1}]]}), "id", "structs in lists"),
        (pa.table({"id": [1], "s": [{"x": 1, "w": 1}]}), "id", "'s.w': not among"),
        (pa.table({"id": [1], "s": part}), "s", "key column 's'"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            await dataset.upsert(data, on)
    merge = dataset.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns")
    with pytest.raises(InvalidInputError, match="some members of column 's'"):
        await merge.execute(pa.table({"id": [1], "s": part}))
    assert await dataset.latest_version() == 1


async def test_dictionaries_that_the_data_lacks(tmp_path: Path) -> None:
    """Rows that are inserted have nulls in them."""
    values = pa.array([f"v{one % 3}" for one in range(20)]).dictionary_encode()
    table = pa.table({"id": pa.array(range(20)), "v": pa.array(range(20)), "d": values})
    twins = Twins.make(tmp_path, table, max_rows_per_file=7)
    data = pa.table({"id": pa.array(range(15, 30)), "v": pa.array(range(15))})
    await merge(twins, CLAUSES["upsert"], data)
    await merge(twins, CLAUSES["insert"], data.slice(2, 0))
