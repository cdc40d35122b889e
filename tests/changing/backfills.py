"""Functions that fill a column `x` with twice the id, and what they leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tests.changing.both_ways import files_of, latest, read

if TYPE_CHECKING:
    from pathlib import Path

OUTPUT = pa.schema([("x", pa.int64())])


class Doubling:
    """A function that remembers the ids that it was called with, and fails at one of them."""

    def __init__(self, fails_at: int = -1) -> None:
        self.seen: list[int] = []
        self.fails_at = fails_at

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        ids = batch["id"].to_pylist()
        if self.fails_at in ids:
            raise OSError("stopped")
        self.seen += ids
        return pa.record_batch({"x": pa.array([2 * row_id for row_id in ids], pa.int64())})


def check(path: Path, column: str = "x") -> None:
    """Every live row has twice its id; there are no files of no version."""
    check_rows(path, column)
    named = {f"data/{file.path}" for fragment in latest(path).fragments for file in fragment.files}
    assert {item for item in files_of(path) if item.startswith("data/")} == named


def check_rows(path: Path, column: str) -> None:
    table = read(path)
    assert table[column].to_pylist() == [2 * value for value in table["id"].to_pylist()]
