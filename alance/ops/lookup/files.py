"""The files of scalar indices: page tables, pages, keys, row sets, through the search cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance.errors import CorruptFileError
from alance.expr.compare import total_order
from alance.expr.tree import plain
from alance.file.fragment import open_fragment
from alance.file.plain import open_plain
from alance.format.index import bitmap, btree
from alance.format.index.addresses import parse_rows
from alance.format.index.btree import PageTable, parse_page_table
from alance.format.numbers import as_numbers
from alance.format.plans import together
from alance.io.tasks import all_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Int64s
    from alance.file.fragment import FragmentTask
    from alance.file.plain import PlainFile
    from alance.format.plans import Plan
    from alance.format.table.indices import Index
    from alance.ops.version.snapshot import Snapshot

    Page = tuple[pa.Array, Int64s]

T = TypeVar("T")
GUESSED_ROWS: Final = 16 << 10
KEPT_PAGES: Final = 64  # pages of one question that are kept in memory


class IndexFiles:
    """The files of one segment of an index."""

    __slots__ = ("_index", "_sizes", "_snapshot", "_where")

    def __init__(self, snapshot: Snapshot, index: Index) -> None:
        self._snapshot = snapshot
        self._index = index
        self._where = snapshot.table.index_file(snapshot.manifest, index, bitmap.FILE)
        self._sizes = {one.path: one.size_bytes for one in index.message.files}

    async def page_table(self) -> PageTable:
        """The page table of a B-tree. Cost: one round of two GETs, once.

        Raises:
            CorruptFileError: pages that are not there, or are left out.
            UnsupportedError: pages in several files.
        """

        async def load() -> PageTable:
            lookup, data = await self._open(btree.LOOKUP_FILE, btree.DATA_FILE)
            batch = await self._rows(lookup, [(0, lookup.num_rows)], btree.LOOKUP_COLUMNS)
            return parse_page_table(batch[0], lookup.schema.metadata, data.num_rows)

        return await self._snapshot.engine.cache.get(
            ("page table", self._where), load, lambda found: found.num_bytes
        )

    async def pages(self, table: PageTable, wanted: Sequence[int]) -> list[Page]:
        """The values and row numbers of pages, in their order. Cost: one round.

        Raises:
            CorruptFileError: rows that are not those of the page table.
        """
        cache = self._snapshot.engine.cache
        found: dict[int, Page] = {}
        for page in wanted:
            known: Page | None = cache.peek(("index page", self._where, page))
            if known is not None:
                found[page] = known
        missing = [page for page in wanted if page not in found]
        if missing:
            (data,) = await self._open(btree.DATA_FILE)
            spans = [table.rows_of(page) for page in missing]
            batches = await self._rows(data, spans)

            def checked() -> list[Page]:
                return [self._page(table, *one) for one in zip(missing, batches, strict=True)]

            num_bytes = [int(batch.nbytes) for batch in batches]
            made = await self._snapshot.engine.decode(checked, sum(num_bytes))
            for page, one, size in zip(missing, made, num_bytes, strict=True):
                found[page] = one
                if len(missing) <= KEPT_PAGES:
                    cache.put(("index page", self._where, page), one, size)
        return [found[page] for page in wanted]

    def _page(self, table: PageTable, page: int, batch: pa.RecordBatch) -> Page:
        if batch.schema.names != [btree.VALUES, btree.IDS]:
            raise CorruptFileError(f"B-tree index: columns {batch.schema.names} of a page")
        values, ids = batch.columns
        if ids.type != pa.uint64() or ids.null_count:
            raise CorruptFileError(f"B-tree index: row numbers of type {ids.type}, or null")
        if values.null_count != table.null_counts[page] or values.type != table.low.type:
            raise CorruptFileError(
                f"B-tree index: page {page} has {values.null_count} nulls of {values.type}, its "
                f"table says {table.null_counts[page]} of {table.low.type}"
            )
        check_order(values, f"page {page}")
        for end, told in ((values[0], table.low[page]), (values[-1], table.high[page])):
            if not end.equals(told) and not _both_nan(end, told):
                raise CorruptFileError(f"B-tree index: page {page} is not as its table says")
        return values, as_numbers(ids).astype(np.int64)

    async def keys(self) -> pa.Array:
        """The values of a bitmap index. Cost: one GET of a small file; two rounds of a large one.

        Raises:
            CorruptFileError: not a file of a bitmap index.
        """

        async def load() -> pa.Array:
            (file,) = await self._open(bitmap.FILE)
            if file.schema.to_arrow().names != [bitmap.KEYS, bitmap.BITMAPS]:
                raise CorruptFileError(f"bitmap index: columns {file.schema.to_arrow().names}")
            (batch,) = await self._rows(file, [(0, file.num_rows)], [bitmap.KEYS])
            keys = batch.column(0)
            await self._snapshot.engine.decode(
                lambda: check_order(keys, "keys", distinct=True), int(keys.nbytes)
            )
            return keys

        return await self._snapshot.engine.cache.get(
            ("index keys", self._where), load, lambda keys: 200 + int(keys.nbytes)
        )

    async def row_sets(self, places: Int64s) -> list[Int64s]:
        """The row numbers of some keys, by their places. Cost: one round.

        Raises:
            CorruptFileError: bytes that are no row set.
        """
        cache = self._snapshot.engine.cache
        wanted = places.tolist()
        found: dict[int, Int64s] = {}
        for place in wanted:
            known: Int64s | None = cache.peek(("row set", self._where, place))
            if known is not None:
                found[place] = known
        missing = [place for place in wanted if place not in found]
        if missing:
            read = await self._read_sets(np.array(missing, np.int64))
            for place, rows in zip(missing, read, strict=True):
                found[place] = rows
                if len(missing) <= KEPT_PAGES:
                    cache.put(("row set", self._where, place), rows, 100 + rows.nbytes)
        return [found[place] for place in wanted]

    async def _read_sets(self, places: Int64s) -> list[Int64s]:
        engine = self._snapshot.engine
        (file,) = await self._open(bitmap.FILE)
        schema = file.schema.project([bitmap.BITMAPS])

        def plan() -> Plan[FragmentTask]:
            opened = yield from open_fragment(schema, [file.source], file.num_rows, engine.cache)
            return (yield from opened.take(places, engine.cache))

        def parse() -> list[Int64s]:
            column = task.decode().column(0)
            if column.null_count or not pa.types.is_binary(column.type):
                raise CorruptFileError(f"bitmap index: row sets of type {column.type}, or null")
            return [parse_rows(memoryview(one.as_buffer())) for one in column]

        task = await engine.drive(plan(), "index")
        return await engine.decode(parse, task.num_bytes)

    async def whole(self, name: str) -> pa.RecordBatch:
        """All rows of a small file. Cost: one GET, mostly; two rounds of a larger one."""
        (file,) = await self._open(name)
        return (await self._rows(file, [(0, file.num_rows)]))[0]

    async def _open(self, *names: str) -> list[PlainFile]:
        engine = self._snapshot.engine
        table, manifest = self._snapshot.table, self._snapshot.manifest

        async def sized(name: str) -> tuple[str, int]:
            location = table.index_file(manifest, self._index, name)
            size = self._sizes.get(name)
            if not size:
                size = await engine.scheduler.size(location, reason="file size")
                self._sizes[name] = size
            return location, size

        places = await all_of(sized(name) for name in names)
        plans: list[Plan[PlainFile]] = [open_plain(*place, engine.cache) for place in places]
        return await engine.drive(together(plans), "open index")

    async def _rows(
        self,
        file: PlainFile,
        spans: Sequence[tuple[int, int]],
        columns: Sequence[str] | None = None,
    ) -> list[pa.RecordBatch]:
        """The rows of spans; neighbours are read as one."""
        engine = self._snapshot.engine
        schema = file.schema if columns is None else file.schema.project(columns)
        joined: list[list[int]] = []
        for start, stop in spans:
            if joined and joined[-1][1] == start:
                joined[-1][1] = stop
            else:
                joined.append([start, stop])

        def plan() -> Plan[list[FragmentTask]]:
            opened = yield from open_fragment(schema, [file.source], file.num_rows, engine.cache)
            plans: list[Plan[FragmentTask]] = [
                opened.take(np.arange(start, stop), engine.cache, guess=True)
                if is_few
                else opened.read(start, stop, engine.cache)
                for start, stop in joined
            ]
            return (yield from together(plans))

        def decode() -> list[pa.RecordBatch]:
            batches = [task.decode() for task in tasks]
            starts, found, place = [one[0] for one in joined], [], 0
            for start, stop in spans:
                while stop > joined[place][1]:
                    place += 1
                found.append(batches[place].slice(start - starts[place], stop - start))
            return found

        # Of few rows it is guessed where in the file they are, which saves a round.
        num_rows = sum(stop - start for start, stop in joined)
        is_few = self._snapshot.is_remote and num_rows <= min(GUESSED_ROWS, file.num_rows // 4)
        tasks = await engine.drive(plan(), "index", bulk=True)
        return await engine.decode(decode, sum(task.num_bytes for task in tasks))


def sort_key(values: pa.Array) -> pa.Array:
    """Values that Arrow sorts as an index does: floats in total order, -NaN first, NaN last."""
    return total_order(values) if pa.types.is_floating(values.type) else values


def check_order(values: pa.Array, what: str, *, distinct: bool = False) -> None:
    """Check that values are in the order of an index: nulls first.

    Raises:
        CorruptFileError: they are not.
    """
    nulls = values.null_count
    keys = sort_key(plain(values).slice(nulls))
    if pa.types.is_fixed_size_binary(keys.type):
        keys = keys.cast(pa.binary())
    one, other = keys.slice(0, max(0, len(keys) - 1)), keys.slice(1)
    wrong = (pc.greater_equal if distinct else pc.greater)(one, other)
    if keys.null_count or (distinct and nulls > 1) or pc.any(wrong).as_py():
        raise CorruptFileError(f"index: {what} of type {values.type} not in order")


def _both_nan(one: pa.Scalar, other: pa.Scalar) -> bool:
    if not pa.types.is_floating(one.type) or not one.is_valid or not other.is_valid:
        return False
    return bool(np.isnan(one.as_py()) and np.isnan(other.as_py()))
