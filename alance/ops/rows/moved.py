"""Preparation of a commit that deletes or moves rows: deletion files and new fragments.

`prepare_rows` gets the deleted or moved rows as offsets by fragment, and the fragments that were
written for moved and inserted rows. It adds the offsets to earlier deletions, and removes fragments
without remaining rows. The commit writes the deletion files while data files are still being
uploaded. If the commit fails, all files written for it are removed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.numbers import union
from alance.format.proto import copied, table_pb2
from alance.format.table.deletions import (
    ARROW_MAX_ROWS,
    DeletionVector,
    NewDeletionFile,
    new_deletion_file,
)
from alance.format.table.naming import DELETIONS
from alance.format.table.operations import Delete, Update
from alance.format.table.row_ids import row_ids_bytes
from alance.io.loop.tasks import all_of, in_turns
from alance.ops.version.commits import PreparedChange
from alance.ops.version.lineage import lineage_reader
from alance.ops.version.objects import discard_objects
from alance.ops.version.options import DEFAULT_COMMIT
from alance.ops.write.files import FEW_FILES
from alance.versioning.rules import TableRules
from alance.versioning.sidecars import keep_deletions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from alance.base.arrays import Int64s, UInt64s
    from alance.io.reading.engine import Engine
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.version.summary import ChangeSummary
    from alance.ops.write.files import DataFiles
    from alance.versioning.manifest_store import Objects


# Maximum rows that are sorted and merged in less time than a hop to a thread.
FEW_MOVED_ROWS: Final = 4096


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows that a delete, an update or a merge deletes and adds.

    Attributes:
        deleted: physical offsets of live rows to delete, by fragment id; shape (n,), sorted and
            unique. The commit uses them to merge with concurrent deletes of other rows in the same
            fragments.
        emptied: ids of other fragments, which lose all their rows.
        files: sealed files of `new_fragments`; the commit publishes them, or discards them if it
            fails. None without new files.
        new_fragments: new fragments of an Update: moved rows first, then inserted rows.
        row_ids: ids of the moved rows, in the order of `new_fragments`, if the table has stable row
            ids; inserted rows get new ids. None without stable row ids.
    """

    deleted: Mapping[int, Int64s]
    emptied: Collection[int] = ()
    files: DataFiles | None = None
    new_fragments: Sequence[table_pb2.DataFragment] = ()
    row_ids: UInt64s | None = None


async def prepare_rows(
    snapshot: Snapshot,
    change: Delete | Update,
    rows: ChangedRows,
    options: CommitOptions = DEFAULT_COMMIT,
    summary: ChangeSummary | None = None,
) -> PreparedChange:
    """Prepare the commit of an operation that removes rows and adds new fragments.

    Cost: a GET per deletion vector that is not cached. The commit PUTs a deletion file for each
    fragment that loses some of its rows, but not all, while data files are still being uploaded.

    Args:
        snapshot: version that `rows` were computed from.
        change: the operation with its predicate, fields, mode and keys, but without fragments. Only
            `updated_fragments` may have records, with new data files; these also get deletion files
            if they lose rows.
        options: options of the commit; `max_retries` is the maximum number of retries after
            compatible commits of others.
    """
    deleted = rows.deleted
    vectors = _DeletionFiles(snapshot, [])
    written = _ChangeFiles(snapshot, vectors, rows.files)
    handles = await snapshot.handles_of(sorted(deleted))

    def build() -> Delete | Update:
        gone = sorted({*vectors.build(handles, deleted), *rows.emptied})
        added = with_row_ids(rows.new_fragments, rows.row_ids)
        return _operation(snapshot, change, vectors.files, gone, added)

    try:
        await snapshot.prepare(handles)
        operation = await snapshot.engine.pool.run(build, inline=are_few(handles, deleted))
    except BaseException:
        await written.discard()
        raise
    rules = TableRules(
        snapshot.engine,
        snapshot.table,
        deleted=deleted,
        lineage=lineage_reader(snapshot) if snapshot.has_stable_row_ids else None,
    )
    return PreparedChange(
        snapshot,
        operation,
        options,
        rules=rules,
        upload=written.upload,
        handed=written.handed,
        discard=written.discard,
        summary=summary,
    )


def with_row_ids(
    fragments: Sequence[table_pb2.DataFragment], row_ids: UInt64s | None
) -> tuple[table_pb2.DataFragment, ...]:
    """Set the row ids of the leading rows of new fragments; return the fragments.

    Raises:
        InvalidInputError: there are more ids than rows.
    """
    if row_ids is None:
        return tuple(fragments)
    copies, start = [], 0
    for fragment in fragments:
        part = row_ids[start : start + fragment.physical_rows]
        start += len(part)
        copy = copied(fragment)
        if len(part):
            copy.inline_row_ids = row_ids_bytes(part)
        copies.append(copy)
    if start < len(row_ids):
        raise InvalidInputError(f"{len(row_ids)} row ids for {start} new rows")
    return tuple(copies)


