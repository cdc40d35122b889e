"""Merges against a plain model; budgets of memory; wrong use; others that commit meanwhile."""

from __future__ import annotations

import asyncio
import tempfile
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import alance
import alance.sync
from alance.errors import (
    AlanceError,
    CommitConflictError,
    InvalidInputError,
    RetryableConflictError,
    UnsupportedError,
)
from alance.ops import merge_insert, merge_join, spool
from tests.changing.both_ways import files_of, rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.string()), ("v", pa.int64())])
KEYS = st.tuples(
    st.one_of(st.none(), st.integers(0, 6)), st.one_of(st.none(), st.sampled_from(["", "a", "ab"]))
)
Row = tuple[Any, Any, Any]


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    keys = draw(st.lists(KEYS, max_size=12))
    new = draw(st.lists(KEYS, max_size=12))
    return {
        "table": [(*key, number) for number, key in enumerate(keys)],
        "data": [(*key, 100 + number) for number, key in enumerate(new)],
        "on": draw(st.sampled_from([["k"], ["t"], ["k", "t"], ["t", "k"]])),
        "matched": draw(st.sampled_from(["nothing", "update", "delete", "if"])),
        "inserts": draw(st.booleans()),
        "others": draw(st.sampled_from([None, "all", "some"])),
        "lacks": draw(st.booleans()),
        "memory": draw(st.sampled_from([1, 500, 1 << 20])),
        "stable": draw(st.booleans()),
        "file_rows": draw(st.integers(1, 8)),
    }


def modelled(case: dict[str, Any]) -> tuple[list[Row], dict[str, int]] | None:
    """The rows that a merge leaves, and what it counts; None: it is refused."""
    places = [SCHEMA.names.index(one) for one in case["on"]]

    def key(row: Row) -> tuple[Any, ...] | None:
        found = tuple(row[place] for place in places)
        return None if None in found else found

    left: list[Row] = []
    counts = dict.fromkeys(("inserted", "updated", "deleted"), 0)
    for row in case["table"]:
        found = [] if key(row) is None else [one for one in case["data"] if key(one) == key(row)]
        if not found:
            gone = case["others"] == "all" or (case["others"] == "some" and row[2] % 2 == 1)
            counts["deleted"] += gone
            left += [] if gone else [row]
            continue
        if case["matched"] == "if":
            found = [one for one in found if (one[2] + row[2]) % 3 == 0]
        if case["matched"] == "nothing" or not found:
            left.append(row)
        elif len(found) > 1:
            return None
        elif case["matched"] == "delete":
            counts["deleted"] += 1
        else:
            counts["updated"] += 1
            one = found[0]
            left.append((one[0], row[1], one[2]) if case["lacks"] else one)
    if case["inserts"]:
        known = {key(row) for row in case["table"]} - {None}
        new = [one for one in case["data"] if key(one) not in known]
        counts["inserted"] = len(new)
        left += [(one[0], None, one[2]) if case["lacks"] else one for one in new]
    return left, {f"num_{name}_rows": count for name, count in counts.items()}


def table_of(found: list[Row]) -> pa.Table:
    columns = zip(*found, strict=True) if found else ([], [], [])
    return pa.table([list(one) for one in columns], schema=SCHEMA)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_against_a_model(case: dict[str, Any]) -> None:
    case["lacks"] &= case["on"] == ["k"]
    does_nothing = case["matched"] == "nothing" and not case["inserts"] and not case["others"]

    async def run(folder: str) -> None:
        dataset = await alance.write_dataset(
            table_of(case["table"]),
            folder,
            max_rows_per_file=case["file_rows"],
            stable_row_ids=case["stable"],
        )
        before = await dataset.to_table(with_row_id=True)
        merge = dataset.merge_insert(case["on"]).memory_budget(case["memory"])
        if case["matched"] == "update":
            merge = merge.when_matched_update_all()
        if case["matched"] == "if":
            merge = merge.when_matched_update_all("(source.v + target.v) % 3 = 0")
        if case["matched"] == "delete":
            merge = merge.when_matched_delete()
        if case["inserts"]:
            merge = merge.when_not_matched_insert_all()
        if case["others"]:
            merge = merge.when_not_matched_by_source_delete(
                None if case["others"] == "all" else "v % 2 = 1"
            )
        data = table_of(case["data"])
        if case["lacks"]:
            data = data.select(["v", "k"])
        expected = modelled(case)
        if expected is None or does_nothing:
            with pytest.raises(InvalidInputError):
                await merge.execute(data)
            assert await dataset.latest_version() == 1
            return
        made = await merge.execute(data.to_reader(max_chunksize=2))
        assert dict(made.summary) == expected[1]
        found = await made.to_table(with_row_id=True)
        left = [tuple(row[name] for name in SCHEMA.names) for row in found.to_pylist()]
        assert sorted(left, key=str) == sorted(expected[0], key=str)
        if case["stable"]:
            # What stays, and what is updated, keeps its id; what is new gets one of its own.
            ids = found.column("_rowid").to_pylist()
            assert len(set(ids)) == len(ids)
            kept = set(before.column("_rowid").to_pylist()) & set(ids)
            assert len(kept) == len(ids) - expected[1]["num_inserted_rows"]
        lance.dataset(folder).validate()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(f"{folder}/t.lance"))


