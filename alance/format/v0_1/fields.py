"""Fields of 0.1 files: trees of pages, with the number of rows at each level.

A list has a page of offsets for each batch, relative to the batch's first item. Its items have
pages of their own. Structs have no pages. Lists and structs cannot be null.

Source: docs/format/file-0.1.md, "Pages" and "Reading in few requests".
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.numbers import offsets_of, storage_type
from alance.format.plans import together
from alance.format.table.dictionaries import KEYED_TYPES
from alance.format.types import is_nested
from alance.format.v0_1.leaves import BlobNode, Pages, PlainNode, TextNode
from alance.format.v2_0.base import Spans
from alance.format.v2_0.fields import NullNode, StructNode, list_piece
from alance.format.v2_0.fixed import row_bits
from alance.format.v2_0.strings import Ends, decode_ends

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.base.arrays import Int64s
    from alance.format.field import Field
    from alance.format.plans import Plan
    from alance.format.schema import Schema
    from alance.format.v0_1.metadata import PageRun
    from alance.format.v2_0.base import PageParts
    from alance.format.v2_0.fields import FieldNode, FieldPiece


def is_list(field: Field) -> bool:
    """True for list types, whose fields have a page of offsets and a child."""
    return field.logical_type.startswith(("list", "large_list"))


def is_text(field: Field) -> bool:
    """True if the field has strings or bytes with offsets."""
    return field.logical_type in (*KEYED_TYPES, "json", "blob")


def page_bits(field: Field) -> int | None:
    """Return the bits per entry of the field's pages; None for types without pages."""
    if is_list(field):
        return 64 if field.logical_type.startswith("large") else 32
    if is_text(field):
        return 64
    if is_nested(field.logical_type) or field.logical_type == "null":
        return None
    return row_bits(field.arrow_type)


def page_ends(field: Field, run: PageRun) -> Int64s:
    """Return the ends of a field's pages; shape (batches,). The field must have pages."""
    bits = page_bits(field)
    assert bits is not None
    entries = run.lengths + is_text(field)
    ends: Int64s = run.positions + (entries * bits + 7) // 8
    return ends


def pages_before(schema: Schema) -> dict[int, Field]:
    """Map each field with pages to the field whose pages are directly before its own in the file.

    The first field is mapped to the last one: the last page of a batch is before the next batch.
    """
    order = [field for field in schema.walk() if page_bits(field) is not None]
    before_each = {field.id: before for before, field in pairwise(order)}
    if order:
        before_each[order[0].id] = order[-1]
    return before_each


@dataclass(frozen=True, slots=True)
class ListReader:
    """List field with the tree of its items."""

    field: Field
    pages: Pages
    items: FieldNode
    first_items: Int64s  # shape (batches + 1,): first item of each batch, then the number of items
    width: int  # bytes per offset

    def plan(self, spans: Spans) -> Plan[FieldPiece]:
        """Plan one round for the offsets, then the rounds for the items.

        If whole batches are requested, reads offsets and all items concurrently.
        """
        parts = self.pages.parts(spans)
        hit, first_rows = parts.pages, self.pages.first_rows
        if len(hit) and (parts.counts == first_rows[hit + 1] - first_rows[hit]).all():
            all_items = Spans.of(self.first_items[hit], self.first_items[hit + 1])
            plans: list[Plan[Ends | FieldPiece]] = [self._ends(parts), self.items.plan(all_items)]
            ends, items = yield from together(plans)
            assert isinstance(ends, Ends)
            assert not isinstance(items, Ends)
            if int(ends.offsets[-1]) == all_items.num_rows:
                return list_piece([ends], items)
        else:
            ends = yield from self._ends(parts)
        owned = Spans.of(ends.spans.starts, ends.spans.stops)
        return list_piece([ends], (yield from self.items.plan(owned)))

    def _ends(self, parts: PageParts) -> Plan[Ends]:
        entries = yield from self.pages.fetch(parts, self.width, extra=1)
        raw = np.frombuffer(entries, f"<i{self.width}").astype(np.int64)
        counts = parts.counts + 1
        base = np.repeat(self.first_items[parts.pages], counts)
        most = np.repeat(self.first_items[parts.pages + 1], counts) - base
        if ((raw < 0) | (raw > most)).any():
            raise self.pages.place.corrupt(
                f"field {self.field.name!r}: offsets of lists outside of their items"
            )
        last = int(self.first_items[-1])
        return decode_ends((raw + base).view(np.uint8), parts.counts, last)


