"""A fragment of an opened version, with facts that were read about it."""

from __future__ import annotations

from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.file.rows.fragment import FileSource, ToOpen
from alance.file_version import FileVersion
from alance.format.numbers import to_arrow
from alance.format.table.row_ids import parse_row_id_runs, parse_versions
from alance.ops.version.projection import CREATED_AT, ROW_ADDRESS, ROW_ID, ROW_OFFSET, UPDATED_AT
from alance.versioning.row_index import RowValues
from alance.versioning.sidecars import load_deletions

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import pyarrow as pa

    from alance.base.arrays import Int64s, Mask, UInt64s
    from alance.file.open.columns import States
    from alance.format.proto import table_pb2
    from alance.format.table.deletions import DeletionVector
    from alance.format.table.fragment import Fragment
    from alance.ops.version.snapshot import Snapshot

_Oneof: TypeAlias = Literal[
    "row_id_sequence", "created_at_version_sequence", "last_updated_at_version_sequence"
]
_FILE_BYTES, _LOCATION = map(attrgetter, ("file_bytes", "location"))  # of a `FileSource`
_NUM_BYTES = attrgetter("num_bytes")  # of a `DataFile`
READABLE_VERSIONS: Final = tuple(FileVersion)
# Field names of row ids and versions in a fragment's record: the oneof, and suffixes of its arms.
_ONEOFS: Final[Mapping[str, _Oneof]] = {
    ROW_ID: "row_id_sequence",
    CREATED_AT: "created_at_version_sequence",
    UPDATED_AT: "last_updated_at_version_sequence",
}
ARMS: Final = {
    ROW_ID: "row_ids",
    CREATED_AT: "created_at_versions",
    UPDATED_AT: "last_updated_at_versions",
}


