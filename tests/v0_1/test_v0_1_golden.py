"""Tables of 0.1 that old releases wrote read as those releases read them."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute
import pytest

import alance
from alance.errors import CorruptFileError
from alance.file_version import FileVersion
from tests.reference.golden import expected, rows

GOLDEN = Path(__file__).parent.parent / "golden" / "v0_1"
EVERYTHING = sorted(path.with_suffix("") for path in GOLDEN.glob("*/*.arrow"))
TABLES = [path for path in EVERYTHING if path.parent.name != "broken"]
BROKEN = [path for path in EVERYTHING if path.parent.name == "broken"]


def test_releases_are_there() -> None:
    """Each release has tables of all kinds that it writes."""
    assert {path.parent.name for path in TABLES} >= {
        "0.3.19",
        "0.5.10",
        "0.7.5",
        "0.8.0",
        "0.8.21",
        "0.10.5",
        "0.10.18",
        "0.13.0",
        "0.16.1",
        "0.20.0",
    }


@pytest.mark.parametrize("path", TABLES, ids=lambda path: f"{path.parent.name}-{path.name}")
async def test_reads_as_its_release(path: Path) -> None:
    """All rows, their ids, single rows, single columns, in the types of the schema."""
    want = expected(path)
    dataset = await alance.dataset(f"{path}.lance")
    if "_rowid" in want.column_names:
        table = await dataset.to_table(with_row_id=True)
        assert table.column("_rowid").to_pylist() == want.column("_rowid").to_pylist()
        want = want.drop_columns(["_rowid"])
    table = await dataset.to_table()
    assert table.schema.equals(want.schema)
    table.validate(full=True)
    assert rows(table) == rows(want)
    assert await dataset.count_rows() == want.num_rows
    places = [want.num_rows - 1, 0, 3, 17, 15, 3]
    assert rows(await dataset.take(places)) == rows(want.take(places))
    for name in want.column_names:
        result = await dataset.to_table(columns=[name], offset=2, limit=21)
        assert rows(result) == rows(want.select([name]).slice(2, 21))


@pytest.mark.parametrize(
    "path",
    [table for table in TABLES if table.name == "numbers"],
    ids=lambda path: path.parent.name,
)
async def test_filters_of_old_tables_keep_the_right_rows(path: Path) -> None:
    """Filters, with the columns that are read late."""
    want = expected(path).filter(pa.compute.field("int64") > 5 << 33)
    if "_rowid" in want.column_names:
        want = want.drop_columns(["_rowid"])
    dataset = await alance.dataset(f"{path}.lance")
    result = await dataset.to_table(filter=f"int64 > {5 << 33}")
    assert result.num_rows > 10
    assert rows(result) == rows(want)


@pytest.mark.parametrize(
    "path", [table for table in TABLES if table.name == "nested"], ids=lambda path: path.parent.name
)
async def test_files_by_themselves(path: Path) -> None:
    """A file has its schema and its rows."""
    want = expected(path)
    if "_rowid" in want.column_names:
        want = want.drop_columns(["_rowid"])
    result = []
    for file in Path(f"{path}.lance/data").iterdir():  # noqa: ASYNC240  # a test
        reader = await alance.FileReader.open(file)
        assert reader.version is FileVersion.V0_1
        assert reader.num_rows == 15
        assert reader.schema.names == want.column_names
        result.append(await reader.to_table())
        part = await reader.take([14, 2, 2], columns=["lists", "struct"])
        assert rows(part) == rows(result[-1].select(["lists", "struct"]).take([14, 2, 2]))
    result.sort(key=lambda item: item.column("struct")[0].as_py()["x"])
    assert rows(pa.concat_tables(result)) == rows(want)


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.name)
async def test_half_broken_tables(path: Path) -> None:
    """As a present release reads them once repaired: wrong row counts, ids used twice."""
    want = expected(path)
    dataset = await alance.dataset(f"{path}.lance")
    table = await dataset.to_table(with_row_id=True)
    assert rows(table) == rows(want)
    assert await dataset.count_rows() == want.num_rows
    places = [want.num_rows - 1, 0]
    assert rows(await dataset.take(places)) == rows(want.drop_columns(["_rowid"]).take(places))


@pytest.mark.parametrize("name", ["names_old", "names_new"])
async def test_manifests_of_two_naming_schemes_are_refused(name: str) -> None:
    """As pylance refuses them."""
    with pytest.raises(CorruptFileError, match="both naming schemes"):
        await alance.dataset(GOLDEN / "broken" / f"{name}.lance")
    with pytest.raises(ValueError, match="multiple manifest naming schemes"):
        lance.dataset(GOLDEN / "broken" / f"{name}.lance")


OLD = [GOLDEN / release / "emptied" for release in ("0.5.10", "0.7.5", "0.8.0", "0.13.0")]


@pytest.mark.parametrize(
    "path",
    [*OLD, GOLDEN / "broken" / "migrated", GOLDEN / "0.10.5" / "numbers"],
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
async def test_writes_to_old_tables(path: Path, tmp_path: Path) -> None:
    """Appends, deletes and compaction of tables that do not tell their rows; pylance reads them."""
    uri = str(tmp_path / "t")
    shutil.copytree(f"{path}.lance", uri)
    dataset = await alance.dataset(uri)
    column = dataset.schema.names[0]
    before = await dataset.to_table()
    dataset = await alance.write_dataset(before.slice(0, 2), uri, mode="append")
    await dataset.delete(f"{column} = 1")
    want = pa.concat_tables([before, before.slice(0, 2)])
    want = want.filter(pa.compute.field(column) != 1)
    dataset = await alance.dataset(uri)
    assert rows(await dataset.to_table()) == rows(want)
    assert rows(lance.dataset(uri).to_table()) == rows(want)
    assert lance.dataset(uri).count_rows() == await dataset.count_rows() == want.num_rows
    lance.dataset(uri).delete(f"{column} = 4")
    want = want.filter(pa.compute.field(column) != 4)
    assert rows(await (await alance.dataset(uri)).to_table()) == rows(want)
    await (await alance.dataset(uri)).optimize.compact_files()
    dataset = await alance.dataset(uri)
    assert dataset.data_storage_version is FileVersion.V0_1
    assert rows(await dataset.to_table()) == rows(want)
    assert rows(lance.dataset(uri).to_table()) == rows(want)


async def check_repaired(uri: Path, want: pa.Table) -> None:
    dataset = await alance.dataset(uri)
    assert rows(await dataset.to_table()) == rows(want)
    assert rows(lance.dataset(str(uri)).to_table()) == rows(want)
    places = [want.num_rows - 1, 0]
    assert rows(await dataset.take(places, ["c", "x"])) == rows(
        want.select(["c", "x"]).take(places)
    )
    assert await dataset.count_rows("b = 8") == want.column("b").to_pylist().count(8)


@pytest.mark.parametrize("repaired_by", [None, "pylance"])
async def test_ids_that_are_there_twice_are_repaired(
    repaired_by: str | None, tmp_path: Path
) -> None:
    """Before any write, as pylance does; old files go on having their own ids."""
    source, uri = GOLDEN / "broken" / "repeated_ids", tmp_path / "t"
    shutil.copytree(f"{source}.lance", uri)
    want = expected(source).drop_columns(["_rowid"])
    if repaired_by == "pylance":
        lance.dataset(str(uri)).delete("false")
    theirs = tmp_path / "theirs"
    shutil.copytree(uri, theirs)
    lance.dataset(str(theirs)).delete("false")
    dataset = await (await alance.dataset(uri)).delete("false")
    dataset = await dataset.update_config({"k": "v"})
    fields = [(field.name, field.id) for field in dataset.fields]
    assert fields == [(field.name, field.id) for field in (await alance.dataset(theirs)).fields]
    await check_repaired(uri, want)
    dataset = await (await alance.dataset(uri)).insert(want.slice(2, 2))
    want = pa.concat_tables([want, want.slice(2, 2)])
    await check_repaired(uri, want)
    dataset = await dataset.add_columns({"d": "b + c"})
    want = want.append_column("d", pa.compute.add(want["b"], want["c"]))
    await check_repaired(uri, want)
    await (await dataset.delete("x = 1")).optimize.compact_files()
    await check_repaired(uri, want.filter(pa.compute.field("x") != 1))


async def test_compaction_keeps_the_right_values_of_ids_that_are_there_twice(
    tmp_path: Path,
) -> None:
    source, uri = GOLDEN / "broken" / "repeated_ids", tmp_path / "t"
    shutil.copytree(f"{source}.lance", uri)
    await (await alance.dataset(uri)).optimize.compact_files()
    await check_repaired(uri, expected(source).drop_columns(["_rowid"]))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("migrated", "fragment 0: it has 40 rows, the manifest says 33"),
        ("repeated_ids", "field id 2: data files of one fragment have it twice"),
    ],
)
async def test_what_old_releases_have_told_wrong_is_found(name: str, message: str) -> None:
    """By pylance as well."""
    path = GOLDEN / "broken" / f"{name}.lance"
    with pytest.raises(CorruptFileError, match=message):
        await (await alance.dataset(path)).validate()
    with pytest.raises(OSError, match=r"incorrect physical_rows|is duplicated"):
        lance.dataset(str(path)).validate()
