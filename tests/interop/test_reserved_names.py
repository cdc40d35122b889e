"""Names that only reads give: no table gets such a column; pylance refuses the same ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import alance
from alance import operations
from alance.errors import InvalidInputError
from alance.files import FileWriter
from alance.format.schema import RESERVED_NAMES, Schema

if TYPE_CHECKING:
    from pathlib import Path

FREE = ("_distance", "_score", "_ROWID", "_hits")  # pylance takes these, and reads them back
REFUSED = "the name is reserved.*drop the column or rename it"


def rows(name: str) -> pa.Table:
    """A column `a`, and one of another name."""
    return pa.table({"a": [1, 2, 3], name: pa.array([5, 6, 7], pa.uint64())})


@pytest.mark.parametrize("name", RESERVED_NAMES)
async def test_no_table_is_written_with_a_reserved_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t"
    with pytest.raises(InvalidInputError, match=f"column '{name}': {REFUSED}"):
        await alance.write_dataset(rows(name), path)
    with pytest.raises(InvalidInputError, match=REFUSED):
        await alance.write_fragments(rows(name), path)
    with pytest.raises(InvalidInputError, match=REFUSED):
        async with alance.ingest(path, rows(name).schema):
            pass
    with pytest.raises(OSError, match="reserved name"):
        lance.write_dataset(rows(name), str(path))
    dataset = await alance.write_dataset(rows("b"), path)
    for mode in ("append", "overwrite"):
        with pytest.raises(InvalidInputError, match=REFUSED):
            await alance.write_dataset(rows(name), path, mode=mode)
    with pytest.raises(InvalidInputError, match=REFUSED):
        await dataset.insert(rows(name))
    fields = tuple(field.message for field in Schema.from_arrow(rows(name).schema).walk())
    with pytest.raises(InvalidInputError, match=REFUSED):
        await alance.commit(path, operations.Overwrite(new_schema=fields))
    assert (await alance.dataset(path)).version == dataset.version
    assert lance.dataset(str(path)).to_table() == rows("b")


@pytest.mark.parametrize("name", RESERVED_NAMES)
async def test_no_column_gets_a_reserved_name(tmp_path: Path, name: str) -> None:
    dataset = await alance.write_dataset(rows("b"), tmp_path / "t")

    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({name: batch["a"]})

    for addition in ({name: "a + 1"}, pa.schema([(name, pa.uint64())])):
        with pytest.raises(InvalidInputError, match=f"column '{name}': {REFUSED}"):
            await dataset.add_columns(addition)
    with pytest.raises(InvalidInputError, match=REFUSED):
        await dataset.add_columns(doubled, read_columns=["a"])
    with pytest.raises(InvalidInputError, match=REFUSED):
        await dataset.alter_columns({"path": "b", "name": name})
    with pytest.raises(InvalidInputError, match=REFUSED):
        await dataset.merge(rows(name), "a")
    merge = dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(InvalidInputError, match=name):
        await merge.execute(rows(name))
    assert (await alance.dataset(tmp_path / "t")).version == dataset.version


async def test_rows_that_were_read_with_their_ids_say_what_to_do(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows("b"), tmp_path / "t")
    with_ids = await dataset.to_table(with_row_id=True)
    with pytest.raises(InvalidInputError, match=f"column '_rowid': {REFUSED}"):
        await alance.write_dataset(with_ids, tmp_path / "other")
    written = await alance.write_dataset(with_ids.drop_columns(["_rowid"]), tmp_path / "other")
    assert await written.to_table() == rows("b")


@pytest.mark.parametrize("name", FREE)
async def test_other_names_are_free(tmp_path: Path, name: str) -> None:
    await alance.write_dataset(rows(name), tmp_path / "ours")
    lance.write_dataset(rows(name), str(tmp_path / "theirs"))
    for path in (tmp_path / "ours", tmp_path / "theirs"):
        ours, theirs = await alance.dataset(path), lance.dataset(str(path))
        assert await ours.to_table() == theirs.to_table() == rows(name)
        assert await ours.to_table(filter=f"{name} = 6") == rows(name)[1:2]
        assert await ours.take([2]) == theirs.take([2])


@pytest.mark.parametrize("name", RESERVED_NAMES)
async def test_members_of_structs_and_columns_of_files_are_free(tmp_path: Path, name: str) -> None:
    members = pa.StructArray.from_arrays([rows(name)[name].combine_chunks()], [name])
    table = pa.table({"s": members, "l": pa.ListArray.from_arrays([0, 1, 1, 3], members)})
    ours = await alance.write_dataset(table, tmp_path / "ours")
    theirs = lance.write_dataset(table, str(tmp_path / "theirs"))
    assert lance.dataset(ours.uri).to_table() == table
    assert await (await alance.dataset(theirs.uri)).to_table() == table
    async with FileWriter.open(tmp_path / "file.lance", rows(name).schema) as writer:
        await writer.write(rows(name))
    assert LanceFileReader(str(tmp_path / "file.lance")).read_all().to_table() == rows(name)
    reader = await alance.FileReader.open(tmp_path / "file.lance")
    assert await reader.to_table() == rows(name)


@pytest.mark.parametrize("name", RESERVED_NAMES)
async def test_a_table_that_has_such_a_column_is_read_and_mended(tmp_path: Path, name: str) -> None:
    """As early writers made it: pylance hides the stored values as well, or does not scan it."""
    path = tmp_path / "t"
    await alance.write_dataset(rows("?" + name[1:]), path)

    def renamed() -> None:
        for manifest in (path / "_versions").glob("*.manifest"):
            content = manifest.read_bytes()
            manifest.write_bytes(content.replace(b"?" + name[1:].encode(), name.encode()))

    await asyncio.to_thread(renamed)
    dataset = await alance.dataset(path)
    assert dataset.schema.names == ["a", name]
    assert (await dataset.to_table(["a"]))["a"].to_pylist() == [1, 2, 3]
    assert (await dataset.to_table())["a"].to_pylist() == [1, 2, 3]
    assert lance.dataset(str(path)).take([1])["a"].to_pylist() == [2]
    inserted = await dataset.insert(rows(name))
    assert await inserted.count_rows() == 6
    mended = await inserted.alter_columns({"path": name, "name": "b"})
    assert mended.schema.names == ["a", "b"]
    assert await mended.to_table() == pa.concat_tables([rows("b")] * 2)
    assert lance.dataset(str(path)).to_table() == pa.concat_tables([rows("b")] * 2)
