"""Producers' batches that a table already has, read from the transactions of its last versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.errors import NotFoundError
from alance.format.table.naming import manifest_name
from alance.io.loop.tasks import all_of
from alance.versioning.load import ManifestLocation, load_manifest
from alance.versioning.outcome import last_number, notes_of

if TYPE_CHECKING:
    from alance.format.table.manifest import Manifest
    from alance.format.table.naming import NamingScheme
    from alance.io.reading.engine import Engine
    from alance.versioning.table import Table

HISTORY_READS_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class History:
    """Notes of producers in the last versions.

    Attributes:
        tokens: tokens of the batches.
        last: number of the last batch of the requested producer; 0 if unknown.
    """

    tokens: frozenset[str]
    last: int = 0


async def read_history(
    engine: Engine,
    table: Table,
    newest: Manifest,
    scheme: NamingScheme,
    limit: int,
    producer: str | None,
) -> History:
    """Read the notes of a version and the versions before it, up to `limit` versions.

    Cost: a GET for each of the older versions, 16 at a time; none if the newest version names the
    producer.

    Args:
        producer: producer whose last batch is searched; None: read the tokens of all versions.
    """
    if producer is not None and (last := last_number(newest, producer)) is not None:
        return History(frozenset(), last)
    tokens: set[str] = set()
    stop = max(0, newest.version - limit)
    version = newest.version
    while version > stop:
        group = range(version, max(stop, version - HISTORY_READS_AT_ONCE), -1)
        for manifest in await all_of(
            _version(engine, table, number, newest, scheme) for number in group
        ):
            if manifest is None:  # this version and all earlier ones have been removed by a cleanup
                return History(frozenset(tokens))
            notes = notes_of(manifest)
            tokens |= notes.tokens
            if producer is not None and producer in notes.producers:
                return History(frozenset(tokens), notes.producers[producer][1])
        version -= HISTORY_READS_AT_ONCE
    return History(frozenset(tokens))


async def _version(
    engine: Engine, table: Table, number: int, newest: Manifest, scheme: NamingScheme
) -> Manifest | None:
    if number == newest.version:
        return newest
    name = table.manifest(manifest_name(number, scheme))
    try:
        return await load_manifest(engine, ManifestLocation(number, name, None, scheme), keep=False)
    except NotFoundError:
        return None
