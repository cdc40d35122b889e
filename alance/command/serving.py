"""Command `serve`: tables over HTTP."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alance import InvalidInputError
from alance.base.extras import missing
from alance.command.arguments import duration, pair, port, storage
from alance.command.terminal import EscapedFormatter, escaped
from alance.serve import Bounds, Service
from alance.serve.service import MAINTAIN_S

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    import uvicorn

    from alance.command.arguments import Parsers

LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1", "[::1]")
GRACE_S = 30
DRAIN_S = 2.0
MOST_MS = (1 << 31) - 1  # largest timeout in milliseconds that the system accepts


def add_to(parsers: Parsers) -> None:
    """Add the subcommand of this module."""
    summary = "serve tables over HTTP: rows by key, queries, searches, new rows, metrics"
    parser = parsers.add_parser("serve", help=summary, description=summary)
    parser.set_defaults(run=serve)
    parser.add_argument(
        "tables",
        nargs="+",
        metavar="[NAME=]URI",
        help="a table; NAME is by default that of its folder",
    )
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1")
    parser.add_argument("--port", type=port, default=8000, help="default: 8000; 0: any free one")
    parser.add_argument(
        "--key",
        action="append",
        metavar="[NAME=]COLUMN",
        help="the column by which rows are found; default: the primary key",
    )
    parser.add_argument("--ingest", action="store_true", help="let callers add rows")
    _add_upkeep(parser)
    _add_access(parser)
    parser.add_argument(
        "--reload", type=float, default=5.0, metavar="SECONDS", help="default: 5; 0: on request"
    )
    parser.add_argument(
        "--drain",
        type=float,
        default=DRAIN_S,
        metavar="SECONDS",
        help=f"time for callers to close idle connections after SIGTERM; default: {DRAIN_S}",
    )
    for field in fields(Bounds):
        parser.add_argument(
            f"--max-{field.name.replace('_', '-')}",
            type=type(field.default),
            default=field.default,
            metavar="N",
            help=f"default: {field.default}",
        )
    parser.add_argument("--storage", action="append", type=pair, metavar="KEY=VALUE")


def _add_upkeep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--maintain",
        action="store_true",
        help="maintain the tables in the background, each by the policy in its configuration",
    )
    parser.add_argument(
        "--every",
        type=duration,
        metavar="TIME",
        help="time between runs of --maintain, such as 5m; default: 1m",
    )


def _add_access(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sql", action="store_true", help="let callers send SQL, for DuckDB")
    parser.add_argument(
        "--token-file",
        help="a file with the token that requests need; default: $ALANCE_SERVE_TOKEN",
    )
    parser.add_argument(
        "--without-token",
        action="store_true",
        help="let everybody in, on any --host: for use behind a proxy that checks",
    )


async def serve(args: argparse.Namespace) -> None:
    """Serve until a signal arrives; then finish the requests and commit the accepted rows.

    Raises:
        InvalidInputError: two tables have the same name, there is no token and the host is
            reachable from other machines, `--every` is used without `--maintain`, or the address
            cannot be used.
        MissingPackageError: uvicorn is not installed.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise missing("serving needs uvicorn", "serve") from error

    if args.every is not None and not args.maintain:
        raise InvalidInputError(f"--every {args.every}: expected --maintain beside it")
    tables = _tables(args.tables)
    token = _token(args)
    is_local = args.host in LOCAL_HOSTS
    if token is None and not is_local and not args.without_token:
        raise InvalidInputError(
            f"--host {args.host}: others reach it; expected --token-file, $ALANCE_SERVE_TOKEN or "
            f"--without-token"
        )
    handler = logging.StreamHandler()
    handler.setFormatter(EscapedFormatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler])
    service = _service(tables, args, token, hosts=LOCAL_HOSTS if is_local and token is None else ())
    config = uvicorn.Config(
        service.app,
        host=args.host,
        port=args.port,
        http="h11",  # it limits the heads of requests; uvicorn's httptools parser does not
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE_S,
        h11_max_incomplete_event_size=64 << 10,
    )
    async with service:
        server = _server_class(service, tables, args)(config)
        try:
            await server.serve()
        except SystemExit as error:  # uvicorn exits if it cannot listen
            raise InvalidInputError(
                f"--host {args.host} --port {args.port}: cannot listen there"
            ) from error


