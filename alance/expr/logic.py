"""Three-valued AND, OR, NOT, IS, IN, BETWEEN, CASE and COALESCE, with lazy evaluation."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base import compute as pc
from alance.base.cancellation import check_cancelled
from alance.base.checks import INT64_MAX
from alance.base.records import dataclass
from alance.expr import value_budget
from alance.expr.builders.regex import Match
from alance.expr.casts import convert, is_bytes, is_text, unify
from alance.expr.compare import (
    NULL_BOOLEAN,
    compare,
    compared_floats,
    constant,
    float_literal,
    is_nothing,
    merge_ranges,
    mismatch,
)
from alance.expr.exact import Digits, exact_value, scale_of
from alance.expr.tree import (
    Call,
    Column,
    Comparison,
    Literal,
    Membership,
    Node,
    Problem,
    Value,
    broadcast,
    call,
    column_paths,
    meaning,
    truly,
)
from alance.format.numbers import (
    as_mask,
    as_numbers,
    as_scalar,
    bitmap,
    text_array,
    to_arrow,
    validity_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Float64s, Int64s, Mask

# Up to this number of values, single comparisons are faster than a hash table. For a million rows
# a value takes 0.3 ms and a table 2.7 ms; for few rows, 10 us and 25 us.
MAX_COMPARED: Final = 8

TRUE_LITERAL: Final = Literal(as_scalar(True))
FALSE_LITERAL: Final = Literal(as_scalar(False))


@dataclass(frozen=True, slots=True, eq=False)
class Junction:
    """A chain of AND or OR; evaluation stops once every row of the batch is decided.

    Attributes:
        is_and: True for AND, False for OR.
        args: at least two booleans; at most one is a literal, and that is NULL.
    """

    is_and: bool
    args: tuple[Node, ...]

    @property
    def type(self) -> pa.DataType:
        return pa.bool_()

    def evaluate(self, batch: pa.RecordBatch) -> Value:
        kernel = pc.and_kleene if self.is_and else pc.or_kleene
        args = merge_ranges(self.args) if self.is_and else self.args
        result = args[0].evaluate(batch)
        for arg in args[1:]:
            if self._settled(result):
                break
            result = kernel(result, arg.evaluate(batch))
        return result

    def _settled(self, result: Value) -> bool:
        if isinstance(result, pa.Scalar):
            return False
        if self.is_and:
            return bool(result.null_count == 0 and result.true_count == 0)
        return bool(result.true_count == len(result))


def junction(is_and: bool, args: Sequence[Node]) -> Node:
    """Build AND or OR of booleans; literals are folded.

    Raises:
        Problem: an argument is not a boolean.
    """
    decides = not is_and  # false decides AND; true decides OR
    operands: list[Node] = []
    has_null = False
    for arg in map(boolean, args):
        if not isinstance(arg, Literal):
            operands.append(arg)
        elif not arg.value.is_valid:
            has_null = True
        elif arg.value.as_py() == decides:
            return TRUE_LITERAL if decides else FALSE_LITERAL
    operands = _joined(is_and, operands)
    if has_null:
        operands.append(NULL_BOOLEAN)
    if not operands:
        return FALSE_LITERAL if decides else TRUE_LITERAL
    return operands[0] if len(operands) == 1 else Junction(is_and, tuple(operands))


def _joined(is_and: bool, args: list[Node]) -> list[Node]:
    """Replace many `=` of the same column in OR, or `!=` in AND, by one hash look-up."""
    if len(args) <= MAX_COMPARED:
        return args
    op = "!=" if is_and else "="
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, arg in enumerate(args):
        column = _term(op, arg)
        if column is not None:
            groups.setdefault((column.path, column.type), []).append(place)
    joined: dict[int, Node | None] = {}
    for places in groups.values():
        column = _term(op, args[places[0]])
        literals = [item for place in places for item in _items(args[place])]
        if column is None or len(literals) <= MAX_COMPARED:
            continue
        (membership,) = _in_literals(column, literals)
        joined |= dict.fromkeys(places)
        joined[places[0]] = negation(membership) if is_and else membership
    merged = (joined.get(place, arg) for place, arg in enumerate(args))
    return [arg for arg in merged if arg is not None]


def _term(op: str, node: Node) -> Column | None:
    """Return the column of a term that a hash look-up can replace; None for other terms.

    In OR (`op` is =), such terms are = and IN; in AND (`op` is !=), they are != and NOT IN. Columns
    of floats and booleans are not looked up.
    """
    meant = node.meaning if isinstance(node, Call) else None
    if op == "!=" and isinstance(node, Call) and node.name == "not":
        inner = node.args[0]
        meant = inner.meaning if isinstance(inner, Call) else None
        column = None
        if isinstance(meant, Membership) and isinstance(meant.items, tuple):
            column = meant.node
    elif op == "=" and isinstance(meant, Membership) and isinstance(meant.items, tuple):
        column = meant.node
    elif isinstance(meant, Comparison) and meant.op == op:
        literal, column = meant.right, meant.left
        if isinstance(literal, Column):
            literal, column = column, literal
        column = column if isinstance(literal, Literal) else None
    else:
        return None
    if not isinstance(column, Column) or pa.types.is_floating(column.type):
        return None
    return None if pa.types.is_boolean(column.type) else column


def _items(node: Node) -> Sequence[Literal]:
    """Return the literals of a term that `_term` accepted."""
    assert isinstance(node, Call)
    if node.name == "not":
        return _items(node.args[0])
    if isinstance(node.meaning, Membership):
        assert isinstance(node.meaning.items, tuple)
        return node.meaning.items
    assert isinstance(node.meaning, Comparison)
    sides = node.meaning.left, node.meaning.right
    return [side for side in sides if isinstance(side, Literal)]


def boolean(node: Node) -> Node:
    """Return the node as a condition.

    Raises:
        Problem: the node is not a boolean.
    """
    if pa.types.is_boolean(node.type):
        return node
    if is_nothing(node):
        return NULL_BOOLEAN
    if isinstance(node, Match):
        return node.has_match()
    raise Problem(f"expected a condition, found {node.type}")


def negation(node: Node) -> Node:
    """Build NOT; the negation of null is null."""
    return call("not", pc.invert, boolean(node))


def is_null(node: Node) -> Node:
    """Build IS NULL; NaN is not null."""
    if isinstance(node, Match):
        return negation(node)
    return call("is null", pc.is_null, node)


def is_answer(node: Node, answer: bool) -> Node:
    """Build IS TRUE or IS FALSE, which are never null."""
    kernel = truly if answer else _is_false
    return call(f"is {answer}".lower(), kernel, boolean(node))


def is_in(node: Node, items: Sequence[Node]) -> Node:
    """Build IN; null if the node is null, or if no item is equal and at least one item is null.

    Raises:
        Problem: an item does not compare with the node.
    """
    if is_nothing(node):
        return NULL_BOOLEAN
    items = [_unrounding(node, item) for item in items]
    nulls = any(is_nothing(item) for item in items)
    literals = [item for item in items if isinstance(item, Literal) and not is_nothing(item)]
    computed = [item for item in items if not isinstance(item, Literal)]
    if isinstance(node, Literal):
        parts = [compare("=", node, item) for item in literals]
    else:
        parts = _in_literals(node, literals)
    parts += [compare("=", node, item) for item in computed]
    if nulls:
        parts.append(NULL_BOOLEAN)
    return junction(False, parts) if parts else constant("in", False, node)


def is_among(node: Node, values: pa.Array | Digits) -> Node:
    """Build IN of a long list; null if the node is null.

    Args:
        values: texts, bytes, int64 or the digits of numbers, without nulls.
    """
    kind, value_set = node.type, None
    if isinstance(values, Digits):
        scale = scale_of(kind) if isinstance(node, Column) else None
        if scale is not None and scale.quantity == "number":
            wholes = _whole_set(values.wholes(kind), kind)
            return _look_up(node, wholes, wholes)
        if isinstance(node, Column) and pa.types.is_floating(kind):
            return _look_up_floats(node, values.floats())
        return is_in(node, values.literals())
    if isinstance(node, Column) and values.type.equals(kind):
        value_set = values
    elif isinstance(node, Column) and is_text(kind) and is_text(values.type):
        value_set = pc.cast(values, kind)
    elif isinstance(node, Column) and pa.types.is_integer(kind) and pa.types.is_int64(values.type):
        numbers, scale = as_numbers(values), scale_of(kind)
        assert scale is not None
        fits = (numbers >= scale.low) & (numbers <= min(scale.high, INT64_MAX))
        value_set = pc.cast(to_arrow(numbers[fits]), kind)
    elif isinstance(node, Column) and is_bytes(kind) and is_bytes(values.type):
        if pa.types.is_fixed_size_binary(kind):
            is_whole = pc.equal(pc.binary_length(values), as_scalar(kind.byte_width, pa.int32()))
            values = values.filter(is_whole)
        value_set = pc.cast(values, kind)
    if value_set is not None:
        return _look_up(node, value_set, value_set)
    if is_text(values.type) or is_bytes(values.type):
        common = pa.string() if is_text(values.type) else pa.binary()
        return is_in(node, [Literal(item) for item in pc.cast(values, common)])
    return is_in(node, [Literal(number, str(number)) for number in values])


def between(node: Node, low: Node, high: Node) -> Node:
    """Build BETWEEN, both bounds included."""
    low, high = _unrounding(node, low), _unrounding(node, high)
    return junction(True, [compare(">=", node, low), compare("<=", node, high)])


def _unrounding(node: Node, item: Node) -> Node:
    """Widen a float item to 64 bits if the node is a literal: `0.1 in (f32)` does not round 0.1."""
    if isinstance(node, Literal) and pa.types.is_floating(item.type):
        return convert(item, pa.float64())
    return item


def _in_literals(node: Node, literals: Sequence[Literal]) -> list[Node]:
    if pa.types.is_floating(node.type):
        return _in_floats(node, literals)
    if pa.types.is_null(node.type):
        literals = literals[:1]
    if len(literals) <= MAX_COMPARED:
        return [compare("=", node, item) for item in literals]
    scale = scale_of(node.type)
    values: list[pa.Scalar] = []
    wholes: list[int] = []
    compared: set[pa.DataType] = set()
    for item in literals:
        if scale is not None:
            number = exact_value(item, node.type)
            if number is None:
                raise Problem(f"type mismatch: {node.type} in a list with {item.type}")
            whole = number / scale.unit
            is_whole = isinstance(whole, Fraction) and whole.denominator == 1
            if is_whole and scale.low <= whole <= scale.high:
                wholes.append(int(whole))
            continue
        if item.type not in compared:
            compare("=", node, item)
            compared.add(item.type)
        values.append(item.value)
    value_set = _value_set(values, node.type) if scale is None else _whole_set(wholes, node.type)
    return [_look_up(node, value_set, tuple(literals))]


def _in_floats(node: Node, literals: Sequence[Literal]) -> list[Node]:
    """Build the terms of IN for a column of floats or a computed float.

    Literals are rounded to the type of a column. Computed floats are compared with float literals
    in 64 bits.
    """
    if len(literals) <= MAX_COMPARED:
        return [compare("=", node, item) for item in literals]
    groups: dict[bool, list[float]] = {}
    parts = []
    for item in literals:
        is_wide = not isinstance(node, Column) and pa.types.is_floating(item.type)
        number = float_literal(item, pa.float64() if is_wide else node.type)
        if number is None or math.isnan(number):
            parts.append(compare("=", node, item))
        else:
            groups.setdefault(is_wide, []).append(number)
    for is_wide, numbers in groups.items():
        of = convert(node, pa.float64()) if is_wide else node
        parts.append(_look_up_floats(of, np.array(numbers, np.float64)))
    return parts


def _look_up_floats(node: Node, numbers: Float64s) -> Node:
    """Test that a node's floats are among `numbers`, none of which is NaN."""
    with np.errstate(over="ignore"):
        narrow = to_arrow(numbers.astype(f"f{node.type.bit_width // 8}"))
    wide = pa.float32() if pa.types.is_float16(node.type) else node.type
    table = _ValueTable(pc.cast(narrow, wide))

    def look_up(rows: pa.Array) -> pa.Array:
        return table.mask(pc.cast(rows, wide))

    return meaning(call("in", look_up, node), Membership(node, narrow))


