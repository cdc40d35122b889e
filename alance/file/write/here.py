"""Synchronous run of a writer's coroutines, without threads, uploads or waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from alance.format.plans import answered
from alance.io.reading.pool import DecodePool
from alance.io.stores.upload import Upload

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from alance.base.arrays import Bytes
    from alance.io.stores.store import Body

T = TypeVar("T")


class Here(DecodePool):
    """Pool that runs the work in the caller's thread."""

    def __init__(self) -> None:
        super().__init__(1)

    async def run(
        self, work: Callable[[], T], *, inline: bool = True, is_decoding: bool = False
    ) -> T:
        return work()

    async def share_turn(self) -> None:
        """Do nothing, because there is no event loop."""


class BufferUpload(Upload):
    """Upload that collects the bytes in memory."""

    def __init__(self, where: str = "memory") -> None:
        super().__init__(where)
        self._chunks: list[Body] = []

    async def write(self, buffer: Body | Bytes) -> None:
        """Store a buffer without copying."""
        self._chunks.append(cast("Body", buffer))

    def content(self) -> bytes:
        """Return all written bytes."""
        return b"".join(self._chunks)

    async def _advance(self) -> None:
        """Do nothing, because no upload is running."""

    async def _publish(self) -> None:
        """Do nothing, because the bytes are in memory."""

    async def _drop(self) -> None:
        """Do nothing, because the bytes are freed with the object."""


def without_waiting(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits."""
    return answered(work.__await__(), _never)


def _never(_: object) -> Sequence[memoryview]:
    raise AssertionError("a writer without threads and without an upload has waited")
