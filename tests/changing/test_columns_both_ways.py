"""The same change of columns by pylance and by alance: the same transaction, manifest and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from tests.changing.both_ways import Twins, latest, read, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KINDS = [
    pytest.param({"data_storage_version": "2.1"}, id="2.1"),
    pytest.param(
        {
            "data_storage_version": "2.2",
            "enable_stable_row_ids": True,
            "enable_v2_manifest_paths": False,
        },
        id="2.2 stable",
    ),
]
DEEP = pa.struct(
    [
        ("x", pa.int64()),
        ("y", pa.struct([("z", pa.string()), ("w", pa.float64())])),
        ("many", pa.list_(pa.struct([("p", pa.int64()), ("q", pa.string())]))),
    ]
)


def deep(start: int, stop: int) -> pa.Table:
    """Rows with structs and lists of several levels, nulls in all of them; metadata."""

    def struct_at(i: int) -> dict[str, Any] | None:
        if i % 5 == 4:
            return None
        inner = None if i % 3 == 2 else {"z": f"z{i}", "w": i / 2}
        many = [None if j == 2 else {"p": j, "q": f"q{j}"} for j in range(i % 4)]
        return {"x": i, "y": inner, "many": None if i % 7 == 6 else many}

    return pa.table(
        [
            pa.array(range(start, stop), pa.int64()),
            pa.array([struct_at(i) for i in range(start, stop)], DEEP),
            pa.array([[i, None, -i] for i in range(start, stop)], pa.list_(pa.int64())),
        ],
        schema=pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False, metadata={"unit": "row"}),
                pa.field("s", DEEP),
                pa.field("l", pa.list_(pa.int64())),
            ],
            metadata={"made by": "a test"},
        ),
    )


@pytest.fixture(params=KINDS)
def twins(request: pytest.FixtureRequest, tmp_path: Path) -> Twins:
    """Two tables with deleted rows at the start, in the middle and at the end of fragments."""
    result = Twins.make(tmp_path, **request.param)
    lance.dataset(str(result.theirs)).delete("id in (0, 1, 7, 14) or id = 19")
    result.again()
    return result


@pytest.fixture(params=KINDS)
def deep_twins(request: pytest.FixtureRequest, tmp_path: Path) -> Twins:
    result = Twins.make(tmp_path, deep(0, 20), **request.param)
    lance.dataset(str(result.theirs)).delete("id in (0, 8, 12)")
    result.again()
    return result


async def call_each(twins: Twins, name: str, *args: Any, theirs: Any = None, **more: Any) -> None:
    """The same call by both; `theirs` are pylance's arguments where they differ."""
    getattr(lance.dataset(str(twins.theirs)), name)(*(args if theirs is None else theirs), **more)
    changed = await getattr(await alance.dataset(str(twins.ours)), name)(*args, **more)
    twins.check()
    table = await changed.to_table(with_row_id=True)
    other = read(twins.theirs)
    assert table.to_pylist() == other.select(table.column_names).to_pylist()
    assert changed.schema.equals(lance.dataset(str(twins.theirs)).schema, check_metadata=True)
    ours = await (await alance.dataset(str(twins.theirs))).to_table()
    assert ours.to_pylist() == other.select(ours.column_names).to_pylist()


SQL: list[dict[str, str]] = [
    {"twice": "id * 2", "text": "upper(s)"},
    {"known": "s is null", "one": "1", "name": "'x'"},
    {"inner": "n.a + 1", "big": "cast(id as double)", "some": "id in (3, 4)"},
    {"copy": "n", "list": "l"},
    {"both": "id > 3 and s is not null", "either": "coalesce(s, 'none')", "minus": "-v"},
]


@pytest.mark.parametrize("texts", SQL, ids=lambda texts: " ".join(texts))
async def test_columns_of_sql_are_those_of_pylance(twins: Twins, texts: dict[str, str]) -> None:
    await call_each(twins, "add_columns", texts)


