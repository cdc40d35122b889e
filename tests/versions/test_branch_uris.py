"""The URI of a branch: what alance and pylance open and write by it, and what stays main's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pytest

import alance
import alance.sync
from tests.versions.conftest import numbers, rows_by_pylance

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

ROWS_WITHOUT_3 = [n for n in range(15) if n != 3]


@pytest.fixture(params=["local", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    """A URI at which there is no table, and the options of its store."""
    if request.param == "local":
        return str(tmp_path / "t.lance"), {}
    lab: Lab = request.getfixturevalue("lab")
    return f"s3://lab/{tmp_path.name}/t.lance", lab.lance_options()


async def rows(uri: str, options: dict[str, Any]) -> list[int]:
    """Column `a` by alance; what pylance reads is the same."""
    table = await (await alance.dataset(uri, storage_options=options)).to_table(["a"])
    values: list[int] = table["a"].to_pylist()
    assert rows_by_pylance(uri, storage_options=options) == values
    return values


async def test_a_write_by_the_uri_of_a_branch_changes_the_branch_alone(
    place: tuple[str, dict[str, Any]],
) -> None:
    uri, options = place
    main = await alance.write_dataset(numbers(0, 3), uri, storage_options=options)
    branch = await main.create_branch("feat/x")
    assert (main.uri, branch.uri) == (uri, f"{uri}/tree/feat/x")
    theirs = lance.dataset(uri, storage_options=options).create_branch("theirs")
    assert theirs.uri == f"{uri}/tree/theirs"
    await alance.write_dataset(numbers(5, 7), branch.uri, mode="append", storage_options=options)
    assert await rows(branch.uri, options) == [0, 1, 2, 5, 6]
    written = await alance.write_dataset(
        numbers(8, 9), branch.uri, mode="overwrite", storage_options=options
    )
    assert (written.uri, written.branch, written.version) == (branch.uri, "feat/x", 3)
    lance.write_dataset(numbers(9, 10), branch.uri, mode="append", storage_options=options)
    assert await rows(branch.uri, options) == [8, 9]
    await alance.write_dataset(numbers(6, 7), theirs.uri, mode="overwrite", storage_options=options)
    assert await rows(theirs.uri, options) == [6]
    assert await rows(uri, options) == [0, 1, 2]


async def test_a_question_mark_is_part_of_a_path(place: tuple[str, dict[str, Any]]) -> None:
    mark = "%3F" if "://" in place[0] else "?"  # a URI's own would begin a query
    uri, options = place[0].replace("t.lance", f"t{mark}x.lance"), place[1]
    main = await alance.write_dataset(numbers(0, 3), uri, storage_options=options)
    branch = await main.create_branch("dev")
    assert branch.uri == f"{uri}/tree/dev"
    opened = await alance.dataset(branch.uri, storage_options=options)
    assert (opened.uri, opened.branch) == (branch.uri, "dev")


async def test_what_is_opened_by_the_uri_of_a_branch_knows_the_whole_table(
    place: tuple[str, dict[str, Any]],
) -> None:
    uri, options = place
    main = await alance.write_dataset(numbers(0, 3), uri, storage_options=options)
    where = (await main.create_branch("dev")).uri
    written = await alance.write_dataset(
        numbers(3, 4), where, mode="append", storage_options=options
    )
    await written.tags.create("here")
    opened = await alance.dataset(f"{where}/", storage_options=options)
    for dataset in (written, opened):
        assert dataset.uri == where
        assert sorted(await dataset.branches.list()) == ["dev"]
        assert sorted(await dataset.tags.list()) == ["here"]
        assert (await dataset.checkout_version((None, None))).uri == uri
    assert (await main.checkout_version("here")).uri == where
    assert await rows(where, options) == [0, 1, 2, 3]


async def test_a_clone_of_a_branch_is_a_table_of_its_own(
    place: tuple[str, dict[str, Any]],
) -> None:
    uri, options = place
    main = await alance.write_dataset(numbers(0, 3), uri, storage_options=options)
    branch = await (await main.create_branch("dev")).insert(numbers(3, 5))
    opened = await alance.dataset(branch.uri, storage_options=options)
    for number, source in enumerate((branch, opened)):
        clone = await source.shallow_clone(f"{uri}-{number}")
        assert (clone.uri, clone.branch) == (f"{uri}-{number}", None)
        assert await rows(clone.uri, options) == [0, 1, 2, 3, 4]


async def test_the_branch_is_shown(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    branch = await (await alance.dataset(table)).create_branch("dev")
    assert repr(branch) == f"Dataset('{table}/tree/dev', version=3)"
    assert f"of '{table}/tree/dev')" in repr(branch.fragments[0])
    assert alance.sync.dataset(table).checkout_version(("dev", None)).uri == branch.uri
    with pytest.raises(alance.NotFoundError, match="tree/dev"):
        await branch.checkout_version(77)
    monkeypatch.chdir(f"{table}/tree")
    opened = await alance.dataset("dev")
    assert (opened.uri, opened.branch) == (branch.uri, "dev")
    assert (await opened.checkout_version(("main", None))).uri == table


async def test_cleanup_by_the_uri_of_a_branch_keeps_versions_that_are_tagged(table: str) -> None:
    main = await alance.dataset(table)
    branch = await main.create_branch("dev")
    tagged = await branch.insert(numbers(20, 21))
    await tagged.tags.create("kept")
    config = {
        "lance.auto_cleanup.interval": "1",
        "lance.auto_cleanup.older_than": "0s",
    }
    await tagged.update_config(config)
    for n in range(21, 25):
        await alance.write_dataset(numbers(n, n + 1), branch.uri, mode="append")
    assert await (await main.checkout_version("kept")).count_rows() == len(ROWS_WITHOUT_3) + 1
    assert lance.dataset(branch.uri).count_rows() == len(ROWS_WITHOUT_3) + 5
