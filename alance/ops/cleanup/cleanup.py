"""Cleanup: old versions and the files that no version needs any more.

First the manifests of old versions are deleted, then versions that others made meanwhile are
looked at, then the files that none needs are deleted. So no version is ever there without its
files; what an interrupted cleanup leaves is unverified, and goes a week later.

Tags also keep the versions that shallow clones read, see `ops/refs/clone_notes.py`. If such a tag
is put while the manifest of its version is being deleted, the files of that version stay. Later
cleanups cannot tell which files these are, so they remove no files until the tag is deleted.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from alance.checks import check_count
from alance.errors import NotFoundError, StoreError
from alance.format.table.manifest import parse_parts, timestamp_of
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
from alance.records import dataclass
from alance.versioning import refs
from alance.versioning.load import (
    TOGETHER_BYTES,
    ManifestLocation,
    latest,
    load_manifest,
    read_manifests,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from alance.arrays import Int32s
    from alance.format.table.manifest import Manifest
    from alance.format.table.refs import BranchContents, TagContents
    from alance.io.reading.engine import Engine
    from alance.versioning.table import Table

    ObjectsOf: TypeAlias = Callable[[Manifest], Awaitable[Collection[str]]]

_log: Final = logging.getLogger(__name__)

REQUEST_FILES: Final = 1000  # what S3 deletes at once
REQUESTS_AT_ONCE: Final = 4


class Deleter:
    """Deletes files of a table, in requests of many.

    Args:
        rate: files a second at most; None: as fast as the store does it.
        at_once: requests under way.

    Raises:
        InvalidInputError: a rate or number that is not positive.
    """

    def __init__(self, engine: Engine, table: Table, rate: int | None, at_once: int | None) -> None:
        for name, value in (("delete_rate_limit", rate), ("delete_concurrency", at_once)):
            if value is not None:
                check_count(name, value)
        self._engine = engine
        self._table = table
        self._rate = rate
        self._limit = asyncio.Semaphore(at_once or REQUESTS_AT_ONCE)
        self._free_at = 0.0  # when the next request may be sent

    async def delete(
        self, files: Sequence[CleanupCandidateFile], *, strict: bool = False
    ) -> set[str]:
        """Delete files; those that are gone are no error. Gives those that are still there.

        Raises:
            StoreError: `strict`, and the store failed.
        """
        size = REQUEST_FILES if self._rate is None else min(REQUEST_FILES, self._rate)
        paths = [file.path for file in files]
        parts = [paths[start : start + size] for start in range(0, len(paths), size)]
        failed = await all_of(self._delete(part, strict=strict) for part in parts)
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
        """Remove the folders of index segments that are empty once these files are removed.

        No writer returns to the folder of a segment that is in no version. Other folders stay,
        since a writer may be about to use them.
        """
        for folder in {name for file in removed if (name := _index_folder(file)) is not None}:
            store, path = self._engine.registry.resolve(self._table.folder(folder))
            await store.remove_folders(path)

    async def _pause(self, count: int) -> None:
        """Wait for the turn of so many files."""
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
        listed: all files, those of versions too.
        manifests: of this table or branch by version, detached ones too.
        names: what each of these versions needs, as numbers of `index`.
        of_branches: what versions of the branches below need.
        branch_versions: numbers of the versions of the branches below, by branch.
        objects: tells which objects a version's managed blobs are in; None: they all stay.
        is_managed: whether a version may have managed blobs.
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
class _Plan:
    """The files to be deleted: manifests first."""

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

    Cost: a LIST of each folder of the table; a GET for each version of it and of its branches;
    three more LISTs; the deletions, which a store that can does a thousand a request. Where there
    are managed blobs, a LIST of their folder, and a scan of the descriptions in all versions.

    Args:
        objects: tells the locations of the objects that a version's managed blobs are in; None:
            these objects stay.
        delete_rate_limit: files a second at most.
        delete_concurrency: requests at once.

    Raises:
        InvalidInputError: tags name versions that match, see `CleanupPolicy`.
        CorruptFileError, UnsupportedError: a manifest that cannot be read; nothing is deleted.
        StoreError: the store failed; what was deleted stays so, no version is without its files.
    """
    deleter = Deleter(engine, table, delete_rate_limit, delete_concurrency)
    contents = await _look(engine, table, objects)
    plan = await engine.pool.run(lambda: _plan(contents, table.branch, policy, datetime.now(UTC)))
    await deleter.delete(plan.manifests, strict=True)
    kept = await _made_meanwhile(engine, table, contents)
    others = [file for file in plan.others if _name(file) not in kept]
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
    """What `cleanup` would do, for the same requests without the deletions.

    Raises:
        InvalidInputError: `max_files` is not positive; tags name versions that match.
        CorruptFileError, UnsupportedError: a manifest that cannot be read.
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
    """List all files, and read all manifests, of the branches below too."""
    branches, tags = await asyncio.gather(
        refs.list_branches(engine, table), refs.list_tags(engine, table)
    )
    contents = _Contents(branches, tags, objects=objects)
    # Files first: what a manifest names that is read later, is kept.
    listings = await all_of(_listed(engine, table, folder) for folder in files.FOLDERS)
    contents.listed = [file for listing in listings for file in listing]
    own = [file for file in contents.listed if file.path.startswith(f"{VERSIONS}/")]
    contents.manifests = _manifests(table, own)
    if not any(version >> 63 == 0 for version in contents.manifests):
        raise table.not_there("no version")
    places = list(contents.manifests.values())
    needs = await _needs_of_all(engine, places, contents)
    for version, (time, names) in zip(contents.manifests, needs, strict=True):
        contents.times[version], contents.names[version] = time, names
    for name in _below(table.branch, contents.branches):
        contents.of_branches += await _of_branch(engine, table, name, contents)
    if contents.is_managed and objects is not None:
        # Last, as few tables have any: of versions since then `_made_meanwhile` knows.
        contents.listed += await _listed(engine, table, BLOBS)
    return contents


def _plan(contents: _Contents, branch: str | None, policy: CleanupPolicy, now: datetime) -> _Plan:
    """The plan of what goes. CPU work.

    Raises:
        InvalidInputError: tags name versions that match.
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
    # Detached versions are in no order: they stay, unless they are named.
    named = set(policy.versions or ())
    expired |= {version for version in contents.times if version >> 63 and version in named}
    staying = [names for version, names in contents.names.items() if version not in expired]
    kept = contents.index.names([*contents.of_branches, *staying])
    verified = contents.index.names(contents.names[version] for version in expired)
    before = None if policy.delete_unverified else now - files.UNVERIFIED_AGE
    others = files.candidates(contents.listed, kept, verified, before)
    versions = {branch: contents.manifests.keys(), **contents.branch_versions}
    if clones := clones_without_version(contents.tags, versions):
        warnings += clones
        others = []
    manifests = []
    for version in sorted(expired):
        where = contents.manifests[version]
        path = f"{VERSIONS}/{where.location.rpartition('/')[2]}"
        manifests.append(CleanupCandidateFile(path, "manifest", False, where.num_bytes or 0))
    return _Plan(
        max(attached), tuple(sorted(expired)), manifests, others, referenced, tuple(warnings)
    )


