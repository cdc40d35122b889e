"""Hybrid search: a text search and a vector search at once, fused into one ranking."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa

from alance.base.checks import INT64_MAX, check_count
from alance.errors import AlanceError, InvalidInputError
from alance.io.loop.tasks import all_of
from alance.ops.search.answer import Hits, open_ahead
from alance.ops.search.explained import explain_search
from alance.ops.search.nearest import NearestSearch, checked_search
from alance.ops.search.options import scan_options as vector_options
from alance.ops.search.options import vector_type
from alance.ops.search.table import output_of, schema_of, stored, table_of
from alance.ops.search.text.explained import explain_text
from alance.ops.search.text.fusion import (
    DISTANCE,
    ROW_ID,
    SCORE,
    RankedCandidates,
    check_combine,
    checked_scores,
    relevance_of,
)
from alance.ops.search.text.query import of_elements
from alance.ops.search.text.search import TextSearch, checked_query
from alance.ops.search.text.search_options import OF_TEXTS, SHARED_OPTIONS, HybridArguments
from alance.ops.search.text.search_options import scan_options as text_options
from alance.ops.version.first_use import load_readers

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from alance.base.arrays import Float64s
    from alance.format.schema import Schema
    from alance.ops.read.explain import Explanation
    from alance.ops.search.text.fusion import Combine
    from alance.ops.search.text.query import TextQuery
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot

RELEVANCE: Final = "_relevance_score"
_MEASURES: Final = (SCORE, DISTANCE)
LEAST_CANDIDATES: Final = 50  # a low row of one ranking may be first in the fused one


class Hybrid:
    """A checked hybrid search.

    Attributes:
        by_text: scan options of the text search.
        by_vector: scan options of the vector search.

    Raises:
        TypeError: an argument is unknown.
        InvalidInputError: the text or the vector is missing; the text query searches list elements;
            see `scan_options` of both searches.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        text: str | TextQuery,
        vector: object,
        k: int,
        combine: Combine,
        arguments: HybridArguments,
    ) -> None:
        if vector is None or text is None:
            raise InvalidInputError("search: expected a text and a vector, both")
        others: dict[str, Any] = dict(arguments)
        self.combine = check_combine(combine)
        self.columns: Columns = others.pop("columns", None)
        column = others.pop("vector_column", None) or _vector_column(snapshot.schema)
        candidates = others.pop("candidates", None)
        check_count("k", k, most=INT64_MAX)
        if candidates is None:
            candidates = min(max(4 * k, LEAST_CANDIDATES), INT64_MAX)
        shared = {name: others[name] for name in SHARED_OPTIONS if name in others}
        of_text = {name: others.pop(name) for name in OF_TEXTS if name in others}
        of_vector = {name: value for name, value in others.items() if name not in shared}
        own: Any = {**shared, **of_text, "columns": [ROW_ID]}
        _, self.by_text = text_options(text, candidates, own)
        own = {**shared, **of_vector, "columns": [ROW_ID]}
        _, self.by_vector = vector_options(column, vector, candidates, own)
        if k > candidates:
            raise InvalidInputError(f"k={k}: more than candidates={candidates}")
        if checked_search(snapshot, self.by_vector).is_batch:
            raise InvalidInputError("vector: expected one query, found several")
        if of_elements(checked_query(snapshot, self.by_text)):
            raise InvalidInputError("text: expected a query of rows, found one of list elements")
        self.k = k

    @property
    def own_columns(self) -> Columns:
        """Requested columns without `_score` and `_distance`."""
        columns = self.columns
        for name in _MEASURES:
            columns = stored(columns, name)
        return columns


async def hybrid_table(snapshot: Snapshot, search: Hybrid) -> pa.Table:
    """Return the rows of a hybrid search, most relevant first.

    Cost: the requests of both searches, in as many rounds as the longer one needs; the filter is
    evaluated once; then a take of k rows.
    """
    await load_readers(snapshot, search.columns)
    schema = _schema_of(snapshot, search)
    text, vector, _ = await all_of(
        cast(
            "list[Awaitable[Any]]",
            [
                TextSearch.table(snapshot, [ROW_ID], search.by_text),
                NearestSearch.table(snapshot, [ROW_ID], search.by_vector),
                open_ahead(snapshot, search.by_text, stored(search.own_columns, RELEVANCE)),
            ],
        )
    )

    def rate() -> tuple[RankedCandidates, Float64s | Awaitable[Any]]:
        candidates = RankedCandidates.of(text, vector)
        return candidates, relevance_of(candidates, search.combine)

    engine = snapshot.engine
    candidates, relevance = await engine.pool.run(rate)
    if not isinstance(relevance, np.ndarray):
        relevance = checked_scores(await relevance, len(candidates.ids))
    first, parts = await engine.decode(partial(candidates.best, relevance, search.k), text.nbytes)
    hits = Hits(
        np.zeros(len(first), np.int32), relevance[first].astype(np.float32), candidates.ids[first]
    )
    batch = await output_of(snapshot, search.own_columns, search.by_text, hits, RELEVANCE)
    return table_of(schema, batch, {name: parts.column(name) for name in _MEASURES})


async def explain_hybrid(snapshot: Snapshot, search: Hybrid) -> Explanation:
    """Explain both searches without running them. Cost: the sum of both explanations."""
    await load_readers(snapshot, search.columns)
    _schema_of(snapshot, search)
    text = await explain_text(snapshot, [ROW_ID], search.by_text)
    vector = await explain_search(snapshot, [ROW_ID], search.by_vector)
    how = search.combine if isinstance(search.combine, str | dict) else "a function"
    return replace(
        vector,
        what=(
            f"hybrid search of {snapshot.uri}, version {snapshot.version}: {search.k} rows of the "
            f"{search.by_text.limit} best of each search, by {how}",
            *text.what,
            *vector.what,
        ),
        steps=(*text.steps, *vector.steps),
        rounds=max(text.rounds, vector.rounds),
        num_rows=text.num_rows + vector.num_rows,
        num_rows_skipped=text.num_rows_skipped + vector.num_rows_skipped,
        num_pages=text.num_pages + vector.num_pages,
        num_pages_skipped=text.num_pages_skipped + vector.num_pages_skipped,
        first=tuple(dict.fromkeys([*text.first, *vector.first])),
        late=tuple(dict.fromkeys([*text.late, *vector.late])),
        at_most=(*text.at_most, *vector.at_most),
    )


def _schema_of(snapshot: Snapshot, search: Hybrid) -> pa.Schema:
    schema = schema_of(snapshot, search.own_columns, search.by_text, RELEVANCE)
    fields = {field.name: field for field in schema}
    fields |= {name: pa.field(name, pa.float32()) for name in _MEASURES}
    names = [*schema.names, *_MEASURES] if search.columns is None else list(search.columns)
    names += [name for name in (RELEVANCE, *_MEASURES) if name not in names]
    return pa.schema([fields[name] for name in names], metadata=schema.metadata)


def _vector_column(schema: Schema) -> str:
    """Return the name of the only vector column.

    Raises:
        InvalidInputError: there is no vector column, or there are several.
    """
    names = []
    for field in schema.fields:
        try:
            vector_type(field, field.name)
        except AlanceError:
            continue
        names.append(field.name)
    if len(names) != 1:
        raise InvalidInputError(
            f"vector_column: expected a name, because the columns of vectors are {names}"
        )
    return names[0]
