"""Texts in members of structs in lists, which are one document a row, beside pylance's answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import alance
from alance import BooleanQuery, MatchQuery, PhraseQuery, sync
from alance.errors import InvalidInputError, UnsupportedError
from alance.format.index.text.source import TextSource
from alance.format.schema import Schema
from tests.reference.thinned import thinned
from tests.text.text_cases import check_equal, ours, texts, theirs

if TYPE_CHECKING:
    from pathlib import Path

INNER: Final = pa.struct([("n", pa.int32()), ("t", pa.string()), ("ts", pa.list_(pa.string()))])
OUTER: Final = pa.struct([("l", pa.large_list(INNER))])
COLUMNS: Final = ("l.t", "l.ts", "s.l.t")


def rows(count: int, first: int = 0) -> pa.Table:
    """Rows whose lists have no to three structs; some lists, structs and texts are null."""
    parts = iter(texts(12 * count, first + 5, longest=6))

    def struct(number: int) -> dict[str, Any] | None:
        if number % 7 == 3:
            return None
        return {"n": number, "t": next(parts), "ts": [next(parts) for _ in range(number % 3)]}

    def lists(number: int) -> list[dict[str, Any] | None] | None:
        return None if number % 9 == 4 else [struct(number + k) for k in range(number % 4)]

    numbers = range(first, first + count)
    values = [lists(number) for number in numbers]
    outer = [None if number % 11 == 6 else {"l": lists(number + 1)} for number in numbers]
    return pa.table(
        {
            "id": numbers,
            "l": pa.array(values, pa.list_(INNER)),
            "s": pa.array(outer, OUTER),
        }
    )


def questions(column: str) -> list[alance.TextQuery]:
    words = [MatchQuery(text, column) for text in ("fox", "quick river dog", "1984 naïve")]
    pair = BooleanQuery([("MUST", words[0]), ("MUST_NOT", MatchQuery("lazy", column))])
    return [*words, pair, MatchQuery("brown fox", column, operator="AND")]


def phrases(column: str) -> list[alance.TextQuery]:
    return [PhraseQuery("brown fox", column), PhraseQuery("quick dog", column, slop=3)]


async def have_equal_scores(path: Path, queries: list[alance.TextQuery], **options: Any) -> None:
    """Both libraries give the same; ids are in another order than rows."""
    dataset = await alance.dataset(path)
    for query in queries:
        own, other = await ours(dataset, query, **options), theirs(path, query, **options)
        scores, expected = [
            dict(zip(table["id"].to_pylist(), table["_score"].to_pylist(), strict=True))
            for table in (own, other)
        ]
        assert scores == pytest.approx(expected, rel=1e-5, abs=1e-5), query


@pytest.mark.parametrize(("column", "by"), thinned([*COLUMNS], ["alance", "pylance"]))
async def test_rows_and_scores_are_those_of_pylance(tmp_path: Path, column: str, by: str) -> None:
    path = tmp_path / "t"
    lance.write_dataset(rows(120), path, max_rows_per_file=50)
    await check_equal(path, questions(column))
    if by == "pylance":
        lance.dataset(path).create_scalar_index(column, "INVERTED", with_position=True)
    else:
        dataset = await alance.dataset(path)
        await dataset.create_index(column, "INVERTED", with_position=True)
    await check_equal(path, [*questions(column), *phrases(column)])
    lance.dataset(path).delete("id % 5 = 1")
    lance.write_dataset(rows(60, 200), path, mode="append")
    await check_equal(path, questions(column), filter="id % 3 < 2", prefilter=True)
    dataset = await (await alance.dataset(path)).optimize.optimize_indices(num_indices_to_merge=0)
    (index,) = await dataset.describe_indices()
    assert index.name == f"{column}_idx"
    assert index.field_names == (column.replace("l.", "l.item."),)
    assert len(index.segments) == 2
    await check_equal(path, [*questions(column), *phrases(column)])
    dataset = await dataset.optimize.compact_files(target_rows_per_fragment=500)
    assert [len(index["fragment_ids"]) for index in dataset.list_indices()] == [1, 1]
    await dataset.validate()
    await have_equal_scores(path, [*questions(column), *phrases(column)])
    lance.write_dataset(rows(30, 300), path, mode="append")
    lance.dataset(path).optimize.optimize_indices()
    await have_equal_scores(path, questions(column), fast_search=True)


async def test_they_are_named_and_searched_by_their_path(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows(60), tmp_path / "t")
    dataset = await dataset.create_index("l.t", "INVERTED")
    hits = await dataset.search_text("fox", columns=["id", "l"])
    assert hits == await dataset.search_text("fox", on="l.t", columns=["id", "l"])
    assert all(
        any("fox" in (item["t"] or "") for item in items if item is not None)
        for items in hits["l"].to_pylist()
    )
    message = str(await dataset.scanner(full_text_query=MatchQuery("fox", "l.t")).explain())
    assert "index l.t_idx" in message
    for column in ("l.item.t", "l.u", "s.l.u"):
        with pytest.raises(InvalidInputError, match="no field"):
            await dataset.search_text("fox", on=column)
    for column in ("l", "l.n", "s", "id"):
        with pytest.raises(InvalidInputError, match="expected texts"):
            await dataset.create_index(column, "INVERTED")
    dataset = await dataset.drop_columns(["l"])
    assert dataset.list_indices() == []


async def test_their_elements_are_no_documents(tmp_path: Path) -> None:
    path, elements = tmp_path / "t", lance.query.DocumentGranularity.LIST_ELEMENT
    lance.write_dataset(rows(60), path)
    dataset = await alance.dataset(path)
    with pytest.raises(UnsupportedError, match="structs in lists"):
        await dataset.create_index("l.t", "INVERTED", document_granularity="list_element")
    lance.dataset(path).create_scalar_index("l.t", "INVERTED", document_granularity=elements)
    dataset = await alance.dataset(path)
    for query in (MatchQuery("fox", "l.t"), MatchQuery("fox", "l.t", document_granularity="row")):
        with pytest.raises((UnsupportedError, InvalidInputError), match=r"structs in|list_element"):
            await dataset.search_text(query, columns=["id"])


def test_they_are_indexed_in_parts(tmp_path: Path) -> None:
    dataset = sync.write_dataset(rows(90), tmp_path / "t", max_rows_per_file=30)
    plan = sync.IndexBuild.plan(dataset, "s.l.t", "INVERTED", task_bytes=1)
    parts = [task.execute(dataset) for task in plan.tasks]
    segment = sync.IndexBuild.merge(dataset, plan, parts)
    dataset = sync.IndexBuild.commit(dataset, plan, segment)
    hits = dataset.search_text("fox", on="s.l.t", k=100, columns=["id"])
    expected = theirs(tmp_path / "t", MatchQuery("fox", "s.l.t"))
    assert sorted(hits["id"].to_pylist()) == sorted(expected["id"].to_pylist())
    assert len(hits) > 0


STRUCTS = st.lists(st.none() | st.fixed_dictionaries({"t": st.none() | st.text(max_size=3)}))
LISTS = st.lists(st.none() | st.lists(st.none() | STRUCTS, max_size=3), max_size=8)


@given(LISTS, st.integers(0, 3))
def test_texts_of_lists_in_lists_are_those_of_a_row(values: list[Any], first: int) -> None:
    kind = pa.list_(pa.large_list(pa.struct([("t", pa.string())])))
    schema = Schema.from_arrow(pa.schema([("l", kind)]))
    source = TextSource.of(schema, "l.t")
    assert source.path == "l.item.item.t"
    column = pa.array(values, kind).slice(first)
    expected = [
        [None if item is None else item["t"] for inner in row or () for item in inner or ()]
        for row in values[first:]
    ]
    assert source.texts(column).to_pylist() == expected
