"""Forms of fields: what the kernel has to know to build their Arrow arrays."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, compress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import pyarrow as pa

from alance.errors import AlanceError
from alance.file.columns import OpenColumn
from alance.file.kernel_arrays import converted, kernel_type, list_width
from alance.format.layouts.fields import owns_column
from alance.format.layouts.paged_rows import MOST_LAYERS
from alance.format.numbers import is_large, is_text, is_variable, storage_type
from alance.format.types import is_nested, leaf_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from alance.file.leaves import OpenLeaf
    from alance.format.field import Field

LEAF, LIST, LARGE_LIST = 0, -1, -2  # nodes, as the kernel numbers them
NO_FORM: Final = -1  # the kernel builds no array of such values
VIEWED_BYTES: Final = 256  # of a list; pages of such lists are full-zip: views of them, no copies
_Shape: TypeAlias = (
    "tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[bool, ...], pa.DataType | None]"
)
_UNKNOWN: Final[_Shape] = ((), (), (), (), None)


class FieldForm(NamedTuple):
    """A field of a fragment whose array the kernel builds.

    Attributes:
        tree: its nodes, depth-first: leaves, lists, and structs by their number of members.
        leaves: their numbers in the fragment.
        widths: of each leaf, bytes of a value; 0: a bit; -4 or -8: strings, by the bytes of an
            offset.
        texts: of each leaf, whether its values are UTF-8.
        arrow: of the array that the kernel builds; None if it is the field's own type.
    """

    field: Field
    tree: Sequence[int]
    leaves: Sequence[int]
    widths: Sequence[int]
    texts: Sequence[bool]
    arrow: pa.DataType | None

    @property
    def is_viewed(self) -> bool:
        """True if neighbouring rows are not copied but viewed, which the kernel does not do."""
        return len(self.tree) == 1 and list_width(self.field) >= VIEWED_BYTES


class FieldForms(NamedTuple):
    """Forms of fields of a fragment, in the order of the schema, and their parts end to end.

    Attributes:
        conversions: numbers of the fields that the kernel builds as arrays of another type.
    """

    forms: Sequence[FieldForm]
    trees: Sequence[int]
    leaves: Sequence[int]
    widths: Sequence[int]
    texts: Sequence[bool]
    conversions: Sequence[int]

    @classmethod
    def of(cls, forms: Sequence[FieldForm]) -> FieldForms:
        """Join forms."""
        _, *parts, arrows = zip(*forms, strict=True) if forms else [()] * 6
        trees, leaves, widths, texts = [[*chain.from_iterable(part)] for part in parts]
        others = [at for at, arrow in enumerate(arrows) if arrow is not None]
        return cls(forms, trees, leaves, widths, texts, others)

    @property
    def fields(self) -> list[Field]:
        """The fields."""
        return [form.field for form in self.forms]

    @property
    def are_plain(self) -> bool:
        """True if no field has others inside."""
        return len(self.trees) == len(self.leaves)

    def field_of(self, place: int) -> Field:
        """The field of the leaf at a place in `leaves`."""
        owners = chain.from_iterable([form.field] * len(form.leaves) for form in self.forms)
        return [*owners][place]

    def only(self, keep: Sequence[bool]) -> FieldForms:
        """The forms that are marked."""
        return self if all(keep) else FieldForms.of([*compress(self.forms, keep)])

    def imported(self, address: int, schema: pa.Schema) -> pa.RecordBatch:
        """Take over a struct array of these fields from the kernel.

        Args:
            address: of the array.
            schema: of the fields.

        Raises:
            CorruptFileError: JSON that is none, or maps with null entries or keys.
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


def forms_of(fields: Iterable[Field], leaves: Sequence[OpenLeaf]) -> FieldForms:
    """The forms of the fields of which a fragment has all leaves, in files of 2.1 and later."""
    numbers: Mapping[int, int] = {
        leaf.leaf.field.id: number
        for number, leaf in enumerate(leaves)
        if isinstance(leaf.column, OpenColumn)
    }
    forms = []
    for field in fields:
        tree, ids, widths, texts, arrow = field.derive("form", _shape)
        if tree and all(map(numbers.__contains__, ids)):
            of_leaves = [*map(numbers.__getitem__, ids)]
            forms.append(FieldForm(field, tree, of_leaves, widths, texts, arrow))
    return FieldForms.of(forms)


def plain_form(field: Field) -> FieldForm | None:
    """The form of a field that is one column whose neighbouring values the kernel copies."""
    tree, _, widths, texts, arrow = field.derive("form", _shape)
    form = FieldForm(field, tree, (0,), widths, texts, arrow)
    return form if tree == (LEAF,) and not form.is_viewed else None


def with_tables(forms: FieldForms, leaves: Collection[int]) -> FieldForms:
    """The forms all of whose leaves are among these numbers."""
    if len(forms.leaves) <= len(leaves) and all(map(leaves.__contains__, forms.leaves)):
        return forms
    return forms.only([all(map(leaves.__contains__, form.leaves)) for form in forms.forms])


def _shape(field: Field) -> _Shape:
    """Nodes, ids, widths, texts and built type of a field; `_UNKNOWN` if one is missing."""
    nodes = [*_nodes(field)]
    tree = tuple([node for node, _ in nodes if node is not None])
    leaves = [leaf for _, leaf in nodes if leaf is not None]
    forms = [_form_of(leaf) for leaf in leaves]
    widths = tuple([width for width, _ in forms])
    if len(tree) < len(nodes) or NO_FORM in widths:
        return _UNKNOWN
    ids, texts = tuple([leaf.id for leaf in leaves]), tuple([is_utf8 for _, is_utf8 in forms])
    return tree, ids, widths, texts, kernel_type(field)


def _nodes(field: Field, depth: int = 1) -> Iterator[tuple[int | None, Field | None]]:
    """Nodes depth-first, with the field of each leaf; None of a node that the kernel lacks."""
    arrow = storage_type(field.to_arrow().type)
    if depth > MOST_LAYERS:
        yield None, None
    elif owns_column(field):
        yield LEAF, field
    elif pa.types.is_struct(arrow):
        yield len(field.children), None
    elif pa.types.is_list(arrow) or pa.types.is_map(arrow):
        yield LIST, None
    else:
        yield (LARGE_LIST if pa.types.is_large_list(arrow) else None), None
    for child in field.children:
        yield from _nodes(child, depth + 1)


def _form_of(field: Field) -> tuple[int, bool]:
    """The width of a leaf's values, or `NO_FORM`, and whether they are UTF-8."""
    if width := list_width(field):
        return width, False
    return _form_with_metadata(field) if field.metadata else _form_of_type(field.logical_type)


def _form_with_metadata(field: Field) -> tuple[int, bool]:
    if field.is_blob_v1:
        return NO_FORM, False
    if field.is_json:
        return -8, False
    return _form(storage_type(field.to_arrow().type))


@lru_cache(maxsize=256)
def _form_of_type(logical_type: str) -> tuple[int, bool]:
    """The form of fields that have nothing special about them: a table has few types."""
    if is_nested(logical_type):
        return NO_FORM, False
    if logical_type == "json":
        return -8, False
    return _form(leaf_type(logical_type))


def _form(storage: pa.DataType) -> tuple[int, bool]:
    if is_variable(storage):
        return (-8 if is_large(storage) else -4), is_text(storage)
    if pa.types.is_nested(storage) or pa.types.is_dictionary(storage):
        return NO_FORM, False
    if pa.types.is_boolean(storage):
        return 0, False
    try:
        return int(storage.bit_width // 8), False
    except ValueError:
        return NO_FORM, False
