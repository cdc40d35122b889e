"""Extension types, with and without parameters, known to pyarrow or not: both ways with pylance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from lance.arrow import BFloat16Type, EncodedImageType, FixedShapeImageTensorType, ImageURIType

import alance
from alance.errors import InvalidInputError, UnsupportedError
from tests.reference.compare import assert_equal_rows
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Tagged(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """A type of users, whose parameter is a text."""

    NAME = "tests.tagged"

    def __init__(self, tag: str | bytes, storage: pa.DataType) -> None:
        self.tag = tag
        super().__init__(storage, self.NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return self.tag if isinstance(self.tag, bytes) else self.tag.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Tagged:
        return cls(serialized, storage)


class Unregistered(Tagged):
    """A type that pyarrow cannot make again."""

    NAME = "tests.unregistered"


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    pa.register_extension_type(Tagged("", pa.null()))
    yield
    pa.unregister_extension_type(Tagged.NAME)


PAIR = pa.struct([("q", pa.int32()), ("t", pa.string())])
TYPES: dict[str, Callable[[], pa.BaseExtensionType]] = {
    "uuid": pa.uuid,
    "bool8": pa.bool8,
    "json": pa.json_,
    "tensor": lambda: pa.fixed_shape_tensor(pa.float32(), [2, 2], ["a", "b"], [1, 0]),
    "plain tensor": lambda: pa.fixed_shape_tensor(pa.int8(), [4]),
    "opaque": lambda: pa.opaque(pa.int64(), "täg", "vendor"),
    "opaque text": lambda: pa.opaque(pa.large_string(), "geometry", "postgis"),
    "opaque struct": lambda: pa.opaque(PAIR, "pair", "vendor"),
    "opaque list": lambda: pa.opaque(pa.list_(pa.int32()), "list", "vendor"),
    "tagged": lambda: Tagged("a täg", pa.int64()),
    "tagged struct": lambda: Tagged("struct", PAIR),
    "unregistered": lambda: Unregistered("a täg", pa.int64()),
    "no parameters": lambda: Unregistered("", pa.string()),
    "bfloat16": BFloat16Type,
    "image uri": ImageURIType,
    "encoded image": EncodedImageType,
    "image tensor": lambda: FixedShapeImageTensorType(pa.uint8(), [2, 2]),
}


def stored(arrow: pa.DataType, row: int) -> Any:
    """A value of a storage type."""
    if pa.types.is_struct(arrow):
        return {"q": row, "t": None if row % 3 == 0 else f"text {row}"}
    if pa.types.is_fixed_size_list(arrow):
        return [row + place for place in range(arrow.list_size)]
    if pa.types.is_list(arrow):
        return [row] * (row % 3)
    if pa.types.is_fixed_size_binary(arrow):
        return bytes([row]) * arrow.byte_width
    if pa.types.is_integer(arrow):
        return row
    text = f'{{"row":{row}}}'
    return text.encode() if pa.types.is_binary(arrow) else text


def values(arrow: pa.BaseExtensionType, num_rows: int, *, nulls: bool = True) -> pa.Array:
    storage = arrow.storage_type
    rows = [None if nulls and row % 5 == 1 else stored(storage, row) for row in range(num_rows)]
    return pa.ExtensionArray.from_storage(arrow, pa.array(rows, storage))


def table_of(arrow: pa.BaseExtensionType) -> pa.Table:
    """Twenty rows: top-level, in structs, in lists, in lists of structs."""
    array = values(arrow, 20)
    ends = pa.array([0, *(row // 2 * 2 for row in range(1, 20)), 20], pa.int32())
    struct = pa.StructArray.from_arrays([array, pa.array(range(20))], ["x", "n"])
    return pa.table(
        {
            "id": range(20),
            "top": array,
            "struct": struct,
            "list": pa.ListArray.from_arrays(ends, array),
            "structs": pa.LargeListArray.from_arrays(ends.cast(pa.int64()), struct),
        }
    )


async def check(path: Path, expected: pa.Table) -> None:
    """Both read the rows, with the same schema."""
    theirs = lance.dataset(str(path))
    theirs.validate()
    ours = await alance.dataset(path)
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    result, equal = await ours.to_table(), theirs.to_table()
    if "id" in result.column_names:
        result, equal = result.sort_by("id"), equal.sort_by("id")
    assert_equal_rows(result, equal)
    if result.schema.types == expected.schema.types:
        assert result == expected
    else:  # of storage types, since pyarrow does not know the extension type
        assert result.to_pylist() == expected.to_pylist()
    assert (await ours.take([3, 1])).schema.equals(result.schema, check_metadata=True)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", TYPES)
async def test_a_type_keeps_its_parameters(tmp_path: Path, name: str, version: str) -> None:
    table = table_of(TYPES[name]())
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    await alance.write_dataset(table, ours, data_storage_version=version)
    lance.write_dataset(table, str(theirs), data_storage_version=version)
    await check(ours, table)
    await check(theirs, table)
    schemas = [lance.dataset(str(path)).schema for path in (ours, theirs)]
    assert schemas[0].equals(schemas[1], check_metadata=True)
    if name not in ("unregistered", "no parameters"):
        assert schemas[0].equals(table.schema, check_metadata=True)


@pytest.mark.parametrize(("maker", "name"), thinned(["alance", "pylance"], [*TYPES]))
async def test_changes_keep_the_parameters(tmp_path: Path, name: str, maker: str) -> None:
    table = table_of(TYPES[name]())
    path = tmp_path / "t"
    if maker == "alance":
        await alance.write_dataset(table[:10], path, max_rows_per_file=4)
    else:
        lance.write_dataset(table[:10], str(path), max_rows_per_file=4)
    schema = lance.dataset(str(path)).schema
    dataset = await alance.dataset(path)
    dataset = await dataset.insert(table[10:12])
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    dataset = await merge.execute(table[8:])
    dataset = await dataset.update({"id": "id + 100"}, "id = 3")
    dataset = await dataset.add_columns({"twice": "id * 2"})
    dataset = await dataset.drop_columns(["twice"])
    dataset = await dataset.delete("id = 103")
    await dataset.optimize.compact_files()
    await check(path, table.filter(pa.array(row != 3 for row in range(20))))
    assert lance.dataset(str(path)).schema.equals(schema, check_metadata=True)
    lance.dataset(str(path)).merge_insert("id").when_not_matched_insert_all().execute(
        table.take([3])
    )
    await check(path, table)


@pytest.mark.parametrize("name", TYPES)
async def test_columns_that_are_added_keep_their_parameters(tmp_path: Path, name: str) -> None:
    table = table_of(TYPES[name]())
    dataset = await alance.write_dataset(table.select(["id"]), tmp_path / "t")
    await dataset.merge(table, left_on="id")
    await check(tmp_path / "t", table)


async def test_items_of_fixed_size_lists_are_structs_or_bfloat16(tmp_path: Path) -> None:
    """Others have no place for their name; pylance refuses them as well."""
    for number, name in enumerate(["opaque struct", "tagged struct", "bfloat16"]):
        lists = pa.FixedSizeListArray.from_arrays(values(TYPES[name](), 20, nulls=False), 2)
        table = pa.table({"v": lists})
        ours, theirs = tmp_path / f"ours {number}", tmp_path / f"theirs {number}"
        await alance.write_dataset(table, ours)
        lance.write_dataset(table, str(theirs))
        for path in (ours, theirs):
            await check(path, table)
            assert (await alance.dataset(path)).schema.equals(table.schema, check_metadata=True)
    for name in ("uuid", "tensor", "tagged"):
        lists = pa.FixedSizeListArray.from_arrays(values(TYPES[name](), 20, nulls=False), 2)
        with pytest.raises(UnsupportedError, match="no place for its name"):
            await alance.write_dataset(pa.table({"v": lists}), tmp_path / "none")


async def test_parameters_that_are_no_text_are_refused(tmp_path: Path) -> None:
    table = pa.table({"c": values(Unregistered(b"\xff\x00", pa.int64()), 3)})
    with pytest.raises(InvalidInputError, match=r"field 'c'.*UTF-8"):
        await alance.write_dataset(table, tmp_path / "t")
    with pytest.raises(ValueError, match="utf-8"):
        lance.write_dataset(table, str(tmp_path / "t"))


async def test_a_table_without_the_parameters_is_read_as_storage_types(tmp_path: Path) -> None:
    """So the first alance wrote the types of Arrow itself; pylance does not open such tables."""
    named = {"ARROW:extension:name": "arrow.opaque", "ARROW:extension:metadata": "", "k": "v"}
    field = pa.field("o", pa.int64(), metadata=named)
    nested = pa.field("s", pa.struct([field]))
    rows = pa.table({"o": pa.array([1, None]), "s": pa.array([{"o": 3}, None], nested.type)})
    written = await alance.write_dataset(
        rows.cast(pa.schema([field, nested])), tmp_path / "t", max_rows_per_file=1
    )
    with pytest.raises(pa.ArrowInvalid):
        lance.dataset(str(tmp_path / "t")).schema  # noqa: B018  # raises
    dataset = await alance.dataset(written.uri)
    with pytest.warns(UserWarning, match=r"field 'o'.*'arrow.opaque'.*read as int64"):
        schema = dataset.schema
    assert schema.types == rows.schema.types
    with pytest.warns(UserWarning, match="'arrow.opaque'"):
        table = await dataset.to_table()
    assert table.to_pylist() == rows.to_pylist()
    dataset = await dataset.insert(rows)  # the schema is at hand, and has been told of
    parameters = {"ARROW:extension:metadata": '{"type_name":"t","vendor_name":"v"}'}
    dataset = await dataset.update_field_metadata({"o": parameters, "s.o": parameters})
    assert dataset.schema.field("o").type == pa.opaque(pa.int64(), "t", "v")
    theirs = lance.dataset(str(tmp_path / "t"))
    assert_equal_rows(await dataset.to_table(), theirs.to_table())
    assert theirs.to_table().to_pylist() == rows.to_pylist() * 2
