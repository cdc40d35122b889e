"""Objects written piece by piece: whole at the end, or not there at all.

    async with store.open_upload(path) as upload:
        await upload.write(buffer)
        size = await upload.finish()

Leaving the block without `finish`, by an error or by a cancellation, drops what was written. A
task that was cancelled waits for that as `io.loop.background` says; then it goes on by itself.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, cast

from alance.errors import AlanceError, InvalidInputError
from alance.io.loop.background import GRACE_S, Background

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from alance.arrays import Bytes
    from alance.io.stores.store import Body

_log: Final = logging.getLogger(__name__)

COPIED_WRITE_BYTES: Final = (
    256 << 10
)  # smaller buffers are copied together, larger ones are never copied
WRITE_BLOCK_BYTES: Final = 1 << 20  # of what is copied together
FINISH_S: Final = 600.0  # for the last parts and what makes them an object; retries included
ABORT_S: Final = 60.0


class Upload(ABC):
    """An object being written. For one task at a time.

    A buffer that was given to `write` is kept, not copied: it must not change before `finish` has
    returned.

    Attributes:
        where: location of the object.
        background: where the dropping goes on that a cancelled task does not wait for.
        num_bytes: given to `write` so far.
        held_bytes: of these, what has not surely left yet.
        peak_bytes: the most that was ever held.
    """

    grace_s = GRACE_S  # for what is under way when the task is cancelled

    def __init__(self, where: str) -> None:
        self.where = where
        self.background = Background()
        self.num_bytes = 0
        self.held_bytes = 0
        self.peak_bytes = 0
        self._pieces: list[memoryview] = []
        self._block = bytearray()
        self._is_open = True
        self._is_busy = False
        self._is_over = False  # visible, or dropped

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.abort()
        except AlanceError as failure:
            if error is None:
                raise
            self._report(failure)

    async def write(self, buffer: Body | Bytes) -> None:
        """Append a contiguous buffer. Waits while too many bytes are under way.

        Raises:
            InvalidInputError: the upload has ended, or another task is writing.
            StoreError: the store failed; the upload can only be aborted.
        """
        self._enter()
        view = memoryview(cast("Body", buffer)).cast("B")
        try:
            self._take(view)
            await self._advance()
        except BaseException:
            self._is_open = False
            raise
        finally:
            self._is_busy = False

    async def finish(self) -> int:
        """Make the object visible; gives its bytes.

        A cancelled call takes back what it made visible. A request that the store has not answered
        in time is dropped, and may have landed or yet land: what is there then is not touched, as
        it may be an object of before. The path should be a new one: after an
        answer that got lost, an object of the right size is taken for this one.

        Raises:
            StoreError: the store failed; there is no such object.
        """
        self._enter()
        self._is_open = False
        try:
            await self.background.to_the_end(
                self._publish(), FINISH_S, self.grace_s, what=self.where
            )
        except BaseException:
            try:
                await self.abort()
            except AlanceError as failure:
                self._report(failure)
            raise
        finally:
            self._is_busy = False
        self._is_over = True
        return self.num_bytes

    async def abort(self) -> None:
        """Drop what was written, unless it is finished or dropped already.

        Raises:
            StoreError: the store failed, or did not answer in time; parts may be left behind,
                invisible.
        """
        if not self._is_over:
            self._is_open = False
            self._is_over = True
            self._pieces.clear()
            self._block = bytearray()
            self.held_bytes = 0
            await self.background.finish(self._drop(), ABORT_S, self.grace_s, what=self.where)

    def _report(self, failure: Exception) -> None:
        _log.warning("%s: an upload that failed was not dropped: %s", self.where, failure)

    def _enter(self) -> None:
        if not self._is_open:
            raise InvalidInputError(f"{self.where}: this upload has ended")
        if self._is_busy:
            raise InvalidInputError(f"{self.where}: another task writes to this upload")
        self._is_busy = True

    def _take(self, view: memoryview) -> None:
        """Append to the pieces; small ones by way of a block."""
        self.num_bytes += len(view)
        self._hold(len(view))
        if len(view) >= COPIED_WRITE_BYTES:
            self._end_block()
            self._pieces.append(view)
            return
        self._block += view
        if len(self._block) >= WRITE_BLOCK_BYTES:
            self._end_block()

    def _end_block(self) -> None:
        if self._block:
            self._pieces.append(memoryview(self._block))
            self._block = bytearray()

    def _hold(self, num_bytes: int) -> None:
        self.held_bytes += num_bytes
        self.peak_bytes = max(self.peak_bytes, self.held_bytes)

    @abstractmethod
    async def _advance(self) -> None:
        """Send pieces, where there are enough of them; wait while too much is under way."""

    @abstractmethod
    async def _publish(self) -> None:
        """Send the rest and make the object visible."""

    @abstractmethod
    async def _drop(self) -> None:
        """Remove what was sent; the object, too, if it has landed."""
