"""Row ids and row versions that are not in the manifest, read to build the next version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alance.format.table.changes.lineage import Lineage, spilled
from alance.format.table.operations import Update
from alance.ops.version.projection import CREATED_AT, ROW_ID, UPDATED_AT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from alance.format.table.manifest import Manifest
    from alance.format.table.transaction import Transaction
    from alance.ops.version.snapshot import Snapshot


def lineage_reader(
    snapshot: Snapshot,
) -> Callable[[Manifest, Transaction], Awaitable[Mapping[int, Lineage]]]:
    """Return the function with which `TableRules` reads the lineage of rows that an Update changes.

    Cost of a call: for each sequence that is not in the manifest, one GET or a read of one column.
    Sequences are cached with the version.
    """
    read_before = snapshot

    async def read(previous: Manifest, transaction: Transaction) -> Mapping[int, Lineage]:
        nonlocal read_before
        if not isinstance(transaction.change, Update):
            return {}
        if not spilled(previous.fragments.forms):
            return {}
        fragment_ids = spilled(previous.fragments.records)
        if read_before.manifest is not previous:
            read_before = type(snapshot)(snapshot.session, snapshot.table, previous)
        return await load_lineage(read_before, fragment_ids)

    return read


async def load_lineage(snapshot: Snapshot, fragment_ids: Iterable[int]) -> dict[int, Lineage]:
    """Read the lineage of fragments, from the manifest or from files; 24 bytes per row.

    Raises:
        CorruptFileError: a sequence contradicts the format.
    """
    handles = await snapshot.handles_of(fragment_ids)
    names = (ROW_ID, CREATED_AT, UPDATED_AT)
    await snapshot.resolve_sizes(handles)
    await snapshot.load_meta(handles, names)

    def build() -> dict[int, Lineage]:
        lineages = {}
        for handle in handles:
            rows = np.arange(handle.num_physical_rows)
            lineages[handle.id] = Lineage(*(handle.row_values(name).at(rows) for name in names))
        return lineages

    return await snapshot.engine.pool.run(build)