@pytest.mark.parametrize(
    "texts",
    [
        {"a": "id + 1", "b": "id = 2", "c": "abs(id)"},
        {"x": "s.x", "y": "s.y", "i": "cast(id as int)"},
    ],
    ids=["required", "nested"],
)
async def test_sql_over_fields_that_are_not_nullable(
    deep_twins: Twins, texts: dict[str, str]
) -> None:
    await call_each(deep_twins, "add_columns", texts)


def computed(batch: pa.RecordBatch) -> pa.RecordBatch:
    values = [{"k": value, "t": [str(value)]} for value in batch["id"].to_pylist()]
    return pa.record_batch({"u": batch["id"], "w": pa.array(values)})


async def test_columns_of_functions_are_those_of_pylance(twins: Twins) -> None:
    await call_each(twins, "add_columns", computed)
    await call_each(
        twins, "add_columns", lambda batch: pa.record_batch({"z": batch["id"]}), read_columns=["id"]
    )
    await call_each(
        twins,
        "add_columns",
        lambda batch: pa.record_batch({"address": batch["_rowaddr"], "row": batch["_rowid"]}),
        read_columns=["_rowaddr", "_rowid"],
    )


async def test_a_decorated_function(twins: Twins) -> None:
    output = pa.schema([pa.field("r", pa.int32(), nullable=False, metadata={"a": "b"})])

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([batch["id"].cast("int32")], schema=output)

    theirs = lance.batch_udf(output)(function)
    ours = alance.batch_udf(output)(function)
    await call_each(twins, "add_columns", ours, theirs=[theirs], read_columns=["id"])


@pytest.mark.parametrize("kind", ["table", "batches", "reader"])
async def test_columns_of_rows_are_those_of_pylance(twins: Twins, kind: str) -> None:
    table = pa.table({"r": range(15), "t": [{"u": [str(i)]} for i in range(15)]})

    def data() -> Any:
        if kind == "table":
            return table
        reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=4))
        return reader if kind == "reader" else list(reader)

    if kind == "batches":
        theirs = pa.RecordBatchReader.from_batches(table.schema, data())
        await call_each(twins, "add_columns", data(), theirs=[theirs])
    else:
        await call_each(twins, "add_columns", data(), theirs=[data()])


async def test_columns_of_nulls_are_those_of_pylance(twins: Twins) -> None:
    await call_each(twins, "add_columns", pa.field("x", pa.int32()))
    await call_each(twins, "add_columns", [pa.field("y", pa.string()), pa.field("z", pa.float32())])
    nested = pa.struct(
        [("a", pa.list_(pa.int8())), ("b", pa.list_(pa.struct([("c", pa.date32())])))]
    )
    await call_each(twins, "add_columns", pa.schema([pa.field("w", nested)]))


async def test_fields_of_a_struct_that_exists(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path, data_storage_version="2.2")
    lance.dataset(str(twins.theirs)).delete("id in (0, 7, 19)")
    twins.again()
    await call_each(twins, "add_columns", pa.field("n", pa.struct([("c", pa.int8())])))
    await call_each(
        twins,
        "add_columns",
        lambda batch: pa.record_batch({"n": pa.array([{"d": i} for i in batch["id"].to_pylist()])}),
    )


