"""Delete: the rows that match a predicate are marked in deletion files; no data is rewritten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.format.table.operations import Delete
from alance.ops.rows.matching import checked_predicate, constant, matching_rows
from alance.ops.rows.moved import commit_rows
from alance.ops.version.commit_options import CommitOptions
from alance.ops.version.commits import with_retries
from alance.ops.version.first_use import load_readers

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from alance.ops.version.snapshot import Snapshot


async def delete(
    snapshot: Snapshot, predicate: str | pc.Expression, options: CommitOptions | None = None
) -> Snapshot:
    """The version without the rows for which a predicate is true. See `Dataset.delete`."""
    commit = options or CommitOptions()
    await load_readers(snapshot, condition=predicate)
    checked = await checked_predicate(snapshot, predicate)
    change = Delete(predicate=checked.text)
    always = constant(checked)

    async def attempt(base: Snapshot) -> Snapshot:
        if always is None:
            rows = await matching_rows(base, predicate)
            count = sum(len(one) for one in rows.values())
            emptied = []
        else:
            rows, emptied = {}, [handle.id for handle in base.handles if always]
            count = int((await base.live_counts()).sum()) if always else 0
        return await commit_rows(
            base,
            change,
            deleted=rows,
            emptied=emptied,
            options=commit,
            summary={"num_deleted_rows": count},
        )

    return await with_retries(snapshot, attempt, commit.max_retries)
