"""All rows of some files: leaves of plain values by one call of the kernel, whatever the number of
files, columns and pages.

What the kernel does not take (nested fields, dictionaries, full-zip pages) is decoded leaf by leaf,
beside; where it finds something wrong, its leaves are, too: that tells what and where.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from alance.file.batches import completed
from alance.file.open.recall import OwnStates
from alance.file.rows.field_forms import FieldForms, plain_form
from alance.file.rows.fragment import FragmentTask
from alance.file.rows.kernel_arrays import NO_FORM
from alance.format.layouts import whole_form
from alance.format.plans import answered

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from alance import _kernels
    from alance.file.rows.field_forms import FieldForm
    from alance.file.rows.file_pages import FilePages
    from alance.file.rows.fragment import Found, OpenFragment
    from alance.format.field import Field
    from alance.format.schema import Schema


class LeafForms(NamedTuple):
    """Leaves of a schema, and how the kernel makes arrays of them.

    Attributes:
        forms: of each leaf; None if the kernel makes no array of it alone.
        widths: as of `LeafForm`.
        texts: whether values are UTF-8.
    """

    fields: Sequence[Field]
    forms: Sequence[FieldForm | None]
    widths: Sequence[int]
    texts: Sequence[bool]

    @classmethod
    def of(cls, schema: Schema, fields: Sequence[Field]) -> LeafForms:
        """Those of some leaves of a schema, in its order."""

        def make() -> LeafForms:
            top = {field.id for field in schema.fields}
            forms = [plain_form(field) if field.id in top else None for field in fields]
            widths = [NO_FORM if form is None else form.widths[0] for form in forms]
            return cls(
                fields, forms, widths, [form is not None and form.texts[0] for form in forms]
            )

        return schema.remember((cls, tuple([field.id for field in fields])), make)


class JoinedLeaves(NamedTuple):
    """Leaves whose pages in all files the kernel decodes at once.

    Attributes:
        numbers: of the leaves among those that have pages.
        columns: of each leaf that has pages: its number in each file.
        pages_as: how the kernel reads pages, of each description.
    """

    pages: FilePages
    forms: LeafForms
    columns: Sequence[Sequence[int]]
    numbers: Sequence[int]
    pages_as: Sequence[_kernels.PageForm | None]
    num_rows: int

    @property
    def fields(self) -> list[Field]:
        """The fields of the leaves."""
        return [self.forms.fields[number] for number in self.numbers]

    def decode(self) -> pa.RecordBatch | None:
        """The rows; None where something is wrong, which the pages one by one tell."""
        kernel, contents, forms = self.pages.kernel, self.pages.contents, self.forms
        firsts = np.array([content.first for content in contents], np.int64)
        views = [content.content for content in contents]
        try:
            kernel.decode(
                self.numbers,
                self.pages_as,
                forms.widths,
                forms.texts,
                views,
                self.pages.numbers,
                firsts,
                self.num_rows,
            )
        except (ValueError, OverflowError):
            return None
        decoded = FieldForms.of([form for at in self.numbers if (form := forms.forms[at])])
        schema = pa.schema([field.to_arrow() for field in self.fields])
        return decoded.imported(kernel.address, schema)

    def singly(self) -> dict[int, Found]:
        """The pages of the leaves, by field id."""
        return {
            field.id: self.pages.leaf(number, field, self.columns[number])
            for number, field in zip(self.numbers, self.fields, strict=True)
        }


class JoinedNested(NamedTuple):
    """All rows of nested fields of one fragment, for a row plan.

    A plan has a call for all leaves, where pages that are decoded leaf by leaf take some 380 calls
    of Python each: 300 leaves of 2 000 rows take a fifth of the time. Several fragments would need
    a table for each page, so their pages are joined instead.

    Attributes:
        fragment: of these fields alone.
        pages: whose contents have all bytes of the fields.
    """

    fragment: OpenFragment
    pages: FilePages

    def decode(self) -> pa.RecordBatch:
        """Plan the rows, cut their bytes and decode them; CPU work.

        Raises:
            CorruptFileError: bytes that contradict the format.
        """
        reading = self.fragment.read(0, self.fragment.num_rows, OwnStates())
        return answered(reading, self.pages.cut).decode()


class JoinedRows(NamedTuple):
    """All rows of some files: what the kernel decodes of them at once."""

    parts: Sequence[JoinedLeaves]
    num_rows: int
    nested: JoinedNested | None = None

    @property
    def num_bytes(self) -> int:
        """Bytes of the files that are decoded."""
        pages = [part.pages for part in self.parts]
        if not pages and self.nested is not None:
            pages = [self.nested.pages]
        return sum(len(content.content) for own in pages for content in own.contents)

    def batch(
        self, schema: Schema, column: Callable[[Field], pa.Array | None]
    ) -> pa.RecordBatch | None:
        """The batch of a schema; None if a column is None.

        Args:
            column: gives each column that is not here.
        """
        batches: list[tuple[Sequence[Field], pa.RecordBatch]] = []
        leaves: dict[int, Found] = {}
        if self.nested is not None:
            batches.append((self.nested.fragment.schema.fields, self.nested.decode()))
        for part in self.parts:
            batch = part.decode()
            if batch is None:
                leaves |= part.singly()
            else:
                batches.append((part.fields, batch))
        single = FragmentTask(schema, self.num_rows, leaves)
        return completed(
            schema,
            batches,
            lambda field: single.column(field) if field.id in leaves else column(field),
        )


def joined(
    schema: Schema,
    fields: Sequence[Field],
    columns: Sequence[Sequence[int]],
    pages: FilePages,
    num_rows: int,
    beside: Collection[int] = (),
) -> tuple[JoinedLeaves | None, dict[int, Found]]:
    """What the kernel decodes of the leaves of files at once, and the pages of the others.

    Args:
        fields: of the leaves that have pages.
        columns: of each, its number in each file.
        beside: ids of leaves that are decoded elsewhere.
    """
    forms = LeafForms.of(schema, fields)
    pages_as = [*map(whole_form, pages.kernel.descriptions)]
    numbers = pages.kernel.fitting(pages_as, forms.widths)
    others = {*range(len(fields))}.difference(numbers)
    leaves: dict[int, Found] = {
        fields[number].id: pages.leaf(number, fields[number], columns[number])
        for number in sorted(others)
        if fields[number].id not in beside
    }
    if not numbers:
        return None, leaves
    return JoinedLeaves(pages, forms, columns, numbers, pages_as, num_rows), leaves
