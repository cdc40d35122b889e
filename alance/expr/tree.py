"""Compiled form of an expression: nodes that are evaluated on record batches.

A node calls Arrow's functions on arrays directly. A call costs about two microseconds, the kernels
release the GIL, and nothing is bound or dispatched again for each batch. A `Literal` and a
`LazyConstant` evaluate to a scalar, all other nodes to an array of the batch's length. Calls with
constant arguments are folded when they are built, unless they may take long. The type of a call is
determined by running its function on empty arrays.

A call may have a `Meaning`: its condition in a form that pruning and indices understand.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import pyarrow as pa

from alance.base import compute as pc
from alance.base.cancellation import check_cancelled
from alance.base.checks import did_you_mean
from alance.base.records import dataclass
from alance.errors import ColumnNotFoundError, InvalidInputError, UnsupportedError
from alance.expr import value_budget
from alance.format.numbers import as_scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Value: TypeAlias = "pa.Array | pa.Scalar"
# Errors that kernels and conversions raise for values.
FAILURES = (pa.ArrowException, ValueError, TypeError, KeyError, IndexError, ArithmeticError)
COMPARED: Final = frozenset(["=", "!=", "<", "<=", ">", ">="])  # their kernels take scalars
_FALSE: Final = as_scalar(False)


class Problem(Exception):
    """Error of a builder of nodes; the caller adds the position and makes it a public error.

    Attributes:
        unsupported: True if the SQL is valid but alance does not evaluate it.
        column: name of a column that does not exist; None for other problems.
    """

    def __init__(
        self, message: str, *, unsupported: bool = False, column: str | None = None
    ) -> None:
        super().__init__(message)
        self.unsupported = unsupported
        self.column = column

    def public(self, message: str) -> Exception:
        """Return the public error for this problem."""
        if self.column is not None:
            return ColumnNotFoundError(message, self.column)
        return (UnsupportedError if self.unsupported else InvalidInputError)(message)


FEW_NAMES: Final = 12  # maximum number of column names in an error


def unknown(kind: str, name: str, names: Iterable[str]) -> Problem:
    """Return the problem of an unknown name; the message suggests similar names."""
    from alance.expr.sql.habits import name_hint

    names = list(names)
    hint = name_hint(name) or did_you_mean(name, names)
    if kind == "column" and not hint:
        columns = [candidate for candidate in names if not candidate.startswith("_row")]
        hint = f"; the columns are {', '.join(columns)}" if len(columns) <= FEW_NAMES else ""
    column = name if kind in ("column", "field") else None
    return Problem(f"unknown {kind} {name!r}{hint}", column=column)


class Node(Protocol):
    """A node of a compiled expression."""

    @property
    def type(self) -> pa.DataType:
        """Type of the values."""

    @property
    def args(self) -> tuple[Node, ...]:
        """Operands: the nodes that this node is computed from."""

    def evaluate(self, batch: pa.RecordBatch) -> Value:
        """Return the values of the rows of a batch."""


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant.

    Attributes:
        value: the scalar, in the literal's own type.
        digits: the number as written, so that `1.1` compares exactly with a decimal column.
        name: the text if it was in double quotes; None for other literals. In other SQL double
            quotes mark a name, so messages recommend backticks.
    """

    value: pa.Scalar
    digits: str | None = None
    name: str | None = None

    @property
    def type(self) -> pa.DataType:
        return self.value.type

    @property
    def num_bytes(self) -> int:
        """Number of bytes of a text or of binary data; 0 for other values."""
        is_long = isinstance(self.value, pa.BinaryScalar) and self.value.is_valid
        return len(self.value.as_buffer()) if is_long else 0

    @property
    def args(self) -> tuple[Node, ...]:
        return ()

    def evaluate(self, batch: pa.RecordBatch) -> Value:
        return self.value


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column or a field of a struct column, by name, because positions differ between batches.

    Attributes:
        path: the column's name, then the names of nested fields.
        type: type of the values: the storage type of an extension, the value type of a dictionary.
    """

    path: tuple[str, ...]
    type: pa.DataType

    @property
    def args(self) -> tuple[Node, ...]:
        return ()

    def evaluate(self, batch: pa.RecordBatch) -> Value:
        array = plain(batch.column(self.path[0]))
        for name in self.path[1:]:
            array = plain(pc.struct_field(array, [name]))
        return array


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """Call of a function on the values of other nodes. Build it with `call`, which folds constants.

    Attributes:
        name: the function's name in messages.
        function: called with the arguments' values, at least one of which is an array.
        meaning: the condition in a form that pruning and indices understand; None if there is none.
        row_bytes: bytes of the literal arguments, which the result of each row may contain.
    """

    name: str
    function: Callable[..., pa.Array]
    args: tuple[Node, ...]
    type: pa.DataType
    meaning: Meaning | None = None
    row_bytes: int = 0

    def evaluate(self, batch: pa.RecordBatch) -> Value:
        check_cancelled()
        budget = value_budget.current()
        if budget is None:
            budget = value_budget.ValueBudget(value_budget.EVALUATED_ROW_BYTES)
        before = budget.used_bytes
        if self.row_bytes:
            budget.charge(self.row_bytes * batch.num_rows)
        values = []
        for arg in self.args:
            value = arg.evaluate(batch)
            if isinstance(arg, LazyConstant) and self.name not in COMPARED:
                # Most functions accept a scalar only if it comes from a literal.
                value = broadcast(value, batch.num_rows)
            values.append(value)
            if not isinstance(arg, Column) and not isinstance(value, pa.Scalar):
                budget.charge(value.nbytes)
        result = self.function(*values)
        budget.used_bytes = before
        return result


@dataclass(frozen=True, slots=True, eq=False)
class LazyConstant:
    """A constant expression that takes long or has a large value.

    It is not folded at parse time, but computed at each evaluation, to a scalar for all rows.

    Attributes:
        args: literals or other lazy constants.
    """

    name: str
    function: Callable[..., pa.Array]
    args: tuple[Node, ...]
    type: pa.DataType

    def evaluate(self, batch: pa.RecordBatch) -> Value:
        check_cancelled()
        budget = value_budget.current()
        values = [arg.evaluate(batch) for arg in self.args]
        before = 0 if budget is None else budget.used_bytes
        if budget is not None:
            budget.charge(sum(map(len_of, values)))
        values[0] = pa.repeat(values[0], 1)
        result = self.function(*values)[0]
        if budget is not None:
            budget.used_bytes = before
        return result


def call(name: str, function: Callable[..., pa.Array], *args: Node) -> Node:
    """Build the call of a function. A call of constants is folded or becomes a lazy constant.

    Raises:
        Problem: the function does not take these types, or fails on these literals.
    """
    is_constant = bool(args) and all(isinstance(arg, Literal | LazyConstant) for arg in args)
    try:
        if is_constant and (folded := _folded(function, args)) is not None:
            if pa.types.is_boolean(folded.type):
                _refuse_name(args)
            return folded
        values = [arg.value if isinstance(arg, Literal) else pa.nulls(0, arg.type) for arg in args]
        if is_constant:
            values[0] = pa.nulls(0, args[0].type)
        result = function(*values)
    except Problem:
        raise
    except pa.ArrowNotImplementedError:
        types = ", ".join(str(arg.type) for arg in args)
        raise Problem(f"{name} does not take ({types})") from None
    except FAILURES as error:
        raise Problem(f"{name}: {single_line(error)}") from None
    if is_constant:
        return LazyConstant(name, function, args, result.type)
    literals = () if is_fixed(result.type) else [arg for arg in args if isinstance(arg, Literal)]
    row_bytes = sum(len_of(literal.value) for literal in literals)
    return Call(name, function, args, result.type, row_bytes=row_bytes)


def _folded(function: Callable[..., pa.Array], args: Sequence[Node]) -> Literal | None:
    """Fold a call of constants. Returns None if an argument is lazy or the budget is exceeded."""
    values: list[Value] = [arg.value for arg in args if isinstance(arg, Literal)]
    if len(values) < len(args):
        return None
    budget = value_budget.current() or value_budget.folding_budget()
    if not budget.is_folding:
        budget = value_budget.folding_budget()
    try:
        with budget:
            budget.charge(sum(map(len_of, values)))
            values[0] = pa.repeat(values[0], 1)
            result = function(*values)
            if not is_fixed(result.type):
                budget.charge(result.nbytes)
            return Literal(result[0])
    except value_budget.BudgetExceeded:
        return None


def is_fixed(type_: pa.DataType) -> bool:
    """True for null and primitive types, whose values all have the same number of bytes."""
    return bool(pa.types.is_primitive(type_) or pa.types.is_null(type_))


def len_of(value: Value) -> int:
    """Return the number of bytes of an array or a scalar; 16 for a scalar of fixed width."""
    if not isinstance(value, pa.Scalar):
        return int(value.nbytes)
    return 16 if is_fixed(value.type) else int(pa.repeat(value, 1).nbytes)


def _refuse_name(args: Iterable[Node]) -> None:
    """Raise if an operand of a constant condition is in double quotes: a column was meant."""
    for arg in args:
        if isinstance(arg, Literal) and arg.name is not None:
            raise Problem(f'"{arg.name}" is text; a column takes backticks: `{arg.name}`')


def plain(array: pa.Array) -> pa.Array:
    """Return the storage of an extension array, and a dictionary array decoded; others as is."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(array, pa.DictionaryArray):
        if not is_fixed(array.type.value_type) and len(array.dictionary):
            longest = array.dictionary.nbytes // len(array.dictionary)
            value_budget.reserve(longest * len(array))
        array = array.dictionary_decode()
    return array


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Return the type that `plain` gives to an array of `type_`."""
    if isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return type_


def column_paths(node: Node) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all columns below a node, with repetitions."""
    if isinstance(node, Column):
        yield node.path
    for arg in node.args:
        yield from column_paths(arg)


