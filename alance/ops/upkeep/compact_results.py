"""Results of compaction tasks: new files, and their counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alance.errors import AlanceError
from alance.ops.blobs.files import remove_blobs
from alance.ops.version.discards import in_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.proto import table_pb2
    from alance.ops.version.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class CompactionMetrics:
    """Fragments and files that a rewrite takes away and adds; files are data and deletion files."""

    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0

    @classmethod
    def of(
        cls, old: Sequence[table_pb2.DataFragment], new: Sequence[table_pb2.DataFragment]
    ) -> CompactionMetrics:
        """Of the fragments before and after."""
        removed = sum(len(one.files) + one.HasField("deletion_file") for one in old)
        return cls(len(old), len(new), removed, sum(len(one.files) for one in new))

    def __add__(self, other: CompactionMetrics) -> CompactionMetrics:
        return CompactionMetrics(
            self.fragments_removed + other.fragments_removed,
            self.fragments_added + other.fragments_added,
            self.files_removed + other.files_removed,
            self.files_added + other.files_added,
        )


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """A task that is done: its new files are there, no version has them yet. Can be pickled.

    Attributes:
        read_version: the version that was rewritten.
        original_fragments: the fragments before, as the manifest has them.
        new_fragments: those that hold the same rows; their ids are given by the commit.
    """

    read_version: int
    original_fragments: tuple[table_pb2.DataFragment, ...]
    new_fragments: tuple[table_pb2.DataFragment, ...]

    @property
    def metrics(self) -> CompactionMetrics:
        """Fragments and files before and after."""
        return CompactionMetrics.of(self.original_fragments, self.new_fragments)


async def discard(snapshot: Snapshot, results: Sequence[RewriteResult]) -> None:
    """Remove the files of results that no version will have."""
    await in_time(snapshot.engine, snapshot.table.store, _discard(snapshot, results))


async def _discard(snapshot: Snapshot, results: Sequence[RewriteResult]) -> None:
    table = snapshot.table
    has_blobs = any(one.is_blob_v2 for one in snapshot.schema.walk())
    for result in results:
        for fragment in result.new_fragments:
            places = [table.new_data_file(file.path) for file in fragment.files]
            try:
                for location in places:
                    store, path = snapshot.engine.registry.resolve(location)
                    await store.delete([path])
                    if has_blobs:
                        await remove_blobs(snapshot.engine, location)
            except AlanceError:
                return  # orphans, which cleanup finds
