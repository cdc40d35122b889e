"""Rewrite the rows of fragments to new files, which no version names yet."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import CorruptFileError
from alance.file.write.small_batches import in_groups, merged
from alance.file_version import FileVersion
from alance.format.numbers import to_arrow
from alance.format.schema import Schema
from alance.format.table.changes.lineage import joined
from alance.format.table.flags import MANAGED_KEY
from alance.ops.read.options import ScanOptions
from alance.ops.read.plan import plan_scan
from alance.ops.read.scan import scan
from alance.ops.version.learn import HIDDEN_FIELDS, hidden_field
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
    from alance.format.field import Field
    from alance.format.proto import table_pb2
    from alance.format.table.changes.lineage import Lineage
    from alance.ops.upkeep.compact_plan import ResolvedCompactionOptions
    from alance.ops.version.snapshot import Snapshot

# Keys of a table's configuration, as pylance has them: whether long row ids and versions may be
# stored in data files, which older readers refuse; and the bytes from which they are.
SPILL_KEY: Final = "lance.row_lineage.spill"
INLINE_KEY: Final = "lance.row_lineage.inline_max_bytes"
INLINE_MAX_BYTES: Final = 200 << 10  # for each sequence of a fragment
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
    handles = await snapshot.handles_of(fragment_ids)
    await snapshot.prepare(handles)
    num_rows = await snapshot.live_rows(handles)
    num_files = max(1, num_rows // options.target_rows_per_fragment)
    limits = Limits(max(1, -(-num_rows // num_files)), options.max_bytes_per_file)
    lineage = await _lineage(snapshot, fragment_ids) if snapshot.has_stable_row_ids else None
    run = snapshot.engine.pool.run
    hidden = await run(partial(_hidden, snapshot, options, lineage, num_files))
    written = Schema((*snapshot.schema.fields, *hidden), snapshot.schema.metadata)
    files = DataFiles(snapshot.session, snapshot.table, written, options.version, limits)
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
                    part = conform(part, schema)
                    if lineage is not None:
                        part = _with_lineage(part, lineage, hidden, files.num_rows)
                    await files.write(part)
                    stage.add(part.num_rows)
        fragments = await files.seal()
        if rows_of(fragments) != num_rows:
            raise CorruptFileError(
                f"fragments {list(fragment_ids)}: {rows_of(fragments)} rows, the manifest says "
                f"that there are {num_rows}"
            )
        if lineage is not None:
            await run(partial(_carry, lineage, fragments, [field.id for field in hidden]))
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


def _hidden(
    snapshot: Snapshot,
    options: ResolvedCompactionOptions,
    lineage: Lineage | None,
    num_files: int,
) -> tuple[Field, ...]:
    """Return fields for the sequences that are stored in the data files, not in the manifest.

    These are the sequences that take many bytes, if the table's configuration allows it. CPU work.
    """
    config = snapshot.manifest.config
    if lineage is None or config.get(SPILL_KEY) != "true" or options.version is FileVersion.V0_1:
        return ()
    try:
        limit = int(config.get(INLINE_KEY, INLINE_MAX_BYTES))
    except ValueError:
        limit = INLINE_MAX_BYTES
    fields = map(hidden_field, HIDDEN_FIELDS)
    return tuple(field for field in fields if len(lineage.inline(field.id)) > limit * num_files)


def _with_lineage(
    rows: pa.RecordBatch, lineage: Lineage, hidden: Sequence[Field], start: int
) -> pa.RecordBatch:
    """Append the hidden columns with the lineage of rows.

    Args:
        hidden: fields of the sequences that are stored in data files, not in the manifest.
        start: position of the first of these rows in `lineage`.
    """
    for field in hidden:
        values = lineage.values(field.id)[start : start + rows.num_rows]
        rows = rows.append_column(field.to_arrow(), to_arrow(values))
    return rows


def _carry(
    lineage: Lineage, fragments: Sequence[table_pb2.DataFragment], hidden: Sequence[int]
) -> None:
    """Store the lineage of rows in their new fragments.

    Args:
        hidden: ids of the fields whose sequences the data files have.
    """
    start = 0
    for fragment in fragments:
        rows = np.arange(start, start + fragment.physical_rows)
        lineage.take(rows).write(fragment, hidden)
        start += fragment.physical_rows
