"""How kernels make the arrays of whole fields: what lies in what, and the values of the leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import pyarrow as pa

from alance.file.columns import OpenColumn
from alance.file.ranged_columns import NO_FORM, form_of
from alance.format.layouts.fields import owns_column
from alance.format.layouts.paged_rows import MOST_LAYERS
from alance.format.numbers import storage_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from alance.file.leaves import OpenLeaf
    from alance.format.field import Field

LEAF, LIST, LARGE_LIST = 0, -1, -2  # nodes, as the kernel numbers them
_Told: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[bool, ...]]"
_NOT_MADE: Final[_Told] = ((), (), (), ())


class FieldForm(NamedTuple):
    """A field of a fragment whose arrays kernels make.

    Attributes:
        tree: its nodes, depth-first: leaves, lists, and structs by their number of members.
        leaves: their numbers in the fragment.
        widths: how values of each leaf lie, as for `RangedColumns`.
        texts: whether they are UTF-8.
    """

    field: Field
    tree: Sequence[int]
    leaves: Sequence[int]
    widths: Sequence[int]
    texts: Sequence[bool]


def forms_of(fields: Iterable[Field], leaves: Sequence[OpenLeaf]) -> Iterator[FieldForm]:
    """The fields that kernels make arrays of, where a fragment has all of their leaves."""
    numbers = {
        leaf.leaf.field.id: number
        for number, leaf in enumerate(leaves)
        if isinstance(leaf.column, OpenColumn)
    }
    for field in fields:
        tree, ids, widths, texts = field.derive("form", _told)
        if tree and all(map(numbers.__contains__, ids)):
            yield FieldForm(field, tree, [*map(numbers.__getitem__, ids)], widths, texts)


def _told(field: Field) -> _Told:
    """What the schema says: nodes, ids, widths and texts; `_NOT_MADE` of other fields."""
    nodes = [*_nodes(field)]
    tree = tuple([node for node, _ in nodes if node is not None])
    leaves = [leaf for _, leaf in nodes if leaf is not None]
    forms = [form_of(leaf) for leaf in leaves]
    widths = tuple([width for width, _ in forms])
    if len(tree) < len(nodes) or NO_FORM in widths:
        return _NOT_MADE
    return tree, tuple([leaf.id for leaf in leaves]), widths, tuple([text for _, text in forms])


def _nodes(field: Field, depth: int = 1) -> Iterator[tuple[int | None, Field | None]]:
    """Nodes depth-first, with the field of each leaf; None of a node that kernels do not know."""
    arrow = storage_type(field.to_arrow().type)
    if depth > MOST_LAYERS:
        yield None, None
    elif owns_column(field):
        yield LEAF, field
    elif pa.types.is_struct(arrow):
        yield len(field.children), None
    elif pa.types.is_list(arrow):
        yield LIST, None
    else:
        yield (LARGE_LIST if pa.types.is_large_list(arrow) else None), None
    for child in field.children:
        yield from _nodes(child, depth + 1)
