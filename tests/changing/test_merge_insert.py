"""Merges, the same as pylance's for the same call: messages, rows, row ids and versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError
from alance.ops.merge import rows as merge_rows
from tests.changing.both_ways import Twins, files_of, read
from tests.changing.merges import BUDGETS, CLAUSES, KINDS, by_value, merge, source
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=KINDS)
def twins(request: pytest.FixtureRequest, tmp_path: Path) -> Twins:
    return Twins.make(tmp_path, **request.param)


@pytest.mark.parametrize(
    ("twins", "name"),
    thinned([kind.values[0] for kind in KINDS], [*CLAUSES]),
    indirect=["twins"],
)
async def test_each_clause_merges_as_pylance_does(twins: Twins, name: str) -> None:
    clauses = CLAUSES[name]
    await merge(twins, clauses, source(3, 4, 5, 7, 9, 25, 26, None), memory=BUDGETS[1])
    await merge(twins, clauses, source(26, 5, 1, 25, 30))
    await merge(twins, clauses, source(), memory=BUDGETS[1])
    lance.dataset(str(twins.ours)).merge_insert("id").when_matched_delete().execute(source(1, 30))
    table = await (await alance.dataset(str(twins.ours))).to_table(["id"])
    assert not {1, 30} & set(table.column("id").to_pylist())


@pytest.mark.parametrize(
    ("name", "columns", "stable"),
    thinned(
        ["upsert", "update", "insert", "delete", "replace", "others"],
        [["id", "s"], ["n", "v", "id"], ["id"]],
        (False, True),
    ),
)
async def test_columns_that_the_data_lacks(
    tmp_path: Path, name: str, columns: list[str], stable: bool
) -> None:
    options = {"enable_stable_row_ids": True} if stable else {"enable_v2_manifest_paths": False}
    twins = Twins.make(tmp_path, **options)
    data = source(3, 4, 5, 7, 9, 25, None).select(columns)
    await merge(twins, CLAUSES[name], data, memory=BUDGETS[1 - stable])
    data = source(25, 4, 19).select(columns[::-1])
    await merge(twins, CLAUSES[name], data, "id", BUDGETS[stable])


async def test_conditions_name_columns_in_many_ways(twins: Twins) -> None:
    data = source(3, 4, 5).select(["id", "s"])
    for condition in ("v > 5", "target.id <> 4", "target.n.a = 3", "target._rowid > 3", "1 = 1"):
        await merge(twins, lambda m, c=condition: m.when_matched_update_all(c), data)  # type: ignore[misc]


async def test_merges_after_deletions_are_those_of_pylance(twins: Twins) -> None:
    await twins.change("delete", "id in (3, 7, 8, 15, 16, 17, 18, 19)")
    await merge(twins, CLAUSES["replace"], source(2, 3, 8, 9, 19))
    await twins.change("update", {"v": "-v"}, where="id < 9")
    await merge(twins, CLAUSES["upsert"], source(2, 3, 8, 50))


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
    values = [None if index % 3 == 2 else bytes([index]) * index * 100 for index in range(12)]
    table = pa.table([list(range(12)), list(range(12)), values], schema=schema)
    path = str(tmp_path / "t.lance")
    lance.write_dataset(table, path, max_rows_per_file=5, data_storage_version="2.1")
    dataset = await alance.dataset(path)
    merged = await dataset.upsert(pa.table({"id": [3, 8, 7, 20], "v": [30, 80, 70, 200]}), "id")
    assert dict(merged.summary)["num_updated_rows"] == 3
    rows = await merged.to_table(blob_handling="all_binary")
    expected = dict(enumerate(values)) | {20: None}
    assert {row["id"]: row["b"] for row in rows.to_pylist()} == expected
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
    monkeypatch.setattr(merge_rows, "MERGED_TAKE_BYTES", 400)
    twins = Twins.make(tmp_path)
    await merge(twins, CLAUSES["upsert"], source(*range(3, 40)).select(["id", "v"]))
    assert sum(sizes) == 17
    assert 0 < max(sizes) < 17


async def test_members_that_the_data_lacks(tmp_path: Path) -> None:
    """They keep their values, and are null in rows that are inserted."""
    inner = pa.struct([("p", pa.int64()), ("q", pa.string())])
    whole = pa.struct([("x", pa.int64()), ("y", pa.string()), ("z", inner)])
    values = [
        None if index == 2 else {"x": index, "y": f"y{index}", "z": {"p": index, "q": f"q{index}"}}
        for index in range(6)
    ]
    table = pa.table({"id": pa.array(range(6)), "s": pa.array(values, whole)})
    part = pa.struct([("z", pa.struct([("q", pa.string())])), ("x", pa.int64())])
    new = [{"x": 10, "z": {"q": "new"}}, None, {"x": None, "z": None}, {"x": 7, "z": {"q": "r"}}]
    twins = Twins.make(tmp_path, table)
    for data in (
        pa.table({"id": [1, 3, 2, 9], "s": pa.array(new, part)}),
        pa.table({"id": [2, 4], "s": pa.array([{"y": "only"}, {"y": None}])}),
    ):
        outcome = CLAUSES["upsert"](lance.dataset(str(twins.theirs)).merge_insert("id")).execute(
            data
        )
        merged = await (await alance.dataset(str(twins.ours))).upsert(data, "id")
        assert dict(merged.summary) == outcome
        assert by_value(read(twins.ours)) == by_value(read(twins.theirs))


async def test_a_null_struct_stays_null_if_a_member_cannot_be_null(tmp_path: Path) -> None:
    """Whatever members the data has; a struct with a value there needs that member."""
    whole = pa.struct([pa.field("x", pa.int64(), nullable=False), ("y", pa.string())])
    table = pa.table({"id": [1, 2], "s": pa.array([{"x": 1, "y": "a"}, None], whole)})
    dataset = await alance.write_dataset(table, tmp_path / "t")

    async def update(struct: pa.Array) -> None:
        merge = dataset.merge_insert("id").when_matched_update_all()
        await merge.execute(pa.table({"id": [2], "s": struct}))

    for member in ("x", "y"):
        await update(pa.array([None], pa.struct([whole.field(member).with_nullable(True)])))
    rows = lance.dataset(str(tmp_path / "t")).to_table().to_pylist()
    assert {row["id"]: row["s"] for row in rows} == {1: {"x": 1, "y": "a"}, 2: None}
    with pytest.raises(InvalidInputError, match=r"'x'.*not nullable"):
        await update(pa.array([{"y": "b"}]))


async def test_inserted_rows_need_each_member_that_cannot_be_null(tmp_path: Path) -> None:
    """Before the data is read: a row that matches would not need it."""
    inner = pa.struct([pa.field("a", pa.int64(), nullable=False), ("b", pa.int64())])
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("in", inner), ("y", pa.int64())]))])
    table = pa.Table.from_pylist([{"id": 1, "s": {"in": {"a": 1, "b": 1}, "y": 1}}], schema)
    dataset = await alance.write_dataset(table, tmp_path / "t")
    for key in (1, 2):
        with pytest.raises(InvalidInputError, match=r"'s\.in\.a': missing in the data"):
            await dataset.upsert([{"id": key, "s": {"in": {"b": 2}}}], "id")
    dataset = await dataset.upsert([{"id": 1, "s": {"in": {"a": 2}}}, {"id": 2}], "id")
    rows = {row["id"]: row["s"] for row in (await dataset.to_table()).to_pylist()}
    assert rows == {1: {"in": {"a": 2, "b": 1}, "y": 1}, 2: None}


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
    values = pa.array([f"v{index % 3}" for index in range(20)]).dictionary_encode()
    table = pa.table({"id": pa.array(range(20)), "v": pa.array(range(20)), "d": values})
    twins = Twins.make(tmp_path, table, max_rows_per_file=7)
    data = pa.table({"id": pa.array(range(15, 30)), "v": pa.array(range(15))})
    await merge(twins, CLAUSES["upsert"], data)
    await merge(twins, CLAUSES["insert"], data.slice(2, 0))
