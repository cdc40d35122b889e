"""Event loop and session of a process, and tasks that other processes run."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

import ray

import alance
from alance.distributed import WorkerLoop, open_record, version_record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence

    from alance import Dataset, Session
    from alance.types import StorageOptions

T = TypeVar("T")
R = TypeVar("R")

_loop: Final = WorkerLoop("alance.ray")
# A node has a worker per processor. The defaults of a session are for a single process.
WORKER_MEMORY_BYTES: Final = 64 << 20
DECODE_THREADS: Final = 2


class TablePlace(TypedDict):
    """Keyword arguments for opening or writing a table in its store."""

    storage_options: StorageOptions | None
    session: Session


def access(storage_options: StorageOptions | None) -> TablePlace:
    """Return keyword arguments with the session of this process. Call it in the loop."""
    return {
        "storage_options": storage_options,
        "session": _loop.session(WORKER_MEMORY_BYTES, DECODE_THREADS),
    }


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
        """Open the version with its fragments and indices. Cost: one GET; two for a V1 name."""
        return await alance.dataset(self.uri, version=self.number, **access(self.storage_options))


# Functions of the module, which Ray pickles by their names. A loop cannot be pickled.


def run(work: Awaitable[T]) -> T:
    """Run work to its end in the loop of this process; an interrupt cancels it there."""
    return _loop.run(work)


def stream(items: AsyncIterator[T]) -> Iterator[T]:
    """Iterate in a task over an async iterator; closing this iterator closes the async one."""
    return _loop.stream(items)


def run_task(work: Awaitable[T]) -> T:
    """Run work of a task to its end, and return unused memory to the system."""
    try:
        return _loop.run(work)
    finally:
        _loop.release()


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
        return run_task(work(item))

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
