"""Memory budget for the values that an expression computes.

The rows of a batch are evaluated in parts (`in_parts`). A function whose result may be larger than
its arguments reserves the bytes of the result before it allocates them (`reserve`). If the budget
is exceeded, the part is dropped and evaluated again with fewer rows. A part of a single row has a
larger budget; if that is exceeded too, the expression is refused, and the error gives the size.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Final, TypeVar

from alance.base.cancellation import check_cancelled
from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

T = TypeVar("T")

EVALUATED_PART_BYTES: Final = 32 << 20  # budget of a part with several rows
EVALUATED_ROW_BYTES: Final = 256 << 20  # minimum budget of a single row
ROW_GROWTH: Final = 8  # budget of a large single row, in multiples of its own bytes
FOLDED_BYTES: Final = 256 << 10  # budget of constant folding; it takes about a millisecond


class BudgetExceeded(Exception):
    """Raised if values exceed the budget.

    Attributes:
        num_bytes: bytes that would have been in use.
    """

    def __init__(self, num_bytes: int, max_bytes: int) -> None:
        super().__init__(f"values of {num_bytes} bytes exceed the budget of {max_bytes}")
        self.num_bytes = num_bytes


class ValueBudget:
    """Upper bound on the bytes of arguments and results in memory during an evaluation.

    Args:
        max_bytes: the upper bound.
        is_folding: True for constant folding while a text is parsed. Parsing may run on an event
            loop, so long computations count as well (`reserve_work`).

    Attributes:
        used_bytes: bytes of the arguments and results that are in memory now. A caller restores
            the former number when it drops its values.
        peak_bytes: the most bytes that were in use or reserved.
    """

    __slots__ = ("_before", "is_folding", "max_bytes", "peak_bytes", "used_bytes")

    def __init__(self, max_bytes: int, *, is_folding: bool = False) -> None:
        self.max_bytes = max_bytes
        self.is_folding = is_folding
        self.used_bytes = self.peak_bytes = 0
        self._before: list[Token[ValueBudget | None]] = []

    def __enter__(self) -> ValueBudget:
        """Make this the current budget inside the `with` block."""
        self._before.append(_current.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._before.pop())

    def reserve(self, num_bytes: int) -> None:
        """Check that values of `num_bytes` fit beside the bytes in use.

        Raises:
            BudgetExceeded: they do not fit.
        """
        needed = self.used_bytes + int(num_bytes)
        self.peak_bytes = max(self.peak_bytes, needed)
        if needed > self.max_bytes:
            raise BudgetExceeded(needed, self.max_bytes)

    def charge(self, num_bytes: int) -> None:
        """Add values to the bytes in use until the caller resets `used_bytes`.

        Raises:
            BudgetExceeded: the values do not fit.
        """
        self.reserve(num_bytes)
        self.used_bytes += int(num_bytes)


_current: ContextVar[ValueBudget | None] = ContextVar("value_budget", default=None)


def folding_budget() -> ValueBudget:
    """Return a new budget for constants, which are computed while a text is parsed."""
    return ValueBudget(FOLDED_BYTES, is_folding=True)


def current() -> ValueBudget | None:
    """Return the budget of the current evaluation. Returns None if there is no bound."""
    return _current.get()


def reserve(num_bytes: float) -> None:
    """Check that values of `num_bytes`, not yet allocated, fit into the current budget.

    Raises:
        BudgetExceeded: they do not fit.
        WorkCancelled: the caller has cancelled the evaluation.
    """
    check_cancelled()
    budget = _current.get()
    if budget is not None:
        budget.reserve(int(num_bytes))


def reserve_work(num_bytes: float) -> None:
    """Charge the time of a computation while constants are folded; no effect otherwise.

    Args:
        num_bytes: time of the computation, as the number of bytes copied in that time.

    Raises:
        BudgetExceeded: the computation takes too long to be folded.
    """
    budget = _current.get()
    if budget is not None and budget.is_folding:
        budget.reserve(int(num_bytes))


def in_parts(
    batch: pa.RecordBatch,
    compute: Callable[[pa.RecordBatch], T],
    where: str,
    max_bytes: int | None = None,
) -> Iterator[T]:
    """Yield `compute(part)` for consecutive parts of a batch, in order of the rows.

    The first part is the whole batch. A part that exceeds its budget is computed again with at most
    half of its rows; the next part has twice the rows if this one used less than a quarter of the
    budget. A batch without rows is computed as one part.

    Args:
        compute: called again with fewer rows if a part exceeds its budget.
        where: subject of the error message.
        max_bytes: budget of a part of several rows; by default, and at most,
            `EVALUATED_PART_BYTES`.

    Raises:
        InvalidInputError: the values of a single row exceed the budget of a row.
    """
    max_bytes = EVALUATED_PART_BYTES if max_bytes is None else min(max_bytes, EVALUATED_PART_BYTES)
    start, num_rows, row_bytes = 0, batch.num_rows, EVALUATED_ROW_BYTES
    while start < batch.num_rows or start == 0:
        check_cancelled()
        is_whole = start == 0 and num_rows == batch.num_rows
        part = batch if is_whole else batch.slice(start, num_rows)
        part_bytes = max_bytes if part.num_rows > 1 else row_bytes
        try:
            with ValueBudget(part_bytes) as budget:
                value = compute(part)
        except BudgetExceeded as error:
            # Only now, because the size of a batch takes 14 us.
            if part.num_rows <= 1 and part_bytes < ROW_GROWTH * part.nbytes:
                row_bytes = ROW_GROWTH * part.nbytes
                continue
            if part.num_rows <= 1:
                raise InvalidInputError(
                    f"{where}: the values of one row need {error.num_bytes} bytes, expected at "
                    f"most {part_bytes}; compute shorter texts or fewer items"
                ) from None
            share = part.num_rows * max_bytes // error.num_bytes
            num_rows = max(1, min(part.num_rows // 2, share))
            continue
        yield value
        row_bytes = EVALUATED_ROW_BYTES
        start += max(1, part.num_rows)
        if 4 * budget.peak_bytes < max_bytes:
            num_rows = min(2 * num_rows, batch.num_rows)
