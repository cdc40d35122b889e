"""Makes `lineitem.lance` beside this file: rows of TPC-H lineitem, as pylance writes them.

    pip install pylance==14.0.2 tpchgen-cli
    python tests/golden/lineitem.py

Three appends of 5000 rows (three fragments, four versions), then some rows of two fragments
deleted; the tag `loaded` is on the version before.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import lance
import pyarrow.parquet as pq

TABLE = Path(__file__).with_suffix(".lance")
ROWS = 5000
FRAGMENTS = 3


def main() -> None:
    """Write the table anew."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["tpchgen-cli", "parquet", "-s", "0.01", "-T", "lineitem", "-o", folder],
            check=True,
        )
        rows = pq.read_table(Path(folder) / "lineitem.parquet")
    shutil.rmtree(TABLE, ignore_errors=True)
    for number in range(FRAGMENTS):
        part = rows.slice(number * ROWS, ROWS)
        lance.write_dataset(part, TABLE, mode="append" if number else "create")
    dataset = lance.dataset(TABLE)
    dataset.tags.create("loaded", dataset.version)
    dataset.delete("l_orderkey % 100 = 7 AND l_linenumber < 3 AND l_orderkey > 5000")


if __name__ == "__main__":
    main()
