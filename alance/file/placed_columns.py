"""Single rows of many fields, nested ones too: one record batch by one call of the kernel."""

from __future__ import annotations

from itertools import chain, compress, islice, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import pyarrow as pa

from alance import _kernels
from alance.errors import AlanceError, BatchTooLargeError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from alance.arrays import Int64s
    from alance.file.field_forms import FieldForm
    from alance.format.field import Field
    from alance.format.layouts.paged_rows import PlacedRows
    from alance.format.plans import Pieces, Reader
    from alance.format.schema import Schema

GOES_ON: Final = 1  # of the kernel: there are shares that are not decoded
_TREE, _LEAVES, _WIDTHS, _TEXTS = map(attrgetter, ("tree", "leaves", "widths", "texts"))
T = TypeVar("T")


class PlacedColumns(NamedTuple):
    """Columns of rows that were placed: all leaves of some fields of the schema.

    Attributes:
        columns: the numbers of the leaves in the plan, field by field.
    """

    placed: PlacedRows
    forms: Sequence[FieldForm]
    columns: Sequence[int]

    @property
    def fields(self) -> list[Field]:
        """The fields, in the order of the schema."""
        return [form.field for form in self.forms]

    @property
    def are_plain(self) -> bool:
        """Whether each column is a field."""
        return sum(map(len, map(_TREE, self.forms))) == len(self.columns)

    @property
    def sizes(self) -> dict[int, int]:
        """Encoded bytes by field id."""
        of_columns, sizes = self.placed.plan.column_bytes, dict[int, int]()
        for form, column in zip(self._each(self.forms), self.columns, strict=True):
            sizes[form.field.id] = sizes.get(form.field.id, 0) + of_columns[column]
        return sizes

    @property
    def num_bytes(self) -> int:
        """Encoded bytes."""
        sizes = self.placed.plan.column_bytes
        return sum([sizes[column] for column in self.columns])

    def field_of(self, place: int) -> Field:
        """The field of a column, by its place among these."""
        return next(islice(self._each(self.forms), place, None)).field

    def only(self, ids: Collection[int]) -> PlacedColumns:
        """Those of some fields."""
        kept = [form.field.id in ids for form in self.forms]
        columns = [*compress(self.columns, self._each(kept))]
        return PlacedColumns(self.placed, [*compress(self.forms, kept)], columns)

    def fitting(self) -> PlacedColumns:
        """Those whose pages have the values that their types say."""
        numbers = self.placed.plan.fitting(self._all(_TREE), self.columns, self._all(_WIDTHS))
        if len(numbers) == len(self.forms):
            return self
        return self.only({self.forms[number].field.id for number in numbers})

    def _each(self, values: Iterable[T]) -> Iterator[T]:
        """What is of each field, for each of its columns."""
        return chain.from_iterable(map(repeat, values, map(len, map(_LEAVES, self.forms))))

    def _all(self, part: attrgetter[Sequence[Any]]) -> list[Any]:
        return [*chain.from_iterable(map(part, self.forms))]

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
        of rows that were not read before, of columns that `are_plain`.
        """
        trees, widths, texts = map(self._all, (_TREE, _WIDTHS, _TEXTS))
        batch = _kernels.RowBatch(trees, self.columns, widths, texts, order, count)
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
        columns = self.columns
        placed, plan = columns.placed, columns.placed.plan
        content = placed.content
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
            raise BatchTooLargeError(f"{error}: take fewer rows at once") from error
        except AlanceError:
            raise
        except ValueError as error:
            page, column = self.batch.place(self.number)
            failure = plan.page(page).place.corrupt(str(error))
            failure.add_note(f"in field {columns.field_of(column).name!r}")
            raise failure from error
        if len(columns.forms) == len(self.schema.fields):
            arrow = self.schema.read_arrow()
        else:
            arrow = pa.schema([field.to_arrow() for field in columns.fields])
        return pa.RecordBatch._import_from_c(self.batch.address, arrow)

    def _pieces(self) -> Pieces:
        """What is read; the first share tells it of all."""
        placed, _, columns = self.columns
        return placed.pieces_of(0, 0) if self.number else placed.pieces_of_columns(columns)
