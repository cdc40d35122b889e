"""Scope of credentials when a table names other places: base paths, and blobs elsewhere."""

from __future__ import annotations

import asyncio
import itertools
import json
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lance import blob_array, blob_field
from obstore.store import MemoryStore, S3Store

import alance
from alance import BlobOptions, sync
from alance.errors import AccessError, InvalidInputError
from alance.io.opening.access import Access, own_options
from alance.io.opening.options import parse_options
from alance.io.stores.uri import parse_uri
from alance.spark.options import ReadOptions
from alance.testing.lab import Lab
from tests.access.foreign import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.access.foreign import Foreign

SECRET = "Bearer of-the-table"
ROWS = pa.table({"a": range(5)})
_numbers = itertools.count(1)


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Foreign]:
    with serving(tmp_path / "foreign") as server:
        yield server


async def cloned(foreign: Foreign, lab: Lab) -> str:
    """The name of a table in the lab's bucket whose data files are at the foreign server."""
    name = f"access-{next(_numbers)}"
    await alance.write_dataset(ROWS, foreign.folder / name)
    source = await alance.dataset(f"{foreign.url}/{name}", version=1)
    await source.shallow_clone(
        f"s3://lab/{name}", note_at_source=False, storage_options=lab.lance_options()
    )
    foreign.requests.clear()
    return name


def by_http(lab: Lab, name: str) -> str:
    return f"{lab.endpoint}/lab/{name}"


async def rows(uri: Any, options: Any, version: int | None = None) -> list[int]:
    dataset = await alance.dataset(uri, version=version, storage_options=options)
    table = await dataset.to_table()
    numbers: list[int] = table["a"].to_pylist()
    return numbers


async def test_a_bearer_token_does_not_go_to_the_host_of_a_base_path(
    foreign: Foreign, lab: Lab
) -> None:
    name = await cloned(foreign, lab)
    own = {"default_headers": {"Authorization": SECRET}}
    with pytest.raises(AccessError) as caught:
        await rows(by_http(lab, name), own, version=1)
    assert foreign.requests == []
    assert f"{foreign.url}/{name}" in str(caught.value)
    assert f"'base:{foreign.url}/{name}': {{...}}" in str(caught.value)
    assert SECRET not in str(caught.value)


async def test_a_redirect_to_another_server_takes_no_bearer_token_along(
    foreign: Foreign, tmp_path: Path
) -> None:
    await alance.write_dataset(ROWS, foreign.folder / "t")
    own = {"default_headers": {"Authorization": SECRET}}
    with serving(tmp_path, elsewhere=foreign.url) as first:
        assert await rows(f"{first.url}/t", own, version=1) == ROWS["a"].to_pylist()
    assert SECRET in first.received
    assert len(foreign.requests) == len(first.requests) > 1
    assert SECRET not in foreign.received
    assert "authorization" not in foreign.received.lower()


@pytest.mark.parametrize("as_text", [False, True])
async def test_a_base_path_gets_the_options_given_for_it_and_no_others(
    foreign: Foreign, lab: Lab, as_text: bool
) -> None:
    name = await cloned(foreign, lab)
    own = {"default_headers": {"Authorization": SECRET}}
    theirs: Any = {"default_headers": {"Authorization": "Bearer of-the-base"}}
    arguments = own | {f"base:{foreign.url}/": json.dumps(theirs) if as_text else theirs}
    assert await rows(by_http(lab, name), arguments, version=1) == list(range(5))
    assert len(foreign.requests) > 0
    assert all(sent["authorization"] == "Bearer of-the-base" for _, sent in foreign.requests)
    assert SECRET not in foreign.received


async def test_empty_options_for_a_base_send_no_credentials(foreign: Foreign, lab: Lab) -> None:
    name = await cloned(foreign, lab)
    options = lab.lance_options() | {f"base:{foreign.url}/": {}}
    assert await rows(f"s3://lab/{name}", options) == list(range(5))
    assert len(foreign.requests) > 0
    assert "authorization" not in foreign.received.lower()
    assert "amz" not in foreign.received.lower()


