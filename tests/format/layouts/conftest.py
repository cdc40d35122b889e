"""Pages to read: built by hand from the bytes of `docs/format/file.md`, or written by pylance."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from lance.file import LanceFileWriter

from alance.format.blocks import (
    Block,
    ConstantBlock,
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidth,
    StructBlock,
    VariableWidth,
)
from alance.format.container import open_container
from alance.format.layouts import PAGE_LAYOUT, page_layout
from alance.format.layouts.base import DecodeTask, Layer, PageLayout, PageValues
from alance.format.plans import Pieces, Plan, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

Integers = np.ndarray


@dataclass
class Page:
    """A page and the file that holds it."""

    layout: PageLayout
    content: bytes

    def run(self, plan: Plan[Any]) -> Any:
        """The result of a plan, and its number of rounds as `rounds`."""
        result, rounds = run(plan, self.content)
        self.rounds = len(rounds)
        self.ranges = [
            each
            for expected in rounds
            for item in expected
            for each in (item.ranges() if isinstance(item, Pieces) else [item])
        ]
        return result

    def read_page(self) -> PageValues:
        return self.run(self.layout.read_page()).decode()

    def ways(self, rows: list[int]) -> Iterator[PageValues]:
        """The same rows, read in every way that there is."""
        array = np.array(rows, np.int64)
        state = self.run(self.layout.load())
        assert state.num_bytes > 0
        tasks: list[DecodeTask] = [self.run(self.layout.take(state, array))]
        if rows and rows == list(range(rows[0], rows[-1] + 1)):
            tasks.append(self.run(self.layout.read(state, rows[0], rows[-1] + 1)))
        for task in tasks:
            assert task.num_bytes >= 0
            yield task.decode()


def build(layout: str, buffers: list[str], num_rows: int) -> Page:
    """A page from hex: its description and its buffers."""
    content, spans = b"", []
    for buffer in map(bytes.fromhex, buffers):
        spans.append((len(content), len(buffer)))
        content += buffer + b"H" * (-len(buffer) % 64)
    encoding = AnyMessage(type_url=PAGE_LAYOUT, value=bytes.fromhex(layout))
    return Page(
        page_layout(
            encoding.SerializeToString(),
            path="memory://1/file",
            buffers=spans,
            num_rows=num_rows,
        ),
        content,
    )


@pytest.fixture(scope="session")
def make_page() -> Callable[..., Page]:
    """`make_page(layout_hex, buffers_hex, num_rows)`."""

    def make(layout: str, buffers: list[str], num_rows: int) -> Page:
        return build(layout, buffers, num_rows)

    return make


@pytest.fixture
def write_pages(tmp_path: Path) -> Callable[..., list[list[Page]]]:
    """`write_pages(table, version)`: the pages of each column, as pylance writes them."""

    def write(table: pa.Table, version: str, **options: Any) -> list[list[Page]]:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.lance"
        with LanceFileWriter(str(path), table.schema, version=version, **options) as writer:
            for batch in table.to_batches():
                writer.write_batch(batch)
        content = path.read_bytes()
        container, _ = run(open_container("memory://1/file", len(content)), content)
        indices = range(container.num_columns)
        columns, _ = run(container.read_columns(list(indices)), content)
        return [
            [
                Page(
                    page_layout(
                        page.encoding,
                        path="memory://1/file",
                        buffers=page.buffers,
                        num_rows=page.num_rows,
                    ),
                    content,
                )
                for page in column.pages
            ]
            for column in columns
        ]

    return write


def values_of(block: Block) -> list[Any]:
    """The values of a block: bytes, or lists and tuples of them; None where all are null."""
    count = block.num_values
    match block:
        case FixedWidth(bits_per_value=bits, data=data):
            assert data.shape == ((count * bits + 7) // 8,)
            if bits % 8:
                flags = np.unpackbits(data, bitorder="little")[: count * bits]
                return [bytes(row) for row in flags.reshape(count, bits)]
            width = bits // 8
            return [data[i * width : (i + 1) * width].tobytes() for i in range(count)]
        case VariableWidth(offsets=offsets, data=data):
            assert offsets[0] == 0
            assert offsets[-1] <= len(data)
            return [data[a:b].tobytes() for a, b in itertools.pairwise(offsets)]
        case FixedSizeListBlock(dimension=dimension, items=items, validity=validity):
            values = values_of(items)
            if validity is not None:
                assert validity.shape == ((count * dimension + 7) // 8,)
                flags = np.unpackbits(validity, bitorder="little")
                values = [item if flag else None for item, flag in zip(values, flags, strict=False)]
            return [values[i * dimension : (i + 1) * dimension] for i in range(count)]
        case StructBlock(children=children):
            return list(zip(*map(values_of, children), strict=True))
        case DictionaryBlock(indices=indices, items=items):
            recognized = values_of(items)
            # An index of a null is arbitrary.
            numbers = [int.from_bytes(item, "little") for item in values_of(indices)]
            return [recognized[number] if recognized else None for number in numbers]
        case ConstantBlock(value=value):
            return (values_of(value) if value is not None else [None]) * count


def rows_of(page: PageValues) -> list[Any]:
    """The rows of a page as nested lists; a struct around something is a tuple of one."""
    values = values_of(page.values)
    num_entries = next(
        (len(candidate) for candidate in (page.rep, page.definition) if candidate is not None),
        len(values),
    )
    rep = np.zeros(num_entries, int) if page.rep is None else page.rep.astype(int)
    level = np.zeros(num_entries, int) if page.definition is None else page.definition.astype(int)
    owner, lists = [0], 0
    for layer in page.layers:
        lists += layer.is_list
        owner += [lists] * layer.num_levels
    owners = np.array(owner)
    base, depth = 0, 0
    slots: list[Any] = values
    for number, layer in enumerate(page.layers):
        if layer.is_list:
            depth += 1
            before = np.concatenate([[0], np.cumsum(owners[level] < depth)])
            assert before[-1] == len(slots)
            heads = np.flatnonzero((rep > 0) & (owners[level] <= depth))
            stops = [*before[heads][1:].tolist(), len(slots)][: len(heads)]
            is_null = layer in (Layer.NULLABLE_LIST, Layer.NULL_AND_EMPTY_LIST)
            slots = [
                None
                if (level[head] == base + 1 and is_null) or level[head] > base + layer.num_levels
                else slots[before[head] : stop]
                for head, stop in zip(heads, stops, strict=True)
            ]
            keep = rep > 0
            rep, level = rep[keep] - 1, level[keep]
        else:
            levels = level[owners[level] <= depth]
            assert len(levels) == len(slots)
            slots = [
                None if result > base else (slot if number == 0 else (slot,))
                for slot, result in zip(slots, levels, strict=True)
            ]
        base += layer.num_levels
    assert len(slots) == page.num_rows
    return slots


@pytest.fixture(scope="session")
def rows() -> Callable[[PageValues], list[Any]]:
    """`rows(page_values)`: the rows as nested lists of bytes."""
    return rows_of
