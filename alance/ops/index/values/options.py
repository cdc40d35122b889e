"""Options of scalar indices, and the check of the column's type."""

from __future__ import annotations

from dataclasses import field
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    Protocol,
    TypeAlias,
    TypedDict,
    runtime_checkable,
)

from alance.base.checks import check_count, did_you_mean, unexpected
from alance.base.records import dataclass
from alance.errors import InvalidInputError, UnsupportedError
from alance.expr.builders.json_values import path_steps
from alance.expr.tree import Problem
from alance.format.index.zones import INDEX_ZONE_ROWS, WRONG, ZoneOptions
from alance.ops.index.values.sort import SORT_MEMORY_BYTES
from alance.ops.lookup.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from alance.ops.lookup.kinds.kind import IndexKind


ScalarIndexKind: TypeAlias = Literal[
    "BTREE", "BITMAP", "LABEL_LIST", "NGRAM", "FM", "ZONEMAP", "BLOOMFILTER", "JSON"
]
JsonIndexKind: TypeAlias = Literal["BTREE", "BITMAP", "NGRAM", "ZONEMAP"]


class ValueIndexArguments(TypedDict, total=False):
    """Keyword arguments of `create_scalar_index` for indices of values.

    Attributes:
        path: for "JSON": path of the values, such as `a.b`, `$.a.b` or `$.a[0]`.
        target_index_type: for "JSON": "BTREE", "BITMAP", "NGRAM" or "ZONEMAP".
        rows_per_zone: for "ZONEMAP": default 8192.
        number_of_items: for "BLOOMFILTER": rows per filter, default 8192.
        probability: for "BLOOMFILTER": rate of false positives, default 0.00057.
        memory_bytes: memory budget of the build, 256 MiB by default, at least 1 MiB; further rows
            are spilled to the local disk; "FM" splits them into partitions instead. Builds of
            "ZONEMAP" and "BLOOMFILTER" take a few MiB.
    """

    path: str
    target_index_type: JsonIndexKind
    rows_per_zone: int
    number_of_items: int
    probability: float
    memory_bytes: int


@runtime_checkable
class IndexConfig(Protocol):
    """Index kind with its arguments, such as pylance's `lance.indices.IndexConfig`."""

    @property
    def index_type(self) -> str:
        """Name of the kind, such as "json"."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Arguments of the kind, as in `ValueIndexArguments`."""


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """Checked options of a scalar index.

    Attributes:
        path: for a JSON index: path of the values in each document.
        zones: options of zone indices.
        memory_bytes: memory budget of the build; further rows are spilled to the local disk.
    """

    path: str | None = None
    zones: ZoneOptions = field(default_factory=ZoneOptions)
    memory_bytes: int = SORT_MEMORY_BYTES


DEFAULT_VALUE_OPTIONS: Final = ValueOptions()
# Defaults of `ValueIndexArguments`, each of the kinds that take the argument.
VALUE_INDEX_DEFAULTS: Final[Mapping[str, Any]] = {
    "target_index_type": "BTREE",
    "rows_per_zone": INDEX_ZONE_ROWS,
    "number_of_items": INDEX_ZONE_ROWS,
    "probability": WRONG,
    "memory_bytes": SORT_MEMORY_BYTES,
}
# In the order of error messages: the default kind first.
KINDS_IN_ERRORS: Final = sorted(KINDS.values(), key=lambda kind: kind.index_type != "BTREE")


def kind_and_options(
    index_type: str, arguments: Mapping[str, Any]
) -> tuple[IndexKind, ValueOptions]:
    """Return the kind of an index and its checked options; for a JSON index the target's kind.

    Raises:
        UnsupportedError: an unknown type of index.
        InvalidInputError: an argument out of range.
        TypeError: an argument that the kind does not take.
    """
    others, path = dict(arguments), None
    type_name = index_type.upper() if isinstance(index_type, str) else ""
    if type_name == "JSON":
        path = _path(others.pop("path", None))
        type_name = str(
            others.pop("target_index_type", VALUE_INDEX_DEFAULTS["target_index_type"])
        ).upper()
    kind = next((kind for kind in KINDS.values() if kind.index_type == type_name), None)
    if kind is None or (path is not None and not kind.of_json):
        expected = [kind.index_type for kind in KINDS_IN_ERRORS if path is None or kind.of_json]
        more = "" if path is not None else _other_kinds()
        hint = did_you_mean(type_name, [*expected, "JSON", "INVERTED"])
        if type_name.startswith("IVF_"):
            hint = f"; write create_index(column, {type_name!r})"
        raise UnsupportedError(
            f"index of type {type_name or index_type!r}: not written by this alance, "
            f"expected {', '.join(expected)}{more}{hint}"
        )
    memory = others.pop("memory_bytes", VALUE_INDEX_DEFAULTS["memory_bytes"])
    check_count("memory_bytes", memory, 1 << 20)
    zones = kind.options(others)
    if others:
        raise unexpected(others, (), f"{kind.name} index: ")
    return kind, ValueOptions(path, zones, memory)


def _path(path: object) -> str:
    if not isinstance(path, str) or not path:
        raise InvalidInputError(f"JSON index: path={path!r}: expected text, such as 'a.b'")
    try:
        path_steps(path)
    except Problem as problem:
        raise InvalidInputError(str(problem)) from problem
    return path


def _other_kinds() -> str:
    """Return the kinds that are not of values, for an error message."""
    from alance.ops.index.vectors.new import WITH_GRAPHS, WITHOUT_GRAPHS

    return f", JSON, INVERTED, or of vectors {', '.join([*WITHOUT_GRAPHS, *WITH_GRAPHS])}"


def check_suits(column: str, kind: IndexKind, type_: pa.DataType) -> None:
    """Check that a kind of index can hold values of a type.

    Raises:
        InvalidInputError: the kind cannot hold such values.
    """
    if not kind.suits(type_):
        raise InvalidInputError(
            f"column {column!r} of type {type_}: no {kind.name} index of it; "
            f"expected {kind.columns}"
        )