async def made(folder: Path, **options: Any) -> alance.Dataset:
    return await alance.write_dataset(
        rows(0, 20), str(folder / "t.lance"), max_rows_per_file=5, **options
    )


async def test_what_is_in_memory_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a small budget rows and keys of both sides go to the disk; parts of the index fit."""
    budget, num_rows = 400_000, 40_000
    ids = pa.array(range(num_rows), pa.int64())
    names = pa.array([f"name {one:030d}" for one in range(num_rows)])
    table = pa.table({"id": ids, "name": names})
    dataset = await alance.write_dataset(table, str(tmp_path / "t.lance"))
    held: list[int] = []
    indexed: list[int] = []
    removed: list[Path] = []
    append, of = spool.Spool.append, merge_join.KeyIndex.of
    remove = spool.Scratch.remove

    async def appended(self: spool.Spool, batch: pa.RecordBatch) -> None:
        await append(self, batch)
        held.append(self._held_bytes)

    def index(batches: list[pa.RecordBatch], schema: pa.Schema) -> merge_join.KeyIndex:
        indexed.append(sum(batch.nbytes for batch in batches))
        return of(batches, schema)

    async def gone(self: spool.Scratch) -> None:
        folder = self._folder
        assert folder is not None
        assert list(folder.iterdir())
        removed.append(folder)
        await remove(self)

    monkeypatch.setattr(spool.Spool, "append", appended)
    monkeypatch.setattr(merge_join.KeyIndex, "of", index)
    monkeypatch.setattr(spool.Scratch, "remove", gone)

    async def batches() -> AsyncIterator[pa.RecordBatch]:
        for start in range(num_rows // 2, num_rows * 3 // 2, 1000):
            yield pa.record_batch(
                {
                    "name": pa.array([f"name {one:030d}" for one in range(start, start + 1000)]),
                    "id": pa.array(range(-start, -start - 1000, -1), pa.int64()),
                }
            )

    merge = dataset.merge_insert("name").when_matched_update_all().when_not_matched_insert_all()
    changed = await merge.memory_budget(budget).execute(batches())
    assert changed.summary["num_updated_rows"] == changed.summary["num_inserted_rows"] == 20_000
    assert max(held) <= budget
    assert len(indexed) > 3
    assert max(indexed) * merge_join.INDEX_FACTOR <= budget
    assert removed
    assert not removed[0].exists()
    found = await changed.to_table(["id"], filter="id > 0")
    assert found.num_rows == 20_000 - 1


WRONG: dict[str, tuple[Any, Any, type[AlanceError], str]] = {
    "no such key": (
        "q",
        lambda m: m.when_matched_update_all(),
        InvalidInputError,
        "key column 'q'",
    ),
    "no key": (None, lambda m: m.when_matched_update_all(), InvalidInputError, "no primary key"),
    "no keys": ([], lambda m: m.when_matched_update_all(), InvalidInputError, "no key columns"),
    "nothing to do": ("id", lambda m: m, InvalidInputError, "nothing to do"),
    "list as key": ("l", lambda m: m.when_matched_update_all(), UnsupportedError, "list"),
    "bad condition": (
        "id",
        lambda m: m.when_matched_update_all("source.zz > 1"),
        InvalidInputError,
        "zz",
    ),
    "condition of one side or the other": (
        "id",
        lambda m: m.when_matched_update_all("v > 1"),
        InvalidInputError,
        "'v'",
    ),
    "no condition": (
        "id",
        lambda m: m.when_matched_update_all("source.v + 1"),
        InvalidInputError,
        "expected a condition",
    ),
    "no SQL": (
        "id",
        lambda m: m.when_matched_update_all("source.v >"),
        InvalidInputError,
        "syntax error",
    ),
    "a division by zero": (
        "id",
        lambda m: m.when_matched_update_all("source.id / 0 > target.id"),
        InvalidInputError,
        "zero",
    ),
    "bad others": (
        "id",
        lambda m: m.when_not_matched_by_source_delete("target.v > 1"),
        InvalidInputError,
        "target",
    ),
    "columns of inserted rows": (
        "id",
        lambda m: (
            m.when_matched_update_all().when_not_matched_insert_all().write_mode("rewrite_columns")
        ),
        InvalidInputError,
        "rows are inserted",
    ),
    "all columns": (
        "id",
        lambda m: m.when_matched_update_all().write_mode("rewrite_columns"),
        InvalidInputError,
        "all columns",
    ),
}


@pytest.mark.parametrize("what", WRONG)
async def test_wrong_use(tmp_path: Path, what: str) -> None:
    on, clauses, error, text = WRONG[what]
    dataset = await made(tmp_path)
    before = files_of(tmp_path / "t.lance")
    with pytest.raises(error, match=text):
        await clauses(dataset.merge_insert(on)).execute(rows(3, 6))
    assert files_of(tmp_path / "t.lance") == before


BAD_DATA: dict[str, tuple[Any, str]] = {
    "column too many": (rows(0, 2).append_column("zz", [[1, 2]]), "'zz'"),
    "no key column": (rows(0, 2).drop_columns(["id"]), "key column 'id'"),
    "another type": (
        rows(0, 2).set_column(1, "v", pa.array(["a", "b"])),
        "column 'v': the data has string",
    ),
    "a key that does not fit": (
        rows(0, 2).set_column(0, "id", pa.array([1.5, 2.0])),
        "column 'id'",
    ),
    "a column twice": (rows(0, 2).append_column("v", rows(0, 2).column("v")), "'v'"),
    "one key twice": (pa.concat_tables([rows(2, 4), rows(3, 5)]), "rows 1 and 2 .* id = 3"),
    "no data": (7, "data of type int"),
    "an empty iterable": ([], "needs `schema`"),
}


@pytest.mark.parametrize("what", BAD_DATA)
async def test_bad_data(tmp_path: Path, what: str) -> None:
    data, text = BAD_DATA[what]
    dataset = await made(tmp_path)
    before = files_of(tmp_path / "t.lance")
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(InvalidInputError, match=text):
        await merge.memory_budget(1).execute(data)
    assert files_of(tmp_path / "t.lance") == before


async def test_data_that_fails_half_way(tmp_path: Path) -> None:
    dataset = await made(tmp_path)
    before = files_of(tmp_path / "t.lance")

    def batches() -> Iterator[pa.Table]:
        yield rows(0, 5)
        raise OSError("the network")

    with pytest.raises(OSError, match="the network"):
        await dataset.upsert(batches(), "id", memory_bytes=1)
    assert files_of(tmp_path / "t.lance") == before


async def test_nulls_where_there_are_none(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("v", pa.int64(), False)])
    path = tmp_path / "t.lance"
    dataset = await alance.write_dataset(pa.table([[1, 2], [3, 4]], schema=schema), str(path))
    before = files_of(path)
    with pytest.raises(InvalidInputError, match=r"'v'.*null"):
        await dataset.upsert(pa.table({"id": [2, 3], "v": [None, 5]}), "id")
    with pytest.raises(InvalidInputError, match="'v': missing"):
        await dataset.upsert(pa.table({"id": [2, 3]}), "id")
    assert files_of(path) == before
    found = (
        await dataset.merge_insert("id").when_matched_update_all().execute(pa.table({"id": [2]}))
    )
    assert found.summary["num_updated_rows"] == 1


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("conflict_retries", -1),
        ("retry_timeout", -1),
        ("retry_timeout", "1 s"),
        ("memory_budget", 0),
        ("write_mode", "fast"),
        ("data_storage_version", "9.9"),
    ],
)
async def test_options(tmp_path: Path, method: str, value: Any) -> None:
    merge = (await made(tmp_path)).merge_insert("id")
    with pytest.raises(InvalidInputError):
        getattr(merge, method)(value)


async def test_builders_are_values(tmp_path: Path) -> None:
    """A builder can be used again, and does not change."""
    dataset = await made(tmp_path)
    merge = dataset.merge_insert("id").when_matched_update_all()
    merge.when_not_matched_insert_all()
    first = await merge.execute(rows(19, 22))
    assert dict(first.summary) == {
        "num_inserted_rows": 0,
        "num_updated_rows": 1,
        "num_deleted_rows": 0,
    }
    assert "when_matched='update'" in repr(merge)


@pytest.mark.parametrize("stable", [False, True])
async def test_two_merges_of_one_version(tmp_path: Path, stable: bool) -> None:
    """Of the same rows: one after the other; of others: both at once."""
    dataset = await made(tmp_path, stable_row_ids=stable)
    datas = [rows(4, 8), rows(6, 10), rows(12, 14), rows(30, 33)]
    datas = [
        one.set_column(1, "v", pa.array([100.0 + number] * one.num_rows))
        for number, one in enumerate(datas)
    ]
    found = await asyncio.gather(*(dataset.upsert(data, "id") for data in datas))
    assert sorted(one.version for one in found) == [2, 3, 4, 5]
    assert [one.summary["num_updated_rows"] for one in found] == [4, 4, 2, 0]
    last = await dataset.checkout_latest()
    values = {row["id"]: row["v"] for row in (await last.to_table(["id", "v"])).to_pylist()}
    assert await last.count_rows() == len(values) == 23
    assert {values[4], values[12], values[31]} == {100.0, 102.0, 103.0}
    assert values[6] in (100.0, 101.0)
    lance.dataset(str(tmp_path / "t.lance")).validate()


async def test_retries_end(tmp_path: Path) -> None:
    dataset = await made(tmp_path)
    await dataset.update({"v": "0"}, "id = 3")
    merge = dataset.merge_insert("id").when_matched_update_all()
    before = files_of(tmp_path / "t.lance")
    with pytest.raises(RetryableConflictError):
        await merge.conflict_retries(0).execute(rows(3, 4))
    with pytest.raises(RetryableConflictError):
        await merge.retry_timeout(0).execute(rows(3, 4))
    assert files_of(tmp_path / "t.lance") == before
    made_ = await merge.execute(rows(3, 4).to_reader())
    assert made_.version == 3
    assert (await made_.to_table(["v"], filter="id = 3")).to_pydict() == {"v": [4.5]}


async def test_an_attempt_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the first one; and nothing of it stays."""
    dataset = await made(tmp_path)
    await dataset.update({"v": "0"}, "id = 3")
    before = files_of(tmp_path / "t.lance")
    write = merge_insert.write_inserted
    calls: list[int] = []

    async def late(*args: Any) -> None:
        await write(*args)
        calls.append(1)
        if len(calls) > 1:
            raise TimeoutError  # as of the deadline

    monkeypatch.setattr(merge_insert, "write_inserted", late)
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(RetryableConflictError, match="not done within"):
        await merge.execute(rows(3, 40))
    assert len(calls) == 2
    assert files_of(tmp_path / "t.lance") == before


