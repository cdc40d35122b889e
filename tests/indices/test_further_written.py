"""Label, n-gram, zone map and bloom filter indices that alance makes: as pylance makes them."""

from __future__ import annotations

import itertools
import math
import pickle
from functools import partial
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader
from lance.indices import IndexConfig

import alance
from alance.errors import InvalidInputError
from alance.format.index.bitmap import parse_rows
from alance.format.index.ngram import parse_postings
from alance.ops.index.values import runs as index_runs
from tests.indices.further_cases import COLUMNS, FILTERS, KINDS, by_alance, by_pylance, rows
from tests.indices.index_cases import (
    TYPED_FILTERS,
    agree,
    coverage,
    entries,
    ids,
    plan_of,
    typed,
)

if TYPE_CHECKING:
    from pathlib import Path


def contents(path: Path) -> dict[str, Any]:
    """Columns, metadata and buffers of all index files, by index; row sets as lists of rows."""
    parsers = {"bitmaps": parse_rows, "posting_list": parse_postings}
    mapping: dict[str, Any] = {}
    for entry in entries(lance.dataset(path)):
        (file,) = (path / "_indices" / entry["uuid"]).iterdir()
        reader = LanceFileReader(str(file))
        schema = reader.metadata().schema
        columns = reader.read_all().to_table().to_pydict()
        for name, parse in parsers.items():
            if name in columns:
                sets = [parse(memoryview(content)) for content in columns[name]]
                columns[name] = [row_set.to_numpy().tolist() for row_set in sets]
        buffers = []
        if {b"null_bitmap", b"lance:label_list_nulls"} & (schema.metadata or {}).keys():
            content = memoryview(reader.read_global_buffer(1))
            buffers.append(parse_rows(content).to_numpy().tolist())
        fields = [(field.name, field.type, field.nullable, field.metadata) for field in schema]
        mapping[entry["name"]] = (file.name, fields, schema.metadata, repr(columns), buffers)
    return mapping


@pytest.mark.parametrize("stable", [False, True])
async def test_files_are_those_of_pylance(tmp_path: Path, stable: bool) -> None:
    by_pylance(tmp_path / "theirs", enable_stable_row_ids=stable)
    dataset = await by_alance(tmp_path / "ours", enable_stable_row_ids=stable)
    theirs, ours = contents(tmp_path / "theirs"), contents(tmp_path / "ours")
    assert ours.keys() == theirs.keys()
    for name, parts in theirs.items():
        assert ours[name] == parts, name
    other = await alance.dataset(tmp_path / "theirs")
    for left, right in zip(
        sorted(dataset._snapshot.manifest.indices, key=lambda record: record.name),
        sorted(other._snapshot.manifest.indices, key=lambda record: record.name),
        strict=True,
    ):
        assert left.index_details == right.index_details
        assert left.index_version == right.index_version
        assert left.fields == right.fields
        assert left.fragment_bitmap == right.fragment_bitmap
    await agree(tmp_path / "ours", FILTERS)


async def executed(
    dataset: alance.Dataset, plan: alance.IndexPlan
) -> tuple[alance.IndexPlan, list[alance.IndexPart]]:
    """A plan and the parts of its tasks, last first, as other processes get and give them."""
    plan = pickle.loads(pickle.dumps(plan))
    parts = [await task.execute(dataset) for task in reversed(plan.tasks)]
    return plan, pickle.loads(pickle.dumps(parts))


