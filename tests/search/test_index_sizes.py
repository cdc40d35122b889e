"""Searches by indices of any size and parameters, beside pylance's by the same files."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import alance
from tests.search.search_cases import METRICS, agree, ours, theirs, vectors

if TYPE_CHECKING:
    from collections.abc import Callable

# What can be asked of a dimension, and whether pylance's distances of cosine are twice as far.
KINDS: Final[dict[str, tuple[Callable[[int], dict[str, Any]], float]]] = {
    "IVF_FLAT": (lambda _: {}, 1.0),
    "IVF_SQ": (lambda _: {}, 0.5),
    "IVF_PQ": (lambda dim: {"num_sub_vectors": dim // 8}, 0.5),
    "IVF_RQ": (lambda _: {"num_bits": 1}, 0.5),
}


@settings(deadline=None, max_examples=16)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    metric=st.sampled_from(METRICS),
    dtype=st.sampled_from(["float16", "float32", "float64"]),
    stable=st.booleans(),
    num_rows=st.integers(260, 4000),
    dim=st.sampled_from([8, 24, 64, 136]),
    partitions=st.integers(1, 12),
    nprobes=st.integers(1, 12),
    k=st.integers(1, 60),
    gone=st.integers(0, 5),
)
async def test_both_libraries_find_the_same_rows_at_the_same_distances(
    kind: str,
    metric: str,
    dtype: str,
    stable: bool,
    num_rows: int,
    dim: int,
    partitions: int,
    nprobes: int,
    k: int,
    gone: int,
) -> None:
    options, halved = KINDS[kind]
    rows = pa.table({"id": np.arange(num_rows), "vec": vectors(dtype, num_rows, dim)})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        dataset = lance.write_dataset(
            rows, path, max_rows_per_file=1100, enable_stable_row_ids=stable
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dataset.create_index(
                "vec", kind, metric=metric, num_partitions=partitions, **options(dim)
            )
        if gone:
            dataset.delete(f"id % {gone + 1} = 0")
        q = np.array(vectors(dtype, 50, dim, seed=99).drop_null()[0].as_py(), dtype)
        own = await ours(await alance.dataset(path), q, k=k, nprobes=nprobes)
        other = theirs(path, q, k=k, nprobes=nprobes, approx_mode="accurate")
        tolerance = 5e-3 if dtype == "float16" else 5e-4 if kind == "IVF_RQ" else 1e-5
        agree(own, other, tolerance=tolerance, scale=halved if metric == "cosine" else 1.0)
