"""Single rows of many columns of plain values: one record batch by one call of the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from alance import _kernels
from alance.errors import AlanceError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from alance.arrays import Int64s
    from alance.format.field import Field
    from alance.format.layouts.paged_rows import PlacedRows
    from alance.format.plans import Reader
    from alance.format.schema import Schema


class PlacedColumns(NamedTuple):
    """Columns of rows that were placed, each of which is a field of the schema.

    Attributes:
        columns: their numbers in the plan.
        widths: how values lie, as for `RangedColumns`.
        texts: whether values are UTF-8.
    """

    placed: PlacedRows
    fields: Sequence[Field]
    columns: Sequence[int]
    widths: Sequence[int]
    texts: Sequence[bool]

    @property
    def sizes(self) -> dict[int, int]:
        """Encoded bytes by field id."""
        sizes = self.placed.plan.column_bytes
        return {
            field.id: sizes[column] for field, column in zip(self.fields, self.columns, strict=True)
        }

    @property
    def num_bytes(self) -> int:
        """Encoded bytes."""
        sizes = self.placed.plan.column_bytes
        return sum([sizes[column] for column in self.columns])

    def only(self, ids: Collection[int]) -> PlacedColumns:
        """Those of some fields."""
        kept = [number for number, field in enumerate(self.fields) if field.id in ids]
        return self._replace(
            fields=[self.fields[number] for number in kept],
            columns=[self.columns[number] for number in kept],
            widths=[self.widths[number] for number in kept],
            texts=[self.texts[number] for number in kept],
        )

    def decode(self, read: Reader, schema: Schema, order: Int64s | None = None) -> pa.RecordBatch:
        """The values, in the order of the rows, or in another one.

        Args:
            read: brings what was not read before.
            schema: of the rows; of its fields these are some, or all, in their order.
            order: the rows that are wanted, by their numbers among these.

        Raises:
            CorruptFileError: the bytes contradict the format.
            UnsupportedError: more bytes of strings than 32-bit offsets can say.
        """
        placed = self.placed
        plan, content = placed.plan, placed.content
        batch = _kernels.RowBatch(self.columns, self.widths, self.texts, order)
        try:
            if content is not None:
                batch.decode(plan, content)
            else:
                with read(placed.paths, lambda: placed.pieces_of_columns(self.columns)) as source:
                    if not batch.read(plan, source):
                        raise OSError  # the reader knows which
        except OverflowError as error:
            raise UnsupportedError(f"{error}: take fewer rows at once") from error
        except AlanceError:
            raise
        except ValueError as error:
            failure = plan.page(batch.page).place.corrupt(str(error))
            failure.add_note(f"in field {self.fields[batch.column].name!r}")
            raise failure from error
        if len(self.fields) == len(schema.fields):
            arrow = schema.read_arrow()
        else:
            arrow = pa.schema([field.to_arrow() for field in self.fields])
        return pa.RecordBatch._import_from_c(batch.address, arrow)
