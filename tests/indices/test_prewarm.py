"""Indices that are read before anybody asks them."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance import sync
from alance.ops.lookup.kinds import bloom_filter
from tests.reference.served import opened_on
from tests.text.text_cases import table

if TYPE_CHECKING:
    from alance.testing.lab import Lab

NUM_ROWS, DIM = 12_000, 8
URI: Final = "s3://lab/prewarmed"
QUERY: Final = [0.1] * DIM
SCANS: Final[dict[str, dict[str, Any]]] = {
    "id_idx": {"filter": "id = 4711"},
    "kind_idx": {"filter": "kind = 3"},
    "labels_idx": {"filter": "array_has_any(labels, ['a3'])"},
    "title_idx": {"filter": "title like '%quick%'"},
    "zoned_idx": {"filter": "zoned = 4711"},
    "hashed_idx": {"filter": "hashed = 4711"},
    "text_idx": {"full_text_query": "quick river", "limit": 10},
    "vec_idx": {"nearest": {"column": "vec", "q": QUERY, "k": 10, "nprobes": 8}},
    "graphs": {"nearest": {"column": "other", "q": QUERY, "k": 10, "nprobes": 2}},
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with an index of each kind."""
    path = tmp_path_factory.mktemp("prewarmed") / "t"
    values = pa.array(np.random.default_rng(3).normal(size=NUM_ROWS * DIM).astype(np.float32))
    vectors = pa.FixedSizeListArray.from_arrays(values, DIM)
    rows = table(NUM_ROWS).append_column("vec", vectors).append_column("other", vectors)
    labels = pa.array([[f"a{number % 7}", "b"] for number in range(NUM_ROWS)])
    rows = rows.append_column("labels", labels)
    for name in ("zoned", "hashed"):
        rows = rows.append_column(name, rows["id"])
    dataset = lance.write_dataset(rows, path, max_rows_per_file=NUM_ROWS // 2)
    dataset.create_scalar_index("labels", "LABEL_LIST")
    dataset.create_scalar_index("title", "NGRAM")
    dataset.create_scalar_index("zoned", "ZONEMAP")
    dataset.create_scalar_index("hashed", "BLOOMFILTER")
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("kind", "BITMAP")
    dataset.create_scalar_index("text", "INVERTED", with_position=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset.create_index("vec", "IVF_PQ", num_partitions=16, num_sub_vectors=4)
        dataset.create_index("other", "IVF_HNSW_SQ", num_partitions=2, name="graphs")
    return path


@pytest.fixture
def far(lab: Lab, path: Path) -> Lab:
    target = Path(lab.root) / "lab" / "prewarmed"
    if not target.exists():
        shutil.copytree(path, target)
        lab.rescan()
    return lab


@pytest.mark.parametrize("name", SCANS)
async def test_an_index_that_was_prewarmed_is_not_read_again(far: Lab, name: str) -> None:
    async with opened_on(far, URI) as dataset:
        with far.recording() as seen:
            await dataset.prewarm_index(name)
        assert seen.records
        with far.recording() as seen:
            rows = await dataset.scanner(["_rowid"], **SCANS[name]).to_table()
        assert len(rows)
        # Of filters it is looked whether the rows are there.
        assert not [record for record in seen.records if "_indices" in record["key"]]


async def test_positions_are_read_where_they_are_asked_for(far: Lab) -> None:
    async with opened_on(far, URI) as dataset:
        phrase = alance.PhraseQuery("quick river", "text")
        segments = [
            index["uuid"] for index in dataset.list_indices() if index["name"] == "text_idx"
        ]
        await dataset.prewarm_index("text_idx", with_position=True, index_segments=segments)
        with far.recording() as seen:
            rows = await dataset.search_text(phrase, columns=["_rowid"])
        assert len(rows)
        assert seen.records == []


async def test_what_cannot_be_prewarmed_is_told(path: Path) -> None:
    dataset = await alance.dataset(path)
    with pytest.raises(alance.NotFoundError, match="'none'"):
        await dataset.prewarm_index("none")
    with pytest.raises(alance.InvalidInputError, match="not of texts"):
        await dataset.prewarm_index("id_idx", with_position=True)
    with pytest.raises(alance.InvalidInputError, match="UUIDs"):
        await dataset.prewarm_index("id_idx", index_segments=["x"])
    other = "00000000-0000-0000-0000-000000000000"
    with pytest.raises(alance.NotFoundError, match=other):
        await dataset.prewarm_index("id_idx", index_segments=[other])
    sync.dataset(path).prewarm_index("kind_idx")
    copy = await alance.write_dataset(table(100), "memory://prewarmed/copy")
    copy = await copy.create_scalar_index("text", "FTS")
    with pytest.raises(alance.InvalidInputError, match="no positions"):
        await copy.prewarm_index("text_idx", with_position=True)


async def test_indices_of_texts_are_made_under_both_names(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(table(300), tmp_path / "t")
    dataset = await dataset.create_scalar_index("text", "fts", with_position=True, stem=False)
    (index,) = lance.dataset(tmp_path / "t").describe_indices()
    assert (index.name, index.index_type) == ("text_idx", "Inverted")
    phrase = alance.PhraseQuery("quick apple", "text")
    assert len(await dataset.search_text(phrase, columns=["id"])) > 0
    empty = await dataset.create_scalar_index("title", "INVERTED", "titles", train=False)
    assert (await empty.index_statistics("titles"))["num_indexed_rows"] == 0
    for index_type in ("BTREE", "INVERTED"):
        with pytest.raises(TypeError, match="wrong"):
            await dataset.create_scalar_index("title", index_type, wrong=1)  # type: ignore[call-arg]


async def test_bloom_filters_are_read_in_one_round_however_many(
    far: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = []
    for at_once in (bloom_filter.FILTERS_AT_ONCE, 1):
        monkeypatch.setattr(bloom_filter, "FILTERS_AT_ONCE", at_once)
        async with opened_on(far, URI) as dataset:
            far.config(latency_ms=20, waits_for=os.getpid())
            with far.recording() as seen:
                assert await dataset.count_rows("hashed = 4711") == 1
            rounds.append(seen.rounds)
    assert rounds[0] == rounds[1]
