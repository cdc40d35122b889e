"""Records of tags and branches: look-up of their versions; writing and deletion of the records."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    StoreError,
    UnsupportedError,
)
from alance.format.table.naming import NamingScheme, manifest_name
from alance.format.table.refs import tag_bytes
from alance.io.loop.tasks import all_of
from alance.ops.version import opening
from alance.versioning import load, refs
from alance.versioning.manifest_store import check_unchanged
from alance.versioning.settle import Patience, Settled, put_settled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.ops.version.opening import Reference
    from alance.ops.version.snapshot import Snapshot

OBJECTS_A_DELETE: Final = 1000  # objects per delete request


@dataclass(frozen=True, slots=True)
class RefTarget:
    """Version that a tag or branch is created for.

    Attributes:
        branch: name of the branch; None: main.
        version: number of the version.
        manifest_bytes: size of its manifest in bytes.
    """

    branch: str | None
    version: int
    manifest_bytes: int

    def tag(self, metadata: Mapping[str, str]) -> bytes:
        """Return the record of a new tag."""
        return tag_bytes(
            self.version,
            self.branch,
            ns=time.time_ns(),
            manifest_bytes=self.manifest_bytes,
            metadata=metadata,
        )


async def target_of(snapshot: Snapshot, reference: Reference | None) -> RefTarget:
    """Return the version of a reference (None: the snapshot's version), and check that it exists.

    Cost: one HEAD (two for a V1 name), for None a GET; also one GET for a tag or branch, and one
    LIST for the latest version of a branch.

    Raises:
        NotFoundError: no such version, tag or branch.
        CommitConflictError: the snapshot's table was deleted and created again.
        InvalidInputError: the reference is not a number, tag or pair.
    """
    engine, table = snapshot.engine, snapshot.table
    version: int | None
    if reference is None:
        stored = await load.load_version(engine, table, snapshot.version)
        check_unchanged(table, stored, snapshot.manifest)
        return RefTarget(table.branch, snapshot.version, stored.stored_bytes)
    if isinstance(reference, str):
        tag = await refs.load_tag(engine, table, reference)
        table, version = table.on_branch(tag.branch), tag.version
    elif isinstance(reference, tuple):
        branch, version = opening.pair(reference)
        if branch is not None and await refs.load_branch(engine, table, branch) is None:
            branch = None
        table = table.on_branch(branch)
    else:
        if isinstance(reference, bool) or not isinstance(reference, int):
            raise InvalidInputError(f"reference {reference!r}: expected a number, a tag or a pair")
        version = reference
    if version is None:
        version = (await load.latest(engine, table)).version
    if table.keeper is not None and table.keeper.knows_latest:
        await load.load_version(engine, table, version)  # raises unless the version is staged
    for scheme in (NamingScheme.V2, NamingScheme.V1):
        with suppress(NotFoundError):
            where = table.manifest(manifest_name(version, scheme))
            size = await engine.scheduler.size(where, reason="version")
            return RefTarget(table.branch, version, size)
    raise table.lacks(version, f"no version {version}")


async def put_over(snapshot: Snapshot, location: str, content: bytes) -> None:
    """Put an object, replacing any object there; ignore an error if the object was stored."""
    store, path = snapshot.engine.registry.resolve(location)
    try:
        await store.put(path, content)
    except (StoreError, AlreadyExistsError):
        stored = await snapshot.engine.scheduler.read_all(location, reason="whose ref")
        if bytes(stored) != content:
            raise


async def put_new(snapshot: Snapshot, location: str, content: bytes, what: str) -> None:
    """Put an object that must not exist yet; after a lost answer, check whose bytes are stored.

    Raises:
        AlreadyExistsError: the object exists, with other content.
    """
    engine, table = snapshot.engine, snapshot.table
    store, path = engine.registry.resolve(location)

    async def whose() -> Settled:
        stored = await engine.scheduler.read_all(location, reason="whose ref")
        return Settled.OURS if bytes(stored) == content else Settled.THEIRS

    async def put() -> None:
        if table.keeper is None:
            await store.put(path, content, if_absent=True)
            return
        # The store may ignore or refuse the condition, so this is checked first.
        with suppress(NotFoundError):
            await whose()
            raise AlreadyExistsError(f"{what} is there already")
        try:
            await store.put(path, content, if_absent=True)
        except UnsupportedError:
            await store.put(path, content)

    settled = await put_settled(
        put,
        whose,
        what,
        Patience(quiet_s=2.0 if table.keeper is None else math.inf),
        at_once=not store.profile.is_remote,
    )
    if settled is Settled.THEIRS:
        raise AlreadyExistsError(f"dataset {table.uri!r}: {what} is there already")


async def delete_all(snapshot: Snapshot, locations: list[str]) -> None:
    """Delete objects of one store, up to `OBJECTS_A_DELETE` per request."""
    resolved = [snapshot.engine.registry.resolve(location) for location in locations]
    if resolved:
        store = resolved[0][0]
        paths = [path for _, path in resolved]
        parts = [
            paths[start : start + OBJECTS_A_DELETE]
            for start in range(0, len(paths), OBJECTS_A_DELETE)
        ]
        await all_of(store.delete(part) for part in parts)