def _look_up(node: Node, value_set: pa.Array, items: tuple[Literal, ...] | pa.Array) -> Node:
    """Test by a hash table that a node's values are in `value_set`."""
    look_up, membership = _ValueTable(value_set).mask, Membership(node, items)
    if isinstance(node, Column):
        return Call("in", look_up, (node,), pa.bool_(), membership)
    return meaning(call("in", look_up, node), membership)


class _ValueTable:
    """Hash table of the values of a list, built for the first rows that are looked up.

    A row of 64-bit integers takes 1 to 2 ns for up to 10 000 values, and 14 ns for a million.
    Arrow's `is_in` takes 9 to 15 ns and 250 ns: it builds a table for each batch.
    """

    __slots__ = ("_table", "_values")

    def __init__(self, values: pa.Array) -> None:
        self._values = values
        self._table: _kernels.KeyTable | None = None

    def mask(self, rows: pa.Array) -> pa.BooleanArray:
        """Return the mask of the rows that are in the list; null where the row is null. CPU work.

        Args:
            rows: rows of the type of the values.
        """
        if not len(self._values):
            return to_arrow(np.zeros(len(rows), np.bool_), validity_of(rows))
        from alance.format.keys import KeyColumns  # few filters have a long list

        if self._table is None:  # threads that come at once build one each
            import secrets

            seed = secrets.randbits(64)  # so that no data can choose rows that collide
            self._table = _kernels.KeyTable(KeyColumns.of([self._values]).plain(), seed)
        bits = self._table.contains(KeyColumns.of([rows]).plain())
        buffers = [bitmap(validity_of(rows)), pa.py_buffer(bits)]
        return pa.Array.from_buffers(pa.bool_(), len(rows), buffers)


