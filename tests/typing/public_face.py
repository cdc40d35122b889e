"""A program of a user, as `make lint` checks it with `mypy --strict`; no test runs it.

Where a line must not check, an ignore says so: `mypy` reports one that is not needed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, assert_type

import alance
import alance.sync
from alance import distributed
from alance.types import (
    CleanupStats,
    DatasetStats,
    Explanation,
    IndexStatistics,
    ScanArguments,
    VersionInfo,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pyarrow as pa

    from alance.types import Columns, Data, DataFragment, Transaction


async def reads(uri: str, columns: Columns) -> pa.Table:
    """Scans and takes; an editor completes their arguments."""
    dataset = await alance.dataset(uri, version="stable")
    options: ScanArguments = {"filter": "price > 10", "limit": 5}
    assert_type(dataset.scanner(columns, **options), alance.Scanner)
    assert_type(await dataset.scanner(with_row_id=True).explain(), Explanation)
    batches: AsyncIterator[pa.RecordBatch] = dataset.to_batches(["id"], batch_size=1024)
    async for batch in batches:
        assert batch.num_rows <= 1024
    await dataset.to_table(fliter="id > 1")  # type: ignore[call-arg]
    await dataset.to_table(limit="5")  # type: ignore[arg-type]
    await dataset.fragments[0].to_table(fragments=[1])  # type: ignore[call-arg]
    return await dataset.take([1, 2], {"double": "id * 2"})


async def engines(dataset: alance.Dataset) -> alance.Dataset:
    """Queries, numbers, copies."""
    await dataset.sql("select 1", params=[1], tables={"other": dataset}, settings={"threads": 1})
    await dataset.sql("select 1", table={})  # type: ignore[call-arg]
    async for batch in dataset.sql_batches("select 1", params={"a": 1}):
        assert batch.num_rows
    assert_type(await dataset.stats(small_rows=10), DatasetStats)
    assert_type(alance.sync.dataset("t").stats().num_rows, int)
    return await dataset.deep_clone("s3://bucket/copy", "stable")


async def indices(dataset: alance.Dataset) -> list[str]:
    """Kinds and metrics are literals, results of indices have typed keys."""
    await dataset.create_index("vector", "IVF_PQ", metric="cosine", num_sub_vectors=16)
    await dataset.create_index("vector", "IVF_PG")  # type: ignore[arg-type]
    await dataset.create_index("vector", "IVF_PQ", metric="cosinus")  # type: ignore[arg-type]
    await dataset.create_index("vector", "IVF_PQ", num_partition=16)  # type: ignore[call-arg]
    await dataset.create_index("text", "INVERTED", base_tokenizer="ngrams")  # type: ignore[arg-type]
    await dataset.create_scalar_index("id", "BTREE", progress=print)
    await dataset.create_scalar_index("id", "B_TREE")  # type: ignore[arg-type]
    await dataset.nearest("vector", [0.0], metric="l1")  # type: ignore[arg-type]
    await dataset.insert({"id": [1]}, mode="upsert")  # type: ignore[arg-type]
    dataset.merge_insert("id").write_mode("rewrite")  # type: ignore[arg-type]
    alance.sync.dataset("t").create_index("v", "IVF_PG")  # type: ignore[arg-type]
    statistics = await dataset.index_statistics("vector_idx")
    assert_type(statistics, IndexStatistics)
    assert_type(statistics["num_unindexed_rows"], int)
    assert_type(statistics["segments"][0]["partitions"][0]["size"], int)
    statistics["num_rows"]  # type: ignore[typeddict-item]
    assert_type(dataset.list_indices()[0]["fragment_ids"], set[int])
    kinds: dict[str, Any] = dict(dataset.list_indices()[0])  # still a dict
    return [kinds["type"]]


async def progress(dataset: alance.Dataset) -> None:
    """A function of an event, or True."""

    def show(event: alance.Progress) -> None:
        assert_type(event.total, int | None)

    await dataset.add_columns({"x": "1"}, progress=show)
    await dataset.optimize.compact_files(progress=True)
    await dataset.insert({"id": [1]}, progress=lambda event: event.rows)  # type: ignore[attr-defined]
    await dataset.maintain(progress="bar")  # type: ignore[arg-type]


async def changes(uri: str, data: Data) -> list[VersionInfo]:
    """Verbs take how they are committed."""
    dataset = await alance.write_dataset(data, uri, mode="create", message="first")
    dataset = await dataset.insert(data, max_retries=3)
    dataset = await dataset.delete("id = 3", properties={"job": "a"}, message="clean")
    dataset = await dataset.update({"v": "v + 1"}, "id = 4", message="raise")
    dataset = await dataset.optimize.compact_files(target_rows_per_fragment=1 << 20)
    await dataset.delete("id = 3", mesage="clean")  # type: ignore[call-arg]
    await dataset.optimize.compact_files(rows=3)  # type: ignore[call-arg]
    stats = await dataset.cleanup_old_versions(timedelta(days=7), dry_run=True)
    assert_type(stats, CleanupStats)
    transaction: Transaction | None = await dataset.read_transaction()
    assert transaction is not None
    return await dataset.versions()


async def distributed_write(dataset: alance.Dataset, data: Data) -> alance.Dataset:
    """Append as an engine does: many write fragments, one commits."""
    fragments: list[DataFragment] = await alance.write_fragments(data, dataset)
    properties = distributed.producer_properties("job", 1)
    operation = alance.operations.Append(tuple(fragments))
    try:
        return await alance.commit(dataset, operation, properties=properties)
    except alance.AlanceError as error:
        if not distributed.may_be_visible(error):
            await distributed.remove_data_files(dataset.uri, fragments)
        raise


def blocking(uri: str) -> pa.Table:
    """The same names without `await`."""
    dataset = alance.sync.dataset(uri)
    assert_type(dataset, alance.sync.Dataset)
    for batch in dataset.to_batches(filter="id > 5"):
        assert batch.num_rows
    dataset.to_table(fliter="id > 5")  # type: ignore[call-arg]
    options: ScanArguments = {"filter": "price > 10", "limit": 5}
    dataset.to_table(["id"], **options)
    return dataset.to_reader(["id"], limit=3).read_all()


async def credentials() -> dict[str, str]:
    """Return credentials, as a provider."""
    return {"access_key_id": "a", "secret_access_key": "b"}


class Lances:
    """A provider as Lance has them."""

    def fetch_storage_options(self) -> dict[str, str]:
        """Return credentials."""
        return {"access_key_id": "a", "secret_access_key": "b"}


async def service(uri: str) -> str:
    """Providers among the options and in their place; observers."""
    await alance.dataset(uri, storage_options=credentials)
    await alance.dataset(uri, storage_options=Lances())
    options = {"region": "x", "credentials": credentials}
    await alance.dataset(uri, storage_options=options)
    await alance.dataset(uri, storage_options=5)  # type: ignore[arg-type]
    metrics = alance.observe.Metrics()
    alance.observe.add(metrics)
    alance.observe.add(alance.observe.OpenTelemetry(spans=False))
    assert_type(alance.observe.readings(), list[alance.observe.Reading])
    return metrics.text()
