"""Fragments: their data files, deletion file and row ids; and the paths of these files.

Fragments of a manifest are parsed lazily: of many thousands, a read needs only a few.

Source: docs/format/table.md, "DataFragment, DataFile, overlays, ExternalFile" and "Base paths".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np
from google.protobuf.message import DecodeError

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.file_version import FileVersion
from alance.format.proto import parsed, table_pb2
from alance.format.table.naming import DATA, DELETIONS, deletion_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from alance.base.arrays import Int32s, Int64s, Mask, UInt64s

# Negative field ids in a data file: -2 is a tombstone, these are hidden lineage columns.
ROW_ID_FIELD: Final = -3
CREATED_AT_FIELD: Final = -4
UPDATED_AT_FIELD: Final = -5
MAX_FRAGMENT_ROWS: Final = 1 << 32  # rows per fragment; a row address has 32 bits for the offset
_OUTSIDE: Final = frozenset({"", ".", ".."})  # path segments that are not file names


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


def inside(path: str, what: str) -> str:
    """Return a relative path after checking that it stays below its folder."""
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
    names = ("row_ids", "last_updated_at_versions", "created_at_versions")
    files = (getattr(fragment, f"external_{name}") for name in names)
    return [file.path for file in files if file.path]


@dataclass(frozen=True, slots=True, eq=False)
class Records(Sequence[table_pb2.DataFragment]):
    """Serialized records of fragments; each record is parsed on access.

    Fragments have the same form if their records differ only in ids, row counts, names and sizes of
    files, deletions and row ids. A form is a record without these parts; it shows whether there are
    deletions and row ids, but not their content. A table has few forms, so checks of all fragments'
    columns look at the forms alone.

    Attributes:
        content: the records as consecutive fields of a manifest.
        stops: end of each record's field in `content`. All arrays have shape (n,).
        sizes: number of bytes of each record; record i is `content[stops[i] - sizes[i] :
            stops[i]]`.
        ids: ids of the fragments.
        rows: number of stored rows, including deleted rows; 0 if unknown.
        deleted: number of deleted rows; 0 if unknown, -1 without a deletion file.
        file_bytes: total size of each fragment's data files, as far as recorded.
        form_of: position in `forms` of each record's form.
        first_ids: first row id, if the row ids are inline as one range.
        num_ids: number of these row ids; -1 if they are not one range.
        forms: serialized forms.
    """

    content: bytes
    stops: Int64s
    sizes: Int64s
    ids: UInt64s
    rows: UInt64s
    deleted: Int64s
    file_bytes: UInt64s
    form_of: Int32s
    first_ids: UInt64s
    num_ids: Int64s
    forms: Sequence[bytes]

    @classmethod
    def of(cls, messages: Iterable[table_pb2.DataFragment]) -> Records:
        """Build from parsed records, which need not be valid."""
        return cls.read(b"".join(map(field_bytes, messages)))

    @classmethod
    def read(cls, content: bytes) -> Records:
        """Read the records from the serialized fragment fields of a manifest."""
        parts = _kernels.manifest_fragments(content)
        if parts is None:
            raise CorruptFileError("fragments of the manifest: a record is damaged")
        return cls(*parts[2:])

    def __len__(self) -> int:
        return len(self.stops)

    @overload
    def __getitem__(self, index: int) -> table_pb2.DataFragment: ...
    @overload
    def __getitem__(self, index: slice) -> list[table_pb2.DataFragment]: ...
    def __getitem__(
        self, index: int | slice
    ) -> table_pb2.DataFragment | list[table_pb2.DataFragment]:
        if isinstance(index, slice):
            first, stop, step = index.indices(len(self))
            return [] if first >= stop else self._parsed(first, stop)[::step]
        stop = int(self.stops[index])
        try:
            return table_pb2.DataFragment.FromString(
                self.content[stop - int(self.sizes[index]) : stop]
            )
        except DecodeError as error:
            raise CorruptFileError(f"fragment {index} of the manifest: {error}") from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Records):
            return NotImplemented
        return self.content == other.content and np.array_equal(self.stops, other.stops)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Records({len(self)})"

    def _parsed(self, first: int, stop: int) -> list[table_pb2.DataFragment]:
        """Parse consecutive records, at least one, by a single protobuf call."""
        content = self.fields(first, stop - 1)
        return list(parsed(table_pb2.Manifest, content, "fragments of the manifest").fragments)

    def part(self, first: int, stop: int) -> Records:
        """Copy the records `first` to `stop - 1`, at least one."""
        start = int(self.stops[first - 1]) if first else 0
        content, stops = self.fields(first, stop - 1), self.stops[first:stop] - start
        own = self.sizes, self.ids, self.rows, self.deleted, self.file_bytes
        arrays = (*own, self.form_of, self.first_ids, self.num_ids)
        others: list[Any] = [*(array[first:stop].copy() for array in arrays), self.forms]
        return Records(content, stops, *others)

    def fields(self, first: int, last: int) -> bytes:
        """Return the serialized fields of consecutive records, including `last`."""
        start = int(self.stops[first - 1]) if first else 0
        return self.content[start : int(self.stops[last])]


def field_bytes(fragment: table_pb2.DataFragment) -> bytes:
    """Serialize a fragment's record as a field of a manifest."""
    return bytes(table_pb2.Manifest(fragments=[fragment]).SerializeToString())


