"""Reads of scalar index files (page tables, pages, keys, row sets) through the search cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar, cast

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.errors import CorruptFileError
from alance.expr.compare import float_values, total_order
from alance.expr.pruning_sets import whole_numbers
from alance.expr.tree import plain
from alance.file.rows.fragment import open_fragment
from alance.file.rows.whole import group_key, read_together, rows_of
from alance.format.index import bitmap, btree
from alance.format.index.btree import parse_page_table, split_pages
from alance.format.numbers import array_bytes, as_mask, as_numbers, to_arrow
from alance.format.row_set import RowSet
from alance.io.loop.tasks import all_of
from alance.ops.version.index_files import opened_files

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from alance.base.arrays import Int64s
    from alance.file.open.plain import PlainFile
    from alance.file.rows.fragment import OpenFragment
    from alance.file.rows.tasks import FragmentTask
    from alance.file.rows.whole import WholeRows
    from alance.format.index.bitmap import KeyedSets
    from alance.format.index.btree import PageTable, TreePage
    from alance.format.plans import Plan
    from alance.format.table.indices import Index
    from alance.ops.version.snapshot import Snapshot


T = TypeVar("T")
GUESSED_ROWS: Final = 16 << 10
CACHED_PAGES: Final = 256  # most pages per question that are cached, as for a list of 256 keys
CACHED_SETS: Final = 64  # maximum number of row sets per question that are cached


class IndexFiles:
    """Files of one segment of an index.

    Attributes:
        where: location of the segment's folder, with a trailing `/`; used in cache keys.
        index: record of the segment.
        name: name of the index.
    """

    __slots__ = ("_snapshot", "index", "name", "where")

    def __init__(self, snapshot: Snapshot, index: Index) -> None:
        self._snapshot = snapshot
        self.index = index
        self.name = index.name
        self.where = snapshot.table.index_folder(snapshot.manifest, index)

    async def page_table(self) -> PageTable:
        """Return the page table of a B-tree.

        Cost: one round with a GET for each file, once; another round for a large page table.

        Raises:
            CorruptFileError: the page table does not match the files.
        """

        async def load() -> PageTable:
            paths = [file.path for file in self.index.message.files]
            names = [name for name in paths if name.endswith(btree.DATA_FILE)] or [btree.DATA_FILE]
            lookup, *data = await self._open(btree.LOOKUP_FILE, *names)
            num_rows = {name: file.num_rows for name, file in zip(names, data, strict=True)}

            def parse(batch: pa.RecordBatch) -> PageTable:
                return parse_page_table(batch, lookup.schema.metadata, num_rows)

            return await self._rows(lookup, [(0, lookup.num_rows)], parse, btree.LOOKUP_COLUMNS)

        return await self._snapshot.engine.cache.get(
            ("page table", self.where),
            load,
            lambda table: table.num_bytes,
            is_near=not self._snapshot.is_remote,
        )

    async def pages(self, table: PageTable, numbers: Sequence[int]) -> list[TreePage]:
        """Return pages of a B-tree. Cost: one round; none for cached pages.

        Args:
            numbers: page numbers, ascending.

        Raises:
            CorruptFileError: the rows do not match the page table.
        """
        cache = self._snapshot.engine.cache
        keys = [("index page", self.where, number) for number in numbers]
        pages: list[TreePage | None] = [cache.peek(key) for key in keys]
        missing = [at for at, page in enumerate(pages) if page is None]
        if missing:
            spans: dict[str, list[tuple[int, int]]] = {}
            absent: dict[str, list[int]] = {}
            for at in missing:
                name, start, stop = table.place_of(numbers[at])
                spans.setdefault(name, []).append((start, stop))
                absent.setdefault(name, []).append(numbers[at])
            files = await self._open(*absent)

            def reading(name: str, data: PlainFile) -> Awaitable[list[TreePage]]:
                of_file = np.array(absent[name], np.int64)
                return self._rows(data, spans[name], lambda batch: _pages_of(table, of_file, batch))

            parts = await all_of(map(reading, absent, files))
            read = (page for part in parts for page in part)  # in the order of the files
            for at, page in zip(missing, read, strict=True):
                pages[at] = page
                if len(missing) <= CACHED_PAGES:
                    cache.put(keys[at], page, page.num_bytes)
        return cast("list[TreePage]", pages)

    async def keys(self, form: KeyedSets = bitmap.ROW_SETS) -> pa.Array:
        """Return the keys of an index. Cost: one GET for a small file, two rounds for a large one.

        Raises:
            CorruptFileError: the file has other columns, or its keys are not in order.
        """

        async def load() -> pa.Array:
            (file,) = await self._open(form.file)
            if file.schema.to_arrow().names != [form.keys, form.sets]:
                raise CorruptFileError(f"{form.file}: columns {file.schema.to_arrow().names}")

            def checked(batch: pa.RecordBatch) -> pa.RecordBatch:
                check_order(batch.column(0), form.keys, distinct=True)
                return batch

            # A small file is read whole, so its row sets are cached, too.
            columns = None if file.container.is_whole else [form.keys]
            batch = await self._rows(file, [(0, file.num_rows)], checked, columns)
            if columns is None:
                self._snapshot.engine.cache.put(
                    ("index sets", self.where), batch.column(1), 200 + batch.column(1).nbytes
                )
            return batch.column(0)

        return await self._snapshot.engine.cache.get(
            ("index keys", self.where),
            load,
            lambda keys: 200 + array_bytes(keys),
            is_near=not self._snapshot.is_remote,
        )

    async def row_sets(
        self, places: Sequence[int], form: KeyedSets = bitmap.ROW_SETS
    ) -> list[RowSet]:
        """Return the row sets of keys, by their positions. Cost: one round; none for a small file.

        Raises:
            CorruptFileError: the bytes are not a row set.
        """
        cache = self._snapshot.engine.cache
        sets: dict[int, RowSet] = {}
        for place in places:
            rows: RowSet | None = cache.peek(("row set", self.where, place))
            if rows is not None:
                sets[place] = rows
        missing = [place for place in places if place not in sets]
        if missing:
            read = await self._read_sets(np.array(missing, np.int64), form)
            for place, (rows, num_bytes) in zip(missing, read, strict=True):
                sets[place] = rows
                if len(missing) <= CACHED_SETS:
                    cache.put(("row set", self.where, place), rows, 300 + 2 * num_bytes)
        return [sets[place] for place in places]

    async def joined(self, sets: Sequence[RowSet]) -> RowSet:
        """Return the union of row sets, built in a thread if there are many."""
        run = self._snapshot.engine.pool.run
        return await run(lambda: RowSet.union(sets), inline=len(sets) <= CACHED_SETS)

    async def _read_sets(self, places: Int64s, form: KeyedSets) -> list[tuple[RowSet, int]]:
        """Return the row sets of keys, each with its size in the file in bytes."""
        engine = self._snapshot.engine

        def parsed(column: pa.Array) -> list[tuple[RowSet, int]]:
            if column.null_count or not pa.types.is_binary(column.type):
                raise CorruptFileError(f"{form.file}: row sets of type {column.type}, or null")
            contents = [memoryview(rows.as_buffer()) for rows in column]
            return [(form.parse(content), len(content)) for content in contents]

        sets: pa.Array | None = engine.cache.peek(("index sets", self.where))
        if sets is not None:
            column = sets.take(to_arrow(places))
            return await engine.decode(lambda: parsed(column), column.nbytes)
        (file,) = await self._open(form.file)
        spans = [(place, place + 1) for place in places.tolist()]
        return await self._rows(file, spans, lambda batch: parsed(batch.column(0)), [form.sets])

    async def whole(self, name: str, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return all rows of a small file. Cost: usually one GET; two rounds for a larger file.

        Args:
            columns: columns to read; None for all.

        Raises:
            CorruptFileError: the file lacks a column.
        """
        (file,) = await self._open(name)
        missing = set(columns or ()) - set(file.schema.to_arrow().names)
        if missing:
            raise CorruptFileError(f"{name}: no columns {sorted(missing)}")
        return await self._rows(file, [(0, file.num_rows)], lambda batch: batch, columns)

    async def parsed(self, name: str, parse: Callable[[pa.RecordBatch, Mapping[str, str]], T]) -> T:
        """Return the result of `parse` on all rows and the metadata of a file.

        Cost: one GET for a small file, two rounds for a larger one.

        Args:
            parse: CPU work.
        """
        (file,) = await self._open(name)
        metadata = file.schema.metadata
        if not file.num_rows:
            return parse(pa.RecordBatch.from_pylist([], file.schema.to_arrow()), metadata)
        return await self._rows(file, [(0, file.num_rows)], lambda batch: parse(batch, metadata))

    async def head(self, name: str) -> tuple[int, Mapping[str, str]]:
        """Return the number of rows of a file and its schema's metadata. Cost: one GET, once."""
        (file,) = await self._open(name)
        return file.num_rows, file.schema.metadata

    async def part(self, name: str, column: str, start: int, stop: int) -> pa.Array:
        """Return a range of rows of a column, through the search cache. Cost: one round."""

        async def load() -> pa.Array:
            (file,) = await self._open(name)
            span = [(start, min(stop, file.num_rows))]
            return await self._rows(file, span, lambda batch: batch.column(0), [column])

        return await self._snapshot.engine.cache.get(
            ("index part", self.where, column, start, stop), load, lambda part: 200 + part.nbytes
        )

    async def _open(self, *names: str) -> list[PlainFile]:
        return await opened_files(self._snapshot, self.index, names, self.where)

    async def _rows(
        self,
        file: PlainFile,
        spans: Sequence[tuple[int, int]],
        parse: Callable[[pa.RecordBatch], T],
        columns: Sequence[str] | None = None,
    ) -> T:
        """Return the result of `parse` on ascending spans of rows.

        Cost: one round; two if the positions of pages are unknown.

        Args:
            parse: CPU work of some microseconds per span.
        """
        engine = self._snapshot.engine
        spans = [(start, stop) for start, stop in spans if start < stop]
        num_rows = sum([stop - start for start, stop in spans])
        container = file.container
        if container.is_whole and 0 < num_rows == file.num_rows:
            return await engine.decode(
                lambda: parse(rows_of(file, container.content, columns)), file.source.file_bytes
            )
        # For few rows, a take guesses their position in the file, which saves a round.
        is_remote = self._snapshot.is_remote
        is_few = is_remote and 0 < num_rows <= min(GUESSED_ROWS, file.num_rows // 4)
        key = ("index rows", file.source.location, columns and tuple(columns))

        def plan() -> Plan[tuple[FragmentTask | WholeRows, int]]:
            opened: OpenFragment | None = engine.cache.peek(key)
            if opened is None:
                schema = file.schema if columns is None else file.schema.project(columns)
                sources = [file.source]
                opened = yield from open_fragment(schema, sources, file.num_rows, engine.cache)
            if num_rows == file.num_rows and group_key(opened) is not None:
                # Without page states, which saves a round of reads and 50 calls of Python.
                return (yield from read_together([opened])), opened.encoded_bytes
            if is_few or num_rows == len(spans):
                rows = np.concatenate([np.arange(*span) for span in spans])
                task = yield from opened.take(rows, engine.cache, guess=is_remote)
            else:
                task = yield from opened.read_spans(spans, engine.cache)
            if opened.has_grown:
                opened.has_grown = False
                engine.cache.put(key, opened, opened.num_bytes)
            return task, task.num_bytes

        task, num_bytes = await engine.drive(plan(), "index", bulk=num_rows > GUESSED_ROWS)
        return await engine.decode(lambda: parse(task.decode()), num_bytes)


def _pages_of(table: PageTable, numbers: Int64s, batch: pa.RecordBatch) -> list[TreePage]:
    """Build the pages of a B-tree from their consecutive rows. CPU work.

    Raises:
        CorruptFileError: the rows do not match the page table.
    """
    if batch.schema.names != [btree.VALUES_COLUMN, btree.IDS]:
        raise CorruptFileError(f"B-tree index: columns {batch.schema.names} of a page")
    values, ids = batch.columns
    if ids.type != pa.uint64() or ids.null_count:
        raise CorruptFileError(f"B-tree index: row numbers of type {ids.type}, or null")
    what = f"page {numbers[0]}" if len(numbers) == 1 else f"pages {numbers[0]} to {numbers[-1]}"
    if values.type != table.low.type:
        raise CorruptFileError(
            f"B-tree index: {what} of {values.type}, its table says {table.low.type}"
        )
    check_order(values, what)
    sizes = table.starts[numbers + 1] - table.starts[numbers]
    stops = sizes.cumsum()
    nulls = np.minimum(np.maximum(values.null_count - (stops - sizes), 0), sizes)
    if (nulls != table.null_counts[numbers]).any():
        raise CorruptFileError(f"B-tree index: other nulls in {what} than its table says")
    for ends, bounds in ((stops - sizes, table.low), (stops - 1, table.high)):
        if not _are_equal(_at(values, ends), _at(bounds, numbers)):
            raise CorruptFileError(f"B-tree index: {what} not as its table says")
    return split_pages(values, as_numbers(ids).view(np.int64), sizes)


def _at(values: pa.Array, places: Int64s) -> pa.Array:
    return values.slice(places[0], 1) if len(places) == 1 else values.take(to_arrow(places))


def sort_key(values: pa.Array) -> pa.Array:
    """Map values so that Arrow sorts them like an index: for floats, -NaN first and NaN last."""
    return total_order(values) if pa.types.is_floating(values.type) else values


def check_order(values: pa.Array, what: str, *, distinct: bool = False) -> None:
    """Check that values are in the order of an index, nulls first.

    Args:
        what: name of the values, for the error message.
        distinct: True if no value may occur twice.

    Raises:
        CorruptFileError: the values are not in order.
    """
    nulls = values.null_count
    keys = plain(values).slice(nulls)
    numbers = whole_numbers(keys)
    if numbers is not None and not keys.null_count:
        before, after = numbers[:-1], numbers[1:]
        is_wrong = bool((np.greater_equal if distinct else np.greater)(before, after).any())
    else:
        is_wrong = _is_out_of_order(keys, distinct)
    if is_wrong or (distinct and nulls > 1):
        raise CorruptFileError(f"index: {what} of type {values.type} not in order")


def _is_out_of_order(keys: pa.Array, distinct: bool) -> bool:
    keys = sort_key(keys)
    if pa.types.is_fixed_size_binary(keys.type):
        keys = keys.cast(pa.binary())
    before, after = keys.slice(0, max(0, len(keys) - 1)), keys.slice(1)
    wrong = (pc.greater_equal if distinct else pc.greater)(before, after)
    return bool(keys.null_count or pc.any(wrong).as_py())


def _are_equal(left: pa.Array, right: pa.Array) -> bool:
    """Return True if values are equal; all NaNs are equal."""
    if left.equals(right) or not pa.types.is_floating(left.type):
        return bool(left.equals(right))
    valid = as_mask(left.is_valid())
    ours, theirs = float_values(left), float_values(right)
    is_equal = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    return np.array_equal(valid, as_mask(right.is_valid())) and bool(is_equal[valid].all())
