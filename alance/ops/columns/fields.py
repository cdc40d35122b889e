"""Schemas after changes of columns: fields added, dropped, renamed or cast, with their ids. Pure.

Source: docs/format/table.md, "Schema evolution".
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from alance.base.checks import check_text, list_hint
from alance.errors import InvalidInputError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.proto import copied
from alance.format.schema import Schema, check_not_reserved
from alance.format.types import is_nested

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

    from alance.format.field import Field
    from alance.format.table.manifest import Manifest

BEFORE_2_2: Final = (FileVersion.V0_1, FileVersion.V2_0, FileVersion.V2_1)


def next_field_id(manifest: Manifest) -> int:
    """Return the first id for new fields, above all ids of the schema and of data files."""
    message = manifest.head
    highest = max([field.id for field in message.fields], default=-1)
    if message.HasField("max_allocated_field_id"):
        highest = max(highest, message.max_allocated_field_id)
    for form in manifest.fragments.forms:
        for file in form.files:
            highest = max(highest, max(file.fields, default=-1))
    return highest + 1


def added(schema: Schema, new: pa.Schema, next_id: int) -> tuple[Schema, Schema]:
    """Return the schema with new fields appended, and a schema of these and their parents only.

    An existing struct, or list of structs, gets the fields that it lacks.

    Args:
        new: names, types and nullability of the new fields; metadata of the schema is ignored.

    Raises:
        InvalidInputError: a field already exists, or a name has dots, is reserved or is repeated.
        UnsupportedError: the format does not have a type.
    """
    fresh = Schema.from_arrow(new.remove_metadata())
    if not fresh.fields:
        raise InvalidInputError("no columns to add")
    ids = iter(range(next_id, next_id + 1 + sum(1 for _ in fresh.walk())))
    existing = {root.name: root for root in schema.fields}
    grown: dict[str, Field] = {}
    parts = []
    for field in fresh.fields:
        old = existing.get(field.name)
        if old is None:
            grown[field.name] = renumbered(field, ids, -1)
            parts.append(grown[field.name])
        else:
            grown[field.name], part = _grown(old, field, ids, field.name)
            parts.append(part)
    check_not_reserved(grown.keys() - existing.keys())
    fields = [grown.get(root.name, root) for root in schema.fields]
    fields += [root for name, root in grown.items() if name not in existing]
    return _rebuilt(schema, fields), _rebuilt(schema, parts)


def check_grown(manifest: Manifest, new: Schema, *, is_null: bool) -> None:
    """Check that new fields of existing structs can be written.

    Args:
        new: the new fields and their parents.
        is_null: True if the fields have no values.

    Raises:
        InvalidInputError: fields inside lists have values, whose list lengths might differ from
            those in the table.
        UnsupportedError: the table has files before 2.2.
    """
    ids_before = {head.id for head in manifest.head.fields}
    for root in new.fields:
        if root.id not in ids_before:
            continue
        if manifest.data_storage_version in BEFORE_2_2:
            raise UnsupportedError(
                f"column {root.name!r}: fields of a struct that exists need files of version 2.2, "
                f"the table has {manifest.data_storage_version.value}"
            )
        for field in root.walk():
            if not is_null and field.id in ids_before and field.logical_type != "struct":
                raise InvalidInputError(
                    f"column {root.name!r}: new fields inside of {field.logical_type} "
                    f"{field.name!r} take no values; add them with nulls"
                )


def _grown(old: Field, new: Field, ids: Iterator[int], path: str) -> tuple[Field, Field]:
    """Return `old` with the members that only `new` has, and a field of just these members."""
    is_type_equal = old.logical_type == new.logical_type
    special = old.is_packed or old.is_blob_v1 or old.is_blob_v2
    if not is_type_equal or special or not is_nested(old.logical_type) or not new.children:
        raise InvalidInputError(f"column {path!r}: it exists already")
    existing = {member.name: member for member in old.children}
    children, parts = list(old.children), []
    for child in new.children:
        below = existing.get(child.name)
        if below is None:
            field = part = renumbered(child, ids, old.id)
            children.append(field)
        else:
            field, part = _grown(below, child, ids, f"{path}.{child.name}")
            children[children.index(below)] = field
        parts.append(part)
    return replace(old, children=tuple(children)), replace(old, children=tuple(parts))


def renumbered(field: Field, ids: Iterator[int], parent_id: int) -> Field:
    """Return a field with new ids for it and all its descendants, depth-first."""
    message = copied(field.message)
    message.id, message.parent_id = next(ids), parent_id
    children = tuple(renumbered(child, ids, message.id) for child in field.children)
    return replace(field, id=message.id, parent_id=parent_id, message=message, children=children)


def _rebuilt(schema: Schema, fields: Iterable[Field]) -> Schema:
    return Schema(tuple(fields), schema.metadata)


def dropped(schema: Schema, paths: Collection[str]) -> Schema:
    """Return the schema without some fields; a parent is dropped with its last child.

    Raises:
        InvalidInputError: the paths are not a list, a field does not exist, no field would remain,
            or a field is one of several members of a packed struct.
    """
    if isinstance(paths, str) or not paths:
        hint = list_hint("columns", paths)
        raise InvalidInputError(f"columns {paths!r}: expected a list of names{hint}")
    gone = {schema.field(path).id for path in paths}
    fields = [rest for root in schema.fields if (rest := _without(root, gone)) is not None]
    if not fields:
        raise InvalidInputError("all columns would be dropped; a table has one at least")
    return _rebuilt(schema, fields)


def _without(field: Field, gone: Collection[int]) -> Field | None:
    if field.id in gone:
        return None
    if not field.children:
        return field
    children = tuple(
        rest for child in field.children if (rest := _without(child, gone)) is not None
    )
    if field.is_packed and 0 < len(children) < len(field.children):
        raise InvalidInputError(
            f"column {field.name!r}: members of a packed struct are stored together; drop all of it"
        )
    return replace(field, children=children) if children else None


def _replaced(schema: Schema, field_id: int, make: Callable[[Field], Field]) -> Schema:
    """Return the schema with a field replaced by the result of `make`."""

    def visit(field: Field) -> Field:
        if field.id == field_id:
            return make(field)
        if not field.children:
            return field
        return replace(field, children=tuple(map(visit, field.children)))

    return _rebuilt(
        schema,
        [visit(root) if root.id == field_id or root.children else root for root in schema.fields],
    )


def changed(
    schema: Schema,
    field_id: int,
    *,
    name: str | None = None,
    nullable: bool | None = None,
) -> Schema:
    """Return the schema with a field's new name or nullability; None leaves it unchanged."""

    if name is not None:
        check_text("column", name)

    def make(field: Field) -> Field:
        message = copied(field.message)
        message.name = field.name if name is None else name
        message.nullable = field.nullable if nullable is None else nullable
        return replace(field, name=message.name, nullable=message.nullable, message=message)

    return _replaced(schema, field_id, make)


