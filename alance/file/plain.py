"""A Lance file by itself: its own schema, and which column holds which field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alance.errors import CorruptFileError
from alance.file.fragment import FileSource
from alance.file.open import open_file
from alance.file_version import FileVersion
from alance.format.container import TAIL_BYTES
from alance.format.layouts.fields import leaf_columns
from alance.format.schema import Schema
from alance.format.v0_1.metadata import BatchContainer

if TYPE_CHECKING:
    from alance.file.columns import States
    from alance.format.container import Container
    from alance.format.plans import Plan


@dataclass(frozen=True, slots=True)
class PlainFile:
    """A file that no table describes."""

    source: FileSource
    container: Container
    schema: Schema
    num_rows: int


def open_plain(
    path: str, file_bytes: int, states: States, tail_bytes: int = TAIL_BYTES
) -> Plan[PlainFile]:
    """Plan the opening of a file: one round where the cache has nothing of it, rarely two.

    Args:
        tail_bytes: as for `open_file`.

    Raises:
        CorruptFileError: no Lance file, or columns that its schema does not explain.
    """
    cached: PlainFile | None = states.peek(("plain file", path))
    if cached is not None:
        return cached
    container = yield from open_file(path, file_bytes, states, tail_bytes)
    descriptor = yield from container.read_descriptor()
    schema = Schema.from_protobuf(descriptor.schema.fields, descriptor.schema.metadata)
    columns = yield from columns_of(container, schema, states)
    file = PlainFile(FileSource(path, file_bytes, columns), container, schema, descriptor.length)
    states.put(("plain file", path), file, 1000 + 500 * len(columns))
    return file


def columns_of(container: Container, schema: Schema, states: States) -> Plan[dict[int, int]]:
    """Plan which field is in which column; no round for files of 2.1 and later.

    Raises:
        CorruptFileError: another number of columns than the schema has leaves.
    """
    if isinstance(container, BatchContainer):
        return {field: number for number, field in enumerate(container.field_ids())}
    if container.version is FileVersion.V2_0:
        from alance.file.v2_0_open import number_columns

        return (yield from number_columns(schema.fields, container, states))
    leaves = [leaf for field in schema.fields for leaf in leaf_columns(field)]
    if len(leaves) != container.num_columns:
        raise CorruptFileError(
            f"{container.path}: {container.num_columns} columns, "
            f"its schema has {len(leaves)} leaves"
        )
    return {leaf.field.id: index for index, leaf in enumerate(leaves)}
