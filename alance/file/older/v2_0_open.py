"""Opening of fields of 2.0 files: finds their columns, and builds their trees."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import CorruptFileError, UnsupportedError
from alance.file.older.v2_0 import BYTE_ITEM_TYPE, ArrayColumn, FieldColumn
from alance.file.open.files import open_columns
from alance.format.field import Field
from alance.format.layouts.fields import leaf_columns
from alance.format.proto import file_pb2
from alance.format.v0_1 import fields as v0_1
from alance.format.v0_1.leaves import PlainNode, TextNode
from alance.format.v2_0.arrays import Header, Offsets
from alance.format.v2_0.fields import FieldNode, LeafNode, ListNode, NullNode, StructNode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.file.open.columns import OpenColumn, States
    from alance.format.container import Container
    from alance.format.plans import Plan

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
    indices = [
        columns[member.id] for field in fields for member in field.walk() if member.id in columns
    ]
    opened = yield from open_columns(container, indices, states)
    by_index = {column.index: column for column in opened}
    # Strings of the first releases are lists whose bytes are the column after the offsets.
    behind = [
        columns[member.id] + 1
        for field in fields
        for member in field.walk()
        if member.id in columns
        and member.is_leaf
        and ArrayColumn(by_index[columns[member.id]], member.logical_type).kind() is Offsets
    ]
    if behind:
        more = yield from open_columns(container, behind, states)
        by_index |= {column.index: column for column in more}
    joined = []
    for field in fields:
        used: list[OpenColumn] = []
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
    opened: Mapping[int, OpenColumn],
    used: list[OpenColumn],
) -> FieldNode:
    """Build the tree of a field, and append its columns to `used`, outermost first."""
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
    if field.is_blob_v1:
        raise UnsupportedError(f"field {field.name!r}: blobs stored as lists of bytes")
    if field.is_leaf:
        content = Field("bytes", -1, field.id, BYTE_ITEM_TYPE, False, {}, (), file_pb2.Field())
        inner = opened[index + 1]
        used.append(inner)
        return ListNode(field, column, LeafNode(content, ArrayColumn(inner, BYTE_ITEM_TYPE)))
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
    return StructNode(own.header, [_merged(*part) for part in parts])


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
