"""Exact search beside pylance's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import alance
import alance.sync
from alance.errors import InvalidInputError
from tests.reference.thinned import thinned
from tests.search.search_cases import (
    DIM,
    KINDS,
    METRICS,
    agree,
    ids,
    ours,
    queries,
    theirs,
    written,
)

if TYPE_CHECKING:
    from pathlib import Path

TOLERANCE = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-5, "uint8": 1e-5}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("vectors")
    return {kind: written(folder / kind, kind) for kind in KINDS}


@pytest.fixture
async def dataset(paths: dict[str, Path]) -> alance.Dataset:
    return await alance.dataset(paths["float32"])


@pytest.mark.parametrize(("kind", "metric"), thinned([*KINDS], [*METRICS, "hamming"]))
async def test_the_nearest_rows_are_those_that_pylance_finds(
    paths: dict[str, Path], kind: str, metric: str
) -> None:
    if (metric == "hamming") != (kind == "uint8"):
        return
    dataset = await alance.dataset(paths[kind])
    for q in queries(kind):
        for options in (
            {"k": 10},
            {"k": 1},
            {"k": 3000},
            {"k": 7, "filter": "kind = 3 and id > 500"},
        ):
            own = await ours(dataset, q, metric=metric, **options)
            options["prefilter"] = True
            other = theirs(paths[kind], q, metric=metric, **options)
            agree(own, other, tolerance=TOLERANCE[kind])


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
async def test_bytes_are_numbers_as_well(paths: dict[str, Path], metric: str) -> None:
    dataset = await alance.dataset(paths["uint8"])
    table = await dataset.to_table(["id", "vec"])
    table = table.filter(table["vec"].is_valid())
    rows = np.array(table["vec"].to_pylist(), np.float64)
    q = queries("uint8", 1)[0].astype(np.float64)
    own = await ours(dataset, q, metric=metric, k=20)
    right = {
        "l2": ((rows - q) ** 2).sum(axis=1),
        "dot": 1 - rows @ q,
        "cosine": 1 - rows @ q / np.linalg.norm(rows, axis=1) / np.linalg.norm(q),
    }[metric]
    np.testing.assert_allclose(own["_distance"], np.sort(right)[:20], rtol=1e-4)


async def test_a_metric_of_nobody_is_l2_and_of_bytes_hamming(paths: dict[str, Path]) -> None:
    for kind, metric in (("float32", "l2"), ("uint8", "hamming")):
        dataset = await alance.dataset(paths[kind])
        q = queries(kind, 1)[0]
        assert await ours(dataset, q) == await ours(dataset, q, metric=metric)


async def test_bfloat16_is_compared_as_what_it_holds(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    words = (rng.normal(size=(500, 8)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    from lance.arrow import BFloat16Type

    storage = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(2), 4000, [None, pa.py_buffer(words.tobytes())]
    )
    items = pa.ExtensionArray.from_storage(BFloat16Type(), storage)
    column = pa.FixedSizeListArray.from_arrays(items, 8)
    import lance

    lance.write_dataset(pa.table({"id": range(500), "vec": column}), tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    rows = (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    actual = await ours(dataset, rows[7], k=5)
    right = ((rows - rows[7]) ** 2).sum(axis=1)
    assert ids(actual) == np.argsort(right, kind="stable")[:5].tolist()
    np.testing.assert_allclose(actual["_distance"], np.sort(right)[:5], rtol=1e-5, atol=1e-6)


async def test_a_batch_gives_the_rows_of_each_query(
    paths: dict[str, Path], dataset: alance.Dataset
) -> None:
    q = queries("float32")
    own = await ours(dataset, q, k=4)
    other = theirs(paths["float32"], q, k=4)
    assert own.schema.field("query_index") == other.schema.field("query_index")
    assert own.column_names == ["query_index", "id", "_distance"] == other.column_names
    assert own["query_index"].to_pylist() == [n for n in range(5) for _ in range(4)]
    for number in range(5):
        of_query = own.filter(pa.compute.equal(own["query_index"], number))
        assert of_query.drop_columns("query_index") == await ours(dataset, q[number], k=4)
    assert await dataset.nearest_many("vec", q, 4, columns=["id"]) == own
    with pytest.raises(InvalidInputError, match="expected a matrix"):
        await dataset.nearest_many("vec", q[0])


async def test_a_filter_comes_before_the_search_or_after_it(
    paths: dict[str, Path], dataset: alance.Dataset
) -> None:
    q, condition = queries("float32", 1)[0], "kind < 3"
    for prefilter in (True, False):
        options: dict[str, Any] = {"k": 20, "filter": condition, "prefilter": prefilter}
        own = await ours(dataset, q, **options)
        agree(own, theirs(paths["float32"], q, **options))
        scanned = dataset.scanner(
            ["id"],
            nearest={"column": "vec", "q": q, "k": 20},
            filter=condition,
            prefilter=prefilter,
        )
        assert await scanned.to_table() == own
        assert await scanned.count_rows() == len(own)
    assert len(own) < 20


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"columns": None},
        {"columns": ["_distance", "text", "id"]},
        {"columns": ["id", "_rowid"]},
        {"columns": {"id": "id", "twice": "id * 2"}},
        {"columns": []},
        {"with_row_id": True},
        {"with_row_id": True, "with_row_address": True},
        {"limit": 3},
        {"limit": 3, "offset": 2},
        {"offset": 6},
    ],
    ids=str,
)
async def test_the_output_of_a_scanner_is_that_of_pylance(
    paths: dict[str, Path], dataset: alance.Dataset, options: dict[str, Any]
) -> None:
    q = queries("float32", 1)[0]
    options = {"columns": ["id"]} | options
    other = theirs(paths["float32"], q, k=6, **options)
    columns = options.pop("columns")
    scanner = dataset.scanner(columns, nearest={"column": "vec", "q": q, "k": 6}, **options)
    own = await scanner.to_table()
    assert own.schema == scanner.projected_schema
    assert own.column_names == other.column_names
    assert own.schema.types == other.schema.types
    assert own.drop_columns("_distance") == other.drop_columns("_distance")
    np.testing.assert_allclose(own["_distance"], other["_distance"], rtol=1e-5)


async def test_members_of_structs_are_searched_and_shown(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inner = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(400, np.float32)), 4)
    column = pa.StructArray.from_arrays([inner, pa.array(range(100))], ["v", "n"])
    dataset = await alance.write_dataset({"s": column}, tmp_path / "t")
    table = await dataset.nearest("s.v", [0.5] * 4, 5, columns=["s.n"])
    rows = inner.flatten().to_numpy().reshape(100, 4)
    right = np.argsort(((rows - 0.5) ** 2).sum(axis=1))[:5]
    assert table["s.n"].to_pylist() == right.tolist()


async def test_distances_outside_of_a_range_are_left_out(
    paths: dict[str, Path], dataset: alance.Dataset
) -> None:
    q = queries("float32", 1)[0]
    for bounds in ((1.5, 2.5), (None, 2.0), (3.0, None), (2.0, 2.0)):
        own = await ours(dataset, q, k=50, distance_range=bounds)
        agree(own, theirs(paths["float32"], q, k=50, distance_range=bounds))


async def test_only_the_fragments_asked_for_are_searched(dataset: alance.Dataset) -> None:
    q = queries("float32", 1)[0]
    actual = await ours(dataset, q, k=3000, fragments=[1])
    assert set(ids(actual)) <= set(range(1100, 2200))
    assert len(actual) > 900


async def test_the_order_of_a_scan_may_be_another_than_that_of_distance(
    dataset: alance.Dataset,
) -> None:
    q = queries("float32", 1)[0]
    scanner = dataset.scanner(
        ["id"], nearest={"column": "vec", "q": q, "k": 9}, order_by=["-_distance"]
    )
    table = await scanner.to_table()
    assert table["_distance"].to_pylist() == sorted(table["_distance"].to_pylist(), reverse=True)
    assert ids(table)[::-1] == ids(await ours(dataset, q, k=9))


async def test_stable_row_ids_are_what_a_search_gives(tmp_path: Path) -> None:
    path = written(tmp_path / "t", enable_stable_row_ids=True)
    import lance

    lance.dataset(path).optimize.compact_files()
    dataset = await alance.dataset(path)
    q = queries("float32", 1)[0]
    actual = await ours(dataset, q, k=20, columns=["id", "_rowid"])
    agree(actual, theirs(path, q, k=20))
    assert (await dataset.take_rows(actual["_rowid"], ["id"]))["id"] == actual["id"]


def test_the_blocking_face_searches(paths: dict[str, Path]) -> None:
    dataset = alance.sync.dataset(paths["float32"])
    q = queries("float32", 1)[0]
    neighbours = dataset.nearest("vec", q, 5, columns=["id"])
    agree(neighbours, theirs(paths["float32"], q, k=5))
    reader = dataset.scanner(["id"], nearest={"column": "vec", "q": q, "k": 5}).to_table()
    assert reader == neighbours


async def test_an_empty_table_has_no_neighbours(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("vec", pa.list_(pa.float32(), 4))])
    dataset = await alance.write_dataset(schema.empty_table(), tmp_path / "t")
    actual = await ours(dataset, np.zeros(4))
    assert actual.num_rows == 0
    assert actual.column_names == ["id", "_distance"]


async def test_lists_of_numbers_are_refused_with_what_makes_vectors_of_them(tmp_path: Path) -> None:
    rows = [{"v": [1.0, float(number)]} for number in range(3)]
    dataset = await alance.write_dataset(rows, tmp_path / "t")
    for call in (dataset.nearest("v", [1, 2], 1), dataset.create_index("v", "IVF_FLAT")):
        with pytest.raises(alance.InvalidInputError, match=r"`alter_columns\(.*\)` makes vectors"):
            await call
    vectors = pa.list_(pa.float32(), 2)
    dataset = await dataset.alter_columns({"path": "v", "data_type": vectors})
    assert (await dataset.nearest("v", [1, 2], 1))["v"].to_pylist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"column": "id"}, "expected a fixed-size list"),
        ({"column": "nothing"}, "nothing"),
        ({"column": None}, "expected a name"),
        ({"q": [1.0] * 5}, r"shape \(5,\).*dimension 16"),
        ({"q": 3}, "dimension 16"),
        ({"q": ["a"] * DIM}, "expected numbers"),
        ({"q": None}, "dimension 16|expected numbers"),
        ({"q": [1j] * DIM}, "expected numbers"),
        ({"k": 1 << 63}, "k=9223372036854775808"),
        ({"q": [float("nan")] * DIM}, "NaN"),
        ({"q": [float("inf")] * DIM}, "infinite"),
        ({"k": 0}, "k=0"),
        ({"k": -3}, "k=-3"),
        ({"k": True}, "k=True"),
        ({"k": 2.5}, "k=2.5"),
        ({"metric": "manhattan"}, "metric='manhattan'"),
        ({"metric": "hamming"}, "expected uint8"),
        ({"metric": "cosine", "q": [0.0] * DIM}, "no direction"),
        ({"nprobes": 0}, "nprobes=0"),
        ({"minimum_nprobes": 5, "maximum_nprobes": 2}, "above maximum_nprobes"),
        ({"nprobes": 2, "maximum_nprobes": 2}, "it is both"),
        ({"refine_factor": 0}, "refine_factor=0"),
        ({"ef": 0}, "ef=0"),
        ({"distance_range": (2, 1)}, "the smaller number first"),
        ({"distance_range": 1}, "expected a pair"),
        ({"search_effort": 2}, "from 0 to 1"),
        ({"wings": 2}, "unknown 'wings'"),
    ],
    ids=str,
)
async def test_a_search_that_makes_no_sense_is_refused(
    dataset: alance.Dataset, options: dict[str, Any], message: str
) -> None:
    request = {"column": "vec", "q": queries("float32", 1)[0], "k": 3} | options
    with pytest.raises((InvalidInputError, alance.NotFoundError), match=message):
        await dataset.scanner(["id"], nearest=request).to_table()


async def test_what_does_not_go_with_a_search_is_refused(dataset: alance.Dataset) -> None:
    nearest = {"column": "vec", "q": queries("float32", 1)[0]}
    with pytest.raises(InvalidInputError, match="include_deleted_rows"):
        await dataset.scanner(
            nearest=nearest, include_deleted_rows=True, with_row_id=True
        ).to_table()
    with pytest.raises(TypeError, match="wings"):
        await dataset.nearest("vec", nearest["q"], wings=2)  # type: ignore[call-arg]


async def test_a_cancelled_search_leaves_nothing_behind(dataset: alance.Dataset) -> None:
    q = queries("float32", 1)[0]
    before = len(asyncio.all_tasks())
    for turns in range(0, 40, 3):
        search = asyncio.ensure_future(ours(dataset, q, use_index=False))
        for _ in range(turns):
            await asyncio.sleep(0)
        search.cancel()
        await asyncio.gather(search, return_exceptions=True)
    assert len(asyncio.all_tasks()) == before
    assert len(await ours(dataset, q)) == 10


async def test_explain_says_that_every_vector_is_compared(dataset: alance.Dataset) -> None:
    q = queries("float32", 1)[0]
    message = str(await dataset.scanner(nearest={"column": "vec", "q": q, "k": 2}).explain())
    assert "search of" in message
    assert "every vector compared" in message
