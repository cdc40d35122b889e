"""Table of the SQL functions: the number of arguments and the builder of each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.expr import arithmetic, logic, type_names
from alance.expr.builders import (
    characters,
    digests,
    formats,
    json_values,
    list_items,
    list_sets,
    lists,
    moments,
    nested,
    regex,
    text,
    vectors,
)
from alance.expr.builders.text_parts import ANY_TEXT
from alance.expr.compare import extreme
from alance.expr.tree import Literal, Problem, call, unknown
from alance.format.numbers import as_scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from alance.expr.tree import Node, Value

MAX_ARGUMENTS: Final = 1000  # most arguments of a function that takes any number of them

# Functions that Lance evaluates and alance does not, and aggregates, which neither evaluates in
# filters and columns. Errors call them unsupported instead of unknown.
_ELSEWHERE: Final = """
    any_match array_any_match array_filter array_transform arrays_zip arrow_field arrow_metadata avg
    bit_and bit_or bit_xor bool_and bool_or cast_to_type corr count date_bin element_at
    first_value json_extract_with_type last_value list_zip map map_entries map_extract map_keys
    map_values max mean median min nth_value rand random row_number st_contains st_intersects stddev
    string_agg sum try_cast_to_type union_extract union_tag unnest uuid var version with_metadata
