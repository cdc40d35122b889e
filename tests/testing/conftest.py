"""A lab, and a client that speaks plain HTTP."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING

import pytest

from alance.testing.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Client:
    """One connection to the lab; every answer is read to its end."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.http = http.client.HTTPConnection("127.0.0.1", lab.port, timeout=60)

    def ask(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes, http.client.HTTPMessage]:
        self.http.request(method, f"/lab{target}", body, dict(headers or {}))
        answer = self.http.getresponse()
        return answer.status, answer.read(), answer.headers

    def status(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> int:
        return self.ask(method, target, body, headers)[0]

    def read(self, key: str) -> bytes:
        return self.ask("GET", f"/{key}")[1]


@pytest.fixture(scope="module")
def server() -> Iterator[Lab]:
    with Lab() as lab:
        yield lab


@pytest.fixture
def client(server: Lab) -> Iterator[Client]:
    server.calm()
    client = Client(server)
    yield client
    client.http.close()
    server.calm()
