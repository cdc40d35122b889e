"""Inverted index builds in parts: tasks write partitions, the merge lists them.

A partition is written once, in the folder that the plan chose for the index. The merge only adds
the metadata file, which lists the partitions.
"""

from __future__ import annotations

import secrets
import uuid
from typing import TYPE_CHECKING, Final

from alance.format.proto import table_pb2
from alance.ops.index.segment_files import SegmentFiles
from alance.ops.index.texts.build import TextSegmentBuilder

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from alance.format.index.text.source import TextSource
    from alance.ops.index.texts.new import CheckedText, NewTextIndex
    from alance.ops.index.values.runs import IndexPart
    from alance.ops.version.snapshot import Snapshot

ATTEMPT_BITS: Final = 46  # random high bits of partition numbers, distinct for each attempt
PARTITION_BITS: Final = 16  # low bits: partitions that one attempt may write


async def write_partitions(
    snapshot: Snapshot,
    new: NewTextIndex,
    source: TextSource,
    build: str,
    fragment_ids: Collection[int],
    memory_bytes: int,
) -> tuple[tuple[int, ...], tuple[tuple[str, int], ...], int]:
    """Write the partitions of fragments; return their numbers, files with sizes, and row count.

    Cost: a scan of the column in these fragments; the files' PUTs. Memory: `memory_bytes`.

    Raises:
        StoreError: the store failed; all files are removed.
    """
    builder = _builder(snapshot, new, source, "", build, memory_bytes)
    first = secrets.randbits(ATTEMPT_BITS) << PARTITION_BITS
    try:
        numbers, num_rows = await builder.partitions(fragment_ids, first)
    except BaseException:
        await builder.discard()
        raise
    files = tuple((file.path, file.size_bytes) for file in builder.files.files)
    return tuple(numbers), files, num_rows


async def name_partitions(
    base: Snapshot,
    new: NewTextIndex,
    checked: CheckedText,
    build: str,
    parts: Sequence[IndexPart],
    fragment_ids: Collection[int],
) -> table_pb2.IndexMetadata:
    """Write the metadata file for the partitions of all parts; return the record. Cost: a PUT."""
    builder = _builder(base, new, checked.source, checked.name, build, new.memory_bytes)
    builder.files.files += [
        table_pb2.IndexFile(path=name, size_bytes=size)
        for part in parts
        for name, size in part.files
    ]
    return await builder.finish(fragment_ids, [n for part in parts for n in part.partitions])


def _builder(
    snapshot: Snapshot,
    new: NewTextIndex,
    source: TextSource,
    name: str,
    build: str,
    memory_bytes: int,
) -> TextSegmentBuilder:
    builder = TextSegmentBuilder(
        snapshot,
        new.column,
        source.leaf,
        name,
        source,
        new.params,
        memory_bytes,
        new.of_elements,
    )
    builder.files = SegmentFiles(snapshot, uuid.UUID(build))
    return builder
