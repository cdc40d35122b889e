"""Which batches of a producer a table has.

The latest version tells it in its configuration. Where others wrote the table, or so many
producers did that this one was dropped, the transactions of the versions are looked through.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from alance.errors import NotFoundError
from alance.spark.versions import table_of
from alance.spark.worker import session_for
from alance.versioning import load
from alance.versioning.outcome import last_number

if TYPE_CHECKING:
    from alance.format.table.manifest import Manifest
    from alance.spark.options import Options

AT_ONCE: Final = 16  # manifests read together on the way back


async def last_batch(options: Options, producer: str) -> int | None:
    """The number of a producer's last batch in the table; None: it has none.

    Cost: a LIST and a GET. Of a producer that the latest version does not tell of, such as a new
    one: all manifests that cleanup has left, 16 at a time.
    """
    engine = session_for(options).engine
    table = table_of(options)
    try:
        newest = await load.load_latest(engine, table)
        if (number := last_number(newest, producer)) is not None:
            return number
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
            if found is not None and (number := last_number(found, producer)) is not None:
                return number
    return None
