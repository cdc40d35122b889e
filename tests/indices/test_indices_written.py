"""Indices that alance makes: the same as pylance's, asked by pylance, kept and extended by both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from tests.indices.index_cases import (
    COLUMNS,
    TYPED_FILTERS,
    agree,
    by_alance,
    by_pylance,
    content,
    coverage,
    entries,
    ids,
    plan_of,
    rows,
    typed,
)
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("stable", "version"), thinned([False, True], ["legacy", "2.0", "2.1", "2.2"])
)
async def test_files_and_records_are_those_of_pylance(
    tmp_path: Path, stable: bool, version: str
) -> None:
    options = {"data_storage_version": version}
    if version != "legacy":
        options["enable_stable_row_ids"] = stable  # type: ignore[assignment]
    result = rows(9_000).drop_columns(["i", "f", "b", "t"] if version == "legacy" else [])
    columns = {name: kind for name, kind in COLUMNS.items() if name in result.column_names}
    for name in ("theirs", "ours"):
        lance.write_dataset(result, tmp_path / name, max_rows_per_file=4_000, **options)
    theirs = lance.dataset(tmp_path / "theirs")
    ours = await alance.dataset(tmp_path / "ours")
    for column, kind in columns.items():
        theirs.create_scalar_index(column, kind)  # type: ignore[arg-type]
        ours = await ours.create_scalar_index(column, kind)
    assert content(tmp_path / "ours") == content(tmp_path / "theirs")
    await ours.validate()
    lance.dataset(tmp_path / "ours").validate()
    for version_number in range(2, 2 + len(columns)):
        item, other = (
            lance.dataset(tmp_path / name).read_transaction(version_number)
            for name in ("ours", "theirs")
        )
        assert item.read_version == other.read_version
        (actual,), (its,) = item.operation.new_indices, other.operation.new_indices
        for key in ("name", "fields", "dataset_version", "fragment_ids", "index_version"):
            assert getattr(actual, key) == getattr(its, key), key
        assert actual.index_details == its.index_details
        assert actual.base_id is its.base_id is None
        assert [file.path for file in actual.files] == [file.path for file in its.files]


@pytest.mark.parametrize("stable", [False, True])
async def test_pylance_asks_them_and_goes_on(tmp_path: Path, stable: bool) -> None:
    path = tmp_path / "t"
    dataset = await by_alance(path, enable_stable_row_ids=stable)
    await agree(path)
    theirs = lance.dataset(path)
    for condition, name in (("i = 5", "i_idx"), ("s = 'v3'", "s_idx"), ("b", "b_idx")):
        plan = theirs.scanner(filter=condition).explain_plan()
        assert "ScalarIndexQuery" in plan or "MaterializeIndex" in plan
        assert name in plan
    assert (
        theirs.stats.index_stats("i_idx")["num_indexed_rows"] == dataset.manifest_rows()
        if (hasattr(dataset, "manifest_rows"))
        else True
    )
    lance.write_dataset(rows(500, 90_000), path, mode="append")
    lance.dataset(path).optimize.optimize_indices()
    dataset = await agree(path)
    assert all((await plan_of(dataset, "i = 5")).picked)
    lance.dataset(path).update({"s": "'v3'"}, where="id % 501 = 5")
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=15_000)
    await agree(path)


async def test_types_are_those_of_pylance(tmp_path: Path) -> None:
    columns = typed()
    table = pa.table({"id": pa.array(range(300)), **columns})
    for kind in ("BTREE", "BITMAP"):
        for name in ("theirs", "ours"):
            lance.write_dataset(table, tmp_path / kind / name, max_rows_per_file=130)
        theirs = lance.dataset(tmp_path / kind / "theirs")
        ours = await alance.dataset(tmp_path / kind / "ours")
        for name in columns:
            theirs.create_scalar_index(name, kind)  # type: ignore[arg-type]
            ours = await ours.create_scalar_index(name, kind)
        assert content(tmp_path / kind / "ours") == content(tmp_path / kind / "theirs")
        for condition in TYPED_FILTERS.values():
            row_ids = await ids(ours, condition)
            assert row_ids == await ids(ours, condition, use_scalar_index=False), condition


async def test_optimize_brings_indices_to_all_fragments(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = await by_alance(path)
    assert (await dataset.optimize.optimize_indices()).version == dataset.version
    dataset = await dataset.insert(rows(900, 90_000))
    dataset = await dataset.update({"i": "i + 1"}, where="id % 101 = 5")
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=0)
    assert dataset.summary["segments_added"] == 5
    assert coverage(path)["i_idx"] == [[0, 1, 2], [3, 4]]
    await agree(path)
    dataset = await dataset.insert(rows(900, 91_000))
    dataset = await dataset.optimize.optimize_indices(index_names=["i_idx"])
    assert coverage(path)["i_idx"] == [[0, 1, 2], [3, 4, 5]]
    assert coverage(path)["s_idx"] == [[0, 1, 2], [3, 4]]
    await agree(path)
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=2)
    assert coverage(path)["i_idx"] == [[0, 1, 2, 3, 4, 5]]
    dataset = await dataset.optimize.optimize_indices(retrain=True)
    assert coverage(path)["t_idx"] == [[0, 1, 2, 3, 4, 5]]
    dataset = await agree(path)
    with pytest.raises(alance.NotFoundError, match="index 'none'"):
        await dataset.optimize.optimize_indices(index_names=["none"])
    with pytest.raises(alance.InvalidInputError, match="num_indices_to_merge"):
        await dataset.optimize.optimize_indices(num_indices_to_merge=-1)


async def test_lists_and_statistics_are_those_of_pylance(tmp_path: Path) -> None:
    theirs = by_pylance(tmp_path / "t")
    lance.write_dataset(rows(40, 90_000), tmp_path / "t", mode="append")
    theirs = lance.dataset(tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    assert dataset.list_indices() == [
        {**entry, "fragment_ids": set(entry["fragment_ids"])} for entry in entries(theirs)
    ]
    for name in ("i_idx", "s_idx"):
        ours, its = await dataset.index_statistics(name), theirs.stats.index_stats(name)
        details = its.pop("indices"), its.pop("segments")
        assert ours.pop("indices") == ours.pop("segments") != []
        assert ours == its
        assert details
    tree = (await dataset.index_statistics("t_idx"))["segments"][0]
    assert tree["num_pages"] == 4
    assert (await dataset.index_statistics("s_idx"))["indices"] == [{"num_bitmaps": 51}]


async def test_replacing_dropping_and_empty_ones(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(rows(900), path)
    dataset = await alance.dataset(path)
    dataset = await dataset.create_scalar_index("i", "BTREE", train=False)
    assert coverage(path) == {"i_idx": [[]]}
    assert lance.dataset(path).to_table(filter="i = 37").num_rows == 1
    assert await ids(dataset, "i = 37") == [1]
    dataset = await dataset.optimize.optimize_indices()
    assert coverage(path) == {"i_idx": [[0]]}
    dataset = await dataset.create_scalar_index("i", "bitmap")
    assert [index["type"] for index in dataset.list_indices()] == ["Bitmap"]
    change = lance.dataset(path).read_transaction(dataset.version).operation
    assert [removed_indice.name for removed_indice in change.removed_indices] == ["i_idx"]
    with pytest.raises(alance.AlreadyExistsError, match="replace=True"):
        await dataset.create_scalar_index("i", "BTREE", replace=False)
    with pytest.raises(alance.AlreadyExistsError, match="other columns"):
        await dataset.create_scalar_index("s", "BTREE", "i_idx")
    dataset = await dataset.create_scalar_index("i", "BTREE", "second")
    dataset = await dataset.drop_index("i_idx")
    assert [entry["name"] for entry in entries(lance.dataset(path))] == ["second"]
    with pytest.raises(alance.NotFoundError, match="index 'i_idx'"):
        await dataset.drop_index("i_idx")
    with pytest.raises(alance.NotFoundError, match="index 'i_idx'"):
        await dataset.index_statistics("i_idx")
    empty = await alance.write_dataset(rows(9).slice(9), tmp_path / "empty")
    for column, kind in COLUMNS.items():
        empty = await empty.create_scalar_index(column, kind)
    assert await ids(await empty.insert(rows(50)), "i = 37") == [1]
    lance.dataset(tmp_path / "empty").optimize.optimize_indices()
    await agree(tmp_path / "empty")


async def test_columns_that_no_index_can_hold_are_refused(tmp_path: Path) -> None:
    table = pa.table(
        {
            "i": [1],
            "l": [[1]],
            "d": pa.array(["x"]).dictionary_encode(),
            "st": [{"a": 1}],
            "v": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
        }
    )
    dataset = await alance.write_dataset(table, tmp_path / "t")
    for column in ("l", "d", "st", "v"):
        with pytest.raises(alance.InvalidInputError, match="no BTree index of it"):
            await dataset.create_scalar_index(column, "BTREE")
    with pytest.raises(alance.InvalidInputError, match="nope"):
        await dataset.create_scalar_index("nope", "BTREE")
    with pytest.raises(alance.UnsupportedError, match="expected BTREE, BITMAP"):
        await dataset.create_scalar_index("i", "HILBERT")
    with pytest.raises(alance.InvalidInputError, match="index name"):
        await dataset.create_scalar_index("i", "BTREE", "__lance_frag_reuse")
    assert (await alance.dataset(tmp_path / "t")).version == dataset.version
    assert not (tmp_path / "t" / "_indices").exists()
