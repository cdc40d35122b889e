"""An opened version of a dataset, on which all operations work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, overload

import numpy as np

from alance.base.checks import did_you_mean, some_of
from alance.base.progress import is_watched
from alance.errors import CorruptFileError, NotFoundError, RowNotFoundError
from alance.file.rows.leaves import FEW_FIELDS, LeafSet
from alance.format.schema import Remembered
from alance.format.table.changes.apply_indices import SYSTEM
from alance.io.loop.tasks import all_of, in_turns
from alance.ops.version.handle import FragmentHandle
from alance.ops.version.learn import learn_rows_and_sizes, learn_values
from alance.ops.version.mem_wal import mention_mem_wal
from alance.ops.version.projection import ROW_ID, ROW_OFFSET, project
from alance.ops.version.summary import ChangeSummary
from alance.versioning.row_index import RowIdIndex, RowIdRuns, live_runs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

    from alance.base.arrays import Int64s
    from alance.format.schema import Schema
    from alance.format.table.manifest import Manifest
    from alance.io.reading.engine import Engine
    from alance.ops.version.projection import Columns, Projection
    from alance.session import Session
    from alance.versioning.table import Table

__all__ = ["FragmentHandle", "Snapshot", "TakenColumns"]

# Work of indexing row ids, in units of decoding a byte: per fragment with a range of ids, and per
# row of other fragments.
FRAGMENT_WORK: Final = 16
INDEXED_ROW_WORK: Final = 8


class TakenColumns(NamedTuple):
    """Columns of a take: projection, fields to read, and a cache key."""

    projection: Projection
    schema: Schema
    key: tuple[object, ...]  # cache key: identity of the table's schema, and `ids`
    ids: frozenset[int]  # ids of all fields to read

    @classmethod
    def of(cls, schema: Schema, columns: Columns) -> TakenColumns:
        """Return the columns of a take.

        Raises:
            InvalidInputError: an unknown column, or bad SQL.
            UnsupportedError: valid SQL that this alance does not evaluate.
        """
        projection = project(schema, columns, flat=False)
        is_whole = columns is None and len(projection.fields) == len(schema.fields)
        fields = schema if is_whole else schema.project(projection.fields)
        return cls.of_fields(schema, projection, fields)

    @classmethod
    def of_fields(cls, schema: Schema, projection: Projection, fields: Schema) -> TakenColumns:
        """Return the columns of a projection.

        Args:
            schema: schema of the table.
            fields: fields to read.
        """
        if len(fields.fields) > FEW_FIELDS:
            LeafSet.described(fields)
        own, ids = fields.remember(TakenColumns, lambda: _read_ids(fields))
        return cls(projection, fields, (schema.remember("identity", object), *own), ids)


def _read_ids(fields: Schema) -> tuple[list[int], frozenset[int]]:
    """Return a cache key for these columns in this order, and the ids of all fields in them."""
    ids = [field.id for top in fields.fields for field in top.walk()]
    # JSON read as stored differs from the same column read as text
    stored = [~top.id for top in fields.fields if top.logical_type == "large_binary"]
    return ids + stored, frozenset(ids)


class Snapshot:
    """A version of a dataset, and the session that reads it. Immutable except for caches.

    Attributes:
        remember: cache of values that are computed from this version.
    """

    __slots__ = (
        "_counts",
        "_firsts",
        "_prepared",
        "_row_index",
        "handles",
        "manifest",
        "remember",
        "schema",
        "session",
        "summary",
        "table",
    )

    def __init__(
        self,
        session: Session,
        table: Table,
        manifest: Manifest,
        summary: ChangeSummary | None = None,
    ) -> None:
        self.session = session
        self.table = table.seen_by(manifest.branch)
        self.manifest = manifest
        self.summary = ChangeSummary() if summary is None else summary
        self.schema: Schema = manifest.schema
        self.handles = Handles(self)
        self._counts: Int64s | None = None
        self._firsts: Int64s | None = None
        self._prepared: set[FragmentHandle] = set()
        self._row_index: RowIdIndex | None = None
        self.remember = Remembered()
        mention_mem_wal(self.table, manifest)

    def __copy__(self) -> Snapshot:
        copied = object.__new__(Snapshot)
        for name in self.__slots__:
            setattr(copied, name, getattr(self, name))
        copied._prepared = set()  # fragments of the copy may be replaced
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        from alance.ops.version.pickled import put_together, taken_apart

        return put_together, taken_apart(self)

    @property
    def uri(self) -> str:
        """URI of the dataset, without credentials."""
        return self.table.uri

    @property
    def version(self) -> int:
        """Number of the version."""
        return self.manifest.version

    @property
    def engine(self) -> Engine:
        """Engine of the session: scheduler, cache and threads."""
        return self.session.engine

    @property
    def is_remote(self) -> bool:
        """True if a request costs milliseconds rather than microseconds."""
        return self.table.is_remote

    @property
    def read_ahead_bytes(self) -> int:
        """Default limit of bytes that a scan reads ahead of its consumer."""
        return min(self.session.io_buffer_bytes, self.table.store.profile.ahead_bytes)

    @property
    def has_stable_row_ids(self) -> bool:
        """True if rows have stable ids; otherwise a row's address is its id."""
        return self.manifest.has_stable_row_ids

    def taken_columns(self, columns: Columns) -> TakenColumns:
        """Return the columns of a take, cached with the schema.

        Raises:
            InvalidInputError: an unknown column, or bad SQL.
            UnsupportedError: valid SQL that this alance does not evaluate.
        """
        if columns is not None and not isinstance(columns, list | tuple):
            return TakenColumns.of(self.schema, columns)
        names = None if columns is None else tuple(columns)
        return self.schema.remember(
            (TakenColumns, names), lambda: TakenColumns.of(self.schema, columns)
        )

    def handle(self, fragment_id: int) -> FragmentHandle:
        """Return a fragment by id.

        Raises:
            NotFoundError: the version has no such fragment.
        """
        return self.handles[self.position_of(fragment_id)]

    async def handles_of(self, fragment_ids: Iterable[int]) -> list[FragmentHandle]:
        """Return fragments by id. Other callers of the loop run meanwhile if there are many.

        Raises:
            NotFoundError: the version has no such fragment.
        """
        handles: list[FragmentHandle] = []
        async for part in in_turns(fragment_ids):
            handles += map(self.handle, part)
        return handles

    def position_of(self, fragment_id: int) -> int:
        """Return the position of a fragment id in the version's list of fragments.

        Raises:
            NotFoundError: the version has no such fragment.
        """
        position = self.manifest.fragments.position_of(fragment_id)
        if position is None:
            raise NotFoundError(f"fragment {fragment_id!r}: not in version {self.version}")
        return position

    def lacks_index(self, name: object) -> NotFoundError:
        """Return the error for an index that this version lacks, with the names that it has."""
        names = sorted({message.name for message in self.manifest.indices} - {*SYSTEM})
        hint = did_you_mean(name, names) if isinstance(name, str) else ""
        listed = f"; there are {some_of(names)}" if names else "; there are no indices"
        return NotFoundError(f"index {name!r}: not in version {self.version}{hint or listed}")

    def position(self, handle: FragmentHandle) -> int:
        """Return the position of a fragment in the version's list of fragments."""
        return self.position_of(handle.id)

    async def prepare(self, handles: Iterable[FragmentHandle]) -> None:
        """Read deletion vectors, unknown file sizes and row counts of fragments, all concurrently.

        Cost: a GET for each deletion file that is not cached. If the manifest lacks facts, also a
        HEAD for each file of unknown size, and for each fragment of unknown row count the opening
        of a file.
        """
        unknown: list[FragmentHandle] = []
        async for part in in_turns(handles):
            unknown += self.unprepared(part)
        if unknown:
            await self.resolve_sizes(unknown)
            await all_of(handle.deletions() for handle in unknown)

    def unprepared(self, handles: Sequence[FragmentHandle]) -> Sequence[FragmentHandle]:
        """Return the fragments for which `prepare` has something to read.

        Prepared fragments are cached, so later calls cost one set comparison.
        """
        if self._prepared.issuperset(handles):
            return ()
        unknown = [handle for handle in handles if not handle.is_prepared]
        self._prepared.update(handles)
        self._prepared.difference_update(unknown)
        return unknown

    async def recall(self, handles: Sequence[FragmentHandle]) -> None:
        """Load cached parts of the fragments' files from the disk cache into memory. No request."""
        disk = self.engine.cache.disk
        if disk is not None and self.is_remote:
            await self.resolve_sizes(handles)
            await disk.recall(
                (source.location, source.file_bytes)
                for handle in handles
                for source in handle.sources
            )

    async def resolve_sizes(self, handles: Iterable[FragmentHandle]) -> None:
        """Read the file sizes and row counts that the manifest lacks.

        Raises:
            UnsupportedError: this release of alance does not read a file's version.
        """
        unknown: list[FragmentHandle] = []
        async for part in in_turns(handles):
            unknown += [handle for handle in part if not handle.is_resolved]
        if unknown:
            await all_of(learn_rows_and_sizes(self, handle) for handle in unknown)

    async def live_count(self, handle: FragmentHandle) -> int:
        """Return the number of live rows of a fragment; reads only facts that the manifest lacks.

        Raises:
            CorruptFileError: there are more deleted rows than rows.
        """
        if self._counts is not None:
            return int(self._counts[self.position(handle)])
        if not handle.num_physical_rows:
            await self.resolve_sizes([handle])
        file = handle.fragment.deletion_file
        if file is None:
            return handle.num_physical_rows
        deleted = file.num_deleted_rows
        if not deleted:
            vector = await handle.deletions()
            deleted = 0 if vector is None else len(vector.rows)
        if deleted > handle.num_physical_rows:
            raise CorruptFileError(
                f"fragment {handle.id}: {deleted} rows deleted of {handle.num_physical_rows}"
            )
        return handle.num_physical_rows - deleted

    async def live_rows(self, handles: Iterable[FragmentHandle]) -> int:
        """Return the number of live rows of fragments together.

        Raises:
            CorruptFileError: see `live_count`.
        """
        num_rows = 0
        async for part in in_turns(handles):
            num_rows += sum([await self.live_count(handle) for handle in part])
        return num_rows

    async def physical_counts(self) -> Int64s:
        """Return the stored rows of each fragment, deleted ones too; shape (fragments,)."""
        counts = self.manifest.fragments.physical_rows.copy()
        unknown = np.flatnonzero(counts == 0).tolist()
        handles = await self.handles_of(self.manifest.fragments.ids[unknown].tolist())
        await self.resolve_sizes(handles)
        counts[unknown] = [handle.num_physical_rows for handle in handles]
        return counts

    async def live_counts(self) -> Int64s:
        """Return the number of live rows of each fragment; shape (fragments,).

        Raises:
            CorruptFileError: see `live_count`.
        """
        if self._counts is None:
            counts = self.manifest.fragments.num_rows.copy()
            if unknown := (counts < 0).nonzero()[0].tolist():
                counts[unknown] = await all_of(
                    self.live_count(self.handles[position]) for position in unknown
                )
            self._counts = counts
        return self._counts

    async def num_live(self) -> int:
        """Return the number of live rows.

        Raises:
            CorruptFileError: see `live_count`.
        """
        recorded = self.manifest.remember(Snapshot.num_live, self._recorded_total)
        return int((await self.live_counts()).sum()) if recorded < 0 else recorded

    def _recorded_total(self) -> int:
        """Return the number of live rows; -1 if the manifest lacks it."""
        counts = self.manifest.fragments.num_rows
        return int(counts.sum()) if (counts >= 0).all() else -1

    async def watched_rows(self, fragment_ids: Collection[int]) -> int | None:
        """Return the number of live rows of fragments; None if nothing reports progress.

        Raises:
            CorruptFileError: see `live_count`.
        """
        if not is_watched():
            return None
        counts, ids = await self.live_counts(), frozenset(fragment_ids)
        return int(counts[[handle.id in ids for handle in self.handles]].sum())

    async def first_rows(self) -> Int64s:
        """Return the position of each fragment's first live row, then the number of all live rows.

        Raises:
            CorruptFileError: there are more deleted rows than rows.
        """
        if self._firsts is None:
            self._firsts = np.concatenate(([0], np.cumsum(await self.live_counts())))
        return self._firsts

    def first_row(self, handle: FragmentHandle) -> int:
        """Return the position of a fragment's first live row; call `first_rows` first."""
        assert self._firsts is not None
        return int(self._firsts[self.position(handle)])

    async def load_meta(self, handles: Collection[FragmentHandle], meta: Collection[str]) -> None:
        """Load the inputs of meta columns that the manifest lacks.

        These are row ids and versions; for positions, the fragments' deletion vectors.

        Args:
            meta: names of meta columns.
        """
        if ROW_OFFSET in meta:
            await self.first_rows()
            await self.prepare(handles)
        if not self.has_stable_row_ids:
            return
        await all_of(
            learn_values(self, handle, name)
            for handle in handles
            for name in meta
            if handle.is_spilled(name)
        )

    async def addresses_of(self, row_ids: Int64s) -> Int64s:
        """Return the addresses of rows by row id; shape (n,).

        Cost: with stable row ids that of `row_index`; otherwise none.

        Raises:
            RowNotFoundError: no live row has one of the stable row ids.
        """
        if not self.has_stable_row_ids:
            return row_ids
        return (await self.row_index()).addresses_of(row_ids)

    async def row_index(self) -> RowIdIndex:
        """Return the index from stable row id to the address of a live row.

        Cost: at the first call, the deletion vectors, and the row ids that are not in the manifest,
        of all fragments but those without deletions whose ids are one range; and memory for an
        index of all rows.
        """
        if self._row_index is None:
            self._row_index = await self.engine.cache.get(
                ("row ids", id(self)), self._build_row_index, lambda index: index.num_bytes
            )
            self.engine.cache.discard(("row ids", id(self)))
        return self._row_index

    async def _build_row_index(self) -> RowIdIndex:
        fragments = self.manifest.fragments
        firsts, is_range = fragments.row_id_ranges()
        handles = [self.handles[number] for number in np.flatnonzero(~is_range).tolist()]
        await self.prepare(handles)
        await self.load_meta(handles, [ROW_ID])

        def build() -> RowIdIndex:
            addresses = fragments.ids[is_range].astype(np.uint64) << np.uint64(32)
            lengths = fragments.physical_rows[is_range].astype(np.uint32)
            whole = RowIdRuns(firsts[is_range], addresses, lengths)
            return RowIdIndex.of([whole, *map(_runs, handles)])

        work = FRAGMENT_WORK * len(fragments)
        work += INDEXED_ROW_WORK * sum(handle.num_physical_rows for handle in handles)
        return await self.engine.decode(build, work)

    async def locate_addresses(self, addresses: Int64s) -> tuple[Int64s, Int64s]:
        """Return each address's fragment, as a position in the list, and row offset; (n,).

        Raises:
            RowNotFoundError: this version lacks the fragment of an address.
        """
        positions = self.manifest.fragments.positions_of(addresses >> 32)
        absent = addresses[positions < 0].tolist()
        if absent:
            where = f"fragment {absent[0] >> 32}: not in version {self.version}"
            raise RowNotFoundError(f"row address {absent[0]}: {where}", absent)
        return positions, addresses & 0xFFFF_FFFF

    def external_location(self, uri: str, base_id: int) -> str:
        """Return the location of an object that a row names: absolute, or below a base path.

        Raises:
            CorruptFileError: a path leaves its base, or a base path is missing.
            InvalidInputError, UnsupportedError: the scheme of a URI is unknown.
        """
        return self.table.external(self.manifest, uri, base_id)


