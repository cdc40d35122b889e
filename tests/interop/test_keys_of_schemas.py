"""Keys of schemas: primary and clustering keys are kept, sorted maps are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError, UnsupportedError
from alance.files import FileWriter
from alance.format.field import CLUSTERING_POSITION, PRIMARY_KEY, PRIMARY_POSITION

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KEYS: dict[str, list[dict[str, str]]] = {
    "none": [{}, {}],
    "one": [{}, {PRIMARY_KEY: "true"}],
    "another case": [{PRIMARY_KEY: "True"}, {PRIMARY_KEY: "YES"}],
    "a number": [{PRIMARY_KEY: "1"}, {PRIMARY_KEY: "0"}],
    "no": [{PRIMARY_KEY: "false"}, {PRIMARY_KEY: "nonsense"}],
    "in another order": [{PRIMARY_KEY: "true", PRIMARY_POSITION: "2"}, {PRIMARY_POSITION: "1"}],
    "a position and no": [{PRIMARY_KEY: "false", PRIMARY_POSITION: "1"}, {PRIMARY_POSITION: "0"}],
    "with a sign": [{PRIMARY_POSITION: "+1"}, {PRIMARY_POSITION: "-1"}],
    "no positions": [{PRIMARY_POSITION: "x"}, {PRIMARY_POSITION: str(1 << 32)}],
    "clustering": [{CLUSTERING_POSITION: "2"}, {CLUSTERING_POSITION: "1"}],
    "no clustering": [{CLUSTERING_POSITION: "x"}, {CLUSTERING_POSITION: "-2"}],
}


def schema_of(*fields: Mapping[str, str]) -> pa.Schema:
    """Columns of integers that are never null, named by letters, and a nullable one."""
    keys = [
        pa.field(name, pa.int64(), nullable=False, metadata=dict(metadata))
        for name, metadata in zip("ab", fields, strict=False)
    ]
    return pa.schema([*keys, pa.field("v", pa.float64())])


def rows(schema: pa.Schema, start: int, stop: int) -> pa.Table:
    ids = list(range(start, stop))
    return pa.table([ids] * len(schema), schema=schema)


async def keys_of(path: Path) -> list[tuple[str, bool, int, int]]:
    """Return each field's name, and its part in keys by the manifest."""
    manifest = (await alance.dataset(path))._snapshot.manifest
    return [
        (
            field.name,
            field.unenforced_primary_key,
            field.unenforced_primary_key_position,
            field.unenforced_clustering_key_position,
        )
        for field in manifest.message.fields
    ]


@pytest.mark.parametrize("name", KEYS)
async def test_keys_are_kept_as_pylance_keeps_them(tmp_path: Path, name: str) -> None:
    schema = schema_of(*KEYS[name])
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    lance.write_dataset(rows(schema, 0, 3), str(theirs))
    await alance.write_dataset(rows(schema, 0, 3), ours)
    assert await keys_of(ours) == await keys_of(theirs)
    assert lance.dataset(str(ours)).schema.equals(schema, check_metadata=True)
    async with alance.ingest(tmp_path / "ingested", schema):
        pass
    assert await keys_of(tmp_path / "ingested") == await keys_of(theirs)
    await alance.write_dataset(rows(schema_of({}, {}), 0, 3), ours, mode="overwrite")
    assert {field[1:] for field in await keys_of(ours)} == {(False, 0, 0)}


async def test_a_key_among_the_members_of_a_struct_is_kept(tmp_path: Path) -> None:
    member = pa.field("m", pa.int64(), nullable=False, metadata={PRIMARY_KEY: "true"})
    schema = pa.schema([pa.field("s", pa.struct([member]), nullable=False)])
    table = pa.Table.from_pylist([{"s": {"m": 1}}], schema=schema)
    lance.write_dataset(table, str(tmp_path / "theirs"))
    dataset = await alance.write_dataset(table, tmp_path / "ours")
    assert await keys_of(tmp_path / "ours") == await keys_of(tmp_path / "theirs")
    with pytest.raises(UnsupportedError, match=r"'s\.m'.*name key columns by `on`"):
        await dataset.upsert(table)
    merge = lance.dataset(str(tmp_path / "theirs")).merge_insert(None).when_matched_update_all()
    with pytest.raises(OSError, match=r"s\.m"):
        merge.execute(table)


async def test_merges_by_a_key_of_the_schema(tmp_path: Path) -> None:
    """Not named, it is the key: to alance, and to pylance."""
    schema = schema_of({PRIMARY_POSITION: "2"}, {PRIMARY_POSITION: "1"})
    dataset = await alance.write_dataset(rows(schema, 0, 4), tmp_path / "t")
    for name in ("insert", "add_columns", "compaction"):
        if name == "insert":
            dataset = await dataset.insert(rows(schema, 4, 6))
        elif name == "add_columns":
            dataset = await dataset.add_columns({"w": "v * 2"})
            dataset = await dataset.drop_columns(["w"])
        else:
            await dataset.optimize.compact_files()
            dataset = await alance.dataset(tmp_path / "t")
        assert [field[1:3] for field in await keys_of(tmp_path / "t")][:2] == [(True, 2), (True, 1)]
    merged = await dataset.upsert(rows(schema, 5, 8))
    assert merged.summary["num_updated_rows"] == 1
    assert merged.summary["num_inserted_rows"] == 2
    theirs = lance.dataset(str(tmp_path / "t"))
    merge = theirs.merge_insert(None).when_matched_update_all().when_not_matched_insert_all()
    assert merge.execute(rows(schema, 7, 9))["num_inserted_rows"] == 1
    table = await (await alance.dataset(tmp_path / "t")).to_table()
    assert table.sort_by("a") == rows(schema, 0, 9)


