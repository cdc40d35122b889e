"""Updates by many processes, each of which computes the new values of its rows."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from alance.base.records import dataclass
from alance.distributed.splits import open_split
from alance.file.write.small_batches import in_groups
from alance.ops.read.filters import parse_predicate
from alance.ops.read.options import ScanOptions
from alance.ops.rows.update import matching, new_rows, parse_updates
from alance.ops.version.projection import META

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from typing import Unpack

    from alance.datasets import Dataset
    from alance.distributed.splits import Piece
    from alance.ops.rows.update import Assignments
    from alance.session import OpenArguments


@dataclass(frozen=True, slots=True)
class RowUpdate:
    """New values for the rows that meet a condition. Can be pickled.

    Attributes:
        updates: SQL text by column, computed from the row's old values; see `Dataset.update`.
        where: SQL text; None: all rows.
    """

    updates: Mapping[str, str]
    where: str | None = None

    def check(self, dataset: Dataset) -> list[str]:
        """Check the update before any task reads; return the columns that a task reads.

        Args:
            dataset: the version.

        Raises:
            InvalidInputError: an unknown column, bad SQL, or a type that cannot be cast.
            UnsupportedError: an update of a field inside a column.
        """
        schema = dataset._snapshot.schema
        assignments = self._parsed(dataset)
        condition = parse_predicate(schema, self.where)
        names = set(assignments.needed(schema))
        if condition is not None:
            names.update(schema.names_of(path)[0] for path in condition.columns)
        return [field.name for field in schema.fields if field.name in names]

    async def rows(
        self, record: bytes, uri: str, split: Sequence[Piece], **place: Unpack[OpenArguments]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Stream the rows of a split that meet the condition, with their new values.

        The columns of the table are followed by `_rowaddr`, the address of the replaced row, and by
        `_rowid` if ids are stable.

        Cost: a scan of the condition's columns, then of all columns of the matching rows.

        Args:
            record, uri, split, place: as for `read_split`.

        Raises:
            InvalidInputError: values that an expression cannot take or a column cannot hold.
        """
        opened = open_split(record, uri, split, **place)
        dataset, base = opened.dataset, opened.dataset._snapshot
        run = base.engine.pool.run
        assignments = await run(partial(self._parsed, dataset))
        where = opened.options(ScanOptions(filter=self.where))
        async with aclosing(matching(base, assignments, where, opened.rows)) as batches:
            async for group in in_groups(batches):
                pairs = new_rows(group, assignments, base.schema)
                while (pair := await run(partial(next, pairs, None))) is not None:
                    yield _with_places(*pair)

    def _parsed(self, dataset: Dataset) -> Assignments:
        return parse_updates(dataset._snapshot.schema, self.updates, [None] * len(self.updates))


def _with_places(old: pa.RecordBatch, new: pa.RecordBatch) -> pa.RecordBatch:
    names = [name for name in META if name in old.schema.names]
    fields = [*new.schema, *(old.schema.field(name) for name in names)]
    arrays = [*new.columns, *(old.column(name) for name in names)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
