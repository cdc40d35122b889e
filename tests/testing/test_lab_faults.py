"""The faults of the lab: what the client sees, and what has happened to the object."""

from __future__ import annotations

import contextlib
import http.client
from typing import TYPE_CHECKING, Any

import pytest

from alance.testing.connection import Request
from alance.testing.lab import Lab
from alance.testing.weather import Weather

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.testing.conftest import Client

BIG = bytes(range(256)) * 4096  # 1 MiB: streamed, not written at once


@contextlib.contextmanager
def fault(client: Client, **rule: Any) -> Iterator[None]:
    """A fault that hits the next request of its kind, and that one only."""
    client.lab.config(faults=[{"times": 1, **rule}])
    with client.lab.recording() as seen:
        yield
    hit = [record for record in seen.records if "fault" in record]
    assert [item["fault"] for item in hit] == [rule["action"]]


def test_a_status_is_answered_without_effect(client: Client) -> None:
    with fault(client, action="status", status=429, code="Slower", retry_after=2):
        status, body, headers = client.ask("PUT", "/refused", b"body")
    assert (status, headers["Retry-After"]) == (429, "2")
    assert b"<Code>Slower</Code>" in body
    assert client.status("HEAD", "/refused") == 404


def test_a_status_after_the_write(client: Client) -> None:
    with fault(client, action="apply_status", status=503):
        assert client.status("PUT", "/done", b"body", {"If-None-Match": "*"}) == 503
    assert client.status("PUT", "/done", b"again", {"If-None-Match": "*"}) == 412
    assert client.read("done") == b"body"


@pytest.mark.parametrize("is_applied", [False, True])
def test_a_reset_has_the_effect_that_its_name_says(client: Client, is_applied: bool) -> None:
    key = f"reset-{is_applied}"
    action = "apply_reset" if is_applied else "reset"
    with (
        fault(client, action=action, method="PUT"),
        pytest.raises((ConnectionResetError, http.client.RemoteDisconnected)),
    ):
        client.ask("PUT", f"/{key}", b"body")
    client.http.close()
    assert client.status("HEAD", f"/{key}") == (200 if is_applied else 404)


@pytest.mark.parametrize("is_applied", [False, True])
def test_a_stall_has_the_effect_that_its_name_says(client: Client, is_applied: bool) -> None:
    key = f"stall-{is_applied}"
    client.http.timeout = 0.2
    with fault(client, action="apply_stall" if is_applied else "stall", method="PUT"):
        with pytest.raises(TimeoutError):
            client.ask("PUT", f"/{key}", b"body")
        client.http.close()
    client.http.timeout = 10
    assert client.status("HEAD", f"/{key}") == (200 if is_applied else 404)


def test_a_write_that_comes_late(client: Client) -> None:
    client.http.timeout = 0.2
    with fault(client, action="late", method="PUT"):
        with pytest.raises(TimeoutError):
            client.ask("PUT", "/late", b"body")
        client.http.close()
        client.http.timeout = 10
        assert client.status("HEAD", "/late") == 404
        client.lab.calm()
    assert client.status("HEAD", "/late") == 200


@pytest.mark.parametrize("after_bytes", [0, 1, 700_000])
@pytest.mark.parametrize("action", ["truncate", "reset_mid", "stall_mid"])
def test_bodies_break_where_the_fault_says(client: Client, action: str, after_bytes: int) -> None:
    client.status("PUT", "/big", BIG)
    failure = {
        "truncate": http.client.IncompleteRead,
        "reset_mid": ConnectionResetError,
        "stall_mid": TimeoutError,
    }[action]
    with fault(client, action=action, method="GET", after_bytes=after_bytes):
        client.http.request("GET", "/lab/big")
        answer = client.http.getresponse()
        assert (answer.status, answer.getheader("Content-Length")) == (200, str(len(BIG)))
        if action != "reset_mid":  # which may overtake what was sent before it
            assert answer.read(after_bytes) == BIG[:after_bytes]
        client.http.sock.settimeout(0.2 if action == "stall_mid" else 10)
        with pytest.raises(failure):
            answer.read()
        answer.close()
        client.http.close()
    assert client.read("big") == BIG


def test_which_requests_are_hit(client: Client) -> None:
    client.lab.config(
        faults=[
            {"action": "status", "status": 500, "op": "GET", "key": "hit/.*b$", "skip": 1},
            {"action": "status", "status": 503, "key": "^lab/hit/a", "times": 2},
        ]
    )
    assert [client.status("PUT", "/hit/a", b"") for _ in range(3)] == [503, 503, 200]
    assert [client.status("PUT", "/hit/b", b"") for _ in range(2)] == [200, 200]
    assert [client.status("GET", "/hit/b") for _ in range(3)] == [200, 500, 500]
    client.lab.calm()
    assert client.status("GET", "/hit/b") == 200


def test_draws_can_be_repeated() -> None:
    faults = [{"action": "reset", "p": 0.3}]

    def draw(weather: Weather) -> list[bool]:
        req = Request("GET", "/lab/key", {}, b"")
        return [weather.fault(req) is not None for _ in range(200)]

    weather = Weather(faults=faults, seed=7)
    first = draw(weather)
    assert 30 < sum(first) < 90
    assert draw(weather) != first
    weather.update({"seed": 7})
    assert draw(weather) == first


def test_latency_is_drawn_by_operation_and_tail() -> None:
    weather = Weather(latency_ms=30, latency_by_op={"LIST": 60})
    assert [weather.latency(op) for op in ("GET", "LIST")] == [0.03, 0.06]
    weather.update({"tail": [0.5, 10]})
    assert {weather.latency("GET") for _ in range(100)} == {0.03, 0.3}
    weather.update({"tail": None, "jitter": 0.5})
    drawn = sorted(weather.latency("GET") for _ in range(1001))
    assert drawn[500] == pytest.approx(0.03, rel=0.1)
    assert drawn[0] < 0.015
    assert drawn[-1] > 0.06


def test_latency_and_bandwidth_of_the_server() -> None:
    with Lab(latency_ms=20) as lab:
        connection = http.client.HTTPConnection("127.0.0.1", lab.port, timeout=60)
        spans = {}
        for name, weather in {"latency": {}, "limit": {"conn_mbps": 10}}.items():
            lab.config(**weather)
            with lab.recording() as seen:
                for method, body in (("PUT", BIG), ("GET", None)):
                    connection.request(method, "/lab/big", body)
                    assert len(connection.getresponse().read()) in (0, len(BIG))
            spans[name] = [record["t2"] - record["t0"] for record in seen.records]
        connection.close()
    # The server holds answers back: they may come later, but not before.
    assert all(span >= 0.019 for span in spans["latency"])
    assert all(span >= 0.1 for span in spans["limit"])
