"""B-tree index: all values, sorted, with their rows, in pages of equal length.

`page_data.lance` has the columns `values` (of the indexed type, nulls first, floats in total order:
-NaN first, NaN last) and `ids` (uint64); `page_lookup.lance` has a row for each page: `min`, `max`,
`null_count` and `page_idx`. Its metadata entry `batch_size` is the number of rows per page.

If several processes merged the index by ranges of values, each range is a file
`part_N_page_data.lance`, whose last page may have fewer rows. Then `range_partitioned` is `true` in
the metadata of the page table, and `page_num_per_range_partition` lists `[N, pages]` for each file,
in the order of their values.

Source: what pylance 14.0.2 writes and reads.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.numbers import array_bytes, as_numbers, to_arrow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.base.arrays import Int64s

LOOKUP_FILE: Final = "page_lookup.lance"
DATA_FILE: Final = "page_data.lance"
PAGE_ROWS: Final = 4096
BATCH_SIZE: Final = "batch_size"
RANGE_PARTITIONED: Final = "range_partitioned"
FILE_PAGES: Final = "page_num_per_range_partition"
VALUES_COLUMN: Final = "values"
IDS: Final = "ids"
# Rows per zone of a page; evaluating 64 rows costs as much as pruning one zone.
FENCE_ROWS: Final = 64
LOOKUP_COLUMNS: Final = ("min", "max", "null_count", "page_idx")


@dataclass(frozen=True, slots=True)
class PageTable:
    """Page table of a B-tree. Rows are numbered consecutively over all files.

    Attributes:
        low: first value of each page; it may be null.
        high: last value of each page; it may be null.
        null_counts: number of nulls of each page; shape (pages,).
        starts: first row of each page, then the number of rows; shape (pages + 1,).
        file_starts: first row of each file.
    """

    low: pa.Array
    high: pa.Array
    null_counts: Int64s
    starts: Int64s
    files: tuple[str, ...] = (DATA_FILE,)
    file_starts: tuple[int, ...] = (0,)

    @property
    def num_pages(self) -> int:
        return len(self.null_counts)

    @property
    def num_bytes(self) -> int:
        values = array_bytes(self.low) + array_bytes(self.high)
        return 200 + values + self.null_counts.nbytes + self.starts.nbytes

    def place_of(self, page: int) -> tuple[str, int, int]:
        """Return the file of a page, and the page's first and end row in it."""
        start, stop = self.starts[page : page + 2].tolist()
        file = bisect_right(self.file_starts, start) - 1
        first = self.file_starts[file]
        return self.files[file], start - first, stop - first

    def num_rows_of(self, pages: Int64s) -> int:
        return int((self.starts[pages + 1] - self.starts[pages]).sum())

    def counts(self) -> Int64s:
        """Return the number of rows of each page; shape (pages,)."""
        return self.starts[1:] - self.starts[:-1]


