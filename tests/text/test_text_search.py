"""Searches by words in indices of pylance, beside pylance's own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import alance
from alance import BooleanQuery, BoostQuery, MatchQuery, MultiMatchQuery, PhraseQuery
from tests.text.text_cases import WORDS, agree, check_equal, indexed, ours, table, theirs, written

if TYPE_CHECKING:
    from pathlib import Path

FORMATS: Final = {
    "1": {"format_version": 1},
    "2": {"format_version": 2},
    "3": {"format_version": 3},
    "3, blocks of 256": {"format_version": 3, "block_size": 256},
}
MATCHES: Final = (
    MatchQuery("apple", "text"),
    MatchQuery("running foxes", "text"),
    MatchQuery("the quick brown fox of the river", "text"),
    MatchQuery("dog dog apple", "text", boost=2.5),
    MatchQuery("quick fox", "text", operator="AND"),
    MatchQuery("the apples", "text", operator="AND"),
    MatchQuery("apple zebra", "text", operator="AND"),
    MatchQuery("zebra", "text"),
    MatchQuery("", "text"),
    MatchQuery("UBER strasse naive 日本語", "text"),
)
FUZZY: Final = (
    MatchQuery("appel", "text", fuzziness=2),
    MatchQuery("maple dag", "text", fuzziness=1),
    MatchQuery("maple dag", "text", fuzziness=1, operator="AND"),
    MatchQuery("quick river", "text", fuzziness=2, max_expansions=2),
    MatchQuery("ample", "text", fuzziness=2, prefix_length=1),
    MatchQuery("running", "text", fuzziness=None),
)
PHRASES: Final = tuple(
    PhraseQuery(text, "text", slop=slop)
    for text in ("quick fox", "apple the dog", "dog apple run", "fox fox", "fox", "the", "zebra a")
    for slop in (0, 1, 2, 5)
)
FOX, DOG, APPLE = (MatchQuery(word, "text") for word in ("fox", "dog", "apple"))
TOGETHER: Final = (
    FOX & DOG,
    FOX | DOG,
    BooleanQuery([("MUST", FOX), ("SHOULD", DOG), ("MUST_NOT", APPLE)]),
    BooleanQuery([("SHOULD", FOX), ("SHOULD", DOG), ("MUST_NOT", APPLE)]),
    BoostQuery(FOX, DOG),
    BoostQuery(FOX, DOG & APPLE, negative_boost=1.5),
    BooleanQuery([("MUST", FOX & DOG), ("SHOULD", BoostQuery(APPLE, DOG, negative_boost=0.2))]),
)


@pytest.mark.parametrize("which", FORMATS)
async def test_an_index_gives_the_rows_and_scores_that_it_gives_pylance(
    tmp_path: Path, which: str
) -> None:
    path = written(tmp_path / "t", 700, with_position=True, **FORMATS[which])
    await check_equal(path, [*MATCHES, *FUZZY, *PHRASES, *TOGETHER])


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
async def test_index_files_have_the_version_of_the_table(tmp_path: Path, version: str) -> None:
    path = written(tmp_path / "t", data_storage_version=version, with_position=True)
    await check_equal(path, [*MATCHES, *PHRASES])


@pytest.mark.parametrize(
    "options",
    [
        {"base_tokenizer": "whitespace", "lower_case": False},
        {"base_tokenizer": "raw"},
        {"base_tokenizer": "ngram", "min_ngram_length": 2},
        {"base_tokenizer": "ngram", "prefix_only": True},
        {"stem": False, "remove_stop_words": False, "ascii_folding": False},
        {"custom_stop_words": ["fox", "dog"], "stem": False},
        {"language": "German", "max_token_length": 5},
    ],
    ids=str,
)
async def test_words_are_made_as_the_index_says(tmp_path: Path, options: dict[str, Any]) -> None:
    path = written(tmp_path / "t", **options)
    lance.write_dataset(table(60, 9, 400), path, mode="append")
    await check_equal(path, [*MATCHES, *TOGETHER])


@pytest.mark.parametrize("stable", [False, True])
async def test_segments_deletes_and_rows_without_an_index_count(
    tmp_path: Path, stable: bool
) -> None:
    path = written(tmp_path / "t", with_position=True, enable_stable_row_ids=stable)
    lance.write_dataset(table(200, 8, 400), path, mode="append")
    lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    lance.dataset(path).delete("id % 7 = 1 or id between 150 and 299")  # a whole fragment, too
    questions = [*MATCHES, *PHRASES, *TOGETHER]
    await check_equal(path, questions)
    lance.write_dataset(table(100, 9, 600), path, mode="append")
    lance.dataset(path).delete("id % 11 = 1")
    await check_equal(path, [*questions, *FUZZY])
    await check_equal(path, questions[::2], fast_search=True)
    await check_equal(path, questions[1::2], filter="kind = 2", prefilter=True)
    lance.dataset(path).optimize.optimize_indices()
    await check_equal(path, questions)
    await check_equal(path, questions[::2], filter="kind < 2", prefilter=True)


async def test_texts_without_an_index_are_split_and_no_more(tmp_path: Path) -> None:
    path = written(tmp_path / "t", index=False)
    await check_equal(path, [*MATCHES, *FUZZY, *TOGETHER])
    await check_equal(path, [*MATCHES], filter="kind = 2", prefilter=True)
    dataset = await alance.dataset(path)
    rows = await dataset.search_text("fox", on="text", columns=["id"])
    assert len(rows) == 10
    with pytest.raises(alance.InvalidInputError, match="no column has an inverted index"):
        await dataset.search_text("fox")


async def test_several_columns_give_the_best_of_them(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    pair = ["text", "title"]
    questions = [
        MultiMatchQuery("fox", pair),
        MultiMatchQuery("quick dog", pair, boosts=[1, 3]),
        MultiMatchQuery("quick dog", pair, operator="AND"),
        BooleanQuery([("MUST", FOX), ("SHOULD", MatchQuery("dog", "title"))]),
    ]
    await check_equal(path, questions)  # one of them has an index
    indexed(path, "title")
    await check_equal(path, questions)
    dataset = await alance.dataset(path)
    every = await dataset.search_text("quick dog", 1000, columns=["id"])
    assert every == await ours(dataset, MultiMatchQuery("quick dog", pair))
    request = {"query": "quick dog", "columns": ["title"]}
    title = await dataset.scanner(["id"], full_text_query=request).to_table()
    assert title == await dataset.search_text("quick dog", 1000, on="title", columns=["id"])
    agree(title, theirs(path, MatchQuery("quick dog", "title")))


async def test_lists_of_texts_are_one_document_a_row(tmp_path: Path) -> None:
    rows = [["the quick fox the", "lazy dog"], ["fox"], [], None, ["", None, "dog the fox"]]
    data = pa.table({"id": range(5), "text": pa.array(rows, pa.list_(pa.string()))})
    path = tmp_path / "t"
    lance.write_dataset(data, path)
    indexed(path, with_position=True)
    lance.write_dataset(data.set_column(0, "id", pa.array(range(5, 10))), path, mode="append")
    phrases = [
        PhraseQuery(text, "text", slop=slop)
        for text in ("quick fox", "fox lazy", "dog fox")
        for slop in range(4)
    ]
    await check_equal(path, [FOX, DOG, FOX & DOG, *phrases])


async def test_the_best_rows_are_given_and_a_filter_may_come_after(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    dataset = await alance.dataset(path)
    every = await ours(dataset, FOX)
    assert await dataset.search_text("fox", 7, columns=["id"]) == every.slice(0, 7)
    part = await ours(dataset, FOX, limit=5, offset=3)
    assert part == every.slice(3, 5)
    after = await dataset.search_text("fox", 20, filter="kind = 1", prefilter=False, columns=["id"])
    assert after["id"].to_pylist() == [id_ for id_ in every["id"].to_pylist()[:20] if id_ % 5 == 1]
    before = await dataset.search_text("fox", 10, filter="kind = 1", columns=["id"])
    assert len(before) == 10
    assert {id_ % 5 for id_ in before["id"].to_pylist()} == {1}
    assert await dataset.scanner(full_text_query="fox").count_rows() == len(every)


async def test_searches_at_once_are_answered_as_each_alone(tmp_path: Path) -> None:
    path = written(tmp_path / "t", with_position=True)
    lance.write_dataset(table(60, 9, 400), path, mode="append")
    dataset = await alance.dataset(path)
    anies: list[Any] = [*MATCHES, *FUZZY, *PHRASES, *TOGETHER, *MATCHES]
    for options in ({}, {"filter": "kind = 2", "prefilter": False}, {"columns": ["_rowid"]}):
        alone = [await dataset.search_text(query, 5, **options) for query in anies]
        works = [dataset.search_text(query, 5, **options) for query in anies]
        assert await asyncio.gather(*works) == alone
    indexed(path, "title")
    dataset = await alance.dataset(path)
    bad = PhraseQuery("quick fox", "title")
    works = [dataset.search_text(query, 5) for query in (*PHRASES, bad)]
    *right, wrong = await asyncio.gather(*works, return_exceptions=True)
    assert all(isinstance(rows, pa.Table) for rows in right)
    assert isinstance(wrong, alance.InvalidInputError)
    assert "has no positions" in str(wrong)


async def test_the_output_has_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    dataset = await alance.dataset(path)
    names = (await dataset.search_text("fox", 3)).column_names
    assert names == ["id", "kind", "text", "title", "_score"]
    rows = await dataset.search_text("fox", 3, columns=["_score", "_rowid", "text"])
    assert rows.column_names == ["_score", "_rowid", "text"]
    assert all("fox" in text for text in rows["text"].to_pylist())
    scanner = dataset.scanner({"twice": "id * 2"}, full_text_query="fox", with_row_address=True)
    assert (await scanner.to_table()).schema == scanner.projected_schema
    assert scanner.projected_schema.names == ["twice", "_score", "_rowaddr"]


async def test_fragments_asked_for_are_searched_by_the_index(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    dataset = await alance.dataset(path)
    every, part = await ours(dataset, FOX), await ours(dataset, FOX, fragments=[1])
    inside = [150 <= id_ < 300 for id_ in every["id"].to_pylist()]
    assert part == every.filter(pa.array(inside))


async def test_what_is_done_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    lance.write_dataset(table(60, 9, 400), path, mode="append")
    dataset = await alance.dataset(path)
    message = str(await dataset.scanner(full_text_query="fox").explain())
    assert "column text: index text_idx: 1 segments for 3 of 4 fragments" in message
    assert "every text of 1 fragments is read" in message
    message = str(await dataset.scanner(full_text_query="fox", fast_search=True).explain())
    assert "1 fragments without an index are left out" in message
    with alance.trace() as recorded:
        await dataset.search_text("fox", 3)
    reasons = {reason for event in recorded.events for reason in getattr(event, "reasons", ())}
    assert "text index" in reasons


async def test_phrases_without_positions_are_refused_of_no_rows_as_well(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    lance.dataset(path).delete("true")
    theirs = lance.dataset(path)
    with pytest.raises(ValueError, match="position"):
        theirs.to_table(full_text_query=lance.query.PhraseQuery("quick fox", "text"))
    dataset, phrase = await alance.dataset(path), PhraseQuery("quick fox", "text")
    with pytest.raises(alance.InvalidInputError, match="has no positions"):
        await dataset.search_text(phrase)
    assert len(await dataset.search_text(phrase, use_index=False)) == 0
    assert len(await dataset.search_text("fox")) == 0


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (PhraseQuery("quick fox", "text"), "has no positions"),
        (MatchQuery("fox", "id"), "expected texts"),
        (MatchQuery("fox", "nowhere"), "nowhere"),
        (7, "expected a text, or a query"),
        ("a \ud800", "surrogates not allowed"),
        ({"query": "fox", "column": "text"}, "expected query and columns"),
    ],
    ids=str,
)
async def test_questions_that_have_no_answer_are_errors(
    tmp_path: Path, query: Any, message: str
) -> None:
    dataset = await alance.dataset(written(tmp_path / "t"))
    with pytest.raises(alance.InvalidInputError, match=message):
        await dataset.scanner(full_text_query=query).to_table()


@pytest.mark.parametrize(
    "make",
    [
        lambda: MatchQuery(b"fox"),
        lambda: MatchQuery("fox", operator="XOR"),
        lambda: MatchQuery("fox", fuzziness=-1),
        lambda: MatchQuery("fox", boost=float("nan")),
        lambda: PhraseQuery("fox", slop=1.5),
        lambda: MultiMatchQuery("fox", "text"),
        lambda: MultiMatchQuery("fox", ["text"], boosts=[]),
        lambda: BooleanQuery([("MUST_NOT", FOX)]),
        lambda: BooleanQuery([("MAY", FOX)]),
        lambda: BooleanQuery([("MUST", "fox")]),
        lambda: BooleanQuery([FOX]),
        lambda: BoostQuery(FOX, "dog"),
    ],
)
def test_queries_are_checked_when_they_are_made(make: Any) -> None:
    with pytest.raises(alance.InvalidInputError):
        make()


words = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
leaves = st.one_of(
    st.builds(
        MatchQuery,
        words,
        st.just("text"),
        operator=st.sampled_from(["OR", "AND"]),
        boost=st.sampled_from([1.0, 0.5, 3.0]),
    ),
    st.builds(PhraseQuery, words, st.just("text"), slop=st.integers(0, 4)),
)
trees = st.recursive(
    leaves,
    lambda part: st.one_of(
        st.builds(BoostQuery, part, part),
        st.lists(
            st.tuples(st.sampled_from(["MUST", "SHOULD", "MUST_NOT"]), part), min_size=1, max_size=3
        )
        .filter(lambda pairs: any(occur != "MUST_NOT" for occur, _ in pairs))
        .map(BooleanQuery),
    ),
    max_leaves=4,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
async def test_random_questions_of_random_texts_have_the_answers_of_pylance(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("random") / "t"
    rows = data.draw(st.lists(st.none() | words, min_size=1, max_size=30))
    numbers = pa.array(range(len(rows)))
    pieces = pa.table({"id": numbers, "text": pa.array(rows, pa.string())})
    per_file = data.draw(st.integers(3, 30))
    lance.write_dataset(pieces, path, max_rows_per_file=per_file)
    indexed(path, with_position=True, format_version=data.draw(st.sampled_from([1, 2, 3])))
    if data.draw(st.booleans()):
        more = pieces.set_column(0, "id", pa.array(range(len(rows), 2 * len(rows))))
        lance.write_dataset(more, path, mode="append")
        if data.draw(st.booleans()):
            lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    await check_equal(path, data.draw(st.lists(trees, min_size=1, max_size=4)))
