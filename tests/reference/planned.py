"""Plans of rows of page tables, column by column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance import _kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s

    Columns = Sequence[Sequence[_kernels.ColumnPages]]  # tables of each column, one a fragment


def plan_rows(
    columns: Columns, rows: Int64s, ends: Sequence[int], held: Sequence[_kernels.HeldFile] = ()
) -> _kernels.RowPlan:
    """The same rows of several columns."""
    return _kernels.plan_rows(_fragments(columns), range(len(columns)), rows, ends, held)


def plan_spans(
    columns: Columns,
    spans: Sequence[tuple[int, int]],
    ends: Sequence[int],
    held: Sequence[_kernels.HeldFile] = (),
) -> _kernels.RowPlan:
    """The same ranges of rows of several columns."""
    return _kernels.plan_spans(_fragments(columns), range(len(columns)), spans, ends, held)


def _fragments(columns: Columns) -> list[_kernels.LeafTables]:
    return [
        _kernels.LeafTables([(table, 0, 0) for table in tables])
        for tables in zip(*columns, strict=True)
    ]