async def test_a_table_of_s3_does_not_ask_another_host_at_all(foreign: Foreign, lab: Lab) -> None:
    name = await cloned(foreign, lab)
    with pytest.raises(AccessError, match="buckets of the same s3 endpoint"):
        await rows(f"s3://lab/{name}", lab.lance_options())
    assert foreign.requests == []


async def test_a_function_is_asked_for_the_options_of_a_base(foreign: Foreign, lab: Lab) -> None:
    name = await cloned(foreign, lab)
    request = []

    def choose(uri: str) -> dict[str, Any] | None:
        request.append(uri)
        return {"default_headers": {"X-Chosen": "yes"}} if uri.startswith(foreign.url) else None

    options = lab.lance_options() | {"base:*": choose}
    assert await rows(f"s3://lab/{name}", options) == list(range(5))
    assert request == [f"{foreign.url}/{name}"]
    assert all(sent["x-chosen"] == "yes" for _, sent in foreign.requests)
    refused = lab.lance_options() | {"base:*": lambda uri: None}
    with pytest.raises(AccessError):
        await rows(f"s3://lab/{name}", refused)


async def test_branches_versions_and_clones_keep_the_options_of_bases(
    foreign: Foreign, lab: Lab
) -> None:
    name = await cloned(foreign, lab)
    options = lab.lance_options() | {f"base:{foreign.url}/": {}}
    dataset = await alance.dataset(f"s3://lab/{name}", storage_options=options)
    branch = await dataset.create_branch("dev")
    assert await (await branch.checkout_latest()).count_rows("a < 3") == 3
    clone = await branch.shallow_clone(f"s3://lab/{name}-clone")
    again = await alance.dataset(f"s3://lab/{name}-clone", storage_options=options)
    for candidate in (clone, again):
        assert (await candidate.to_table())["a"].to_pylist() == list(range(5))
    with pytest.raises(AccessError):
        await rows(f"s3://lab/{name}-clone", lab.lance_options())


def test_the_blocking_class_takes_options_of_bases_too(foreign: Foreign, lab: Lab) -> None:
    name = asyncio.run(cloned(foreign, lab))
    options = lab.lance_options()
    with pytest.raises(AccessError):
        sync.dataset(f"s3://lab/{name}", storage_options=options).to_table()
    options[f"base:{foreign.url}/"] = "{}"
    dataset = sync.dataset(f"s3://lab/{name}", storage_options=options)
    assert dataset.to_table().num_rows == 5


async def test_a_remote_table_names_no_files_of_this_machine(tmp_path: Path, lab: Lab) -> None:
    name = f"access-{next(_numbers)}"
    source = await alance.write_dataset(ROWS, tmp_path / "secret" / "t")
    options = lab.lance_options()
    await source.shallow_clone(f"s3://lab/{name}", storage_options=options)
    with pytest.raises(AccessError, match=f"{tmp_path}/secret/t.*on this machine") as caught:
        await rows(f"s3://lab/{name}", options)
    assert f"'base:file:///{tmp_path}/secret/t': {{}}".replace("////", "///") in str(caught.value)
    with pytest.raises(AccessError, match="on this machine"):
        await rows(f"s3://lab/{name}", options | {f"base:file://{tmp_path}/sec": {}})
    allowed = options | {f"base:file://{tmp_path}/secret": {}}
    assert await rows(f"s3://lab/{name}", allowed) == list(range(5))


async def test_a_bucket_of_another_server_needs_options_of_its_own(lab: Lab) -> None:
    name = f"access-{next(_numbers)}"
    with Lab(buckets=("theirs",)) as other:
        source = await alance.write_dataset(
            ROWS, f"s3://theirs/{name}", storage_options=other.lance_options()
        )
        own = lab.lance_options()
        await source.shallow_clone(f"s3://lab/{name}", storage_options=own)
        with other.recording() as seen, pytest.raises(alance.AlanceError):
            await rows(f"s3://lab/{name}", own)  # its own server has no such bucket
        assert seen.records == []
        pair = own | {"base:s3://theirs/": other.lance_options()}
        assert await rows(f"s3://lab/{name}", pair) == list(range(5))


