"""The files of a table as rows: files that versions need, and files that exist."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.base.checks import check_count
from alance.base.progress import Reporter, Stage
from alance.errors import CorruptFileError, NotFoundError
from alance.format.table.fragment import (
    DataFile,
    Fragment,
    data_path,
    deletion_path,
    lineage_paths,
)
from alance.format.table.naming import TRANSACTIONS, VERSIONS
from alance.io.loop.readahead import Job, readahead
from alance.ops.cleanup.files import index_folder
from alance.versioning.load import list_manifests, load_manifest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping

    from alance.base.progress import OnProgress
    from alance.format.table.fragment import DatasetBasePath
    from alance.format.table.manifest import Manifest
    from alance.io.reading.engine import Engine
    from alance.versioning.load import ManifestLocation
    from alance.versioning.table import Table

MANIFESTS_AT_ONCE: Final = 16
MANIFEST_BYTES: Final = 64 << 20  # bytes of manifests that are read ahead
LISTED_ROWS: Final = 4096  # rows per batch, from four pages of a listing

TRACKED: Final = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("base_uri", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("type", pa.dictionary(pa.int8(), pa.string()), nullable=False),
    ]
)
STORED_SCHEMA: Final = pa.schema(
    [
        pa.field("base_uri", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", "UTC"), nullable=False),
    ]
)
FILE_KINDS: Final = ("manifest", "data file", "deletion file", "transaction file", "index file")


async def tracked_files(
    engine: Engine,
    table: Table,
    min_version: int | None,
    progress: OnProgress | None,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield the files that each version needs, in a batch; see `UpkeepVerbs.tracked_files`."""
    reporter = Reporter.of(progress)
    if min_version is not None:
        check_count("min_version", min_version, 0)
    places = await list_manifests(engine, table)
    places = [place for place in places if place.version >= (min_version or 0)][::-1]
    listed: dict[str, list[str]] = {}

    async def read(place: ManifestLocation) -> pa.RecordBatch | None:
        try:
            manifest = await load_manifest(engine, place, keep=False)
        except NotFoundError:  # removed by a cleanup meanwhile
            return None
        for folder in _unlisted(manifest):
            if folder not in listed:
                listed[folder] = [path async for path in _names(engine, table, folder)]
        return await engine.pool.run(partial(_batch, table.uri, manifest, place, listed))

    jobs = (Job(place.num_bytes or 0, partial(read, place)) for place in places)
    ahead = readahead(jobs, budget_bytes=MANIFEST_BYTES, max_jobs=MANIFESTS_AT_ONCE)
    try:
        with Stage("manifests", len(places), "versions", reporter) as stage:
            async with aclosing(ahead) as batches:
                async for batch in batches:
                    stage.add(1)
                    if batch is not None:
                        yield batch
    finally:
        if reporter is not None:
            reporter.close()


async def all_files(engine: Engine, table: Table) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield the files below a branch's folder; see `UpkeepVerbs.all_files`."""
    top = f"{table.root}/"
    rows: list[tuple[str, int, object]] = []
    listing = engine.scheduler.list(table.root, reason="all files")
    async with aclosing(listing) as entries:  # type: ignore[type-var]  # a generator
        async for entry in entries:
            rows.append((entry.path.removeprefix(top), entry.num_bytes, entry.last_modified))
            if len(rows) == LISTED_ROWS:
                yield _stored(table.uri, rows)
                rows = []
    if rows:
        yield _stored(table.uri, rows)


def _stored(uri: str, rows: list[tuple[str, int, object]]) -> pa.RecordBatch:
    paths, sizes, times = (list(column) for column in zip(*rows, strict=True))
    bases = _repeated([0] * len(rows), [uri], pa.int32())
    arrays = [bases, *map(pa.array, (paths, sizes), STORED_SCHEMA.types[1:3])]
    return pa.RecordBatch.from_arrays(
        [*arrays, pa.array(times, STORED_SCHEMA.types[3])], schema=STORED_SCHEMA
    )


def _batch(
    uri: str, manifest: Manifest, place: ManifestLocation, listed: Mapping[str, list[str]]
) -> pa.RecordBatch:
    """Return the files that a version needs. CPU work."""
    bases, paths, kinds = [], [], []
    places = {base_id: number for number, base_id in enumerate(manifest.base_paths, 1)}
    rows = [(None, f"{VERSIONS}/{place.location.rpartition('/')[2]}", 0)]
    for base_id, path, kind in [*rows, *_files(manifest, listed)]:
        bases.append(0 if base_id is None else places[base_id])
        paths.append(path)
        kinds.append(kind)
    uris = [uri, *(base.path for base in manifest.base_paths.values())]
    arrays = [
        pa.repeat(pa.scalar(manifest.version, pa.int64()), len(paths)),
        _repeated(bases, uris, pa.int32()),
        pa.array(paths, pa.string()),
        _repeated(kinds, FILE_KINDS, pa.int8()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=TRACKED)


def _files(
    manifest: Manifest, listed: Mapping[str, list[str]]
) -> Iterator[tuple[int | None, str, int]]:
    """Yield the base (None for the table's folder), the path and the kind's number of each file."""
    if manifest.head.transaction_file:
        yield None, f"{TRANSACTIONS}/{manifest.head.transaction_file}", 3
    for message in manifest.fragments.records:
        fragment = Fragment.from_protobuf(message)
        overlays = (own.data_file for own in message.overlays if own.HasField("data_file"))
        for file in (*fragment.files, *map(DataFile.from_protobuf, overlays)):
            yield file.base_id, data_path(file, _base(manifest, file.base_id)), 1
        for path in lineage_paths(message):
            yield None, path, 1
        if fragment.deletion_file is not None:
            base_id = fragment.deletion_file.base_id
            yield base_id, deletion_path(fragment, _base(manifest, base_id)), 2
    for index in manifest.indices:
        folder = index_folder(index.uuid.uuid)
        own_base = index.base_id if index.HasField("base_id") else None
        base = _base(manifest, own_base)
        names = [file.path for file in index.files] or listed.get(folder, [])
        top = "" if base is not None and not base.is_dataset_root else f"{folder}/"
        for name in names:
            yield own_base, f"{top}{name}", 4


def _base(manifest: Manifest, base_id: int | None) -> DatasetBasePath | None:
    if base_id is not None and base_id not in manifest.base_paths:
        raise CorruptFileError(
            f"version {manifest.version}: base path {base_id} is not in the manifest"
        )
    return None if base_id is None else manifest.base_paths[base_id]


def _unlisted(manifest: Manifest) -> list[str]:
    """Return the folders of indices whose records list no files; old writers wrote such records."""
    return [
        index_folder(index.uuid.uuid)
        for index in manifest.indices
        if not index.files and not index.HasField("base_id")
    ]


async def _names(engine: Engine, table: Table, folder: str) -> AsyncGenerator[str, None]:
    location = table.folder(folder)
    try:
        listing = engine.scheduler.list(location, reason="index files")
        async with aclosing(listing) as entries:  # type: ignore[type-var]  # a generator
            async for entry in entries:
                yield entry.path.removeprefix(f"{location}/")
    except NotFoundError:
        return


def _repeated(numbers: list[int], values: object, kind: pa.DataType) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(numbers, kind), pa.array(values, pa.string()))
