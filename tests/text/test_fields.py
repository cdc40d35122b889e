"""Columns that are searched as one, beside pylance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import lance
import pytest

import alance
from alance import BooleanQuery, CombinedFieldsQuery, MatchQuery
from tests.text.text_cases import check_equal, indexed, ours, table, written

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS: Final = ("title", "text")
COMBINED: Final = CombinedFieldsQuery("quick river", COLUMNS)
QUERIES: Final = (
    COMBINED,
    CombinedFieldsQuery("apple foxes the dog dog", COLUMNS, boosts=[3, 1]),
    CombinedFieldsQuery("quick river stone", COLUMNS, boosts=[1.5, 2.25], operator="AND"),
    CombinedFieldsQuery("quick zebra", COLUMNS, operator="AND"),
    CombinedFieldsQuery("zebra", COLUMNS),
    CombinedFieldsQuery("", COLUMNS),
    CombinedFieldsQuery("fox lazy", ["text"], boosts=[2]),
)


@pytest.mark.parametrize("stable", [False, True])
async def test_two_indices_are_searched_as_one(tmp_path: Path, stable: bool) -> None:
    path = written(tmp_path / "t", 700, enable_stable_row_ids=stable)
    indexed(path, "title")
    await check_equal(path, QUERIES)
    lance.dataset(path).delete("id % 3 = 0")
    await check_equal(path, QUERIES)
    await check_equal(path, QUERIES[:2], filter="kind = 2", prefilter=True)


async def test_texts_without_an_index_are_scored_with_the_others(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    await check_equal(path, QUERIES)  # there is none of titles
    indexed(path, "title")
    lance.write_dataset(table(150, 5, first=1000), path, mode="append")
    await check_equal(path, QUERIES)
    dataset = await (await alance.dataset(path)).optimize.optimize_indices()
    assert not [index for index in dataset.list_indices() if not index["fragment_ids"]]
    await check_equal(path, QUERIES)


async def test_they_are_parts_of_other_queries(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    indexed(path, "title")
    dataset = await alance.dataset(path)
    dog = MatchQuery("dog", "text")
    whole, part, without = [
        {row["id"]: row["_score"] for row in (await ours(dataset, query)).to_pylist()}
        for query in (
            COMBINED & dog,
            COMBINED,
            BooleanQuery([("MUST", COMBINED), ("MUST_NOT", dog)]),
        )
    ]
    assert set(whole) | set(without) == set(part)
    assert all(score > part[number] for number, score in whole.items())
    best = await dataset.search_text(COMBINED, 5, columns=["id"])
    assert best["id"].to_pylist() == list(part)[:5]


async def test_an_index_with_positions_goes_with_one_without(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    indexed(path, "title", with_position=True)
    indexed(path, "text", with_position=False)
    await check_equal(path, QUERIES)


async def test_what_cannot_be_one_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    indexed(path, "title", stem=False)
    dataset = await alance.dataset(path)
    with pytest.raises(alance.InvalidInputError, match="several ways"):
        await dataset.search_text(COMBINED)
    with pytest.raises(alance.InvalidInputError, match="no index"):
        await dataset.search_text(COMBINED, use_index=False)
    wrong: Any
    for wrong in (
        {"columns": []},
        {"columns": "text"},
        {"columns": ["text"], "boosts": [0.5]},
        {"columns": ["text"], "boosts": [1, 2]},
        {"columns": ["text"], "operator": "NOT"},
    ):
        with pytest.raises(alance.InvalidInputError):
            CombinedFieldsQuery("a", **wrong)
    with pytest.raises(alance.InvalidInputError, match="'id'"):
        await dataset.search_text(CombinedFieldsQuery("a", ["id", "text"]))
