"""Rows that differ between two neighbouring versions of a table.

With stable row ids, rows are compared by id and by the version of their last change. Without them,
rows are compared by address, so that an update is a deletion and an insertion. Versions that only
move rows (compaction) have no changes.

Writers that add, replace or cast columns do not always record which rows they change. A fragment
without a recorded change may therefore have changed: its columns are in other files than before, or
a dropped column is restored. Then all of its rows count as updated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance.base.records import dataclass
from alance.ops.version.projection import ROW_ID, UPDATED_AT
from alance.versioning.sidecars import load_transaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s, Mask, UInt64s
    from alance.format.table.fragment import Records
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot

# Operations after which a table has the same rows.
ROWS_UNCHANGED: Final = frozenset(
    {
        "create_index",
        "reserve_fragments",
        "rewrite",
        "update_bases",
        "update_config",
        "update_mem_wal_state",
    }
)


@dataclass(frozen=True, slots=True)
class FragmentRows:
    """Rows of a fragment as physical offsets, ascending; shape (n,)."""

    fragment: int
    offsets: Int64s


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """Rows that differ between a version and the version before it, in the order of fragments.

    Attributes:
        operation: operation that created the version, as named by its transaction; None: unknown.
        deleted: deleted rows, in the version before.
        outdated: updated rows, in the version before.
        updated, inserted: updated and inserted rows, in the version.
    """

    operation: str | None
    deleted: Sequence[FragmentRows] = ()
    outdated: Sequence[FragmentRows] = ()
    updated: Sequence[FragmentRows] = ()
    inserted: Sequence[FragmentRows] = ()


async def compare(before: Snapshot | None, after: Snapshot) -> VersionDiff:
    """Return the rows that differ between two versions.

    Cost: for fragments that differ, a GET for each deletion file, and for each file of row ids
    unless the manifest contains them. Memory: some 100 bytes for each row of these fragments.

    Args:
        before: the version before; None if there is none, so that all rows are inserted.
        after: a later version of the same branch.

    Raises:
        CorruptFileError, NotFoundError: row ids or deletions cannot be read.
    """
    operation = await _operation_of(after)
    by_id = after.has_stable_row_ids and (before is None or before.has_stable_row_ids)
    if operation in ROWS_UNCHANGED:
        return VersionDiff(operation)
    pool = after.engine.pool
    places = await pool.run(lambda: _differing(before, after, operation))
    old = None
    if before is not None:
        old = await _LiveRows.of(before, [before.handles[place] for place in places[0]], by_id)
    new = await _LiveRows.of(after, [after.handles[place] for place in places[1]], by_id)
    return await pool.run(lambda: _diff(operation, after.version, old, new))


async def _operation_of(snapshot: Snapshot) -> str | None:
    """Return the operation that created a version; None if it is not recorded."""
    transaction = await load_transaction(snapshot.engine, snapshot.table, snapshot.manifest)
    return None if transaction is None else transaction.message.WhichOneof("operation")


def _differing(
    before: Snapshot | None, after: Snapshot, operation: str | None
) -> tuple[list[int], list[int]]:
    """Return for both versions the positions of fragments whose record the other version lacks.

    These are all fragments if there is a new column, and after an overwrite, which renumbers
    fragments and rows.
    """
    new = after.manifest.fragments.records
    if before is None:
        return [], list(range(len(new)))
    old = before.manifest.fragments.records
    if operation == "overwrite":
        return list(range(len(old))), list(range(len(new)))
    if _field_ids(after) - _field_ids(before):  # a restored column has its former records
        return list(range(len(old))), list(range(len(new)))
    # Most versions have the records of the version before, followed by their own.
    length = min(len(old.content), len(new.content))
    contents = [np.frombuffer(records.content, np.uint8, length) for records in (old, new)]
    differs = contents[0] != contents[1]
    equal = int(np.argmax(differs)) if differs.any() else length
    first = int(np.searchsorted(old.stops, equal, side="right"))
    parts = [_records(records, first) for records in (old, new)]
    common = parts[0].keys() & parts[1].keys()
    return tuple([place for key, place in part.items() if key not in common] for part in parts)  # type: ignore[return-value]


def _field_ids(snapshot: Snapshot) -> frozenset[int]:
    return frozenset(field.id for field in snapshot.schema.walk())


def _records(records: Records, first: int) -> dict[bytes, int]:
    """Return the positions of serialized records, from position `first` on."""
    bounds = zip(
        (records.stops - records.sizes)[first:].tolist(),
        records.stops[first:].tolist(),
        strict=True,
    )
    return {
        records.content[start:stop]: first + number for number, (start, stop) in enumerate(bounds)
    }


@dataclass(frozen=True, slots=True)
class _LiveRows:
    """Live rows of some fragments of a version; arrays have shape (rows,).

    Attributes:
        owners: position of each row's fragment in `fragments`.
        offsets: physical offset of each row in its fragment.
        ids: row ids; addresses if the table has no stable row ids.
        updated_at: version of each row's last change; 0 for rows without lineage.
        fields: for each fragment, ids of fields with the files that contain them.
        field_ids: ids of the version's fields.
    """

    fragments: Sequence[int]
    fields: Sequence[frozenset[tuple[int, int | None, str]]]
    field_ids: frozenset[int]
    owners: Int64s
    offsets: Int64s
    ids: UInt64s
    updated_at: UInt64s

    @classmethod
    async def of(
        cls, snapshot: Snapshot, handles: Sequence[FragmentHandle], by_id: bool
    ) -> _LiveRows:
        await snapshot.prepare(handles)
        if by_id:
            await snapshot.load_meta(handles, [ROW_ID, UPDATED_AT])

        def collect() -> _LiveRows:
            field_ids = _field_ids(snapshot)
            nothing = np.empty(0, np.uint64)
            owners, offsets = [nothing.view(np.int64)], [nothing.view(np.int64)]
            ids, updated_at = [nothing], [nothing]
            for number, handle in enumerate(handles):
                live = handle.live_of(np.arange(handle.num_physical_rows))
                owners.append(np.full(len(live), number))
                offsets.append(live)
                if by_id:
                    ids.append(handle.row_values(ROW_ID).at(live).astype(np.uint64))
                    updated_at.append(handle.row_values(UPDATED_AT).at(live).astype(np.uint64))
                else:
                    ids.append(live.view(np.uint64) | np.uint64(handle.id << 32))
                    updated_at.append(np.zeros(len(live), np.uint64))
            return cls(
                [handle.id for handle in handles],
                [
                    frozenset(
                        (field, file.base_id, file.path)
                        for file in handle.fragment.files
                        for field in file.columns
                        if field in field_ids
                    )
                    for handle in handles
                ],
                field_ids,
                np.concatenate(owners),
                np.concatenate(offsets),
                np.concatenate(ids),
                np.concatenate(updated_at),
            )

        return await snapshot.engine.pool.run(collect)

    def parts(self, chosen: Mask) -> list[FragmentRows]:
        """Return the chosen rows by fragment."""
        owners, offsets = self.owners[chosen], self.offsets[chosen]
        stops = np.searchsorted(owners, np.arange(len(self.fragments)), side="right").tolist()
        starts = [0, *stops][:-1]
        return [
            FragmentRows(fragment, offsets[start:stop])
            for fragment, start, stop in zip(self.fragments, starts, stops, strict=True)
            if stop > start
        ]


def _unrecorded(old: _LiveRows, new: _LiveRows, is_recorded: Mask) -> Mask:
    """Return the mask of fragments with columns in other files, but without a recorded change."""
    before = dict(zip(old.fragments, old.fields, strict=True))
    is_other = [
        bool(fields - before.get(fragment, fields))
        or any(field not in old.field_ids for field, _, _ in fields)
        for fragment, fields in zip(new.fragments, new.fields, strict=True)
    ]
    num_recorded = np.bincount(new.owners[is_recorded], minlength=len(new.fragments))
    return np.array(is_other, np.bool_) & np.equal(num_recorded, 0)


def _diff(
    operation: str | None, version: int, old: _LiveRows | None, new: _LiveRows
) -> VersionDiff:
    """Compare rows with those of the version before, by id. CPU work."""
    if old is None or operation == "overwrite":
        deleted = [] if old is None else old.parts(np.ones(len(old.ids), np.bool_))
        return VersionDiff(
            operation, deleted=deleted, inserted=new.parts(np.ones(len(new.ids), np.bool_))
        )
    order = np.argsort(old.ids, kind="stable")
    places = np.searchsorted(old.ids, new.ids, sorter=order)
    places[places == len(order)] = 0
    partners = order[places] if len(order) else places  # index in `old` for each row of `new`
    is_there = old.ids[partners] == new.ids if len(order) else np.zeros(len(places), np.bool_)
    is_updated = is_there.copy()
    is_updated[is_there] = old.updated_at[partners[is_there]] != new.updated_at[is_there]
    is_recorded = is_updated & (new.updated_at == version)
    is_updated |= is_there & _unrecorded(old, new, is_recorded)[new.owners]
    is_outdated = np.zeros(len(old.ids), np.bool_)
    is_outdated[partners[is_updated]] = True
    stays = np.zeros(len(old.ids), np.bool_)
    stays[partners[is_there]] = True
    return VersionDiff(
        operation,
        deleted=old.parts(~stays),
        outdated=old.parts(is_outdated),
        updated=new.parts(is_updated),
        inserted=new.parts(~is_there),
    )
