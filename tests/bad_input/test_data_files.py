"""Damaged data files: an error of our tree or an answer, never anything else.

Short runs here; `make fuzz` runs the same for long.
"""

from __future__ import annotations

import random
from contextlib import suppress
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import AlanceError
from alance.format.schema import Schema
from tests.reference.damaged import by_pylance, metadata_start, read_columns
from tests.reference.types import ONLY_2_2, TYPES, column

ROWS = 300
GROUPS = [
    ["int32", "string", "bool", "runs"],
    ["list", "struct of lists", "list of structs of lists"],
    ["few strings", "dictionary", "constant text", "long string"],
    ["wide vector", "vector with nulls", "decimal128", "null"],
    ["map", "vector of structs", "list of lists", "binary"],
]


@cache
def written(group: int, version: str) -> tuple[bytes, Schema]:
    names = [name for name in GROUPS[group] if version == "2.2" or name not in ONLY_2_2]
    table = pa.table({name: column(name, ROWS, 0.2) for name in names})
    assert all(name in TYPES for name in names)
    return by_pylance(table, version)


def read(content: bytes, schema: Schema) -> None:
    read_columns(content, schema, ROWS)


def try_to_read(content: bytes, schema: Schema) -> None:
    with suppress(AlanceError):
        read(content, schema)


CASES = st.tuples(st.integers(0, len(GROUPS) - 1), st.sampled_from(["2.1", "2.2"]))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_every_truncation_is_refused(group: int, version: str) -> None:
    content, schema = written(group, version)
    read(content, schema)
    for length in random.Random(group).sample(range(len(content)), 60):
        with pytest.raises(AlanceError):
            read(content[:length], schema)


@given(CASES, st.data())
def test_flipped_bits(case: tuple[int, str], data: st.DataObject) -> None:
    content, schema = written(*case)
    spoiled = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(content) - 1))
        spoiled[position] ^= 1 << data.draw(st.integers(0, 7))
    try_to_read(bytes(spoiled), schema)


@given(CASES, st.data())
def test_spoiled_metadata(case: tuple[int, str], data: st.DataObject) -> None:
    content, schema = written(*case)
    spoiled = bytearray(content)
    metadata = metadata_start(content)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(metadata, len(content) - 1))
        spoiled[position] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    try_to_read(bytes(spoiled), schema)


@given(CASES, st.data())
def test_pieces_of_a_file_at_other_places(case: tuple[int, str], data: st.DataObject) -> None:
    content, schema = written(*case)
    spoiled = bytearray(content)
    size = data.draw(st.integers(1, 64))
    source = data.draw(st.integers(0, len(content) - size))
    target = data.draw(st.integers(0, len(content) - size))
    spoiled[target : target + size] = content[source : source + size]
    try_to_read(bytes(spoiled), schema)


@given(CASES, CASES, st.booleans())
def test_a_schema_of_another_file(one: tuple[int, str], other: tuple[int, str], cut: bool) -> None:
    content, _ = written(*one)
    _, schema = written(*other)
    try_to_read(content, Schema(schema.fields[:1], {}) if cut else schema)
