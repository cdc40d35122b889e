"""Leaves of an open fragment: their columns, and rows of them that the kernel takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from alance import _kernels
from alance.format.layouts.paged_rows import PagedRows
from alance.format.plans import Pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from alance.file.columns import OpenColumn
    from alance.file.v2_0 import FieldColumn
    from alance.format.layouts.fields import LeafColumn
    from alance.format.layouts.paged_rows import LocalFile, RowPage
    from alance.format.plans import Plan

    PagesAndRows: TypeAlias = Sequence[tuple[RowPage, npt.NDArray[np.int64]]]


@dataclass(frozen=True, slots=True)
class OpenLeaf:
    """A leaf field and its column; `rows` of the table are `rows * multiplier` of the column."""

    leaf: LeafColumn
    column: OpenColumn | FieldColumn
    is_top: bool  # a field of the schema itself, not of a nested one

    def rows(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The rows of the column that are some rows of the table."""
        if (dimension := self.leaf.multiplier) == 1:
            return rows
        return (rows[:, None] * dimension + np.arange(dimension)).reshape(-1)

    def is_array(self, pages: Iterable[RowPage]) -> bool:
        """Whether the values of pages are the array of a field of the schema."""
        is_whole = self.is_top and not self.leaf.field.is_json
        return is_whole and all(page.is_plain for page in pages)


def in_file(leaf: OpenLeaf, found: PagesAndRows, file: LocalFile) -> PagedRows:
    """Rows of pages that are read when they are decoded."""
    pages, rows = zip(*found, strict=True)
    return PagedRows(leaf.leaf.field, pages, rows, (file,) * len(pages), leaf.is_array(pages))


def fetched(leaf: OpenLeaf, found: PagesAndRows) -> Plan[PagedRows]:
    """Plan rows of pages: one round."""
    pages, rows = zip(*found, strict=True)
    path = leaf.column.container.path
    wanted = [Pieces(path, *_kernels.row_ranges(page.kernel, mine)) for page, mine in found]
    contents = yield wanted
    return PagedRows(leaf.leaf.field, pages, rows, tuple(contents), leaf.is_array(pages))
