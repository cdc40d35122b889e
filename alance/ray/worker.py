"""Event loop and session of a process, and tasks that other processes run."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

import ray

import alance
from alance import Session
from alance.blocking import OwnLoop
from alance.distributed import open_record, release_memory, version_record

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence

    from alance import Dataset
    from alance.types import StorageOptions

T = TypeVar("T")
R = TypeVar("R")

loop: Final = OwnLoop("alance.ray")
# A node has a worker per processor. The defaults of a session are for a single process.
WORKER_MEMORY_BYTES: Final = 64 << 20
CACHE_SHARE: Final = 4  # divisor: the share of the memory for caches of footers and page tables
DECODE_BLOCKS_BYTES: Final = 96 << 20  # bytes of blocks that decoding reuses in the next task


@cache
def _session() -> Session:
    return Session(
        cache_bytes=WORKER_MEMORY_BYTES // CACHE_SHARE,
        io_buffer_bytes=WORKER_MEMORY_BYTES,
        block_cache_bytes=0,
        decode_threads=2,
    )


os.register_at_fork(after_in_child=_session.cache_clear)  # a fork starts another loop


class TablePlace(TypedDict):
    """Keyword arguments for opening or writing a table in its store."""

    storage_options: StorageOptions | None
    session: Session


def access(storage_options: StorageOptions | None) -> TablePlace:
    """Return keyword arguments with the session of this process. Call it in the loop."""
    return {"storage_options": storage_options, "session": _session()}


def full_uri(uri: str | os.PathLike[str]) -> str:
    """Return a URI that means the same in workers, which run in other folders."""
    text = os.fspath(uri)
    return text if "://" in text else os.path.abspath(text)


@dataclass(frozen=True, slots=True)
class Version:
    """A version without its fragments, for a small pickle.

    Attributes:
        record: schema, settings and base paths.
        storage_options: options of the store; never shown.
    """

    uri: str
    number: int
    record: bytes = field(repr=False)
    storage_options: StorageOptions | None = field(repr=False)

    @classmethod
    def of(cls, dataset: Dataset, storage_options: StorageOptions | None) -> Version:
        """Wrap the version of a dataset. No request."""
        return cls(dataset.uri, dataset.version, version_record(dataset), storage_options)

    def dataset(self, fragments: Sequence[bytes] = ()) -> Dataset:
        """Open the version with some of its fragments. No request."""
        return open_record(self.record, self.uri, fragments, **access(self.storage_options))

    async def opened(self) -> Dataset:
        """Open the version with its fragments and indices. Cost: one GET."""
        return await alance.dataset(self.uri, version=self.number, **access(self.storage_options))


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run work to its end in the loop of this process; an interrupt cancels it there."""

    async def result() -> T:
        return await work()

    return loop.run(result())


def run_task(work: Callable[[], Awaitable[T]]) -> T:
    """Run work in a task, and return unused memory to the system."""
    try:
        return run(work)
    finally:
        release_memory(DECODE_BLOCKS_BYTES)


def stream(work: Callable[[], AsyncGenerator[T, None]]) -> Iterator[T]:
    """Iterate in a task over an async iterator; closing this iterator closes the async one."""

    async def begin() -> AsyncGenerator[T, None]:
        return work()

    try:
        yield from loop.iterate(loop.run(begin()))
    finally:
        release_memory(DECODE_BLOCKS_BYTES)


async def run_tasks(
    work: Callable[[T], Awaitable[R]],
    items: Sequence[T],
    ray_remote_args: Mapping[str, Any] | None = None,
) -> list[R]:
    """Run `work` on each item in a Ray task of its own; return the results in the items' order.

    Ray repeats tasks whose worker has died, three times unless `ray_remote_args` have
    `max_retries`. If a task fails, the others are cancelled.

    Args:
        work: called in the loop of a worker. Ray sends it to each worker once, so that it can hold
            on to a model.
        ray_remote_args: arguments of `ray.remote`, such as `num_gpus`.
    """

    def task(item: T) -> R:
        return run_task(lambda: work(item))

    remote = ray.remote(task)
    options: dict[str, Any] = {"name": "alance", **(ray_remote_args or {})}
    refs = [remote.options(**options).remote(item) for item in items]
    try:
        results: list[R] = await asyncio.gather(
            *(asyncio.wrap_future(ref.future()) for ref in refs)
        )
    except BaseException:
        for ref in refs:
            ray.cancel(ref)
        raise
    return results
