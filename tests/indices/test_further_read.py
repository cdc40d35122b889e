"""Label, n-gram, zone map and bloom filter indices of pylance: asked, with a scan's answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from alance.ops.read.options import ScanOptions
from alance.ops.read.plan import plan_scan
from tests.indices.further_cases import COLUMNS, FILTERS, KINDS, by_pylance, rows
from tests.indices.index_cases import agree, ids, plan_of

if TYPE_CHECKING:
    from pathlib import Path

# What no index takes: NOT of labels and n-grams.
SCANNED = {"not contains(s, 'ell')"}


@pytest.mark.parametrize("stable", [False, True])
async def test_filters_give_what_a_scan_gives(tmp_path: Path, stable: bool) -> None:
    by_pylance(tmp_path / "t", enable_stable_row_ids=stable)
    dataset = await agree(tmp_path / "t", FILTERS)
    for condition in FILTERS:
        plan = await plan_of(dataset, condition)
        assert bool(plan.index_lines) == (condition not in SCANNED), condition


async def test_rows_that_came_later_are_scanned(tmp_path: Path) -> None:
    theirs = by_pylance(tmp_path / "t")
    lance.write_dataset(rows(500, first=30_000), tmp_path / "t", mode="append")
    await agree(tmp_path / "t", FILTERS[::3])
    theirs = lance.dataset(tmp_path / "t")
    theirs.optimize.optimize_indices(num_indices_to_merge=0)
    lance.write_dataset(rows(100, first=31_000), tmp_path / "t", mode="append")
    await agree(tmp_path / "t", (*FILTERS, "contains(s, '30123') or b = 217000 or z = 30200"))


@pytest.mark.parametrize("stable", [False, True])
async def test_rows_that_moved_are_found(tmp_path: Path, stable: bool) -> None:
    theirs = by_pylance(tmp_path / "t", enable_stable_row_ids=stable)
    theirs.update({"b": "b + 1"}, where="id % 400 = 1")
    theirs.update({"s": "'anew 123'"}, where="id = 700")
    await agree(tmp_path / "t", (*FILTERS[::3], "s = 'anew 123'"))
    lance.dataset(tmp_path / "t").optimize.compact_files(target_rows_per_fragment=50_000)
    await agree(tmp_path / "t", (*FILTERS, "s = 'anew 123'"))


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.2"])
async def test_tables_of_other_file_versions(tmp_path: Path, version: str) -> None:
    by_pylance(tmp_path / "t", data_storage_version=version)
    await agree(tmp_path / "t", FILTERS[::4])


async def test_labels_are_counted_without_a_data_file(tmp_path: Path) -> None:
    by_pylance(tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    condition = "array_has(tags, 't777') or array_has(tags, 't8')"
    plan = await plan_scan(dataset._snapshot, [], ScanOptions(filter=condition), counts=True)
    assert plan.counted
    assert not plan.handles
    assert await dataset.count_rows(condition) == len(await ids(dataset, condition))


async def test_explain_says_what_was_asked(tmp_path: Path) -> None:
    by_pylance(tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    request = {
        "array_has(tags, 't777')": "index tags_idx (LabelList) on tags: 1 of 904 values",
        "contains(s, 'o 1234')": "index s_idx (NGram) on s: 2 of ",
        "z = 5000": "index z_idx (ZoneMap) on z: 1 of 5 zones; 8,",
        "b = 7": "index b_idx (BloomFilter) on b: 1 of 5 zones",
    }
    for condition, line in request.items():
        assert line in str(await dataset.scanner(filter=condition).explain()), condition


async def test_the_best_index_of_a_column_is_asked(tmp_path: Path) -> None:
    theirs = by_pylance(tmp_path / "t")
    theirs.create_scalar_index("s", "BTREE", name="ordered")
    dataset = await alance.dataset(tmp_path / "t")
    (line,) = (await plan_of(dataset, "s = 'Hello 1777 straße 277'")).index_lines
    assert "ordered (BTree)" in line
    lines = (await plan_of(dataset, "contains(s, '1777')")).index_lines
    assert "ordered (BTree) on s not used" in lines[0]
    assert "s_idx (NGram)" in lines[1]


async def test_deletes_and_prefilters_ask(tmp_path: Path) -> None:
    by_pylance(tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    condition = "contains(s, '1234') and array_has_any(marks, [234, 1]) and z > 5 and b > 7"
    row_ids = await ids(dataset, condition)
    assert row_ids
    dataset = await dataset.delete(condition)
    assert await ids(dataset, condition) == []
    assert await ids(dataset, condition, use_scalar_index=False) == []


async def test_items_and_texts_in_structs(tmp_path: Path) -> None:
    plain = rows(3_000)
    columns = [plain["tags"].combine_chunks(), plain["s"].combine_chunks()]
    nested = pa.StructArray.from_arrays(columns, ["tags", "s"])
    theirs = lance.write_dataset(pa.table({"id": plain["id"], "n": nested}), tmp_path / "t")
    theirs.create_scalar_index("n.tags", "LABEL_LIST")
    theirs.create_scalar_index("n.s", "NGRAM")
    dataset = await agree(
        tmp_path / "t", ("array_has(n.tags, 't777')", "contains(n.s, '1234') and id > 5")
    )
    for condition in ("array_has(n.tags, 't777')", "contains(n.s, '1234')"):
        assert (await plan_of(dataset, condition)).picked


def test_every_kind_is_among_the_cases() -> None:
    assert set(COLUMNS.values()) == set(KINDS)
