"""Unenforced primary and clustering keys: what the metadata of fields says of them.

lance-schema:unenforced-primary-key              true, 1 or yes, in any case
lance-schema:unenforced-primary-key:position     from 1 on; 0: in the order of the fields
lance-schema:unenforced-clustering-key:position  from 1 on

A position alone makes a field part of the key; one that is no number is as if it were not there.

Source: docs/format/table.md, "Field".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from alance.errors import InvalidInputError
from alance.format.types import is_nested

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.proto import file_pb2

PRIMARY_KEY: Final = "lance-schema:unenforced-primary-key"
PRIMARY_POSITION: Final = "lance-schema:unenforced-primary-key:position"
CLUSTERING_POSITION: Final = "lance-schema:unenforced-clustering-key:position"
PRIMARY_KEYS: Final = (PRIMARY_KEY, PRIMARY_POSITION)
KEYS: Final = (*PRIMARY_KEYS, CLUSTERING_POSITION)
TRUE: Final = ("true", "1", "yes")
NUMBER: Final = re.compile(r"\+?[0-9]+", re.ASCII)
MAX_POSITION: Final = (1 << 32) - 1


def set_keys(field: file_pb2.Field) -> None:
    """Make a field say of keys what its metadata says."""
    texts = {key: field.metadata[key].decode() for key in KEYS if key in field.metadata}
    position = _position(texts.get(PRIMARY_POSITION, ""))
    is_key = texts.get(PRIMARY_KEY, "").lower() in TRUE
    field.unenforced_primary_key = is_key or position is not None
    field.unenforced_primary_key_position = position or 0
    field.unenforced_clustering_key_position = _position(texts.get(CLUSTERING_POSITION, "")) or 0


def _position(text: str) -> int | None:
    number = int(text) if NUMBER.fullmatch(text) else MAX_POSITION + 1
    return number if number <= MAX_POSITION else None


def check_primary_key(fields: Sequence[file_pb2.Field]) -> None:
    """Check the fields that are a table's primary key.

    Args:
        fields: of the table, depth-first.

    Raises:
        InvalidInputError: one that has fields of its own, is in a list or map, or may be null
            itself or by what it is in.
    """
    by_id = {field.id: field for field in fields}
    for field in fields:
        if not field.unenforced_primary_key:
            continue
        if is_nested(field.logical_type):
            raise _refused(field, f"a {field.logical_type}, expected one without fields of its own")
        around: file_pb2.Field | None = field
        while around is not None:
            if around.nullable:
                raise _refused(field, f"{around.name!r} is nullable, expected a key without nulls")
            around = by_id.get(around.parent_id)
            if around is not None and around.logical_type != "struct":
                raise _refused(field, f"it is in {around.logical_type} {around.name!r}")


def _refused(field: file_pb2.Field, reason: str) -> InvalidInputError:
    return InvalidInputError(f"primary key field {field.name!r}: {reason}")
