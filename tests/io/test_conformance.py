"""Checks of stores by alance: on all kinds here, and on servers that lack some behaviour."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any

import boto3
import pyarrow as pa
import pytest

import alance
from alance.errors import AccessError, UnsupportedError
from alance.io.cloud.endpoints import endpoint_of
from alance.io.loop.background import Background
from alance.io.opening.registry import StoreRegistry
from alance.io.stores.conformance import CHECKS, examine
from alance.testing.weather import CONDITIONS
from alance.versioning import manifest_store
from alance.versioning.manifest_store import check_by_probe, check_conditional_puts
from tests.moto_server import KEYS, moto_server
from tests.reference.waiting import stuck

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.testing.lab import Lab
    from tests.io.conftest import Place

_numbers = itertools.count(1)
ROWS = pa.table({"a": [1, 2, 3]})


def reached(lab: Lab, scheme: str) -> tuple[str, dict[str, str]]:
    """A folder that is not there yet, and the options to reach it by a store of its own.

    What a process learns of a store it remembers: nobody else shall have that of a bad server.
    """
    number = next(_numbers)
    options = lab.lance_options() if scheme == "s3" else lab.gcs_options()
    options["connect_timeout"] = f"{10 + number}s"
    return f"{scheme}://lab/conformance-{number}", options


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget which servers obey conditions, as another process does not know it."""
    monkeypatch.setattr(manifest_store, "_obedient_names", set())


@pytest.fixture(scope="module")
def moto() -> Iterator[dict[str, str]]:
    """Options to reach an S3 of moto with the bucket `lab`."""
    with moto_server() as endpoint:
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **KEYS)
        client.create_bucket(Bucket="lab")
        client.close()
        yield {"endpoint": endpoint, "allow_http": "true", "region": "us-east-1", **KEYS}


async def test_every_store_here_is_fit(place: Place) -> None:
    report = await examine(place.store, place.folder, Background())
    assert not report.failures, str(report)
    assert len(report.checks) == len(CHECKS)
    assert [meta async for meta in place.store.list(place.folder)] == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_the_s3_of_moto_is_fit(moto: dict[str, str]) -> None:
    report = await alance.check_store("s3://lab/conformance", storage_options=moto)
    assert not report.failures, str(report)
    dataset = await alance.write_dataset(ROWS, "s3://lab/table", storage_options=moto)
    dataset = await dataset.insert(ROWS)
    assert await dataset.count_rows() == 6


async def test_a_report_is_a_table(lab: Lab) -> None:
    uri, options = reached(lab, "s3")
    lab.config(ignores=CONDITIONS)
    report = await alance.check_store(uri, storage_options=options)
    assert report.is_fit_for("reading")
    assert report.is_fit_for("writing")
    assert not report.is_fit_for("commits")
    first, *lines = str(report).splitlines()
    assert first == report.root == uri
    assert len(lines) == len(CHECKS)
    bad = [line for line in lines if not line.startswith("ok ")]
    assert [line.split()[:2] for line in bad] == [["FAIL", "commits"]] * 2
    assert "overwrote where it was asked to create" in bad[0]


