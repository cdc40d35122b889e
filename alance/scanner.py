"""Scanner: a scan that is decided and not yet run."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, get_args

import pyarrow as pa

from alance.checks import check_choice
from alance.deferred import Deferred
from alance.errors import UnsupportedError
from alance.io import trace
from alance.io.generators import outermost
from alance.ops.read import count, ordering
from alance.ops.read.options import BlobMode, split_arguments
from alance.ops.read.plan import parsed
from alance.ops.read.scan import scanned
from alance.ops.read.window import cut_table
from alance.ops.version.first_use import load_readers
from alance.ops.version.options import GROUP_BYTES
from alance.ops.version.projection import ROW_ADDRESS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
    from typing import Any, Protocol, Unpack

    import pandas as pd
    import polars as pl

    from alance.format.field import Field
    from alance.io.pool import DecodePool
    from alance.ops.read import aggregate as aggregating
    from alance.ops.read import blob_bytes, explain, frames, scan_stats
    from alance.ops.read.blobs import BlobFile
    from alance.ops.read.explain import Explanation
    from alance.ops.read.options import FrameArguments, ScanOptions
    from alance.ops.search import explained as search_explain
    from alance.ops.search import nearest as search
    from alance.ops.search.text import explained as text_explain
    from alance.ops.search.text import results as text_search
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot

    class Scannable(Protocol):
        """A dataset, or a fragment of one."""

        @property
        def scanner(self) -> Callable[..., Scanner]:
            """Makes a scan of columns and options."""
else:
    aggregating = Deferred("alance.ops.read.aggregate")
    blob_bytes = Deferred("alance.ops.read.blob_bytes")
    explain = Deferred("alance.ops.read.explain")
    frames = Deferred("alance.ops.read.frames")
    scan_stats = Deferred("alance.ops.read.scan_stats")
    search = Deferred("alance.ops.search.nearest")
    search_explain = Deferred("alance.ops.search.explained")
    text_explain = Deferred("alance.ops.search.text.explained")
    text_search = Deferred("alance.ops.search.text.results")


class Scanner:
    """A scan of a dataset or fragment; each call runs it anew."""

    __slots__ = ("_columns", "_is_folded", "_options", "_snapshot")

    def __init__(self, snapshot: Snapshot, columns: Columns, options: ScanOptions) -> None:
        self._snapshot = snapshot
        self._columns = columns
        self._options = options
        self._is_folded = False

    @property
    def projected_schema(self) -> pa.Schema:
        """The Arrow schema of the batches.

        Raises:
            InvalidInputError: an unknown column or a bad expression.
        """
        if self._options.full_text_query is not None:
            schema = text_search.text_schema(self._snapshot, self._columns, self._options)
        elif self._options.nearest is not None:
            schema = search.search_schema(self._snapshot, self._columns, self._options)
        else:
            schema = ordering.output_schema(self._snapshot, self._columns, self._options)
        fields = self._blobs_as_bytes
        if not fields:
            return schema
        return blob_bytes.bytes_schema(schema, fields)

    async def _schema(self) -> pa.Schema:
        """`projected_schema`, without keeping the loop."""
        await self._load()
        return await parsed(self._snapshot, self._columns, lambda: self.projected_schema)

    async def _load(self) -> None:
        """Import what `projected_schema` parses with, so that it does not keep the loop."""
        await load_readers(self._snapshot, self._columns)
        if self._options.full_text_query is not None:
            await self._snapshot.engine.pool.load(text_search)
        elif self._options.nearest is not None:
            await self._snapshot.engine.pool.load(search)

    @property
    def _is_search(self) -> bool:
        return self._options.nearest is not None or self._options.full_text_query is not None

    async def _search(self, columns: Columns, options: ScanOptions) -> pa.Table:
        """The rows of a search."""
        snapshot = self._snapshot
        if options.full_text_query is not None:
            await snapshot.engine.pool.load(text_search)
            return await text_search.text_table(snapshot, columns, options)
        await snapshot.engine.pool.load(search)
        return await search.search_table(snapshot, columns, options)

    @property
    def _blobs_as_bytes(self) -> dict[str, Field]:
        if self._options.blob_handling != "all_binary":
            return {}
        return blob_bytes.blob_columns(self._snapshot, self._columns)

    @outermost
    async def to_batches(self) -> AsyncIterator[pa.RecordBatch]:
        """The batches, fetched and decoded ahead under the budgets of the options.

        Closing the iterator (or leaving `async for` early and closing it) cancels what is ahead.
        """
        blobs, options = self._blobs_as_bytes, self._options
        if not blobs:
            batches = self._scan(options)
        else:
            addressed = self._scan(replace(options, with_row_address=True))
            asked = self._asks_for_address
            batches = blob_bytes.with_bytes(self._snapshot, addressed, blobs, keep_address=asked)
        if options.scan_stats_callback is not None:
            await self._snapshot.engine.pool.load(scan_stats)
            batches = scan_stats.counted(batches, options.scan_stats_callback)
        async with aclosing(batches):
            async for batch in batches:
                yield batch

    async def _scan(self, options: ScanOptions) -> AsyncGenerator[pa.RecordBatch, None]:
        if self._is_search:
            table = await self._search(self._columns, options)
            for batch in cut_table(table, options):
                yield batch
            return
        if options.order_by and (await self._schema()).names:  # rows without columns are alike
            table = await ordering.sorted_table(self._snapshot, self._columns, options)
            for batch in cut_table(table, options):
                yield batch
            return
        is_large = self._is_folded and options.batch_size is None and options.limit is None
        rows = scanned(self._snapshot, self._columns, options, is_large=is_large)
        async with aclosing(rows) as batches:
            async for batch in batches:
                yield batch

    async def to_table(self) -> pa.Table:
        """All rows in memory."""
        batches = [batch async for batch in self.to_batches()]
        return pa.Table.from_batches(batches, schema=await self._schema())

    async def to_pandas(
        self, *, blob_mode: BlobMode = "lazy", **options: Unpack[FrameArguments]
    ) -> pd.DataFrame:
        """All rows as a DataFrame of pandas, which a thread makes of them.

        Cost: with files a HEAD for each whole object that rows name by URI.

        Args:
            blob_mode: `lazy` gives a `BlobFile` for each blob, `bytes` its content, `descriptions`
                where it is, as `to_table` has it. Nulls are None. Also for blobs inside of structs
                and lists. Scans with `blob_handling="all_binary"` give bytes.
            options: of pyarrow's `Table.to_pandas`.

        Raises:
            InvalidInputError: another `blob_mode`.
            UnsupportedError: pandas is not installed; `bytes` of blobs in maps or fixed-size lists.
        """
        return await self._frame(lambda file: file, blob_mode=blob_mode, **options)

    async def _frame(
        self,
        as_file: Callable[[BlobFile], object],
        *,
        blob_mode: BlobMode = "lazy",
        **options: Unpack[FrameArguments],
    ) -> pd.DataFrame:
        """As `to_pandas`, with what `as_file` makes of a blob in place of it."""
        check_choice("blob_mode", blob_mode, get_args(BlobMode))
        snapshot, pool = self._snapshot, self._snapshot.engine.pool
        await _load_optional(pool, "pandas")
        if blob_mode == "bytes" and self._options.blob_handling != "all_binary":
            scanned = Scanner(
                snapshot, self._columns, replace(self._options, blob_handling="all_binary")
            )
            return await scanned._frame(as_file, blob_mode=blob_mode, **options)
        fields: dict[str, Field] = {}
        if blob_mode == "lazy" and self._options.blob_handling != "all_binary":
            await pool.load(frames)
            fields = frames.file_columns(snapshot, self._columns)
        if not fields:
            return await pool.run(partial((await self.to_table()).to_pandas, **options))
        addressed = Scanner(snapshot, self._columns, replace(self._options, with_row_address=True))
        return await frames.frame_with_files(
            snapshot,
            await addressed.to_table(),
            fields,
            as_file,
            options,
            keep_address=self._asks_for_address,
        )

    @property
    def _asks_for_address(self) -> bool:
        return self._options.with_row_address or ROW_ADDRESS in (self._columns or ())

    async def to_polars(self) -> pl.DataFrame:
        """All rows as a DataFrame of Polars, which a thread makes of them.

        Raises:
            UnsupportedError: Polars is not installed.
        """
        pool = self._snapshot.engine.pool
        await _load_optional(pool, "polars")
        import polars as pl

        return await pool.run(partial(pl.DataFrame, await self.to_table()))

    async def count_rows(self) -> int:
        """The number of rows of the scan."""
        if self._is_search:
            return len(await self._search([], self._options))
        return await count.count_scanned(self._snapshot, self._options)

    async def aggregate(
        self,
        aggregates: Mapping[str, str],
        group_by: Columns = None,
        *,
        memory_bytes: int = GROUP_BYTES,
    ) -> pa.Table:
        """Aggregates of the rows of the scan, or of each group of them.

            await dataset.aggregate({"n": "count(*)", "total": "sum(price)"}, ["kind"])

        Nulls are not counted by `count(x)`, and have no part in the others, which are null where
        all values are. NaN is greater than all numbers. A sum of integers is int64 or uint64, one
        of floats float64, one of decimals has ten more digits; `avg` is float64, of decimals of 128
        bits a decimal of four more digits after the point.

        Cost: a scan of the columns that are named, in batches that are folded as they come.
        `count(*)` alone is a count. Without a filter, limit or group, `min` and `max` of columns
        of integers, texts, dates and times read only the zones that statistics name. Memory: that
        of a scan, 32 MiB of batches, and the groups; of many groups a quarter of `memory_bytes`
        of batches, and the groups three times.

        Args:
            aggregates: by name of the output, SQL text: `count(*)`, or `count`, `min`, `max`,
                `sum` or `avg` of an expression. Columns of the scan itself have no part in it.
            group_by: names or paths of columns, or SQL expressions by name; null is a group of its
                own. None: all rows are one group, also if there are none.
            memory_bytes: that groups may take.

        Returns:
            The groups, in any order: what they are grouped by, then the aggregates.

        Raises:
            InvalidInputError: an unknown column, bad SQL, values of a type that has no such
                aggregate, a sum that its type does not hold, more groups than `memory_bytes` hold.
            UnsupportedError: DISTINCT, and aggregates that only `Dataset.sql` has.
        """
        await load_readers(self._snapshot, {"": "true"})
        await self._snapshot.engine.pool.load(aggregating)
        return await aggregating.aggregate(
            self._snapshot, aggregates, group_by, self._options, self._rows, memory_bytes
        )

    def _rows(self, columns: Columns) -> Scanner:
        """The same scan of other columns, whose batches are only folded."""
        rows = Scanner(self._snapshot, columns, self._options)
        rows._is_folded = True
        return rows

    async def explain_plan(self, verbose: bool = False) -> str:
        """`explain` as a text.

        Args:
            verbose: accepted as in pylance, without effect: the text always has all details.
        """
        return str(await self.explain())

    async def analyze_plan(self, count_rows: bool = False) -> str:
        """Run the scan. The text has what `explain` says, and then what the run did: rows and
        batches; requests, bytes and time by reason; cache hits.

        The rows are dropped. `alance.trace` records each request of any code.

        Cost: that of `explain`, and of the scan.

        Args:
            count_rows: run `count_rows` instead.
        """
        explanation = await self.explain()
        with trace.trace() as recorder:
            counts = [await self.count_rows()] if count_rows else await self._counts()
        batches = "counted" if count_rows else f"in {len(counts):,} batches"
        ran = f"run: {sum(counts):,} rows {batches}"
        return "\n".join([str(explanation), ran, recorder.summary()])

    async def _counts(self) -> list[int]:
        """The rows of each batch."""
        return [batch.num_rows async for batch in self.to_batches()]

    async def explain(self) -> Explanation:
        """The requests, bytes, rounds, pages and rows that the scan would cost, and which columns
        it reads first and late. `print` shows it as text.

        Cost: footers, page tables and deletions that are not known yet are read; nothing is kept.
        """
        if self._options.full_text_query is not None:
            await self._snapshot.engine.pool.load(text_explain)
            return await text_explain.explain_text(self._snapshot, self._columns, self._options)
        if self._options.nearest is not None:
            await self._snapshot.engine.pool.load(search_explain)
            return await search_explain.explain_search(self._snapshot, self._columns, self._options)
        await self._snapshot.engine.pool.load(explain)
        return await explain.explain_scan(self._snapshot, self._columns, self._options)


async def _load_optional(pool: DecodePool, package: str) -> None:
    try:
        await pool.load(package)
    except ImportError as error:
        raise UnsupportedError(f"{package} is not installed: `pip install {package}`") from error


class Framed:
    """What `to_pandas` of both faces is made of, for what has scanners."""

    __slots__ = ()

    async def _frame(
        self: Scannable,
        as_file: Callable[[BlobFile], object],
        columns: Columns = None,
        *,
        blob_mode: BlobMode = "lazy",
        **options: Any,
    ) -> pd.DataFrame:
        """A scan as a DataFrame, with what `as_file` makes of a blob in place of it."""
        of_scan, of_frame = split_arguments(options)
        scanner = self.scanner(columns, **of_scan)
        return await scanner._frame(as_file, blob_mode=blob_mode, **of_frame)
