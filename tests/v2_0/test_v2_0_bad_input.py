"""Damaged files of 2.0: an error of our tree or an answer, never anything else."""

from __future__ import annotations

import asyncio
import random
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import AlanceError
from alance.file.fragment import FileSource, open_fragment
from alance.file.v2_0_open import number_columns
from alance.format.container import open_container
from alance.format.schema import Schema
from tests.reference.damaged import (
    LOCATION,
    metadata_start,
    run,
    validate,
    with_moved_part,
    with_spoiled_bytes,
)
from tests.reference.driven import Known

GOLDEN = Path(__file__).parent.parent / "golden" / "v2_0"
ROWS = 240


def tables() -> list[pa.Table]:
    def sparse(values: list[Any]) -> list[Any]:
        return [None if row % 7 == 3 else value for row, value in enumerate(values)]

    texts = [f"text {row * row}" for row in range(ROWS)]
    few = [f"w{row % 5}" for row in range(ROWS)]
    vectors = [[row / 2, None] for row in range(ROWS)]
    structs = [{"x": row, "y": text, "z": [row] * (row % 3)} for row, text in enumerate(texts)]
    packed = pa.StructArray.from_arrays(
        [pa.array(range(ROWS), pa.int16()), pa.array(range(ROWS), pa.float64())], ["a", "b"]
    )
    plain = pa.table(
        {
            "int32": pa.array(sparse(list(range(ROWS))), pa.int32()),
            "bool": [row % 3 == 0 for row in range(ROWS)],
            "vector": pa.array(sparse(vectors), pa.list_(pa.float32(), 2)),
            "packed": packed,
        },
        schema=pa.schema(
            [
                pa.field("int32", pa.int32()),
                pa.field("bool", pa.bool_()),
                pa.field("vector", pa.list_(pa.float32(), 2)),
                pa.field("packed", packed.type, metadata={"packed": "true"}),
            ]
        ),
    )
    words = pa.table({"text": sparse(texts), "few": sparse(few)})
    words = words.append_column("dictionary", pa.array(sparse(few)).dictionary_encode())
    for name in ("zstd", "lz4", "fsst"):
        field = pa.field(name, pa.string(), metadata={"lance-encoding:compression": name})
        words = words.append_column(field, pa.array([f"{text} {text} {text}" for text in texts]))
    nested = pa.table(
        {
            "list": pa.array(sparse([list(range(row % 4)) for row in range(ROWS)])),
            "lists": pa.array(sparse([[[text]] * (len(text) % 3) for text in texts])),
            "struct": structs,
            "structs": sparse([[one] * (one["x"] % 3) for one in structs]),
        }
    )
    return [plain, words, nested]


@cache
def written(number: int) -> tuple[bytes, Schema, dict[int, int]]:
    table = tables()[number]

    async def write(path: Path) -> None:
        async with alance.FileWriter.open(path, version="2.0") as writer:
            await writer.write(table)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.lance"
        asyncio.run(write(path))
        content = path.read_bytes()
    schema = Schema.from_arrow(table.schema)
    container = run(open_container(LOCATION, len(content)), content)
    columns = run(number_columns(schema.fields, container, Known()), content)
    return content, schema, columns


def read(content: bytes, schema: Schema, columns: dict[int, int]) -> None:
    """Everything, and some rows."""
    source = FileSource(LOCATION, len(content), columns)
    states = Known()
    fragment = run(open_fragment(schema, [source], ROWS, states), content)
    rows = np.array([0, 1, 17, 200, ROWS - 1], np.int64)
    for plan in (fragment.take(rows, states), fragment.read(0, ROWS, states)):
        batch = run(plan, content).decode()
        assert batch.num_rows in (len(rows), ROWS)
        batch.validate(full=True)


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
    metadata = metadata_start(content)
    for _ in range(50):
        spoiled = with_spoiled_bytes(rng, content, [0, metadata, metadata, metadata])
        with suppress(AlanceError):
            read(spoiled, schema, columns)


@pytest.mark.parametrize("seed", range(4))
def test_moved_parts(seed: int) -> None:
    """Pieces of the file in the place of others."""
    rng = random.Random(100 + seed)
    content, schema, columns = written(seed % 3)
    for _ in range(40):
        spoiled = with_moved_part(rng, content)
        with suppress(AlanceError):
            read(spoiled, schema, columns)


@pytest.mark.parametrize("release", ["0.12.1", "0.16.1", "0.20.0", "4.0.0"])
def test_spoiled_files_of_old_releases(release: str) -> None:
    """Files with their own schemas, which may be what is spoiled."""
    rng = random.Random(release)
    paths = sorted(GOLDEN.glob(f"{release}/n*.lance/data/*.lance"))
    for path in paths:
        content = path.read_bytes()
        read_alone(content)
        metadata = metadata_start(content)
        for _ in range(25):
            spoiled = bytearray(content)
            at = rng.randrange(rng.choice([0, max(0, metadata - 600), metadata]), len(content) - 8)
            spoiled[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            with suppress(AlanceError):
                read_alone(bytes(spoiled))


def read_alone(content: bytes) -> None:
    """All rows, by the schema that the file has."""
    states = Known()
    container = run(open_container(LOCATION, len(content)), content)
    descriptor = run(container.read_descriptor(), content)
    schema = Schema.from_protobuf(descriptor.schema.fields, descriptor.schema.metadata)
    columns = run(number_columns(schema.fields, container, states), content)
    source = FileSource(LOCATION, len(content), columns)
    num_rows = min(descriptor.length, 1000)
    fragment = run(open_fragment(schema, [source], num_rows, states), content)
    validate(run(fragment.read(0, num_rows, states), content).decode())


@pytest.mark.parametrize("number", range(3))
def test_columns_of_other_fields(number: int) -> None:
    """A schema that belongs to other columns."""
    content, schema, columns = written(number)
    rng = random.Random(number)
    for _ in range(40):
        places = list(columns.values())
        rng.shuffle(places)
        with suppress(AlanceError):
            read(content, schema, dict(zip(columns, places, strict=True)))
