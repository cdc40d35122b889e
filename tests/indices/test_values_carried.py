"""Indices of values brought up to date: what old segments hold is carried over, not read again."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter

import alance
from alance.format.index.zones import ZoneOptions
from alance.ops.index.values import carried as carried_values
from alance.ops.index.values.carried import OrderCheck
from alance.ops.index.values.options import ValueOptions
from alance.ops.lookup.kinds.zone_map import ZoneMap
from tests.indices.further_cases import COLUMNS, FILTERS, rows
from tests.indices.index_cases import (
    TYPED_FILTERS,
    agree,
    content,
    coverage,
    entries,
    ids,
    plan_of,
    typed,
)
from tests.indices.test_further_written import contents

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ["BTREE", "BITMAP"]
NAMES = ["i32", "u64", "f32", "bool", "text", "fixed", "clock", "dec", "nothing"]
THEIRS = ["i32", "bool", "text", "nothing"]  # filters of `TYPED_FILTERS` that pylance parses


@pytest.fixture(autouse=True)
def _few_rows_are_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alance.ops.index.values.carried.RESCANNED_ROWS", 0)


def typed_rows(number: int) -> pa.Table:
    """Rows of all types in an order of their own."""
    columns = {name: values for name, values in typed().items() if name in NAMES}
    order = np.random.default_rng(number).permutation(300)
    rows = pa.table({"id": pa.array(range(300 * number, 300 * number + 300)), **columns})
    return rows.take(pa.array(order))


@pytest.mark.parametrize(
    ("kind", "stable"), [(kind, stable) for kind in KINDS for stable in (False, True)]
)
async def test_what_is_merged_is_what_is_built_anew(
    tmp_path: Path, kind: str, stable: bool
) -> None:
    path, other = tmp_path / "merged", tmp_path / "anew"
    theirs = lance.write_dataset(
        typed_rows(0), path, max_rows_per_file=130, enable_stable_row_ids=stable
    )
    for name in NAMES:
        theirs.create_scalar_index(name, kind)  # type: ignore[arg-type]
    dataset = await alance.dataset(path)
    for number in (1, 2):
        dataset = await dataset.insert(typed_rows(number))
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
        row_ids = await ids(dataset, TYPED_FILTERS[name])
        assert row_ids == await ids(dataset, TYPED_FILTERS[name], use_scalar_index=False), name
        if name not in THEIRS:
            continue
        expected = theirs.to_table(["id"], filter=TYPED_FILTERS[name])["id"].to_pylist()
        assert sorted(row_ids) == sorted(expected), name


@pytest.mark.parametrize("kind", KINDS)
async def test_only_new_rows_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    lance.write_dataset(typed_rows(0), path).create_scalar_index("i32", kind)  # type: ignore[arg-type]
    await (await alance.dataset(path)).insert(typed_rows(1))
    _, read = await optimized(path)
    (new,) = lance.dataset(path).get_fragments()[-1].data_files()
    assert {location.split("/")[-1] for location in read} == {new.path}
    assert coverage(path) == {"i32_idx": [[0, 1]]}


async def test_many_rows_of_few_and_of_many_values(tmp_path: Path) -> None:
    path, other = tmp_path / "merged", tmp_path / "anew"
    draw = np.random.default_rng(1)

    def numbers(count: int) -> pa.Table:
        few = pa.array(draw.integers(0, 5, count))
        return pa.table({"few": few, "many": draw.random(count), "text": few.cast(pa.string())})

    theirs = lance.write_dataset(numbers(150_000), path)
    for name in ("few", "many", "text"):
        theirs.create_scalar_index(name, "BTREE")
    dataset = await (await alance.dataset(path)).insert(numbers(70_000))
    await (await dataset.delete("few = 3")).optimize.optimize_indices()
    shutil.copytree(path, other)
    await (await alance.dataset(other)).optimize.optimize_indices(retrain=True)
    assert content(path) == content(other)


async def optimized(path: Path, **options: int) -> tuple[alance.Dataset, set[str]]:
    """The table with its indices up to date, by a session that has read nothing of it; and the
    data files that were read."""
    dataset = await alance.dataset(path, session=alance.Session())
    with alance.trace() as recorder:
        dataset = await dataset.optimize.optimize_indices(**options)
    return dataset, {event.location for event in recorder.events if "/data/" in event.location}


async def changed(path: Path, *, stable: bool, with_changes: bool) -> alance.Dataset:
    """A table whose indices of pylance cover some fragments, in segments that are merged."""
    theirs = lance.write_dataset(
        rows(900), path, max_rows_per_file=400, enable_stable_row_ids=stable
    )
    for column, kind in COLUMNS.items():
        theirs.create_scalar_index(column, kind)  # type: ignore[arg-type]
    dataset = await (await alance.dataset(path)).insert(rows(300, 30_000))
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=0)
    if with_changes:
        dataset = await dataset.delete("id % 7 = 1")
        changes = {"z": "z + 5", "b": "b + 7", "s": "concat(s, 'xy 777')"}
        dataset = await dataset.update(changes, where="id % 11 = 2")
    await dataset.insert(rows(200, 31_000))
    dataset, read = await optimized(path, num_indices_to_merge=2)
    assert len(read) == 1 + with_changes
    assert all(len(parts) == 1 for parts in coverage(path).values())
    return dataset


@pytest.mark.parametrize("stable", [False, True])
async def test_labels_texts_and_zones_are_carried(tmp_path: Path, stable: bool) -> None:
    path = tmp_path / "merged"
    dataset = await changed(path, stable=stable, with_changes=True)
    await dataset.validate()
    await agree(path, FILTERS)
    merged = contents(path)
    await dataset.optimize.optimize_indices(retrain=True)
    anew = contents(path)
    for column, kind in COLUMNS.items():
        if kind in ("LABEL_LIST", "NGRAM"):
            assert merged[f"{column}_idx"] == anew[f"{column}_idx"], column
        else:
            assert merged[f"{column}_idx"][-1] == anew[f"{column}_idx"][-1], "rows that are null"


async def test_zones_of_rows_that_stay_are_those_built_anew(tmp_path: Path) -> None:
    dataset = await changed(tmp_path / "t", stable=False, with_changes=False)
    merged = contents(tmp_path / "t")
    await dataset.optimize.optimize_indices(retrain=True)
    assert merged == contents(tmp_path / "t")


async def test_zones_of_another_size_are_built_again(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = await alance.write_dataset(rows(600), path)
    dataset = await dataset.create_scalar_index("z", "ZONEMAP", rows_per_zone=100)
    (old,) = dataset._snapshot.manifest.indices
    dataset = await (await dataset.insert(rows(300, 30_000))).create_scalar_index(
        "z", "ZONEMAP", name="other", rows_per_zone=50
    )
    # Segments of one index, as a writer of another size leaves them.
    record = next(each for each in dataset._snapshot.manifest.indices if each.name == "other")
    builder = await carried_values.carrying(
        carried_values.SegmentBuilder(
            dataset._snapshot,
            "z",
            dataset._snapshot.schema.field("z"),
            "z_idx",
            ZoneMap(),
            ValueOptions(None, ZoneOptions(50)),
        ),
        [old, record],
    )
    assert isinstance(builder, carried_values.CarryingBuilder)
    assert [values.index.name for values in builder.carried] == ["other"]


@pytest.mark.parametrize("target", ["BTREE", "BITMAP", "NGRAM", "ZONEMAP"])
async def test_values_in_documents_are_carried(tmp_path: Path, target: str) -> None:
    def table(first: int, value: str) -> pa.Table:
        texts = [f'{{"a": {value.format(n)}}}' if n % 5 else "{}" for n in range(first, first + 90)]
        return pa.table({"id": range(first, first + 90), "j": pa.array(texts, pa.json_())})

    path, message = tmp_path / "t", contents if target in ("NGRAM", "ZONEMAP") else content
    form, getter = ('"text{}"', "string") if target == "NGRAM" else ("{}", "int")
    dataset = await alance.write_dataset(table(0, form), path)
    dataset = await dataset.create_scalar_index("j", "JSON", path="a", target_index_type=target)
    await dataset.insert(table(100, form))
    dataset, read = await optimized(path)
    assert len(read) == 1
    merged = message(path)
    dataset = await dataset.optimize.optimize_indices(retrain=True)
    assert message(path) == merged
    value = f"json_get_{getter}(j, 'a')"
    request = f"contains({value}, 'xt12')" if target == "NGRAM" else f"{value} between 88 and 104"
    row_ids = await ids(dataset, request)
    assert row_ids == await ids(dataset, request, use_scalar_index=False)
    assert row_ids
    if target != "NGRAM":  # whole numbers become others
        dataset = await dataset.insert(table(200, "{}.5"))
        dataset = await dataset.optimize.optimize_indices()
        request = "json_get_float(j, 'a') between 88 and 204"
        assert (await plan_of(dataset, request)).index_lines
        row_ids = await ids(dataset, request)
        assert row_ids == await ids(dataset, request, use_scalar_index=False)
        assert {89, 104, 203} <= set(row_ids)
        await dataset.insert(table(300, "{}"))  # and are among them from then on
        dataset, read = await optimized(path)
        assert len(read) == 1
        assert len(await ids(dataset, "json_get_float(j, 'a') > 203")) == 70 + 72


@pytest.mark.parametrize("count", [32_768, 32_769])
async def test_few_rows_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.undo()
    table = pa.table({"v": np.random.default_rng(count).permutation(count)})
    dataset = await alance.write_dataset(table, tmp_path / "t")
    dataset = await dataset.create_scalar_index("v", "ZONEMAP")
    await dataset.insert({"v": [-5]})
    dataset, read = await optimized(tmp_path / "t")
    assert len(read) == (1 if count > 32_768 else 2)
    assert await dataset.count_rows("v < 3") == 4


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
    lance.write_dataset(typed_rows(0), path).create_scalar_index("i32", "BITMAP")
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
    dataset = await (await alance.dataset(path)).insert(typed_rows(1))
    with pytest.raises(alance.CorruptFileError, match="not in order"):
        await dataset.optimize.optimize_indices()
    await dataset.optimize.optimize_indices(retrain=True)


async def test_zones_of_rows_that_are_not_there_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(rows(300), path).create_scalar_index("z", "ZONEMAP")
    (segment,) = entries(lance.dataset(path))
    file = path / "_indices" / segment["uuid"] / "zonemap.lance"
    reader = LanceFileReader(str(file))
    stored, schema = reader.read_all().to_table(), reader.metadata().schema
    nulls = reader.read_global_buffer(1)
    file.unlink()
    lengths = pa.array([301], pa.uint64())
    place = stored.schema.get_field_index("zone_length")
    with LanceFileWriter(str(file), schema) as writer:
        writer.write_batch(stored.set_column(place, schema.field(place), lengths))
        writer.add_global_buffer(nulls)
    await (await alance.dataset(path)).insert(rows(20, 30_000))
    with pytest.raises(alance.CorruptFileError, match="row 300 of fragment 0, it has 300"):
        await optimized(path)
    await (await alance.dataset(path)).optimize.optimize_indices(retrain=True)
    await agree(path, ("z < 100", "z is null"))
