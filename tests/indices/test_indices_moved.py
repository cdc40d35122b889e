"""Compaction brings indices to the new addresses of their rows, as pylance does."""

from __future__ import annotations

import pickle
import shutil
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import alance
from alance.errors import CorruptFileError, RetryableConflictError
from alance.format.index.remap import AddressMap, NewFragment, OldFragment
from alance.optimize import Compaction
from tests.indices.index_cases import (
    agree,
    by_alance,
    by_pylance,
    content,
    coverage,
    entries,
    ids,
    plan_of,
)
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from pathlib import Path

LABELS = [["a", "b"], ["b"], [], None, ["c", None], ["a"]]


def unindexed(path: Path) -> dict[str, int]:
    """Rows that pylance says each index does not cover."""
    dataset = lance.dataset(path)
    names = {entry["name"] for entry in entries(dataset)}
    return {name: dataset.stats.index_stats(name)["num_unindexed_rows"] for name in names}


def index_files(path: Path) -> set[str]:
    return {str(file) for file in (path / "_indices").glob("*/*")}


@st.composite
def rewrites(draw: st.DrawFn) -> list[tuple[list[tuple[int, int, set[int]]], list[int]]]:
    """Groups: id, rows and deleted rows of old fragments, and the rows of new ones."""
    old_ids = draw(st.lists(st.integers(0, 30), min_size=1, max_size=6, unique=True))
    groups = []
    while old_ids:
        count = draw(st.integers(1, len(old_ids)))
        old = []
        for number in old_ids[:count]:
            num_rows = draw(st.integers(1, 8))
            old.append((number, num_rows, draw(st.sets(st.integers(0, num_rows - 1)))))
        del old_ids[:count]
        live = sum(rows - len(deleted) for _, rows, deleted in old)
        cut = draw(st.integers(0, live))
        groups.append((old, [part for part in (cut, live - cut) if part]))
    return groups


@given(rewrites(), st.sets(st.integers(0, 30)))
def test_the_nth_live_row_of_a_group_is_the_nth_row_of_its_new_fragments(
    groups: list[tuple[list[tuple[int, int, set[int]]], list[int]]], others: set[int]
) -> None:
    staying = others - {old[0] for fragments, _ in groups for old in fragments}
    expected = {(number << 32) + 3: (number << 32) + 3 for number in staying}
    parts, next_id = [], 100
    for old, sizes in groups:
        new = [NewFragment(next_id + place, size) for place, size in enumerate(sizes)]
        next_id += len(sizes)
        live = [
            (number << 32) + row
            for number, num_rows, deleted in old
            for row in range(num_rows)
            if row not in deleted
        ]
        values = [(item.id << 32) + row for item in new for row in range(item.num_rows)]
        expected |= dict(zip(live, values, strict=True))
        fragments = [OldFragment(a, b, np.array(sorted(c), np.int64)) for a, b, c in old]
        parts.append((fragments, new))
    every = [(number << 32) + row for number in range(32) for row in range(12)]
    every = [item for item in every if item in expected or item >> 32 not in staying]
    order = np.random.default_rng(0).permutation(len(every))
    addresses = np.array(every, np.int64)[order]
    moved, is_retained = AddressMap.of(parts, staying).moved(addresses)
    assert dict(zip(addresses[is_retained].tolist(), moved.tolist(), strict=True)) == expected


@pytest.mark.parametrize(("version", "stable"), thinned(["2.0", "2.2"], [False, True]))
async def test_compaction_leaves_the_indices_that_pylance_leaves(
    tmp_path: Path, stable: bool, version: str
) -> None:
    theirs = tmp_path / "theirs"
    by_pylance(theirs, enable_stable_row_ids=stable, data_storage_version=version)
    shutil.copytree(theirs, tmp_path / "ours")
    dataset = await alance.dataset(tmp_path / "ours")
    dataset = await dataset.optimize.compact_files(target_rows_per_fragment=9_000)
    lance.dataset(theirs).optimize.compact_files(target_rows_per_fragment=9_000)
    assert dataset.summary["warnings"] == []
    assert coverage(tmp_path / "ours") == coverage(theirs)
    assert content(tmp_path / "ours") == content(theirs)
    assert set(unindexed(tmp_path / "ours").values()) == {0}
    for filtered in ("i = 5", "s = 'v3'", "f is null and i < 1000"):
        assert (await plan_of(dataset, filtered)).picked
    await agree(tmp_path / "ours")
    await dataset.validate()


