"""The best rows of queries of several columns: those of all rows, of which few are scored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import alance
from alance import BooleanQuery, BoostQuery, CombinedFieldsQuery, MatchQuery, MultiMatchQuery
from alance.ops.search.text import several
from alance.ops.search.text.fields import FieldsSearch
from tests.text.text_cases import WORDS, agree, indexed, ours, table, theirs, written

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from alance.base.arrays import Int64s
    from alance.ops.search.text.ranked import Ranked

COLUMNS: Final = ("title", "text")
queries = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
operators: Any = st.sampled_from(["OR", "AND"])
boosts = st.sampled_from([1.0, 1.0, 2.5])
leaves = st.one_of(
    st.builds(MatchQuery, queries, st.sampled_from(COLUMNS), boost=boosts, operator=operators),
    st.builds(MultiMatchQuery, queries, st.just(COLUMNS), operator=operators),
    st.builds(
        CombinedFieldsQuery, queries, st.just(COLUMNS), boosts=st.tuples(boosts, boosts),
        operator=operators,
    ),
)  # fmt: skip
occurs = st.sampled_from(["MUST", "SHOULD", "SHOULD", "MUST_NOT"])
trees: st.SearchStrategy[alance.TextQuery] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(BoostQuery, inner, inner, negative_boost=st.sampled_from([0.5, 0.0, -0.5])),
        st.lists(st.tuples(occurs, inner), min_size=2, max_size=4)
        .filter(lambda pairs: any(occur != "MUST_NOT" for occur, _ in pairs))
        .map(BooleanQuery),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two indices, deleted rows, and rows that no index covers."""
    path = written(tmp_path_factory.mktemp("pruned") / "t", 1000)
    indexed(path, "title")
    lance.dataset(path).delete("id % 7 = 3")
    lance.write_dataset(table(60, 5, first=1000), path, mode="append")
    return path


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(query=trees, count=st.sampled_from([1, 3, 10, 200]))
async def test_the_best_rows_are_the_best_of_all(
    path: Path, query: alance.TextQuery, count: int
) -> None:
    dataset = await alance.dataset(path)
    for options in ({}, {"filter": "kind = 2", "prefilter": True}):
        whole = await ours(dataset, query, **options)
        assert await ours(dataset, query, limit=count, **options) == whole.slice(0, count)


async def test_they_are_those_of_pylance(path: Path) -> None:
    dataset = await alance.dataset(path)
    fox, dog = MatchQuery("fox quick", "title"), MatchQuery("dog fox", "text")
    pair = BooleanQuery([("MUST", dog), ("SHOULD", fox)])
    for query in (fox | dog, fox & dog, BoostQuery(dog, fox), pair):
        agree(await ours(dataset, query), theirs(path, query))


async def test_few_rows_are_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 4000
    rng = np.random.default_rng(3)
    words = np.array(["fox", "dog", *(f"w{number}" for number in range(60))])
    shares = 1 / np.arange(1, len(words) + 1)
    columns = {}
    for column, longest in zip(COLUMNS, (12, 90), strict=True):
        sizes = rng.integers(1, longest, count)
        columns[column] = [
            " ".join(rng.choice(words, size, p=shares / shares.sum())) for size in sizes
        ]
    path = tmp_path / "t"
    lance.write_dataset(pa.table({"id": range(count), **columns}), path)
    for column in COLUMNS:
        indexed(path, column)
    dataset = await alance.dataset(path)
    scored: list[int] = []
    combine, score = several.combined, FieldsSearch._scored

    def counted(query: alance.TextQuery, parts: Sequence[Ranked]) -> Ranked:
        scored.extend(len(part.ids) for part in parts)
        return combine(query, parts)

    def counted_scored(self: FieldsSearch, terms: Any, statistics: Any, rows: Int64s) -> Ranked:
        scored.append(len(rows))
        return score(self, terms, statistics, rows)

    monkeypatch.setattr(several, "combined", counted)
    monkeypatch.setattr(FieldsSearch, "_scored", counted_scored)
    title, text = MatchQuery("fox w40", "title"), MatchQuery("fox w40", "text")
    for query in (
        title | text,
        title & text,
        BoostQuery(title, text),
        CombinedFieldsQuery("fox w40", COLUMNS),
        CombinedFieldsQuery("fox w40", COLUMNS, boosts=[2, 1], operator="AND"),
    ):
        scored.clear()
        assert len(await ours(dataset, query, limit=5)) == 5
        assert sum(scored) < 1400
    scored.clear()
    assert len(await ours(dataset, title | text)) > 3900
    assert sum(scored) > 5000
