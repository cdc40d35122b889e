"""SQL asks indices and statistics on the driver: requests, bytes and tasks of selective queries."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import alance.spark
from alance import sync
from alance.spark.source import AlanceSource
from alance.testing.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

URI = "s3://lab/table"
NUM_ROWS, FRAGMENT_ROWS, TAIL_ROWS = 300_000, 50_000, 50_000
QUERIES = (
    "k = 77",
    "k in (5, 500, 50000, 300500)",
    "id between 220000 and 220010",
    "k = -5",
    "k < 300 and id > 1000",
)
WITH_TAIL = 4  # version before the compaction
# Tasks read the version's footers again, 64 KiB each, and late columns in a round of their own.
MORE_REQUESTS, MORE_BYTES = 8, 200_000
fresh = itertools.count(64 << 20)


def rows(start: int, count: int) -> pa.Table:
    rng = np.random.default_rng(start)
    noise = [None, pa.py_buffer(rng.bytes(16 * count))]
    return pa.table(
        {
            "id": np.arange(start, start + count),
            "k": pa.array(rng.permutation(count) + start, mask=rng.random(count) < 0.001),
            "noise": pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), count, noise),
        }
    )


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A table with a B-tree, deleted rows, a fragment that the B-tree lacks, then compacted."""
    with Lab() as server:
        options = server.lance_options()
        dataset = sync.write_dataset(
            rows(0, NUM_ROWS), URI, storage_options=options, max_rows_per_file=FRAGMENT_ROWS
        )
        dataset = dataset.create_scalar_index("k", "BTREE")
        dataset = dataset.delete("id % 50 = 7 or (id > 100000 and id < 130000)")
        dataset = dataset.insert(rows(NUM_ROWS, TAIL_ROWS))
        assert dataset.version == WITH_TAIL
        dataset.optimize.compact_files(target_rows_per_fragment=90_000)
        yield server


def reader(spark: Any, options: dict[str, str], kind: str) -> Callable[[int | None], DataFrame]:
    """Frames of a version of the table, each read without the caches of the others."""

    def connector(version: int | None) -> DataFrame:
        own = {} if version is None else {"version": version}
        memory = next(fresh)
        return alance.spark.read(spark, URI, storage_options=options, memory_bytes=memory, **own)

    if kind == "connector":
        return connector

    class Plain(AlanceSource):
        defaults = options

        @classmethod
        def name(cls) -> str:
            return "alance_plain"

    spark.dataSource.register(Plain)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    source = spark.read.format("alance_plain").option("pushdown", "true")

    def plain(version: int | None) -> DataFrame:
        return source.option("memory_bytes", next(fresh)).option("version", version).load(URI)

    return plain


def plainly(dataset: sync.Dataset, condition: str) -> list[int]:
    """The ids by a scan that asks neither indices nor statistics."""
    plain = dataset.to_table(["id"], filter=condition, use_scalar_index=False, use_stats=False)
    return sorted(plain["id"].to_pylist())


@pytest.mark.parametrize("kind", ["connector", "python"])
def test_a_selective_query_costs_about_what_a_local_one_does(spark, lab, kind):
    """With deleted rows and a fragment without index, then compacted."""
    options = lab.lance_options()
    frame = reader(spark, options, kind)
    for version in (WITH_TAIL, sync.dataset(URI, storage_options=options).version):
        for condition in QUERIES if kind == "connector" else QUERIES[:3:2]:
            alone = sync.dataset(
                URI, storage_options=options, session=sync.Session(), version=version
            )
            with lab.recording() as local:
                alone.to_table(filter=condition)
            with lab.recording() as seen:
                answer = frame(version).where(condition).collect()
            assert sorted(row.id for row in answer) == plainly(alone, condition)
            assert {len(row.noise) for row in answer} <= {16}
            ours, theirs = seen.summary(), local.summary()
            assert ours["requests"] <= theirs["requests"] + MORE_REQUESTS, condition
            assert ours["get_bytes"] <= theirs["get_bytes"] + MORE_BYTES, condition
        if kind == "connector":
            assert frame(version).where("k = -5").rdd.getNumPartitions() == 0
            assert frame(version).where("k = 77").rdd.getNumPartitions() == 1


def test_indices_count_and_narrow_aggregates(spark, lab):
    options = lab.lance_options()
    frame = reader(spark, options, "connector")
    dataset = sync.dataset(URI, storage_options=options)
    for condition in ("k < 3000", "k = 77 or k = 300099", "id < 9 and k > 5"):
        ids = plainly(dataset, condition)
        assert frame(None).where(condition).count() == len(ids)
        ends = frame(None).where(condition).agg(F.count("*"), F.min("id"), F.max("id")).first()
        assert [*ends] == [len(ids), min(ids, default=None), max(ids, default=None)]
        first = frame(None).where(condition).orderBy("id").limit(3).collect()
        assert [row.id for row in first] == ids[:3]
    right = len(plainly(dataset, "k < 3000"))
    with lab.recording() as seen:
        assert frame(None).where("k < 3000").count() == right
    assert seen.summary()["get_bytes"] < 400_000
