"""Open datasets of both libraries, and crowds of callers that search them."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    import lance

    import alance

Q = TypeVar("Q")
S = TypeVar("S")


class Ours(Generic[Q]):
    """Searches of an open dataset by alance."""

    def __init__(self, dataset: alance.Dataset) -> None:
        self.dataset = dataset

    async def ask(self, query: Q, **options: Any) -> Any:
        """Return the answer to a query."""
        raise NotImplementedError

    async def crowd(self, queries: Sequence[Q], callers: int, **options: Any) -> None:
        """Run all queries by `callers` concurrent tasks."""
        remaining = iter(queries)

        async def caller() -> None:
            for query in remaining:
                await self.ask(query, **options)

        await asyncio.gather(*(caller() for _ in range(callers)))


class Theirs(Generic[Q]):
    """Searches of an open dataset by pylance."""

    def __init__(self, dataset: lance.LanceDataset) -> None:
        self.dataset = dataset

    def find(self, query: Q, **options: Any) -> Any:
        """Return the answer to a query. Blocks."""
        raise NotImplementedError

    async def crowd(self, queries: Sequence[Q], callers: int, **options: Any) -> None:
        """Run all queries by `callers` concurrent threads."""

        def run() -> None:
            with ThreadPoolExecutor(callers) as pool:
                list(pool.map(lambda query: self.find(query, **options), queries))

        await asyncio.to_thread(run)


@contextlib.asynccontextmanager
async def opened(
    uri: str,
    options: Any,
    ours: Callable[[alance.Dataset], S],
    theirs: Callable[[lance.LanceDataset], S],
) -> AsyncIterator[dict[str, S]]:
    """Open a dataset with both sides, each in a new session."""
    import lance

    import alance

    other = lance.dataset(uri, storage_options=options, session=lance.Session())
    async with alance.Session() as session:
        dataset = await alance.dataset(uri, storage_options=options, session=session)
        yield {"alance": ours(dataset), "pylance": theirs(other)}
