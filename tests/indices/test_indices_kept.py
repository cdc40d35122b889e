"""Coverage of indices after commits: as after pylance's, and never a wrong answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pytest

import alance
from tests.indices.index_cases import (
    FILTERS,
    agree,
    by_pylance,
    coverage,
    plan_of,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    Ours = Callable[[alance.Dataset], Awaitable[alance.Dataset]]
    Theirs = Callable[[lance.LanceDataset], Any]

CHANGES: dict[str, tuple[Ours, Theirs]] = {
    "delete": (lambda ours: ours.delete("i = 5"), lambda theirs: theirs.delete("i = 5")),
    "delete a fragment": (
        lambda ours: ours.delete("id < 6000"),
        lambda theirs: theirs.delete("id < 6000"),
    ),
    "update": (
        lambda ours: ours.update({"i": "i + 1"}, where="id % 101 = 5"),
        lambda theirs: theirs.update({"i": "i + 1"}, where="id % 101 = 5"),
    ),
    "append": (
        lambda ours: ours.insert(rows(700, 90_000)),
        lambda theirs: theirs.insert(rows(700, 90_000)),
    ),
    "overwrite": (
        lambda ours: ours.insert(rows(700, 90_000), mode="overwrite"),
        lambda theirs: theirs.insert(rows(700, 90_000), mode="overwrite"),
    ),
    "drop": (lambda ours: ours.drop_columns(["i"]), lambda theirs: theirs.drop_columns(["i"])),
    "add": (
        lambda ours: ours.add_columns({"j": "i * 2"}),
        lambda theirs: theirs.add_columns({"j": "i * 2"}),
    ),
    "rename": (
        lambda ours: ours.alter_columns({"path": "i", "name": "k"}),
        lambda theirs: theirs.alter_columns({"path": "i", "name": "k"}),
    ),
    "merge": (
        lambda ours: (
            ours.merge_insert("id")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute(rows(300, 15_900))
        ),
        lambda theirs: (
            theirs.merge_insert("id")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute(rows(300, 15_900))
        ),
    ),
}


def filters_of(change: str) -> tuple[str, ...]:
    if change == "rename":
        return tuple(name.replace("i ", "k ") for name in ("i = 5", "i < 10", "i is null"))
    if change == "drop":
        return tuple(item for item in FILTERS if "i " not in item and "i)" not in item)
    return FILTERS


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_leaves_the_coverage_that_pylance_leaves(
    tmp_path: Path, change: str, stable: bool
) -> None:
    by_pylance(tmp_path / "ours", enable_stable_row_ids=stable)
    theirs = by_pylance(tmp_path / "theirs", enable_stable_row_ids=stable)
    do_ours, do_theirs = CHANGES[change]
    await do_ours(await alance.dataset(tmp_path / "ours"))
    do_theirs(theirs)
    ours, its = coverage(tmp_path / "ours"), coverage(tmp_path / "theirs")
    if change == "update" and stable:
        # pylance knows that moved rows keep their ids in a bitmap index of another column.
        assert its.pop("s_idx") == its.pop("b_idx") == [[0, 1, 2, 3]]
        assert ours.pop("s_idx") == ours.pop("b_idx") == [[0, 1, 2]]
    assert ours == its
    for name in ("ours", "theirs"):
        await agree(tmp_path / name, filters_of(change)[::3])


async def test_columns_changed_in_place_leave_the_index(tmp_path: Path) -> None:
    path = tmp_path / "t"
    by_pylance(path)
    dataset = await alance.dataset(path)
    old = await dataset.to_table(["id"], filter="i = 5")
    dataset = await dataset.drop_columns(["i"])
    dataset = await dataset.add_columns({"i": "id % 1000"})
    assert not (await plan_of(dataset, "i = 5")).index_lines
    assert await dataset.count_rows("i = 5") != old.num_rows
    assert "i_idx" not in coverage(path)


async def test_deferred_translation_turns_indices_off(tmp_path: Path) -> None:
    path = tmp_path / "t"
    theirs = by_pylance(path)
    theirs.optimize.compact_files(target_rows_per_fragment=50_000, defer_index_remap=True)
    dataset = await agree(path)
    plan = await plan_of(dataset, "i = 5")
    assert plan.index_lines == ("indices not used: a compaction left their translation for later",)
    with pytest.raises(alance.UnsupportedError, match="fragment-reuse"):
        await dataset.create_scalar_index("id", "BTREE")


async def test_builders_on_both_sides(tmp_path: Path) -> None:
    """An index made on a stale handle: what came meanwhile is scanned, or it is made again."""
    path = tmp_path / "t"
    lance.write_dataset(rows(2_000), path, max_rows_per_file=700)
    stale = await alance.dataset(path)
    lance.write_dataset(rows(100, 90_000), path, mode="append")
    lance.dataset(path).update({"i": "77"}, where="id = 3")
    indexed = await stale.create_scalar_index("i", "BTREE")
    assert coverage(path) == {"i_idx": [[0, 1, 2]]}
    await agree(path)
    again = await alance.dataset(path)
    lance.dataset(path).optimize.compact_files()
    indexed = await again.create_scalar_index("s", "BITMAP")
    assert indexed.version == lance.dataset(path).version
    await agree(path)


async def test_two_of_the_same_name(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(rows(2_000), path)
    item, other = await alance.dataset(path), await alance.dataset(path)
    await item.create_scalar_index("i", "BTREE")
    indexed = await other.create_scalar_index("i", "BITMAP")
    assert [entry["type"] for entry in indexed.list_indices()] == ["Bitmap"]
    assert coverage(path) == {"i_idx": [[0]]}
