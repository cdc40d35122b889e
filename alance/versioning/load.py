"""Listing and reading of manifests: the latest version, a version by number or time, all versions.

V2 names sort the newest version first. So on a store that lists in order, the latest version takes
one LIST, which is stopped early, and one GET. The disk cache may have manifests and deletion files.
It stores each object with its *entity*: a text that changes if another object replaces it.
"""

from __future__ import annotations

from contextlib import aclosing
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from alance.base.records import dataclass
from alance.errors import (
    BucketNotFoundError,
    CorruptFileError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from alance.format.plans import ByteRange
from alance.format.table.manifest import (
    Manifest,
    VersionTotals,
    met_manifest,
    parse_manifest,
    parse_totals,
)
from alance.format.table.naming import NamingScheme, manifest_name, parse_manifest_name
from alance.io.loop.readahead import grouped
from alance.io.loop.tasks import all_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
    from datetime import datetime

    from alance.format.table.manifest import Manifest
    from alance.io.reading.engine import Engine
    from alance.io.stores.store import ObjectMeta
    from alance.versioning.table import Table

T = TypeVar("T")
RANGE_BYTES: Final = 8 << 20  # bytes; a larger range would be split into several requests
# Parsing is this many times faster than decoding columns: 128 KiB take a third of a millisecond.
AS_FAST: Final = 2
# Bytes of manifests that are read together and parsed by one pool job.
MANIFESTS_TOGETHER_BYTES: Final = 16 << 20
TOTALS_BYTES: Final = 500  # bytes of memory of a version's totals and their cache key
FIRST: Final = 0  # below the numbers of all versions
LATEST: Final = 1 << 63  # above the numbers of all listed versions
TRUSTED: Final = "version"  # entity of manifests that their version number identifies


async def recall_object(
    engine: Engine, location: str, entity: str | None, parse: Callable[[memoryview], T]
) -> T | None:
    """Return a parsed object from the disk cache, without a request.

    Returns None if the object is not cached, or if it is corrupt; a corrupt object is removed.
    """
    disk = engine.cache.disk
    if disk is None or entity is None:
        return None
    content = await disk.read(location, entity)
    if content is None:
        return None
    try:
        return await engine.decode(lambda: parse(content), len(content))
    except CorruptFileError:
        disk.drop(location, entity)
        return None


def keep_object(engine: Engine, location: str, entity: str | None, content: memoryview) -> None:
    """Add an object to the disk cache after it was read and parsed.

    Does nothing without an entity.
    """
    if engine.cache.disk is not None and entity is not None:
        engine.cache.disk.keep(location, entity, content)


async def read_tagged(
    engine: Engine, location: str, e_tag: str | None, read: Callable[[], Awaitable[memoryview]]
) -> tuple[memoryview, bool]:
    """Read an object; also return True if the object certainly has this e-tag.

    The e-tag is from a listing, and the object may have been replaced since then. Cost: one GET, or
    two if the object was replaced.

    Args:
        read: reads the object regardless of its e-tag.
    """
    disk = engine.cache.disk
    if disk is not None and e_tag is not None and disk.covers(location):
        try:
            content = await engine.scheduler.read_all(location, e_tag=e_tag, reason="manifest")
        except NotFoundError:
            pass
        else:
            return content, True
    return await read(), False


class ManifestLocation(NamedTuple):
    """Location of a version's manifest.

    Attributes:
        num_bytes: size from a listing; None if unknown.
        state: value that changes with the object; None if unknown, so that the manifest is not
            cached in memory.
        e_tag: strong e-tag from a listing; None if unknown.
        is_trusted: True if the version's number is enough to identify the manifest.
        last_modified: time of the object by the store's clock; None if unknown.
        tag: e-tag from a listing, strong or weak, without quotes; None if unknown.
    """

    version: int
    location: str
    num_bytes: int | None
    scheme: NamingScheme
    state: Hashable = None
    e_tag: str | None = None
    is_trusted: bool = False
    last_modified: datetime | None = None
    tag: str | None = None

    @property
    def entity(self) -> str | None:
        """Entity of the manifest in the disk cache; None if it cannot be cached there."""
        if self.is_trusted:
            return TRUSTED
        return None if self.e_tag is None else f"manifest of {self.num_bytes} bytes, {self.e_tag}"


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """Version in a list of versions.

    Attributes:
        timestamp: time of the commit, in UTC, by the committer's clock; None if unknown.
        metadata: totals of fragments, files, rows and bytes, as decimal text.
    """

    version: int
    timestamp: datetime | None
    metadata: Mapping[str, str]

    @classmethod
    def of(cls, totals: VersionTotals) -> VersionInfo:
        """Build the entry of a version from the totals of its manifest.

        Args:
            totals: totals of the manifest.
        """
        # Use the sums of the stored counts, because an inconsistent manifest must not hide its
        # version.
        metadata = {
            "total_fragments": totals.num_fragments,
            "total_data_files": totals.num_files,
            "total_files_size": totals.file_bytes,
            "total_deletion_files": totals.num_deletion_files,
            "total_data_file_rows": totals.num_rows,
            "total_deletion_file_rows": totals.num_deleted_rows,
            "total_rows": totals.num_rows - totals.num_deleted_rows,
        }
        texts = {name: str(value) for name, value in metadata.items()}
        return cls(totals.version, totals.timestamp, texts)


async def read_object(
    engine: Engine, location: str, num_bytes: int | None, reason: str
) -> memoryview:
    """Read a whole object in one GET, whatever its size."""
    await engine.pool.share_turn()  # because many tasks may read in-memory objects
    if num_bytes is None or num_bytes > RANGE_BYTES:
        return await engine.scheduler.read_all(location, reason=reason)
    ranges = [ByteRange(location, 0, num_bytes)]
    (content,) = await engine.scheduler.read(ranges, reason=reason)
    return content


async def latest(engine: Engine, table: Table) -> ManifestLocation:
    """Return the location of the latest version's manifest.

    Cost: one LIST, which is stopped early for V2 names on stores that list in order. With an
    external store, one call to it instead; the LIST only if it lacks the table.

    Raises:
        NotFoundError: there is no dataset.
        CorruptFileError: there are manifests of both naming schemes.
    """
    if table.keeper is None or not table.keeper.knows_latest:
        return await latest_listed(engine, table)
    location = await table.keeper.manifests(engine, table).latest()
    if location is None:
        raise table.not_there("there are no versions")
    return location


async def latest_listed(engine: Engine, table: Table) -> ManifestLocation:
    """Return the latest version in the listing, without an external store.

    Raises:
        NotFoundError: there is no dataset.
        CorruptFileError: there are manifests of both naming schemes.
    """
    locations = await _list(engine, table, stop_at=LATEST)
    return max(locations, key=lambda location: location.version)


async def listed_since(engine: Engine, table: Table, version: int) -> list[ManifestLocation]:
    """Return the versions in the listing from one on, newest first; perhaps earlier ones, too.

    Cost: as for `latest_listed`; a request more for each 1000 versions.

    Raises:
        NotFoundError: there is no dataset.
        CorruptFileError: there are manifests of both naming schemes.
    """
    locations = await _list(engine, table, stop_at=version)
    return sorted(locations, key=lambda location: location.version, reverse=True)


async def list_manifests(engine: Engine, table: Table) -> list[ManifestLocation]:
    """Return the manifests of all versions except detached ones, oldest first. Cost: one LIST.

    With an external store, also one call to it; with a catalog that manages versions, a call per
    page of its versions.

    Raises:
        NotFoundError: there is no dataset.
        CorruptFileError: there are manifests of both naming schemes.
    """
    if table.keeper is None or not table.keeper.knows_latest:
        return await all_listed(engine, table)
    return await table.keeper.manifests(engine, table).all()


async def all_listed(engine: Engine, table: Table) -> list[ManifestLocation]:
    """Return the versions in the listing, oldest first; errors are as for `list_manifests`."""
    locations = await _list(engine, table, stop_at=FIRST)
    return sorted(locations, key=lambda location: location.version)


async def _list(engine: Engine, table: Table, *, stop_at: int) -> list[ManifestLocation]:
    """List manifests; a listing that has the newest first ends at the version `stop_at`."""
    folder = table.versions_folder
    locations: list[ManifestLocation] = []
    is_sorted = table.store.profile.lists_in_order
    await engine.pool.share_turn()  # because many tasks may list in-memory objects
    try:
        listing = engine.scheduler.list(folder, reason="versions")
        async with aclosing(listing) as entries:  # type: ignore[type-var]  # a generator
            async for entry in entries:
                location = _parse(entry, folder)
                if location is None:
                    continue
                locations.append(location)
                # A second entry is needed, because a different scheme there shows an incomplete
                # rename to V2.
                is_last = is_sorted and location.version <= stop_at
                if is_last and location.scheme is NamingScheme.V2 and len(locations) > 1:
                    break
    except BucketNotFoundError:
        raise
    except NotFoundError as error:
        raise table.not_there(str(error)) from error
    if not locations:
        raise table.not_there("there are no versions")
    if len({place.scheme for place in locations}) > 1:
        raise CorruptFileError(f"dataset {table.uri!r}: manifests of both naming schemes")
    return locations


def _parse(entry: ObjectMeta, folder: str) -> ManifestLocation | None:
    name = entry.path[len(folder) + 1 :]
    parsed = parse_manifest_name(name)
    if parsed is None or parsed.is_detached:
        return None
    state = (entry.num_bytes, entry.e_tag or entry.last_modified)
    e_tag = None if (entry.e_tag or "W/").startswith("W/") else entry.e_tag
    return ManifestLocation(
        parsed.version,
        entry.path,
        entry.num_bytes,
        parsed.scheme,
        state,
        e_tag,
        last_modified=entry.last_modified,
        tag=unquoted(entry.e_tag),
    )


async def load_manifest(engine: Engine, where: ManifestLocation, *, keep: bool = True) -> Manifest:
    """Read a manifest. Cost: one GET, or none if a cache has it and a listing confirmed it.

    Args:
        keep: True to add it to the caches.

    Raises:
        NotFoundError: there is no such object.
        CorruptFileError, UnsupportedError: see `parse_manifest`.
    """

    async def load() -> Manifest:
        if engine.cache.disk is not None and (recalled := await _recall(engine, where)) is not None:
            return recalled
        content, is_it = await read_tagged(
            engine,
            where.location,
            where.e_tag,
            lambda: read_object(engine, where.location, where.num_bytes, "manifest"),
        )
        await engine.pool.share_turn()
        manifest = met_manifest(content, where.tag)
        if manifest is None:
            manifest = await engine.decode(
                lambda: parse_manifest(content, where.location, where.tag), len(content) // AS_FAST
            )
        if keep and (is_it or where.is_trusted):
            keep_object(engine, where.location, where.entity, content)
        return manifest

    if where.state is None:
        return await load()
    key = _cache_key(where)
    if keep:
        store, _ = engine.registry.resolve(where.location)
        return await engine.cache.get(
            key, load, lambda manifest: manifest.num_bytes, is_near=store.profile.answers_now
        )
    cached: Manifest | None = engine.cache.peek(key)
    return cached or await load()


def _cache_key(where: ManifestLocation) -> Hashable:
    return "manifest", where.location, where.state


async def _recall(engine: Engine, where: ManifestLocation) -> Manifest | None:
    def parse(content: memoryview) -> Manifest:
        return parse_manifest(content, where.location, where.tag)

    return await recall_object(engine, where.location, where.entity, parse)


def unquoted(e_tag: str | None) -> str | None:
    """Return an entity tag as manifests have it: without quotes; None if unknown."""
    return (e_tag or "").replace('"', "") or None


async def is_still(engine: Engine, manifest: Manifest, where: ManifestLocation) -> bool:
    """True if a manifest is what a listing shows; False if the table was written anew.

    Cost: none if the tags are equal, as is usual; otherwise a GET, as the tag may be unknown, or
    the file may have been copied.

    Args:
        manifest: version of `where`, read or written before.
    """
    if manifest.tag is not None and manifest.tag == where.tag:
        return True
    try:
        return manifest.same_as(await load_manifest(engine, where))
    except (CorruptFileError, NotFoundError, UnsupportedError):
        return False


async def load_latest(engine: Engine, table: Table) -> Manifest:
    """Load the latest version's manifest. Cost: a LIST and a GET; no GET if a cache has it."""
    return await load_manifest(engine, await latest(engine, table))


async def load_version(engine: Engine, table: Table, version: int) -> Manifest:
    """Read the manifest of a version by its number; also of a detached version.

    Cost: one GET, two for V1 names; no request if the disk cache has the manifest and the session
    trusts version numbers.

    Raises:
        NotFoundError: there is no such version.
        InvalidInputError: the version is not an integer.
    """
    if isinstance(version, bool) or not isinstance(version, int):
        hint = "; a time is `asof`, of alance.dataset" if isinstance(version, date) else ""
        raise InvalidInputError(f"version {version!r}: expected a number{hint}")
    names = dict.fromkeys(manifest_name(version, scheme) for scheme in _SCHEMES)
    if table.keeper is not None and table.keeper.knows_latest:
        manifest = await table.keeper.manifests(engine, table).version(version)
        if manifest is not None:
            return manifest
    is_trusted = engine.cache.disk is not None and engine.cache.disk.trusts_versions
    places = [
        ManifestLocation(version, table.manifest(name), None, scheme, is_trusted=is_trusted)
        for name, scheme in zip(names, _SCHEMES, strict=False)
    ]
    for where in places:
        if (recalled := await _recall(engine, where)) is not None:
            return recalled
    for where in places:
        try:
            return await load_manifest(engine, where)
        except BucketNotFoundError:
            raise
        except NotFoundError:
            continue
    raise table.lacks(version, f"no version {version}")


_SCHEMES = (NamingScheme.V2, NamingScheme.V1)


async def versions(engine: Engine, table: Table) -> list[VersionInfo]:
    """Return all versions, oldest first.

    Cost: one LIST, then concurrent GETs of all manifests that are not cached.

    Raises:
        NotFoundError: there is no dataset.
    """

    totals = await _all_totals(engine, await list_manifests(engine, table))
    return [VersionInfo.of(version) for version, _ in totals]


async def _all_totals(
    engine: Engine, places: Sequence[ManifestLocation]
) -> list[tuple[VersionTotals, ManifestLocation]]:
    """Return the totals of the versions that still exist, in the order of `places`.

    Cost: a GET per manifest that is not cached, in groups of `MANIFESTS_TOGETHER_BYTES`; a pool job
    per group.
    """
    cache = engine.cache
    keys = [("version", place.location, place.state) for place in places]
    totals: list[VersionTotals | None] = cache.peek_all(keys)
    missing = [number for number, version in enumerate(totals) if version is None]
    manifests = cache.peek_all([_cache_key(places[number]) for number in missing])
    for number, manifest in zip(missing, manifests, strict=True):
        if manifest is not None:
            totals[number] = await engine.decode(
                partial(VersionTotals.of, manifest), len(manifest.fragments.records.content)
            )
    missing = [number for number in missing if totals[number] is None]
    for group in grouped(
        missing, lambda number: places[number].num_bytes or 0, MANIFESTS_TOGETHER_BYTES
    ):
        contents = await read_manifests(engine, [places[number] for number in group])
        readable = [
            (number, content)
            for number, content in zip(group, contents, strict=True)
            if content is not None
        ]
        names = [places[number].location for number, _ in readable]
        parsed = await engine.pool.run(
            partial(parse_totals, [content for _, content in readable], names)
        )
        for (number, _), version in zip(readable, parsed, strict=True):
            totals[number] = version
            cache.put(keys[number], version, TOTALS_BYTES)
    pairs = zip(totals, places, strict=True)
    return [(version, where) for version, where in pairs if version is not None]


async def read_manifests(
    engine: Engine, places: Sequence[ManifestLocation]
) -> Sequence[memoryview | None]:
    """Read the contents of manifests; None for a manifest that is gone.

    Cost: all GETs concurrently, and again if a manifest is gone.
    """
    await engine.pool.share_turn()
    ranges = [ByteRange(place.location, 0, place.num_bytes or 0) for place in places]
    try:
        return await engine.scheduler.read(ranges, reason="manifest")
    except NotFoundError:
        pass

    async def read(place: ManifestLocation) -> memoryview | None:
        try:
            return await read_object(engine, place.location, place.num_bytes, "manifest")
        except NotFoundError:
            return None

    return await all_of(map(read, places))


async def load_asof(engine: Engine, table: Table, time: datetime) -> Manifest:
    """Read the manifest of the latest version that was committed strictly before a time.

    Commit times are by the committers' clocks and need not ascend, so all are compared.

    Cost: one LIST, then concurrent GETs of all manifests that are not cached, then a GET of the
    chosen one unless it is cached.

    Args:
        time: time with a time zone.

    Raises:
        NotFoundError: there is no dataset, or no version is old enough.
    """
    totals = await _all_totals(engine, await list_manifests(engine, table))
    older = [
        (version.version, where)
        for version, where in totals
        if version.timestamp is not None and version.timestamp < time
    ]
    if not older:
        raise table.lacks(time, f"no version from before {time.isoformat()}")
    _, where = max(older)
    return await load_manifest(engine, where)
