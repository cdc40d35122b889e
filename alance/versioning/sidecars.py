"""Reading of objects that manifests refer to: deletion vectors, transactions, row id sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.errors import AlanceError, NotFoundError
from alance.format.plans import ByteRange
from alance.format.table.deletions import DeletionVector, parse_arrow, parse_bitmap
from alance.versioning.load import keep_object, read_object, recall_object

if TYPE_CHECKING:
    from collections.abc import Hashable

    from alance.format.proto import table_pb2
    from alance.format.table.fragment import Fragment
    from alance.format.table.manifest import Manifest
    from alance.format.table.transaction import Transaction
    from alance.io.reading.engine import Engine
    from alance.versioning.table import Table


async def load_deletions(
    engine: Engine, table: Table, manifest: Manifest, fragment: Fragment, num_physical_rows: int
) -> DeletionVector:
    """Return the deletion vector of a fragment, which must have a deletion file.

    Cost: a GET if uncached.

    Args:
        num_physical_rows: number of the fragment's physical rows, an upper bound of the offsets.

    Raises:
        NotFoundError: the file is gone.
        CorruptFileError: the bytes contradict the format.
    """
    location = table.deletion_file(manifest, fragment)
    assert fragment.deletion_file is not None
    parse = parse_bitmap if fragment.deletion_file.is_bitmap else parse_arrow

    # No e-tag is needed, because file names are unique.
    entity = f"deletions of {num_physical_rows} rows"

    async def load() -> DeletionVector:
        try:
            vector_on_disk = await recall_object(
                engine, location, entity, lambda content: parse(content, num_physical_rows)
            )
            if vector_on_disk is not None:
                return vector_on_disk
            content = await read_object(engine, location, None, "deletions")
            vector = await engine.decode(lambda: parse(content, num_physical_rows), len(content))
            keep_object(engine, location, entity, content)
            return vector
        except AlanceError as error:
            error.add_note(f"in {location}, deletions of fragment {fragment.id}")
            raise

    key = _deletions_key(location, num_physical_rows)
    return await engine.cache.get(key, load, lambda vector: vector.num_bytes)


def keep_deletions(engine: Engine, location: str, vector: DeletionVector) -> None:
    """Add the deletion vector of a file that is being written to the memory cache."""
    key = _deletions_key(location, vector.num_physical_rows)
    engine.cache.put(key, vector, vector.num_bytes)


def _deletions_key(location: str, num_physical_rows: int) -> Hashable:
    return ("deletions", location, num_physical_rows)


async def load_transaction(engine: Engine, table: Table, manifest: Manifest) -> Transaction | None:
    """Return the transaction that made a version; None if it was not stored, or is gone.

    Cost: none if the manifest has it, else one GET.
    """
    await engine.pool.load("alance.format.table.transaction")
    from alance.format.table.transaction import Transaction, parse_transaction

    if manifest.transaction is not None:
        return Transaction.from_protobuf(manifest.transaction)
    name = manifest.head.transaction_file
    if not name:
        return None
    location = table.transaction(name)
    try:
        content = await read_object(engine, location, None, "transaction")
    except NotFoundError:
        return None  # cleaned up
    return parse_transaction(content, location)


async def load_external(engine: Engine, table: Table, record: table_pb2.ExternalFile) -> bytes:
    """Read the part of a file that a fragment refers to. Cost: one GET."""
    location = table.folder(record.path)
    ranges = [ByteRange(location, record.offset, record.offset + record.size)]
    (content,) = await engine.scheduler.read(ranges, reason="row ids")
    return bytes(content)
