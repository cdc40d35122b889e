"""A web server that gives the files of a folder by ranges, lists folders, and counts requests."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class WebFiles:
    """A folder behind a web server.

    Attributes:
        failing: statuses of the next answers, instead of files.
        hung: event that answers wait for; None to answer at once.
        entered: event that is set when an answer waits.
    """

    folder: Path
    port: int = 0
    requests: list[str] = field(default_factory=list)  # method and path
    num_bytes: int = 0  # of bodies of files
    failing: list[int] = field(default_factory=list)
    hung: threading.Event | None = None
    entered: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, handler: BaseHTTPRequestHandler, *, has_body: bool) -> None:
        path = unquote(urlsplit(handler.path).path)
        self.requests.append(f"{handler.command} {path}")
        if self.hung is not None:
            self.entered.set()
            self.hung.wait(20)
        place = self.folder / path.strip("/")
        if self.failing or not place.exists():
            handler.send_error(self.failing.pop() if self.failing else 404)
            return
        status, start, body = 200, 0, b""
        if place.is_dir():
            names = [child.name + "/" * child.is_dir() for child in sorted(place.iterdir())]
            body = "".join(f'<a href="{quote(name)}">x</a>\n' for name in names).encode()
        else:
            body = place.read_bytes()
        total = len(body)
        span = handler.headers.get("range")
        if span is not None:
            first, _, last = span.removeprefix("bytes=").partition("-")
            if int(first) >= total:
                handler.send_error(416)
                return
            status, start = 206, int(first)
            body = body[start : int(last) + 1 if last else None]
        handler.send_response(status)
        handler.send_header("content-length", str(len(body)))
        handler.send_header("accept-ranges", "bytes")
        if status == 206:
            handler.send_header("content-range", f"bytes {start}-{start + len(body) - 1}/{total}")
        handler.end_headers()
        if has_body:
            self.num_bytes += len(body) * (not place.is_dir())
            handler.wfile.write(body)


@contextmanager
def serving_files(folder: Path) -> Iterator[WebFiles]:
    """Yield a server of a folder on a free port."""
    web = WebFiles(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            web.answer(self, has_body=True)

        def do_HEAD(self) -> None:
            web.answer(self, has_body=False)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    web.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield web
    finally:
        if web.hung is not None:
            web.hung.set()
        server.shutdown()
        thread.join()
        server.server_close()
