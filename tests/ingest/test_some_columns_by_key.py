"""Streams of changes by key whose rows have some columns, and members of structs, only."""

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

INNER = pa.struct([("p", pa.int64()), ("q", pa.list_(pa.int64()))])
ROW = pa.struct([("x", pa.int64()), ("y", pa.string()), ("inner", INNER)])
SHAPES = [  # of the struct in the rows that are written
    ROW,
    pa.struct([("x", pa.int64())]),
    pa.struct([("y", pa.string()), ("inner", INNER)]),
    pa.struct([("inner", pa.struct([("q", pa.list_(pa.int64()))]))]),
    pa.struct([("x", pa.int64()), ("inner", pa.struct([("p", pa.int64())]))]),
    pa.struct([("inner", pa.struct([]))]),
]
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


def value_of(column: str, number: int, shape: pa.DataType = ROW) -> Any:
    if number % 7 == 0:
        return None
    inner = {"p": number, "q": None if number % 5 == 0 else [number]}
    row = {"x": number, "y": None if number % 3 == 0 else str(number)}
    values: dict[str, Any] = {
        "a": number,
        "text": f"text {number}",
        "list": [number] * (number % 3),
        "row": {**row, "inner": None if number % 4 == 0 else inner},
        "vector": [float(number), 0.5],
        "word": f"word {number % 4}",
    }
    return cut(values[column], shape) if column == "row" else values[column]


def cut(value: Any, shape: pa.DataType) -> Any:
    """Return the members of a value that a type has."""
    if value is None or not pa.types.is_struct(shape):
        return value
    return {member.name: cut(value[member.name], member.type) for member in shape}


def filled(new: Any, old: Any, shape: pa.DataType, whole: pa.DataType) -> Any:
    """Return the value of a struct, some members of which are changed."""
    if shape == whole or (new is None and old is None):
        return new
    new, old = new or {}, old or {}
    value = {member.name: old.get(member.name) for member in whole}
    for member in shape:
        name = member.name
        value[name] = filled(new.get(name), value[name], member.type, whole.field(name).type)
    return value


def change(model: Model, changes: Sequence[Change], shape: pa.DataType = ROW) -> None:
    """Apply changes to a model, one by one; their structs have the type `shape`."""
    for key, row in changes:
        if row is None:
            model.pop(key, None)
        else:
            old = model.get(key, dict.fromkeys(SCHEMA.names))
            model[key] = {**old, **row, "id": key}
            if "row" in row:
                model[key]["row"] = filled(row["row"], old["row"], shape, ROW)


def fields_of(columns: Sequence[str], shape: pa.DataType = ROW) -> pa.Schema:
    fields = [SCHEMA.field(name) for name in columns]
    return pa.schema([field.with_type(shape) if field.name == "row" else field for field in fields])


def batch(rows: Sequence[Row], columns: Sequence[str], shape: pa.DataType = ROW) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=fields_of(columns, shape))


def bare(value: Any) -> Any:
    """Return a value with None for structs of nulls; combined changes do not tell them apart."""
    if not isinstance(value, dict):
        return value
    members = {name: bare(member) for name, member in value.items()}
    return members if any(member is not None for member in members.values()) else None


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
            st.sampled_from(SHAPES),
            st.lists(st.integers(0, 5), max_size=5),
        ),
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
def test_combined_changes_equal_the_changes_one_by_one(
    calls: list[tuple[set[str] | None, pa.DataType, list[int]]], chance: random.Random
) -> None:
    """From any earlier rows, and from none; whatever the order of the parts."""
    changes: list[tuple[Change, pa.DataType]] = []
    parts = []
    for columns, shape, keys in calls:
        names = [name for name in SCHEMA.names if name == "id" or name in (columns or ())]
        first = len(changes)
        for key in keys:
            number = len(changes) + 1
            row = {name: value_of(name, number, shape) for name in names if name != "id"}
            changes.append(((key, None if columns is None else row), shape))
        rows = [{"id": key, **(row or {})} for (key, row), _ in changes[first:]]
        places = np.arange(first, len(changes))
        parts.append(FeedPart(batch(rows, names, shape), places, columns is None))
    chance.shuffle(parts)
    combined = combine(SCHEMA, ["id"], parts)
    assert combined.num_changes == len(changes)
    old = {key: {name: value_of(name, 100 + key) for name in COLUMNS} for key in range(5)}
    for start in (Model(), {key: {**row, "id": key} for key, row in old.items()}):
        expected = dict(start)
        for each, shape in changes:
            change(expected, [each], shape)
        model = dict(start)
        upserts, deleted = combined.deletions_first(["id"])
        for rows in deleted:
            change(model, [(key, None) for key in rows["id"].to_pylist()])
        for rows in upserts:
            shape = rows.schema.field("row").type if "row" in rows.schema.names else ROW
            change(model, [(row["id"], row) for row in rows.to_pylist()], shape)
        assert bare(model) == bare(expected)
    # Each key is once.
    every = [*combined.rows, *combined.replacing, *combined.deleted]
    keys = [key for rows in every for key in rows["id"].to_pylist()]
    assert sorted(keys) == sorted({key for (key, _), _ in changes})


