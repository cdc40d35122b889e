"""Rows by key: one, many, several columns, with indices and without."""

from __future__ import annotations

import asyncio
import datetime as dt
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError, RowNotFoundError
from alance.ops.read.keys import LOOKUPS_AT_ONCE, KeyReads

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 300


def is_key(name: str, position: int) -> dict[bytes, bytes]:
    return {
        b"lance-schema:unenforced-primary-key": b"true",
        b"lance-schema:unenforced-primary-key:position": str(position).encode(),
    }


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    fields = [
        pa.field("region", pa.string(), nullable=False, metadata=is_key("region", 1)),
        pa.field("number", pa.int32(), nullable=False, metadata=is_key("number", 2)),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("user", pa.struct([pa.field("name", pa.string()), pa.field("age", pa.int8())])),
        pa.field("x", pa.float64()),
    ]
    numbers = range(ROWS)
    columns = {
        "region": [f"r{n % 3}" for n in numbers],
        "number": pa.array([n // 3 for n in numbers], pa.int32()),
        "id": [7 * n for n in numbers],
        "user": pa.array([{"name": f"u{n}", "age": n % 100} for n in numbers], fields[3].type),
        "x": [n / 2 for n in numbers],
    }
    table = pa.table(columns, schema=pa.schema(fields))
    return await alance.write_dataset(table, str(tmp_path / "t"), max_rows_per_file=100)


@pytest.fixture(params=["no index", "BTREE", "BITMAP", "a part"])
async def indexed(dataset: alance.Dataset, request: pytest.FixtureRequest) -> alance.Dataset:
    kind = request.param
    if kind == "no index":
        return dataset
    if kind == "a part":
        dataset = await dataset.create_scalar_index("id", "BTREE")
        rows = await dataset.take([0, 1])
        return await dataset.insert(rows.set_column(2, "id", [[-1, -2]]))
    return await dataset.create_scalar_index("id", kind)


async def test_a_row_is_a_dict_and_no_row_is_none(indexed: alance.Dataset) -> None:
    row = await indexed.get(14, "id")
    user = {"name": "u2", "age": 2}
    assert row == {"region": "r2", "number": 0, "id": 14, "user": user, "x": 1.0}
    assert await indexed.get(14, "id", ["x", "user.name"]) == {"x": 1.0, "user.name": "u2"}
    assert await indexed.get(14, "id", {"double": "x * 2"}) == {"double": 2.0}
    for absent in (15, -7, 1 << 62, 1 << 70, None):
        assert await indexed.get(absent, "id") is None


async def test_many_rows_come_in_the_order_of_their_keys(indexed: alance.Dataset) -> None:
    keys = [2093, 0, 700, 0]
    for candidate in (keys, tuple(keys), np.array(keys), pa.array(keys), iter(keys)):
        rows = await indexed.get_many(candidate, "id")
        assert rows["id"].to_pylist() == keys
        assert rows.schema == indexed.schema
    assert (await indexed.get_many(keys, "id", ["x"])).to_pydict() == {"x": [149.5, 0.0, 50.0, 0.0]}
    nothing = await indexed.get_many([], "id")
    assert nothing.num_rows == 0
    assert nothing.schema == indexed.schema


async def test_what_becomes_of_missing_keys(indexed: alance.Dataset) -> None:
    keys = [3, 7, None, 8, 1 << 80]
    with pytest.raises(RowNotFoundError, match="no row with id = 3, None, 8") as caught:
        await indexed.get_many([3, 7, None, 8], "id")
    assert caught.value.keys == [3, None, 8]
    with pytest.raises(RowNotFoundError, match=r"no row with id = 1, 2, 3 and 2 more$"):
        await indexed.get_many([1, 2, 3, 4, 5], "id")
    assert (await indexed.get_many(keys, "id", ["x"], missing="skip"))["x"].to_pylist() == [0.5]
    rows = await indexed.get_many(keys, "id", ["id", "x"], missing="null")
    assert rows["x"].to_pylist() == [None, 0.5, None, None, None]
    assert rows.schema.field("id").nullable
    with pytest.raises(InvalidInputError, match="missing='none'"):
        await indexed.get_many(keys, "id", missing="none")  # type: ignore[arg-type]


async def test_the_primary_key_may_have_several_columns(dataset: alance.Dataset) -> None:
    assert await dataset.get(("r1", 4), columns=["id"]) == {"id": 7 * 13}
    assert await dataset.get(("r1", 4), ["region", "number"], ["id"]) == {"id": 7 * 13}
    assert await dataset.get(("r9", 4)) is None
    rows = await dataset.get_many([("r2", 0), ("r0", 1), ("r2", 0)], columns={"x": "x"})
    assert rows["x"].to_pylist() == [1.0, 1.5, 1.0]
    with pytest.raises(RowNotFoundError) as caught:
        await dataset.get_many([("r2", 0), ("r0", 1000), ("r5", 1)])
    assert caught.value.keys == [("r0", 1000), ("r5", 1)]
    for key in (5, "r1", ("r1",), ("r1", 2, 3)):
        with pytest.raises(InvalidInputError, match="expected a tuple of 2"):
            await dataset.get(key)


async def test_members_of_structs_are_keys_too(dataset: alance.Dataset) -> None:
    assert await dataset.get("u7", "user.name", ["id"]) == {"id": 49}
    assert set(await dataset.get("u7", "user.name") or ()) == set(dataset.schema.names)


async def test_several_rows_of_a_key_are_an_error_of_who_asks(dataset: alance.Dataset) -> None:
    keys: list[Any] = [5, 99, 77]
    dataset = await dataset.delete("user.age = 5 and id != 35")
    answers = await asyncio.gather(
        *(dataset.get(key, "user.age", ["id"]) for key in keys), return_exceptions=True
    )
    assert answers[0] == {"id": 35}
    assert isinstance(answers[1], InvalidInputError)
    assert "user.age = 99: several rows have this key" in str(answers[1])
    with pytest.raises(InvalidInputError, match=r"user.age = 77: several rows"):
        await dataset.get_many([5, 77], "user.age")


async def test_rows_are_those_of_the_version(indexed: alance.Dataset) -> None:
    assert await indexed.get(70, "id", ["x"]) == {"x": 5.0}
    changed = await indexed.update({"x": "?"}, "id = ?", params=[-1.0, 70])
    assert await changed.get(70, "id", ["x"]) == {"x": -1.0}
    gone = await changed.delete("id = 70")
    assert await gone.get(70, "id") is None
    assert await indexed.get(70, "id", ["x"]) == {"x": 5.0}


KEYS: dict[str, tuple[list[Any], pa.DataType]] = {
    "text": (["a", "it's", ""], pa.large_string()),
    "words": (["a", "b", "c"], pa.dictionary(pa.int32(), pa.string())),
    "bytes": ([b"\x00", b"", b"abc"], pa.binary()),
    "uuids": ([uuid.UUID(int=n).bytes for n in range(3)], pa.binary(16)),
    "i8": ([1, -128, 127], pa.int8()),
    "u64": ([1, 0, (1 << 64) - 1], pa.uint64()),
    "decimals": ([Decimal("1.10"), Decimal(0), Decimal(-7)], pa.decimal128(9, 2)),
    "days": ([dt.date(2020, 1, n) for n in (1, 2, 3)], pa.date32()),
    "moments": ([dt.datetime(2020, 1, n) for n in (1, 2, 3)], pa.timestamp("s")),
    "instants": (
        [dt.datetime(2020, 1, n, tzinfo=dt.UTC) for n in (1, 2, 3)],
        pa.timestamp("us", "Europe/Berlin"),
    ),
    "times": ([dt.time(n) for n in (1, 2, 3)], pa.time32("ms")),
    "spans": ([dt.timedelta(n) for n in (1, 2, 3)], pa.duration("ns")),
}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("count", [1, 100])
async def test_keys_of_each_kind(tmp_path: Path, name: str, count: int) -> None:
    values, type_ = KEYS[name]
    plain = type_.value_type if pa.types.is_dictionary(type_) else type_
    keys = pa.array(values, plain)
    column = keys.dictionary_encode() if pa.types.is_dictionary(type_) else keys
    table = pa.table({"k": column.cast(type_), "row": [0, 1, 2]})
    dataset = await alance.write_dataset(table, str(tmp_path / "t"))
    order = [2, 0, 1, 0] * count
    for candidate in ([values[n] for n in order], keys.take(pa.array(order))):
        rows = await dataset.get_many(candidate, "k", ["row"])
        assert rows["row"].to_pylist() == order
    assert await dataset.get(values[2], "k", ["row"]) == {"row": 2}
    if name == "uuids":
        assert await dataset.get(uuid.UUID(int=2), "k", ["row"]) == {"row": 2}
        assert await dataset.get(b"short", "k") is None


@pytest.mark.parametrize(
    ("key", "column", "message"),
    [
        ("7", "id", r"key of column 'id' \(int64\): found .*string"),
        (7, "user.name", r"key of column 'user.name' \(string\): found int64"),
        (1.5, "x", "column 'x': values of double are no keys"),
        ({}, "user", "are no keys"),
        ([1], "id", "a value of type list"),
        (1, "nope", "no field 'nope'"),
        (1, [], "no key column"),
    ],
)
async def test_wrong_keys_are_told(
    dataset: alance.Dataset, key: Any, column: Any, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        await dataset.get(key, column)
    with pytest.raises(InvalidInputError, match=message):
        await dataset.get_many([key], column)


async def test_a_table_without_a_primary_key_needs_a_column(tmp_path: Path) -> None:
    dataset = await alance.write_dataset({"id": [1]}, str(tmp_path / "t"))
    with pytest.raises(InvalidInputError, match="no key column: name it by `column`"):
        await dataset.get(1)
    with pytest.raises(InvalidInputError, match="keys: expected several, found str"):
        await dataset.get_many("abc", "id")


async def test_explain_says_whether_an_index_is_asked(dataset: alance.Dataset) -> None:
    assert "index" not in str(await dataset.explain_get(14, "id"))
    dataset = await dataset.create_scalar_index("id", "BTREE")
    message = str(await dataset.explain_get(14, "id", ["x"]))
    assert "filter: `id` IN ?" in message
    assert "index id_idx (BTree) on id: 1 of 1 pages; 1 rows" in message


async def test_a_wrong_key_of_one_caller_leaves_the_others_alone(dataset: alance.Dataset) -> None:
    keys: list[Any] = [0, "x", 7, {}]
    answers = await asyncio.gather(
        *(dataset.get(key, "id", ["id"]) for key in keys), return_exceptions=True
    )
    assert answers[0::2] == [{"id": 0}, {"id": 7}]
    assert all(isinstance(answer, InvalidInputError) for answer in answers[1::2])


async def test_one_of_many_that_is_cancelled_leaves_the_others_alone(
    dataset: alance.Dataset,
) -> None:
    for turns in range(12):
        tasks = [asyncio.ensure_future(dataset.get(7 * n, "id", ["id"])) for n in range(5)]
        for _ in range(turns):
            await asyncio.sleep(0)
        tasks[0].cancel()
        rows = await asyncio.gather(*tasks, return_exceptions=True)
        assert rows[1:] == [{"id": 7 * n} for n in range(1, 5)]
        all_gone = [asyncio.ensure_future(dataset.get(7 * n, "id")) for n in range(5)]
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in all_gone:
            task.cancel()
        await asyncio.gather(*all_gone, return_exceptions=True)
        assert await dataset.get(7, "id", ["id"]) == {"id": 7}
    assert not dataset.session.engine.cache._loads
    assert len(asyncio.all_tasks()) == 1


async def test_rows_of_equal_keys_are_not_shared(dataset: alance.Dataset) -> None:
    first, second = await asyncio.gather(dataset.get(7, "id"), dataset.get(7, "id"))
    assert first == second
    assert first is not None
    first["user"]["name"] = "another"
    assert second is not None
    assert second["user"]["name"] == "u1"


async def test_those_who_come_while_lookups_are_under_way_share_the_next(
    dataset: alance.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    await dataset.get(0, "id", ["id"])  # imports, in a thread
    sizes, may_go_on = [], asyncio.Event()
    rows = KeyReads.rows

    async def held(self: KeyReads, arrays: Any) -> Any:
        sizes.append(len(arrays[0]))
        await may_go_on.wait()
        return await rows(self, arrays)

    monkeypatch.setattr(KeyReads, "rows", held)
    tasks = []
    for number in range(20):
        tasks.append(asyncio.ensure_future(dataset.get(7 * number, "id", ["id"])))
        for _ in range(10):
            await asyncio.sleep(0)
    assert sizes == [1] * LOOKUPS_AT_ONCE
    may_go_on.set()
    assert await asyncio.gather(*tasks) == [{"id": 7 * number} for number in range(20)]
    assert sizes == [1] * LOOKUPS_AT_ONCE + [20 - LOOKUPS_AT_ONCE]


async def test_times_that_python_has_not_are_keys_too(tmp_path: Path) -> None:
    numbers = pa.array([2**62, 2**62, -(2**62), 5], pa.int64())
    times = numbers.view(pa.timestamp("us"))
    table = pa.table({"t": times, "i": range(4)})
    dataset = await alance.write_dataset(table, tmp_path / "t")
    assert (await dataset.get_many(times[2:], "t", ["i"]))["i"].to_pylist() == [2, 3]
    assert await dataset.get(times[2], "t", ["i"]) == {"i": 2}
    with pytest.raises(InvalidInputError, match=r"'<value out of range: 4.*several rows"):
        await dataset.get_many(times[:1], "t")
    with pytest.raises(RowNotFoundError, match="no row with t = '<value out of range: 5"):
        await dataset.get_many(pa.array([9 << 59]).view(times.type), "t")
    bad, good = await asyncio.gather(
        dataset.get(2, "i"), dataset.get(3, "i"), return_exceptions=True
    )
    assert good == {"t": dt.datetime(1970, 1, 1, microsecond=5), "i": 3}
    assert isinstance(bad, InvalidInputError)
    assert "value that Python has not" in str(bad)
    dataset = await dataset.create_scalar_index("t", "BTREE")
    (ends,) = (await dataset.index_statistics("t_idx"))["indices"]
    assert ends["max"] == f"<value out of range: {2**62}>"
    merge = dataset.merge_insert("t").when_matched_update_all()
    with pytest.raises(InvalidInputError, match="rows 0 and 1 of the data match the same row"):
        await merge.execute(pa.table({"t": times.take([2, 2]), "i": [0, 1]}))


async def test_names_with_backticks_are_keys_and_are_set(tmp_path: Path) -> None:
    dataset = await alance.write_dataset({"na`me": ["x", "y"], "k": [1, 2]}, tmp_path / "t")
    for name in ("na`me", "`na``me`"):
        assert await dataset.get("y", name) == {"na`me": "y", "k": 2}
        assert (await dataset.get_many(["y"], name, ["k"]))["k"].to_pylist() == [2]
        (ends,) = (await dataset.aggregate({"x": "max(`na``me`)"}, [name])).slice(1).to_pylist()
        assert ends == {name: "y", "x": "y"}
        after = await dataset.update({name: "upper(`na``me`)"}, "k = 1")
        assert (await after.to_table({"x": "`na``me`"}))["x"].to_pylist() == ["y", "X"]
        dataset = await dataset.restore(1)