def _runs(handle: FragmentHandle) -> RowIdRuns:
    mask = handle.live_mask(0, handle.num_physical_rows)
    live = None if mask is None else np.flatnonzero(mask)
    return live_runs(handle.id, handle.row_values(ROW_ID), handle.num_physical_rows, live)


class Handles(Sequence[FragmentHandle]):
    """Fragment handles of a version, each created on first access.

    Args:
        handles: all handles, if they already exist; empty otherwise.
    """

    __slots__ = ("_handles", "_snapshot")

    def __init__(self, snapshot: Snapshot, handles: Sequence[FragmentHandle] = ()) -> None:
        self._snapshot = snapshot
        count = len(snapshot.manifest.fragments)
        self._handles: list[FragmentHandle | None] = [*handles] or [None] * count

    def __len__(self) -> int:
        return len(self._handles)

    @property
    def ids(self) -> list[int]:
        """Ids of the fragments. Creates no handle."""
        ids: list[int] = self._snapshot.manifest.fragments.ids.tolist()
        return ids

    def at(self, positions: Sequence[int]) -> list[FragmentHandle]:
        """Return the handles at positions, in the given order."""
        handles = self._handles
        return [handles[position] or self[position] for position in positions]

    @overload
    def __getitem__(self, index: int) -> FragmentHandle: ...
    @overload
    def __getitem__(self, index: slice) -> list[FragmentHandle]: ...
    def __getitem__(self, index: int | slice) -> FragmentHandle | list[FragmentHandle]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        handle = self._handles[index]
        if handle is None:
            fragment = self._snapshot.manifest.fragments[index]
            handle = self._handles[index] = FragmentHandle(self._snapshot, fragment)
        return handle
