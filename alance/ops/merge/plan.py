"""Merge plan checked against a table: columns, keys and conditions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.base import compute as pc
from alance.base.checks import did_you_mean, some_columns
from alance.base.records import dataclass
from alance.errors import InvalidInputError, UnsupportedError
from alance.file.batches import empty_batch
from alance.format.paths import split_path
from alance.ops.read.filters import parse_over, parse_predicate
from alance.ops.version.conditions import Bound
from alance.ops.version.projection import META

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.expr import Predicate
    from alance.format.schema import Schema
    from alance.ops.merge.options import MergePlan

SOURCE_SIDE: Final = "source"
TARGET_SIDE: Final = "target"


@dataclass(frozen=True, slots=True)
class RowMerge:
    """Merge of a source's columns into a version of a table.

    Attributes:
        plan: options of the merge.
        schema: schema of the version.
        on: key columns, spelled as in the table.
        source_schemas: columns of each part of the source, with the table's types, in the table's
            order. Only a merge without condition, of whole rows, has more than one part.
        condition: predicate over two structs, `SOURCE_SIDE` and `TARGET_SIDE`, and over columns of
            only one side; None: no condition.
        others: predicate over the table's columns; None: no condition.
    """

    plan: MergePlan
    schema: Schema
    on: tuple[str, ...]
    source_schemas: tuple[pa.Schema, ...]
    condition: Predicate | None
    others: Predicate | None

    @classmethod
    def of(cls, plan: MergePlan, schema: Schema, *sources: pa.Schema) -> RowMerge:
        """Check a plan against the table and the source, and return the merge.

        Args:
            sources: schema of each part of the source; at least one.

        Raises:
            InvalidInputError: unknown columns; a source without the key columns, or without columns
                that inserted rows need; bad conditions.
        """
        plan.check()
        on = key_columns(plan, schema)
        source_schemas = tuple(pa.schema(source_fields(schema, source)) for source in sources)
        for source_schema in source_schemas:
            _check_source(plan, schema, on, source_schema)
        merge = cls(
            plan,
            schema,
            on,
            source_schemas,
            None
            if plan.condition is None
            else _condition(plan.condition, schema, source_schemas[0]),
            parse_predicate(schema, plan.others) if plan.deletes_others else None,
        )
        merge.check_mode()
        return merge

    @property
    def source_schema(self) -> pa.Schema:
        """Columns of the source, or of its first part."""
        return self.source_schemas[0]

    @property
    def condition_columns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the columns of the source, and those of the target, that the condition reads."""
        sides: dict[str, dict[str, None]] = {SOURCE_SIDE: {}, TARGET_SIDE: {}}
        for path in () if self.condition is None else self.condition.columns:
            side, *rest = split_path(path)
            if side in sides:
                names = rest[:1] or self._all(side)
                sides[side].update(dict.fromkeys(names))
            else:
                sides[TARGET_SIDE][side] = None
        return tuple(sides[SOURCE_SIDE]), tuple(sides[TARGET_SIDE])

    def _all(self, side: str) -> list[str]:
        if side == SOURCE_SIDE:
            return list(self.source_schema.names)
        return [root.name for root in self.schema.fields]

    @property
    def target_columns(self) -> tuple[str, ...]:
        """Return the target columns that are scanned."""
        others = () if self.others is None else self.others.columns
        tops = [self.schema.names_of(path)[0] for path in others]
        return tuple(dict.fromkeys([*self.on, *self.condition_columns[1], *tops]))

    @property
    def deletes_matches_alone(self) -> bool:
        """True if the merge deletes matched rows and does nothing else."""
        plan = self.plan
        return plan.when_matched == "delete" and not plan.inserts and not plan.deletes_others

    @property
    def rewrites_columns(self) -> bool:
        """True if matched rows keep their addresses and get new values in additional data files."""
        return self.plan.write_mode == "rewrite_columns"

    def check_mode(self) -> None:
        """Check that the merge can be done in its write mode.

        Raises:
            InvalidInputError: the mode is `rewrite_columns`, which this merge does not allow.
        """
        if not self.rewrites_columns:
            return
        plan = self.plan
        gaps = gaps_of(self.schema, self.source_schema)
        partial = [name for name in gaps if name in self.source_schema.names]
        why = ""
        if plan.inserts:
            why = "rows are inserted"
        elif plan.when_matched == "delete" or plan.deletes_others:
            why = "rows are deleted"
        elif plan.when_matched != "update":
            why = "no row is updated"
        elif partial:
            why = f"the data has some members of column {partial[0]!r} only"
        elif not gaps:
            why = "the data has all columns"
        elif len(self.source_schema) == len(self.on):
            why = "the data has no column but the keys"
        elif any(f.is_blob_v1 or f.is_blob_v2 for f in self.written.walk()):
            why = "the data has blobs"
        if why:
            raise InvalidInputError(
                f"write_mode 'rewrite_columns': not for this merge, {why}; use 'rewrite_rows'"
            )

    @property
    def written(self) -> Schema:
        """Return the columns that an update changes: the source's columns without the keys."""
        names = [name for name in self.source_schema.names if name not in self.on]
        return self.schema.project(names)


