"""Distances and products of vectors, over all rows at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance.expr.casts import is_number
from alance.expr.compare import is_nothing
from alance.expr.list_items import num_rows, unfixed, where_known
from alance.expr.lists import orderable, parents_of, taken_apart
from alance.expr.nested import ListLiteral
from alance.expr.tree import Literal, Node, Problem, Value, broadcast, call, plain_type
from alance.format.numbers import as_mask, as_numbers, as_scalar, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.arrays import Float64s, Int64s


def distance(name: str, args: list[Node]) -> Node:
    """array_distance(l, m): the Euclidean distance of two vectors."""

    def measure(vectors: Float64s, others: Float64s, pairs: _Pairs) -> pa.Array:
        sums = pairs.sums(np.square(vectors - others))
        return to_arrow(np.sqrt(np.where(pairs.sizes > 0, sums, -0.0)))

    return _of_vectors(name, args, measure)


def cosine(name: str, args: list[Node]) -> Node:
    """cosine_distance(l, m): one less the cosine; null of zeros, which have no direction."""

    def measure(vectors: Float64s, others: Float64s, pairs: _Pairs) -> pa.Array:
        left, right = (np.sqrt(pairs.sums(np.square(side))) for side in (vectors, others))
        has_angle = (left != 0) & (right != 0)
        norms = np.where(has_angle, left * right, 1)
        return to_arrow(1 - pairs.sums(vectors * others) / norms, has_angle)

    return _of_vectors(name, args, measure)


def product(name: str, args: list[Node]) -> Node:
    """inner_product(l, m): the sum of the products."""
    return _of_vectors(
        name, args, lambda vectors, others, pairs: to_arrow(pairs.sums(vectors * others))
    )


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Which items belong to which pair of vectors.

    Attributes:
        sizes: how many items each pair has.
        parents: the pair of each item.
    """

    sizes: Int64s
    parents: Int64s

    def sums(self, numbers: Float64s) -> Float64s:
        """The sum of each pair's numbers, added one after the other."""
        sums = np.bincount(self.parents, numbers, minlength=len(self.sizes))
        return sums.astype(np.float64, copy=False)  # without items they are integers


def _of_vectors(
    name: str, args: list[Node], measure: Callable[[Float64s, Float64s, _Pairs], pa.Array]
) -> Node:
    """A number for two vectors, one of which may be written down; null where an item is null."""
    if any(is_nothing(arg) for arg in args):
        return Literal(as_scalar(None, pa.float64()))
    nodes = [arg if isinstance(arg, ListLiteral) else unfixed(orderable, name, arg) for arg in args]
    if all(isinstance(node, ListLiteral) for node in nodes):
        raise Problem(f"{name}: two lists that are written down", unsupported=True)
    for node in nodes:
        if not is_number(plain_type(node.type.value_type)):
            raise Problem(f"{name}: lists of {node.type.value_type}")

    def build(*given: Value) -> pa.Array:
        rows = num_rows(*given)
        kind = pa.list_(pa.float64())
        both = [pc.cast(broadcast(value, rows), kind) for value in given]
        told = as_mask(pc.and_(*map(pc.is_valid, both)))
        (values, sizes), (others, more) = (taken_apart(where_known(told, side)) for side in both)
        if (sizes != more).any():
            raise pa.ArrowInvalid("vectors of different lengths")
        pairs = _Pairs(sizes, parents_of(sizes))
        told[pairs.parents[~as_mask(pc.and_(pc.is_valid(values), pc.is_valid(others)))]] = False
        with np.errstate(all="ignore"):
            numbers = measure(_floats(values), _floats(others), pairs)
        return where_known(told, numbers)

    return call(name, build, *nodes)


def _floats(values: pa.Array) -> Float64s:
    return as_numbers(pc.fill_null(values, 0.0))
