"""A catalog that manages versions strictly: what it does not list is no version."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import lance_namespace
from lance_namespace import LanceNamespace
from lance_namespace_urllib3_client import models

MAX: int = (1 << 64) - 1


class Ledger(LanceNamespace):
    """Tables `{name}.lance` of a folder, whose versions are in memory.

    Attributes:
        versions: versions by table and branch: number to `TableVersion` as a dict.
        calls: names of the methods called.
        fault: called with a method's name before it is done; what it returns is called after. Each
            may raise, as if the server failed before or after the work.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tables: set[str] = set()
        self.versions: dict[tuple[str, str | None], dict[int, dict[str, Any]]] = {}
        self.calls: list[str] = []
        self.fault: Callable[[str], Callable[[], None] | None] = lambda method: None
        self._lock = threading.RLock()

    def namespace_id(self) -> str:
        return f"ledger of {self.root}"

    def _table(self, request: Any) -> str:
        name: str = "$".join(of(request, "id"))
        if name not in self.tables:
            raise lance_namespace.TableNotFoundError(name)
        return name

    @contextmanager
    def _method(self, name: str) -> Iterator[None]:
        after = self.fault(name)
        with self._lock:
            self.calls.append(name)
            yield
        if after is not None:
            after()

    def list_tables(self, request: Any) -> Any:
        return models.ListTablesResponse(tables=sorted(self.tables))

    def declare_table(self, request: Any) -> Any:
        with self._method("declare_table"):
            name = "$".join(of(request, "id"))
            if name in self.tables:
                raise lance_namespace.TableAlreadyExistsError(name)
            self.tables.add(name)
            location = str(self.root / f"{name}.lance")
            return models.DeclareTableResponse(location=location, managed_versioning=True)

    def describe_table(self, request: Any) -> Any:
        with self._method("describe_table"):
            location = str(self.root / f"{self._table(request)}.lance")
            return models.DescribeTableResponse(location=location, managed_versioning=True)

    def drop_table(self, request: Any) -> Any:
        with self._method("drop_table"):
            name = self._table(request)
            self.tables.remove(name)
            for key in [key for key in self.versions if key[0] == name]:
                del self.versions[key]
            return models.DropTableResponse()

    def _of_branch(self, request: Any) -> dict[int, dict[str, Any]]:
        key = (self._table(request), of(request, "branch"))
        return self.versions.setdefault(key, {})

    def list_table_versions(self, request: Any) -> Any:
        with self._method("list_table_versions"):
            numbers = sorted(self._of_branch(request), reverse=True)
            first = int(of(request, "page_token") or 0)
            limit = of(request, "limit") or len(numbers)
            page = [self._of_branch(request)[number] for number in numbers[first : first + limit]]
            token = str(first + limit) if first + limit < len(numbers) else None
            versions = [models.TableVersion(**version) for version in page]
            return models.ListTableVersionsResponse(versions=versions, page_token=token)

    def describe_table_version(self, request: Any) -> Any:
        with self._method("describe_table_version"):
            version = self._of_branch(request).get(of(request, "version"))
            if version is None:
                raise lance_namespace.TableVersionNotFoundError(str(of(request, "version")))
            return models.DescribeTableVersionResponse(version=models.TableVersion(**version))

    def create_table_version(self, request: Any) -> Any:
        with self._method("create_table_version"):
            versions, number = self._of_branch(request), of(request, "version")
            if number in versions:
                raise lance_namespace.ConcurrentModificationError(f"version {number} exists")
            staged = Path("/" + of(request, "manifest_path"))
            name = f"{MAX - number:020d}.manifest"
            if of(request, "naming_scheme") == "V1":
                name = f"{number}.manifest"
            final = staged.with_name(name)
            os.rename(staged, final)
            versions[number] = {
                "version": number,
                "manifest_path": str(final).lstrip("/"),
                "manifest_size": final.stat().st_size,
            }
            version = models.TableVersion(**versions[number])
            return models.CreateTableVersionResponse(version=version)

    def batch_delete_table_versions(self, request: Any) -> Any:
        with self._method("batch_delete_table_versions"):
            versions = self._of_branch(request)
            for part in of(request, "ranges"):
                start, stop = of(part, "start_version"), of(part, "end_version")
                for number in list(versions):
                    if start <= number and (stop == -1 or number < stop):
                        del versions[number]
            return models.BatchDeleteTableVersionsResponse()


def of(request: Any, name: str) -> Any:
    return request.get(name) if isinstance(request, Mapping) else getattr(request, name)


# Method and request by what follows the name of a table in a URL.
ROUTES = {
    "describe": ("describe_table", models.DescribeTableRequest),
    "declare": ("declare_table", models.DeclareTableRequest),
    "drop": ("drop_table", models.DropTableRequest),
    "version/list": ("list_table_versions", models.ListTableVersionsRequest),
    "version/describe": ("describe_table_version", models.DescribeTableVersionRequest),
    "version/create": ("create_table_version", models.CreateTableVersionRequest),
    "version/delete": ("batch_delete_table_versions", models.BatchDeleteTableVersionsRequest),
}
STATUS = {0: 406, 4: 404, 5: 409, 11: 404, 14: 409, 17: 503}


@contextmanager
def serving(ledger: Ledger) -> Iterator[str]:
    """Serve a catalog by the REST protocol; yields its URI."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            parts = urlsplit(self.path)
            _, _, _, name, action = parts.path.split("/", 4)
            body = self.rfile.read(int(self.headers["content-length"] or 0))
            fields = dict(parse_qsl(parts.query)) | (json.loads(body or "{}") or {})
            fields = {key: value for key, value in fields.items() if key != "delimiter"}
            for key, kind in (("limit", int), ("descending", lambda text: text == "true")):
                if isinstance(fields.get(key), str):
                    fields[key] = kind(fields[key])
            method, request = ROUTES[action]
            try:
                message = request.from_dict(fields | {"id": unquote(name).split("$")})
                answer, status = getattr(ledger, method)(message).to_dict(), 200
            except lance_namespace.LanceNamespaceError as error:
                answer = {"code": int(error.code), "error": str(error)}
                status = STATUS.get(int(error.code), 500)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
