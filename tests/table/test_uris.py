"""Places of datasets: paths, URIs, stores of the caller's own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from obstore import store as stores

import alance

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

COUNT = 14_957


async def check(dataset: alance.Dataset) -> None:
    assert await dataset.count_rows() == COUNT
    assert (await dataset.take([7], ["l_orderkey"])).to_pylist() == [{"l_orderkey": 3}]


@pytest.mark.parametrize("form", ["{}", "{}/", "file://{}"])
async def test_paths_and_file_uris_open_the_same_table(golden: Path, form: str) -> None:
    await check(await alance.dataset(form.format(golden / "lineitem.lance")))
    await check(await alance.dataset(golden / "lineitem.lance"))


async def test_a_relative_path(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(golden)
    await check(await alance.dataset("lineitem.lance"))
    await check(await alance.dataset("./../golden/lineitem.lance"))


async def test_an_obstore_store_with_a_path_inside(golden: Path) -> None:
    local = stores.LocalStore(str(golden))
    await check(await alance.dataset("lineitem.lance", store=local))
    memory = stores.MemoryStore()
    table = golden / "lineitem.lance"
    for path in table.rglob("*"):
        if path.is_file():
            await memory.put_async(f"some/table/{path.relative_to(table)}", path)
    await check(await alance.dataset("some/table", store=memory))


async def test_s3_by_uri_by_store_and_by_environment(
    lineitem_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = lineitem_lab.lance_options()
    await check(await alance.dataset("s3://lab/lineitem.lance", storage_options=options))
    own = stores.S3Store(
        "lab",
        endpoint=lineitem_lab.endpoint,
        access_key_id="lab",
        secret_access_key="lab",
        region="us-east-1",
        client_options={"allow_http": True},
    )
    await check(await alance.dataset("lineitem.lance", store=own))
    for name, value in (
        ("AWS_ENDPOINT_URL", lineitem_lab.endpoint),
        ("AWS_ACCESS_KEY_ID", "lab"),
        ("AWS_SECRET_ACCESS_KEY", "lab"),
        ("AWS_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    await check(
        await alance.dataset("s3://lab/lineitem.lance", storage_options={"allow_http": "true"})
    )


async def test_a_gs_uri_opens_a_table(lineitem_lab: Lab) -> None:
    await check(
        await alance.dataset("gs://lab/lineitem.lance", storage_options=lineitem_lab.gcs_options())
    )


async def test_a_version_over_plain_http(lineitem_lab: Lab) -> None:
    """A plain web server lists nothing, so that the version has to be named."""
    uri = f"{lineitem_lab.endpoint}/lab/lineitem.lance"
    dataset = await alance.dataset(uri, version=4, storage_options={"allow_http": "true"})
    await check(dataset)


@pytest.mark.parametrize(
    ("uri", "error"),
    [
        ("", alance.InvalidInputError),
        ("nonsense://bucket/x", alance.InvalidInputError),
        ("/nowhere/at/all", alance.NotFoundError),
        ("s3://", alance.InvalidInputError),
        (None, alance.InvalidInputError),
        (b"/tmp", alance.InvalidInputError),
    ],
)
async def test_what_is_no_dataset(uri: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        await alance.dataset(uri)  # type: ignore[arg-type]


async def test_a_folder_without_versions(tmp_path: Path) -> None:
    with pytest.raises(alance.NotFoundError, match=os.path.basename(tmp_path)):
        await alance.dataset(str(tmp_path))


async def test_secrets_stay_out_of_messages(lineitem_lab: Lab) -> None:
    options = {**lineitem_lab.lance_options(), "secret_access_key": "a-secret"}
    with pytest.raises(alance.NotFoundError) as caught:
        await alance.dataset("s3://lab/not-there", storage_options=options)
    assert "a-secret" not in repr(caught.value)
    dataset = await alance.dataset("s3://lab/lineitem.lance", storage_options=options)
    assert "a-secret" not in repr(dataset)
