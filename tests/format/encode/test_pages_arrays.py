"""Arrays to levels and values, and back by what reading does."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance.errors import InvalidInputError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.encode.arrays import leaf_values
from alance.format.encode.page_inputs import Hints
from alance.format.encode.pages import encode_pages
from alance.format.encode.rows import cut_entries, join, split, values_bytes
from alance.format.layouts.base import Layer, PageValues, max_definition
from alance.format.layouts.fields import leaf_columns
from alance.format.schema import Schema
from tests.reference import types
from tests.reference.assembled import assemble

if TYPE_CHECKING:
    from alance.format.field import Field


def field_of(array: pa.Array, metadata: dict[str, str] | None = None) -> Field:
    schema = pa.schema([pa.field("c", array.type, metadata=metadata)])
    return Schema.from_arrow(schema).fields[0]


def there_and_back(array: pa.Array, metadata: dict[str, str] | None = None) -> pa.Array:
    field = field_of(array, metadata)
    leaves = leaf_values(field, array)
    return assemble(field, {key: [page] for key, page in leaves.items()}, len(array))


def check(array: pa.Array, metadata: dict[str, str] | None = None) -> None:
    for part in (array, array.slice(1), array.slice(len(array) // 3, len(array) // 2)):
        round_trip = there_and_back(part, metadata)
        round_trip.validate(full=True)
        assert round_trip.type == part.type
        assert repr(round_trip.to_pylist()) == repr(part.to_pylist())


@pytest.mark.parametrize("name", list(types.TYPES))
@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
def test_every_type_comes_back_equal(name: str, nulls: float) -> None:
    check(types.column(name, 90, nulls))


@st.composite
def arrays(draw: st.DrawFn) -> pa.Array:
    """Any type of `types.TYPES`, cut out of a longer array, at times inside structs and lists."""
    name = draw(st.sampled_from(list(types.TYPES)))
    count = draw(st.sampled_from([0, 1, 3, 40, 200]))
    nulls = draw(st.sampled_from([0.0, 0.2, 0.9]))
    array = types.column(name, count + 7, nulls, draw(st.integers(0, 5)))
    for _ in range(draw(st.integers(0, 2))):
        array = around(draw, array)
    start = draw(st.integers(0, min(3, len(array))))
    return array.slice(start, draw(st.integers(0, len(array) - start)))


def around(draw: st.DrawFn, array: pa.Array) -> pa.Array:
    """The array inside a struct or list whose nulls have values under them."""
    rng = random.Random(draw(st.integers(0, 99)))
    if draw(st.booleans()):
        mask = pa.array([rng.random() < 0.2 for _ in range(len(array))])
        names = ["a", "b"]
        return pa.StructArray.from_arrays([array, array], names, mask=mask)
    if "fixed_size_list<item: struct" in str(array.type):
        return array
    offsets = [0]
    while offsets[-1] < len(array):
        offsets.append(min(len(array), offsets[-1] + rng.choice([0, 0, 1, 2, 9])))
    large = draw(st.booleans())
    mask = pa.array([rng.random() < 0.2 for _ in offsets[1:]], pa.bool_())
    make = pa.LargeListArray if large else pa.ListArray
    ends = pa.array(offsets, pa.int64() if large else pa.int32())
    return make.from_arrays(ends, array, mask=mask if len(mask) else None)


@settings(max_examples=250)
@given(arrays())
def test_any_array_comes_back_equal(array: pa.Array) -> None:
    round_trip = there_and_back(array)
    round_trip.validate(full=True)
    assert round_trip.type == array.type
    assert repr(round_trip.to_pylist()) == repr(array.to_pylist())


@settings(max_examples=200)
@given(arrays(), st.integers(0, 50), st.sampled_from([1, 100, 2000]))
def test_joined_and_split(array: pa.Array, first: int, max_bytes: int) -> None:
    """Rows in parts, joined and cut elsewhere, are the same rows."""
    field = field_of(array)
    first = min(first, len(array))
    parts = [leaf_values(field, part) for part in (array[:first], array[first:]) if len(part)]
    if not parts:
        return
    pages = {}
    for leaf in leaf_columns(field):
        rows = join([part[leaf.field.id] for part in parts])
        pages[leaf.field.id] = split(rows, max_bytes, multiple=leaf.multiplier)
        for page in pages[leaf.field.id]:
            assert page.num_rows == leaf.multiplier or values_bytes(page) <= 2 * max_bytes + 4000
            assert page.num_rows % leaf.multiplier == 0
        assert sum(page.num_rows for page in pages[leaf.field.id]) == rows.num_rows
        assert_exact_layers(pages[leaf.field.id])
    assembled = assemble(field, pages, len(array))
    assert repr(assembled.to_pylist()) == repr(array.to_pylist())


def assert_exact_layers(pages: list[PageValues]) -> None:
    """Levels are there where the layers promise some."""
    for page in pages:
        highest = max_definition(page.layers)
        assert (page.definition is None) == (highest == 0)
        assert highest == 0 or page.definition.max() <= highest
        has_outer = page.rep is not None and Layer.NULLABLE_ITEM in page.layers[1:]
        assert highest == 0 or has_outer or page.definition.any()


def test_empty_lists_are_cut_by_entries() -> None:
    array = pa.array([[1, 2], [], [], None, [3], [], [4, 5, 6, 7]], pa.list_(pa.int8()))
    (page,) = leaf_values(field_of(array), array).values()
    parts = cut_entries(page, 3)
    assert [len(part.rep) for part in parts] == [3, 3, 1, 4]
    assembled = assemble(field_of(array), {1: parts}, len(array))
    assert assembled.to_pylist() == array.to_pylist()


DICTIONARY = pa.dictionary(pa.int8(), pa.string())


def test_dictionaries_of_batches_are_joined() -> None:
    item = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), ["x", "y"])
    other = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), ["y", "z"])
    field = field_of(item)
    parts = [leaf_values(field, array)[0] for array in (item, other, item)]
    result = join(parts)
    assert result.values.items.num_values == 4
    array = assemble(field, {0: [result]}, 8)
    assert array.to_pylist() == ["x", "y", None, "z", "y", "x", "y", None]


def test_null_items_of_dictionaries_are_nulls() -> None:
    items = pa.array([None, "b", None, "d"])
    array = pa.DictionaryArray.from_arrays(pa.array([3, 0, None, 1, 2], pa.int8()), items)
    (page,) = leaf_values(field_of(array), array).values()
    assert page.definition.tolist() == [0, 1, 1, 0, 1]
    assert page.values.items.num_values == 2
    assembled = assemble(field_of(array), {0: [page]}, 5)
    assert assembled.to_pylist() == ["d", None, None, "b", None]


@pytest.mark.parametrize(
    ("array", "stored"),
    [
        (pa.array(["a", None], pa.string_view()), pa.string()),
        (pa.array([b"a", None], pa.binary_view()), pa.binary()),
        (pa.array(["a", None], pa.large_string()), pa.string()),
        (pa.array(["a", None, "a"]).dictionary_encode(), pa.string()),
        (pa.array(["a", None, "a"]), DICTIONARY),
        (pa.array([1, None], pa.int64()), pa.int16()),
        (
            pa.array([[1.0, 2.0], None], pa.list_(pa.field("x", pa.float32(), nullable=False), 2)),
            pa.list_(pa.float32(), 2),
        ),
    ],
)
def test_other_types_are_cast(array: pa.Array, stored: pa.DataType) -> None:
    field = Schema.from_arrow(pa.schema([pa.field("c", stored)])).fields[0]
    pages = {key: [page] for key, page in leaf_values(field, array).items()}
    assembled = assemble(field, pages, len(array))
    assert assembled.type == stored
    assert assembled.to_pylist() == array.to_pylist()


def test_json_comes_back_in_canonical_form() -> None:
    texts = ['{"b":1,"a":[true,null,-3,2.5]}', None, '"x"', "0", "[]", "18446744073709551615"]
    array = pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts))
    round_trip = there_and_back(array)
    assert round_trip.type == pa.json_()
    assert round_trip.to_pylist() == ['{"a":[true,null,-3,2.5],"b":1}', *texts[1:]]


@pytest.mark.parametrize("text", ["{", "NaN", '{"a":1,"a":2}', "1e400", "[" * 200 + "]" * 200, ""])
def test_text_that_is_no_json(text: str) -> None:
    bad = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", text]))
    with pytest.raises(InvalidInputError, match="row 1 is no JSON"):
        leaf_values(field_of(bad), bad)


PACKED = {"lance-encoding:packed": "true"}


def test_packed_structs_come_back_equal_and_have_no_null_members() -> None:
    rows = [{"a": 1, "b": "x"}, None, {"a": 3, "b": ""}]
    array = pa.array(rows, pa.struct([("a", pa.int32()), ("b", pa.string())]))
    assert there_and_back(array, PACKED).to_pylist() == rows
    bad = pa.array([{"a": 1}, {"a": None}], pa.struct([("a", pa.int32())]))
    with pytest.raises(InvalidInputError, match=r"c\.a.*null in row 1"):
        leaf_values(field_of(bad, PACKED), bad)


@pytest.mark.parametrize("arrow", [pa.bool_(), pa.struct([])])
def test_packed_structs_refuse_children(arrow: pa.DataType) -> None:
    array = pa.nulls(2, pa.struct([("a", arrow)]))
    with pytest.raises(UnsupportedError, match="packed structs hold no"):
        leaf_values(field_of(array, PACKED), array)


def test_empty_structs_come_back_equal() -> None:
    array = pa.array([{}, {}, {}], pa.struct([]))
    assert there_and_back(array).to_pylist() == [{}, {}, {}]
    nested = pa.array([[{}], None, [], [{}, {}]], pa.list_(pa.struct([])))
    assert there_and_back(nested).to_pylist() == nested.to_pylist()


@pytest.mark.parametrize("version", [FileVersion.V2_1, FileVersion.V2_2])
def test_pages_before_2_3_have_no_null_among_empty_structs(version: FileVersion) -> None:
    bad = pa.array([{}, None], pa.struct([]))
    field = field_of(bad)
    (values,) = leaf_values(field, bad).values()
    with pytest.raises(InvalidInputError, match="null structs without fields"):
        encode_pages([(field, values, Hints(version, {}))])


def test_an_array_of_another_type_is_refused() -> None:
    field = field_of(pa.array([[1]], pa.list_(pa.int32())))
    with pytest.raises(InvalidInputError, match="is expected"):
        leaf_values(field, pa.array([1, 2]))
    with pytest.raises(InvalidInputError, match="is expected"):
        leaf_values(field, pa.array([["x"]]))
    field = field_of(pa.array([{"a": 1}]))
    with pytest.raises(InvalidInputError, match="children"):
        leaf_values(field, pa.array([{"b": 1}]))


def test_children_in_another_order() -> None:
    field = field_of(pa.array([{"a": 1, "b": "x"}]))
    pages = leaf_values(field, pa.array([{"b": "x", "a": 1}]))
    assembled = assemble(field, {key: [page] for key, page in pages.items()}, 1)
    assert assembled.to_pylist() == [{"a": 1, "b": "x"}]


def test_indices_of_nulls_may_be_anything() -> None:
    indices = pa.Array.from_buffers(
        pa.int8(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(bytes([1, 200, 0]))]
    )
    array = pa.DictionaryArray.from_arrays(indices, ["x", "y"], safe=False)
    (page,) = leaf_values(field_of(array), array).values()
    assert page.values.indices.data.tolist() == [1, 0, 0]
    bad = pa.DictionaryArray.from_arrays(pa.array([7], pa.int8()), ["x"], safe=False)
    with pytest.raises(InvalidInputError, match="index 7"):
        leaf_values(field_of(bad), bad)


def test_nulls_where_the_schema_has_none() -> None:
    arrow = pa.struct([pa.field("x", pa.int32(), nullable=False)])
    field = Schema.from_arrow(pa.schema([pa.field("c", arrow)])).fields[0]
    child = pa.array([1, None], pa.int32())
    under_null = pa.StructArray.from_arrays([child], ["x"], mask=pa.array([False, True]))
    leaf_values(field, under_null)
    with pytest.raises(InvalidInputError, match="'x': nulls"):
        leaf_values(field, pa.StructArray.from_arrays([child], ["x"]))


def test_extension_types_inside_vectors() -> None:
    values = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * 6, pa.binary(16)))
    array = pa.FixedSizeListArray.from_arrays(values, 2)
    field = Schema.from_arrow(pa.schema([pa.field("c", pa.list_(pa.binary(16), 2))])).fields[0]
    for part in (array, array.slice(1)):
        (page,) = leaf_values(field, part).values()
        assembled = assemble(field, {0: [page]}, len(part))
        assert assembled.to_pylist() == [[b"0" * 16] * 2] * len(part)