def _value_set(values: list[pa.Scalar], type_: pa.DataType) -> pa.Array:
    if not is_bytes(type_) and not is_text(type_):
        return pa.concat_arrays([pa.repeat(value, 1) for value in values])
    objects = [value.as_py() for value in values]
    contents = [text.encode() if isinstance(text, str) else text for text in objects]
    if pa.types.is_fixed_size_binary(type_):
        contents = [content for content in contents if len(content) == type_.byte_width]
    large = pa.large_string() if is_text(type_) else pa.large_binary()
    array = text_array(contents, large)
    return pc.cast(pc.cast(array, pa.binary()) if large == pa.large_binary() else array, type_)


def _whole_set(numbers: list[int], type_: pa.DataType) -> pa.Array:
    """Return an array of a type from its stored integers."""
    width = type_.bit_width // 8
    signed = not pa.types.is_unsigned_integer(type_)
    content = b"".join(number.to_bytes(width, "little", signed=signed) for number in numbers)
    return pa.Array.from_buffers(type_, len(numbers), [None, pa.py_buffer(content)])


def _is_false(values: pa.Array) -> pa.Array:
    return truly(pc.invert(values))


@dataclass(frozen=True, slots=True, eq=False)
class CaseWhen:
    """CASE. Each value is computed only for the rows for which its condition is true.

    So `case when i != 0 then 10 / i end` never divides by zero.

    Attributes:
        conditions: booleans, in order.
        values: a value for each condition, then the value of ELSE; all of one type.
    """

    conditions: tuple[Node, ...]
    values: tuple[Node, ...]

    @property
    def type(self) -> pa.DataType:
        return self.values[0].type

    @property
    def args(self) -> tuple[Node, ...]:
        return self.conditions + self.values

    def evaluate(self, batch: pa.RecordBatch) -> Value:
        budget = value_budget.current()
        before = 0 if budget is None else budget.used_bytes
        needed = dict.fromkeys(path[0] for path in column_paths(self))
        rest = batch.select(list(needed)) if needed else batch
        rows: Int64s | None = None  # positions in the batch of the rows of `rest`; None: all rows
        parts: list[pa.Array] = []
        places: list[Int64s] = []
        conditions = (*self.conditions, TRUE_LITERAL)
        for condition, value in zip(conditions, self.values, strict=True):
            check_cancelled()
            chosen = _hits(condition, rest)
            if not chosen.any() and condition is not TRUE_LITERAL:
                continue
            is_all = bool(chosen.all())
            part = rest if is_all else rest.filter(to_arrow(chosen))
            values = broadcast(value.evaluate(part), part.num_rows)
            if is_all and rows is None:
                return values
            rows = np.arange(batch.num_rows) if rows is None else rows
            parts.append(values)
            places.append(rows[chosen])
            if budget is not None:
                budget.charge(values.nbytes)
            if is_all:
                break
            rest, rows = rest.filter(to_arrow(~chosen)), rows[~chosen]
        joined = _placed(parts, places)
        if budget is not None:
            budget.used_bytes = before
        return joined


