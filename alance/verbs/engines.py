"""Verbs that hand a dataset to other engines."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from alance.deferred import Deferred
from alance.io.generators import outermost
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
    blob_bytes = Deferred("alance.ops.read.blob_bytes")  # engines see blobs as their bytes
    arrow = Deferred("alance.engines.arrow")
    lazy = Deferred("alance.engines.lazy")
    sql = Deferred("alance.engines.sql")


class EngineVerbs(Handle):
    """SQL, and a dataset as what DuckDB, Polars and others read; see docs/engines.md."""

    __slots__ = ()

    async def sql(
        self,
        query: str,
        *,
        params: Params = None,
        tables: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> pa.Table:
        """The result of a query in SQL, run by DuckDB in a thread; the dataset is `dataset`.

        Cost: that of a scan of the columns and the filters that DuckDB pushes down for each place
        where a dataset stands in the query. Memory: the result, and what DuckDB needs, which
        `settings` bound.

        Args:
            query: in DuckDB's SQL, such as `select kind, count(*) from dataset group by kind`.
            params: values for its `?` in their order, or by name for `$name`.
            tables: other tables by the names that the query has for them: datasets, Arrow tables
                and readers, frames of pandas and Polars.
            settings: of DuckDB, such as `{"memory_limit": "1GB", "threads": 2}`. Queries reach
                tables alone; `{"enable_external_access": True}` lets them read files, too.

        Raises:
            InvalidInputError: bad SQL, an unknown column, values that do not cast, a table or a
                setting that DuckDB does not take; and whatever scans raise.
            UnsupportedError: DuckDB is not installed.
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
        """The result of a query as a stream of batches; arguments and errors are those of `sql`.

        A result without rows is one empty batch. Closing the iterator ends the query.
        """
        await self._load(sql, blob_bytes)
        batches = sql.sql_batches(cast("Dataset", self), query, params, tables, settings)
        async with aclosing(batches):
            async for batch in batches:
                yield batch

    async def to_arrow_dataset(self) -> pa.dataset.Dataset:
        """This version as a pyarrow dataset, for engines that read these: DuckDB, Polars, ...

        The columns and filters that they ask for are those of a scan, which runs in this event
        loop: it has to go on meanwhile, so call engines by `asyncio.to_thread`. Blob columns are
        given as their bytes. Nothing is read yet.
        """
        await self._load(arrow, blob_bytes)
        return arrow.ArrowDataset(cast("Dataset", self))

    async def to_polars_lazy(self) -> pl.LazyFrame:
        """This version as a lazy frame of Polars; nothing is read before it is collected.

        Columns, limits and what can be said of a predicate are those of a scan, which runs in
        this event loop: collect by `await frame.collect_async()`, or in a thread.

        Raises:
            UnsupportedError: Polars is not installed.
        """
        await self._load(lazy, blob_bytes)
        return lazy.lazy_frame(cast("Dataset", self))
