"""Damaged files of 0.1: an error of our tree or an answer, never anything else."""

from __future__ import annotations

import asyncio
import random
import struct
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import AlanceError, CorruptFileError
from alance.file.fragment import FileSource, open_fragment
from alance.file.open import open_file
from alance.format.schema import Schema
from alance.format.v0_1.metadata import BatchContainer
from alance.format.v0_1.statistics import read_statistics
from tests.reference.damaged import LOCATION, run, with_moved_part, with_spoiled_bytes
from tests.reference.driven import Known

ROWS = 2500  # three batches


def tables() -> list[pa.Table]:
    texts = [f"t{row * row}" for row in range(ROWS)]
    structs = [{"x": row, "y": text, "z": [row] * (row % 3)} for row, text in enumerate(texts)]
    plain = {
        "int32": pa.array(range(ROWS), pa.int32()),
        "bool": [row % 3 == 0 for row in range(ROWS)],
        "vector": pa.array([[row / 2, 1.0] for row in range(ROWS)], pa.list_(pa.float32(), 2)),
        "null": pa.nulls(ROWS),
    }
    words = {
        "text": [None if row % 7 == 3 else text for row, text in enumerate(texts)],
        "dictionary": pa.array([f"w{row % 5}" for row in range(ROWS)]).dictionary_encode(),
    }
    nested = {
        "list": [list(range(row % 4)) for row in range(ROWS)],
        "lists": [[[text]] * (len(text) % 3) for text in texts],
        "structs": [[one] * (one["x"] % 3) for one in structs],
    }
    return [pa.table(one) for one in (plain, words, nested)]


@cache
def written(number: int) -> tuple[bytes, Schema, dict[int, int]]:
    table = tables()[number]

    async def write(path: Path) -> None:
        async with alance.FileWriter.open(path, version="0.1") as writer:
            await writer.write(table)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.lance"
        asyncio.run(write(path))
        content = path.read_bytes()
    schema = Schema.from_arrow(table.schema)
    return content, schema, {one.id: one.id for one in schema.walk()}


def read(content: bytes, schema: Schema, columns: dict[int, int]) -> None:
    """Everything, some rows, and statistics."""
    source = FileSource(LOCATION, len(content), columns)
    states = Known()
    fragment = run(open_fragment(schema, [source], ROWS, states), content)
    rows = np.array([0, 1, 17, 1025, 2000, ROWS - 1], np.int64)
    for plan in (
        fragment.take(rows, states),
        fragment.read(0, ROWS, states),
        fragment.read(700, 1500, states),
    ):
        batch = run(plan, content).decode()
        assert batch.num_rows in (len(rows), ROWS, 800)
        batch.validate(full=True)
    container = run(open_file(source.location, len(content), states), content)
    assert isinstance(container, BatchContainer)
    for field in columns:
        found = run(read_statistics(container, field), content)
        if found is not None:
            found.least.validate(full=True)


@pytest.mark.parametrize("number", range(3))
def test_every_truncation_is_refused(number: int) -> None:
    content, schema, columns = written(number)
    read(content, schema, columns)
    for length in random.Random(number).sample(range(len(content)), 60):
        with pytest.raises(AlanceError):
            read(content[:length], schema, columns)


@pytest.mark.parametrize("seed", range(12))
def test_spoiled_bytes(seed: int) -> None:
    """Bytes anywhere, most of them in what describes the pages, of random or telling values."""
    rng = random.Random(seed)
    content, schema, columns = written(seed % 3)
    (metadata,) = struct.unpack_from("<Q", content, len(content) - 16)
    table = metadata - 2000
    for _ in range(60):
        spoiled = with_spoiled_bytes(rng, content, [0, metadata, table, table])
        with suppress(AlanceError):
            read(spoiled, schema, columns)


@pytest.mark.parametrize("seed", range(12))
def test_lying_page_tables(seed: int) -> None:
    """Positions and lengths of pages that are others, or no numbers of this file at all."""
    rng = random.Random(seed)
    content, schema, columns = written(seed % 3)
    container = run(open_file(LOCATION, len(content), Known()), content)
    start, count = container.page_table_start, container.num_batches * len(columns) * 2
    known = struct.unpack_from(f"<{count}q", content, start)
    for _ in range(60):
        spoiled = bytearray(content)
        for _ in range(rng.choice([1, 1, 3])):
            value = rng.choice(
                [rng.choice(known), -1, 0, 1 << 31, 1 << 62, (1 << 63) - 1, len(content)]
            )
            value = min((1 << 63) - 1, value + rng.choice([0, 0, 1, 8]))
            struct.pack_into("<q", spoiled, start + 8 * rng.randrange(count), value)
        with suppress(AlanceError):
            read(bytes(spoiled), schema, columns)


@pytest.mark.parametrize("seed", range(4))
def test_moved_parts(seed: int) -> None:
    """Pieces of the file in the place of others."""
    rng = random.Random(100 + seed)
    content, schema, columns = written(seed % 3)
    for _ in range(40):
        spoiled = with_moved_part(rng, content)
        with suppress(AlanceError):
            read(spoiled, schema, columns)


def test_fields_that_the_file_does_not_have() -> None:
    """A manifest that promises more than there is, or less rows."""
    content, schema, _ = written(0)
    with pytest.raises(CorruptFileError, match="no field 4"):
        read(content, Schema.from_arrow(wider()), {number: number for number in range(10)})
    source = FileSource(LOCATION, len(content), {0: 0})
    with pytest.raises(CorruptFileError, match="2500 rows, the fragment has 100"):
        run(open_fragment(schema, [source], 100, Known()), content)


def wider() -> pa.Schema:
    names = ["int32", "bool", "vector", "null"]
    known = list(tables()[0].schema)
    return pa.schema(known + [pa.field(f"more{n}", pa.int32()) for n in range(len(names), 10)])
