"""Names of manifests, deletion files, transactions and refs."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import InvalidInputError
from alance.format.table.naming import (
    ManifestName,
    NamingScheme,
    data_file_name,
    deletion_name,
    manifest_name,
    parse_manifest_name,
    transaction_name,
)
from alance.format.table.refs import (
    check_branch_name,
    check_tag_name,
    parse_ref_file_name,
    ref_file_name,
)
from tests.reference.manifest_names import attached


def test_manifests_have_the_names_of_their_scheme() -> None:
    assert manifest_name(1, NamingScheme.V2) == "18446744073709551614.manifest"
    assert manifest_name(12, NamingScheme.V1) == "12.manifest"
    detached = (1 << 63) | 5
    assert manifest_name(detached, NamingScheme.V2) == f"d{detached}.manifest"


@given(st.integers(0, (1 << 63) - 1), st.sampled_from(NamingScheme))
def test_names_come_back(version: int, scheme: NamingScheme) -> None:
    assert parse_manifest_name(manifest_name(version, scheme)) == ManifestName(version, scheme)


@given(st.integers(1 << 63, (1 << 64) - 1))
def test_detached_names_come_back(version: int) -> None:
    result = parse_manifest_name(manifest_name(version, NamingScheme.V2))
    assert result == ManifestName(version, NamingScheme.V2, is_detached=True)


@given(st.lists(st.integers(1, (1 << 63) - 1), min_size=2, unique=True))
def test_newest_v2_name_sorts_first(versions: list[int]) -> None:
    names = sorted(manifest_name(version, NamingScheme.V2) for version in versions)
    assert parse_manifest_name(names[0]) == ManifestName(max(versions), NamingScheme.V2)


@pytest.mark.parametrize(
    "name",
    [
        "latest_version_hint.json",
        "1.manifest-4f4f",
        "01.manifest",
        ".tmp1.manifest",
        "-1.manifest",
        "d5.manifest",
        "99999999999999999999.manifest",
        "1.manifest\n",
        "\u0661.manifest",
        "",
    ],
)
def test_other_names_are_no_manifests(name: str) -> None:
    assert parse_manifest_name(name) is None


def test_attached_leaves_out_the_rest() -> None:
    detached = f"d{1 << 63}.manifest"
    assert list(attached(["3.manifest", detached, "x"])) == ["3.manifest"]


@pytest.mark.parametrize("version", [-1, 1 << 64])
def test_no_such_version(version: int) -> None:
    with pytest.raises(InvalidInputError, match="version"):
        manifest_name(version, NamingScheme.V2)


def test_other_file_names() -> None:
    assert deletion_name(0, 2, 5265, is_bitmap=False) == "0-2-5265.arrow"
    assert deletion_name(7, 2, 1, is_bitmap=True) == "7-2-1.bin"
    assert transaction_name(4, "u") == "4-u.txn"
    unique = uuid.UUID("ce5eaab1-ba24-49dd-8f6e-1e3d0846207d")
    assert data_file_name(unique) == "110011100101111010101010b1ba2449dd8f6e1e3d0846207d.lance"
    assert len(data_file_name()) == 56


@pytest.mark.parametrize("name", ["v1", "a.b", "a-b_c", "main", "é"])
def test_names_of_tags_survive_their_file_names(name: str) -> None:
    assert parse_ref_file_name(ref_file_name(check_tag_name(name))) == name


@pytest.mark.parametrize("name", ["", ".a", "a.", "a..b", "a.lock", "a/b", "a b", "../x", "a\n"])
def test_refused_tag_names(name: str) -> None:
    with pytest.raises(InvalidInputError, match="tag"):
        check_tag_name(name)


def test_names_of_branches_are_escaped_in_file_names() -> None:
    assert ref_file_name(check_branch_name("feat/x")) == "feat%2Fx.json"
    assert parse_ref_file_name("feat%2Fx.json") == "feat/x"
    assert parse_ref_file_name("feat/x.json") is None
    assert parse_ref_file_name("x.txt") is None


@pytest.mark.parametrize(
    "name", ["", "main", "/a", "a/", "a//b", "../a", "a/../b", "a/.", "a.lock"]
)
def test_refused_branch_names(name: str) -> None:
    with pytest.raises(InvalidInputError, match="branch"):
        check_branch_name(name)
