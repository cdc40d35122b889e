"""Inverted indices that alance makes: as pylance's, used and extended by it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from lance.file import LanceFileReader
from lance.indices import IndexConfig

import alance
from alance import MatchQuery
from tests.reference.thinned import thinned
from tests.text.test_text_search import FUZZY, MATCHES, PHRASES, TOGETHER
from tests.text.text_cases import agree, check_equal, indexed, ours, table, theirs, written

if TYPE_CHECKING:
    from pathlib import Path

QUESTIONS = [*MATCHES, *FUZZY, *PHRASES, *TOGETHER]


def contents(path: Path) -> dict[str, Any]:
    """The rows of an index's files; posting lists by token."""
    (folder,) = (path / "_indices").iterdir()
    files = {file.name: LanceFileReader(str(file)) for file in folder.iterdir()}
    rows = {name: file.read_all().to_table().to_pylist() for name, file in files.items()}
    lists = rows.pop("part_0_invert.lance")
    return {
        "docs": rows["part_0_docs.lance"],
        "tokens": rows["part_0_tokens.lance"],
        "lists": lists,
        "told": files["part_0_invert.lance"].metadata().schema.metadata,
        "metadata": files["metadata.lance"].metadata().schema.metadata,
    }


async def test_posting_lists_have_the_bytes_that_pylance_writes(tmp_path: Path) -> None:
    path = written(tmp_path / "t", 3000, index=False, per_file=4000)
    await (await alance.dataset(path)).create_index("text", "INVERTED", with_position=True)
    right = written(tmp_path / "right", 3000, with_position=True, per_file=4000)
    actual, other = contents(path), contents(right)
    assert actual["docs"] == other["docs"]
    assert actual["told"] == other["told"]
    assert actual["tokens"] == other["tokens"]  # a transducer, whose bytes are the same
    parameters = [json.loads(index["metadata"].pop(b"params")) for index in (actual, other)]
    assert parameters[0] == parameters[1]
    assert actual["metadata"] == other["metadata"]
    assert len(actual["lists"]) == len(other["lists"])
    for own, their in zip(actual["lists"], other["lists"], strict=True):
        # Tokens have their numbers in the order in which they come, in both.
        assert own.keys() == their.keys()
        for name in own.keys() - {"_max_score", "_posting"}:
            assert own[name] == their[name], name
        assert own["_max_score"] == pytest.approx(their["_max_score"], rel=1e-5)
        assert [block[4:] for block in own["_posting"]] == [
            block[4:] for block in their["_posting"]
        ]  # in front are scores, which are rounded


@pytest.mark.parametrize(("version", "stable"), thinned(["2.0", "2.1", "2.2"], [False, True]))
async def test_pylance_uses_and_extends_what_is_made(
    tmp_path: Path, version: str, stable: bool
) -> None:
    path = written(
        tmp_path / "t", index=False, data_storage_version=version, enable_stable_row_ids=stable
    )
    dataset = await alance.dataset(path)
    await dataset.create_index("text", "fts", with_position=True)
    assert lance.dataset(path).describe_indices()[0].index_type == "Inverted"
    await check_equal(path, QUESTIONS)
    lance.write_dataset(table(100, 5, 400), path, mode="append")
    lance.dataset(path).optimize.optimize_indices()
    lance.dataset(path).delete("id % 7 = 1")
    await check_equal(path, QUESTIONS)


@pytest.mark.parametrize(
    "options",
    [
        {"base_tokenizer": "whitespace", "lower_case": False},
        {"base_tokenizer": "raw"},
        {"base_tokenizer": "ngram", "min_ngram_length": 2},
        {"custom_stop_words": ["fox"], "stem": False, "max_token_length": None},
        {"language": "German", "ascii_folding": False, "remove_stop_words": False},
    ],
    ids=str,
)
async def test_words_are_made_as_is_asked(tmp_path: Path, options: dict[str, Any]) -> None:
    path = written(tmp_path / "t", index=False)
    await (await alance.dataset(path)).create_index("text", "INVERTED", **options)
    await check_equal(path, [*MATCHES, *TOGETHER])
    right = written(tmp_path / "right", **options)
    dataset = await alance.dataset(path)
    for query in MATCHES:
        agree(await ours(dataset, query), theirs(right, query))


async def test_little_memory_makes_more_partitions_and_the_same_answers(tmp_path: Path) -> None:
    path = written(tmp_path / "t", 9000, index=False, per_file=4000)
    dataset = await alance.dataset(path)
    whole = await dataset.create_index("text", "INVERTED", with_position=True)
    parts = await whole.create_index(
        "text", "INVERTED", with_position=True, replace=True, memory_bytes=1 << 16
    )
    newest = max((path / "_indices").iterdir(), key=lambda folder: folder.stat().st_mtime_ns)
    assert len(list(newest.glob("part_*_docs.lance"))) > 2
    await check_equal(path, [*MATCHES, *PHRASES])
    for query in QUESTIONS:
        agree(await ours(parts, query), await ours(whole, query))


