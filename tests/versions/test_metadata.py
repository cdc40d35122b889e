"""Configuration and metadata: the same calls by pylance and by alance."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import lance
import pytest

import alance
from alance.errors import CommitConflictError, InvalidInputError
from tests.versions.conftest import manifest_of, plain, rows_by_pylance, transaction_of

if TYPE_CHECKING:
    from pathlib import Path

CALLS: list[tuple[str, Any, dict[str, Any]]] = [
    ("update_config", {"a": "1", "b": "2"}, {}),
    ("update_config", {"a": None, "zz": None}, {}),
    ("update_config", {"c": "1", "d": None}, {"replace": True}),
    ("update_config", {}, {}),
    ("update_config", {}, {"replace": True}),
    ("delete_config_keys", ["q", "r"], {}),
    ("update_metadata", {"a": "1", "b": "2"}, {}),
    ("update_metadata", {"a": None}, {}),
    ("update_metadata", {"b": "1"}, {"replace": True}),
    ("update_schema_metadata", {"a": "1", "ü": "ß"}, {}),
    ("update_schema_metadata", {"b": "1"}, {"replace": True}),
    ("update_field_metadata", {"a": {"k": "v"}, "s.x": {"y": "1"}}, {}),
    ("update_field_metadata", {"a": {"k": None, "z": "2"}}, {}),
    ("update_field_metadata", {"a": {"k2": "v"}}, {"replace": True}),
    ("update_field_metadata", {}, {}),
]


async def test_the_same_messages(table: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.lance")
    shutil.copytree(table, other)
    theirs = lance.dataset(table)
    ours = await alance.dataset(other)
    for name, values, options in CALLS:
        getattr(theirs, name)(values, **options)
        ours = await getattr(ours, name)(values, **options)
        assert transaction_of(other) == transaction_of(table), (name, values)
        assert plain(manifest_of(other).message) == plain(manifest_of(table).message)
        assert ours.config == theirs.config()
        assert ours.metadata == theirs.metadata
        assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.version == theirs.version == 3 + len(CALLS)
    assert rows_by_pylance(other) == rows_by_pylance(table)


async def test_both_go_on_from_each_other(table: str) -> None:
    ours = await (await alance.dataset(table)).update_config({"one": "1"}, message="said")
    assert (await ours.read_transaction()).commit_message == "said"
    assert lance.dataset(table).update_config({"two": "2"}) == {"one": "1", "two": "2"}
    ours = await (await ours.checkout_latest()).delete_config_keys(["one", "two"])
    assert ours.config == {}
    assert lance.dataset(table).update_metadata({"k": "v"}) == {"k": "v"}
    ours = await (await ours.checkout_latest()).update_metadata({"k": None})
    assert lance.dataset(table).metadata == {}


async def test_at_the_same_time(table: str) -> None:
    first = await alance.dataset(table)
    await first.update_config({"one": "1", "gone": None})
    assert (await first.update_config({"two": "2", "gone": None})).config == {
        "one": "1",
        "two": "2",
    }
    with pytest.raises(CommitConflictError, match=r"keys \['two'\]"):
        await first.update_config({"two": "3"})
    lance.dataset(table).update_field_metadata({"a": {"k": "v"}})
    assert (await first.update_field_metadata({"b": {"k": "v"}})).version == 7
    with pytest.raises(CommitConflictError, match="metadata of fields"):
        await first.update_field_metadata({"a": {"other": "v"}})
    await first.update_schema_metadata({"k": "v"})
    with pytest.raises(CommitConflictError, match="schema's metadata"):
        await first.update_schema_metadata({"other": "v"})
    assert lance.dataset(table).config() == {"one": "1", "two": "2"}


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("update_config", {"a": 1}, "'a': 1, expected text"),
        ("update_config", {1: "a"}, "1: 'a', expected text"),
        ("update_metadata", [("a", "b")], "expected a mapping"),
        ("update_schema_metadata", "a", "expected a mapping"),
        ("update_field_metadata", {"nope": {}}, "nope"),
        ("update_field_metadata", {"s.y": {"a": "b"}}, "s.y"),
        ("update_field_metadata", {"a": "b"}, "field 'a'"),
        ("update_field_metadata", ["a"], "expected a mapping of path"),
        ("delete_config_keys", "abc", "expected a list"),
    ],
)
async def test_bad_values_make_no_version(table: str, name: str, values: Any, message: str) -> None:
    dataset = await alance.dataset(table)
    with pytest.raises(InvalidInputError, match=message.replace("[", r"\[")):
        await getattr(dataset, name)(values)
    assert await dataset.latest_version() == 3
