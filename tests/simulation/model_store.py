"""A store of objects that fails as the clouds do, with the dice of a seed; for simulations."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from alance.errors import AlreadyExistsError, NotFoundError, StoreError, UnsupportedError
from alance.io.stores.profile import GCS, StoreProfile
from alance.io.stores.store import ObjectMeta, put_each

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Callable, Sequence

    from alance.io.stores.store import Body, Names, Span
    from alance.io.stores.upload import Upload

ROOT = "model://model/"


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities of what may happen to a request.

    Attributes:
        refused: an error before anything is done.
        lost: it is done, and an error is answered.
        late: an error is answered at once, and it is done later.
        twice: the client sends it a second time by itself, and hears of that one.
        busy: a conditional put is answered as if the object were there (S3's 409).
        latency_s: mean of the time to the server, and of that back.
        late_s: mean of the time until a late one is done.
    """

    refused: float = 0.0
    lost: float = 0.0
    late: float = 0.0
    twice: float = 0.0
    busy: float = 0.0
    latency_s: float = 0.03
    late_s: float = 1.0


@dataclass
class Model:
    """The objects, which all clients see, and what is on its way to them."""

    dice: random.Random
    faults: Faults = field(default_factory=Faults)
    profile: StoreProfile = GCS
    objects: dict[str, bytes] = field(default_factory=dict)
    rows: dict[tuple[str, int], object] = field(default_factory=dict)  # of an external store
    under_way: set[asyncio.Future[None]] = field(default_factory=set)

    def put(self, path: str, body: bytes, *, if_absent: bool) -> bool:
        """Write; False where the object is there and must not be."""
        if if_absent and path in self.objects:
            return False
        self.objects[path] = body
        return True

    def later(self, happen: Callable[[], object]) -> None:
        """Something that happens after a while, whoever waits for it or not."""

        async def arrive() -> None:
            await asyncio.sleep(self.dice.expovariate(1.0 / self.faults.late_s))
            happen()

        task = asyncio.ensure_future(arrive())
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)

    async def settle(self) -> None:
        """Wait until nothing is on its way."""
        while self.under_way:
            await asyncio.gather(*self.under_way)


def tag_of(body: bytes) -> str:
    """The tag of an object, by its content, as S3 has it."""
    return f'"{hashlib.md5(body).hexdigest()}"'