@pytest.mark.parametrize("scheme", ["s3", "gs"])
async def test_a_server_that_ignores_conditions_is_refused(
    lab: Lab, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any version or data is there to be lost; reading such a table goes on."""
    forget(monkeypatch)
    uri, options = reached(lab, scheme)
    lab.config(ignores=CONDITIONS)
    with pytest.raises(UnsupportedError, match="overwrites where it was asked to create"):
        await alance.write_dataset(ROWS, uri, storage_options=options)
    store, folder = StoreRegistry.shared().open(uri, storage_options=options)
    paths = [meta.path async for meta in store.list(folder)]
    assert all("/_transactions/" in path for path in paths)

    lab.calm()
    uri, options = reached(lab, scheme)
    options = {**options, "connect_timeout": "4s"}  # a store of its own
    dataset = await alance.write_dataset(ROWS, uri, storage_options=options)
    lab.config(ignores=CONDITIONS)
    forget(monkeypatch)
    later = {**options, "connect_timeout": "5s"}  # as another process would see it
    dataset = await alance.dataset(uri, storage_options=later)
    with pytest.raises(UnsupportedError, match="commit_lock"):
        await dataset.insert(ROWS)
    latest = await alance.dataset(uri, storage_options=later)
    assert (latest.version, await latest.count_rows()) == (1, 3)


async def test_wrong_answers_are_told(lab: Lab) -> None:
    """A server that gives whole objects for ranges, as plain ones do."""
    uri, options = reached(lab, "s3")
    lab.config(ignores=["range"])
    options = {**options, "client_max_retries": "0", "download_retry_count": "0"}
    report = await alance.check_store(uri, storage_options=options)
    failed = [check.name for check in report.failures]
    assert failed == ["gives ranges", "gives the end of an object"]
    assert not report.is_fit_for("reading")
    assert report.is_fit_for("commits")


async def test_no_right_to_write_is_told_at_once(lab: Lab) -> None:
    uri, options = reached(lab, "s3")
    lab.config(faults=[{"op": "PUT", "action": "status", "status": 403, "code": "AccessDenied"}])
    with pytest.raises(AccessError):
        await alance.check_store(uri, storage_options=options)


@pytest.mark.parametrize("scheme", ["s3", "gs"])
async def test_other_servers_than_the_clouds_are_asked_once(
    lab: Lab, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another put of a file that a commit has written; no session asks again."""
    forget(monkeypatch)
    uri, options = reached(lab, scheme)
    with lab.recording() as seen:
        for number in range(2):
            later = {**options, "connect_timeout": f"{2 + number}s"}  # a store of its own
            async with alance.Session() as session:
                more: Any = {"storage_options": later, "session": session}
                await alance.write_dataset(ROWS, f"{uri}-{number}", **more)
    refused = [record for record in seen.records if record["st"] == 412]
    assert len(refused) == 1
    assert "/_transactions/" in refused[0]["key"]
    assert sum(record["key"] == refused[0]["key"] for record in seen.records) == 2


@pytest.mark.parametrize("scheme", ["s3", "gs"])
async def test_without_such_a_file_the_check_removes_its_own(
    lab: Lab, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(monkeypatch)
    uri, options = reached(lab, scheme)
    store, folder = StoreRegistry().open(uri, storage_options=options)
    with lab.recording() as seen:
        await check_by_probe(store, f"{folder}/probe", Background())
        await check_by_probe(store, f"{folder}/probe", Background())
    assert [record["op"] for record in seen.records][:2] == ["PUT", "PUT"]
    assert len(seen.records) == 3
    assert not [meta async for meta in store.list(folder)]


async def test_a_check_without_an_answer_is_made_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost answer does not tell if the condition was obeyed."""
    forget(monkeypatch)
    uri, options = reached(lab, "s3")
    store, folder = StoreRegistry().open(
        uri, storage_options={**options, "client_max_retries": "0"}
    )
    await store.put(f"{folder}/object", b"content")
    fault = {"op": "PUT", "action": "apply_status", "status": 503, "times": 2}
    lab.config(faults=[fault])
    await check_conditional_puts(store, f"{folder}/object", b"content")
    assert bytes(await store.get(f"{folder}/object")) == b"content"
    forget(monkeypatch)
    lab.config(faults=[fault], ignores=CONDITIONS)
    other, _ = StoreRegistry().open(uri, storage_options=options)
    with pytest.raises(UnsupportedError, match="overwrites"):
        await check_conditional_puts(other, f"{folder}/object", b"content")


async def test_who_is_cancelled_while_a_server_is_asked_is_free(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(monkeypatch)
    uri, options = reached(lab, "s3")
    store, folder = StoreRegistry().open(uri, storage_options=options)
    background, since = Background(), lab.stats()["requests"]
    lab.config(faults=[{"action": "stall"}])
    asking = asyncio.create_task(check_by_probe(store, f"{folder}/probe", background))
    await stuck(lab, since)
    asking.cancel()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert background.num_pending == 1  # the removal of what may come to be written
    await background.aclose(0.0)


@pytest.mark.parametrize(
    ("uri", "options", "heeds"),
    [
        ("s3://bucket", {}, True),
        ("s3://bucket", {"endpoint": "https://s3.eu-west-1.amazonaws.com"}, False),
        ("s3://bucket", {"endpoint": "http://minio"}, False),
        ("s3://bucket--euw1-az1--x-s3", {}, False),
        ("s3://alias--op-s3", {}, False),
        ("gs://bucket", {}, True),
        ("gs://bucket", {"base_url": "http://server"}, False),
        ("az://container", {"account_name": "me", "account_key": "a2V5"}, True),
        ("http://server/folder", {}, False),
    ],
)
def test_the_clouds_themselves_are_not_asked(
    uri: str, options: dict[str, str], heeds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "GOOGLE_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    keys = {"access_key_id": "a", "secret_access_key": "b"} if uri.startswith("s3") else {}
    store, _ = StoreRegistry().open(uri, storage_options=keys | options)
    assert store.heeds_conditions() is heeds


@pytest.mark.parametrize(
    ("kind", "config", "expected"),
    [
        ("s3", {}, None),
        ("s3", {"endpoint": "https://s3.eu-west-1.amazonaws.com/"}, None),
        ("s3", {"endpoint": "https://amazonaws.com.example"}, "https://amazonaws.com.example"),
        ("s3", {"endpoint_url_s3": "http://a:9", "endpoint": "http://b"}, "http://a:9"),
        ("gcs", {}, None),
        ("gcs", {"base_url": "https://storage.googleapis.com"}, None),
        ("gcs", {"base_url": "http://127.0.0.1:4443"}, "http://127.0.0.1:4443"),
        ("gcs", {"service_account_key": json.dumps({"gcs_base_url": "http://x"})}, "http://x"),
        ("gcs", {"service_account_key": "no JSON"}, None),
        ("azure", {"account_name": "me"}, None),
        ("azure", {"endpoint": "https://me.blob.core.windows.net"}, None),
        ("azure", {"use_emulator": "true"}, "http://127.0.0.1:10000"),
        ("azure", {"endpoint": "http://127.0.0.1:1/me"}, "http://127.0.0.1:1/me"),
        ("local", {}, None),
    ],
)
def test_the_endpoint_is_the_server_that_options_name(
    kind: Any, config: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "GOOGLE_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert endpoint_of(kind, config) == expected


def test_the_environment_names_servers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio")
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "True")
    assert endpoint_of("s3", {}) == "http://minio"
    assert endpoint_of("azure", {}) == "http://127.0.0.1:10000"
