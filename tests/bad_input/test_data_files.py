"""Damaged data files: an error of our tree or an answer, never anything else.

Short runs here; `make fuzz` runs the same for long.
"""

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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lance.file import LanceFileWriter

from alance.errors import AlanceError, CorruptFileError
from alance.file.fragment import FileSource, open_fragment
from alance.format.layouts.fields import leaf_columns
from alance.format.plans import cut
from alance.format.schema import Schema
from tests.reference.types import ONLY_2_2, TYPES, column

if TYPE_CHECKING:
    from collections.abc import Hashable

    from alance.format.plans import Plan

ROWS = 300
GROUPS = [
    ["int32", "string", "bool", "runs"],
    ["list", "struct of lists", "list of structs of lists"],
    ["few strings", "dictionary", "constant text", "long string"],
    ["wide vector", "vector with nulls", "decimal128", "null"],
    ["map", "vector of structs", "list of lists", "binary"],
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
def written(group: int, version: str) -> tuple[bytes, Schema]:
    names = [name for name in GROUPS[group] if version == "2.2" or name not in ONLY_2_2]
    table = pa.table({name: column(name, ROWS, 0.2) for name in names})
    assert all(name in TYPES for name in names)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.lance"
        with LanceFileWriter(str(path), table.schema, version=version) as writer:
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
        check(batch)
    run(fragment.take(rows, states), content).decode()


def check(batch: pa.RecordBatch) -> None:
    """Arrow's own check; a spoiled number may be any number, of more digits than its type says."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        if "does not fit in precision" not in str(error):
            raise


def try_to_read(content: bytes, schema: Schema) -> None:
    with suppress(AlanceError):
        read(content, schema)


CASES = st.tuples(st.integers(0, len(GROUPS) - 1), st.sampled_from(["2.1", "2.2"]))
SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_every_truncation_is_refused(group: int, version: str) -> None:
    content, schema = written(group, version)
    read(content, schema)
    for length in random.Random(group).sample(range(len(content)), 60):
        with pytest.raises(AlanceError):
            read(content[:length], schema)


@SLOW
@given(CASES, st.data())
def test_flipped_bits(case: tuple[int, str], data: st.DataObject) -> None:
    content, schema = written(*case)
    spoiled = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(content) - 1))
        spoiled[position] ^= 1 << data.draw(st.integers(0, 7))
    try_to_read(bytes(spoiled), schema)


@SLOW
@given(CASES, st.data())
def test_spoiled_metadata(case: tuple[int, str], data: st.DataObject) -> None:
    content, schema = written(*case)
    spoiled = bytearray(content)
    metadata = int.from_bytes(content[-40:-32], "little")
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(metadata, len(content) - 1))
        spoiled[position] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    try_to_read(bytes(spoiled), schema)


@SLOW
@given(CASES, st.data())
def test_pieces_of_a_file_at_other_places(case: tuple[int, str], data: st.DataObject) -> None:
    content, schema = written(*case)
    spoiled = bytearray(content)
    size = data.draw(st.integers(1, 64))
    source = data.draw(st.integers(0, len(content) - size))
    target = data.draw(st.integers(0, len(content) - size))
    spoiled[target : target + size] = content[source : source + size]
    try_to_read(bytes(spoiled), schema)


@SLOW
@given(CASES, CASES, st.booleans())
def test_a_schema_of_another_file(one: tuple[int, str], other: tuple[int, str], cut: bool) -> None:
    content, _ = written(*one)
    _, schema = written(*other)
    try_to_read(content, Schema(schema.fields[:1], {}) if cut else schema)
