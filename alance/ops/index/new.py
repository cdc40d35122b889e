"""An index that is to be made: what it is called, on what, and whether it can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.errors import AlreadyExistsError, InvalidInputError, UnsupportedError
from alance.format.table.apply_indices import FRAGMENT_REUSE, SYSTEM
from alance.ops.lookup.segments import BITMAP, BTREE, struct_paths

if TYPE_CHECKING:
    from alance.format.field import Field
    from alance.format.proto import table_pb2
    from alance.ops.version.snapshot import Snapshot

KINDS: Final = {"BTREE": BTREE, "BITMAP": BITMAP}


@dataclass(frozen=True, slots=True)
class NewIndex:
    """An index that is to be made.

    Attributes:
        train: False: it covers no fragment yet.
    """

    column: str
    kind: str
    name: str | None = None
    replace: bool = True
    train: bool = True


@dataclass(frozen=True, slots=True)
class Checked:
    """A new index on a version that it can be made of.

    Attributes:
        column: the path of its field, in the case of the field's name.
        leaf: the field of the column.
        old: the segments that it replaces.
    """

    column: str
    kind: str
    name: str
    leaf: Field
    old: tuple[table_pb2.IndexMetadata, ...]

    @property
    def index_type(self) -> str:
        """As parts of an index are told of it."""
        return self.kind


def check_new(base: Snapshot, new: NewIndex) -> Checked:
    """The index as it would be made of a version.

    Raises:
        UnsupportedError: another type of index, or a table whose indices are translated late.
        InvalidInputError: an unknown column, or one whose values have no order.
        AlreadyExistsError: the name is in use.
    """
    kind = KINDS.get(new.kind.upper()) if isinstance(new.kind, str) else None
    if kind is None:
        raise UnsupportedError(
            f"index of type {new.kind!r}: not written by this alance, expected {' or '.join(KINDS)}"
        )
    refuse_reuse(base)
    column = base.schema.in_this_case(new.column)
    leaf = _leaf(base, column)
    name = new.name or f"{'.'.join(base.schema.names_of(column))}_idx"
    old = tuple(message for message in base.manifest.indices if message.name == name)
    check_name(name, old, leaf, replace=new.replace)
    return Checked(column, kind, name, leaf, old)


def refuse_reuse(base: Snapshot) -> None:
    """Raise `UnsupportedError` where addresses in indices would have to be translated."""
    if any(message.name == FRAGMENT_REUSE for message in base.manifest.indices):
        raise UnsupportedError(
            "new index segments beside a fragment-reuse index: not written by this alance"
        )


def check_name(
    name: str, old: tuple[table_pb2.IndexMetadata, ...], leaf: Field, *, replace: bool
) -> None:
    """Make sure that an index may have a name.

    Args:
        old: the segments that have it.

    Raises:
        InvalidInputError: a name of the format, or none.
        AlreadyExistsError: it is in use.
    """
    if not isinstance(name, str) or name in SYSTEM or not name:
        raise InvalidInputError(f"index name {name!r}: expected text that is no name of the format")
    if any(list(message.fields) != [leaf.id] for message in old):
        raise AlreadyExistsError(f"index {name!r}: there is one on other columns; choose a name")
    if old and not replace:
        raise AlreadyExistsError(f"index {name!r}: there is one; name another, or replace=True")


def _leaf(snapshot: Snapshot, column: str) -> Field:
    """The field of a column that can be indexed.

    Raises:
        InvalidInputError: an unknown column, or one whose values have no order.
    """
    leaf = snapshot.schema.field(column)
    paths = dict(struct_paths(snapshot.schema.fields))
    if leaf.id not in paths or not _is_ordered(leaf.arrow_type):
        raise InvalidInputError(
            f"column {column!r} of type {leaf.arrow_type}: no index of ordered values; expected "
            "a boolean, number, text, bytes, decimal, date or time"
        )
    return leaf


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
