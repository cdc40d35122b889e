"""Profiles of AWS's shared files, where neither options nor environment have credentials."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import alance
from alance.errors import AccessError
from alance.io.opening.aws_profile import with_profile
from alance.io.opening.options import parse_options
from alance.io.opening.registry import StoreRegistry
from tests.access.foreign import Foreign, serving
from tests.access.test_environment import READ
from tests.moto_server import moto_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from alance.testing.lab import Lab

SECRET = "s3cr3t-of-a-profile"
FILES = {"AWS_SHARED_CREDENTIALS_FILE": "credentials", "AWS_CONFIG_FILE": "config"}


def keys(access_key: str, *more: str) -> str:
    lines = [f"aws_access_key_id = {access_key}", f"aws_secret_access_key={SECRET}", *more]
    return "\n".join(lines) + "\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes the two files, in an environment that says nothing else."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for variable, name in FILES.items():
        monkeypatch.setenv(variable, str(tmp_path / name))

    def write(credentials: str | None = None, config: str | None = None) -> None:
        for name, text in {"credentials": credentials, "config": config}.items():
            if text is not None:
                (tmp_path / name).write_text(text)

    return write


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Foreign]:
    folder = tmp_path / "served" / "b"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"content")
    with serving(folder.parent) as foreign:
        yield foreign


async def sent(server: Foreign, **options: Any) -> tuple[str, str, str | None]:
    """Key, region and token of a request; without a signature the first two are empty."""
    fixed = {"endpoint": server.url, "allow_http": True, "virtual_hosted_style_request": False}
    registry = StoreRegistry()
    store, path = registry.open("s3://b/file", storage_options=fixed | options)
    assert await store.get(path) == b"content"
    headers = {name.lower(): value for name, value in server.requests[-1][1].items()}
    signed = re.search(r"Credential=([^/]+)/\d+/([^/]+)/", headers.get("authorization", ""))
    key, region = ("", "") if signed is None else signed.groups()
    return key, region, headers.get("x-amz-security-token")


async def test_the_default_profile_is_used_where_nothing_else_is_said(
    server: Foreign, write: Callable[..., None]
) -> None:
    write("[default]\n" + keys("PLAIN"), "[default]\nregion = eu-west-3\n")
    assert await sent(server) == ("PLAIN", "eu-west-3", None)
    assert (await sent(server, region="eu-north-1"))[1] == "eu-north-1"


async def test_a_named_profile_may_be_in_both_files(
    server: Foreign, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        "[default]\n" + keys("PLAIN") + "[work]\n" + keys("WORK", "aws_session_token = T"),
        "[default]\nregion=x\n[profile work]\n# of the team\nregion = us-west-2\n"
        "aws_access_key_id = OLD\ns3 =\n  max_concurrent_requests = 20\n"
        "[sso-session work]\na = b\n",
    )
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert await sent(server) == ("WORK", "us-west-2", "T")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert (await sent(server))[1] == "eu-central-1"


async def test_a_profile_of_the_configuration_alone_is_enough(
    server: Foreign, write: Callable[..., None]
) -> None:
    write(None, "[profile default]\n" + keys("CONFIGURED"))
    assert (await sent(server))[0] == "CONFIGURED"


async def test_options_and_variables_come_before_profiles(
    server: Foreign, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("[default]\n" + keys("PLAIN"))
    arguments = {"access_key_id": "GIVEN", "secret_access_key": SECRET}
    assert (await sent(server, **arguments))[0] == "GIVEN"
    assert (await sent(server, credentials=lambda: arguments))[0] == "GIVEN"
    assert (await sent(server, skip_signature=True))[0] == ""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OF_ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert (await sent(server))[0] == "OF_ENVIRONMENT"


@pytest.mark.parametrize(
    "variable", ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"]
)
def test_what_a_platform_sets_comes_before_a_profile_that_nobody_has_named(
    variable: str, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("[default]\n" + keys("PLAIN"))
    options = parse_options("s3", None)
    assert with_profile(options).renewed is not None
    monkeypatch.setenv(variable, "/x")
    assert with_profile(options) == options
    monkeypatch.setenv("AWS_PROFILE", "default")
    assert with_profile(options).renewed is not None


def test_stores_with_the_same_profile_are_one_and_without_files_nothing_changes(
    write: Callable[..., None],
) -> None:
    options = parse_options("s3", None)
    assert with_profile(options) == options
    write(None, "[default]\noutput = json\n")
    assert with_profile(options) == options
    write("[default]\n" + keys("PLAIN"))
    first = with_profile(options)
    assert with_profile(options) == first != options
    assert SECRET not in repr(first)


async def test_files_that_have_changed_are_read_again(
    server: Foreign, write: Callable[..., None]
) -> None:
    write("[default]\n" + keys("FIRST"))
    assert (await sent(server))[0] == "FIRST"
    write("[default]\n" + keys("OTHER_LOGIN"))
    assert (await sent(server))[0] == "OTHER_LOGIN"


def process(tmp_path: Path, printed: str, code: int = 0) -> str:
    program = tmp_path / "vault.py"
    program.write_text(f"import sys\nprint({printed!r})\nsys.exit({code})\n")
    return f'[default]\ncredential_process = "{sys.executable}" "{program}"\n'


async def test_a_program_may_print_the_credentials(
    server: Foreign, write: Callable[..., None], tmp_path: Path
) -> None:
    printed = {"Version": 1, "AccessKeyId": "PRINTED", "SecretAccessKey": SECRET}
    printed |= {"SessionToken": "T", "Expiration": "2999-01-01T00:00:00Z"}
    write(None, process(tmp_path, json.dumps(printed)))
    assert await sent(server) == ("PRINTED", "us-east-1", "T")


@pytest.mark.parametrize(
    ("printed", "code"), [(SECRET, 0), ("[]", 0), ("{}", 0), ("", 0), (SECRET, 3)]
)
async def test_a_program_that_fails_is_told_without_what_it_printed(
    server: Foreign, write: Callable[..., None], tmp_path: Path, printed: str, code: int
) -> None:
    write(None, process(tmp_path, printed, code))
    with pytest.raises(alance.StoreError, match="credential_process failed") as failure:
        await sent(server)
    assert SECRET not in str(failure.value)


async def test_a_role_is_taken_by_botocore(
    server: Foreign, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        "[base]\n" + keys("BASE"),
        "[profile role]\nrole_arn = arn:aws:iam::123456789012:role/reader\n"
        "source_profile = base\nregion = us-east-1\n",
    )
    monkeypatch.setenv("AWS_PROFILE", "role")
    with moto_server() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        key, _, token = await sent(server)
    assert key.startswith("ASIA"), "the keys of a role"
    assert token


async def test_without_botocore_a_role_says_what_it_needs(
    server: Foreign, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(None, "[default]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\n")
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(alance.StoreError, match="pip install boto3"):
        await sent(server)


async def test_a_profile_that_is_not_there_is_named(
    write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("[default]\n" + keys("PLAIN"))
    monkeypatch.setenv("AWS_PROFILE", "wrok")
    with pytest.raises(AccessError, match=r"no profile 'wrok' in .*credentials"):
        await alance.dataset("s3://b/t")


@pytest.mark.parametrize("text", [f"{SECRET}\n", f"[default\n{SECRET}", "[default]\n\udcff"])
async def test_a_file_that_is_none_is_told_without_its_text(
    write: Callable[..., None], tmp_path: Path, text: str
) -> None:
    write("")
    (tmp_path / "credentials").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(AccessError, match="expected profiles of AWS") as failure:
        await alance.dataset("s3://b/t")
    assert SECRET not in str(failure.value)


async def test_a_name_that_no_file_has_is_a_file_that_is_not_there(
    write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("[other]\n" + keys("PLAIN"))
    monkeypatch.setenv("AWS_CONFIG_FILE", "x" * 5000)
    monkeypatch.setenv("AWS_PROFILE", "wrok")
    with pytest.raises(AccessError, match="no profile 'wrok'"):
        await alance.dataset("s3://b/t")


@pytest.mark.parametrize("library", ["lance", "alance"])
async def test_pylance_and_alance_read_with_the_same_profile(
    lab: Lab, write: Callable[..., None], library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"s3://lab/profile-{library}"
    await alance.write_dataset({"id": [1, 2]}, uri, storage_options=lab.lance_options())
    write("[work]\naws_access_key_id = lab\naws_secret_access_key = lab\n")
    message = {"AWS_PROFILE": "work", "AWS_REGION": "us-east-1", "AWS_ENDPOINT": lab.endpoint}
    for name, value in (message | {"AWS_ALLOW_HTTP": "true"}).items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-c", READ, library, uri]
    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert ended.stdout.split() == ["2"], ended.stderr
