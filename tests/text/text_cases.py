"""Tables of texts, and the same searches of alance and pylance."""

from __future__ import annotations

import random
import warnings
from typing import TYPE_CHECKING, Any, Final

import lance
import lance.query as theirs_query
import numpy as np
import pyarrow as pa

import alance

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Some words are others' stems, some are left out, some differ by a letter.
WORDS: Final = (
    "apple", "apples", "ample", "maple", "run", "running", "runner", "the", "of", "and", "quick",
    "quickly", "brown", "fox", "foxes", "lazy", "dog", "dogs", "jump", "jumped", "river", "rivers",
    "stone", "über", "straße", "naïve", "日本語", "don't", "x2", "1984",
)  # fmt: skip


def texts(count: int, seed: int = 7, *, longest: int = 24) -> list[str | None]:
    """Texts of common and rare words; some are null or empty."""
    chance = random.Random(seed)
    weights = [1 / (1 + place) for place in range(len(WORDS))]
    words = chance.sample(WORDS, len(WORDS))
    rows: list[str | None] = []
    for _ in range(count):
        kind = chance.random()
        if kind < 0.05:
            rows.append(None if kind < 0.03 else "")
        else:
            rows.append(" ".join(chance.choices(words, weights, k=chance.randint(1, longest))))
    return rows


def table(count: int, seed: int = 7, first: int = 0) -> pa.Table:
    """Rows with an id, a class and two texts."""
    numbers = np.arange(first, first + count)
    return pa.table(
        {
            "id": numbers,
            "kind": numbers % 5,
            "text": pa.array(texts(count, seed), pa.string()),
            "title": pa.array(texts(count, seed + 1, longest=4), pa.string()),
        }
    )


def written(
    path: Path, count: int = 400, *, per_file: int = 150, index: bool = True, **options: Any
) -> Path:
    """A table of several fragments whose texts have an index of pylance's."""
    stable = options.pop("enable_stable_row_ids", False)
    version = options.pop("data_storage_version", None)
    lance.write_dataset(
        table(count),
        path,
        max_rows_per_file=per_file,
        enable_stable_row_ids=stable,
        data_storage_version=version,
    )
    if index:
        indexed(path, **options)
    return path


def indexed(path: Path, column: str = "text", **options: Any) -> None:
    """Make an index as pylance does."""
    lance.dataset(path).create_scalar_index(column, "INVERTED", replace=True, **options)


def as_theirs(query: alance.TextQuery) -> Any:
    """The same query of pylance."""
    if isinstance(query, alance.MatchQuery):
        return theirs_query.MatchQuery(
            query.query,
            query.column,
            boost=query.boost,
            fuzziness=query.fuzziness,
            max_expansions=query.max_expansions,
            operator=theirs_query.FullTextOperator(query.operator),
            prefix_length=query.prefix_length,
        )
    if isinstance(query, alance.PhraseQuery):
        return theirs_query.PhraseQuery(query.query, query.column, slop=query.slop)
    if isinstance(query, alance.MultiMatchQuery):
        return theirs_query.MultiMatchQuery(
            query.query,
            list(query.columns),
            boosts=query.boosts,
            operator=theirs_query.FullTextOperator(query.operator),
        )
    if isinstance(query, alance.CombinedFieldsQuery):
        return theirs_query.CombinedFieldsQuery(
            query.query,
            list(query.columns),
            boosts=list(query.boosts or ()),
            operator=theirs_query.FullTextOperator(query.operator),
        )
    if isinstance(query, alance.BoostQuery):
        return theirs_query.BoostQuery(
            as_theirs(query.positive),
            as_theirs(query.negative),
            negative_boost=query.negative_boost,
        )
    assert isinstance(query, alance.BooleanQuery)
    return theirs_query.BooleanQuery(
        [(theirs_query.Occur(occur), as_theirs(part)) for occur, part in query.queries]
    )


def theirs(path: Path, query: alance.TextQuery, **options: Any) -> pa.Table:
    """Return pylance's result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lance.dataset(path).to_table(
            columns=["id", "_score"], full_text_query=as_theirs(query), **options
        )


async def ours(dataset: alance.Dataset, query: alance.TextQuery, **options: Any) -> pa.Table:
    """Return alance's result for the same query."""
    return await dataset.scanner(["id"], full_text_query=query, **options).to_table()


def agree(own: pa.Table, other: pa.Table) -> None:
    """All rows with their scores, in the order of alance."""
    scores = dict(zip(other["id"].to_pylist(), other["_score"].to_pylist(), strict=True))
    ids, values = own["id"].to_pylist(), own["_score"].to_pylist()
    assert sorted(ids) == sorted(scores)
    np.testing.assert_allclose(values, [scores[id_] for id_ in ids], rtol=1e-5, atol=1e-5)
    assert values == sorted(values, reverse=True)
    pairs = list(zip(ids, values, strict=True))
    assert pairs == sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


async def check_equal(path: Path, queries: Sequence[alance.TextQuery], **options: Any) -> None:
    """Both libraries give the same to all queries."""
    dataset = await alance.dataset(path)
    for query in queries:
        try:
            agree(await ours(dataset, query, **options), theirs(path, query, **options))
        except AssertionError as error:
            error.add_note(f"{query}, {options}")
            raise