async def test_other_columns_meanwhile(tmp_path: Path) -> None:
    dataset = await made(tmp_path)
    await (await dataset.update({"v": "0"}, "id = 3")).drop_columns(["s"])
    with pytest.raises((CommitConflictError, InvalidInputError)):
        await dataset.upsert(rows(3, 4), "id")


async def test_files_of_a_commit_that_fails_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = await made(tmp_path)
    before = files_of(tmp_path / "t.lance")

    async def fails(*_: object, **__: object) -> None:
        raise InvalidInputError("no")

    monkeypatch.setattr(merge_insert, "write_inserted", fails)
    with pytest.raises(InvalidInputError, match="no"):
        await dataset.upsert(rows(3, 40), "id")
    assert files_of(tmp_path / "t.lance") == before


async def test_what_the_version_is_noted_with(tmp_path: Path) -> None:
    dataset = await made(tmp_path)
    merge = dataset.merge_insert("id").when_not_matched_insert_all()
    merge = merge.commit_options(properties={"who": "me"}, message="more")
    found = await (await merge.execute(rows(30, 31))).read_transaction()
    assert found is not None
    assert found.properties["who"] == "me"
    assert found.message == "more" or "more" in found.properties.values()


async def test_more_data_of_many_kinds(tmp_path: Path) -> None:
    dataset = await made(tmp_path)
    one = await dataset.upsert(rows(19, 21).to_batches(), "id")
    two = await one.upsert(one.to_batches(["id", "v"], filter="id > 15"), "id")
    three = await two.upsert(rows(30, 31).to_batches()[0], "id")
    four = await three.upsert([], "id", schema=rows(0, 0).schema)
    assert [each.summary["num_updated_rows"] for each in (one, two, three, four)] == [1, 5, 0, 0]
    assert await four.count_rows() == 22


def test_blocking(tmp_path: Path) -> None:
    dataset = alance.sync.write_dataset(rows(0, 20), str(tmp_path / "t.lance"))
    merge = dataset.merge_insert("id").when_matched_delete().when_not_matched_insert_all()
    made = merge.execute(rows(15, 25))
    assert type(made) is alance.sync.Dataset
    assert made.summary["num_deleted_rows"] == made.summary["num_inserted_rows"] == 5
    assert made.upsert(rows(0, 40), on=["id"]).count_rows() == 40
