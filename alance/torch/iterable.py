"""Iterable datasets: batches in a new order in each epoch, read ahead, resumable."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import torch
import torch.distributed
import torch.utils.data

from alance import InvalidInputError
from alance.torch.mapped import transform_of
from alance.torch.order import Order, by_turns
from alance.torch.table import Source, TorchTable, loop

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Callable,
        Generator,
        Iterator,
        Mapping,
    )

    import numpy as np
    import numpy.typing as npt
    import pyarrow.compute as pc

    from alance.torch.tensors import Fill
    from alance.types import Columns, Params, StorageOptions

WINDOW_BYTES: Final = 64 << 20  # stored bytes of a window: some tens of requests on any store
WINDOW_ROWS: Final = (1 << 10, 1 << 18)  # least and most rows of a default window
WINDOW_CHUNKS: Final = 16  # chunks per window: more would mix better, but read shorter runs of rows
AHEAD: Final = 1  # windows that are read while batches of another one are returned


class IterableDataset(torch.utils.data.IterableDataset):
    """Batches of a table's rows, for `DataLoader(dataset, batch_size=None)`.

    A batch is a dict of its columns: tensors, or lists of Python objects. Rows are distributed over
    the ranks of `torch.distributed`, and a rank's batches over the workers of its loader. Each
    batch is returned once per epoch, for any number of workers.

    With `shuffle` the table is cut into chunks of consecutive rows, which are shuffled. Then
    windows of `window_rows` rows are read, and their rows are shuffled. The next window is read
    while batches of the current one are returned, also without workers. Two or three windows are in
    memory.

    Cost: to create it, one LIST and one GET for a URI, and with a filter a scan of its columns, and
    memory of 8 bytes per matching row. Then a scan for each chunk of a window, or a take for each
    window if chunks are small or there is a filter; without `shuffle` and `filter`, one scan.

    Args:
        source: a URI or path; or an open dataset of `alance` or `alance.sync`. Forked workers read
            with its credentials; spawned ones with those of their environment, or of
            `storage_options`.
        batch_size: number of rows per batch.
        columns: names, paths, or SQL expressions by output name; None: all.
        filter: SQL text or a pyarrow expression; `params` has the values for its `?` or `:name`.
        shuffle: True for a new random order in each epoch; False for the order of the table.
        seed: seed of the shuffling, the same for all ranks.
        drop_last: True if all ranks return the same number of batches, all of `batch_size` rows;
            the remaining rows are skipped in this epoch.
        window_rows: number of rows that are read and shuffled together; None: the rows in 64 stored
            MiB, between 1,024 and 262,144.
        chunk_rows: number of consecutive rows per chunk; None: a 16th of a window.
        rank, world_size: this process's rank, and the number of ranks; None: those of
            `torch.distributed` when the dataset is first iterated or pickled, or 0 and 1 if it is
            not initialised.
        transform: function that converts an Arrow batch to the returned batch; None: `to_tensors`.
            It runs in the process that iterates, and is pickled with the dataset.
        fill: value that replaces nulls, see `to_tensors`.
        version: version of the table at a URI.
        storage_options: see `alance.dataset`; workers get the same options.

    Raises:
        InvalidInputError: an unknown column, a bad filter, or a number that is too small.
        NotFoundError: no such table or version.
    """

    def __init__(
        self,
        source: Source,
        batch_size: int,
        columns: Columns = None,
        *,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        window_rows: int | None = None,
        chunk_rows: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        transform: Callable[[pa.RecordBatch], Any] | None = None,
        fill: Fill = None,
        version: int | str | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None:
        super().__init__()
        _check_least(1, batch_size=batch_size, window_rows=window_rows, chunk_rows=chunk_rows)
        _check_least(0, seed=seed)
        _check_rank(rank, world_size)
        self._rank, self._world_size = rank, world_size
        self._table = TorchTable(source, columns, filter, params, version, storage_options)
        self._transform = transform_of(transform, fill)
        window = _usual_window(self._table.row_bytes) if window_rows is None else window_rows
        self._order = Order(
            num_rows=self._table.num_rows,
            batch_size=batch_size,
            drop_last=drop_last,
            chunk_rows=max(1, window // WINDOW_CHUNKS) if chunk_rows is None else chunk_rows,
            window_rows=window,
            seed=seed if shuffle else None,
        )
        # In shared memory: persistent workers read the next epoch's number from it.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()
        # Next batch, and end of this process's batches; None: its share of all remaining ones.
        self._progress: tuple[int, int | None] = (0, None)
        self._begin = self._progress  # progress at which the next iteration begins
        self._shares: list[tuple[int, int]] | None = None  # of the workers, from a loaded state

    def __getstate__(self) -> dict[str, Any]:
        self._find_rank()  # workers cannot determine it themselves
        return dict(vars(self))

    @property
    def version(self) -> int:
        """Version of the dataset that is read."""
        return self._table.version

    def __len__(self) -> int:
        """Number of batches of this rank in an epoch, over all its workers."""
        return self._epoch_order().num_batches

    def set_epoch(self, epoch: int) -> None:
        """Shuffle for another epoch, and begin at its first batch, also in persistent workers.

        Has no effect for the current epoch, as after `load_state_dict`.

        Raises:
            InvalidInputError: the number is negative.
        """
        _check_least(0, epoch=epoch)
        if epoch != self._epoch.item():
            self._epoch.fill_(epoch)
            self._progress = self._begin = (0, None)
            self._shares = None

    def __iter__(self) -> Iterator[Any]:
        order = self._epoch_order()
        first, last = self._share(order.num_batches, *_worker())
        self._progress, self._begin = (first, last), (0, None)
        self._shares = None
        with closing(self._batches(order, first, last)) as batches:
            for number, batch in enumerate(batches, first):
                self._progress = (number + 1, last)
                yield self._transform(batch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of this process as numbers and texts, for `load_state_dict`.

        The position counts the batches that this process has returned. So use it with loaders
        without workers, or with loaders that call it in their workers (`StatefulDataLoader` of
        torchdata), and `state_after` with all others. With `drop_last`, ranks have the same state
        after the same number of steps.
        """
        start, stop = self._progress
        worker, num_workers = _worker()
        place = {"epoch": int(self._epoch.item()), "next": start, "stop": stop}
        return {**place, "worker": worker, "num_workers": num_workers, **self._identity()}

    def state_after(self, num_batches: int, num_workers: int) -> dict[str, Any]:
        """Return the positions of a loader's workers after some batches, for `load_state_dict`.

        Use it with PyTorch's own `DataLoader`, which takes batches from its workers in turn
        (`in_order`) and does not request their positions.

        Args:
            num_batches: number of batches that the loader has returned from this dataset.
            num_workers: number of the loader's workers; 0 for none.

        Raises:
            InvalidInputError: the rest of the epoch has fewer batches, or the number of workers
                differs from that in the state with which the loader began.
        """
        if num_batches < 0 or num_workers < 0:
            raise InvalidInputError(
                f"num_batches={num_batches}, num_workers={num_workers}: expected 0 or more"
            )
        count = max(1, num_workers)
        shares = [self._share(len(self), worker, count) for worker in range(count)]
        counts = by_turns([stop - start for start, stop in shares], num_batches)
        places = [[start + n, stop] for n, (start, stop) in zip(counts, shares, strict=True)]
        place: dict[str, Any] = {"epoch": int(self._epoch.item())}
        if count == 1:  # any number of workers may continue from it
            place |= {"next": places[0][0], "stop": None, "worker": 0, "num_workers": 1}
        else:
            place |= {"workers": places}
        return {**place, **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Begin the next iteration at the position of a state.

        A state of a loader without workers can be loaded with any number of workers. A state of a
        worker must be loaded in the same worker of the same number of workers, and a state of
        several workers with the same number of workers. The state is for one epoch; `set_epoch`
        sets the next epoch.

        Raises:
            InvalidInputError: the state is for another version, seed, size or worker.
        """
        for name, value in self._identity().items():
            if name not in state or state[name] != value:
                raise InvalidInputError(
                    f"state of an IterableDataset: {name} is {state.get(name)!r} there, "
                    f"and {value!r} here"
                )
        self._shares = None
        if "workers" in state:
            self._epoch.fill_(state["epoch"])
            self._progress = self._begin = (0, None)
            self._shares = [(start, stop) for start, stop in state["workers"]]
            return
        start, stop = state["next"], state["stop"]
        if state["num_workers"] == 1:
            stop = None
        elif (state["worker"], state["num_workers"]) != _worker():
            worker, num_workers = _worker()
            raise InvalidInputError(
                f"state of worker {state['worker']} of {state['num_workers']}: "
                f"this is worker {worker} of {num_workers}"
            )
        self._epoch.fill_(state["epoch"])
        self._progress = self._begin = (start, stop)

    def _identity(self) -> dict[str, Any]:
        """Return the settings on which the rows of a numbered batch depend."""
        numbers = asdict(self._epoch_order())
        del numbers["rank"], numbers["epoch"]
        return {"version": self.version, **numbers}

    def _epoch_order(self) -> Order:
        rank, world_size = self._find_rank()
        epoch = int(self._epoch.item())
        return replace(self._order, rank=rank, world_size=world_size, epoch=epoch)

    def _find_rank(self) -> tuple[int, int]:
        if self._rank is None or self._world_size is None:
            self._rank, self._world_size = 0, 1
            if torch.distributed.is_available() and torch.distributed.is_initialized():
                self._rank = int(torch.distributed.get_rank())
                self._world_size = int(torch.distributed.get_world_size())
        return self._rank, self._world_size

    def _share(self, num_batches: int, worker: int, num_workers: int) -> tuple[int, int]:
        """Return the half-open range of a worker's batches."""
        if self._shares is not None:
            if len(self._shares) != num_workers:
                raise InvalidInputError(
                    f"state of {len(self._shares)} workers: the loader has {num_workers}"
                )
            return self._shares[worker]
        first, stop = self._begin
        if stop is not None:
            return first, stop
        remaining = num_batches - first
        return first + remaining * worker // num_workers, first + remaining * (
            worker + 1
        ) // num_workers

    def _batches(
        self, order: Order, first: int, last: int
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield batches cut from windows; they are views if the windows are not shuffled."""
        size, rest = order.batch_size, None
        windows: AsyncIterator[pa.RecordBatch | Shuffled]
        if order.seed is None and self._table.has_all_rows:
            places = order.places(first, last)
            start = order.part.start
            windows = self._table.scan(range(start + places.start, start + places.stop))
        else:
            windows = self._windows(order, first, last)
        try:
            for window in loop.iterate(windows):
                start = 0
                if rest is not None:
                    start = min(size - rest.num_rows, window.num_rows)
                    rest = pa.concat_batches([rest, window.slice(0, start)])
                    if rest.num_rows < size:
                        continue
                    yield rest
                while window.num_rows - start >= size:
                    yield window.slice(start, size)
                    start += size
                rest = window.slice(start) if start < window.num_rows else None
        finally:
            loop.close(windows)
        if rest is not None:
            yield rest

    async def _windows(
        self, order: Order, first: int, last: int
    ) -> AsyncGenerator[pa.RecordBatch | Shuffled, None]:
        reads: deque[asyncio.Task[pa.RecordBatch | Shuffled]] = deque()

        async def read(number: int, places: range) -> pa.RecordBatch | Shuffled:
            rows, picks = await asyncio.to_thread(order.window, number, places)
            window = await self._table.read(rows)
            return window if picks is None else Shuffled(window, picks)

        try:
            for number, places in order.windows(first, last):
                reads.append(asyncio.create_task(read(number, places)))
                if len(reads) > AHEAD:
                    yield await reads.popleft()
            while reads:
                yield await reads.popleft()
        finally:
            for ahead in reads:
                ahead.cancel()
            await asyncio.gather(*reads, return_exceptions=True)


@dataclass(frozen=True)
class Shuffled:
    """A window whose rows are permuted batch by batch.

    A batch is copied just before it is returned, so it is in the processor's cache, and the memory
    of the last batch is reused. This takes half the time of permuting the whole window at once.
    """

    window: pa.RecordBatch
    picks: npt.NDArray[np.int64]

    @property
    def num_rows(self) -> int:
        return len(self.picks)

    def slice(self, start: int, length: int | None = None) -> pa.RecordBatch:
        """Copy rows of the window in their new order; arguments as for `pa.RecordBatch.slice`."""
        stop = None if length is None else start + length
        return self.window.take(pa.array(self.picks[start:stop]))


def _worker() -> tuple[int, int]:
    """Return the number of this worker, and the number of workers; 0 and 1 outside a loader."""
    info = torch.utils.data.get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


def _check_least(least: int, **numbers: int | None) -> None:
    for name, value in numbers.items():
        if value is not None and value < least:
            raise InvalidInputError(f"{name}={value}: expected at least {least}")


def _check_rank(rank: int | None, world_size: int | None) -> None:
    if (rank is None) != (world_size is None):
        raise InvalidInputError("rank= and world_size= go together")
    if rank is not None and world_size is not None and not 0 <= rank < world_size:
        raise InvalidInputError(f"rank={rank}: expected 0 to world_size - 1, {world_size - 1}")


def _usual_window(row_bytes: int) -> int:
    least, most = WINDOW_ROWS
    return min(max(WINDOW_BYTES // row_bytes, least), most)
