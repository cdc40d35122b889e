"""Searches whose documents are the elements of lists, beside pylance's."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import alance
from alance import (
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    MatchQuery,
    MultiMatchQuery,
    PhraseQuery,
)
from alance.indexing import IndexBuild
from tests.text.test_text_search import DOG, FOX, TOGETHER, trees, words
from tests.text.text_cases import as_theirs, texts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ELEMENTS: Final = {"document_granularity": "list_element"}
QUESTIONS: Final = (FOX, TOGETHER[2], TOGETHER[4], PhraseQuery("quick fox", "text", slop=1))
ROWS: Final = [
    ["the quick fox the", "lazy dog"],
    ["fox"],
    [],
    None,
    ["", None, "dog the fox"],
    ["fox fox", "fox"],
]


def lists(count: int, seed: int = 3) -> list[list[str | None] | None]:
    """Lists of no to four texts; some are null."""
    parts = iter(texts(4 * count, seed))
    sizes = [(7 * place + seed) % 6 for place in range(count)]
    return [None if size == 5 else [next(parts) for _ in range(size)] for size in sizes]


def write(path: Path, rows: Sequence[Any], first: int = 0, **options: Any) -> None:
    """Rows with ids from a number on; a table, or more of it."""
    numbers = pa.array(range(first, first + len(rows)), pa.int64())
    data = pa.table({"id": numbers, "text": pa.array(rows, pa.list_(pa.string()))})
    lance.write_dataset(data, path, mode="append" if first else "create", **options)


def index(path: Path, **options: Any) -> None:
    """An index of pylance's."""
    granularity = lance.query.DocumentGranularity.LIST_ELEMENT
    lance.dataset(path).create_scalar_index(
        "text", "INVERTED", document_granularity=granularity, **options
    )


