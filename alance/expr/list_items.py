"""Functions that take items of lists out, put others in, or join and compare lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import compute as pc
from alance.expr.arithmetic import whole
from alance.expr.casts import common_type
from alance.expr.compare import is_nothing
from alance.expr.lists import (
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

    from alance.arrays import Int64s, Mask

WORK_BYTES: Final = 32  # of a computed item: its value and three temporary numbers
MOST_MADE: Final = 1 << 26  # items of one list; the total of larger counts might overflow


def removing(most: Literal | None) -> Callable[[str, list[Node]], Node]:
    """The builder of array_remove, array_remove_all or array_remove_n(list, item, n).

    Null where the item is null; none is removed where n is.

    Args:
        most: how many equal items go; None: as the last argument says.
    """

    def remove(name: str, args: list[Node]) -> Node:
        node, item = unfixed(comparable, name, args[0]), args[1]
        common = _common(name, node, item)

        def build(lists: pa.Array, items: Value, limit: Value) -> pa.Array:
            values, sizes = taken_apart(lists)
            values, items = pc.cast(values, common), pc.cast(broadcast(items, len(lists)), common)
            kept = ~_first_of(_hits(values, sizes, items), sizes, _limits(limit, len(lists)))
            is_there = as_mask(pc.and_(pc.is_valid(lists), pc.is_valid(items)))
            left = np.diff(offsets_of(kept)[offsets_of(sizes)])
            return where_known(is_there, built(values.filter(to_arrow(kept)), left, None))

        return call(name, build, node, item, most or whole(name, args[2]))

    return remove


def replacing(most: Literal | None) -> Callable[[str, list[Node]], Node]:
    """The builder of array_replace, array_replace_all or array_replace_n(list, old, new, n).

    A null is replaced as any other item; none is where n is null.

    Args:
        most: how many equal items change; None: as the last argument says.
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
    """array_positions(list, item): where equal items are, from one; nulls are equal."""
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
    """array_slice(list, first, last[, step]): both ends are in it; below zero from the end."""
    node = unfixed(as_list, name, args[0])
    step = whole(name, args[3]) if len(args) > 3 else Literal(as_scalar(1))

    def cut(lists: pa.Array, *numbers: Value) -> pa.Array:
        values, sizes = taken_apart(lists)
        arrays = [broadcast(number, len(lists)) for number in numbers]
        first, last, steps = (as_numbers(pc.fill_null(number, 1)) for number in arrays)
        first, last = np.clip(first, -sizes - 1, sizes + 1), np.clip(last, -sizes - 1, sizes + 1)
        start = np.where(first < 0, np.maximum(sizes + first, 0), np.maximum(first - 1, 0))
        stop = np.where(last < 0, sizes + last, np.minimum(last, sizes) - 1)
        told = np.logical_and.reduce([as_mask(pc.is_valid(number)) for number in (lists, *arrays)])
        inside = told & (start < sizes) & (stop >= 0)
        if (steps[inside] == 0).any():
            raise pa.ArrowInvalid("a step of 0")
        inside &= np.sign(stop - start) * np.sign(steps) >= 0
        steps = np.clip(np.where(inside, steps, 1), -sizes - 1, sizes + 1)
        counts = np.where(inside, (stop - start) // steps + 1, 0)
        within = positions_of(np.zeros(len(counts), np.int64), counts)
        begins = np.repeat(offsets_of(sizes)[:-1] + start, counts)
        places = begins + within * np.repeat(steps, counts)
        return where_known(told, built(values.take(to_arrow(places)), counts, None))

    return call(name, cut, node, whole(name, args[1]), whole(name, args[2]), step)


def repetition(name: str, args: list[Node]) -> Node:
    """array_repeat(x, n): n times x; empty below one, null where n is null."""

    def repeat(items: Value, numbers: Value) -> pa.Array:
        rows = num_rows(items, numbers)
        items, numbers = broadcast(items, rows), broadcast(numbers, rows)
        counts = np.maximum(as_numbers(pc.fill_null(numbers, 0)), 0)
        _reserve_items(counts, items)
        return built(items.take(to_arrow(parents_of(counts))), counts, validity_of(numbers))

    return call(name, repeat, args[0], whole(name, args[1]))


def resized(name: str, args: list[Node]) -> Node:
    """array_resize(list, n[, x]): the first n items, and x or nulls behind shorter ones.

    Empty where n is null.
    """
    node = unfixed(as_list, name, args[0])
    added: Node = args[2] if len(args) > 2 else Literal(as_scalar(None, pa.null()))
    common = _common(name, node, added)

    def resize(lists: pa.Array, numbers: Value, fill: Value) -> pa.Array:
        values, sizes = taken_apart(lists)
        rows = len(lists)
        counts = as_numbers(pc.fill_null(broadcast(numbers, rows), 0))
        is_there = as_mask(pc.is_valid(lists))
        if (counts[is_there] < 0).any():
            raise pa.ArrowInvalid("fewer items than none")
        counts = np.where(is_there, counts, 0)
        _reserve_items(counts, broadcast(fill, rows))
        within = positions_of(np.zeros(rows, np.int64), counts)
        parents = parents_of(counts)
        is_old = within < sizes[parents]
        places = np.where(is_old, offsets_of(sizes)[parents] + within, len(values) + parents)
        fills = pc.cast(broadcast(fill, rows), common)
        values_and_fills = pa.concat_arrays([pc.cast(values, common), fills])
        return built(values_and_fills.take(to_arrow(places)), counts, is_there)

    return call(name, resize, node, whole(name, args[1]), added)


def flattened(name: str, args: list[Node]) -> Node:
    """flatten(lists of lists): the items of the inner lists; other lists as they are."""
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
    """array_dims(list): how many items it has, how many the first one of these, and so on."""
    node = unfixed(as_list, name, args[0])

    def measure(lists: pa.Array) -> pa.Array:
        sizes = as_numbers(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
        columns, told = [sizes], sizes > 0
        while pa.types.is_list(plain_type(lists.type.value_type)):
            firsts = np.where(columns[-1] > 0, offsets_of(sizes)[:-1], 0)
            lists = plain(lists.flatten()).take(to_arrow(firsts, columns[-1] > 0))
            sizes = as_numbers(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
            columns.append(sizes)
        values = np.stack(columns, axis=1).ravel().astype(np.uint64)
        return built(to_arrow(values), np.full(len(told), len(columns)), told)

    return call(name, measure, node)


def any_value(name: str, args: list[Node]) -> Node:
    """array_any_value(list): the first item that is not null."""

    def pick(lists: pa.Array) -> pa.Array:
        values, left = _without_nulls(lists)
        return values.take(to_arrow(np.where(left > 0, offsets_of(left)[:-1], 0), left > 0))

    return call(name, pick, unfixed(as_list, name, args[0]))


def compact(name: str, args: list[Node]) -> Node:
    """array_compact(list): the items that are not null."""

    def drop(lists: pa.Array) -> pa.Array:
        return built(*_without_nulls(lists), validity_of(lists))

    return call(name, drop, unfixed(as_list, name, args[0]))


def _without_nulls(lists: pa.Array) -> tuple[pa.Array, Int64s]:
    """The items that are not null, and how many each list has."""
    values, sizes = taken_apart(lists)
    kept = as_mask(pc.is_valid(values))
    return values.filter(to_arrow(kept)), np.diff(offsets_of(kept)[offsets_of(sizes)])


def series(*, with_last: bool) -> Callable[[str, list[Node]], Node]:
    """The builder of generate_series(first, last[, step]), and of range without the last one.

    From 0 on where there is one number; null where one is.
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
            told = np.logical_and.reduce([as_mask(pc.is_valid(number)) for number in arrays])
            first, last, step = (
                np.where(told, as_numbers(pc.fill_null(number, 1)), 1) for number in arrays
            )
            if (step[told] == 0).any():
                raise pa.ArrowInvalid("a step of 0")
            counts = np.where(told, _num_steps(first, last, step, with_last=with_last), 0)
            _reserve_items(counts, arrays[0])
            within = positions_of(np.zeros(len(counts), np.int64), counts)
            values = np.repeat(first, counts) + within * np.repeat(step, counts)
            return built(to_arrow(values), counts, told)

        return call(name, fill, *nodes)

    return generate


def _num_steps(first: Int64s, last: Int64s, step: Int64s, *, with_last: bool) -> Int64s:
    """Count the numbers from `first` to `last` in each row; the two may be 2 ** 64 - 1 apart.

    Raises:
        pyarrow.ArrowInvalid: a row has more than `MOST_MADE` numbers.
    """
    is_up = step > 0
    # Overflow is harmless: as unsigned integers, differences and step sizes are exact.
    apart = np.where(is_up, last - first, first - last).view(np.uint64)
    size = np.where(is_up, step, -step).view(np.uint64)
    whole = apart // size
    is_ahead = np.where(is_up, last >= first, last <= first)
    if (whole[is_ahead] > MOST_MADE).any():
        raise pa.ArrowInvalid("too many items in one batch")
    is_more = np.True_ if with_last else whole * size != apart
    return np.where(is_ahead, whole.astype(np.int64) + is_more, 0)


def num_dimensions(name: str, args: list[Node]) -> Node:
    """array_ndims(list): how deep lists lie in each other."""
    node = unfixed(as_list, name, args[0])
    depth, inner = 1, plain_type(node.type.value_type)
    while pa.types.is_list(inner) or pa.types.is_fixed_size_list(inner):
        depth, inner = depth + 1, plain_type(inner.value_type)
    told, nothing = as_scalar(depth, pa.uint64()), as_scalar(None, pa.uint64())
    return call(name, lambda lists: pc.if_else(pc.is_valid(lists), told, nothing), node)


def _hits(values: pa.Array, sizes: Int64s, items: pa.Array) -> Mask:
    """Which values equal the item of their list; nulls equal each other."""
    if pa.types.is_nested(values.type):
        codes = codes_of(pa.concat_arrays([values, items]))
        hits: Mask = codes[: len(values)] == codes[len(values) :][parents_of(sizes)]
        return hits
    keys, sought = key_of(values), key_of(items).take(to_arrow(parents_of(sizes)))
    equal = pc.fill_null(pc.equal(keys, sought), False)
    return as_mask(pc.or_(equal, pc.and_(pc.is_null(keys), pc.is_null(sought))))


def _first_of(hits: Mask, sizes: Int64s, most: Int64s) -> Mask:
    """The first hits of each list, as many as are told."""
    before = offsets_of(hits)
    rank = before[1:] - np.repeat(before[offsets_of(sizes)[:-1]], sizes)
    return hits & (rank <= np.repeat(most, sizes))


def _limits(limit: Value, rows: int) -> Int64s:
    return as_numbers(pc.fill_null(broadcast(limit, rows), 0))


def where_known(is_there: Mask, values: pa.Array) -> pa.Array:
    """The values, null elsewhere."""
    return pc.if_else(to_arrow(is_there), values, as_scalar(None, values.type))


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
    """The type of a list's items and of others."""
    common = inner = plain_type(node.type.value_type)
    for item in items:
        if not is_nothing(item) and common is not None:
            common = common_type(common, item.type)
    if common is None:
        raise Problem(f"{name}: {', '.join(str(item.type) for item in items)} among {inner}")
    return common
