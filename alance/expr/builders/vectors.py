"""SQL functions on vectors: distances, products and normalization, vectorized over all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base import compute as pc
from alance.expr.builders.list_sets import ItemLists, valid_pairs
from alance.expr.builders.lists import as_list, built, num_rows, parents_of, unfixed
from alance.expr.builders.nested import ListLiteral
from alance.expr.casts import is_number
from alance.expr.compare import is_nothing
from alance.expr.tree import Literal, Node, Problem, Value, call, plain_type
from alance.format.numbers import (
    as_numbers,
    as_scalar,
    mask_bytes,
    offsets_of,
    to_arrow,
    validity_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from alance.base.arrays import Float64s, Mask


def distance(name: str, args: list[Node]) -> Node:
    """array_distance(l, m): the Euclidean distance of two vectors."""

    def measure(sums: Float64s) -> tuple[Float64s, Mask | None]:
        return np.sqrt(sums), None

    return _of_two(name, args, measure, apart=True)


def cosine(name: str, args: list[Node]) -> Node:
    """cosine_distance(l, m): 1 minus the cosine of the angle; null if a vector is all zeros."""

    def measure(sums: Float64s) -> tuple[Float64s, Mask | None]:
        products, left, right = sums.reshape(3, -1)
        left, right = np.sqrt(left), np.sqrt(right)
        has_angle = (left != 0) & (right != 0)
        return 1 - products / np.where(has_angle, left * right, 1), has_angle

    return _of_two(name, args, measure)


def product(name: str, args: list[Node]) -> Node:
    """inner_product(l, m): the sum of the products of the items."""
    return _of_two(name, args, lambda sums: (sums.reshape(3, -1)[0], None))


def normalize(name: str, args: list[Node]) -> Node:
    """array_normalize(l): the vector divided by its Euclidean length.

    Null if an item is null, or if all items are zero. An empty list stays empty.
    """
    node = unfixed(as_list, name, args[0])
    if not is_number(plain_type(node.type.value_type)):
        raise Problem(f"{name}: lists of {node.type.value_type}")

    def divide(value: pa.Array) -> pa.Array:
        lists, numbers = _numbers(value)
        sides = lists.ends, numbers
        valid = _without_nulls(lists, len(value))
        squares = _kernels.vector_sums(*sides, *sides, mask_bytes(valid), False)[: len(value)]
        sizes = np.diff(lists.ends)
        valid = valid & ((squares != 0) | (sizes == 0))
        lengths = np.sqrt(np.where(valid, squares, 1))
        with np.errstate(all="ignore"):
            values = numbers.astype(np.float64) / lengths[parents_of(sizes)]
        return built(to_arrow(values), sizes, valid)

    return call(name, divide, node)


def _of_two(
    name: str,
    args: list[Node],
    measure: Callable[[Float64s], tuple[Float64s, Mask | None]],
    *,
    apart: bool = False,
) -> Node:
    """Build a function of two vectors, one of which may be a list literal.

    The function is null if a list or an item is null.

    Args:
        measure: computes the results from the kernel's sums. Also returns the mask of the results
            that are defined; None if all are defined.
        apart: True if the kernel sums squared differences; False if it returns three sums: of
            products, of the first vector's squares and of the second's.
    """
    if any(is_nothing(arg) for arg in args):
        return Literal(as_scalar(None, pa.float64()))
    nodes = [arg if isinstance(arg, ListLiteral) else unfixed(as_list, name, arg) for arg in args]
    for node in nodes:
        if not is_number(plain_type(node.type.value_type)):
            raise Problem(f"{name}: lists of {node.type.value_type}")
    if all(isinstance(node, ListLiteral) for node in nodes):
        raise Problem(f"{name}: two list literals", unsupported=True)

    def build(*args: Value) -> pa.Array:
        (lists, numbers), (others, more) = map(_numbers, args)
        valid, rows = valid_pairs(lists, others), num_rows(*args)
        sizes, widths = np.diff(lists.ends), np.diff(others.ends)
        if ((sizes != widths) if valid is None else (sizes != widths) & valid).any():
            raise pa.ArrowInvalid("vectors of different lengths")
        valid = _without_nulls(lists, rows) & _without_nulls(others, rows)
        sums = _kernels.vector_sums(
            lists.ends, numbers, others.ends, more, mask_bytes(valid), apart
        )
        with np.errstate(all="ignore"):
            values, is_defined = measure(sums)
        return to_arrow(values, valid if is_defined is None else valid & is_defined)

    return call(name, build, *nodes)


def _numbers(value: Value) -> tuple[ItemLists, npt.NDArray[np.float32] | Float64s]:
    """Return lists, and their items as float32 or float64; null items become 0."""
    lists = ItemLists.of(value)
    values = lists.values
    if not pa.types.is_float32(values.type):
        values = pc.cast(values, pa.float64())
    return lists, as_numbers(pc.fill_null(values, as_scalar(0.0, values.type)))


def _without_nulls(lists: ItemLists, rows: int) -> Mask:
    """Return the mask of the lists that are not null and have no null item; shape (rows,)."""
    of_items = validity_of(lists.values)
    valid = np.ones(rows, np.bool_) if lists.valid is None else lists.valid
    if of_items is None:
        return valid
    absent = offsets_of(~of_items)[lists.ends]
    complete: Mask = valid & (np.diff(absent) == 0)
    return complete
