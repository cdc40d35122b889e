"""Uploads to object stores: one PUT for a small object, else several parts at once.

obstore's writer divides the bytes into parts of equal size, without copying, and retries each part
by itself. If the writer is dropped, or cancelled at the wrong moment, its upload stays unfinished
on the store. So its calls are never cancelled at such moments, and it is always closed or aborted.

Unfinished uploads remain in two cases. If the answer to the request that begins an upload is lost,
the upload's name is unknown. And if GCS does not answer an abort, the abort is not sent again,
because obstore's writer can be aborted only once. A lifecycle rule of the bucket can remove both.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import obstore

from alance.errors import (
    AccessError,
    AlanceError,
    NotFoundError,
    StoreError,
    UnsupportedError,
)
from alance.io.events import observing
from alance.io.loop import lifecycle
from alance.io.loop.limits import RequestLimit, outlasted
from alance.io.stores.profile import MIB
from alance.io.stores.store import translate
from alance.io.stores.upload import Upload

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from obstore import AsyncWritableFile

    from alance.io.cloud.remote import RemoteStore

MAX_BEGINNINGS: Final = 3  # attempts to begin an upload: obstore does not retry this request
MAX_PARTS: Final = 10_000  # of S3 and GCS; Azure takes 50 000 blocks


def part_size(usual: int, size_hint: int | None) -> int:
    """Return the bytes per part so that an object of about `size_hint` fits in `MAX_PARTS`."""
    needed = -(-(size_hint or 0) * 11 // 10 // MAX_PARTS)  # the hint may be 10 % too low
    return usual if needed <= usual else -(-needed // MIB) * MIB


class RemoteUpload(Upload):
    """An object of a bucket being written.

    `write` returns once its bytes are buffered or under way. All such bytes of the upload take at
    most the profile's `upload_buffer_bytes`; a small limit still allows three parts: one under way,
    one waiting and one being filled.

    Args:
        store: bucket of the object.
        path: path inside the store.
        size_hint: approximate size of the object.
    """

    def __init__(self, store: RemoteStore, path: str, size_hint: int | None) -> None:
        super().__init__(store.root + path)
        profile = store.profile
        self.part_bytes = part_size(profile.part_bytes, size_hint)
        # In addition to these, a part is being filled, and a part waits for its turn.
        self.max_parts = max(1, profile.upload_buffer_bytes // self.part_bytes - 2)
        self._store = store
        self._path = path
        self._writer: AsyncWritableFile | None = None
        self._first: list[memoryview] = []  # pieces sent before the upload is known to have begun
        self._is_closed = False
        self._call: asyncio.Future[object] | None = None
        self._has_landed = False
        self._num_sent = 0

    async def _advance(self) -> None:
        if self._writer is None:
            if self.num_bytes <= self.part_bytes:
                return
            self._begin()
        pieces, self._pieces = self._pieces, []
        for piece in pieces:
            for start in range(0, len(piece), self.part_bytes):
                await self._send(piece[start : start + self.part_bytes])

    def _begin(self) -> None:
        if self._store.profile.is_plain_server:
            raise UnsupportedError(
                f"{self.where}: this server takes no more than {self.part_bytes} bytes an object"
            )
        lifecycle.enter()
        self._writer = obstore.open_writer_async(
            self._store.upload_objects,
            self._path,
            buffer_size=self.part_bytes,
            max_concurrency=self.max_parts,
        )

    async def _send(self, piece: memoryview) -> None:
        """Hand a piece to the writer; waits while `max_parts` parts are under way."""
        assert self._writer is not None
        if self._num_sent + len(piece) > MAX_PARTS * self.part_bytes:
            raise UnsupportedError(
                f"{self.where}: more than {MAX_PARTS} parts of {self.part_bytes} bytes; open the "
                f"upload with a size_hint"
            )
        lifecycle.enter()
        before = self._surely_held()
        if self._num_sent < self.part_bytes:
            self._first.append(piece)
            await self._send_first()
        else:
            self._first.clear()
            await self._await(self._writer.write(piece), len(piece))
        self._num_sent += len(piece)
        self._hold(self._surely_held() - before - len(piece))

    async def _send_first(self) -> None:
        """Send a piece of the first part; if the upload fails, begin it again with all pieces."""
        pieces = self._first[-1:]
        until = asyncio.get_running_loop().time() + self._store.limits.whole()
        for attempt in range(1, MAX_BEGINNINGS + 1):
            assert self._writer is not None
            try:
                for piece in pieces:
                    await self._await(self._writer.write(piece), len(piece))
                return
            except AccessError:
                raise
            except StoreError:
                if attempt == MAX_BEGINNINGS or asyncio.get_running_loop().time() > until:
                    raise
            pieces = self._first
            self._begin()

    def _surely_held(self) -> int:
        """Upper bound of the writer's bytes: parts under way, plus the part being filled."""
        full, rest = divmod(self._num_sent, self.part_bytes)
        return min(full, self.max_parts) * self.part_bytes + rest

    async def _await(self, call: Awaitable[object], sent: int = 0) -> None:
        """Await a call that continues if this task is cancelled or the time limit is reached.

        The limit allows for the slowest part under way and for a small request.
        """
        self._call = lifecycle.watch(asyncio.ensure_future(call))
        limits = self._store.limits
        limit = RequestLimit(limits.whole(self.part_bytes) + limits.whole())
        try:
            with observing.RequestUnderWay("put", self._store.uri, self._path) as request:
                request.sent = sent
                async with limit.clock:
                    await asyncio.shield(self._call)
        except TimeoutError:
            raise translate(outlasted(limit.seconds, None), self.where) from None
        except Exception as error:
            failure = translate(error, self.where)
            raise failure from failure.__cause__

    async def _publish(self) -> None:
        self._end_block()
        if self._writer is not None:
            await self._advance()
        lifecycle.enter()
        try:
            if self._writer is None:
                whole = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
                await self._store.put(self._path, whole)
            else:
                self._is_closed = True
                await self._await(self._writer.close())  # aborts the upload if it fails
        except AccessError:
            raise
        except (StoreError, NotFoundError):
            # If only the answer was lost, the writer's retry finds no such upload.
            if not await self._is_there():
                raise
        self._has_landed = True
        self._pieces.clear()
        self.held_bytes = 0

    async def _is_there(self) -> bool:
        try:
            return await self._store.size(self._path) == self.num_bytes
        except (StoreError, NotFoundError):
            return False

    async def _drop(self) -> None:
        call = self._call
        if call is not None and not call.done():
            if self._num_sent >= self.part_bytes and not self._is_closed:
                call.cancel()  # the call only waits for its turn
            try:
                await asyncio.wait([call], timeout=self._store.limits.whole())
            finally:
                call.cancel()  # at the time limit; its parts may stay on the store
            if not call.done():
                await asyncio.wait([call])
        # The task may have been cancelled in the same tick of the loop in which its call ended.
        if call is not None and self._is_closed:
            self._has_landed |= not call.cancelled() and call.exception() is None
        if self._has_landed:
            await self._store.delete([self._path])
        elif self._writer is not None and not self._is_closed:
            self._is_closed = True
            lifecycle.enter()
            # If the answer was lost, the retry of the abort finds no such upload.
            with suppress(NotFoundError):
                await self._await(self._writer.__aexit__(AlanceError, None, None))
