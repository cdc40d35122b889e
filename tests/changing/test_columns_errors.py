"""Wrong use of changes of columns: a clear error, the table as it was, no file left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import alance
from alance.errors import InvalidInputError, UnsupportedError
from tests.changing.both_ways import Twins, files_of, read, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """20 rows in 4 fragments, of which 18 are live; an index on `v`."""
    ours = Twins.make(tmp_path).ours
    dataset = lance.dataset(str(ours))
    dataset.delete("id in (0, 9)")
    dataset.create_scalar_index("v", "BTREE")
    return ours


async def refused(path: Path, name: str, *args: Any, match: str, **more: Any) -> None:
    before, content = files_of(path), read(path)
    dataset = await alance.dataset(str(path))
    with pytest.raises(InvalidInputError, match=match):
        await getattr(dataset, name)(*args, **more)
    assert files_of(path) == before
    assert read(path).equals(content)


def short(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"x": batch["id"][1:]})


def failing(batch: pa.RecordBatch) -> pa.RecordBatch:
    if 16 in batch["id"].to_pylist():
        return pa.record_batch({"y": batch["id"]})
    return pa.record_batch({"x": batch["id"]})


@pytest.mark.parametrize(
    ("transforms", "match"),
    [
        ({"id": "1"}, "column 'id': it exists already"),
        ({"x": "nope + 1"}, "unknown column 'nope'"),
        ({"x": "id +"}, "syntax error"),
        ({"x": "id / (id - 18)"}, "divi"),
        ({"x": pc.field("nope")}, "nope"),
        ({"x": 3}, "expected SQL text or a pyarrow expression, found int"),
        ({3: "id"}, "new column 3: expected a name"),
        ({"a.b": "id"}, "dots"),
        ({}, "no columns to add"),
        (pa.field("x", pa.int32(), nullable=False), "column 'x': not nullable"),
        (pa.schema([("x", pa.int8()), ("x", pa.int8())]), "'x' is there twice"),
        (pa.field("n", pa.struct([("a", pa.int32())])), r"column 'n.a': it exists already"),
        (pa.field("n", pa.int8()), "column 'n': it exists already"),
        (pa.table({"x": range(17)}), "ends after 17 rows, fragment 3 has 1 more"),
        (pa.table({"x": range(19)}), "goes on after 18 rows"),
        (pa.table({"x": pa.array([], pa.int8())}), "ends after 0 rows, fragment 0 has 4 more"),
        (pa.table({"v": range(18)}), "column 'v': it exists already"),
        ("id", "expected a Table"),
        (5, "data of type int"),
        (short, r"gave (3 rows for 4|4 rows for 5)\b"),
        (lambda _: None, "gave NoneType, expected a RecordBatch"),
        (failing, "the function gave y, expected x"),
        (lambda batch: pa.record_batch({"id": batch["id"]}), "column 'id': it exists already"),
    ],
    ids=lambda value: "" if isinstance(value, str) else None,
)
async def test_what_add_columns_refuses(path: Path, transforms: Any, match: str) -> None:
    await refused(path, "add_columns", transforms, match=match)


async def test_members_of_packed_structs_are_not_changed_alone(tmp_path: Path) -> None:
    kind = pa.struct([("a", pa.int32()), ("b", pa.int32())])
    field = pa.field("p", kind, metadata={"lance-encoding:packed": "true"})
    rows = pa.table(
        [pa.array([{"a": 1, "b": 2}], kind), [3]], pa.schema([field, pa.field("x", pa.int8())])
    )
    path = tmp_path / "packed"
    await alance.write_dataset(rows, path)
    await refused(path, "drop_columns", ["p.a"], match="drop all of it")
    cast = {"path": "p.a", "data_type": pa.int64()}
    await refused(path, "alter_columns", cast, match="'p.a': members of a packed struct")
    move = {"path": "p.b", "after": ""}
    await refused(path, "alter_columns", move, match="'p.b': the fields of a packed struct")
    dataset = await (await alance.dataset(path)).drop_columns(["p.a", "p.b"])
    assert dataset.schema.names == ["x"]


async def test_arguments_that_do_not_apply_are_refused(path: Path) -> None:
    await refused(path, "add_columns", {"x": "id"}, read_columns=["id"], match="only of a function")
    await refused(path, "add_columns", short, read_columns=["nope"], match="'nope'")
    await refused(path, "add_columns", {"x": "id"}, batch_size=0, match="batch_size")


async def test_a_function_that_raises(path: Path) -> None:
    before = files_of(path)

    def broken(batch: pa.RecordBatch) -> pa.RecordBatch:
        if 17 in batch["id"].to_pylist():
            raise ZeroDivisionError("theirs")
        return pa.record_batch({"x": batch["id"]})

    dataset = await alance.dataset(str(path))
    with pytest.raises(ZeroDivisionError, match="theirs"):
        await dataset.add_columns(broken)
    assert files_of(path) == before


async def test_data_that_raises(path: Path) -> None:
    before = files_of(path)

    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"x": range(12)})
        raise OSError("theirs")

    dataset = await alance.dataset(str(path))
    with pytest.raises(OSError, match="theirs"):
        await dataset.add_columns(broken())
    assert files_of(path) == before


async def test_nulls_in_a_column_that_forbids_them(path: Path) -> None:
    output = pa.schema([pa.field("x", pa.string(), nullable=False)])
    udf = alance.batch_udf(output)(lambda batch: pa.record_batch({"x": batch["s"]}))
    await refused(path, "add_columns", udf, match="not nullable")


@pytest.mark.parametrize(
    ("alteration", "match"),
    [
        ({"path": "nope", "name": "x"}, "column 'nope'"),
        ({"path": "n.nope", "name": "x"}, "'nope' in 'n'"),
        ({"path": "id", "name": "v"}, "column 'v': the name is there twice"),
        ({"path": "n.a", "name": "b"}, r"column 'n.b': the name is there twice"),
        ({"path": "id", "name": "a.b"}, "without dots"),
        ({"path": "id", "name": ""}, "not empty"),
        ({"path": "id"}, "expected name, nullable, data_type or after"),
        ({"path": "id", "after": 3}, "after=3, expected str"),
        ({"path": "id", "after": "nope"}, "column 'id': after='nope', expected one of"),
        ({"path": "n.a", "after": "id"}, "column 'n.a': after='id', expected one of 'b'"),
        ({"name": "x"}, "with 'path'"),
        ({"path": "id", "type": pa.int8()}, "'type': expected path, name, nullable, data_type"),
        ({"path": "id", "nullable": "no"}, "nullable='no', expected bool"),
        ({"path": "id", "data_type": "int8"}, "expected DataType"),
        ({"path": "s", "nullable": False}, "column 's': it has nulls"),
        ({"path": "s", "data_type": pa.int32()}, "column 's': string does not cast to int32"),
        ({"path": "n.b", "data_type": pa.int8(), "nullable": False}, "two calls"),
        ({"path": "v", "data_type": pa.float32()}, "v_idx"),
        ({"path": "n", "data_type": pa.int8()}, "column 'n'"),
    ],
)
async def test_what_alter_columns_refuses(
    path: Path, alteration: dict[str, Any], match: str
) -> None:
    await refused(path, "alter_columns", alteration, match=match)


async def test_an_alteration_of_nothing_is_refused(path: Path) -> None:
    await refused(path, "alter_columns", match="nothing to alter")


@pytest.mark.parametrize(
    ("values", "target"),
    [
        (pa.array([1, None, 300], pa.int64()), pa.int8()),
        (pa.array([1, 2, -1], pa.int64()), pa.uint32()),
        (pa.array([1.0, 2.5, None], pa.float64()), pa.int32()),
        (pa.array([1.0, 2.0, 1e300], pa.float64()), pa.float32()),
        (pa.array([1, 2, 2**60 + 1], pa.int64()), pa.float64()),
        (pa.array(["1", "2", "x"]), pa.int64()),
        (pa.array([1, 2, 1001], pa.timestamp("ms")), pa.timestamp("s")),
        (pa.array([b"a", b"b", b"\xff"]), pa.string()),
    ],
    ids=str,
)
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
async def test_casts_that_lose_values(
    tmp_path: Path, values: pa.Array, target: pa.DataType, *, nested: bool
) -> None:
    table = pa.table({"c": values})
    if nested:
        table = pa.table({"t": pa.StructArray.from_arrays([values], ["c"])})
    lance.write_dataset(table, str(tmp_path / "t"), max_rows_per_file=1)
    change = {"path": "t.c" if nested else "c", "data_type": target}
    await refused(tmp_path / "t", "alter_columns", change, match=f"column '{change['path']}'")
    lance.dataset(str(tmp_path / "t")).delete("_rowaddr >= 8589934592")
    dataset = await alance.dataset(str(tmp_path / "t"))
    await refused_or_cast(dataset, change, values, nested=nested)


async def refused_or_cast(
    dataset: alance.Dataset, change: dict[str, Any], values: pa.Array, *, nested: bool
) -> None:
    """Without its last row the column casts, but for one whose second value does not, either."""
    try:
        expected = values[:2].cast(change["data_type"])
    except pa.ArrowInvalid:
        with pytest.raises(InvalidInputError):
            await dataset.alter_columns(change)
        return
    result = await dataset.alter_columns(change)
    column = (await result.to_table([change["path"]])).column(0)
    assert column.combine_chunks().equals(expected)


async def test_deleted_rows_do_not_stop_a_cast(tmp_path: Path) -> None:
    """Within one fragment, too: what they hold is cut off."""
    table = pa.table({"c": [1, 300, 3], "l": [[1], [300, 2], [3, None]]})
    lance.write_dataset(table, str(tmp_path / "t"))
    lance.dataset(str(tmp_path / "t")).delete("c = 300")
    dataset = await alance.dataset(str(tmp_path / "t"))
    result = await dataset.alter_columns(
        {"path": "c", "data_type": pa.int8()}, {"path": "l.item", "data_type": pa.int8()}
    )
    expected = {"c": [1, 3], "l": [[1], [3, None]]}
    assert (await result.to_table()).to_pydict() == expected
    assert read(tmp_path / "t").select(["c", "l"]).to_pydict() == expected


@pytest.mark.parametrize(
    ("names", "match"),
    [
        (["nope"], "column 'nope'"),
        (["n.nope"], "'nope'"),
        (["id", "v", "s", "n", "l"], "all columns"),
        (["id", "v", "s", "n.a", "n.b", "l"], "all columns"),
        ([], "expected a list of names"),
        ("id", "expected a list of names"),
    ],
)
async def test_what_drop_columns_refuses(path: Path, names: Any, match: str) -> None:
    await refused(path, "drop_columns", names, match=match)


@pytest.mark.parametrize(
    ("data", "keys", "match"),
    [
        ({"id": [1], "v": [2]}, ["id"], "column 'v': it exists already"),
        ({"k": [1], "x": [2]}, ["id"], "right_on='id': the data has k, x"),
        ({"k": [1], "x": [2]}, ["nope", "k"], "column 'nope'"),
        (
            {"k": ["a"], "x": [2]},
            ["id", "k"],
            "right_on='k': string, the key of the table is int64",
        ),
        ({"k": [1]}, ["id", "k"], "no columns beside 'k'"),
        ({"k": [1], "x": [2]}, ["n", "k"], "is no key"),
    ],
)
async def test_what_merge_refuses(path: Path, data: Any, keys: list[str], match: str) -> None:
    await refused(path, "merge", pa.table(data), *keys, match=match)


async def test_a_merge_without_all_rows(path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("x", pa.int8(), nullable=False)])
    data = pa.table({"id": range(17), "x": range(17)}).cast(schema)
    await refused(path, "merge", data, "id", match="column 'x': not nullable, and 3 rows have no")


@pytest.mark.parametrize(
    ("transforms", "match"),
    [
        ({"nope": "1"}, "column 'nope'"),
        ({"id": "s"}, "column 'id': string does not cast to int64"),
        ({"id": "9999999999.5"}, "column 'id'"),
        (pa.table({"id": range(17)}), "ends after 17 rows"),
        (pa.field("id", pa.int64()), "fields without values"),
    ],
)
async def test_what_replace_columns_refuses(path: Path, transforms: Any, match: str) -> None:
    await refused(path, "replace_columns", transforms, match=match)


async def test_casts_inside_of_structs_need_newer_files(tmp_path: Path) -> None:
    """Pylance writes such files, and cannot read them."""
    path = Twins.make(tmp_path, rows(0, 4), data_storage_version="2.0").ours
    dataset = await alance.dataset(str(path))
    with pytest.raises(UnsupportedError, match=r"column 'n\.a': files of 2\.0"):
        await dataset.alter_columns({"path": "n.a", "data_type": pa.int64()})


async def test_fields_of_structs_need_newer_files(tmp_path: Path) -> None:
    path = Twins.make(tmp_path, rows(0, 4), data_storage_version="2.1").ours
    dataset = await alance.dataset(str(path))
    with pytest.raises(UnsupportedError, match=r"version 2\.2"):
        await dataset.add_columns(pa.field("n", pa.struct([("c", pa.int8())])))
