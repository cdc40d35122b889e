"""Struct columns of which a source has some members: the others keep the table's values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.schema import Schema


def given_fields(schema: Schema, source: pa.Schema) -> list[pa.Field]:
    """The columns of a table that a source has, in the table's order, with the members that the
    source has.

    Raises:
        InvalidInputError: a column or member that the table has not, or twice; a struct inside of
            a list or map that is not whole.
    """
    _check(source, [one.name for one in schema.fields], "")
    found = []
    for field in schema.fields:
        index = source.get_field_index(field.name)
        if index < 0:
            continue
        arrow = field.logical_arrow()
        is_blob = field.is_blob_v1 or field.is_blob_v2
        found.append(arrow if is_blob else _narrowed(arrow, source.field(index), field.name))
    return found


def is_whole(given: pa.DataType, whole: pa.DataType) -> bool:
    """Whether a struct has all members, and all of theirs."""
    if not pa.types.is_struct(whole) or not pa.types.is_struct(given):
        return True
    return given.num_fields == whole.num_fields and all(
        is_whole(given.field(child.name).type, child.type) for child in whole
    )


def filled(new: pa.Array, old: pa.Array) -> pa.Array:
    """Structs with the members that they lack as others have them; null where both are. CPU."""
    if is_whole(new.type, old.type):
        return new
    arrays, fields = [], []
    for child in old.type:
        array = pc.struct_field(old, [child.name])
        if new.type.get_field_index(child.name) >= 0:
            array = filled(pc.struct_field(new, [child.name]), array)
        arrays.append(array)
        fields.append(pa.field(child.name, array.type))
    null = pc.and_(new.is_null(), old.is_null())
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=null)


def _narrowed(whole: pa.Field, given: pa.Field, path: str) -> pa.Field:
    if not pa.types.is_struct(whole.type) or not pa.types.is_struct(given.type):
        if _lacks_members(given.type, whole.type):
            raise InvalidInputError(
                f"column {path!r}: the data has {given.type}, the table {whole.type}; members of "
                "structs in lists are not filled"
            )
        return whole
    _check(given.type, [child.name for child in whole.type], f"{path}.")
    children = [
        _narrowed(child, given.type.field(child.name), f"{path}.{child.name}")
        for child in whole.type
        if given.type.get_field_index(child.name) >= 0
    ]
    return whole.with_type(pa.struct(children))


def _check(given: pa.Schema | pa.StructType, known: Sequence[str], path: str) -> None:
    names = [one.name for one in given]
    for name in names:
        if name not in known:
            where = f"members of {path[:-1]!r}" if path else "columns of the table"
            raise InvalidInputError(
                f"column {path + name!r}: not among the {where}, {', '.join(known)}"
            )
        if names.count(name) > 1:
            raise InvalidInputError(f"column {path + name!r}: the data has it twice")


def _lacks_members(given: pa.DataType, whole: pa.DataType) -> bool:
    """Whether a cast between lists or maps would make up members of structs in them."""
    if pa.types.is_struct(given) and pa.types.is_struct(whole):
        return any(
            given.get_field_index(child.name) < 0
            or _lacks_members(given.field(child.name).type, child.type)
            for child in whole
        )
    if given.num_fields != whole.num_fields:
        return False
    return any(
        _lacks_members(given.field(index).type, whole.field(index).type)
        for index in range(whole.num_fields)
        if pa.types.is_nested(whole) and pa.types.is_nested(given)
    )