def theirs(path: Path, query: alance.TextQuery, **options: Any) -> pa.Table:
    """Return pylance's result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        request = as_theirs(query)
        return lance.dataset(path).to_table(columns=["id"], full_text_query=request, **options)


def scores(table: pa.Table) -> dict[tuple[int, ...], float]:
    """By id and place; each once."""
    keys = [
        (id_, *place)
        for id_, place in zip(table["id"].to_pylist(), table["_doc_index"].to_pylist(), strict=True)
    ]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, table["_score"].to_pylist(), strict=True))


async def check_equal(path: Path, queries: Sequence[alance.TextQuery], **options: Any) -> None:
    """Both libraries give the same elements with the same scores."""
    dataset = await alance.dataset(path)
    for query in queries:
        table = await dataset.scanner(["id"], full_text_query=query, **options).to_table()
        expected = theirs(path, query, **options)
        assert table.schema.equals(expected.schema), query
        own = scores(table)
        assert own == pytest.approx(scores(expected), rel=1e-5, abs=1e-5), query
        assert list(own) == sorted(own, key=lambda key: (-own[key], key)), query
        part = dataset.scanner(["id"], full_text_query=query, limit=3, **options)
        assert await part.to_table() == table.slice(0, 3), query


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
async def test_random_questions_of_random_lists_have_the_answers_of_pylance(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("random") / "t"
    rows = st.lists(st.none() | st.lists(st.none() | words, max_size=4), min_size=1, max_size=15)
    first, more = data.draw(rows), data.draw(st.none() | rows)
    write(path, first, max_rows_per_file=data.draw(st.integers(3, 15)))
    if data.draw(st.booleans()):
        index(path, with_position=True, format_version=data.draw(st.sampled_from([1, 2, 3])))
    else:
        dataset = await alance.dataset(path)
        await dataset.create_index("text", "INVERTED", with_position=True, **ELEMENTS)
    if more is not None:
        write(path, more, len(first))
        if data.draw(st.booleans()):
            lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    if data.draw(st.booleans()):
        lance.dataset(path).delete("id % 3 = 1")
    await check_equal(path, data.draw(st.lists(trees, min_size=1, max_size=3)))


@pytest.mark.parametrize("stable", [False, True])
async def test_what_is_made_here_pylance_uses_and_extends_and_compactions_keep(
    tmp_path: Path, stable: bool
) -> None:
    path = tmp_path / "t"
    write(path, lists(300), max_rows_per_file=100, enable_stable_row_ids=stable)
    dataset = await alance.dataset(path)
    options: Any = {"with_position": True, "memory_bytes": 1 << 16, **ELEMENTS}
    await dataset.create_index("text", "INVERTED", **options)
    (described,) = lance.dataset(path).describe_indices()
    assert described.name == "text_list_element_idx"
    await check_equal(path, QUESTIONS)
    write(path, lists(40, 4), 300)
    lance.dataset(path).optimize.optimize_indices()
    await check_equal(path, QUESTIONS)
    write(path, lists(40, 5), 340)
    await (await alance.dataset(path)).optimize.optimize_indices()
    lance.dataset(path).delete("id % 7 = 1 or id between 80 and 220")
    await check_equal(path, QUESTIONS)
    await check_equal(path, QUESTIONS, filter="id % 2 = 0", prefilter=True)
    after = await (await alance.dataset(path)).optimize.compact_files(
        target_rows_per_fragment=10_000
    )
    assert len(after.fragments) == 2  # of two segments of the index
    assert "every text" not in str(await after.scanner(full_text_query=FOX).explain())
    await check_equal(path, QUESTIONS)
    write(path, lists(40, 6), 380)
    lance.dataset(path).optimize.optimize_indices()
    await check_equal(path, QUESTIONS)


async def test_the_index_is_as_pylance_makes_it(tmp_path: Path) -> None:
    for path in (tmp_path / "t", tmp_path / "right"):
        write(path, ROWS)
    await (await alance.dataset(tmp_path / "t")).create_index("text", "INVERTED", **ELEMENTS)
    index(tmp_path / "right")
    documents, records = [], []
    for path in (tmp_path / "t", tmp_path / "right"):
        (file,) = (path / "_indices").glob("*/part_0_docs.lance")
        reader = lance.file.LanceFileReader(str(file))
        documents.append((reader.read_all().to_table(), reader.metadata().schema.metadata))
        message = (await alance.dataset(path)).list_indices()[0]
        records.append({name: message[name] for name in ("name", "type", "version", "fields")})
    assert documents[0] == documents[1]
    assert records[0] == records[1]


async def test_an_index_in_parts_is_that_made_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, lists(60), max_rows_per_file=20)
    dataset = await alance.dataset(path)
    plan = await IndexBuild.plan(dataset, "text", "INVERTED", task_bytes=1, texts=ELEMENTS)
    parts = [await task.execute(dataset) for task in plan.tasks]
    assert len(parts) == 3
    segment = await IndexBuild.merge(dataset, plan, parts)
    await IndexBuild.commit(dataset, plan, segment)
    await check_equal(path, [FOX, DOG])


async def test_texts_without_words_are_elements_as_well(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, [[""], [None], ["", "the"]])
    await (await alance.dataset(path)).create_index("text", "INVERTED", **ELEMENTS)
    await check_equal(path, [FOX])
    write(path, ROWS, 3)
    await check_equal(path, [FOX, DOG])
    lance.dataset(path).optimize.optimize_indices()
    await check_equal(path, [FOX, DOG])


async def test_what_documents_are_is_inferred_or_said(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, ROWS)
    rows, elements = (
        MatchQuery("fox", "text", document_granularity=kind)  # type: ignore[arg-type]
        for kind in ("row", "list_element")
    )
    dataset = await alance.dataset(path)
    assert "_doc_index" not in (await dataset.search_text(FOX)).column_names
    every = scores(await dataset.search_text(elements))
    assert every == pytest.approx(
        scores(lance.dataset(path).to_table(full_text_query=elements_of_lance("fox")))
    )
    dataset = await dataset.create_index("text", "INVERTED")
    with pytest.raises(alance.InvalidInputError, match="has 'row'"):
        await dataset.search_text(elements)
    dataset = await dataset.create_index("text", "INVERTED", **ELEMENTS)
    with pytest.raises(alance.InvalidInputError, match="expected document_granularity"):
        await dataset.search_text(FOX)
    hits = [await dataset.search_text(query, columns=["id"]) for query in (rows, elements)]
    assert (
        await asyncio.gather(
            dataset.search_text(rows, columns=["id"]), dataset.search_text(elements, columns=["id"])
        )
        == hits
    )
    assert hits[0]["id"].to_pylist() == [5, 1, 4, 0]
    assert list(scores(hits[1])) == [(5, 0), (1, 0), (5, 1), (0, 0), (4, 2)]
    assert await dataset.search_text("fox", columns=["id"]) == hits[0]
    dataset = await dataset.drop_index("text_idx")
    with pytest.raises(alance.InvalidInputError, match="has 'list_element'"):
        await dataset.search_text(rows)
    assert len(await dataset.search_text(rows, use_index=False)) == 4
    assert await dataset.search_text("fox", on="text", columns=["id"]) == hits[1]


def elements_of_lance(text: str) -> Any:
    """A query of pylance's that asks for elements."""
    granularity = lance.query.DocumentGranularity.LIST_ELEMENT
    return lance.query.MatchQuery(text, "text", document_granularity=granularity)


