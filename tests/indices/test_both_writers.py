"""Indices that alance and pylance make, extend and merge in turn: all orders and kinds.

One writer makes the index, rows are appended, a writer indexes them in a new segment, and a writer
merges all segments. After each step both libraries answer as if there were no index.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

import lance
import lance.query
import numpy as np
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

import alance
from alance.ops.lookup.kinds import KINDS
from tests.reference.thinned import paired

if TYPE_CHECKING:
    from pathlib import Path

    from alance import Dataset

DIM: Final = 8
PARTS: Final = (300, 80, 40)  # rows that are indexed first, and that are appended
WHO: Final = ("alance", "pylance")
CASES: Final = (WHO, WHO, WHO, WHO, [False, True])  # who does each step; stable row ids
NAMES: Final = ("kind", "maker", "extender", "again", "merger", "stable")
WORDS: Final = ("river", "stones", "the", "quick", "fox", "日本語", "naïve", "running", "1984")
ALL: Final = sum(PARTS)

SCALARS: Final[dict[str, tuple[str, Any, tuple[str, ...]]]] = {
    "BTREE": ("key", "BTREE", ("key = 7", "key > 380 or key < 4", "key is null")),
    "BITMAP": ("kind", "BITMAP", ("kind = 'k3'", "kind in ('k1', 'k9')", "kind is null")),
    "LABEL_LIST": ("tags", "LABEL_LIST", ("array_has(tags, 't5')", "array_has(tags, 't410')")),
    "NGRAM": ("text", "NGRAM", ("contains(text, 'iver')", "contains(text, 'w411')")),
    "FM": ("text", IndexConfig("fm", {}), ("contains(text, 'iver')", "contains(text, 'x w4')")),
    "ZONEMAP": ("key", "ZONEMAP", ("key = 7", "key > 400", "key is null")),
    "BLOOMFILTER": ("key", "BLOOMFILTER", ("key = 7", "key in (410, 3)")),
    "JSON": (
        "doc",
        None,
        ("json_extract(doc, '$.a') = '7'", "json_extract(doc, '$.a') = '411'"),
    ),
}
TEXTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "words": ("text", {}),
    "positions": ("text", {"with_position": True}),
    "ngrams": ("text", {"base_tokenizer": "ngram"}),
    "raw words": ("text", {"stem": False, "remove_stop_words": False, "max_token_length": None}),
    "own stop words": ("text", {"custom_stop_words": ["fox"], "language": "German"}),
    "lists": ("tags", {}),
    "elements": ("tags", {"document_granularity": "list_element"}),
}
VECTORS: Final[dict[str, dict[str, Any]]] = {
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 4},
    "IVF_SQ": {},
    "IVF_RQ": {},
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_PQ": {"num_sub_vectors": 4},
    "IVF_HNSW_SQ": {},
}


def rows(first: int, count: int) -> pa.Table:
    """Rows with words that all, some or single rows have, and with nulls."""
    ids = range(first, first + count)
    rng = np.random.default_rng(first)
    texts = [
        None if n % 29 == 5 else " ".join((*rng.choice(WORDS, 4), f"w{n}", "the", "end"))
        for n in ids
    ]
    vectors = rng.random((count, DIM), np.float32)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "key": pa.array([None if n % 31 == 4 else n for n in ids], pa.int64()),
            "kind": pa.array([None if n % 17 == 3 else f"k{n % 11}" for n in ids]),
            "tags": pa.array([[f"t{n}", f"t{n % 7} river"] for n in ids], pa.list_(pa.string())),
            "text": pa.array(texts, pa.string()),
            "doc": pa.array([f'{{"a": {n}}}' for n in ids], pa.json_()),
            "vector": pa.FixedSizeListArray.from_arrays(vectors.ravel(), DIM),
        }
    )


class Table:
    """A table whose index both writers change in turn."""

    def __init__(self, path: Path, stable: bool) -> None:
        self.path, self.num_rows = path, 0
        self.options: dict[str, Any] = {
            "enable_stable_row_ids": stable,
            "data_storage_version": "2.2",
        }

    def append(self, count: int) -> None:
        """Append rows, by pylance."""
        part = rows(self.num_rows, count)
        mode = "append" if self.num_rows else "create"
        lance.write_dataset(part, self.path, mode=mode, **self.options)
        self.num_rows += count

    async def ours(self) -> Dataset:
        return await alance.dataset(self.path)

    async def optimize(self, who: str, count: int) -> None:
        """Extend or merge the index."""
        if who == "alance":
            dataset = await self.ours()
            await dataset.optimize.optimize_indices(num_indices_to_merge=count)
        else:
            dataset = lance.dataset(self.path)
            dataset.optimize.optimize_indices(num_indices_to_merge=count)

    def segments(self) -> list[list[int]]:
        """The fragments of each segment."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            indices: Any = lance.dataset(self.path).list_indices()
        return sorted(sorted(index["fragment_ids"]) for index in indices)

    async def go(self, order: tuple[str, ...], create: Any, check: Any) -> None:
        """Run all steps, and compare answers after each."""
        maker, extender, again, merger = order
        self.append(PARTS[0])
        await create(self, maker)
        await check(self)
        for who, count in zip((extender, again), PARTS[1:], strict=True):
            self.append(count)
            await check(self)
            await self.optimize(who, 0)
            await check(self)
        assert self.segments() == [[0], [1], [2]]
        await self.optimize(merger, 10)
        await check(self)
        assert self.segments() == [[0, 1, 2]]


def sorted_ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


def test_every_kind_of_scalar_index_is_made_by_both_writers() -> None:
    assert {kind.index_type for kind in KINDS.values()} | {"JSON"} == SCALARS.keys()


