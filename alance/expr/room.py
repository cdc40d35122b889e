"""How much memory the values of an expression may take: told before they are made.

Values of the rows of a batch are computed in parts. Before a function makes values that are larger
than its arguments it says how many bytes they will have (`reserve`). If they do not fit, the part
is given up and computed again with fewer rows. A single row gets more room than a part, so that
what does not fit either is refused, with its size.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, TypeVar

from alance.errors import InvalidInputError
from alance.halting import step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

T = TypeVar("T")

PART_BYTES: Final = 32 << 20  # of the values that are held at once while a part is computed
ROW_BYTES: Final = 256 << 20  # the same of a single row
FOLDED_BYTES: Final = (
    256 << 10
)  # of constants that are computed while a text is read: a millisecond
ROW_GROWTH: Final = 8  # a row with large columns may have values of so many times their bytes
LEAST_BYTES: Final = 1 << 20  # of a part, however little a read may hold


class TooLarge(Exception):
    """Raised where values do not fit.

    Attributes:
        num_bytes: of all values that would be held.
    """

    def __init__(self, num_bytes: int, most_bytes: int) -> None:
        super().__init__(f"values of {num_bytes} bytes, at most {most_bytes} are computed at once")
        self.num_bytes = num_bytes


class Room:
    """The bytes of values that may be held at once.

    Args:
        most: bytes.
        is_folding: constants are computed while a text is read, perhaps on an event loop: the time
            that they take counts as well.

    Attributes:
        held: bytes of arguments and results that are held now.
        peak: the most that were held or reserved.
    """

    __slots__ = ("held", "is_folding", "most", "peak")

    def __init__(self, most: int, *, is_folding: bool = False) -> None:
        self.most = most
        self.is_folding = is_folding
        self.held = self.peak = 0

    def reserve(self, num_bytes: int) -> None:
        """Make sure that values of so many bytes fit beside those that are held.

        Raises:
            TooLarge: they do not fit.
        """
        needed = self.held + int(num_bytes)
        self.peak = max(self.peak, needed)
        if needed > self.most:
            raise TooLarge(needed, self.most)

    def hold(self, num_bytes: int) -> None:
        """Count values that are there until `held` is set back.

        Raises:
            TooLarge: they do not fit.
        """
        self.reserve(num_bytes)
        self.held += int(num_bytes)


_current: ContextVar[Room | None] = ContextVar("room", default=None)


@contextmanager
def entered(room: Room) -> Iterator[Room]:
    """Compute what is inside in a room."""
    token = _current.set(room)
    try:
        yield room
    finally:
        _current.reset(token)


def for_constants() -> Room:
    """The room of the constants of a text."""
    return Room(FOLDED_BYTES, is_folding=True)


def current() -> Room | None:
    """The room of what is being computed; None: nothing bounds it."""
    return _current.get()


def reserve(num_bytes: float) -> None:
    """Say how large values will be that are about to be made.

    Raises:
        TooLarge: they do not fit.
    """
    room = _current.get()
    if room is not None:
        room.reserve(int(num_bytes))


def spend(work: float) -> None:
    """Say that values take longer to compute than their size tells.

    Args:
        work: bytes that are copied in the same time.

    Raises:
        TooLarge: too long for a constant that is computed while a text is read.
    """
    room = _current.get()
    if room is not None and room.is_folding:
        room.reserve(int(work))


def in_parts(
    batch: pa.RecordBatch,
    compute: Callable[[pa.RecordBatch], T],
    where: str,
    most_bytes: int | None = None,
) -> Iterator[T]:
    """What is computed of the rows of a batch, in order, in as many parts as memory demands.

    Args:
        compute: of some of the rows; called again with fewer where its values do not fit.
        where: for messages.
        most_bytes: of the values that are held while a part is computed; None: `PART_BYTES`.

    Raises:
        InvalidInputError: the values of a single row do not fit.
    """
    most_bytes = PART_BYTES if most_bytes is None else min(most_bytes, PART_BYTES)
    start, num_rows = 0, batch.num_rows
    while start < batch.num_rows or start == 0:
        step()
        is_whole = start == 0 and num_rows == batch.num_rows
        part = batch if is_whole else batch.slice(start, num_rows)
        most = most_bytes if part.num_rows > 1 else max(ROW_BYTES, ROW_GROWTH * part.nbytes)
        try:
            with entered(Room(most)) as room:
                value = compute(part)
        except TooLarge as error:
            if part.num_rows <= 1:
                raise InvalidInputError(
                    f"{where}: of one row {error}; make shorter texts or fewer items"
                ) from None
            share = part.num_rows * most_bytes // error.num_bytes
            num_rows = max(1, min(part.num_rows // 2, share))
            continue
        yield value
        start += max(1, part.num_rows)
        if 4 * room.peak < most_bytes:
            num_rows = min(2 * num_rows, batch.num_rows)
