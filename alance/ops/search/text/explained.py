"""Explanation of a text search without running it: its path and reasons."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from alance.format.index.text.source import TextSource
from alance.ops.read.options import condition_of
from alance.ops.search.explained import explain_uncovered
from alance.ops.search.segments import flat_options
from alance.ops.search.text.query import leaves_of, of_elements
from alance.ops.search.text.search import checked_query, uses_index
from alance.ops.search.text.segments import text_way
from alance.ops.version.first_use import load_readers

if TYPE_CHECKING:
    from alance.ops.read.explain import Explanation
    from alance.ops.read.options import ScanOptions
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot


async def explain_text(snapshot: Snapshot, columns: Columns, options: ScanOptions) -> Explanation:
    """Explain the indices that a search uses, and its reads of texts without an index.

    Cost: as for `explain_scan`.
    """
    query = checked_query(snapshot, options)
    await load_readers(snapshot, columns, condition_of(options))
    searched = list(dict.fromkeys(str(leaf.column) for leaf in leaves_of(query)))
    ways = [
        text_way(
            snapshot,
            column,
            options,
            of_elements=of_elements(query),
            use_index=uses_index(options),
        )
        for column in searched
    ]
    fragments = {handle.id for way in ways for handle in way.uncovered}
    uncovered = replace(flat_options(options), fragments=sorted(fragments))
    fields = [TextSource.of(snapshot.schema, column).path for column in searched]
    lines = [f"words: {query}"]
    for way in ways:
        lines += [f"column {way.column}: {line}" for line in way.lines]
    lines.append("below: what is read of fragments without an index")
    return await explain_uncovered(snapshot, fields, uncovered, lines, flat=False)
