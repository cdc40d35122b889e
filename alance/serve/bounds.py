"""Limits of a service: concurrent requests, sizes, time."""

from __future__ import annotations

from dataclasses import dataclass, fields

from alance import InvalidInputError

JSON_BYTES = 1 << 20  # Python's parser blocks all threads for 10 ms per MiB


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a service. The session limits the memory for reads.

    Attributes:
        requests: number of requests served at the same time; further requests wait.
        waiting: number of requests that may wait; further requests are answered 503 at once.
        body_bytes: bytes of a request's body. A JSON body may have at most 1 MiB, because only
            Arrow is parsed off the event loop.
        rows: maximum rows of an answer that is held in memory as a whole: `k` (times the number of
            vectors, or times `refine_factor`), keys, positions, sorted rows.
        sql_memory: memory of one SQL query, as DuckDB writes sizes. DuckDB does not count the
            value of a single function call: `range(100000000)` still takes gigabytes.
        seconds: maximum time of a request, from its turn to the last byte of its answer.

    Raises:
        InvalidInputError: a limit is not positive.
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
