"""Stores that stay open: those in use, and a few that may be needed again."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest
from obstore.store import S3Store

import alance
from alance.errors import AlanceError, InvalidInputError
from alance.io.cloud.remote import RemoteStore
from alance.io.loop.limits import TimeLimits
from alance.io.opening import registry as registries
from alance.io.opening.registry import MAX_OPEN_STORES, StoreRegistry
from alance.versioning.table import open_table

if TYPE_CHECKING:
    from alance.testing.lab import Lab

KEYS = {"access_key_id": "x", "secret_access_key": "x", "region": "x"}


def opened(registry: StoreRegistry, token: int, bucket: str = "b") -> RemoteStore:
    options = KEYS | {"session_token": f"token {token}"}
    store, _ = registry.open(f"s3://{bucket}/t", storage_options=options)
    assert isinstance(store, RemoteStore)
    return store


def num_remote() -> int:
    gc.collect()
    return sum(type(live_object) is RemoteStore for live_object in gc.get_objects())


async def test_tokens_that_change_leave_no_store_behind_their_session(lineitem_lab: Lab) -> None:
    before = num_remote()
    for token in range(12):
        options = lineitem_lab.lance_options() | {"session_token": f"token {token}"}
        async with alance.Session() as session:
            uri = "s3://lab/lineitem.lance"
            dataset = await alance.dataset(uri, storage_options=options, session=session)
            await dataset.take([1])
            del dataset
    assert num_remote() <= before


async def test_tokens_that_change_leave_a_bounded_number_in_a_session(lineitem_lab: Lab) -> None:
    before, uri = num_remote(), "s3://lab/lineitem.lance"
    async with alance.Session() as session:
        for token in range(2 * MAX_OPEN_STORES + 10):
            options = lineitem_lab.lance_options() | {"session_token": f"token {token}"}
            dataset = await alance.dataset(uri, storage_options=options, session=session)
            await dataset.take([1])
        assert num_remote() - before <= 2 * MAX_OPEN_STORES
        del dataset
    assert num_remote() <= before


async def test_traces_and_errors_name_objects_as_their_uri_does(lineitem_lab: Lab) -> None:
    """Also of the second store that is open of a bucket, by other options."""
    uri = "s3://lab/lineitem.lance"
    async with alance.Session() as session:
        for token in range(2):
            options = lineitem_lab.lance_options() | {"session_token": f"token {token}"}
            dataset = await alance.dataset(uri, storage_options=options, session=session)
            with alance.trace() as recorder:
                await dataset.take([token])
            assert {event.location.startswith(uri) for event in recorder.events} == {True}
            with pytest.raises(AlanceError) as refused:
                await session.engine.scheduler.size(f"{dataset._snapshot.table.root}/absent")
            assert f"{uri}/absent" in str(refused.value)


async def test_a_table_keeps_its_store_whatever_else_is_opened(lineitem_lab: Lab) -> None:
    uri, options = "s3://lab/lineitem.lance", lineitem_lab.lance_options()
    async with alance.Session() as session:
        dataset = await alance.dataset(uri, storage_options=options, session=session)
        rows = await dataset.take([1, 2])
        for token in range(MAX_OPEN_STORES + 1):
            opened(session.engine.registry, token)
        assert await dataset.take([1, 2]) == rows


def test_a_table_keeps_the_stores_of_its_bases() -> None:
    registry = StoreRegistry()
    table = open_table(registry, "memory://open-stores/t")
    location = table.opened("s3://elsewhere/base")
    for token in range(MAX_OPEN_STORES + 1):
        opened(registry, token)
    gc.collect()
    assert registry.resolve(location)[0].root == "s3://elsewhere/"
    del table
    with pytest.raises(InvalidInputError, match="was not opened"):
        registry.resolve(location)


def test_a_store_that_was_not_opened_for_long_goes_at_the_next_opening(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(registries.time, "monotonic", lambda: now)
    registry = StoreRegistry()
    root = opened(registry, 1).root
    now = registries.STORE_IDLE_S
    opened(registry, 2)
    assert registry.resolve(root)[0].root == root
    now += registries.STORE_IDLE_S - 1
    opened(registry, 3)
    with pytest.raises(InvalidInputError, match="was not opened"):
        registry.resolve(root)


def test_sessions_share_a_store_of_the_same_options_and_limits() -> None:
    first, second = StoreRegistry.shared(), StoreRegistry.shared()
    store = opened(first, 1, "shared-store")
    assert opened(second, 1, "shared-store") is store
    assert opened(second, 2, "shared-store") is not store
    other = StoreRegistry.shared(TimeLimits(timeout_s=1))
    assert opened(other, 1, "shared-store") is not store


def test_stores_one_after_the_other_share_a_client_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A new one costs 5 ms, mostly for root certificates, and connections."""
    now = 0.0
    monkeypatch.setattr(registries.time, "monotonic", lambda: now)
    monkeypatch.setattr(registries._Clients, "_process", None)
    client = opened(StoreRegistry(), 1).objects
    uploads = opened(StoreRegistry(), 1).upload_objects
    assert client is not uploads
    now += registries.CLIENT_AGE_S
    assert opened(StoreRegistry(), 1).objects is client
    now += 1
    assert opened(StoreRegistry(), 1).objects is not client
    assert opened(StoreRegistry(), 1).upload_objects is not uploads