@dataclass(frozen=True)
class TreePage:
    """A page of a B-tree.

    Attributes:
        values: sorted values, nulls first.
        ids: row id or address of each value, as stored in the index; shape (n,).
    """

    values: pa.Array
    ids: Int64s

    @cached_property
    def fences(self) -> PageTable:
        """Page table of zones of `FENCE_ROWS` rows within the page. Costs 20 us of CPU, once."""
        num_rows = len(self.ids)
        first = np.arange(0, num_rows, FENCE_ROWS)
        last = np.minimum(first + FENCE_ROWS, num_rows)
        low, high = (self.values.take(to_arrow(rows)) for rows in (first, last - 1))
        nulls = np.clip(self.values.null_count - first, 0, last - first)
        return PageTable(low, high, nulls, np.append(first, num_rows))

    @property
    def num_bytes(self) -> int:
        """Memory of the page and its zones in bytes, for the cache budget."""
        num_bytes = array_bytes(self.values)
        zone_bytes = 2 * num_bytes // max(1, len(self.ids)) + 8
        return 600 + num_bytes + self.ids.nbytes + -(-len(self.ids) // FENCE_ROWS) * zone_bytes


def split_pages(values: pa.Array, ids: Int64s, sizes: Int64s) -> list[TreePage]:
    """Split pages that were read together into pages with their own memory. CPU work."""
    if len(sizes) == 1:
        return [TreePage(values, ids)]
    stops = np.cumsum(sizes).tolist()
    # A copy, because a slice would keep all pages in memory.
    return [
        TreePage(pa.concat_arrays([values.slice(start, stop - start)]), ids[start:stop].copy())
        for start, stop in pairwise([0, *stops])
    ]


def parse_page_table(
    batch: pa.RecordBatch, metadata: Mapping[str, str], num_rows: Mapping[str, int]
) -> PageTable:
    """Parse the page table.

    Args:
        num_rows: number of rows of each file of pages.
    """
    text = metadata.get(BATCH_SIZE, str(PAGE_ROWS))
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 31:
        raise CorruptFileError(f"B-tree index: {BATCH_SIZE} {text!r}, expected a number of rows")
    page_rows = int(text)
    files = _files_of(metadata, num_rows, page_rows)
    expected = sum(pages for _, pages in files)
    missing = [name for name in LOOKUP_COLUMNS if batch.schema.get_field_index(name) < 0]
    if missing:
        raise CorruptFileError(f"B-tree index: the page table has no column {missing[0]!r}")
    numbers = [batch.column(name) for name in LOOKUP_COLUMNS[2:]]
    for column in numbers:
        if not pa.types.is_unsigned_integer(column.type) or column.null_count:
            raise CorruptFileError(f"B-tree index: page numbers of type {column.type}, or null")
    null_counts, places = (as_numbers(column).astype(np.int64) for column in numbers)
    low, high, numbers_in_order = batch.column("min"), batch.column("max"), np.arange(expected)
    if len(places) != expected or not (places == numbers_in_order).all():
        order = places.argsort(kind="stable")
        if len(places) != expected or not (places[order] == numbers_in_order).all():
            raise CorruptFileError(
                f"B-tree index: {len(places)} pages in the page table, {expected} in the data file"
            )
        indices = to_arrow(order)
        low, high, null_counts = low.take(indices), high.take(indices), null_counts[order]
    names = tuple([name for name, _ in files])
    firsts = [*accumulate([num_rows[name] for name in names], initial=0)]
    starts = [
        np.arange(first, first + pages * page_rows, page_rows)
        for first, (_, pages) in zip(firsts, files, strict=False)
    ]
    bounds = np.concatenate([*starts, firsts[-1:]])
    table = PageTable(low, high, null_counts, bounds, names, tuple(firsts[:-1]))
    if (null_counts > table.counts()).any():
        raise CorruptFileError("B-tree index: more nulls in a page than rows")
    return table


def _files_of(
    metadata: Mapping[str, str], num_rows: Mapping[str, int], page_rows: int
) -> list[tuple[str, int]]:
    """Return the page files in order, with the number of pages of each."""
    if metadata.get(RANGE_PARTITIONED, "false") == "false":
        files = [(DATA_FILE, -(-num_rows.get(DATA_FILE, 0) // page_rows))]
    else:
        text = metadata.get(FILE_PAGES, "")
        try:
            files = [(part_file(number), int(pages)) for number, pages in json.loads(text)]
        except (ValueError, TypeError) as error:
            raise CorruptFileError(f"B-tree index: {FILE_PAGES} {text[:80]!r}") from error
    if len(dict(files)) != len(files):
        raise CorruptFileError("B-tree index: a file of pages is listed twice")
    for name, pages in files:
        if name not in num_rows or pages != -(-num_rows[name] // page_rows):
            raise CorruptFileError(
                f"B-tree index: {pages} pages in {name!r} by the page table, the file has "
                f"{num_rows.get(name)} rows"
            )
    return files


def part_file(number: int) -> str:
    """Return the file name for the pages of a range of values."""
    return f"part_{number}_{DATA_FILE}"


class PageTableBuilder:
    """Builder of a B-tree page table for values of a type; rows are added in order."""

    def __init__(self, type_: pa.DataType, page_rows: int = PAGE_ROWS) -> None:
        self._page_rows = page_rows
        self._lows: list[pa.Array] = []
        self._highs: list[pa.Array] = []
        self._last: pa.Array | None = None
        self._num_rows = self._num_nulls = 0
        low, high, nulls, place = LOOKUP_COLUMNS
        self.schema = pa.schema(
            [
                pa.field(low, type_),
                pa.field(high, type_),
                pa.field(nulls, pa.uint32(), nullable=False),
                pa.field(place, pa.uint32(), nullable=False),
            ]
        )

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows: sorted values in the first column, nulls first."""
        values = batch.column(0)
        page = self._page_rows
        starts = np.arange(-self._num_rows % page, len(values), page)
        ends = np.arange((-1 - self._num_rows) % page, len(values), page)
        self._lows.append(values.take(to_arrow(starts)))
        self._highs.append(values.take(to_arrow(ends)))
        self._last = values.slice(len(values) - 1, 1) if len(values) else self._last
        self._num_rows += len(values)
        self._num_nulls += values.null_count

    def finish(self) -> pa.RecordBatch:
        """Return the rows of the page table."""
        num_pages = -(-self._num_rows // self._page_rows)
        if self._num_rows % self._page_rows and self._last is not None:
            self._highs.append(self._last)
        empty = pa.nulls(0, self.schema.field(0).type)
        places = np.arange(num_pages)
        rows = np.minimum(self._num_rows - places * self._page_rows, self._page_rows)
        nulls = np.clip(self._num_nulls - places * self._page_rows, 0, rows)
        return pa.RecordBatch.from_arrays(
            [
                pa.concat_arrays([empty, *self._lows]),
                pa.concat_arrays([empty, *self._highs]),
                to_arrow(nulls.astype(np.uint32)),
                to_arrow(places.astype(np.uint32)),
            ],
            schema=self.schema,
        )