async def test_buckets_of_one_endpoint_share_the_keys(tmp_path: Path) -> None:
    with Lab(buckets=("one", "two")) as lab:
        options = lab.lance_options()
        source = await alance.write_dataset(ROWS, "s3://one/t", storage_options=options)
        await source.shallow_clone("s3://two/t")
        assert await rows("s3://two/t", options) == list(range(5))
        local = await source.shallow_clone(tmp_path / "t", storage_options={})
        assert (await local.to_table()).num_rows == 5
        with pytest.raises(AccessError, match="s3://one/t"):
            await rows(tmp_path / "t", None)
        assert await rows(tmp_path / "t", {"base:s3://one/t": options}) == list(range(5))


async def test_a_store_object_is_for_its_own_place_alone(foreign: Foreign, lab: Lab) -> None:
    name = f"access-{next(_numbers)}"
    await alance.write_dataset(ROWS, foreign.folder / name)
    source = await alance.dataset(f"{foreign.url}/{name}", version=1)
    store = S3Store(
        "lab",
        endpoint=lab.endpoint,
        access_key_id="lab",
        secret_access_key="lab",
        region="us-east-1",
        client_options={"allow_http": True},
    )
    await source.shallow_clone(name, note_at_source=False, store=store)
    opened = await alance.dataset(name, store=store)
    with pytest.raises(AccessError, match="the given store object"):
        await opened.to_table()
    entry = {f"base:{foreign.url}/": {}}
    opened = await alance.dataset(name, store=store, storage_options=entry)
    assert (await opened.to_table()).num_rows == 5
    with pytest.raises(InvalidInputError, match="has its own already"):
        await alance.dataset("t", store=MemoryStore(), storage_options={"region": "x"})


async def test_blobs_elsewhere_are_not_asked_for_without_options(
    foreign: Foreign, lab: Lab, tmp_path: Path
) -> None:
    foreign.folder.mkdir()
    (foreign.folder / "blob.bin").write_bytes(b"theirs")
    (tmp_path / "own.bin").write_bytes(b"own")
    blobs = blob_array([f"{foreign.url}/blob.bin", f"file://{tmp_path}/own.bin"])
    data = pa.table([pa.array(range(2)), blobs], pa.schema([("a", pa.int64()), blob_field("b")]))
    uri, options = f"s3://lab/access-{next(_numbers)}", lab.lance_options()
    await alance.write_dataset(
        data,
        uri,
        storage_options=options,
        data_storage_version="2.2",
        blobs=BlobOptions(allow_external_blob_outside_bases=True),
    )
    dataset = await alance.dataset(uri, storage_options=options)
    for row, what in ((0, f"{foreign.url}/blob.bin"), (1, f"file://{tmp_path}/own.bin")):
        with pytest.raises(AccessError, match=what):
            await dataset.read_blobs("b", indices=[row])
    assert foreign.requests == []
    allowed = options | {f"base:{foreign.url}": {}, f"base:file://{tmp_path}/own.bin": {}}
    dataset = await alance.dataset(uri, storage_options=allowed)
    result = await dataset.read_blobs("b", indices=[0, 1])
    assert [item for _, item in result] == [b"theirs", b"own"]
    assert "authorization" not in foreign.received.lower()


async def test_blobs_that_the_caller_ingests_get_no_credentials_of_the_table(
    foreign: Foreign, lab: Lab, tmp_path: Path
) -> None:
    foreign.folder.mkdir()
    (foreign.folder / "blob.bin").write_bytes(b"theirs")
    (tmp_path / "own.bin").write_bytes(b"own")
    blobs = blob_array([f"{foreign.url}/blob.bin", f"file://{tmp_path}/own.bin"])
    data = pa.table([blobs], pa.schema([blob_field("b")]))
    headers = {"default_headers": {"Authorization": SECRET}}
    dataset = await alance.write_dataset(
        data,
        f"s3://lab/access-{next(_numbers)}",
        storage_options=lab.lance_options() | headers,
        data_storage_version="2.2",
        blobs=BlobOptions(external_blob_mode="ingest"),
    )
    result = await dataset.read_blobs("b", indices=[0, 1])
    assert [item for _, item in result] == [b"theirs", b"own"]
    assert len(foreign.requests) > 0
    assert "authorization" not in foreign.received.lower()


