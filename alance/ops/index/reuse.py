"""The fragment-reuse index: read it, and write it in a compaction with a deferred remap.

Source: docs/format/table.md, "Deferred index remap".
"""

from __future__ import annotations

import time
import uuid
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from alance.base.records import dataclass
from alance.errors import RetryableConflictError
from alance.format.plans import ByteRange
from alance.format.proto import table_pb2
from alance.format.proto.reuse_index_pb2 import FragmentReuseDetails
from alance.format.table.changes.apply_indices import SYSTEM, covered, reuse_index, with_coverage
from alance.format.table.indices import FRAGMENT_REUSE, Index
from alance.format.table.naming import INDICES
from alance.format.table.reuse import (
    DETAILS_FILE,
    DETAILS_TYPE,
    MAX_INLINE_REUSE_BYTES,
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.table.manifest import Manifest
    from alance.format.table.reuse import Group


async def load_compactions(snapshot: Snapshot) -> tuple[PastCompaction, ...]:
    """Return the compactions recorded in the fragment-reuse index, oldest first; empty without one.

    Cost: none, or a GET if the details are in a file of their own.

    Raises:
        CorruptFileError: the details cannot be parsed.
        NotFoundError: the details file is missing.
        UnsupportedError: the details have a newer form.
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
    """The fragment-reuse index entry of a compaction. Call `discard` if it is not committed.

    Attributes:
        groups: groups of fragments that the compaction rewrites.
        folders: folders of the written details files, one per attempt.
    """

    snapshot: Snapshot
    groups: Sequence[Group]
    folders: list[uuid.UUID] = field(default_factory=list)

    async def entries(self, previous: Manifest) -> list[table_pb2.IndexMetadata] | None:
        """Return the index section of the new version; None if no fragment-reuse index is needed.

        Cost: none for small details. Large details cost a PUT; if the previous entry has its
        details in a file, its read costs a GET.

        Raises:
            RetryableConflictError: an index covers only a part of a group of fragments, so the
                index could not be remapped.
            CorruptFileError, NotFoundError, UnsupportedError: the existing entry cannot be read.
        """
        await self.discard()  # files of an earlier attempt that lost the commit
        base = Snapshot(self.snapshot.session, self.snapshot.table, previous)
        compactions = await load_compactions(base)
        pool = self.snapshot.engine.pool
        others, is_needed = await pool.run(lambda: self._others(previous.indices, compactions))
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
        return [*others, index]

    def _others(
        self, indices: Sequence[table_pb2.IndexMetadata], compactions: Sequence[PastCompaction]
    ) -> tuple[list[table_pb2.IndexMetadata], bool]:
        """Return the entries of all indices but the fragment-reuse index.

        Also returns True if an index covers a group of the compaction. The coverage of the entries
        is translated to the new fragments of earlier compactions.
        """
        others, is_needed = [], False
        for index in indices:
            coverage = covered(index)
            if index.name == FRAGMENT_REUSE:
                continue
            if coverage is None or index.name in SYSTEM:
                others.append(index)
                continue
            now = translated(coverage, compactions)
            is_needed |= self._moves(index.name, now)
            others.append(index if now == coverage else with_coverage(index, now))
        return others, is_needed

    def _moves(self, name: str, coverage: frozenset[int]) -> bool:
        """Return True if an index covers groups of the compaction.

        Raises:
            RetryableConflictError: the index covers only a part of a group.
        """
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
        """Return the bytes of the details message; write large details to a file instead."""

        def build() -> bytes:
            added = PastCompaction(dataset_version=version, groups=self.groups)
            return bytes(Inline(versions=[*compactions, added]).SerializeToString())

        content = await self.snapshot.engine.pool.run(build)
        if len(content) <= MAX_INLINE_REUSE_BYTES:
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
        """Remove the files. Errors of the store are ignored."""
        places = [self._place(folder) for folder in self.folders]
        self.folders.clear()
        await discard_objects(self.snapshot.engine, places)

    def _place(self, folder: uuid.UUID) -> str:
        return self.snapshot.table.folder(f"{INDICES}/{folder}/{DETAILS_FILE}")
