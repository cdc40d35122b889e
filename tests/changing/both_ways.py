"""A table twice, for the same call by pylance and by alance; what the two leave, compared."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.format.proto import table_pb2, transaction_pb2
from alance.format.table.manifest import parse_manifest
from alance.format.table.row_ids import num_row_ids, parse_row_ids, parse_versions
from alance.format.table.transaction import parse_transaction
from alance.ops.version.summary import RENAMED
from tests.reference.manifest_fields import FIELDS_OF_WRITER
from tests.reference.manifest_names import attached

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alance.format.table.manifest import Manifest

# Ways to keep a table, as arguments of `Twins.make`.
KINDS = [
    pytest.param({}, id="addresses-v2"),
    pytest.param({"enable_v2_manifest_paths": False}, id="addresses-v1"),
    pytest.param({"enable_stable_row_ids": True}, id="stable-v2"),
    pytest.param(
        {"enable_stable_row_ids": True, "enable_v2_manifest_paths": False}, id="stable-v1"
    ),
]
TWO_KINDS = [KINDS[0], KINDS[3]]
STABLE_2_2 = pytest.param(
    {"enable_stable_row_ids": True, "data_storage_version": "2.2"}, id="stable-2.2"
)
META = ["_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]


def rows(start: int, stop: int) -> pa.Table:
    """Rows `id`, `v`, `s` (null in every fourth), `n` (a struct) and `l` (a list)."""
    ids = range(start, stop)
    struct = pa.struct([("a", pa.int32()), ("b", pa.string())])
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "v": pa.array([i * 1.5 for i in ids], pa.float64()),
            "s": pa.array([None if i % 4 == 3 else f"s{i}" for i in ids], pa.string()),
            "n": pa.array([{"a": i, "b": str(i)} for i in ids], struct),
            "l": pa.array([list(range(i % 3)) for i in ids], pa.list_(pa.int32())),
        }
    )


@dataclass(frozen=True)
class Twins:
    """Two copies of a table: `theirs` is changed by pylance, `ours` by alance."""

    theirs: Path
    ours: Path

    @classmethod
    def make(cls, folder: Path, data: pa.Table | None = None, **options: Any) -> Twins:
        """A table of 20 rows in 4 fragments, unless told otherwise."""
        result = cls(folder / "theirs.lance", folder / "ours.lance")
        options = {"max_rows_per_file": 5, "data_storage_version": "2.1", **options}
        lance.write_dataset(rows(0, 20) if data is None else data, str(result.theirs), **options)
        result.again()
        return result

    def again(self) -> None:
        """Make ours a copy of theirs."""
        shutil.rmtree(self.ours, ignore_errors=True)
        shutil.copytree(self.theirs, self.ours)

    async def change(self, name: str, *args: Any, **more: Any) -> dict[str, Any]:
        """The same call by both; what they leave must be the same. Gives the counts."""
        message = getattr(lance.dataset(str(self.theirs)), name)(*args, **more)
        changed = await getattr(await alance.dataset(str(self.ours)), name)(*args, **more)
        theirs = {RENAMED.get(key, key): count for key, count in message.items()}
        assert dict(changed.summary) == theirs
        self.check()
        table = await changed.to_table(with_row_id=True, with_row_address=True)
        assert table.to_pylist() == read(self.theirs).select(table.column_names).to_pylist()
        return dict(message)

    def check(self) -> None:
        """Manifests, transactions and rows are the same; pylance finds nothing wrong."""
        ours, theirs = latest(self.ours), latest(self.theirs)
        assert plain(ours.transaction) == plain(theirs.transaction)
        assert plain(ours.message) == plain(theirs.message)
        assert [plain(index) for index in ours.indices] == [
            plain(index) for index in theirs.indices
        ]
        assert ours.transaction is not None
        file = self.ours / "_transactions" / ours.message.transaction_file
        written = parse_transaction(file.read_bytes(), file.name)
        assert plain(written.message) == plain(ours.transaction)
        for fragment in ours.fragments:
            if fragment.deletion_file is not None:
                name = fragment.deletion_file.name(fragment.id)
                assert (self.ours / "_deletions" / Path(name).name).exists()
        actual, other = read(self.ours), read(self.theirs)
        assert actual.schema.equals(other.schema, check_metadata=True)
        assert actual.to_pylist() == other.to_pylist()


def read(path: Path) -> pa.Table:
    """All rows with all that is known of them, as pylance reads them."""
    dataset = lance.dataset(str(path))
    dataset.validate()
    return dataset.to_table(columns=[*dataset.schema.names, *META])


def latest(path: Path) -> Manifest:
    """The latest manifest, straight from the disk; of either scheme of names."""
    names = attached(file.name for file in (path / "_versions").iterdir())
    name, _ = max(names.items(), key=lambda item: item[1].version)
    return parse_manifest(memoryview((path / "_versions" / name).read_bytes()), name)


def files_of(path: Path) -> set[str]:
    """The files of a table that rows and versions consist of."""
    folders = ("data", "_deletions", "_versions", "_transactions")
    return {
        f"{folder}/{file.name}"
        for folder in folders
        if (path / folder).exists()
        for file in (path / folder).iterdir()
    }


DIFFERS = (
    *FIELDS_OF_WRITER,
    *("uuid", "transaction_file", "transaction_section", "index_section"),
)
SORTED = (
    *("fields_for_preserving_frag_bitmap", "fields_modified"),
    *("removed_fragment_ids", "deleted_fragment_ids"),
)


def plain(value: Any) -> Any:
    """A message as a dictionary without what differs from call to call."""
    if isinstance(value, table_pb2.DeletionFile):
        return {"rows": value.num_deleted_rows, "type": value.file_type, "at": value.read_version}
    if isinstance(value, table_pb2.DataFragment):
        return _fragment(value)
    if isinstance(value, transaction_pb2.Transaction.KeyExistenceFilter):
        return list(value.field_ids)
    return {
        field.name: _part(field, item)
        for field, item in value.ListFields()
        if field.name not in DIFFERS
    }


def _part(field: Any, item: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return {key: str(item[key]) for key in item}
    if field.is_repeated:
        parts = [plain(part) if field.message_type is not None else part for part in item]
        if field.name == "updated_fragments":  # pylance gives them in any order
            parts.sort(key=lambda part: part["id"])
        return sorted(parts) if field.name in SORTED else parts
    return plain(item) if field.message_type is not None else item


def _fragment(value: table_pb2.DataFragment) -> Any:
    ids = value.inline_row_ids
    return {
        "id": value.id,
        # Names and sizes of files are each writer's own.
        "files": [
            [list(file.fields), list(file.column_indices), file.file_minor_version]
            for file in value.files
        ],
        "deleted": plain(value.deletion_file) if value.HasField("deletion_file") else None,
        "rows": value.physical_rows,
        "row ids": parse_row_ids(ids, num_row_ids(ids)).tolist() if ids else None,
        "created": _versions(value.inline_created_at_versions, value.physical_rows),
        "updated": _versions(value.inline_last_updated_at_versions, value.physical_rows),
    }


def _versions(content: bytes, num_rows: int) -> Iterable[int] | None:
    return parse_versions(content, num_rows).tolist() if content else None
