"""SQL functions on lists as sets: union, intersection, difference, containment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base import compute as pc
from alance.expr.builders import nested
from alance.expr.builders.lists import built, codes_of, comparable, unfixed
from alance.expr.builders.nested import ListLiteral
from alance.expr.casts import common_type
from alance.expr.compare import is_nothing
from alance.expr.tree import Literal, Node, Problem, Value, call, plain, plain_type
from alance.format.numbers import as_numbers, as_scalar, lists_of, mask_bytes, to_arrow, validity_of

if TYPE_CHECKING:
    from alance.base.arrays import Int64s, Mask

UNION: Final = 0  # codes of the operations in the kernel
INTERSECTION: Final = 1
DIFFERENCE: Final = 2
_NO_LIST_OFFSETS: Final = np.zeros(2, np.int64)


class ItemLists(NamedTuple):
    """Lists in the layout that kernels take.

    Attributes:
        values: items of all lists.
        ends: offsets in `values`: the start of each list, then the end of the last; shape
            (rows + 1,). A list literal, which stands for all rows, has shape (2,).
        valid: mask of the lists that are not null; None if no list is null.
    """

    values: pa.Array
    ends: Int64s
    valid: Mask | None

    @classmethod
    def of(cls, value: Value) -> ItemLists:
        """Convert an array of lists, or the scalar of a list literal."""
        if isinstance(value, pa.Scalar):
            items = plain(value.values)
            return cls(items, np.array([0, len(items)]), None)
        ends, items = lists_of(value)
        return cls(plain(items), ends, validity_of(value))


def valid_pairs(left: ItemLists, right: ItemLists) -> Mask | None:
    """Return the mask of the rows in which both lists are not null; None if no list is null."""
    if left.valid is None or right.valid is None:
        return right.valid if left.valid is None else left.valid
    return left.valid & right.valid


def union(name: str, args: list[Node]) -> Node:
    """array_union(l, m): the distinct items of both lists in order; null if a list is null."""
    return _of_two(name, args, UNION)


def intersection(name: str, args: list[Node]) -> Node:
    """array_intersect(l, m): the distinct items of the longer list that the other list contains."""
    return _of_two(name, args, INTERSECTION)


def difference(name: str, args: list[Node]) -> Node:
    """array_except(l, m): the distinct items of the first list that the other does not contain."""
    return _of_two(name, args, DIFFERENCE)


def distinct(name: str, args: list[Node]) -> Node:
    """array_distinct(list): the distinct items, in order of first occurrence."""
    node = comparable(name, args[0])

    def build(value: pa.Array) -> pa.Array:
        lists = ItemLists.of(value)
        return _chosen(DIFFERENCE, lists, ItemLists(lists.values[:0], _NO_LIST_OFFSETS, None))

    return call(name, build, node)


def has_any(name: str, args: list[Node]) -> Node:
    """array_has_any(l, m): true if the lists have a common item; null if a list is null."""
    if any(isinstance(arg, ListLiteral | Literal) for arg in args):
        return nested.has_any(name, args)
    return call(
        name, lambda shared: pc.greater(pc.list_value_length(shared), 0), intersection(name, args)
    )


def has_all(name: str, args: list[Node]) -> Node:
    """array_has_all(l, m): true if l contains all items of m; null if a list is null."""
    if any(isinstance(arg, ListLiteral | Literal) for arg in args):
        return nested.has_all(name, args)
    lacking = _of_two(name, args[::-1], DIFFERENCE)
    return call(name, lambda missing: pc.equal(pc.list_value_length(missing), 0), lacking)


def _of_two(name: str, args: list[Node], kind: int) -> Node:
    """Build a set operation of two lists in their common type; one may be a list literal."""
    if any(is_nothing(arg) for arg in args):
        types = [comparable(name, arg).type for arg in args if not is_nothing(arg)]
        return Literal(as_scalar(None, types[0] if types else pa.list_(pa.null())))
    if all(isinstance(arg, ListLiteral) for arg in args):
        raise Problem(f"{name}: two list literals", unsupported=True)
    nodes = [
        arg if isinstance(arg, ListLiteral) else unfixed(comparable, name, arg) for arg in args
    ]
    left, right = (plain_type(node.type.value_type) for node in nodes)
    common = common_type(left, right)
    if common is None:
        raise Problem(f"{name}: lists of {left} and of {right}")

    def build(*values: Value) -> pa.Array:
        lists, others = (
            side._replace(values=pc.cast(side.values, common)) for side in map(ItemLists.of, values)
        )
        return _chosen(kind, lists, others)

    return call(name, build, *nodes)


def _chosen(kind: int, lists: ItemLists, others: ItemLists) -> pa.Array:
    valid = valid_pairs(lists, others)
    keys, other_keys = _keys(lists.values, others.values)
    places, counts = _kernels.item_sets(
        kind, lists.ends, keys, others.ends, other_keys, mask_bytes(valid)
    )
    values = lists.values
    if kind != DIFFERENCE:
        values = pa.concat_arrays([values, others.values])
    return built(values.take(to_arrow(places)), counts, valid)


def _keys(values: pa.Array, others: pa.Array) -> tuple[Int64s, Int64s]:
    """Return a code for each item; equal items, and all nulls, have equal codes."""
    type_ = values.type
    is_number = pa.types.is_primitive(type_) and not pa.types.is_boolean(type_)
    if is_number and type_.bit_width <= 64 and not values.null_count + others.null_count:
        whole = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[type_.bit_width]
        left, right = (as_numbers(side.view(whole)).astype(np.int64) for side in (values, others))
        return left, right
    codes = codes_of(pa.concat_arrays([values, others]))
    return codes[: len(values)], codes[len(values) :]