@pytest.mark.parametrize(
    ("home", "options", "place", "covered"),
    [
        ("s3://a/t", {}, "s3://b/t", True),
        ("s3://a/t", {}, "s3a://b/t", True),
        ("s3://a/t", {}, "s3://evil.example:80/t", False),
        ("hf://datasets/a/n/t", {"token": "t"}, "hf://datasets/b/m/t", True),
        ("hf://datasets/a/n/t", {"token": "t"}, "https://host/t", False),
        ("s3://a/t", {}, "gs://a/t", False),
        ("gs://a/t", {"token": "t"}, "gs://b/t", True),
        ("az://c/t", {"account_name": "mine"}, "az://d/t", True),
        ("az://c/t", {"account_name": "mine"}, "abfss://d@MINE.dfs.core.windows.net/t", True),
        ("az://c/t", {"account_name": "mine"}, "abfss://d@other.dfs.core.windows.net/t", False),
        ("az://c/t", {"sas_key": "s"}, "abfss://d@other.dfs.core.windows.net/t", False),
        ("abfss://c@mine.dfs.core.windows.net/t", {}, "az://d/t", True),
        ("abfss://c@mine.x/t", {}, "abfss://d@other.dfs.core.windows.net/t", False),
        ("http://host:81/t", {}, "http://HOST:81/u", True),
        ("http://host:81/t", {}, "http://host:82/u", False),
        ("https://host/t", {}, "http://host/u", False),
        ("https://host/t", {}, "s3://host/u", False),
        ("/t", {}, "memory://m/t", True),
        ("/t", {}, "s3://b/t", False),
        ("memory://m/t", {}, "/t", True),
        ("s3://a/t", {}, "memory://m/t", False),
    ],
)
def test_what_the_options_of_a_table_cover(
    home: str, options: dict[str, object], place: str, covered: bool, monkeypatch: Any
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    address = parse_uri(home)
    access = Access.of(address.kind, address, options)
    assert access.covers(parse_uri(place)) is covered


def test_containers_of_the_account_that_the_uri_names_are_opened_in_that_account() -> None:
    home = parse_uri("abfss://c@mine.dfs.core.windows.net/t")
    access = Access.of("azure", home, {"sas_key": "s"})
    result = access.options("az://d/t", parse_uri("az://d/t"), "base path")
    assert result == {"sas_key": "s", "account_name": "mine"}


def test_the_entry_that_names_most_of_a_place_counts() -> None:
    arguments = {"base:s3://b/": {"region": "one"}, "base:s3://b/x/y": {"region": "two"}}
    access = Access.of("local", parse_uri("/t"), arguments)
    for uri, region in (("s3://b/x", "one"), ("s3://b/x/y/z", "two"), ("s3://b/x/yz", "one")):
        assert access.options(uri, parse_uri(uri), uri) == {"region": region}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("base:0", {}, "expected a URI or an absolute path"),
        ("base:partner", {}, "expected a URI or an absolute path"),
        ("base:s3://b/", 7, "expected options of that place"),
        ("base:s3://b/", "no-secret-here", "expected options of that place"),
        ("base:s3://b/", {"nonsense": "x"}, "not known for s3 stores"),
        ("base:s3://b/", {"base:s3://c/": {}}, "expected options of that place"),
        ("base:*", {}, "expected a function"),
    ],
)
async def test_wrong_entries_are_refused_without_their_value(
    key: str, value: object, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        await alance.dataset(tmp_path / "t", storage_options={key: value})
    assert "no-secret-here" not in str(caught.value)


def test_text_options_of_spark_keep_entries_for_bases() -> None:
    inner = '{"region": "x"}'
    by_prefix = ReadOptions.parse({"path": "/t", "storage.base:s3://b/": inner})
    by_json = ReadOptions.parse(
        {"path": "/t", "storage_options": json.dumps({"base:s3://b/": inner, "region": "y"})}
    )
    nested = ReadOptions.parse(
        {"path": "/t", "storage_options": json.dumps({"base:s3://b/": {"region": "x"}})}
    )
    for options in (by_prefix, by_json, nested):
        storage = pickle.loads(pickle.dumps(options)).storage
        access = Access.of("local", parse_uri("/t"), storage)
        assert access.options("s3://b/t", parse_uri("s3://b/t"), "base") == {"region": "x"}
        parse_options("s3", storage)
    assert own_options(by_json.storage) == {"region": "y"}
