"""Deferred remap: bring index segments up to date with compactions that did not rewrite them.

A compaction with `defer_index_remap` moves rows but rewrites no index: the fragment-reuse index
records the moves. `catch_up` rewrites each segment with the new addresses and removes the
fragment-reuse index. Fragment ids are never reused, so translating an address twice is harmless.

Source: docs/format/table.md, "Deferred index remap".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.errors import UnsupportedError
from alance.format.index.remap import LateMoves
from alance.format.table.changes.apply_indices import SYSTEM, covered, reuse_index, with_coverage
from alance.format.table.changes.apply_rows import with_files
from alance.format.table.indices import Index
from alance.format.table.operations import CreateIndex
from alance.format.table.reuse import translated
from alance.ops.index.remap import is_translated, record, translate
from alance.ops.index.reuse import load_compactions
from alance.ops.index.segment_files import SegmentFiles
from alance.ops.lookup.kinds import KINDS
from alance.ops.version.commits import PreparedChange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s
    from alance.format.proto import table_pb2
    from alance.format.table.reuse import PastCompaction
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot


async def catch_up(snapshot: Snapshot, options: CommitOptions) -> Snapshot:
    """Commit indices with current row addresses; return `snapshot` itself if they are current.

    Cost: a read of all index files, PUTs of the same size, and a commit.

    Raises:
        UnsupportedError: the kind of an index cannot be written here, or its details cannot be
            read.
        CorruptFileError, NotFoundError: an index cannot be read. All new files are removed.
        RetryableConflictError: another writer compacted at the same time.
    """
    reuse = reuse_index(snapshot.manifest.indices)
    if reuse is None:
        return snapshot
    compactions = await load_compactions(snapshot)
    old = [message for message in snapshot.manifest.indices if message.name not in SYSTEM]
    files: list[SegmentFiles] = []

    async def discard() -> None:
        for written in files:
            await written.discard()

    try:
        new = [await _caught_up(snapshot, message, compactions, files) for message in old]
    except BaseException:
        await discard()
        raise
    change = CreateIndex(new_indices=tuple(new), removed_indices=(*old, reuse))
    return await PreparedChange(snapshot, change, options, discard=discard).commit()


async def _caught_up(
    snapshot: Snapshot,
    message: table_pb2.IndexMetadata,
    compactions: Sequence[PastCompaction],
    files: list[SegmentFiles],
) -> table_pb2.IndexMetadata:
    """Return the new manifest entry of a segment; append its new files to `files`.

    Raises:
        UnsupportedError: the kind of index cannot be written here.
    """
    index, coverage = Index.from_protobuf(message), covered(message)
    kind = KINDS.get(index.files_kind)
    if kind is not None and not kind.can_move:
        groups = [group for compaction in compactions for group in compaction.groups]
        moved = {digest.id for group in groups for digest in group.new_fragments}
        return with_coverage(message, (coverage or frozenset()) - moved)  # as after any compaction
    if coverage is None or not is_translated(snapshot, index):
        raise UnsupportedError(
            f"index {index.name!r}: a compaction left it for later, and it is of a kind that is "
            "not written by this alance; drop it, or have pylance optimize it"
        )
    now = translated(coverage, compactions)
    moves = await snapshot.engine.pool.run(lambda: LateMoves.of(compactions, now))
    new = SegmentFiles(snapshot)
    files.append(new)
    await translate(snapshot, index, moves, new)
    return with_files(message, record(index, new), now)


async def remap(snapshot: Snapshot, addresses: Int64s) -> pa.Array | None:
    """Return the current addresses of rows; see `Dataset.remap_row_addrs`.

    Returns None if the table has no fragment-reuse index.
    """
    if reuse_index(snapshot.manifest.indices) is None:
        return None
    compactions = await load_compactions(snapshot)

    def moved() -> pa.Array:
        fragments = {
            *np.unique(addresses >> 32).tolist(),
            *snapshot.manifest.fragments.ids.tolist(),
        }
        rows, mask = LateMoves.of(compactions, fragments).moved(addresses)
        values = np.zeros(len(addresses), np.uint64)
        values[mask] = rows
        return pa.array(values, mask=~mask)

    return await snapshot.engine.pool.run(moved)
