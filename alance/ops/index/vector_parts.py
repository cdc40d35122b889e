"""Vector indices in parts: what the plan trains, tasks read, and the merge writes again.

The training lies beside the parts, in the folder of the plan: the files of a segment without rows.
A task codes the vectors of its fragments by it, and leaves them by partition.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from alance.errors import CorruptFileError, NotFoundError
from alance.format.index import ivf
from alance.format.proto import table_pb2
from alance.format.table.indices import Index
from alance.format.table.naming import INDICES
from alance.ops.index.segment_files import SegmentFiles
from alance.ops.index.train import train, training_of
from alance.ops.index.vectors import CodedRows, VectorSegmentBuilder
from alance.ops.version.discards import discard_objects

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection

    import pyarrow as pa

    from alance.format.field import Field
    from alance.ops.index.new_vector import CheckedVectors
    from alance.ops.index.train import Training
    from alance.ops.version.snapshot import Snapshot


async def write_training(base: Snapshot, checked: CheckedVectors, build: str) -> None:
    """Train, and leave what came out in the folder of a build.

    Cost: a take of the sample, k-means, two PUTs.
    """
    builder = VectorSegmentBuilder(
        base, checked.column, checked.leaf, checked.name, lambda: train(base, checked)
    )
    builder.files = SegmentFiles(base, uuid.UUID(build))
    try:
        await builder.build([])
    except BaseException:
        await builder.discard()
        raise


async def training_at(snapshot: Snapshot, build: str, leaf: Field) -> Training:
    """What `write_training` has left.

    Cost: two or three rounds.

    Raises:
        NotFoundError: it is gone.
        CorruptFileError: files of something else.
    """
    record = table_pb2.IndexMetadata(fields=[leaf.id])
    record.uuid.uuid = uuid.UUID(build).bytes
    training = await training_of(snapshot, Index.from_protobuf(record), leaf)
    if training is None:
        raise CorruptFileError(f"index build {build}: its training is not that of {leaf.name!r}")
    return training


async def has_training(snapshot: Snapshot, build: str, leaf: Field) -> bool:
    """Whether the training of a build is still there."""
    try:
        await training_at(snapshot, build, leaf)
    except NotFoundError:
        return False
    return True


async def coded_rows(
    snapshot: Snapshot,
    column: str,
    leaf: Field,
    build: str,
    fragment_ids: Collection[int],
    memory: int,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The vectors of some fragments, coded, by partition: what a task leaves."""
    training = await training_at(snapshot, build, leaf)
    rows = CodedRows(snapshot, column, training, memory)
    return rows.sorted(rows.scanned(fragment_ids))


async def merge_coded(
    base: Snapshot,
    checked: CheckedVectors,
    build: str,
    merge: Callable[[pa.Schema], AsyncGenerator[pa.RecordBatch, None]],
    fragment_ids: Collection[int],
) -> table_pb2.IndexMetadata:
    """The record of a segment of what tasks have left; no file stays after an error."""
    builder = VectorSegmentBuilder(
        base,
        checked.column,
        checked.leaf,
        checked.name,
        lambda: training_at(base, build, checked.leaf),
    )
    try:
        return await builder.build_from(merge, fragment_ids)
    except BaseException:
        await builder.discard()
        raise


async def discard_training(snapshot: Snapshot, build: str) -> None:
    """Remove the training of a build, as far as the store can be reached."""
    names = (ivf.INDEX_FILE, ivf.STORAGE_FILE)
    places = [snapshot.table.folder(f"{INDICES}/{build}/{name}") for name in names]
    await discard_objects(snapshot.engine, places)
