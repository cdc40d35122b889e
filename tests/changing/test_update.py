"""Updates, the same as pylance's: messages, rows, row ids and versions, files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import alance
from alance.errors import InvalidInputError, UnsupportedError
from tests.changing.both_ways import KINDS, STABLE_2_2, Twins, files_of, latest, read, rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=[*KINDS, STABLE_2_2])
def twins(request: pytest.FixtureRequest, tmp_path: Path) -> Twins:
    return Twins.make(tmp_path, **request.param)


async def test_one_after_the_other(twins: Twins) -> None:
    await twins.change("delete", "id in (1, 7, 8)")
    counts = [
        await twins.change("update", {"v": "v + 1"}, where="id in (2, 11, 12) or id >= 15"),
        await twins.change("update", {"s": "'a' || s", "v": "id"}, where="s is not null"),
        await twins.change("update", {"v": "v * 2"}, where="id = 100"),
        await twins.change("update", {"n": "named_struct('a', 1, 'b', 'x')"}, where="id = 2"),
        await twins.change("update", {"id": "v", "s": "null"}, where="id % 5 = 0"),
        await twins.change("update", {"s": "null"}, where="id < 10"),
        await twins.change("update", {"s": "'all'"}),
    ]
    assert [count["num_rows_updated"] for count in counts][2] == 0
    assert counts[-1] == {"num_rows_updated": 17}
    await twins.change("delete", "id > 4")


async def test_updates_by_turns_see_each_other(twins: Twins) -> None:
    """Each goes on from what the other left."""
    ours = await alance.dataset(str(twins.ours))
    await ours.update({"v": "-v"}, "id in (0, 6, 19)", message="m")
    lance.dataset(str(twins.ours)).update({"v": "-v"}, "id in (6, 7)")
    await (await alance.dataset(str(twins.ours))).update({"v": "-v"}, "id in (0, 7, 8)")
    lance.dataset(str(twins.ours)).optimize.compact_files()
    ours = await (await alance.dataset(str(twins.ours))).update({"v": "100"}, "id = 6")
    mapping = {row["id"]: row for row in read(twins.ours).to_pylist()}
    changed = {8: -12.0, 19: -28.5, 6: 100.0}
    assert {n: row["v"] for n, row in mapping.items()} == {
        n: changed.get(n, n * 1.5) for n in range(20)
    }
    if latest(twins.ours).has_stable_row_ids:
        assert all(row["_rowid"] == n for n, row in mapping.items())
        assert {row["_row_created_at_version"] for row in mapping.values()} == {1}
        assert mapping[6]["_row_last_updated_at_version"] == ours.version


async def test_rows_keep_their_ids_and_origin(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path, enable_stable_row_ids=True)
    lance.dataset(str(twins.theirs)).insert(rows(20, 30))
    twins.again()
    await twins.change("update", {"v": "0"}, where="id in (3, 4, 21, 29)")
    await twins.change("update", {"v": "1"}, where="id in (3, 21, 25)")
    mapping = {row["id"]: row for row in read(twins.ours).to_pylist()}
    assert all(row["_rowid"] == n for n, row in mapping.items())
    assert all(row["_row_created_at_version"] == 1 + (n >= 20) for n, row in mapping.items())
    changed = {3: 4, 21: 4, 25: 4, 4: 3, 29: 3}
    assert all(
        row["_row_last_updated_at_version"] == changed.get(n, 1 + (n >= 20))
        for n, row in mapping.items()
    )
    ours = await alance.dataset(str(twins.ours))
    taken = await ours.take_rows([3, 21, 29], ["id", "v"])
    assert taken.to_pylist() == [{"id": 3, "v": 1.0}, {"id": 21, "v": 1.0}, {"id": 29, "v": 0.0}]


async def test_values_are_those_before(tmp_path: Path) -> None:
    """pylance sets one column after the other, in any order, each from what it has set."""
    twins = Twins.make(tmp_path)
    dataset = await alance.dataset(str(twins.ours))
    changed = await dataset.update({"id": "v", "v": "id"}, "id = 2")
    table = await changed.to_table(["id", "v"], filter="s = 's2'")
    assert table.to_pylist() == [{"id": 3, "v": 2.0}]


CASTS = [
    {"v": "'7.5'"},
    {"v": "id"},
    {"id": "3.9"},
    {"id": "v"},
    {"id": "-v"},
    {"s": "id"},
    {"s": "v"},
    {"s": "n.b"},
    {"d": "'2021-03-04'"},
    {"t": "'2021-03-04 05:06:07'"},
    {"t": "d"},
    {"m": "1.25"},
    {"m": "id"},
    {"m": "v / 2 - 3"},
    {"m": "f * 0.35"},
    {"f": "v / 3"},
    {"k": "s"},
    {"k": "'new'"},
    {"y": "id > 3"},
    {"y": "'true'"},
    {"x": "id"},
    {"l": "make_array(1, 2)"},
    {"l": "make_array()", "n": "null"},
    {"c": "'10:11:12'"},
    {"j": "'[1, 2]'"},
    {"e": "make_array(1, 2)"},
    {"e": "null", "j": "null"},
]


def many_types() -> pa.Table:
    table = rows(0, 12)
    more = {
        "d": pa.array(range(12), pa.int32()).cast(pa.date32()),
        "t": pa.array(range(12), pa.int64()).cast(pa.timestamp("us")),
        "m": pa.array(range(12), pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(20, 1)),
        "f": pa.array(range(12), pa.int32()).cast(pa.float32()),
        "k": pa.array([f"k{n % 3}" for n in range(12)]).dictionary_encode(),
        "y": pa.array([n % 2 == 0 for n in range(12)]),
        "x": pa.array(range(12), pa.int8()),
        "c": pa.array(range(12), pa.int64()).cast(pa.time64("us")),
        "j": pa.array([f'{{"a": {n}}}' for n in range(12)], pa.json_()),
        "e": pa.array([[n, 1] for n in range(12)], pa.list_(pa.float32(), 2)),
    }
    for name, values in more.items():
        table = table.append_column(name, values)
    return table


@pytest.mark.parametrize("updates", CASTS, ids=str)
async def test_values_are_cast_as_by_pylance(tmp_path: Path, updates: dict[str, str]) -> None:
    twins = Twins.make(tmp_path, many_types(), max_rows_per_file=8, data_storage_version="2.2")
    await twins.change("update", updates, where="id in (2, 3, 9)")


WRONG: list[tuple[Any, Any, str]] = [
    ({}, None, "mapping"),
    ("v = 1", None, "mapping"),
    ({"zz": "1"}, None, "zz"),
    ({"V": "1"}, None, "V"),
    ({"_rowid": "1"}, None, "_rowid"),
    ({"n.a": "1"}, None, "whole column"),
    ({"v": "zz"}, None, "zz"),
    ({"v": "v >"}, None, "syntax error near '>'"),
    ({"v": 1}, None, "expression"),
    ({"v": "'abc'"}, None, "abc"),
    ({"v": "s"}, "id = 2", "s2"),
    ({"id": "1e30"}, None, "id"),
    ({"id": "v * 1e30"}, "id = 2", "id"),
    ({"v": "n"}, None, "v"),
    ({"v": "10 / (id - 15)"}, None, "divide"),
    ({"v": "1"}, "v", "condition"),
    ({"v": "1"}, "zz = 1", "zz"),
    ({"v": "1"}, 3, "expression"),
    ({"v": pc.field("zz")}, None, "zz"),
]


@pytest.mark.parametrize(("updates", "where", "message"), WRONG, ids=str)
async def test_wrong_use_leaves_the_table_as_it_was(
    tmp_path: Path, updates: Any, where: Any, message: str
) -> None:
    twins = Twins.make(tmp_path)
    before = files_of(twins.ours)
    dataset = await alance.dataset(str(twins.ours))
    with pytest.raises((InvalidInputError, UnsupportedError)) as caught:
        await dataset.update(updates, where)
    assert message in "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert files_of(twins.ours) == before
    assert (await alance.dataset(str(twins.ours))).version == 1


async def test_nulls_where_none_may_be(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.int32())])
    data = pa.table({"a": [1, 2, 3], "b": [None, 5, 6]}, schema)
    twins = Twins.make(tmp_path, data, max_rows_per_file=2)
    before = files_of(twins.ours)
    dataset = await alance.dataset(str(twins.ours))
    for value in ("null", "b"):
        with pytest.raises(InvalidInputError, match="not nullable"):
            await dataset.update({"a": value})
    assert files_of(twins.ours) == before
    await twins.change("update", {"a": "b"}, where="b is not null")


async def test_a_pyarrow_expression_updates_the_rows_that_pylance_updates(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path)
    dataset = await alance.dataset(str(twins.ours))
    updates = {"v": pc.field("id") * 2, "s": pc.scalar("x"), "n": pc.field("n")}
    changed = await dataset.update(updates, pc.field("id") > 16)
    assert changed.summary == {"num_updated_rows": 3}
    updated = lance.dataset(str(twins.theirs)).update(
        {"v": "id * 2", "s": "'x'", "n": "n"}, pc.field("id") > 16
    )
    assert updated == {"num_rows_updated": changed.summary.num_updated_rows}
    twins.check()


async def test_blobs_move_along(tmp_path: Path) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    blobs = [b"x" * 10, b"y" * 100_000, None, b"", b"z"]
    schema = pa.schema([pa.field("id", pa.int64()), blob])
    twins = Twins.make(tmp_path, pa.table({"id": range(5), "b": blobs}, schema))
    dataset = await alance.dataset(str(twins.ours))
    changed = await dataset.update({"id": "id + 10"}, "id in (1, 2, 3)")
    table = await changed.to_table(blob_handling="all_binary")
    assert table["id"].to_pylist() == [0, 4, 11, 12, 13]
    assert table["b"].to_pylist() == [blobs[n] for n in (0, 4, 1, 2, 3)]
    theirs = lance.dataset(str(twins.ours))
    theirs.validate()
    taken = theirs.take_blobs("b", indices=[0, 1, 2, 4])
    assert [item.readall() for item in taken] == [blobs[n] for n in (0, 4, 1, 3)]
    changed = await changed.update({"b": "X'0011'"}, "id = 11")
    table = await changed.to_table(blob_handling="all_binary", filter="id = 11")
    assert table["b"].to_pylist() == [b"\x00\x11"]
    with pytest.raises(InvalidInputError):
        await changed.update({"id": "octet_length(b)"})


async def test_blobs_of_version_2_move_along(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("b")])
    blobs = [b"x", b"y" * 70_000, None]
    data = pa.table({"id": [1, 2, 3], "b": lance.blob_array(blobs)}, schema)
    twins = Twins.make(tmp_path, data, data_storage_version="2.2")
    await twins.change("update", {"id": "10"}, where="id = 2")
    result = lance.dataset(str(twins.ours)).read_blobs("b", indices=[0, 1, 2])
    assert [item for _, item in result] == [blobs[0], blobs[2], blobs[1]]


async def test_many_rows_over_many_batches(tmp_path: Path) -> None:
    count = 100_000
    data = pa.table({"id": np.arange(count), "v": np.arange(count) / 7})
    twins = Twins.make(tmp_path, data, max_rows_per_file=24_000, enable_stable_row_ids=True)
    await twins.change("update", {"v": "v + id"}, where="id % 3 = 0")
    await twins.change("update", {"v": "v + id"}, where="id % 5 = 0")
    ids = latest(twins.ours).message.fragments[-1].inline_row_ids
    assert len(ids) < count / 8 * 2 + 100  # two runs that ascend: a bitmap each


async def test_indices_lose_what_moved(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path)
    lance.dataset(str(twins.theirs)).create_scalar_index("id", "BTREE")
    twins.again()
    await twins.change("update", {"v": "0"}, where="id in (3, 5, 6, 7, 8, 9)")
    await twins.change("update", {"id": "id + 100"}, where="id in (3, 4)")
    theirs = lance.dataset(str(twins.ours))
    ids = theirs.to_table(filter="id in (3, 4, 9, 12, 103)")["id"].to_pylist()
    assert sorted(ids) == [9, 12, 103]


async def test_row_ids_outside_of_the_manifest(tmp_path: Path) -> None:
    """Compaction spills long sequences to hidden columns; rows that move from there keep all."""
    count, steps = 500_000, 5
    rng = np.random.default_rng(3)
    data = pa.table({"id": np.arange(count), "k": rng.integers(0, steps + 1, count)})
    twins = Twins.make(tmp_path, data, max_rows_per_file=60_000, enable_stable_row_ids=True)
    dataset = lance.dataset(str(twins.theirs))
    dataset.update_config({"lance.row_lineage.spill": "true"})
    for step in range(steps):
        dataset.update({"k": "-k - 1"}, f"k = {step}")
    dataset.optimize.compact_files(target_rows_per_fragment=1 << 20)
    twins.again()
    fragments = latest(twins.ours).message.fragments
    assert [fragment.WhichOneof("row_id_sequence") for fragment in fragments] == ["column_row_ids"]
    theirs = lance.dataset(str(twins.theirs))
    ours = await alance.dataset(str(twins.ours))
    for predicate in ("id % 7 = 3", "id < 1000"):
        theirs.update({"k": "k + 1"}, predicate)
        ours = await ours.update({"k": "k + 1"}, predicate)
    theirs.delete("id % 5 = 0")
    await ours.delete("id % 5 = 0")
    content = read(twins.ours)
    assert content.equals(read(twins.theirs))
    assert content["id"].equals(content["_rowid"].cast(pa.int64()))
