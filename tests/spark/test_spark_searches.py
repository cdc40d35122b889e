"""`alance_nearest` and `alance_search` in SQL, beside `nearest`, `search_text` and `search`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance.spark
from alance import sync

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUM_ROWS = 600
WORDS = ("red", "green", "blue", "fox", "dog", "owl", "runs", "sleeps")


@pytest.fixture(scope="module")
def uri(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The table `found.items` of the catalog, with an index of its texts."""
    lake = tmp_path_factory.mktemp("searches")
    before = spark.conf.get("spark.sql.catalog.lance.warehouse", None)
    alance.spark.register(spark, warehouse=str(lake))
    spark.sql("CREATE NAMESPACE lance.found")
    random = np.random.default_rng(0)
    vectors = random.standard_normal((NUM_ROWS, 4)).astype(np.float32)
    table = pa.table(
        {
            "id": pa.array(range(NUM_ROWS), pa.int64()),
            "text": [" ".join(random.choice(WORDS, 1 + n % 5)) for n in range(NUM_ROWS)],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 4),
            "at": pa.array([n * 1_000_003 for n in range(NUM_ROWS)], pa.timestamp("us", "UTC")),
            "m": pa.array([[("k", n)] for n in range(NUM_ROWS)], pa.map_(pa.string(), pa.int32())),
        }
    )
    uri = str(lake / "found" / "items.lance")
    sync.write_dataset(table, uri, max_rows_per_file=200, data_storage_version="2.2")
    sync.dataset(uri).create_scalar_index("text", "INVERTED")
    yield uri
    if before is not None:
        alance.spark.register(spark, warehouse=before)


def test_nearest_by_path_and_by_name(spark, uri):
    expected = sync.dataset(uri).nearest("v", [0.5, -1, 0, 0.25], 7)
    query = "array(0.5, -1, 0, 0.25)"
    for table in (uri, "lance.found.items", "found.items", f"alance.`{uri}`"):
        rows = spark.sql(f"SELECT * FROM alance_nearest('{table}', 'v', {query}, 7)").collect()
        assert [row.id for row in rows] == expected["id"].to_pylist()
        assert [row._distance for row in rows] == expected["_distance"].to_pylist()
        assert [row.v for row in rows] == expected["v"].to_pylist()
        assert [round(row.at.timestamp() * 1e6) for row in rows] == [
            row.id * 1_000_003 for row in rows
        ]
        assert [row.m for row in rows] == [{"k": row.id} for row in rows]
    rows = spark.sql(
        f"SELECT id, _distance FROM alance_nearest(table => '{uri}', column => 'v', "
        f"query => (SELECT v FROM lance.found.items WHERE id = 17), k => 3, columns => 'id', "
        "filter => 'id >= 17', options => '{\"metric\": \"cosine\"}') WHERE id <> 17"
    )
    options = {"metric": "cosine", "filter": "id >= 17", "columns": ["id"]}
    query_17 = lance.dataset(uri).take([17])["v"][0].as_py()
    expected = sync.dataset(uri).nearest("v", query_17, 3, **options).slice(1)
    assert [tuple(row) for row in rows.collect()] == [
        (row["id"], row["_distance"]) for row in expected.to_pylist()
    ]
    theirs = {"column": "v", "q": query_17, "k": 3, "metric": "cosine"}
    theirs = lance.dataset(uri).to_table(nearest=theirs, filter="id >= 17", prefilter=True)
    assert theirs["id"].to_pylist()[1:] == expected["id"].to_pylist()


def test_a_search_for_each_row_before_it(spark, uri):
    rows = spark.sql(
        "SELECT q.id AS asked, n.id FROM lance.found.items q, "
        f"LATERAL alance_nearest('{uri}', 'v', q.v, 2, columns => 'id') n WHERE q.id < 20"
    ).collect()
    dataset = sync.dataset(uri)
    queries = dataset.to_table(["v"], filter="id < 20")["v"].to_pylist()
    expected = dataset.nearest_many("v", np.array(queries, np.float32), 2, columns=["id"])
    pairs = zip(expected["query_index"].to_pylist(), expected["id"].to_pylist(), strict=True)
    assert sorted(map(tuple, rows)) == sorted(pairs)


def test_words_and_both(spark, uri):
    dataset = sync.dataset(uri)
    expected = dataset.search_text("red fox", 9, columns=["id", "text"])
    rows = spark.sql(
        "SELECT * FROM alance_search('found.items', 'red fox', 9, columns => 'id,text')"
    )
    assert [row.asDict() for row in rows.collect()] == expected.to_pylist()
    assert rows.columns == ["id", "text", "_score"]
    query = [1.0, 0.0, 0.0, 0.0]
    expected = dataset.search(text="owl", vector=query, k=5, columns=["id"])
    rows = spark.sql(
        "SELECT id, _relevance_score, _score, _distance FROM alance_search('lance.found.items', "
        "'owl', 5, vector => array(1.0, 0.0, 0.0, 0.0), columns => 'id')"
    ).collect()
    assert [row.asDict() for row in rows] == expected.select(rows[0].asDict().keys()).to_pylist()


def test_a_version_and_what_is_wrong(spark, uri):
    version = sync.dataset(uri).version
    empty = f"SELECT count(*) AS n FROM alance_nearest('{uri}', 'v', CAST(null AS array<float>))"
    assert spark.sql(empty).first().n == 0
    query = "array(0.0, 0.0, 0.0, 0.0)"
    spark.sql("DELETE FROM lance.found.items WHERE id < 10")
    before = (
        f"alance_nearest('found.items', 'v', {query}, 1000, version => {version}, columns => 'id')"
    )
    assert spark.sql(f"SELECT * FROM {before}").count() == NUM_ROWS
    assert spark.sql(f"SELECT * FROM {before.replace(str(version), str(version + 1))}").count() == (
        NUM_ROWS - 10
    )
    for call, message in (
        (f"alance_nearest('{uri}-none', 'v', {query})", "TableNotFoundError.*register again"),
        (f"alance_nearest('{uri}', 'v', {query}, columns => 'none')", "none"),
        (f"alance_nearest(concat('{uri}', rand()), 'v', {query})", "expected a constant"),
        (f"alance_nearest('{uri}', 'v', array(1.0))", "InvalidInputError"),
        (f"alance_nearest('{uri}', 'v', {query}, options => '[]')", "expected a JSON object"),
        (f"alance_search('{uri}', 'red', on => 'id')", "InvalidInputError"),
    ):
        with pytest.raises(Exception, match=rf"(?s){message}"):
            spark.sql(f"SELECT * FROM {call}").collect()
