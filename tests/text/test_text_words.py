"""Texts are split by the settings of a column's index, even if it covers none of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa
import pytest

import alance
from alance import CombinedFieldsQuery, MatchQuery, PhraseQuery
from tests.text.test_text_search import MATCHES, TOGETHER
from tests.text.text_cases import check_equal, ours, table, theirs, written

if TYPE_CHECKING:
    from pathlib import Path

QUESTIONS: Final = [*MATCHES, *TOGETHER]


@pytest.mark.parametrize("tokenizer", ["icu", "icu/split"])
async def test_an_index_of_words_that_are_not_known_here_is_refused_by_name(
    tmp_path: Path, tokenizer: str
) -> None:
    path = written(tmp_path / "t", base_tokenizer=tokenizer)
    dataset = await alance.dataset(path)
    message = f"index text_idx of .*tokenizer '{tokenizer}'.*use_index=False"
    questions: list[Any] = ["fox", PhraseQuery("quick fox", "text"), '"quick fox"']
    for query in [*questions, CombinedFieldsQuery("fox", ["text", "title"])]:
        with pytest.raises(alance.UnsupportedError, match=message):
            await dataset.search_text(query, 5)
    rows = await dataset.search_text("fox", 5, on="text", use_index=False)
    lance.dataset(path).drop_index("text_idx")
    bare = await alance.dataset(path)
    assert rows == await bare.search_text("fox", 5, on="text")


async def test_an_index_of_a_later_version_is_refused_by_name(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    dataset = await alance.dataset(path)
    (message,) = dataset._snapshot.manifest.indices
    message.index_version = 99
    with pytest.raises(
        alance.UnsupportedError, match=r"index text_idx: version 99.*use_index=False"
    ):
        await dataset.search_text("fox", 5)
    assert len(await dataset.search_text("fox", 5, on="text", use_index=False)) == 5


async def test_words_are_those_of_an_index_that_covers_nothing_yet(tmp_path: Path) -> None:
    path = written(tmp_path / "t", index=False)
    lance.dataset(path).create_scalar_index("text", "INVERTED", train=False)
    await check_equal(path, QUESTIONS)


async def test_words_are_those_of_an_index_whose_translation_is_left_for_later(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "t")
    lance.dataset(path).delete("id % 3 = 0")
    lance.dataset(path).optimize.compact_files(defer_index_remap=True)
    dataset = await alance.dataset(path)
    for query in QUESTIONS:  # pylance asks the index, which counts deleted rows in scores
        own, other = await ours(dataset, query), theirs(path, query)
        assert sorted(own["id"].to_pylist()) == sorted(other["id"].to_pylist()), query


async def test_words_are_those_of_the_index_in_fragments_that_it_does_not_cover(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "t")
    lance.write_dataset(table(100, 5, 400), path, mode="append")
    dataset = await alance.dataset(path)
    last = max(fragment.fragment_id for fragment in lance.dataset(path).get_fragments())
    for query in QUESTIONS:
        whole = await ours(dataset, query)
        part = await ours(dataset, query, fragments=[last])
        late = [row for row in whole["id"].to_pylist() if row >= 400]
        assert sorted(part["id"].to_pylist()) == sorted(late), query


TAMIL: Final = (
    "தமிழ் மொழி என்று அழகு", "ஒன்று மூன்று என்று மரம்", "மக்கள் மற்றும் அரசு", "என அவர் கூறினார்",
    "மொழி", "புத்தகங்கள் என்று மொழி மரம் மரம்",
)  # fmt: skip


@pytest.mark.parametrize("stem", [False, True])
async def test_rows_without_an_index_have_the_scores_of_pylance_in_tamil(
    tmp_path: Path, stem: bool
) -> None:
    texts = TAMIL * 5
    rows = pa.table({"id": range(len(texts)), "text": texts})
    path = tmp_path / "t"
    lance.write_dataset(rows, path)
    lance.dataset(path).create_scalar_index("text", "INVERTED", language="Tamil", stem=stem)
    late = pa.array(range(100, 100 + len(texts)))
    lance.write_dataset(rows.set_column(0, "id", late), path, mode="append")
    words = sorted({word for text in TAMIL for word in text.split()})
    await check_equal(path, [MatchQuery(word, "text") for word in [*words, " ".join(words[:3])]])
