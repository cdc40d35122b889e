"""A fast search leaves out the rows that no index covers, as pylance's does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from pathlib import Path


def rows(first: int, stop: int) -> pa.Table:
    ids = range(first, stop)
    vectors = np.random.default_rng(first).random((len(ids), 4), np.float32)
    return pa.table(
        {
            "id": ids,
            "key": [n % 10 for n in ids],
            "other": [n % 7 for n in ids],
            "text": [f"w{n % 10}" for n in ids],
            "vector": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 4),
        }
    )


async def ids_of_each(path: Path, **options: Any) -> tuple[list[int], list[int]]:
    """Ids that alance and pylance return, each in ascending order."""
    table = await (await alance.dataset(path)).scanner(["id"], **options).to_table()
    other = lance.dataset(path).to_table(columns=["id"], **options)
    return sorted(table["id"].to_pylist()), sorted(other["id"].to_pylist())


@pytest.mark.parametrize(
    ("kind", "condition"),
    thinned(
        ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"],
        [
            "key = 3",
            "key = 3 and id > 10",
            "key = 3 or id = 55",
            "key in (1, 2, 3, 4, 5, 6, 7, 8, 9)",
            "key = 3 and other = 3",
            "id > 45",
            None,
        ],
    ),
)
async def test_filters_leave_out_what_their_indices_do_not_cover(
    tmp_path: Path, kind: Any, condition: str | None
) -> None:
    path = tmp_path / "t"
    lance.write_dataset(rows(0, 50), path)
    lance.dataset(path).create_scalar_index("key", kind)
    lance.write_dataset(rows(50, 60), path, mode="append")
    lance.dataset(path).create_scalar_index("other", "BTREE")
    lance.write_dataset(rows(60, 90), path, mode="append")
    for is_fast in (False, True):
        ids, their_ids = await ids_of_each(path, filter=condition, fast_search=is_fast)
        assert ids == their_ids
    dataset = await alance.dataset(path)
    if condition is not None:
        counted = await dataset.scanner(filter=condition, fast_search=True).count_rows()
        assert counted == len(ids)


async def test_without_an_index_a_fast_search_finds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(rows(0, 50), path)
    near = {"column": "vector", "q": np.zeros(4, np.float32), "k": 4}
    words = {"query": "w3", "columns": ["text"]}
    for options in ({"nearest": near}, {"full_text_query": words}):
        assert await ids_of_each(path, **options, fast_search=True) == ([], [])
        ids, their_ids = await ids_of_each(path, **options)
        assert ids == their_ids
        assert ids
    dataset = await alance.dataset(path)
    explained = str(await dataset.scanner(nearest=near, fast_search=True).explain())
    assert "1 fragments without an index are left out" in explained
    lance.dataset(path).create_scalar_index("text", "INVERTED", train=False)
    assert await ids_of_each(path, full_text_query=words, fast_search=True) == ([], [])