class ModelClient:
    """The store as one process sees it.

    Args:
        crash_after: requests after which the process is no more: it hears nothing again. None:
            it lives.
    """

    def __init__(self, model: Model, crash_after: int | None = None) -> None:
        self.root = ROOT
        self.profile = model.profile
        self.pieces = None
        self.model = model
        self.is_dead = False
        self._remaining = crash_after

    async def travel(self) -> None:
        """One way between client and server; a client that is dead waits forever."""
        if self._remaining is not None:
            self._remaining -= 1
            self.is_dead = self._remaining < 0
        if self.is_dead:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(self.model.dice.expovariate(1.0 / self.model.faults.latency_s))

    def happens(self, probability: float) -> bool:
        """Throw the dice."""
        return self.model.dice.random() < probability

    def failure(self, path: str, what: str) -> StoreError:
        """An error that says nothing of what was done."""
        return StoreError(f"{ROOT}{path}: {what}", retryable=True, status=503)

    async def write(self, what: str, happen: Callable[[], bool], *, conditional: bool) -> None:
        """A request that writes, and what may befall it.

        Args:
            happen: writes; False where its condition does not hold.

        Raises:
            AlreadyExistsError: the condition does not hold, or so the server says.
            StoreError: it failed, or so it seems.
        """
        faults = self.model.faults
        await self.travel()
        if self.happens(faults.refused):
            raise self.failure(what, "refused")
        if conditional and self.happens(faults.busy):
            await self.travel()
            raise AlreadyExistsError(f"{ROOT}{what}: busy")
        if self.happens(faults.late):
            self.model.later(happen)
            raise self.failure(what, "timeout")
        done = happen()
        if self.happens(faults.twice):
            await self.travel()
            done = happen()
        await self.travel()
        if self.happens(faults.lost):
            raise self.failure(what, "lost")
        if not done:
            raise AlreadyExistsError(f"{ROOT}{what}: the condition does not hold")

    async def put(self, path: str, body: Body, *, if_absent: bool = False) -> str:
        """Write, perhaps."""
        content = bytes(body)
        await self.write(
            path,
            lambda: self.model.put(path, content, if_absent=if_absent),
            conditional=if_absent,
        )
        return tag_of(content)

    def open_upload(
        self, path: str, *, size_hint: int | None = None, durable: bool = True
    ) -> Upload:
        """Not in the model."""
        raise UnsupportedError(f"{ROOT}{path}: the model has no uploads")

    async def put_in_order(
        self, objects: Sequence[tuple[str, Body]], *, if_absent: bool = False
    ) -> str | None:
        """Write, perhaps, one after the other."""
        return await put_each(self, objects, if_absent=if_absent)

    async def put_many(self, objects: Sequence[tuple[str, Body]]) -> None:
        """Write, perhaps, one after the other."""
        for path, body in objects:
            await self.put(path, body)

    def open_file(self, path: str) -> None:
        """None: there are no files."""

    async def get(self, path: str, *, e_tag: str | None = None) -> memoryview:
        """Read, whatever its tag."""
        await self.travel()
        row = self.model.objects.get(path)
        await self.travel()
        if self.happens(self.model.faults.refused):
            raise self.failure(path, "refused")
        if row is None:
            raise NotFoundError(f"{ROOT}{path}: no such object")
        return memoryview(row)

    async def size(self, path: str) -> int:
        """Bytes of the object."""
        return len(await self.get(path))

    async def get_tail(
        self, path: str, num_bytes: int, *, size: int | None = None
    ) -> tuple[memoryview, int]:
        """The last bytes."""
        row = await self.get(path)
        return row[max(0, len(row) - num_bytes) :], len(row)

    def read_now(self, path: str, ranges: Sequence[Span]) -> None:
        """None: it must travel."""

    def get_ranges(self, path: str, ranges: Sequence[Span]) -> asyncio.Future[Sequence[memoryview]]:
        """Ranges of an object."""

        async def read() -> Sequence[memoryview]:
            row = await self.get(path)
            return [row[start:stop] for start, stop in ranges]

        return asyncio.ensure_future(read())

    async def delete(self, paths: Sequence[str]) -> None:
        """Delete."""
        await self.travel()
        for path in paths:
            self.model.objects.pop(path, None)
        await self.travel()

    async def copy(self, source: str, target: str) -> None:
        """Copy."""
        await self.put(target, await self.get(source))

    async def unfinished(self, prefix: str) -> Sequence[ObjectMeta]:
        """None."""
        return ()

    async def remove_folders(self, prefix: str) -> None:
        """Nothing: there are no folders."""

    def uri_of(self, path: str) -> str:
        """Known in this model only."""
        return ROOT + path

    def lasting_name(self) -> None:
        """None: it ends with the process."""

    def heeds_conditions(self) -> bool:
        """As its profile says."""
        return self.profile.heeds_conditions

    async def list_level(self, prefix: str) -> tuple[Names, Names]:
        """Folders and objects."""
        await self.travel()
        cut = len(prefix) + 1
        below = [path for path in self.model.objects if path.startswith(f"{prefix}/")]
        names = {path[cut:].split("/")[0] for path in below if "/" in path[cut:]}
        objects = sorted(path for path in below if "/" not in path[cut:])
        return sorted(f"{prefix}/{name}" for name in names), objects

    async def list(
        self, prefix: str, *, start_after: str | None = None
    ) -> AsyncIterator[ObjectMeta]:
        """Objects under a folder, as they are when the request arrives."""
        await self.travel()
        values = [(path, len(body), tag_of(body)) for path, body in self.model.objects.items()]
        await self.travel()
        if self.happens(self.model.faults.refused):
            raise self.failure(prefix, "refused")
        if self.profile.lists_in_order:
            values.sort()
        for path, num_bytes, tag in values:
            if path.startswith(prefix + "/") and (start_after is None or path > start_after):
                yield ObjectMeta(path, num_bytes, None, tag)
