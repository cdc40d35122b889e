"""Servers that are silent, trickle, or cannot be reached: every request ends, and says where."""

from __future__ import annotations

import asyncio
import itertools
import socket
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from obstore.store import S3Store

import alance
from alance.errors import InvalidInputError, StoreError
from alance.io.cloud.remote import RemoteStore
from alance.io.loop.limits import MIN_RATE, TimeLimits, seconds_of
from alance.io.opening.registry import StoreRegistry
from tests.io.conftest import Place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from alance.testing.lab import Lab

pytestmark = pytest.mark.timeout(120)

CONTENT = bytes(range(256)) * 64
ROWS = pa.table({"a": [1]})
LIMITS = TimeLimits(timeout_s=0.5, connect_s=0.2)
SILENT: list[dict[str, Any]] = [
    {"action": "stall"},
    {"action": "stall_mid", "after_bytes": 10},
    {"action": "trickle", "after_bytes": 10},
]
_numbers = itertools.count(1)


async def _listed(store: RemoteStore, folder: str) -> list[str]:
    return [meta.path async for meta in store.list(folder)]


READS: dict[str, Callable[[RemoteStore, str], Awaitable[object]]] = {
    "range": lambda store, path: store.get_ranges(path, [(0, 1000)]),
    "ranges": lambda store, path: store.get_ranges(path, [(0, 1000), (2000, 3000)]),
    "tail": lambda store, path: store.get_tail(path, 1000),
    "object": lambda store, path: store.get(path),
    "list": lambda store, path: _listed(store, path.rpartition("/")[0]),
    "folders": lambda store, path: store.list_level(path.rpartition("/")[0]),
}
WRITES: dict[str, Callable[[RemoteStore, str], Awaitable[object]]] = {
    "size": lambda store, path: store.size(path),
    "put": lambda store, path: store.put(path, CONTENT),
    "create": lambda store, path: store.put(path + "-new", CONTENT, if_absent=True),
    "delete": lambda store, path: store.delete([path]),
    "copy": lambda store, path: store.copy(path, path + "-copy"),
}


@pytest.fixture
async def impatient(lab: Lab) -> Place:
    """A folder with an object `a`, in a store with small limits."""
    uri, options = f"s3://lab/limits-{next(_numbers)}", lab.lance_options()
    store, folder = StoreRegistry().open(uri, storage_options=options)
    await store.put(f"{folder}/a", CONTENT)
    return Place(*StoreRegistry(LIMITS).open(uri, storage_options=options))


@pytest.mark.parametrize("verb", READS)
@pytest.mark.parametrize("rule", SILENT, ids=lambda rule: rule["action"])
async def test_a_read_from_a_silent_server_ends(
    lab: Lab, impatient: Place, rule: dict[str, Any], verb: str
) -> None:
    assert isinstance(impatient.store, RemoteStore)
    lab.config(faults=[rule])
    with pytest.raises(StoreError) as caught:
        await READS[verb](impatient.store, impatient.path("a"))
    assert impatient.store.root + impatient.folder in str(caught.value)
    assert caught.value.retryable


@pytest.mark.parametrize("verb", WRITES)
async def test_a_write_to_a_silent_server_ends(lab: Lab, impatient: Place, verb: str) -> None:
    assert isinstance(impatient.store, RemoteStore)
    lab.config(faults=[{"action": "stall"}])
    with pytest.raises(StoreError) as caught:
        await WRITES[verb](impatient.store, impatient.path("a"))
    assert impatient.store.root + impatient.folder in str(caught.value)


@pytest.mark.parametrize("method", ["PUT", "POST"])  # POST: begins it, and ends it
@pytest.mark.parametrize("skip", [0, 1])
async def test_an_upload_that_is_not_answered_ends(
    lab: Lab, impatient: Place, monkeypatch: pytest.MonkeyPatch, method: str, skip: int
) -> None:
    monkeypatch.setattr("alance.io.loop.limits.MIN_RATE", 8 << 20)  # of parts of 8 MiB: a second
    lab.config(faults=[{"action": "stall", "method": method, "skip": skip}])
    store, path = impatient.store, impatient.path("large")

    async def send() -> None:
        async with store.open_upload(path) as upload:
            await upload.write(bytes(20 << 20))
            await upload.finish()

    with pytest.raises(StoreError) as caught:
        await send()
    assert store.root + path in str(caught.value)


