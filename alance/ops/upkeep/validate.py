"""Validate a version against the format: manifest, file footers, and objects of blobs."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import AlanceError, CorruptFileError, NotFoundError, StoreError, UnsupportedError
from alance.file.older.v2_0 import open_fields
from alance.file.open.columns import OwnStates
from alance.file.open.files import from_tail, open_columns, open_file
from alance.file_version import FileVersion
from alance.format.container import TAIL_BYTES
from alance.format.layouts.fields import leaf_columns
from alance.format.table.changes.apply_indices import SYSTEM
from alance.format.table.changes.lineage import is_spilled, lineage_of
from alance.format.table.deletions import parse_arrow, parse_bitmap
from alance.format.table.flags import DELETION_FILES
from alance.format.table.indices import Index
from alance.format.table.row_ids import num_row_ids
from alance.format.v0_1.metadata import BatchContainer
from alance.io.loop.tasks import all_of
from alance.ops.cleanup.files import index_folder
from alance.ops.read.managed import ends_by_location
from alance.ops.version.handle import READABLE_VERSIONS
from alance.ops.version.lineage import load_lineage
from alance.ops.version.mem_wal import mention_mem_wal
from alance.versioning.row_index import runs_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from alance.format.plans import Plan
    from alance.format.proto import table_pb2
    from alance.format.schema import Schema
    from alance.format.table.changes.lineage import Lineage
    from alance.format.table.deletions import DeletionVector
    from alance.format.table.fragment import DataFile, Fragment
    from alance.format.table.manifest import Manifest
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot

CHECKED_FRAGMENTS_AT_ONCE: Final = 64  # fragments that are checked concurrently
LISTED_OBJECTS: Final = 8  # objects in a folder; for more, one LIST replaces their HEADs
SHOWN: Final = 100


async def validate(snapshot: Snapshot) -> None:
    """Check a version; see `UpkeepVerbs.validate`."""
    mention_mem_wal(snapshot.table, snapshot.manifest, again=True)
    _raise_for(snapshot, await findings(snapshot))


async def validate_fragment(snapshot: Snapshot, handle: FragmentHandle) -> None:
    """Check a fragment; see `DatasetFragment.validate`."""
    texts, _ = await _fragment(snapshot, handle, asyncio.Semaphore())
    _raise_for(snapshot, [f"fragment {handle.id}: {text}" for text in texts])


def _raise_for(snapshot: Snapshot, texts: list[str]) -> None:
    if texts:
        more = [] if len(texts) <= SHOWN else [f"and {len(texts) - SHOWN} more"]
        listed = "\n".join(f"- {text}" for text in [*texts[:SHOWN], *more])
        raise CorruptFileError(
            f"dataset {snapshot.uri!r}, version {snapshot.version}: {_counted(texts)}\n{listed}"
        )


def _counted(texts: list[str]) -> str:
    return "1 finding" if len(texts) == 1 else f"{len(texts)} findings"


async def findings(snapshot: Snapshot) -> list[str]:
    """Return all findings, in the order of manifest, fragments, row ids, indices.

    Raises:
        StoreError: the store failed, other than by a missing object.
    """
    manifest, pool = snapshot.manifest, snapshot.engine.pool
    all_texts = await pool.run(lambda: list(manifest_findings(manifest)))
    limit = asyncio.Semaphore(CHECKED_FRAGMENTS_AT_ONCE)
    of_fragments = await all_of(_fragment(snapshot, handle, limit) for handle in snapshot.handles)
    vectors: dict[int, DeletionVector] = {}
    for fragment_id, (texts, vector) in zip(
        (handle.id for handle in snapshot.handles), of_fragments, strict=True
    ):
        all_texts += [f"fragment {fragment_id}: {text}" for text in texts]
        if vector is not None:
            vectors[fragment_id] = vector
    if snapshot.has_stable_row_ids:
        all_texts += await _row_ids(snapshot, vectors)
    of_indices = await all_of(of_segment(snapshot, index, limit) for index in manifest.indices)
    all_texts += [text for texts in of_indices for text in texts]
    return all_texts


async def _fragment(
    snapshot: Snapshot, handle: FragmentHandle, limit: asyncio.Semaphore
) -> tuple[list[str], DeletionVector | None]:
    """Return findings in a fragment's files, and its deletion vector.

    The vector is None if the fragment has no deletion file, or if the file cannot be read.
    """
    async with limit:
        texts: list[str] = []
        rows = handle.num_physical_rows
        for file in handle.fragment.files:
            try:
                counts, _ = await rows_of_file(snapshot, file)
            except (CorruptFileError, NotFoundError) as error:
                texts.append(f"data file {file.path!r}: {error}")
                continue
            rows = rows or next(iter(counts.values()), 0)
            texts += [
                f"data file {file.path!r}: column {column} has {count} rows, expected {rows}"
                for column, count in counts.items()
                if count != rows
            ]
        recorded_rows = snapshot.manifest.doubted.get(handle.id, rows)
        if rows and recorded_rows != rows:
            texts.append(f"it has {rows} rows, the manifest says {recorded_rows}")
        vector = None
        deletion = handle.fragment.deletion_file
        if deletion is not None and rows:
            try:
                vector = await deletions_of(snapshot, handle, rows)
            except (CorruptFileError, NotFoundError) as error:
                texts.append(f"deletion file {deletion.name(handle.id)!r}: {error}")
            else:
                num_recorded = deletion.num_deleted_rows
                if num_recorded not in (0, len(vector.rows)):
                    texts.append(
                        f"deletion file {deletion.name(handle.id)!r}: {len(vector.rows)} rows, "
                        f"the manifest says {num_recorded}"
                    )
        if not texts:
            texts = await _blobs(snapshot, handle.id)
        return texts, vector


async def _blobs(snapshot: Snapshot, fragment_id: int) -> list[str]:
    """Return findings in the blob objects of a fragment's live rows.

    Cost: a scan of the descriptions; a HEAD for each object, or a LIST for a folder with many.
    """
    try:
        ends = await ends_by_location(snapshot, [fragment_id])
    except UnsupportedError:  # blobs inside maps, whose descriptions cannot be located
        return []
    except (CorruptFileError, NotFoundError) as error:
        return [f"blobs: {error}"]
    sizes = await _sizes(snapshot, sorted(ends))
    texts = []
    for location, size in sizes.items():
        if size is None:
            texts.append(f"blobs: {location!r} is not there")
        elif size < ends[location]:
            texts.append(f"blobs: {location!r} has {size} bytes, blobs end at {ends[location]}")
    return texts


async def _sizes(snapshot: Snapshot, locations: list[str]) -> dict[str, int | None]:
    """Return the sizes of objects; None for a missing object."""
    scheduler = snapshot.engine.scheduler
    sizes: dict[str, int | None] = dict.fromkeys(locations)
    beside = [location for location in locations if location.endswith(".blob")]
    folders = Counter(location.rpartition("/")[0] for location in beside)
    listed = {folder for folder, count in folders.items() if count > LISTED_OBJECTS}
    for folder in listed:
        async with aclosing(scheduler.list(folder, reason="validate")) as objects:  # type: ignore[type-var]  # a generator
            async for meta in objects:
                if meta.path in sizes:
                    sizes[meta.path] = meta.num_bytes
    for location in locations:
        if location.rpartition("/")[0] not in listed:
            with suppress(NotFoundError):
                sizes[location] = await scheduler.size(location, reason="validate")
    return sizes


async def rows_of_file(
    snapshot: Snapshot, file: DataFile, *, believes_size: bool = True
) -> tuple[dict[int, int], int]:
    """Return the number of rows of each column of the schema in a file, and the file's size.

    Cost: one or two GETs.

    Args:
        believes_size: True to raise an error if the size differs from the manifest's.

    Raises:
        CorruptFileError: size, version or columns contradict the manifest.
        NotFoundError: the file is missing.
    """
    engine = snapshot.engine
    location = snapshot.table.data_file(snapshot.manifest, file)
    tail, size = await engine.scheduler.read_tail(location, TAIL_BYTES, reason="validate")
    if believes_size and file.num_bytes not in (0, size):
        raise CorruptFileError(f"{size} bytes, the manifest says {file.num_bytes}")
    if file.version not in READABLE_VERSIONS:
        return {}, size
    multipliers = _multipliers(snapshot.schema, file)

    def read() -> Plan[dict[int, int]]:
        states = OwnStates()
        container = yield from open_file(location, size, states)
        if container.version is not file.version:
            raise CorruptFileError(
                f"file version {container.version.value}, the manifest says {file.version.value}"
            )
        if isinstance(container, BatchContainer):
            return {min(file.columns, default=0): container.num_rows}
        for column in file.columns.values():
            if column >= container.num_columns:
                raise CorruptFileError(f"no column {column}, it has {container.num_columns}")
        if container.version is FileVersion.V2_0:  # list columns count only their own rows
            fields = snapshot.schema.fields
            opened = yield from open_fields(fields, file.columns, container, states)
            return {file.columns[own.field.id]: own.num_rows for own in opened}
        columns = yield from open_columns(container, list(multipliers), states)
        return {
            number: column.num_rows // multiplier
            for (number, multiplier), column in zip(multipliers.items(), columns, strict=True)
        }

    plan = from_tail(read(), location, tail, size - len(tail))
    return await engine.drive(plan, "validate"), size


def _multipliers(schema: Schema, file: DataFile) -> dict[int, int]:
    """Return the number of values per row, for each column of a file that the schema has."""
    leaves = {
        leaf.field.id: leaf.multiplier for field in schema.fields for leaf in leaf_columns(field)
    }
    return {
        column: leaves.get(field, 1)
        for field, column in file.columns.items()
        if field < 0 or field in leaves
    }


async def deletions_of(snapshot: Snapshot, handle: FragmentHandle, rows: int) -> DeletionVector:
    """Read the deleted rows of a fragment from its file, bypassing the cache."""
    location = snapshot.table.deletion_file(snapshot.manifest, handle.fragment)
    content = await snapshot.engine.scheduler.read_all(location, reason="validate")
    deletion = handle.fragment.deletion_file
    parse = parse_bitmap if deletion is not None and deletion.is_bitmap else parse_arrow
    return await snapshot.engine.decode(lambda: parse(content, rows), len(content))


async def _row_ids(snapshot: Snapshot, vectors: dict[int, DeletionVector]) -> list[str]:
    """Return findings in row ids that files store, and row ids that several live rows have."""
    lineages: dict[int, Lineage] = {}
    texts: list[str] = []
    for handle in snapshot.handles:
        try:
            if is_spilled(handle.fragment.message):
                read = await load_lineage(snapshot, [handle.id])
                lineages[handle.id] = read[handle.id]
                texts += of_lineage(snapshot.manifest, handle.id, read[handle.id])
        except StoreError:
            raise
        except AlanceError as error:
            texts.append(f"fragment {handle.id}: row ids or versions of rows: {error}")

    def rest() -> list[str]:
        for handle in snapshot.handles:
            message = handle.fragment.message
            if handle.id not in lineages and message.WhichOneof("row_id_sequence") is not None:
                try:
                    lineages[handle.id] = lineage_of(message)
                except (CorruptFileError, UnsupportedError):
                    continue  # reported by the checks of the manifest
        return list(of_shared_ids(lineages, vectors))

    return texts + await snapshot.engine.pool.run(rest)


async def of_segment(
    snapshot: Snapshot, index: table_pb2.IndexMetadata, limit: asyncio.Semaphore
) -> list[str]:
    """Return findings in the files of an index segment.

    Files that the manifest lists must exist with their sizes; if it lists none, at least one file
    must exist.

    Cost: a HEAD for each file, or a LIST.
    """
    if index.HasField("base_id") or index.name in SYSTEM:
        return []
    what, folder = f"index {index.name!r}", index_folder(index.uuid.uuid)
    texts = []
    for file in index.files:
        path = f"{folder}/{file.path}"
        async with limit:
            try:
                size = await snapshot.engine.scheduler.size(
                    snapshot.table.folder(path), reason="validate"
                )
            except (NotFoundError, CorruptFileError) as error:
                texts.append(f"{what}: {error}")
                continue
        if file.size_bytes not in (0, size):
            texts.append(f"{what}: {path!r} has {size} bytes, expected {file.size_bytes}")
    if not index.files:
        store, prefix = snapshot.engine.registry.resolve(snapshot.table.folder(folder))
        async with limit, aclosing(store.list(prefix)) as objects:  # type: ignore[type-var]  # a generator
            if await anext(objects, None) is None:
                texts.append(f"{what}: no file in {folder!r}")
    return texts


def manifest_findings(manifest: Manifest) -> Iterator[str]:
    """Yield contradictions in a manifest as text. Pure: nothing is read."""
    yield from _of_schema(manifest)
    for field_id in manifest.repaired:
        yield (
            f"field id {field_id}: data files of one fragment have it twice; it is read as another "
            f"one, and written so by the next commit"
        )
    yield from _of_fragment_ids(manifest)
    for fragment in manifest.fragments:
        yield from _of_fragment(manifest, fragment)
    yield from _of_indices(manifest)
    has_deletions = any(listed.deletion_file is not None for listed in manifest.fragments)
    flags = manifest.head.reader_feature_flags & manifest.head.writer_feature_flags
    if has_deletions and not flags & DELETION_FILES:
        yield "there are deletion files, and the flags do not say so"


def _of_schema(manifest: Manifest) -> Iterator[str]:
    ids = [below.id for below in manifest.head.fields]
    for field_id, count in Counter(ids).items():
        if count > 1:
            yield f"field id {field_id}: {count} fields have it"
    for field in manifest.head.fields:
        if field.parent_id >= 0 and field.parent_id not in ids:
            yield f"field {field.name!r}: its parent, field {field.parent_id}, is not there"
    if manifest.head.HasField("max_allocated_field_id"):
        highest = max(ids, default=-1)
        if highest > manifest.head.max_allocated_field_id:
            yield (
                f"field id {highest}: beyond the highest ever given, "
                f"{manifest.head.max_allocated_field_id}"
            )


def _of_fragment_ids(manifest: Manifest) -> Iterator[str]:
    ids = [fragment.id for fragment in manifest.fragments]
    for before, fragment_id in itertools.pairwise(ids):
        if fragment_id <= before:
            yield f"fragment {fragment_id}: follows fragment {before}, expected ascending ids"
    message = manifest.head
    # Old writers did not record the highest id.
    if ids and message.HasField("max_fragment_id") and max(ids) > message.max_fragment_id:
        yield f"fragment {max(ids)}: beyond the highest id ever given, {message.max_fragment_id}"


def _of_fragment(manifest: Manifest, fragment: Fragment) -> Iterator[str]:
    what = f"fragment {fragment.id}"
    if not fragment.files:
        yield f"{what}: it has no data file"
    fields = Counter(field for file in fragment.files for field in file.columns)
    for field, count in fields.items():
        if count > 1:
            yield f"{what}: {count} data files have field {field}"
    bases = [(f"data file {file.path!r}", file.base_id) for file in fragment.files]
    deletion = fragment.deletion_file
    if deletion is not None:
        bases.append(("deletion file", deletion.base_id))
        if fragment.physical_rows and deletion.num_deleted_rows > fragment.physical_rows:
            yield f"{what}: {deletion.num_deleted_rows} of {fragment.physical_rows} rows deleted"
    for name, base_id in bases:
        if base_id is not None and base_id not in manifest.base_paths:
            yield f"{what}: {name} is below base path {base_id}, which is not there"
    if manifest.has_stable_row_ids:
        yield from _of_row_ids(manifest, fragment)


def _of_row_ids(manifest: Manifest, fragment: Fragment) -> Iterator[str]:
    what, message = f"fragment {fragment.id}", fragment.message
    if message.WhichOneof("row_id_sequence") is None:
        yield f"{what}: it has no row ids, the table's are stable"
        return
    if is_spilled(message):
        return
    try:
        count = num_row_ids(message.inline_row_ids)
        if count != fragment.physical_rows:
            yield f"{what}: row ids of {count} rows, it has {fragment.physical_rows}"
            return
        yield from of_lineage(manifest, fragment.id, lineage_of(message))
    except AlanceError as error:
        yield f"{what}: row ids or versions of rows: {error}"


def of_lineage(manifest: Manifest, fragment_id: int, lineage: Lineage) -> Iterator[str]:
    """Yield findings in the row ids and versions of a fragment's rows."""
    what = f"fragment {fragment_id}"
    next_row_id, version = manifest.head.next_row_id, manifest.version
    if len(lineage.row_ids) and int(lineage.row_ids.max()) >= next_row_id:
        yield f"{what}: row id {lineage.row_ids.max()}, the next unused one is {next_row_id}"
    for name, values in (
        ("created", lineage.created_at),
        ("last updated", lineage.last_updated_at),
    ):
        if len(values) and int(values.max()) > version:
            yield f"{what}: rows {name} in version {values.max()}, this is version {version}"


