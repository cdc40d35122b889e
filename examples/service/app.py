"""A service of one's own around that of alance: one more path, and the same table.

    TABLE=s3://bucket/items uvicorn --app-dir examples/service app:app

All that `alance serve` answers is there as well. Credentials are the environment's.
"""

from __future__ import annotations

import os
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

import alance
from alance.serve import Service, status_of

service = Service({"items": os.environ["TABLE"]}, key=os.environ.get("KEY", "id"), ingest=True)
app = FastAPI(title="alance", lifespan=service.lifespan)


@app.exception_handler(alance.AlanceError)
async def failed(request: Request, error: alance.AlanceError) -> JSONResponse:
    """Errors as statuses; the texts have no credentials."""
    return JSONResponse({"error": type(error).__name__, "detail": str(error)}, status_of(error))


@app.get("/similar/{key}")
async def similar(key: int, k: int = 10, column: str = "vector") -> dict[str, Any]:
    """The rows whose vectors are nearest to that of a row."""
    dataset = service["items"].now
    (row,) = (await dataset.get_many([key], service["items"].key, [column])).to_pylist()
    rows = await dataset.nearest(column, row[column], k + 1, columns=["id"])
    others = [match for match in rows.to_pylist() if match["id"] != key]
    return {"version": dataset.version, "rows": others[:k]}


app.mount("/", service.app)
