"""A fragment of an opened version, and what was learned of it."""

from __future__ import annotations

from functools import cached_property
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

    from alance.arrays import Int64s, Mask, UInt64s
    from alance.file.open.columns import States
    from alance.format.proto import table_pb2
    from alance.format.table.deletions import DeletionVector
    from alance.format.table.fragment import Fragment
    from alance.ops.version.snapshot import Snapshot

_Oneof: TypeAlias = Literal[
    "row_id_sequence", "created_at_version_sequence", "last_updated_at_version_sequence"
]
READABLE: Final = tuple(FileVersion)
# Where a fragment's record holds the numbers of its rows: the oneof, and the ends of its arms.
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
    """A fragment and what was learned of it: file sizes, row count, deletions, row ids.

    What is learned never changes, so that handles are shared by all tasks.
    """

    __slots__ = (
        "__dict__",  # of what is made once
        "_num_rows",
        "_snapshot",
        "_sources",
        "_values",
        "deleted",
        "fragment",
    )

    def __init__(self, snapshot: Snapshot, fragment: Fragment) -> None:
        self._snapshot = snapshot
        self.fragment = fragment
        self.deleted: DeletionVector | None = None  # None: none, or not yet loaded
        self._sources: tuple[FileSource, ...] | None = None
        self._num_rows = fragment.physical_rows
        self._values: dict[str, RowValues] = {}

    @property
    def id(self) -> int:
        """The fragment's id."""
        return self.fragment.id

    @property
    def num_physical_rows(self) -> int:
        """Rows stored, deleted ones included; 0 until `Snapshot.prepare` where nobody told."""
        return self._num_rows

    @property
    def is_resolved(self) -> bool:
        """Whether row count and file sizes are known."""
        if self._sources is not None:
            sized = all(source.file_bytes for source in self._sources)
        else:
            sized = all(file.num_bytes for file in self.fragment.files)
        return sized and (self._num_rows > 0 or not self.fragment.files)

    @property
    def is_prepared(self) -> bool:
        """Whether row count, file sizes and deletions are known."""
        has_deletions = self.fragment.deletion_file is None or self.deleted is not None
        return has_deletions and self.is_resolved

    @property
    def sources(self) -> tuple[FileSource, ...]:
        """The data files, where they are and what they hold.

        Raises:
            UnsupportedError: a file of a version that this alance does not read.
            CorruptFileError: a path that leaves its folder, or a base that is not there.
        """
        if self._sources is None:
            table, manifest = self._snapshot.table, self._snapshot.manifest
            for file in self.fragment.files:
                if file.version not in READABLE:
                    raise UnsupportedError(
                        f"data file {file.path!r} of fragment {self.id}: file version "
                        f"{file.version.value} is not read by this alance"
                    )
            self._sources = tuple(
                FileSource(table.data_file(manifest, file), file.num_bytes, dict(file.columns))
                for file in self.fragment.files
            )
        return self._sources

    @cached_property
    def identity(self) -> Hashable:
        """What stands for its files in keys of the search cache: their places, which are unique.

        Other handles, and other versions that have the same files, find what is known of them.

        Raises:
            UnsupportedError, CorruptFileError: as for `sources`.
        """
        places = tuple([source.location for source in self.sources])
        return places[0] if len(places) == 1 else places

    def set_apart(self) -> None:
        """Take nothing that others have learned of its files."""
        self.identity = object()

    def to_open(self, states: States) -> ToOpen:
        """What opening it needs to know, once it is prepared."""
        return ToOpen(self.sources, self.num_physical_rows, states)

    def resolve(self, sources: Sequence[FileSource], num_rows: int) -> None:
        """Remember the files with their sizes, and the row count."""
        self._sources = tuple(sources)
        self._num_rows = num_rows

    def source_of(self, field_id: int) -> FileSource:
        """The data file that has a field.

        Raises:
            CorruptFileError: none has.
        """
        for source in self.sources:
            if field_id in source.columns:
                return source
        raise CorruptFileError(f"fragment {self.id}: no data file has field {field_id}")

    async def deletions(self) -> DeletionVector | None:
        """The deletion vector; None where no row is deleted. Cost: at most one GET, once."""
        if self.deleted is None and self.fragment.deletion_file is not None:
            snapshot = self._snapshot
            if not self._num_rows:
                await snapshot.resolve_sizes([self])
            self.deleted = await load_deletions(
                snapshot.engine, snapshot.table, snapshot.manifest, self.fragment, self._num_rows
            )
        return self.deleted

    def live_mask(self, start: int, stop: int) -> Mask | None:
        """Which physical rows of a range are live; None: all."""
        if self.deleted is None:
            return None
        return self.deleted.live_mask(start, stop)

    def is_live(self, rows: Int64s) -> Mask:
        """Which of some physical rows are live."""
        if self.deleted is None:
            return np.ones(len(rows), np.bool_)
        return ~self.deleted.contains(rows)

    def physical(self, offsets: Int64s) -> Int64s:
        """Physical row offsets of the n-th live rows.

        Raises:
            CorruptFileError: the manifest promised more live rows than there are.
        """
        rows = offsets if self.deleted is None else self.deleted.to_physical(offsets)
        if len(rows) and rows.max() >= self._num_rows:
            raise CorruptFileError(
                f"fragment {self.id}: no live row {offsets.max()}, the manifest's count of "
                f"deleted rows is wrong"
            )
        return rows

    def physical_span(self, start: int, stop: int) -> tuple[int, int]:
        """The physical rows that hold the live rows from `start` to `stop` (not empty)."""
        first, last = self.physical(np.array([start, stop - 1])).tolist()
        return first, last + 1

    def meta(self, name: str, rows: Int64s) -> pa.Array:
        """A meta column for some physical rows; what it needs was loaded by `load_meta`.

        Deleted rows have neither a row id nor a position.

        Raises:
            CorruptFileError: a sequence in the manifest that contradicts the format.
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
        """Row ids or versions of all physical rows; what is not in the manifest was loaded before.

        Raises:
            CorruptFileError: see `meta`.
            UnsupportedError: they lie elsewhere and were not loaded.
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
                values = self.keep_values(name, np.ones(self._num_rows, np.uint64))
        return values

    def is_spilled(self, name: str) -> bool:
        """Whether row ids or versions lie in a file, and are not yet loaded."""
        arm = self.fragment.message.WhichOneof(_ONEOFS[name]) if name in _ONEOFS else None
        return arm is not None and not arm.startswith("inline_") and name not in self._values

    def external_values(self, name: str) -> table_pb2.ExternalFile | None:
        """The file that holds row ids or versions; None where a column does."""
        message, arm = self.fragment.message, f"external_{ARMS[name]}"
        return getattr(message, arm) if message.WhichOneof(_ONEOFS[name]) == arm else None

    def keep_values(self, name: str, content: bytes | UInt64s) -> RowValues:
        """Remember row ids or versions, from their serialized sequence or their values.

        Raises:
            CorruptFileError: see `meta`.
        """
        if isinstance(content, bytes):
            try:
                if name == ROW_ID:
                    runs = parse_row_id_runs(content, self._num_rows)
                    values = self._values[name] = RowValues.of_runs(*runs, self._num_rows)
                    return values
                content = parse_versions(content, self._num_rows)
            except AlanceError as error:
                error.add_note(f"in fragment {self.id}")
                raise
        elif len(content) != self._num_rows:
            raise CorruptFileError(
                f"fragment {self.id}: {len(content)} values of {name}, {self._num_rows} rows"
            )
        values = self._values[name] = RowValues.of(content, 1 if name == ROW_ID else 0)
        return values
