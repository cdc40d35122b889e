"""An index that is to be made: what it is called, on what, whether it can be; and its commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from alance.errors import AlreadyExistsError, InvalidInputError, UnsupportedError
from alance.format.index.bloom import is_hashed
from alance.format.paths import join_path
from alance.format.table.apply_indices import FRAGMENT_REUSE, SYSTEM
from alance.format.table.operations_meta import CreateIndex
from alance.ops.lookup.segments import (
    BITMAP,
    BLOOM,
    BTREE,
    LABELS,
    NGRAMS,
    ZONES,
    struct_paths,
)
from alance.ops.version.commits import commit_change

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from alance.format.field import Field
    from alance.format.proto import table_pb2
    from alance.format.table.indices import Index
    from alance.ops.index.segment_files import NewSegment
    from alance.ops.version.commit_options import CommitOptions
    from alance.ops.version.snapshot import Snapshot

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
        InvalidInputError: an unknown column, or one that such an index cannot be of.
        AlreadyExistsError: the name is in use.
    """
    kind = KINDS.get(new.kind.upper()) if isinstance(new.kind, str) else None
    if kind is None:
        raise UnsupportedError(
            f"index of type {new.kind!r}: not written by this alance, "
            f"expected {', '.join(KINDS)}, INVERTED, or of vectors IVF_FLAT, IVF_SQ, IVF_PQ"
        )
    refuse_reuse(base)
    column = base.schema.in_this_case(new.column)
    leaf = _leaf(base, column, kind)
    name, old = check_name(base, new.name, column, leaf, replace=new.replace)
    return Checked(column, kind, name, leaf, old)


def refuse_reuse(base: Snapshot) -> None:
    """Raise `UnsupportedError` where addresses in indices would have to be translated."""
    if any(message.name == FRAGMENT_REUSE for message in base.manifest.indices):
        raise UnsupportedError(
            "new index segments beside a fragment-reuse index: not written by this alance"
        )


def check_name(
    base: Snapshot, name: str | None, column: str, leaf: Field, *, replace: bool
) -> tuple[str, tuple[table_pb2.IndexMetadata, ...]]:
    """The name of a new index, and the segments that it replaces.

    Args:
        name: None: the column's, and `_idx`.

    Raises:
        InvalidInputError: a name of the format, or none.
        AlreadyExistsError: it is in use.
    """
    name = name or f"{'.'.join(base.schema.names_of(column))}_idx"
    if not isinstance(name, str) or name in SYSTEM:
        raise InvalidInputError(f"index name {name!r}: expected text that is no name of the format")
    old = tuple(message for message in base.manifest.indices if message.name == name)
    if any(list(message.fields) != [leaf.id] for message in old):
        raise AlreadyExistsError(f"index {name!r}: there is one on other columns; choose a name")
    if old and not replace:
        raise AlreadyExistsError(f"index {name!r}: there is one; name another, or replace=True")
    return name, old


def indexed_column(base: Snapshot, index: Index) -> str | None:
    """The path of the one column that an index is on; None: it is gone, or there are several."""
    paths = dict(struct_paths(base.schema.fields))
    if len(index.fields) != 1 or index.fields[0] not in paths:
        return None
    return join_path(paths[index.fields[0]])


async def commit_segments(
    base: Snapshot,
    new: Mapping[NewSegment, Collection[int]],
    old: Sequence[table_pb2.IndexMetadata],
    options: CommitOptions,
    summary: dict[str, Any] | None = None,
) -> Snapshot:
    """The version that has new segments, of some fragments each, in the place of old ones.

    Raises:
        UnsupportedError: a table whose indices are translated late.
    """
    refuse_reuse(base)

    async def discard() -> None:
        for segment in new:
            await segment.discard()

    try:
        messages = [await segment.build(fragments) for segment, fragments in new.items()]
    except BaseException:
        await discard()
        raise
    change = CreateIndex(new_indices=tuple(messages), removed_indices=tuple(old))
    return await commit_change(base, change, options, discard=discard, summary=summary)


def _leaf(snapshot: Snapshot, column: str, kind: str) -> Field:
    """The field of a column that can be indexed.

    Raises:
        InvalidInputError: an unknown column, or one that such an index cannot be of.
    """
    leaf = snapshot.schema.field(column)
    paths = dict(struct_paths(snapshot.schema.fields))
    if leaf.id not in paths or not _suits(kind, leaf.arrow_type):
        raise InvalidInputError(
            f"column {column!r} of type {leaf.arrow_type}: no {kind} index of it; "
            f"expected {COLUMNS[kind]}"
        )
    return leaf


def _suits(kind: str, type_: pa.DataType) -> bool:
    """Whether an index of a kind can be of values of a type."""
    if kind == LABELS:
        is_list = pa.types.is_list(type_) or pa.types.is_large_list(type_)
        return is_list and _is_ordered(type_.value_type)
    if kind == NGRAMS:
        return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))
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
