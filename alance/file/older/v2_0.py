"""Fields of open 2.0 files: opening of their columns, and plans over their rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.base.records import dataclass
from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.file.open.files import from_content, open_columns
from alance.file.rows.kernel_arrays import has_values
from alance.format.container import FileColumn
from alance.format.field import Field
from alance.format.layouts.fields import LeafColumn, leaf_columns
from alance.format.proto import file_pb2
from alance.format.v0_1 import fields as v0_1
from alance.format.v0_1.leaves import PlainNode, TextNode
from alance.format.v2_0.arrays import ArrayPage, Header, Offsets, array_page, plain_values
from alance.format.v2_0.base import Spans
from alance.format.v2_0.fields import FieldNode, LeafNode, ListNode, NullNode, StructNode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance import _kernels
    from alance.base.arrays import Int64s
    from alance.file.open.columns import States
    from alance.format.container import Container, Page
    from alance.format.plans import Plan
    from alance.format.v2_0.fields import FieldPiece

BYTE_ITEM_TYPE: str = "uint8"


class ArrayColumn(FileColumn):
    """Column of an open file; its pages are parsed on access.

    Args:
        logical_type: logical type of the field.
    """

    __slots__ = ("_parsed", "_path", "logical_type")

    def __init__(self, column: FileColumn, path: str, logical_type: str) -> None:
        super().__init__(column.index, column.kernel)
        self.logical_type = logical_type
        self._path = path
        self._parsed: list[ArrayPage | None] = [None] * self.num_pages

    def array_page(self, number: int) -> ArrayPage:
        """Parse a page.

        Raises:
            CorruptFileError, UnsupportedError: the page's description is malformed or unknown.
        """
        parsed = self._parsed[number]
        if parsed is None:
            page = self.page(number)
            try:
                parsed = self._parsed[number] = array_page(
                    page.encoding,
                    path=self._path,
                    buffers=page.buffers,
                    num_rows=page.num_rows,
                    logical_type=self.logical_type,
                )
            except AlanceError as error:
                error.add_note(f"in page {number} of column {self.index} of {self._path}")
                raise
        return parsed

    def kind(self) -> type | None:
        """Return the encoding class of the first page; None if there are no pages."""
        return type(self.array_page(0).root) if self.num_pages else None


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """Field of the schema with all its columns.

    Attributes:
        container: file of the field's first column.
        spans: byte ranges of all pages' buffers; shape (n, 2).
        pages: pages of all columns of a file of 2.0.
    """

    field: Field
    node: FieldNode
    container: Container
    num_rows: int
    spans: Int64s
    pages: Sequence[Page] = ()

    @property
    def leaf(self) -> LeafColumn:
        return LeafColumn(self.field, 1)

    @property
    def encoded_bytes(self) -> int:
        """Total bytes of all page buffers."""
        return int((self.spans[:, 1] - self.spans[:, 0]).sum())

    def take(self, rows: Int64s) -> Plan[FieldPiece]:
        """Plan single rows: one round, plus one for strings and for each level of lists.

        Args:
            rows: sorted and unique, below `num_rows`; shape (n,).
        """
        return from_content(self.node.plan(Spans.of_rows(rows)), self.container)

    def read(self, spans: Sequence[tuple[int, int]]) -> Plan[FieldPiece]:
        """Plan ascending ranges of rows, in as many rounds as `take`."""
        starts, stops = np.array(spans, np.int64).reshape(-1, 2).T
        return from_content(self.node.plan(Spans.of(starts, stops)), self.container)

    def listed(self) -> tuple[_kernels.ColumnPages | None, int, int]:
        """Return the page table, its encoded bytes and its memory, as `LeafTables` takes them.

        The table is None if the kernel cannot take rows from the pages.
        """
        num_bytes = 200 + sum(len(page.encoding) + 120 for page in self.pages)
        return self._page_table(), self.encoded_bytes, num_bytes

    def _page_table(self) -> _kernels.ColumnPages | None:
        """Return the pages' table for the kernel; None if the kernel cannot take all their rows.

        Returns None for damaged pages, too, because their reader says what is wrong.
        """
        if not (isinstance(self.node, LeafNode) and self.num_rows and has_values(self.field)):
            return None
        if self.field.is_blob_v1:
            return None  # a place stands for null
        column = self.node.column
        assert isinstance(column, ArrayColumn)
        values: dict[bytes, tuple[int, int] | None] = {}
        try:
            for number, page in enumerate(self.pages):
                if page.encoding not in values:
                    values[page.encoding] = plain_values(column.array_page(number))
                plain = values[page.encoding]
                if plain is None:
                    return None
                column.kernel.set_plain(number, *plain)
        except (AlanceError, ValueError):
            return None
        return column.kernel


# Node classes of 0.1. If two files have such a field, the first file is read, because a release
# gave new columns the ids of old columns.
FIRST_COUNTS: Final = (v0_1.ListReader, PlainNode, TextNode)


def open_fields(
    fields: Sequence[Field], columns: Mapping[int, int], container: Container, states: States
) -> Plan[list[FieldColumn]]:
    """Plan the opening of fields; fields that the file lacks are omitted.

    Cost: no round if the file's tail or a cache has the metadata of the columns.

    Args:
        columns: column index of each field, by field id.

    Raises:
        CorruptFileError: the columns contradict each other or the schema.
    """
    members = [own for field in fields for own in field.walk() if own.id in columns]
    opened = yield from open_columns(container, [columns[own.id] for own in members], states)
    by_index = {
        column.index: ArrayColumn(column, container.path, own.logical_type)
        for column, own in zip(opened, members, strict=True)
    }
    # Strings of the first releases are lists whose bytes are the column after the offsets.
    leaves = [columns[own.id] for own in members if own.is_leaf]
    behind = [index + 1 for index in leaves if by_index[index].kind() is Offsets]
    if behind:
        more = yield from open_columns(container, behind, states)
        by_index |= {own.index: ArrayColumn(own, container.path, BYTE_ITEM_TYPE) for own in more}
    joined = []
    for field in fields:
        used: list[ArrayColumn] = []
        node = _node(field, columns, by_index, used)
        if used:
            pages = tuple(page for column in used for page in column.pages)
            buffers = [(start, start + size) for page in pages for start, size in page.buffers]
            spans = np.array(buffers, np.int64).reshape(-1, 2)
            joined.append(FieldColumn(field, node, container, used[0].num_rows, spans, pages))
    return joined


def _node(
    field: Field,
    columns: Mapping[int, int],
    opened: Mapping[int, ArrayColumn],
    used: list[ArrayColumn],
) -> FieldNode:
    """Build the tree of a field, and append its columns to `used`, outermost first."""
    index = columns.get(field.id)
    if index is None:
        return NullNode()
    column = opened[index]
    used.append(column)
    kind = column.kind()
    if kind is Header or (kind is None and field.logical_type == "struct"):
        if field.logical_type != "struct":
            raise CorruptFileError(f"field {field.name!r}: {field.logical_type}, stored as struct")
        children = []
        for child in field.children:
            begin = len(used)
            children.append(_node(child, columns, opened, used))
            if len(used) > begin and used[begin].num_rows != column.num_rows:
                raise CorruptFileError(
                    f"field {child.name!r}: {used[begin].num_rows} rows, the struct around it has "
                    f"{column.num_rows}"
                )
        return StructNode(children)
    if kind is not Offsets:
        if kind is None and not field.is_leaf and field.children and len(field.children) == 1:
            return ListNode(field, column, _node(field.children[0], columns, opened, used))
        return LeafNode(field, column)
    if field.is_blob_v1:
        raise UnsupportedError(f"field {field.name!r}: blobs stored as lists of bytes")
    if field.is_leaf:
        content = Field("bytes", -1, field.id, BYTE_ITEM_TYPE, False, {}, (), file_pb2.Field())
        inner = opened[index + 1]
        used.append(inner)
        return ListNode(field, column, LeafNode(content, inner))
    if len(field.children) != 1 or not field.logical_type.startswith(("list", "large_list")):
        raise CorruptFileError(f"field {field.name!r}: {field.logical_type}, stored as lists")
    return ListNode(field, column, _node(field.children[0], columns, opened, used))


def refuse_mixed(fields: Sequence[Field], leaves: Mapping[int, object]) -> None:
    """Refuse structs with members both in 2.0 files and in later files, which no writer makes.

    Raises:
        UnsupportedError: there is such a struct.
    """
    for field in fields:
        opened = leaves.get(field.id)
        if isinstance(opened, FieldColumn) and any(
            leaf.field.id in leaves and leaf.field is not field for leaf in leaf_columns(field)
        ):
            raise UnsupportedError(
                f"field {field.name!r}: members in files of version 2.0 and of a later one"
            )


def merged(own: FieldColumn, other: FieldColumn) -> FieldColumn:
    """Merge the columns of a field that two files of a fragment have.

    The members of structs are combined; see also `FIRST_COUNTS`.

    Raises:
        UnsupportedError: both files have values of a field or member that is not a struct.
    """
    node = _merged(own.field, own.node, other.node)
    spans, pages = np.concatenate([own.spans, other.spans]), (*own.pages, *other.pages)
    return replace(own, node=node, spans=spans, pages=pages)


def _merged(field: Field, own: FieldNode, other: FieldNode) -> FieldNode:
    if isinstance(other, NullNode):
        return own
    if isinstance(own, NullNode):
        return other
    if isinstance(own, FIRST_COUNTS):
        return own
    if not isinstance(own, StructNode) or not isinstance(other, StructNode):
        raise UnsupportedError(f"field {field.name!r}: its parts are in several files")
    parts = zip(field.children, own.children, other.children, strict=True)
    return StructNode([_merged(*part) for part in parts])


def number_columns(
    fields: Sequence[Field], container: Container, states: States
) -> Plan[dict[int, int]]:
    """Plan the column index of each field by field id, according to the schema in the file.

    Raises:
        CorruptFileError: the schema has more or fewer columns than the file.
    """
    opened = yield from open_columns(container, range(container.num_columns), states)
    columns: dict[int, int] = {}
    used = 0

    def visit(field: Field) -> None:
        nonlocal used
        if used >= len(opened):
            raise CorruptFileError(
                f"{container.path}: {len(opened)} columns, none is left for field {field.name!r}"
            )
        column = ArrayColumn(opened[used], container.path, field.logical_type)
        columns[field.id] = used
        used += 1
        kind = column.kind()
        if field.is_leaf:
            used += kind is Offsets
        elif kind in (Header, Offsets) or (kind is None and not field.is_packed):
            for child in field.children:
                visit(child)

    for field in fields:
        visit(field)
    if used != len(opened):
        raise CorruptFileError(f"{container.path}: {len(opened)} columns, its schema has {used}")
    return columns
