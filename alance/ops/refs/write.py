"""Creation, moving and deletion of tags and branches."""

from __future__ import annotations

import asyncio
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from alance.errors import InvalidInputError, NotFoundError
from alance.format.table.refs import (
    MAIN,
    branch_bytes,
    branch_folder,
    check_branch_name,
    check_tag_name,
    parse_tag,
    time_text,
    with_members,
)
from alance.io.loop.background import grace_of
from alance.ops.refs.clone import clone_into
from alance.ops.refs.records import delete_all, put_new, put_over, target_of
from alance.ops.upkeep.place import forget_commits
from alance.ops.version import opening
from alance.versioning import refs
from alance.versioning.outcome import may_be_visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.ops.version.opening import Reference
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot

CREATE_S: Final = 120.0  # seconds that the creation of a branch may continue after a cancellation


async def create_tag(
    snapshot: Snapshot,
    name: str,
    reference: Reference | None,
    metadata: Mapping[str, str] | None,
) -> None:
    """Create a tag.

    Raises:
        AlreadyExistsError: the tag exists.
        NotFoundError: no such version, tag or branch.
        InvalidInputError: an invalid name for a tag, or metadata that is not text.
        CommitConflictError: the table was deleted and created again.
    """
    check_tag_name(_text(name, "tag"))
    noted = checked_metadata(metadata or {})
    target = await target_of(snapshot, reference)
    await put_new(snapshot, snapshot.table.tag(name), target.tag(noted), f"tag {name!r}")


async def update_tag(snapshot: Snapshot, name: str, reference: Reference | None) -> None:
    """Move a tag to another version.

    Raises:
        NotFoundError: no such tag, or no such version.
        InvalidInputError: the tag records a shallow clone, which needs its version.
        CommitConflictError: the table was deleted and created again.
    """
    location = snapshot.table.tag(check_tag_name(_text(name, "tag")))
    content = await refs.read_record(snapshot.engine, snapshot.table, location, "tag", name)
    if (clone_uri := parse_tag(content, location).clone_uri) is not None:
        raise InvalidInputError(
            f"tag {name!r}: keeps the version that shallow clone {clone_uri!r} reads, and cannot "
            "be moved; create another tag, or delete this one when the clone is gone"
        )
    target = await target_of(snapshot, reference)
    changes = {
        "branch": target.branch,
        "version": target.version,
        "updatedAt": time_text(time.time_ns()),
        "manifestSize": target.manifest_bytes,
    }
    await put_over(snapshot, location, with_members(content, location, changes))


async def delete_tag(snapshot: Snapshot, name: str) -> None:
    """Delete a tag.

    Raises:
        NotFoundError: no such tag.
    """
    location = snapshot.table.tag(check_tag_name(_text(name, "tag")))
    await refs.read_record(snapshot.engine, snapshot.table, location, "tag", name)
    await delete_all(snapshot, [location])


async def replace_metadata(
    snapshot: Snapshot, location: str, kind: str, name: str, metadata: Mapping[str, str]
) -> None:
    """Replace the metadata of a tag or branch.

    Args:
        location: location of its record.
        kind: `tag` or `branch`.
    """
    noted = checked_metadata(metadata)
    content = await refs.read_record(snapshot.engine, snapshot.table, location, kind, name)
    await put_over(snapshot, location, with_members(content, location, {"metadata": dict(noted)}))