async def test_a_slow_body_that_keeps_the_least_rate_is_awaited(lab: Lab, impatient: Place) -> None:
    size = 4 * MIN_RATE
    await impatient.store.put(impatient.path("b"), bytes(size))
    lab.config(faults=[{"action": "slow", "method": "GET", "mbps": size / 1e6}])  # a second
    (body,) = await impatient.store.get_ranges(impatient.path("b"), [(0, size)])
    assert len(body) == size > LIMITS.timeout_s * size
    assert len(await impatient.store.get(impatient.path("b"))) == size


async def test_a_put_that_hangs_once_is_sent_again(lab: Lab) -> None:
    """Within the whole time; here a sixth of it is an attempt's."""
    registry = StoreRegistry(TimeLimits(timeout_s=3.0))
    uri = f"s3://lab/limits-{next(_numbers)}"
    store, folder = registry.open(uri, storage_options=lab.lance_options())
    monkey = TimeLimits.put
    try:
        TimeLimits.put = lambda self, num_bytes: 0.5  # type: ignore[method-assign]
        lab.config(faults=[{"action": "stall", "method": "PUT", "times": 1}])
        await store.put(f"{folder}/a", CONTENT)
    finally:
        TimeLimits.put = monkey  # type: ignore[method-assign]
    assert await store.get(f"{folder}/a") == CONTENT


