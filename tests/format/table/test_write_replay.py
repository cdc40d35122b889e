"""Commits of pylance, rebuilt from the version before: equal field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation

from alance.format.proto import rowids_pb2, table_pb2
from alance.format.table.changes.apply import Next, apply, manifest_bytes
from alance.format.table.changes.apply_state import Settings
from alance.format.table.manifest import Manifest, parse_manifest
from alance.format.table.transaction import Transaction
from tests.reference.manifest_fields import FIELDS_OF_WRITER
from tests.reference.manifest_names import attached
from tests.reference.shapes import numbers

if TYPE_CHECKING:
    from pathlib import Path

IGNORED = (*FIELDS_OF_WRITER, "transaction_section", "index_section")


def manifests(folder: Path) -> dict[int, Manifest]:
    """The versions of a table, by number."""
    names = attached(path.name for path in (folder / "_versions").iterdir())
    return {
        result.version: parse_manifest(memoryview((folder / "_versions" / name).read_bytes()), name)
        for name, result in sorted(names.items(), key=lambda item: item[1].version)
    }


def plain(message: table_pb2.Manifest) -> str:
    """A manifest without what two writers never agree on."""
    result = table_pb2.Manifest()
    result.CopyFrom(message)
    for name in IGNORED:
        result.ClearField(name)
    bases = sorted(result.base_paths, key=lambda item: item.id)
    result.ClearField("base_paths")
    result.base_paths.extend(bases)
    for fragment in result.fragments:
        for name in ("inline_created_at_versions", "inline_last_updated_at_versions"):
            if content := getattr(fragment, name):
                setattr(fragment, name, runs_from_0(content))
    return str(result)


def runs_from_0(content: bytes) -> bytes:
    """Versions of rows whose runs begin at row 0: only their lengths count."""
    sequence = rowids_pb2.RowDatasetVersionSequence.FromString(content)
    for run in sequence.runs:
        run.span.range.end -= run.span.range.start
        run.span.range.start = 0
    return sequence.SerializeToString()


def replay(folder: Path, *, source: Manifest | None = None) -> list[str]:
    """Make all versions of a table again and compare; gives the operations that made them."""
    recognized = manifests(folder)
    operations = []
    for version, manifest in recognized.items():
        assert manifest.transaction is not None
        transaction = Transaction.from_protobuf(manifest.transaction)
        previous = recognized.get(version - 1)
        operations.append(transaction.operation)
        result = again(manifest, previous, transaction, recognized, source)
        assert plain(result.message) == plain(manifest.message), (version, transaction.operation)
        ours = sorted(str(index) for index in result.indices)
        theirs = sorted(str(index) for index in manifest.indices)
        assert ours == theirs, (version, transaction.operation)
        back = parse_manifest(memoryview(manifest_bytes(result)), "ours")
        assert plain(back.message) == plain(result.message)
        assert list(back.indices) == list(result.indices)
        assert back.transaction == transaction.message
    return operations


def again(
    manifest: Manifest,
    previous: Manifest | None,
    transaction: Transaction,
    recognized: dict[int, Manifest],
    source: Manifest | None,
) -> Next:
    assert manifest.timestamp is not None
    if transaction.operation == "Restore":
        source = recognized[transaction.message.restore.version]
    elif transaction.operation != "Clone":
        source = None
    settings = Settings()
    if transaction.operation == "Overwrite":
        settings = Settings(
            data_storage_version=manifest.data_storage_version,
            stable_row_ids=manifest.has_stable_row_ids,
        )
    return apply(
        previous,
        transaction,
        now=manifest.timestamp,
        version=manifest.version,
        source=source,
        settings=settings,
    )


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, lance.LanceDataset]:
    folder = tmp_path / "t.lance"
    dataset = lance.write_dataset(
        numbers(0, 20), folder, max_rows_per_file=5, enable_stable_row_ids=request.param
    )
    return folder, dataset


def test_rows_come_and_go(table: tuple[Path, lance.LanceDataset]) -> None:
    folder, dataset = table
    dataset.insert(numbers(20, 25))
    dataset.delete("a in (3, 4, 7) or (a >= 10 and a < 15)")
    dataset.update({"b": "'new'"}, where="a in (1, 2, 16, 22)")
    rows = pa.table({"a": [2, 16, 100, 101], "b": ["w", "x", "y", "z"]})
    dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(rows)
    dataset.delete("a < 5")
    lance.write_dataset(numbers(0, 7), folder, mode="overwrite", max_rows_per_file=3)
    lance.dataset(folder, version=3).restore()
    lance.write_dataset(numbers(50, 53), folder, mode="append")
    expected = ["Overwrite", "Append", "Delete", "Update", "Update", "Delete", "Overwrite"]
    assert replay(folder) == [*expected, "Restore", "Append"]


def test_columns_come_and_go(table: tuple[Path, lance.LanceDataset]) -> None:
    folder, dataset = table
    dataset.add_columns({"c": "a * 2"})
    dataset.add_columns(pa.field("d", pa.int32()))
    dataset.alter_columns({"path": "b", "name": "bb"})
    dataset.alter_columns({"path": "c", "data_type": pa.int32()})
    dataset.drop_columns(["d"])
    dataset.drop_columns(["c"])
    dataset.merge(pa.table({"a": range(20), "e": range(20)}), "a")
    assert set(replay(folder)) == {"Overwrite", "Merge", "Project"}


def test_indices_follow_the_changes_of_rows(table: tuple[Path, lance.LanceDataset]) -> None:
    folder, dataset = table
    dataset.create_scalar_index("a", "BTREE")
    dataset.create_scalar_index("b", "BTREE")
    dataset.update({"b": "'new'"}, where="a in (1, 2)")
    dataset.delete("a < 5")
    dataset.insert(numbers(20, 25))
    dataset.optimize.optimize_indices()
    dataset.optimize.compact_files()
    dataset.drop_columns(["b"])
    dataset.drop_index("a_idx")
    operations = replay(folder)
    assert {"CreateIndex", "ReserveFragments", "Rewrite"} <= set(operations)


def test_changes_of_the_configuration_are_replayed(table: tuple[Path, lance.LanceDataset]) -> None:
    folder, dataset = table
    dataset.update_config({"k": "v", "l": "w"})
    dataset.delete_config_keys(["k"])
    dataset.update_metadata({"owner": "me"})
    dataset.update_schema_metadata({"s": "t"})
    dataset.update_field_metadata({"a": {"f": "g"}})
    dataset.update_schema_metadata({"u": "v"}, replace=True)
    dataset.update_field_metadata({"a": {"h": "i"}}, replace=True)
    dataset.update_config({"x": "y"}, replace=True)
    dataset.insert(numbers(20, 25))
    assert replay(folder)[1:-1] == ["UpdateConfig"] * 8


def test_values_are_replaced_in_place(table: tuple[Path, lance.LanceDataset]) -> None:
    folder, dataset = table
    dataset.create_scalar_index("b", "BTREE")
    dataset.create_scalar_index("a", "BTREE")
    fragment = dataset.get_fragments()[1]
    changed = pa.table({"a": range(5, 10), "b": ["n"] * 5})
    record, fields = fragment.update_columns(changed, "a", "a")
    operation = LanceOperation.Update(
        updated_fragments=[record], fields_modified=fields, update_mode="rewrite_columns"
    )
    dataset = lance.LanceDataset.commit(folder, operation, read_version=dataset.version)
    dataset.add_columns(pa.field("d", pa.int64()))
    file = lance.fragment.write_fragments(pa.table({"d": range(5)}), folder)[0].files[0]
    for where, field in ((0, 2), (0, 2), (1, 0)):
        file = lance.fragment.write_fragments(
            pa.table({dataset.schema.names[field]: range(5)}), folder
        )[0].files[0]
        file = lance.fragment.DataFile(
            path=file.path,
            fields=[field],
            column_indices=[0],
            file_major_version=2,
            file_minor_version=2,
            file_size_bytes=file.file_size_bytes,
        )
        group = LanceOperation.DataReplacementGroup(where, file)
        dataset = lance.LanceDataset.commit(
            folder, LanceOperation.DataReplacement([group]), read_version=dataset.version
        )
    dataset.validate()
    assert replay(folder)[-3:] == ["DataReplacement"] * 3


def test_changes_of_nested_columns_are_replayed(tmp_path: Path) -> None:
    folder = tmp_path / "t.lance"
    rows = pa.table({"s": [{"x": 1, "y": ["a"]}, None], "v": [[1.0, 2.0], [3.0, 4.0]]})
    dataset = lance.write_dataset(rows, folder, data_storage_version="2.1")
    dataset.drop_columns(["s.x"])
    dataset.drop_columns(["s"])
    dataset.add_columns(pa.field("n", pa.struct([("p", pa.int8())])))
    assert replay(folder) == ["Overwrite", "Project", "Project", "Merge"]


def test_empty_tables_and_file_versions(tmp_path: Path) -> None:
    folder = tmp_path / "t.lance"
    lance.write_dataset(numbers(0, 3).slice(0, 0), folder, data_storage_version="2.0")
    lance.write_dataset(numbers(0, 3), folder, mode="append")
    lance.write_dataset(numbers(0, 3), folder, mode="overwrite", data_storage_version="2.1")
    lance.write_dataset(numbers(0, 3), folder, mode="overwrite")
    assert len(replay(folder)) == 4


def test_clones_and_branches(table: tuple[Path, lance.LanceDataset], tmp_path: Path) -> None:
    folder, dataset = table
    dataset.delete("a = 3")
    dataset.create_scalar_index("a", "BTREE")
    other = dataset.shallow_clone(tmp_path / "clone", dataset.version)
    other.insert(numbers(20, 25))
    source = manifests(folder)[dataset.version]
    assert replay(tmp_path / "clone", source=source) == ["Clone", "Append"]
    branch = dataset.create_branch("one/two")
    branch.insert(numbers(30, 35))
    assert replay(folder / "tree/one/two", source=source) == ["Clone", "Append"]
    deep = dataset.deep_clone(tmp_path / "deep", dataset.version)
    assert deep.count_rows() == 19
    assert replay(tmp_path / "deep", source=source) == ["Clone"]


def test_changes_of_base_paths_are_replayed(tmp_path: Path) -> None:
    folder = tmp_path / "t.lance"
    base = lance.DatasetBasePath(str(tmp_path / "far"), "far", id=None)
    dataset = lance.write_dataset(numbers(0, 3), folder, initial_bases=[base], target_bases=["far"])
    dataset.add_bases([lance.DatasetBasePath(str(tmp_path / "near"), "near")])
    assert replay(folder) == ["Overwrite", "UpdateBases"]
