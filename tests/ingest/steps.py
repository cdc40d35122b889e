"""Changes by key in numbered steps, of which a plain dictionary tells the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import alance

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])
Model = dict[int, tuple[int | None, int | None]]


def rows(column: str, ids: Any, value: int) -> pa.RecordBatch:
    schema = pa.schema([SCHEMA.field("id"), SCHEMA.field(column)])
    return pa.record_batch([list(ids), [value] * len(ids)], schema=schema)


def after(step: int) -> Model:
    """The table after so many steps.

    Each sets `x` in ten rows, deletes two rows of the step before, and sets `y` in some of all
    these.
    """
    model: Model = {}
    for number in range(1, step + 1):
        first = 5 * number
        for key in range(first, first + 10):
            model[key] = (number, model.get(key, (None, None))[1])
        for key in (first - 3, first - 2):
            model.pop(key, None)
        for key in range(first - 2, first + 2):
            model[key] = (model.get(key, (None, None))[0], number)
    return model


async def take_step(sink: alance.Sink, number: int) -> None:
    first = 5 * number
    await sink.upsert(rows("x", range(first, first + 10), number), sequence=3 * number)
    await sink.delete({"id": [first - 3, first - 2]}, sequence=3 * number + 1)
    await sink.upsert(rows("y", range(first - 2, first + 2), number), sequence=3 * number + 2)
