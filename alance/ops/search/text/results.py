"""Text search: from the options of a scan to the output table, best rows first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError
from alance.io.loop.tasks import all_of
from alance.ops.read.options import condition_of
from alance.ops.read.sorting import in_order
from alance.ops.search.answer import Hits, open_ahead
from alance.ops.search.joined import MAX_JOINED_ROWS, joint_of
from alance.ops.search.nearest import (
    filtered,
    parts_of,
    schema_of,
    sort_keys,
    stored,
)
from alance.ops.search.options import DOC_INDEX
from alance.ops.search.text.answer import QUERIES_AT_ONCE, ranked_rows
from alance.ops.search.text.granularity import with_granularity
from alance.ops.search.text.query import has_phrases, of_elements, query_of
from alance.ops.search.text.ranked import Ranked
from alance.ops.search.text.segments import indexed_columns
from alance.ops.version.first_use import load_readers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from alance.ops.read.options import ScanOptions
    from alance.ops.search.joined import CallerPart
    from alance.ops.search.text.query import TextQuery
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot

SCORE: Final = "_score"


async def text_table(snapshot: Snapshot, columns: Columns, options: ScanOptions) -> pa.Table:
    """Return the rows of a scan with `full_text_query`; the filter is applied before or after it.

    Cost: see `ranked_rows`; then a take of the columns. Concurrent searches that differ only in
    their queries share these costs.

    Raises:
        InvalidInputError: see `query_of`; an option that searches do not have; an invalid filter.
    """
    await load_readers(snapshot, columns, condition_of(options))
    query = checked_query(snapshot, options)
    has_elements = of_elements(query)
    schema = schema_of(snapshot, columns, options, measure=SCORE, of_elements=has_elements)
    keys = sort_keys(schema, options)
    count = None if options.limit is None else (options.offset or 0) + options.limit
    use_index = uses_index(options)

    async def answer(queries: Sequence[TextQuery]) -> Sequence[CallerPart]:
        ranking = ranked_rows(snapshot, queries, options, count, use_index=use_index)
        works: list[Awaitable[Any]] = [ranking]
        if snapshot.is_remote:
            own = (SCORE, DOC_INDEX) if has_elements else (SCORE,)
            works.append(open_ahead(snapshot, options, stored(columns, *own)))
        ranked: list[Ranked]
        ranked, *_ = await all_of(works)
        sizes = [len(own.ids) for own in ranked]
        numbers = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        rows = Ranked.joined(ranked)
        elements = rows.elements
        if has_elements and elements is None:  # nothing matches
            elements = np.empty(0, np.uint32)
        hits = Hits(numbers, rows.scores, rows.ids, elements)
        if options.filter is not None and not options.prefilter:
            hits = await filtered(snapshot, hits, options, SCORE)
        return await parts_of(snapshot, columns, options, hits, [1] * len(sizes), SCORE)

    # Phrases join only with phrases, because joined searches all read positions or none do.
    question = (SCORE, use_index, has_phrases(query), has_elements)
    most = MAX_JOINED_ROWS if snapshot.is_remote else QUERIES_AT_ONCE
    num_rows = count or MAX_JOINED_ROWS
    joint = joint_of(snapshot, question, num_rows, columns, options, most=most)
    part = await joint.ask(query, 1, answer)
    arrays = dict(zip(part.batch.schema.names, part.batch.columns, strict=True))
    table = pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)
    return in_order(table, keys) if keys else table


def text_schema(snapshot: Snapshot, columns: Columns, options: ScanOptions) -> pa.Schema:
    """Return the Arrow schema of the output.

    Raises:
        InvalidInputError: a column is unknown, or an expression or the query is invalid.
    """
    query = checked_query(snapshot, options)
    return schema_of(snapshot, columns, options, measure=SCORE, of_elements=of_elements(query))


def uses_index(options: ScanOptions) -> bool:
    """True if the search may use indices."""
    query = options.full_text_query
    return not isinstance(query, Mapping) or bool(query.get("use_index", True))


def checked_query(snapshot: Snapshot, options: ScanOptions) -> TextQuery:
    """Check the query in a scan's options and return it.

    Raises:
        InvalidInputError: see `query_of` and `with_granularity`; an option that searches do not
            have.
        UnsupportedError: see `with_granularity`.
    """
    if options.nearest is not None:
        raise InvalidInputError("nearest beside full_text_query: expected one of them")
    if options.include_deleted_rows:
        raise InvalidInputError("include_deleted_rows: a search returns live rows only")
    text: Any = options.full_text_query
    if isinstance(text, Mapping):
        text = {name: value for name, value in text.items() if name != "use_index"}
    query = query_of(snapshot.schema, text, indexed_columns(snapshot))
    return with_granularity(snapshot, query, use_index=uses_index(options))
