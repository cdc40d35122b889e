"""A server of somebody else: gives the files of a folder by HTTP, and notes what it is told."""

from __future__ import annotations

import contextlib
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class Foreign:
    """The server's address, and the requests that it got: each one's path and headers."""

    url: str
    folder: Path
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def received(self) -> str:
        """All that was sent to it, as text."""
        return repr(self.requests)


@contextlib.contextmanager
def serving(folder: Path, elsewhere: str = "") -> Iterator[Foreign]:
    """A server of a folder, as long as the block lasts.

    Args:
        elsewhere: the address of the server that it sends all requests on to; "": to none.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer(with_body=False)

        def do_GET(self) -> None:
            self.answer(with_body=True)

        def answer(self, *, with_body: bool) -> None:
            foreign.requests.append((self.path, dict(self.headers)))
            if elsewhere:
                self.send_response(307)
                self.send_header("Location", elsewhere + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path = folder / self.path.partition("?")[0].lstrip("/")
            if not path.is_file():
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            content = path.read_bytes()
            start, stop = 0, len(content)
            expected = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
            if expected:
                first, last = expected.groups()
                start = int(first) if first else max(0, stop - int(last))
                stop = min(stop, int(last) + 1) if first and last else stop
            self.send_response(206 if expected else 200)
            self.send_header("Content-Length", str(stop - start))
            if expected:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
            self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
            self.end_headers()
            if with_body:
                self.wfile.write(content[start:stop])

        def log_message(self, format: str, *args: object) -> None:
            """Nothing to the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    foreign = Foreign(f"http://127.0.0.1:{server.server_port}", folder)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield foreign
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
