"""Projection: the output columns of a read, and the fields that they need.

As in pylance, a scan returns nested fields as flat columns (`s.a` is a column `s.a`), and a take
keeps their parents.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field as attribute
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import pyarrow as pa

from alance.base.checks import check_text, list_hint
from alance.base.records import dataclass
from alance.errors import AlanceError, ColumnNotFoundError, InvalidInputError
from alance.file.batches import empty_columns, one_batch
from alance.format.paths import join_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from alance.expr import Computed
    from alance.format.schema import Schema

ROW_ID: Final = "_rowid"
ROW_ADDRESS: Final = "_rowaddr"
CREATED_AT: Final = "_row_created_at_version"
UPDATED_AT: Final = "_row_last_updated_at_version"
ROW_OFFSET: Final = "_rowoffset"  # position among all live rows, as used by `take`
META: Final = (ROW_ID, ROW_ADDRESS, CREATED_AT, UPDATED_AT, ROW_OFFSET)
MOST_COMPUTED: Final = 1 << 30  # bytes of computed columns in one batch of a take

Columns: TypeAlias = Sequence[str] | Mapping[str, str] | None


class Output(NamedTuple):
    """Output column: a field by its path, a meta column, or a computed value.

    Attributes:
        part: field with the requested members of packed structs, which are read whole; None if
            the output has all members that are read.
    """

    name: str
    path: tuple[str, ...] = ()
    computed: Computed | None = None
    part: pa.Field | None = None

    @property
    def is_meta(self) -> bool:
        return len(self.path) == 1 and self.path[0] in META

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the column's values, given a batch of the fields that were read."""
        if self.computed is not None:
            return self.computed.evaluate(batch)
        array = batch.column(self.path[0])
        if self.part is not None:
            return _part_of(array, self.part.type)
        return _member(array, self.path[1:]) if len(self.path) > 1 else array