async def test_fields_of_structs_that_are_null(tmp_path: Path) -> None:
    """A struct is null where none of its files says otherwise; in lists, too."""
    twins = Twins.make(tmp_path, deep(0, 20), data_storage_version="2.2")
    lance.dataset(str(twins.theirs)).delete("id in (0, 8, 12)")
    twins.again()

    def new(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = [{"new": i} if i % 2 else None for i in batch["id"].to_pylist()]
        return pa.record_batch({"s": pa.array(values, pa.struct([("new", pa.int64())]))})

    await call_each(twins, "add_columns", new)
    more = pa.struct([("many", pa.list_(pa.struct([("r", pa.int8())])))])
    await call_each(twins, "add_columns", pa.field("s", more))
    await call_each(twins, "drop_columns", ["s.x", "s.y", "s.many.item.p"])


async def test_ids_after_a_drop(twins: Twins) -> None:
    await call_each(twins, "drop_columns", ["l"])
    await call_each(twins, "add_columns", {"l": "id"})
    await call_each(twins, "drop_columns", ["l", "n.b"])
    await call_each(twins, "add_columns", {"m": "id"})


ALTERATIONS: list[Callable[[], list[dict[str, Any]]]] = [
    lambda: [{"path": "id", "name": "key"}],
    lambda: [{"path": "id", "name": "v"}, {"path": "v", "name": "id"}],
    lambda: [{"path": "id", "nullable": False}],
    lambda: [{"path": "id", "nullable": True, "name": "key"}, {"path": "n.a", "name": "first"}],
    lambda: [{"path": "id", "data_type": pa.int16()}],
    lambda: [{"path": "id", "data_type": pa.int32(), "name": "key"}],
    lambda: [{"path": "v", "data_type": pa.float32()}, {"path": "s", "data_type": pa.large_utf8()}],
    lambda: [{"path": "l", "data_type": pa.large_list(pa.int32())}],
    lambda: [{"path": "l.item", "data_type": pa.int64()}],
]


@pytest.mark.parametrize("make", ALTERATIONS)
async def test_columns_are_altered_as_by_pylance(
    twins: Twins, make: Callable[[], list[dict[str, Any]]]
) -> None:
    await call_each(twins, "alter_columns", *make())


@pytest.mark.parametrize(
    "alterations",
    [
        [{"path": "s.x", "data_type": pa.int8()}],
        [{"path": "s.y.w", "data_type": pa.float32()}],
        [{"path": "s.many.item.p", "data_type": pa.int32()}],
        [{"path": "s.x", "data_type": pa.int16()}, {"path": "s.y.z", "data_type": pa.large_utf8()}],
        [{"path": "s.many.item.q", "name": "name"}, {"path": "s", "name": "t"}],
        [{"path": "id", "data_type": pa.int32()}],
        [{"path": "id", "nullable": True}],
        [{"path": "s.y", "name": "yy"}, {"path": "s.y.w", "name": "ww"}],
    ],
    ids=lambda alterations: " ".join("-".join(map(str, part.values())) for part in alterations),
)
async def test_nested_columns_are_altered_as_by_pylance(
    deep_twins: Twins, alterations: list[dict[str, Any]]
) -> None:
    await call_each(deep_twins, "alter_columns", *alterations)


async def test_casts_one_after_the_other(twins: Twins) -> None:
    await call_each(twins, "alter_columns", {"path": "id", "data_type": pa.int16()})
    await call_each(twins, "alter_columns", {"path": "id", "data_type": pa.int64()})
    await call_each(twins, "alter_columns", {"path": "id", "name": "key"})
    assert [len(fragment.files) for fragment in latest(twins.ours).fragments] == [2, 2, 2, 2]


@pytest.mark.parametrize(
    "names", [["id"], ["l", "n"], ["n.a"], ["n.a", "n.b"], ["n", "n.a"]], ids=" ".join
)
async def test_columns_are_dropped_as_by_pylance(twins: Twins, names: list[str]) -> None:
    await call_each(twins, "drop_columns", names)


@pytest.mark.parametrize(
    "names",
    [["s.y.w"], ["s.y.w", "s.y.z"], ["s.many.item.p"], ["s.many"], ["s.many.item"], ["id", "l"]],
    ids=" ".join,
)
async def test_nested_columns_are_dropped_as_by_pylance(
    deep_twins: Twins, names: list[str]
) -> None:
    await call_each(deep_twins, "drop_columns", names)


async def test_columns_are_merged_as_by_pylance(twins: Twins) -> None:
    data = pa.table(
        {
            "id": pa.array([3, 2, 3, 99, 18], pa.int64()),
            "m": [1, 2, 3, 4, 5],
            "t": [{"u": [str(i)]} for i in range(5)],
        }
    )
    await call_each(twins, "merge", data, "id")
    texts = pa.table({"k": ["s2", None, "s4", None], "o": [1, 2, 3, 4]})
    await call_each(twins, "merge", texts, "s", "k")
    inner = pa.table({"a": pa.array([5, 9], pa.uint64()), "p": ["x", "y"]})
    await call_each(twins, "merge", inner, "_rowid", "a")


async def test_merge_into_what_is_not_nullable(twins: Twins) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("q", pa.int8(), nullable=False)])
    data = pa.table({"id": range(20), "q": range(20)}).cast(schema)
    await call_each(twins, "merge", data, "id")