@dataclass(frozen=True, slots=True)
class Tree:
    """Builder of readers for fields, from the part of a file's page table that was read.

    Attributes:
        runs: pages of the requested fields, by field id.
        others: pages of other fields, including the fields in `before`.
        before: for each field by id, the field whose pages are directly before its own; unknown
            ones are omitted.
        items: values of dictionaries, by field id.
    """

    path: str
    file_bytes: int
    runs: Mapping[int, PageRun]
    others: Mapping[int, PageRun]
    before: Mapping[int, Field]
    items: Mapping[int, pa.Array]

    def node(self, field: Field, num_rows: Int64s) -> FieldNode:
        """Build the reader of a field and its descendants.

        Args:
            num_rows: number of rows of the field in each batch; shape (batches,).
        """
        if field.logical_type == "struct":
            if not any(below.id in self.runs for below in field.walk()):
                return NullNode()
            return StructNode([self.node(child, num_rows) for child in field.children])
        run = self.runs.get(field.id)
        if run is None:
            return NullNode()
        self._check(field, run.lengths - is_list(field), num_rows)
        bits = page_bits(field)
        if bits is None:
            if field.logical_type != "null":
                raise UnsupportedError(f"field {field.name!r}: {field.logical_type} in a 0.1 file")
            return NullNode()
        extra = int(is_list(field) or is_text(field))
        pages = Pages.of(self.path, self.file_bytes, run, num_rows, bits, extra)
        if field.is_blob_v1:
            return BlobNode(field, pages)
        if is_text(field):
            return TextNode(field, pages, self.begins(field, run))
        if is_list(field):
            return self._list(field, pages, bits // 8)
        arrow = storage_type(field.arrow_type)
        items = self.items[field.id] if pa.types.is_dictionary(arrow) else None
        return PlainNode(field, pages, bits, items)

    def _list(self, field: Field, pages: Pages, width: int) -> FieldNode:
        if len(field.children) != 1:
            raise CorruptFileError(f"field {field.name!r}: a list of {len(field.children)} fields")
        counts = self._counts(field.children[0])
        if counts is None:
            raise UnsupportedError(
                f"field {field.name!r}: lists of structs of which no field was asked for is here"
            )
        if (counts < 0).any():
            raise CorruptFileError(f"field {field.name!r}: a page of offsets without entries")
        items = self.node(field.children[0], counts)
        return ListReader(field, pages, items, offsets_of(counts), width)

    def _counts(self, field: Field) -> Int64s | None:
        """Return the number of rows of a field in each batch, by its pages; None without pages."""
        if field.logical_type == "struct":
            for child in field.children:
                counts = self._counts(child)
                if counts is not None:
                    return counts
            return None
        run = self.runs.get(field.id)
        return None if run is None else run.lengths - is_list(field)

    def begins(self, field: Field, run: PageRun) -> Int64s | None:
        """Return the start of the strings' bytes in each batch; None if it cannot be inferred."""
        before = self.before.get(field.id)
        pages = None if before is None else self.others.get(before.id)
        if before is None or pages is None:
            return None
        starts = page_ends(before, pages)
        # The preceding page belongs to the previous batch.
        if len(starts) and starts[0] > run.positions[0]:
            starts = np.concatenate([np.zeros(1, np.int64), starts[:-1]])
        return starts if ((starts >= 0) & (starts <= run.positions)).all() else None

    def _check(self, field: Field, counts: Int64s, expected: Int64s) -> None:
        if not np.array_equal(counts, expected):
            batch = int(np.argmax(counts != expected)) if len(counts) == len(expected) else 0
            raise CorruptFileError(
                f"{self.path}: field {field.name!r} in batch {batch}: {counts[batch]} rows, "
                f"expected {expected[batch]}"
            )


def fields_before(fields: Sequence[Field], before: Mapping[int, Field]) -> list[int]:
    """Return the ids of the fields whose pages end where the string bytes of `fields` begin."""
    return [
        before[below.id].id
        for field in fields
        for below in field.walk()
        if below.id in before and is_text(below)
    ]
