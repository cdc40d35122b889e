"""Methods that pass a dataset to other engines."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from alance.base.deferred import Deferred
from alance.io.loop.generators import outermost
from alance.verbs.base import Handle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import polars as pl
    import pyarrow as pa

    from alance.datasets import Dataset
    from alance.engines import arrow, lazy, sql
    from alance.ops.read import blob_bytes
    from alance.ops.version.conditions import Params
else:
    blob_bytes = Deferred("alance.ops.read.blob_bytes")  # engines read blobs as bytes
    arrow = Deferred("alance.engines.arrow")
    lazy = Deferred("alance.engines.lazy")
    sql = Deferred("alance.engines.sql")


class EngineVerbs(Handle):
    """Run SQL by DuckDB, and pass datasets to DuckDB, Polars and others; see docs/engines.md."""

    __slots__ = ()

    async def sql(
        self,
        query: str,
        *,
        params: Params = None,
        tables: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> pa.Table:
        """Run a SQL query by DuckDB, in a thread; the dataset is the table `dataset`.

        Cost: for each occurrence of a dataset in the query, a scan with the columns and filters
        that DuckDB pushes down. Memory: the result, and DuckDB's own memory, which `settings` can
        limit.

        Example:

            counts = await dataset.sql("select kind, count(*) n from dataset group by kind")
            assert sorted(counts["n"].to_pylist()) == [33, 33, 34]

        Args:
            query: a query in DuckDB's SQL.
            params: values for `?` in order, or a mapping for `$name`.
            tables: other tables by their names in the query: datasets, Arrow tables and readers,
                frames of pandas and Polars.
            settings: settings of DuckDB, such as `{"memory_limit": "1GB", "threads": 2}`. Queries
                read only tables; `{"enable_external_access": True}` lets them read files as well.

        Raises:
            InvalidInputError: bad SQL, an unknown column, values that cannot be cast, a table or a
                setting that DuckDB refuses; or as from scans.
            MissingPackageError: DuckDB is not installed.
        """
        await self._load(sql, blob_bytes)
        return await sql.sql_table(cast("Dataset", self), query, params, tables, settings)

    @outermost
    async def sql_batches(
        self,
        query: str,
        *,
        params: Params = None,
        tables: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Run a SQL query by DuckDB as a stream of batches.

        A result without rows is one empty batch. Closing the iterator ends the query.

        Cost: as `sql`. Memory: a batch, and DuckDB's own memory, which `settings` can limit.

        Args:
            query, params, tables, settings: as for `sql`.

        Raises:
            InvalidInputError, MissingPackageError: as from `sql`.
        """
        await self._load(sql, blob_bytes)
        batches = sql.sql_batches(cast("Dataset", self), query, params, tables, settings)
        async with aclosing(batches):
            async for batch in batches:
                yield batch

    async def to_arrow_dataset(self) -> pa.dataset.Dataset:
        """Return this version as a pyarrow dataset, for engines such as DuckDB and Polars.

        The engine's columns and filters become a scan in this event loop. The loop has to keep
        running meanwhile, so call engines by `asyncio.to_thread`. Blob columns are read as bytes.

        Cost: no request before the engine reads.
        """
        await self._load(arrow, blob_bytes)
        dataset = cast("Dataset", self)
        await arrow.describe_columns([dataset])
        return arrow.ArrowDataset(dataset)

    async def to_polars_lazy(self) -> pl.LazyFrame:
        """Return this version as a lazy frame of Polars.

        Columns, limits and those predicates that SQL can express become a scan in this event loop:
        collect by `await frame.collect_async()`, or in a thread.

        Cost: no request before the frame is collected.

        Raises:
            MissingPackageError: Polars is not installed.
        """
        await self._load(lazy, blob_bytes)
        return lazy.lazy_frame(cast("Dataset", self))
