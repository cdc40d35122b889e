"""URIs and paths."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError, UnsupportedError
from alance.io.stores.uri import _PARSERS, _REFUSED, Address, clean_path, join, parse_uri
from tests.pages import ROOT

if TYPE_CHECKING:
    from alance.testing.lab import Lab


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


@pytest.mark.parametrize("top", ["s3://b", "gs://b", "az://c", "memory://m", "hf://datasets/a/n"])
@pytest.mark.parametrize(("mark", "name"), [("#", "fragment"), ("?", "query")])
def test_signs_that_pylance_ignores_are_refused(top: str, mark: str, name: str) -> None:
    """With pylance, `s3://b/a#x` and `s3://b/a?x` are the table `a`."""
    with pytest.raises(InvalidInputError) as refused:
        parse_uri(f"{top}/a{mark}s3cret")
    assert f"would begin a {name}" in str(refused.value)
    assert f"write %{ord(mark):X}" in str(refused.value)
    assert "s3cret" not in str(refused.value)
    assert parse_uri(f"{top}/a%{ord(mark):X}x").path.endswith(f"a{mark}x")


@pytest.mark.parametrize("name", ["a#b", "c?d", "e%f", "g%23h", "i j"])
async def test_a_quoted_name_is_one_table_for_pylance(lab: Lab, name: str) -> None:
    options = lab.lance_options()
    uri = f"s3://lab/signs/{quote(name)}"
    lance.write_dataset(pa.table({"a": [1, 2]}), uri, storage_options=options)
    dataset = await alance.dataset(uri, storage_options=options)
    assert await dataset.count_rows() == 2
    table = dataset._snapshot.table
    assert table.path == f"signs/{name}"
    assert parse_uri(table.store.uri_of(table.path) or "").path == table.path


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
