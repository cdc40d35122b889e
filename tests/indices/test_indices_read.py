"""Filters by indices that pylance made: the rows of a scan, of which only those are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from tests.indices.index_cases import (
    FILTERS,
    TYPED_FILTERS,
    agree,
    by_pylance,
    entries,
    ids,
    plan_of,
    rows,
    typed,
)
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("stable", "version"), thinned([False, True], ["2.0", "2.2"]))
async def test_filters_agree_through_the_life_of_a_table(
    tmp_path: Path, stable: bool, version: str
) -> None:
    path = tmp_path / "t"
    theirs = by_pylance(path, enable_stable_row_ids=stable, data_storage_version=version)
    dataset = await agree(path)
    plan = await plan_of(dataset, "i = 5")
    assert plan.picked
    assert len(plan.handles) <= 3

    theirs.update({"i": "i + 1"}, where="id % 101 = 5")
    lance.write_dataset(rows(300, 90_000), path, mode="append")
    dataset = await agree(path)
    plan = await plan_of(dataset, "i = 5")
    assert any(handle.id not in plan.picked for handle in plan.handles)  # what is not covered

    lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    dataset = await agree(path)
    assert len(dataset.list_indices()) == 10
    plan = await plan_of(dataset, "i = 5")
    assert all(handle.id in plan.picked for handle in plan.handles)

    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=15_000)
    dataset = await agree(path)
    assert (await plan_of(dataset, "i = 5")).picked


async def test_indices_of_all_types_agree_with_scans(tmp_path: Path) -> None:
    columns = typed()
    table = pa.table({"id": pa.array(range(300)), **columns})
    for kind in ("BTREE", "BITMAP"):
        path = tmp_path / kind
        theirs = lance.write_dataset(table, path, max_rows_per_file=130)
        for name in columns:
            theirs.create_scalar_index(name, kind)  # type: ignore[arg-type]
        dataset = await alance.dataset(path)
        for name, condition in TYPED_FILTERS.items():
            row_ids = await ids(dataset, condition)
            assert row_ids == await ids(dataset, condition, use_scalar_index=False), condition
            plan = await plan_of(dataset, condition)
            assert any(f"index {name}_idx" in line for line in plan.index_lines), name
            assert not any("not used" in line for line in plan.index_lines), plan.index_lines


async def test_options_of_scans(tmp_path: Path) -> None:
    by_pylance(tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    for condition in ("i < 40", "s = 'v3'", "i = 5"):
        for options in (
            {"limit": 3},
            {"limit": 5, "offset": 2},
            {"batch_size": 7},
            {"with_row_id": True, "with_row_address": True},
            {"fragments": [1, 2]},
            {"late_materialization": False},
            {"order_by": ["-id"]},
            {"columns": {"double": "i * 2"}},
            {"columns": []},
            {"columns": ["_rowaddr", "s"]},
        ):
            table = await dataset.to_table(filter=condition, **options)
            other = await dataset.to_table(filter=condition, use_scalar_index=False, **options)
            assert table.schema == other.schema
            assert str(table.to_pydict()) == str(other.to_pydict()), (condition, options)
    batches = dataset.to_batches(["id"], filter="s = 'v3'", scan_in_order=False)
    unordered = [
        row for batch in [item async for item in batches] for row in batch["id"].to_pylist()
    ]
    assert sorted(unordered) == sorted(await ids(dataset, "s = 'v3'"))
    deleted = await dataset.to_table(filter="s = 'v3'", include_deleted_rows=True, with_row_id=True)
    assert deleted.num_rows > len(unordered)


async def test_nested_columns_and_names_with_dots(tmp_path: Path) -> None:
    structs = pa.array(
        [{"a": k % 50, "b": {"c": f"x{k % 9}"}} if k % 8 else None for k in range(900)]
    )
    theirs = lance.write_dataset(pa.table({"id": range(900), "st": structs}), tmp_path / "t")
    theirs.create_scalar_index("st.a", "BTREE")
    theirs.create_scalar_index("st.b.c", "BITMAP")
    dataset = await alance.dataset(tmp_path / "t")
    for condition in ("st.a = 7", "st.b.c = 'x3' and st.a < 10", "st.a is null", "st is null"):
        row_ids = await ids(dataset, condition)
        assert row_ids == await ids(dataset, condition, use_scalar_index=False)
        assert row_ids
        used = (await plan_of(dataset, condition)).index_lines
        assert bool(used) == (condition != "st is null")


async def test_questions_that_are_too_broad_are_not_asked(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array(range(40_000)), "v": pa.array(range(40_000))})
    theirs = lance.write_dataset(table, tmp_path / "t")
    theirs.create_scalar_index("v", "BTREE")
    dataset = await alance.dataset(tmp_path / "t")
    plan = await plan_of(dataset, "v > 100")
    assert not plan.picked
    assert "not used: it may give 40,000 of 40,000 rows" in plan.index_lines[0]
    plan = await plan_of(dataset, "v > 39990")
    assert [len(value) for value in plan.picked.values()] == [9]
    # What is narrow is asked, what is broad beside it is not.
    plan = await plan_of(dataset, "v > 100 and v < 103")
    assert [len(value) for value in plan.picked.values()] == [2]


async def test_keys_all_over_a_b_tree_are_looked_up(tmp_path: Path) -> None:
    """They hit most pages, of which they are few rows; a value that fills pages is not few."""
    count = 100_000
    common = pa.array([7 if k % 2 else k for k in range(count)])
    table = pa.table({"id": range(count), "v": pa.array(range(count)), "common": common})
    theirs = lance.write_dataset(table, tmp_path / "t", max_rows_per_file=30_000)
    theirs.create_scalar_index("v", "BTREE")
    theirs.create_scalar_index("common", "BTREE")
    dataset = await alance.dataset(tmp_path / "t")
    keys = list(range(12, count, 5_000))
    plan = await plan_of(dataset, f"v IN ({', '.join(map(str, keys))})")
    assert [len(rows) for rows in plan.picked.values()] == [6, 6, 6, 2]
    # Nor is it left out beside another question, though it has more pages to read.
    plan = await plan_of(dataset, f"v IN ({', '.join(map(str, keys))}) AND common > 90000")
    assert "v_idx (BTree) on v: 20 of 25 pages; 20 rows" in " ".join(plan.index_lines)
    assert [len(rows) for rows in plan.picked.values()] == [2]
    rows = await dataset.get_many(keys[::-1], "v", ["id"])
    assert rows["id"].to_pylist() == keys[::-1]
    condition = f"common IN (7, {', '.join(map(str, keys[:10]))})"
    plan = await plan_of(dataset, condition)
    assert not plan.picked
    assert "not used: it may give" in plan.index_lines[0]
    assert await ids(dataset, condition) == theirs.to_table(["id"], condition)["id"].to_pylist()


async def test_the_explanation_names_the_index_and_its_pages(tmp_path: Path) -> None:
    by_pylance(tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    message = str(await dataset.scanner(filter="i = 5 and id > 3").explain())
    assert "index i_idx (BTree) on i: 1 of 4 pages" in message
    assert f"rows: {len(await ids(dataset, 'i = 5'))} read" in message or "rows:" in message
    message = str(await dataset.scanner(filter="s = 'v3' or b").explain())
    assert "index s_idx (Bitmap) on s: 1 of 51 values" in message
    assert "index b_idx (Bitmap) on b: 1 of 3 values" in message
    assert "index" not in str(await dataset.scanner(filter="id = 5").explain())
    message = str(await dataset.scanner(filter="i = 5", use_scalar_index=False).explain())
    assert "index i_idx" not in message


async def test_other_kinds_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "t"
    theirs = lance.write_dataset(rows(2_000), path)
    theirs.create_scalar_index("i", "ZONEMAP", name="zones")
    theirs.create_scalar_index("s", "INVERTED", name="words")
    before = [(entry["name"], entry["uuid"]) for entry in entries(theirs)]
    dataset = await agree(path, FILTERS[:9])
    (line,) = (await plan_of(dataset, "i = 5")).index_lines
    assert line == "index zones (ZoneMap) on i not used: it may give 2,000 of 2,000 rows"
    dataset = await dataset.create_scalar_index("i", "BTREE")
    dataset = await dataset.optimize.optimize_indices()
    values = [(entry["name"], entry["uuid"]) for entry in entries(lance.dataset(path))]
    assert set(before) < set(values)
    assert [index["type"] for index in dataset.list_indices()] == ["BTree", "Inverted", "ZoneMap"]
    assert (await dataset.index_statistics("words"))["num_indexed_rows"] == 2_000


async def test_branches_and_clones(tmp_path: Path) -> None:
    by_pylance(tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    expected = await ids(dataset, "i < 10")
    clone = await dataset.shallow_clone(str(tmp_path / "clone"), dataset.version)
    assert await ids(clone, "i < 10") == expected
    assert (await plan_of(clone, "i < 10")).picked
    theirs = lance.dataset(tmp_path / "t").shallow_clone(tmp_path / "theirs", dataset.version)
    cloned = await alance.dataset(theirs.uri)
    assert await ids(cloned, "i < 10") == expected
    assert (await plan_of(cloned, "i < 10")).picked


async def test_an_old_version_is_asked_by_its_own_indices(tmp_path: Path) -> None:
    by_pylance(tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    dropped = await dataset.drop_index("i_idx")
    assert not (await plan_of(dropped, "i = 5")).index_lines
    assert (await plan_of(dataset, "i = 5")).picked
    first = await alance.dataset(tmp_path / "t", version=1)
    assert not (await plan_of(first, "i = 5")).index_lines
