"""Deleting many files of a table, not faster than asked."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from alance.errors import InvalidInputError, StoreError
from alance.format.table.naming import DATA
from alance.io.tasks import all_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.io.engine import Engine
    from alance.ops.upkeep.cleanup_policy import CleanupCandidateFile
    from alance.versioning.table import Table

_log: Final = logging.getLogger(__name__)

REQUEST_FILES: Final = 1000  # what S3 deletes at once
REQUESTS_AT_ONCE: Final = 4


class Deleter:
    """Deletes files of a table, in requests of many.

    Args:
        rate: files a second at most; None: as fast as the store does it.
        at_once: requests under way.

    Raises:
        InvalidInputError: a rate or number that is not positive.
    """

    def __init__(self, engine: Engine, table: Table, rate: int | None, at_once: int | None) -> None:
        for name, value in (("delete_rate_limit", rate), ("delete_concurrency", at_once)):
            if value is not None and (type(value) is not int or value < 1):
                raise InvalidInputError(f"{name}={value!r}: expected a positive integer")
        self._engine = engine
        self._table = table
        self._rate = rate
        self._limit = asyncio.Semaphore(at_once or REQUESTS_AT_ONCE)
        self._free_at = 0.0  # when the next request may be sent

    async def delete(
        self, files: Sequence[CleanupCandidateFile], *, strict: bool = False
    ) -> set[str]:
        """Delete files; those that are gone are no error. Gives those that are still there.

        Raises:
            StoreError: `strict`, and the store failed.
        """
        size = REQUEST_FILES if self._rate is None else min(REQUEST_FILES, self._rate)
        paths = [one.path for one in files]
        parts = [paths[start : start + size] for start in range(0, len(paths), size)]
        failed = await all_of(self._delete(part, strict=strict) for part in parts)
        return {path for part in failed for path in part}

    async def _delete(self, paths: Sequence[str], *, strict: bool) -> Sequence[str]:
        async with self._limit:
            await self._pause(len(paths))
            store, top = self._engine.registry.resolve(self._table.folder(DATA))
            try:
                await store.delete([top.removesuffix(DATA) + path for path in paths])
            except StoreError as error:
                if strict:
                    raise
                _log.warning("cleanup of %s: %d files stay: %s", self._table.uri, len(paths), error)
                return paths
        return ()

    async def _pause(self, count: int) -> None:
        """Wait for the turn of so many files."""
        if self._rate is None:
            return
        clock = asyncio.get_running_loop().time
        turn = max(clock(), self._free_at)
        self._free_at = turn + count / self._rate
        await asyncio.sleep(turn - clock())
