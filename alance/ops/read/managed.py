"""Scan of blob descriptions for the objects that the blobs of a version refer to.

Source: docs/format/file.md, "Blobs".
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from alance.format.numbers import as_numbers
from alance.format.table.flags import MANAGED_BLOBS
from alance.ops.blobs.places import (
    check_structure,
    ends_of,
    fields_with_blobs,
    leaves_of,
    named_objects,
)
from alance.ops.read.options import ScanOptions
from alance.ops.read.scan import scanned
from alance.ops.version.projection import ROW_ADDRESS
from alance.ops.version.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from alance.base.arrays import UInt64s
    from alance.format.field import Field
    from alance.format.table.manifest import Manifest
    from alance.ops.blobs.places import ObjectPath
    from alance.session import Session
    from alance.versioning.table import Table


async def objects_by_fragment(
    snapshot: Snapshot, fragments: Sequence[int], *, with_external: bool = False
) -> dict[int, dict[ObjectPath, str]]:
    """Return the locations of the objects that live rows refer to, by fragment id.

    Cost: a scan of the descriptions in these fragments.

    Args:
        with_external: True to include objects below base paths outside of the table.

    Raises:
        UnsupportedError: blobs are inside of other types than structs and lists.
        NotFoundError, CorruptFileError: a data file is missing or damaged.
        StoreError: a store failed.
    """
    objects_of: dict[int, dict[ObjectPath, str]] = defaultdict(dict)

    def find(leaf: Field, array: pa.Array, owners: UInt64s) -> None:
        objects = named_objects(snapshot, leaf, array, owners, with_external=with_external)
        for fragment, locations in objects.items():
            objects_of[fragment].update(locations)

    await _look(snapshot, fragments, find)
    return objects_of


async def ends_by_location(snapshot: Snapshot, fragments: Sequence[int]) -> dict[str, int]:
    """Return, for each object, the end of the bytes that live blobs use; see `ends_of`.

    Cost and errors: as for `objects_by_fragment`.
    """
    ends: dict[str, int] = defaultdict(int)

    def find(leaf: Field, array: pa.Array, owners: UInt64s) -> None:
        for location, end in ends_of(snapshot, leaf, array, owners).items():
            ends[location] = max(end, ends[location])

    await _look(snapshot, fragments, find)
    return ends


async def _look(
    snapshot: Snapshot,
    fragments: Sequence[int],
    find: Callable[[Field, pa.Array, UInt64s], None],
) -> None:
    """Call `find` in the pool on all blob descriptions in fragments.

    Args:
        find: function that gets a blob field, its descriptions, and the fragment id of each
            description.
    """
    fields = fields_with_blobs(snapshot.schema)
    for field in fields:
        check_structure(field)
    if not fields or not fragments:
        return
    options = ScanOptions(with_row_address=True, fragments=fragments)
    names = [field.name for field in fields]

    def find_all(batch: pa.RecordBatch) -> None:
        owners = as_numbers(batch.column(ROW_ADDRESS)) >> np.uint64(32)
        for field in fields:
            for leaf in leaves_of(field, batch.column(field.name), owners):
                find(*leaf)

    async with aclosing(scanned(snapshot, names, options)) as batches:
        async for batch in batches:
            await snapshot.engine.pool.run(partial(find_all, batch))


class ObjectReader:
    """Reader of the objects that versions of a table and its branches refer to, for cleanup.

    Versions share most fragments, so each fragment is only scanned once.
    """

    def __init__(self, session: Session, table: Table) -> None:
        self._session = session
        self._table = table
        self._known: dict[tuple[object, ...], frozenset[str]] = {}
        self._lock = asyncio.Lock()  # because versions that are read concurrently share fragments

    async def __call__(self, manifest: Manifest) -> set[str]:
        """Return the locations of a version's objects. Errors are as for `objects_by_fragment`."""
        if not manifest.head.reader_feature_flags & MANAGED_BLOBS:
            return set()
        snapshot = Snapshot(self._session, self._table, manifest)
        columns = tuple(leaf.id for leaf in snapshot.schema.walk() if leaf.is_blob_v2)
        places = tuple((number, base.path) for number, base in manifest.base_paths.items())
        keys = {
            message.id: (snapshot.table.root, places, columns, message.SerializeToString())
            for message in manifest.fragments.records
        }
        async with self._lock:
            new = [number for number, key in keys.items() if key not in self._known]
            objects_of = await objects_by_fragment(snapshot, new)
            for number in new:
                self._known[keys[number]] = frozenset(objects_of.get(number, {}).values())
        return {location for key in keys.values() for location in self._known[key]}
