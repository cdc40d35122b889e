"""Field ids of old tables: releases up to 0.10 gave new columns the ids of dropped ones.

The files of the dropped columns stayed, so that a fragment has an id twice. The last file has the
values of the column; each such id is replaced by a new one in the schema, and in the last file of
each fragment that has it. As pylance does before its next commit, so that ids come out the same.

Source: docs/format/table.md, "Field"; the releases' own repair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.format.proto import table_pb2


def repair_field_ids(message: table_pb2.Manifest) -> tuple[int, ...]:
    """Make the ids of each fragment's fields unique, in place; gives those that were not. CPU."""
    changes = _changes(message)
    if not changes:
        return ()
    for field in message.fields:
        field.id = changes.get(field.id, field.id)
        field.parent_id = changes.get(field.parent_id, field.parent_id)
    for fragment in message.fragments:
        left = dict(changes)
        for file in reversed(fragment.files):
            file.fields[:] = [left.pop(number, number) for number in file.fields]
    return tuple(changes)


def _changes(message: table_pb2.Manifest) -> Mapping[int, int]:
    """The new ids of fields whose ids a fragment has twice."""
    twice: set[int] = set()
    for fragment in message.fragments:
        if len(fragment.files) < 2:
            continue
        seen: set[int] = set()
        for file in fragment.files:
            ids = {field for field in file.fields if field >= 0}
            twice |= ids & seen
            seen |= ids
    if not twice:
        return {}
    fields = [field.id for field in message.fields]
    stored = [field for part in message.fragments for file in part.files for field in file.fields]
    first = max([*fields, *stored]) + 1
    return {old: first + n for n, old in enumerate(sorted(twice.intersection(fields)))}
