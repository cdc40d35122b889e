"""Generations, the conditions of GCS: on whole objects, and none on uploads in parts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from alance.errors import AlreadyExistsError
from alance.io.loop.background import Background
from alance.io.opening.registry import StoreRegistry
from alance.io.stores.conformance import examine
from tests.reference.creators import check_single_winner

if TYPE_CHECKING:
    from alance.io.stores.store import Store
    from tests.testing.conftest import Client

GCS = {"Authorization": "Bearer a-token"}
MATCH = "x-goog-if-generation-match"


def generation(client: Client, key: str) -> int:
    return int(client.ask("HEAD", f"/{key}", headers=GCS)[2]["x-goog-generation"])


def begin(client: Client, key: str, *parts: bytes) -> tuple[str, bytes]:
    """An upload with its parts; gives the target and the body that complete it."""
    answer = client.ask("POST", f"/{key}?uploads", headers=GCS)[1].decode()
    upload = re.search(r"<UploadId>(.*)</UploadId>", answer)
    assert upload is not None
    target = f"/{key}?uploadId={upload[1]}"
    for number, part in enumerate(parts, 1):
        assert client.status("PUT", f"{target}&partNumber={number}", part, GCS) == 200
    named = "".join(f"<Part><PartNumber>{n + 1}</PartNumber></Part>" for n in range(len(parts)))
    return target, f"<CompleteMultipartUpload>{named}</CompleteMultipartUpload>".encode()


def test_a_generation_is_of_one_content(client: Client) -> None:
    absent = {**GCS, MATCH: "0"}
    assert client.status("PUT", "/g", b"1", absent) == 200
    first = generation(client, "g")
    assert first > 0
    assert client.status("PUT", "/g", b"1", absent) == 412
    assert client.status("PUT", "/g", b"1", {**GCS, MATCH: str(first)}) == 200
    second = generation(client, "g")
    assert second > first  # though the content is the same
    assert client.status("PUT", "/g", b"2", {**GCS, MATCH: str(first)}) == 412
    assert client.status("DELETE", "/g", headers={**GCS, MATCH: str(first)}) == 412
    assert client.read("g") == b"1"
    assert client.status("DELETE", "/g", headers={**GCS, MATCH: str(second)}) == 204
    assert client.status("PUT", "/g", b"3", {**GCS, MATCH: str(second)}) == 412
    assert client.status("PUT", "/g", b"3", absent) == 200  # absent again
    assert generation(client, "g") > second


def test_copies_have_conditions_on_the_target(client: Client) -> None:
    client.status("PUT", "/from", b"source", GCS)
    source = {**GCS, "x-goog-copy-source": "lab/from"}
    assert client.status("PUT", "/to", headers={**source, MATCH: "0"}) == 200
    assert client.status("PUT", "/to", headers={**source, MATCH: "0"}) == 412
    equal = {**source, MATCH: str(generation(client, "to"))}
    assert client.status("PUT", "/to", headers=equal) == 200
    assert client.status("PUT", "/to", headers=equal) == 412


def test_uploads_in_parts_take_no_conditions(client: Client) -> None:
    """They replace what is there; an upload that was refused can go on."""
    assert client.status("POST", "/parts?uploads", headers={**GCS, MATCH: "0"}) == 400
    target, body = begin(client, "parts", b"one ", b"two")
    assert client.status("POST", target, body, {**GCS, MATCH: "0"}) == 400
    assert client.status("GET", "/parts") == 404
    assert client.status("POST", target, body, GCS) == 200
    assert client.read("parts") == b"one two"
    first = generation(client, "parts")
    assert client.status("PUT", "/parts", b"x", {**GCS, MATCH: "0"}) == 412
    target, body = begin(client, "parts", b"three")
    assert generation(client, "parts") == first
    assert client.status("POST", target, body, GCS) == 200
    assert generation(client, "parts") > first
    assert client.read("parts") == b"three"
    assert client.lab.stats()["uploads"] == 0


def gcs(client: Client) -> tuple[Store, str]:
    return StoreRegistry().open("gs://lab/folder", storage_options=client.lab.gcs_options())


async def test_our_puts_go_by_generation(client: Client) -> None:
    """By no other condition: they hold where S3's are not known."""
    client.lab.config(ignores=["if-none-match", "if-match"])
    store, folder = gcs(client)
    report = await examine(store, folder, Background())
    assert not report.failures, str(report)
    client.lab.config(ignores=[MATCH])
    report = await examine(store, folder, Background())
    assert not report.is_fit_for("commits")


async def test_a_put_if_absent_beside_an_upload(client: Client) -> None:
    """An upload under way is no object; when it ends, it replaces the one that was put."""
    store, folder = gcs(client)
    path, part = f"{folder}/both", bytes(store.profile.part_bytes)
    async with store.open_upload(path) as sink:
        await sink.write(part + b"end")
        await store.put(path, b"put", if_absent=True)
        with pytest.raises(AlreadyExistsError):
            await store.put(path, b"again", if_absent=True)
        await sink.finish()
    assert await store.size(path) == len(part) + 3
    with pytest.raises(AlreadyExistsError):
        await store.put(path, b"again", if_absent=True)


async def test_one_of_many_creators_wins(client: Client) -> None:
    store, folder = gcs(client)
    for number in range(10):
        await check_single_winner(store, f"{folder}/race-{number}", 12)
