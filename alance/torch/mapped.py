"""Map-style datasets: samples by number; one take reads a whole batch."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from alance import InvalidInputError
from alance.torch.table import Source, TorchTable, loop
from alance.torch.tensors import Fill, to_tensors

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    import pyarrow.compute as pc

    from alance.types import Columns, Params, StorageOptions


class Samples(Sequence[Any]):
    """Samples of one take, which PyTorch may access one by one.

    Attributes:
        batch: all samples, as returned by `transform`; by default columns by name.
    """

    def __init__(self, batch: Any, num_rows: int) -> None:
        self.batch = batch
        self._num_rows = num_rows

    def __len__(self) -> int:
        return self._num_rows

    def __getitem__(self, index: Any) -> Any:
        if not -self._num_rows <= operator.index(index) < self._num_rows:
            raise IndexError(f"sample {index} of {self._num_rows}")
        if isinstance(self.batch, Mapping):
            return {name: values[index] for name, values in self.batch.items()}
        return self.batch[index]


def collate(samples: Samples) -> Any:
    """Return the batch as it was read; the `collate_fn` of loaders over a `MapDataset`.

    PyTorch's own function returns the same for columns of numbers, but splits the batch into a
    tensor for each row and column, and joins these again.
    """
    return samples.batch


class MapDataset:
    """Rows of a table as samples: `dataset[7]`, or for a loader `DataLoader(dataset, ...)`.

    A sample is a dict of its columns: tensors or Python objects. The dataset can be pickled, as
    loaders do for their workers, which then read the same version.

    Cost: to create it, one LIST and one GET for a URI, and with a filter a scan of its columns, and
    memory of 8 bytes per matching row. Then a take for each batch.

    Args:
        source: a URI or path; or an open dataset of `alance` or `alance.sync`. Forked workers read
            with its credentials; spawned ones with those of their environment, or of
            `storage_options`.
        columns: names, paths, or SQL expressions by output name; None: all.
        filter: SQL text or a pyarrow expression; `params` has the values for its `?` or `:name`.
        transform: function that converts an Arrow batch to a mapping of columns, or to a sequence
            of samples; None: `to_tensors`. It runs in the process that reads, and is pickled with
            the dataset.
        fill: value that replaces nulls, see `to_tensors`.
        version: version of the table at a URI.
        storage_options: see `alance.dataset`; workers get the same options.

    Raises:
        InvalidInputError: an unknown column, or a bad filter.
        NotFoundError: no such table or version.
    """

    def __init__(
        self,
        source: Source,
        columns: Columns = None,
        *,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        transform: Callable[[pa.RecordBatch], Any] | None = None,
        fill: Fill = None,
        version: int | str | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None:
        self._table = TorchTable(source, columns, filter, params, version, storage_options)
        self._transform = transform_of(transform, fill)

    @property
    def version(self) -> int:
        """Version of the dataset that is read."""
        return self._table.version

    def __len__(self) -> int:
        return self._table.num_rows

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> Samples:
        """Read several samples by one take, in the order of `indices`.

        Raises:
            IndexError: an index is out of range.
        """
        rows = np.asarray(indices, np.int64)
        size = len(self)
        if len(outside := rows[(rows < -size) | (rows >= size)]):
            raise IndexError(f"sample {outside[0]}: the dataset has {size}")
        batch = loop.run(self._table.read(np.where(rows < 0, rows + size, rows)))
        return Samples(self._transform(batch), len(rows))


def transform_of(
    transform: Callable[[pa.RecordBatch], Any] | None, fill: Fill
) -> Callable[[pa.RecordBatch], Any]:
    """Return the function that converts Arrow batches to batches of a loader.

    Raises:
        InvalidInputError: both `transform` and `fill` are set.
    """
    if transform is None:
        return partial(to_tensors, fill=fill)
    if fill is not None:
        raise InvalidInputError("fill= is for `to_tensors`, which transform= takes the place of")
    return transform
