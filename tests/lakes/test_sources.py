"""Delta and Iceberg tables as sources of the command."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyiceberg.io.pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.types import StringType

import alance.sync
from alance import InvalidInputError
from alance.command import main
from alance.command.files import reader_of

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

Shown = pytest.CaptureFixture[str]
ROWS = pa.table(
    {
        "id": range(10),
        "day": ["mon", "tue"] * 5,
        "at": [{"lat": 1, "tags": ["x"]}] * 10,
        "props": pa.array([[("k", 1)]] * 10, pa.map_(pa.string(), pa.int64())),
        "cost": pa.array([1] * 10, pa.decimal128(10, 2)),
        "seen": pa.array([0] * 10, pa.timestamp("us", "UTC")),
    }
)


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    """A table with partitions, deleted rows and two versions."""
    folder = tmp_path / "delta"
    write_deltalake(folder, ROWS, partition_by=["day"])
    DeltaTable(folder).delete("id < 3")
    write_deltalake(folder, ROWS.slice(0, 1), mode="append")
    return folder


@pytest.fixture
def access(tmp_path: Path) -> dict[str, str]:
    """Properties of the catalog."""
    uri, warehouse = f"sqlite:///{tmp_path}/lake.db", f"file://{tmp_path}/warehouse"
    return {"type": "sql", "uri": uri, "warehouse": warehouse}


@pytest.fixture
def lake(access: dict[str, str]) -> Catalog:
    catalog = load_catalog("lake", **access)
    catalog.create_namespace("shop")
    return catalog


@pytest.fixture
def iceberg(tmp_path: Path, lake: Catalog) -> Path:
    """A table with deleted rows, a renamed column and a new one, in three files."""
    table = lake.create_table("shop.items", ROWS.schema)
    for start in (0, 5):
        table.append(ROWS.slice(start, 5))
    table.append(ROWS.slice(0, 1))
    table.delete("id = 1")
    with table.update_schema() as update:
        update.rename_column("id", "key")
        update.add_column("note", StringType())
    return tmp_path / "warehouse" / "shop" / "items"


def read(*paths: Path | str, form: str | None = None, **storage: str) -> pa.Table:
    sources = [str(path) for path in paths]
    return reader_of(sources, form, None, with_folders=True, storage=storage).read_all()


def refused(shown: Shown, *arguments: Any) -> str:
    assert main([str(argument) for argument in arguments]) == 1
    return shown.readouterr().err


def test_a_delta_table_has_the_rows_and_types_of_its_last_version(
    delta: Path, tmp_path: Path
) -> None:
    target = str(tmp_path / "t")
    assert main(["write", target, str(delta)]) == 0
    written = alance.sync.dataset(target).to_table().sort_by("id")
    expected = pa.concat_tables([ROWS.slice(0, 1), ROWS.slice(3)])
    assert written.to_pylist() == expected.to_pylist()
    assert written.schema.field("day").type == pa.string()
    assert all(not field.metadata for field in written.schema)
    assert main(["upsert", target, str(delta), "--on", "id"]) == 0
    assert alance.sync.dataset(target).count_rows() == 8
    assert main(["append", target, str(delta)]) == 0
    assert alance.sync.dataset(target).count_rows() == 16


def test_an_iceberg_table_has_the_rows_and_columns_of_its_snapshot(
    iceberg: Path, access: dict[str, str], tmp_path: Path
) -> None:
    (newest,) = sorted((iceberg / "metadata").glob("0000*.json"))[-1:]
    sources = [(iceberg, {}), (newest, {}), ("iceberg://lake/shop/items", access)]
    for source, options in sources:
        table = read(source, **options)
        assert sorted(table["key"].to_pylist()) == [0, 0, *range(2, 10)]
        assert table["note"].null_count == table.num_rows
        assert table.schema.names == ["key", *ROWS.schema.names[1:], "note"]
        assert table["at"].to_pylist() == [ROWS["at"][0].as_py()] * table.num_rows
        assert "PARQUET" not in table.schema.to_string()
    target = str(tmp_path / "t")
    assert main(["write", target, str(iceberg)]) == 0
    assert alance.sync.dataset(target).to_table() == read(iceberg)


def test_an_iceberg_table_is_read_file_by_file(
    iceberg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package itself reads ahead as many files as it has threads."""
    files: list[str] = []
    read_file = pyiceberg.io.pyarrow.ArrowScan.to_record_batches

    def counted(self: Any, tasks: Any) -> Any:
        files.extend(task.file.file_path for task in tasks)
        return read_file(self, tasks)

    monkeypatch.setattr(pyiceberg.io.pyarrow.ArrowScan, "to_record_batches", counted)
    reader = reader_of([str(iceberg)], None, None, with_folders=True)
    assert files == []
    reader.read_next_batch()
    assert len(files) == 1
    reader.read_all()
    assert len(files) == 3


def test_files_of_a_table_are_not_read_as_files(
    delta: Path, iceberg: Path, tmp_path: Path, lab: Lab, capsys: Shown
) -> None:
    """They include rows that are deleted."""
    target = tmp_path / "t"
    message = refused(capsys, "write", target, tmp_path)
    assert f"{delta}: a delta table; read it by --format delta" in message
    assert "is read alone" in refused(capsys, "write", target, delta, iceberg)
    for folder in (delta, iceberg):
        shutil.copytree(folder, lab.root / "lab" / "lakes" / folder.name)
    lab.rescan()
    options = lab.lance_options()
    for name, form in (("delta", "delta"), ("items", "iceberg")):
        with pytest.raises(InvalidInputError, match=f"a {form} table; read it by --format {form}"):
            read(f"s3://lab/lakes/{name}", **options)
    table = read("s3://lab/lakes/delta", form="delta", **options)
    assert sorted(table["id"].to_pylist()) == [0, *range(3, 10)]


def test_failures_name_the_table(
    delta: Path, iceberg: Path, access: dict[str, str], tmp_path: Path, capsys: Shown
) -> None:
    target = tmp_path / "t"
    options = [f"--from-storage={key}={value}" for key, value in access.items()]
    message = refused(capsys, "write", target, "iceberg://lake/shop/none", *options)
    assert "iceberg://lake/shop/none: NoSuchTableError" in message
    assert str(tmp_path) in refused(capsys, "write", target, tmp_path, "--format", "delta")
    newest = sorted((iceberg / "metadata").glob("0000*.json"))[-1]
    twin = newest.with_name(newest.name[:6] + "twin.metadata.json")
    shutil.copy(newest, twin)
    assert "is not clear; name it" in refused(capsys, "write", target, iceberg)
    twin.unlink()
    for file in (*delta.rglob("*.parquet"), *iceberg.rglob("*.parquet")):
        file.write_bytes(b"damaged")
    for folder in (delta, iceberg):
        assert str(folder) in refused(capsys, "write", target, folder)
    for file in (delta / "_delta_log").iterdir():
        file.write_text("damaged")
    assert str(delta) in refused(capsys, "write", target, delta)
    newest.write_text(json.dumps({}))
    assert str(iceberg) in refused(capsys, "write", target, iceberg)
    assert not target.exists()
