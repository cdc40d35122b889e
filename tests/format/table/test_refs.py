"""Tags and branches from JSON that nobody has checked."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import CorruptFileError
from alance.format.table.refs import parse_branch, parse_tag

TAG = {
    "branch": "br1",
    "version": 3,
    "createdAt": "2026-11-20T20:52:19.612004436Z",
    "updatedAt": "2026-11-20T20:52:19.612004436Z",
    "manifestSize": 544,
    "metadata": {},
}
BRANCH = {
    "parentBranch": "br1",
    "identifier": {"version_mapping": [[2, "2419937dad63496486d14c3049cc0764"]]},
    "parentVersion": 3,
    "createAt": 1795207939,
    "manifestSize": 544,
    "metadata": {"k": "v"},
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def dumped(value: object) -> bytes:
    return json.dumps(value, indent=2).encode()


def test_a_tag_is_parsed_with_its_times() -> None:
    tag = parse_tag(dumped(TAG), "t")
    result = datetime(2026, 11, 20, 20, 52, 19, 612004, UTC)
    assert (tag.version, tag.branch, tag.manifest_bytes) == (3, "br1", 544)
    assert (tag.created_at, tag.updated_at, tag.metadata) == (result, result, {})


def test_tag_with_the_least() -> None:
    tag = parse_tag(b'{"version": 7}', "t")
    assert (tag.version, tag.branch, tag.created_at, tag.metadata) == (7, None, None, {})
    assert parse_tag(b'{"version": 7, "branch": "main"}', "t").branch is None


def test_a_branch_is_parsed_with_its_parent() -> None:
    branch = parse_branch(dumped(BRANCH), "b")
    assert (branch.parent_branch, branch.parent_version) == ("br1", 3)
    assert branch.created_at == datetime.fromtimestamp(1795207939, UTC)
    assert branch.metadata == {"k": "v"}
    assert parse_branch(b'{"parentVersion": 1}', "b").parent_branch is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("version", None),
        ("version", -1),
        ("version", True),
        ("version", "3"),
        ("version", 1 << 64),
        ("branch", 5),
        ("branch", "../../elsewhere"),
        ("createdAt", "yesterday"),
        ("createdAt", 12),
        ("metadata", []),
        ("metadata", {"k": 1}),
        ("manifestSize", 1.5),
    ],
)
def test_a_tag_with_a_spoiled_field_is_refused(name: str, value: object) -> None:
    with pytest.raises(CorruptFileError, match="where"):
        parse_tag(dumped({**TAG, name: value}), "where")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_json_that_is_no_object_is_refused(content: bytes) -> None:
    for parse in (parse_tag, parse_branch):
        with pytest.raises(CorruptFileError, match="where"):
            parse(content, "where")


@given(st.sampled_from([*TAG, *BRANCH]), VALUES)
def test_any_value_is_read_or_refused(name: str, value: Any) -> None:
    for parse, good in ((parse_tag, TAG), (parse_branch, BRANCH)):
        with contextlib.suppress(CorruptFileError):
            parse(dumped({**good, name: value}), "where")
