"""Vector indices without graphs, with the addresses that rows have after a compaction."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.index import vector_files
from alance.format.index.vector_codes import (
    packed_signs,
    transposed,
    unpacked_signs,
    untransposed,
)
from alance.format.numbers import as_numbers, to_arrow
from alance.ops.index.segment_files import FileEnd, StoredFile
from alance.ops.index.sort import BATCH_ROWS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    import numpy.typing as npt

    from alance.format.index.remap import AddressMap
    from alance.format.table.indices import Index
    from alance.ops.index.segment_files import SegmentFiles
    from alance.ops.version.snapshot import Snapshot

    Rows = npt.NDArray[np.int64]
    Codes = npt.NDArray[np.uint8]
    Order = tuple[Callable[[Codes], Codes], Callable[[Codes], Codes]]

_BUFFERS: Final = ("codebook_position", "rotate_mat_position")


async def moved_vectors(
    snapshot: Snapshot, index: Index, moves: AddressMap, new: SegmentFiles
) -> None:
    """Write a vector index again: without the codes of rows that are gone.

    Memory: some partitions.

    Raises:
        CorruptFileError: files that contradict themselves.
        UnsupportedError: vectors linked to graphs.
    """
    centroids = await StoredFile.open(snapshot, index, vector_files.CENTROIDS_FILE)
    kind, _ = vector_files.kind_of(centroids.metadata)
    if kind.startswith("IVF_HNSW") or centroids.num_rows:
        raise UnsupportedError(f"vector index {index.name!r} of type {kind}")
    stored = await StoredFile.open(snapshot, index, vector_files.VECTORS_FILE)
    storage = vector_files.storage_of(stored.metadata)
    number = vector_files.buffer_number(stored.metadata, vector_files.IVF)
    ivf = vector_files.parse_ivf(await stored.buffer(number))
    partitions = _Partitions(
        moves, vector_files.partition_ends(ivf, stored.num_rows), _reordered(stored.schema, storage)
    )
    buffers = []
    for key in _BUFFERS:
        if storage.get(key) is not None:
            content = await stored.buffer(vector_files.buffer_number(storage, key))
            buffers.append(np.frombuffer(content, np.uint8))
            storage[key] = 1 + len(buffers)

    def end() -> FileEnd:
        first = np.frombuffer(vector_files.ivf_of_partitions(partitions.lengths), np.uint8)
        metadata = {
            vector_files.IVF: "1",
            vector_files.STORAGE: vector_files.storage_text(storage),
        }
        return FileEnd(metadata, [first, *buffers])

    async with aclosing(_moved(stored, partitions)) as batches:
        await new.write(vector_files.VECTORS_FILE, stored.schema, batches, end)
    await new.copy(vector_files.CENTROIDS_FILE, centroids)


async def _moved(
    stored: StoredFile, partitions: _Partitions
) -> AsyncGenerator[pa.RecordBatch, None]:
    pool = stored.snapshot.engine.pool
    places = list(partitions.spans())
    ends = partitions.ends
    spans = [(int(ends[a - 1]) if a else 0, int(ends[b - 1])) for a, b in places]
    async with aclosing(stored.batches(spans)) as batches:
        number = 0
        async for batch in batches:
            place = places[number]
            moved = await pool.run(lambda batch=batch, place=place: partitions.moved(batch, *place))  # type: ignore[misc]
            number += 1
            if moved.num_rows:
                yield moved


class _Partitions:
    """The partitions of a segment, some at a time.

    Args:
        ends: where each one's rows end.
        reordered: columns whose bytes are in an order of their own: how to get rows of them and
            how to put them back.

    Attributes:
        lengths: rows of each partition that are left, of those that were moved so far.
    """

    def __init__(
        self,
        moves: AddressMap,
        ends: Rows,
        reordered: dict[str, Order],
    ) -> None:
        self._moves = moves
        self._reordered = reordered
        self.ends = ends
        self.lengths = np.zeros(len(ends), np.int64)

    def spans(self) -> Iterator[tuple[int, int]]:
        """Partitions that are moved at once, of about a batch's rows."""
        start = row = 0
        while row < (int(self.ends[-1]) if len(self.ends) else 0):
            stop = int(np.searchsorted(self.ends, row + BATCH_ROWS, "left")) + 1
            stop = min(stop, len(self.ends))
            yield start, stop
            start, row = stop, int(self.ends[stop - 1])

    def moved(self, batch: pa.RecordBatch, start: int, stop: int) -> pa.RecordBatch:
        """The rows of some partitions that are left, with their new addresses."""
        ids = batch.column(0)
        if ids.null_count:
            raise CorruptFileError("vector index: a row number is null")
        rows, is_kept = self._moves.moved(as_numbers(ids).astype(np.int64))
        first = int(self.ends[start - 1]) if start else 0
        ends = self.ends[start:stop] - first
        counts = np.concatenate([[0], np.cumsum(is_kept)])[np.concatenate([[0], ends])]
        self.lengths[start:stop] = np.diff(counts)
        columns = [to_arrow(rows.view(np.uint64))]
        keep = to_arrow(is_kept)
        for name, column in zip(batch.schema.names[1:], batch.columns[1:], strict=True):
            if is_kept.all():
                columns.append(column)
            elif name in self._reordered:
                columns.append(self._kept_codes(name, column, ends, is_kept))
            else:
                columns.append(column.filter(keep))
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _kept_codes(
        self, name: str, column: pa.Array, ends: Rows, is_kept: npt.NDArray[np.bool_]
    ) -> pa.Array:
        width = column.type.list_size
        codes = as_numbers(column.flatten()).reshape(-1, width)
        rows_of, stored_of = self._reordered[name]
        starts = np.concatenate([[0], ends[:-1]])
        parts = [
            stored_of(rows_of(codes[start:stop])[is_kept[start:stop]]).ravel()
            for start, stop in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        values = to_arrow(np.concatenate(parts))
        return pa.FixedSizeListArray.from_arrays(values, type=column.type)


def _reordered(schema: pa.Schema, storage: dict[str, Any]) -> dict[str, Order]:
    """The columns of which rows are found in whole partitions alone.

    Raises:
        CorruptFileError: columns that are none of a vector index.
    """
    orders = {
        vector_files.PQ_CODES: ("transposed", (untransposed, transposed)),
        vector_files.SIGN_CODES: ("packed", (unpacked_signs, packed_signs)),
    }
    names = schema.names
    if names[:1] != [vector_files.ROW_ID] or schema.field(0).type != pa.uint64():
        raise CorruptFileError(f"vector index: columns {names}")
    reordered: dict[str, Order] = {}
    for name, (key, order) in orders.items():
        if name in names and storage.get(key):
            type_ = schema.field(name).type
            if not pa.types.is_fixed_size_list(type_) or type_.value_type != pa.uint8():
                raise CorruptFileError(f"vector index: {name} of type {type_}")
            reordered[name] = order
    return reordered
