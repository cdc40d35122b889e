"""Single rows of many columns of plain values: one record batch by one call of the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from alance import _kernels
from alance.errors import AlanceError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from alance.arrays import Int64s
    from alance.format.field import Field
    from alance.format.layouts.paged_rows import PlacedRows
    from alance.format.plans import Pieces, Reader
    from alance.format.schema import Schema

GOES_ON: Final = 1  # of the kernel: there are shares that are not decoded


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
        (share,) = self.shares(1, schema, order)
        batch = share.decode(read)
        assert batch is not None
        return batch

    def shares(self, count: int, schema: Schema, order: Int64s | None) -> list[ColumnsShare]:
        """The same for so many threads, each of which decodes about as many bytes; several only
        of rows that were not read before.
        """
        batch = _kernels.RowBatch(self.columns, self.widths, self.texts, order, count)
        return [ColumnsShare(self, schema, batch, number) for number in range(count)]


class ColumnsShare(NamedTuple):
    """What a thread decodes of columns; the batch is that of all shares."""

    columns: PlacedColumns
    schema: Schema
    batch: _kernels.RowBatch
    number: int

    def decode(self, read: Reader) -> pa.RecordBatch | None:
        """The values of all shares, once the last of them is decoded; None before.

        Arguments and errors are those of `PlacedColumns.decode`.
        """
        placed, fields, *_ = self.columns
        plan, content = placed.plan, placed.content
        try:
            if content is not None:
                self.batch.decode(plan, content)
            else:
                with read(placed.paths, self._pieces) as source:
                    state = self.batch.read(plan, source, self.number)
                    if not state:
                        raise OSError  # the reader knows which
                if state == GOES_ON:
                    return None
        except OverflowError as error:
            raise UnsupportedError(f"{error}: take fewer rows at once") from error
        except AlanceError:
            raise
        except ValueError as error:
            page, column = self.batch.place(self.number)
            failure = plan.page(page).place.corrupt(str(error))
            failure.add_note(f"in field {fields[column].name!r}")
            raise failure from error
        if len(fields) == len(self.schema.fields):
            arrow = self.schema.read_arrow()
        else:
            arrow = pa.schema([field.to_arrow() for field in fields])
        return pa.RecordBatch._import_from_c(self.batch.address, arrow)

    def _pieces(self) -> Pieces:
        """What is read; the first share tells it of all."""
        placed, _, columns, *_ = self.columns
        return placed.pieces_of(0, 0) if self.number else placed.pieces_of_columns(columns)
