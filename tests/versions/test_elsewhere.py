"""Every verb on a branch and on a clone, where most files lie in another folder."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pytest

import alance
from alance.errors import InvalidInputError
from tests.versions.conftest import make, numbers, rows_by_pylance

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

ROWS_WITHOUT_3 = [n for n in range(15) if n != 3]


async def insert(dataset: alance.Dataset) -> alance.Dataset:
    return await dataset.insert(numbers(20, 25))


async def overwrite(dataset: alance.Dataset) -> alance.Dataset:
    return await dataset.insert(numbers(40, 45), mode="overwrite")


async def delete(dataset: alance.Dataset) -> alance.Dataset:
    return await dataset.delete("a in (4, 12) or a > 13")


async def delete_fragment(dataset: alance.Dataset) -> alance.Dataset:
    return await dataset.delete("a >= 10")


async def update(dataset: alance.Dataset) -> alance.Dataset:
    return await dataset.update({"b": "'new'"}, where="a % 2 = 0")


async def merge_insert(dataset: alance.Dataset) -> alance.Dataset:
    return await dataset.upsert(numbers(12, 18), "a")


async def add_columns(dataset: alance.Dataset) -> alance.Dataset:
    return await dataset.add_columns({"twice": "a * 2"})


async def drop_columns(dataset: alance.Dataset) -> alance.Dataset:
    return await dataset.drop_columns(["s"])


async def compact(dataset: alance.Dataset) -> alance.Dataset:
    return await dataset.optimize.compact_files()


async def restore(dataset: alance.Dataset) -> alance.Dataset:
    return await dataset.restore()


async def config(dataset: alance.Dataset) -> alance.Dataset:
    return await dataset.update_config({"k": "v"})


VERBS: list[Callable[[alance.Dataset], Awaitable[alance.Dataset]]] = [
    insert,
    delete,
    update,
    merge_insert,
    add_columns,
    compact,
    delete_fragment,
    drop_columns,
    config,
    restore,
    overwrite,
]


async def elsewhere(path: str, where: str, kind: str) -> alance.Dataset:
    main = await alance.dataset(path)
    if kind == "clone":
        return await main.shallow_clone(where)
    return await main.create_branch("dev")


def by_pylance(dataset: alance.Dataset, where: str, path: str) -> Any:
    if dataset.branch is None:
        return lance.dataset(where)
    return lance.dataset(path).checkout_version((dataset.branch, None))


async def agree(dataset: alance.Dataset, theirs: Any) -> None:
    theirs.validate()
    assert theirs.version == dataset.version
    ours = (await dataset.to_table()).sort_by("a")
    assert ours.equals(theirs.to_table().sort_by("a"))


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("kind", ["branch", "clone"])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
async def test_each_verb_works_on_a_branch_and_a_clone(
    tmp_path: Path, verb: Any, kind: str, stable: bool
) -> None:
    path, where = make(tmp_path, enable_stable_row_ids=stable), str(tmp_path / "clone")
    result = await verb(await elsewhere(path, where, kind))
    assert result.version == 4 or verb is compact
    theirs = by_pylance(result, where, path)
    await agree(result, theirs)
    theirs.insert(rows_like(theirs))
    theirs.delete("a = 5")
    result = await result.checkout_latest()
    await agree(result, by_pylance(result, where, path))
    assert rows_by_pylance(path) == ROWS_WITHOUT_3


def rows_like(dataset: Any) -> Any:
    return numbers(90, 92).select([n for n in dataset.schema.names if n in ("a", "b", "s")])


@pytest.mark.parametrize("kind", ["branch", "clone"])
async def test_all_verbs_one_after_the_other(tmp_path: Path, kind: str) -> None:
    path, where = make(tmp_path), str(tmp_path / "clone")
    result = await elsewhere(path, where, kind)
    for verb in VERBS:
        result = await verb(result)
        await agree(result, by_pylance(result, where, path))
    for version in range(3, result.version + 1):
        old = await result.checkout_version(version)
        theirs = by_pylance(result, where, path).checkout_version(
            version if kind == "clone" else ("dev", version)
        )
        await agree(old, theirs)
    assert rows_by_pylance(path) == ROWS_WITHOUT_3


async def all_rows(dataset: alance.Dataset) -> list[int]:
    result: list[int] = (await dataset.to_table(["a"]))["a"].to_pylist()
    return result


async def test_cleanup_beside_branches_tags_and_clones(tmp_path: Path) -> None:
    path, where = make(tmp_path), str(tmp_path / "clone")
    main = await alance.dataset(path)
    dev = await main.create_branch("dev", 2)
    dev = await (await dev.insert(numbers(30, 32))).delete("a = 30")
    await main.tags.create("first", 1)
    clone = await (await main.shallow_clone(where, 3)).insert(numbers(40, 42))
    for verb in (overwrite, insert, compact, delete):
        main = await verb(main)
    options: dict[str, Any] = {"older_than": timedelta(0), "delete_unverified": True}
    with pytest.raises(InvalidInputError, match="first"):
        await main.cleanup_old_versions(**options)
    await clone.cleanup_old_versions(**options)
    await dev.cleanup_old_versions(**options)
    assert await all_rows(await alance.dataset(where)) == [*ROWS_WITHOUT_3, 40, 41]
    await clone.tags.create("start")
    await main.cleanup_old_versions(**options, error_if_tagged_old_versions=False)
    assert [version.version for version in await main.versions()] == [1, 2, 3, main.version]
    fresh = await alance.dataset(path, session=alance.Session())
    assert await all_rows(await fresh.checkout_version("first")) == list(range(10))
    assert await all_rows(await fresh.checkout_branch("dev")) == [*range(15), 31]
    assert await all_rows(await alance.dataset(where)) == [*ROWS_WITHOUT_3, 40, 41]
    for candidate in (fresh, await fresh.checkout_branch("dev"), await alance.dataset(where)):
        await candidate.validate()
        by_pylance(candidate, where, path).validate()
    assert rows_by_pylance(where) == [*ROWS_WITHOUT_3, 40, 41]
    await fresh.branches.delete("dev")
    (note,) = set(await fresh.tags.list()) - {"first", "start"}
    await fresh.tags.delete(note)
    await fresh.cleanup_old_versions(**options, error_if_tagged_old_versions=False)
    assert [version.version for version in await fresh.versions()] == [1, main.version]
    assert await all_rows(fresh) == await all_rows(main)


@pytest.mark.parametrize("kind", ["branch", "clone"])
async def test_an_index_on_a_clone(tmp_path: Path, kind: str) -> None:
    path, where = make(tmp_path), str(tmp_path / "clone")
    lance.dataset(path).create_scalar_index("a", "BTREE")
    deleted = await elsewhere(path, where, kind)
    deleted = await (await deleted.insert(numbers(20, 25))).delete("a = 7")
    theirs = by_pylance(deleted, where, path)
    for name in ("a = 5", "a = 7", "a > 12 and a < 22"):
        expected = theirs.to_table(filter=name)["a"].to_pylist()
        assert (await deleted.to_table(["a"], filter=name))["a"].to_pylist() == expected
    await agree(deleted, theirs)
    deleted = await compact(deleted)
    await deleted.validate()
    theirs = by_pylance(deleted, where, path)
    assert theirs.to_table(filter="a = 21")["a"].to_pylist() == [21]
    await agree(deleted, theirs)
