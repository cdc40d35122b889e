"""Pages of the kernel that takes rows refuse what would let it read beyond their bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from alance import _kernels
from alance.format.codecs.base import ValuesForm
from alance.format.layouts.base import LevelsForm
from tests.kernels.page_columns import Chunks, chunked, learned
from tests.reference.planned import plan_rows, plan_spans


def with_items(
    values: ValuesForm, bits: int, items: bytes, *, strings: bool = False
) -> _kernels.ColumnPages:
    """A page of four indices into items of 16 bits, or into two strings."""
    form = _kernels.PageForm((values, bits, 0, 0, 0, False), None, 4, True)
    form.set_layers(1)
    form.set_items(strings, 32 if strings else 16, 2 if strings else len(items) // 2)
    size = len(chunk_of(bits))
    words = (size // 8 - 1 << 4).to_bytes(2, "little")
    return learned(form, [2, size, len(items)], 4, words + items)


def chunk_of(bits: int) -> bytes:
    """A chunk of four indices: 3, 0, 1, 2."""
    indices = b"".join(n.to_bytes(-(-bits // 8), "little") for n in (3, 0, 1, 2))
    chunk = b"\0\0" + len(indices).to_bytes(2, "little") + bytes(4) + indices
    return chunk + bytes(-len(chunk) % 8)


STRINGS = np.array([32, 20, 0, 1, 2], "<u4").tobytes() + b"ab"


@pytest.mark.parametrize("strings", [False, True])
@pytest.mark.parametrize(
    ("values", "bits"),
    [
        (ValuesForm.FLAT, 24),  # a word of eight bytes would be read for three
        (ValuesForm.FLAT, 128),
        (ValuesForm.FLAT, 1),  # an item would be read from the one byte of a bit
        (ValuesForm.STRINGS, 32),
    ],
)
def test_only_words_are_indices(values: ValuesForm, bits: int, strings: bool) -> None:
    with pytest.raises(ValueError, match="no indices"):
        with_items(values, bits, STRINGS if strings else bytes(4), strings=strings)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_words_are_indices(bits: int) -> None:
    table = with_items(ValuesForm.FLAT, bits, bytes(range(8)))
    plan = plan_rows([[table]], np.array([0, 3]), [2])
    assert values_of(plan, pa.uint16(), memoryview(chunk_of(bits))) == [0x0706, 0x0504]


def values_of(
    plan: _kernels.RowPlan, arrow: pa.DataType, content: memoryview, width: int | None = None
) -> list[Any]:
    """The rows of a plan, as a column of a type."""
    width = arrow.bit_width // 8 if width is None else width
    batch = _kernels.RowBatch([0], [0], [width], [pa.types.is_string(arrow)])
    batch.decode(plan, content)
    schema = pa.schema([pa.field("column", arrow)])
    rows = pa.RecordBatch._import_from_c(batch.address, schema)
    rows.validate(full=True)
    values: list[Any] = rows.column(0).to_pylist()
    return values


def test_a_batch_knows_its_bounds() -> None:
    form = _kernels.PageForm((ValuesForm.ZIPPED, 16, 0, 0, 0, False), None, 4, False)
    form.set_layers(1)
    table = learned(form, [8], 4, b"")
    plan, content = plan_rows([[table]], np.array([1, 3]), [2]), memoryview(bytes(range(4)))
    assert values_of(plan, pa.uint16(), content) == [0x0100, 0x0302]
    with pytest.raises(ValueError, match="row batch"):
        values_of(plan, pa.uint16(), content[:3])
    with pytest.raises(ValueError, match="another form"):
        values_of(plan, pa.uint32(), content)


def blobs(*places: tuple[int, int]) -> memoryview:
    return memoryview(np.array(places, "<u8").tobytes())


def blob_plan(rows: list[int], layers: int = 1) -> _kernels.RowPlan:
    """Rows of a page of four descriptions of blobs."""
    form = _kernels.PageForm((ValuesForm.ZIPPED, 128, 0, 0, 0, False), None, 4, False)
    form.set_layers(layers)
    form.set_blobs(2)
    return plan_rows([[learned(form, [64], 4, b"")]], np.array(rows, np.int64), [len(rows)])


def test_descriptions_of_blobs_say_which_are_null() -> None:
    content = blobs((0, 0), (1 << 16, 0), (64, 7), (2 << 16, 0))
    values = values_of(blob_plan([0, 1, 2, 3]), pa.binary(16), content)
    assert [value is None for value in values] == [False, True, False, True]
    assert values[2] == bytes(blobs((64, 7)))
    batch = _kernels.RowBatch([1, 0], [0], [16], [False])
    batch.decode(blob_plan([0, 1, 2, 3], layers=0x33), content)
    arrow = pa.schema([("s", pa.struct([("b", pa.binary(16))]))])
    structs = pa.RecordBatch._import_from_c(batch.address, arrow).column(0)
    structs.validate(full=True)
    assert structs.is_null().to_pylist() == [False, False, False, True]
    assert structs.flatten()[0].is_null().to_pylist() == [False, True, False, True]
    for place in (1, (1 << 16) + 1, 3 << 16, 1 << 63):
        with pytest.raises(ValueError, match="no level up to 2"):
            values_of(blob_plan([1]), pa.binary(16), blobs((place, 0)))


@pytest.mark.parametrize(
    ("values", "bits", "level"),
    [(ValuesForm.ZIPPED, 64, 1), (ValuesForm.ZIPPED, 8, 1), (ValuesForm.ZIPPED, 128, 1 << 16)],
)
def test_only_descriptions_are_blobs(values: ValuesForm, bits: int, level: int) -> None:
    form = _kernels.PageForm((values, bits, 0, 0, 0, False), None, 4, False)
    form.set_layers(1)
    form.set_blobs(level)
    with pytest.raises(ValueError, match="blobs of another form"):
        learned(form, [4 * bits // 8], 4, b"")


def test_structs_without_fields_are_never_null_by_themselves() -> None:
    # In a struct, whose null is level 2.
    table = constant_page(b"", levels(0, 1, 2, 0), (0, 2, 2), 1, layers=0x33)
    empty = pa.struct([])
    rows = built(table, [0, 1, 3], [1, 0], pa.struct([("e", empty)]))
    assert rows.null_count == 0  # of row 2, which was not read
    assert rows.to_pylist() == [{"e": {}}] * 3
    rows = built(table, [1, 2], [1, 0], pa.struct([("e", empty)]))
    assert rows.to_pylist() == [{"e": {}}, None]
    single = constant_page(b"", b"", (0, 1, 0), 1)
    assert built(single, [0, 3], [0], empty).to_pylist() == [{}, {}]
    structs = built(single, [0, 3], [1, 0], pa.struct([("e", empty)]))
    assert structs.to_pylist() == [{"e": {}}] * 2
    with pytest.raises(ValueError, match="fewer layers"):
        built(single, [0, 3], [-1, 0], pa.list_(empty))
    with pytest.raises(ValueError, match="another width"):
        _kernels.RowBatch([0], [0], [2], [False], shapes=[[0]])


def built(
    table: _kernels.ColumnPages, rows: list[int], tree: list[int], arrow: pa.DataType
) -> pa.Array:
    """Rows of a page, as a field with one leaf, a struct without fields."""
    plan = plan_rows([[table]], np.array(rows, np.int64), [len(rows)])
    batch = _kernels.RowBatch(tree, [0], [1], [False], shapes=[[0]])
    batch.decode(plan, memoryview(b""))
    fields = pa.RecordBatch._import_from_c(batch.address, pa.schema([pa.field("column", arrow)]))
    fields.validate(full=True)
    return fields.column(0)


def levels(*numbers: int) -> bytes:
    return np.array(numbers, "<u2").tobytes()


def constant_page(
    reps: bytes,
    definitions: bytes,
    maxima: tuple[int, int, int],
    null_level: int = 0,
    *,
    value: bytes | None = None,
    forms: tuple[tuple[int, int, int] | None, tuple[int, int, int] | None] = (None, None),
    num_rows: int = 4,
    layers: int = 1,
) -> _kernels.ColumnPages:
    """A page of nulls, or of one value of fixed width; `forms`: those of coded levels."""
    form = _kernels.PageForm.constant(value, maxima, null_level, *forms)
    form.set_layers(layers)
    sizes = [len(reps), len(definitions)]
    return learned(form, sizes, num_rows, reps + definitions)


def constants(
    table: _kernels.ColumnPages, rows: list[int], arrow: pa.DataType, width: int | None = None
) -> list[Any]:
    plan = plan_rows([[table]], np.array(rows, np.int64), [len(rows)])
    assert plan.num_bytes(0, plan.num_groups) == 0
    assert plan.pieces(0, plan.num_groups)[:2] == ([], [])
    return values_of(plan, arrow, memoryview(b""), width)


def test_a_constant_page_needs_no_bytes() -> None:
    form = _kernels.PageForm.constant(None, (0, 1, 0), 1, None, None)
    form.set_layers(1)
    value = np.array([2, 8, 2, 0, 2], "<u4").tobytes() + b"ab"
    table = learned(form, [len(value), 0, 8], 4, value + levels(0, 1, 0, 0))
    assert constants(table, [0, 1, 3], pa.string(), -4) == ["ab", None, "ab"]
    nothing = constant_page(b"", b"", (0, 1, 0), 1)
    for arrow, width in ((pa.string(), -4), (pa.bool_(), 0), (pa.int64(), 8)):
        assert constants(nothing, [2, 3], arrow, width) == [None, None]


FLAT = LevelsForm.FLAT, 0, 4


@pytest.mark.parametrize(
    ("reps", "definitions", "maxima", "form", "wrong"),
    [
        (b"", levels(0, 2, 0, 0), (0, 1, 0), None, "level 2"),
        (b"", levels(0, 0, 0), (0, 1, 0), None, "3 levels of 4 rows"),
        (b"", b"", (1, 1, 0), None, "lists without"),
        (levels(1, 1, 1), b"", (1, 0, 0), None, "3 rows begin"),
        (levels(0, 1, 1, 1, 1), b"", (1, 0, 0), None, "inside a row"),
        (levels(1, 1, 1, 1), levels(0, 0), (1, 1, 0), None, "2 levels of a kind"),
        (levels(1, 1, 2, 1), b"", (1, 0, 0), None, "level 2"),
        (bytes(3), b"", (1, 0, 0), FLAT, "4 levels"),
        (bytes(8), b"", (1, 0, 0), (9, 0, 4), "unknown form"),
        (bytes(8), b"", (1, 0, 0), (LevelsForm.BLOCKS, 16, 4), "unknown form"),
    ],
)
def test_levels_of_a_constant_page_are_checked(
    reps: bytes,
    definitions: bytes,
    maxima: tuple[int, int, int],
    form: tuple[int, int, int] | None,
    wrong: str,
) -> None:
    with pytest.raises(ValueError, match=wrong):
        constant_page(reps, definitions, maxima, value=b"\7", forms=(form, None))


def test_many_levels_of_a_constant_page_are_decoded_with_its_rows() -> None:
    count = (1 << 22) + 5
    defs = np.zeros(count, "<u2")
    defs[::1000] = 1

    def page_of(defs: bytes, form: tuple[int, int, int] | None = None) -> _kernels.ColumnPages:
        forms = None, form
        return constant_page(b"", defs, (0, 1, 0), 1, value=b"\7", forms=forms, num_rows=count)

    rows = [0, 1, 5000, count - 1]
    assert constants(page_of(defs.tobytes()), rows, pa.uint8()) == [None, 7, None, 7]
    defs[-1] = 2
    table = page_of(defs.tobytes())
    with pytest.raises(ValueError, match="level 2"):
        constants(table, rows, pa.uint8())
    with pytest.raises(ValueError, match="levels in 1 bytes"):
        page_of(b"\0", (LevelsForm.BLOCKS, 0, 1 << 40))


def test_a_constant_page_has_one_value() -> None:
    with pytest.raises(ValueError, match="none can be null"):
        constant_page(b"", b"", (0, 1, 0), 0)
    table = constant_page(b"", b"", (0, 0, 0), 0, value=b"\2")
    plan = plan_rows([[table]], np.array([1]), [1])
    assert plan.misfit([0], [0], [0]) is not None, "2 is no bool"
    assert constants(table, [1], pa.uint8()) == [2]


MASK = (1 << 64) - 1
MULTIPLIER = 0xC6A4A7935BD1E995  # of MurmurHash64A, with which libstdc++ hashes strings


def hashed_alike(count: int) -> bytes:
    """Values of 16 bytes, end to end, that are different and have one hash in the C++ library."""

    def mixed(word: int) -> int:
        word = word * MULTIPLIER & MASK
        return (word ^ word >> 47) * MULTIPLIER & MASK

    def unmixed(word: int) -> int:
        inverse = pow(MULTIPLIER, -1, 1 << 64)
        word = word * inverse & MASK
        return (word ^ word >> 47) * inverse & MASK

    start = 0xC70F6907 ^ 16 * MULTIPLIER & MASK
    words = []
    for first in range(count):
        between = (start ^ mixed(first)) * MULTIPLIER & MASK
        words += [first, unmixed(between ^ 0x1234)]
    return np.array(words, np.uint64).tobytes()


def test_values_that_hash_alike_elsewhere_are_found_in_few_steps() -> None:
    count = 4000
    values = hashed_alike(count)
    chunk = b"\0\0" + len(values).to_bytes(4, "little") + b"\0\0" + values
    table = chunked([Chunks(0, [count], [len(chunk)])], bits=128, large=True)
    plan = plan_spans([[table]], [(0, count)], [1])
    batch = _kernels.RowBatch([0], [0], [16], [False], None, 1, [[-4]])
    batch.decode(plan, memoryview(chunk))
    arrow = pa.dictionary(pa.int32(), pa.binary(16))
    rows = pa.RecordBatch._import_from_c(batch.address, pa.schema([("a", arrow)])).column(0)
    assert rows.indices.to_pylist() == [*range(count)]
    assert rows.dictionary.buffers()[1].to_pybytes()[: len(values)] == values
    # Of a hash that is as good as random; all values in one slot would be eight million.
    assert batch.num_probes < 4 * count
