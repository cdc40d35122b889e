"""The store object that writes go through: which servers are spared a signature of each body."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from alance.io.cloud.remote import (
    FIRST_PUT_BYTES,
    FIRST_PUTS_BYTES,
    SMALL_PUT_BYTES,
    RemoteStore,
)
from alance.io.opening.registry import StoreRegistry

if TYPE_CHECKING:
    from obstore.store import S3Store

    from alance.testing.lab import Lab

KEYS = {"access_key_id": "a", "secret_access_key": "b", "region": "us-east-1"}
CHEAP = {"unsigned_payload": "true"}
CHECKED = CHEAP | {"checksum_algorithm": "crc64nvme"}


def writer(options: dict[str, str]) -> S3Store:
    store, _ = StoreRegistry().open("s3://bucket/table", storage_options=KEYS | options)
    assert isinstance(store, RemoteStore)
    objects: S3Store = store.upload_objects  # type: ignore[assignment]
    assert objects is not store.objects
    return objects


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, CHECKED),
        ({"endpoint": "https://s3.eu-west-1.amazonaws.com/"}, CHECKED),
        ({"endpoint": "https://minio.example"}, CHEAP),
        ({"aws_endpoint_url_s3": "https://minio.example"}, CHEAP),
        ({"endpoint": "http://127.0.0.1:9000", "allow_http": "true"}, {}),
        ({"checksum_algorithm": "sha256", "unsigned_payload": "false"}, None),
    ],
)
def test_bodies_are_signed_where_nothing_else_protects_them(
    options: dict[str, str], expected: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    config = writer(options).config
    by_key = {key: config[key] for key in config if key in CHECKED}
    if expected is None:  # what the caller says stands
        expected = options
    assert by_key == expected


def test_the_environment_may_name_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    assert "unsigned_payload" not in writer({}).config


def test_the_sending_of_a_body_is_not_taken_for_silence() -> None:
    assert writer({}).client_options == {
        "connect_timeout": "5000ms",
        "read_timeout": "158000ms",  # 30 s, and 8 MiB at 64 KiB a second
        "timeout": "158000ms",
    }
    assert writer({"read_timeout": "7s"}).client_options["read_timeout"] == "7s"
    assert writer({}).retry_config["max_retries"] == 6
    assert writer({"client_max_retries": "1"}).retry_config["max_retries"] == 1


async def test_only_large_bodies_make_a_store_object_for_uploads(lab: Lab) -> None:
    """It would cost 5 ms of each new session that writes a few rows."""
    store, path = StoreRegistry().open("s3://lab/bodies", storage_options=lab.lance_options())
    assert isinstance(store, RemoteStore)
    sizes = {"small": SMALL_PUT_BYTES, "piecewise": 1000, "first": FIRST_PUT_BYTES}
    await store.put(f"{path}/small", bytes(SMALL_PUT_BYTES))
    async with store.open_upload(f"{path}/piecewise") as upload:
        await upload.write(bytes(1000))
        await upload.finish()
    await store.put(f"{path}/first", bytes(FIRST_PUT_BYTES))
    assert store._uploads is None
    await store.put(f"{path}/large", bytes(FIRST_PUT_BYTES + 1))
    assert store._uploads is not None
    for name, size in sizes.items():
        assert await store.size(f"{path}/{name}") == size


async def test_many_bodies_that_are_not_small_make_it_too(lab: Lab) -> None:
    store, path = StoreRegistry().open("s3://lab/many", storage_options=lab.lance_options())
    assert isinstance(store, RemoteStore)
    for number in range(FIRST_PUTS_BYTES // FIRST_PUT_BYTES):
        await store.put(f"{path}/{number}", bytes(FIRST_PUT_BYTES))
        assert store._uploads is None
    await store.put(f"{path}/last", bytes(SMALL_PUT_BYTES + 1))
    assert store._uploads is not None


async def test_the_second_attempt_has_the_time_of_uploads(lab: Lab) -> None:
    options = {**lab.lance_options(), "client_max_retries": "0", "read_timeout": "500ms"}
    store, path = StoreRegistry().open("s3://lab/slow", storage_options=options)
    assert isinstance(store, RemoteStore)
    lab.config(faults=[{"op": "PUT", "action": "stall", "times": 1}])
    await store.put(f"{path}/first", bytes(SMALL_PUT_BYTES + 1))
    assert store._uploads is not None
    assert await store.size(f"{path}/first") == SMALL_PUT_BYTES + 1