def _server_class(
    service: Service, tables: Iterable[str], args: argparse.Namespace
) -> type[uvicorn.Server]:
    """Return uvicorn's server class with an orderly shutdown, which also prints its address."""
    import uvicorn

    class TableServer(uvicorn.Server):
        """Server that exits with status 0 after a signal, once all rows are committed."""

        def handle_exit(self, sig: int, frame: Any) -> None:
            service.drain()
            self.should_exit = True

        async def shutdown(self, sockets: Any = None) -> None:
            """Stop listening, but let callers close their connections first."""
            for server in self.servers:
                server.close()
            loop = asyncio.get_running_loop()
            end = loop.time() + args.drain
            while self.server_state.connections and loop.time() < end:  # noqa: ASYNC110  # uvicorn's
                await asyncio.sleep(0.02)
            await super().shutdown(sockets)

        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            # All present objects live until the end: unless they are frozen, each run of the cycle
            # collector would block the loop for 60 ms.
            gc.collect()
            gc.freeze()
            for server in self.servers if self.started else ():
                for listening in server.sockets:
                    _end_unread(listening, args.max_seconds)
                    host, port = listening.getsockname()[:2]
                    shown = f"[{host}]" if ":" in host else host
                    names = ", ".join(tables)
                    line = escaped(f"http://{shown}:{port} serves {names}")
                    print(line, file=sys.stderr, flush=True)

    return TableServer


def _service(
    tables: dict[str, str], args: argparse.Namespace, token: str | None, *, hosts: Sequence[str]
) -> Service:
    return Service(
        tables,
        key=_keys(args.key),
        ingest=args.ingest,
        maintain=args.maintain,
        maintain_s=MAINTAIN_S if args.every is None else args.every.total_seconds(),
        sql=args.sql,
        token=token,
        hosts=hosts,
        reload_s=args.reload,
        bounds=Bounds(*(getattr(args, f"max_{field.name}") for field in fields(Bounds))),
        storage_options=storage(args),
    )


def _end_unread(listening: socket.socket, seconds: float) -> None:
    """Let Linux end connections whose callers have read nothing for some seconds.

    Otherwise a closed connection waits for its caller to read the answer, perhaps forever.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux; accepted connections inherit it
        milliseconds = min(int(seconds * 1000) + 1, MOST_MS)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)


def _tables(texts: list[str]) -> dict[str, str]:
    """Parse `[NAME=]URI` texts; return URIs by name."""
    tables: dict[str, str] = {}
    for text in texts:
        name, sign, uri = text.partition("=")
        if not sign or "/" in name or ":" in name:
            uri = text
            name = Path(text.rstrip("/")).name.removesuffix(".lance")
        if name in tables:
            raise InvalidInputError(f"{text}: another table has the name {name!r}; use NAME=URI")
        tables[name] = uri
    return tables


def _keys(texts: list[str] | None) -> str | dict[str, str] | None:
    """Parse the key column of all tables, or a key column by table; None for no option."""
    if texts is None:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    wrong = [text for text in texts if "=" not in text]
    if wrong:
        raise InvalidInputError(f"--key {wrong[0]}: expected NAME=COLUMN where there are several")
    return dict(pair(text) for text in texts)


def _token(args: argparse.Namespace) -> str | None:
    if args.token_file is None:
        return os.environ.get("ALANCE_SERVE_TOKEN") or None
    try:
        token = Path(args.token_file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InvalidInputError(f"--token-file {args.token_file}: {error.strerror}") from error
    if not token:
        raise InvalidInputError(f"--token-file {args.token_file}: it is empty")
    return token
