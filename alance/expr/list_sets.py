"""Functions that take the items of one or two lists as a set, over all rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance import compute as pc
from alance.expr import nested
from alance.expr.casts import common_type
from alance.expr.compare import is_nothing
from alance.expr.lists import built, codes_of, comparable, unfixed
from alance.expr.nested import ListLiteral
from alance.expr.tree import Literal, Node, Problem, Value, call, plain, plain_type
from alance.format.numbers import as_numbers, as_scalar, lists_of, mask_bytes, to_arrow, validity_of

if TYPE_CHECKING:
    from alance.arrays import Int64s, Mask

UNION: Final = 0  # as the kernel has it
SHARED: Final = 1
DIFFERENCE: Final = 2
_WHOLE: Final = np.zeros(2, np.int64)


class Lists(NamedTuple):
    """Lists as kernels take them.

    Attributes:
        values: the items of all.
        ends: where each list begins, and the end of the last; shape (rows + 1,). Of a list that is
            written down shape (2,): it stands for that of each row.
        valid: the lists that are not null; None: all.
    """

    values: pa.Array
    ends: Int64s
    valid: Mask | None

    @classmethod
    def of(cls, value: Value) -> Lists:
        """Of an array, or of a list that is written down."""
        if isinstance(value, pa.Scalar):
            items = plain(value.values)
            return cls(items, np.array([0, len(items)]), None)
        ends, items = lists_of(value)
        return cls(plain(items), ends, validity_of(value))


def both_there(left: Lists, right: Lists) -> Mask | None:
    """Where two lists are that are not null; None: everywhere."""
    if left.valid is None or right.valid is None:
        return right.valid if left.valid is None else left.valid
    return left.valid & right.valid


def union(name: str, args: list[Node]) -> Node:
    """array_union(l, m): the items of both, each once, where it is first; null where one is."""
    return _of_two(name, args, UNION)


def intersection(name: str, args: list[Node]) -> Node:
    """array_intersect(l, m): the items of the longer list that the other has, each once."""
    return _of_two(name, args, SHARED)


def difference(name: str, args: list[Node]) -> Node:
    """array_except(l, m): the items of the first list that the other has not, each once."""
    return _of_two(name, args, DIFFERENCE)


def distinct(name: str, args: list[Node]) -> Node:
    """array_distinct(list): each value once, where it is first."""
    node = comparable(name, args[0])

    def build(value: pa.Array) -> pa.Array:
        lists = Lists.of(value)
        return _chosen(DIFFERENCE, lists, Lists(lists.values[:0], _WHOLE, None))

    return call(name, build, node)


def has_any(name: str, args: list[Node]) -> Node:
    """Whether a list contains one of the items of another; null of a null list."""
    if any(isinstance(arg, ListLiteral | Literal) for arg in args):
        return nested.has_any(name, args)
    return call(
        name, lambda shared: pc.greater(pc.list_value_length(shared), 0), intersection(name, args)
    )


def has_all(name: str, args: list[Node]) -> Node:
    """Whether a list contains all of the items of another; null of a null list."""
    if any(isinstance(arg, ListLiteral | Literal) for arg in args):
        return nested.has_all(name, args)
    lacking = _of_two(name, args[::-1], DIFFERENCE)
    return call(name, lambda left: pc.equal(pc.list_value_length(left), 0), lacking)


def _of_two(name: str, args: list[Node], kind: int) -> Node:
    """A function of two lists in their common type, one of which may be written down."""
    if any(is_nothing(arg) for arg in args):
        types = [comparable(name, arg).type for arg in args if not is_nothing(arg)]
        return Literal(as_scalar(None, types[0] if types else pa.list_(pa.null())))
    if all(isinstance(arg, ListLiteral) for arg in args):
        raise Problem(f"{name}: two lists that are written down", unsupported=True)
    nodes = [
        arg if isinstance(arg, ListLiteral) else unfixed(comparable, name, arg) for arg in args
    ]
    left, right = (plain_type(node.type.value_type) for node in nodes)
    common = common_type(left, right)
    if common is None:
        raise Problem(f"{name}: lists of {left} and of {right}")

    def build(*values: Value) -> pa.Array:
        lists, others = (
            side._replace(values=pc.cast(side.values, common)) for side in map(Lists.of, values)
        )
        return _chosen(kind, lists, others)

    return call(name, build, *nodes)


def _chosen(kind: int, lists: Lists, others: Lists) -> pa.Array:
    valid = both_there(lists, others)
    keys, other_keys = _keys(lists.values, others.values)
    places, counts = _kernels.item_sets(
        kind, lists.ends, keys, others.ends, other_keys, mask_bytes(valid)
    )
    values = lists.values
    if kind != DIFFERENCE:
        values = pa.concat_arrays([values, others.values])
    return built(values.take(to_arrow(places)), counts, valid)


def _keys(values: pa.Array, others: pa.Array) -> tuple[Int64s, Int64s]:
    """A number for each item, the same for equal ones, nulls among them."""
    type_ = values.type
    is_number = pa.types.is_primitive(type_) and not pa.types.is_boolean(type_)
    if is_number and type_.bit_width <= 64 and not values.null_count + others.null_count:
        whole = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[type_.bit_width]
        left, right = (as_numbers(side.view(whole)).astype(np.int64) for side in (values, others))
        return left, right
    codes = codes_of(pa.concat_arrays([values, others]))
    return codes[: len(values)], codes[len(values) :]
