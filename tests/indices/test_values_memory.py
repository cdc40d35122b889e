"""Building an index of values stays within the memory budget that it is given."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pytest

import alance.sync
from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from pathlib import Path

ROWS: Final = 3_000_000
MEGABYTES: Final = 16
ALLOWANCE: Final = 112  # megabytes: read-ahead, pages, and freed memory that allocators hold
PROGRAM: Final = """
import sys
import alance.sync
from benchmarks.alone import peak_megabytes

small, large, kind, memory = sys.argv[1:]
for path in (small, large):
    dataset = alance.sync.dataset(path)
    dataset.create_scalar_index("key", kind, memory_bytes=int(memory))
    print(peak_megabytes())
"""


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
def test_a_build_stays_within_its_memory_budget(tmp_path: Path, kind: str) -> None:
    keys = np.random.default_rng(1).permutation(ROWS)
    if kind == "BITMAP":
        keys %= 1000
    paths = [tmp_path / "small", tmp_path / "large"]
    for path, rows in zip(paths, (keys[:200], keys), strict=True):
        alance.sync.write_dataset(pa.table({"key": rows}), path)
    arguments = [*map(str, paths), kind, str(MEGABYTES << 20)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], check=True, capture_output=True, text=True
    )
    before, after = map(float, done.stdout.split())
    assert after - before < MEGABYTES + ALLOWANCE, (before, after)


@pytest.mark.parametrize(
    "kind", ["BTREE", "BITMAP", "LABEL_LIST", "NGRAM", "ZONEMAP", "BLOOMFILTER"]
)
def test_each_kind_of_index_takes_a_memory_budget(tmp_path: Path, kind: str) -> None:
    values = [["a"], ["b"]] if kind == "LABEL_LIST" else ["abcd", "bcde"]
    dataset = alance.sync.write_dataset(pa.table({"v": values}), tmp_path / "t")
    with pytest.raises(InvalidInputError, match="memory_bytes"):
        dataset.create_scalar_index("v", kind, memory_bytes=0)
    dataset = dataset.create_scalar_index("v", kind, memory_bytes=1 << 20)
    condition = "array_has_any(v, ['b'])" if kind == "LABEL_LIST" else "v = 'bcde'"
    assert dataset.count_rows(condition) == 1
