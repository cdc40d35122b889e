"""A version of a table in any process: read by an event loop of this module's own."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

import alance
from alance.blocking import OwnLoop
from alance.distributed import ROW_ADDRESS, fragment_bytes, fragments_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt
    import pyarrow.compute as pc

    from alance import sync
    from alance.types import Columns, Params, StorageOptions

Source: TypeAlias = "str | os.PathLike[str] | alance.Dataset | sync.Dataset"

loop: Final = OwnLoop("alance.torch")
os.register_at_fork(after_in_child=loop.forget)


class Table:
    """The rows of a version for which a filter is true.

    Can be pickled. Where it goes that costs nothing, or one GET if there are `storage_options`.

    Attributes:
        columns: that are read.
        num_rows: that a filter keeps, or all.
        row_bytes: of a row of all columns, as stored, about.
        version: of the dataset.
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
        # Below the blocking face, if it is one.
        dataset: object = getattr(source, "_inner", source)
        if isinstance(source, str | os.PathLike):
            dataset = loop.run(
                alance.dataset(source, version=version, storage_options=storage_options)
            )
        elif version is not None or storage_options is not None:
            raise alance.InvalidInputError(
                "version=, storage_options=: of a URI; an open dataset has its own"
            )
        if not isinstance(dataset, alance.Dataset):
            raise alance.InvalidInputError(f"{type(source)}: expected a URI, a path or a Dataset")
        # A dataset that comes out of a pickle belongs to no loop and no process, and has no
        # credentials: where some were given it is opened again.
        self._pickled = pickle.dumps(dataset)
        self._given: tuple[str | os.PathLike[str], int | str | None, StorageOptions] | None = None
        if isinstance(source, str | os.PathLike):
            self._opened = (os.getpid(), dataset)
            if storage_options is not None:
                self._given = (source, version, storage_options)
        self._addresses: npt.NDArray[np.uint64] | None = None
        self.columns = columns
        self.version = dataset.version
        loop.run(self._learn(filter, params))

    def __getstate__(self) -> Mapping[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_opened"}

    async def _dataset(self) -> alance.Dataset:
        """The dataset as this process has it: a fork makes its own."""
        opened: tuple[int, alance.Dataset] | None = getattr(self, "_opened", None)
        if opened is None or opened[0] != os.getpid():
            self._opened = opened = (os.getpid(), await self._open())
        return opened[1]

    async def _open(self) -> alance.Dataset:
        if self._given is None:
            dataset: alance.Dataset = pickle.loads(self._pickled)
            return dataset
        uri, version, options = self._given
        asked = version if isinstance(version, str) else self.version
        dataset = await alance.dataset(uri, version=asked, storage_options=options)
        if dataset.version != self.version:
            raise alance.InvalidInputError(
                f"{dataset.uri}: {asked!r} was version {self.version}, and is {dataset.version} now"
            )
        return dataset

    async def _learn(self, filter: str | pc.Expression | None, params: Params) -> None:
        """What there is to read: told here, and not in a worker, if it is nonsense."""
        dataset = await self._dataset()
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

    async def read(self, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """Rows by their number among those kept, in this order, in memory of their own.

        Cost: one take.
        """
        dataset = await self._dataset()
        if self._addresses is None:
            table = await dataset.take(rows, self.columns)
        else:
            table = await dataset.take_addresses(self._addresses[rows], self.columns)
        arrays = (
            [
                column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
                for column in table.columns
            ]
            if table.num_rows
            else [pa.array([], field.type) for field in table.schema]
        )
        return pa.RecordBatch.from_arrays(arrays, schema=table.schema)
