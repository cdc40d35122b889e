"""Zipped rows of packed structs with members of any length, beside a decoder in numpy."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import CorruptFileError
from alance.format.blocks import VariableWidth
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.kernels.page_columns import learned
from tests.reference.block_arrays import array_of
from tests.reference.decoders import decode_values
from tests.reference.encodings import flat, variable
from tests.reference.planned import plan_rows, plan_spans

if TYPE_CHECKING:
    from collections.abc import Sequence

INNER: Final = pa.struct([("x", pa.uint8()), ("u", pa.string())])
MEMBERS: Final = pa.struct(
    [("n", pa.uint16()), ("t", pa.string()), ("b", pa.large_binary()), ("s", INNER)]
)
INNER_SHAPE: Final = (-8, 7, 0, 1, 0, -4, 1)
SHAPE: Final = (0, 2, 0, -4, 1, -8, 0, *INNER_SHAPE)
INNER_FIELDS: Final = [
    pb.VariablePackedStruct.FieldEncoding(value=flat(8), bits_per_value=8),
    pb.VariablePackedStruct.FieldEncoding(value=variable(32), bits_per_length=32),
]
INNER_CODEC: Final = pb.CompressiveEncoding(
    variable_packed_struct=pb.VariablePackedStruct(fields=INNER_FIELDS)
)
FIELDS: Final = [
    pb.VariablePackedStruct.FieldEncoding(value=flat(16), bits_per_value=16),
    pb.VariablePackedStruct.FieldEncoding(value=variable(32), bits_per_length=32),
    pb.VariablePackedStruct.FieldEncoding(value=variable(64), bits_per_length=64),
    pb.VariablePackedStruct.FieldEncoding(value=INNER_CODEC, bits_per_length=32),
]
CODEC: Final = pb.CompressiveEncoding(variable_packed_struct=pb.VariablePackedStruct(fields=FIELDS))
PLAIN: Final = None, 0
# Width and number of members, which follow.
WIDTHS: Final = ((2, 0), (-4, 0), (-8, 0), (-4, 2), (1, 0), (-4, 0))


def packed(n: int, text: bytes, content: bytes) -> bytes:
    """A row: a number, a text behind 4 bytes of length, bytes behind 8, a struct of both."""
    lengths = len(text).to_bytes(4, "little"), len(content).to_bytes(8, "little")
    inner = bytes([n % 256]) + lengths[0] + text
    row = n.to_bytes(2, "little") + lengths[0] + text + lengths[1] + content
    return row + len(inner).to_bytes(4, "little") + inner


def form_of(
    num_rows: int,
    widths: Sequence[tuple[int, int]] = WIDTHS,
    num_members: int = 4,
    most_index_bytes: int = 1 << 20,
) -> _kernels.PageForm:
    members = [(width, PLAIN, (), inside) for width, inside in widths]
    form = _kernels.PageForm.zipped(
        -4, (0, 1), (0, 1, 1), [], PLAIN, members, num_members, num_rows, most_index_bytes
    )
    form.set_layers(3)
    return form


def zipped(values: Sequence[bytes | None]) -> tuple[bytes, list[int]]:
    """Rows with a control word and a length, and the ends of all."""
    rows = [
        b"\1" if value is None else b"\0" + len(value).to_bytes(4, "little") + value
        for value in values
    ]
    return b"".join(rows), np.cumsum([0, *map(len, rows)]).tolist()


def learned_rows(ends: Sequence[int], form: _kernels.PageForm) -> _kernels.ColumnPages:
    """A page of rows with these ends."""
    index = np.array(ends, "<u8").tobytes()
    return learned(form, [ends[-1], len(index)], len(ends) - 1, index)


def decoded(values: Sequence[bytes | None], rows: Sequence[int] | None = None) -> pa.Array:
    """Rows of a page by the kernel: single rows, or all as a range."""
    content, ends = zipped(values)
    table = learned_rows(ends, form_of(len(values)))
    if rows is None:
        plan = plan_spans([[table]], [(0, len(values))], [1])
    else:
        plan = plan_rows([[table]], np.array(rows, np.int64), [len(rows)])
        content = b"".join(content[ends[row] : ends[row + 1]] for row in rows)
    assert plan.misfit([0], [0], [-8], [SHAPE]) is None
    batch = _kernels.RowBatch([0], [0], [-8], [False], shapes=[SHAPE])
    batch.decode(plan, memoryview(content))
    arrow = pa.schema([pa.field("p", MEMBERS)])
    column = pa.RecordBatch._import_from_c(batch.address, arrow).column(0)
    column.validate(full=True)
    return column


def by_codec(values: Sequence[bytes | None]) -> pa.Array:
    """The same decoded in numpy; nulls have values of no bytes."""
    filled = [packed(0, b"", b"") if value is None else value for value in values]
    offsets = np.cumsum([0, *map(len, filled)])
    data = np.frombuffer(b"".join(filled), np.uint8)
    valid = np.array([value is not None for value in values], np.bool_)
    return array_of(decode_values(CODEC, VariableWidth(offsets, data)), MEMBERS, valid)


VALUES: Final = st.none() | st.builds(
    packed, st.integers(0, 65535), st.text(max_size=5).map(str.encode), st.binary(max_size=9)
)


@given(st.lists(VALUES, min_size=1, max_size=20), st.data())
def test_packed_structs_are_those_of_the_codec(
    values: list[bytes | None], data: st.DataObject
) -> None:
    rows = by_codec(values)
    assert decoded(values).equals(rows)
    numbers = sorted(data.draw(st.sets(st.integers(0, len(values) - 1), min_size=1)))
    assert decoded(values, numbers).to_pylist() == rows.take(pa.array(numbers)).to_pylist()


@given(st.data())
def test_damaged_packed_structs_are_refused_as_by_the_codec(data: st.DataObject) -> None:
    value = bytearray(packed(7, b"some text", b"some bytes"))
    for _ in range(data.draw(st.integers(1, 3))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    values = [bytes(value[: data.draw(st.integers(0, len(value)))]), packed(1, b"a", b"")]
    try:
        rows = by_codec(values)
    except CorruptFileError:
        with pytest.raises(ValueError, match=r"packed rows|no UTF-8"):
            decoded(values)
    else:
        assert decoded(values).equals(rows)


@pytest.mark.parametrize(
    "shape",
    [
        (0, 2, 0, -4, 1, *INNER_SHAPE),
        (0, 3, 0, -4, 1, -8, 0, *INNER_SHAPE),
        (0, -4, 0, -4, 1, -8, 0, *INNER_SHAPE),
        (0, 2, 0, -4, 1, -8, 0, -8, 7, 0, 2, 0, -4, 1),
        (0, 2, 0, -4, 1, -8, 0, -8, 5, 0, -4, 1),
        (0, 2, 0, -4, 1, -8, 0, -8, 0),
        (0, 2, 0, -4, 1, *INNER_SHAPE, *INNER_SHAPE),
        (),
    ],
)
def test_pages_of_other_members_fit_no_field(shape: tuple[int, ...]) -> None:
    table = learned_rows([0, 1], form_of(1))
    plan = plan_rows([[table]], np.array([0], np.int64), [1])
    assert plan.misfit([0], [0], [-8], [shape]) == (0, 0, "a page of structs of 4 members")
    batch = _kernels.RowBatch([0], [0], [-8], [False], shapes=[shape])
    with pytest.raises(ValueError, match="another form"):
        batch.decode(plan, memoryview(b"\1"))


def test_members_of_no_form_are_refused() -> None:
    for width in (0, -2, 1 << 40):
        with pytest.raises(ValueError, match="unknown form"):
            learned_rows([0, 1], form_of(1, [(width, 0)], 1))
        with pytest.raises(ValueError, match="unknown form"):
            learned_rows([0, 1], form_of(1, [(-4, 1), (width, 0)], 1))
    with pytest.raises(ValueError, match="unknown form"):
        learned_rows([0, 1], form_of(1, [(4, 1), (1, 0)], 1))
    with pytest.raises(ValueError, match="fewer members"):
        form_of(1, [(-4, 1)], 1)
    for width, shape in ((-8, [0, 0, 0]), (-8, [0, 2]), (-8, [0, 2, 0]), (4, [0, -4, 0])):
        with pytest.raises(ValueError, match="row batch"):
            _kernels.RowBatch([0], [0], [width], [False], shapes=[shape])
    with pytest.raises(ValueError, match="shares"):
        _kernels.RowBatch([0], [0], [-8], [False], None, 2, [SHAPE])


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_the_index_of_zipped_rows_is_learned(width: int) -> None:
    values = [packed(1, b"a", b"b"), None, packed(2, b"", b"cd")]
    content, ends = zipped(values)
    index = np.array(ends, f"<u{width}").tobytes()
    size = len(content)

    def learn(index: bytes, num_rows: int = 3, num_items: int = 3) -> list[int]:
        place = (64, size), (192, len(index))
        column = _kernels.ColumnPages([(place, num_rows, b"rows")])
        pages = _kernels.NewPages([column], [(0, 0)], [0])
        pages.find([form_of(num_items)])
        assert pages.spans()[2].tolist() == [192]
        pages.learn_read(memoryview(index))
        plan = plan_rows([[column]], np.arange(3), [3])
        starts, stops = plan.pieces(0, plan.num_groups)[2:4]
        assert (starts[0], stops[-1]) == (64, 64 + size)
        batch = _kernels.RowBatch([0], [0], [-8], [False], shapes=[SHAPE])
        batch.decode(plan, memoryview(content))
        rows = pa.RecordBatch._import_from_c(batch.address, pa.schema([("p", MEMBERS)]))
        assert rows.column(0).to_pylist() == by_codec(values).to_pylist()
        return [end - start for start, end in pairwise(ends)]

    assert learn(index)
    with pytest.raises(ValueError, match="4 entries in 3 rows without lists"):
        learn(index, num_items=4)
    with pytest.raises(ValueError, match=r"index of \d+ bytes for 4 rows"):
        learn(index, num_rows=4, num_items=4)
    with pytest.raises(ValueError, match=r"index of \d+ bytes for 3 rows"):
        learn(index + b"\0")
    for wrong in ([1, *ends[1:]], [*ends[:-1], size - 1], [0, ends[2], ends[1], size]):
        with pytest.raises(ValueError, match=r"repetition index|begins at"):
            learn(np.array(wrong, f"<u{width}").tobytes())


class FarIndex:
    """A page whose index stays in its file."""

    start: Final = 64
    width: Final = 8

    def __init__(self, count: int) -> None:
        self.values = [None if n % 7 == 0 else packed(n, b"t" * (n % 5), b"") for n in range(count)]
        content, self.ends = zipped(self.values)
        self.index = self.start + len(content) + 64
        entries = np.array(self.ends, f"<u{self.width}").tobytes()
        self.file = bytes(self.start) + content + bytes(64) + entries
        place = (self.start, len(content)), (self.index, len(entries))
        self.column = _kernels.ColumnPages([(place, count, b"rows")])
        pages = _kernels.NewPages([self.column], [(0, 0)], [0])
        pages.find([form_of(count, most_index_bytes=0)])
        pages.learn([_kernels.HeldFile([], [])])
        assert pages.missing == []

    def rows(self, plan: _kernels.RowPlan, file: bytes) -> list[object]:
        batch = _kernels.RowBatch([0], [0], [-8], [False], shapes=[SHAPE])
        source = _kernels.HeldSource([_kernels.HeldFile([0], [memoryview(file)])])
        assert batch.read(plan, source)
        rows = pa.RecordBatch._import_from_c(batch.address, pa.schema([("p", MEMBERS)]))
        rows.validate(full=True)
        return rows.column(0).to_pylist()


@pytest.mark.parametrize("are_ranges", [False, True])
def test_of_an_index_in_the_file_only_the_numbers_of_rows_are_read(are_ranges: bool) -> None:
    page = FarIndex(3000)
    spans = [(0, 1), (3, 6), (9, 10), (1400, 1402), (2999, 3000)]
    rows = [row for span in spans for row in range(*span)]

    def plan(*held: _kernels.HeldFile) -> _kernels.RowPlan:
        columns = [[page.column]]
        if are_ranges:
            return plan_spans(columns, spans, [len(spans)], held)
        return plan_rows(columns, np.array(rows, np.int64), [len(rows)], held)

    first = plan()
    assert first.lacks_places
    held = _kernels.HeldFile([], [])
    ends, starts, stops = first.missing([held], [0], 0, True)
    assert ends == [3]
    numbers = [1, 11, 1400, 1403, 2999, 3000]  # those of the first and the last row are known
    assert [*starts, *stops] == [page.index + 8 * n for n in numbers[::2] + numbers[1::2]]
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        held.add(start, memoryview(page.file[start:stop]))
    assert not plan(held).lacks_places
    expected = by_codec(page.values).to_pylist()
    assert page.rows(plan(held), page.file) == [expected[row] for row in rows]
    whole = plan_spans([[page.column]], [(0, 3000)], [1])
    assert not whole.lacks_places
    assert page.rows(whole, page.file) == expected


@pytest.mark.parametrize(("at", "number"), [(10, 1 << 40), (10, 0), (9, -1), (10, 1 << 63)])
def test_a_damaged_index_in_the_file_is_refused(at: int, number: int) -> None:
    page = FarIndex(30)
    start = page.index + 8 * at
    wrong = (number % (1 << 64)).to_bytes(8, "little")
    file = page.file[:start] + wrong + page.file[start + 8 :]
    held = _kernels.HeldFile([0], [memoryview(file)])
    with pytest.raises(ValueError, match="repetition index: rows 9 to 10"):
        plan_rows([[page.column]], np.array([9]), [1], [held])
    with pytest.raises(ValueError, match="repetition index: rows 9 to 10"):
        plan_spans([[page.column]], [(9, 10)], [1], [held])


def test_runs_of_rows_have_as_many_rows_as_the_plan() -> None:
    page = FarIndex(30)
    entries = np.frombuffer(page.file[page.index :], "<u8").copy()
    entries[12] = entries[11]
    held = _kernels.HeldFile([page.index], [memoryview(entries.tobytes())])
    plan = plan_rows([[page.column]], np.array([9, 10, 11]), [3], [held])
    with pytest.raises(ValueError, match="a row ends inside of"):
        page.rows(plan, page.file)
