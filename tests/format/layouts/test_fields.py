"""Fields put together from the pages that pylance writes, and levels by the specification.

Source: docs/format/file.md, "Worked examples".
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter

from alance.errors import CorruptFileError
from alance.file.open.columns import ScanStates
from alance.file.rows.fragment import FileSource, open_fragment
from alance.format.blocks import FixedWidth
from alance.format.encode.levels import Lists, unravel
from alance.format.layouts.base import Layer, PageValues
from alance.format.layouts.fields import leaf_columns
from alance.format.schema import Schema
from tests.reference.assembled import assemble
from tests.reference.driven import Nothing, run
from tests.reference.types import CASES, column

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, table: pa.Table, version: str) -> bytes:
    with LanceFileWriter(str(path), table.schema, version=version) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
    return path.read_bytes()


class Written:
    """A file of pylance, open for all its fields."""

    def __init__(self, path: Path, table: pa.Table, version: str) -> None:
        self.content = write(path, table, version)
        self.schema = Schema.from_arrow(table.schema)
        leaves = [leaf for field in self.schema.fields for leaf in leaf_columns(field)]
        columns = {leaf.field.id: number for number, leaf in enumerate(leaves)}
        source = FileSource("memory://1/file", len(self.content), columns)
        self.states = ScanStates(Nothing())
        self.fragment = run(
            open_fragment(self.schema, [source], table.num_rows, self.states), self.content
        )

    def read(self, start: int, stop: int) -> pa.Table:
        task = run(self.fragment.read(start, stop, self.states), self.content)
        return pa.Table.from_batches([task.decode()])

    def read_spans(self, spans: list[tuple[int, int]]) -> pa.Table:
        task = run(self.fragment.read_spans(spans, self.states), self.content)
        return pa.Table.from_batches([task.decode()])

    def take(self, rows: list[int]) -> pa.Table:
        task = run(self.fragment.take(np.array(rows, np.int64), self.states), self.content)
        return pa.Table.from_batches([task.decode()])


def check(written: Written, table: pa.Table, rng: random.Random) -> None:
    whole = written.read(0, table.num_rows)
    whole.validate(full=True)
    assert whole.to_pylist() == table.to_pylist()
    start = rng.randrange(table.num_rows)
    stop = rng.randrange(start, table.num_rows + 1)
    part = written.read(start, stop)
    part.validate(full=True)
    assert part.to_pylist() == table.slice(start, stop - start).to_pylist()
    bounds = sorted(rng.sample(range(table.num_rows + 1), min(60, table.num_rows)))
    spans = [span for span in pairwise(bounds) if rng.random() < 0.7]
    parts = written.read_spans(spans)
    parts.validate(full=True)
    slices = [table.slice(start, stop - start) for start, stop in spans]
    assert parts.to_pylist() == [row for rows in slices for row in rows.to_pylist()]
    rows = sorted(rng.sample(range(table.num_rows), rng.randrange(min(20, table.num_rows) + 1)))
    taken = written.take(rows)
    taken.validate(full=True)
    assert taken.to_pylist() == table.take(pa.array(rows, pa.int64())).to_pylist()


@pytest.mark.parametrize(("name", "version"), CASES)
def test_every_type_with_no_some_and_all_nulls(tmp_path: Path, name: str, version: str) -> None:
    rng = random.Random(name)
    for number, nulls in enumerate((0.0, 0.2, 1.0)):
        values = column(name, 300, nulls)
        table = pa.table({"c": values, "n": pa.array(range(300))})
        check(Written(tmp_path / f"{number}.lance", table, version), table, rng)


def page(layers: list[int], rep: list[int], definition: list[int], values: list[int]) -> PageValues:
    data = np.array(values, np.int32).view(np.uint8)
    return PageValues(
        tuple(Layer(layer) for layer in layers),
        np.array(rep, np.uint16) if rep else None,
        np.array(definition, np.uint16) if definition else None,
        FixedWidth(32, len(values), data),
        0,
    )


def test_lists_of_lists_of_lists_by_the_specification() -> None:
    result = unravel(
        page([1, 5, 5, 5], [3, 0, 1, 1, 2, 2, 3, 3], [0, 0, 1, 0, 0, 2, 3, 0], [0] * 5)
    )
    outer, middle, inner, leaf = result
    assert isinstance(outer, Lists)
    assert isinstance(middle, Lists)
    assert isinstance(inner, Lists)
    assert outer.offsets.tolist() == [0, 3, 3, 4]
    assert middle.offsets.tolist() == [0, 3, 4, 4, 5]
    assert inner.offsets.tolist() == [0, 2, 2, 3, 4, 5]
    assert leaf.num_slots == 5


def test_a_struct_between_two_lists_by_the_specification() -> None:
    result = unravel(
        page([3, 6, 3, 6], [2, 0, 1, 1, 1, 2, 2, 2], [0, 1, 3, 4, 2, 6, 5, 0], [1, 0, 2])
    )
    outer, struct, inner, leaf = result
    assert isinstance(outer, Lists)
    assert isinstance(inner, Lists)
    assert outer.offsets.tolist() == [0, 4, 4, 4, 5]
    assert outer.valid is not None
    assert outer.valid.tolist() == [True, True, False, True]
    assert struct.valid is not None
    assert struct.valid.tolist() == [True, True, False, True, True]
    assert inner.offsets.tolist() == [0, 2, 2, 2, 2, 3]
    assert inner.valid is not None
    assert inner.valid.tolist() == [True, True, False, False, True]
    assert leaf.valid is not None
    assert leaf.valid.tolist() == [True, False, True]


def test_levels_of_unequal_length_are_corrupt() -> None:
    with pytest.raises(CorruptFileError, match="levels"):
        unravel(page([3, 2], [1, 0, 1], [0, 0], [1, 2, 3]))


FIELD = Schema.from_arrow(pa.schema([pa.field("c", pa.list_(pa.int32()))])).fields[0]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (page([1], [], [], [1, 2]), "slots"),
        (page([1, 1], [], [], [1, 2]), "slots of items"),
        (page([1, 2], [1, 0, 1], [], [1, 2]), "2 values for 3 slots"),
        (page([1, 2], [1, 0], [], [1, 2]), "1 slots"),
        (page([1, 2, 2], [2, 0], [], [1, 2]), "1 slots"),
    ],
)
def test_pages_that_contradict_the_schema_are_corrupt(bad: PageValues, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        assemble(FIELD, {1: [bad]}, 2)


def test_leaves_that_disagree_on_their_lists_are_corrupt() -> None:
    arrow = pa.list_(pa.struct({"a": pa.int32(), "b": pa.int32()}))
    field = Schema.from_arrow(pa.schema([pa.field("c", arrow)])).fields[0]
    item = page([1, 1, 2], [1, 0, 1], [], [1, 2, 3])
    other = page([1, 1, 2], [1, 1, 0], [], [1, 2, 3])
    assert assemble(field, {2: [item], 3: [item]}, 2).to_pylist()[1] == [{"a": 3, "b": 3}]
    with pytest.raises(CorruptFileError, match="disagree"):
        assemble(field, {2: [item], 3: [other]}, 2)


def test_a_leaf_without_pages_is_null() -> None:
    arrow = pa.list_(pa.struct({"a": pa.int32(), "b": pa.string()}))
    field = Schema.from_arrow(pa.schema([pa.field("c", arrow)])).fields[0]
    item = page([1, 1, 2], [1, 0, 1], [], [1, 2, 3])
    assert assemble(field, {2: [item]}, 2).to_pylist() == [
        [{"a": 1, "b": None}, {"a": 2, "b": None}],
        [{"a": 3, "b": None}],
    ]
    assert assemble(field, {}, 2).to_pylist() == [None, None]
