"""Drop columns: a schema without them; data files stay, but for those of which nothing is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.format.table.operations import Project
from alance.ops.columns.fields import dropped
from alance.ops.version.commit_options import CommitOptions
from alance.ops.version.commits import commit_change, with_retries
from alance.ops.write.write import messages_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.ops.version.snapshot import Snapshot


async def drop_columns(
    snapshot: Snapshot, columns: Sequence[str], options: CommitOptions | None = None
) -> Snapshot:
    """The version without some columns. See `Dataset.drop_columns`."""
    commit = options or CommitOptions()

    async def attempt(base: Snapshot) -> Snapshot:
        schema = dropped(base.schema, columns)
        change = Project(schema=messages_of(schema), preserves_nullability=True)
        return await commit_change(base, change, commit)

    return await with_retries(snapshot, attempt, commit.max_retries)
