"""Lookup of one question in one segment of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alance.expr.index_query import Ask
    from alance.ops.lookup.kinds.kind import PreparedAsk
    from alance.ops.lookup.segments import Segment
    from alance.ops.version.snapshot import Snapshot


async def ask_segment(snapshot: Snapshot, ask: Ask, segment: Segment) -> PreparedAsk:
    """Find the pages or keys of a segment that may answer a question, without their rows.

    Cost: a round, once; two for a large page table. Bloom filters and FM indices take more; see
    their `ask`.

    Raises:
        CorruptFileError, UnsupportedError, NotFoundError: the index cannot be read.
        pyarrow.ArrowException, ValueError, Problem: values that the question cannot take.
    """
    if segment.steps is not None:
        assert ask.of_json is not None
        ask = ask.of_json[1]
    return await segment.kind.ask(snapshot, segment, ask)


def takes(segment: Segment, ask: Ask) -> bool:
    """Return True if a segment may narrow down the rows of a question."""
    if segment.steps is not None:
        if ask.of_json is None or ask.of_json[0] != tuple(step[:2] for step in segment.steps):
            return False
        ask = ask.of_json[1]
        if not segment.kind.suits(ask.column.type):
            return False
    return segment.kind.takes(ask)
