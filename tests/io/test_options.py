"""Storage options sorted out."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest
from obstore import store as obstore_stores

from alance.errors import InvalidInputError
from alance.io.opening import options
from alance.io.opening.options import StoreOptions, parse_options

if TYPE_CHECKING:
    from collections.abc import Callable


def test_keys_are_known_in_all_their_spellings() -> None:
    spellings = ["aws_access_key_id", "AWS_ACCESS_KEY_ID", "access_key_id"]
    configs = {parse_options("s3", {key: "k"}).config for key in spellings}
    assert configs == {(("access_key_id", "k"),)}


def test_options_of_store_client_and_retries_are_told_apart() -> None:
    result = parse_options(
        "s3",
        {
            "aws_region": "eu-west-1",
            "aws_endpoint_url": "http://x",
            "AWS_ALLOW_HTTP": True,
            "timeout": 30,
            "connect_timeout": "5s",
            "read_timeout": timedelta(seconds=1.5),
            "request_timeout": "30000ms",
            "client_max_retries": "7",
            "client_retry_timeout": 20,
            "download_retry_count": 1,
            "default_headers": {"x": "y"},
        }
        | {"timeout": "30000ms"},
    )
    assert result == StoreOptions(
        config=(("endpoint", "http://x"), ("region", "eu-west-1")),
        client=(
            ("allow_http", "true"),
            ("connect_timeout", "5s"),
            ("read_timeout", "1500ms"),
            ("timeout", "30000ms"),
        ),
        headers=(("x", "y"),),
        max_retries=7,
        retry_timeout_s=20.0,
        outer_retries=1,
    )


@pytest.mark.parametrize(
    ("kind", "key", "name"),
    [
        ("gcs", "google_service_account", "service_account"),
        ("gcs", "google_storage_token", "bearer_token"),
        ("gcs", "GOOGLE_APPLICATION_CREDENTIALS", "application_credentials"),
        ("azure", "azure_storage_account_name", "account_name"),
        ("azure", "AZURE_STORAGE_SAS_TOKEN", "sas_key"),
        ("azure", "azure_client_id", "client_id"),
        ("azure", "access_key", "account_key"),
        ("s3", "aws_token", "session_token"),
        ("s3", "aws_endpoint_url_s3", "aws_endpoint_url_s3"),
    ],
)
def test_aliases_have_one_name(kind: str, key: str, name: str) -> None:
    assert parse_options(kind, {key: "v"}).config == ((name, "v"),)


@pytest.mark.parametrize("kind", ["s3", "gcs", "azure", "http", "local", "memory"])
def test_an_unknown_key_is_named_and_its_value_is_not(kind: str) -> None:
    with pytest.raises(InvalidInputError, match="'aws_secret_acess_key'") as caught:
        parse_options(kind, {"aws_secret_acess_key": "hidden"})
    assert "hidden" not in str(caught.value)


def test_stores_without_configuration_ignore_that_of_others() -> None:
    ours = {"aws_region": "x", "google_service_account": "y", "timeout": "3s"}
    assert parse_options("local", ours).config == ()
    assert parse_options("http", ours).client == (("timeout", "3s"),)
    with pytest.raises(InvalidInputError, match="aws_region"):
        parse_options("gcs", ours)


@pytest.mark.parametrize(
    "wrong",
    [
        {"region": None},
        {"region": ["hidden"]},
        {"region": "hidden", "aws_region": "hidden2"},
        {"client_max_retries": "hidden"},
        {"client_max_retries": -1},
        {"client_retry_timeout": float("nan")},
        {"default_headers": "hidden"},
        {"default_headers": {"a": "hidden\n"}},
        {"aws_secret_access_key": "hidden\n"},
        {"session_token": "hidden\0"},
        {1: "hidden"},
    ],
)
def test_a_wrong_value_is_refused_without_repeating_it(wrong: dict) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_options("s3", wrong)
    assert "hidden" not in str(caught.value)


def test_no_value_is_printed() -> None:
    result = parse_options(
        "s3", {"secret_access_key": "hidden", "default_headers": {"a": "hidden"}}
    )
    assert "hidden" not in repr(result)
    assert hash(result) == hash(
        parse_options("s3", {"AWS_SECRET_ACCESS_KEY": "hidden", "default_headers": {"a": "hidden"}})
    )


def complaint(make: Callable[[], object]) -> str:
    """Return obstore's error for a configuration; empty if there is none."""
    try:
        make()
    except Exception as error:
        return str(error)
    return ""


def test_obstore_knows_every_key() -> None:
    makers = {
        "s3": lambda config: obstore_stores.S3Store("b", config=config),
        "gcs": lambda config: obstore_stores.GCSStore("b", config=config),
        "azure": lambda config: obstore_stores.AzureStore(
            "b", config={"account_name": "x"} | config
        ),
    }
    for kind, make in makers.items():
        for name in options._CONFIG_OPTIONS[kind]:
            message = complaint(partial(make, {name: "true"}))
            assert "is not valid for store" not in message, (kind, name)
    for name in options._CLIENT_OPTIONS:
        message = complaint(partial(obstore_stores.S3Store, "b", client_options={name: "true"}))
        assert not message or "parse" in message or "PEM" in message, name
