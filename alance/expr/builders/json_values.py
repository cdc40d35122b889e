"""SQL functions on JSON: values of JSON text or JSONB by key or path, in various types.

A path is `$`, then `.name`, `:name`, `."any name"`, `["any name"]`, `[0]`, `[last]`, `[last - 1]`;
`$.` may be omitted. `.*` (all members), `[*]` (all items) and `[0, last]` select several values. As
in Lance, numbers, texts and booleans are converted to each other where possible.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base import compute as pc
from alance.errors import InvalidInputError, kernel_errors
from alance.expr.arithmetic import whole_argument
from alance.expr.builders.text import as_text, literal_text
from alance.expr.tree import Call, JsonValue, Literal, Node, Problem, call, meaning
from alance.format.jsonb import json_text, jsonb
from alance.format.numbers import (
    as_scalar,
    contents_of,
    mask_bytes,
    strings_array,
    to_arrow,
    validity_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.base.arrays import Bytes, Int64s

# Kinds of values, numbered as in the kernel; JSON_MISSING: there is no value at the path.
JSON_MISSING, JSON_NULL, JSON_BOOLEAN, JSON_TEXT, JSON_ARRAY = 0, 1, 2, 4, 5
KIND_NAMES: Final = ("nothing", "null", "booleans", "numbers", "texts", "arrays", "objects")
LAST_ITEM: Final = -2  # index of the last item; LAST_ITEM - n is the n-th before it
ALL_ITEMS: Final = -(1 << 63)
ALL_MEMBERS: Final = ALL_ITEMS + 1
NO_ITEM: Final = 1 << 62  # index that no array has
# Result of a path that may select several values. ALL_MATCHES: an array if it selects several;
# FIRST_MATCH: the first value; EACH_MATCH: an array, even of a single value.
ALL_MATCHES, FIRST_MATCH, EACH_MATCH = range(3)

_INDEX: Final = r"(?:-?\d{1,9}|last(?:\s*[-+]\s*\d{1,9})?)"
_STEP: Final = re.compile(
    rf"""[.:](?P<bare>\w+)
      | [.:]"(?P<quoted>(?:[^"\\]|\\.)*)"
      | \[\s*"(?P<inside>(?:[^"\\]|\\.)*)"\s*\]
      | \[\s*(?P<indices>{_INDEX}(?:\s*,\s*{_INDEX})*)\s*\]
      | (?P<members>\.\*)
      | (?P<items>\[\s*\*\s*\])""",
    re.VERBOSE | re.IGNORECASE,
)
_MORE: Final = re.compile(r"\?|\bto\b", re.IGNORECASE)  # path syntax that is not supported


class PathStep(NamedTuple):
    """A step of a path, to a member or to items. A key of digits may mean either, and sets both.

    Attributes:
        name: name of the member; None if the step leads only to items.
        item: index of the item, `ALL_ITEMS` or `ALL_MEMBERS`; None if it leads only to a member.
        others: indices of further items, in order.
    """

    name: str | None
    item: int | None
    others: tuple[int, ...] = ()

    @property
    def is_single(self) -> bool:
        """True if the step leads to at most one value."""
        return not self.others and self.item not in (ALL_ITEMS, ALL_MEMBERS)


class Texts(NamedTuple):
    """Value of each row at a path: its JSON text and its kind."""

    values: pa.LargeStringArray
    kinds: Bytes


def get(name: str, args: list[Node]) -> Node:
    """json_get(json, key): the JSON text of a member or item; null if there is none."""
    steps = [_key(name, args[1])]
    values = _reading(name, args, steps, lambda texts: texts.values, plain=False)
    return _meaning(values, args[0], steps, is_scalar=False)


def get_text(name: str, args: list[Node]) -> Node:
    """json_get_string(json, key): a text without quotes; a number or boolean as written."""
    return _member(name, args, _scalars(name, lambda texts: texts.values))


def get_whole(name: str, args: list[Node]) -> Node:
    """json_get_int(json, key): an int64; fractions are rounded, halves away from zero."""
    return _member(name, args, _scalars(name, _numbers(_kernels.json_whole, "int64")))


def get_real(name: str, args: list[Node]) -> Node:
    """json_get_float(json, key): a float64."""
    return _member(name, args, _scalars(name, _numbers(_kernels.json_real, "float64")))


def get_truth(name: str, args: list[Node]) -> Node:
    """json_get_bool(json, key): a boolean, also from the texts true, yes, false and no."""
    return _member(name, args, _scalars(name, _truth))


def _member(name: str, args: list[Node], read: Callable[[Texts], pa.Array]) -> Node:
    step = _key(name, args[1])
    return _meaning(_reading(name, args, [step], read), args[0], [step], is_scalar=True)


def _meaning(values: Node, document: Node, steps: Sequence[PathStep], *, is_scalar: bool) -> Node:
    """Attach the JSON path of `values` as a `Meaning`, unless the path selects several values."""
    document, path = _whole_path(document, steps)
    if not all(step.is_single for step in path):
        return values
    names = tuple((step.name, step.item) for step in path)
    return meaning(values, JsonValue(document, names, is_scalar))


def _whole_path(document: Node, steps: Sequence[PathStep]) -> tuple[Node, tuple[PathStep, ...]]:
    """Return the root document of a path, and the path from that root.

    The two differ from the arguments if `document` is itself a value at a path of a document.
    """
    inside = document.meaning if isinstance(document, Call) else None
    if isinstance(inside, JsonValue) and not inside.is_scalar:
        above = tuple(PathStep(*step) for step in inside.steps)
        return inside.node, (*above, *steps)
    return document, tuple(steps)


def extract(name: str, args: list[Node]) -> Node:
    """json_extract(json, path): the JSON text of the value, or of an array of several values.

    Null if there is no value.
    """
    steps = _path(name, literal_text(name, args[1]))
    values = _reading(name, args, steps, lambda texts: texts.values, plain=False)
    return _meaning(values, args[0], steps, is_scalar=False)


def exists(name: str, args: list[Node]) -> Node:
    """json_exists(json, path): true if there is a value, which may be a JSON null."""

    def test(documents: pa.Array) -> pa.Array:
        texts = _find(documents, steps, plain=False)
        return _where_valid(to_arrow(texts.kinds != JSON_MISSING), documents)

    steps = _path(name, literal_text(name, args[1]))
    return call(name, test, as_text(name, args[0]))


def array_length(name: str, args: list[Node]) -> Node:
    """json_array_length(json, path): the number of items as int64.

    0 if the value is not an array, null if there is no value. Of several values, the first counts.
    """

    def count(texts: Texts) -> pa.Array:
        return to_arrow(_kernels.json_lengths(*_buffers(texts.values)))

    steps = _path(name, literal_text(name, args[1]))
    return _reading(name, args, steps, count, plain=False, answer=FIRST_MATCH)


def array_contains(name: str, args: list[Node]) -> Node:
    """json_array_contains(json, path, value): true if the array contains a literal.

    A literal is equal to the JSON value that it spells, and to a string of the same text: 1 occurs
    in `[1]` and in `["1"]`. If the path selects several arrays, any of them may contain it.
    """
    steps, items = _path(name, literal_text(name, args[1])), _as_items(name, args[2])

    def test(documents: pa.Array) -> pa.Array:
        buffers = _buffers(_find(documents, steps, plain=False, answer=EACH_MATCH).values)
        answers = np.zeros(len(documents), np.uint8)
        for item in items:
            answers |= _kernels.json_has(*buffers, np.frombuffer(item.encode(), np.uint8))
        return _where_valid(to_arrow(answers.view(np.bool_)), documents)

    return call(name, test, as_text(name, args[0]))


def path_steps(path: str) -> tuple[PathStep, ...]:
    """Parse the path of a JSON index.

    Raises:
        Problem: the text is not a path, leads to several values, or has unsupported parts.
    """
    steps = tuple(_path("JSON index", path))
    if not all(step.is_single for step in steps):
        raise Problem(
            f'JSON index: path {path!r}: expected .name, ["name"], [0] or [last], found several'
        )
    return steps


def scalars(documents: pa.Array, steps: Sequence[PathStep]) -> pa.Array:
    """Return the values at a path, which must all be numbers, all texts or all booleans.

    Returns:
        int64, float64, text or booleans; numbers are float64 unless all are integers that fit
        int64. Null for a document with no value or a JSON null. If no document has a value, the
        type is null.

    Raises:
        Problem: the values have several types, or are arrays or objects.
    """
    texts = _find(documents, steps, plain=True)
    kinds = np.unique(texts.kinds[texts.kinds > JSON_NULL]).tolist()
    if not kinds:
        return pa.nulls(len(documents))
    if len(kinds) > 1 or kinds[0] >= JSON_ARRAY:
        names = ", ".join(KIND_NAMES[kind] for kind in kinds)
        raise Problem(
            f"values at the path: expected numbers, texts or booleans alone, found {names}"
        )
    present = to_arrow(texts.kinds > JSON_NULL)
    values = pc.if_else(present, texts.values, as_scalar(None, pa.large_string()))
    if kinds == [JSON_BOOLEAN]:
        return pc.equal(values, as_scalar("true", pa.large_string()))
    if kinds == [JSON_TEXT]:
        return pc.cast(values, pa.string())
    if pc.all(pc.match_substring_regex(values, r"^-?\d{1,19}$")).as_py():
        # Not all integers of 19 digits fit int64.
        with contextlib.suppress(pa.ArrowInvalid):
            return pc.cast(values, pa.int64())
    return pc.cast(values, pa.float64())


def _reading(
    name: str,
    args: list[Node],
    steps: Sequence[PathStep],
    read: Callable[[Texts], pa.Array],
    *,
    plain: bool = True,
    answer: int = ALL_MATCHES,
) -> Node:
    """Build the call of a function on the values at a path; null if there is no value.

    Args:
        read: computes the results from the values.
        plain: True to read texts without quotes, and JSON nulls as null.
        answer: result for a path that selects several values: `ALL_MATCHES`, `FIRST_MATCH` or
            `EACH_MATCH`.
    """
    document, path = _whole_path(args[0], steps)

    def evaluate(documents: pa.Array) -> pa.Array:
        texts = _find(documents, path, plain=plain, answer=answer)
        present = texts.kinds > (JSON_NULL if plain else JSON_MISSING)
        plain_texts = texts.values
        if not present.all():
            nothing = as_scalar(None, pa.large_string())
            plain_texts = pc.if_else(to_arrow(present), plain_texts, nothing)
        values = read(Texts(plain_texts, texts.kinds))
        if values.null_count != plain_texts.null_count:
            values = pc.if_else(to_arrow(present), values, as_scalar(None, values.type))
        return pc.cast(values, pa.string()) if pa.types.is_large_string(values.type) else values

    return call(name, evaluate, as_text(name, document))


def _find(
    documents: pa.Array, steps: Sequence[PathStep], *, plain: bool, answer: int = ALL_MATCHES
) -> Texts:
    flat = [
        (step.name if place == 0 else None, item, place > 0)
        for step in steps
        for place, item in enumerate((step.item, *step.others))
    ]
    names = [(name or "").encode() for name, _, _ in flat]
    path = (
        np.cumsum([len(name) for name in names], dtype=np.int64),
        np.frombuffer(b"".join(names), np.uint8),
        np.array([-1 if item is None else item for _, item, _ in flat], np.int64),
        np.array([(name is not None) + 2 * is_other for name, _, is_other in flat], np.uint8),
    )
    if pa.types.is_large_binary(documents.type):  # JSONB
        valid = mask_bytes(validity_of(documents))
        with kernel_errors:
            parts = _kernels.jsonb_find(*contents_of(documents), valid, *path, plain, answer)
    else:
        texts = pc.cast(documents, pa.large_string())
        parts = _kernels.json_find(*_buffers(texts), *path, plain, answer)
    offsets, content, kinds = parts
    return Texts(strings_array(pa.large_string(), offsets, content), kinds)


def _buffers(texts: pa.LargeStringArray) -> tuple[Int64s, Bytes]:
    """Return the offsets and bytes of texts; nulls are empty."""
    texts = pc.fill_null(texts, as_scalar("", pa.large_string())) if texts.null_count else texts
    return contents_of(texts)


def _where_valid(answers: pa.Array, documents: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_valid(documents), answers, as_scalar(None, answers.type))


def _scalars(name: str, read: Callable[[Texts], pa.Array]) -> Callable[[Texts], pa.Array]:
    """Return a reader that raises for arrays and objects, and calls `read` for other values."""

    def check(texts: Texts) -> pa.Array:
        nested = np.flatnonzero(texts.kinds >= JSON_ARRAY)
        if len(nested):
            value = texts.values[int(nested[0])].as_py()
            raise Problem(f"{name}: expected a number, text or boolean, found {value[:60]}")
        return read(texts)

    return check


def _numbers(read: Callable[..., tuple[Any, int]], type_: str) -> Callable[[Texts], pa.Array]:
    """Return a reader of numbers; booleans become 1 and 0."""

    def evaluate(texts: Texts) -> pa.Array:
        numbers, strange = read(*_buffers(texts.values), texts.kinds)
        if strange >= 0:
            value = texts.values[strange].as_py()
            raise Problem(f"JSON: expected a number of type {type_}, found {value[:60]!r}")
        return to_arrow(numbers)

    return evaluate


def _truth(texts: Texts) -> pa.Array:
    values = pc.utf8_lower(texts.values)
    is_true = pc.is_in(values, value_set=pa.array(["true", "yes"], pa.large_string()))
    readable = pc.or_(
        is_true, pc.is_in(values, value_set=pa.array(["false", "no"], pa.large_string()))
    )
    strange = texts.values.filter(pc.and_(pc.invert(readable), pc.is_valid(values)))
    if len(strange):
        raise Problem(f"json_get_bool: expected a boolean, found {strange[0].as_py()[:60]}")
    return is_true


def _key(name: str, node: Node) -> PathStep:
    """Return the step of a key: a name, an index from 0, or both for text of digits.

    Raises:
        Problem: the key is not a literal text or integer.
    """
    if pa.types.is_integer(node.type):
        return PathStep(None, whole_argument(name, node, 0, 1 << 31))
    key = literal_text(name, node)
    return PathStep(key, int(key) if re.fullmatch(r"\+?[0-9]{1,18}", key) else None)


def _path(name: str, text: str) -> list[PathStep]:
    """Parse a JSON path.

    Raises:
        Problem: the text is not a path, or has unsupported parts.
    """
    path = text.strip()
    if path.startswith("$"):
        path = path[1:]
    elif path and path[0] not in ".[":
        path = f".{path}"
    steps, start = [], len(path) - len(path.lstrip())
    while start < len(path):
        match = _STEP.match(path, start)
        if match is None:
            raise Problem(
                f'{name}: path {text!r}: expected .name, ["name"], [0] or [last], '
                f"found {path[start:][:20]!r}",
                unsupported=_MORE.search(path, start) is not None,
            )
        bare, quoted, inside, indices, members, items = match.groups()
        if members or items:
            steps.append(PathStep(None, ALL_MEMBERS if members else ALL_ITEMS))
        elif indices is not None:
            first, *others = (_place(index) for index in indices.split(","))
            steps.append(PathStep(None, first, tuple(others)))
        elif bare is not None:
            steps.append(PathStep(bare, None))
        else:
            steps.append(PathStep(json.loads(f'"{inside if quoted is None else quoted}"'), None))
        start = len(path) - len(path[match.end() :].lstrip())
    return steps


def _place(index: str) -> int:
    """Return the kernel's code of an item's index such as `2` or `last - 1`."""
    index = "".join(index.lower().split())
    if not index.startswith("last"):
        return int(index) if int(index) >= 0 else NO_ITEM
    before = -int(index[4:] or "0")
    return LAST_ITEM - before if before >= 0 else NO_ITEM


def _as_items(name: str, node: Node) -> list[str]:
    """Return the JSON texts that equal a literal: as a string, and as written if that is JSON."""
    if not isinstance(node, Literal) or not node.value.is_valid:
        raise Problem(f"{name}: expected a literal as value", unsupported=True)
    value = node.value.as_py()
    written = value if isinstance(value, str) else node.digits or str(value).lower()
    texts = [_compact(written), _compact(json.dumps(written))]
    return list(dict.fromkeys(text for text in texts if text is not None))


def _compact(text: str) -> str | None:
    """Return JSON text as columns of JSON return it; None if the text is not JSON."""
    try:
        values = jsonb(pa.array([text], pa.large_string()), None, "value")
    except InvalidInputError:
        return None
    content = json_text(values, None)
    return bytes(content.data[: int(content.offsets[-1])]).decode()
