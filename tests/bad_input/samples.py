"""A few small files of each version, of columns of all kinds, and how everything of one is read."""

from __future__ import annotations

import asyncio
import random
import struct
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

import alance
from alance.file.older.v2_0 import number_columns
from alance.file.open.files import open_file
from alance.file.rows.fragment import FileSource, open_fragment
from alance.format.container import open_container
from alance.format.layouts.fields import leaf_columns
from alance.format.schema import Schema
from alance.format.v0_1.metadata import BatchContainer
from alance.format.v0_1.statistics import read_statistics
from tests.reference.damaged import LOCATION, by_pylance, metadata_start, run, validate
from tests.reference.driven import Known
from tests.reference.types import ONLY_2_2, TYPES, column
from tests.v2_3.planar import sparse_table

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSIONS: Final = ("0.1", "2.0", "2.1", "2.2", "2.3")
COUNTS: Final = {"0.1": 3, "2.0": 3}  # files of a version; of others 5
ROWS, ROWS_0_1 = 300, 2500  # three batches of 0.1

GROUPS: Final = (
    ("int32", "string", "bool", "runs"),
    ("list", "struct of lists", "list of structs of lists"),
    ("few strings", "dictionary", "constant text", "long string"),
    ("wide vector", "vector with nulls", "decimal128", "null"),
    ("map", "vector of structs", "list of lists", "binary"),
)
# The share of nulls, and whether these stand in a few places.
GROUPS_2_3: Final = (
    (("int32", "string", "runs", "few strings", "constant"), 0.2, False),
    (("int32", "string", "bool", "vector with nulls", "constant"), 0.3, True),
    (("list", "struct of lists", "list of structs of lists", "map"), 0.2, True),
    (("wide vector", "long string", "long binary", "wide fixed-size binary"), 0.7, False),
    (("list of long strings", "list of vectors", "list of lists", "null"), 0.7, True),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A file, and what its manifest says of it."""

    content: bytes
    schema: Schema
    columns: Mapping[int, int]  # by field
    num_rows: int
    starts: tuple[int, ...]  # behind which bytes are spoiled, those behind most of them most often


def count_of(version: str) -> int:
    """Return the number of samples."""
    return COUNTS.get(version, len(GROUPS))


@cache
def sample(version: str, number: int) -> Sample:
    """A file of a version."""
    if version == "0.1":
        table = _tables_of_0_1()[number]
        content, schema = _by_alance(table, version)
        (metadata,) = struct.unpack_from("<Q", content, len(content) - 16)
        columns = {field.id: field.id for field in schema.walk()}
        starts = (0, metadata, metadata - 2000, metadata - 2000)  # its page table comes before
        return Sample(content, schema, columns, table.num_rows, starts)
    if version == "2.0":
        content, schema = _by_alance(_tables_of_2_0()[number], version)
        container = run(open_container(LOCATION, len(content)), content)
        columns = run(number_columns(schema.fields, container, Known()), content)
    else:
        table = _table_of_2_3(number) if version == "2.3" else _table_of_2_1(number, version)
        content, schema = by_pylance(table, version)
        leaves = [leaf for field in schema.fields for leaf in leaf_columns(field)]
        columns = {leaf.field.id: place for place, leaf in enumerate(leaves)}
    metadata = metadata_start(content)
    return Sample(content, schema, columns, ROWS, (0, metadata, metadata, metadata))


def read(
    sample: Sample,
    content: bytes,
    schema: Schema | None = None,
    columns: Mapping[int, int] | None = None,
) -> None:
    """Everything, a range, some rows, these again when the states are known, and statistics.

    Args:
        content: what became of the file.
        schema, columns: in the place of the sample's.
    """
    columns = sample.columns if columns is None else columns
    source = FileSource(LOCATION, len(content), columns)
    states = Known()
    plan = open_fragment(schema or sample.schema, [source], sample.num_rows, states)
    fragment = run(plan, content)
    last = sample.num_rows - 1
    rows = np.array([0, 1, 17, 200, last * 4 // 5, last], np.int64)
    for plan, num_rows in (
        (fragment.take(rows, states), len(rows)),
        (fragment.read(0, last + 1, Known()), last + 1),
        (fragment.read(last // 4, last // 2, states), last // 2 - last // 4),
        (fragment.take(rows, states), len(rows)),
    ):
        batch = run(plan, content).decode()
        assert batch.num_rows == num_rows
        validate(batch)
    container = run(open_file(LOCATION, len(content), states), content)
    if isinstance(container, BatchContainer):
        for field in columns:
            bounds = run(read_statistics(container, field), content)
            if bounds is not None:
                bounds.least.validate(full=True)


def _by_alance(table: pa.Table, version: str) -> tuple[bytes, Schema]:
    async def write(path: Path) -> None:
        async with alance.FileWriter.open(path, version=version) as writer:
            await writer.write(table)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.lance"
        asyncio.run(write(path))
        return path.read_bytes(), Schema.from_arrow(table.schema)


def _tables_of_0_1() -> list[pa.Table]:
    texts = [f"t{row * row}" for row in range(ROWS_0_1)]
    structs = [{"x": row, "y": text, "z": [row] * (row % 3)} for row, text in enumerate(texts)]
    plain = {
        "int32": pa.array(range(ROWS_0_1), pa.int32()),
        "bool": [row % 3 == 0 for row in range(ROWS_0_1)],
        "vector": pa.array([[row / 2, 1.0] for row in range(ROWS_0_1)], pa.list_(pa.float32(), 2)),
        "null": pa.nulls(ROWS_0_1),
    }
    words = {
        "text": [None if row % 7 == 3 else text for row, text in enumerate(texts)],
        "dictionary": pa.array([f"w{row % 5}" for row in range(ROWS_0_1)]).dictionary_encode(),
    }
    nested = {
        "list": [list(range(row % 4)) for row in range(ROWS_0_1)],
        "lists": [[[text]] * (len(text) % 3) for text in texts],
        "structs": [[struct] * (struct["x"] % 3) for struct in structs],
    }
    return [pa.table(columns) for columns in (plain, words, nested)]


def _tables_of_2_0() -> list[pa.Table]:
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
            "structs": sparse([[struct] * (struct["x"] % 3) for struct in structs]),
        }
    )
    return [plain, words, nested]


def _table_of_2_1(number: int, version: str) -> pa.Table:
    names = [name for name in GROUPS[number] if version == "2.2" or name not in ONLY_2_2]
    assert all(name in TYPES for name in names)
    return pa.table({name: column(name, ROWS, 0.2) for name in names})


def _table_of_2_3(number: int) -> pa.Table:
    names, nulls, is_sparse = GROUPS_2_3[number]
    table = pa.table({name: column(name, ROWS, nulls) for name in names})
    if number == 3:
        rng = random.Random(number)
        words = [rng.randbytes(40_000).hex() for _ in range(3)]
        shown = [rng.choice(words) if row % 3 == 0 else None for row in range(ROWS)]
        table = table.append_column("indexed", pa.array(shown))
    return sparse_table(table) if is_sparse else table
