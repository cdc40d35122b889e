"""Compaction brings vector indices to the new addresses of their rows, as pylance does."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import alance
from alance.format.index.codes import (
    packed_signs,
    transposed,
    unpacked_signs,
    untransposed,
)
from tests.indices.test_indices_moved import unindexed
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from pathlib import Path

DIM = 16
KINDS: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 4},
    "IVF_PQ 4": {"num_sub_vectors": 4, "num_bits": 4},
    "IVF_PQ rows": {"num_sub_vectors": 4, "skip_transpose": True},
    "IVF_SQ": {},
    "IVF_RQ": {"num_bits": 3},
}


def vectors(count: int = 1500, first: int = 0) -> pa.Table:
    values = np.random.default_rng(first).standard_normal((count, DIM)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), DIM)
    return pa.table({"id": range(first, first + count), "v": column})


def nearest(path: Path, number: int) -> list[tuple[int, float]]:
    """All rows as pylance's index ranks them: of fewer, a tie would decide which is the last."""
    dataset = lance.dataset(path)
    query = vectors()["v"].chunk(0)[number].values.to_numpy()
    request = {"column": "v", "q": query, "k": 2_000, "nprobes": 7}
    table = dataset.to_table(["id", "_distance"], nearest=request)
    rows = zip(table["id"].to_pylist(), table["_distance"].to_pylist(), strict=True)
    return sorted(rows, key=lambda row: (row[1], row[0]))


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 100])
def test_codes_of_a_partition_are_reordered_and_back(count: int) -> None:
    codes = np.random.default_rng(count).integers(0, 256, (count, 5), np.uint8)
    assert np.array_equal(untransposed(transposed(codes)), codes)
    assert np.array_equal(unpacked_signs(packed_signs(codes)), codes)


@given(st.integers(0, 70), st.integers(1, 6))
def test_every_row_of_signs_has_its_place(count: int, width: int) -> None:
    codes = np.arange(count * width, dtype=np.uint8).reshape(count, width)
    assert np.array_equal(unpacked_signs(packed_signs(codes)), codes)


@pytest.mark.parametrize(("stable", "kind"), thinned([False, True], [*KINDS]))
async def test_pylance_finds_the_same_rows_after_a_compaction(
    tmp_path: Path, kind: str, stable: bool
) -> None:
    path = tmp_path / "ours"
    lance.write_dataset(vectors(), path, max_rows_per_file=400, enable_stable_row_ids=stable)
    options = {"num_partitions": 7, **KINDS[kind]}
    lance.dataset(path).create_index("v", kind.partition(" ")[0], **options)  # type: ignore[arg-type]
    lance.dataset(path).delete("id % 9 = 4 or id < 30")
    shutil.copytree(path, tmp_path / "theirs")
    before = [nearest(path, number) for number in range(0, 200, 40)]
    compacted = await (await alance.dataset(path)).optimize.compact_files(
        target_rows_per_fragment=650
    )
    lance.dataset(tmp_path / "theirs").optimize.compact_files(target_rows_per_fragment=650)
    assert compacted.summary["warnings"] == []
    assert unindexed(path) == {"v_idx": 0}
    assert len(compacted.fragments) > 1
    await compacted.validate()
    for number, rows in zip(range(0, 200, 40), before, strict=True):
        ours = nearest(path, number)
        assert ours == nearest(tmp_path / "theirs", number)
        # Estimates of RaBitQ depend on which rows are in a block.
        if kind != "IVF_RQ":
            assert ours == rows
    # What comes later is added to the segment that we wrote.
    lance.write_dataset(vectors(300, 5_000), path, mode="append")
    lance.dataset(path).optimize.optimize_indices()
    assert unindexed(path) == {"v_idx": 0}
    assert len(nearest(path, 50)) == lance.dataset(path).count_rows()
