"""Routes of a service, as a Starlette application."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import alance
from alance import InvalidInputError
from alance.base.extras import missing

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    from alance.serve.json_text import as_json
except ImportError as error:
    raise missing("serving needs Starlette, uvicorn and orjson", "serve") from error

from alance.serve.answers import plain_answer, rows_answer, stream_answer
from alance.serve.asked import arguments_of
from alance.serve.errors import UNKNOWN_OUTCOME, status_of
from alance.serve.gate import ARROW_MEDIA_TYPE, JSON_MEDIA_TYPE, Gate, Refused, type_of
from alance.serve.json_columns import table_of
from alance.serve.json_rows import json_rows
from alance.serve.served import key_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request

    from alance import Dataset
    from alance.serve.served import ServedTable
    from alance.serve.service import Service

TOKEN_LENGTH = 200
DICTIONARY_BATCH = 2  # value in Arrow's enum MessageHeader


def application(service: Service) -> Gate:
    """Create the ASGI application of a service, behind its gate."""
    routes = Routes(service)
    paths: Mapping[str, tuple[str, Any]] = {
        "/health/live": ("GET", routes.live),
        "/health/ready": ("GET", routes.ready),
        "/metrics": ("GET", routes.metrics),
        "/tables": ("GET", routes.tables),
        "/tables/{table}": ("GET", routes.table),
        "/tables/{table}/health": ("GET", routes.health),
        "/tables/{table}/rows/{key:path}": ("GET", routes.row),
        "/tables/{table}/{verb}": ("POST", routes.verb),
    }
    listed = [Route(path, run, methods=[method]) for path, (method, run) in paths.items()]
    handlers = {
        alance.AlanceError: routes.failed,
        Refused: routes.refused,
        HTTPException: routes.unknown_path,
    }
    inner = Starlette(routes=listed, exception_handlers=handlers)
    return Gate(inner, service.bounds, service.token, service.hosts)


class Routes:
    """Handlers of all paths."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def live(self, _: Request) -> Response:
        """Answer that the process runs."""
        return PlainTextResponse("ok")

    async def ready(self, _: Request) -> Response:
        """Answer with the tables' versions; 503 until all are open, and once draining."""
        if self._service.is_draining:
            raise Refused(503, "Stopping", "the service is shutting down")
        versions = {name: table.now.version for name, table in self._service.tables.items()}
        return Response(as_json({"versions": versions}), media_type=JSON_MEDIA_TYPE)

    async def metrics(self, _: Request) -> Response:
        """Answer with the metrics for Prometheus."""
        return PlainTextResponse(
            self._service.metrics_text(), media_type=self._service.metrics.content_type
        )

    async def tables(self, _: Request) -> Response:
        """Answer with the name, URI and version of each table."""
        listed = [
            {"name": name, "uri": table.uri, "version": table.now.version}
            for name, table in self._service.tables.items()
        ]
        return Response(as_json({"tables": listed}), media_type=JSON_MEDIA_TYPE)

    async def table(self, request: Request) -> Response:
        """Answer with the columns, indices and number of rows of a table."""
        table = self._table(request)
        dataset = table.now
        indices = [
            {"name": index["name"], "type": index["type"], "columns": index["fields"]}
            for index in dataset.list_indices()
        ]
        return plain_answer(
            dataset,
            uri=table.uri,
            rows=await dataset.count_rows(),
            columns=[{"name": field.name, "type": str(field.type)} for field in dataset.schema],
            indices=indices,
        )

    async def health(self, request: Request) -> Response:
        """Answer with the state that maintenance checks, and with its finished steps."""
        table = self._table(request)
        dataset = table.now
        reclaimable = request.query_params.get("reclaimable", "false")
        if reclaimable not in ("true", "false"):
            raise InvalidInputError(f"reclaimable={reclaimable!r}: expected true or false")
        return plain_answer(dataset, **await table.health(reclaimable=reclaimable == "true"))

    async def row(self, request: Request) -> Response:
        """Answer with the row of a key.

        Raises:
            RowNotFoundError: no row has the key.
        """
        table = self._table(request)
        dataset, name = table.now, request.path_params["key"]
        column = request.query_params.get("column", table.key)
        names = request.query_params.get("columns")
        has_parts = column is not None and len(key_names(column)) > 1 and "," in name
        (key,) = table.keys_of(dataset, [name.split(",") if has_parts else name], column)
        columns = _shown(dataset) if names is None else names.split(",")
        row = await dataset.get_arrow(key, _key_column(column), columns)
        if row is None:
            raise alance.RowNotFoundError(f"no row with the key {name!r}", [key])
        return plain_answer(dataset, row=json_rows(row)[0])

    async def verb(self, request: Request) -> Response:
        """Answer a POST: run the verb in its path on the table."""
        table = self._table(request)
        name = request.path_params["verb"]
        run = getattr(self, f"_{name}", None) if name in SERVED_VERBS else None
        if run is None:
            raise Refused(
                404, "NotFound", f"{name!r}: expected one of {', '.join(sorted(SERVED_VERBS))}"
            )
        is_arrow = type_of(request.headers.get("content-type", "")) == ARROW_MEDIA_TYPE
        if name == "rows":
            return await self._rows(request, table, is_arrow)
        if is_arrow:  # the gate allows Arrow bodies to be larger than JSON
            raise Refused(
                415, "UnknownType", f"{name}: {ARROW_MEDIA_TYPE}, expected {JSON_MEDIA_TYPE}"
            )
        values = arguments_of(name, await request.body())
        response: Response = await run(request, table, values)
        return response

    async def _get(self, request: Request, table: ServedTable, values: Any) -> Response:
        dataset = table.now
        column = values.get("column", table.key)
        self._bound("keys", len(values["keys"]))
        keys = table.keys_of(dataset, values["keys"], column)
        columns = values.get("columns", _shown(dataset))
        missing = values.get("missing", "error")
        rows = await dataset.get_many(keys, _key_column(column), columns, missing=missing)
        return await rows_answer(request, dataset, rows)

    async def _take(self, request: Request, table: ServedTable, values: Any) -> Response:
        dataset = table.now
        self._bound("rows", len(values["rows"]))
        if not all(type(row) is int for row in values["rows"]):
            raise InvalidInputError("take: rows: expected positions, integers from 0")
        rows = await dataset.take(values["rows"], values.get("columns", _shown(dataset)))
        return await rows_answer(request, dataset, rows)

    async def _count(self, _: Request, table: ServedTable, values: Any) -> Response:
        dataset = table.now
        num_rows = await dataset.count_rows(values.get("filter"), params=values.get("params"))
        return plain_answer(dataset, rows=num_rows)

    async def _query(self, request: Request, table: ServedTable, values: Any) -> Response:
        dataset = table.now
        if "order_by" in values:  # a sort holds all its rows in memory
            self._bound("limit", values.setdefault("limit", self._service.bounds.rows))
        columns = values.pop("columns", _shown(dataset))
        ahead = self._service.read_ahead
        scanner = dataset.scanner(columns, **ahead, **values)
        schema = scanner.projected_schema
        return await stream_answer(request, dataset, scanner.to_batches(), schema)

    async def _sql(self, request: Request, table: ServedTable, values: Any) -> Response:
        service = self._service
        if not service.sql:
            raise Refused(403, "Forbidden", "sql: this service was started without --sql")
        others = {name: other.now for name, other in service.tables.items()}
        settings = {
            "memory_limit": service.bounds.sql_memory,
            "threads": 1,
            "max_temp_directory_size": "0KiB",
            "lock_configuration": True,
        }
        batches = table.now.sql_batches(
            values["query"], params=values.get("params"), tables=others, settings=settings
        )
        return await stream_answer(request, table.now, batches)

    async def _nearest(self, request: Request, table: ServedTable, values: Any) -> Response:
        dataset = table.now
        column = values.pop("column", None) or _vector_column(dataset)
        vector = values.pop("vector")
        searched = self._searched(dataset, values, vector)
        rows = await dataset.nearest(column, vector, **searched)
        return await rows_answer(request, dataset, rows)

    async def _text(self, request: Request, table: ServedTable, values: Any) -> Response:
        dataset = table.now
        words = values.pop("query")
        rows = await dataset.search_text(words, **self._searched(dataset, values))
        return await rows_answer(request, dataset, rows)

    async def _search(self, request: Request, table: ServedTable, values: Any) -> Response:
        dataset = table.now
        rows = await dataset.search(**self._searched(dataset, values, values["vector"]))
        return await rows_answer(request, dataset, rows)

    async def _reload(self, _: Request, table: ServedTable, values: Any) -> Response:
        await table.reload()
        return plain_answer(table.now)

    async def _rows(self, request: Request, table: ServedTable, is_arrow: bool) -> Response:
        """Add rows, once per idempotency key; answer after they are committed."""
        if not self._service.ingest:
            raise Refused(403, "Forbidden", "rows: this service was started without --ingest")
        token = request.headers.get("idempotency-key", "")
        if not 0 < len(token) <= TOKEN_LENGTH:
            raise InvalidInputError(
                f"header Idempotency-Key: {len(token)} characters, expected 1 to {TOKEN_LENGTH}: "
                "a name of these rows, with which they can be sent again"
            )
        body = await request.body()
        if is_arrow:
            rows: Any = await asyncio.to_thread(_arrow_rows, body)
        else:
            rows = arguments_of("rows", body)["rows"]
            if not all(isinstance(row, dict) for row in rows):
                raise InvalidInputError("rows: expected objects")
            if rows:
                rows = await self._typed(table, rows)
        if not len(rows):
            raise InvalidInputError("rows: there are none")
        version, is_new = await table.append(rows, token)
        text = as_json({"version": version, "new": is_new})
        return Response(text, 201 if is_new else 200, media_type=JSON_MEDIA_TYPE)

    async def _typed(self, table: ServedTable, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """Convert JSON rows to the types of the table's columns.

        Loads the newest version first if a row has a column that the open version lacks.
        """
        names = {name for row in rows for name in row}
        if not names <= set(table.now.schema.names):
            await table.reload()
        return await asyncio.to_thread(table_of, rows, table.now.schema)

    async def failed(self, _: Request, error: Exception) -> Response:
        """Answer with the status and text of an error of alance, without credentials."""
        assert isinstance(error, alance.AlanceError)
        values: dict[str, object] = {"error": type(error).__name__, "detail": str(error)}
        if isinstance(error, alance.CommitStateUnknownError):
            values |= UNKNOWN_OUTCOME
        return Response(as_json(values), status_of(error), media_type=JSON_MEDIA_TYPE)

    async def refused(self, _: Request, error: Exception) -> Response:
        """Answer with the error of a handler that refused the request."""
        assert isinstance(error, Refused)
        text = as_json({"error": error.name, "detail": str(error)})
        return Response(text, error.status, media_type=JSON_MEDIA_TYPE)

    async def unknown_path(self, request: Request, error: Exception) -> Response:
        """Answer with an error of Starlette: an unknown path or method."""
        assert isinstance(error, HTTPException)
        text = as_json({"error": error.detail, "detail": f"{request.method} {request.url.path}"})
        return Response(text, error.status_code, media_type=JSON_MEDIA_TYPE, headers=error.headers)

    def _table(self, request: Request) -> ServedTable:
        name = request.path_params["table"]
        table = self._service.tables.get(name)
        if table is None:
            raise alance.TableNotFoundError(
                f"no table {name!r}; there are {', '.join(self._service.tables)}", name
            )
        return table

    def _searched(
        self, dataset: Dataset, values: dict[str, Any], vector: Sequence[object] = ()
    ) -> dict[str, Any]:
        """Return the arguments of a search after checking their limits.

        An answer has `k` rows for each query vector, all of which count against the limit.
        """
        k, refine = values.get("k", 10), values.get("refine_factor", 1)
        self._bound("k", k)
        if any(isinstance(part, list) for part in vector):
            self._bound(f"k={k} rows of {len(vector)} vectors", k * len(vector))
        self._bound(f"k={k} rows with refine_factor={refine}", k * refine)
        self._bound("candidates", values.get("candidates", 0))
        return {"columns": _shown(dataset), **values}

    def _bound(self, name: str, number: int) -> None:
        most = self._service.bounds.rows
        if number > most:
            raise InvalidInputError(f"{name}: {number}, expected {most} at most")


SERVED_VERBS = frozenset(
    {"get", "take", "count", "query", "sql", "nearest", "text", "search", "rows", "reload"}
)


def _key_column(column: str | None) -> Any:
    if column is None:
        return None
    names = key_names(column)
    return names if len(names) > 1 else names[0]


def _is_vector(kind: Any) -> bool:
    return bool(pa.types.is_fixed_size_list(kind))


def _shown(dataset: Dataset) -> list[str]:
    """Return the default columns of an answer: all except vectors, which are long."""
    return [field.name for field in dataset.schema if not _is_vector(field.type)]


def _vector_column(dataset: Dataset) -> str:
    names = [field.name for field in dataset.schema if _is_vector(field.type)]
    if len(names) != 1:
        listed = ", ".join(names) or "none"
        raise InvalidInputError(f"nearest: column is missing; columns of vectors: {listed}")
    return str(names[0])


def _arrow_rows(body: bytes) -> pa.Table:
    """Read an Arrow stream and validate it, because pyarrow does not check offsets and UTF-8.

    Raises:
        InvalidInputError: the stream is invalid or compressed, or has far more rows than bytes.
    """
    try:
        for message in pa.ipc.MessageReader.open_stream(body):
            if message.type != "schema" and _is_compressed(message.metadata.to_pybytes()):
                raise InvalidInputError("rows: compressed Arrow, expected a stream without")
        rows = pa.ipc.open_stream(body).read_all()
        rows.validate(full=True)
        str(rows.schema)  # raises if the names are not text
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"rows: no stream of Arrow: {error}") from error
    if rows.num_rows > 8 * len(body):  # arrays of the null type have no bytes
        raise InvalidInputError(f"rows: {rows.num_rows} rows of {len(body)} bytes")
    return rows


def _is_compressed(metadata: bytes) -> bool:
    """Return True if a batch is compressed, because a few such bytes may become gigabytes.

    Source: Arrow's Message.fbs, RecordBatch.compression, which pyarrow does not expose.
    """

    def member(table: int, number: int) -> int:
        members = table - struct.unpack_from("<i", metadata, table)[0]
        (size,) = struct.unpack_from("<H", metadata, members)
        place = 4 + 2 * number
        if place >= size:
            return 0
        (offset,) = struct.unpack_from("<H", metadata, members + place)
        return table + offset if offset else 0

    def below(place: int) -> int:
        return int(place + struct.unpack_from("<I", metadata, place)[0])

    message = below(0)
    batch = below(member(message, 2))
    if metadata[member(message, 1)] == DICTIONARY_BATCH:
        batch = below(member(batch, 1))
    return member(batch, 3) != 0
