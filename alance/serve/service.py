"""A service over tables: opened, followed, closed, and its application."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import alance
from alance import InvalidInputError, observe
from alance.serve.bounds import Bounds
from alance.serve.served import ServedTable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping
    from types import TracebackType
    from typing import Self

    from alance import Session
    from alance.types import StorageOptions


class Service:
    """Tables over HTTP; see docs/service.md for what can be asked.

    Args:
        tables: URIs by the names that paths have for them.
        key: the column by which rows are found, with commas between several; one for all tables,
            or by table. None: the primary key of each.
        ingest: rows can be added.
        sql: queries in SQL can be asked; they reach these tables alone, and no files.
        token: token of the header `Authorization: Bearer TOKEN`; None to accept all requests.
        hosts: names that requests may call the service by; empty: any.
        reload_s: seconds between looks for newer versions; 0: only by `POST .../reload`.
        bounds: bounds of requests, see `Bounds`.
        storage_options: options for all tables; see `alance.dataset`.
        session: session with the caches; None for a new one, with the environment's budgets.

    Raises:
        InvalidInputError: no tables, a name that is no part of a path, an empty token, a key of
            a table that is not there.
        UnsupportedError: Starlette is not installed.
    """

    def __init__(
        self,
        tables: Mapping[str, str],
        *,
        key: str | Mapping[str, str] | None = None,
        ingest: bool = False,
        sql: bool = False,
        token: str | None = None,
        hosts: Collection[str] = (),
        reload_s: float = 5.0,
        bounds: Bounds | None = None,
        storage_options: StorageOptions | None = None,
        session: Session | None = None,
    ) -> None:
        if not tables or not all(name and "/" not in name for name in tables):
            raise InvalidInputError(f"tables: {list(tables)}, expected names without slashes")
        if token is not None and not token.strip():
            raise InvalidInputError("token: it is empty")
        keys = {} if key is None or isinstance(key, str) else dict(key)
        if unknown := keys.keys() - tables.keys():
            raise InvalidInputError(f"key: no table {sorted(unknown)[0]!r}")
        self.ingest = ingest
        self.sql = sql
        self.token = token
        self.hosts = hosts
        self.bounds = bounds or Bounds()
        self.metrics = observe.Metrics()
        self._session = session or alance.Session()
        self._owns_session = session is None
        self.tables = {
            name: ServedTable(
                uri,
                self._session,
                key=key if isinstance(key, str) else keys.get(name),
                storage_options=storage_options,
                reload_s=reload_s,
            )
            for name, uri in tables.items()
        }
        from alance.serve.application import application

        self._gate = application(self)

    @property
    def read_ahead(self) -> dict[str, Any]:
        """Options of a scan for one of many callers, any of whom may leave its answer unread."""
        share = max(1, self._session.io_buffer_bytes // self.bounds.requests)
        return {"io_buffer_bytes": share, "batch_readahead": 1}

    @property
    def app(self) -> Any:
        """The ASGI application: for uvicorn, or to be mounted into another one."""
        return self._gate

    @property
    def is_draining(self) -> bool:
        """True once `drain` was called."""
        return self._gate.is_draining

    def drain(self) -> None:
        """Ask callers to close their connections before the server does.

        From now on each answer has `Connection: close`, and `/health/ready` is 503. If the server
        closed an idle connection first, a request already under way on it would get no answer.
        """
        self._gate.is_draining = True

    def __getitem__(self, name: str) -> ServedTable:
        return self.tables[name]

    async def __aenter__(self) -> Self:
        """Warm up and open all tables, before the first request.

        Raises:
            AlanceError: a table cannot be opened; none is then.
        """
        observe.add(self.metrics)
        try:
            await alance.warm_up(session=self._session)
            for table in self.tables.values():
                await table.open()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit what was accepted and close all tables, behind the last request."""
        await self._close()

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """The service's own time within that of another application: `FastAPI(lifespan=...)`."""
        async with self:
            yield

    def metrics_text(self) -> str:
        """Counters of requests, stores, commits and caches, as Prometheus reads them."""
        return self.metrics.text() + "\n".join([*self._gate.lines(), ""])

    async def _close(self) -> None:
        observe.remove(self.metrics)
        errors: list[BaseException] = []
        for table in self.tables.values():
            try:
                await table.close()
            except alance.AlanceError as error:
                errors.append(error)
        if self._owns_session:
            await self._session.aclose()
        if errors:
            raise errors[0]
