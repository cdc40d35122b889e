"""Of what values an index can be, and how it sums them up."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict, runtime_checkable

import pyarrow as pa

from alance.checks import check_count, unexpected
from alance.errors import InvalidInputError, UnsupportedError
from alance.expr.json_values import path_steps
from alance.expr.tree import Problem
from alance.format.index.bloom import WRONG, is_hashed
from alance.format.index.zones import ZONE_ROWS, ZoneOptions
from alance.format.numbers import is_text
from alance.ops.index.sort import MEMORY
from alance.ops.lookup.segments import BITMAP, BLOOM, BTREE, LABELS, NGRAMS, ZONES
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS: Final = {
    "BTREE": BTREE,
    "BITMAP": BITMAP,
    "LABEL_LIST": LABELS,
    "NGRAM": NGRAMS,
    "ZONEMAP": ZONES,
    "BLOOMFILTER": BLOOM,
}
ORDERED: Final = "a boolean, number, text, bytes, decimal, date or time"
# What columns an index of a kind can be of.
COLUMNS: Final = {
    BTREE: ORDERED,
    BITMAP: ORDERED,
    LABELS: "a list of such as a bitmap index can be of",
    NGRAMS: "text",
    ZONES: ORDERED,
    BLOOM: "a whole number, float32, float64, text, bytes, date or time",
}
OF_JSON: Final = (BTREE, BITMAP, NGRAMS, ZONES)  # what an index of values at a path can be
OF_STABLE_JSON: Final = (BITMAP, NGRAMS)  # and beside stable row ids
MAX_ROWS: Final = 1 << 24  # of a zone: filters of such have 64 MiB


class ValueIndexArguments(TypedDict, total=False):
    """Arguments of `create_scalar_index` for indices of values.

    Attributes:
        path: of "JSON": where the values are, such as `a.b`, `$.a.b` or `$.a[0]`.
        target_index_type: of "JSON": "BTREE", "BITMAP", "NGRAM" or "ZONEMAP".
        rows_per_zone: of "ZONEMAP": 8192, if nothing is said.
        number_of_items: of "BLOOMFILTER": rows of a filter: 8192, if nothing is said.
        probability: of "BLOOMFILTER": how often a filter is wrong about a value: 0.00057, if
            nothing is said.
        memory_bytes: memory budget of the build, 256 MiB by default, at least 1 MiB; rows beyond it
            go to the local disk. Builds of "ZONEMAP" and "BLOOMFILTER" take a few MiB.
    """

    path: str
    target_index_type: str
    rows_per_zone: int
    number_of_items: int
    probability: float
    memory_bytes: int


@runtime_checkable
class IndexConfig(Protocol):
    """A kind of index with its arguments, such as pylance's `lance.indices.IndexConfig`."""

    @property
    def index_type(self) -> str:
        """Such as "json"."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Like `ValueIndexArguments`."""


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """How an index of values is made.

    Attributes:
        path: of a JSON index: of the values in each document.
        zones: of indices of zones.
        memory_bytes: memory budget of the build; rows beyond it go to the local disk.
    """

    path: str | None = None
    zones: ZoneOptions = field(default_factory=ZoneOptions)
    memory_bytes: int = MEMORY


PLAIN: Final = ValueOptions()


def kind_and_options(index_type: str, arguments: Mapping[str, Any]) -> tuple[str, ValueOptions]:
    """The kind of an index, of JSON that of its target, and how it is made.

    Raises:
        UnsupportedError: another type of index.
        InvalidInputError: values that make no sense.
        TypeError: arguments that such an index does not take.
    """
    left, path = dict(arguments), None
    told = index_type.upper() if isinstance(index_type, str) else ""
    if told == "JSON":
        path = _path(left.pop("path", None))
        told = str(left.pop("target_index_type", "BTREE")).upper()
    kind = KINDS.get(told)
    if kind is None or (path is not None and kind not in OF_JSON):
        expected = [name for name, kind in KINDS.items() if path is None or kind in OF_JSON]
        more = (
            ""
            if path is not None
            else ", JSON, INVERTED, or of vectors IVF_FLAT, IVF_PQ, IVF_SQ, IVF_RQ, IVF_HNSW_FLAT, "
            "IVF_HNSW_PQ, IVF_HNSW_SQ"
        )
        raise UnsupportedError(
            f"index of type {told or index_type!r}: not written by this alance, "
            f"expected {', '.join(expected)}{more}"
        )
    memory = left.pop("memory_bytes", MEMORY)
    check_count("memory_bytes", memory, 1 << 20)
    zones = ZoneOptions()
    if kind == ZONES:
        zones = ZoneOptions(_rows("rows_per_zone", left))
    elif kind == BLOOM:
        wrong = left.pop("probability", WRONG)
        if not isinstance(wrong, float) or not 1e-9 <= wrong < 1:
            raise InvalidInputError(
                f"probability={wrong!r}: expected a number from 1e-9 to below 1"
            )
        zones = ZoneOptions(_rows("number_of_items", left), wrong)
    if left:
        raise unexpected(left, (), f"{kind} index: ")
    return kind, ValueOptions(path, zones, memory)


def _path(path: object) -> str:
    if not isinstance(path, str) or not path:
        raise InvalidInputError(f"JSON index: path={path!r}: expected text, such as 'a.b'")
    try:
        path_steps(path)
    except Problem as problem:
        raise InvalidInputError(str(problem)) from problem
    return path


def _rows(name: str, arguments: dict[str, Any]) -> int:
    rows: int = arguments.pop(name, ZONE_ROWS)
    check_count(name, rows, 1, MAX_ROWS)
    return rows


def check_suits(column: str, kind: str, type_: pa.DataType) -> None:
    """
    Raises:
        InvalidInputError: an index of a kind cannot be of such values.
    """
    if not _suits(kind, type_):
        raise InvalidInputError(
            f"column {column!r} of type {type_}: no {kind} index of it; expected {COLUMNS[kind]}"
        )


def _suits(kind: str, type_: pa.DataType) -> bool:
    """Whether an index of a kind can be of values of a type."""
    if kind == LABELS:
        is_list = pa.types.is_list(type_) or pa.types.is_large_list(type_)
        return is_list and _is_ordered(type_.value_type)
    if kind == NGRAMS:
        return is_text(type_)
    return is_hashed(type_) if kind == BLOOM else _is_ordered(type_)


def _is_ordered(type_: pa.DataType) -> bool:
    kinds = pa.types
    checks = (
        kinds.is_boolean,
        kinds.is_integer,
        kinds.is_floating,
        kinds.is_string,
        kinds.is_large_string,
        kinds.is_binary,
        kinds.is_large_binary,
        kinds.is_fixed_size_binary,
        kinds.is_decimal,
        kinds.is_temporal,
    )
    return any(check(type_) for check in checks) and not kinds.is_interval(type_)
