"""Repair the latest version in a new version, without losing a row.

Nothing is deleted or overwritten: the repaired version is committed like a restore, and the damaged
version and its files remain.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from alance.base.calls import public
from alance.base.records import dataclass
from alance.errors import CorruptFileError, NotFoundError, RetryableConflictError
from alance.format.schema import Remembered
from alance.format.table.changes.apply import apply, manifest_bytes
from alance.format.table.manifest import parse_manifest
from alance.format.table.operations import Restore
from alance.format.table.transaction import Transaction
from alance.io.loop.tasks import all_of
from alance.ops.upkeep.remedies import FragmentFacts, Remedies
from alance.ops.upkeep.validate import (
    CHECKED_FRAGMENTS_AT_ONCE,
    deletions_of,
    findings,
    of_segment,
    rows_of_file,
)
from alance.ops.version.commits import commit_on, manifests_of
from alance.ops.version.snapshot import Snapshot
from alance.session import Session, table_at
from alance.versioning import load
from alance.versioning.commit import PendingCommit
from alance.versioning.rules import TableRules

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from alance.format.table.changes.conflicts import Rebased
    from alance.format.table.manifest import Manifest
    from alance.ops.version.handle import FragmentHandle
    from alance.session import TableArguments
    from alance.versioning.table import Table

LOOKED_BACK: Final = 20  # older versions that are searched for one without findings


@dataclass(frozen=True, slots=True)
class RepairReport:
    """Findings of `repair`, and their remedies.

    Attributes:
        uri: URI of the table.
        version: number of the latest version.
        unreadable: versions after the repaired version whose manifests cannot be read.
        restored: number of the version that the new version is based on: the latest readable
            version, or `good_version` with `restore`.
        remedies: changes, one line each; empty if there is nothing to repair.
        left: findings, as from `validate`, that cannot be repaired without loss.
        lost_rows: number of rows, by id, of fragments with a data file that is missing or cannot be
            read; `drop_lost_rows` drops these fragments.
        good_version: the latest older version without findings; None if everything can be
            repaired, or if all of the last 20 versions have findings. With `restore` the new
            version is based on it, and `left` is empty.
        new_version: number of the new version; None: no version was committed.
    """

    uri: str
    version: int
    unreadable: tuple[int, ...]
    restored: int
    remedies: tuple[str, ...]
    left: tuple[str, ...]
    good_version: int | None = None
    new_version: int | None = None
    lost_rows: Mapping[int, int] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.uri}, version {self.version}"]
        done = "done" if self.new_version else "to be done"
        lines += [f"{done}: {text}" for text in self.remedies]
        lines += [f"left: {text}" for text in self.left]
        if self.left:
            lines += [
                f"the {num_rows:,} rows of fragment {number} are lost; --drop-lost-rows "
                "(drop_lost_rows=True) drops them and keeps the rest"
                for number, num_rows in self.lost_rows.items()
            ]
        if self.good_version is not None:
            lines.append(f"version {self.good_version} is the last one without findings")
        if self.new_version is not None:
            lines.append(f"version {self.new_version} was made; nothing was deleted")
        elif not self.remedies:
            lines.append(
                "nothing can be mended without losing rows" if self.left else "nothing is wrong"
            )
        return "\n".join(lines)


@public
async def repair(
    uri: str | os.PathLike[str],
    *,
    dry_run: bool = True,
    restore: bool = False,
    drop_lost_rows: bool = False,
    **place: Unpack[TableArguments],
) -> RepairReport:
    """Repair the latest version of a table in a new version, without losing existing rows.

    Repaired are: counts of rows, deleted rows and bytes that contradict the files; fragments with
    the same id; highest ids that are too low; index segments that cover the same fragments, that
    cover missing fragments or fields, or that have lost their files. Such segments are removed from
    the version, and their rows are scanned until the index is built again. An unreadable latest
    manifest is skipped: the last readable version becomes the newest. Deleted rows remain deleted.
    No object is removed, and cleanup refuses a table with an unreadable manifest until somebody
    moves that file away.

    Not repaired are missing or damaged data files and deletion files, and rows with the same row
    id. The report lists them in `left`, names an older version without such findings in
    `good_version`, and counts the rows of missing and unreadable data files in `lost_rows`.

    Cost: a LIST, and a GET of the latest manifest; as `validate`, twice, and once for each older
    version that is searched, after a GET of its manifest; a commit if there is something to repair.

    Args:
        uri: path or URI of the table, or of a branch.
        dry_run: True to only report.
        restore: True to go back to `good_version` if there are findings that cannot be repaired.
            Rows written after it are then only in the versions in between.
        drop_lost_rows: True to drop the fragments with a data file that is missing or cannot be
            read, together with their intact columns. Older versions still have these.
        place: `store`, `storage_options`, `session`, `manifest_store` and `commit_lock`, as for
            `dataset`.

    Raises:
        TableNotFoundError: there is no table.
        CorruptFileError: no version can be read.
        UnsupportedError: the latest version uses a feature that this release of alance does not
            know.
        RetryableConflictError: other commits were made during the repair; call again.
        StoreError: the store failed.
    """
    session, table = table_at(uri, **place)
    listed = await load.list_manifests(session.engine, table)
    latest = listed[-1].version
    manifest, unreadable = await _last_readable(session, table, listed)
    texts = [f"version {number}: its manifest cannot be read" for number in unreadable]
    if unreadable:
        texts.append(f"version {manifest.version} becomes the newest one again")
    snapshot = Snapshot(session, table, manifest)
    facts = await _all_facts(snapshot)
    remedies, mended = await _mended(snapshot, facts, drops_lost=drop_lost_rows)
    base = replace(manifest, version=latest, remember=Remembered(), tag=listed[-1].tag)
    following = await session.engine.pool.run(partial(_next, base, mended))
    unsolved = await findings(Snapshot(session, table, following))
    good = await _good_version(session, table, listed, manifest.version) if unsolved else None
    if restore and good is not None:
        texts.append(f"version {good.version} becomes the newest one again")
        remedies, mended, unsolved = [], good, []
    report = RepairReport(
        table.uri,
        latest,
        tuple(unreadable),
        mended.version,
        (*texts, *remedies),
        tuple(unsolved),
        None if good is None else good.version,
        lost_rows=await session.engine.pool.run(partial(_lost_rows, snapshot, facts)),
    )
    if dry_run or not report.remedies:
        return report
    snapshot = await _commit(session, table, base, mended)
    return replace(report, new_version=snapshot.version)


class _RepairRules(TableRules):
    """Commit rules that never rebase: the repair is valid for the examined version only."""

    async def rebase(self, ours: Transaction, newer: Manifest, base: Manifest) -> Rebased:
        raise RetryableConflictError(
            f"repair: version {newer.version} was committed meanwhile; call again"
        )


async def _last_readable(
    session: Session, table: Table, listed: Sequence[load.ManifestLocation]
) -> tuple[Manifest, list[int]]:
    """Return the last readable version, and the numbers of the versions after it.

    Raises:
        CorruptFileError: no version can be read.
    """
    for number, where in reversed(list(enumerate(listed, 1))):
        with suppress(CorruptFileError):
            manifest = await load.load_manifest(session.engine, where, keep=False)
            return manifest, [unreadable.version for unreadable in listed[number:]]
    raise CorruptFileError(f"dataset {table.uri!r}: no manifest of {len(listed)} can be read")


def _lost_rows(snapshot: Snapshot, facts: Sequence[FragmentFacts]) -> dict[int, int]:
    """Return the row counts, by id, of the fragments that have lost a data file."""
    return {
        handle.id: handle.fragment.num_rows or 0
        for handle, own in zip(snapshot.handles, facts, strict=True)
        if own.is_lost
    }


def _restoring(base: Manifest, mended: Manifest) -> Transaction:
    return Transaction.of(Restore(version=mended.version), read_version=base.version)


def _next(base: Manifest, mended: Manifest) -> Manifest:
    """Return the version that a repair would write, parsed again from its serialized manifest."""
    version = apply(base, _restoring(base, mended), now=datetime.now(UTC), source=mended)
    return parse_manifest(memoryview(manifest_bytes(version)), "that repair would write")


async def _commit(session: Session, table: Table, base: Manifest, mended: Manifest) -> Snapshot:
    pending = PendingCommit(
        table=table,
        transaction=_restoring(base, mended),
        base=base,
        rules=_RepairRules(session.engine, table, source=mended),
        manifests=manifests_of(session, table),
    )
    return await commit_on(session, pending)


async def _all_facts(snapshot: Snapshot) -> Sequence[FragmentFacts]:
    """Read the facts of all fragments, in their order."""
    limit = asyncio.Semaphore(CHECKED_FRAGMENTS_AT_ONCE)
    return await all_of(_facts(snapshot, handle, limit) for handle in snapshot.handles)


async def _mended(
    snapshot: Snapshot, facts: Sequence[FragmentFacts], *, drops_lost: bool
) -> tuple[list[str], Manifest]:
    """Repair a version; return the descriptions of the changes, and the repaired version.

    Args:
        facts: facts of all fragments.
        drops_lost: True to drop fragments that have lost a data file.
    """
    limit = asyncio.Semaphore(CHECKED_FRAGMENTS_AT_ONCE)
    segments = snapshot.manifest.indices
    all_texts = await all_of(of_segment(snapshot, index, limit) for index in segments)
    gone = {
        index.uuid.uuid.hex() for index, texts in zip(segments, all_texts, strict=True) if texts
    }

    def mend() -> tuple[list[str], Manifest]:
        remedies = Remedies(snapshot.manifest)
        remedies.mend_files(facts)
        if drops_lost:
            remedies.drop_lost(facts)
        remedies.mend_ids()
        remedies.mend_indices(gone)
        mended = remedies.manifest()
        return remedies.texts, mended

    return await snapshot.engine.pool.run(mend)


async def _facts(
    snapshot: Snapshot, handle: FragmentHandle, limit: asyncio.Semaphore
) -> FragmentFacts:
    """Read the facts of a fragment from its files."""
    async with limit:
        counts: set[int] = set()
        sizes: dict[str, int] = {}
        for file in handle.fragment.files:
            try:
                rows, size = await rows_of_file(snapshot, file, believes_size=False)
            except (CorruptFileError, NotFoundError):
                return FragmentFacts(None, is_lost=True)
            counts |= set(rows.values())
            if file.num_bytes not in (0, size):
                sizes[file.path] = size
        if len(counts) != 1:
            return FragmentFacts(None, sizes=sizes)
        (num_rows,) = counts
        deleted = None
        if handle.fragment.deletion_file is not None:
            try:
                vector = await deletions_of(snapshot, handle, num_rows)
            except (CorruptFileError, NotFoundError):
                return FragmentFacts(None, sizes=sizes)
            deleted = len(vector.rows)
        return FragmentFacts(num_rows, deleted, sizes)


async def _good_version(
    session: Session, table: Table, listed: list[load.ManifestLocation], before: int
) -> Manifest | None:
    """Return the last version before `before` without findings; check at most `LOOKED_BACK`.

    Returns None if all of these versions have findings or cannot be read.
    """
    older = [where for where in listed if where.version < before][-LOOKED_BACK:]
    for where in reversed(older):
        try:
            manifest = await load.load_manifest(session.engine, where, keep=False)
        except (CorruptFileError, NotFoundError):
            continue
        if not await findings(Snapshot(session, table, manifest)):
            return manifest
    return None
