"""The limits of a service: requests at once, sizes of a request, time."""

from __future__ import annotations

from dataclasses import dataclass, fields

from alance import InvalidInputError

JSON_BYTES = 1 << 20  # Python's parser holds all threads for its time: 10 ms a MiB


@dataclass(frozen=True, slots=True)
class Bounds:
    """The budgets of a service; those of memory for reading are the session's.

    Attributes:
        requests: number of requests served at once; others wait.
        waiting: number of requests that may wait; further ones are answered 503 at once.
        body_bytes: bytes of a request; of a JSON body 1 MiB at most: it is read on the loop.
        rows: rows of an answer that is held as a whole: `k` (times the number of query vectors, or
            times `refine_factor`), keys, positions, rows in an order.
        sql_memory: memory of one query in SQL, as DuckDB writes sizes. DuckDB does not count what a
            function makes as one value: `range(100000000)` takes gigabytes all the same.
        seconds: time for a request, from its turn to the last byte of its answer.

    Raises:
        InvalidInputError: a bound that is not above zero.
    """

    requests: int = 64
    waiting: int = 1024
    body_bytes: int = 16 << 20
    rows: int = 10_000
    sql_memory: str = "256MiB"
    seconds: float = 60.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, str) and not value > 0:
                raise InvalidInputError(f"{field.name}={value!r}: expected a number above 0")