async def write(
    sink: alance.Sink,
    form: str,
    columns: Sequence[str],
    changes: Sequence[Change],
    shape: pa.DataType,
) -> None:
    """Write changes in a form; their rows have the same columns, and structs of a type."""
    names = ["id", *columns]
    if form == "calls":
        for key, row in changes:
            if row is None:
                await sink.delete({"id": [key]})
            else:
                await sink.upsert(batch([{"id": key, **row}], names, shape))
        return
    fields = list(fields_of(names, shape))
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
                shape = chance.choice(SHAPES)
                changes: list[Change] = []
                for _ in range(chance.randint(0, 9)):
                    number += 1
                    row = {name: value_of(name, number, shape) for name in columns}
                    is_deletion = chance.random() < 0.25
                    changes.append((chance.randint(0, 12), None if is_deletion else row))
                await write(sink, form, columns, changes, shape)
                change(model, changes, shape)
            await sink.flush()
            assert bare(contents(path)) == bare(model)
            if turn == 3:
                await (await alance.dataset(path)).create_scalar_index("id", "BTREE")


@pytest.mark.parametrize("shares_session", [True, False])
async def test_sinks_of_different_columns_lose_no_value_of_each_other(
    tmp_path: Path, shares_session: bool
) -> None:
    """They change the same rows at the same time; one also deletes a row, and sets it anew."""
    path, keys = tmp_path / "t", range(12)
    start = [{"id": key, **{name: value_of(name, 1) for name in COLUMNS}} for key in keys]
    await alance.write_dataset(batch(start, SCHEMA.names), path)

    async def work(column: str) -> None:
        session = alance.Session.of_loop() if shares_session else alance.Session()
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
            if not shares_session:
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
    row = pa.struct([("x", pa.int64()), pa.field("y", pa.string(), nullable=False)])
    schema = pa.schema(
        [
            ("id", pa.int64()),
            pa.field("n", pa.int64(), nullable=False),
            ("s", row),
            ("rows", pa.list_(row)),
        ]
    )
    async with alance.ingest(path, schema, on="id") as sink:
        await sink.upsert([{"id": 1, "n": 1, "s": None}])
        for data, message in (
            (
                [{"id": 7, "s": None}, {"id": 8, "s": None}],
                "column 'n': missing .* id = 7, ",
            ),
            ([{"id": 7, "n": 1, "s": {"x": 1}}], "column 's.y': missing .* id = 7, "),
            ([{"id": 1, "n": 2}, {"id": 4, "n": 3, "s": {"y": "y"}}], "column 's.y': null"),
            ([{"id": 7, "n": 1, "s": {"z": 1}}], "column 's.z': not among the members of 's'"),
            ([{"id": 7, "n": 1, "rows": [{"x": 1}]}], "column 'rows': .*structs in lists"),
            ([{"id": 7, "n": 1, "t": 1}], "column 't'"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                await sink.upsert(data)
        await sink.upsert([{"n": 2, "id": 1}])
        await sink.upsert([{"n": 3, "id": 4, "s": {"y": "y"}}])
    rows = contents(path)
    assert {key: row["n"] for key, row in rows.items()} == {1: 2, 4: 3}
    assert rows[4]["s"] == {"x": None, "y": "y"}
    dataset = await alance.dataset(path)
    with pytest.raises(InvalidInputError, match="column 'n': missing"):
        await dataset.upsert([{"id": 7, "s": None}], "id")


INNER = pa.struct([pa.field("a", pa.int64(), nullable=False), ("b", pa.int64())])
NEEDED = pa.struct([pa.field("x", pa.int64(), nullable=False), ("y", pa.int64()), ("in", INNER)])
PARTS: list[tuple[Any, pa.DataType]] = [
    (value, pa.struct([NEEDED.field(name).with_nullable(True) for name in names]))
    for names in (["x"], ["y"], ["x", "y"], ["y", "in"])
    for value in (None, {name: {"a": 5, "b": 5} if name == "in" else 5 for name in names})
]
PARTS += [
    (value, pa.struct([NEEDED.field("x"), pa.field("in", pa.struct([INNER.field(name)]))]))
    for name in ("a", "b")
    for value in (None, {"x": 5, "in": None}, {"x": 5, "in": {name: 5}})
]


@pytest.mark.parametrize(("value", "part"), PARTS, ids=str)
async def test_a_sink_takes_what_an_upsert_can_write_into_any_row(
    tmp_path: Path, value: Any, part: pa.DataType
) -> None:
    """Into no row, a null, and a struct with a value or a null for the inner one."""
    rows = pa.table({"id": [1], "s": pa.array([value], part)})
    whole = {"x": 1, "y": 1, "in": {"a": 1, "b": 1}}
    outcomes = []
    states = [{"id": 2, "s": None}, {"id": 1, "s": None}, {"id": 1, "s": whole}]
    for number, state in enumerate([*states, {"id": 1, "s": {**whole, "in": None}}]):
        table = pa.Table.from_pylist([state], pa.schema([("id", pa.int64()), ("s", NEEDED)]))
        dataset = await alance.write_dataset(table, tmp_path / str(number))
        try:
            outcomes.append((await dataset.upsert(rows, "id")).version)
        except InvalidInputError:
            outcomes.append(None)
    async with alance.ingest(tmp_path / "0", on="id") as sink:
        if all(outcomes):
            await sink.upsert(rows)
        else:
            with pytest.raises(
                InvalidInputError, match=r"column 's\..*: (missing|null) in the rows"
            ):
                await sink.upsert(rows)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
async def test_structs_with_some_members_are_as_those_of_an_upsert(
    tmp_path: Path, shape: pa.DataType
) -> None:
    """By a sink and by `Dataset.upsert`: a struct, a null, nulls in it, of old and new rows."""
    start = batch([{"id": key, "row": value_of("row", key)} for key in range(1, 9)], ["id", "row"])
    changes: list[Change] = [
        (key, {"row": cut(row, shape)})
        for key, row in enumerate(
            [value_of("row", 21 + number) for number in range(7)]  # the first is null
            + [None, {"x": None, "y": None, "inner": None}, value_of("row", 4)],
            4,
        )
    ]
    rows = batch([{"id": key, **(row or {})} for key, row in changes], ["id", "row"], shape)
    model: Model = {}
    for part in (start, rows):
        types = part.schema.field("row").type
        change(model, [(row["id"], {"row": row["row"]}) for row in part.to_pylist()], types)
    for by_sink in (True, False):
        path = tmp_path / str(by_sink)
        whole = pa.Table.from_pylist(start.to_pylist(), SCHEMA)
        dataset = await alance.write_dataset(whole, path)
        if by_sink:
            async with alance.ingest(path, on="id") as sink:
                await sink.upsert(rows)
        else:
            await dataset.upsert(rows, "id")
        assert contents(path) == model


async def test_blobs_in_several_forms_are_committed_together(tmp_path: Path) -> None:
    """As bytes and as structs; both forms in columns that stay and in rows of some columns."""
    path = tmp_path / "t"
    schema = pa.schema([("id", pa.int64()), alance.blob_field("b"), ("tag", pa.string())])
    async with alance.ingest(path, schema, on="id", commit_interval=None) as sink:
        await sink.upsert({"id": [1, 2], "b": [b"1", b"2"], "tag": ["", ""]})
        structs = alance.blob_array([b"3", b"4"])
        await sink.upsert(pa.table({"id": [3, 4], "b": structs, "tag": ["", ""]}))
        await sink.flush()
        for number, key in enumerate([1, 2, 3, 4, 5]):
            await sink.upsert({"id": [key], "b": [b"bytes"]})
            if number % 2:
                await sink.upsert(pa.table({"id": [key], "b": alance.blob_array([b"struct"])}))
            await sink.upsert({"id": [key], "tag": ["new"]})
    read = await (await alance.dataset(path)).to_table(blob_handling="all_binary")
    assert {row["id"]: (row["b"], row["tag"]) for row in read.to_pylist()} == {
        key: (b"bytes" if key % 2 else b"struct", "new") for key in range(1, 6)
    }
    lance.dataset(str(path)).validate()  # type: ignore[no-untyped-call]
