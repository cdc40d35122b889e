"""List literals, the length, contents and items of lists, and fields of structs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.expr.arithmetic import whole_argument
from alance.expr.builders.text import literal_text
from alance.expr.casts import unify
from alance.expr.compare import NULL_BOOLEAN, compare, distinct, is_nothing
from alance.expr.logic import FALSE_LITERAL, TRUE_LITERAL, is_null, junction
from alance.expr.tree import (
    AnyItem,
    Column,
    Literal,
    Node,
    Problem,
    broadcast,
    call,
    item_of,
    meaning,
    plain,
    plain_type,
    unknown,
)
from alance.format.numbers import as_scalar, to_arrow

if TYPE_CHECKING:
    from alance.base.arrays import Int64s
    from alance.expr.tree import Value


@dataclass(frozen=True, slots=True, eq=False)
class ListLiteral:
    """A list literal, such as `[1, 2]`.

    Attributes:
        args: items of the list: literals or list literals.
    """

    args: tuple[Node, ...]

    @property
    def type(self) -> pa.DataType:
        return pa.list_(unify(*self.args)[0].type if self.args else pa.null())

    def evaluate(self, batch: pa.RecordBatch) -> Value:
        items = unify(*self.args) if self.args else ()
        parts = [pa.repeat(item.evaluate(batch), 1) for item in items]
        values = pa.concat_arrays(parts) if parts else pa.nulls(0)
        offsets = to_arrow(np.array([0, len(values)], np.int32))
        return pa.ListArray.from_arrays(offsets, values)[0]


def list_of(name: str, args: list[Node]) -> Node:
    """make_array(x, 2), and `[x, 2]`; a list literal if all items are literals."""
    if all(isinstance(arg, Literal | ListLiteral) for arg in args):
        return ListLiteral(tuple(args))
    if any(isinstance(arg, ListLiteral) for arg in args):
        raise Problem(f"{name}: list literals beside other values", unsupported=True)

    def build(*values: Value) -> pa.Array:
        num_rows = next(len(value) for value in values if isinstance(value, pa.Array))
        columns = [
            plain(value) if isinstance(value, pa.Array) else pa.repeat(value, num_rows)
            for value in values
        ]
        places = np.arange(len(columns) * num_rows).reshape(len(columns), num_rows)
        ends = np.arange(num_rows + 1, dtype=np.int32) * np.int32(len(columns))
        items = pa.concat_arrays(columns).take(to_arrow(places.T.ravel()))
        return pa.ListArray.from_arrays(to_arrow(ends), items)

    return call(name, build, *unify(*args))


def length(name: str, args: list[Node]) -> Node:
    """array_length(list): the number of items as uint64; null for a null list."""
    node = _list(name, args[0])
    return call(name, lambda lists: pc.cast(pc.list_value_length(lists), pa.uint64()), node)


def is_empty(name: str, args: list[Node]) -> Node:
    """empty(list): true if the list has no items; null for a null list."""
    return compare("=", length(name, args), Literal(as_scalar(0)))


def has(name: str, args: list[Node]) -> Node:
    """array_has(list, item): true if the list contains the item; null if either is null."""
    if any(is_nothing(arg) for arg in args):
        return NULL_BOOLEAN
    needed = [arg for arg in args if not isinstance(arg, Literal)]
    answer = call(
        name,
        lambda places, *values: _null_where_needed(pc.is_valid(places), *values),
        _first(name, args),
        *needed,
    )
    if not isinstance(args[1], Literal):
        return answer
    return meaning(answer, AnyItem(args[0], compare("=", item_of(args[0]), args[1])))


def has_any(name: str, args: list[Node]) -> Node:
    """True if a list contains an item of a list literal; null for a null list."""
    node, items = _against_written(name, args)
    parts = [_has_or_null_item(name, node, item) for item in items]
    return junction(False, parts) if parts else FALSE_LITERAL


def has_all(name: str, args: list[Node]) -> Node:
    """True if a list contains all items of a list literal; null for a null list."""
    node, items = _against_written(name, args)
    parts = [_has_or_null_item(name, node, item) for item in items]
    return junction(True, parts) if parts else TRUE_LITERAL


def position(name: str, args: list[Node]) -> Node:
    """array_position(list, item): position of the first equal item as uint64, counted from 1.

    Null if the list has no such item. A null item equals a null.
    """
    return _first(name, args)


def item(name: str, args: list[Node]) -> Node:
    """`list[n]`: the n-th item, counted from 1, or from the end if n is negative.

    Null if the list has no such item.
    """
    node = _list(name, args[0])
    number = whole_argument(name, args[1], -(1 << 31), 1 << 31)

    def pick(lists: pa.Array) -> pa.Array:
        lengths = pc.list_value_length(lists)
        sizes = _numbers(pc.fill_null(lengths, as_scalar(0, lengths.type)))
        starts = np.cumsum(sizes) - sizes
        offset = number - 1 if number > 0 else sizes + number
        inside = (offset >= 0) & (offset < sizes) & (number != 0)
        return plain(lists.flatten()).take(to_arrow(np.where(inside, starts + offset, 0), inside))

    return call(name, pick, node)


def _first(name: str, args: list[Node]) -> Node:
    node, item = _list(name, args[0]), args[1]
    items = _Slot(0, plain_type(node.type.value_type))
    other = item if isinstance(item, Literal) else _Slot(1, item.type)
    differs = distinct(items, other)  # a null equals a null here

    def find(lists: Value, *values: pa.Array) -> pa.Array:
        if values:
            lists = broadcast(lists, len(values[0]))  # the list may be a constant
        parents = pc.list_parent_indices(lists)
        slots = [plain(lists.flatten()), *[value.take(parents) for value in values]]
        batch = pa.RecordBatch.from_arrays(slots, ["item", "wanted"][: len(slots)])
        equal = pc.invert(broadcast(differs.evaluate(batch), batch.num_rows))
        return first_true(equal, _numbers(parents), len(lists))

    return call(name, find, node) if other is item else call(name, find, node, item)


def first_true(equal: pa.Array, parents: Int64s, num_lists: int) -> pa.Array:
    """Return the position of each list's first true item, counted from 1; null if none is true.

    Args:
        equal: booleans, one for each item of all lists.
        parents: number of the list of each item, ascending.
        num_lists: number of lists, including empty and null ones.
    """
    hits = _numbers(pc.indices_nonzero(equal))
    rows = parents[hits]
    begins = np.searchsorted(parents, rows, "left")
    places = np.zeros(num_lists, np.uint64)
    places[rows[::-1]] = (hits - begins + 1)[::-1]
    return to_arrow(places, places > 0)


def _has_or_null_item(name: str, node: Node, item_: Node) -> Node:
    if not is_nothing(item_):
        return has(name, [node, item_])

    def find(lists: pa.Array) -> pa.Array:
        has_null = np.zeros(len(lists), np.bool_)
        has_null[_numbers(pc.list_parent_indices(lists).filter(pc.is_null(lists.flatten())))] = True
        return _null_where_needed(to_arrow(has_null), lists)

    return meaning(call(name, find, node), AnyItem(node, is_null(item_of(node))))


def _null_where_needed(answers: pa.Array, *needed: Value) -> pa.Array:
    """Return `answers`, null where any of the `needed` values is null."""
    for values in needed:
        if isinstance(values, pa.Array) and values.null_count:
            answers = pc.if_else(pc.is_valid(values), answers, as_scalar(None, pa.bool_()))
    return answers


def _against_written(name: str, args: list[Node]) -> tuple[Node, tuple[Node, ...]]:
    node = _list(name, args[0])
    if not isinstance(args[1], ListLiteral):
        raise Problem(f"{name}: a second list that is not a list literal", unsupported=True)
    return node, args[1].args


def _list(name: str, node: Node) -> Node:
    kind = node.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if isinstance(node, ListLiteral):
        raise Problem(f"{name}: a list literal as first argument", unsupported=True)
    if not (is_list or pa.types.is_fixed_size_list(kind)):
        raise Problem(f"{name}: expected a column of lists, found {kind}")
    return node


def _numbers(array: pa.Array) -> Int64s:
    return np.asarray(np.from_dlpack(array), np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Slot:
    """A column of a batch, by position."""

    number: int
    type: pa.DataType

    @property
    def args(self) -> tuple[Node, ...]:
        return ()

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return batch.column(self.number)


def member(node: Node, name: str) -> Node:
    """Return a field of a struct by its exact name.

    A field of a column is a `Column` as well, so that the struct's other fields are not read.

    Raises:
        Problem: the node is not a struct, or has no such field.
    """
    what = ".".join(node.path) if isinstance(node, Column) else "the value"
    if not pa.types.is_struct(node.type):
        raise Problem(f"{what!r} is {node.type}, it has no field {name!r}", column=f"{what}.{name}")
    index = node.type.get_field_index(name)
    if index < 0:
        names = [node.type.field(number).name for number in range(node.type.num_fields)]
        raise unknown("field", f"{what}.{name}", names)
    if isinstance(node, Column):
        return Column((*node.path, name), plain_type(node.type.field(index).type))
    return call(f".{name}", lambda values: plain(pc.struct_field(values, [index])), node)


def get_field(name: str, args: list[Node]) -> Node:
    """get_field(struct, 'name')."""
    return member(args[0], literal_text(name, args[1]))