NO_KEYS = {
    "nullable": (pa.int64(), True, "is nullable"),
    "struct": (pa.struct([("m", pa.int64())]), False, "fields of its own"),
    "list": (pa.list_(pa.int64()), False, "fields of its own"),
}


@pytest.mark.parametrize("name", NO_KEYS)
async def test_what_can_be_no_key(tmp_path: Path, name: str) -> None:
    arrow, nullable, reason = NO_KEYS[name]
    schema = pa.schema([pa.field("k", arrow, nullable, {PRIMARY_KEY: "true"})])
    with pytest.raises(InvalidInputError, match=f"primary key field 'k': .*{reason}"):
        await alance.write_dataset(schema.empty_table(), tmp_path / "t")
    with pytest.raises(OSError, match="Primary key"):
        lance.write_dataset(schema.empty_table(), str(tmp_path / "t"))
    inside = pa.schema([pa.field("s", pa.list_(schema.field("k").with_nullable(False)), False)])
    with pytest.raises(InvalidInputError, match="primary key field 'k'"):
        await alance.write_dataset(inside.empty_table(), tmp_path / "t")


async def test_changes_that_would_spoil_the_key(tmp_path: Path) -> None:
    schema = schema_of({PRIMARY_KEY: "true"})
    dataset = await alance.write_dataset(rows(schema, 0, 3), tmp_path / "t")
    with pytest.raises(InvalidInputError, match="primary key field 'a': 'a' is nullable"):
        await dataset.alter_columns({"path": "a", "nullable": True})
    with pytest.raises(OSError, match="must not be nullable"):
        lance.dataset(str(tmp_path / "t")).alter_columns({"path": "a", "nullable": True})
    key = pa.field("k", pa.int64(), metadata={PRIMARY_KEY: "true"})
    with pytest.raises(InvalidInputError, match="primary key field 'k': 'k' is nullable"):
        await dataset.add_columns(key)
    with pytest.raises(InvalidInputError, match="primary key field 'v'"):
        await dataset.update_field_metadata({"v": {PRIMARY_KEY: "true"}})
    other = await alance.write_dataset(rows(schema_of({}), 0, 3), tmp_path / "other")
    for metadata in ({PRIMARY_KEY: "nonsense"}, {PRIMARY_POSITION: "x"}):
        with pytest.raises(InvalidInputError, match="says no primary key"):
            await other.update_field_metadata({"a": metadata})
        with pytest.raises(OSError, match="invalid value"):
            lance.dataset(other.uri).update_field_metadata({"a": metadata})


SORTED = pa.map_(pa.string(), pa.int32(), keys_sorted=True)
PLAIN = pa.map_(pa.string(), pa.int32())


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize(
    "around", [lambda type_: type_, pa.list_, lambda type_: pa.struct([("m", type_)])]
)
async def test_maps_of_sorted_keys_are_refused(
    tmp_path: Path, around: object, version: str
) -> None:
    """The format does not say that keys are sorted: it would be lost."""
    assert callable(around)
    table = pa.schema([("c", around(SORTED))]).empty_table()
    for write in (alance.write_dataset, alance.write_fragments):
        with pytest.raises(UnsupportedError, match=r"keys are sorted; cast it to pa\.map_"):
            await write(table, tmp_path / "t", data_storage_version=version)
    with pytest.raises(UnsupportedError, match="keys are sorted"):
        async with FileWriter.open(tmp_path / "file", table.schema, version=version):
            pass
    with pytest.raises(OSError, match="keys_sorted=true"):
        lance.write_dataset(table, str(tmp_path / "t"), data_storage_version=version)


async def test_sorted_maps_are_cast_where_the_table_has_plain_ones(tmp_path: Path) -> None:
    table = pa.table({"c": pa.array([[("a", 1), ("b", 2)], None], PLAIN)})
    dataset = await alance.write_dataset(table, tmp_path / "t")
    with pytest.raises(UnsupportedError, match="keys are sorted"):
        await dataset.add_columns(pa.field("d", SORTED))
    arguments = pa.table({"c": table["c"].combine_chunks().cast(SORTED)})
    await dataset.insert(arguments)
    await alance.write_dataset(arguments, tmp_path / "t", mode="append")
    async with alance.Session() as session:  # which does not know the table's schema yet
        await alance.write_dataset(arguments, tmp_path / "t", mode="append", session=session)
    assert lance.dataset(str(tmp_path / "t")).to_table() == pa.concat_tables([table] * 4)
