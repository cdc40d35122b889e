"""URIs and paths."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from alance.errors import InvalidInputError, UnsupportedError
from alance.io.stores.uri import _PARSERS, _REFUSED, Address, clean_path, join, parse_uri
from tests.pages import ROOT


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://bucket/a/b.lance", Address("s3", "s3://bucket/", "a/b.lance", "bucket")),
        ("s3a://bucket/a/b.lance/", Address("s3", "s3://bucket/", "a/b.lance", "bucket")),
        ("S3://bucket", Address("s3", "s3://bucket/", "", "bucket")),
        ("s3://bucket/a%20b/ü", Address("s3", "s3://bucket/", "a b/ü", "bucket")),
        ("gs://bucket/t", Address("gcs", "gs://bucket/", "t", "bucket")),
        ("az://box/t", Address("azure", "az://box/", "t", "box")),
        (
            "abfss://box@acc.dfs.core.windows.net/t",
            Address("azure", "abfss://box@acc.dfs.core.windows.net/", "t", "box", "acc"),
        ),
        ("http://host:81/t/u", Address("http", "http://host:81/", "t/u")),
        ("https://host/", Address("http", "https://host/", "")),
        ("file:///tmp/a%20b", Address("local", "file:///", "tmp/a b")),
        ("file://localhost/tmp/t", Address("local", "file:///", "tmp/t")),
        ("/tmp//x/../t/", Address("local", "file:///", "tmp/t")),
        ("/tmp/a%20b", Address("local", "file:///", "tmp/a%20b")),
        ("memory://name/t", Address("memory", "memory://name/", "t", "name")),
        ("memory:///t", Address("memory", "memory:///", "t")),
        ("memory://", Address("memory", "memory:///", "")),
    ],
)
def test_a_uri_is_taken_apart(uri: str, expected: Address) -> None:
    assert parse_uri(uri) == expected


def test_plain_paths_may_be_relative_or_of_a_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = str(tmp_path / "t")[1:]
    assert [parse_uri(path).path for path in ("t", "./t/", "~/t", Path("t"))] == [expected] * 4


def test_a_relative_path_needs_a_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    os.chdir("here")
    (tmp_path / "here").rmdir()
    with pytest.raises(InvalidInputError, match=r"^uri 't': the working directory is gone"):
        parse_uri("t")


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "s3://",
        "s3:///a",
        "s3://user@bucket/a",
        "s3://bucket/a//b",
        "s3://bucket/a/../b",
        "s3://bucket/./b",
        "az:///t",
        "abfss://box@/t",
        "file://host/t",
        "file://t",
        "http:///t",
        "https://host/t?token=abc",
        "https://host/t#part",
        "ftp://host/t",
        "a\0b",
    ],
)
def test_what_is_no_uri_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_uri(uri)


def test_passwords_in_a_uri_are_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_uri("https://me:s3cret@host/t")
    assert "s3cret" not in str(caught.value)
    with pytest.raises(InvalidInputError) as caught:
        parse_uri("https://host/t?sig=s3cret")
    assert "s3cret" not in str(caught.value)
    with pytest.raises(InvalidInputError) as caught:
        parse_uri("s3://key:s3cret@bucket/t")
    assert "s3cret" not in str(caught.value)


def test_a_uri_of_a_table_in_dynamodb_is_not_a_place_of_files() -> None:
    with pytest.raises(UnsupportedError, match="expected the s3:// URI"):
        parse_uri("s3+ddb://bucket/t?ddbTableName=x")


def test_the_page_of_stores_lists_each_scheme() -> None:
    table = (ROOT / "docs" / "stores.md").read_text().split("| URI |")[1].split("\n\n")[0]
    assert set(re.findall(r"`([\w+]+)://", table)) == {*_PARSERS, *_REFUSED}


def test_paths_are_joined_and_cleaned() -> None:
    assert join("", "a", "", "b/c") == "a/b/c"
    assert clean_path("/a/b/") == "a/b"
    assert clean_path("") == ""
    assert parse_uri("file:///tmp/a%20b%25").path == "tmp/a b%"