def whole_paths(node: Node) -> Iterator[tuple[str, ...]]:
    """Yield the paths of columns below a node, except columns that only a JSON function reads."""
    if isinstance(node, Column):
        yield node.path
    is_json = isinstance(node, Call) and node.name.startswith("json_")
    for place, arg in enumerate(node.args):
        if not (is_json and place == 0 and isinstance(arg, Column)):
            yield from whole_paths(arg)


def truly(answers: Value) -> Value:
    """Replace nulls by false."""
    return pc.fill_null(answers, _FALSE)


def broadcast(value: Value, num_rows: int) -> pa.Array:
    """Return an array as is, and a scalar repeated `num_rows` times."""
    if not isinstance(value, pa.Scalar):
        return value
    if not is_fixed(value.type):
        value_budget.reserve(len_of(value) * num_rows)
    return pa.repeat(value, num_rows) if num_rows else pa.nulls(0, value.type)  # works for lists


def single_line(error: BaseException) -> str:
    """Return the first line of an error's text, at most 200 characters."""
    lines = str(error).splitlines()
    return lines[0][:200] if lines else type(error).__name__


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The condition `left op right`; `op` is = != < <= > or >=."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """The condition that a node equals one of `items`, none of which is null."""

    node: Node
    items: tuple[Literal, ...] | pa.Array


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A necessary condition on matching texts: their prefix, and parts that they contain.

    Attributes:
        prefix: text at the start of every match.
        parts: for each alternative of the pattern, texts that its matches contain in any case.
        is_cased: True if `parts` are case-sensitive.
        is_contains: True if the condition is also sufficient: a text with all parts of an
            alternative is a match.
    """

    node: Node
    prefix: str = ""
    parts: tuple[tuple[str, ...], ...] = ()
    is_cased: bool = False
    is_contains: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class AnyItem:
    """The condition that at least one item of a list meets a condition; null for a null list.

    Attributes:
        condition: condition on an item, as the column that `item_of` returns.
    """

    node: Node
    condition: Node


def item_of(lists: Node) -> Column:
    """Return the column node that stands for a single item of a list column."""
    return Column(("item",), plain_type(lists.type.value_type))


@dataclass(frozen=True, slots=True, eq=False)
class JsonValue:
    """The value at a path of a JSON document; null if the document has no such path.

    Attributes:
        steps: path from the root; each step is a member's name or an item's index.
        is_scalar: True for a number, text or boolean; False for the value's JSON text.
    """

    node: Node
    steps: tuple[tuple[str | None, int | None], ...]
    is_scalar: bool


Meaning: TypeAlias = Comparison | Membership | Pattern | AnyItem | JsonValue


def meaning(node: Node, what: Meaning) -> Node:
    """Return a copy of a call with this meaning; return other nodes as they are."""
    if type(node) is not Call:
        return node
    return replace(node, meaning=what)