def _operation(
    snapshot: Snapshot,
    change: Delete | Update,
    files: Sequence[NewDeletionFile],
    gone: Sequence[int],
    added: tuple[table_pb2.DataFragment, ...],
) -> Delete | Update:
    """Return the operation `change` with its fragments.

    These are the fragments with new deletions, the ids of emptied fragments, and new fragments.
    """
    records = {fragment.id: fragment for fragment in change.updated_fragments}
    new = table_pb2.Manifest().fragments  # all in the memory of a single message
    for file in files:
        record = new.add()
        updated = records.get(file.fragment_id)
        record.CopyFrom(
            snapshot.handle(file.fragment_id).fragment.message if updated is None else updated
        )
        record.deletion_file.CopyFrom(file.record)
        records[file.fragment_id] = record
    changed = tuple(records[key] for key in sorted(records.keys() - set(gone)))
    if isinstance(change, Delete):
        return replace(change, updated_fragments=changed, deleted_fragment_ids=tuple(gone))
    return replace(
        change, updated_fragments=changed, removed_fragment_ids=tuple(gone), new_fragments=added
    )


class _DeletionFiles:
    """Deletion files of a version that is being made."""

    def __init__(self, snapshot: Snapshot, files: list[NewDeletionFile]) -> None:
        self._snapshot = snapshot
        self._begun: list[NewDeletionFile] = []
        self._vectors: list[DeletionVector] = []  # vectors in `files`
        self.files = files

    def build(self, handles: Sequence[FragmentHandle], deleted: Mapping[int, Int64s]) -> list[int]:
        """Add rows to earlier deletions; return the ids of fragments that lose all rows.

        CPU work.
        """
        emptied = []
        for handle in handles:
            rows = deleted[handle.id]
            before = handle.deleted
            if len(rows) and int(rows[-1]) >= handle.num_physical_rows:
                raise InvalidInputError(
                    f"fragment {handle.id}: row {rows[-1]}, it has {handle.num_physical_rows}"
                )
            all_rows = rows if before is None else union(before.rows, rows)
            if len(all_rows) == handle.num_physical_rows:
                emptied.append(handle.id)
            elif len(rows):
                version = self._snapshot.version
                file = new_deletion_file(
                    handle.id, all_rows, version, as_bitmap=_as_bitmap(handle, len(all_rows))
                )
                self.files.append(file)
                self._vectors.append(DeletionVector(all_rows, handle.num_physical_rows))
        return emptied

    def handed(self) -> list[tuple[str, bytes]]:
        """Return the files for the commit."""
        self._begun += self.files
        self._keep(self._snapshot.engine)
        return [(self._location(file), file.content) for file in self.files]

    def _keep(self, engine: Engine) -> None:
        """Cache the deletion vectors for the next change."""
        for file, vector in zip(self.files, self._vectors, strict=True):
            keep_deletions(engine, self._location(file), vector)

    async def put(self) -> None:
        """Write all files."""
        if not self.files:
            return
        engine = self._snapshot.engine
        store, _ = engine.registry.resolve(self._location(self.files[0]))
        self._begun += self.files
        contents: list[tuple[str, bytes]] = []
        async for part in in_turns(self.files):
            paths = [engine.registry.resolve(self._location(file))[1] for file in part]
            contents += zip(paths, [file.content for file in part], strict=True)
        await store.put_many(contents)
        await engine.pool.run(partial(self._keep, engine), inline=len(self.files) <= FEW_FILES)

    async def discard(self) -> None:
        """Remove the files that have been written; ignores errors of the store."""
        begun = [self._location(file) for file in self._begun]
        await discard_objects(self._snapshot.engine, begun)

    def _location(self, file: NewDeletionFile) -> str:
        return self._snapshot.table.folder(f"{DELETIONS}/{file.name}")


@dataclass(frozen=True, slots=True)
class _ChangeFiles:
    """All files of a version that is being made.

    Attributes:
        files: data files of new fragments; None without new fragments.
    """

    snapshot: Snapshot
    vectors: _DeletionFiles
    files: DataFiles | None

    def handed(self) -> Objects | None:
        """Return the files for the commit to write; None if they are remote or many."""
        files = self.files
        has_little = not self.snapshot.is_remote and len(self.vectors.files) <= FEW_FILES
        if has_little and (files is None or files.is_waiting):
            return [*self.vectors.handed(), *(() if files is None else files.handed())]
        return None

    async def upload(self) -> None:
        """Write all files."""
        data = [] if self.files is None else [self.files.publish()]
        await all_of([self.vectors.put(), *data])

    async def discard(self) -> None:
        """Remove the files written so far, as far as the store can be reached."""
        data = [] if self.files is None else [self.files.discard()]
        discards = all_of([self.vectors.discard(), *data])
        await self.snapshot.engine.background.discard(discards, self.snapshot.table.store)


def are_few(handles: Sequence[FragmentHandle], deleted: Mapping[int, Int64s]) -> bool:
    """True if merging deletions takes less time than a hop to a thread."""
    before = [handle.deleted for handle in handles[:FEW_FILES]]
    rows = sum(len(vector.rows) for vector in before if vector is not None)
    return len(handles) <= FEW_FILES and rows + sum(map(len, deleted.values())) <= FEW_MOVED_ROWS


def _as_bitmap(handle: FragmentHandle, count: int) -> bool:
    """True to store the deleted rows of a fragment as a bitmap.

    The new file has the form of the former deletion file. Without one, it is a bitmap if `count` is
    large.
    """
    if handle.deleted is None:
        return count >= ARROW_MAX_ROWS
    kind = handle.fragment.message.deletion_file.file_type
    return bool(kind == table_pb2.DeletionFile.BITMAP)
