"""Rows that versions of a table added, and the batches of a producer that a table has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.datasets import Dataset
from alance.errors import NotFoundError
from alance.format.table.operations import (
    Append,
    DataReplacement,
    Delete,
    Merge,
    Overwrite,
    Project,
    Restore,
    Rewrite,
    Update,
)
from alance.ops.version.opening import read_transaction
from alance.ops.version.projection import CREATED_AT
from alance.ops.version.snapshot import Snapshot
from alance.session import table_at
from alance.versioning import load
from alance.versioning.outcome import last_number

if TYPE_CHECKING:
    from typing import Unpack

    from alance.format.table.fragment import Fragment
    from alance.format.table.manifest import Manifest
    from alance.session import OpenArguments

CHANGED_MANIFESTS_AT_ONCE: Final = 16  # manifests read concurrently in the search
QUIET: Final = (Delete, Rewrite, Merge, Project, DataReplacement)  # operations that add no rows


@dataclass(frozen=True, slots=True)
class Added:
    """Fragments that a version added; read them with the dataset of that version.

    Attributes:
        filter: condition of the new rows; None: all rows are new.
        replaced_by: the operation that replaced rows, if the new rows cannot be identified; None if
            they can.
    """

    version: int
    dataset: Dataset
    fragments: tuple[Fragment, ...]
    filter: str | None = None
    replaced_by: str | None = None


async def added_by(dataset: Dataset, version: int) -> Added:
    """Return the fragments that a version added to the version before it.

    For updates and merges of tables with stable row ids, a filter selects the inserted rows.

    Cost: two GETs, of the manifests of the two versions (four for V1 names), and a GET of the
    transaction if the manifest lacks it.

    Args:
        dataset: any version of the table.
        version: number of the version.

    Raises:
        NotFoundError: a cleanup has removed the version or the one before it, or `version` is the
            first one.
    """
    snapshot = dataset._snapshot
    now, before = await asyncio.gather(_version(snapshot, version), _version(snapshot, version - 1))
    transaction = await read_transaction(now)
    operation = None if transaction is None else transaction.change
    ids_before = {fragment.id for fragment in before.manifest.fragments}
    new = tuple(candidate for candidate in now.manifest.fragments if candidate.id not in ids_before)
    opened = Dataset(now)
    if isinstance(operation, QUIET) or not new:
        return Added(version, opened, ())
    if isinstance(operation, Update) and now.has_stable_row_ids:
        return Added(version, opened, new, f"{CREATED_AT} = {version}")
    if isinstance(operation, Update | Overwrite | Restore) or (
        operation is not None and not isinstance(operation, Append)
    ):
        return Added(version, opened, (), replaced_by=type(operation).__name__)
    return Added(version, opened, new)


async def _version(snapshot: Snapshot, version: int) -> Snapshot:
    manifest = await load.load_version(snapshot.engine, snapshot.table, version)
    return Snapshot(snapshot.session, snapshot.table, manifest)


async def last_sequence(uri: str, producer: str, **place: Unpack[OpenArguments]) -> int | None:
    """Return the number of a producer's last batch in the table.

    Returns None if the table has no batch of the producer, or does not exist.
    The latest version records the number in its configuration. If other programs wrote the table,
    or this producer's entry was dropped because of many others, the transactions of the versions
    are searched.

    Cost: a LIST and a GET. For a producer that the latest version does not record, such as a new
    one, also another LIST and the GETs of the manifests, 16 at a time, until one names the
    producer.

    Args:
        uri: URI of the table.
        producer: name of the producer.
        place: `storage_options` and `session`, as for `dataset`.

    Raises:
        CorruptFileError, UnsupportedError: a manifest cannot be read.
        StoreError: the store failed.
    """
    session, table = table_at(uri, **place)
    engine = session.engine
    try:
        newest = await load.load_latest(engine, table)
        if (number := last_number(newest, producer)) is not None:
            return number
        places = await load.list_manifests(engine, table)
    except NotFoundError:
        return None
    places = sorted(places, key=lambda place: place.version, reverse=True)

    async def manifest(place: load.ManifestLocation) -> Manifest | None:
        try:
            return await load.load_manifest(engine, place, keep=False)
        except NotFoundError:
            return None  # removed by a cleanup meanwhile

    for start in range(0, len(places), CHANGED_MANIFESTS_AT_ONCE):
        chunk = places[start : start + CHANGED_MANIFESTS_AT_ONCE]
        for older in await asyncio.gather(*(manifest(place) for place in chunk)):
            if older is not None and (number := last_number(older, producer)) is not None:
                return number
    return None