def of_shared_ids(
    lineages: Mapping[int, Lineage], deletions: Mapping[int, DeletionVector]
) -> Iterator[str]:
    """Yield a finding for each row id that several live rows have. CPU work: a sort of all runs.

    Args:
        lineages: lineage of all fragments, by id.
        deletions: deletion vectors of fragments with deleted rows, by id.
    """
    parts = []
    for fragment_id, lineage in lineages.items():
        vector = deletions.get(fragment_id)
        live = None
        if vector is not None:
            mask = vector.live_mask(0, len(lineage.row_ids))
            live = None if mask is None else np.flatnonzero(mask)
        parts.append(runs_of(fragment_id, lineage.row_ids, live))
    if not parts:
        return
    ids = np.concatenate([run.ids for run in parts])
    addresses = np.concatenate([run.addresses for run in parts])
    lengths = np.concatenate([run.lengths for run in parts])
    order = np.argsort(ids, kind="stable")
    ids, addresses, lengths = ids[order], addresses[order], lengths[order]
    for place in np.flatnonzero(ids[1:] - ids[:-1] < lengths[:-1]).tolist():
        shared = int(ids[place + 1])
        first = int(addresses[place]) + shared - int(ids[place])
        places = [f"fragment {address >> 32}, row {address & 0xFFFFFFFF}" for address in
                  (first, int(addresses[place + 1]))]  # fmt: skip
        yield f"row id {shared}: two live rows have it, {places[0]} and {places[1]}"