async def _listed(engine: Engine, table: Table, folder: str) -> list[files.Listed]:
    """The files of a folder; of local ones those that nobody finished, too."""
    location, root = table.folder(folder), table.folder(folder)[: -len(folder)]
    files_found: list[files.Listed] = []
    if folder == VERSIONS and table.keeper is not None and table.keeper.is_asked_by_readers:
        with suppress(NotFoundError):
            await latest(engine, table)  # from then on it is listed
    try:
        listing = engine.scheduler.list(location, reason="cleanup")
        async with aclosing(listing) as entries:  # type: ignore[type-var]  # a generator
            async for entry in entries:
                path = entry.path[len(root) :]
                files_found.append(files.Listed(path, entry.num_bytes, entry.last_modified))
    except NotFoundError:
        return files_found
    store, path = engine.registry.resolve(location)
    top = path[: -len(folder)]
    left = await store.unfinished(path)
    files_found += [files.Listed(m.path[len(top) :], m.num_bytes, m.last_modified) for m in left]
    return files_found


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
    """Time of each version and numbers of the files that it needs, in the order of `places`.

    Cost: the manifests are read in groups of `TOGETHER_BYTES`; one pool job parses a group.
    """
    needs: list[tuple[datetime | None, Int32s]] = []
    for group in grouped(places, lambda place: place.num_bytes or 0, TOGETHER_BYTES):
        read = await read_manifests(engine, group)
        parsed = await engine.pool.run(partial(_parsed_needs, group, read, contents.index))
        for where, version_needs in zip(group, parsed, strict=True):
            needs.append(version_needs or await _needs(engine, where, contents))
    return needs


def _parsed_needs(
    places: Sequence[ManifestLocation],
    read: Sequence[memoryview | None],
    index: files.NameIndex,
) -> list[tuple[datetime | None, Int32s] | None]:
    """Time and needed files of versions. CPU.

    None stands for a version that is gone, or that may have managed blobs: `_needs` reads it alone.
    """
    needs: list[tuple[datetime | None, Int32s] | None] = []
    for where, content in zip(places, read, strict=True):
        if content is None:
            needs.append(None)
            continue
        parts = parse_parts(content, where.location)
        if files.has_managed_blobs(parts.head):
            needs.append(None)
            continue
        numbers = index.numbers_of(parts.head, parts.records, parts.indices)
        needs.append((timestamp_of(parts.head), numbers))
    return needs


async def _needs(
    engine: Engine, where: ManifestLocation, contents: _Contents
) -> tuple[datetime | None, Int32s]:
    """When a version was made, and what it needs; nothing where it is gone."""
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
    """Whether another cleanup has removed a version."""
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
    """The branches that were made from one, or from such a branch; None: main."""
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


async def _made_meanwhile(engine: Engine, table: Table, contents: _Contents) -> set[str]:
    """Names of files needed by versions, branches and clones that were created since `_look`."""
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
            # Its first version may come yet.
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
