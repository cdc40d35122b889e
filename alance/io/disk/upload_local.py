"""Uploads to local files: a hidden file in the same folder, renamed when it is complete."""

from __future__ import annotations

import asyncio
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from alance.io.disk import publish
from alance.io.loop.background import LOCAL_GRACE_S
from alance.io.loop.futures import seen
from alance.io.stores.store import SystemErrors
from alance.io.stores.upload import Upload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WRITE_JOB_BYTES: Final = 2 << 20  # a hop to the pool takes 100 us, writing 2 MiB takes 2 ms


class LocalUpload(Upload):
    """A file written by jobs of `WRITE_JOB_BYTES`; one job writes while the next is collected.

    Args:
        where: location of the file.
        path: absolute path of the file.
        start: runs a job in the pool.
        is_durable: sync the file and its folder to the disk before `finish` returns.
    """

    grace_s = LOCAL_GRACE_S

    def __init__(
        self,
        where: str,
        path: str,
        start: Callable[[Callable[[], None]], asyncio.Future[None]],
        is_durable: bool,
    ) -> None:
        super().__init__(where)
        self._start = start
        self._path, self._is_durable = path, is_durable
        self._job: asyncio.Future[None] | None = None
        self._in_job = 0

    @cached_property
    def _file(self) -> publish.NewFile:
        return publish.NewFile(self._path, self._is_durable)

    async def _advance(self) -> None:
        if self.held_bytes - self._in_job < WRITE_JOB_BYTES:
            return
        await self._ended()
        self._end_block()
        self._begin_job()

    def _begin_job(self, then: Callable[[], None] | None = None) -> None:
        pieces, self._pieces = self._pieces, []
        self._in_job = sum(len(piece) for piece in pieces)
        self._job = self._start(partial(_append, self._file, pieces, then))

    async def _ended(self) -> None:
        """Wait for the job under way; a cancellation does not stop the job."""
        if self._job is not None:
            with SystemErrors(self.where):
                await asyncio.shield(self._job)
            self._job = None
            self.held_bytes -= self._in_job
            self._in_job = 0

    async def _publish(self) -> None:
        await self._ended()
        self._end_block()
        self._begin_job(self._file.publish)
        await self._ended()

    async def _drop(self) -> None:
        if self._job is not None:
            await asyncio.wait([self._job])
            seen(self._job)
        self._job = self._start(self._file.drop)
        await self._ended()


def _append(
    file: publish.NewFile, pieces: Sequence[memoryview], then: Callable[[], None] | None
) -> None:
    for piece in pieces:
        file.append(piece)
    if then is None:
        file.begin_sync()
    else:
        then()
