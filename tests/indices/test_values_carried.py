"""B-trees and bitmap indices brought up to date: values of old segments are merged, not read."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter

import alance
from alance.ops.index.carried_values import OrderCheck
from tests.indices.index_cases import TYPED_FILTERS, content, coverage, entries, ids, typed

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ["BTREE", "BITMAP"]
NAMES = ["i32", "u64", "f32", "bool", "text", "fixed", "clock", "dec", "nothing"]
THEIRS = ["i32", "bool", "text", "nothing"]  # filters of `TYPED_FILTERS` that pylance parses


@pytest.fixture(autouse=True)
def _few_rows_are_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alance.ops.index.carried_values.FEW_ROWS", 0)


def some(number: int) -> pa.Table:
    """Rows of all types in an order of their own."""
    columns = {name: values for name, values in typed().items() if name in NAMES}
    order = np.random.default_rng(number).permutation(300)
    rows = pa.table({"id": pa.array(range(300 * number, 300 * number + 300)), **columns})
    return rows.take(pa.array(order))


@pytest.mark.parametrize(("kind", "stable"), [*((kind, False) for kind in KINDS), ("BTREE", True)])
async def test_what_is_merged_is_what_is_built_anew(
    tmp_path: Path, kind: str, stable: bool
) -> None:
    path, other = tmp_path / "merged", tmp_path / "anew"
    theirs = lance.write_dataset(some(0), path, max_rows_per_file=130, enable_stable_row_ids=stable)
    for name in NAMES:
        theirs.create_scalar_index(name, kind)  # type: ignore[arg-type]
    dataset = await alance.dataset(path)
    for number in (1, 2):
        dataset = await dataset.insert(some(number))
        dataset = await dataset.delete(f"id % 7 = {number} or (i32 = 3 and id < 300)")
        dataset = await dataset.update({"i32": "i32 + 1"}, where=f"id % 11 = {number}")
        dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=2 - number)
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=2)
    assert all(len(parts) == 1 for parts in coverage(path).values())
    shutil.copytree(path, other)
    await (await alance.dataset(other)).optimize.optimize_indices(retrain=True)
    assert content(path) == content(other)
    theirs = lance.dataset(path)
    for name in NAMES:
        kept = await ids(dataset, TYPED_FILTERS[name])
        assert kept == await ids(dataset, TYPED_FILTERS[name], use_scalar_index=False), name
        if name not in THEIRS:
            continue
        expected = theirs.to_table(["id"], filter=TYPED_FILTERS[name])["id"].to_pylist()
        assert sorted(kept) == sorted(expected), name


@pytest.mark.parametrize("kind", KINDS)
async def test_only_new_rows_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    lance.write_dataset(some(0), path).create_scalar_index("i32", kind)  # type: ignore[arg-type]
    dataset = await (await alance.dataset(path)).insert(some(1))
    with alance.trace() as recorder:
        await dataset.optimize.optimize_indices()
    read = {event.location for event in recorder.events if "/data/" in event.location}
    (new,) = lance.dataset(path).get_fragments()[-1].data_files()
    assert {location.split("/")[-1] for location in read} == {new.path}
    assert coverage(path) == {"i32_idx": [[0, 1]]}


async def test_many_rows_of_few_and_of_many_values(tmp_path: Path) -> None:
    path, other = tmp_path / "merged", tmp_path / "anew"
    draw = np.random.default_rng(1)

    def rows(count: int) -> pa.Table:
        few = pa.array(draw.integers(0, 5, count))
        return pa.table({"few": few, "many": draw.random(count), "text": few.cast(pa.string())})

    theirs = lance.write_dataset(rows(150_000), path)
    for name in ("few", "many", "text"):
        theirs.create_scalar_index(name, "BTREE")
    dataset = await (await alance.dataset(path)).insert(rows(70_000))
    await (await dataset.delete("few = 3")).optimize.optimize_indices()
    shutil.copytree(path, other)
    await (await alance.dataset(other)).optimize.optimize_indices(retrain=True)
    assert content(path) == content(other)


def test_values_out_of_order_are_refused_within_batches_and_between() -> None:
    for is_distinct, batches in (
        (False, [[1, 1, 0]]),
        (False, [[None, 1], [1, 2], [1]]),
        (False, [[None, None, 1], [None]]),
        (True, [[1], [1]]),
    ):
        order = OrderCheck("segment", is_distinct=is_distinct)
        for values in batches[:-1]:
            order.check(pa.array(values, pa.int64()))
        with pytest.raises(alance.CorruptFileError, match="not in order"):
            order.check(pa.array(batches[-1], pa.int64()))


async def test_keys_out_of_order_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(some(0), path).create_scalar_index("i32", "BITMAP")
    (segment,) = entries(lance.dataset(path))
    file = path / "_indices" / segment["uuid"] / "bitmap_page_lookup.lance"
    reader = LanceFileReader(str(file))
    stored, schema = reader.read_all().to_table(), reader.metadata().schema
    file.unlink()
    places = [*range(stored.num_rows)]
    middle = len(places) // 2
    places[middle], places[-1] = places[-1], places[middle]
    with LanceFileWriter(str(file), schema) as writer:
        writer.write_batch(stored.take(pa.array(places)))
    dataset = await (await alance.dataset(path)).insert(some(1))
    with pytest.raises(alance.CorruptFileError, match="not in order"):
        await dataset.optimize.optimize_indices()
    await dataset.optimize.optimize_indices(retrain=True)