@pytest.mark.parametrize("stable", [False, True])
async def test_in_parts_they_are_those_made_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stable: bool
) -> None:
    monkeypatch.setattr(index_runs, "RUN_BLOCK_BYTES", 2_000)
    monkeypatch.setattr(index_runs, "READ_BYTES", 5_000)
    dataset = await by_alance(tmp_path / "t", enable_stable_row_ids=stable)
    for column, kind in COLUMNS.items():
        dataset = await dataset.create_scalar_index(column, kind)
    at_once = contents(tmp_path / "t")
    for column, kind in COLUMNS.items():
        plan = await alance.IndexBuild.plan(dataset, column, kind, task_bytes=1)
        assert plan.num_tasks() == 3
        plan, parts = await executed(dataset, plan)
        assert await alance.IndexBuild.ranges(dataset, plan, parts, range_bytes=1) == []
        segment = await alance.IndexBuild.merge(dataset, plan, parts, memory_bytes=1 << 16)
        dataset = await alance.IndexBuild.commit(dataset, plan, segment)
    assert contents(tmp_path / "t") == at_once
    await dataset.validate()
    await agree(tmp_path / "t", FILTERS[::2])
    assert not list((tmp_path / "t" / "_indices").glob("*/*.run"))


async def test_parts_of_other_options_do_not_hold(tmp_path: Path) -> None:
    dataset = await by_alance(tmp_path / "t")
    plan_of_zones = partial(alance.IndexBuild.plan, dataset, "z", "ZONEMAP", task_bytes=1)
    few: alance.types.ValueIndexArguments = {"rows_per_zone": 100}
    first, parts = await executed(dataset, await plan_of_zones(values=few))
    assert not (await plan_of_zones(values=few, done=parts)).tasks
    other = await plan_of_zones(done=parts)
    assert other.num_tasks() == 3
    assert other.parts == ()
    with pytest.raises(InvalidInputError, match="options of the plan"):
        await alance.IndexBuild.merge(dataset, other, parts)
    segment = await alance.IndexBuild.merge(dataset, first, parts)
    dataset = await alance.IndexBuild.commit(dataset, first, segment)
    assert (await dataset.index_statistics("z_idx"))["indices"][0]["rows_per_zone"] == 100
    with pytest.raises(TypeError, match="unexpected keyword argument 'rows_per_zone'"):
        await alance.IndexBuild.plan(dataset, "s", "NGRAM", values=few)


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.2"])
async def test_tables_of_other_file_versions(tmp_path: Path, version: str) -> None:
    await by_alance(tmp_path / "t", data_storage_version=version)
    await agree(tmp_path / "t", FILTERS[1::4])


@pytest.mark.parametrize("stable", [False, True])
async def test_optimizing_covers_what_came_later(tmp_path: Path, stable: bool) -> None:
    dataset = await by_alance(tmp_path / "t", enable_stable_row_ids=stable)
    last = "contains(s, '30123') or b = 217000 or z = 30200"
    dataset = await dataset.insert(rows(500, 30_000))
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=0)
    assert all(len(parts) == 2 for parts in coverage(tmp_path / "t").values())
    await agree(tmp_path / "t", (*FILTERS[::3], last))
    dataset = await dataset.insert(rows(300, 31_000))
    await dataset.optimize.optimize_indices()
    assert all(parts == [[0, 1, 2], [3, 4]] for parts in coverage(tmp_path / "t").values())
    await agree(tmp_path / "t", (*FILTERS, last))
    lance.write_dataset(rows(100, 32_000), tmp_path / "t", mode="append")
    lance.dataset(tmp_path / "t").optimize.optimize_indices()
    assert all(5 in parts[-1] for parts in coverage(tmp_path / "t").values())
    await agree(tmp_path / "t", (*FILTERS[1::3], last))


@pytest.mark.parametrize("stable", [False, True])
async def test_compaction_brings_them_along(tmp_path: Path, stable: bool) -> None:
    dataset = await by_alance(tmp_path / "t", enable_stable_row_ids=stable)
    dataset = await dataset.optimize.compact_files(target_rows_per_fragment=50_000)
    covered = coverage(tmp_path / "t")
    for column, kind in COLUMNS.items():
        # What knows zones of fragments loses those that are rewritten, as in pylance.
        is_translated = kind in ("LABEL_LIST", "NGRAM")
        assert covered[f"{column}_idx"] == [[3]] if is_translated else [[]], column
    await agree(tmp_path / "t", FILTERS[::3])
    dataset = await dataset.optimize.optimize_indices()
    assert all([3] in parts for parts in coverage(tmp_path / "t").values())
    await agree(tmp_path / "t", FILTERS)


