"""HTTP service for tables: opens, follows and closes them, and has the application."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import alance
from alance import InvalidInputError, observe
from alance.blocking import public
from alance.serve.bounds import Bounds
from alance.serve.served import ServedTable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from alance import MaintenancePolicy, Session
    from alance.types import StorageOptions


MAINTAIN_S = 60.0


@public
class Service:
    """HTTP service for tables; docs/service.md describes its requests.

    Args:
        tables: URIs of tables by their names in paths.
        key: key column, or several separated by commas; for all tables, or by table; None: the
            primary key of each table.
        ingest: True to allow requests that add rows.
        maintain: policy for maintaining the tables in the background, as by `Dataset.maintaining`;
            True: the policy in the configuration of each table; False: no maintenance.
        maintain_s: seconds between runs of maintenance.
        sql: True allows SQL queries, which can read only these tables, and no files.
        token: token that requests must carry as `Authorization: Bearer TOKEN`; None lets all
            requests in.
        hosts: host names by which requests may call the service; empty allows any.
        reload_s: seconds that an answer may be behind its table; 0: versions are looked for at
            `POST .../reload` only.
        bounds: limits of requests.
        storage_options: options of all tables; see `alance.dataset`.
        session: session with the caches to use; None: a new session.

    Raises:
        InvalidInputError: there are no tables, a name is empty or has a slash, the token is empty,
            `maintain` is neither a policy nor a bool, `maintain_s` is not positive, `reload_s` is
            negative, or `key` names an unknown table.
        MissingPackageError: Starlette, uvicorn or orjson is not installed.
    """

    def __init__(
        self,
        tables: Mapping[str, str],
        *,
        key: str | Mapping[str, str] | None = None,
        ingest: bool = False,
        maintain: MaintenancePolicy | bool = False,
        maintain_s: float = MAINTAIN_S,
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
        if not (isinstance(maintain, bool | alance.MaintenancePolicy)):
            raise InvalidInputError(
                f"maintain={maintain!r}: expected a MaintenancePolicy, True or False"
            )
        if not maintain_s > 0:
            raise InvalidInputError(f"maintain_s={maintain_s!r}: expected a time above 0 s")
        if not reload_s >= 0:
            raise InvalidInputError(f"reload_s={reload_s!r}: expected a time above 0 s, or 0")
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
                maintain=maintain,
                maintain_s=maintain_s,
            )
            for name, uri in tables.items()
        }
        from alance.serve.application import application

        self._gate = application(self)

    @property
    def read_ahead(self) -> dict[str, Any]:
        """Options of a scan that limit its read-ahead to the share of one request."""
        share = max(1, self._session.io_buffer_bytes // self.bounds.requests)
        return {"io_buffer_bytes": share, "batch_readahead": 1}

    @property
    def app(self) -> Any:
        """ASGI application, for uvicorn or to be mounted into another application."""
        return self._gate

    @property
    def is_draining(self) -> bool:
        """True after `drain` was called."""
        return self._gate.is_draining

    def drain(self) -> None:
        """Ask callers to close their connections before the server does.

        From now on each answer has `Connection: close`, and `/health/ready` is 503. If instead the
        server closed an idle connection, a request already under way on it would get no answer.
        Maintenance ends at once.
        """
        self._gate.is_draining = True
        for table in self.tables.values():
            table.stop_maintenance()

    def __getitem__(self, name: str) -> ServedTable:
        return self.tables[name]

    async def __aenter__(self) -> Self:
        """Warm up and open all tables.

        Raises:
            AlanceError: a table cannot be opened; all tables are closed then.
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
        """Commit the accepted rows and close all tables; to be called after the last request."""
        await self._close()

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Run the service as the lifespan of another application: `FastAPI(lifespan=...)`."""
        async with self:
            yield

    def metrics_text(self) -> str:
        """Metrics of requests, stores, commits and caches, in the text format of Prometheus."""
        return self.metrics.text() + "\n".join([*self._gate.lines(), *self._table_lines(), ""])

    def _table_lines(self) -> Iterator[str]:
        name = "alance_serve_reclaimable_bytes"
        yield f"# HELP {name} Bytes that a cleanup would free, when health was last asked for them."
        yield f"# TYPE {name} gauge"
        for table, served in self.tables.items():
            if served.reclaimable_bytes is not None:
                label = table.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
                yield f'{name}{{table="{label}"}} {served.reclaimable_bytes}'

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
