"""Which fragments the versions of a table added: what a stream that follows it reads."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from alance.errors import NotFoundError, UnsupportedError
from alance.format.table.operations import (
    Append,
    DataReplacement,
    Delete,
    Merge,
    Overwrite,
    Project,
    Rewrite,
    Update,
)
from alance.format.table.operations_meta import Restore
from alance.ops.version.opening import read_transaction
from alance.ops.version.projection import CREATED_AT
from alance.ops.version.snapshot import Snapshot
from alance.versioning import load

if TYPE_CHECKING:
    from alance.format.table.fragment import Fragment
    from alance.spark.options import StreamOptions

AT_ONCE: Final = 16  # versions looked at together
QUIET: Final = (Delete, Rewrite, Merge, Project, DataReplacement)  # no row comes with them


@dataclass(frozen=True, slots=True)
class Added:
    """The fragments that one version added; read as they are in that version.

    Attributes:
        filter: which of their rows are new; None: all.
    """

    version: int
    snapshot: Snapshot
    fragments: tuple[Fragment, ...]
    filter: str | None = None


async def added_by(snapshot: Snapshot, version: int, options: StreamOptions) -> Added:
    """What a version added to the one before it.

    Cost: two GETs, of it and of the version before, where they are not cached.

    Args:
        snapshot: any version of the table.

    Raises:
        NotFoundError: the version was cleaned up.
        UnsupportedError: it replaced rows, and the options do not say `skip`. Rows with stable
            ids know when they came into being: of updates and merges the inserted ones are given.
    """
    now, before = await asyncio.gather(_version(snapshot, version), _version(snapshot, version - 1))
    transaction = await read_transaction(now)
    operation = None if transaction is None else transaction.change
    known = {one.id for one in before.manifest.fragments}
    new = tuple(one for one in now.manifest.fragments if one.id not in known)
    if isinstance(operation, QUIET) or not new:
        new = ()
    elif isinstance(operation, Update) and now.has_stable_row_ids:
        return Added(version, now, new, f"{CREATED_AT} = {version}")
    elif isinstance(operation, Update | Overwrite | Restore) or (
        operation is not None and not isinstance(operation, Append)
    ):
        if options.on_change != "skip":
            raise UnsupportedError(
                f"dataset {snapshot.uri!r}: version {version} ({type(operation).__name__}) replaces"
                " rows, which a stream of new rows does not show; option on_change=skip passes it"
            )
        new = ()
    return Added(version, now, new)


async def _version(snapshot: Snapshot, version: int) -> Snapshot:
    try:
        manifest = await load.load_version(snapshot.engine, snapshot.table, version)
    except NotFoundError as error:
        error.add_note("the stream has to read it: clean up only what all streams have read")
        raise
    return Snapshot(snapshot.session, snapshot.table, manifest)


async def latest(snapshot: Snapshot) -> int:
    """The number of the latest version. Cost: one LIST."""
    return (await load.latest(snapshot.engine, snapshot.table)).version