async def test_texts_beyond_ascii_have_the_tokens_of_pylance(tmp_path: Path) -> None:
    odd = [chr(code) for code in range(0x80, 0x3000)]
    texts = [None, "", "ab", "a\0bc\0def", "ABC", "İstanbul", "ΑΣ abcΣ", "ﬁsh fﬁsh", *odd]
    table = pa.table({"s": texts + [f"x{letter}yz" for letter in odd]})
    lance.write_dataset(table, tmp_path / "theirs").create_scalar_index("s", "NGRAM")
    lance.write_dataset(table, tmp_path / "ours")
    await (await alance.dataset(tmp_path / "ours")).create_scalar_index("s", "NGRAM")
    assert contents(tmp_path / "ours") == contents(tmp_path / "theirs")


CONDITIONS = {
    "LABEL_LIST": ("tags", "array_has(tags, 't5')"),
    "NGRAM": ("s", "contains(s, 'Hello')"),
    "ZONEMAP": ("z", "z = 5"),
    "BLOOMFILTER": ("b", "b = 7"),
}


@pytest.mark.parametrize("kind", sorted(CONDITIONS))
async def test_an_index_of_no_rows_and_of_nulls(tmp_path: Path, kind: str) -> None:
    column, condition = CONDITIONS[kind]
    type_ = rows(10).schema.field(column).type
    for count in (0, 5):
        path = tmp_path / f"{count} rows"
        numbers = pa.array(range(count), pa.int64())
        lance.write_dataset(pa.table({"id": numbers, column: pa.nulls(count, type_)}), path)
        dataset = await alance.dataset(path)
        dataset = await dataset.create_scalar_index(column, kind)
        dataset = await dataset.create_scalar_index(column, kind, name="later", train=False)
        assert await ids(dataset, f"{column} is null") == list(range(count))
        assert await ids(dataset, condition) == []
        theirs = lance.dataset(path)
        assert theirs.count_rows(condition) == 0
        assert {entry["type"] for entry in entries(theirs)} == {KINDS[kind]}


