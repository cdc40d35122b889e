"""Clients of a service in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from alance.serve import Service


def client_of(service: Service) -> httpx.AsyncClient:
    """Return a client of the table `items` that calls the service without a socket."""
    transport = httpx.ASGITransport(service.app)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost/tables/items")
