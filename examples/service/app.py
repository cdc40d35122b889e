"""A service over one table: rows by key, nearest vectors, texts, new rows.

    TABLE=s3://bucket/items KEY=id uvicorn --app-dir examples/service app:app

Variables: TABLE, KEY (a column with a scalar index), VECTOR and TEXT (columns to search), RELOAD_S
(seconds between looks for a newer version). Credentials are the environment's, or a provider's.
"""

from __future__ import annotations

import os
from base64 import b64encode
from contextlib import asynccontextmanager
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Header, Query, Request
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, Field
from served import Served

import alance
from alance import observe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

STATUSES = {  # the first that fits; see docs/service.md
    alance.BucketNotFoundError: 500,
    alance.NotFoundError: 404,
    alance.InvalidInputError: 400,
    alance.UnsupportedError: 501,
    alance.AlreadyExistsError: 409,
    alance.CommitConflictError: 409,
    alance.CommitStateUnknownError: 504,
    alance.AccessError: 500,
}
metrics = observe.Metrics()


class VectorQuery(BaseModel):
    """The rows whose vectors are nearest."""

    vector: list[float]
    k: int = Field(10, ge=1, le=1000)


class NewRows(BaseModel):
    """Rows to be added."""

    rows: list[dict[str, Any]] = Field(min_length=1, max_length=10_000)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the table before the first request, and close it behind the last."""
    observe.add(metrics)
    served = app.state.served = Served(
        os.environ["TABLE"],
        key=os.environ.get("KEY", "id"),
        storage_options=None,
        reload_s=float(os.environ.get("RELOAD_S", "5")),
    )
    await served.open()
    try:
        yield
    finally:
        await served.close()
        observe.remove(metrics)


app = FastAPI(title="alance", lifespan=lifespan)


def table(request: Request) -> Served:
    """The table of the process."""
    served: Served = request.app.state.served
    return served


def shown(dataset: alance.Dataset) -> Sequence[str]:
    """The columns of an answer: all but vectors, which are long."""
    return [name for name in dataset.schema.names if name != os.environ.get("VECTOR", "vector")]


def answer(dataset: alance.Dataset, **values: Any) -> JSONResponse:
    """Values as JSON: times by ISO 8601, bytes by base64, NaN and infinity as null."""
    own: dict[Any, Callable[[Any], Any]] = {
        bytes: lambda value: b64encode(value).decode(),
        float: lambda value: value if isfinite(value) else None,
    }
    return JSONResponse(
        jsonable_encoder({"version": dataset.version, **values}, custom_encoder=own)
    )


@app.exception_handler(alance.AlanceError)
async def failed(request: Request, error: alance.AlanceError) -> JSONResponse:
    """Errors as statuses; the texts have no credentials."""
    if isinstance(error, alance.StoreError) and not isinstance(error, alance.AccessError):
        status = 503 if error.retryable else 502
    else:
        status = next((code for kind, code in STATUSES.items() if isinstance(error, kind)), 500)
    return JSONResponse({"error": type(error).__name__, "detail": str(error)}, status)


@app.get("/rows/{key}")
async def row(request: Request, key: str) -> JSONResponse:
    """A row by its key."""
    served = table(request)
    dataset = served.now
    try:
        wanted_key = served.key_of(key)
    except ValueError:
        raise alance.InvalidInputError(f"key {key!r}: expected a number") from None
    values = await dataset.get(wanted_key, served.key, shown(dataset))
    if values is None:
        return JSONResponse({"error": "RowNotFoundError", "detail": f"no key {key}"}, 404)
    return answer(dataset, row=values)


@app.post("/search/vectors")
async def near(request: Request, query: VectorQuery) -> JSONResponse:
    """The rows whose vectors are nearest to the query's."""
    dataset = table(request).now
    column = os.environ.get("VECTOR", "vector")
    rows = await dataset.nearest(column, query.vector, query.k, columns=shown(dataset))
    return answer(dataset, rows=rows.to_pylist())


@app.get("/search/texts")
async def texts(
    request: Request, words: str, k: Annotated[int, Query(ge=1, le=1000)] = 10
) -> JSONResponse:
    """The rows whose texts match some words best."""
    dataset = table(request).now
    query = alance.MatchQuery(words, os.environ.get("TEXT", "text"))
    rows = await dataset.search_text(query, k, columns=shown(dataset))
    return answer(dataset, rows=rows.to_pylist())


@app.post("/rows")
async def append(
    request: Request, new: NewRows, idempotency_key: Annotated[str, Header(max_length=200)]
) -> JSONResponse:
    """Add rows, once for each idempotency key; answered when they are committed.

    A caller that got no answer sends the same key again.
    """
    served = table(request)
    version, is_new = await served.append(new.rows, idempotency_key)
    return JSONResponse({"version": version, "new": is_new}, 201 if is_new else 200)


@app.post("/reload")
async def reload(request: Request) -> JSONResponse:
    """Go to the newest version now."""
    return JSONResponse({"version": await table(request).reload()})


@app.get("/health/live")
async def live() -> PlainTextResponse:
    """The process answers."""
    return PlainTextResponse("ok")


@app.get("/health/ready")
async def ready(request: Request) -> JSONResponse:
    """A version is served: 503 before the start and after the stop."""
    return JSONResponse({"version": table(request).now.version})


@app.get("/metrics")
async def scraped() -> PlainTextResponse:
    """What Prometheus reads."""
    return PlainTextResponse(metrics.text(), media_type=metrics.content_type)