async def test_columns_that_do_not_suit_are_refused(tmp_path: Path) -> None:
    table = rows(10).append_column("h", pa.array([1.5] * 10, pa.float16()))
    lance.write_dataset(table, tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    wrong = {"s": "LABEL_LIST", "b": "NGRAM", "tags": "ZONEMAP", "h": "BLOOMFILTER"}
    for column, kind in wrong.items():
        with pytest.raises(alance.InvalidInputError, match=r"no .* index of it; expected"):
            await dataset.create_scalar_index(column, kind)
    with pytest.raises(alance.UnsupportedError, match="expected BTREE, BITMAP, LABEL_LIST"):
        await dataset.create_scalar_index("s", "HILBERT")


async def test_an_index_is_used_by_pylance(tmp_path: Path) -> None:
    await by_alance(tmp_path / "t")
    theirs = lance.dataset(tmp_path / "t")
    request = {
        "array_has(tags, 't777')": "tags_idx",
        "contains(s, '1234')": "s_idx",
        "z = 5000": "z_idx",
        "b = 7": "b_idx",
    }
    for condition, name in request.items():
        assert name in theirs.scanner(filter=condition).explain_plan(), condition
    dataset = await alance.dataset(tmp_path / "t")
    assert (await plan_of(dataset, "contains(s, '1234')")).picked


@pytest.mark.parametrize("name", sorted(typed()))
async def test_zones_of_every_type_are_those_of_pylance(tmp_path: Path, name: str) -> None:
    table = pa.table({"id": range(300), name: typed()[name]})
    for kind in ("ZONEMAP", "BLOOMFILTER"):
        theirs = lance.write_dataset(table, tmp_path / f"{kind} theirs")
        lance.write_dataset(table, tmp_path / f"{kind} ours")
        dataset = await alance.dataset(tmp_path / f"{kind} ours")
        try:
            theirs.create_scalar_index(name, kind)
        except ValueError:
            with pytest.raises(alance.InvalidInputError, match="no BloomFilter index of it"):
                await dataset.create_scalar_index(name, kind)
            continue
        dataset = await dataset.create_scalar_index(name, kind)
        assert contents(tmp_path / f"{kind} ours") == contents(tmp_path / f"{kind} theirs")
        condition = TYPED_FILTERS[name]
        row_ids = await ids(dataset, condition)
        assert row_ids == await ids(dataset, condition, use_scalar_index=False)


async def test_indices_are_described_as_by_pylance(tmp_path: Path) -> None:
    dataset = await by_alance(tmp_path / "t")
    dataset = await dataset.insert(rows(500, 30_000))
    dataset = await dataset.create_index("s", "INVERTED", name="words")
    dataset = await dataset.create_scalar_index("k", "BTREE", name="ordered")
    theirs = lance.dataset(tmp_path / "t")
    ours = await dataset.describe_indices()
    for left, right in zip(ours, theirs.describe_indices(), strict=True):
        for name in ("name", "index_type", "type_url", "num_rows_indexed", "total_size_bytes"):
            assert getattr(left, name) == getattr(right, name), name
        for name in ("fields", "field_names"):
            assert list(getattr(left, name)) == list(getattr(right, name)), name
        for segment, other in zip(left.segments, right.segments, strict=True):
            for name in ("uuid", "dataset_version_at_last_update", "index_version", "size_bytes"):
                assert getattr(segment, name) == getattr(other, name), name
            assert segment.base_id == other.base_id
            assert segment.created_at == other.created_at
            assert segment.fragment_ids == set(other.fragment_ids)
        statistics = await dataset.index_statistics(left.name)
        expected = theirs.stats.index_stats(left.name)
        assert statistics.keys() == expected.keys()
        if left.index_type not in ("Inverted", "BTree"):
            assert statistics == expected


async def test_vector_indices_are_told_by_their_exact_type(tmp_path: Path) -> None:
    vectors = np.random.default_rng(3).random((1_000, 8), np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8)
    theirs = lance.write_dataset(pa.table({"v": column}), tmp_path / "t")
    for kind in ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_SQ", "IVF_HNSW_PQ"):
        options = {"num_sub_vectors": 2} if "PQ" in kind else {}
        theirs.create_index("v", kind, name=kind.lower(), num_partitions=2, **options)
    dataset = await alance.dataset(tmp_path / "t")
    dataset = await dataset.create_index("v", "IVF_PQ", num_partitions=2, num_sub_vectors=2)
    theirs = lance.dataset(tmp_path / "t")
    assert [entry["type"] for entry in dataset.list_indices()] == [
        entry["type"] for entry in entries(theirs)
    ]
    for left, right in zip(
        await dataset.describe_indices(), theirs.describe_indices(), strict=True
    ):
        assert left.index_type == right.index_type
        others = {key: value for key, value in right.details.items() if key != "runtime_hints"}
        assert left.details == others
        assert (await dataset.index_statistics(left.name))["index_type"] == right.index_type


async def test_zeros_and_nan_are_bounds_as_by_pylance(tmp_path: Path) -> None:
    values = [0.0, -0.0, 1.5, math.nan, None]
    for number, chosen in enumerate(itertools.permutations(values, 2)):
        table = pa.table({"f": pa.array(chosen, pa.float64())})
        theirs, ours = tmp_path / f"{number} theirs", tmp_path / f"{number} ours"
        lance.write_dataset(table, theirs).create_scalar_index("f", "ZONEMAP")
        lance.write_dataset(table, ours)
        await (await alance.dataset(ours)).create_scalar_index("f", "ZONEMAP")
        assert contents(ours) == contents(theirs), chosen


OPTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("z", "ZONEMAP", {"rows_per_zone": 1_000}),
    ("f", "ZONEMAP", {"rows_per_zone": 20_000}),
    ("b", "BLOOMFILTER", {"number_of_items": 1_000, "probability": 0.01}),
    ("k", "BLOOMFILTER", {"number_of_items": 500}),
    ("b", "BLOOMFILTER", {"probability": 0.5}),
]


