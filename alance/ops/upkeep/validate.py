"""Whether a version is what the format says: the manifest, and the ends of all files it names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from alance.errors import AlanceError, CorruptFileError, NotFoundError, StoreError, UnsupportedError
from alance.file.open import from_tail, open_columns, open_file
from alance.file.states import OwnStates
from alance.file.v2_0_open import open_fields
from alance.file_version import FileVersion
from alance.format.container import TAIL_BYTES
from alance.format.layouts.fields import leaf_columns
from alance.format.table.deletions import parse_arrow, parse_bitmap
from alance.format.table.lineage import is_spilled, lineage_of
from alance.format.v0_1.metadata import BatchContainer
from alance.io.tasks import all_of
from alance.ops.upkeep import validate_manifest as checks
from alance.ops.upkeep.cleanup_files import index_folder
from alance.ops.version.handle import READABLE
from alance.ops.version.lineage import load_lineage

if TYPE_CHECKING:
    from alance.format.plans import Plan
    from alance.format.table.deletions import DeletionVector
    from alance.format.table.fragment import DataFile
    from alance.format.table.lineage import Lineage
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot

AT_ONCE: Final = 64  # fragments
SHOWN: Final = 100


async def validate(snapshot: Snapshot) -> None:
    """Check a version; see `UpkeepVerbs.validate`."""
    found = await findings(snapshot)
    if found:
        more = [] if len(found) <= SHOWN else [f"and {len(found) - SHOWN} more"]
        listed = "\n".join(f"- {one}" for one in [*found[:SHOWN], *more])
        raise CorruptFileError(
            f"dataset {snapshot.uri!r}, version {snapshot.version}: {_counted(found)}\n{listed}"
        )


def _counted(found: list[str]) -> str:
    return "1 finding" if len(found) == 1 else f"{len(found)} findings"


async def findings(snapshot: Snapshot) -> list[str]:
    """All that is wrong, in the order of manifest, fragments, row ids, indices.

    Raises:
        StoreError: the store failed otherwise than by not having an object.
    """
    manifest, pool = snapshot.manifest, snapshot.engine.pool
    found = await pool.run(lambda: list(checks.findings(manifest)))
    limit = asyncio.Semaphore(AT_ONCE)
    of_fragments = await all_of(_fragment(snapshot, one, limit) for one in snapshot.handles)
    vectors: dict[int, DeletionVector] = {}
    for fragment_id, (texts, vector) in zip(
        (one.id for one in snapshot.handles), of_fragments, strict=True
    ):
        found += [f"fragment {fragment_id}: {text}" for text in texts]
        if vector is not None:
            vectors[fragment_id] = vector
    if snapshot.has_stable_row_ids:
        found += await _row_ids(snapshot, vectors)
    found += [text for texts in await all_of(_index_files(snapshot, limit)) for text in texts]
    return found


async def _fragment(
    snapshot: Snapshot, handle: FragmentHandle, limit: asyncio.Semaphore
) -> tuple[list[str], DeletionVector | None]:
    """Findings in the files of a fragment, and in its deleted rows."""
    async with limit:
        texts: list[str] = []
        rows = handle.num_physical_rows
        for file in handle.fragment.files:
            try:
                counts = await _data_file(snapshot, file)
            except (CorruptFileError, NotFoundError) as error:
                texts.append(f"data file {file.path!r}: {error}")
                continue
            rows = rows or next(iter(counts.values()), 0)
            texts += [
                f"data file {file.path!r}: column {column} has {count} rows, expected {rows}"
                for column, count in counts.items()
                if count != rows
            ]
        told_rows = snapshot.manifest.doubted.get(handle.id, rows)
        if rows and told_rows != rows:
            texts.append(f"it has {rows} rows, the manifest says {told_rows}")
        vector = None
        deletion = handle.fragment.deletion_file
        if deletion is not None and rows:
            try:
                vector = await _deletions(snapshot, handle, rows)
            except (CorruptFileError, NotFoundError) as error:
                texts.append(f"deletion file {deletion.name(handle.id)!r}: {error}")
            else:
                told = deletion.num_deleted_rows
                if told not in (0, len(vector.rows)):
                    texts.append(
                        f"deletion file {deletion.name(handle.id)!r}: {len(vector.rows)} rows, "
                        f"the manifest says {told}"
                    )
        return texts, vector


async def _data_file(snapshot: Snapshot, file: DataFile) -> dict[int, int]:
    """The rows of the columns of a file that the schema has, by column. One GET, or two.

    Raises:
        CorruptFileError: its size, version or columns are not what the manifest says.
        NotFoundError: it is not there.
    """
    engine = snapshot.engine
    location = snapshot.table.data_file(snapshot.manifest, file)
    tail, size = await engine.scheduler.read_tail(location, TAIL_BYTES, reason="validate")
    if file.num_bytes not in (0, size):
        raise CorruptFileError(f"{size} bytes, the manifest says {file.num_bytes}")
    if file.version not in READABLE:
        return {}
    leaves = {
        leaf.field.id: leaf.multiplier
        for field in snapshot.schema.fields
        for leaf in leaf_columns(field)
    }
    wanted = {
        column: leaves.get(field, 1)
        for field, column in file.columns.items()
        if field < 0 or field in leaves
    }

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
        if container.version is FileVersion.V2_0:  # columns of lists have rows of their own
            fields = snapshot.schema.fields
            opened = yield from open_fields(fields, file.columns, container, states)
            return {one.column.index: one.num_rows for one in opened}
        columns = yield from open_columns(container, list(wanted), states)
        return {
            number: column.num_rows // multiplier
            for (number, multiplier), column in zip(wanted.items(), columns, strict=True)
        }

    return await engine.drive(from_tail(read(), location, tail, size - len(tail)), "validate")


async def _deletions(snapshot: Snapshot, handle: FragmentHandle, rows: int) -> DeletionVector:
    location = snapshot.table.deletion_file(snapshot.manifest, handle.fragment)
    content = await snapshot.engine.scheduler.read_all(location, reason="validate")
    deletion = handle.fragment.deletion_file
    parse = parse_bitmap if deletion is not None and deletion.is_bitmap else parse_arrow
    return await snapshot.engine.decode(lambda: parse(content, rows), len(content))


async def _row_ids(snapshot: Snapshot, vectors: dict[int, DeletionVector]) -> list[str]:
    """Findings in row ids that only all fragments together tell, or that lie in files."""
    lineages: dict[int, Lineage] = {}
    found: list[str] = []
    for handle in snapshot.handles:
        try:
            if is_spilled(handle.fragment.message):
                read = await load_lineage(snapshot, [handle.id])
                lineages[handle.id] = read[handle.id]
                found += checks.of_lineage(snapshot.manifest, handle.id, read[handle.id])
        except StoreError:
            raise
        except AlanceError as error:
            found.append(f"fragment {handle.id}: row ids or versions of rows: {error}")

    def rest() -> list[str]:
        for handle in snapshot.handles:
            message = handle.fragment.message
            if handle.id not in lineages and message.WhichOneof("row_id_sequence") is not None:
                try:
                    lineages[handle.id] = lineage_of(message)
                except (CorruptFileError, UnsupportedError):
                    continue  # told by the checks of the manifest
        return list(checks.of_shared_ids(lineages, vectors))

    return found + await snapshot.engine.pool.run(rest)


def _index_files(snapshot: Snapshot, limit: asyncio.Semaphore) -> list[Any]:
    async def size_of(what: str, path: str, told: int) -> list[str]:
        async with limit:
            try:
                size = await snapshot.engine.scheduler.size(
                    snapshot.table.folder(path), reason="validate"
                )
            except (NotFoundError, CorruptFileError) as error:
                return [f"{what}: {error}"]
        return (
            [f"{what}: {path!r} has {size} bytes, expected {told}"] if told not in (0, size) else []
        )

    return [
        size_of(
            f"index {index.name!r}", f"{index_folder(index.uuid.uuid)}/{one.path}", one.size_bytes
        )
        for index in snapshot.manifest.indices
        if not index.HasField("base_id")
        for one in index.files
    ]