async def test_lists_and_nested_texts_are_indexed(tmp_path: Path) -> None:
    rows = [["the quick fox the", "lazy dog"], ["fox"], [], None, ["", None, "dog the fox"]]
    data = pa.table({"id": range(5), "text": pa.array(rows, pa.list_(pa.string()))})
    path = tmp_path / "t"
    lance.write_dataset(data, path)
    await (await alance.dataset(path)).create_index("text", "INVERTED", with_position=True)
    await check_equal(path, [query for query in QUESTIONS if query not in FUZZY])
    nested = pa.table({"id": range(3), "s": [{"text": "a fox"}, {"text": None}, None]})
    dataset = await alance.write_dataset(nested, tmp_path / "n")
    dataset = await dataset.create_index("s.text", "INVERTED")
    assert (await dataset.search_text("fox", columns=["id"]))["id"].to_pylist() == [0]


async def test_tables_without_words_have_an_index_without_partitions(tmp_path: Path) -> None:
    data = pa.table({"id": range(3), "text": pa.array([None, "", "the"], pa.string())})
    dataset = await alance.write_dataset(data, tmp_path / "t")
    dataset = await dataset.create_index("text", "INVERTED")
    assert len(await dataset.search_text("fox")) == 0
    await check_equal(tmp_path / "t", [MatchQuery("fox", "text")])
    await alance.write_dataset(table(50), tmp_path / "e")
    empty = await (await alance.dataset(tmp_path / "e")).delete("true")
    empty = await empty.create_index("text", "INVERTED")
    assert len(await empty.search_text("fox")) == 0


async def test_optimising_covers_all_rows_with_words_made_as_before(tmp_path: Path) -> None:
    path = written(tmp_path / "t", with_position=True, stem=False)
    for place, merged in enumerate((None, 1, 2)):
        more = table(60, 9, 400 + 60 * place)
        lance.write_dataset(more, path, mode="append")
        dataset = await alance.dataset(path)
        before = len(dataset.list_indices())
        after = await dataset.optimize.optimize_indices(num_indices_to_merge=merged)
        assert len(after.list_indices()) == before + 1 - (merged or 0)
        assert "every text" not in str(await after.scanner(full_text_query="fox").explain())
        await check_equal(path, QUESTIONS)


@pytest.mark.parametrize(
    ("column", "options", "error"),
    [
        ("id", {}, alance.InvalidInputError),
        ("nowhere", {}, alance.InvalidInputError),
        ("text", {"language": "Klingon"}, alance.InvalidInputError),
        ("text", {"memory_bytes": 1}, alance.InvalidInputError),
        ("text", {"num_partitions": 3}, TypeError),
    ],
)
async def test_what_cannot_be_made_is_refused(
    tmp_path: Path, column: str, options: dict[str, Any], error: type[Exception]
) -> None:
    dataset = await alance.dataset(written(tmp_path / "t", index=False))
    with pytest.raises(error):
        await dataset.create_index(column, "INVERTED", **options)
    assert not (tmp_path / "t" / "_indices").exists()


async def test_an_index_is_replaced_where_that_is_asked(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    indexed(path)
    dataset = await alance.dataset(path)
    with pytest.raises(alance.AlreadyExistsError):
        await dataset.create_index("text", "INVERTED")
    dataset = await dataset.create_index("text", "INVERTED", replace=True)
    assert [index["fragment_ids"] for index in dataset.list_indices()] == [{0, 1, 2}]
    await check_equal(path, MATCHES)


async def test_a_config_of_pylance_makes_an_index_of_texts(tmp_path: Path) -> None:
    path = written(tmp_path / "t", index=False)
    dataset = await alance.dataset(path)
    config = IndexConfig("inverted", {"with_position": True, "stem": False})
    dataset = await dataset.create_scalar_index("text", config)
    right = written(tmp_path / "right", with_position=True, stem=False)
    for query in [*MATCHES, *PHRASES]:
        agree(await ours(dataset, query), theirs(right, query))
    with pytest.raises(TypeError, match="colour"):
        await dataset.create_scalar_index("text", IndexConfig("fts", {"colour": 1}))
    for unknown in (7, None, IndexConfig(7, {})):  # type: ignore[arg-type]
        with pytest.raises(alance.UnsupportedError, match="or an object with index_type"):
            await dataset.create_scalar_index("text", unknown)  # type: ignore[arg-type]
    with pytest.raises(alance.UnsupportedError, match="INVERTED for texts"):
        await dataset.create_index("text", "words")
