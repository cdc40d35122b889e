"""Queries of text searches: texts in quotes, and query objects and enumerations of pylance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import lance.query
import numpy as np
import pytest

import alance
from alance import BooleanQuery, CombinedFieldsQuery, MatchQuery, MultiMatchQuery, PhraseQuery
from tests.text.text_cases import agree, check_equal, ours, table, written

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "text", ['"quick fox"', '"the quick"', '"fox"', '""', '"', '"fox', '"a" "b"']
)
async def test_a_text_in_double_quotes_is_a_phrase(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "t", with_position=True)
    lance.write_dataset(table(100, 5, 400), path, mode="append")
    question: Any = text
    dataset, other = await alance.dataset(path), lance.dataset(path)
    agree(
        await ours(dataset, question),
        other.to_table(columns=["id", "_score"], full_text_query=text),
    )
    best = await ours(dataset, question, limit=7)
    theirs = other.to_table(columns=["_score"], full_text_query=text, limit=7)
    np.testing.assert_allclose(best["_score"].to_pylist(), theirs["_score"].to_pylist(), rtol=1e-5)
    # The query is of words, whatever is around them.
    await check_equal(path, [MatchQuery(text, "text")])


async def test_a_phrase_in_quotes_is_of_one_column_and_needs_positions(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    dataset = await alance.dataset(path)
    with pytest.raises(alance.InvalidInputError, match="has no positions"):
        await dataset.search_text('"quick fox"')
    with pytest.raises(alance.InvalidInputError, match=r"double quotes is a phrase.*one column"):
        await dataset.search_text('"quick fox"', on=["text", "title"])
    rows = await dataset.search_text('"quick fox"', 500, on="text", use_index=False)
    assert rows == await dataset.search_text(PhraseQuery("quick fox", "text"), 500, use_index=False)


async def test_queries_of_pylance_are_refused_with_what_to_write(tmp_path: Path) -> None:
    dataset = await alance.dataset(written(tmp_path / "t"))
    for name, arguments in {
        "MatchQuery": ("fox", "text"),
        "PhraseQuery": ("fox", "text"),
        "MultiMatchQuery": ("fox", ["text"]),
    }.items():
        query: Any = getattr(lance.query, name)(*arguments)
        for question in (query, {"query": query}):
            with pytest.raises(alance.InvalidInputError, match=f"expected alance.{name}, which"):
                await dataset.scanner(full_text_query=question).to_table()
        assert hasattr(alance, name)


def test_choices_may_be_those_of_pylance() -> None:
    words = lance.query.FullTextOperator
    every: Any = words.AND
    assert MatchQuery("a b", "t", operator=every) == MatchQuery("a b", "t", operator="AND")
    assert MultiMatchQuery("a", ["t"], operator=every).operator == "AND"
    assert CombinedFieldsQuery("a", ["t"], operator=every).operator == "AND"
    element: Any = lance.query.DocumentGranularity.LIST_ELEMENT
    assert type(PhraseQuery("a", "t", document_granularity=element).document_granularity) is str
    must: Any = lance.query.Occur.MUST
    part = MatchQuery("a", "t")
    assert BooleanQuery([(must, part)]) == BooleanQuery([("MUST", part)])
