"""Fields of 2.0 files: trees of columns, and Arrow arrays built from their rows.

A list has a column of offsets, and the columns of its items with one row per item. A struct has a
column without values (its header); its children have one row per struct. Structs cannot be null.

Source: file format 2.0, "From schema to columns", "Finding bytes".
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import BatchTooLargeError, CorruptFileError
from alance.format.layouts.fields import json_array, narrow, wrapped
from alance.format.numbers import as_numbers, bitmap, is_first, is_large, offsets_of
from alance.format.plans import together
from alance.format.v2_0.arrays import Offsets
from alance.format.v2_0.base import PageParts, Spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from alance.base.arrays import Int64s, Mask
    from alance.format.field import Field
    from alance.format.plans import Plan
    from alance.format.v2_0.arrays import ArrayPage
    from alance.format.v2_0.base import ArrayPiece
    from alance.format.v2_0.strings import Ends


class FieldPiece(NamedTuple):
    """Rows of a field that were read.

    Attributes:
        build: builds an array of a type, which is not an extension type.
    """

    num_bytes: int
    build: Callable[[pa.DataType], pa.Array]

    def decode(self, arrow: pa.DataType) -> pa.Array:
        """Decode the rows as an array of the field's type."""
        if isinstance(arrow, pa.BaseExtensionType):
            return wrapped(self.decode(arrow.storage_type), arrow)
        return self.build(arrow)


class FieldNode(Protocol):
    """Field with its columns."""

    def plan(self, spans: Spans) -> Plan[FieldPiece]:
        """Plan rows, which must be inside the columns."""
        ...


@dataclass(frozen=True, slots=True)
class NullNode:
    """Field that is not in the file."""

    def plan(self, spans: Spans) -> Plan[FieldPiece]:
        return FieldPiece(0, partial(pa.nulls, spans.num_rows))
        yield


def _with_null_blobs(places: pa.Array) -> pa.Array:
    """Replace blob descriptions (1, 0), which mean null in 2.0, by nulls."""
    positions, sizes = (as_numbers(places.field(name)) for name in ("position", "size"))
    valid = (positions != 1) | (sizes != 0)
    children = [places.field(number) for number in range(places.type.num_fields)]
    return pa.Array.from_buffers(places.type, len(places), [bitmap(valid)], children=children)


@dataclass(frozen=True, slots=True)
class LeafNode:
    """Field whose values are in a single column."""

    field: Field
    column: PagedColumn

    def plan(self, spans: Spans) -> Plan[FieldPiece]:
        parts = [(self.column.array_page(n), inside) for n, inside in overlaps(self.column, spans)]
        as_places = self.field.is_blob_v1
        pieces = yield from together(
            [page.values(inside, as_places=as_places) for page, inside in parts]
        )
        pages = [(page, piece) for (page, _), piece in zip(parts, pieces, strict=True)]
        num_bytes = sum(piece.num_bytes for piece in pieces)
        return FieldPiece(num_bytes, partial(self._array, pages))

    def _array(self, pages: Sequence[tuple[ArrayPage, ArrayPiece]], arrow: pa.DataType) -> pa.Array:
        arrays = []
        stored = pa.large_binary() if self.field.is_json else arrow
        for page, piece in pages:
            with page.place.checking():
                array = piece.build(stored, None)
                if self.field.is_json:
                    array = json_array(array, arrow)
                arrays.append(_with_null_blobs(array) if self.field.is_blob_v1 else array)
        if not arrays:
            return pa.nulls(0, arrow)
        if len(arrays) == 1:
            return arrays[0]
        try:
            return pa.concat_arrays(arrays)
        except pa.ArrowException as error:
            raise BatchTooLargeError(
                f"field {self.field.name!r}: {error}; read fewer rows at once"
            ) from error


@dataclass(frozen=True, slots=True)
class StructNode:
    """Struct with its children."""

    children: Sequence[FieldNode]

    def plan(self, spans: Spans) -> Plan[FieldPiece]:
        children = yield from together([child.plan(spans) for child in self.children])
        num_bytes = sum(child.num_bytes for child in children)
        return FieldPiece(num_bytes, partial(_struct, spans.num_rows, children))


def _struct(num_rows: int, children: Sequence[FieldPiece], arrow: pa.DataType) -> pa.Array:
    arrays = [child.decode(arrow.field(number).type) for number, child in enumerate(children)]
    return pa.Array.from_buffers(arrow, num_rows, [None], children=arrays)


