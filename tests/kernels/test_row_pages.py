"""Pages of the kernel that takes rows refuse what would let it read beyond their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from alance import _kernels
from alance.format.layouts.row_pages import LevelsForm, ValuesForm
from tests.reference.planned import plan_rows, plan_spans

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

NO_CHUNKS = np.empty(0, np.int64)
FIXED = np.zeros(16, np.uint8)


def page_of(values: ValuesForm, bits: int) -> _kernels.RowPage:
    """A page of four rows; its chunk is made of its header and its values."""
    if values is ValuesForm.ZIPPED:
        return _kernels.RowPage(
            NO_CHUNKS, NO_CHUNKS, 0, 4 * bits // 8, 4, values, bits, 0, 0, 0, False
        )
    rows, size = np.array([0, 4]), np.array([0, 8 + 4 * bits // 8])
    return _kernels.RowPage(rows, size, 0, int(size[-1]), 4, values, bits, 0, 0, 0, False)


@pytest.mark.parametrize(
    "give_items",
    [
        lambda page: page.set_items(FIXED, 8),
        lambda page: page.set_strings_32(np.array([0, 4, 8], np.int32), FIXED),
        lambda page: page.set_strings_64(np.array([0, 4, 8], np.int64), FIXED),
    ],
    ids=["fixed", "strings of 32 bits", "strings of 64 bits"],
)
@pytest.mark.parametrize(
    ("values", "bits"),
    [
        (ValuesForm.FLAT, 24),  # a word of eight bytes would be read for three
        (ValuesForm.FLAT, 128),
        (ValuesForm.FLAT, 1),  # an item would be read from the one byte of a bit
        (ValuesForm.STRINGS, 32),
        (ValuesForm.ZIPPED, 16),
    ],
)
def test_only_words_are_indices(
    values: ValuesForm, bits: int, give_items: Callable[[_kernels.RowPage], None]
) -> None:
    with pytest.raises(ValueError, match="no indices"):
        give_items(page_of(values, bits))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_words_are_indices(bits: int) -> None:
    page = page_of(ValuesForm.FLAT, bits)
    page.set_items(np.arange(8, dtype=np.uint8), 2)
    indices = np.array([3, 0, 1, 2], f"<u{bits // 8}").tobytes()
    header = len(indices).to_bytes(2, "little")
    chunk = memoryview(b"\0\0" + header + bytes(4) + indices)
    assert values_of(plan_of(page, [0, 3]), pa.uint16(), chunk) == [0x0706, 0x0504]


def plan_of(
    page: _kernels.RowPage, rows: list[int], layers: int = 1, count: int = 4
) -> _kernels.RowPlan:
    """Rows of a page of four, or of so many."""
    table = _kernels.RowTable(np.array([0, count], np.int64))
    table.set(0, page, layers)
    return plan_rows([[table]], np.array(rows, np.int64), [len(rows)])


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
    plan, content = plan_of(page_of(ValuesForm.ZIPPED, 16), [1, 3]), memoryview(bytes(range(4)))
    assert values_of(plan, pa.uint16(), content) == [0x0100, 0x0302]
    with pytest.raises(ValueError, match="row batch"):
        values_of(plan, pa.uint16(), content[:3])
    with pytest.raises(ValueError, match="another form"):
        values_of(plan, pa.uint32(), content)


def blobs(*places: tuple[int, int]) -> memoryview:
    return memoryview(np.array(places, "<u8").tobytes())


def test_descriptions_of_blobs_say_which_are_null() -> None:
    page = page_of(ValuesForm.ZIPPED, 128)
    page.set_blobs(2)
    content = blobs((0, 0), (1 << 16, 0), (64, 7), (2 << 16, 0))
    values = values_of(plan_of(page, [0, 1, 2, 3]), pa.binary(16), content)
    assert [value is None for value in values] == [False, True, False, True]
    assert values[2] == bytes(blobs((64, 7)))
    batch = _kernels.RowBatch([1, 0], [0], [16], [False])
    batch.decode(plan_of(page, [0, 1, 2, 3], layers=0x33), content)
    arrow = pa.schema([("s", pa.struct([("b", pa.binary(16))]))])
    structs = pa.RecordBatch._import_from_c(batch.address, arrow).column(0)
    structs.validate(full=True)
    assert structs.is_null().to_pylist() == [False, False, False, True]
    assert structs.flatten()[0].is_null().to_pylist() == [False, True, False, True]
    for place in (1, (1 << 16) + 1, 3 << 16, 1 << 63):
        with pytest.raises(ValueError, match="no level up to 2"):
            values_of(plan_of(page, [1]), pa.binary(16), blobs((place, 0)))


def test_only_descriptions_are_blobs() -> None:
    for values, bits in ((ValuesForm.ZIPPED, 64), (ValuesForm.STRINGS, 32), (ValuesForm.FLAT, 8)):
        with pytest.raises(ValueError, match="blobs of another form"):
            page_of(values, bits).set_blobs(1)
    for level in (-1, 1 << 16):
        with pytest.raises(ValueError, match="blobs of another form"):
            page_of(ValuesForm.FLAT, 128).set_blobs(level)
    page = page_of(ValuesForm.FLAT, 64)
    page.set_items(FIXED, 16)
    with pytest.raises(ValueError, match="blobs of another form"):
        page.set_blobs(1)


def test_structs_without_fields_are_never_null_by_themselves() -> None:
    page = _kernels.RowPage.constant(4, NO_LEVELS, levels(0, 1, 2, 0), (0, 2, 2), 1, True)
    plan = plan_of(page, [0, 1, 3], layers=0x33)  # in a struct, whose null is level 2
    empty = pa.struct([])
    rows = built(plan, [1, 0], pa.struct([("e", empty)]))
    assert rows.null_count == 0  # of row 2, which was not read
    assert rows.to_pylist() == [{"e": {}}] * 3
    rows = built(plan_of(page, [1, 2], layers=0x33), [1, 0], pa.struct([("e", empty)]))
    assert rows.to_pylist() == [{"e": {}}, None]
    single = plan_of(_kernels.RowPage.constant(4, NO_LEVELS, NO_LEVELS, (0, 1, 0), 1, True), [0, 3])
    assert built(single, [0], empty).to_pylist() == [{}, {}]
    assert built(single, [1, 0], pa.struct([("e", empty)])).to_pylist() == [{"e": {}}] * 2
    with pytest.raises(ValueError, match="fewer layers"):
        built(single, [-1, 0], pa.list_(empty))
    with pytest.raises(ValueError, match="another width"):
        _kernels.RowBatch([0], [0], [2], [False], shapes=[[0]])


def built(plan: _kernels.RowPlan, tree: list[int], arrow: pa.DataType) -> pa.Array:
    """The rows of a plan, as a field with one leaf, a struct without fields."""
    batch = _kernels.RowBatch(tree, [0], [1], [False], shapes=[[0]])
    batch.decode(plan, memoryview(b""))
    rows = pa.RecordBatch._import_from_c(batch.address, pa.schema([pa.field("column", arrow)]))
    rows.validate(full=True)
    return rows.column(0)


NO_LEVELS = LevelsForm.NONE, 0, 0, np.empty(0, np.uint8)


def levels(*numbers: int) -> tuple[int, int, int, npt.NDArray[np.uint8]]:
    return LevelsForm.FLAT, 0, len(numbers), np.array(numbers, "<u2").view(np.uint8)


def test_a_constant_page_needs_no_bytes() -> None:
    page = _kernels.RowPage.constant(4, NO_LEVELS, levels(0, 1, 0, 0), (0, 1, 0), 1, False)
    page.set_strings_32(np.array([0, 2], np.int32), np.frombuffer(b"ab", np.uint8))
    plan = plan_of(page, [0, 1, 3])
    assert plan.num_bytes(0, plan.num_groups) == 0
    assert plan.pieces(0, plan.num_groups)[:2] == ([], [])
    assert values_of(plan, pa.string(), memoryview(b""), -4) == ["ab", None, "ab"]
    nothing = _kernels.RowPage.constant(4, NO_LEVELS, NO_LEVELS, (0, 1, 0), 1, True)
    for arrow, width in ((pa.string(), -4), (pa.bool_(), 0), (pa.int64(), 8)):
        assert values_of(plan_of(nothing, [2, 3]), arrow, memoryview(b""), width) == [None, None]


@pytest.mark.parametrize(
    ("reps", "definitions", "maxima", "wrong"),
    [
        (NO_LEVELS, levels(0, 2, 0, 0), (0, 1, 0), "level 2"),
        (NO_LEVELS, levels(0, 0, 0), (0, 1, 0), "3 levels of 4 rows"),
        (NO_LEVELS, NO_LEVELS, (1, 1, 0), "lists without"),
        (levels(1, 1, 1), NO_LEVELS, (1, 0, 0), "3 rows begin"),
        (levels(0, 1, 1, 1, 1), NO_LEVELS, (1, 0, 0), "inside a row"),
        (levels(1, 1, 1, 1), levels(0, 0), (1, 1, 0), "2 levels of a kind"),
        (levels(1, 1, 2, 1), NO_LEVELS, (1, 0, 0), "level 2"),
        ((LevelsForm.FLAT, 0, 4, np.zeros(3, np.uint8)), NO_LEVELS, (1, 0, 0), "4 levels"),
        ((9, 0, 4, np.zeros(8, np.uint8)), NO_LEVELS, (1, 0, 0), "unknown form"),
        ((LevelsForm.BLOCKS, 16, 4, np.zeros(8, np.uint8)), NO_LEVELS, (1, 0, 0), "unknown form"),
    ],
)
def test_levels_of_a_constant_page_are_checked(
    reps: Any, definitions: Any, maxima: tuple[int, int, int], wrong: str
) -> None:
    with pytest.raises(ValueError, match=wrong):
        _kernels.RowPage.constant(4, reps, definitions, maxima, 0, False)


def test_many_levels_of_a_constant_page_are_decoded_with_its_rows() -> None:
    count = (1 << 22) + 5
    defs = np.zeros(count, "<u2")
    defs[::1000] = 1

    def page_of(defs: npt.NDArray[np.uint16]) -> _kernels.RowPage:
        many = LevelsForm.FLAT, 0, count, defs.view(np.uint8)
        page = _kernels.RowPage.constant(count, NO_LEVELS, many, (0, 1, 0), 1, False)
        page.set_items(np.array([7], np.uint8), 1)
        return page

    rows = [0, 1, 5000, count - 1]
    plan = plan_of(page_of(defs), rows, count=count)
    assert values_of(plan, pa.uint8(), memoryview(b"")) == [None, 7, None, 7]
    defs[-1] = 2
    plan = plan_of(page_of(defs), rows, count=count)
    with pytest.raises(ValueError, match="level 2"):
        values_of(plan, pa.uint8(), memoryview(b""))
    many = LevelsForm.BLOCKS, 0, 1 << 40, np.empty(0, np.uint8)
    with pytest.raises(ValueError, match="levels in 0 bytes"):
        _kernels.RowPage.constant(count, NO_LEVELS, many, (0, 1, 0), 1, False)


def test_a_constant_page_has_one_value() -> None:
    with pytest.raises(ValueError, match="none can be null"):
        _kernels.RowPage.constant(4, NO_LEVELS, NO_LEVELS, (0, 1, 0), 0, True)
    page = _kernels.RowPage.constant(4, NO_LEVELS, NO_LEVELS, (0, 0, 0), 0, False)
    with pytest.raises(ValueError, match="one value"):
        page.set_items(FIXED, 8)
    with pytest.raises(ValueError, match="one value"):
        page.set_strings_32(np.array([0, 4, 8], np.int32), FIXED)
    page.set_items(FIXED[:1] + np.uint8(2), 1)
    plan = plan_of(page, [1])
    assert plan.misfit([0], [0], [0]) is not None, "2 is no bool"
    assert values_of(plan, pa.uint8(), memoryview(b"")) == [2]


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
    bounds = np.array([0, count]), np.array([0, len(chunk)])
    page = _kernels.RowPage(*bounds, 0, len(chunk), count, ValuesForm.FLAT, 128, 0, 0, 0, True)
    table = _kernels.RowTable(bounds[0])
    table.set(0, page, 1)
    plan = plan_spans([[table]], [(0, count)], [1])
    batch = _kernels.RowBatch([0], [0], [16], [False], None, 1, [[-4]])
    batch.decode(plan, memoryview(chunk))
    arrow = pa.dictionary(pa.int32(), pa.binary(16))
    rows = pa.RecordBatch._import_from_c(batch.address, pa.schema([("a", arrow)])).column(0)
    assert rows.indices.to_pylist() == [*range(count)]
    assert rows.dictionary.buffers()[1].to_pybytes()[: len(values)] == values
    # Of a hash that is as good as random; all values in one slot would be eight million.
    assert batch.num_probes < 4 * count
