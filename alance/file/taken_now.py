"""Rows of open fragments whose pages are known: one plan for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from alance import _kernels
from alance.file.columns import OpenColumn
from alance.file.fragment import FragmentTask
from alance.format.layouts.paged_rows import PagedRows, takes_rows
from alance.format.plans import Pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from alance.file.columns import States
    from alance.file.fragment import Found, OpenFragment
    from alance.file.leaves import OpenLeaf, PagesAndRows
    from alance.format.plans import Plan
    from alance.format.schema import Schema

    Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KnownRows:
    """Single rows of one fragment, page by page."""

    schema: Schema
    num_rows: int
    leaves: Sequence[tuple[OpenLeaf, PagesAndRows]]


def fetch_known(fragments: Sequence[KnownRows]) -> Plan[list[FragmentTask]]:
    """Plan the rows of fragments: one round of pieces for each page."""
    wanted = [
        Pieces(one.column.container.path, *_kernels.row_ranges(page.kernel, rows))
        for fragment in fragments
        for one, found in fragment.leaves
        for page, rows in found
    ]
    contents = iter((yield wanted))
    tasks = []
    for fragment in fragments:
        leaves: dict[int, Found] = {}
        for one, found in fragment.leaves:
            pages, rows = zip(*found, strict=True)
            mine, leaf = tuple(islice(contents, len(found))), one.leaf.field
            leaves[leaf.id] = PagedRows(leaf, pages, rows, mine, one.is_array(pages))
        tasks.append(FragmentTask(fragment.schema, fragment.num_rows, leaves))
    return tasks


def known_rows(opened: OpenFragment, rows: Int64s, states: States) -> KnownRows | None:
    """Single rows whose pages the kernel takes rows of; None where one is not known, or another.

    Args:
        rows: physical row offsets, sorted and unique; at least one.
    """
    leaves = []
    for one in opened.leaves:
        column = one.column
        if not isinstance(column, OpenColumn) or column.container.is_whole:
            return None
        if not takes_rows(one.leaf.field):
            return None
        found = column.row_pages(one.rows(rows), states)
        if not found:
            return None
        leaves.append((one, found))
    return KnownRows(opened.schema, len(rows), leaves)