class Fragments(Sequence[Fragment]):
    """Fragments in row order; each is parsed on first access.

    Attributes:
        records: the serialized records, which need not be valid.
        ids: shape (n,).
        physical_rows: number of stored rows of each, including deleted rows; 0 if unknown.
        num_rows: number of live rows of each, shape (n,); -1 if unknown.
        repeated_id: an id that two fragments share, as releases up to 0.16 wrote; None if all
            differ.
    """

    __slots__ = (
        "_forms",
        "_order",
        "_parsed",
        "ids",
        "num_rows",
        "physical_rows",
        "records",
        "repeated_id",
    )

    def __init__(self, records: Records) -> None:
        self.records, num_fragments = records, len(records)
        self._parsed: list[Fragment | None] = [None] * num_fragments
        self._forms: tuple[table_pb2.DataFragment, ...] | None = None
        if num_fragments and int(records.ids.max()) >> 32:
            raise CorruptFileError(f"fragment id {records.ids.max()}: expected at most 32 bits")
        self.ids: Int64s = records.ids.astype(np.int64)
        if num_fragments and int(records.rows.max()) > MAX_FRAGMENT_ROWS:
            raise CorruptFileError(
                f"fragment of {records.rows.max()} rows: at most {MAX_FRAGMENT_ROWS}"
            )
        is_told = records.rows > 0
        self.physical_rows: Int64s = np.where(is_told, records.rows, 0).astype(np.int64)
        live = self.physical_rows - np.maximum(records.deleted, 0)
        # A fragment without live rows should not exist, so its recorded count is not trusted.
        live[~is_told | (records.deleted == 0) | (live == 0)] = -1
        self.num_rows: Int64s = live
        self.repeated_id: int | None = None
        self._order: Int64s | None = None
        if len(self.ids) > 1 and not bool((self.ids[1:] > self.ids[:-1]).all()):
            self._order = np.argsort(self.ids, kind="stable")
            ordered = self.ids[self._order]
            repeated = ordered[1:][ordered[1:] == ordered[:-1]]
            if len(repeated):
                self.repeated_id = int(repeated[0])

    def unparsed(self) -> Fragments:
        """Return the same fragments, of which none is parsed; they share the arrays."""
        fragments = object.__new__(Fragments)
        for name in self.__slots__:
            setattr(fragments, name, getattr(self, name))
        fragments._parsed, fragments._forms = [None] * len(self._parsed), None
        return fragments

    def __len__(self) -> int:
        return len(self._parsed)

    @overload
    def __getitem__(self, index: int) -> Fragment: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Fragment, ...]: ...
    def __getitem__(self, index: int | slice) -> Fragment | tuple[Fragment, ...]:
        if isinstance(index, slice):
            return tuple(self[number] for number in range(*index.indices(len(self))))
        fragment = self._parsed[index]
        if fragment is None:
            fragment = self._parsed[index] = Fragment.from_protobuf(self.records[index])
        return fragment

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fragments | tuple | list):
            return NotImplemented
        return tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Fragments({len(self)})"

    @property
    def forms(self) -> Sequence[table_pb2.DataFragment]:
        """Parsed forms of the records; see `Records`. A form may belong to no fragment."""
        if self._forms is None:
            self._forms = tuple(
                parsed(table_pb2.DataFragment, form, "fragments of the manifest")
                for form in self.records.forms
            )
        return self._forms

    def below(self, base_id: int | None) -> Fragments:
        """Return the fragments of a clone, in which files without a base path get the given one.

        Args:
            base_id: id of the base path; None to remove the base path of all files.
        """
        return Fragments(Records.read(_kernels.based_fragments(self.records.content, base_id)))

    @property
    def is_ascending(self) -> bool:
        return self._order is None

    def row_id_ranges(self) -> tuple[UInt64s, Mask]:
        """Return the first row id of each fragment, and a mask of fragments with one range of ids.

        Both have shape (n,). The mask is set if the row ids are inline as a single range, and the
        fragment has no deletion file.
        """
        records = self.records
        is_told = (self.physical_rows > 0) & (records.deleted < 0)
        return records.first_ids, is_told & (records.num_ids == self.physical_rows)

    def position_of(self, fragment_id: int) -> int | None:
        """Return the position of a fragment in the list; None if there is no such fragment."""
        place = int(np.searchsorted(self.ids, fragment_id, sorter=self._order))
        if place == len(self):
            return None
        position = place if self._order is None else int(self._order[place])
        return position if self.ids[position] == fragment_id else None

    def positions_of(self, fragment_ids: Int64s) -> Int64s:
        """Return the positions of fragments in the list; -1 for missing ones; shape (n,)."""
        if not len(self):
            return np.full(len(fragment_ids), -1)
        places = np.minimum(self.ids.searchsorted(fragment_ids, sorter=self._order), len(self) - 1)
        positions = places if self._order is None else self._order[places]
        return np.where(self.ids[positions] == fragment_ids, positions, -1)

    def record_of(self, fragment_id: int) -> table_pb2.DataFragment | None:
        """Parse a fragment's record into a new message.

        Returns None if there is no such fragment.
        """
        position = self.position_of(fragment_id)
        return None if position is None else self.records[position]
