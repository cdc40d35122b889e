"""A server with the calls of the Hugging Face Hub by which its file system reads, over a folder.

Files are redirected to a second server, as the Hub sends large ones to its storage. A revision is a
folder: `OWNER/NAME/REVISION/path`.
"""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from tests.access.foreign import Foreign, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class Hub:
    """The Hub and its storage.

    Attributes:
        token: token that private repositories need; they have `private` in their name.
        requests: path and `authorization` header of each request to the Hub.
        failing: statuses of the next answers.
    """

    folder: Path
    storage: Foreign
    url: str = ""
    token: str = "hf_right"
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    failing: list[int] = field(default_factory=list)

    @property
    def options(self) -> dict[str, Any]:
        return {"endpoint": self.url, "allow_http": True}

    def answer(self, path: str, authorization: str | None) -> tuple[int, dict[str, str], Any]:
        """Status, headers and JSON of an answer."""
        if self.failing:
            return self.failing.pop(), {}, {"error": "?"}
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[0] == "api":
            parts = parts[1:]
        _, owner, name, call, *rest = [*parts, "", ""][: max(4, len(parts))]
        if "private" in name and authorization != f"Bearer {self.token}":
            return 401, {"X-Error-Code": "RepoNotFound"}, {"error": "?"}
        if "gated" in name:
            return 403, {"X-Error-Code": "GatedRepo"}, {"error": "ask the owner"}
        repository = self.folder / owner / name
        if not repository.is_dir():
            return 404, {"X-Error-Code": "RepoNotFound"}, {"error": "?"}
        revision = rest[0] if rest and rest[0] else "main"
        top = repository / revision.replace("/", "_")
        if not top.is_dir():
            return 404, {"X-Error-Code": "RevisionNotFound"}, {"error": "?"}
        if call in ("", "revision"):
            about = {"id": f"{owner}/{name}", "sha": "1" * 40, "private": False, "siblings": []}
            return 200, {}, about
        inside = "/".join(rest[1:]).strip("/")
        place = top / inside
        if not place.exists():
            return 404, {"X-Error-Code": "EntryNotFound"}, {"error": "?"}
        if call == "resolve":
            within = quote(str(place.relative_to(self.folder)))
            return 302, {"Location": f"{self.storage.url}/{within}?signature=s3cr3t"}, None
        walk = place.rglob("*") if self.is_deep else place.iterdir()
        return 200, {}, [self.entry(child, top) for child in sorted(walk)]

    is_deep: bool = False

    def entry(self, child: Path, top: Path) -> dict[str, Any]:
        about: dict[str, Any] = {"path": str(child.relative_to(top)), "oid": f"{hash(child):x}"}
        if child.is_dir():
            return about | {"type": "directory"}
        return about | {"type": "file", "size": child.stat().st_size}


@contextmanager
def serving_hub(folder: Path) -> Iterator[Hub]:
    """Yield a Hub of the repositories in a folder."""
    with ExitStack() as stack:
        hub = Hub(folder, stack.enter_context(serving(folder)))

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub.requests.append((self.path, self.headers.get("authorization")))
                url = urlsplit(self.path)
                hub.is_deep = "recursive=true" in url.query.lower()
                status, headers, content = hub.answer(url.path, self.headers.get("authorization"))
                body = b"" if content is None else json.dumps(content).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        hub.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
