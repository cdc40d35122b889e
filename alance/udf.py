"""batch_udf: functions of users that compute new columns, batch by batch."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Any

from alance.checks import check_count
from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


class BatchUdf:
    """A function from a batch of rows to a batch of new columns, for `Dataset.add_columns`.

    Called, it is the function.

    Attributes:
        output_schema: of what it gives; None: found by a call with one row.
        checkpoint_file: where fragments that are done are remembered; None: nowhere.
        concurrency: calls that run at once, at most.
    """

    __slots__ = ("checkpoint_file", "concurrency", "function", "output_schema")

    def __init__(
        self,
        function: Callable[[pa.RecordBatch], Any],
        output_schema: pa.Schema | None = None,
        checkpoint_file: str | os.PathLike[str] | None = None,
        concurrency: int = 1,
    ) -> None:
        if not callable(function):
            raise InvalidInputError(f"batch_udf of {function!r}: expected a function")
        check_count("concurrency", concurrency)
        self.function = function
        self.output_schema = output_schema
        self.checkpoint_file = None if checkpoint_file is None else os.fspath(checkpoint_file)
        self.concurrency = concurrency

    def __call__(self, batch: pa.RecordBatch) -> Any:
        return self.function(batch)

    @property
    def is_async(self) -> bool:
        """True if calls are awaited; other functions run in threads."""
        call = getattr(self.function, "__call__", None)  # noqa: B004  # of objects, its code
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(call)


def batch_udf(
    output_schema: pa.Schema | None = None,
    checkpoint_file: str | os.PathLike[str] | None = None,
    *,
    concurrency: int = 1,
) -> Callable[[Callable[[pa.RecordBatch], Any]], BatchUdf]:
    """Make a function a `BatchUdf`; used as a decorator.

    Args:
        output_schema: names and types of the new columns; None: found by a call with the first
            row of the table.
        checkpoint_file: a path on a local disk, of a SQLite file. Batches and fragments that are
            done are remembered in it, so that a run with the same file after a crash goes on
            where the first one was. It is removed when the version is there.
        concurrency: calls that run at once, at most. The function must allow it: one that is not
            async runs in several threads then.
    """

    def wrap(function: Callable[[pa.RecordBatch], Any]) -> BatchUdf:
        return BatchUdf(function, output_schema, checkpoint_file, concurrency)

    return wrap
