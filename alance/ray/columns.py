"""New columns of a table, one task per fragment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import alance
from alance import BatchUdf, InvalidInputError, RetryableConflictError
from alance.distributed import BackfillNotes, ColumnBackfill
from alance.ray.worker import Version, access, full_uri, run, run_tasks

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from alance import Dataset
    from alance.types import StorageOptions


def map_columns(
    uri: str | os.PathLike[str],
    columns: Mapping[str, str] | Callable[[pa.RecordBatch], Any],
    *,
    schema: pa.Schema | None = None,
    read_columns: Sequence[str] | None = None,
    batch_size: int | None = None,
    checkpoint: str | None = None,
    max_rounds: int = 5,
    storage_options: StorageOptions | None = None,
    ray_remote_args: Mapping[str, Any] | None = None,
) -> int:
    """Add columns to all rows of a table in one commit. Returns the number of the version.

    A task computes the values of a fragment and writes them into one more file; other files are
    unchanged. Fragments that other commits add meanwhile are computed in another round.

    Cost: a scan of the columns that are read, and the new files; a commit per round.

    Args:
        uri: URI or path of the table.
        columns: SQL by new column; or a function that is called with batches of rows, and returns
            a RecordBatch, Table or pandas frame with as many rows; or a class of such functions,
            of which each worker makes one object.
        schema: names and types of the function's results.
        read_columns: columns passed to the function; None: all.
        batch_size: maximum number of rows computed at once; None: a size that suits the pages.
        checkpoint: URI or path of a folder that all nodes reach. A call that runs again with it
            computes only the missing files; see `BackfillNotes`. None: nothing is reused.
        max_rounds: maximum number of rounds; a round fails if another commit was first.
        storage_options: options of the store, which all tasks get; also for the checkpoint.
        ray_remote_args: arguments of `ray.remote` for the tasks, such as `num_gpus`.

    Raises:
        NotFoundError: no such table.
        InvalidInputError: a column that exists, bad SQL, or values that do not fit.
        RetryableConflictError: other commits were first in every round.
        StoreError: the store failed.
        RayTaskError: (of Ray) around another error of a task; it is also that error.
    """
    folder = None if checkpoint is None else full_uri(checkpoint)
    read = None if read_columns is None else tuple(read_columns)
    new = ColumnBackfill(_transforms(columns, schema), read, batch_size)
    notes = BackfillNotes(new, folder)
    done: dict[int, tuple[str, bytes]] = {}

    async def run_round() -> Dataset:
        place = access(storage_options)
        dataset = await alance.dataset(full_uri(uri), **place)
        await new.check(dataset)
        await notes.recall(dataset, done, **place)
        version = Version.of(dataset, storage_options)

        async def execute(record: bytes) -> tuple[int, str, bytes]:
            (fragment,) = version.dataset([record]).fragments
            return await notes.execute(fragment, **access(version.storage_options))

        records = [
            fragment.metadata.message.SerializeToString()
            for fragment in notes.remaining(dataset, done)
        ]
        for number, source, record in await run_tasks(execute, records, ray_remote_args):
            done[number] = (source, record)
        return await new.commit(dataset, {number: record for number, (_, record) in done.items()})

    for number in range(1, max_rounds + 1):
        try:
            return run(run_round()).version
        except RetryableConflictError:
            if number == max_rounds:
                raise
    raise InvalidInputError(f"max_rounds={max_rounds}: expected at least 1")


def _transforms(columns: Any, schema: pa.Schema | None) -> Any:
    if isinstance(columns, Mapping):
        if schema is not None:
            raise InvalidInputError("schema: only of a function; SQL tells its types")
        return dict(columns)
    if schema is None:
        raise InvalidInputError("schema: expected with a function, the names and types it returns")
    return BatchUdf(_Instance(columns) if isinstance(columns, type) else columns, schema)


class _Instance:
    """Function that calls an object of a class, which a worker makes at the first call."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._object: Any = None

    def __call__(self, batch: pa.RecordBatch) -> Any:
        if self._object is None:
            self._object = self._kind()
        return self._object(batch)
