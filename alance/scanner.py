"""Scanner: a scan whose columns and options are set, but which has not run."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, get_args

import pyarrow as pa

from alance.base.calls import public
from alance.base.checks import check_choice
from alance.base.deferred import Deferred
from alance.base.hints import Hinted, no_use
from alance.errors import MissingPackageError
from alance.io.events import trace
from alance.io.loop.generators import outermost
from alance.ops.read import ordering
from alance.ops.read.aggregates import count
from alance.ops.read.options import BlobMode, described, split_arguments
from alance.ops.read.scan import cut_table, scanned
from alance.ops.version.first_use import load_readers, parsed
from alance.ops.version.options import GROUP_BYTES
from alance.ops.version.projection import ROW_ADDRESS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
    from types import ModuleType
    from typing import Any, Protocol, Unpack

    import pandas as pd
    import polars as pl

    from alance.format.field import Field
    from alance.io.reading.pool import DecodePool
    from alance.ops.read import blob_bytes, explain, frames, scan_stats
    from alance.ops.read.aggregates import aggregate as aggregating
    from alance.ops.read.blobs import BlobFile
    from alance.ops.read.explain import Explanation
    from alance.ops.read.options import FrameArguments, ScanOptions
    from alance.ops.search import explained as search_explain
    from alance.ops.search import nearest
    from alance.ops.search.text import explained as text_explain
    from alance.ops.search.text import search as text_search
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot

    class Scannable(Protocol):
        """Protocol of a dataset or a fragment."""

        @property
        def scanner(self) -> Callable[..., Scanner]:
            """Create a scan of columns and options."""
else:
    aggregating = Deferred("alance.ops.read.aggregates.aggregate")
    blob_bytes = Deferred("alance.ops.read.blob_bytes")
    explain = Deferred("alance.ops.read.explain")
    frames = Deferred("alance.ops.read.frames")
    scan_stats = Deferred("alance.ops.read.scan_stats")
    nearest = Deferred("alance.ops.search.nearest")
    search_explain = Deferred("alance.ops.search.explained")
    text_explain = Deferred("alance.ops.search.text.explained")
    text_search = Deferred("alance.ops.search.text.search")


def _search_of(module: ModuleType) -> Any:
    """Return the search of a module, which must be loaded."""
    return text_search.TEXT_SEARCH if module is text_search else nearest.NEAREST_SEARCH


@public
class Scanner(Hinted):
    """A scan of a dataset or fragment; each call runs the scan again."""

    __slots__ = ("_columns", "_is_folded", "_options", "_snapshot")

    def __init__(self, snapshot: Snapshot, columns: Columns, options: ScanOptions) -> None:
        self._snapshot = snapshot
        self._columns = columns
        self._options = options
        self._is_folded = False

    def __repr__(self) -> str:
        snapshot, columns = self._snapshot, "" if self._columns is None else f", {self._columns!r}"
        options = "".join(f", {text}" for text in described(self._options))
        return f"Scanner({snapshot.uri!r}, version={snapshot.version}{columns}{options})"

    @property
    def projected_schema(self) -> pa.Schema:
        """Arrow schema of the batches.

        Raises:
            InvalidInputError: an unknown column or a bad expression.
        """
        if (module := self._search_module) is not None:
            schema = _search_of(module).schema(self._snapshot, self._columns, self._options)
        else:
            schema = ordering.output_schema(self._snapshot, self._columns, self._options)
        fields = self._blobs_as_bytes
        if not fields:
            return schema
        return blob_bytes.bytes_schema(schema, fields)

    async def _schema(self) -> pa.Schema:
        """Return `projected_schema` without blocking the loop."""
        await self._load()
        return await parsed(self._snapshot, self._columns, lambda: self.projected_schema)

    async def _load(self) -> None:
        """Import the parsers that `projected_schema` needs, in the pool, so that it does not
        block.
        """
        await load_readers(self._snapshot, self._columns)
        if (module := self._search_module) is not None:
            await self._snapshot.engine.pool.load(module)

    @property
    def _search_module(self) -> ModuleType | None:
        """Return the module for the scan's kind of search; None if it is not a search."""
        if self._options.full_text_query is not None:
            return text_search
        return None if self._options.nearest is None else nearest

    async def _search(self, module: ModuleType, columns: Columns, options: ScanOptions) -> pa.Table:
        await self._snapshot.engine.pool.load(module)
        return await _search_of(module).table(self._snapshot, columns, options)

    async def _blobs(self) -> dict[str, Field]:
        """Return `_blobs_as_bytes` without blocking the loop."""
        if self._options.blob_handling != "all_binary":
            return {}
        return await parsed(self._snapshot, self._columns, lambda: self._blobs_as_bytes)

    @property
    def _blobs_as_bytes(self) -> dict[str, Field]:
        if self._options.blob_handling != "all_binary":
            return {}
        return blob_bytes.blob_columns(self._snapshot, self._columns)

    @outermost
    async def to_batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Stream the batches, fetched and decoded ahead within the budgets of the options.

        Closing the iterator cancels the reads ahead.

        Cost: a round of requests for uncached footers of fragments, and one for page tables outside
        the last 64 KiB of a file; then a round per span of rows, and one more for columns that are
        read late. Spans are read ahead within `io_buffer_bytes`, so that their rounds overlap. If
        an index is used, its reads come first: one round, or up to three if its head is not cached.
        Up to 128 rows of a `limit` without a filter cost a take of them. `explain` counts the
        requests.

        Raises:
            InvalidInputError: an unknown column, a bad filter or option.
            CorruptFileError: a file contradicts the format.
            StoreError: the store failed.
        """
        blobs, options = await self._blobs(), self._options
        if not blobs:
            batches = self._scan(options)
        else:
            addressed = self._scan(replace(options, with_row_address=True))
            keep_address = self._asks_for_address
            batches = blob_bytes.with_bytes(
                self._snapshot, addressed, blobs, keep_address=keep_address
            )
        if options.scan_stats_callback is not None:
            await self._snapshot.engine.pool.load(scan_stats)
            batches = scan_stats.counted(batches, options.scan_stats_callback)
        async with aclosing(batches):
            async for batch in batches:
                yield batch

    def _scan(self, options: ScanOptions) -> AsyncGenerator[pa.RecordBatch, None]:
        module = self._search_module
        if module is not None or options.order_by:
            return self._ordered(module, options)
        is_large = self._is_folded and options.batch_size is None and options.limit is None
        return scanned(self._snapshot, self._columns, options, is_large=is_large)

    async def _ordered(
        self, module: ModuleType | None, options: ScanOptions
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows of a search or of `order_by`.

        All rows are read into memory before the first batch, except rows without columns.
        """
        if module is not None:
            table = await self._search(module, self._columns, options)
        elif (await self._schema()).names:
            table = await ordering.sorted_table(self._snapshot, self._columns, options)
        else:  # rows without columns are all equal
            async with aclosing(self._scan(replace(options, order_by=None))) as batches:
                async for batch in batches:
                    yield batch
            return
        for batch in cut_table(table, options):
            yield batch

    async def to_table(self) -> pa.Table:
        """Read all rows into memory.

        Cost: as `to_batches`. Memory: the table, and the batches read ahead.

        Raises:
            InvalidInputError, CorruptFileError, StoreError: as from `to_batches`.
        """
        batches = [batch async for batch in self.to_batches()]
        # The batches lack the schema's metadata in part. The scan has imported what this needs.
        schema = await parsed(self._snapshot, self._columns, lambda: self.projected_schema)
        return pa.Table.from_batches(batches, schema=schema)

    async def to_pandas(
        self, *, blob_mode: BlobMode = "lazy", **options: Unpack[FrameArguments]
    ) -> pd.DataFrame:
        """Read all rows into a DataFrame of pandas, which is built in a thread.

        Cost: as `to_table`; with `lazy` also a HEAD for each whole object that rows name by URI.

        Args:
            blob_mode: `lazy` for a `BlobFile` per blob, `bytes` for its content, `descriptions` for
                the struct as in `to_table`; nulls are None. This includes blobs inside structs and
                lists. Scans with `blob_handling="all_binary"` always return bytes.
            options: options of pyarrow's `Table.to_pandas`.

        Raises:
            InvalidInputError: an unknown `blob_mode` or column, or a bad filter or option.
            MissingPackageError: pandas is not installed.
            UnsupportedError: `bytes` of blobs in maps or fixed-size lists.
            CorruptFileError, StoreError: as from `to_batches`.
        """
        return await self._frame(lambda file: file, blob_mode=blob_mode, **options)

    async def _frame(
        self,
        as_file: Callable[[BlobFile], object],
        *,
        blob_mode: BlobMode = "lazy",
        **options: Unpack[FrameArguments],
    ) -> pd.DataFrame:
        """Return the result of `to_pandas`, with `as_file` applied to each `BlobFile`."""
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
        """Read all rows into a DataFrame of Polars, which is built in a thread.

        Cost: as `to_table`.

        Raises:
            MissingPackageError: Polars is not installed.
            InvalidInputError, CorruptFileError, StoreError: as from `to_batches`.
        """
        pool = self._snapshot.engine.pool
        await _load_optional(pool, "polars")
        import polars as pl

        return await pool.run(partial(pl.DataFrame, await self.to_table()))

    async def count_rows(self) -> int:
        """Count the rows of the scan.

        Cost: no request if the manifest has the answer; only an index if that answers the filter;
        else a scan of the filter's columns. For a search, the search.

        Raises:
            InvalidInputError, CorruptFileError, StoreError: as from `to_batches`.
        """
        if (module := self._search_module) is not None:
            return len(await self._search(module, [], self._options))
        return await count.count_scanned(self._snapshot, self._options)

    async def aggregate(
        self,
        aggregates: Mapping[str, str],
        group_by: Columns = None,
        *,
        memory_bytes: int = GROUP_BYTES,
    ) -> pa.Table:
        """Aggregate the rows of the scan, or each group of rows.

        `count(x)` does not count nulls. The other aggregates ignore nulls, and are null if all
        values are null. NaN is greater than all numbers. A sum of integers is int64 or uint64, a
        sum of floats float64, a sum of decimals has ten more digits; `avg` is float64, but for
        decimals of 128 bits a decimal with four more decimal places.

        Cost: a scan of the used columns, in batches that are aggregated as they arrive. `count(*)`
        alone costs as much as `count_rows`. Without a filter, limit or group, `min` and `max` of
        columns of integers, texts, dates and times read only the zones that statistics select.
        Memory: that of a scan, 32 MiB of batches, and the groups; with many groups, batches of up
        to a quarter of `memory_bytes`, and three times the groups.

        Example:

            totals = await dataset.scanner(filter="price > 5").aggregate({"n": "count(*)"})
            assert totals["n"].to_pylist() == [49]

        Args:
            aggregates: SQL text by the name of the output column: `count(*)`, or `count`, `min`,
                `max`, `sum` or `avg` of an expression. The columns of the scan itself are ignored.
            group_by: names or paths of columns, or a mapping of names to SQL expressions; nulls
                form their own group. None: all rows are one group, even if there are no rows.
            memory_bytes: maximum bytes of the groups.

        Returns:
            The groups, in any order: the columns of `group_by`, then the aggregates.

        Raises:
            InvalidInputError: an unknown column, bad SQL, a type without such an aggregate, a sum
                that its type cannot hold, or more groups than fit in `memory_bytes`.
            UnsupportedError: DISTINCT, and aggregates that only `Dataset.sql` has.
        """
        await load_readers(self._snapshot, {"": "true"})
        await self._snapshot.engine.pool.load(aggregating)
        return await aggregating.aggregate(
            self._snapshot, aggregates, group_by, self._options, self._rows, memory_bytes
        )

    def _rows(self, columns: Columns) -> Scanner:
        """Return a scan with the same options over other columns, for an aggregation.

        Its batches may be large, because no caller sees them.
        """
        rows = Scanner(self._snapshot, columns, self._options)
        rows._is_folded = True
        return rows

    async def explain_plan(self, verbose: bool = False) -> str:
        """Return `explain` as a text.

        Cost: as `explain`.

        Args:
            verbose: accepted as in pylance, without effect: the text always has all details.

        Raises:
            InvalidInputError, CorruptFileError, StoreError: as from `explain`.
        """
        return str(await self.explain())

    async def analyze_plan(self, count_rows: bool = False) -> str:
        """Run the scan, drop its rows, and return a report.

        The text is that of `explain`, followed by measurements of the run: rows and batches;
        requests, bytes and time by reason; cache hits. For single requests, use `alance.trace`.

        Cost: that of `explain`, and that of the scan.

        Args:
            count_rows: True to run `count_rows` instead.

        Raises:
            InvalidInputError, CorruptFileError, StoreError: as from `to_batches`.
        """
        explanation = await self.explain()
        with trace.trace() as recorder:
            counts = [await self.count_rows()] if count_rows else await self._counts()
        batches = "counted" if count_rows else f"in {len(counts):,} batches"
        ran = f"run: {sum(counts):,} rows {batches}"
        return "\n".join([str(explanation), ran, recorder.summary()])

    async def _counts(self) -> list[int]:
        """Return the number of rows of each batch."""
        return [batch.num_rows async for batch in self.to_batches()]

    async def explain(self) -> Explanation:
        """Return the requests, bytes, rounds, pages and rows that the scan would cost.

        The result also has the columns that are read first and late. `print` shows it as text.

        Cost: a read of footers, page tables and deletion files that are not in the cache, which
        does not put them there; and a read of the parts of indices by which the scan would find its
        rows, which are then cached.

        Raises:
            InvalidInputError: an unknown column, a bad filter or option.
            CorruptFileError: a file contradicts the format.
            StoreError: the store failed.
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
        raise MissingPackageError(f"{package} is not installed: `pip install {package}`") from error


class Framed(Hinted):
    """`to_pandas` for classes with a `scanner` method, shared by the async and the blocking API."""

    __slots__ = ()

    if not TYPE_CHECKING:  # not of `Hinted`: scanners are data for writes, which may be iterables

        def __aiter__(self) -> Any:
            raise no_use(self, "async for")

    async def _frame(
        self: Scannable,
        as_file: Callable[[BlobFile], object],
        columns: Columns = None,
        *,
        blob_mode: BlobMode = "lazy",
        **options: Any,
    ) -> pd.DataFrame:
        """Scan into a DataFrame, with `as_file` applied to each `BlobFile`."""
        of_scan, of_frame = split_arguments(options)
        scanner = self.scanner(columns, **of_scan)
        return await scanner._frame(as_file, blob_mode=blob_mode, **of_frame)
