"""Memory of building an index of texts: as its argument says, whatever the table has."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import alance.sync

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 50_000
WORDS = 200  # of a text
REST = 30  # megabytes: pages, batches, and what allocators keep of these
PROGRAM = """
import sys
import alance.sync
from benchmarks.alone import peak_megabytes

small, large, memory = sys.argv[1:]
for path in (small, large):
    dataset = alance.sync.dataset(path)
    dataset.create_scalar_index("text", "INVERTED", memory_bytes=int(memory))
    print(peak_megabytes())
assert "pandas" not in sys.modules
"""


@pytest.mark.parametrize("megabytes", [1, pytest.param(16, marks=pytest.mark.soak)])
def test_a_build_holds_the_memory_that_it_is_given(tmp_path: Path, megabytes: int) -> None:
    rng = np.random.default_rng(1)
    words = np.array([f"word{number}" for number in range(5000)], object)

    def texts(rows: int) -> pa.Table:
        chosen = words[rng.integers(0, len(words), (rows, WORDS))]
        return pa.table({"text": [" ".join(row) for row in chosen.tolist()]})

    large = texts(ROWS)
    assert large.nbytes > REST * 1e6
    paths = [tmp_path / "small", tmp_path / "large"]
    alance.sync.write_dataset(texts(200), paths[0])
    alance.sync.write_dataset(large, paths[1])
    arguments = [*map(str, paths), str(megabytes << 20)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], check=True, capture_output=True, text=True
    )
    before, after = map(float, done.stdout.split())
    assert after - before < REST + 1.5 * megabytes
