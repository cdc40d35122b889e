"""Cold takes: one round where the guess holds, two where it misses, never a wrong row."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter

from alance.file.rows.fragment import FileSource, open_fragment
from alance.format.plans import run
from alance.format.schema import Schema
from tests.reference.driven import Known

if TYPE_CHECKING:
    from pathlib import Path

NUM_ROWS = 100_000
LOCATION = "memory://1/file"
WHOLE_PAGE_BYTES = 256 << 10  # up to this size a page is read whole


class ColdFile(NamedTuple):
    """A file of one column, `c`."""

    content: bytes
    schema: Schema

    @classmethod
    def of(cls, values: pa.Array, version: str, folder: Path) -> ColdFile:
        path = str(folder / "file.lance")
        table = pa.table({"c": values})
        with LanceFileWriter(path, table.schema, version=version, data_cache_bytes=1 << 30) as file:
            file.write_batch(table)
        return cls((folder / "file.lance").read_bytes(), Schema.from_arrow(table.schema))

    def take(self, rows: list[int]) -> tuple[list[Any], int, int]:
        """The rows, read by one who knows nothing of the pages, with rounds and bytes."""
        (leaf,) = [
            field for own in self.schema.fields for field in own.walk() if not field.children
        ]
        source = FileSource(LOCATION, len(self.content), {leaf.id: 0})
        states = Known()
        opening = open_fragment(self.schema, [source], NUM_ROWS, states)
        opened, _ = run(opening, self.content)
        task, rounds = run(opened.take(np.array(rows, np.int64), states), self.content)
        num_bytes = sum(extent.num_bytes for extents in rounds for extent in extents)
        return task.decode().column(0).to_pylist(), len(rounds), num_bytes


@pytest.mark.parametrize("kind", ["int64", "utf8", "list", "zipped"])
def test_a_cold_take_of_a_large_page_mostly_costs_one_round(kind: str, tmp_path: Path) -> None:
    rng = random.Random(kind)
    values: list[Any]
    if kind == "int64":
        values = [rng.randrange(1 << 62) for _ in range(NUM_ROWS)]
    elif kind == "list":
        values = [[rng.randrange(1 << 62)] * (i % 4) for i in range(NUM_ROWS)]
    else:
        texts = [rng.randbytes(rng.randrange(40)) for _ in range(NUM_ROWS)]
        values = [text * 9 for text in texts] if kind == "zipped" else texts
    types = {"int64": pa.int64(), "list": pa.list_(pa.int64())}
    file = ColdFile.of(pa.array(values, types.get(kind, pa.binary())), "2.2", tmp_path)
    assert len(file.content) > 2 * WHOLE_PAGE_BYTES
    first_rounds = 0
    for _ in range(20):
        number = rng.randrange(NUM_ROWS)
        rows, rounds, _ = file.take([number])
        assert rows == [values[number]]
        assert rounds <= 2
        first_rounds += rounds == 1
    assert first_rounds >= 17


def test_a_guess_that_misses_costs_a_second_round(tmp_path: Path) -> None:
    # All long values stand at the end: the guess looks far too late.
    rng = random.Random(0)
    values = [rng.randbytes(5) for _ in range(80_000)] + [rng.randbytes(200) for _ in range(20_000)]
    file = ColdFile.of(pa.array(values), "2.1", tmp_path)
    assert file.take([50_000])[:2] == ([values[50_000]], 2)
    rows, rounds, _ = file.take([0, 50_000, 99_999])
    assert (rows, rounds) == ([values[0], values[50_000], values[99_999]], 2)


def test_a_small_page_is_read_whole(tmp_path: Path) -> None:
    values = [bytes([i % 3, i % 5]) for i in range(NUM_ROWS)]
    file = ColdFile.of(pa.array(values, pa.binary(2)), "2.1", tmp_path)
    rows, rounds, num_bytes = file.take([7, 99_999])
    assert (rows, rounds) == ([values[7], values[99_999]], 1)
    assert num_bytes <= len(file.content) <= WHOLE_PAGE_BYTES
