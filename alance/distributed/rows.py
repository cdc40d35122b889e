"""Rows that many processes found, and perhaps wrote anew: one commit that deletes or replaces them.

What comes to the driver is a row's place, as roaring bitmaps by fragment, and with stable row ids
the id of a row that moves.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from alance.format.proto import table_pb2
from alance.format.table.operations import Delete, Update
from alance.ops.merge.options import MergePlan
from alance.ops.merge.plan import Merge
from alance.ops.merge.rows import completed
from alance.ops.rows.moved import commit_rows
from alance.ops.version.projection import ROW_ADDRESS
from alance.ops.write.blob_moves import moved_blobs
from alance.ops.write.sources import conform

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from alance.datasets import Dataset


async def delete_rows(
    dataset: Dataset, offsets: Mapping[int, npt.NDArray[np.int64]], predicate: str
) -> Dataset:
    """The version without some rows.

    Args:
        dataset: the version that they were found in.
        offsets: by fragment id physical offsets of live rows; shape (n,), sorted and unique.
        predicate: noted in the transaction: what the rows have in common.

    Raises:
        RetryableConflictError: others changed the same rows; find them again.
        CommitConflictError: a newer version rules this one out.
    """
    change = Delete(predicate=predicate)
    return type(dataset)(await commit_rows(dataset._snapshot, change, deleted=offsets))


async def replace_rows(
    dataset: Dataset,
    offsets: Mapping[int, npt.NDArray[np.int64]],
    *,
    moved: Sequence[bytes] = (),
    inserted: Sequence[bytes] = (),
    row_ids: npt.NDArray[np.uint64] | None = None,
) -> Dataset:
    """The version without some rows, and with new fragments.

    Args:
        dataset, offsets: as of `delete_rows`.
        moved: records of fragments with new values of these rows.
        inserted: records of fragments with other rows.
        row_ids: of the rows that moved, in the order of `moved`; needed where ids are stable.

    Raises:
        RetryableConflictError, CommitConflictError: as of `delete_rows`.
    """
    snapshot = dataset._snapshot
    fields = tuple(field.id for field in snapshot.schema.walk()) if moved else ()
    made = await commit_rows(
        snapshot,
        Update(fields_for_preserving_frag_bitmap=fields),
        deleted=offsets,
        new_fragments=[table_pb2.DataFragment.FromString(one) for one in (*moved, *inserted)],
        row_ids=row_ids if snapshot.has_stable_row_ids else None,
    )
    return type(dataset)(made)


@dataclass(frozen=True, slots=True)
class SourceGaps:
    """What the source of a merge lacks of the table's columns. Pickled once for all tasks.

    Attributes:
        names: columns that it lacks, or has some members of.
        given: its columns, as the table has them.
        fragments: records of the version whose rows are replaced.
    """

    names: tuple[str, ...]
    given: pa.Schema
    fragments: tuple[bytes, ...]

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        source: pa.Schema,
        on: Sequence[str],
        when_matched: Literal["update", "delete", "nothing"],
        *,
        inserts: bool,
    ) -> SourceGaps | None:
        """What is to be taken from the rows that a merge updates; None: nothing.

        Args:
            source: the columns of its rows.
            on: the key.

        Raises:
            InvalidInputError: a source that does not fit the table.
            UnsupportedError: it lacks columns with blobs that are not moved.
        """
        base = dataset._snapshot
        updates = when_matched == "update"
        if not updates and not inserts:
            return None
        matched: Any = when_matched
        merge = Merge.of(
            MergePlan(on=tuple(on), when_matched=matched, inserts=inserts), base.schema, source
        )
        names = (*merge.lacking, *merge.partial)
        if not updates or not names:
            return None
        moved_blobs(base, names)
        records = (one.message.SerializeToString() for one in base.manifest.fragments)
        return cls(names, merge.given, tuple(records))

    async def filled(
        self, dataset: Dataset, batches: Iterator[pa.RecordBatch]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Rows of the source with what they lack taken from those that they replace.

        Args:
            dataset: the version with its fragments; see `open_record`.
            batches: with a column `_rowaddr`, the address of the row that is replaced.
        """
        base = dataset._snapshot
        run = base.engine.pool.run
        while (batch := await run(partial(next, batches, None))) is not None:
            places = batch.column(ROW_ADDRESS).to_numpy().astype(np.uint64)
            part = conform(batch.drop_columns([ROW_ADDRESS]), self.given)
            async with aclosing(completed(base, self.names, part, places)) as rows:
                async for row in rows:
                    yield row
