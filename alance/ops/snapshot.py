"""A version of a dataset, opened: what every verb works on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.errors import CorruptFileError, NotFoundError
from alance.file.fragment import FileSource
from alance.ops.projection import ROW_ADDRESS, ROW_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from alance.format.schema import Schema
    from alance.format.table.deletions import DeletionVector
    from alance.format.table.fragment import Fragment
    from alance.format.table.manifest import Manifest
    from alance.io.engine import Engine
    from alance.session import Session
    from alance.versioning.table import Table


class FragmentHandle:
    """A fragment and what was learned of it: file sizes, deletions, row ids.

    What is learned never changes, so that handles are shared by all tasks.
    """

    __slots__ = ("deleted", "fragment", "row_ids", "sources", "versions")

    def __init__(self, fragment: Fragment, sources: Sequence[FileSource]) -> None:
        self.fragment = fragment
        self.sources = sources
        self.deleted: DeletionVector | None = None  # None: none, or not yet loaded
        self.row_ids: npt.NDArray[np.uint64] | None = None
        self.versions: dict[str, npt.NDArray[np.uint64]] = {}

    @property
    def id(self) -> int:
        """The fragment's id."""
        return self.fragment.id

    @property
    def num_physical_rows(self) -> int:
        """Rows stored, deleted ones included."""
        return self.fragment.physical_rows

    def source_of(self, field_id: int) -> FileSource:
        """The data file that has a field.

        Raises:
            CorruptFileError: none has.
        """
        for source in self.sources:
            if field_id in source.columns:
                return source
        raise CorruptFileError(f"fragment {self.id}: no data file has field {field_id}")

    def live_mask(self, start: int, stop: int) -> npt.NDArray[np.bool_] | None:
        """Which physical rows of a range are live; None: all."""
        if self.deleted is None:
            return None
        return self.deleted.live_mask(start, stop)

    def is_live(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of some physical rows are live."""
        if self.deleted is None:
            return np.ones(len(rows), np.bool_)
        return ~self.deleted.contains(rows)

    def physical(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Physical row offsets of the n-th live rows."""
        return offsets if self.deleted is None else self.deleted.to_physical(offsets)

    def physical_span(self, start: int, stop: int) -> tuple[int, int]:
        """The physical rows that hold the live rows from `start` to `stop` (not empty)."""
        first, last = self.physical(np.array([start, stop - 1])).tolist()
        return first, last + 1

    def meta(self, name: str, rows: npt.NDArray[np.int64]) -> pa.Array:
        """A meta column for some physical rows."""
        if name == ROW_ADDRESS or (name == ROW_ID and self.row_ids is None):
            values = (np.uint64(self.id) << np.uint64(32)) | rows.astype(np.uint64)
        elif name == ROW_ID:
            assert self.row_ids is not None
            values = self.row_ids[rows]
        else:
            values = self.versions[name][rows]
        if name == ROW_ID and self.deleted is not None:
            dead = self.deleted.contains(rows)
            if dead.any():
                return pa.array(values, mask=dead)
        return pa.array(values)


class Snapshot:
    """One version of a dataset with the session that reads it. Immutable but for caches."""

    __slots__ = ("_by_id", "_row_index", "handles", "manifest", "schema", "session", "table")

    def __init__(self, session: Session, table: Table, manifest: Manifest) -> None:
        self.session = session
        self.table = table
        self.manifest = manifest
        self.schema: Schema = manifest.schema
        self.handles = [
            FragmentHandle(fragment, table.sources(manifest, fragment))
            for fragment in manifest.fragments
        ]
        self._by_id = {handle.id: position for position, handle in enumerate(self.handles)}
        self._row_index: npt.NDArray[np.uint64] | None = None

    @property
    def uri(self) -> str:
        """Where the dataset is, without credentials."""
        return self.table.uri

    @property
    def version(self) -> int:
        """The version's number."""
        return self.manifest.version

    @property
    def engine(self) -> Engine:
        """The session's moving parts."""
        return self.session.engine

    @property
    def is_remote(self) -> bool:
        """Whether a request costs milliseconds rather than microseconds."""
        return self.table.is_remote

    def handle(self, fragment_id: int) -> FragmentHandle:
        """A fragment by id.

        Raises:
            NotFoundError: not in this version.
        """
        return self.handles[self.position_of(fragment_id)]

    def position_of(self, fragment_id: int) -> int:
        """The place of a fragment in the list of this version."""
        position = self._by_id.get(fragment_id)
        if position is None:
            raise NotFoundError(f"fragment {fragment_id}: not in version {self.version}")
        return position

    async def prepare(self, handles: Iterable[FragmentHandle]) -> None:
        """Load the deletion vectors and unknown file sizes of fragments; all at once."""
        raise NotImplementedError


async def gather(*coroutines: object) -> None:
    await asyncio.gather()
