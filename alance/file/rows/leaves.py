"""Leaves of open fragments, and forms: descriptions by which the kernel builds Arrow arrays."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, compress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import pyarrow as pa

from alance.errors import AlanceError
from alance.file.batches import leaf_bytes
from alance.file.rows.kernel_arrays import LeafForm, converted, kernel_type, leaf_form
from alance.format.layouts.fields import dimension_of, leaf_columns, owns_column
from alance.format.layouts.place import PagePlace
from alance.format.numbers import storage_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from alance._kernels import RowPlan
    from alance.errors import CorruptFileError
    from alance.format.field import Field
    from alance.format.layouts.fields import LeafColumn
    from alance.format.schema import Schema

FEW_FIELDS: Final = 16  # maximum fields that are described when their files are opened


class LeafSet:
    """Leaves that fragments have; one object for all fragments of a schema with the same leaves.

    Attributes:
        ids: field id of each leaf.
        times: number of rows of each leaf's column per row of the table.
        places: place of each leaf by its field id.
        packed: ids of fixed-size lists of structs, which own a column only in files of 2.0.
    """

    def __init__(self, schema: Schema, columns: Sequence[LeafColumn]) -> None:
        self._fields = schema.fields
        self._forms: FieldForms | None = None
        self._row_bytes: list[float] | None = None
        self.columns = columns
        self.ids = tuple([column.field.id for column in columns])
        self.times = [column.multiplier for column in columns]
        self.places = {field_id: place for place, field_id in enumerate(self.ids)}
        self.packed = frozenset(
            [
                member.id
                for field in schema.fields
                if not field.is_leaf
                for member in field.walk()
                if member.logical_type.startswith("fixed_size_list:struct:")
            ]
        )

    @classmethod
    def of_schema(cls, schema: Schema) -> LeafSet:
        """Return all leaves of a schema."""
        return schema.remember(
            LeafSet,
            lambda: cls(schema, [leaf for field in schema.fields for leaf in leaf_columns(field)]),
        )

    @classmethod
    def of_columns(cls, schema: Schema, columns: Sequence[LeafColumn]) -> LeafSet:
        """Return the leaves of a schema that own these columns."""
        ids = tuple([column.field.id for column in columns])
        return schema.remember((LeafSet, ids), lambda: cls(schema, columns))

    def part(self, schema: Schema, places: Sequence[int]) -> LeafSet:
        """Return the leaves at these places; the object itself for all places."""
        if len(places) == len(self.ids):
            return self
        return LeafSet.of_columns(schema, [*map(self.columns.__getitem__, places)])

    @classmethod
    def described(cls, schema: Schema) -> LeafSet:
        """Return all leaves of a schema, with their `forms` and `row_bytes`; 10 to 30 us a leaf."""
        own = cls.of_schema(schema)
        assert own.forms is not None
        assert own.row_bytes is not None
        return own

    # No `cached_property`: before Python 3.12, threads that compute one wait for each other.
    @property
    def row_bytes(self) -> list[float]:
        """Bytes of a row of each fixed-width leaf; 0 for other leaves."""
        if self._row_bytes is None:
            self._row_bytes = [*map(leaf_bytes, self.columns)]
        return self._row_bytes

    @property
    def forms(self) -> FieldForms:
        """Fields whose arrays the kernel builds."""
        if self._forms is None:
            self._forms = forms_of(self._fields, self.ids)
        return self._forms


LEAF_NODE, LIST_NODE, LARGE_LIST_NODE = 0, -1, -2  # node numbers in the kernel
_Shape: TypeAlias = (
    "tuple[tuple[int, ...], tuple[int, ...], tuple[LeafForm, ...], pa.DataType | None]"
)


class FieldForm(NamedTuple):
    """Form of a field whose array the kernel builds.

    Attributes:
        tree: nodes of the field, depth-first: `LEAF_NODE`, `LIST_NODE`, `LARGE_LIST_NODE`,
            `LARGE_LIST_NODE` minus the length of fixed-size lists, or the number of members of a
            struct.
        leaves: numbers of the field's leaves in the fragment.
        values: form of each leaf.
        arrow: type of the array that the kernel builds; None for the field's own type.
    """

    field: Field
    tree: Sequence[int]
    leaves: Sequence[int]
    values: Sequence[LeafForm]
    arrow: pa.DataType | None


class FieldForms(NamedTuple):
    """Forms of a fragment's fields in the schema's order, also as flat lists for the kernel.

    Attributes:
        trees, leaves: `tree` and `leaves` of all forms, concatenated.
        widths, texts, shapes: attributes of the `LeafForm` of each leaf.
        conversions: numbers of the fields whose arrays the kernel builds with another type.
    """

    forms: Sequence[FieldForm]
    trees: Sequence[int]
    leaves: Sequence[int]
    widths: Sequence[int]
    texts: Sequence[bool]
    shapes: Sequence[Sequence[int]]
    conversions: Sequence[int]

    @classmethod
    def of(cls, forms: Sequence[FieldForm]) -> FieldForms:
        _, *parts, arrows = zip(*forms, strict=True) if forms else [()] * 5
        trees, leaves, values = [[*chain.from_iterable(part)] for part in parts]
        widths, texts, _, shapes = zip(*values, strict=True) if values else [()] * 4
        others = [at for at, arrow in enumerate(arrows) if arrow is not None]
        return cls(forms, trees, leaves, widths, texts, shapes, others)

    @property
    def fields(self) -> list[Field]:
        return [form.field for form in self.forms]

    @property
    def are_plain(self) -> bool:
        """True if no field is nested, has a dictionary, or is a packed struct of any length."""
        are_indices = [len(shape) == 1 for shape in self.shapes]
        are_packed = [
            width < 0 and shape[:1] == (0,)
            for width, shape in zip(self.widths, self.shapes, strict=True)
        ]
        return len(self.trees) == len(self.leaves) and not any([*are_indices, *are_packed])

    def _field_of(self, leaf: int) -> Field:
        """Return the field that owns leaf number `leaf` of the concatenated `leaves`."""
        owners = chain.from_iterable([form.field] * len(form.leaves) for form in self.forms)
        return [*owners][leaf]

    def check(self, plan: RowPlan, paths: Sequence[str]) -> None:
        """Check that pages have values of their fields' types.

        Args:
            plan: its columns are the leaves of these fields.
            paths: for each table of the plan, the path of its file.

        Raises:
            CorruptFileError: a page has other values.
        """
        wrong = plan.misfit(self.trees, range(len(self.leaves)), self.widths, self.shapes)
        if wrong is not None:
            leaf, page, what = wrong
            arrow = self._field_of(leaf).to_arrow().type
            raise self.corrupt(plan, paths, leaf, page, f"{what} for type {arrow}")

    def corrupt(
        self, plan: RowPlan, paths: Sequence[str], leaf: int, page: int, what: str
    ) -> CorruptFileError:
        """Build an error that names a page and its field, and says what is wrong.

        Args:
            leaf: index in `leaves`.
            page: number of the page in the plan.
        """
        table, start = plan.place(page)
        failure = PagePlace(paths[table], ((start, 0),), 0).corrupt(what)
        failure.add_note(f"in field {self._field_of(leaf).name!r}")
        return failure

    def only(self, keep: Sequence[bool]) -> FieldForms:
        """Select the forms that are marked True."""
        return self if all(keep) else FieldForms.of([*compress(self.forms, keep)])

    def imported(self, address: int, schema: pa.Schema) -> pa.RecordBatch:
        """Import a record batch of these fields from kernel memory.

        Raises:
            CorruptFileError: a JSON value is invalid, or a map has null entries or keys.
            UnsupportedError: there are values of a type whose values no writer stores.
        """
        if not self.conversions:
            return pa.RecordBatch._import_from_c(address, schema)
        built = [*schema]
        for at in self.conversions:
            built[at] = built[at].with_type(self.forms[at].arrow)
        arrays = pa.RecordBatch._import_from_c(address, pa.schema(built)).columns
        for at in self.conversions:
            field = self.forms[at].field
            try:
                arrays[at] = converted(arrays[at], field, schema.field(at).type)
            except AlanceError as error:
                error.add_note(f"in field {field.name!r}")
                raise
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def forms_of(fields: Iterable[Field], own_ids: Iterable[int]) -> FieldForms:
    """Return the forms of the fields that have at least one leaf in the fragment.

    Members of a field whose leaves are missing are omitted from its form.

    Args:
        own_ids: ids of the leaves that the fragment has.
    """
    numbers: Mapping[int, int] = {field_id: number for number, field_id in enumerate(own_ids)}
    forms = []
    for field in fields:
        tree, ids, values, arrow = field.derive("form", _shape)
        if not all(map(numbers.__contains__, ids)):
            part = _part(field, numbers)
            if part is None:
                continue
            tree, ids, values, arrow = _shape(part)
            arrow = arrow or storage_type(part.to_arrow().type)
        of_leaves = [*map(numbers.__getitem__, ids)]
        forms.append(FieldForm(field, tree, of_leaves, values, arrow))
    return FieldForms.of(forms)


def _part(field: Field, ids: Collection[int]) -> Field | None:
    """Return a field without the members that have no leaf in `ids`; None if none has."""
    if owns_column(field):
        return field if field.id in ids else None
    children = [part for child in field.children if (part := _part(child, ids)) is not None]
    return replace(field, children=tuple(children)) if children else None


def _shape(field: Field) -> _Shape:
    """Describe a field for the kernel: nodes, leaf ids, leaf forms and built type."""
    if owns_column(field):  # members of a packed struct are not nodes
        form = leaf_form(field)
        return (LEAF_NODE,), (field.id,), (form,), form.arrow
    arrow = storage_type(field.to_arrow().type)
    if pa.types.is_struct(arrow):
        node = len(field.children)
    elif pa.types.is_list(arrow) or pa.types.is_map(arrow):
        node = LIST_NODE
    else:
        node = LARGE_LIST_NODE - (dimension_of(field) or 0)
    *parts, types = zip(*map(_shape, field.children), strict=True)
    trees, ids, forms = [tuple(chain.from_iterable(part)) for part in parts]
    return (node, *trees), ids, forms, kernel_type(field, arrow, types)