@asynccontextmanager
async def server(answer: bytes) -> AsyncIterator[int]:
    """The port of a server that sends the same to whatever asks, and then nothing."""

    class Silent(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport
            callers.add(transport)

        def data_received(self, data: bytes) -> None:
            self.transport.write(answer)

        def connection_lost(self, exc: Exception | None) -> None:
            callers.discard(self.transport)

    callers: set[asyncio.Transport] = set()
    listener = await asyncio.get_running_loop().create_server(Silent, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        for caller in list(callers):
            caller.abort()
        await asyncio.sleep(0)


@asynccontextmanager
async def blackhole() -> AsyncIterator[int]:
    """The port of a server that answers no connection: its queue of them is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        callers = [socket.socket() for _ in range(4)]
        try:
            for caller in callers:
                caller.setblocking(False)
                caller.connect_ex(listener.getsockname())
            yield listener.getsockname()[1]
        finally:
            for caller in callers:
                caller.close()


SERVERS = {
    "accepts and says nothing": lambda: server(b""),
    "answers half a head": lambda: server(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "answers a head and no body": lambda: server(
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nContent-Type: application/xml\r\n\r\n"
    ),
    "accepts nothing": blackhole,
}


VERBS: dict[str, Callable[..., Awaitable[object]]] = {
    "open": lambda **more: alance.dataset("s3://bucket/table", **more),
    "write": lambda **more: alance.write_dataset(ROWS, "s3://bucket/table", **more),
    "append": lambda **more: alance.write_dataset(ROWS, "s3://bucket/table", mode="append", **more),
}


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("verb", VERBS)
async def test_a_table_at_a_silent_server_is_a_store_error(kind: str, verb: str) -> None:
    async with SERVERS[kind]() as port, alance.Session(timeout=1, connect_timeout=0.2) as session:
        options = {
            "endpoint": f"http://127.0.0.1:{port}",
            "access_key_id": "lab",
            "secret_access_key": "lab",
            "region": "us-east-1",
            "allow_http": "true",
        }
        with pytest.raises(StoreError, match="s3://bucket") as caught:
            await VERBS[verb](storage_options=options, session=session)
    assert not isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize("action", ["stall", "apply_stall"])
async def test_a_commit_whose_put_outlasts_its_time_is_settled(lab: Lab, action: str) -> None:
    uri, options = f"s3://lab/limits-{next(_numbers)}.lance", lab.lance_options()
    table = pa.table({"a": [1, 2]})
    await alance.write_dataset(table, uri, storage_options=options)
    async with alance.Session(timeout=2) as session:
        more: dict[str, Any] = {"storage_options": options, "session": session}
        dataset = await alance.dataset(uri, **more)
        rule = {"action": action, "method": "PUT", "key": r"_versions/.*manifest", "times": 1}
        lab.config(faults=[rule])
        inserted = await dataset.insert(table)
        assert inserted.version == 2
        lab.calm()
        assert await (await alance.dataset(uri, **more)).count_rows() == 4


def test_limits_of_a_request_grow_with_its_bytes() -> None:
    limits = TimeLimits(timeout_s=60)
    assert limits.whole() == 60
    assert limits.whole(3 * MIN_RATE) == 63
    assert limits.put(MIN_RATE) < limits.whole(MIN_RATE)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_a_session_refuses_times_that_are_none(timeout: float) -> None:
    with pytest.raises(InvalidInputError, match="timeout"):
        alance.Session(timeout=timeout)
    with pytest.raises(InvalidInputError, match="connect_timeout"):
        alance.Session(connect_timeout=timeout)


def _limits(options: dict[str, str]) -> TimeLimits:
    keys = {"access_key_id": "x", "secret_access_key": "x", "region": "x"}
    store, _ = StoreRegistry(LIMITS).open("s3://b/t", storage_options=keys | options)
    assert isinstance(store, RemoteStore)
    return store.limits


def test_a_timeout_among_the_storage_options_goes_before_the_session_s() -> None:
    assert _limits({}) == LIMITS
    assert _limits({"timeout": "20s"}).timeout_s == 80
    assert _limits({"timeout": "20s", "client_max_retries": "0"}).timeout_s == 80
    few = {"client_max_retries": "0", "download_retry_count": "1"}
    assert _limits({"timeout": "20s"} | few).timeout_s == 40
    assert _limits({"request_timeout": "1m"}).timeout_s == 240
    assert _limits({"client_retry_timeout": "100"}).timeout_s == 100


def test_the_client_is_told_what_the_session_and_the_options_say() -> None:
    registry = StoreRegistry(TimeLimits(timeout_s=120, connect_s=7))
    keys = {"access_key_id": "x", "secret_access_key": "x", "region": "x"}
    store, _ = registry.open("s3://b/t", storage_options=keys)
    assert isinstance(store, RemoteStore)
    assert store.objects.client_options == {  # type: ignore[union-attr]
        "connect_timeout": "7000ms",
        "read_timeout": "10000ms",
        "timeout": "60000ms",
    }
    options = keys | {"connect_timeout": "1s", "timeout": "2s"}
    store, _ = registry.open("s3://b/t", storage_options=options)
    assert isinstance(store, RemoteStore)
    client_options = store.objects.client_options  # type: ignore[union-attr]
    assert (client_options["connect_timeout"], client_options["timeout"]) == ("1s", "2s")


def test_a_given_store_has_the_session_s_limits_or_those_of_its_client() -> None:
    registry = StoreRegistry(LIMITS)
    store, _ = registry.open("t", store=S3Store("b", region="x"))
    assert isinstance(store, RemoteStore)
    assert store.limits == LIMITS
    own = S3Store("b", region="x", client_options={"timeout": timedelta(seconds=9)})
    store, _ = registry.open("t", store=own)
    assert isinstance(store, RemoteStore)
    assert store.limits.timeout_s == 36


def test_durations_are_read_as_clients_do() -> None:
    texts = {"500ms": 0.5, "20s": 20, "20 sec": 20, "1m 30s": 90, "2 hours": 7200, "x": None}
    assert {text: seconds_of(text) for text in texts} == texts
    assert seconds_of(timedelta(milliseconds=1500)) == 1.5
