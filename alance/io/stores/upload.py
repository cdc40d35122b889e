"""Uploads: objects written piece by piece, visible as a whole at the end or not at all.

    async with store.open_upload(path) as upload:
        await upload.write(buffer)
        size = await upload.finish()

Leaving the block without `finish`, by an error or a cancellation, aborts the upload. A cancelled
task waits briefly for the abort, which then continues by itself (`io.loop.background`).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, cast

from alance.errors import AlanceError, InvalidInputError
from alance.io.loop.background import CANCEL_GRACE_S, Background

if TYPE_CHECKING:
    from typing import Self

    from alance.base.arrays import Bytes
    from alance.io.stores.store import Body

_log: Final = logging.getLogger(__name__)

# Smaller buffers are copied into a block; larger ones are never copied.
COPIED_WRITE_BYTES: Final = 256 << 10
WRITE_BLOCK_BYTES: Final = 1 << 20  # a block of copied buffers becomes a piece at this size
FINISH_S: Final = 600.0  # seconds for the last parts and the request that joins them, with retries
ABORT_S: Final = 60.0


class Upload(ABC):
    """An object being written, by one task at a time.

    `write` keeps large buffers without a copy: they must not change before `finish` has returned.

    Attributes:
        where: location of the object.
        background: continues an abort that a cancelled task no longer waits for.
        num_bytes: bytes written so far.
        held_bytes: written bytes that are still in memory.
        peak_bytes: maximum of `held_bytes` so far.
    """

    grace_s = CANCEL_GRACE_S  # for requests under way when the task is cancelled

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
        self._is_over = False  # True if finished or aborted

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
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
        """Make the object visible; return its size in bytes.

        A cancelled call removes the object if it became visible. If the store does not answer in
        time, the request is dropped and may take effect later; an object at the path is then not
        removed, because it may be an older one. The path should be new: if the answer to the last
        request is lost, an object of the right size at the path is assumed to be this object.

        Raises:
            InvalidInputError: the upload has ended, or another task is writing.
            StoreError: the store failed, or did not answer in time.
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
        """Drop the written bytes; does nothing if the upload is already finished or aborted.

        Raises:
            StoreError: the store failed or did not answer in time; invisible parts may remain.
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
        """Append a buffer to the pieces; a small buffer is copied into the current block."""
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
        """Send pieces if there are enough for a part; wait while too many bytes are under way."""

    @abstractmethod
    async def _publish(self) -> None:
        """Send the rest and make the object visible."""

    @abstractmethod
    async def _drop(self) -> None:
        """Remove the parts that were sent, and the object if it became visible."""
