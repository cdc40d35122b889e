"""Inverted indices in parts: tasks write partitions, the merge names them.

A partition is written once, in the folder of the index that the plan has chosen: what a merge adds
is the file that says which there are.
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

ATTEMPT_BITS: Final = 46  # of a number: no two attempts of tasks have the same
PARTITION_BITS: Final = 16  # below them: partitions that one attempt may write


async def write_partitions(
    snapshot: Snapshot,
    new: NewTextIndex,
    source: TextSource,
    build: str,
    fragment_ids: Collection[int],
    memory_bytes: int,
) -> tuple[tuple[int, ...], tuple[tuple[str, int], ...], int]:
    """Write the partitions of some fragments: their numbers, files with bytes, and rows.

    Cost: a scan of the column in these fragments; the files' PUTs. Memory: `memory_bytes`.

    Raises:
        StoreError: the store failed; no file stays.
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
    """The record of an index of the partitions of all parts. Cost: a PUT."""
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