@pytest.mark.parametrize(NAMES, paired(list(SCALARS), *CASES))
async def test_filters_give_the_same_rows_by_an_index_of_both_writers(
    tmp_path: Path, kind: str, maker: str, extender: str, again: str, merger: str, stable: bool
) -> None:
    column, index_type, filters = SCALARS[kind]
    if kind == "JSON":
        # pylance mistakes the row ids of a B-tree of JSON for addresses.
        target = "bitmap" if stable else "btree"
        index_type = IndexConfig("json", {"path": "$.a", "target_index_type": target})

    async def create(table: Table, who: str) -> None:
        if who == "alance":
            await (await table.ours()).create_scalar_index(column, index_type)
        else:
            lance.dataset(table.path).create_scalar_index(column, index_type)

    async def check(table: Table) -> None:
        dataset, theirs = await table.ours(), lance.dataset(table.path)
        for condition in filters:
            right = sorted_ids(
                await dataset.to_table(["id"], filter=condition, use_scalar_index=False)
            )
            assert sorted_ids(await dataset.to_table(["id"], filter=condition)) == right, condition
            assert sorted_ids(theirs.to_table(["id"], filter=condition)) == right, condition

    await Table(tmp_path / "t", stable).go((maker, extender, again, merger), create, check)


@pytest.mark.parametrize(NAMES, paired(list(TEXTS), *CASES))
async def test_words_give_the_same_rows_by_an_index_of_both_writers(
    tmp_path: Path, kind: str, maker: str, extender: str, again: str, merger: str, stable: bool
) -> None:
    column, options = TEXTS[kind]

    async def create(table: Table, who: str) -> None:
        if who == "alance":
            await (await table.ours()).create_index(column, "INVERTED", **options)
        else:
            theirs = dict(options)
            if kind == "elements":
                theirs["document_granularity"] = lance.query.DocumentGranularity.LIST_ELEMENT
            lance.dataset(table.path).create_scalar_index(column, "INVERTED", **theirs)

    async def check(table: Table) -> None:
        dataset, theirs = await table.ours(), lance.dataset(table.path)
        for word in ("river", "Foxes", "t3", "w411", "日本語", "the"):
            query = {"query": word, "columns": [column]}
            if kind == "elements":
                ask: Any = {"full_text_query": alance.MatchQuery(word, column)}
                other: Any = {"full_text_query": lance.query.MatchQuery(word, column)}
            else:
                ask = other = {"full_text_query": query}
            own = await dataset.scanner(["id"], **ask).to_table()
            their = theirs.to_table(columns=["id", "_score"], **other)
            scores = sorted(zip(their["id"].to_pylist(), their["_score"].to_pylist(), strict=True))
            pairs = sorted(zip(own["id"].to_pylist(), own["_score"].to_pylist(), strict=True))
            assert [id_ for id_, _ in pairs] == [id_ for id_, _ in scores], word
            np.testing.assert_allclose([s for _, s in pairs], [s for _, s in scores], rtol=1e-4)

    await Table(tmp_path / "t", stable).go((maker, extender, again, merger), create, check)


@pytest.mark.parametrize(NAMES, paired(list(VECTORS), *CASES))
async def test_vectors_give_the_same_rows_by_an_index_of_both_writers(
    tmp_path: Path, kind: str, maker: str, extender: str, again: str, merger: str, stable: bool
) -> None:
    options = {"num_partitions": 2, **VECTORS[kind]}
    queries = np.random.default_rng(9).random((3, DIM), np.float32)
    wide: dict[str, Any] = {"k": 5, "nprobes": 64, "refine_factor": ALL, "ef": 5 * ALL}

    async def create(table: Table, who: str) -> None:
        if who == "alance":
            await (await table.ours()).create_index("vector", kind, **options)
        else:
            lance.dataset(table.path).create_index("vector", kind, **options)

    async def check(table: Table) -> None:
        dataset, theirs = await table.ours(), lance.dataset(table.path)
        for query in queries:
            nearest = {"column": "vector", "q": query, **wide}
            exact = await dataset.nearest("vector", query, 5, columns=["id"], use_index=False)
            right = exact["id"].to_pylist()
            own = await dataset.to_table(["id"], nearest=nearest)
            assert own["id"].to_pylist() == right
            assert theirs.to_table(columns=["id"], nearest=nearest)["id"].to_pylist() == right

    await Table(tmp_path / "t", stable).go((maker, extender, again, merger), create, check)


async def test_segments_of_words_have_the_format_of_those_before_them(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", stable=False)
    table.append(PARTS[0])
    options: dict[str, Any] = {"format_version": 3, "with_position": True}
    lance.dataset(table.path).create_scalar_index("text", "INVERTED", **options)
    table.append(PARTS[1])
    await table.optimize("alance", 0)
    assert table.segments() == [[0], [1]]
    await table.optimize("pylance", 10)
    assert table.segments() == [[0, 1]]
    table_rows = await (await table.ours()).search_text("w340", columns=["id"])
    assert table_rows["id"].to_pylist() == [340]


async def test_an_index_in_blocks_of_256_stays_one_that_pylance_searches(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", stable=False)
    table.append(PARTS[0])
    options: dict[str, Any] = {"format_version": 3, "block_size": 256}
    lance.dataset(table.path).create_scalar_index("text", "INVERTED", **options)
    table.append(PARTS[1])
    await table.optimize("alance", 0)
    assert table.segments() == [[0]]
    table_rows = await (await table.ours()).search_text("w340", columns=["id"])
    theirs = lance.dataset(table.path).to_table(columns=["id"], full_text_query="w340")
    assert table_rows["id"].to_pylist() == theirs["id"].to_pylist() == [340]