async def create_branch(
    snapshot: Snapshot,
    name: str,
    reference: Reference | None,
    options: CommitOptions,
    metadata: Mapping[str, str] | None,
) -> Snapshot:
    """Create a branch.

    The record is put first. It decides between concurrent calls with the same name, and it prevents
    cleanups from removing the version that the branch starts from.

    Raises:
        AlreadyExistsError: the branch exists, or its folder has versions.
        NotFoundError: no such version, tag or branch.
        InvalidInputError: an invalid name for a branch, or a detached version.
        CommitConflictError: the table was deleted and created again.
    """
    check_branch_name(_text(name, "branch"))
    engine = snapshot.engine
    noted = checked_metadata(metadata or {})
    target = await target_of(snapshot, reference)
    source = snapshot
    if reference is not None:
        source = await opening.checkout_branch(snapshot, target.branch, target.version)
    ancestors = await _identifier(snapshot, target.branch)
    table = snapshot.table.on_branch(name)
    record = snapshot.table.branch_record(name)
    content = branch_bytes(
        target.branch,
        target.version,
        identifier=[*ancestors, (target.version, uuid.uuid4().hex)],
        ns=time.time_ns(),
        manifest_bytes=target.manifest_bytes,
        metadata=noted,
    )

    async def take_back() -> None:
        stored = await engine.scheduler.read_all(record, reason="whose ref")
        if bytes(stored) == content:
            await delete_all(snapshot, [record])

    async def make() -> Snapshot:
        try:
            await put_new(snapshot, record, content, f"branch {name!r}")
        except asyncio.CancelledError:
            await engine.background.discard(take_back(), table.store)
            raise
        try:
            return await clone_into(source, table, name, options)
        except BaseException as error:
            if not may_be_visible(error):
                await engine.background.discard(delete_all(snapshot, [record]), table.store)
            raise

    return await engine.background.to_the_end(make(), CREATE_S, grace_of(table.store))


async def _identifier(snapshot: Snapshot, branch: str | None) -> Sequence[tuple[int, str]]:
    """Return the identifier of a branch; empty for main."""
    if branch is None:
        return ()
    parent = await refs.load_branch(snapshot.engine, snapshot.table, branch)
    return () if parent is None else parent.identifier


async def delete_branch(snapshot: Snapshot, name: str, *, force: bool) -> None:
    """Delete a branch with its files.

    Args:
        force: True to also delete the files of a branch that has no record.

    Raises:
        NotFoundError: no such branch.
        InvalidInputError: other branches start from it, or tags name it.
    """
    check_branch_name(_text(name, "branch"))
    engine, table = snapshot.engine, snapshot.table
    record = table.branch_record(name)
    branches, tags = await refs.list_branches(engine, table), await refs.list_tags(engine, table)
    if name not in branches and not force:
        raise table.lacks(name, f"no branch {name!r}")
    deleted = branches.pop(name, None)
    for other, branch in branches.items():
        descends = (
            deleted is not None
            and deleted.identifier
            and deleted.identifier[-1] in branch.identifier
        )
        if descends or branch.parent_branch == name:
            raise InvalidInputError(
                f"branch {name!r}: branch {other!r} was made from it (version "
                f"{branch.parent_version} of {branch.parent_branch!r}), delete that one first"
            )
    if table.keeper is not None:
        table.keeper.check_forgets()
    named = sorted(tag for tag, contents in tags.items() if contents.branch == name)
    if named:
        raise InvalidInputError(f"branch {name!r}: tags {named} name it, delete them first")
    await delete_all(snapshot, [record])
    own = table.on_branch(name).root + "/"
    # The folder of branch `a/b` is inside the folder of branch `a`.
    prefixes = tuple(f"{table.main_root}/{branch_folder(other)}/" for other in branches)
    paths: list[str] = []
    with suppress(NotFoundError):
        listing = engine.scheduler.list(own[:-1], reason="branch")
        paths.extend([entry.path async for entry in listing if not entry.path.startswith(prefixes)])
    await delete_all(snapshot, paths)
    forget_commits(snapshot.session, table.on_branch(name))
    if table.keeper is not None:
        await table.keeper.forget(table.on_branch(name).key)


def checked_metadata(metadata: Mapping[str, str]) -> Mapping[str, str]:
    """Check that metadata is a mapping of text to text, and return it.

    Raises:
        InvalidInputError: the metadata is anything else.
    """
    if not hasattr(metadata, "items"):
        raise InvalidInputError(f"metadata {metadata!r}: expected a mapping of text to text")
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidInputError(f"metadata: {key!r}: {value!r}, expected text for text")
    return metadata


def _text(name: str, what: str) -> str:
    if not isinstance(name, str):
        raise InvalidInputError(f"{what} {name!r}: expected a name")
    if what == "branch" and name == MAIN:
        raise InvalidInputError(f"branch {name!r}: reserved for the main branch")
    return name
