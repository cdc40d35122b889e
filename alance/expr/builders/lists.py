"""SQL functions that change, sort or join lists, and helpers that all list functions use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.expr.builders.nested import ListLiteral
from alance.expr.builders.text import literal_text
from alance.expr.casts import common_type, is_text
from alance.expr.compare import is_nothing, total_order
from alance.expr.tree import (
    LazyConstant,
    Literal,
    Node,
    Problem,
    broadcast,
    call,
    plain,
    plain_type,
)
from alance.expr.value_budget import reserve
from alance.format.numbers import (
    as_mask,
    as_numbers,
    as_scalar,
    canonical,
    offsets_of,
    strings_array,
    to_arrow,
    validity_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.base.arrays import Int64s, Mask
    from alance.expr.tree import Value

DIRECTIONS: Final = {"ASC": "ascending", "DESC": "descending"}
# Direction in which the mask `item is null` is sorted, which places the nulls.
NULL_ORDERS: Final = {"NULLS FIRST": "descending", "NULLS LAST": "ascending"}
MAX_BATCH_ITEMS: Final = (1 << 31) - 1  # items of all lists of a batch, whose offsets are int32


def append(name: str, args: list[Node]) -> Node:
    """array_append(list, item): a null list counts as empty."""
    return _with_item(name, args[0], args[1], at_end=True)


def prepend(name: str, args: list[Node]) -> Node:
    """array_prepend(item, list): a null list counts as empty."""
    return _with_item(name, args[1], args[0], at_end=False)


def _with_item(name: str, node: Node, item: Node, *, at_end: bool) -> Node:
    node = as_list(name, node)
    inner = plain_type(node.type.value_type)
    common = inner if is_nothing(item) else common_type(inner, item.type)
    if common is None:
        raise Problem(f"{name}: {item.type} among items of {inner}")

    def build(lists: pa.Array, items: Value) -> pa.Array:
        values, sizes = taken_apart(lists)
        added = pc.cast(broadcast(items, len(lists)), common)
        ends = np.cumsum(sizes + 1)
        places = np.zeros(len(values) + len(lists), np.int64)
        is_new = np.zeros(len(places), np.bool_)
        is_new[ends - 1 if at_end else ends - sizes - 1] = True
        places[is_new] = len(values) + np.arange(len(lists))
        places[~is_new] = np.arange(len(values))
        values_and_items = pa.concat_arrays([pc.cast(values, common), added])
        return built(values_and_items.take(to_arrow(places)), sizes + 1, None)

    return call(name, build, node, item)


def concat(name: str, args: list[Node]) -> Node:
    """array_concat(list, ...): null lists are skipped; null if all lists are null."""
    nodes = [as_list(name, arg) for arg in args]
    types = {plain_type(node.type.value_type) for node in nodes}
    if len(types) > 1:
        raise Problem(f"{name}: lists of {', '.join(map(str, types))}", unsupported=True)

    def build(*lists: pa.Array) -> pa.Array:
        parts = [taken_apart(value) for value in lists]
        rows = np.arange(len(lists[0]))
        parents = np.concatenate([np.repeat(rows, sizes) for _, sizes in parts])
        order = np.argsort(parents, kind="stable")
        values = pa.concat_arrays([values for values, _ in parts])
        valid = np.logical_or.reduce([as_mask(pc.is_valid(value)) for value in lists])
        sizes = np.sum([sizes for _, sizes in parts], axis=0)
        return built(values.take(to_arrow(order)), sizes, valid)

    return call(name, build, *nodes)


def reverse(name: str, args: list[Node]) -> Node:
    """array_reverse(list)."""

    def build(lists: pa.Array) -> pa.Array:
        values, sizes = taken_apart(lists)
        stops = np.cumsum(sizes)
        places = np.repeat(2 * stops - sizes - 1, sizes) - np.arange(len(values))
        return built(values.take(to_arrow(places)), sizes, validity_of(lists))

    return call(name, build, as_list(name, args[0]))


def without_end(*, at_end: bool) -> Callable[[str, list[Node]], Node]:
    """Return the builder of array_pop_back or array_pop_front."""

    def pop(lists: pa.Array) -> pa.Array:
        values, sizes = taken_apart(lists)
        stops = np.cumsum(sizes)
        retained = np.ones(len(values), np.bool_)
        retained[(stops - 1 if at_end else stops - sizes)[sizes > 0]] = False
        return built(
            values.filter(to_arrow(retained)), np.maximum(sizes - 1, 0), validity_of(lists)
        )

    return lambda name, args: call(name, pop, as_list(name, args[0]))


def sort(name: str, args: list[Node]) -> Node:
    """array_sort(list[, 'ASC' or 'DESC'[, 'NULLS FIRST' or 'NULLS LAST']])."""
    words = [literal_text(name, arg).upper() for arg in args[1:]]
    direction = DIRECTIONS.get((words or ["ASC"])[0])
    placement = NULL_ORDERS.get((words[1:] or ["NULLS FIRST"])[0])
    if direction is None or placement is None:
        raise Problem(f"{name}: {words}, expected ASC or DESC, NULLS FIRST or NULLS LAST")

    def build(lists: pa.Array) -> pa.Array:
        values, sizes = taken_apart(lists)
        return built(_sorted(values, sizes, direction, placement), sizes, validity_of(lists))

    return call(name, build, orderable(name, args[0]))


def extreme(*, greatest: bool) -> Callable[[str, list[Node]], Node]:
    """Return the builder of array_max or array_min, which are null if all items are null."""

    def pick(lists: pa.Array) -> pa.Array:
        values, sizes = taken_apart(lists)
        values = _sorted(values, sizes, "descending" if greatest else "ascending", "ascending")
        starts = np.cumsum(sizes) - sizes
        return values.take(to_arrow(np.where(sizes > 0, starts, 0), sizes > 0))

    return lambda name, args: call(name, pick, orderable(name, args[0]))


def to_text(name: str, args: list[Node]) -> Node:
    """array_to_string(list, mark[, null]): texts or integers, joined by `mark`.

    Null items are skipped, or replaced by `null` if that argument is present.
    """
    mark = literal_text(name, args[1])
    absent = None if len(args) < 3 or is_nothing(args[2]) else literal_text(name, args[2])
    node = as_list(name, args[0])
    inner = plain_type(node.type.value_type)
    if not (is_text(inner) or pa.types.is_integer(inner)):
        raise Problem(f"{name}: items of {inner}", unsupported=True)

    def join(lists: pa.Array) -> pa.Array:
        values, sizes = taken_apart(lists)
        texts = pc.cast(values, pa.string())
        reserve(texts.nbytes + len((mark + (absent or "")).encode()) * len(texts))
        if absent is not None:
            texts = pc.fill_null(texts, absent)
        parents = parents_of(sizes)[as_mask(pc.is_valid(texts))]
        counts = np.bincount(parents, minlength=len(lists))
        return pc.binary_join(built(texts.drop_null(), counts, validity_of(lists)), mark)

    return call(name, join, node)


def as_list(name: str, node: Node) -> Node:
    """Return a node of lists as is.

    Raises:
        Problem: the node is not of lists, or is a constant.
    """
    if pa.types.is_list(node.type) and isinstance(node, ListLiteral | Literal | LazyConstant):
        raise Problem(f"{name}: a list literal", unsupported=True)
    if isinstance(node, ListLiteral) or not pa.types.is_list(node.type):
        raise Problem(f"{name}: expected a column of lists, found {node.type}")
    return node


def comparable(name: str, node: Node) -> Node:
    """Return a node of lists whose items can be tested for equality; they may be nested.

    Raises:
        Problem: the node is not of such lists.
    """
    node = as_list(name, node)
    inner = plain_type(node.type.value_type)
    if not is_comparable(inner):
        raise Problem(f"{name}: lists of {inner}", unsupported=True)
    return node


def is_comparable(type_: pa.DataType) -> bool:
    """True if `codes_of` takes values of the type."""
    if pa.types.is_struct(type_):
        return all(is_comparable(plain_type(field.type)) for field in type_)
    if pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_):
        return is_comparable(plain_type(type_.value_type))
    return not (pa.types.is_nested(type_) or pa.types.is_null(type_) or pa.types.is_float16(type_))


def orderable(name: str, node: Node) -> Node:
    """Return a node of lists whose items have an order.

    Raises:
        Problem: the node is not of such lists.
    """
    node = as_list(name, node)
    inner = plain_type(node.type.value_type)
    if pa.types.is_nested(inner) or pa.types.is_null(inner) or pa.types.is_float16(inner):
        raise Problem(f"{name}: lists of {inner}", unsupported=True)
    return node


def taken_apart(lists: pa.Array) -> tuple[pa.Array, Int64s]:
    """Return the items of all lists, and the number of items of each list; 0 for a null list."""
    sizes = pc.fill_null(pc.list_value_length(lists), as_scalar(0, pa.int32()))
    return plain(lists.flatten()), as_numbers(sizes).astype(np.int64)


def built(values: pa.Array, sizes: Int64s, valid: Mask | None) -> pa.Array:
    """Build lists from their items.

    Args:
        values: items of all lists.
        sizes: number of items of each list.
        valid: mask of the lists that are not null; None if no list is null.

    Raises:
        pyarrow.ArrowInvalid: the lists have more than `MAX_BATCH_ITEMS` items.
    """
    ends = offsets_of(sizes)
    if ends[-1] > MAX_BATCH_ITEMS:
        raise pa.ArrowInvalid(f"lists of {ends[-1]} items in one batch")
    mask = None if valid is None else to_arrow(~valid)
    return pa.ListArray.from_arrays(to_arrow(ends.astype(np.int32)), values, mask=mask)


def key_of(values: pa.Array) -> pa.Array:
    """Map floats to integers in the total order of alance; return other values as they are."""
    return total_order(canonical(values)) if pa.types.is_floating(values.type) else values


def codes_of(values: pa.Array) -> Int64s:
    """Return numbers that are equal for equal values; nulls are equal.

    Args:
        values: values of a type that `is_comparable` accepts.
    """
    if pa.types.is_nested(values.type):
        values = _as_bytes(values)
    codes = pc.dictionary_encode(key_of(values), null_encoding="encode")
    return as_numbers(codes.indices).astype(np.int64)


def _as_bytes(values: pa.Array) -> pa.Array:
    """Encode lists or structs as bytes that are equal for equal values."""
    if pa.types.is_struct(values.type):
        members = [plain(values.field(place)) for place in range(values.type.num_fields)]
        columns = [codes_of(member) for member in members]
        sizes = np.full(len(values), len(columns), np.int64)
        codes = np.stack(columns, axis=1).ravel() if columns else np.empty(0, np.int64)
    else:
        lists = values.cast(pa.list_(values.type.value_type))
        items, sizes = taken_apart(lists)
        codes = codes_of(items)
    content = codes.view(np.uint8)
    return strings_array(pa.large_binary(), 8 * offsets_of(sizes), content, validity_of(values))


def parents_of(sizes: Int64s) -> Int64s:
    """Return the index of the list that contains each item."""
    return np.repeat(np.arange(len(sizes)), sizes)


def _sorted(values: pa.Array, sizes: Int64s, direction: str, nulls: str) -> pa.Array:
    """Return the items sorted within each list."""
    parents = to_arrow(parents_of(sizes))
    arrays = [parents, pc.is_null(values), key_of(values)]
    table = pa.RecordBatch.from_arrays(arrays, ["list", "absent", "item"])
    keys = [("list", "ascending"), ("absent", nulls), ("item", direction)]
    return values.take(pc.sort_indices(table, sort_keys=keys))


def unfixed(check: Callable[[str, Node], Node], name: str, node: Node) -> Node:
    """Convert fixed-size lists to lists, and check the node.

    Args:
        check: `as_list`, `comparable` or `orderable`.

    Raises:
        Problem: from `check`.
    """
    if pa.types.is_fixed_size_list(node.type) and not isinstance(node, Literal):
        type_ = pa.list_(node.type.value_type)
        node = call(name, lambda vectors: pc.cast(vectors, type_), node)
    return check(name, node)


def num_rows(*values: Value) -> int:
    """Return the length of the first array among the values; 1 if all are scalars."""
    return next((len(value) for value in values if isinstance(value, pa.Array)), 1)