def moved(schema: Schema, path: str, after: str | None) -> Schema:
    """Return the schema with a field at another place among the fields of its parent.

    Args:
        after: name of the field before it; None: it becomes the first field.

    Raises:
        InvalidInputError: a field does not exist, `after` is no field beside it, or the parent is a
            list, a map or a packed struct.
    """
    field = schema.field(path)
    parent = next((other for other in schema.walk() if other.id == field.parent_id), None)
    if parent is not None and (parent.logical_type != "struct" or parent.is_packed):
        kind = "packed struct" if parent.is_packed else parent.logical_type
        raise InvalidInputError(
            f"column {path!r}: the fields of a {kind} have a fixed order; expected a column, or a "
            "member of another struct"
        )

    def placed(siblings: Sequence[Field]) -> tuple[Field, ...]:
        others = [other for other in siblings if other.id != field.id]
        names = [other.name for other in others]
        if after is not None and after not in names:
            raise InvalidInputError(
                f"column {path!r}: after={after!r}, expected one of {', '.join(map(repr, names))}"
            )
        place = 0 if after is None else names.index(after) + 1
        return (*others[:place], field, *others[place:])

    if parent is None:
        return _rebuilt(schema, placed(schema.fields))
    return _replaced(
        schema, parent.id, lambda outer: replace(outer, children=placed(outer.children))
    )


def recast(schema: Schema, field_id: int, arrow: pa.DataType, ids: Iterator[int]) -> Schema:
    """Return the schema with a new type of a field, and new ids for it and its descendants.

    Raises:
        UnsupportedError: the format does not have the type, or the type is an extension or
            dictionary.
    """
    import pyarrow as pa

    def make(field: Field) -> Field:
        shape = pa.field(field.name, arrow, field.nullable)
        (fresh,) = Schema.from_arrow(pa.schema([shape])).fields
        return renumbered(fresh, ids, field.parent_id)

    if any(char in str(arrow) for char in ("dictionary", "extension")):
        raise UnsupportedError(f"a cast to {arrow}")
    return _replaced(schema, field_id, make)


def check_names(schema: Schema) -> None:
    """Check that the fields of each parent have distinct names.

    Raises:
        InvalidInputError: a name is repeated or empty, or the name of a top-level field has dots.
    """

    def check(fields: Sequence[Field], where: str) -> None:
        for name, times in Counter([field.name for field in fields]).items():
            if times > 1:
                raise InvalidInputError(f"column {where + name!r}: the name is there twice")
            if not name or (not where and "." in name):
                raise InvalidInputError(
                    f"column {where + name!r}: expected a name without dots, and not empty"
                )
        for field in fields:
            if field.children:
                check(field.children, f"{where}{field.name}.")

    check(schema.fields, "")


def field_ids(schema: Schema) -> list[int]:
    """Return the ids of all fields, including parents."""
    return [field.id for field in schema.walk()]
