"""Fragments: their data files, deletion file and row ids; and the paths of these files.

Source: docs/format/table.md, "DataFragment, DataFile, overlays, ExternalFile" and "Base paths".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.file_version import FileVersion
from alance.format.proto import table_pb2
from alance.format.table.naming import DATA, DELETIONS, deletion_name

if TYPE_CHECKING:
    from collections.abc import Mapping

# Negative field ids in a data file: -2 is a tombstone, these are hidden lineage columns.
ROW_ID_FIELD: Final = -3
CREATED_AT_FIELD: Final = -4
UPDATED_AT_FIELD: Final = -5


@dataclass(frozen=True, slots=True)
class DataFile:
    """Data file: its path, and the column index of each field."""

    path: str
    columns: Mapping[int, int]  # field id -> column index, without tombstones
    version: FileVersion
    num_bytes: int  # 0: unknown
    base_id: int | None

    @classmethod
    def from_protobuf(cls, message: table_pb2.DataFile) -> DataFile:
        """Parse the manifest's record.

        Args:
            message: the record.

        Raises:
            CorruptFileError: the numbers of fields and columns differ, or a field occurs twice.
        """
        fields, indices = list(message.fields), list(message.column_indices)
        version = FileVersion.from_footer(message.file_major_version, message.file_minor_version)
        if version is FileVersion.V0_1 and not indices:
            indices = list(range(len(fields)))
        if len(fields) != len(indices):
            raise CorruptFileError(
                f"data file {message.path!r}: {len(fields)} fields, {len(indices)} columns"
            )
        columns = dict(zip(fields, indices, strict=True))
        if fields and min(*fields, *indices, 0) < 0:
            columns = {
                field: index
                for field, index in zip(fields, indices, strict=True)
                if index >= 0 and (field >= 0 or field <= ROW_ID_FIELD)
            }
        return cls(
            message.path,
            columns,
            version,
            message.file_size_bytes,
            message.base_id if message.HasField("base_id") else None,
        )


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """File with the deleted rows of a fragment."""

    is_bitmap: bool
    read_version: int
    id: int
    num_deleted_rows: int  # 0: unknown
    base_id: int | None

    @classmethod
    def from_protobuf(cls, record: table_pb2.DeletionFile) -> DeletionFile:
        """Parse the manifest's record.

        Args:
            record: message `DeletionFile` of a fragment.
        """
        return cls(
            record.file_type == table_pb2.DeletionFile.BITMAP,
            record.read_version,
            record.id,
            record.num_deleted_rows,
            record.base_id if record.HasField("base_id") else None,
        )

    def name(self, fragment_id: int) -> str:
        """Return the name of the file inside `_deletions/`.

        Args:
            fragment_id: id of its fragment.
        """
        return deletion_name(fragment_id, self.read_version, self.id, is_bitmap=self.is_bitmap)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A fragment as recorded in the manifest.

    Attributes:
        physical_rows: number of stored rows, including deleted rows; 0 if unknown.
        message: the protobuf record, including fields that this release of alance does not know.
    """

    id: int
    files: tuple[DataFile, ...]
    deletion_file: DeletionFile | None
    physical_rows: int
    message: table_pb2.DataFragment

    @classmethod
    def from_protobuf(cls, message: table_pb2.DataFragment) -> Fragment:
        """Parse the manifest's record.

        Args:
            message: the record.

        Raises:
            CorruptFileError: an id has more than 32 bits, or a data file's record is invalid.
        """
        if message.id >> 32:
            raise CorruptFileError(f"fragment id {message.id}: expected at most 32 bits")
        deletion = None
        if message.HasField("deletion_file"):
            deletion = DeletionFile.from_protobuf(message.deletion_file)
        return cls(
            message.id,
            tuple(map(DataFile.from_protobuf, message.files)),
            deletion,
            message.physical_rows,
            message,
        )

    @property
    def num_rows(self) -> int | None:
        """Number of live rows. None if the manifest does not record the number of deleted rows."""
        if self.deletion_file is None:
            return self.physical_rows
        if self.deletion_file.num_deleted_rows == 0 or self.physical_rows == 0:
            return None
        return self.physical_rows - self.deletion_file.num_deleted_rows


@dataclass(frozen=True, slots=True)
class DatasetBasePath:
    """Folder outside of the table's folder that holds some of the table's files.

    Attributes:
        path: absolute URI or path.
        name: name by which writers may choose it; None for no name.
        is_dataset_root: True if data files are in its subfolder `data/`, as in a dataset's folder;
            False if they are directly in it.
        id: number by which files refer to it; 0 for a new base path, whose number is not assigned
            yet.
    """

    path: str
    name: str | None = None
    is_dataset_root: bool = False
    id: int = 0


_OUTSIDE: Final = frozenset({"", ".", ".."})  # path segments that are not file names


def inside(path: str, what: str) -> str:
    """Return a relative path after checking that it stays below its folder.

    Raises:
        CorruptFileError: the path is empty or absolute, or contains `..`.
    """
    if not path or path.startswith("/") or "\\" in path or "\0" in path or "://" in path:
        raise CorruptFileError(f"{what} {path!r}: expected a relative path")
    if not _OUTSIDE.isdisjoint(path.split("/")):
        raise CorruptFileError(f"{what} {path!r}: leaves the folder of its table")
    return path


def data_path(file: DataFile, base: DatasetBasePath | None) -> str:
    """Return the path of a data file below its base, in `data/` if the base is a dataset root."""
    path = inside(file.path, "data file")
    return path if base is not None and not base.is_dataset_root else f"{DATA}/{path}"


def deletion_path(fragment: Fragment, base: DatasetBasePath | None) -> str:
    """Return the path of a fragment's deletion file below its base."""
    assert fragment.deletion_file is not None
    name = fragment.deletion_file.name(fragment.id)
    return name if base is not None and not base.is_dataset_root else f"{DELETIONS}/{name}"


def lineage_paths(fragment: table_pb2.DataFragment) -> list[str]:
    """Paths of the files with a fragment's row ids and versions; empty if the manifest has them."""
    files = (
        fragment.external_row_ids,
        fragment.external_last_updated_at_versions,
        fragment.external_created_at_versions,
    )
    return [file.path for file in files if file.path]
