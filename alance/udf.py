"""`batch_udf`: user functions that compute new columns, batch by batch."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Any

from alance.base.calls import public
from alance.base.checks import check_count
from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


@public
class BatchUdf:
    """Function that converts a batch of rows to a batch of new columns, for `Dataset.add_columns`.

    A call of the object calls the function.

    Attributes:
        output_schema: schema of the result; None: determined by a call with one row.
        checkpoint_file: file that records finished fragments, and the results of other fragments
            so far; None: no file.
        concurrency: maximum number of concurrent calls.
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
            raise InvalidInputError(
                f"batch_udf of {type(function).__name__}: expected a function; the decorator has "
                "parentheses: @batch_udf()"
            )
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


@public
def batch_udf(
    output_schema: pa.Schema | None = None,
    checkpoint_file: str | os.PathLike[str] | None = None,
    *,
    concurrency: int = 1,
) -> Callable[[Callable[[pa.RecordBatch], Any]], BatchUdf]:
    """Decorate a function to make it a `BatchUdf`.

    Args:
        output_schema: names and types of the new columns; None: determined by a call with the first
            row of the table.
        checkpoint_file: path of a SQLite file on a local disk. It records finished batches and
            fragments, so that a run with the same file after a crash continues there. It is removed
            when the version is committed.
        concurrency: maximum number of concurrent calls. The function must support it: if it is not
            async, it runs in several threads.
    """

    def wrap(function: Callable[[pa.RecordBatch], Any]) -> BatchUdf:
        return BatchUdf(function, output_schema, checkpoint_file, concurrency)

    return wrap
