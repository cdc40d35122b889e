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
from alance.format.index.btree import PageTable, TreePage, parse_page_table
from alance.format.numbers import as_numbers
from alance.format.plans import together
from alance.io.tasks import all_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Int64s
    from alance.file.fragment import FragmentTask
    from alance.file.plain import PlainFile
    from alance.format.plans import Plan
    from alance.format.row_set import RowSet
    from alance.format.table.indices import Index
    from alance.ops.version.snapshot import Snapshot


T = TypeVar("T")
GUESSED_ROWS: Final = 16 << 10
KEPT_PAGES: Final = 256  # pages of one question that are kept in memory: a list of so many keys
KEPT_SETS: Final = 64  # row sets of one question that are kept


class IndexFiles:
    """The files of one segment of an index."""

    __slots__ = ("_index", "_sizes", "_snapshot", "where")

    def __init__(self, snapshot: Snapshot, index: Index) -> None:
        self._snapshot = snapshot
        self._index = index
        self.where = snapshot.table.index_file(snapshot.manifest, index, bitmap.FILE)
        self._sizes = {file.path: file.size_bytes for file in index.message.files}

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
            ("page table", self.where), load, lambda table: table.num_bytes
        )

    async def pages(self, table: PageTable, numbers: Sequence[int]) -> list[TreePage]:
        """Pages of a B-tree. Cost: one round.

        Raises:
            CorruptFileError: rows that are not those of the page table.
        """
        cache = self._snapshot.engine.cache
        pages: dict[int, TreePage] = {}
        for number in numbers:
            page: TreePage | None = cache.peek(("index page", self.where, number))
            if page is not None:
                pages[number] = page
        missing = [number for number in numbers if number not in pages]
        if missing:
            (data,) = await self._open(btree.DATA_FILE)
            spans = [table.rows_of(number) for number in missing]
            batches = await self._rows(data, spans)

            def checked() -> list[TreePage]:
                return [self._page(table, *pair) for pair in zip(missing, batches, strict=True)]

            sizes = [200 + int(batch.nbytes) for batch in batches]
            read = await self._snapshot.engine.decode(checked, sum(sizes))
            for number, page, size in zip(missing, read, sizes, strict=True):
                pages[number] = page
                if len(missing) <= KEPT_PAGES:
                    cache.put(("index page", self.where, number), page, size)
        return [pages[number] for number in numbers]

    def _page(self, table: PageTable, page: int, batch: pa.RecordBatch) -> TreePage:
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
        return TreePage(values, as_numbers(ids).view(np.int64))

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
            ("index keys", self.where), load, lambda keys: 200 + int(keys.nbytes)
        )

    async def row_sets(self, places: Sequence[int]) -> list[RowSet]:
        """The row numbers of some keys, by their places. Cost: one round.

        Raises:
            CorruptFileError: bytes that are no row set.
        """
        cache = self._snapshot.engine.cache
        sets: dict[int, RowSet] = {}
        for place in places:
            rows: RowSet | None = cache.peek(("row set", self.where, place))
            if rows is not None:
                sets[place] = rows
        missing = [place for place in places if place not in sets]
        if missing:
            read = await self._read_sets(np.array(missing, np.int64))
            for place, (rows, num_bytes) in zip(missing, read, strict=True):
                sets[place] = rows
                if len(missing) <= KEPT_SETS:
                    cache.put(("row set", self.where, place), rows, 300 + 2 * num_bytes)
        return [sets[place] for place in places]

    async def _read_sets(self, places: Int64s) -> list[tuple[RowSet, int]]:
        """The row numbers of some keys, and the bytes that each set has in the file."""
        engine = self._snapshot.engine
        (file,) = await self._open(bitmap.FILE)
        schema = file.schema.project([bitmap.BITMAPS])

        def plan() -> Plan[FragmentTask]:
            opened = yield from open_fragment(schema, [file.source], file.num_rows, engine.cache)
            return (yield from opened.take(places, engine.cache))

        def parse() -> list[tuple[RowSet, int]]:
            column = task.decode().column(0)
            if column.null_count or not pa.types.is_binary(column.type):
                raise CorruptFileError(f"bitmap index: row sets of type {column.type}, or null")
            contents = [memoryview(rows.as_buffer()) for rows in column]
            return [(parse_rows(content), len(content)) for content in contents]

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
        """The rows of spans, which ascend: one alone as a range, several as rows that are taken."""
        engine = self._snapshot.engine
        schema = file.schema if columns is None else file.schema.project(columns)
        rows = np.concatenate([np.arange(*span) for span in spans])
        # Of few rows it is guessed where in the file they are, which saves a round.
        is_few = self._snapshot.is_remote and len(rows) <= min(GUESSED_ROWS, file.num_rows // 4)

        def plan() -> Plan[FragmentTask]:
            opened = yield from open_fragment(schema, [file.source], file.num_rows, engine.cache)
            if is_few or (len(rows) and len(rows) <= rows[-1] - rows[0]):
                return (yield from opened.take(rows, engine.cache, guess=is_few))
            return (yield from opened.read(spans[0][0], spans[-1][1], engine.cache))

        def decode() -> list[pa.RecordBatch]:
            batch = task.decode()
            ends = np.cumsum([stop - start for start, stop in spans]).tolist()
            return [
                batch.slice(end - stop + start, stop - start)
                for (start, stop), end in zip(spans, ends, strict=True)
            ]

        task = await engine.drive(plan(), "index", bulk=True)
        return await engine.decode(decode, task.num_bytes)


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
    before, after = keys.slice(0, max(0, len(keys) - 1)), keys.slice(1)
    wrong = (pc.greater_equal if distinct else pc.greater)(before, after)
    if keys.null_count or (distinct and nulls > 1) or pc.any(wrong).as_py():
        raise CorruptFileError(f"index: {what} of type {values.type} not in order")


def _both_nan(left: pa.Scalar, right: pa.Scalar) -> bool:
    if not pa.types.is_floating(left.type) or not left.is_valid or not right.is_valid:
        return False
    return bool(np.isnan(left.as_py()) and np.isnan(right.as_py()))
