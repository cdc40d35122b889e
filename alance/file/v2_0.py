"""Fields of open 2.0 files: their columns, opened together, and plans over their rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.file.open import open_columns
from alance.format.container import Column
from alance.format.field import Field
from alance.format.proto import file_pb2
from alance.format.v2_0.arrays import ArrayPage, Header, Offsets, array_page
from alance.format.v2_0.fields import LeafNode, ListNode, Node, NullNode, StructNode
from alance.format.v2_0.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from alance.file.columns import OpenColumn, States
    from alance.file.leaves import OpenLeaf
    from alance.format.container import Container
    from alance.format.layouts.paged_rows import RowPage
    from alance.format.plans import Plan
    from alance.format.v2_0.fields import Rows

    Int64s: TypeAlias = npt.NDArray[np.int64]

BYTES: str = "uint8"


@dataclass(frozen=True, slots=True)
class ArrayColumn:
    """A column of an open file, its pages parsed when they are needed."""

    opened: OpenColumn
    logical_type: str  # of the field

    @property
    def first_rows(self) -> Int64s:
        return self.opened.column.first_rows

    def array_page(self, number: int) -> ArrayPage:
        """A page.

        Raises:
            CorruptFileError, UnsupportedError: its description.
        """
        pages: list[Any] = self.opened.layouts
        found: ArrayPage | None = pages[number]
        if found is None:
            page, column = self.opened.column.pages[number], self.opened.column
            path = self.opened.container.path
            try:
                found = pages[number] = array_page(
                    page.encoding,
                    path=path,
                    buffers=page.buffers,
                    num_rows=page.num_rows,
                    logical_type=self.logical_type,
                )
            except AlanceError as error:
                error.add_note(f"in page {number} of column {column.index} of {path}")
                raise
        return found

    def kind(self) -> type | None:
        """What the first page holds; None without pages."""
        return type(self.array_page(0).root) if self.opened.column.pages else None


@dataclass(frozen=True, slots=True)
class FieldRows:
    """Rows of a field of the schema that were read."""

    field: Field
    rows: Rows

    is_array = True  # one array of the field, as of `PagedRows`

    @property
    def num_bytes(self) -> int:
        """Bytes of the input."""
        return self.rows.num_bytes

    def decode(self) -> pa.Array:
        """The field's array.

        Raises:
            CorruptFileError: the bytes contradict the format.
            UnsupportedError: more strings or lists than the type's offsets can say.
        """
        return self.rows.decode(self.field.to_arrow().type)


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """A field of the schema with all its columns: what `OpenColumn` is to a leaf of 2.1."""

    field: Field
    node: Node
    container: Container  # of the first of its columns
    column: Column  # the pages of all its columns; its rows are those of the field

    @property
    def num_rows(self) -> int:
        return self.column.num_rows

    @property
    def encoded_bytes(self) -> int:
        """Bytes of all page buffers."""
        return sum(size for page in self.column.pages for _, size in page.buffers)

    def take(self, rows: Int64s, states: States, *, guess: bool = True) -> Plan[FieldRows]:
        """Plan single rows: one round, one more for strings and for each level of lists.

        Args:
            rows: sorted and unique, shape (n,), all below `num_rows`.
        """
        return FieldRows(self.field, (yield from self.node.plan(Spans.of_rows(rows))))

    def read(self, start: int, stop: int, states: States) -> Plan[FieldRows]:
        """Plan the rows from `start` to `stop`; rounds as of `take`."""
        return FieldRows(self.field, (yield from self.node.plan(Spans.of_range(start, stop))))

    def load(self, start: int, stop: int, states: States) -> Plan[None]:
        """Nothing has to be known before rows can be read."""
        return
        yield

    def load_rows(self, rows: Int64s, states: States) -> Plan[None]:
        """Nothing, as of `load`."""
        return
        yield

    def row_pages(self, rows: Int64s, states: States) -> list[tuple[RowPage, Int64s]] | None:
        """None: rows are not taken by the kernel."""
        return None


def open_fields(
    fields: Sequence[Field], columns: Mapping[int, int], container: Container, states: States
) -> Plan[list[FieldColumn]]:
    """Plan the columns of fields of which the file has any: no round if its tail had them.

    Args:
        fields: of the schema.
        columns: field id -> column index.

    Raises:
        CorruptFileError: columns that contradict each other or the schema.
    """
    wanted = [columns[one.id] for field in fields for one in field.walk() if one.id in columns]
    opened = yield from open_columns(container, wanted, states)
    by_index = {one.column.index: one for one in opened}
    # Strings of the first releases are lists: their bytes are the column behind the offsets.
    behind = [
        columns[one.id] + 1
        for field in fields
        for one in field.walk()
        if one.id in columns
        and one.is_leaf
        and ArrayColumn(by_index[columns[one.id]], one.logical_type).kind() is Offsets
    ]
    if behind:
        more = yield from open_columns(container, behind, states)
        by_index |= {one.column.index: one for one in more}
    found = []
    for field in fields:
        used: list[OpenColumn] = []
        node = _node(field, columns, by_index, used)
        if used:
            found.append(_joined(field, node, container, used))
    return found


def _joined(
    field: Field, node: Node, container: Container, used: Sequence[OpenColumn]
) -> FieldColumn:
    pages = tuple(page for one in used for page in one.column.pages)
    rows = np.array([0, used[0].num_rows], np.int64)
    return FieldColumn(field, node, container, Column(used[0].column.index, pages, rows))


def _node(
    field: Field,
    columns: Mapping[int, int],
    opened: Mapping[int, OpenColumn],
    used: list[OpenColumn],
) -> Node:
    """The tree of a field; `used` gets its columns, the outermost first."""
    index = columns.get(field.id)
    if index is None:
        return NullNode()
    column = ArrayColumn(opened[index], field.logical_type)
    used.append(column.opened)
    kind = column.kind()
    if kind is Header or (kind is None and field.logical_type == "struct"):
        if field.logical_type != "struct":
            raise CorruptFileError(f"field {field.name!r}: {field.logical_type}, stored as struct")
        children = []
        for child in field.children:
            begin = len(used)
            children.append(_node(child, columns, opened, used))
            if len(used) > begin and used[begin].num_rows != column.opened.num_rows:
                raise CorruptFileError(
                    f"field {child.name!r}: {used[begin].num_rows} rows, the struct around it has "
                    f"{column.opened.num_rows}"
                )
        return StructNode(column, children)
    if kind is not Offsets:
        if kind is None and not field.is_leaf and field.children and len(field.children) == 1:
            return ListNode(field, column, _node(field.children[0], columns, opened, used))
        return LeafNode(field, column)
    if field.is_leaf:
        content = Field("bytes", -1, field.id, BYTES, False, {}, (), file_pb2.Field())
        inner = opened[index + 1]
        used.append(inner)
        return ListNode(field, column, LeafNode(content, ArrayColumn(inner, BYTES)))
    if len(field.children) != 1 or not field.logical_type.startswith(("list", "large_list")):
        raise CorruptFileError(f"field {field.name!r}: {field.logical_type}, stored as lists")
    return ListNode(field, column, _node(field.children[0], columns, opened, used))


def merged(leaf: OpenLeaf, twin: OpenLeaf) -> OpenLeaf:
    """A struct whose children are in two files.

    Raises:
        UnsupportedError: a field of another kind.
    """
    one, other = leaf.column, twin.column
    if not isinstance(one, FieldColumn) or not isinstance(other, FieldColumn):
        return twin
    node = _merged(one.field, one.node, other.node)
    pages = one.column.pages + other.column.pages
    column = Column(one.column.index, pages, one.column.first_rows)
    return replace(leaf, column=FieldColumn(one.field, node, one.container, column))


def _merged(field: Field, one: Node, other: Node) -> Node:
    if isinstance(other, NullNode):
        return one
    if isinstance(one, NullNode):
        return other
    if not isinstance(one, StructNode) or not isinstance(other, StructNode):
        raise UnsupportedError(f"field {field.name!r}: its parts are in several files")
    parts = zip(field.children, one.children, other.children, strict=True)
    return StructNode(one.header, [_merged(*part) for part in parts])


def number_columns(
    fields: Sequence[Field], container: Container, states: States
) -> Plan[dict[int, int]]:
    """Plan which field is in which column, by the file's own schema: field id -> column index.

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
        column = ArrayColumn(opened[used], field.logical_type)
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
