"""The code of the page about Spark runs as it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import alance.sync
from alance.spark.session import WAREHOUSE
from tests.pages import ROOT, run_page

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


async def test_the_code_of_the_page_about_spark_runs(spark: SparkSession, tmp_path: Path) -> None:
    numbers = list(range(100))
    table = pa.table(
        {
            "id": numbers,
            "text": [f"text {n}" for n in numbers],
            "price": [n / 2 for n in numbers],
            "day": [n % 10 for n in numbers],
        }
    )
    alance.sync.write_dataset(table, str(tmp_path / "table"))
    pq.write_table(table, str(tmp_path / "raw.parquet"))
    names = {
        "uri": str(tmp_path / "table"),
        "other_uri": str(tmp_path / "other"),
        "copy_uri": str(tmp_path / "copy"),
        "raw": str(tmp_path / "raw.parquet"),
        "checkpoint": str(tmp_path / "checkpoint"),
        "lake": str(tmp_path / "lake"),
    }
    warehouse = spark.conf.get(WAREHOUSE)
    try:
        await run_page(ROOT / "docs" / "spark.md", names)
    finally:
        spark.catalog.dropTempView("items")
        spark.conf.set(WAREHOUSE, warehouse)
    assert alance.sync.dataset(names["other_uri"]).count_rows() == 200
    assert alance.sync.dataset(names["copy_uri"]).count_rows() == 100
