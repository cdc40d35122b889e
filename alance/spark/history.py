"""Which batches of a producer a table has: read from the transactions of its versions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from alance.errors import NotFoundError
from alance.spark.versions import table_of
from alance.spark.worker import session_for
from alance.versioning import load
from alance.versioning.outcome import notes_of

if TYPE_CHECKING:
    from alance.format.table.manifest import Manifest
    from alance.spark.options import Options

AT_ONCE: Final = 16  # manifests read together on the way back


async def last_batch(options: Options, producer: str) -> int | None:
    """The number of a producer's last batch in the table; None: it has none.

    Cost: a LIST, and the manifests back to that batch, 16 at a time: of a producer that commits
    often, one round. Of a new one: all that cleanup has left.
    """
    engine = session_for(options).engine
    table = table_of(options)
    try:
        places = await load.list_manifests(engine, table)
    except NotFoundError:
        return None
    places = sorted(places, key=lambda one: one.version, reverse=True)

    async def manifest(place: load.ManifestLocation) -> Manifest | None:
        try:
            return await load.load_manifest(engine, place, keep=False)
        except NotFoundError:
            return None  # cleaned up meanwhile

    for start in range(0, len(places), AT_ONCE):
        chunk = await asyncio.gather(*(manifest(one) for one in places[start : start + AT_ONCE]))
        for found in chunk:
            if found is not None and producer in (notes := notes_of(found).producers):
                return notes[producer][1]
    return None
