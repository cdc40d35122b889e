"""The schema after a change of columns: fields added, dropped, renamed, cast, with their ids. Pure.

Source: docs/format/table.md, "Schema evolution".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from alance.errors import InvalidInputError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.proto import file_pb2
from alance.format.schema import Schema, check_not_reserved
from alance.format.types import is_nested

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import pyarrow as pa

    from alance.format.field import Field
    from alance.format.table.manifest import Manifest

BEFORE_2_2: Final = (FileVersion.V0_1, FileVersion.V2_0, FileVersion.V2_1)


def next_field_id(manifest: Manifest) -> int:
    """The first id for new fields: above those of the schema and of all files of its fragments."""
    message = manifest.message
    highest = max((one.id for one in message.fields), default=-1)
    if message.HasField("max_allocated_field_id"):
        highest = max(highest, message.max_allocated_field_id)
    for fragment in message.fragments:
        for file in fragment.files:
            highest = max(highest, max(file.fields, default=-1))
    return highest + 1


def added(schema: Schema, new: pa.Schema, next_id: int) -> tuple[Schema, Schema]:
    """The schema with new fields at its end, and the new fields alone, with their parents.

    A struct, or a list of structs, that is there gets those of its fields that it has not yet.

    Args:
        new: names, types and nullability; its own metadata is left aside.

    Raises:
        InvalidInputError: a field that is there already; a name with dots, reserved, or twice.
        UnsupportedError: a type that the format has not.
    """
    fresh = Schema.from_arrow(new.remove_metadata())
    if not fresh.fields:
        raise InvalidInputError("no columns to add")
    ids = iter(range(next_id, next_id + 1 + sum(1 for _ in fresh.walk())))
    known = {one.name: one for one in schema.fields}
    grown: dict[str, Field] = {}
    made = []
    for one in fresh.fields:
        old = known.get(one.name)
        if old is None:
            grown[one.name] = renumbered(one, ids, -1)
            made.append(grown[one.name])
        else:
            grown[one.name], part = _grown(old, one, ids, one.name)
            made.append(part)
    check_not_reserved(grown.keys() - known.keys())
    fields = [grown.get(one.name, one) for one in schema.fields]
    fields += [one for name, one in grown.items() if name not in known]
    return _rebuilt(schema, fields), _rebuilt(schema, made)


def check_grown(manifest: Manifest, new: Schema, *, is_null: bool) -> None:
    """Check that new fields of structs that exist can be written.

    Args:
        new: the new fields alone, with their parents.
        is_null: they have no values.

    Raises:
        InvalidInputError: fields inside of lists have values, which could disagree on the lists.
        UnsupportedError: a table of files before 2.2.
    """
    known = {one.id for one in manifest.head.fields}
    for root in new.fields:
        if root.id not in known:
            continue
        if manifest.data_storage_version in BEFORE_2_2:
            raise UnsupportedError(
                f"column {root.name!r}: fields of a struct that exists need files of version 2.2, "
                f"the table has {manifest.data_storage_version.value}"
            )
        for one in root.walk():
            if not is_null and one.id in known and one.logical_type != "struct":
                raise InvalidInputError(
                    f"column {root.name!r}: new fields inside of {one.logical_type} {one.name!r} "
                    "take no values; add them with nulls"
                )


def _grown(old: Field, new: Field, ids: Iterator[int], path: str) -> tuple[Field, Field]:
    """A field with what a new one of its name has more; and that alone."""
    same = old.logical_type == new.logical_type
    special = old.is_packed or old.is_blob_v1 or old.is_blob_v2
    if not same or special or not is_nested(old.logical_type) or not new.children:
        raise InvalidInputError(f"column {path!r}: it exists already")
    known = {one.name: one for one in old.children}
    children, parts = list(old.children), []
    for one in new.children:
        below = known.get(one.name)
        if below is None:
            made = part = renumbered(one, ids, old.id)
            children.append(made)
        else:
            made, part = _grown(below, one, ids, f"{path}.{one.name}")
            children[children.index(below)] = made
        parts.append(part)
    return replace(old, children=tuple(children)), replace(old, children=tuple(parts))


def renumbered(one: Field, ids: Iterator[int], parent_id: int) -> Field:
    """A field and all below it with new ids, depth-first."""
    message = file_pb2.Field()
    message.CopyFrom(one.message)
    message.id, message.parent_id = next(ids), parent_id
    children = tuple(renumbered(child, ids, message.id) for child in one.children)
    return replace(one, id=message.id, parent_id=parent_id, message=message, children=children)


def _rebuilt(schema: Schema, fields: Iterable[Field]) -> Schema:
    return Schema(tuple(fields), schema.metadata)


def dropped(schema: Schema, paths: Collection[str]) -> Schema:
    """The schema without some fields; a parent goes with its last child.

    Raises:
        InvalidInputError: no such field, or nothing would be left.
    """
    if isinstance(paths, str) or not paths:
        raise InvalidInputError(f"columns {paths!r}: expected a list of names")
    gone = {schema.field(path).id for path in paths}
    fields = [made for one in schema.fields if (made := _without(one, gone)) is not None]
    if not fields:
        raise InvalidInputError("all columns would be dropped; a table has one at least")
    return _rebuilt(schema, fields)


def _without(one: Field, gone: Collection[int]) -> Field | None:
    if one.id in gone:
        return None
    children = tuple(made for child in one.children if (made := _without(child, gone)) is not None)
    if one.children and not children:
        return None
    return replace(one, children=children)


def changed(
    schema: Schema,
    field_id: int,
    *,
    name: str | None = None,
    nullable: bool | None = None,
) -> Schema:
    """The schema with another name or nullability of one field."""

    def visit(one: Field) -> Field:
        if one.id != field_id:
            return replace(one, children=tuple(visit(child) for child in one.children))
        message = file_pb2.Field()
        message.CopyFrom(one.message)
        message.name = one.name if name is None else name
        message.nullable = one.nullable if nullable is None else nullable
        return replace(one, name=message.name, nullable=message.nullable, message=message)

    return _rebuilt(schema, [visit(one) for one in schema.fields])


def recast(schema: Schema, field_id: int, arrow: pa.DataType, ids: Iterator[int]) -> Schema:
    """The schema with another type, and a new id, of one field and of all below it.

    Raises:
        UnsupportedError: a type that the format has not.
    """
    import pyarrow as pa

    def visit(one: Field, parent_id: int) -> Field:
        message = file_pb2.Field()
        message.CopyFrom(one.message)
        message.parent_id = parent_id
        if one.id != field_id:
            children = tuple(visit(child, one.id) for child in one.children)
            return replace(one, parent_id=parent_id, message=message, children=children)
        shape = pa.field(one.name, arrow, one.nullable)
        (fresh,) = Schema.from_arrow(pa.schema([shape])).fields
        return renumbered(fresh, ids, parent_id)

    if any(char in str(arrow) for char in ("dictionary", "extension")):
        raise UnsupportedError(f"a cast to {arrow}")
    return _rebuilt(schema, [visit(one, -1) for one in schema.fields])


def check_names(schema: Schema) -> None:
    """Check that no two fields of one parent have one name.

    Raises:
        InvalidInputError: they have, or a name is empty, or one at top level has dots.
    """

    def check(fields: Iterable[Field], where: str) -> None:
        seen: set[str] = set()
        for one in fields:
            path = f"{where}{one.name}"
            if one.name in seen:
                raise InvalidInputError(f"column {path!r}: the name is there twice")
            if not one.name or (not where and "." in one.name):
                raise InvalidInputError(
                    f"column {path!r}: expected a name without dots, and not empty"
                )
            seen.add(one.name)
            check(one.children, f"{path}.")

    check(schema.fields, "")


def field_ids(schema: Schema) -> list[int]:
    """The ids of all fields, parents included."""
    return [one.id for one in schema.walk()]
