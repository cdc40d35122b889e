"""Columns of one version in the rows of another: renamed, added since, or with other members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from alance.errors import InvalidInputError
from alance.ops.version.projection import META, ROW_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.datasets import Dataset
    from alance.format.field import Field


@dataclass(frozen=True, slots=True)
class FieldSource:
    """Where the values of a field are in the rows of another version.

    Attributes:
        source: its name there; None: that version lacks it, and values are null.
        type: of the nulls.
        members: of a struct whose members differ; empty: values are taken as they are.
    """

    name: str
    source: str | None
    type: pa.DataType
    members: tuple[FieldSource, ...] = ()

    @property
    def is_same(self) -> bool:
        """The values are there under the same name."""
        return self.name == self.source and not self.members

    def of(self, array: pa.Array | None, count: int) -> pa.Array:
        """The values. CPU.

        Args:
            array: of `source`; None: there is none.
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
    """Columns as one version names them, to be read in another version. Can be pickled.

    Fields are the same where their ids are, else where their names are.
    """

    fields: tuple[FieldSource, ...]

    @classmethod
    def of(cls, reference: Dataset, dataset: Dataset, names: Sequence[str]) -> ColumnsAcross:
        """Columns of a reference version in the rows of another one.

        Args:
            names: top-level columns of the reference, and meta columns.

        Raises:
            InvalidInputError: the other version is newer and has dropped a column.
        """
        known = {field.id for field in reference._snapshot.schema.walk()}
        tops = {field.name: field for field in reference._snapshot.schema.fields}
        there = dataset._snapshot.schema.fields
        fields = []
        for name in names:
            field = tops.get(name)
            if name in META or field is None:
                fields.append(FieldSource(name, name, pa.null()))
                continue
            source = _source(field, there, known)
            if source.source is None and dataset.version > reference.version:
                raise InvalidInputError(
                    f"column {name!r}: version {dataset.version} has no such column; read again "
                    "with the columns that there are now"
                )
            fields.append(source)
        return cls(tuple(fields))

    @property
    def is_same(self) -> bool:
        """Both versions have the columns alike."""
        return all(field.is_same for field in self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns to read in the other version."""
        sources = (field.source for field in self.fields if field.source is not None)
        return tuple(dict.fromkeys(sources)) or (ROW_ADDRESS,)

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the other version under the names of the reference. CPU."""
        if self.is_same:
            return batch
        arrays = [
            field.of(None if field.source is None else batch.column(field.source), batch.num_rows)
            for field in self.fields
        ]
        return pa.RecordBatch.from_arrays(arrays, [field.name for field in self.fields])


def _source(field: Field, there: Sequence[Field], known: set[int]) -> FieldSource:
    """A field among others of another version.

    Args:
        known: ids of all fields of the version that has the field.
    """
    kind = field.logical_arrow().type
    by_id: Mapping[int, Field] = {other.id: other for other in there}
    alike = (other for other in there if other.name == field.name and other.id not in known)
    other = by_id.get(field.id) or next(alike, None)
    if other is None:
        return FieldSource(field.name, None, kind)
    members: tuple[FieldSource, ...] = ()
    is_struct = pa.types.is_struct(kind) and pa.types.is_struct(other.logical_arrow().type)
    if is_struct and field.children:
        members = tuple(_source(child, other.children, known) for child in field.children)
        is_same = all(member.is_same for member in members)
        members = () if is_same and len(members) == len(other.children) else members
    return FieldSource(field.name, other.name, kind, members)