def test_other_options_places_and_surroundings_have_clients_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registries._Clients, "_process", None)
    clients = [opened(StoreRegistry(), 1).objects, opened(StoreRegistry(), 2).objects]
    clients += [opened(StoreRegistry(), 1, "c").objects]
    clients += [opened(StoreRegistry(TimeLimits(timeout_s=1)), 1).objects]
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    clients += [opened(StoreRegistry(), 1).objects]
    assert len({id(client) for client in clients}) == len(clients)
    assert len(registries._Clients.of_process()._recent) == registries.MAX_CLIENTS


def test_a_changed_environment_is_heeded_while_an_older_store_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = StoreRegistry.shared(), StoreRegistry.shared()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "former")
    former, _ = first.open("s3://changed-environment/t")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "latter")
    latter, _ = second.open("s3://changed-environment/t")
    assert latter is not former
    assert first.open("s3://changed-environment/t")[0] is latter
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "former")
    assert first.open("s3://changed-environment/t")[0] is former


def test_a_root_means_one_store_as_long_as_its_session_lives() -> None:
    """Facts that the session caches by location never apply to a store opened later."""
    registry = StoreRegistry()
    roots = {opened(registry, token).root for token in range(3 * MAX_OPEN_STORES)}
    assert len(roots) == 3 * MAX_OPEN_STORES
    assert "s3://b/" in roots


def test_a_closed_session_gives_its_roots_back() -> None:
    registry = StoreRegistry.shared()
    assert opened(registry, 1, "given-back").root == "s3://given-back/"
    registry.close()
    assert opened(StoreRegistry.shared(), 2, "given-back").root == "s3://given-back/"


def test_a_store_object_that_is_given_goes_with_its_user() -> None:
    registry, objects = StoreRegistry(), S3Store("b", region="x")
    store, _ = registry.open("t", store=objects)
    assert registry.open("u", store=objects)[0] is store
    root = store.root
    del store
    registry.close()
    with pytest.raises(InvalidInputError, match="was not opened"):
        registry.resolve(root)


def test_loops_that_have_ended_keep_no_session() -> None:
    async def use() -> None:
        alance.Session.of_loop()

    gc.collect()
    before = sum(isinstance(live_object, alance.Session) for live_object in gc.get_objects())
    for _ in range(20):
        asyncio.run(use())
    gc.collect()
    assert (
        sum(isinstance(live_object, alance.Session) for live_object in gc.get_objects())
        <= before + 1
    )