def _check_source(
    plan: MergePlan, schema: Schema, on: Sequence[str], source_schema: pa.Schema
) -> None:
    """Check that the source has the key columns, and those that inserted rows need."""
    for name in on:
        if source_schema.get_field_index(name) < 0:
            raise InvalidInputError(
                f"key column {name!r}: the data has no such column, "
                f"only {', '.join(source_schema.names) or 'none'}"
            )
        if not _is_whole(schema, source_schema, name):
            raise InvalidInputError(f"key column {name!r}: the data has some members only")
    if plan.inserts:
        check_inserted(schema.to_arrow(), empty_batch(source_schema))


def gaps_of(schema: Schema, source_schema: pa.Schema) -> tuple[str, ...]:
    """Return the table columns that a source lacks, as a whole or in part."""
    return tuple(
        field.name
        for field in schema.fields
        if source_schema.get_field_index(field.name) < 0
        or not (field.is_leaf or _is_whole(schema, source_schema, field.name))
    )


def key_columns(plan: MergePlan, schema: Schema) -> tuple[str, ...]:
    """Return the key columns, spelled as in the table; see `named_keys`.

    Raises:
        InvalidInputError: no key columns, or an unknown column.
        UnsupportedError: a primary key with members of structs.
    """
    names = [root.name for root in schema.fields]
    if plan.on is None:
        keys = schema.primary_key
        if not keys:
            raise InvalidInputError(
                "merge_insert: no key columns; name them by `on`, the table has no primary key"
            )
        if nested := [name for name in keys if name not in names]:
            raise UnsupportedError(
                f"merge_insert: the primary key has {nested[0]!r}, which is a member of a struct; "
                "name key columns by `on`"
            )
        return keys
    if not plan.on:
        raise InvalidInputError("merge_insert: no key columns; name them by `on`")
    return named_keys(plan.on, schema)