@dataclass(frozen=True, slots=True, eq=False)
class Coalesce:
    """COALESCE. Each value is computed only for the rows in which all earlier values are null.

    Attributes:
        args: at least two nodes of one type.
    """

    args: tuple[Node, ...]

    @property
    def type(self) -> pa.DataType:
        return self.args[0].type

    def evaluate(self, batch: pa.RecordBatch) -> Value:
        values = broadcast(self.args[0].evaluate(batch), batch.num_rows)
        for arg in self.args[1:]:
            check_cancelled()
            if not values.null_count:
                break
            absent = as_mask(pc.is_null(values))
            part = batch.filter(to_arrow(absent)) if batch.num_columns else batch
            others = broadcast(arg.evaluate(part), int(absent.sum()))
            parts = [values.filter(to_arrow(~absent)), others]
            values = _placed(parts, [np.flatnonzero(~absent), np.flatnonzero(absent)])
        return values


def _placed(parts: Sequence[pa.Array], places: Sequence[Int64s]) -> pa.Array:
    """Concatenate parts of a batch's values and scatter each value to its row."""
    order = np.empty(sum(map(len, places)), np.int64)
    order[np.concatenate(places)] = np.arange(len(order))
    return pa.concat_arrays(parts).take(to_arrow(order))


def _hits(condition: Node, batch: pa.RecordBatch) -> Mask:
    """Return the mask of the rows for which a condition is true."""
    return as_mask(truly(broadcast(condition.evaluate(batch), batch.num_rows)))


