"""Merges against a plain model, and with little memory."""

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
    InvalidInputError,
)
from alance.ops.merge import match as merge_join
from alance.ops.write import spool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
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
    places = [SCHEMA.names.index(item) for item in case["on"]]

    def key(row: Row) -> tuple[Any, ...] | None:
        values = tuple(row[place] for place in places)
        return None if None in values else values

    rows: list[Row] = []
    counts = dict.fromkeys(("inserted", "updated", "deleted"), 0)
    for row in case["table"]:
        values = (
            [] if key(row) is None else [item for item in case["data"] if key(item) == key(row)]
        )
        if not values:
            gone = case["others"] == "all" or (case["others"] == "some" and row[2] % 2 == 1)
            counts["deleted"] += gone
            rows += [] if gone else [row]
            continue
        if case["matched"] == "if":
            values = [item for item in values if (item[2] + row[2]) % 3 == 0]
        if case["matched"] == "nothing" or not values:
            rows.append(row)
        elif len(values) > 1:
            return None
        elif case["matched"] == "delete":
            counts["deleted"] += 1
        else:
            counts["updated"] += 1
            entry = values[0]
            rows.append((entry[0], row[1], entry[2]) if case["lacks"] else entry)
    if case["inserts"]:
        recognized = {key(row) for row in case["table"]} - {None}
        new = [item for item in case["data"] if key(item) not in recognized]
        counts["inserted"] = len(new)
        rows += [(item[0], None, item[2]) if case["lacks"] else item for item in new]
    return rows, {f"num_{name}_rows": count for name, count in counts.items()}


def table_of(rows: list[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table([list(column) for column in columns], schema=SCHEMA)


@settings(max_examples=50)
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
        merged = await merge.execute(data.to_reader(max_chunksize=2))
        assert dict(merged.summary) == expected[1]
        table = await merged.to_table(with_row_id=True)
        values = [tuple(row[name] for name in SCHEMA.names) for row in table.to_pylist()]
        assert sorted(values, key=str) == sorted(expected[0], key=str)
        if case["stable"]:
            # What stays, and what is updated, keeps its id; what is new gets one of its own.
            ids = table.column("_rowid").to_pylist()
            assert len(set(ids)) == len(ids)
            retained = set(before.column("_rowid").to_pylist()) & set(ids)
            assert len(retained) == len(ids) - expected[1]["num_inserted_rows"]
        lance.dataset(folder).validate()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(f"{folder}/t.lance"))


async def test_what_is_in_memory_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a small budget rows and keys of both sides go to the disk; parts of the index fit."""
    budget, num_rows = 400_000, 40_000
    ids = pa.array(range(num_rows), pa.int64())
    names = pa.array([f"name {number:030d}" for number in range(num_rows)])
    table = pa.table({"id": ids, "name": names})
    dataset = await alance.write_dataset(table, str(tmp_path / "t.lance"))
    held: list[int] = []
    indexed: list[int] = []
    removed: list[Path] = []
    append, of = spool.Spool.append, merge_join.SourceKeys.of
    remove = spool.Scratch.remove

    async def appended(self: spool.Spool, batch: pa.RecordBatch) -> None:
        await append(self, batch)
        held.append(self._held_bytes)

    def index(batches: list[pa.RecordBatch], schema: pa.Schema) -> merge_join.SourceKeys:
        indexed.append(sum(batch.nbytes for batch in batches))
        return of(batches, schema)

    async def gone(self: spool.Scratch) -> None:
        folder = self._folder
        assert folder is not None
        assert list(folder.iterdir())
        removed.append(folder)
        await remove(self)

    monkeypatch.setattr(spool.Spool, "append", appended)
    monkeypatch.setattr(merge_join.SourceKeys, "of", index)
    monkeypatch.setattr(spool.Scratch, "remove", gone)

    async def batches() -> AsyncIterator[pa.RecordBatch]:
        for start in range(num_rows // 2, num_rows * 3 // 2, 1000):
            yield pa.record_batch(
                {
                    "name": pa.array(
                        [f"name {number:030d}" for number in range(start, start + 1000)]
                    ),
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
    rows = await changed.to_table(["id"], filter="id > 0")
    assert rows.num_rows == 20_000 - 1
