"""A store whose answers land when a test says so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alance.errors import InvalidInputError
from alance.format.plans import ByteRange
from alance.io.stores.profile import StoreProfile

if TYPE_CHECKING:
    from collections.abc import Sequence

CONTENT = bytes(n * 31 % 251 for n in range(20_000))
PROFILE = StoreProfile(
    kind="s3",
    take_gap=10,
    scan_gap=100,
    max_request_bytes=1000,
    max_requests=4,
    group_size=3,
    group_range_bytes=64,
    answers_now=True,
)


class Slow:
    """A store whose requests end when the test says so."""

    root = "slow://1/"
    pieces = None

    def __init__(self, profile: StoreProfile = PROFILE) -> None:
        self.profile = profile
        self.calls: list[tuple[str, list[tuple[int, int]], asyncio.Future]] = []
        self.landed: list[tuple[int, int]] = []  # spans of the requests that ended
        self.now = False

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> asyncio.Future:
        future = asyncio.get_running_loop().create_future()
        self.calls.append((path, list(ranges), future))
        return future

    def read_now(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview] | None:
        return [memoryview(CONTENT)[a:b] for a, b in ranges] if self.now else None

    @property
    def spans(self) -> list[tuple[int, int]]:
        return [span for _, spans, _ in self.calls for span in spans]

    def land(self, number: int = 0) -> None:
        _, spans, future = self.calls.pop(number)
        self.landed += spans
        future.set_result([memoryview(CONTENT)[a:b] for a, b in spans])

    async def land_all(self) -> None:
        while self.calls:
            self.land()
            await turn()


class Registry:
    def __init__(self, store: Slow) -> None:
        self.store = store

    def resolve(self, location: str) -> tuple[Slow, str]:
        if not location.startswith(self.store.root):
            raise InvalidInputError(f"no store for {location}")
        return self.store, location.removeprefix(self.store.root)

    def piece_reader(self, locations: Sequence[str]) -> tuple[None, list[str]]:
        return None, []


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def ranges(*spans: tuple[int, int], path: str = "a") -> list[ByteRange]:
    return [ByteRange(f"slow://1/{path}", start, stop) for start, stop in spans]


def check(buffers: Sequence[memoryview], *spans: tuple[int, int]) -> None:
    assert [bytes(buffer) for buffer in buffers] == [CONTENT[a:b] for a, b in spans]