def named_keys(on: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """Return key columns, spelled as in the table; another case is accepted if it is unambiguous.

    Raises:
        InvalidInputError: an unknown or ambiguous column.
    """
    names = [root.name for root in schema.fields]
    columns = []
    for name in on:
        alike = [column for column in names if column.casefold() == str(name).casefold()]
        if name not in names and len(alike) != 1:
            raise InvalidInputError(
                f"key column {name!r}: not among the columns of the table, "
                f"{some_columns(names)}{did_you_mean(str(name), names)}"
            )
        columns.append(name if name in names else alike[0])
    return tuple(dict.fromkeys(columns))


def _is_whole(schema: Schema, source_schema: pa.Schema, name: str) -> bool:
    field = schema.field(name)
    whole = field.derive("logical", type(field).logical_arrow)  # a struct is asked for often
    return is_whole(source_schema.field(name).type, whole.type)


def _condition(condition: str | Bound, schema: Schema, source_schema: pa.Schema) -> Predicate:
    """Parse the condition on matched rows, in which `source` and `target` are structs.

    Columns that only the target has may also be named without `target`.

    Raises:
        InvalidInputError: the condition is no text, or its SQL is invalid.
    """
    if not isinstance(condition, str | Bound):
        raise InvalidInputError(f"condition: expected SQL text, found {type(condition).__name__}")
    target = [root.to_arrow() for root in schema.fields]
    target += [pa.field(name, pa.uint64()) for name in META if name not in source_schema.names]
    fields = [
        pa.field(SOURCE_SIDE, pa.struct(list(source_schema))),
        pa.field(TARGET_SIDE, pa.struct(target)),
    ]
    fields += [
        column
        for column in target
        if source_schema.get_field_index(column.name) < 0
        and column.name not in (SOURCE_SIDE, TARGET_SIDE)
    ]
    return parse_over(pa.schema(fields), condition)


def source_fields(schema: Schema, source: pa.Schema) -> list[pa.Field]:
    """Return the table's columns that a source has, in table order, with the source's members.

    Raises:
        InvalidInputError: a column or member that the table lacks or that is repeated; a struct
            inside of a list or map that lacks members.
    """
    _check(source, [root.name for root in schema.fields], "")
    fields = []
    for field in schema.fields:
        index = source.get_field_index(field.name)
        if index < 0:
            continue
        arrow = field.logical_arrow()
        is_blob = field.is_blob_v1 or field.is_blob_v2
        fields.append(arrow if is_blob else narrowed(arrow, source.field(index)))
    return fields


def check_inserted(whole: pa.Schema, rows: pa.RecordBatch, what: str = "the data") -> None:
    """Check that rows with some columns, or some members of structs, can be inserted.

    They need each column that is not nullable, and each such member of their structs. A null for
    some members of a struct would set these to null, so none of them may be such a member.

    Args:
        whole: columns of the table.
        rows: the rows; none, to check the columns before the rows are read.
        what: description of the rows, for the message.

    Raises:
        InvalidInputError: the rows lack a column or member that is not nullable.
    """
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    if problem := _missing(whole, columns):
        raise InvalidInputError(f"{problem} in {what}, and inserted rows cannot be null there")


def _missing(
    whole: pa.Schema | pa.StructType, present: Mapping[str, pa.Array], path: str = ""
) -> str | None:
    """Return a missing column, or a missing or null member, for the message; None if there is none.

    Args:
        path: path of the struct with the members, with a final dot; empty for columns.
    """
    for field in whole:
        array = present.get(field.name)
        if not field.nullable and (array is None or (path and array.null_count)):
            return f"column {path + field.name!r}: {'missing' if array is None else 'null'}"
        if array is not None and not is_whole(array.type, field.type):
            members = {child.name: pc.struct_field(array, [child.name]) for child in array.type}
            if problem := _missing(field.type, members, f"{path}{field.name}."):
                return problem
    return None


def is_whole(source_type: pa.DataType, whole: pa.DataType) -> bool:
    """True if a source's struct type has all members of the type `whole`, at every depth."""
    if not pa.types.is_struct(whole) or not pa.types.is_struct(source_type):
        return True
    if source_type == whole:
        return True
    return source_type.num_fields == whole.num_fields and all(
        is_whole(source_type.field(child.name).type, child.type) for child in whole
    )


def filled(new: pa.Array, old: pa.Array) -> pa.Array:
    """Fill missing members of structs from old structs; null if both structs are null. CPU work."""
    if is_whole(new.type, old.type):
        return new
    arrays, fields = [], []
    for child in old.type:
        array = pc.struct_field(old, [child.name])
        if new.type.get_field_index(child.name) >= 0:
            array = filled(pc.struct_field(new, [child.name]), array)
        arrays.append(array)
        fields.append(child.with_type(array.type))
    null = pc.and_(new.is_null(), old.is_null())
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=null)


def narrowed(whole: pa.Field, source_field: pa.Field, path: str = "") -> pa.Field:
    """Return a field of the table, with the members that a source has.

    Args:
        path: path of the struct that has the field, with a final dot; empty for a column.

    Raises:
        InvalidInputError: as from `source_fields`.
    """
    path += whole.name
    if not pa.types.is_struct(whole.type) or not pa.types.is_struct(source_field.type):
        if _lacks_members(source_field.type, whole.type):
            raise InvalidInputError(
                f"column {path!r}: the data has {source_field.type}, the table {whole.type}; "
                "members of structs in lists are not filled"
            )
        return whole
    _check(source_field.type, [child.name for child in whole.type], f"{path}.")
    children = [
        narrowed(child, source_field.type.field(child.name), f"{path}.")
        for child in whole.type
        if source_field.type.get_field_index(child.name) >= 0
    ]
    return whole.with_type(pa.struct(children))


def _check(source: pa.Schema | pa.StructType, names_of_table: Sequence[str], path: str) -> None:
    columns = set(names_of_table)
    for name, count in Counter([field.name for field in source]).items():
        if name not in columns:
            where = f"members of {path[:-1]!r}" if path else "columns of the table"
            raise InvalidInputError(
                f"column {path + name!r}: not among the {where}, {', '.join(names_of_table)}"
            )
        if count > 1:
            raise InvalidInputError(f"column {path + name!r}: the data has it twice")


def _lacks_members(source_type: pa.DataType, whole: pa.DataType) -> bool:
    """True if a cast between lists or maps would add members to structs inside them."""
    if pa.types.is_struct(source_type) and pa.types.is_struct(whole):
        return any(
            source_type.get_field_index(child.name) < 0
            or _lacks_members(source_type.field(child.name).type, child.type)
            for child in whole
        )
    if source_type.num_fields != whole.num_fields:
        return False
    return any(
        _lacks_members(source_type.field(index).type, whole.field(index).type)
        for index in range(whole.num_fields)
        if pa.types.is_nested(whole) and pa.types.is_nested(source_type)
    )