async def test_an_index_keeps_to_its_column(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path, rows(0, 20))
    theirs = lance.dataset(str(twins.theirs))
    theirs.create_scalar_index("id", "BTREE")
    theirs.create_scalar_index("v", "BTREE")
    twins.again()
    await call_each(twins, "alter_columns", {"path": "id", "name": "key"})
    await call_each(twins, "add_columns", {"more": "key"})
    assert [index.name for index in latest(twins.ours).indices] == ["id_idx", "v_idx"]
    assert lance.dataset(str(twins.ours)).to_table(filter="key = 7").num_rows == 1
    await call_each(twins, "drop_columns", ["key"])
    assert [index.name for index in latest(twins.ours).indices] == ["v_idx"]


async def test_pylance_goes_on(twins: Twins) -> None:
    """Each library changes columns that the other has changed."""
    ours = await alance.dataset(str(twins.ours))
    ours = await ours.add_columns({"a": "id"})
    ours = await ours.alter_columns({"path": "a", "data_type": pa.int32()})
    theirs = lance.dataset(str(twins.ours))
    theirs.add_columns({"b": "a + 1"})
    theirs.alter_columns({"path": "b", "data_type": pa.int64()})
    theirs.insert(rows(20, 24).append_column("a", pa.array([1, 2, 3, 4], pa.int32())))
    ours = await ours.checkout_latest()
    ours = await ours.drop_columns(["n.a"])
    ours = await ours.merge(pa.table({"id": pa.array([21], pa.int64()), "c": ["found"]}), "id")
    theirs = theirs.checkout_version(ours.version)
    theirs.delete("id = 22")
    theirs.optimize.compact_files()
    ours = await ours.checkout_latest()
    values = (await ours.to_table(["id", "a", "b", "c", "n"])).to_pylist()
    assert values == read(twins.ours).select(["id", "a", "b", "c", "n"]).to_pylist()
    assert [item for item in values if item["id"] >= 18] == [
        {"id": 18, "a": 18, "b": 19, "c": None, "n": {"b": "18"}},
        {"id": 20, "a": 1, "b": None, "c": None, "n": {"b": "20"}},
        {"id": 21, "a": 2, "b": None, "c": "found", "n": {"b": "21"}},
        {"id": 23, "a": 4, "b": None, "c": None, "n": {"b": "23"}},
    ]


async def test_files_of_2_0(tmp_path: Path) -> None:
    """They list parents, too, each in the newest file that has it."""
    twins = Twins.make(tmp_path, data_storage_version="2.0")
    lance.dataset(str(twins.theirs)).delete("id in (0, 1, 7, 14) or id = 19")
    twins.again()
    await call_each(twins, "add_columns", {"copy": "n", "list": "l", "twice": "id * 2"})
    await call_each(twins, "add_columns", computed)
    await call_each(twins, "add_columns", pa.field("x", pa.struct([("y", pa.int8())])))
    await call_each(twins, "alter_columns", {"path": "l.item", "data_type": pa.int64()})
    await call_each(twins, "alter_columns", {"path": "id", "data_type": pa.int16(), "name": "key"})
    await call_each(
        twins, "alter_columns", {"path": "n", "name": "m"}, {"path": "n.a", "name": "c"}
    )
    await call_each(
        twins, "merge", pa.table({"key": pa.array([3, 5], pa.int16()), "z": [1, 2]}), "key"
    )
    await call_each(twins, "drop_columns", ["copy.a", "list"])