"""
ELSEWHERE: Final = frozenset(_ELSEWHERE.split())


@dataclass(frozen=True, slots=True)
class Function:
    """A SQL function.

    Attributes:
        least: smallest number of arguments.
        most: largest number of arguments.
        build: builds the node of a call from the function's name and arguments.
    """

    least: int
    most: int
    build: Callable[[str, list[Node]], Node]


def apply(name: str, args: list[Node]) -> Node:
    """Build the call of a function by its name, whose case is ignored.

    Raises:
        Problem: the function does not exist, or does not take the arguments.
    """
    function = FUNCTIONS.get(name.lower())
    if function is None:
        if name.lower() in ELSEWHERE:
            raise Problem(f"function {name}", unsupported=True)
        raise unknown("function", name, FUNCTIONS)
    if not function.least <= len(args) <= function.most:
        least = function.least
        expected = str(least) if least == function.most else f"at least {least}"
        raise Problem(f"{name}: {len(args)} arguments, expected {expected}")
    return function.build(name.lower(), args)


def _named(*ends: str) -> list[str]:
    return [f"{kind}_{end}" for end in ends for kind in ("array", "list")]


def _named_struct(name: str, args: list[Node]) -> Node:
    """named_struct('a', x, 'b', y): a struct with x as field `a` and y as field `b`."""
    names = [arg.value.as_py() if isinstance(arg, Literal) else None for arg in args[::2]]
    if len(args) % 2 or not all(isinstance(field, str) for field in names):
        raise Problem(f"{name}: expected text for a name before each value")

    def build(*values: Value) -> pa.Array:
        return pc.make_struct(*values, field_names=names)

    return call(name, build, *args[1::2])


def _struct(name: str, args: list[Node]) -> Node:
    """struct(x, y): a struct of values, whose fields are `c0`, `c1` and so on."""

    def build(*values: Value) -> pa.Array:
        return pc.make_struct(*values, field_names=[f"c{place}" for place in range(len(values))])

    return call(name, build, *args)


_REAL: Final = {
    "sqrt": arithmetic.square_root,
    "exp": pc.exp,
    "ln": pc.ln,
    "log2": pc.log2,
    "log10": pc.log10,
    "sin": pc.sin,
    "cos": pc.cos,
    "tan": pc.tan,
    "asin": pc.asin,
    "acos": pc.acos,
    "atan": pc.atan,
    "sinh": pc.sinh,
    "cosh": pc.cosh,
    "tanh": pc.tanh,
    "acosh": pc.acosh,
    "asinh": pc.asinh,
    "atanh": pc.atanh,
    "cot": arithmetic.cotangent,
    "cbrt": arithmetic.cube_root,
    "signum": pc.sign,
}
_REAL_2: Final = {"power": pc.power, "pow": pc.power, "atan2": pc.atan2}
_FIRST_ITEM: Final = Literal(as_scalar(1))
_ALL: Final = Literal(as_scalar(lists.MAX_BATCH_ITEMS))
_CHARACTER_LENGTH: Final = text.plain_text(pc.utf8_length)

FUNCTIONS: Final[dict[str, Function]] = {
    **{name: Function(1, 1, arithmetic.real_function(kernel)) for name, kernel in _REAL.items()},
    **{name: Function(2, 2, arithmetic.real_function(kernel)) for name, kernel in _REAL_2.items()},
    "abs": Function(1, 1, arithmetic.absolute),
    "round": Function(1, 2, arithmetic.rounding(arithmetic.round_half_up)),
    "trunc": Function(1, 2, arithmetic.rounding(arithmetic.round_to_zero)),
    "floor": Function(1, 1, arithmetic.rounding(pc.floor)),
    "ceil": Function(1, 1, arithmetic.rounding(pc.ceil)),
    "ceiling": Function(1, 1, arithmetic.rounding(pc.ceil)),
    "mod": Function(2, 2, arithmetic.modulo),
    "log": Function(1, 2, arithmetic.logarithm),
    "degrees": Function(1, 1, arithmetic.degrees),
    "radians": Function(1, 1, arithmetic.radians),
    "iszero": Function(1, 1, arithmetic.is_zero),
    "nanvl": Function(2, 2, arithmetic.nan_value),
    "isnan": Function(1, 1, arithmetic.is_nan),
    "greatest": Function(1, MAX_ARGUMENTS, extreme(pc.max_element_wise, "<")),
    "least": Function(1, MAX_ARGUMENTS, extreme(pc.min_element_wise, ">")),
    "coalesce": Function(1, MAX_ARGUMENTS, lambda _, args: logic.coalesce(*args)),
    "ifnull": Function(2, 2, lambda _, args: logic.coalesce(*args)),
    "nvl": Function(2, 2, lambda _, args: logic.coalesce(*args)),
    "nvl2": Function(3, 3, lambda _, args: logic.choose(logic.is_null(args[0]), args[2], args[1])),
    "nullif": Function(2, 2, lambda _, args: logic.null_if(*args)),
    "if": Function(3, 3, lambda _, args: logic.choose(*args)),
    "lower": Function(1, 1, text.plain_text(text.lower)),
    "upper": Function(1, 1, text.plain_text(text.upper)),
    "initcap": Function(1, 1, text.plain_text(text.initcap)),
    "reverse": Function(1, 1, text.plain_text(pc.utf8_reverse)),
    "length": Function(1, 1, _CHARACTER_LENGTH),
    "char_length": Function(1, 1, _CHARACTER_LENGTH),
    "character_length": Function(1, 1, _CHARACTER_LENGTH),
    "octet_length": Function(1, 1, text.octet_length),
    "bit_length": Function(1, 1, text.bit_length),
    "lpad": Function(2, 3, text.padding(pc.utf8_lpad)),
    "rpad": Function(2, 3, text.padding(pc.utf8_rpad)),
    "split_part": Function(3, 3, text.split_part),
    "concat_ws": Function(2, MAX_ARGUMENTS, text.concat_ws),
    "trim": Function(1, 2, text.trimming(pc.utf8_trim)),
    "btrim": Function(1, 2, text.trimming(pc.utf8_trim)),
    "ltrim": Function(1, 2, text.trimming(pc.utf8_ltrim)),
    "rtrim": Function(1, 2, text.trimming(pc.utf8_rtrim)),
    "substr": Function(2, 3, text.substring),
    "substring": Function(2, 3, text.substring),
    "left": Function(2, 2, text.left),
    "right": Function(2, 2, text.right),
    "replace": Function(3, 3, text.replace),
    "repeat": Function(2, 2, text.repeat),
    "instr": Function(2, 2, text.position),
    "strpos": Function(2, 2, text.position),
    "position": Function(2, 2, text.position),
    "concat": Function(1, MAX_ARGUMENTS, text.concat),
    "starts_with": Function(2, 2, text.with_pattern("", ANY_TEXT)),
    "ends_with": Function(2, 2, text.with_pattern(ANY_TEXT, "")),
    "contains": Function(2, 2, text.with_pattern(ANY_TEXT, ANY_TEXT)),
    "regexp_like": Function(2, 3, regex.regexp_like),
    "regexp_match": Function(2, 3, regex.regexp_match),
    "regexp_count": Function(2, 2, regex.regexp_count),
    "regexp_replace": Function(3, 4, regex.regexp_replace),
    **dict.fromkeys(("date_part", "datepart"), Function(2, 2, moments.date_part)),
    **dict.fromkeys(("date_trunc", "datetrunc"), Function(2, 2, moments.date_trunc)),
    **dict.fromkeys(("to_char", "date_format"), Function(2, 2, formats.to_char)),
    "to_local_time": Function(1, 1, moments.to_local_time),
    "to_time": Function(1, 1, moments.to_time),
    "make_date": Function(3, 3, moments.make_date),
    "make_time": Function(3, 3, moments.make_time),
    **dict.fromkeys(("now", "current_timestamp"), Function(0, 0, moments.now)),
    "current_time": Function(0, 0, moments.time_of_day),
    **dict.fromkeys(("today", "current_date"), Function(0, 0, moments.today)),
    "to_date": Function(1, 1, moments.to_date),
    "to_timestamp": Function(1, 1, moments.to_timestamp),
    "to_timestamp_seconds": Function(1, 1, moments.to_unit("s")),
    "to_timestamp_millis": Function(1, 1, moments.to_unit("ms")),
    "to_timestamp_micros": Function(1, 1, moments.to_unit("us")),
    "to_timestamp_nanos": Function(1, 1, moments.to_unit("ns")),
    "from_unixtime": Function(1, 1, moments.from_unixtime),
    "to_unixtime": Function(1, 1, moments.to_unixtime),
    "md5": Function(1, 1, digests.md5),
    **dict.fromkeys(("sha224", "sha256", "sha384", "sha512"), Function(1, 1, digests.sha2)),
    "digest": Function(2, 2, digests.digest),
    "encode": Function(2, 2, digests.encode),
    "decode": Function(2, 2, digests.decode),
    "gcd": Function(2, 2, arithmetic.divisor),
    "lcm": Function(2, 2, arithmetic.multiple),
    "pi": Function(0, 0, lambda *_: Literal(as_scalar(math.pi))),
    "translate": Function(3, 3, characters.translate),
    "ascii": Function(1, 1, characters.ascii_code),
    "chr": Function(1, 1, characters.character),
    "levenshtein": Function(2, 2, characters.levenshtein),
    "contains_tokens": Function(2, 2, characters.contains_tokens),
    "overlay": Function(3, 4, characters.overlay),
    "factorial": Function(1, 1, arithmetic.factorial),
    "arrow_typeof": Function(1, 1, type_names.type_of),
    **{name: Function(2, 2, vectors.distance) for name in _named("distance")},
    "cosine_distance": Function(2, 2, vectors.cosine),
    **dict.fromkeys(("inner_product", "dot_product"), Function(2, 2, vectors.product)),
    **{name: Function(1, 1, vectors.normalize) for name in _named("normalize")},
    "to_hex": Function(1, 1, characters.to_hex),
    "find_in_set": Function(2, 2, characters.find_in_set),
    "substr_index": Function(3, 3, characters.substring_index),
    "substring_index": Function(3, 3, characters.substring_index),
    "regexp_instr": Function(2, 6, characters.regexp_instr),
    **dict.fromkeys(
        ("string_to_array", "string_to_list"), Function(2, 3, characters.string_to_array)
    ),
    "json_get": Function(2, 2, json_values.get),
    "json_get_string": Function(2, 2, json_values.get_text),
    "json_get_int": Function(2, 2, json_values.get_whole),
    "json_get_float": Function(2, 2, json_values.get_real),
    "json_get_bool": Function(2, 2, json_values.get_truth),
    "json_extract": Function(2, 2, json_values.extract),
    "json_exists": Function(2, 2, json_values.exists),
    "json_array_length": Function(2, 2, json_values.array_length),
    "json_array_contains": Function(3, 3, json_values.array_contains),
    **dict.fromkeys(("struct", "row"), Function(1, MAX_ARGUMENTS, _struct)),
    "named_struct": Function(2, MAX_ARGUMENTS, _named_struct),
    "get_field": Function(2, 2, nested.get_field),
    **dict.fromkeys(("arrow_cast", "arrow_try_cast"), Function(2, 2, type_names.arrow_cast)),
    **dict.fromkeys(("make_array", "make_list"), Function(0, MAX_ARGUMENTS, nested.list_of)),
    **dict.fromkeys(("array_length", "list_length", "cardinality"), Function(1, 1, nested.length)),
    **dict.fromkeys(("empty", "array_empty", "list_empty"), Function(1, 1, nested.is_empty)),
    **{name: Function(2, 2, nested.has) for name in _named("has", "contains")},
    **{name: Function(2, 2, list_sets.has_any) for name in (*_named("has_any"), "arrays_overlap")},
    **{name: Function(2, 2, list_sets.has_all) for name in _named("has_all", "contains_all")},
    **{name: Function(2, 2, nested.position) for name in _named("position", "indexof")},
    **{name: Function(2, 2, nested.item) for name in _named("element", "extract")},
    **{name: Function(2, 2, lists.append) for name in _named("append", "push_back")},
    **{name: Function(2, 2, lists.prepend) for name in _named("prepend", "push_front")},
    **{name: Function(1, MAX_ARGUMENTS, lists.concat) for name in _named("concat", "cat")},
    **{name: Function(1, 1, lists.reverse) for name in _named("reverse")},
    **{name: Function(1, 1, lists.without_end(at_end=True)) for name in _named("pop_back")},
    **{name: Function(1, 1, lists.without_end(at_end=False)) for name in _named("pop_front")},
    **{name: Function(1, 3, lists.sort) for name in _named("sort")},
    **{name: Function(1, 1, list_sets.distinct) for name in _named("distinct")},
    **{name: Function(1, 1, lists.extreme(greatest=True)) for name in _named("max")},
    **{name: Function(1, 1, lists.extreme(greatest=False)) for name in _named("min")},
    **{name: Function(2, 2, list_items.removing(_FIRST_ITEM)) for name in _named("remove")},
    **{name: Function(3, 3, list_items.removing(None)) for name in _named("remove_n")},
    **{name: Function(2, 2, list_items.removing(_ALL)) for name in _named("remove_all")},
    **{name: Function(3, 3, list_items.replacing(_FIRST_ITEM)) for name in _named("replace")},
    **{name: Function(4, 4, list_items.replacing(None)) for name in _named("replace_n")},
    **{name: Function(3, 3, list_items.replacing(_ALL)) for name in _named("replace_all")},
    **{name: Function(2, 2, list_items.positions) for name in _named("positions")},
    **{name: Function(2, 2, list_sets.union) for name in _named("union")},
    **{name: Function(2, 2, list_sets.intersection) for name in _named("intersect")},
    **{name: Function(2, 2, list_sets.difference) for name in _named("except")},
    **{name: Function(3, 4, list_items.part) for name in _named("slice")},
    **{name: Function(2, 2, list_items.repetition) for name in _named("repeat")},
    **{name: Function(2, 3, list_items.resized) for name in _named("resize")},
    **{name: Function(1, 1, list_items.num_dimensions) for name in _named("ndims")},
    **{name: Function(1, 1, list_items.dimensions) for name in _named("dims")},
    **{name: Function(1, 1, list_items.any_value) for name in _named("any_value")},
    **{name: Function(1, 1, list_items.compact) for name in _named("compact")},
    "generate_series": Function(1, 3, list_items.series(with_last=True)),
    "range": Function(1, 3, list_items.series(with_last=False)),
    "flatten": Function(1, 1, list_items.flattened),
    **{name: Function(2, 3, lists.to_text) for name in _named("to_string", "join")},
}