@pytest.mark.parametrize(("column", "kind", "options"), OPTIONS)
async def test_options_of_zones_are_those_of_pylance_and_stay(
    tmp_path: Path, column: str, kind: str, options: dict[str, Any]
) -> None:
    table = rows().select(["id", column])
    theirs = lance.write_dataset(table, tmp_path / "theirs", max_rows_per_file=10_000)
    theirs.create_scalar_index(column, IndexConfig(kind.lower(), options))
    dataset = await alance.write_dataset(table, tmp_path / "t", max_rows_per_file=10_000)
    dataset = await dataset.create_scalar_index(column, kind, **options)
    alike = await dataset.create_scalar_index(column, IndexConfig(kind.lower(), options))
    name = f"{column}_idx"
    expected = theirs.stats.index_stats(name)["indices"]
    for other in (dataset, alike, await alance.dataset(tmp_path / "theirs")):
        assert (await other.index_statistics(name))["indices"] == expected
    records = [
        await record_of(await alance.dataset(place), name)
        for place in (tmp_path / "t", tmp_path / "theirs")
    ]
    assert records[0] == records[1]
    await alance.write_dataset(table.slice(0, 2_500), tmp_path / "t", mode="append")
    dataset = await (await alance.dataset(tmp_path / "t")).optimize.optimize_indices(retrain=True)
    (after,) = (await dataset.index_statistics(name))["indices"]
    counts = ("num_zones", "num_blocks")
    assert {key: after[key] for key in after if key not in counts} == {
        key: value for key, value in expected[0].items() if key not in counts
    }
    conditions = [condition for condition in FILTERS if condition.startswith(f"{column} ")]
    for condition in conditions:
        if " and " in condition or " or " in condition:
            continue
        result = dataset.to_table(["id"], filter=condition)
        expected_rows = lance.dataset(tmp_path / "t").to_table(["id"], filter=condition)
        assert sorted((await result)["id"].to_pylist()) == sorted(expected_rows["id"].to_pylist())


async def record_of(dataset: alance.Dataset, name: str) -> tuple[bytes, list[str]]:
    """The details of an index, and the names of its files."""
    (message,) = [index for index in dataset._snapshot.manifest.indices if index.name == name]
    return message.index_details.value, [file.path for file in message.files]


async def test_filters_of_a_value_or_two_are_a_block_as_in_pylance(tmp_path: Path) -> None:
    options = {"number_of_items": 2, "probability": 0.5}
    theirs = lance.write_dataset({"b": range(9)}, tmp_path / "theirs")
    theirs.create_scalar_index("b", IndexConfig("bloomfilter", options))
    dataset = await alance.write_dataset({"b": range(9)}, tmp_path / "t")
    dataset = await dataset.create_scalar_index("b", "BLOOMFILTER", **options)
    assert contents(tmp_path / "t") == contents(tmp_path / "theirs")
    assert (await dataset.to_table(filter="b = 3")).num_rows == 1


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("ZONEMAP", {"rows_per_zone": 0}, "rows_per_zone=0"),
        ("BLOOMFILTER", {"number_of_items": 1 << 30}, "number_of_items="),
        ("BLOOMFILTER", {"probability": 1.0}, "probability=1.0"),
    ],
)
async def test_options_of_zones_that_make_no_sense_are_refused(
    tmp_path: Path, kind: str, options: Any, expected: str
) -> None:
    dataset = await alance.write_dataset(rows(10), tmp_path / "t")
    with pytest.raises(InvalidInputError, match=expected):
        await dataset.create_scalar_index("z", kind, **options)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        await dataset.create_scalar_index("z", "BTREE", **options)
