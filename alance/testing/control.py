"""What may be asked of the lab server itself, under `/_lab/`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from alance.testing.server import Server


def control(server: Server, method: str, target: str, body: bytes) -> tuple[int, bytes]:
    """The status and JSON answer of a request for log, weather, statistics or a new look."""
    path, _, query = target.partition("?")
    try:
        match path.removeprefix("/_lab/"):
            case "log":
                since = int(parse_qs(query).get("since", ["0"])[0])
                return 200, "\n".join(json.dumps(one) for one in server.log[since:]).encode()
            case "config":
                if method in ("POST", "PUT"):
                    server.weather.update(json.loads(body))
                return 200, json.dumps(server.weather.values).encode()
            case "rescan":
                server.store.rescan()
                return 200, b"{}"
            case "stats":
                return 200, json.dumps(_stats(server)).encode()
            case _:
                return 404, b"{}"
    except (ValueError, KeyError) as error:
        return 400, json.dumps({"error": str(error)}).encode()


def _stats(server: Server) -> dict[str, float]:
    times = os.times()
    peak, server.peak = server.peak, server.in_flight
    return {
        "requests": len(server.log),
        "in_flight": server.in_flight,
        "peak": peak,
        "connections": len(server.conns),
        "accepted": server.accepted,
        "uploads": len(server.store.uploads),
        "cpu_s": times.user + times.system,
    }