class FragmentHandle:
    """A fragment with facts that were read about it: sizes, row count, deletions, row ids.

    These facts never change, so all tasks share a handle.

    Attributes:
        id: id of the fragment.
        num_physical_rows: rows stored, including deleted rows; 0: unknown until `Snapshot.prepare`.
        deleted: deletion vector; None if there are no deletions, or it is not loaded.
    """

    __slots__ = (
        "__dict__",  # for cached properties
        "_snapshot",
        "_sources",
        "_values",
        "deleted",
        "fragment",
        "id",
        "num_physical_rows",
    )

    def __init__(self, snapshot: Snapshot, fragment: Fragment) -> None:
        self._snapshot = snapshot
        self.fragment = fragment
        self.id = fragment.id
        self.deleted: DeletionVector | None = None
        self._sources: tuple[FileSource, ...] | None = None
        self.num_physical_rows = fragment.physical_rows
        self._values: dict[str, RowValues] = {}

    @property
    def is_resolved(self) -> bool:
        """True if row count and file sizes are known."""
        if self._sources is not None:
            sized = all(map(_FILE_BYTES, self._sources))
        else:
            sized = all(map(_NUM_BYTES, self.fragment.files))
        return sized and (self.num_physical_rows > 0 or not self.fragment.files)

    @property
    def is_prepared(self) -> bool:
        """True if row count, file sizes and deletions are known."""
        has_deletions = self.fragment.deletion_file is None or self.deleted is not None
        return has_deletions and self.is_resolved

    @property
    def sources(self) -> tuple[FileSource, ...]:
        """Data files with their locations and columns.

        Raises:
            UnsupportedError: this release of alance does not read a file's version.
            CorruptFileError: a path leaves its folder, or a base path is missing.
        """
        if self._sources is None:
            table, manifest = self._snapshot.table, self._snapshot.manifest
            sources = []
            for file in self.fragment.files:
                if file.version not in READABLE_VERSIONS:
                    raise UnsupportedError(
                        f"data file {file.path!r} of fragment {self.id}: file version "
                        f"{file.version.value} is not read by this alance"
                    )
                location = table.data_file(manifest, file)
                sources.append(FileSource(location, file.num_bytes, file.columns))
            self._sources = tuple(sources)
        return self._sources

    @cached_property
    def identity(self) -> Hashable:
        """Key of the fragment's files in the search cache: their locations, which are unique.

        Other handles and versions with the same files share the cache entries.

        Raises:
            UnsupportedError, CorruptFileError: as for `sources`.
        """
        places = tuple(map(_LOCATION, self.sources))
        return places[0] if len(places) == 1 else places

    def set_apart(self) -> None:
        """Stop sharing cache entries with other handles of the same files."""
        self.identity = object()

    def to_open(self, states: States) -> ToOpen:
        """Return the arguments for opening the fragment, which must be prepared."""
        return ToOpen(self._sources or self.sources, self.num_physical_rows, states)

    def resolve(self, sources: Sequence[FileSource], num_rows: int) -> None:
        """Set the files, with their sizes, and the row count."""
        self._sources = tuple(sources)
        self.num_physical_rows = num_rows

    def source_of(self, field_id: int) -> FileSource:
        """Return the data file of a field.

        Raises:
            CorruptFileError: no file contains the field.
        """
        for source in self.sources:
            if field_id in source.columns:
                return source
        raise CorruptFileError(f"fragment {self.id}: no data file has field {field_id}")

    async def deletions(self) -> DeletionVector | None:
        """Return the deletion vector; None if no row is deleted. Cost: at most one GET, once."""
        if self.deleted is None and self.fragment.deletion_file is not None:
            snapshot = self._snapshot
            if not self.num_physical_rows:
                await snapshot.resolve_sizes([self])
            self.deleted = await load_deletions(
                snapshot.engine,
                snapshot.table,
                snapshot.manifest,
                self.fragment,
                self.num_physical_rows,
            )
        return self.deleted

    def live_mask(self, start: int, stop: int) -> Mask | None:
        """Return the mask of live rows in a range of physical rows; None if all are live."""
        if self.deleted is None:
            return None
        return self.deleted.live_mask(start, stop)

    def live_of(self, rows: Int64s) -> Int64s:
        """Return the live rows among physical rows."""
        return rows if self.deleted is None else rows[~self.deleted.contains(rows)]

    def physical(self, offsets: Int64s) -> Int64s:
        """Return the physical offsets of live rows, given their positions among the live rows.

        Raises:
            CorruptFileError: there are fewer live rows than the manifest says.
        """
        rows = offsets if self.deleted is None else self.deleted.to_physical(offsets)
        if len(rows) and rows.max() >= self.num_physical_rows:
            raise CorruptFileError(
                f"fragment {self.id}: no live row {offsets.max()}, the manifest's count of "
                f"deleted rows is wrong"
            )
        return rows

    def physical_span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the range of physical rows that has the live rows `start` to `stop` - 1.

        Args:
            start, stop: half-open range of live rows; it must not be empty.
        """
        if self.deleted is None:
            return start, stop
        first, last = self.physical(np.array([start, stop - 1])).tolist()
        return first, last + 1

    def meta(self, name: str, rows: Int64s) -> pa.Array:
        """Return a meta column for physical rows; call `load_meta` first.

        Deleted rows have neither a row id nor a position.

        Raises:
            CorruptFileError: a sequence in the manifest contradicts the format.
        """
        if name == ROW_ADDRESS or (name == ROW_ID and not self._snapshot.has_stable_row_ids):
            values = rows.view(np.uint64) | np.uint64(self.id << 32)
        elif name == ROW_OFFSET:
            first = self._snapshot.first_row(self)
            live = rows if self.deleted is None else self.deleted.to_live(rows)
            values = (live + first).view(np.uint64)
        else:
            values = self.row_values(name).at(rows)
        if name in (ROW_ID, ROW_OFFSET) and self.deleted is not None:
            dead = self.deleted.contains(rows)
            if dead.any():
                return to_arrow(values, ~dead)
        return to_arrow(values)

    def row_values(self, name: str) -> RowValues:
        """Return the row ids or versions of all physical rows.

        Values that are not in the manifest must be loaded first.

        Raises:
            CorruptFileError: the fragment has no row ids; or see `meta`.
            UnsupportedError: values that are not in the manifest were not loaded.
        """
        values = self._values.get(name)
        if values is None:
            message = self.fragment.message
            arm = message.WhichOneof(_ONEOFS[name])
            if arm == f"inline_{ARMS[name]}":
                values = self.keep_values(name, getattr(message, arm))
            elif arm is not None:
                raise UnsupportedError(
                    f"fragment {self.id}: {name} is not in the manifest, and was not loaded"
                )
            elif name == ROW_ID:
                raise CorruptFileError(f"fragment {self.id}: it has no row ids")
            else:
                values = self.keep_values(name, np.ones(self.num_physical_rows, np.uint64))
        return values

    def is_spilled(self, name: str) -> bool:
        """True if row ids or versions are in a file that is not loaded."""
        arm = self.fragment.message.WhichOneof(_ONEOFS[name]) if name in _ONEOFS else None
        return arm is not None and not arm.startswith("inline_") and name not in self._values

    def external_values(self, name: str) -> table_pb2.ExternalFile | None:
        """Return the file of row ids or versions; None if they are not in a separate file."""
        message, arm = self.fragment.message, f"external_{ARMS[name]}"
        return getattr(message, arm) if message.WhichOneof(_ONEOFS[name]) == arm else None

    def keep_values(self, name: str, content: bytes | UInt64s) -> RowValues:
        """Cache row ids or versions, given their serialized sequence or their values.

        Raises:
            CorruptFileError: see `meta`.
        """
        if isinstance(content, bytes):
            try:
                if name == ROW_ID:
                    runs = parse_row_id_runs(content, self.num_physical_rows)
                    values = self._values[name] = RowValues.of_runs(*runs, self.num_physical_rows)
                    return values
                content = parse_versions(content, self.num_physical_rows)
            except AlanceError as error:
                error.add_note(f"in fragment {self.id}")
                raise
        elif len(content) != self.num_physical_rows:
            raise CorruptFileError(
                f"fragment {self.id}: {len(content)} values of {name}, "
                f"{self.num_physical_rows} rows"
            )
        values = self._values[name] = RowValues.of(content, 1 if name == ROW_ID else 0)
        return values


def live_rows(handles: Sequence[FragmentHandle]) -> Mask | None:
    """Return the mask of the live rows of prepared fragments; None if all rows are live."""
    masks = [handle.live_mask(0, handle.num_physical_rows) for handle in handles]
    if all(mask is None for mask in masks):
        return None
    return np.concatenate(
        [
            np.ones(handle.num_physical_rows, np.bool_) if mask is None else mask
            for handle, mask in zip(handles, masks, strict=True)
        ]
    )
