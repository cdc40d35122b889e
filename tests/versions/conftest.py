"""Tables for tests of versions: written by pylance, continued by both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

from alance.format.table.manifest import parse_manifest
from alance.format.table.transaction import parse_transaction
from tests.reference.manifest_fields import FIELDS_OF_WRITER

if TYPE_CHECKING:
    from alance.format.table.manifest import Manifest


def numbers(start: int, stop: int) -> pa.Table:
    """Rows `a` (number), `b` (its text) and `s.x` (number)."""
    result = range(start, stop)
    return pa.table({"a": result, "b": [str(n) for n in result], "s": [{"x": n} for n in result]})


def make(folder: Path, **options: Any) -> str:
    """Version 1 rows 0-9, 2 rows 10-14 more, 3 without row 3."""
    path = str(folder / "t.lance")
    lance.write_dataset(numbers(0, 10), path, **options)
    lance.write_dataset(numbers(10, 15), path, mode="append", **options)
    lance.dataset(path).delete("a = 3")
    return path


@pytest.fixture
def table(tmp_path: Path) -> str:
    """The path of a table that pylance wrote."""
    return make(tmp_path)


def manifest_of(path: str | Path, version: int | None = None) -> Manifest:
    """A manifest (V2 names), the latest by default, straight from the disk."""
    folder = Path(path) / "_versions"
    ordered = sorted(folder.glob("*.manifest"))
    if version is not None:
        ordered = [item for item in ordered if int(item.stem) == (1 << 64) - 1 - version]
    return parse_manifest(memoryview(ordered[0].read_bytes()), str(ordered[0]))


DIFFERS = (*FIELDS_OF_WRITER, "uuid", "transaction_file")


def plain(value: Any, *without: str) -> Any:
    """A message as a dictionary without what differs from call to call."""
    return {
        field.name: _plain(field, item, without)
        for field, item in value.ListFields()
        if field.name not in DIFFERS and field.name not in without
    }


def _plain(field: Any, value: Any, without: tuple[str, ...]) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        is_message = field.message_type.fields_by_name["value"].message_type is not None
        return {
            key: plain(value[key], *without) if is_message else value[key] for key in sorted(value)
        }
    if field.message_type is None:
        return list(value) if field.is_repeated else value
    if field.is_repeated:
        parts = [plain(part, *without) for part in value]
        # Entries of maps come in any order.
        is_map = field.name in ("update_entries", "base_paths")
        return sorted(parts, key=str) if is_map else parts
    return plain(value, *without)


def tagged_source(folder: Path, *, stable: bool) -> lance.LanceDataset:
    """A table that pylance wrote, with an index, a tag `two`, a branch `dev`, a setting."""
    source = lance.dataset(make(folder, enable_stable_row_ids=stable))
    source.create_scalar_index("a", "BTREE")
    source.update_config({"k": "v"})
    source.tags.create("two", 2)
    source.create_branch("dev", 2).insert(numbers(50, 52))
    return source


def check_equal_messages(ours: str, theirs: str) -> None:
    """The transactions, manifests and indices of two tables are equal."""
    assert transaction_of(ours) == transaction_of(theirs)
    assert plain(manifest_of(ours).message) == plain(manifest_of(theirs).message)
    assert [plain(index) for index in manifest_of(ours).indices] == [
        plain(index) for index in manifest_of(theirs).indices
    ]


def transaction_of(path: str | Path) -> Any:
    """The transaction of the latest version as a dictionary; its file says the same."""
    manifest = manifest_of(path)
    assert manifest.transaction is not None
    name = manifest.message.transaction_file
    file = Path(path) / "_transactions" / name
    assert plain(parse_transaction(file.read_bytes(), name).message) == plain(manifest.transaction)
    return plain(manifest.transaction)


def rows_by_pylance(path: str, **options: Any) -> list[int]:
    """Values of `a` as pylance reads them, after it has checked the table."""
    dataset = lance.dataset(path, **options)
    dataset.validate()
    result: list[int] = dataset.to_table()["a"].to_pylist()
    return result