def case(conditions: Sequence[Node], values: Sequence[Node], otherwise: Node | None) -> Node:
    """Build CASE WHEN ... THEN ... ELSE ... END.

    Raises:
        Problem: a condition is not a boolean, or the values have no common type.
    """
    last = otherwise if otherwise is not None else Literal(as_scalar(None, pa.null()))
    return CaseWhen(tuple(map(boolean, conditions)), unify(*values, last))


def coalesce(*args: Node) -> Node:
    """Build COALESCE: the first value that is not null. Arguments after a literal are dropped."""
    nodes = [node for node in unify(*args) if not is_nothing(node)]
    literals = [place for place, node in enumerate(nodes) if isinstance(node, Literal)]
    nodes = nodes[: literals[0] + 1] if literals else nodes
    if len(nodes) < 2:
        return nodes[0] if nodes else args[0]
    if all(isinstance(node, Literal | Column) for node in nodes[1:]):
        return call("coalesce", pc.coalesce, *nodes)
    return Coalesce(tuple(nodes))


def null_if(left: Node, right: Node) -> Node:
    """Build NULLIF: null if the two values are equal, else the first value."""
    if is_nothing(left) or is_nothing(right):
        return left
    try:
        left, right = unify(left, right)
    except Problem:
        raise mismatch("=", left, right) from None

    def clear(values: Value, others: Value) -> pa.Array:
        if pa.types.is_floating(left.type):
            hits = compared_floats("=", values, others)
        else:
            hits = pc.equal(values, others)
        return pc.if_else(truly(hits), as_scalar(None, left.type), values)

    return call("nullif", clear, left, right)


def choose(condition: Node, chosen: Node, other: Node) -> Node:
    """Return a node that is `chosen` if the condition is true, else `other`."""
    return case([condition], [chosen], other)


def literal_bytes(condition: object) -> int:
    """Return the number of bytes of a condition's texts and binary data, without lists."""
    if isinstance(condition, Literal):
        return condition.num_bytes
    if isinstance(condition, Call) and isinstance(condition.meaning, Comparison):
        return literal_bytes(condition.meaning.left) + literal_bytes(condition.meaning.right)
    return sum(map(literal_bytes, condition.args)) if isinstance(condition, Call | Junction) else 0
