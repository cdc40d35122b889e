"""The files of a version, copied to another table's folder.

Names of files are random: one that is there with the same size is the same file, left by a copy
that did not come to its end.

Source: docs/format/table.md, "Clones".
"""

from __future__ import annotations

import posixpath
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

from alance.errors import AlreadyExistsError, UnsupportedError
from alance.format.table.flags import MANAGED_BLOBS
from alance.format.table.fragment import data_path, deletion_path
from alance.format.table.indices import Index
from alance.format.table.naming import BLOBS, DATA, DELETIONS, INDICES
from alance.io.loop.readahead import Job, readahead
from alance.ops.read.managed import objects_by_fragment
from alance.ops.version.objects import copy_object
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.format.table.manifest import Manifest
    from alance.ops.version.snapshot import Snapshot
    from alance.versioning.table import Table

BASES: Final = "_bases"  # folder of a deep clone, with a folder for each of its base paths
COPIES_AT_ONCE: Final = 32
SERVER_BYTES: Final = 5 << 30  # a larger object no cloud copies by one request


@dataclass(frozen=True, slots=True)
class Copied:
    """A file to be copied.

    Attributes:
        path: below the folder of the new table.
        location: of the file.
        num_bytes: 0: not told.
        base_id: of an object that rows name: the base path, 0: the table's folder.
    """

    path: str
    location: str
    num_bytes: int
    base_id: int = 0


async def copy_files(source: Snapshot, target: Table, objects: Sequence[Copied]) -> None:
    """Copy all files that a version needs, but for its manifest and transaction.

    Within a store the store itself copies. Else the bytes come by, a piece of each file in
    memory, as many files at once as the budget of the session has room for.

    Cost: a LIST of five folders of the target, of each folder of an index whose files the manifest
    does not tell, and of the data where there are blobs in files of their own; a COPY, or a GET for
    each 8 MiB and an upload, for each file.

    Args:
        objects: what `named_objects` gave.

    Raises:
        AlreadyExistsError: another file of the same name is there.
        NotFoundError, CorruptFileError: a file of the version is not there, or too short.
        UnsupportedError: data overlays.
        StoreError: a store failed.
    """
    engine = source.engine
    files = await engine.pool.run(lambda: list(_named(source.table, source.manifest)))
    files += [*await _listed(source, files), *objects]
    locations: dict[str, str] = {}
    for file in files:
        if locations.setdefault(file.path, file.location) != file.location:
            raise UnsupportedError(
                f"{locations[file.path]} and {file.location} would be one file, {file.path}"
            )
    files = list({file.path: file for file in files}.values())
    present = await _present(source, target)
    store = target.store

    async def copy(file: Copied) -> None:
        from_store, from_path = engine.registry.resolve(file.location)
        size = file.num_bytes or await engine.scheduler.size(file.location, reason="clone")
        location = target.folder(file.path)
        in_target = present.get(location)
        if in_target == size:
            return
        if in_target is not None:
            raise AlreadyExistsError(
                f"{location}: has {in_target} bytes, the file to copy has {size}"
            )
        if from_store is store and size < SERVER_BYTES:
            await store.copy(from_path, engine.registry.resolve(location)[1])
        else:
            await copy_object(engine, file.location, location, size, "clone")

    held = store.profile.upload_buffer_bytes
    jobs = (Job(min(file.num_bytes or held, held), partial(copy, file)) for file in files)
    budget = source.session.io_buffer_bytes
    copies = readahead(jobs, budget_bytes=budget, max_jobs=COPIES_AT_ONCE, ordered=False)
    async with aclosing(copies):
        async for _ in copies:
            pass


def _named(table: Table, manifest: Manifest) -> Iterator[Copied]:
    """The files whose names the manifest has; CPU work, in any thread."""
    for fragment in manifest.fragments:
        message = fragment.message
        if message.overlays:
            raise UnsupportedError(f"fragment {fragment.id}: data overlays are not copied")
        for file in fragment.files:
            location = table.data_file(manifest, file)
            yield Copied(data_path(file, None), location, file.num_bytes)
        if fragment.deletion_file is not None:
            location = table.deletion_file(manifest, fragment)
            yield Copied(deletion_path(fragment, None), location, 0)
        for external in (
            message.external_row_ids,
            message.external_last_updated_at_versions,
            message.external_created_at_versions,
        ):
            if external.path:
                yield Copied(external.path, table.folder(external.path), 0)
    for record in manifest.indices:
        index = Index.from_protobuf(record)
        for named in record.files:
            location = table.index_file(manifest, index, named.path)
            yield Copied(f"{INDICES}/{index.uuid}/{named.path}", location, named.size_bytes)


async def _listed(source: Snapshot, files: list[Copied]) -> list[Copied]:
    """The files that stores have to be asked for: of indices, and those of blobs."""
    table, manifest = source.table, source.manifest
    listed = []
    for record in manifest.indices:
        if not record.files:
            index = Index.from_protobuf(record)
            folder = posixpath.dirname(table.index_file(manifest, index, "index"))
            listed += [
                Copied(f"{INDICES}/{index.uuid}/{path}", location, num_bytes)
                for path, (location, num_bytes) in (await _below(source, folder)).items()
            ]
    if not any(leaf.is_blob_v2 for leaf in source.schema.walk()):
        return listed
    data = {file.location: file.path for file in files if file.location.endswith(".lance")}
    for folder in sorted({posixpath.dirname(location) for location in data}):
        for location, num_bytes in (await _below(source, folder)).values():
            path = data.get(f"{posixpath.dirname(location)}.lance")
            if path is not None and location.endswith(".blob"):
                name = f"{path.removesuffix('.lance')}/{posixpath.basename(location)}"
                listed.append(Copied(name, location, num_bytes))
    return listed


async def named_objects(source: Snapshot) -> list[Copied]:
    """The objects that rows of a version name by paths, and that a deep clone has copies of.

    Cost: nothing where there can be none; else a scan of the descriptions of blobs.

    Raises: see `objects_by_fragment`.
    """
    manifest = source.manifest
    if not manifest.base_paths and not manifest.head.reader_feature_flags & MANAGED_BLOBS:
        return []
    ids = [fragment.id for fragment in manifest.fragments]
    objects_of = await objects_by_fragment(source, ids, with_external=True)
    objects = {item for named in objects_of.values() for item in named.items()}
    return [
        Copied(f"{BASES}/{base}/{path}" if base else path, location, 0, base)
        for (_, base, path), location in sorted(objects)
    ]


async def _present(source: Snapshot, target: Table) -> dict[str, int]:
    """The sizes of files that are in the new table's folders, by location."""
    sizes: dict[str, int] = {}
    for name in (DATA, DELETIONS, INDICES, BLOBS, BASES):
        sizes |= dict((await _below(source, target.folder(name))).values())
    return sizes


async def _below(source: Snapshot, folder: str) -> dict[str, tuple[str, int]]:
    """The location and the size of each object below a folder, by its path there."""
    entries = source.engine.scheduler.list(folder, reason="clone")
    return {
        entry.path.removeprefix(f"{folder}/"): (entry.path, entry.num_bytes)
        async for entry in entries
    }
