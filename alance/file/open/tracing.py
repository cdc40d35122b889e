"""Names of columns for traces of requests: byte spans of each column in its file."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from alance.file.open.columns import OpenColumn
from alance.file_version import FileVersion
from alance.io.events import trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from alance.file.older.v2_0 import FieldColumn
    from alance.file.rows.fragment import OpenFragment
    from alance.format.field import Field


def describe(fragments: Iterable[OpenFragment]) -> None:
    """Report the byte spans of the fragments' columns to all active traces."""
    if not trace.active:
        return
    for fragment in fragments:
        names = dict(_names(fragment.schema.fields, ""))
        for leaf in fragment.leaves:
            name = names[leaf.leaf.field.id]
            trace.describe(leaf.column.container.path, name, partial(_spans, leaf.column))


def _names(fields: Sequence[Field], prefix: str) -> Iterator[tuple[int, str]]:
    """Yield the id and the dotted path (`a.b`) of each field at any depth."""
    for field in fields:
        yield field.id, prefix + field.name
        yield from _names(field.children, f"{prefix}{field.name}.")


def _spans(column: OpenColumn | FieldColumn) -> list[tuple[int, int]]:
    if column.container.version is FileVersion.V0_1:
        from alance.file.older.v0_1 import BatchedColumn

        if isinstance(column, BatchedColumn):
            return column.spans()
    pages = column.pages if isinstance(column, OpenColumn) else column.column.pages
    return [(start, start + size) for page in pages for start, size in page.buffers]
