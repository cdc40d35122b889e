"""Open a dataset, and check out its other versions."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from alance.base.checks import did_you_mean, some_of
from alance.errors import (
    AlanceError,
    CorruptFileError,
    InvalidInputError,
    NotFoundError,
    TableNotFoundError,
    UnsupportedError,
    VersionNotFoundError,
)
from alance.ops.version.snapshot import Snapshot
from alance.session import Session, table_at
from alance.versioning import load, refs
from alance.versioning.sidecars import load_transaction

if TYPE_CHECKING:
    import os
    from typing import Unpack

    from alance.format.table.manifest import Manifest
    from alance.format.table.transaction import Transaction
    from alance.io.reading.engine import Engine
    from alance.session import TableArguments
    from alance.versioning.load import VersionInfo
    from alance.versioning.table import Table

# a version number on the current branch, a tag, or a branch (None: main) and number (None: latest)
Reference: TypeAlias = int | str | tuple[str | None, int | None]


async def open_snapshot(
    uri: str | os.PathLike[str],
    *,
    version: int | str | None = None,
    asof: datetime | str | None = None,
    **place: Unpack[TableArguments],
) -> Snapshot:
    """Open a version of the dataset at a URI; by default the latest.

    Cost: one LIST, and a GET unless a cache has the manifest. A version by number costs one GET
    (two for a V1 name; none if the disk cache is trusted), a tag one GET more; `asof` costs as
    `load_asof`.

    Args:
        uri: URI of the dataset; with `store`, the path inside it.
        version: a number or a tag; None: the latest version.
        asof: time; opens the latest version committed strictly before it. Without a time zone it is
            UTC.
        store: a store object of obstore, a file system of fsspec, or a `Store`.
        storage_options: configuration of store, client and retries.
        session: shared scheduler, cache and limits; by default the event loop's session.
        manifest_store, commit_lock: external manifest store or lock; see `open_table`.

    Raises:
        TableNotFoundError, VersionNotFoundError: there is no dataset, or no such version or tag.
        InvalidInputError: a bad URI, option or time, or both `version` and `asof`.
        UnsupportedError: the table needs a feature that this release of alance does not know.
    """
    time = None if asof is None else as_time(asof)
    if version is not None and time is not None:
        raise InvalidInputError("version and asof: expected one of them")
    session, table = table_at(uri, **place)
    engine = session.engine
    try:
        if time is not None:
            manifest = await load.load_asof(engine, table, time)
        elif version is None:
            manifest = await load.load_latest(engine, table)
        else:
            table, manifest = await _named(session, table, version)
    except TableNotFoundError as error:
        raise table.not_there(await what_is_there(engine, table)) from error
    await _check(engine, table, manifest)
    return Snapshot(session, table, manifest)


async def what_is_there(engine: Engine, table: Table) -> str:
    """Explain why a place is not a table. Cost: two LISTs if it is local, else no request."""
    if table.branch is not None:
        return "there are no versions"
    if table.is_remote:
        return "there are no versions; if it is a folder of tables, open it by `alance.connect`"
    place = table.main_root
    try:
        beside, files = await engine.scheduler.list_level(
            place.rpartition("/")[0], reason="not a table"
        )
        below, _ = await engine.scheduler.list_level(place, reason="not a table")
    except AlanceError:
        return "there are no versions"
    if place in files:
        return "it is a file, not the folder of a table"
    name, parent = place.rpartition("/")[2], place.rpartition("/")[0]
    if parent.endswith(".lance"):
        return f"it is inside of a table; open {table.uri.rpartition('/')[0]!r}"
    if place not in beside and re.search(r"\.lance[@?#:]", name):
        return "no such folder; a version is an argument: alance.dataset(uri, version=)"
    if place not in beside:
        if f"{place}.lance" in beside:
            return f"no such folder, did you mean {table.uri + '.lance'!r}?"
        if table.uri.startswith("~"):
            return "no such folder; write os.path.expanduser(path), as ~ is not replaced"
        names = [path.rpartition("/")[2] for path in beside]
        bare = [own.removesuffix(".lance") for own in names]
        return f"no such folder{did_you_mean(name, names) or did_you_mean(name, bare)}"
    tables = [name.rpartition("/")[2] for name in below if name.endswith(".lance")]
    if not tables:
        return "there are no versions"
    return f"it is a folder of tables, {some_of(tables)}; open it by `alance.connect`"


async def _latest_there(engine: Engine, table: Table) -> int | None:
    """Return the latest version of a table; None if the store cannot list. Cost: one LIST.

    Raises:
        TableNotFoundError: there is no table.
    """
    try:
        return (await load.latest(engine, table)).version
    except TableNotFoundError:
        raise
    except AlanceError:
        return None


async def versions(snapshot: Snapshot) -> list[VersionInfo]:
    """List all versions of the snapshot's branch, oldest first.

    Cost: one LIST, and concurrent GETs of all manifests that are not cached.

    Raises:
        TableNotFoundError: the dataset has been removed.
    """
    return await load.versions(snapshot.engine, snapshot.table)


async def latest_version(snapshot: Snapshot) -> int:
    """Return the number of the branch's latest version. Cost: one LIST.

    Raises:
        TableNotFoundError: the dataset has been removed.
    """
    return (await load.latest(snapshot.engine, snapshot.table)).version


async def checkout(snapshot: Snapshot, version: Reference | None) -> Snapshot:
    """Return a version of the dataset; the snapshot itself if it has that version.

    Cost: for the latest version one LIST, and a GET unless it is cached; for a number one GET (two
    for a V1 name, none for the snapshot's own number); for a tag one GET more.

    Args:
        version: a number on the snapshot's branch; a tag; a pair of branch and number, or None for
            the branch's latest version; None: the latest version of the snapshot's branch.

    Raises:
        VersionNotFoundError: no such version, tag or branch.
        InvalidInputError: the reference has another form.
    """
    if isinstance(version, tuple):
        return await checkout_branch(snapshot, *pair(version))
    if version is None:
        table = snapshot.table
        manifest = await load.load_latest(snapshot.engine, table)
    elif version == snapshot.version and not isinstance(version, bool):
        return snapshot
    else:
        table, manifest = await _named(snapshot.session, snapshot.table, version)
    return await _moved(snapshot, table, manifest)


async def checkout_listed(snapshot: Snapshot, where: load.ManifestLocation) -> Snapshot:
    """Return a listed version of the same branch; the snapshot itself if it has that version.

    Cost: one GET; none if a cache has the manifest.
    """
    manifest = await load.load_manifest(snapshot.engine, where)
    return await _moved(snapshot, snapshot.table, manifest)


async def at_version(snapshot: Snapshot, version: int) -> Snapshot:
    """Return the same table at a version number, possibly the snapshot itself.

    Cost: as `load_version`; no request for the snapshot's own version.
    """
    if version == snapshot.version:
        return snapshot
    manifest = await load.load_version(snapshot.engine, snapshot.table, version)
    return Snapshot(snapshot.session, snapshot.table, manifest)


async def checkout_branch(
    snapshot: Snapshot, branch: str | None, version: int | None = None
) -> Snapshot:
    """Return a version of another branch; by default the latest.

    Cost: one LIST, and a GET unless the version is cached; with a number one GET instead (two for a
    V1 name). A branch other than main takes one more GET, for its record.

    Args:
        branch: None or `main` for the main branch.

    Raises:
        VersionNotFoundError: no such branch, or no such version on it.
    """
    engine = snapshot.engine
    if branch is not None and await refs.load_branch(engine, snapshot.table, branch) is None:
        branch = None
    table = snapshot.table.on_branch(branch)
    if version is None:
        manifest = await load.load_latest(engine, table)
    else:
        manifest = await load.load_version(engine, table, version)
    return await _moved(snapshot, table, manifest)


async def read_transaction(snapshot: Snapshot, version: int | None = None) -> Transaction | None:
    """Return the transaction of a version (by default of this one); None if it was not stored.

    Cost: none if it is in the manifest's file, as is usual, else one GET; one more GET for another
    version (two for a V1 name).

    Raises:
        VersionNotFoundError: no such version.
    """
    manifest = snapshot.manifest
    if version is not None and version != snapshot.version:
        manifest = await load.load_version(snapshot.engine, snapshot.table, version)
    return await load_transaction(snapshot.engine, snapshot.table, manifest)


def pair(reference: tuple[object, ...]) -> tuple[str | None, int | None]:
    """Check that a reference is a pair of branch and number, each possibly None; return it.

    Raises:
        InvalidInputError: the reference is anything else.
    """
    if len(reference) == 2:
        branch, version = reference
        is_number = isinstance(version, int) and not isinstance(version, bool)
        if (branch is None or isinstance(branch, str)) and (version is None or is_number):
            return branch, version  # type: ignore[return-value]  # checked above
    raise InvalidInputError(
        f"reference {reference!r}: expected a number, a tag, or a branch and a number"
    )


def as_time(value: datetime | str) -> datetime:
    """Return a time with its time zone, UTC by default.

    Raises:
        InvalidInputError: the value is text that is not an ISO 8601 time, or has another type.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise InvalidInputError(f"asof={value!r}: expected a time of ISO 8601") from error
    if not isinstance(value, datetime):
        raise InvalidInputError(f"asof={value!r}: expected a datetime or text of ISO 8601")
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


async def _named(session: Session, table: Table, version: int | str) -> tuple[Table, Manifest]:
    engine = session.engine
    try:
        if not isinstance(version, str):
            return table, await load.load_version(engine, table, version)
        tag = await refs.load_tag(engine, table, version)
    except VersionNotFoundError as error:
        latest = await _latest_there(engine, table)
        if latest is None or isinstance(version, str):
            raise
        message = f"{error}; the latest version is {latest}"
        raise VersionNotFoundError(message, version) from error
    table = table.on_branch(tag.branch)
    try:
        return table, await load.load_version(engine, table, tag.version)
    except NotFoundError as error:
        error.add_note(f"which tag {version!r} names")
        raise


async def _moved(snapshot: Snapshot, table: Table, manifest: Manifest) -> Snapshot:
    if manifest is snapshot.manifest:
        return snapshot
    await _check(snapshot.engine, table, manifest)
    if table.root == snapshot.table.root and manifest.same_as(snapshot.manifest):
        return snapshot
    return Snapshot(snapshot.session, table, manifest)


async def _check(engine: Engine, table: Table, manifest: Manifest) -> None:
    """Check that no two fragments of a version have the same id.

    Releases up to 0.16 could commit versions with two fragments of the same id, whose rows have the
    same addresses. Cost: none for other versions; for such a version, a read of the manifests
    before it.

    Raises:
        CorruptFileError: the version has duplicate ids; the message names the last intact version
            before it.
    """
    repeated = manifest.fragments.repeated_id
    if repeated is None:
        return
    what = f"dataset {table.uri!r}: two fragments of version {manifest.version} have id {repeated}"
    for where in reversed(await load.list_manifests(engine, table)):
        if where.version < manifest.version:
            try:
                older = await load.load_manifest(engine, where, keep=False)
            except (CorruptFileError, NotFoundError, UnsupportedError):
                continue
            if older.fragments.repeated_id is None:
                raise CorruptFileError(
                    f"{what}; version {where.version} is the last one before it that can be read: "
                    f"open it by its number, and restore() it to go on with it"
                )
    raise CorruptFileError(f"{what}, and there is no older version that can be read")
