"""Inverted indices after compactions: the same answers, by the new addresses of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import lance
import pytest

import alance
from alance import MatchQuery, PhraseQuery
from tests.reference.thinned import thinned
from tests.text.test_text_building import QUESTIONS
from tests.text.text_cases import check_equal, table, written

if TYPE_CHECKING:
    from pathlib import Path


OPTIONS: Final[list[dict[str, Any]]] = [
    {},
    {"with_position": True},
    {"format_version": 3},
    {"format_version": 1},
    {"with_position": True, "format_version": 1},
    {"with_position": True, "memory_bytes": 1 << 16},  # made by alance
]
DELETES: Final = ["", "id % 3 = 1", "id < 170 or id % 5 = 2"]


async def compacted(path: Path) -> alance.Dataset:
    """The table compacted, all of it covered by the index as before."""
    after = await (await alance.dataset(path)).optimize.compact_files(
        target_rows_per_fragment=10_000
    )
    message = str(await after.scanner(full_text_query=MatchQuery("fox", "text")).explain())
    assert "every text" not in message
    return after


@pytest.mark.parametrize(("options", "deletes"), thinned(OPTIONS, DELETES))
async def test_an_index_follows_its_rows(
    tmp_path: Path, options: dict[str, Any], deletes: str
) -> None:
    is_own = "memory_bytes" in options
    path = written(tmp_path / "t", 600, index=not is_own, **({} if is_own else options))
    if is_own:
        dataset = await alance.dataset(path)
        await dataset.create_index("text", "INVERTED", **options)
    if deletes:
        lance.dataset(path).delete(deletes)
    await compacted(path)
    has_places = "with_position" in options
    questions = [q for q in QUESTIONS if has_places or not isinstance(q, PhraseQuery)]
    await check_equal(path, questions)
    lance.write_dataset(table(100, 5, 600), path, mode="append")
    lance.dataset(path).optimize.optimize_indices()
    await check_equal(path, questions)


async def test_indices_with_stable_row_ids_stay_as_they_are(tmp_path: Path) -> None:
    path = written(tmp_path / "t", with_position=True, enable_stable_row_ids=True)
    lance.dataset(path).delete("id % 3 = 1")
    before = (await alance.dataset(path)).list_indices()[0]["uuid"]
    after = await compacted(path)
    assert after.list_indices()[0]["uuid"] == before
    await check_equal(path, QUESTIONS)


@pytest.mark.parametrize(
    "options",
    [
        {"format_version": 3, "block_size": 256},
        {"base_tokenizer": "icu"},
    ],
    ids=str,
)
async def test_fragments_of_an_index_that_is_not_written_here_stay(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    path = written(tmp_path / "t", **options)
    dataset = await alance.dataset(path)
    after = await dataset.optimize.compact_files(target_rows_per_fragment=10_000)
    assert after.list_indices()[0]["fragment_ids"] == {0, 1, 2}
    assert len(after.fragments) == 3
    after = await after.optimize.compact_files(
        target_rows_per_fragment=10_000, uncover_indices=True
    )
    assert len(after.fragments) == 1
    assert len(await after.search_text("fox", on="text", use_index=False)) == 10
