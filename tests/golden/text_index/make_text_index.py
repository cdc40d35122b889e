"""Makes a golden table with a text index of an old release of pylance.

Run it in an environment of that release (pylance and pyarrow alone):

    python make_text_index.py tests/golden/text_index

It writes `<release>/t.lance`: two fragments, the first of which has an index of texts and a B-tree.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import lance
import pyarrow as pa

TEXTS = ["The Foxes run", "a fox the", None, "FOX fox foxes", "dog run", "fox", "run foxes", "x"]


def main(folder: Path) -> None:
    path = folder / lance.__version__ / "t.lance"
    shutil.rmtree(path, ignore_errors=True)
    keys = [f"k{row}" for row in range(len(TEXTS))]
    rows = pa.table({"id": range(len(TEXTS)), "text": TEXTS, "key": keys})
    lance.write_dataset(rows[:5], str(path))
    dataset = lance.dataset(str(path))
    dataset.create_scalar_index("text", "INVERTED", with_position=True)
    dataset.create_scalar_index("key", "BTREE")
    lance.write_dataset(rows[5:], str(path), mode="append")


main(Path(sys.argv[1]))
