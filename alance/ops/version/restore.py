"""Restoring of an older version as the newest one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alance.errors import InvalidInputError
from alance.format.table.operations import Restore
from alance.io.loop.tasks import all_of
from alance.ops.version import opening
from alance.ops.version.commits import PreparedChange, latest
from alance.versioning.load import load_version
from alance.versioning.manifest_store import check_unchanged
from alance.versioning.rules import TableRules

if TYPE_CHECKING:
    from alance.ops.version.opening import Reference
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot


async def restore(
    snapshot: Snapshot, version: Reference | None, options: CommitOptions
) -> Snapshot:
    """Commit the content of an older version as the latest version.

    Cost: a LIST for the latest version, and a GET unless it is cached; one GET for the restored
    version; then a commit.

    Args:
        version: a number or tag on the snapshot's branch; None: the snapshot's version.

    Raises:
        NotFoundError: no such version or tag.
        InvalidInputError: the version is of another branch, or lacks something that the table
            needs.
        CommitConflictError: a concurrent commit changed the schema, or the table was deleted and
            written anew.
    """
    if version is None:
        # A cleanup may have removed the snapshot's version and its files, or the table was deleted.
        again = load_version(snapshot.engine, snapshot.table, snapshot.version)
        newest, stored = await asyncio.gather(latest(snapshot), again)
        check_unchanged(snapshot.table, stored, snapshot.manifest)
        source = snapshot
    else:
        source, newest = await all_of([opening.checkout(snapshot, version), latest(snapshot)])
    if source.table.branch != snapshot.table.branch:
        raise InvalidInputError(
            f"restore: {version!r} is on branch {source.table.branch or 'main'!r}, expected a "
            f"version of branch {snapshot.table.branch or 'main'!r}"
        )
    rules = TableRules(snapshot.engine, snapshot.table, source=source.manifest)
    return await PreparedChange(
        newest, Restore(version=source.version), options, rules=rules
    ).commit()
