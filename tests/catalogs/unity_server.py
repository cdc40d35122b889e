"""A server with the calls of Unity Catalog's REST API that alance makes, over dicts."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

API = "/api/2.1/unity-catalog"
PAGE = 2  # entries of an answer


@dataclass
class UnityServer:
    """Schemas and tables of the catalog `main`, by full name.

    Attributes:
        token: token that requests need; empty: none.
        failing: statuses of the next answers.
        redirect: address that all requests are sent on to; empty: none.
    """

    port: int = 0
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    token: str = ""
    failing: list[int] = field(default_factory=list)
    redirect: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def uri(self) -> str:
        return f"unity+http://127.0.0.1:{self.port}/main"

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        kind, _, name = path.removeprefix(f"{API}/").partition("/")
        entries = self.schemas if kind == "schemas" else self.tables
        if method == "POST":
            schema = f"{body['catalog_name']}.{body.get('schema_name', body['name'])}"
            full = f"{schema}.{body['name']}" if kind == "tables" else schema
            if kind == "tables" and schema not in self.schemas:
                return missing(schema)
            if full in entries:
                return 409, {"error_code": "ALREADY_EXISTS", "message": f"{full} already exists"}
            entries[full] = body
            return 200, body
        if name:
            return self.of_entry(method, entries, unquote(name), body)
        if kind == "tables" and f"main.{query['schema_name']}" not in self.schemas:
            return missing(query["schema_name"])
        inside = "main." + (f"{query['schema_name']}." if kind == "tables" else "")
        names = sorted(full for full in entries if full.startswith(inside))
        start = int(query.get("page_token") or 0)
        token = str(start + PAGE) if start + PAGE < len(names) else ""
        page = [entries[full] for full in names[start : start + PAGE]]
        return 200, {kind: page, "next_page_token": token}

    def of_entry(
        self, method: str, entries: dict[str, dict[str, Any]], full: str, body: Any
    ) -> tuple[int, Any]:
        if full not in entries:
            return missing(full)
        if method == "DELETE":
            del entries[full]
            return 200, {}
        if method == "PATCH":
            entries[full] |= body
        return 200, entries[full]


def missing(name: str) -> tuple[int, Any]:
    return 404, {"error_code": "NOT_FOUND", "message": f"{name} does not exist"}


@contextmanager
def serving_unity() -> Iterator[UnityServer]:
    """Yield a server without schemas on a free port."""
    unity = UnityServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            unity.requests.append(f"{self.command} {self.path}")
            url = urlsplit(self.path)
            size = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            with unity.lock:
                if unity.redirect:
                    status, content = 307, None
                elif unity.failing:
                    status, content = unity.failing.pop(), None
                elif unity.token and self.headers.get("authorization") != f"Bearer {unity.token}":
                    status, content = 401, {"error_code": "UNAUTHENTICATED", "message": "token?"}
                else:
                    query = dict(parse_qsl(url.query))
                    status, content = unity.answer(self.command, url.path, query, body)
            data = b"<html>" if content is None else json.dumps(content).encode()
            self.send_response(status)
            if unity.redirect:
                self.send_header("location", unity.redirect + self.path)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = respond

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    unity.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield unity
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
