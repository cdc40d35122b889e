"""Cleanup: removal of old versions and of the files that no version needs.

First the manifests of old versions are deleted, then new versions of other writers are read, and
then the files that no version needs are deleted. So a version never exists without its files. Files
that an interrupted cleanup leaves behind are unverified, and are removed a week later.

Tags also retain the versions that shallow clones read, see `ops/refs/clone_notes.py`. If such a tag
is written while the manifest of its version is being deleted, the files of that version are
retained. Later cleanups cannot know these files, so they remove no files until the tag is deleted.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from alance.base.checks import check_count
from alance.base.progress import Stage
from alance.base.records import dataclass
from alance.errors import NotFoundError, StoreError
from alance.format.table.manifest import parse_manifest
from alance.format.table.naming import BLOBS, DATA, VERSIONS, parse_manifest_name
from alance.io.loop.readahead import grouped
from alance.io.loop.tasks import all_of
from alance.ops.cleanup import files
from alance.ops.cleanup.policy import (
    CleanupCandidateFile,
    CleanupExplanation,
    CleanupPolicy,
    CleanupReferencedBranch,
    CleanupStats,
    clones_without_version,
    counted,
    without_tagged,
)
from alance.versioning import refs
from alance.versioning.load import (
    MANIFESTS_TOGETHER_BYTES,
    ManifestLocation,
    latest,
    list_manifests,
    load_manifest,
    read_manifests,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from alance.base.arrays import Int32s
    from alance.format.table.manifest import Manifest
    from alance.format.table.refs import BranchContents, TagContents
    from alance.io.reading.engine import Engine
    from alance.versioning.table import Table

    ObjectsOf: TypeAlias = Callable[[Manifest], Awaitable[Collection[str]]]

_log: Final = logging.getLogger(__name__)

REQUEST_FILES: Final = 1000  # maximum number of files that one request of S3 deletes
REQUESTS_AT_ONCE: Final = 4


class Deleter:
    """Deletes files of a table, many per request.

    Args:
        rate: maximum number of files per second; None for no limit.
        at_once: maximum number of concurrent requests; None for `REQUESTS_AT_ONCE`.

    Raises:
        InvalidInputError: `rate` or `at_once` is not positive.
    """

    def __init__(self, engine: Engine, table: Table, rate: int | None, at_once: int | None) -> None:
        for name, value in (("delete_rate_limit", rate), ("delete_concurrency", at_once)):
            if value is not None:
                check_count(name, value)
        self._engine = engine
        self._table = table
        self._rate = rate
        self._limit = asyncio.Semaphore(at_once or REQUESTS_AT_ONCE)
        self._free_at = 0.0  # time at which the next request may be sent

    async def delete(
        self, files: Sequence[CleanupCandidateFile], *, strict: bool = False
    ) -> set[str]:
        """Delete files; missing files are no error. Returns the paths that were not deleted.

        Raises:
            StoreError: `strict` is true, and the store failed.
        """
        size = REQUEST_FILES if self._rate is None else min(REQUEST_FILES, self._rate)
        paths = [file.path for file in files]
        parts = [paths[start : start + size] for start in range(0, len(paths), size)]

        async def delete(part: Sequence[str]) -> Sequence[str]:
            failed = await self._delete(part, strict=strict)
            stage.add(len(part))
            return failed

        with Stage("delete", len(paths), "files") as stage:
            failed = await all_of(map(delete, parts))
        return {path for part in failed for path in part}

    async def _delete(self, paths: Sequence[str], *, strict: bool) -> Sequence[str]:
        async with self._limit:
            await self._pause(len(paths))
            store, top = self._engine.registry.resolve(self._table.folder(DATA))
            try:
                await store.delete([top.removesuffix(DATA) + path for path in paths])
            except StoreError as error:
                if strict:
                    raise
                _log.warning("cleanup of %s: %d files stay: %s", self._table.uri, len(paths), error)
                return paths
        return ()

    async def remove_index_folders(self, removed: Sequence[CleanupCandidateFile]) -> None:
        """Remove the folders of index segments that are empty after the removal of files.

        No writer writes again to the folder of a segment that is in no version. Other folders are
        retained, because a writer may be about to use them.
        """
        for folder in {name for file in removed if (name := _index_folder(file)) is not None}:
            store, path = self._engine.registry.resolve(self._table.folder(folder))
            await store.remove_folders(path)

    async def _pause(self, count: int) -> None:
        """Wait until the rate permits the deletion of `count` files."""
        if self._rate is None:
            return
        clock = asyncio.get_running_loop().time
        turn = max(clock(), self._free_at)
        self._free_at = turn + count / self._rate
        await asyncio.sleep(turn - clock())


def _index_folder(file: CleanupCandidateFile) -> str | None:
    owner = files.owner_of(file.path)
    return owner[1] if owner is not None and owner[0] == "index" else None


@dataclass(slots=True)
class _Contents:
    """A table's versions and files, before anything is deleted.

    Attributes:
        listed: all files, including manifests.
        manifests: manifests of this table or branch by version, including detached versions.
        times: time of each of these versions; None if its manifest has none. Versions that
            the table's external store does not list are omitted.
        names: files that each of these versions needs, as numbers of `index`.
        of_branches: files that versions of the branches below need, as numbers of `index`.
        branch_versions: numbers of the versions of the branches below, by branch.
        objects: returns the objects of a version's managed blobs; None: all objects are retained.
        is_managed: True if a version may have managed blobs.
    """

    branches: Mapping[str, BranchContents]
    tags: Mapping[str, TagContents]
    listed: list[files.Listed] = field(default_factory=list)
    manifests: dict[int, ManifestLocation] = field(default_factory=dict)
    times: dict[int, datetime | None] = field(default_factory=dict)
    names: dict[int, Int32s] = field(default_factory=dict)
    of_branches: list[Int32s] = field(default_factory=list)
    branch_versions: dict[str | None, Collection[int]] = field(default_factory=dict)
    index: files.NameIndex = field(default_factory=files.NameIndex)
    objects: ObjectsOf | None = None
    is_managed: bool = False


@dataclass(frozen=True, slots=True)
class _CleanupPlan:
    """The files to delete; manifests are deleted first."""

    latest: int
    versions: tuple[int, ...]
    manifests: list[CleanupCandidateFile]
    others: list[CleanupCandidateFile]
    referenced: tuple[CleanupReferencedBranch, ...]
    warnings: tuple[str, ...]


async def cleanup(
    engine: Engine,
    table: Table,
    policy: CleanupPolicy,
    *,
    objects: ObjectsOf | None = None,
    delete_rate_limit: int | None = None,
    delete_concurrency: int | None = None,
) -> CleanupStats:
    """Delete old versions, and files that no version needs.

    Cost: a LIST of each folder of the table; a GET for each version of the table and its branches,
    and for each tag and branch; three more LISTs, and the tags and branches again; and the
    deletions, up to 1,000 files in a request. With managed blobs, also a LIST of their folder, and
    a scan of the descriptions of all versions.

    Args:
        objects: returns the locations of the objects of a version's managed blobs; None: all these
            objects are retained.
        delete_rate_limit: maximum number of files per second; None for no limit.
        delete_concurrency: maximum number of concurrent requests; None for `REQUESTS_AT_ONCE`.

    Raises:
        InvalidInputError: tagged versions match, see `CleanupPolicy`.
        CorruptFileError, UnsupportedError: a manifest cannot be read; nothing is deleted.
        StoreError: the store failed; some files may be deleted, but no version lacks its files.
    """
    deleter = Deleter(engine, table, delete_rate_limit, delete_concurrency)
    contents = await _look(engine, table, objects)
    plan = await engine.pool.run(lambda: _plan(contents, table.branch, policy, datetime.now(UTC)))
    await deleter.delete(plan.manifests, strict=True)
    if table.keeper is not None and plan.versions:
        await table.keeper.forget_versions(table.key, plan.versions)
    needed = await _needed_meanwhile(engine, table, contents)
    others = [file for file in plan.others if _name(file) not in needed]
    failed = await deleter.delete(others)
    removed = [file for file in others if file.path not in failed]
    await deleter.remove_index_folders(removed)
    gone = [*plan.manifests, *removed]
    return replace(counted(gone), failed_deletes=len(failed))


async def explain(
    engine: Engine,
    table: Table,
    policy: CleanupPolicy,
    *,
    objects: ObjectsOf | None = None,
    include_files: bool,
    max_files: int,
) -> CleanupExplanation:
    """Explain a cleanup without deleting. Cost: the requests of `cleanup` before the deletions.

    Raises:
        InvalidInputError: `max_files` is not positive, or tagged versions match.
        CorruptFileError, UnsupportedError: a manifest cannot be read.
        StoreError: the store failed.
    """
    check_count("max_files", max_files)
    contents = await _look(engine, table, objects)
    plan = await engine.pool.run(lambda: _plan(contents, table.branch, policy, datetime.now(UTC)))
    gone = [*plan.manifests, *plan.others]
    return CleanupExplanation(
        plan.latest,
        plan.versions,
        counted(gone),
        tuple(gone[:max_files]) if include_files else (),
        include_files and len(gone) > max_files,
        plan.referenced,
        plan.warnings,
    )


async def _look(engine: Engine, table: Table, objects: ObjectsOf | None) -> _Contents:
    """List all files, and read all manifests, including those of the branches below."""
    branches, tags = await asyncio.gather(
        refs.list_branches(engine, table), refs.list_tags(engine, table)
    )
    contents = _Contents(branches, tags, objects=objects)
    # Files before manifests, so that files of a concurrent commit are either needed or not listed.
    listings = await all_of(_listed(engine, table, folder) for folder in files.FOLDERS)
    contents.listed = [file for listing in listings for file in listing]
    own = [file for file in contents.listed if file.path.startswith(f"{VERSIONS}/")]
    contents.manifests = _manifests(table, own)
    if not any(version >> 63 == 0 for version in contents.manifests):
        raise table.not_there("no version")
    listed = await _listed_versions(engine, table)
    places = list(contents.manifests.values())
    needs = await _needs_of_all(engine, places, contents)
    for version, (time, names) in zip(contents.manifests, needs, strict=True):
        contents.names[version] = names
        if listed is None or version in listed or version >> 63:
            contents.times[version] = time
    for name in _below(table.branch, contents.branches):
        contents.of_branches += await _of_branch(engine, table, name, contents)
    if contents.is_managed and objects is not None:
        # Last, because few tables have any; `_needed_meanwhile` reads later versions.
        contents.listed += await _listed(engine, table, BLOBS)
    return contents


async def _listed_versions(engine: Engine, table: Table) -> Collection[int] | None:
    """Return the versions that an external store lists; None without such a store.

    The folder may have other manifests, such as those of a writer that did not use the store. They
    do not count as versions, so none of them is the latest; a cleanup retains them.
    """
    if table.keeper is None or not table.keeper.knows_latest:
        return None
    return {where.version for where in await list_manifests(engine, table)}


def _plan(
    contents: _Contents, branch: str | None, policy: CleanupPolicy, now: datetime
) -> _CleanupPlan:
    """Choose the versions and files to remove. CPU work.

    Raises:
        InvalidInputError: tagged versions match.
    """
    attached = {version: time for version, time in contents.times.items() if version >> 63 == 0}
    referenced = tuple(
        CleanupReferencedBranch(name, below.parent_version)
        for name, below in contents.branches.items()
        if below.parent_branch == branch
    )
    matching = policy.matching(attached, now)
    matching -= {reference.referenced_version for reference in referenced}
    is_error = policy.error_if_tagged_old_versions
    expired, warnings = without_tagged(matching, contents.tags, branch, is_error=is_error)
    # Detached versions have no order; they are removed only if the policy lists them.
    named = set(policy.versions or ())
    expired |= {version for version in contents.times if version >> 63 and version in named}
    staying = [names for version, names in contents.names.items() if version not in expired]
    needed = contents.index.names([*contents.of_branches, *staying])
    verified = contents.index.names(contents.names[version] for version in expired)
    before = None if policy.delete_unverified else now - files.UNVERIFIED_AGE
    others = files.candidates(contents.listed, needed, verified, before)
    versions = {branch: contents.manifests.keys(), **contents.branch_versions}
    if clones := clones_without_version(contents.tags, versions):
        warnings += clones
        others = []
    manifests = []
    for version in sorted(expired):
        where = contents.manifests[version]
        path = f"{VERSIONS}/{where.location.rpartition('/')[2]}"
        manifests.append(CleanupCandidateFile(path, "manifest", False, where.num_bytes or 0))
    return _CleanupPlan(
        max(attached), tuple(sorted(expired)), manifests, others, referenced, tuple(warnings)
    )


async def _listed(engine: Engine, table: Table, folder: str) -> list[files.Listed]:
    """List the files of a folder, including unfinished files of a local store."""
    location, root = table.folder(folder), table.folder(folder)[: -len(folder)]
    listed: list[files.Listed] = []
    if folder == VERSIONS and table.keeper is not None and table.keeper.knows_latest:
        with suppress(NotFoundError):
            await latest(engine, table)  # from here on, the latest manifest is listed
    try:
        listing = engine.scheduler.list(location, reason="cleanup")
        async with aclosing(listing) as entries:  # type: ignore[type-var]  # a generator
            async for entry in entries:
                path = entry.path[len(root) :]
                listed.append(files.Listed(path, entry.num_bytes, entry.last_modified))
    except NotFoundError:
        return listed
    store, path = engine.registry.resolve(location)
    top = path[: -len(folder)]
    unfinished = await store.unfinished(path)
    listed += [files.Listed(m.path[len(top) :], m.num_bytes, m.last_modified) for m in unfinished]
    return listed


def _manifests(table: Table, listed: Iterable[files.Listed]) -> dict[int, ManifestLocation]:
    locations = {}
    for file in listed:
        name = file.path.removeprefix(f"{VERSIONS}/")
        parsed = parse_manifest_name(name)
        if parsed is not None:
            location = table.manifest(name)
            locations[parsed.version] = ManifestLocation(
                parsed.version, location, file.num_bytes, parsed.scheme
            )
    return locations


async def _needs_of_all(
    engine: Engine, places: Sequence[ManifestLocation], contents: _Contents
) -> list[tuple[datetime | None, Int32s]]:
    """Return the time and the needed files of each version, in the order of `places`.

    The time is None if the manifest has none.

    Cost: the manifests are read in groups of `MANIFESTS_TOGETHER_BYTES`; one pool job parses a
    group.
    """
    needs: list[tuple[datetime | None, Int32s]] = []
    with Stage("manifests", len(places), "versions") as stage:
        for group in grouped(places, lambda place: place.num_bytes or 0, MANIFESTS_TOGETHER_BYTES):
            read = await read_manifests(engine, group)
            parsed = await engine.pool.run(partial(_parsed_needs, group, read, contents.index))
            for where, version_needs in zip(group, parsed, strict=True):
                needs.append(version_needs or await _needs(engine, where, contents))
            stage.at(len(needs))
    return needs


def _parsed_needs(
    places: Sequence[ManifestLocation],
    read: Sequence[memoryview | None],
    index: files.NameIndex,
) -> list[tuple[datetime | None, Int32s] | None]:
    """Return the time and the needed files of versions. CPU work.

    None for a version that is gone or may have managed blobs, which `_needs` reads separately.
    """
    needs: list[tuple[datetime | None, Int32s] | None] = []
    for where, content in zip(places, read, strict=True):
        if content is None:
            needs.append(None)
            continue
        manifest = parse_manifest(content, where.location, keep=False)
        if files.has_managed_blobs(manifest.head):
            needs.append(None)
            continue
        records = manifest.fragments.records
        numbers = index.numbers_of(manifest.head, records, manifest.indices)
        needs.append((manifest.timestamp, numbers))
    return needs


async def _needs(
    engine: Engine, where: ManifestLocation, contents: _Contents
) -> tuple[datetime | None, Int32s]:
    """Return the time and the needed files of a version; None and no files if it is gone."""
    named: Collection[str] = ()
    try:
        manifest = await load_manifest(engine, where, keep=False)
        if files.has_managed_blobs(manifest.head) and contents.objects is not None:
            contents.is_managed = True
            named = await contents.objects(manifest)
    except NotFoundError:
        if await _is_gone(engine, where):
            return None, files.NONE
        raise
    head, records, indices = manifest.head, manifest.fragments.records, manifest.indices
    numbers = await engine.pool.run(
        partial(contents.index.numbers_of, head, records, indices, named)
    )
    return manifest.timestamp, numbers


async def _is_gone(engine: Engine, where: ManifestLocation) -> bool:
    """True if another cleanup has removed a version. Cost: a HEAD."""
    try:
        await engine.scheduler.size(where.location, reason="cleanup")
    except NotFoundError:
        return True
    return False


async def _of_branch(engine: Engine, table: Table, name: str, contents: _Contents) -> list[Int32s]:
    branch = table.on_branch(name)
    manifests = _manifests(branch, await _listed(engine, branch, VERSIONS))
    contents.branch_versions[name] = manifests.keys()
    needs = await _needs_of_all(engine, list(manifests.values()), contents)
    return [names for _, names in needs]


def _below(branch: str | None, branches: Mapping[str, BranchContents]) -> list[str]:
    """Return the branches that descend from a branch; None is the main branch."""
    names: list[str] = []
    parents: set[str | None] = {branch}
    while True:
        new = [
            name
            for name, contents in branches.items()
            if contents.parent_branch in parents and name not in parents
        ]
        if not new:
            return names
        names += new
        parents.update(new)


async def _needed_meanwhile(engine: Engine, table: Table, contents: _Contents) -> set[str]:
    """Return the names of the files of versions, branches and clones created since `_look`."""
    tags, branches, listed = await asyncio.gather(
        refs.list_tags(engine, table),
        refs.list_branches(engine, table),
        _listed(engine, table, VERSIONS),
    )
    new = [
        where for key, where in _manifests(table, listed).items() if key not in contents.manifests
    ]
    names = [numbers for _, numbers in await _needs_of_all(engine, new, contents)]
    for name in _below(table.branch, branches):
        if name not in contents.branches:
            names += await _of_branch(engine, table, name, contents)
            # The branch may not yet have its first version.
            names.append(contents.names.get(branches[name].parent_version, files.NONE))
    names += [
        contents.names.get(tag.version, files.NONE)
        for name, tag in tags.items()
        if name not in contents.tags and tag.branch == table.branch
    ]
    return await engine.pool.run(lambda: contents.index.names(names))


def _name(file: CleanupCandidateFile) -> str:
    owner = files.owner_of(file.path)
    return file.path if owner is None else owner[1]