async def test_indices_of_alance_are_moved_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = await by_alance(path)
    for number in range(3):
        dataset = await dataset.delete(f"id % 19 = {number}")
        dataset = await dataset.optimize.compact_files(
            target_rows_per_fragment=4_000 + 3_000 * number, materialize_deletions_threshold=0.01
        )
        assert dataset.summary["warnings"] == []
        assert set(unindexed(path).values()) == {0}
    await agree(path)
    lance.dataset(path).optimize.optimize_indices()
    await agree(path)


@pytest.mark.parametrize("stable", [False, True])
async def test_labels_are_moved(tmp_path: Path, stable: bool) -> None:
    path = tmp_path / "ours"
    labels = pa.array(LABELS * 50, pa.list_(pa.string()))
    table = pa.table({"id": range(300), "l": labels})
    dataset = lance.write_dataset(table, path, max_rows_per_file=70, enable_stable_row_ids=stable)
    dataset.create_scalar_index("l", "LABEL_LIST")
    dataset.delete("id % 7 = 2 or id < 20")
    shutil.copytree(path, tmp_path / "theirs")
    compacted = await (await alance.dataset(path)).optimize.compact_files()
    lance.dataset(tmp_path / "theirs").optimize.compact_files()
    assert compacted.summary["warnings"] == []
    assert unindexed(path) == {"l_idx": 0}
    assert content(path) == content(tmp_path / "theirs")
    for name in ("array_has_any(l, ['a'])", "array_has_all(l, ['a', 'b'])", "l is null"):
        rows = lance.dataset(path).to_table(["id"], filter=name)
        expected = lance.dataset(path).to_table(["id"], filter=name, use_scalar_index=False)
        assert rows.equals(expected)


