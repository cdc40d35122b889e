"""LanceDB searches the vector indices that alance builds, adds rows to them and optimises them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import lancedb
import numpy as np
import pytest

import alance
from tests.indices.test_indices_moved import unindexed
from tests.indices.test_vectors_built import built_by_each, clustered, nearest, table

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

BOOK = (np.random.default_rng(3).standard_normal((8, 256, 2)) * 4).astype(np.float32)
# Of codes whose rotation, and of graphs whose links, are a matter of chance, more rows are looked
# at and compared exactly: then both libraries find nearly all.
WIDE: dict[str, Any] = {"refine_factor": 8, "ef": 120}
KINDS: list[Any] = [
    ("IVF_FLAT", {}, {}),
    ("IVF_SQ", {}, {}),
    ("IVF_PQ", {"pq_codebook": BOOK, "num_sub_vectors": 8}, {}),
    ("IVF_RQ", {"num_bits": 5}, {"refine_factor": 8}),
    pytest.param("IVF_HNSW_FLAT", {}, WIDE, marks=pytest.mark.soak),
    ("IVF_HNSW_SQ", {}, WIDE),
    pytest.param("IVF_HNSW_PQ", {"num_sub_vectors": 8}, WIDE, marks=pytest.mark.soak),
]


async def by_lancedb(
    path: Path, queries: npt.NDArray[np.float32], nprobes: int, **options: Any
) -> list[list[int]]:
    """The ids of the 10 rows nearest to each query."""
    folder = await lancedb.connect_async(str(path.parent))
    rows = await folder.open_table(path.stem)
    result = []
    for query in queries:
        search = rows.query().nearest_to(query).column("v").limit(10).select(["id", "_distance"])
        search = search.nprobes(nprobes)
        for name, value in options.items():
            search = getattr(search, name)(value)
        result.append((await search.to_arrow())["id"].to_pylist())
    return result


def share(result: list[list[int]], right: list[list[int]]) -> float:
    """Return the share of the right rows that were found."""
    hits = sum(len({*own} & {*rows}) for own, rows in zip(result, right, strict=True))
    return hits / sum(map(len, right))


@pytest.mark.parametrize(("kind", "options", "search_options"), KINDS)
async def test_both_find_as_much_by_ours_as_by_one_of_pylance_and_go_on_with_it(
    tmp_path: Path, kind: str, options: dict[str, Any], search_options: dict[str, Any]
) -> None:
    values = clustered(4000, 1)
    more = {"metric": "l2", "num_partitions": 6, "ivf_centroids": values[:6], **options}
    path, theirs = await built_by_each(tmp_path, table(values), kind, **more)
    path, theirs = (place.rename(place.with_suffix(".lance")) for place in (path, theirs))
    queries = clustered(50, 99)
    dataset = lance.dataset(path)
    right = [nearest(dataset, query, use_index=False) for query in queries]
    for nprobes in (2, 6):
        shares = [
            share(await by_lancedb(place, queries, nprobes, **search_options), right)
            for place in (path, theirs)
        ]
        for place in (path, theirs):
            opened = lance.dataset(place)
            neighbours = [
                nearest(opened, query, nprobes=nprobes, **search_options) for query in queries
            ]
            shares.append(share(neighbours, right))
        assert abs(shares[0] - shares[1]) <= 0.01
        assert abs(shares[2] - shares[3]) <= 0.01
    assert shares[0] > (0.55 if kind == "IVF_PQ" else 0.95)

    folder = await lancedb.connect_async(str(tmp_path))
    rows = await folder.open_table(path.stem)
    await rows.add(table(clustered(500, 2), 4000))
    await rows.optimize()
    assert unindexed(path) == {"v_idx": 0}
    new = clustered(500, 2)[:30]
    itself = [[number] for number in range(4000, 4030)]
    options = {"refine_factor": 8}
    firsts = [ids[:1] for ids in await by_lancedb(path, new, 6, **options)]
    assert share(firsts, itself) >= 0.9
    own = await (await alance.dataset(path)).nearest_many(
        "v", new, 1, columns=["id"], nprobes=6, fast_search=True, **options
    )
    assert share([[id_] for id_ in own["id"].to_pylist()], itself) >= 0.9
    # And alance goes on with what LanceDB has made.
    done = await (await alance.dataset(path)).optimize.optimize_indices(num_indices_to_merge=10)
    assert len(done.list_indices()) == 1
    firsts = [ids[:1] for ids in await by_lancedb(path, new, 6, **options)]
    assert share(firsts, itself) >= 0.9
