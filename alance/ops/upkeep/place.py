"""Tables as a whole: check a store, drop a table, rename manifests."""

from __future__ import annotations

from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final

from alance.base.calls import public
from alance.errors import InvalidInputError, NotFoundError, UnsupportedError
from alance.format.table.naming import VERSIONS, NamingScheme, manifest_name, parse_manifest_name
from alance.io.loop.tasks import each
from alance.io.stores.conformance import examine
from alance.ops.version.opening import what_is_there
from alance.session import Session, open_store, queues_of, table_at
from alance.versioning import load, refs

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Awaitable, Callable
    from typing import Unpack

    from alance.io.reading.engine import Engine
    from alance.io.stores.store_report import StoreReport
    from alance.session import StoreArguments, TableArguments
    from alance.versioning.table import Table

DELETED_TOGETHER: Final = 1000  # objects that one request to S3 can delete
DELETIONS_AT_ONCE: Final = 8
MOST_ROUNDS: Final = 4  # rounds of deletions while other writers may add files
RENAMED_AT_ONCE: Final = 16


@public
async def drop(
    uri: str | os.PathLike[str], *, ignore_missing: bool = False, **place: Unpack[TableArguments]
) -> None:
    """Delete a table: all versions, branches and tags, and everything else in its folder.

    Manifests are deleted last, so that an interrupted call can be repeated. Concurrent readers and
    writers of the table fail, and its clones lose their data. A commit that is under way may still
    leave a version without its files; then repeat the call.

    Cost: a LIST and a GET for the latest version; LISTs and GETs of tags and branches; two
    LISTs of the folder, and DELETEs of 1000 objects each.

    Args:
        uri: path or URI of the table.
        ignore_missing: True to raise no error if there is no table.
        place: `store`, `storage_options`, `session`, `manifest_store` and `commit_lock`, as for
            `dataset`; the versions are also removed from a `manifest_store`.

    Raises:
        NotFoundError: there is no table.
        InvalidInputError: the URI is a folder with objects but no table, a whole store, or the
            folder of a branch; or tags record shallow clones that read the table's files. Nothing
            is deleted.
        UnsupportedError: the manifest store cannot remove versions.
    """
    if not await drop_named(uri, None, **place) and not ignore_missing:
        session, table = table_at(uri, **place)
        raise table.not_there(await what_is_there(session.engine, table))


async def drop_named(
    uri: str | os.PathLike[str],
    forget: Callable[[], Awaitable[object]] | None,
    **place: Unpack[TableArguments],
) -> bool:
    """Delete a table as `drop` does; return False if there is no table.

    Args:
        forget: removes the table's name. It is called after all checks and before anything is
            deleted, also if there is no table; None if the table has no name.
    """
    session, table = table_at(uri, **place)
    engine = session.engine
    if not table.path:
        raise InvalidInputError(f"drop: {table.uri!r} is a whole store, expected a table in it")
    try:
        latest = await load.load_latest(engine, table)
    except NotFoundError:
        await _refuse_what_is_no_table(engine, table)
        if forget is not None:
            await forget()
        return False
    if latest.branch is not None:
        raise InvalidInputError(
            f"drop: {table.uri!r} is branch {latest.branch!r} of a table; delete it by "
            f"branches.delete"
        )
    await _refuse_what_clones_need(engine, table)
    if table.keeper is not None:
        table.keeper.check_forgets()
    branches = [None, *await refs.list_branches(engine, table)]
    if forget is not None:
        await forget()
    # Repeated for files that writers have added meanwhile; without versions, writers now fail.
    for _ in range(MOST_ROUNDS):
        if not await _delete_all(engine, table):
            break
    for part in map(table.on_branch, branches):
        forget_commits(session, part)
        if part.keeper is not None:
            await part.keeper.forget(part.key)
    await table.store.remove_folders(table.path)
    return True


def forget_commits(session: Session, table: Table) -> None:
    """Remove the session's commit queues of a deleted table or branch."""
    queues = queues_of(session)
    for key in list(queues):
        if key.partition("\n")[0] == table.root:
            del queues[key]


