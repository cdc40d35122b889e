"""Opening of a Lance file that belongs to no table: its own schema, and each field's column."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.file.open.files import FileOf, open_files
from alance.file.rows.fragment import FileSource
from alance.file_version import FileVersion
from alance.format.container import TAIL_BYTES
from alance.format.layouts.fields import leaf_columns
from alance.format.plans import together
from alance.format.proto import file_pb2
from alance.format.schema import Schema
from alance.format.v0_1.metadata import BatchContainer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.file.open.columns import States
    from alance.format.container import Container
    from alance.format.plans import Plan

# Maximum fields of a schema that files share; a field takes some kilobytes.
SHARED_FIELDS: Final = 16
SHARED_METADATA_BYTES: Final = 4 << 10  # maximum metadata bytes of such a schema


@dataclass(frozen=True, slots=True)
class PlainFile:
    """Open file that belongs to no table."""

    source: FileSource
    container: Container
    schema: Schema
    num_rows: int


def plain_key(path: str) -> tuple[str, str]:
    """Return the search cache's key for an open file."""
    return "plain file", path


def open_plain(
    path: str, file_bytes: int, states: States, tail_bytes: int = TAIL_BYTES
) -> Plan[PlainFile]:
    """Plan the opening of a file: no round if the cache has it, else one, rarely two.

    Raises:
        CorruptFileError: the file is not a Lance file, or its columns do not fit its schema.
    """
    cached: PlainFile | None = states.peek(plain_key(path))
    if cached is not None:
        return cached
    (file,) = yield from open_plain_files([FileOf(path, file_bytes)], states, tail_bytes)
    return file


def open_plain_files(
    files: Sequence[FileOf], states: States, tail_bytes: int = TAIL_BYTES
) -> Plan[list[PlainFile]]:
    """Plan the opening of files that the cache lacks; the rounds of all files are shared.

    Arguments and errors are those of `open_plain`.
    """
    containers = yield from open_files(files, states, tail_bytes)
    pairs = zip(files, containers, strict=True)
    return (yield from together([_plain(*file, container, states) for file, container in pairs]))


def _plain(path: str, file_bytes: int, container: Container, states: States) -> Plan[PlainFile]:
    descriptor = yield from container.read_descriptor()
    schema = _schema_of(descriptor.schema)
    columns = yield from columns_of(container, schema, states)
    file = PlainFile(FileSource(path, file_bytes, columns), container, schema, descriptor.length)
    metadata_bytes = sum(map(len, schema.metadata.values()))
    states.put(plain_key(path), file, 1000 + 500 * len(columns) + metadata_bytes)
    return file


def columns_of(container: Container, schema: Schema, states: States) -> Plan[dict[int, int]]:
    """Plan the column number of each field, by field id; no round for files of 2.1 and later.

    Raises:
        CorruptFileError: the file does not have as many columns as its schema has leaves.
    """
    if isinstance(container, BatchContainer):
        return {field: number for number, field in enumerate(container.field_ids())}
    if container.version is FileVersion.V2_0:
        from alance.file.older.v2_0 import number_columns

        return (yield from number_columns(schema.fields, container, states))
    num_leaves, columns = schema.remember(columns_of, lambda: _in_order(schema))
    if num_leaves != container.num_columns:
        raise CorruptFileError(
            f"{container.path}: {container.num_columns} columns, its schema has {num_leaves} leaves"
        )
    return columns


def _in_order(schema: Schema) -> tuple[int, dict[int, int]]:
    """Return the count of leaves, and each leaf's position in the schema by field id."""
    leaves = [leaf for field in schema.fields for leaf in leaf_columns(field)]
    return len(leaves), {leaf.field.id: index for index, leaf in enumerate(leaves)}


def _schema_of(message: file_pb2.Schema) -> Schema:
    """Return the schema of a file.

    Files with equal small schemas share one object and its memos, because all index files of a kind
    have equal schemas.
    """
    is_large = sum(map(len, message.metadata.values())) > SHARED_METADATA_BYTES
    if is_large or len(message.fields) > SHARED_FIELDS:
        return Schema.from_protobuf(message.fields, message.metadata)
    return _shared_schema(message.SerializeToString(deterministic=True))


@lru_cache(maxsize=256)
def _shared_schema(content: bytes) -> Schema:
    message = file_pb2.Schema.FromString(content)
    return Schema.from_protobuf(message.fields, message.metadata)
