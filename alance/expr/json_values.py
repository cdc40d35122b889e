"""The JSON functions: values inside JSON text by key or path, as text, numbers and booleans.

A path is `$`, then `.name`, `:name`, `."any name"`, `["any name"]`, `[0]`, `[last]`, `[last - 1]`;
`$.` may be left out. `.*`, all members, `[*]`, all items, and `[0, last]` lead to several values.
A number, text or boolean is taken for the other where it can be read as such, as Lance does.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance import compute as pc
from alance.errors import InvalidInputError, kernel_errors
from alance.expr.arithmetic import whole_argument
from alance.expr.text import as_text, literal_text
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

    from alance.arrays import Bytes, Int64s

# Kinds of values as the kernel tells them.
NOTHING, NULL, BOOLEAN, TEXT, ARRAY = 0, 1, 2, 4, 5
KIND_NAMES: Final = ("nothing", "null", "booleans", "numbers", "texts", "arrays", "objects")
LAST: Final = -2  # and -2 - n the n-th before it
ALL_ITEMS: Final = -(1 << 63)
ALL_MEMBERS: Final = ALL_ITEMS + 1
NOWHERE: Final = 1 << 62  # an item that no array has
WHOLE, FIRST, EACH = range(3)  # of several values: an array of them; the first; always an array

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
_MORE: Final = re.compile(r"\?|\bto\b", re.IGNORECASE)  # what paths have besides


class Step(NamedTuple):
    """One step down: to the member of a name, or to the item of an index.

    Attributes:
        item: or `ALL_ITEMS`, `ALL_MEMBERS`.
        others: items beside it, whose values come after.
    """

    name: str | None
    item: int | None
    others: tuple[int, ...] = ()

    @property
    def is_single(self) -> bool:
        """There is one value at most."""
        return not self.others and self.item not in (ALL_ITEMS, ALL_MEMBERS)


class Texts(NamedTuple):
    """JSON values found in each row: their text, and what they are."""

    values: pa.LargeStringArray
    kinds: Bytes


def get(name: str, args: list[Node]) -> Node:
    """json_get(json, key): the JSON text of a member or item; null where there is none."""
    steps = [_key(name, args[1])]
    values = _reading(name, args, steps, lambda texts: texts.values, plain=False)
    return _meaning(values, args[0], steps, is_scalar=False)


def get_text(name: str, args: list[Node]) -> Node:
    """json_get_string(json, key): a text without its quotes, other scalars as written."""
    return _member(name, args, _scalars(name, lambda texts: texts.values))


def get_whole(name: str, args: list[Node]) -> Node:
    """json_get_int(json, key): as int64; fractions are rounded, half away from zero."""
    return _member(name, args, _scalars(name, _numbers(_kernels.json_whole, "int64")))


def get_real(name: str, args: list[Node]) -> Node:
    """json_get_float(json, key): as float64."""
    return _member(name, args, _scalars(name, _numbers(_kernels.json_real, "float64")))


def get_truth(name: str, args: list[Node]) -> Node:
    """json_get_bool(json, key): of a boolean, or of a text that says one."""
    return _member(name, args, _scalars(name, _truth))


def _member(name: str, args: list[Node], read: Callable[[Texts], pa.Array]) -> Node:
    step = _key(name, args[1])
    return _meaning(_reading(name, args, [step], read), args[0], [step], is_scalar=True)


def _meaning(values: Node, document: Node, steps: Sequence[Step], *, is_scalar: bool) -> Node:
    """The node with the path that it reads."""
    document, path = _whole_path(document, steps)
    if not all(step.is_single for step in path):
        return values
    names = tuple((step.name, step.item) for step in path)
    return meaning(values, JsonValue(document, names, is_scalar))


def _whole_path(document: Node, steps: Sequence[Step]) -> tuple[Node, tuple[Step, ...]]:
    """A value inside of a value is one of the document."""
    inside = document.meaning if isinstance(document, Call) else None
    if isinstance(inside, JsonValue) and not inside.is_scalar:
        above = tuple(Step(*step) for step in inside.steps)
        return inside.node, (*above, *steps)
    return document, tuple(steps)


def extract(name: str, args: list[Node]) -> Node:
    """json_extract(json, path): the JSON text of a value, or of an array of several values; null
    where there is none.
    """
    steps = _path(name, literal_text(name, args[1]))
    values = _reading(name, args, steps, lambda texts: texts.values, plain=False)
    return _meaning(values, args[0], steps, is_scalar=False)


def exists(name: str, args: list[Node]) -> Node:
    """json_exists(json, path): whether there is a value, were it a JSON null."""

    def test(documents: pa.Array) -> pa.Array:
        texts = _find(documents, steps, plain=False)
        return _where_valid(to_arrow(texts.kinds != NOTHING), documents)

    steps = _path(name, literal_text(name, args[1]))
    return call(name, test, as_text(name, args[0]))


def array_length(name: str, args: list[Node]) -> Node:
    """json_array_length(json, path): items as int64; 0 of what is no array, null of nothing; of
    several values those of the first.
    """

    def count(texts: Texts) -> pa.Array:
        return to_arrow(_kernels.json_lengths(*_buffers(texts.values)))

    steps = _path(name, literal_text(name, args[1]))
    return _reading(name, args, steps, count, plain=False, answer=FIRST)


def array_contains(name: str, args: list[Node]) -> Node:
    """json_array_contains(json, path, value): a literal, as JSON or as the text that it is; of
    several values in any that is an array.
    """
    steps, items = _path(name, literal_text(name, args[1])), _as_items(name, args[2])

    def test(documents: pa.Array) -> pa.Array:
        buffers = _buffers(_find(documents, steps, plain=False, answer=EACH).values)
        answers = np.zeros(len(documents), np.uint8)
        for item in items:
            answers |= _kernels.json_has(*buffers, np.frombuffer(item.encode(), np.uint8))
        return _where_valid(to_arrow(answers.view(np.bool_)), documents)

    return call(name, test, as_text(name, args[0]))


def path_steps(path: str) -> tuple[Step, ...]:
    """The steps of the path of an index.

    Raises:
        Problem: no path, or one with parts that are not evaluated here.
    """
    steps = tuple(_path("JSON index", path))
    if not all(step.is_single for step in steps):
        raise Problem(
            f'JSON index: path {path!r}: expected .name, ["name"], [0] or [last], found several'
        )
    return steps


def scalars(documents: pa.Array, steps: Sequence[Step]) -> pa.Array:
    """The values at a path: of the one type int64, float64, text or boolean that all have.

    Whole numbers beside others, or beyond int64, are float64. Null where there is none, or a JSON
    null; of the type null where there is no value at all.

    Raises:
        Problem: values of several types, arrays or objects.
    """
    texts = _find(documents, steps, plain=True)
    kinds = np.unique(texts.kinds[texts.kinds > NULL]).tolist()
    if not kinds:
        return pa.nulls(len(documents))
    if len(kinds) > 1 or kinds[0] >= ARRAY:
        said = ", ".join(KIND_NAMES[kind] for kind in kinds)
        raise Problem(
            f"values at the path: expected numbers, texts or booleans alone, found {said}"
        )
    is_there = to_arrow(texts.kinds > NULL)
    values = pc.if_else(is_there, texts.values, as_scalar(None, pa.large_string()))
    if kinds == [BOOLEAN]:
        return pc.equal(values, as_scalar("true", pa.large_string()))
    if kinds == [TEXT]:
        return pc.cast(values, pa.string())
    if pc.all(pc.match_substring_regex(values, r"^-?\d{1,19}$")).as_py():
        # Of 19 digits some are beyond int64.
        with contextlib.suppress(pa.ArrowInvalid):
            return pc.cast(values, pa.int64())
    return pc.cast(values, pa.float64())


def _reading(
    name: str,
    args: list[Node],
    steps: Sequence[Step],
    read: Callable[[Texts], pa.Array],
    *,
    plain: bool = True,
    answer: int = WHOLE,
) -> Node:
    """A call that reads the values found; null where nothing is or, where `plain`, a JSON null."""

    document, path = _whole_path(args[0], steps)

    def evaluate(documents: pa.Array) -> pa.Array:
        texts = _find(documents, path, plain=plain, answer=answer)
        is_there = texts.kinds > (NULL if plain else NOTHING)
        plain_texts = texts.values
        if not is_there.all():
            nothing = as_scalar(None, pa.large_string())
            plain_texts = pc.if_else(to_arrow(is_there), plain_texts, nothing)
        values = read(Texts(plain_texts, texts.kinds))
        if values.null_count != plain_texts.null_count:
            values = pc.if_else(to_arrow(is_there), values, as_scalar(None, values.type))
        return pc.cast(values, pa.string()) if pa.types.is_large_string(values.type) else values

    return call(name, evaluate, as_text(name, document))


def _find(documents: pa.Array, steps: Sequence[Step], *, plain: bool, answer: int = WHOLE) -> Texts:
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
    """Offsets and bytes of texts, nothing for nulls."""
    texts = pc.fill_null(texts, as_scalar("", pa.large_string())) if texts.null_count else texts
    return contents_of(texts)


def _where_valid(answers: pa.Array, documents: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_valid(documents), answers, as_scalar(None, answers.type))


def _scalars(name: str, read: Callable[[Texts], pa.Array]) -> Callable[[Texts], pa.Array]:
    """The reader, refusing arrays and objects."""

    def check(texts: Texts) -> pa.Array:
        nested = np.flatnonzero(texts.kinds >= ARRAY)
        if len(nested):
            value = texts.values[int(nested[0])].as_py()
            raise Problem(f"{name}: expected a number, text or boolean, found {value[:60]}")
        return read(texts)

    return check


def _numbers(read: Callable[..., tuple[Any, int]], type_: str) -> Callable[[Texts], pa.Array]:
    """What makes numbers of texts, booleans being 1 and 0."""

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


def _key(name: str, node: Node) -> Step:
    """The step of a key: a member's name, or an item's index from zero."""
    if pa.types.is_integer(node.type):
        return Step(None, whole_argument(name, node, 0, 1 << 31))
    key = literal_text(name, node)
    return Step(key, int(key) if re.fullmatch(r"\+?[0-9]{1,18}", key) else None)


def _path(name: str, text: str) -> list[Step]:
    """The steps of a JSON path.

    Raises:
        Problem: no path, or one with parts that are not evaluated here.
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
            steps.append(Step(None, ALL_MEMBERS if members else ALL_ITEMS))
        elif indices is not None:
            first, *others = (_place(index) for index in indices.split(","))
            steps.append(Step(None, first, tuple(others)))
        elif bare is not None:
            steps.append(Step(bare, None))
        else:
            steps.append(Step(json.loads(f'"{inside if quoted is None else quoted}"'), None))
        start = len(path) - len(path[match.end() :].lstrip())
    return steps


def _place(index: str) -> int:
    """The item of an index, as the kernel wants it."""
    index = "".join(index.lower().split())
    if not index.startswith("last"):
        return int(index) if int(index) >= 0 else NOWHERE
    before = -int(index[4:] or "0")
    return LAST - before if before >= 0 else NOWHERE


def _as_items(name: str, node: Node) -> list[str]:
    """A literal as JSON text: as the JSON that it is, and where it is text, as that text."""
    if not isinstance(node, Literal) or not node.value.is_valid:
        raise Problem(f"{name}: a value that is no literal", unsupported=True)
    value = node.value.as_py()
    written = value if isinstance(value, str) else node.digits or str(value).lower()
    texts = [_compact(written), _compact(json.dumps(written))]
    return list(dict.fromkeys(text for text in texts if text is not None))


def _compact(text: str) -> str | None:
    """JSON text as it is read from a column; None where it is no JSON."""
    try:
        values = jsonb(pa.array([text], pa.large_string()), None, "value")
    except InvalidInputError:
        return None
    content = json_text(values, None)
    return bytes(content.data[: int(content.offsets[-1])]).decode()
