"""Damaged files of 2.3: an error of our tree or an answer, never anything else."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from alance.errors import AlanceError
from tests.reference.damaged import (
    by_pylance,
    metadata_start,
    read_columns,
    with_moved_part,
    with_spoiled_bytes,
)
from tests.reference.types import column
from tests.v2_3.planar import planes, sparse_table

if TYPE_CHECKING:
    from alance.format.schema import Schema

ROWS = 300
GROUPS = [
    (["int32", "string", "runs", "few strings", "constant"], 0.2, False),
    (["int32", "string", "bool", "vector with nulls", "constant"], 0.3, True),
    (["list", "struct of lists", "list of structs of lists", "map"], 0.2, True),
    (["wide vector", "long string", "long binary", "wide fixed-size binary"], 0.7, False),
    (["list of long strings", "list of vectors", "list of lists", "null"], 0.7, True),
]


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
    return by_pylance(table, "2.3")


def read(content: bytes, schema: Schema) -> None:
    read_columns(content, schema, ROWS)


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
    metadata = metadata_start(content)
    for _ in range(40):
        spoiled = with_spoiled_bytes(rng, content, [0, metadata, metadata, metadata])
        with suppress(AlanceError):
            read(spoiled, schema)


@pytest.mark.parametrize("seed", range(5))
def test_moved_parts(seed: int) -> None:
    """Pieces of the file in the place of others."""
    rng = random.Random(100 + seed)
    content, schema = written(seed % len(GROUPS))
    for _ in range(40):
        spoiled = with_moved_part(rng, content)
        with suppress(AlanceError):
            read(spoiled, schema)
