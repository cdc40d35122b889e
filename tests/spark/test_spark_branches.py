"""Spark on a branch, by its URI."""

from __future__ import annotations

import lance
import pyarrow as pa

import alance.spark
import alance.sync
from tests.spark.spark_cases import ids_of


def test_a_branch_is_read_and_written_by_its_uri(spark, tmp_path):
    uri = str(tmp_path / "table")
    main = alance.sync.write_dataset(pa.table({"id": [1, 2]}), uri)
    branch = main.create_branch("dev")
    alance.spark.write(spark.range(5, 7), branch.uri, mode="append")
    assert sorted(row.id for row in alance.spark.read(spark, branch.uri).collect()) == [1, 2, 5, 6]
    alance.spark.write(spark.range(8, 9), branch.uri, mode="overwrite")
    assert (ids_of(branch.uri), ids_of(uri)) == ([8], [1, 2])
    assert lance.dataset(uri).version == 1
