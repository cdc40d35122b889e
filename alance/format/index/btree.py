"""The B-tree index: all values in order with the rows that have them, in pages of equal length.

`page_data.lance` has the columns `values` (of the indexed type, nulls first, floats in total
order: -NaN first, NaN last) and `ids` (uint64); `page_lookup.lance` a row for each page: `min`,
`max`, `null_count` and `page_idx`. Rows of a page: `batch_size` in that file's metadata.

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.numbers import as_numbers, to_arrow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.arrays import Int64s

LOOKUP_FILE: Final = "page_lookup.lance"
DATA_FILE: Final = "page_data.lance"
PAGE_ROWS: Final = 4096
BATCH_SIZE: Final = "batch_size"
RANGE_PARTITIONED: Final = "range_partitioned"
VALUES: Final = "values"
IDS: Final = "ids"
FENCE_ROWS: Final = 64  # of a zone of a page: to evaluate so many takes as long as to rule them out
LOOKUP_COLUMNS: Final = ("min", "max", "null_count", "page_idx")


@dataclass(frozen=True, slots=True)
class PageTable:
    """The pages of a B-tree, by their place in `page_data.lance`.

    Attributes:
        low: the first value of each page, null where that is null; `high`: the last.
        null_counts: shape (pages,).
        page_rows: rows of each page but the last.
    """

    low: pa.Array
    high: pa.Array
    null_counts: Int64s
    page_rows: int
    num_rows: int

    @property
    def num_pages(self) -> int:
        """Pages of the tree."""
        return len(self.null_counts)

    @property
    def num_bytes(self) -> int:
        """Memory, for a cache's budget."""
        return 200 + int(self.low.nbytes) + int(self.high.nbytes) + self.null_counts.nbytes

    def rows_of(self, page: int) -> tuple[int, int]:
        """The rows of a page in `page_data.lance`."""
        return page * self.page_rows, min(self.num_rows, (page + 1) * self.page_rows)

    def num_rows_of(self, pages: Int64s) -> int:
        """Rows of some pages."""
        has_last = len(pages) > 0 and bool(pages[-1] == self.num_pages - 1)
        missing = self.num_pages * self.page_rows - self.num_rows if has_last else 0
        return len(pages) * self.page_rows - missing

    def counts(self) -> Int64s:
        """Rows of each page; shape (pages,)."""
        starts = np.arange(self.num_pages, dtype=np.int64) * self.page_rows
        return np.minimum(self.num_rows - starts, self.page_rows)


@dataclass(frozen=True)
class TreePage:
    """A page of a B-tree.

    Attributes:
        values: in order, nulls first.
        ids: the rows that have them, as the index numbers them; shape (n,).
    """

    values: pa.Array
    ids: Int64s

    @cached_property
    def fences(self) -> PageTable:
        """The page in zones of `FENCE_ROWS`, as a page table. CPU: some 20 us, once."""
        num_rows = len(self.ids)
        first = np.arange(0, num_rows, FENCE_ROWS)
        last = np.minimum(first + FENCE_ROWS, num_rows)
        low, high = (self.values.take(to_arrow(rows)) for rows in (first, last - 1))
        nulls = np.clip(self.values.null_count - first, 0, last - first)
        return PageTable(low, high, nulls, FENCE_ROWS, num_rows)

    @property
    def num_bytes(self) -> int:
        """Memory, for a cache's budget: of the page and its zones."""
        num_bytes = int(self.values.nbytes)
        zone_bytes = 2 * num_bytes // max(1, len(self.ids)) + 8
        return 600 + num_bytes + self.ids.nbytes + -(-len(self.ids) // FENCE_ROWS) * zone_bytes


def split_pages(values: pa.Array, ids: Int64s, sizes: Int64s) -> list[TreePage]:
    """Pages of some rows each, which stand one behind the other; each has its own memory. CPU.

    Args:
        values: in order, nulls first.
        sizes: rows of each page, at least one.
    """
    if len(sizes) == 1:
        return [TreePage(values, ids)]
    stops = np.cumsum(sizes).tolist()
    # A page is kept for itself: as a part of all that was read it would keep all.
    return [
        TreePage(pa.concat_arrays([values.slice(start, stop - start)]), ids[start:stop].copy())
        for start, stop in pairwise([0, *stops])
    ]


def parse_page_table(
    batch: pa.RecordBatch, metadata: Mapping[str, str], num_rows: int
) -> PageTable:
    """The page table from the rows of `page_lookup.lance`.

    Args:
        batch: its columns.
        metadata: of its schema.
        num_rows: of `page_data.lance`.

    Raises:
        CorruptFileError: pages that are not there, or are left out.
        UnsupportedError: pages in several files.
    """
    if metadata.get(RANGE_PARTITIONED, "false") != "false":
        raise UnsupportedError("B-tree index with pages in several files: not read by this alance")
    text = metadata.get(BATCH_SIZE, str(PAGE_ROWS))
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 31:
        raise CorruptFileError(f"B-tree index: {BATCH_SIZE} {text!r}, expected a number of rows")
    page_rows = int(text)
    expected = -(-num_rows // page_rows)
    missing = [name for name in LOOKUP_COLUMNS if batch.schema.get_field_index(name) < 0]
    if missing:
        raise CorruptFileError(f"B-tree index: the page table has no column {missing[0]!r}")
    numbers = [batch.column(name) for name in LOOKUP_COLUMNS[2:]]
    for column in numbers:
        if not pa.types.is_unsigned_integer(column.type) or column.null_count:
            raise CorruptFileError(f"B-tree index: page numbers of type {column.type}, or null")
    null_counts, places = (as_numbers(column).astype(np.int64) for column in numbers)
    order = np.argsort(places, kind="stable")
    if len(places) != expected or not np.array_equal(places[order], np.arange(expected)):
        raise CorruptFileError(
            f"B-tree index: {len(places)} pages in the page table, {expected} in the data file"
        )
    low, high = batch.column("min"), batch.column("max")
    if not np.array_equal(order, np.arange(expected)):
        picked = pa.py_buffer(order.astype(np.int64))
        indices = pa.Array.from_buffers(pa.int64(), expected, [None, picked])
        low, high, null_counts = low.take(indices), high.take(indices), null_counts[order]
    table = PageTable(low, high, null_counts, page_rows, num_rows)
    if (null_counts > table.counts()).any():
        raise CorruptFileError("B-tree index: more nulls in a page than rows")
    return table
