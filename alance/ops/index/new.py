"""A new index: its description, the checks of name and column, and the commit."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from alance.base.checks import check_text
from alance.base.records import dataclass
from alance.errors import AlreadyExistsError, InvalidInputError, UnsupportedError
from alance.format.field import struct_paths
from alance.format.paths import join_path
from alance.format.table.changes.apply_indices import SYSTEM
from alance.format.table.indices import FRAGMENT_REUSE
from alance.format.table.operations import CreateIndex
from alance.ops.index.values.options import (
    IndexConfig,
    ValueIndexArguments,
    ValueOptions,
    check_suits,
    kind_and_options,
)
from alance.ops.lookup.kinds import KINDS
from alance.ops.version.commits import PreparedChange

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from alance.format.field import Field
    from alance.format.proto import table_pb2
    from alance.format.table.indices import Index
    from alance.ops.index.segment_files import NewSegment
    from alance.ops.lookup.kinds.kind import IndexKind
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.version.summary import ChangeSummary


@dataclass(frozen=True, slots=True)
class NewIndex:
    """Description of an index to create.

    Attributes:
        kind: index type, as for `create_scalar_index`.
        train: False to leave all fragments uncovered.
        arguments: arguments of the index type.
    """

    column: str
    kind: str
    name: str | None = None
    replace: bool = True
    train: bool = True
    arguments: ValueIndexArguments = field(default_factory=lambda: ValueIndexArguments())


@dataclass(frozen=True, slots=True)
class CheckedIndex:
    """A new index, checked against a version.

    Attributes:
        column: path of the field, spelled as in the schema.
        kind: kind of index; for a JSON index the target's kind.
        leaf: field of the column.
        options: options of the build.
        old: segments that it replaces.
    """

    column: str
    kind: IndexKind
    name: str
    leaf: Field
    options: ValueOptions
    old: tuple[table_pb2.IndexMetadata, ...]

    @property
    def index_type(self) -> str:
        """Name of the kind, as in `IndexPart.kind`."""
        return self.kind.name


def kind_and_arguments(
    config: IndexConfig, arguments: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the kind and the arguments of a new index from an `IndexConfig`.

    Args:
        arguments: other arguments; parameters of the config take precedence.

    Raises:
        UnsupportedError: `config` has no `index_type`, or one that is not text.
    """
    if not isinstance(config, IndexConfig) or not isinstance(config.index_type, str):
        raise UnsupportedError(
            f"index of type {config!r}: expected text, or an object with index_type and parameters"
        )
    return config.index_type, {**arguments, **config.parameters}


def check_new(base: Snapshot, new: NewIndex) -> CheckedIndex:
    """Check that a version can have a new index; return the index with its field and options.

    Raises:
        UnsupportedError: an unknown kind of index; a kind of JSON index that tables with stable row
            ids cannot have; or a table with a fragment-reuse index.
        InvalidInputError: an unknown column, a column that the kind cannot index, or an argument
            out of range.
        TypeError: an argument that the kind does not take.
        AlreadyExistsError: the name is in use.
    """
    kind, options = kind_and_options(new.kind, new.arguments)
    refuse_reuse(base)
    column = base.schema.in_this_case(new.column)
    leaf = _leaf(base, column, kind, options)
    if options.path is not None and base.has_stable_row_ids and not kind.of_stable_json:
        possible = [other.index_type for other in KINDS.values() if other.of_stable_json]
        raise UnsupportedError(
            f"JSON index of {column!r}: {kind.name} beside stable row ids, whose numbers "
            f"pylance 14 mistakes; expected target_index_type {' or '.join(possible)}"
        )
    name, old = check_name(base, new.name, column, leaf, replace=new.replace)
    return CheckedIndex(column, kind, name, leaf, options, old)


def refuse_reuse(base: Snapshot) -> None:
    """Raise `UnsupportedError` if the table has a fragment-reuse index."""
    if any(message.name == FRAGMENT_REUSE for message in base.manifest.indices):
        raise UnsupportedError(
            "new index segments beside a fragment-reuse index: have optimize_indices bring the "
            "indices up to date before"
        )


def check_name(
    base: Snapshot, name: str | None, column: str, leaf: Field, *, replace: bool
) -> tuple[str, tuple[table_pb2.IndexMetadata, ...]]:
    """Return the name of a new index and the segments that it replaces.

    Args:
        name: None for the column's name plus `_idx`.

    Raises:
        InvalidInputError: the name is reserved by the format, or is not text.
        AlreadyExistsError: the name is in use.
    """
    name = name or f"{'.'.join(base.schema.names_of(column))}_idx"
    check_text("index name", name)
    if name in SYSTEM:
        raise InvalidInputError(f"index name {name!r}: expected text that is no name of the format")
    old = tuple(message for message in base.manifest.indices if message.name == name)
    if any(list(message.fields) != [leaf.id] for message in old):
        raise AlreadyExistsError(f"index {name!r}: there is one on other columns; choose a name")
    if old and not replace:
        raise AlreadyExistsError(f"index {name!r}: there is one; name another, or replace=True")
    return name, old


def indexed_column(base: Snapshot, index: Index) -> str | None:
    """Return the path of an index's only column; None if it is gone or there are several."""
    paths = struct_paths(base.schema.fields)
    if len(index.fields) != 1 or index.fields[0] not in paths:
        return None
    return join_path(paths[index.fields[0]])


async def commit_segments(
    base: Snapshot,
    new: Mapping[NewSegment, Collection[int]],
    old: Sequence[table_pb2.IndexMetadata],
    options: CommitOptions,
    summary: ChangeSummary | None = None,
) -> Snapshot:
    """Build new segments and commit them in place of old ones.

    Args:
        new: fragments to cover, for each new segment.

    Raises:
        UnsupportedError: the table has a fragment-reuse index.
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
    return await PreparedChange(base, change, options, discard=discard, summary=summary).commit()


def _leaf(snapshot: Snapshot, column: str, kind: IndexKind, options: ValueOptions) -> Field:
    """Return the field of a column and check that it can be indexed.

    Raises:
        InvalidInputError: an unknown column, or a column that the kind cannot index.
    """
    leaf = snapshot.schema.field(column)
    paths = struct_paths(snapshot.schema.fields)
    if leaf.id not in paths:
        raise InvalidInputError(
            f"column {column!r}: inside of a list, which has no index of values"
        )
    if options.path is None:
        check_suits(column, kind, leaf.arrow_type)
    elif not leaf.is_json:
        raise InvalidInputError(f"column {column!r} of type {leaf.arrow_type}: expected JSON")
    return leaf
