"""HTTP service for tables, which `alance serve` runs and other applications can mount.

    service = alance.serve.Service({"items": "s3://bucket/items"}, ingest=True)
    async with service:
        ...  # service.app is an ASGI application

Needs the extra `serve` (Starlette, uvicorn, orjson). See docs/service.md.
"""

from alance.serve.bounds import Bounds
from alance.serve.errors import status_of
from alance.serve.served import ServedTable
from alance.serve.service import Service

__all__ = ["Bounds", "ServedTable", "Service", "status_of"]
