"""Streams of changes by key whose rows have some columns of the table only."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import alance
from alance.errors import InvalidInputError
from alance.ops.merge import stream
from alance.ops.merge.changed_keys import FeedPart, combine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ROW = pa.struct([("x", pa.int64()), ("y", pa.string())])
SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("id", pa.int64()),
        ("text", pa.string()),
        ("list", pa.list_(pa.int64())),
        ("row", ROW),
        ("vector", pa.list_(pa.float32(), 2)),
        ("word", pa.dictionary(pa.int32(), pa.string())),
    ]
)
COLUMNS = [name for name in SCHEMA.names if name != "id"]
Row = dict[str, Any]
Model = dict[int, Row]
# A deletion is None; an upsert has some columns.
Change = tuple[int, Row | None]


def value_of(column: str, number: int) -> Any:
    if number % 7 == 0:
        return None
    values: dict[str, Any] = {
        "a": number,
        "text": f"text {number}",
        "list": [number] * (number % 3),
        "row": {"x": number, "y": None if number % 3 == 0 else str(number)},
        "vector": [float(number), 0.5],
        "word": f"word {number % 4}",
    }
    return values[column]


def change(model: Model, changes: Sequence[Change]) -> None:
    """Apply changes to a model, one by one."""
    for key, row in changes:
        if row is None:
            model.pop(key, None)
        else:
            old = model.get(key, dict.fromkeys(SCHEMA.names))
            model[key] = {**old, **row, "id": key}


def batch(rows: Sequence[Row], columns: Sequence[str]) -> pa.RecordBatch:
    fields = [SCHEMA.field(name) for name in columns]
    return pa.RecordBatch.from_pylist(list(rows), schema=pa.schema(fields))


def contents(path: Path) -> Model:
    """The table as pylance reads it, in which each key is once."""
    table = lance.dataset(str(path))
    table.validate()  # type: ignore[no-untyped-call]
    read = table.to_table().to_pylist()
    assert len({row["id"] for row in read}) == len(read)
    return {row["id"]: row for row in read}


@given(
    st.lists(
        st.tuples(
            st.none() | st.sets(st.sampled_from(COLUMNS)),
            st.lists(st.integers(0, 5), max_size=5),
        ),
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
def test_combined_changes_equal_the_changes_one_by_one(
    calls: list[tuple[set[str] | None, list[int]]], chance: random.Random
) -> None:
    """From any earlier rows, and from none; whatever the order of the parts."""
    changes: list[Change] = []
    parts = []
    for columns, keys in calls:
        names = [name for name in SCHEMA.names if name == "id" or name in (columns or ())]
        first = len(changes)
        for key in keys:
            row = {name: value_of(name, len(changes) + 1) for name in names if name != "id"}
            changes.append((key, None if columns is None else row))
        rows = [{"id": key, **(row or {})} for key, row in changes[first:]]
        places = np.arange(first, len(changes))
        parts.append(FeedPart(batch(rows, names), places, columns is None))
    chance.shuffle(parts)
    combined = combine(SCHEMA, ["id"], parts)
    assert combined.num_changes == len(changes)
    old = {key: {name: f"old {name}" for name in SCHEMA.names} for key in range(5)}
    for start in ({}, old):
        expected: Model = dict(start)
        change(expected, changes)
        model: Model = dict(start)
        upserts, deleted = combined.deletions_first(["id"])
        for rows in deleted:
            change(model, [(key, None) for key in rows["id"].to_pylist()])
        for rows in upserts:
            change(model, [(row["id"], row) for row in rows.to_pylist()])
        assert model == expected
    # Each key is once.
    every = [*combined.rows, *combined.replacing, *combined.deleted]
    keys = [key for rows in every for key in rows["id"].to_pylist()]
    assert sorted(keys) == sorted({key for key, _ in changes})


async def write(
    sink: alance.Sink, form: str, columns: Sequence[str], changes: Sequence[Change]
) -> None:
    """Write changes in a form; their rows have the same columns."""
    names = ["id", *columns]
    if form == "calls":
        for key, row in changes:
            if row is None:
                await sink.delete({"id": [key]})
            else:
                await sink.upsert(batch([{"id": key, **row}], names))
        return
    fields = [SCHEMA.field(name) for name in names]
    rows = [{"id": key, **(row or {})} for key, row in changes]
    if form == "kind":
        kinds = ["delete" if row is None else "upsert" for _, row in changes]
        feed = [{**row, "kind": kind} for row, kind in zip(rows, kinds, strict=True)]
        data = pa.Table.from_pylist(feed, pa.schema([*fields, ("kind", pa.string())]))
    else:
        image = pa.struct(fields)
        events = [
            {
                "op": "d" if change is None else "u",
                "before": row if change is None else None,
                "after": None if change is None else row,
            }
            for row, (_, change) in zip(rows, changes, strict=True)
        ]
        schema = pa.schema([("op", pa.string()), ("before", image), ("after", image)])
        data = pa.Table.from_pylist(events, schema)
    await sink.write(data)


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("form", ["calls", "kind", "debezium"])
async def test_the_table_is_a_dictionary_of_rows(tmp_path: Path, form: str, stable: bool) -> None:
    """Two sinks in turn, each with several flushes; columns, keys and deletions by chance."""
    path, model, chance = tmp_path / "t", Model(), random.Random(f"{form} {stable}")
    options: dict[str, Any] = {
        "kind": {"kind": "kind"}, "debezium": {"envelope": "debezium"}, "calls": {},
    }[form]  # fmt: skip
    number = 0
    sinks = [
        alance.ingest(path, SCHEMA, on="id", commit_interval=None, stable_row_ids=stable, **options)
        for _ in range(2)
    ]
    async with sinks[0], sinks[1]:
        for turn in range(6):
            sink = sinks[turn % 2]
            for _ in range(chance.randint(1, 6)):
                columns = chance.sample(COLUMNS, chance.choice([0, 1, 1, 2, 5, 6]))
                changes: list[Change] = []
                for _ in range(chance.randint(0, 9)):
                    number += 1
                    row = {name: value_of(name, number) for name in columns}
                    is_deletion = chance.random() < 0.25
                    changes.append((chance.randint(0, 12), None if is_deletion else row))
                await write(sink, form, columns, changes)
                change(model, changes)
            await sink.flush()
            assert contents(path) == model
            if turn == 3:
                await (await alance.dataset(path)).create_scalar_index("id", "BTREE")


@pytest.mark.parametrize("same_session", [True, False])
async def test_sinks_of_different_columns_lose_no_value_of_each_other(
    tmp_path: Path, same_session: bool
) -> None:
    """They change the same rows at the same time; one also deletes a row, and sets it anew."""
    path, keys = tmp_path / "t", range(12)
    start = [{"id": key, **{name: value_of(name, 1) for name in COLUMNS}} for key in keys]
    await alance.write_dataset(batch(start, SCHEMA.names), path)

    async def work(column: str) -> None:
        session = alance.Session.of_loop() if same_session else alance.Session()
        try:
            sink = alance.ingest(path, on="id", session=session, commit_interval=None)
            async with sink:
                for number in range(1, 6):
                    rows = [{"id": key, column: value_of(column, number)} for key in keys]
                    if column == "a":
                        await sink.delete({"id": [100]})
                    await sink.upsert(batch([*rows, {"id": 100}], ["id", column]))
                    await sink.flush()
        finally:
            if not same_session:
                await session.aclose()

    await asyncio.gather(*map(work, ("a", "text", "vector")))
    last = {name: value_of(name, 5) for name in ("a", "text", "vector")}
    rows = contents(path)
    assert rows.pop(100).keys() == set(SCHEMA.names)
    assert rows == {row["id"]: {**row, **last} for row in start}


async def test_a_key_gets_the_last_value_of_each_column(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with alance.ingest(path, on="id", commit_interval=None) as sink:
        await sink.upsert([{"id": 1, "a": 1, "b": 1}, {"id": 2, "a": 2, "b": 2}])  # the columns
        await sink.upsert([{"b": 10, "id": 1}])
        await sink.flush()
        assert sink.dataset is not None
        assert dict(sink.dataset.summary)["num_inserted_rows"] == 2
        await sink.upsert({"id": [1, 3]})  # the keys alone: a new row of nulls, and no change
        await sink.upsert([{"id": 2, "a": 20}])
        await sink.upsert([{"id": 2, "b": 21}])
        await sink.upsert([{"id": 2, "a": 22}])
        await sink.flush()
        first = contents(path)
        await sink.delete({"id": [1, 2, 3]})
        await sink.upsert([{"id": 1, "a": None}, {"id": 2, "a": 5}])
        await sink.flush()
        summary = dict(sink.dataset.summary)
        assert (summary["num_updated_rows"], summary["num_deleted_rows"]) == (2, 1)
    assert first == {
        1: {"id": 1, "a": 1, "b": 10},
        2: {"id": 2, "a": 22, "b": 21},
        3: {"id": 3, "a": None, "b": None},
    }
    assert contents(path) == {1: {"id": 1, "a": None, "b": None}, 2: {"id": 2, "a": 5, "b": None}}


async def test_columns_that_no_change_has_are_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit of other columns, beside one row with its vector, holds no vectors."""
    path = tmp_path / "t"
    vector = pa.list_(pa.float32(), 1000)
    schema = pa.schema([("id", pa.int64()), ("tag", pa.string()), ("vector", vector)])
    held: list[int] = []
    parts_of = stream._parts

    def noted(*arguments: Any) -> Any:
        parts = parts_of(*arguments)
        held.append(sum(part.data.nbytes for part in parts))  # type: ignore[union-attr]
        return parts

    monkeypatch.setattr(stream, "_parts", noted)
    async with alance.ingest(path, schema, on="id", commit_interval=None) as sink:
        await sink.upsert([{"id": 0, "vector": [1.0] * 1000}])
        await sink.delete({"id": range(500)})
        await sink.upsert([{"id": key, "tag": "new"} for key in range(1000)])
        await sink.upsert([{"id": 1000, "vector": [1.0] * 1000, "tag": "whole"}])
    assert len(held) == 1
    assert held[0] < 50_000
    rows = contents(path)
    assert (len(rows), rows[0]["vector"], len(rows[1000]["vector"])) == (1001, None, 1000)


async def test_rows_that_cannot_be_inserted_are_refused(tmp_path: Path) -> None:
    """As `Dataset.upsert` refuses them, and before they are accepted."""
    path = tmp_path / "t"
    schema = pa.schema([("id", pa.int64()), pa.field("n", pa.int64(), nullable=False), ("s", ROW)])
    async with alance.ingest(path, schema, on="id") as sink:
        await sink.upsert([{"id": 1, "n": 1, "s": None}])
        for data, message in (
            (
                [{"id": 7, "s": None}, {"id": 8, "s": None}],
                "column 'n': missing .* id = 7, ",
            ),
            ([{"id": 7, "n": 1, "s": {"x": 1}}], "column 's': members are missing"),
            ([{"id": 7, "n": 1, "t": 1}], "column 't'"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                await sink.upsert(data)
        await sink.upsert([{"n": 2, "id": 1}, {"n": 3, "id": 4}])
    assert {key: row["n"] for key, row in contents(path).items()} == {1: 2, 4: 3}
    dataset = await alance.dataset(path)
    with pytest.raises(InvalidInputError, match="column 'n': missing"):
        await dataset.upsert([{"id": 7, "s": None}], "id")
