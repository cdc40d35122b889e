"""A version of a table that any process can read, by an event loop of this module."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

import alance
from alance.blocking import OwnLoop
from alance.distributed import ROW_ADDRESS, fragment_bytes, fragments_of, in_any_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping

    import numpy.typing as npt
    import pyarrow.compute as pc

    from alance import sync
    from alance.types import Columns, Params, StorageOptions

Source: TypeAlias = "str | os.PathLike[str] | alance.Dataset | sync.Dataset"

loop: Final = OwnLoop("alance.torch")
SCANNED_RUN_ROWS: Final = 4096  # mean length of runs from which scans cost less than a take


class TorchTable:
    """Rows of a version for which a filter is true.

    Other processes use it without a request: forked processes inherit it, and others get it
    pickled. A pickle contains the `storage_options`; it contains the credentials of an open dataset
    only if its options have `pickle_secrets`.

    Attributes:
        columns: columns to read.
        num_rows: number of rows that match the filter, or of all rows.
        row_bytes: approximate stored bytes of a row of all columns.
        version: version of the dataset.
    """

    def __init__(
        self,
        source: Source,
        columns: Columns,
        filter: str | pc.Expression | None,
        params: Params,
        version: int | str | None,
        storage_options: StorageOptions | None,
    ) -> None:
        # The async dataset, if `source` is a blocking one.
        dataset: object = getattr(source, "_inner", source)
        owner = storage_options
        if isinstance(source, str | os.PathLike):
            opening = alance.dataset(source, version=version, storage_options=storage_options)
            dataset, owner = loop.run(opening), None
        elif version is not None:
            raise alance.InvalidInputError("version=: of a URI; an open dataset has its own")
        if not isinstance(dataset, alance.Dataset):
            raise alance.InvalidInputError(f"{type(source)}: expected a URI, a path or a Dataset")
        self.dataset = in_any_loop(dataset, owner)
        self._options = storage_options
        self._addresses: npt.NDArray[np.uint64] | None = None
        self.columns = columns
        self.version = dataset.version
        loop.run(self._learn(filter, params))

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        if self._options is not None:
            self.dataset = in_any_loop(self.dataset, self._options)

    async def _learn(self, filter: str | pc.Expression | None, params: Params) -> None:
        """Count the rows and read 0 of them, so that errors are raised here and not in a worker."""
        dataset = self.dataset
        fragments = fragments_of(dataset)
        num_rows = sum(fragment.physical_rows for fragment in fragments)
        self.row_bytes = sum(map(fragment_bytes, fragments)) // max(1, num_rows) + 1
        if filter is None:
            self.num_rows = await dataset.count_rows()
        else:
            scan = dataset.to_batches([], filter=filter, params=params, with_row_address=True)
            parts = [batch[ROW_ADDRESS].to_numpy(zero_copy_only=False) async for batch in scan]
            self._addresses = np.concatenate([np.empty(0, np.uint64), *parts])
            self.num_rows = len(self._addresses)
        await self.read(np.arange(0))

    @property
    def has_all_rows(self) -> bool:
        """True if there is no filter, so that a row's number is its position."""
        return self._addresses is None

    def scan(self, rows: range) -> AsyncIterator[pa.RecordBatch]:
        """Scan a range of rows with read-ahead; only if `has_all_rows`."""
        return self.dataset.to_batches(self.columns, offset=rows.start, limit=len(rows))

    async def read(self, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """Read rows by their numbers among the rows that match the filter, in the given order.

        Cost: one take, or a scan for each run of consecutive rows if runs are long.
        """
        if self._addresses is not None:
            table = await self.dataset.take_addresses(self._addresses[rows], self.columns)
        elif len(rows) >= SCANNED_RUN_ROWS * (
            1 + len(cuts := np.flatnonzero(np.diff(rows) != 1) + 1)
        ):
            table = pa.concat_tables(await _all(map(self._run, np.split(rows, cuts))))
        else:
            table = await self.dataset.take(rows, self.columns)
        arrays = (
            [
                column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
                for column in table.columns
            ]
            if table.num_rows
            else [pa.array([], field.type) for field in table.schema]
        )
        return pa.RecordBatch.from_arrays(arrays, schema=table.schema)

    async def _run(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        return await self.dataset.to_table(self.columns, offset=int(rows[0]), limit=len(rows))


async def _all(reads: Iterable[Coroutine[Any, Any, pa.Table]]) -> list[pa.Table]:
    """Return the results of all reads; if a read fails, cancel the others."""
    tasks = [asyncio.create_task(read) for read in reads]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
