"""Every pair of changes: pylance is first, and then alance, or pylance, from the version before.

Both must come out the same: it works, and the table has the same rows; or it is refused. Changes
of columns that pylance asks its caller to try again are tried again by alance itself.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import CommitConflictError, InvalidInputError, RetryableConflictError
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from alance.datasets import Dataset

ROWS = pa.table({"key": range(30), "value": [n % 7 for n in range(30)], "more": ["x"] * 30})
NEW = pa.table({"key": [100, 101], "value": [1, 2], "more": ["y", "y"]})
SOURCE = pa.table({"key": [3, 200], "value": [50, 51], "more": ["z", "z"]})


def merged(builder: Any) -> Any:
    return builder.when_matched_update_all().when_not_matched_insert_all()


# The same words for a dataset of either; what alance gives is awaited.
SHARED_CHANGES: dict[str, Callable[[Any], Any]] = {
    "append": lambda ds: ds.insert(NEW),
    "overwrite": lambda ds: ds.insert(NEW, mode="overwrite"),
    "delete first": lambda ds: ds.delete("key < 3"),
    "delete beside": lambda ds: ds.delete("key = 4"),
    "delete last": lambda ds: ds.delete("key > 27"),
    "delete a fragment": lambda ds: ds.delete("key < 10"),
    "update": lambda ds: ds.update({"value": "value + 1"}, where="key = 5"),
    "merge": lambda ds: merged(ds.merge_insert("key")).execute(SOURCE),
    "add column": lambda ds: ds.add_columns({"twice": "key * 2"}),
    "drop column": lambda ds: ds.drop_columns(["more"]),
    "rename": lambda ds: ds.alter_columns({"path": "more", "name": "less"}),
    "compact": lambda ds: ds.optimize.compact_files(target_rows_per_fragment=100),
    "config": lambda ds: ds.update_config({"a": "1"}),
    "other config": lambda ds: ds.update_config({"b": "1"}),
}
THEIRS: dict[str, Callable[[lance.LanceDataset], object]] = {
    **SHARED_CHANGES,
    "restore": lambda ds: lance.dataset(ds.uri, version=1).restore(),
}
OURS: dict[str, Callable[[Dataset], Awaitable[object]]] = {
    **SHARED_CHANGES,
    "restore": lambda ds: ds.restore(1),
}

IDS = ["addresses", "stable"]


# What alance, too, leaves to its caller to do again: it is dear, or may no longer be wanted.
NOT_TRIED_AGAIN = ("compact", "overwrite")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One whose rows have addresses alone, and one of stable row ids."""
    paths = {}
    for name in IDS:
        path = paths[name] = tmp_path_factory.mktemp("conflicts") / "table"
        lance.write_dataset(
            ROWS, path, max_rows_per_file=10, enable_stable_row_ids=name == "stable"
        ).update_config({"z": "0"})
    return paths


def rows_of(uri: str) -> list[dict[str, object]]:
    dataset = lance.dataset(uri)
    dataset.validate()
    rows: list[dict[str, object]] = dataset.to_table().to_pylist()
    return sorted(rows, key=lambda row: str(sorted(row.items())))


# Each pair by one kind of table, each change by both; all by all in `make soak`.
@pytest.mark.parametrize(("first", "second", "ids"), thinned([*THEIRS], [*OURS], IDS))
async def test_a_pair_of_changes_ends_as_with_pylance(
    tmp_path: Path, tables: dict[str, Path], first: str, second: str, ids: str
) -> None:
    uris = [str(tmp_path / name) for name in ("ours", "theirs")]
    for uri in uris:
        shutil.copytree(tables[ids], uri)
    ours, theirs = await alance.dataset(uris[0]), lance.dataset(uris[1])
    for uri in uris:
        THEIRS[first](lance.dataset(uri))
    expected = outcome(lambda: THEIRS[second](theirs))
    is_retryable = "etryable" in expected
    try:
        await OURS[second](ours)
        message = "done"
    except RetryableConflictError as error:
        message = str(error)
        assert is_retryable, f"pylance: {expected}; alance: {message}"
    except (CommitConflictError, InvalidInputError) as error:
        message = str(error)
    if is_retryable and second not in NOT_TRIED_AGAIN:
        expected = outcome(lambda: THEIRS[second](lance.dataset(uris[1])))
    assert (message == "done") == (expected == "done"), f"pylance: {expected}; alance: {message}"
    assert rows_of(uris[0]) == rows_of(uris[1])
    assert lance.dataset(uris[0]).version == lance.dataset(uris[1]).version


def outcome(work: Callable[[], object]) -> str:
    try:
        work()
    except Exception as error:
        return str(error)
    return "done"
