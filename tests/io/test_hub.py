"""Tables in datasets of the Hugging Face Hub, on a server that speaks its protocol."""

from __future__ import annotations

import pickle
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import alance
from alance import sync
from alance.errors import (
    AccessError,
    AlanceError,
    BucketNotFoundError,
    InvalidInputError,
    MissingPackageError,
    NotFoundError,
    UnsupportedError,
)
from alance.io.opening.access import Access
from alance.io.stores.uri import Address, parse_uri
from tests.io.hub_server import Hub, serving_hub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NUM_ROWS = 2000
URI = "hf://datasets/ann/rows/t.lance"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Repositories with a table of one version on `main`, and of two on other revisions."""
    folder = tmp_path_factory.mktemp("hub") / "ann"
    rows = pa.table({"id": range(NUM_ROWS), "name": [f"name {i}" * 9 for i in range(NUM_ROWS)]})
    more = sync.write_dataset(rows, folder / "rows" / "main" / "t.lance")
    for place in ("private-rows/main", "gated/main", "rows/v1"):
        shutil.copytree(folder / "rows" / "main", folder / place)
    more = sync.dataset(folder / "rows" / "v1" / "t.lance")
    more.insert({"id": [-1], "name": ["added"]})
    for revision in ("refs_pr_1", "a_b"):
        shutil.copytree(folder / "rows" / "v1", folder / "rows" / revision)
    return folder.parent


@pytest.fixture
def hub(written: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    with serving_hub(written) as server:
        yield server


async def test_a_table_of_the_hub_is_read(hub: Hub) -> None:
    dataset = await alance.dataset(URI, storage_options=hub.options)
    assert (await dataset.to_table(columns=["id"]))["id"].to_pylist() == [*range(NUM_ROWS)]
    taken = await dataset.take([1, 1999])
    assert taken["name"].to_pylist() == [f"name {i}" * 9 for i in (1, 1999)]
    assert repr(dataset).count(URI) == 1


@pytest.mark.parametrize("revision", ["v1", "refs/pr/1", "refs%2Fpr%2F1", "a%2Fb"])
async def test_a_revision_is_part_of_the_uri(hub: Hub, revision: str) -> None:
    uri = f"hf://datasets/ann/rows@{revision}/t.lance"
    dataset = await alance.dataset(uri, storage_options=hub.options)
    assert await dataset.count_rows() == NUM_ROWS + 1
    assert await dataset.count_rows(filter="id = -1") == 1


async def test_opening_and_taking_cost_few_requests(hub: Hub) -> None:
    dataset = await alance.dataset(URI, storage_options=hub.options)
    # The repository, the list of versions, the manifest.
    assert [path.split("?")[0].split("/ann/rows")[1] for path, _ in hub.requests] == [
        "",
        "/tree/main/t.lance%2F_versions",
        "/resolve/main/t.lance/_versions/18446744073709551614.manifest",
    ]
    hub.requests.clear()
    hub.storage.requests.clear()
    with alance.trace() as recorder:
        await dataset.take([7], columns=["id"])
    # And the list of the data files, once.
    assert len(hub.storage.requests) == recorder.totals.num_requests <= 2
    assert len(hub.requests) == len(hub.storage.requests) + 1
    spans = [headers["range"] for _, headers in map(lowered, hub.storage.requests)]
    sizes = [int(stop) - int(start) + 1 for start, stop in (s[6:].split("-") for s in spans)]
    assert sum(sizes) == recorder.totals.num_bytes  # nothing is read ahead


def lowered(request: tuple[str, dict[str, str]]) -> tuple[str, dict[str, str]]:
    path, headers = request
    return path, {name.lower(): value for name, value in headers.items()}


async def test_a_token_goes_to_the_hub_and_not_to_its_storage(hub: Hub) -> None:
    uri = "hf://datasets/ann/private-rows/t.lance"
    with pytest.raises(BucketNotFoundError, match="which needs a token: storage_options"):
        await alance.dataset(uri, storage_options=hub.options)
    dataset = await alance.dataset(uri, storage_options=hub.options | {"hf_token": hub.token})
    assert await dataset.count_rows() == NUM_ROWS
    await dataset.take([1])
    assert hub.storage.requests
    assert hub.token not in hub.storage.received
    assert hub.token not in repr(dataset._snapshot.table.store)


@pytest.mark.parametrize("variable", ["HF_TOKEN", "HUGGINGFACE_TOKEN"])  # the second: pylance's
async def test_the_environments_token_goes_to_its_own_hub_alone(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, hub.token)
    uri = "hf://datasets/ann/private-rows/t.lance"
    with pytest.raises(BucketNotFoundError):
        await alance.dataset(uri, storage_options=hub.options)
    assert {authorization for _, authorization in hub.requests} == {None}
    # HF_ENDPOINT, which the package reads when it is imported, is this server.
    constants = "huggingface_hub.constants"
    monkeypatch.setattr(f"{constants}.ENDPOINT", hub.url)
    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", template)
    dataset = await alance.dataset(uri, storage_options={"allow_http": True})
    assert await dataset.count_rows() == NUM_ROWS


async def test_a_base_path_may_name_another_repository_of_the_hub(hub: Hub) -> None:
    home = parse_uri(URI)
    options = hub.options | {"token": hub.token}
    access = Access.of("hf", home, options)
    other = parse_uri("hf://datasets/bob/other/t.lance")
    assert access.options("hf://datasets/bob/other/t.lance", other, "base") == options
    with pytest.raises(AccessError, match=r"storage options \(datasets of the same Hub\)"):
        access.options("s3://b/t", parse_uri("s3://b/t"), "base")


async def test_what_is_missing_is_said(hub: Hub) -> None:
    for uri, kind, text in (
        ("hf://datasets/ann/absent/t.lance", BucketNotFoundError, "no such repository"),
        ("hf://datasets/ann/rows@absent/t.lance", BucketNotFoundError, "no such revision"),
        ("hf://datasets/ann/gated/t.lance", AccessError, "gated or disabled"),
        ("hf://datasets/ann/rows/absent.lance", NotFoundError, "no versions"),
        ("hf://datasets/ann/-rows-/t.lance", InvalidInputError, "such a name"),
    ):
        with pytest.raises(kind, match=text):
            await alance.dataset(uri, storage_options=hub.options)


async def test_writes_are_refused(hub: Hub) -> None:
    dataset = await alance.dataset(URI, storage_options=hub.options)
    for work in (
        lambda: dataset.insert({"id": [1], "name": ["a"]}),
        lambda: alance.write_dataset(
            {"id": [1]}, "hf://datasets/ann/rows/u.lance", storage_options=hub.options
        ),
    ):
        with pytest.raises(UnsupportedError, match=r"upload that by huggingface_hub\.upload"):
            await work()


async def test_new_commits_of_a_branch_are_seen(written: Path, tmp_path: Path) -> None:
    with serving_hub(shutil.copytree(written, tmp_path / "copy")) as hub:
        dataset = await alance.dataset(URI, storage_options=hub.options)
        await dataset.take([1])  # lists the data files
        local = await alance.dataset(hub.folder / "ann" / "rows" / "main" / "t.lance")
        await local.insert({"id": [-5], "name": ["newer"]})
        latest = await dataset.checkout_latest()
        assert (await latest.to_table(filter="id = -5"))["name"].to_pylist() == ["newer"]


async def test_tables_of_a_repository_have_names(hub: Hub) -> None:
    catalog = await alance.connect("hf://datasets/ann/rows", storage_options=hub.options)
    assert await catalog.list_tables() == ["t"]
    assert await (await catalog.open_table("t")).count_rows() == NUM_ROWS


async def test_a_pickle_has_no_token(hub: Hub) -> None:
    options = hub.options | {"token": hub.token}
    dataset = await alance.dataset(URI, storage_options=options)
    pickled = pickle.dumps(dataset)
    assert hub.token.encode() not in pickled
    assert await pickle.loads(pickled).count_rows() == NUM_ROWS


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"hf_revision": "v1"}, "write the revision in the URI"),
        ({"revision": "v1"}, "write the revision in the URI"),
        ({"hf_root": "t"}, "write the folder in the URI"),
        ({"download_mode": "xet"}, "write nothing: files are read by ranges"),
        ({"hf_enable_resolve_cache": "true"}, "write nothing"),
        ({"proxy_url": "http://p"}, "HTTPS_PROXY"),
        ({"default_headers": {"a": "b"}}, "not known for hf stores"),
        ({"tokn": "x"}, "did you mean 'token'"),
        ({"credentials": dict}, "give token"),
        ({"endpoint": "http://h"}, "allow_http=true"),
        ({"endpoint": "nonsense"}, "expected a URL"),
    ],
)
async def test_options_that_do_nothing_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        await alance.dataset(URI, storage_options=options)


def test_uris_of_datasets_are_taken_apart() -> None:
    assert parse_uri("hf://datasets/a/n@refs%2Fx/t%20u") == Address(
        "hf", "hf://datasets/", "a/n@refs%2Fx/t u", "datasets"
    )
    for uri in ("hf://a/n/t", "hf://datasets/a", "hf://spaces/a/n/t", "hf://"):
        with pytest.raises(InvalidInputError, match="expected hf://datasets/OWNER/NAME"):
            parse_uri(uri)


async def test_without_the_package_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingPackageError, match="hf:// needs huggingface_hub"):
        await alance.dataset("hf://datasets/a/n/missing-package")


async def test_a_hub_that_fails_for_a_while_is_asked_again(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
    hub.failing = [503, 503]
    dataset = await alance.dataset(URI, storage_options=hub.options)
    assert await dataset.count_rows() == NUM_ROWS
    hub.failing = [403] * 9
    with pytest.raises(AlanceError, match="403"):
        await alance.dataset("hf://datasets/ann/rows@v1/t.lance", storage_options=hub.options)