async def test_columns_and_filters_are_those_that_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, ROWS, max_rows_per_file=4)
    index(path)
    dataset = await alance.dataset(path)
    names: Any
    for names in (["_score", "id"], ["_doc_index", "id"], ["_doc_index"], ["_rowid"], None):
        options: dict[str, Any] = {"columns": names, "with_row_address": True}
        expected = lance.dataset(path).to_table(full_text_query=as_theirs(DOG), **options)
        scanner = dataset.scanner(names, full_text_query=DOG, with_row_address=True)
        table = await scanner.to_table()
        assert table.schema.equals(expected.schema)
        assert table.schema == scanner.projected_schema
        assert table == expected.cast(table.schema)
    after = await dataset.search_text(FOX, 3, filter="id > 1", prefilter=False, columns=["id"])
    assert list(scores(after)) == [(5, 0), (5, 1)]
    assert await dataset.scanner(full_text_query=FOX).count_rows() == 5


@pytest.mark.parametrize(
    ("query", "error"),
    [
        (MultiMatchQuery("fox", ["text"]), alance.UnsupportedError),
        (MultiMatchQuery("fox", ["title", "text"]), alance.UnsupportedError),
        (CombinedFieldsQuery("fox", ["text"]), alance.UnsupportedError),
        (FOX & MatchQuery("fox", "title"), alance.InvalidInputError),
        (BoostQuery(FOX, MatchQuery("fox", "more")), alance.InvalidInputError),
        (BooleanQuery([("MUST", FOX), ("MUST_NOT", DOG)]), None),
        (MatchQuery("fox", "title", **ELEMENTS), alance.InvalidInputError),  # type: ignore[arg-type]
    ],
    ids=str,
)
async def test_what_does_not_go_together_is_refused_as_by_pylance(
    tmp_path: Path, query: alance.TextQuery, error: type[Exception] | None
) -> None:
    path = tmp_path / "t"
    kind = pa.list_(pa.string())
    rows = {"id": range(6), "text": pa.array(ROWS, kind), "more": pa.array(ROWS[::-1], kind)}
    dataset = await alance.write_dataset({**rows, "title": ["fox"] * 6}, path)
    for column in ("text", "more"):
        dataset = await dataset.create_index(column, "INVERTED", **ELEMENTS)
    dataset = await dataset.create_index("title", "INVERTED")
    if error is None:
        await check_equal(path, [query])
        return
    with pytest.raises(error):
        await dataset.search_text(query)
    if not isinstance(query, MatchQuery):
        with pytest.raises(ValueError, match=r"granularit|ListElement"):
            theirs(path, query)


async def test_only_lists_have_elements(tmp_path: Path) -> None:
    dataset = await alance.write_dataset({"text": ["fox"], "vector": [[1.0, 2.0]]}, tmp_path / "t")
    with pytest.raises(alance.InvalidInputError, match="no lists"):
        await dataset.create_index("text", "INVERTED", **ELEMENTS)
    with pytest.raises(alance.InvalidInputError, match="expected one of row, list_element"):
        await dataset.create_index("text", "INVERTED", document_granularity="word")
    with pytest.raises(alance.InvalidInputError, match="expected one of row, list_element"):
        MatchQuery("fox", document_granularity="word")  # type: ignore[arg-type]
