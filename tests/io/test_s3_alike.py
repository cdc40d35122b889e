"""OSS, COS and TOS: clouds with S3's protocol, and with servers and credentials of their own."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import alance
from alance.errors import AccessError, AlanceError, InvalidInputError
from alance.io.opening.options import parse_options
from alance.io.opening.registry import StoreRegistry
from alance.io.opening.s3_alike import s3_config, with_variables
from alance.io.stores.uri import parse_uri
from tests.access.foreign import serving

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

# The names of pylance's options.
KEYS = {
    "oss": {"oss_access_key_id": "own-id", "oss_secret_access_key": "own-key"},
    "cos": {"cos_secret_id": "own-id", "cos_secret_key": "own-key"},
    "tos": {"tos_access_key_id": "own-id", "tos_secret_access_key": "own-key"},
}
ENDPOINTS = {
    "oss": "https://oss-cn-hangzhou.aliyuncs.com",
    "cos": "https://cos.ap-guangzhou.myqcloud.com",
    "tos": "https://tos-cn-beijing.volces.com",
}
CLOUDS = pytest.mark.parametrize("cloud", KEYS)


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OSS_ENDPOINT", "COS_ENDPOINT", "TOS_ENDPOINT", "OSS_ACCESS_KEY_ID"):
        monkeypatch.delenv(variable, raising=False)


def at_lab(cloud: str, lab: Lab) -> dict[str, Any]:
    return {f"{cloud}_endpoint": lab.endpoint, "allow_http": True} | KEYS[cloud]


@CLOUDS
async def test_a_table_is_written_and_read(cloud: str, lab: Lab) -> None:
    uri, options = f"{cloud}://lab/alike-{cloud}", at_lab(cloud, lab)
    dataset = await alance.write_dataset({"a": [1, 2]}, uri, storage_options=options)
    await dataset.insert({"a": [3]})
    again = await alance.dataset(uri, storage_options=options)
    assert (await again.to_table())["a"].to_pylist() == [1, 2, 3]
    assert b"own-key" not in pickle.dumps(again)
    assert "own-key" not in repr(again._snapshot.table.store)
    catalog = await alance.connect(f"{cloud}://lab", storage_options=options)
    assert f"alike-{cloud}" in await catalog._backend._folders(catalog.uri)  # type: ignore[attr-defined]


@CLOUDS
async def test_nothing_of_aws_goes_to_another_cloud(
    cloud: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "aws-id",
        "AWS_SECRET_ACCESS_KEY": "aws-secret",
        "AWS_SESSION_TOKEN": "aws-token",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
        "AWS_SKIP_SIGNATURE": "true",
        "AWS_PROFILE": "absent",
    }.items():
        monkeypatch.setenv(name, value)
    with serving(tmp_path) as server:
        options = {"endpoint": server.url, "allow_http": True, "client_max_retries": 0}
        with pytest.raises(AccessError, match=r"no credentials: neither among the storage options"):
            await alance.dataset(f"{cloud}://b/t", storage_options=options)
        with pytest.raises(AlanceError):
            await alance.dataset(f"{cloud}://b/t", storage_options=options | KEYS[cloud])
        assert server.requests
        assert "own-id" in server.received
        assert "aws-" not in server.received
        monkeypatch.setenv("AWS_SSE_CUSTOMER_KEY_BASE64", "aws-sse")
        with pytest.raises(InvalidInputError, match="unset AWS_SSE_CUSTOMER_KEY_BASE64"):
            await alance.dataset(
                f"{cloud}://b/t", storage_options=options | KEYS[cloud] | {"region": "other"}
            )


@CLOUDS
async def test_variables_of_aws_change_no_request_to_another_cloud(
    cloud: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_S3_EXPRESS", "true")
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    uri = f"{cloud}://lab/{cloud}-unchanged.lance"
    dataset = await alance.write_dataset({"id": [1]}, uri, storage_options=at_lab(cloud, lab))
    assert await dataset.count_rows() == 1


@pytest.mark.parametrize(
    ("cloud", "options", "endpoint", "region"),
    [
        ("oss", {}, "https://b.oss-cn-hangzhou.aliyuncs.com", "cn-hangzhou"),
        ("cos", {}, "https://b.cos.ap-guangzhou.myqcloud.com", "ap-guangzhou"),
        ("tos", {}, "https://b.tos-s3-cn-beijing.volces.com", "cn-beijing"),
        ("oss", {"oss_region": "x"}, "https://b.oss-cn-hangzhou.aliyuncs.com", "x"),
        (
            "oss",
            {"endpoint": "https://oss-cn-shanghai-internal.aliyuncs.com/"},
            "https://b.oss-cn-shanghai-internal.aliyuncs.com",
            "cn-shanghai",
        ),
        (
            "oss",
            {"endpoint": "https://b.oss-us-west-1.aliyuncs.com"},
            "https://b.oss-us-west-1.aliyuncs.com",
            "us-west-1",
        ),
        (
            "tos",
            {"endpoint": "https://tos-s3-cn-beijing.volces.com"},
            "https://b.tos-s3-cn-beijing.volces.com",
            "cn-beijing",
        ),
        ("cos", {"endpoint": "http://10.0.0.1:80"}, "http://10.0.0.1:80", "us-east-1"),
        (
            "cos",
            {"endpoint": "http://proxy", "virtual_hosted_style_request": True},
            "http://b.proxy",
            "us-east-1",
        ),
    ],
)
def test_the_endpoint_of_a_cloud_is_that_of_its_bucket(
    cloud: Any, options: dict[str, Any], endpoint: str, region: str
) -> None:
    chosen = {"endpoint": ENDPOINTS[cloud]} | KEYS[cloud] | options
    address = parse_uri(f"{cloud}://b/t")
    config, credentials = s3_config(address, parse_options(cloud, chosen))
    assert (config["endpoint"], config["aws_endpoint_url_s3"]) == (endpoint, endpoint)
    assert config["region"] == region
    assert credentials is not None
    assert credentials()["access_key_id"] == "own-id"
    assert "own" not in repr(credentials)


@pytest.mark.parametrize(
    ("cloud", "variables"),
    [
        ("oss", {"ALIBABA_CLOUD_ACCESS_KEY_ID": "id", "OSS_ACCESS_KEY_SECRET": "key"}),
        ("cos", {"TENCENTCLOUD_SECRET_ID": "id", "COS_SECRET_KEY": "key"}),
        ("tos", {"TOS_ACCESS_KEY_ID": "id", "VOLCENGINE_SECRET_ACCESS_KEY": "key"}),
    ],
)
def test_variables_of_a_cloud_fill_what_options_leave_open(
    cloud: Any, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(f"{cloud.upper()}_ENDPOINT", ENDPOINTS[cloud])
    address = parse_uri(f"{cloud}://b/t")
    _, credentials = s3_config(address, with_variables(cloud, parse_options(cloud, {})))
    assert credentials is not None
    assert credentials() == {
        "access_key_id": "id",
        "secret_access_key": "key",
        "token": None,
        "expires_at": None,
    }
    own = with_variables(cloud, parse_options(cloud, KEYS[cloud]))
    assert dict(own.config)["access_key_id"] == "own-id"
    assert dict(own.config)["endpoint"] == ENDPOINTS[cloud]


@pytest.mark.parametrize(
    ("uri", "options", "text"),
    [
        ("oss://b/t", KEYS["oss"], "needs an endpoint, such as .*oss_endpoint.*OSS_ENDPOINT"),
        ("oss://b/t", {"oss_role_arn": "r"}, "write credentials, with a function"),
        ("cos://b/t", {"cos_enable_versioning": "true"}, "versions of objects are not read"),
        ("tos://b/t", {"tos_endpont": "x"}, "did you mean"),
        ("tos://b/t", {"tos_endpoint": "tos-cn-beijing.volces.com"}, "expected a URL"),
        ("oss://b/t", {"aws_access_key_id": "x"}, "not known for oss stores"),
    ],
)
async def test_options_that_are_wrong_are_refused(
    uri: str, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidInputError, match=text):
        await alance.dataset(uri, storage_options=options)


async def test_a_bucket_that_is_open_to_all_needs_no_key(lab: Lab) -> None:
    options = {"endpoint": lab.endpoint, "allow_http": True, "oss_allow_anonymous": True}
    rows = pa.table({"a": [1]})
    await alance.write_dataset(rows, "s3://lab/open-oss", storage_options=lab.lance_options())
    dataset = await alance.dataset("oss://lab/open-oss", storage_options=options)
    assert await dataset.count_rows() == 1


async def test_credentials_may_come_from_a_function(lab: Lab) -> None:
    def credentials() -> dict[str, str]:
        return {"access_key_id": "i", "secret_access_key": "k", "session_token": "t"}

    options = {"endpoint": lab.endpoint, "allow_http": True, "credentials": credentials}
    dataset = await alance.write_dataset(
        {"a": [1]}, "tos://lab/renewed-tos", storage_options=options
    )
    assert await dataset.count_rows() == 1


def test_buckets_of_clouds_are_not_those_of_s3(lab: Lab) -> None:
    registry = StoreRegistry()
    roots = {
        registry.open(f"{cloud}://lab/t", storage_options=at_lab(cloud, lab))[0].root
        for cloud in KEYS
    }
    assert roots == {f"{cloud}://lab/" for cloud in KEYS}