@pytest.mark.parametrize("kind", ["LABEL_LIST", "BITMAP"])
async def test_thousands_of_sets_are_translated_together(
    tmp_path: Path, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    moved = AddressMap.moved

    def counting(self: AddressMap, addresses: Any) -> Any:
        counts.append(len(addresses))
        return moved(self, addresses)

    monkeypatch.setattr(AddressMap, "moved", counting)
    labels = pa.array([range(3_000), [7], [7]], pa.list_(pa.int64()))  # equal sets of many labels
    of_labels = kind == "LABEL_LIST"
    table = pa.table({"v": labels if of_labels else range(3_000)})
    dataset = await alance.write_dataset(table, tmp_path / "t")
    dataset = await dataset.insert(table)
    dataset = await dataset.create_scalar_index("v", kind)
    dataset = await dataset.optimize.compact_files()
    assert len(counts) <= 2  # of the labels, and of null lists
    assert max(counts) == (8 if of_labels else 6_000)
    condition = "array_has_any(v, [7])" if of_labels else "v = 7"
    assert await dataset.count_rows(condition) == (6 if of_labels else 2)


async def test_fragments_of_an_index_that_cannot_follow_stay(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = pa.table({"id": range(40), "t": [f"word{k % 7} more" for k in range(40)]})
    lance.write_dataset(table, path, max_rows_per_file=10)
    lance.dataset(path).create_scalar_index("t", "INVERTED", format_version=3, block_size=256)
    lance.write_dataset(table.slice(0, 20), path, mode="append", max_rows_per_file=10)
    dataset = await alance.dataset(path)
    compacted = await dataset.optimize.compact_files()
    (warning,) = compacted.summary["warnings"]
    assert "'t_idx'" in warning
    assert "uncover_indices=True" in warning
    assert coverage(path) == {"t_idx": [[0, 1, 2, 3]]}
    assert len(compacted.fragments) == 5
    rows = lance.dataset(path).to_table(full_text_query="word3")
    assert rows.num_rows == 9
    compacted = await compacted.optimize.compact_files(uncover_indices=True)
    assert len(compacted.fragments) == 2, "other neighbours have other indices"
    (warning,) = compacted.summary["warnings"]
    assert "no longer covers 4 fragments" in warning
    assert lance.dataset(path).to_table(full_text_query="word3").num_rows == 9


async def test_with_stable_row_ids_indices_of_all_kinds_follow(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = pa.table({"id": range(40), "t": [f"word{k % 7} more" for k in range(40)]})
    lance.write_dataset(table, path, max_rows_per_file=10, enable_stable_row_ids=True)
    lance.dataset(path).create_scalar_index("t", "INVERTED")
    lance.dataset(path).delete("id % 10 = 3")
    compacted = await (await alance.dataset(path)).optimize.compact_files()
    assert compacted.summary["warnings"] == []
    assert unindexed(path) == {"t_idx": 0}
    values = lance.dataset(path).to_table(full_text_query="word4")["id"].to_pylist()
    assert sorted(values) == [4, 11, 18, 25, 32, 39]


async def test_zone_maps_lose_what_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(pa.table({"id": range(40)}), path, max_rows_per_file=10)
    lance.dataset(path).create_scalar_index("id", "ZONEMAP")
    compacted = await (await alance.dataset(path)).optimize.compact_files()
    assert "no longer covers 4 fragments" in compacted.summary["warnings"][0]
    assert coverage(path) == {"id_idx": [[]]}
    assert lance.dataset(path).to_table(filter="id = 7").num_rows == 1


async def test_what_an_index_covers_in_part_is_no_neighbour_of_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(pa.table({"id": range(20)}), path, max_rows_per_file=5)
    lance.dataset(path).create_scalar_index("id", "BTREE")
    lance.write_dataset(pa.table({"id": range(20, 26)}), path, mode="append", max_rows_per_file=3)
    compacted = await (await alance.dataset(path)).optimize.compact_files()
    assert coverage(path) == {"id_idx": [[6]]}
    assert [fragment.physical_rows for fragment in compacted.fragments] == [20, 6]
    assert await ids(compacted, "id in (7, 22)") == [7, 22]


async def test_results_of_several_processes_are_committed_one_after_the_other(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t"
    by_pylance(path)
    dataset = await alance.dataset(path)
    options = {"target_rows_per_fragment": 4_000, "materialize_deletions_threshold": 0.01}
    plan = await Compaction.plan(dataset, **options)  # type: ignore[arg-type]
    results = [pickle.loads(pickle.dumps(await task.execute(dataset))) for task in plan.tasks]
    assert len(results) == 2
    committed = await Compaction.commit(dataset, results[1:])
    committed = await Compaction.commit(committed, results[:1])
    assert committed.summary["warnings"] == []
    await agree(path)


def spoil(path: Path, name: str) -> None:
    (file,) = (path / "_indices").glob(f"*/{name}")
    file.write_bytes(file.read_bytes()[:-3] + b"???")


async def test_an_index_that_cannot_be_read_is_an_error_that_says_what_to_do(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t"
    lance.write_dataset(pa.table({"id": range(20), "s": ["a"] * 20}), path, max_rows_per_file=5)
    lance.dataset(path).create_scalar_index("s", "BITMAP")
    lance.dataset(path).create_scalar_index("id", "BTREE")
    spoil(path, "page_data.lance")
    dataset = await alance.dataset(path)
    before, files = dataset.version, index_files(path)
    with pytest.raises(CorruptFileError) as caught:
        await dataset.optimize.compact_files()
    assert any("uncover_indices=True" in note for note in caught.value.__notes__)
    assert len(list((path / "data").iterdir())) == 4, "no new file stays"
    assert index_files(path) == files
    compacted = await (await alance.dataset(path)).optimize.compact_files(uncover_indices=True)
    assert compacted.version > before
    (warning,) = compacted.summary["warnings"]
    assert "index 'id_idx' no longer covers 4 fragments" in warning
    assert coverage(path) == {"id_idx": [[]], "s_idx": [[5]]}, "ids are reserved once more"
    assert await ids(compacted, "id = 7") == [7]


async def test_a_change_meanwhile_leaves_no_index_files(tmp_path: Path) -> None:
    path = tmp_path / "t"
    by_pylance(path)
    dataset = await alance.dataset(path)
    plan = await Compaction.plan(dataset)
    results = [await task.execute(dataset) for task in plan.tasks]
    files = index_files(path)
    await dataset.delete("id = 7")
    with pytest.raises(RetryableConflictError):
        await Compaction.commit(dataset, results)
    assert index_files(path) == files


async def test_an_append_meanwhile_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t"
    theirs = by_pylance(path)
    dataset = await alance.dataset(path)
    plan = await Compaction.plan(dataset)
    results = [await task.execute(dataset) for task in plan.tasks]
    more: Any = theirs.to_table(limit=10)
    lance.write_dataset(more, path, mode="append")
    committed = await Compaction.commit(dataset, results)
    assert [len(parts[0]) for parts in coverage(path).values()] == [1] * 5
    assert set(unindexed(path).values()) == {10}
    await committed.validate()
    await agree(path)