async def _refuse_what_clones_need(engine: Engine, table: Table) -> None:
    tags = await refs.list_tags(engine, table)
    clones = [f"{tag.clone_uri!r} (tag {name!r})" for name, tag in tags.items() if tag.clone_uri]
    if clones:
        raise InvalidInputError(
            f"drop: shallow clones read files of {table.uri!r}: {', '.join(clones)}; deep_clone "
            "those that are needed, and delete the tags"
        )


async def _refuse_what_is_no_table(engine: Engine, table: Table) -> None:
    async with aclosing(_objects(engine, table)) as locations:  # type: ignore[type-var]  # a generator
        async for location in locations:
            raise InvalidInputError(
                f"drop: {table.uri!r} is no table: there are no versions, yet objects such as "
                f"{location!r}; nothing was deleted"
            )


async def _objects(engine: Engine, table: Table) -> AsyncIterator[str]:
    with suppress(NotFoundError):
        async for entry in engine.scheduler.list(table.main_root, reason="drop"):
            yield entry.path


async def _delete_all(engine: Engine, table: Table) -> bool:
    """Delete all listed objects, manifests last; return False if nothing was listed."""
    start = len(table.store.root)
    manifests: list[str] = []
    others: list[str] = []
    has_any = False
    folder = table.versions_folder + "/"
    async for location in _objects(engine, table):
        has_any = True
        (manifests if location.startswith(folder) else others).append(location[start:])
        if len(others) == DELETED_TOGETHER * DELETIONS_AT_ONCE:
            await each(table.store.delete, _parts(others), at_once=DELETIONS_AT_ONCE)
            others = []
    await each(table.store.delete, _parts(others), at_once=DELETIONS_AT_ONCE)
    # Oldest versions first; the names of the newest versions are listed first.
    for part in reversed(_parts(sorted(manifests))):
        await table.store.delete(part)
    return has_any


def _parts(paths: list[str]) -> list[list[str]]:
    return [
        paths[start : start + DELETED_TOGETHER] for start in range(0, len(paths), DELETED_TOGETHER)
    ]


async def migrate_manifest_paths_v2(engine: Engine, table: Table) -> None:
    """Rename manifests; see `UpkeepVerbs.migrate_manifest_paths_v2`.

    All manifests are copied before the first one is deleted. So after an interruption each version
    still has a manifest, and the next call completes the migration.
    """
    if table.keeper is not None and table.keeper.knows_latest:
        raise UnsupportedError(
            f"dataset {table.uri!r}: its versions are kept by an external store, which knows their "
            "names; they are not renamed"
        )
    folder = table.folder(VERSIONS)
    old: dict[str, str] = {}
    listing = engine.scheduler.list(folder, reason="migrate")
    async with aclosing(listing) as entries:  # type: ignore[type-var]  # a generator
        async for entry in entries:
            name = entry.path[len(folder) + 1 :]
            parsed = parse_manifest_name(name)
            if parsed is not None and parsed.scheme is NamingScheme.V1:
                old[name] = manifest_name(parsed.version, NamingScheme.V2)
    store, path = engine.registry.resolve(folder)
    names = [(f"{path}/{name}", f"{path}/{new}") for name, new in old.items()]
    await each(lambda pair: store.copy(*pair), names, at_once=RENAMED_AT_ONCE)
    await each(lambda pair: store.delete(pair[:1]), names, at_once=RENAMED_AT_ONCE)


@public
async def check_store(uri: str | os.PathLike[str], **place: Unpack[StoreArguments]) -> StoreReport:
    """Test that a store behaves as reading, writing and committing require.

    Use it for servers that imitate a cloud's protocol, before they hold tables. Some overwrite an
    object that they should only create, so that one of two concurrent commits is lost. Commits to
    S3 detect that and raise an error; this call reports all faults at once. It needs the rights to
    read, list, write and delete.

    Cost: about 100 requests and two uploads of 8 MiB. All objects are in one folder with a random
    name below the URI, and are deleted at the end.

    Args:
        uri: path or URI of a folder, with or without a table in it.
        place: `store`, `storage_options` and `session`, as for `dataset`.

    Returns:
        A report, which `print` shows as a table; see also `failures` and `is_fit_for("commits")`.

    Raises:
        AccessError: a right is missing.
        StoreError: nothing can be written to the folder.
        InvalidInputError: a bad URI or option.
    """
    session, opened, folder = open_store(uri, **place)
    return await examine(opened, folder, session.engine.background)
