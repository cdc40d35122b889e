"""Damaged files of 2.3: an error of our tree or an answer, never anything else."""

from __future__ import annotations

import random
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter

from alance.errors import AlanceError, CorruptFileError
from alance.file.fragment import FileSource, open_fragment
from alance.format.layouts.fields import leaf_columns
from alance.format.plans import cut
from alance.format.schema import Schema
from tests.reference.types import column
from tests.v2_3.planar import planes, sparse_table

if TYPE_CHECKING:
    from collections.abc import Hashable

    from alance.format.plans import Plan

ROWS = 300
GROUPS = [
    (["int32", "string", "runs", "few strings", "constant"], 0.2, False),
    (["int32", "string", "bool", "vector with nulls", "constant"], 0.3, True),
    (["list", "struct of lists", "list of structs of lists", "map"], 0.2, True),
    (["wide vector", "long string", "long binary", "wide fixed-size binary"], 0.7, False),
    (["list of long strings", "list of vectors", "list of lists", "null"], 0.7, True),
]


class Known:
    """A cache of one file."""

    def __init__(self) -> None:
        self.found: dict[Hashable, Any] = {}

    def peek(self, key: Hashable) -> Any:
        return self.found.get(key)

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        self.found[key] = value


@cache
def written(group: int) -> tuple[bytes, Schema]:
    names, nulls, is_sparse = GROUPS[group]
    table = pa.table({name: column(name, ROWS, nulls) for name in names})
    rng = random.Random(group)
    words = [rng.randbytes(40_000).hex() for _ in range(3)]
    if group == 3:
        shown = [rng.choice(words) if row % 3 == 0 else None for row in range(ROWS)]
        table = table.append_column("indexed", pa.array(shown))
    if is_sparse:
        table = sparse_table(table)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.lance"
        with LanceFileWriter(str(path), table.schema, version="2.3") as writer:
            writer.write_batch(table)
        return path.read_bytes(), Schema.from_arrow(table.schema)


def run(plan: Plan[Any], content: bytes) -> Any:
    view = memoryview(content)
    try:
        wanted = next(plan)
        while True:
            for one in wanted:
                assert 0 <= one.start <= one.stop
                if one.stop > len(content):
                    raise CorruptFileError("beyond the end")
            wanted = plan.send([cut(one, view) for one in wanted])
    except StopIteration as done:
        return done.value


def read(content: bytes, schema: Schema) -> None:
    """Everything, some rows, and some rows again when the states are known."""
    leaves = [leaf for field in schema.fields for leaf in leaf_columns(field)]
    columns = {leaf.field.id: number for number, leaf in enumerate(leaves)}
    source = FileSource("memory://1/file", len(content), columns)
    states = Known()
    fragment = run(open_fragment(schema, [source], ROWS, states), content)
    rows = np.array([0, 1, 17, 200, ROWS - 1], np.int64)
    for plan in (fragment.take(rows, states), fragment.read(0, ROWS, Known())):
        batch = run(plan, content).decode()
        batch.validate(full=True)
    run(fragment.take(rows, states), content).decode()


def test_the_files_have_all_kinds_of_pages() -> None:
    kinds = set().union(*[planes(written(group)[0]) for group in range(len(GROUPS))])
    sparse = {("sparse", name) for name in ("chunked", "zipped", "constant", "none", "indexed")}
    assert kinds >= sparse | {("dense", "chunked")}


@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_every_truncation_is_refused(group: int) -> None:
    content, schema = written(group)
    read(content, schema)
    for length in random.Random(group).sample(range(len(content)), 30):
        with pytest.raises(AlanceError):
            read(content[:length], schema)


@pytest.mark.parametrize("seed", range(15))
def test_spoiled_bytes(seed: int) -> None:
    """Bytes anywhere, most of them in what describes the pages, of random or telling values."""
    rng = random.Random(seed)
    content, schema = written(seed % len(GROUPS))
    metadata = int.from_bytes(content[-40:-32], "little")
    for _ in range(40):
        spoiled = bytearray(content)
        for _ in range(rng.choice([1, 1, 2, 5])):
            first = rng.choice([0, metadata, metadata, metadata])
            at = rng.randrange(first, len(content))
            spoiled[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        with suppress(AlanceError):
            read(bytes(spoiled), schema)


@pytest.mark.parametrize("seed", range(5))
def test_moved_parts(seed: int) -> None:
    """Pieces of the file in the place of others."""
    rng = random.Random(100 + seed)
    content, schema = written(seed % len(GROUPS))
    for _ in range(40):
        size = rng.choice([1, 8, 64, 300])
        source, target = (rng.randrange(len(content) - size) for _ in range(2))
        spoiled = bytearray(content)
        spoiled[target : target + size] = content[source : source + size]
        with suppress(AlanceError):
            read(bytes(spoiled), schema)
