"""Scanner: a scan that is decided and not yet run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from alance.ops import count, explain, ordering
from alance.ops.planning import plan_scan
from alance.ops.scan import scan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alance.ops.options import ScanOptions
    from alance.ops.projection import Columns
    from alance.ops.snapshot import Snapshot


class Scanner:
    """A scan of a dataset or fragment; each call runs it anew."""

    __slots__ = ("_columns", "_options", "_snapshot")

    def __init__(self, snapshot: Snapshot, columns: Columns, options: ScanOptions) -> None:
        self._snapshot = snapshot
        self._columns = columns
        self._options = options

    @property
    def projected_schema(self) -> pa.Schema:
        """The Arrow schema of the batches.

        Raises:
            InvalidInputError: an unknown column or a bad expression.
        """
        return ordering.output_schema(self._snapshot, self._columns, self._options)

    async def to_batches(self) -> AsyncIterator[pa.RecordBatch]:
        """The batches, fetched and decoded ahead under the budgets of the options.

        Closing the iterator (or leaving `async for` early and closing it) cancels what is ahead.
        """
        if self._options.order_by:
            table = await ordering.sorted_table(self._snapshot, self._columns, self._options)
            for batch in table.to_batches(max_chunksize=self._options.batch_size):
                yield batch
            return
        plan = await plan_scan(self._snapshot, self._columns, self._options)
        batches = scan(self._snapshot, plan)
        try:
            async for batch in batches:
                yield batch
        finally:
            await batches.aclose()  # type: ignore[attr-defined]  # an async generator

    async def to_table(self) -> pa.Table:
        """All rows in memory."""
        batches = [batch async for batch in self.to_batches()]
        return pa.Table.from_batches(batches, schema=self.projected_schema)

    async def count_rows(self) -> int:
        """The number of rows that the scan would give."""
        return await count.count_scanned(self._snapshot, self._options)

    async def explain(self) -> str:
        """What the scan would ask of the store, before it does: requests, bytes and rounds.

        Cost: footers and page tables are read (and kept), page data are not.
        """
        return await explain.explain_scan(self._snapshot, self._columns, self._options)
