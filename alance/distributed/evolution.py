"""Mapping of a version's columns to rows of another: renamed, new, or with other members."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.ops.version.projection import META, ROW_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.datasets import Dataset
    from alance.format.field import Field


@dataclass(frozen=True, slots=True)
class FieldSource:
    """Source of a field's values in the rows of another version.

    Attributes:
        source: name of the field in the other version; None: it lacks the field, so values are
            null.
        type: Arrow type of the nulls if the field is missing.
        members: sources of the members of a struct if they differ; empty: values are used as read.
    """

    name: str
    source: str | None
    type: pa.DataType
    members: tuple[FieldSource, ...] = ()

    @property
    def is_unchanged(self) -> bool:
        """True if the other version has the field under the same name, with the same members."""
        return self.name == self.source and not self.members

    def of(self, array: pa.Array | None, count: int) -> pa.Array:
        """Return the values of the field, from the column of the other version. CPU work.

        Args:
            array: values of `source`; None if the other version lacks the field.
            count: number of rows.
        """
        if array is None:
            return pa.nulls(count, self.type)
        if not self.members:
            return array
        arrays = [
            member.of(
                None if member.source is None else pc.struct_field(array, [member.source]), count
            )
            for member in self.members
        ]
        fields = [
            pa.field(member.name, values.type)
            for member, values in zip(self.members, arrays, strict=True)
        ]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=array.is_null())


@dataclass(frozen=True, slots=True)
class ColumnsAcross:
    """Mapping from columns of a reference version to those of another version. Can be pickled.

    Fields are matched by id. A field whose id the other version lacks is matched by name, but only
    to fields whose ids the reference lacks.
    """

    fields: tuple[FieldSource, ...]

    @classmethod
    def of(cls, reference: Dataset, dataset: Dataset, names: Sequence[str]) -> ColumnsAcross:
        """Match columns of a reference version with fields of another version.

        Args:
            reference: version with the names and types of columns for the rows.
            dataset: version whose rows are read.
            names: top-level columns of the reference, and meta columns.

        Raises:
            InvalidInputError: the other version is newer and has dropped a column.
        """
        reference_ids = {field.id for field in reference._snapshot.schema.walk()}
        tops = {field.name: field for field in reference._snapshot.schema.fields}
        other_fields = dataset._snapshot.schema.fields
        fields = []
        for name in names:
            field = tops.get(name)
            if name in META or field is None:
                fields.append(FieldSource(name, name, pa.null()))
                continue
            source = _source(field, other_fields, reference_ids)
            if source.source is None and dataset.version > reference.version:
                raise InvalidInputError(
                    f"column {name!r}: version {dataset.version} has no such column; read again "
                    "with the columns that there are now"
                )
            fields.append(source)
        return cls(tuple(fields))

    @property
    def is_unchanged(self) -> bool:
        """True if both versions have the same columns."""
        return all(field.is_unchanged for field in self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns to read in the other version."""
        sources = (field.source for field in self.fields if field.source is not None)
        return tuple(dict.fromkeys(sources)) or (ROW_ADDRESS,)

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert rows of the other version to the columns of the reference. CPU work.

        Args:
            batch: rows of the other version.
        """
        if self.is_unchanged:
            return batch
        arrays = [
            field.of(None if field.source is None else batch.column(field.source), batch.num_rows)
            for field in self.fields
        ]
        return pa.RecordBatch.from_arrays(arrays, [field.name for field in self.fields])


def _source(field: Field, other_fields: Sequence[Field], reference_ids: set[int]) -> FieldSource:
    """Match a field with the fields of another version.

    Args:
        other_fields: fields of the other version with the same parent.
        reference_ids: ids of all fields of the reference version.
    """
    kind = field.logical_arrow().type
    by_id: Mapping[int, Field] = {other.id: other for other in other_fields}
    alike = (
        other
        for other in other_fields
        if other.name == field.name and other.id not in reference_ids
    )
    other = by_id.get(field.id) or next(alike, None)
    if other is None:
        return FieldSource(field.name, None, kind)
    members: tuple[FieldSource, ...] = ()
    is_struct = pa.types.is_struct(kind) and pa.types.is_struct(other.logical_arrow().type)
    if is_struct and field.children:
        members = tuple(_source(child, other.children, reference_ids) for child in field.children)
        is_unchanged = all(member.is_unchanged for member in members)
        members = () if is_unchanged and len(members) == len(other.children) else members
    return FieldSource(field.name, other.name, kind, members)
