"""A table as a service has it: its newest version, reloaded now and then, and a sink of rows."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import alance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

log = logging.getLogger("service")


class Served:
    """One table; its `dataset` is a version, and another one after a reload.

    Whoever has taken `dataset` goes on with that version until the request is answered.
    """

    def __init__(
        self, uri: str, *, key: str, storage_options: Mapping[str, str] | None, reload_s: float
    ) -> None:
        self.uri = uri
        self.key = key
        self.dataset: alance.Dataset | None = None
        self.session = alance.Session()  # budgets: ALANCE_CACHE_BYTES and its kin
        self._options = storage_options
        self._reload_s = reload_s
        self._sink: alance.Sink | None = None
        self._opening = asyncio.Lock()
        self._reloader: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Warm up, open the newest version, and follow the table from now on."""
        await alance.warm_up(session=self.session)
        self.dataset = await alance.dataset(
            self.uri, storage_options=self._options, session=self.session
        )
        self._reloader = asyncio.create_task(self._reload_now_and_then())

    async def close(self) -> None:
        """Commit what was accepted, and end all that is under way."""
        if self._reloader is not None:
            self._reloader.cancel()
            await asyncio.gather(self._reloader, return_exceptions=True)
        self.dataset = None
        try:
            if self._sink is not None:
                await self._sink.close()
        finally:
            await self.session.aclose()

    async def reload(self) -> int:
        """Go to the newest version: one LIST, and a GET if there is one. Gives its number."""
        before = self.now
        newest = await before.checkout_latest()
        if self.dataset is not None and newest.version > self.dataset.version:
            self.dataset = newest
        return self.now.version

    @property
    def now(self) -> alance.Dataset:
        """The version that is served.

        Raises:
            alance.StoreError: none, as before the start and after the stop.
        """
        if self.dataset is None:
            raise alance.StoreError(f"table {self.uri!r}: is not open", retryable=True)
        return self.dataset

    def key_of(self, text: str) -> int | str:
        """A key as the column has it."""
        is_text = str(self.now.schema.field(self.key).type).endswith("string")
        return text if is_text else int(text)

    async def append(self, rows: Sequence[Mapping[str, Any]], token: str) -> tuple[int, bool]:
        """Add rows, once for each token; returns when a version has them.

        Callers that wait at the same time share a version.

        Returns:
            A version that has them, and whether they are new.
        """
        sink = await self._open_sink()
        try:
            is_new = await sink.write(rows, token=token)
            version = await sink.flush()
        except alance.AlanceError:
            await self._drop(sink)
            raise
        return version, is_new

    async def _open_sink(self) -> alance.Sink:
        async with self._opening:
            if self._sink is None:
                # Longer than any request waits: each of them flushes.
                sink = alance.ingest(
                    self.uri,
                    commit_interval=None,
                    session=self.session,
                    storage_options=self._options,
                )
                self._sink = await sink.__aenter__()
            return self._sink

    async def _drop(self, sink: alance.Sink) -> None:
        """Leave a sink that failed; rows that a caller got wrong do no harm to others."""
        with suppress(alance.AlanceError):
            await sink.flush()
            return
        if self._sink is sink:
            self._sink = None
        await sink.abort()

    async def _reload_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._reload_s)
            try:
                await self.reload()
            except alance.AlanceError as error:  # the version in hand is still served
                log.warning("no newer version: %s", error)
