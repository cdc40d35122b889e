"""Find or create the table of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.errors import AlreadyExistsError
from alance.format.table.naming import NamingScheme
from alance.ops.version.commits import manifests_of
from alance.ops.version.snapshot import Snapshot
from alance.ops.write.ingest import Ingest
from alance.ops.write.ingest_chunk import AppendChunk
from alance.ops.write.ingest_history import read_history
from alance.ops.write.write import write_on
from alance.versioning.load import load_manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from alance.ops.write.ingest_chunk import Chunk
    from alance.ops.write.ingest_options import IngestOptions
    from alance.session import Session
    from alance.versioning.table import Table


async def open_ingest(
    session: Session,
    table: Table,
    schema: pa.Schema | None,
    options: IngestOptions,
    new_chunk: Callable[[Snapshot, IngestOptions, int, float], Chunk] = AppendChunk,
) -> Ingest | None:
    """Open a stream into a table; create an empty table if there is none.

    Cost: a LIST and a GET; with a producer also that of `read_history`; two rounds to create a
    table.

    Args:
        schema: schema of a new table; None to create no table and return None if there is none.
        new_chunk: creates chunks, with the arguments of `Chunk`.
    """
    opened = await _find(session, table)
    if opened is None:
        if schema is None:
            return None
        try:
            created = await write_on(
                session, table, None, [], "create", schema=schema, options=options.writing({})
            )
            return Ingest(created, options, 0, NamingScheme.V2, new_chunk)
        except AlreadyExistsError:  # a concurrent creation was first
            opened = await _find(session, table)
            if opened is None:
                raise
    snapshot, scheme = opened
    last = 0
    if options.producer is not None:
        history = await read_history(
            session.engine, table, snapshot.manifest, scheme, options.history, options.producer
        )
        last = history.last
    return Ingest(snapshot, options, last, scheme, new_chunk)


async def _find(session: Session, table: Table) -> tuple[Snapshot, NamingScheme] | None:
    where = await manifests_of(session, table).latest()
    if where is None:
        return None
    return Snapshot(session, table, await load_manifest(session.engine, where)), where.scheme