def list_piece(pages: Sequence[Ends], items: FieldPiece) -> FieldPiece:
    """Return the lists of some pages, given their offsets by page and the items of all pages."""
    num_bytes = items.num_bytes + sum(8 * len(page.offsets) for page in pages)
    return FieldPiece(num_bytes, partial(_lists, pages, items))


def _lists(pages: Sequence[Ends], piece: FieldPiece, arrow: pa.DataType) -> pa.Array:
    offsets, valid = _joined(pages)
    is_text = not pa.types.is_nested(arrow)
    items = piece.decode(pa.uint8() if is_text else arrow.value_type)
    if int(offsets[-1]) != len(items):
        raise CorruptFileError(f"lists of {offsets[-1]} items, of which {len(items)} are there")
    buffers = [bitmap(valid), pa.py_buffer(narrow(offsets, large=is_large(arrow)))]
    if not is_text:
        return pa.Array.from_buffers(arrow, len(offsets) - 1, buffers, children=[items])
    content = items.buffers()[1] if len(items) else pa.py_buffer(b"")
    lists = pa.Array.from_buffers(arrow, len(offsets) - 1, [*buffers, content])
    try:
        lists.validate(full=True)
    except pa.ArrowException as error:
        raise CorruptFileError(str(error)) from error
    return lists


@dataclass(frozen=True, slots=True)
class ListNode:
    """List with its offsets and items. In old files, also a string field."""

    field: Field
    column: PagedColumn
    items: FieldNode

    def plan(self, spans: Spans) -> Plan[FieldPiece]:
        """Plan one round for the offsets, then the rounds for the items."""
        hit = list(overlaps(self.column, spans))
        last = hit[-1][0] if hit else -1
        bases = offsets_of([self._offsets(number).num_items for number in range(last + 1)])
        ends = yield from together([self._fetch(number, inside) for number, inside in hit])
        extents = [(bases[:0], bases[:0])]
        for (number, _), page in zip(hit, ends, strict=True):
            extents.append((page.spans.starts + bases[number], page.spans.stops + bases[number]))
        items = Spans.of(*map(np.concatenate, zip(*extents, strict=True)))
        return list_piece(ends, (yield from self.items.plan(items)))

    def _offsets(self, number: int) -> Offsets:
        page = self.column.array_page(number)
        if not isinstance(page.root, Offsets):
            raise page.place.corrupt("values where its column has the offsets of lists")
        return page.root

    def _fetch(self, number: int, spans: Spans) -> Plan[Ends]:
        page, root = self.column.array_page(number), self._offsets(number)
        content = yield from root.indices.fetch(page.place, spans)
        with page.place.checking():
            return root.indices.decode(content, spans, root.num_items)


def _joined(pages: Sequence[Ends]) -> tuple[Int64s, Mask | None]:
    """Join the offsets and the validity of all pages; the validity is None without nulls."""
    if len(pages) == 1:
        return pages[0].offsets, pages[0].valid
    offsets = [np.zeros(1, np.int64)]
    masks, has_nulls = [], False
    for page in pages:
        offsets.append(page.offsets[1:] + offsets[-1][-1])
        mask = page.valid
        has_nulls |= mask is not None
        masks.append(np.ones(len(page.offsets) - 1, np.bool_) if mask is None else mask)
    return np.concatenate(offsets), np.concatenate(masks) if has_nulls else None


class PagedColumn(Protocol):
    """Column of an open file."""

    @property
    def first_rows(self) -> Int64s:
        """First row of each page, then the number of rows; shape (pages + 1,)."""
        ...

    def array_page(self, number: int) -> ArrayPage: ...


def overlaps(column: PagedColumn, spans: Spans) -> Iterator[tuple[int, Spans]]:
    """Yield the pages that contain rows, and these rows relative to the page's first row."""
    first_rows = column.first_rows
    if not len(spans.starts):
        return
    if spans.stops[-1] > first_rows[-1]:
        raise CorruptFileError(
            f"row {spans.stops[-1] - 1} of a column that has {first_rows[-1]} rows"
        )
    if len(first_rows) == 2:
        yield 0, spans
        return
    parts = PageParts.of(spans, first_rows)
    edges = np.flatnonzero(is_first(parts.pages)).tolist()
    for begin, end in pairwise([*edges, len(parts.pages)]):
        starts = parts.starts[begin:end]
        yield int(parts.pages[begin]), Spans(starts, starts + parts.counts[begin:end])
