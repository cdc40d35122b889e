"""Facts that a manifest lacks, read from the store: file sizes, row counts, row ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import CorruptFileError
from alance.file.open.columns import ScanStates
from alance.file.open.files import open_columns, open_file
from alance.file.rows.fragment import open_fragment
from alance.file.rows.placing import load_states
from alance.format.field import Field
from alance.format.layouts.fields import leaf_columns
from alance.format.numbers import as_numbers
from alance.format.proto import file_pb2
from alance.format.schema import Schema
from alance.format.table.fragment import CREATED_AT_FIELD, ROW_ID_FIELD, UPDATED_AT_FIELD
from alance.format.v0_1.metadata import BatchContainer
from alance.io.loop.tasks import all_of
from alance.ops.version.projection import CREATED_AT, ROW_ID, UPDATED_AT
from alance.versioning.sidecars import load_external

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.file.rows.fragment import FileSource
    from alance.file.rows.tasks import FragmentTask
    from alance.format.plans import Plan
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot

HIDDEN_FIELDS: Final = {
    ROW_ID: ROW_ID_FIELD,
    CREATED_AT: CREATED_AT_FIELD,
    UPDATED_AT: UPDATED_AT_FIELD,
}


def hidden_field(name: str) -> Field:
    """Return the field of data files that hold row ids or versions, by the name of its column."""
    return Field(name, HIDDEN_FIELDS[name], -1, "uint64", False, {}, (), file_pb2.Field())


async def learn_rows_and_sizes(snapshot: Snapshot, handle: FragmentHandle) -> None:
    """Read the sizes of a fragment's files and its row count into the handle.

    Cost: a HEAD for each file of unknown size; if the row count is unknown, one file is opened.

    Raises:
        UnsupportedError: this release of alance does not read a file's version.
        CorruptFileError: no file determines the number of rows.
    """

    async def sized(source: FileSource) -> FileSource:
        if source.file_bytes:
            return source
        location = source.location
        num_bytes = await snapshot.engine.scheduler.size(location, reason="file size")
        return source._replace(file_bytes=num_bytes)

    sources = await all_of(sized(source) for source in handle.sources)
    num_rows = handle.num_physical_rows
    if not num_rows and sources:
        plan = _count_rows(snapshot, handle.id, sources)
        num_rows = await snapshot.engine.drive(plan, "row count")
    handle.resolve(sources, num_rows)


def _count_rows(snapshot: Snapshot, fragment_id: int, sources: Sequence[FileSource]) -> Plan[int]:
    cache = snapshot.engine.cache
    leaves = {
        leaf.field.id: leaf.multiplier
        for field in snapshot.schema.fields
        for leaf in leaf_columns(field)
    }
    for source in sources:
        for field_id, index in source.columns.items():
            if field_id < 0 or field_id in leaves:
                container = yield from open_file(source.location, source.file_bytes, cache)
                if isinstance(container, BatchContainer):
                    return container.num_rows
                (column,) = yield from open_columns(container, [index], cache)
                return column.num_rows // leaves.get(field_id, 1)
    raise CorruptFileError(
        f"fragment {fragment_id}: the manifest does not tell its rows, and no file has a column "
        f"of the schema to count them"
    )


async def learn_values(snapshot: Snapshot, handle: FragmentHandle, name: str) -> None:
    """Read row ids or versions of a fragment from a file into the handle.

    Cost: one GET, or a read of one column.

    Raises:
        CorruptFileError: a sequence contradicts the format, or a column is missing.
    """
    await snapshot.resolve_sizes([handle])
    record = handle.external_values(name)
    if record is not None:
        handle.keep_values(name, await load_external(snapshot.engine, snapshot.table, record))
        return
    field = hidden_field(name)
    handle.source_of(field.id)
    schema, rows = Schema((field,), {}), handle.num_physical_rows
    states = ScanStates(snapshot.engine.cache)

    def read() -> Plan[FragmentTask]:
        opened = yield from open_fragment(schema, handle.sources, rows, states)
        yield from load_states(opened, [(0, rows)] if rows else [], states)
        return (yield from opened.read(0, rows, states))

    task = await snapshot.engine.drive(read(), "row ids", bulk=True)
    batch = await snapshot.engine.pool.run(task.decode)
    handle.keep_values(name, as_numbers(batch.column(0)).astype(np.uint64, copy=False))
