"""Copies of the files of a version to another table's folder.

File names are random, so a file of the same name and size in the target is the same file, left by
an earlier copy that was interrupted.

Source: docs/format/table.md, "Clones".
"""

from __future__ import annotations

import posixpath
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

from alance.base.progress import Stage
from alance.base.records import dataclass
from alance.errors import AlreadyExistsError, UnsupportedError
from alance.format.table.flags import MANAGED_BLOBS
from alance.format.table.fragment import data_path, deletion_path, lineage_paths
from alance.format.table.indices import Index
from alance.format.table.naming import BLOBS, DATA, DELETIONS, INDICES
from alance.io.loop.readahead import Job, readahead
from alance.ops.read.managed import objects_by_fragment
from alance.ops.version.objects import copy_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.format.table.manifest import Manifest
    from alance.ops.version.snapshot import Snapshot
    from alance.versioning.table import Table

BASES: Final = "_bases"  # `_bases/{id}` in a deep clone has the objects of base path `id`
COPIES_AT_ONCE: Final = 32
SERVER_BYTES: Final = 5 << 30  # largest object that every cloud copies in one request


@dataclass(frozen=True, slots=True)
class Copied:
    """File to copy.

    Attributes:
        path: path of the copy below the new table's folder.
        location: location of the source file.
        num_bytes: size in bytes; 0: unknown.
        base_id: id of the base path of an object that rows name; 0: the table's folder.
    """

    path: str
    location: str
    num_bytes: int
    base_id: int = 0


async def copy_files(source: Snapshot, target: Table, objects: Sequence[Copied]) -> None:
    """Copy all files of a version except its manifest and transaction.

    Within one store, the store copies the objects. Between stores the bytes pass through this
    process, with one piece of each file in memory at a time; the session's memory budget limits the
    number of concurrent files.

    Cost: a LIST of five folders of the target; a LIST of each index folder whose files the manifest
    does not name, and of the data folder if blobs have separate files. For each file a COPY, or a
    GET for each 8 MiB and an upload.

    Args:
        objects: result of `named_objects`.

    Raises:
        AlreadyExistsError: the target has another file of the same name.
        NotFoundError, CorruptFileError: a file of the version is missing or too short.
        UnsupportedError: data overlays, or two files with the same path in the target.
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
    with Stage("copy", len(files), "files") as stage:
        async with aclosing(copies):
            async for _ in copies:
                stage.add(1)


def _named(table: Table, manifest: Manifest) -> Iterator[Copied]:
    """Yield the files that the manifest names. CPU work, in any thread."""
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
        for path in lineage_paths(message):
            yield Copied(path, table.folder(path), 0)
    for record in manifest.indices:
        index = Index.from_protobuf(record)
        for named in record.files:
            location = table.index_file(manifest, index, named.path)
            yield Copied(f"{INDICES}/{index.uuid}/{named.path}", location, named.size_bytes)


async def _listed(source: Snapshot, files: list[Copied]) -> list[Copied]:
    """List the files that the manifest does not name: files of some indices, and blobs."""
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
    """Return the objects that rows of a version name by paths; a deep clone copies them.

    Cost: no request if the manifest rules out such objects; otherwise a scan of the blob
    descriptions.

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
    """Return the sizes in bytes of the files in the target's folders, by location."""
    sizes: dict[str, int] = {}
    for name in (DATA, DELETIONS, INDICES, BLOBS, BASES):
        sizes |= dict((await _below(source, target.folder(name))).values())
    return sizes


async def _below(source: Snapshot, folder: str) -> dict[str, tuple[str, int]]:
    """Return the location and size of each object below a folder, by path relative to it."""
    entries = source.engine.scheduler.list(folder, reason="clone")
    return {
        entry.path.removeprefix(f"{folder}/"): (entry.path, entry.num_bytes)
        async for entry in entries
    }