@dataclass(frozen=True, slots=True)
class Projection:
    """Output columns of a read and the fields that they need.

    Attributes:
        fields: paths of the table's fields to read, without duplicates.
        outputs: output columns in order.
        meta: meta columns that outputs or the filter need.
    """

    fields: tuple[str, ...]
    outputs: tuple[Output, ...]
    meta: frozenset[str]
    is_plain: bool = attribute(init=False)  # True if all outputs are top-level fields
    is_computed: bool = attribute(init=False)  # True if an output is computed

    def __post_init__(self) -> None:
        plain = [
            output.computed is None and len(output.path) == 1 and output.part is None
            for output in self.outputs
        ]
        object.__setattr__(self, "is_plain", False not in plain)
        computed = [output.computed is not None for output in self.outputs]
        object.__setattr__(self, "is_computed", True in computed)

    def needed(self, batch: pa.RecordBatch, meta: Collection[str]) -> pa.RecordBatch:
        """Drop columns that no output needs, except the meta columns in `meta`."""
        if self.is_computed:
            return batch
        names = {output.path[0] for output in self.outputs}.union(meta)
        chosen = [name for name in batch.schema.names if name in names]
        return batch if len(chosen) == batch.num_columns else batch.select(chosen)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Compute the output batch, given a batch with the fields and meta columns.

        Raises:
            InvalidInputError: a value is outside an expression's domain, or values are too large
                for a batch.
        """
        if not self.is_computed:
            return self._part(batch)
        parts: list[pa.RecordBatch] = []
        num_bytes = 0
        for part in self.in_parts(batch):
            parts.append(part)
            num_bytes += part.nbytes
            if num_bytes > MOST_COMPUTED and len(parts) > 1:
                raise InvalidInputError(
                    f"computed columns of {batch.num_rows} rows have more than {MOST_COMPUTED} "
                    "bytes; take fewer rows at once, or scan"
                )
        return parts[0] if len(parts) == 1 else one_batch(parts)

    def ready(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the output batch; if an output is computed, the input of `in_parts` instead."""
        return batch if self.is_computed else self._part(batch)

    def in_parts(
        self, batch: pa.RecordBatch, most_bytes: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Compute the output rows lazily, in several batches if the computed values are large.

        Args:
            most_bytes: bytes of computed values per batch; None: the limit of expressions.

        Raises:
            InvalidInputError: a value is outside an expression's domain, or values are too large
                for a batch.
        """
        from alance.expr.value_budget import in_parts

        yield from in_parts(batch, self._part, "computed columns", most_bytes)

    def _part(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.outputs:
            return empty_columns(batch.num_rows)
        names = [output.name for output in self.outputs]
        if self.is_plain and batch.schema.names == names:
            return batch
        arrays, fields = [], []
        for output in self.outputs:
            array = output.of(batch)
            arrays.append(array)
            if output.part is not None:
                fields.append(output.part)
            elif output.computed is None and len(output.path) == 1:
                fields.append(batch.schema.field(output.path[0]))
            else:
                fields.append(pa.field(output.name, array.type))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def project(
    schema: Schema,
    columns: Columns,
    *,
    flat: bool,
    with_row_id: bool = False,
    with_row_address: bool = False,
) -> Projection:
    """Build a projection.

    Args:
        schema: schema of the table.
        columns: names or paths of fields, or SQL expressions by output name; None: all fields.
        flat: True to return nested fields as columns named by their path.

    Raises:
        InvalidInputError: neither a list nor a mapping, an unknown column, a repeated column, or a
            bad expression.
    """
    if columns is None:
        outputs = [Output(field.name, (field.name,)) for field in schema.fields]
    elif isinstance(columns, Mapping):
        outputs = [_computed(schema, name, text) for name, text in columns.items()]
    elif isinstance(columns, str):
        hint = list_hint("columns", columns)
        raise InvalidInputError(f"columns={columns!r}: expected a list of names{hint}")
    elif not isinstance(columns, Iterable):
        raise InvalidInputError(f"columns={columns!r}: expected a list of names, or a mapping")
    else:
        outputs, columns = _named(schema, columns, flat=flat)
    for is_requested, name in ((with_row_id, ROW_ID), (with_row_address, ROW_ADDRESS)):
        if is_requested and all(output.name != name for output in outputs):
            outputs.append(Output(name, (name,)))
    fields: list[str] = []
    meta: set[str] = set()
    requested: dict[str, list[str]] = {}  # names or paths by column
    if columns is not None and not isinstance(columns, Mapping) and not flat:
        for name in columns:
            requested.setdefault(schema.names_of(name)[0], []).append(name)
    for place, output in enumerate(outputs):
        needed = output.computed.columns if output.computed else (join_path(output.path),)
        if output.name in requested:
            needed = tuple(requested[output.name])
            if not output.is_meta:
                outputs[place] = output._replace(part=_part_field(schema, needed))
        for name in needed:
            (meta.add if name in META else fields.append)(name)
    return Projection(tuple(dict.fromkeys(fields)), tuple(outputs), frozenset(meta))


def plain_names(columns: Columns) -> tuple[str, ...] | None:
    """Return the names of columns as a cache key; None for all columns, or for computed columns."""
    if isinstance(columns, list | tuple) and all(isinstance(name, str) for name in columns):
        return tuple(columns)
    return None


def _member(array: pa.Array, path: tuple[str, ...]) -> pa.Array:
    """Return a member of nested structs; null if a parent is null."""
    for name in path:
        index = array.type.get_field_index(name) if pa.types.is_struct(array.type) else -1
        if index < 0:
            raise InvalidInputError(f"column {name!r}: {array.type} has no such member")
        array = array.flatten()[index]
    return array


def _part_field(schema: Schema, paths: tuple[str, ...]) -> pa.Field | None:
    """Return the field with the members at `paths`; None if a read returns no others."""
    if (whole := schema.top(paths[0])) is not None and whole.is_leaf:
        return None
    (field,) = schema.project(paths, is_stored=False).fields
    return None if schema.project(paths).fields == (field,) else field.to_arrow()


def _part_of(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Return a struct with the members that its type `arrow` has."""
    if array.type == arrow:
        return array
    members = [
        _part_of(array.field(array.type.get_field_index(member.name)), member.type)
        for member in arrow
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(members, fields=[*arrow], mask=mask)


def _stored_path(schema: Schema, name: object) -> tuple[str, ...]:
    """Return the path of a column, whose first name may be in another case, as in filters.

    Raises:
        InvalidInputError: the name is not text.
        ColumnNotFoundError: no such column, or several that differ only in case.
    """
    if not isinstance(name, str):
        shown = reprlib.repr(name)
        raise InvalidInputError(f"column {shown}: expected a name; expressions are {{name: SQL}}")
    path = schema.names_of(name)
    if schema.top(path[0]) is None:
        if name in META:
            return (name,)
        if (first := schema.names_of(schema.in_this_case(join_path(path[:1])))) != path[:1]:
            path = (*first, *path[1:])
            name = join_path(path)
    try:
        schema.field(name)
    except ColumnNotFoundError as error:
        if name == "*":
            error.add_note("all columns are columns=None")
        elif any(sign in name for sign in " ()*+/"):
            error.add_note(f"an expression needs a name: columns={{'name': {name!r}}}")
        raise
    return path


def _named(
    schema: Schema, columns: Iterable[object], *, flat: bool
) -> tuple[list[Output], list[str]]:
    """Return the outputs of named columns, and their names or paths spelled as in the table."""
    outputs: dict[str, Output] = {}
    stored: list[str] = []
    for column in columns:
        path = _stored_path(schema, column)
        stored.append(path[0] if len(path) == 1 else join_path(path))
        # As in pylance, a member of a struct is named as it was requested.
        name = str(column) if flat and len(path) > 1 else path[0]
        if (name if flat else stored[-1]) in outputs:
            raise InvalidInputError(f"column {column!r} is named twice")
        outputs.setdefault(name, Output(name, path if flat else path[:1]))
    return list(outputs.values()), stored


def with_meta_fields(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of filters and expressions: the table's columns and meta columns."""
    arrow = schema.known_arrow()
    for name in META:
        if arrow.get_field_index(name) < 0:
            arrow = arrow.append(pa.field(name, pa.uint64()))
    return arrow


def _computed(schema: Schema, name: str, text: str) -> Output:
    from alance.expr import parse_projection

    check_text("column", name)
    try:
        return Output(name, computed=parse_projection(text, with_meta_fields(schema)))
    except AlanceError as error:
        error.add_note(f"in column {name!r}")
        raise
