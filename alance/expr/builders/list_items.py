"""SQL functions that select, remove, replace or repeat items of lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.expr.arithmetic import whole
from alance.expr.builders.lists import (
    as_list,
    built,
    codes_of,
    comparable,
    key_of,
    num_rows,
    parents_of,
    taken_apart,
    unfixed,
)
from alance.expr.casts import common_type
from alance.expr.compare import is_nothing
from alance.expr.tree import (
    Literal,
    Node,
    Problem,
    Value,
    broadcast,
    call,
    is_fixed,
    plain,
    plain_type,
)
from alance.expr.value_budget import reserve
from alance.format.numbers import (
    as_mask,
    as_numbers,
    as_scalar,
    offsets_of,
    positions_of,
    to_arrow,
    validity_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.base.arrays import Int64s, Mask

WORK_BYTES: Final = 32  # bytes per computed item: its value and three temporary numbers
MAX_LIST_ITEMS: Final = 1 << 26  # items of one computed list; sums of larger counts might overflow


def removing(most: Literal | None) -> Callable[[str, list[Node]], Node]:
    """Return the builder of array_remove, array_remove_all or array_remove_n(list, item, n).

    The result is null if the item is null. If n is null, nothing is removed.

    Args:
        most: number of equal items to remove; None if the last argument is that number.
    """

    def remove(name: str, args: list[Node]) -> Node:
        node, item = unfixed(comparable, name, args[0]), args[1]
        common = _common(name, node, item)

        def build(lists: pa.Array, items: Value, limit: Value) -> pa.Array:
            values, sizes = taken_apart(lists)
            values, items = pc.cast(values, common), pc.cast(broadcast(items, len(lists)), common)
            retained = ~_first_of(_hits(values, sizes, items), sizes, _limits(limit, len(lists)))
            valid = as_mask(pc.and_(pc.is_valid(lists), pc.is_valid(items)))
            counts = np.diff(offsets_of(retained)[offsets_of(sizes)])
            return null_unless(valid, built(values.filter(to_arrow(retained)), counts, None))

        return call(name, build, node, item, most or whole(name, args[2]))

    return remove


def replacing(most: Literal | None) -> Callable[[str, list[Node]], Node]:
    """Return the builder of array_replace, array_replace_all or array_replace_n(list, old, new, n).

    Nulls are equal, so `old` may be null. If n is null, nothing is replaced.

    Args:
        most: number of equal items to replace; None if the last argument is that number.
    """

    def replace(name: str, args: list[Node]) -> Node:
        node = unfixed(comparable, name, args[0])
        common = _common(name, node, *args[1:3])

        def build(lists: pa.Array, old: Value, new: Value, limit: Value) -> pa.Array:
            values, sizes = taken_apart(lists)
            rows = len(lists)
            values = pc.cast(values, common)
            old, new = (pc.cast(broadcast(item, rows), common) for item in (old, new))
            changed = _first_of(_hits(values, sizes, old), sizes, _limits(limit, rows))
            others = new.take(to_arrow(parents_of(sizes)))
            return built(pc.if_else(to_arrow(changed), others, values), sizes, validity_of(lists))

        return call(name, build, node, args[1], args[2], most or whole(name, args[3]))

    return replace


def positions(name: str, args: list[Node]) -> Node:
    """array_positions(list, item): positions of equal items, counted from 1; nulls are equal."""
    node = unfixed(comparable, name, args[0])
    common = _common(name, node, args[1])

    def find(lists: pa.Array, items: Value) -> pa.Array:
        values, sizes = taken_apart(lists)
        items = pc.cast(broadcast(items, len(lists)), common)
        hits = _hits(pc.cast(values, common), sizes, items)
        counts = np.diff(offsets_of(hits)[offsets_of(sizes)])
        places = positions_of(np.ones(len(sizes), np.int64), sizes)[hits].astype(np.uint64)
        return built(to_arrow(places), counts, validity_of(lists))

    return call(name, find, node, args[1])


def part(name: str, args: list[Node]) -> Node:
    """array_slice(list, first, last[, step]): the items from `first` to `last`, both included.

    Positions count from 1, or from the end if they are negative.
    """
    node = unfixed(as_list, name, args[0])
    step = whole(name, args[3]) if len(args) > 3 else Literal(as_scalar(1))

    def cut(lists: pa.Array, *numbers: Value) -> pa.Array:
        values, sizes = taken_apart(lists)
        arrays = [broadcast(number, len(lists)) for number in numbers]
        first, last, steps = (as_numbers(pc.fill_null(number, 1)) for number in arrays)
        first, last = np.clip(first, -sizes - 1, sizes + 1), np.clip(last, -sizes - 1, sizes + 1)
        start = np.where(first < 0, np.maximum(sizes + first, 0), np.maximum(first - 1, 0))
        stop = np.where(last < 0, sizes + last, np.minimum(last, sizes) - 1)
        valid = np.logical_and.reduce([as_mask(pc.is_valid(number)) for number in (lists, *arrays)])
        inside = valid & (start < sizes) & (stop >= 0)
        if (steps[inside] == 0).any():
            raise pa.ArrowInvalid("a step of 0")
        inside &= np.sign(stop - start) * np.sign(steps) >= 0
        steps = np.clip(np.where(inside, steps, 1), -sizes - 1, sizes + 1)
        counts = np.where(inside, (stop - start) // steps + 1, 0)
        within = positions_of(np.zeros(len(counts), np.int64), counts)
        begins = np.repeat(offsets_of(sizes)[:-1] + start, counts)
        places = begins + within * np.repeat(steps, counts)
        return null_unless(valid, built(values.take(to_arrow(places)), counts, None))

    return call(name, cut, node, whole(name, args[1]), whole(name, args[2]), step)


def repetition(name: str, args: list[Node]) -> Node:
    """array_repeat(x, n): a list of n times x; empty if n is less than 1, null if n is null."""

    def repeat(items: Value, numbers: Value) -> pa.Array:
        rows = num_rows(items, numbers)
        items, numbers = broadcast(items, rows), broadcast(numbers, rows)
        counts = np.maximum(as_numbers(pc.fill_null(numbers, 0)), 0)
        _reserve_items(counts, items)
        return built(items.take(to_arrow(parents_of(counts))), counts, validity_of(numbers))

    return call(name, repeat, args[0], whole(name, args[1]))


def resized(name: str, args: list[Node]) -> Node:
    """array_resize(list, n[, x]): the first n items; short lists are padded with x or with nulls.

    The result is empty if n is null.
    """
    node = unfixed(as_list, name, args[0])
    added: Node = args[2] if len(args) > 2 else Literal(as_scalar(None, pa.null()))
    common = _common(name, node, added)

    def resize(lists: pa.Array, numbers: Value, fill: Value) -> pa.Array:
        values, sizes = taken_apart(lists)
        rows = len(lists)
        counts = as_numbers(pc.fill_null(broadcast(numbers, rows), 0))
        is_list = as_mask(pc.is_valid(lists))
        if (counts[is_list] < 0).any():
            raise pa.ArrowInvalid("a negative number of items")
        counts = np.where(is_list, counts, 0)
        _reserve_items(counts, broadcast(fill, rows))
        within = positions_of(np.zeros(rows, np.int64), counts)
        parents = parents_of(counts)
        is_old = within < sizes[parents]
        places = np.where(is_old, offsets_of(sizes)[parents] + within, len(values) + parents)
        fills = pc.cast(broadcast(fill, rows), common)
        values_and_fills = pa.concat_arrays([pc.cast(values, common), fills])
        return built(values_and_fills.take(to_arrow(places)), counts, is_list)

    return call(name, resize, node, whole(name, args[1]), added)


def flattened(name: str, args: list[Node]) -> Node:
    """flatten(list of lists): the items of the inner lists; flat lists are unchanged."""
    node = unfixed(as_list, name, args[0])
    inner = plain_type(node.type.value_type)
    if not pa.types.is_nested(inner) or pa.types.is_struct(inner):
        return node
    if not pa.types.is_list(inner):
        raise Problem(f"{name}: lists of {inner}", unsupported=True)

    def join(lists: pa.Array) -> pa.Array:
        within, sizes = taken_apart(lists)
        values, inner_sizes = taken_apart(within)
        joined = np.diff(offsets_of(inner_sizes)[offsets_of(sizes)])
        return built(values, joined, validity_of(lists))

    return call(name, join, node)


def dimensions(name: str, args: list[Node]) -> Node:
    """array_dims(list): the length of each dimension: of the list, of its first item, and so on.

    Null for an empty or null list.
    """
    node = unfixed(as_list, name, args[0])

    def measure(lists: pa.Array) -> pa.Array:
        sizes = as_numbers(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
        columns, valid = [sizes], sizes > 0
        while pa.types.is_list(plain_type(lists.type.value_type)):
            firsts = np.where(columns[-1] > 0, offsets_of(sizes)[:-1], 0)
            lists = plain(lists.flatten()).take(to_arrow(firsts, columns[-1] > 0))
            sizes = as_numbers(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
            columns.append(sizes)
        values = np.stack(columns, axis=1).ravel().astype(np.uint64)
        return built(to_arrow(values), np.full(len(valid), len(columns)), valid)

    return call(name, measure, node)


def any_value(name: str, args: list[Node]) -> Node:
    """array_any_value(list): the first item that is not null."""

    def pick(lists: pa.Array) -> pa.Array:
        values, sizes = _without_nulls(lists)
        return values.take(to_arrow(np.where(sizes > 0, offsets_of(sizes)[:-1], 0), sizes > 0))

    return call(name, pick, unfixed(as_list, name, args[0]))


def compact(name: str, args: list[Node]) -> Node:
    """array_compact(list): the items that are not null."""

    def drop(lists: pa.Array) -> pa.Array:
        return built(*_without_nulls(lists), validity_of(lists))

    return call(name, drop, unfixed(as_list, name, args[0]))


def _without_nulls(lists: pa.Array) -> tuple[pa.Array, Int64s]:
    """Return the items that are not null, and their number in each list."""
    values, sizes = taken_apart(lists)
    retained = as_mask(pc.is_valid(values))
    return values.filter(to_arrow(retained)), np.diff(offsets_of(retained)[offsets_of(sizes)])


def series(*, with_last: bool) -> Callable[[str, list[Node]], Node]:
    """Return the builder of generate_series(first, last[, step]) or of range.

    With a single argument, the list begins at 0. The result is null if an argument is null.

    Args:
        with_last: True to include `last`, as generate_series does; range does not.
    """

    def generate(name: str, args: list[Node]) -> Node:
        for arg in args:
            if not is_nothing(arg) and not pa.types.is_integer(arg.type):
                raise Problem(f"{name}: {arg.type}, not integers", unsupported=True)
        nodes = [whole(name, arg) for arg in args]
        if len(nodes) == 1:
            nodes.insert(0, Literal(as_scalar(0)))
        if len(nodes) == 2:
            nodes.append(Literal(as_scalar(1)))

        def fill(*numbers: Value) -> pa.Array:
            arrays = [broadcast(number, num_rows(*numbers)) for number in numbers]
            valid = np.logical_and.reduce([as_mask(pc.is_valid(number)) for number in arrays])
            first, last, step = (
                np.where(valid, as_numbers(pc.fill_null(number, 1)), 1) for number in arrays
            )
            if (step[valid] == 0).any():
                raise pa.ArrowInvalid("a step of 0")
            counts = np.where(valid, _num_steps(first, last, step, with_last=with_last), 0)
            _reserve_items(counts, arrays[0])
            within = positions_of(np.zeros(len(counts), np.int64), counts)
            values = np.repeat(first, counts) + within * np.repeat(step, counts)
            return built(to_arrow(values), counts, valid)

        return call(name, fill, *nodes)

    return generate


def _num_steps(first: Int64s, last: Int64s, step: Int64s, *, with_last: bool) -> Int64s:
    """Count the numbers from `first` to `last` in each row; the two may be 2 ** 64 - 1 apart.

    Raises:
        pyarrow.ArrowInvalid: a row has more than `MAX_LIST_ITEMS` numbers.
    """
    is_up = step > 0
    # Overflow is harmless: in unsigned arithmetic, differences and step sizes are exact.
    apart = np.where(is_up, last - first, first - last).view(np.uint64)
    size = np.where(is_up, step, -step).view(np.uint64)
    whole = apart // size
    is_ahead = np.where(is_up, last >= first, last <= first)
    if (whole[is_ahead] > MAX_LIST_ITEMS).any():
        raise pa.ArrowInvalid("too many items in one batch")
    is_more = np.True_ if with_last else whole * size != apart
    return np.where(is_ahead, whole.astype(np.int64) + is_more, 0)


def num_dimensions(name: str, args: list[Node]) -> Node:
    """array_ndims(list): the number of levels of nested lists."""
    node = unfixed(as_list, name, args[0])
    depth, inner = 1, plain_type(node.type.value_type)
    while pa.types.is_list(inner) or pa.types.is_fixed_size_list(inner):
        depth, inner = depth + 1, plain_type(inner.value_type)
    scalar, nothing = as_scalar(depth, pa.uint64()), as_scalar(None, pa.uint64())
    return call(name, lambda lists: pc.if_else(pc.is_valid(lists), scalar, nothing), node)


def _hits(values: pa.Array, sizes: Int64s, items: pa.Array) -> Mask:
    """Return the mask of the values that equal the item of their list; nulls are equal.

    Args:
        sizes: number of values of each list.
        items: one item for each list.
    """
    if pa.types.is_nested(values.type):
        codes = codes_of(pa.concat_arrays([values, items]))
        hits: Mask = codes[: len(values)] == codes[len(values) :][parents_of(sizes)]
        return hits
    keys, sought = key_of(values), key_of(items).take(to_arrow(parents_of(sizes)))
    equal = pc.fill_null(pc.equal(keys, sought), False)
    return as_mask(pc.or_(equal, pc.and_(pc.is_null(keys), pc.is_null(sought))))


def _first_of(hits: Mask, sizes: Int64s, most: Int64s) -> Mask:
    """Return the mask of the first `most` hits of each list."""
    before = offsets_of(hits)
    rank = before[1:] - np.repeat(before[offsets_of(sizes)[:-1]], sizes)
    return hits & (rank <= np.repeat(most, sizes))


def _limits(limit: Value, rows: int) -> Int64s:
    return as_numbers(pc.fill_null(broadcast(limit, rows), 0))


def null_unless(valid: Mask, values: pa.Array) -> pa.Array:
    """Return `values`, null where the mask is false."""
    return pc.if_else(to_arrow(valid), values, as_scalar(None, values.type))


def _reserve_items(counts: Int64s, items: pa.Array) -> None:
    """Reserve memory for computed lists and for their temporary numbers.

    Args:
        counts: number of items of each row's list.
        items: the item of each row, which its list repeats.

    Raises:
        BudgetExceeded: the lists do not fit.
    """
    item_bytes = 0 if is_fixed(items.type) else int(counts.max(initial=0)) * items.nbytes
    reserve(WORK_BYTES * counts.sum(dtype=np.float64) + item_bytes)


def _common(name: str, node: Node, *items: Node) -> pa.DataType:
    """Return the common type of a list's items and of other items.

    Raises:
        Problem: there is no common type.
    """
    common = inner = plain_type(node.type.value_type)
    for item in items:
        if not is_nothing(item) and common is not None:
            common = common_type(common, item.type)
    if common is None:
        raise Problem(f"{name}: {', '.join(str(item.type) for item in items)} among {inner}")
    return common
