"""Rewrite the rows of fragments to new files, which no version names yet."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import CorruptFileError
from alance.file.write.small_batches import in_groups, merged
from alance.format.table.changes.lineage import joined
from alance.format.table.flags import MANAGED_KEY
from alance.ops.read.options import ScanOptions
from alance.ops.read.plan import plan_scan
from alance.ops.read.scan import scan
from alance.ops.version.lineage import load_lineage
from alance.ops.write.blob_moves import moved_blobs, with_payloads
from alance.ops.write.files import DataFiles, rows_of
from alance.ops.write.options import Limits
from alance.ops.write.sources import conform
from alance.ops.write.write import table_schema

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Sequence

    import pyarrow as pa

    from alance.base.progress import Stage
    from alance.format.proto import table_pb2
    from alance.format.table.changes.lineage import Lineage
    from alance.ops.upkeep.compact_plan import ResolvedCompactionOptions
    from alance.ops.version.snapshot import Snapshot

JOINED_ROWS: Final = 64 << 10
JOINED_BYTES: Final = 8 << 20


async def rewrite(
    snapshot: Snapshot,
    fragment_ids: Sequence[int],
    options: ResolvedCompactionOptions,
    stage: Stage,
) -> list[table_pb2.DataFragment]:
    """Write the live rows of fragments, in order, to new fragments and files.

    With stable row ids, rows keep their ids and versions. Cost: a scan of the fragments, and a
    write of their rows. After a failure all new files are removed.

    Args:
        stage: stage in which the rows are counted.

    Raises:
        CorruptFileError: the number of rows of a fragment differs from the manifest's.
        StoreError: the store failed.
    """
    handles = [snapshot.handle(fragment_id) for fragment_id in fragment_ids]
    await snapshot.prepare(handles)
    counts = [await snapshot.live_count(handle) for handle in handles]
    num_rows = sum(counts)
    num_files = max(1, num_rows // options.target_rows_per_fragment)
    limits = Limits(max(1, -(-num_rows // num_files)), options.max_bytes_per_file)
    files = DataFiles(snapshot.session, snapshot.table, snapshot.schema, options.version, limits)
    try:
        schema = table_schema(snapshot.manifest)
        async with (
            aclosing(_batches(snapshot, fragment_ids, options)) as batches,
            aclosing(_cut(batches, num_rows, num_files)) as parts,
        ):
            async for part in parts:
                if part is None:
                    await files.cut()
                else:
                    await files.write(conform(part, schema))
                    stage.add(part.num_rows)
        fragments = await files.seal()
        if rows_of(fragments) != num_rows:
            raise CorruptFileError(
                f"fragments {list(fragment_ids)}: {rows_of(fragments)} rows, the manifest says "
                f"that there are {num_rows}"
            )
        if snapshot.has_stable_row_ids:
            lineage = await _lineage(snapshot, fragment_ids)
            await snapshot.engine.pool.run(lambda: _carry(lineage, fragments))
        await files.publish()
    except BaseException:
        await files.discard()
        raise
    return fragments


async def _cut(
    batches: AsyncIterable[pa.RecordBatch], num_rows: int, num_files: int
) -> AsyncGenerator[pa.RecordBatch | None, None]:
    """Yield the same rows, with None at the end of each file; files have similar row counts."""
    least, more = divmod(num_rows, num_files)
    number, room = 0, least + (more > 0)
    async for batch in batches:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, room) if room else batch.slice(start)
            yield part
            start += part.num_rows
            room -= part.num_rows
            if room == 0:
                yield None
                number += 1
                room = least + (number < more)


async def _batches(
    snapshot: Snapshot, fragment_ids: Sequence[int], options: ResolvedCompactionOptions
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield the live rows with all columns, in order; small batches are concatenated.

    Blobs are bytes or references.
    """
    blobs = moved_blobs(snapshot, [root.name for root in snapshot.schema.fields])
    chosen = ScanOptions(
        fragments=fragment_ids,
        batch_size=options.batch_size,
        io_buffer_bytes=options.io_buffer_bytes,
        with_row_address=bool(blobs),
    )
    plan = await plan_scan(snapshot, None, chosen)
    batches = scan(snapshot, replace(plan, reads_files_whole=not blobs))
    if blobs:
        keep = snapshot.schema.metadata.get(MANAGED_KEY) == "true"
        batches = with_payloads(snapshot, batches, blobs, keep_address=False, keep_managed=keep)
    async with aclosing(batches), aclosing(in_groups(batches, JOINED_ROWS, JOINED_BYTES)) as groups:
        async for group in groups:
            for batch in await snapshot.engine.pool.run(partial(merged, group)):
                yield batch


async def _lineage(snapshot: Snapshot, fragment_ids: Sequence[int]) -> Lineage:
    """Return row ids and versions of the live rows, in order; 24 bytes per row."""
    lineages = await load_lineage(snapshot, fragment_ids)

    def live() -> Lineage:
        parts = []
        for fragment_id in fragment_ids:
            handle = snapshot.handle(fragment_id)
            mask = handle.live_mask(0, handle.num_physical_rows)
            parts.append(
                lineages[fragment_id]
                if mask is None
                else lineages[fragment_id].take(np.flatnonzero(mask))
            )
        return joined(parts)

    return await snapshot.engine.pool.run(live)


def _carry(lineage: Lineage, fragments: Sequence[table_pb2.DataFragment]) -> None:
    """Store the lineage of rows in their new fragments."""
    start = 0
    for fragment in fragments:
        lineage.take(np.arange(start, start + fragment.physical_rows)).write(fragment)
        start += fragment.physical_rows
