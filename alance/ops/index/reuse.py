"""The fragment-reuse index of a table: read, and written by compactions that leave indices.

Source: docs/format/table.md, "Deferred index remap".
"""

from __future__ import annotations

import time
import uuid
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import RetryableConflictError
from alance.format.plans import ByteRange
from alance.format.proto import table_pb2
from alance.format.proto.reuse_index_pb2 import FragmentReuseDetails
from alance.format.table.apply_indices import SYSTEM, covered, reuse_index, with_coverage
from alance.format.table.indices import FRAGMENT_REUSE, Index
from alance.format.table.naming import INDICES
from alance.format.table.reuse import (
    DETAILS_FILE,
    DETAILS_TYPE,
    MAX_INLINE,
    External,
    Inline,
    PastCompaction,
    compactions_of,
    place_of,
    translated,
)
from alance.format.table.roaring import roaring_bytes
from alance.ops.version.objects import discard_objects
from alance.ops.version.snapshot import Snapshot
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.table.manifest import Manifest
    from alance.format.table.reuse import Group


async def load_compactions(snapshot: Snapshot) -> tuple[PastCompaction, ...]:
    """The compactions that indices were left out of, the oldest first; none without such an index.

    Cost: nothing, or a GET where they are in a file of their own.

    Raises:
        CorruptFileError: details that are none.
        NotFoundError: their file is not there.
        UnsupportedError: they are of a later form.
    """
    index = reuse_index(snapshot.manifest.indices)
    if index is None:
        return ()
    content: bytes | None = None
    if (place := place_of(index)) is not None:
        location = snapshot.table.index_file(
            snapshot.manifest, Index.from_protobuf(index), place.path
        )
        part = ByteRange(location, place.offset, place.offset + place.size)
        (read,) = await snapshot.engine.scheduler.read([part], reason="index")
        content = bytes(read)
    return await snapshot.engine.pool.run(lambda: compactions_of(index, content))


@dataclass(slots=True, eq=False)
class ReuseIndex:
    """The fragment-reuse index that tells of a compaction. Whoever does not commit calls `discard`.

    Attributes:
        groups: what the compaction moves.
        folders: of the details' files that were written; each attempt's has its own.
    """

    snapshot: Snapshot
    groups: Sequence[Group]
    folders: list[uuid.UUID] = field(default_factory=list)

    async def entries(self, previous: Manifest) -> list[table_pb2.IndexMetadata] | None:
        """The index section after a version, for the compaction; None: no index has the fragments.

        Cost: of large details a PUT, and a GET where there are some.

        Raises:
            RetryableConflictError: an index covers a group in part, so that it could not follow.
            CorruptFileError, NotFoundError, UnsupportedError: of the entry that is there.
        """
        await self.discard()  # of an attempt before this one, which came too late
        base = Snapshot(self.snapshot.session, self.snapshot.table, previous)
        compactions = await load_compactions(base)
        pool = self.snapshot.engine.pool
        kept, is_needed = await pool.run(lambda: self._kept(previous.indices, compactions))
        before = reuse_index(previous.indices)
        if before is None and not is_needed:
            return None
        new = {digest.id for group in self.groups for digest in group.new_fragments}
        if before is not None:
            new |= covered(before) or frozenset()
        index = table_pb2.IndexMetadata(
            name=FRAGMENT_REUSE,
            dataset_version=base.version,
            fragment_bitmap=roaring_bytes(np.array(sorted(new), np.int64)),
            index_version=0,
            created_at=int(time.time() * 1000),
        )
        folder = uuid.uuid4()
        index.uuid.uuid = folder.bytes
        index.index_details.type_url = DETAILS_TYPE
        index.index_details.value = await self._details(compactions, base.version, folder)
        return [*kept, index]

    def _kept(
        self, indices: Sequence[table_pb2.IndexMetadata], compactions: Sequence[PastCompaction]
    ) -> tuple[list[table_pb2.IndexMetadata], bool]:
        """The other entries, with the fragments of before this compaction; whether some move."""
        kept, is_needed = [], False
        for index in indices:
            coverage = covered(index)
            if index.name == FRAGMENT_REUSE:
                continue
            if coverage is None or index.name in SYSTEM:
                kept.append(index)
                continue
            now = translated(coverage, compactions)
            is_needed |= self._moves(index.name, now)
            kept.append(index if now == coverage else with_coverage(index, now))
        return kept, is_needed

    def _moves(self, name: str, coverage: frozenset[int]) -> bool:
        """Whether an index has groups of the compaction."""
        is_moved = False
        for group in self.groups:
            old = {digest.id for digest in group.old_fragments}
            if (inside := old & coverage) and inside != old:
                raise RetryableConflictError(
                    f"compaction: index {name!r} covers fragments {sorted(inside)} of the group "
                    f"{sorted(old)}; plan it again"
                )
            is_moved |= bool(inside)
        return is_moved

    async def _details(
        self, compactions: Sequence[PastCompaction], version: int, folder: uuid.UUID
    ) -> bytes:
        """The details of an entry; large ones go to a file, whose place is told."""

        def build() -> bytes:
            added = PastCompaction(dataset_version=version, groups=self.groups)
            return bytes(Inline(versions=[*compactions, added]).SerializeToString())

        content = await self.snapshot.engine.pool.run(build)
        if len(content) <= MAX_INLINE:
            inline = Inline.FromString(content)
            return bytes(FragmentReuseDetails(inline=inline).SerializeToString())
        await self._write(folder, content)
        place = External(path=DETAILS_FILE, size=len(content))
        return bytes(FragmentReuseDetails(external=place).SerializeToString())

    async def _write(self, folder: uuid.UUID, content: bytes) -> None:
        self.folders.append(folder)
        store, path = self.snapshot.engine.registry.resolve(self._place(folder))
        await store.put(path, content)

    async def discard(self) -> None:
        """Remove the files, as far as the store can be reached."""
        places = [self._place(folder) for folder in self.folders]
        self.folders.clear()
        await discard_objects(self.snapshot.engine, places)

    def _place(self, folder: uuid.UUID) -> str:
        return self.snapshot.table.folder(f"{INDICES}/{folder}/{DETAILS_FILE}")
