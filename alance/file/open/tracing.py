"""Names of columns for traces of requests: byte spans of each column in its file."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from alance.io.events import trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from alance.file.rows.fragment import OpenFragment


def describe(fragments: Iterable[OpenFragment]) -> None:
    """Report the byte spans of the fragments' columns to all active traces."""
    if not trace.active:
        return
    for fragment in fragments:
        names = fragment.schema.remember(describe, partial(getattr, fragment.schema, "paths"))
        by_path: dict[str, dict[str, Callable[[], list[tuple[int, int]]]]] = {}
        for at, (leaf, file) in enumerate(
            zip(fragment.own.columns, fragment.containers, strict=True)
        ):
            by_path.setdefault(file.path, {})[names[leaf.field.id]] = partial(_spans, fragment, at)
        for path, named in by_path.items():
            trace.describe(path, named)


def _spans(fragment: OpenFragment, at: int) -> list[tuple[int, int]]:
    older, pages = fragment.older.get(at), fragment.tables.column(at)
    if older is not None:
        return [(start, stop) for start, stop in older.spans.tolist()]
    assert pages is not None
    buffers = [buffer for number in range(len(pages)) for buffer in pages.page(number)[0]]
    return [(start, start + size) for start, size in buffers]
