"""Coroutines of a writer run where they are called: no thread, no upload, nothing to wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from alance.format.plans import answered
from alance.io.reading.pool import DecodePool
from alance.io.stores.upload import Upload

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from alance.arrays import Bytes
    from alance.io.stores.store import Body

T = TypeVar("T")


class Here(DecodePool):
    """A pool whose work is done by the caller."""

    def __init__(self) -> None:
        super().__init__(1)

    async def run(self, work: Callable[[], T], *, inline: bool = True) -> T:
        return work()

    async def share_turn(self) -> None:
        """It is no loop's turn."""


class Pieces(Upload):
    """An upload that stays in memory."""

    def __init__(self, where: str = "memory") -> None:
        super().__init__(where)
        self._chunks: list[Body] = []

    async def write(self, buffer: Body | Bytes) -> None:
        """Keep a buffer as it is."""
        self._chunks.append(cast("Body", buffer))

    def content(self) -> bytes:
        """All that was written."""
        return b"".join(self._chunks)

    async def _advance(self) -> None:
        """Nothing is under way."""

    async def _publish(self) -> None:
        """The bytes are there already."""

    async def _drop(self) -> None:
        """They go with the upload."""


def without_waiting(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    return answered(work.__await__(), _never)


def _never(_: object) -> Sequence[memoryview]:
    raise AssertionError("a writer without threads and without an upload has waited")
