"""Options of stores and their clients from the environment, as in obstore and pylance."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import alance
from alance.io.cloud.endpoints import check_endpoint
from alance.io.opening.options import _CLIENT_OPTIONS, parse_options, with_environment
from alance.io.opening.registry import StoreRegistry

if TYPE_CHECKING:
    from alance.testing.lab import Lab

# By kind of store: the URI, and what begins its variables.
KINDS = {
    "s3": ("s3://b/t", "AWS_"),
    "gcs": ("gs://b/t", "GOOGLE_"),
    "azure": ("az://c/t", "AZURE_STORAGE_"),
}
# The variables of Lance's and obstore's users for a table on the lab.
LAB = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT", "AWS_ALLOW_HTTP")

READ_BY_OBSTORE = (
    "AWS_CHECKSUM_ALGORITHM",
    "AWS_CONDITIONAL_PUT",
    "AWS_COPY_IF_NOT_EXISTS",
    "AWS_DISABLE_TAGGING",
    "AWS_IMDSV1_FALLBACK",
    "AWS_REQUEST_PAYER",
    "AWS_S3_EXPRESS",
    "AWS_SERVER_SIDE_ENCRYPTION",
    "AWS_SKIP_SIGNATURE",
    "AWS_UNSIGNED_PAYLOAD",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    "AZURE_ENDPOINT",
    "AZURE_SKIP_SIGNATURE",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_USE_EMULATOR",
    "AZURE_USE_AZURE_CLI",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "GOOGLE_SKIP_SIGNATURE",
)
READ = """
import asyncio, sys
if sys.argv[1] == "lance":
    import lance
    print(lance.dataset(sys.argv[2]).count_rows())
else:
    import alance
    async def read():
        print(await (await alance.dataset(sys.argv[2])).count_rows())
    asyncio.run(read())
"""


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "OBJECT_STORE_", "ALANCE_")):
            monkeypatch.delenv(name)


def client(kind: Any) -> dict[str, str]:
    return dict(with_environment(kind, parse_options(kind, None)).client)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted(_CLIENT_OPTIONS))
def test_every_option_of_the_client_is_taken_from_the_environment(
    kind: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KINDS[kind][1] + name.upper(), "7")
    assert client(kind)[name].rstrip("s") == "7"
    arguments = with_environment(kind, parse_options(kind, {name: "5"}))
    assert dict(arguments.client)[name].rstrip("s") == "5"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["true", "1"])
def test_http_is_allowed_by_the_environment(
    kind: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "allow_http" not in client(kind)
    monkeypatch.setenv(KINDS[kind][1] + "ALLOW_HTTP", text)
    assert client(kind) == {"allow_http": text}


def test_variables_of_one_cloud_say_nothing_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROXY_URL", "http://proxy")
    monkeypatch.setenv("AZURE_USE_HTTP", "true")
    assert client("gcs") == {}
    assert client("http") == {}
    assert client("azure") == {"allow_http": "true"}
    assert client("s3") == {"proxy_url": "http://proxy"}


def test_retries_are_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OBJECT_STORE_CLIENT_MAX_RETRIES", "9")
    monkeypatch.setenv("OBJECT_STORE_CLIENT_RETRY_TIMEOUT", "33")
    options = with_environment("gcs", parse_options("gcs", None))
    assert (options.max_retries, options.retry_timeout_s) == (9, 33.0)
    options = with_environment("s3", parse_options("s3", {"client_max_retries": 2}))
    assert (options.max_retries, options.retry_timeout_s) == (2, 33.0)
    monkeypatch.setenv("OBJECT_STORE_CLIENT_MAX_RETRIES", "many")
    with pytest.raises(alance.InvalidInputError, match="OBJECT_STORE_CLIENT_MAX_RETRIES"):
        with_environment("s3", parse_options("s3", None))


@pytest.mark.parametrize("variable", READ_BY_OBSTORE)
def test_a_variable_of_a_store_is_read(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """obstore reads them; what it read is seen by a value that it has to refuse."""
    (uri,) = [uri for uri, prefix in KINDS.values() if variable.startswith(prefix.split("_")[0])]
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    StoreRegistry().open(uri)
    monkeypatch.setenv(variable, "\x01junk")
    with pytest.raises(alance.InvalidInputError, match="environment"):
        StoreRegistry().open(uri)


KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}


def test_a_variable_that_ends_in_a_line_break_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a key has that was read from a file; obstore panics at it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "hidden\n")
    with pytest.raises(alance.InvalidInputError, match="AWS_ACCESS_KEY_ID: has a line") as caught:
        StoreRegistry().open("s3://bucket/table")
    assert "hidden" not in str(caught.value)
    StoreRegistry().open("s3://bucket/table", storage_options=KEYS)
    StoreRegistry().open("gs://bucket/table")


def run(reader: str, uri: str, variables: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", READ, reader, uri],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    return done.stdout or done.stderr


@pytest.mark.parametrize("reader", ["lance", "alance"])
async def test_alance_and_pylance_read_with_the_same_variables(lab: Lab, reader: str) -> None:
    options = lab.lance_options()
    table = {"id": [1, 2, 3]}
    await alance.write_dataset(
        table, "s3://lab/environment", storage_options=options, mode="overwrite"
    )
    values = ("lab", "lab", "us-east-1", options["endpoint"], "true")
    s3 = dict(zip(LAB, values, strict=True))
    assert await asyncio.to_thread(run, reader, "s3://lab/environment", s3) == "3\n"
    gcs = lab.gcs_options()["google_service_account_key"]
    variables = {"GOOGLE_SERVICE_ACCOUNT_KEY": gcs, "GOOGLE_ALLOW_HTTP": "true"}
    assert await asyncio.to_thread(run, reader, "gs://lab/environment", variables) == "3\n"


@pytest.mark.parametrize(
    ("kind", "option", "variable"),
    [
        ("s3", "endpoint", "AWS_ENDPOINT_URL"),
        ("s3", "aws_endpoint_url_s3", "AWS_ENDPOINT_URL_S3"),
        ("azure", "endpoint", "AZURE_STORAGE_ENDPOINT"),
        ("gcs", "base_url", "GOOGLE_BASE_URL"),
    ],
)
def test_a_server_that_is_no_url_is_refused_without_its_password(
    kind: Any, option: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrong in ("me:secret@127.0.0.1:9000", "http://", "ftp://h", "http://h:99999", "http://["):
        with pytest.raises(alance.InvalidInputError, match="expected a URL") as by_option:
            check_endpoint(kind, {option: wrong})
        monkeypatch.setenv(variable, wrong)
        with pytest.raises(alance.InvalidInputError, match=variable) as by_variable:
            check_endpoint(kind, {})
        assert "secret" not in f"{by_option.value}{by_variable.value}"
    monkeypatch.setenv(variable, "http://127.0.0.1:9000")
    check_endpoint(kind, {})
    monkeypatch.setenv(variable, "wrong")
    check_endpoint(kind, {option: "https://me:secret@[::1]:9000/x"})


async def test_a_table_whose_server_is_no_url_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "127.0.0.1:9000")
    with pytest.raises(alance.InvalidInputError, match="AWS_ENDPOINT_URL: expected a URL"):
        await alance.dataset("s3://b/t")
