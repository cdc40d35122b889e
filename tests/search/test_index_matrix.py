"""Each kind of index by each metric of each type of values, through what becomes of a table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import lance
import pytest

import alance
from tests.reference.thinned import thinned
from tests.search.search_cases import (
    METRICS,
    SKIPPED,
    agree,
    agree_on_common,
    ours,
    queries,
    table,
    theirs,
)
from tests.search.test_indexed import index

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS: Final = 6
# The options of each kind, and whether pylance's distances of cosine are twice as far.
KINDS: Final[dict[str, tuple[dict[str, Any], float]]] = {
    "IVF_FLAT": ({}, 1.0),
    "IVF_SQ": ({}, 0.5),
    "IVF_PQ": ({"num_sub_vectors": 4}, 0.5),
    "IVF_PQ, 4 bits": ({"num_sub_vectors": 8, "num_bits": 4}, 0.5),
    "IVF_RQ": ({"num_bits": 5}, 0.5),
    "IVF_RQ, 1 bit": ({"num_bits": 1}, 0.5),
    "IVF_HNSW_FLAT": ({}, 1.0),
    "IVF_HNSW_SQ": ({}, 0.5),
    "IVF_HNSW_PQ": ({"num_sub_vectors": 4}, 0.5),
}
# With and without stable row ids.
TYPES: Final = [("float32", False), ("float32", True), ("float16", False), ("float64", True)]


async def check(path: Path, kind: str, metric: str, dtype: str, **options: Any) -> None:
    """Both libraries find the same rows at the same distances, with and without a filter.

    Args:
        options: with `fast_search`, distances are those of codes: pylance's of cosine are twice as
            far then.
    """
    # pylance rounds what it adds up of bits, and of half floats.
    tolerance = 5e-3 if dtype == "float16" else 5e-4 if "RQ" in kind else 1e-5
    scale = KINDS[kind][1] if metric == "cosine" and options["fast_search"] else 1.0
    if "HNSW" in kind:
        options["ef"] = 900  # all rows of a partition: what links miss is left to chance
    more = SKIPPED if kind == "IVF_RQ" else 0
    if options["fast_search"] and not more:
        alike = agree
    else:  # the rows that are compared exactly are the nearest by codes: of equal codes any
        alike = partial(agree_on_common, but=0 if options["fast_search"] else 3)
    dataset = await alance.dataset(path)
    for q in queries(dtype, 1):
        for nprobes, filter in ((2, None), (PARTITIONS, "kind != 3")):
            request = {"nprobes": nprobes, "filter": filter, **options}
            own = await ours(dataset, q, k=12 + more, **request)
            right = theirs(path, q, k=12, **request, prefilter=True, approx_mode="accurate")
            alike(own, right, tolerance=tolerance, scale=scale)


@pytest.mark.parametrize(
    ("kind", "metric", "dtype", "stable"), thinned([*KINDS], METRICS, TYPES, part=3)
)
async def test_what_becomes_of_a_table_changes_both_answers_alike(
    tmp_path: Path, kind: str, metric: str, dtype: str, stable: bool
) -> None:
    path = tmp_path / "t"
    rows = table(dtype, 1000)
    lance.write_dataset(rows, path, max_rows_per_file=600, enable_stable_row_ids=stable)
    index(path, kind.partition(",")[0], metric, **KINDS[kind][0])
    lance.dataset(path).delete("id % 13 = 5")
    await check(path, kind, metric, dtype, fast_search=True)
    lance.write_dataset(table(dtype, 400, 1000, seed=8), path, mode="append")
    lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    lance.dataset(path).delete("id % 5 = 1 or id between 600 and 999")  # a fragment, too
    await check(path, kind, metric, dtype, fast_search=True)
    lance.write_dataset(table(dtype, 100, 1400, seed=9), path, mode="append")
    await check(path, kind, metric, dtype, fast_search=True)
    await check(path, kind, metric, dtype, fast_search=False)
