"""Every verb on a branch and on a clone, where most files lie in another folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pytest

import alance
from tests.versions.conftest import make, numbers, rows_by_pylance

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

KEPT = [n for n in range(15) if n != 3]


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
async def test_one_verb(tmp_path: Path, verb: Any, kind: str, stable: bool) -> None:
    path, where = make(tmp_path, enable_stable_row_ids=stable), str(tmp_path / "clone")
    made = await verb(await elsewhere(path, where, kind))
    assert made.version == 4 or verb is compact
    theirs = by_pylance(made, where, path)
    await agree(made, theirs)
    theirs.insert(made_like(theirs))
    theirs.delete("a = 5")
    made = await made.checkout_latest()
    await agree(made, by_pylance(made, where, path))
    assert rows_by_pylance(path) == KEPT


def made_like(dataset: Any) -> Any:
    return numbers(90, 92).select([n for n in dataset.schema.names if n in ("a", "b", "s")])


@pytest.mark.parametrize("kind", ["branch", "clone"])
async def test_all_verbs_one_after_the_other(tmp_path: Path, kind: str) -> None:
    path, where = make(tmp_path), str(tmp_path / "clone")
    made = await elsewhere(path, where, kind)
    for verb in VERBS:
        made = await verb(made)
        await agree(made, by_pylance(made, where, path))
    for version in range(3, made.version + 1):
        old = await made.checkout_version(version)
        theirs = by_pylance(made, where, path).checkout_version(
            version if kind == "clone" else ("dev", version)
        )
        await agree(old, theirs)
    assert rows_by_pylance(path) == KEPT
