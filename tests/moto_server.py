"""moto's servers of AWS, which do one request at a time.

Their conditions are looked at before what they guard is written, by a thread for each request: of
two that create one object at once, both could. AWS lets one of them win.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEYS = {"aws_access_key_id": "lab", "aws_secret_access_key": "lab"}


@contextmanager
def moto_server() -> Iterator[str]:
    """The URL of a server; its objects and tables are those of the process."""
    application, turn = DomainDispatcherApplication(create_backend_app), Lock()

    def serialized(environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        with turn:
            return [b"".join(application(environ, start))]

    server = make_server("127.0.0.1", 0, serialized, threaded=True)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    host, port = server.server_address[:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