def _of_indices(manifest: Manifest) -> Iterator[str]:
    fields = {field.id for field in manifest.head.fields}
    seen: set[object] = set()
    covered: defaultdict[str, frozenset[int]] = defaultdict(frozenset)
    for message in manifest.indices:
        what = f"index {message.name!r}"
        try:
            index = Index.from_protobuf(message)
        except AlanceError as error:
            yield f"{what}: {error}"
            continue
        if index.uuid in seen:
            yield f"{what}: two segments have UUID {index.uuid}"
        seen.add(index.uuid)
        highest = manifest.head.max_fragment_id
        beyond = [fragment_id for fragment_id in index.fragment_ids or () if fragment_id > highest]
        if beyond and manifest.head.HasField("max_fragment_id"):
            yield f"{what}: covers fragments {_first_of(beyond)}, ids go up to {highest}"
        if message.name in SYSTEM:
            continue
        if gone := set(index.fields) - fields:
            yield f"{what}: fields {sorted(gone)} are not in the schema"
        repeated = covered[message.name] & (index.fragment_ids or frozenset())
        if repeated:
            yield f"{what}: two segments cover fragments {_first_of(repeated)}"
        covered[message.name] |= index.fragment_ids or frozenset()
        if index.dataset_version > manifest.version:
            yield f"{what}: of version {index.dataset_version}, this is {manifest.version}"
        if message.HasField("base_id") and message.base_id not in manifest.base_paths:
            yield f"{what}: below base path {message.base_id}, which is not there"


def _first_of(numbers: Iterable[int]) -> str:
    ordered = sorted(numbers)
    return str(ordered) if len(ordered) < 10 else f"{ordered[:9]} and {len(ordered) - 9} more"
