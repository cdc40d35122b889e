"""Kernels of wide tables: fields of schemas, pages that are learned together, batches of rows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import AlanceError
from alance.format.proto import file_pb2, table_pb2
from alance.format.schema import Schema
from tests.kernels.page_columns import Chunks, chunked, column, form, learn, unknown_of
from tests.reference.planned import plan_rows, plan_spans

if TYPE_CHECKING:
    from pathlib import Path

FOUR_ROWS = Chunks(0, [4], [16])
NAMES = st.sampled_from(["a", "b", "a.b", "ü", "", "a\0b"])
TYPES = st.sampled_from(
    [
        *("int64", "string", "null", "json", "fixed_size_list:float:3"),
        *("fixed_size_list:lance.bfloat16:2", "struct", "nonsense"),
    ]
)


@st.composite
def manifests(draw: st.DrawFn) -> table_pb2.Manifest:
    """Mostly flat schemas; some with ids twice, fields below others, or values that are no text."""
    manifest = table_pb2.Manifest(version=7)
    for number in range(draw(st.integers(0, 6))):
        field = manifest.fields.add(
            name=draw(NAMES),
            id=number if draw(st.integers(0, 9)) else draw(st.integers(-2, 3)),
            parent_id=-1 if draw(st.integers(0, 9)) else draw(st.integers(-2, 3)),
            logical_type=draw(TYPES) if not draw(st.integers(0, 3)) else "int32",
            nullable=draw(st.booleans()),
        )
        if draw(st.booleans()):
            field.metadata["key"] = draw(st.sampled_from([b"text", b"", b"\xff"]))
    manifest.schema_metadata["m"] = draw(st.sampled_from([b"x", b"\xff"]))
    return manifest


def outcome(manifest: table_pb2.Manifest, fields: _kernels.SchemaFields | None) -> object:
    """The fields of a schema and their names, or the error."""
    try:
        schema = Schema.of_manifest(manifest.fields, manifest.schema_metadata, fields)
        arrow = schema.to_arrow().serialize().to_pybytes()
        by_name = [schema.top(name) for name in ("a", "b", "a.b", "ü", "", "z")]
        return arrow, by_name, schema.fields, schema.metadata, list(schema.by_name)
    except AlanceError as error:
        return type(error), str(error)


@given(manifests())
def test_fields_that_are_made_later_are_those_of_the_messages(
    manifest: table_pb2.Manifest,
) -> None:
    fields = _kernels.schema_fields(manifest.SerializeToString())
    assert outcome(manifest, fields) == outcome(manifest, None)


@given(st.binary(max_size=60))
@example(b"\x0a\x05\x12\x03abc")
def test_fields_of_any_bytes_are_looked_at_without_harm(content: bytes) -> None:
    fields = _kernels.schema_fields(content)
    assert fields is None or fields.find("no such name") == -1


def copy_of(pages: _kernels.ColumnPages) -> _kernels.ColumnPages:
    (copy,) = [_kernels.LeafTables([(pages, 0, 0)]).copy().column(0)]
    assert copy is not None
    return copy


def test_copies_of_columns_learn_for_themselves() -> None:
    single = column([4, 4], 8)
    copy = copy_of(single)
    pages = _kernels.NewPages([copy], [(0, 1)], [0])
    pages.find([form(4)])
    learn(pages, b"\0\0")
    assert (unknown_of(single), unknown_of(copy)) == ([0, 1], [0])
    recognized = copy_of(copy)
    assert unknown_of(recognized) == [0]
    assert recognized.num_bytes == copy.num_bytes > single.num_bytes
    with pytest.raises(IndexError, match="no such page"):
        single.page(2)


def test_a_file_has_its_open_columns() -> None:
    file = _kernels.FileColumns([0, 10, 10, 20, 40, 50], 100, 64)
    first, second = column([4, 4], 8), column([8], 8)
    file.add(2, first)
    before = file.num_bytes
    file.add(2, second)  # the first stays
    assert (len(file), file.open, file.num_bytes) == (3, [2], before)
    assert file.column(2).num_rows == 8
    assert (file.absent([2, 1, 1, 0]), file.absent([])) == ([1, 0], [])
    assert file.far([0, 1, 2], 41) == [(0, 20), (40, 50)]
    assert (file.far([0, 1, 2], 0), file.span(1)) == ([], (10, 20))
    copy = file.copy()
    copy.grow(7)
    assert copy.num_bytes == file.num_bytes + 7
    for number in (-1, 3):
        for ask in (file.span, file.column, lambda column: file.absent([column])):
            with pytest.raises(IndexError, match="column"):
                ask(number)
    with pytest.raises(IndexError, match="not open"):
        file.column(1)
    for spans, num_bytes, alignment in (
        ([0], 9, 1),
        ([0, 9], -1, 1),
        ([0, 9], 9, 0),
        ([2, 1], 9, 1),
    ):
        with pytest.raises(ValueError, match="column metadata"):
            _kernels.FileColumns(spans, num_bytes, alignment)


def test_leaves_are_in_the_last_file_that_has_them() -> None:
    files = [_kernels.FileColumns([0, 10] * 3, 100, 64) for _ in range(2)]
    for number in range(3):
        files[0].add(number, column([4, 4], 8))
        files[1].add(number, column([8], 16))
    columns = [[0, 1, None, None], [None, 2, 0, None]]
    tables = _kernels.LeafTables(files, columns, [1] * 4)
    assert (len(tables), tables.leaves, tables.files) == (3, [0, 1, 2], [0, 1, 1])
    assert [tables.number(at) for at in range(3)] == [0, 2, 0]
    assert tables.sizes == [20, 18, 18]
    assert tables.row_bytes(2, [1, 20, 3]) == 10 + 20 + 9
    assert tables.misfit(8) is None
    assert _kernels.LeafTables(files, columns, [2, 2, 1, 1]).misfit(4) == (2, 8)
    assert tables.placed == [0, 1, 2]
    assert tables.copy().placed == [0, 1, 2]
    pages = column([4], 8)
    listed = _kernels.LeafTables([(None, 7, 9), (pages, 0, 0)])
    assert (listed.placed, listed.sizes) == ([1], [7, 10])
    assert listed.state_bytes == _kernels.LeafTables([(pages, 0, 0)]).state_bytes
    assert (listed.column(0), listed.column(1)) == (None, pages)
    with pytest.raises(ValueError, match="without a table"):
        _kernels.plan_rows([listed], [0], np.array([1], np.int64), [1])
    with pytest.raises(IndexError, match="no such leaf"):
        tables.column(3)
    with pytest.raises(ValueError, match="other leaves"):
        tables.row_bytes(2, [1])
    with pytest.raises(ValueError, match="other leaves"):
        _kernels.LeafTables(files, [[0], [0]], [1, 1])
    with pytest.raises(ValueError, match="other files"):
        _kernels.LeafTables(files, [[0]], [1])
    with pytest.raises(ValueError, match="without rows"):
        _kernels.LeafTables(files, [[0], [0]], [0])


def test_columns_of_listed_pages_are_checked() -> None:
    pages = [(((64, 8), (128, 3)), 4, b"same"), ((), 1, b"same"), (((0, 1),), 0, b"other")]
    listed = _kernels.ColumnPages(pages)
    assert [listed.page(number) for number in range(len(listed))] == pages
    assert np.frombuffer(listed.first_rows(), np.int64).tolist() == [0, 4, 5, 5]
    assert (listed.num_rows, listed.buffer_bytes) == (5, 12)
    assert _kernels.LeafTables([(listed, 0, 0)]).state_bytes == 24
    for wrong in ((((-1, 8),), 4, b""), (((0, -8),), 4, b""), ((), -1, b"")):
        with pytest.raises(ValueError, match=r"buffer outside of its file|rows of a page"):
            _kernels.ColumnPages([wrong])
    with pytest.raises(ValueError, match="buffer outside of its file"):
        _kernels.ColumnPages([(((0, 1 << 62), (0, 1 << 62)), 1, b"")])
    with pytest.raises(ValueError, match="rows of a page"):
        _kernels.ColumnPages([((), 1 << 62, b""), ((), 1 << 62, b"")])


def test_a_batch_of_rows_knows_its_forms(tmp_path: Path) -> None:
    table = chunked([FOUR_ROWS])
    plan = plan_rows([[table]] * 2, np.array([1, 3], np.int64), [2])
    assert plan.misfit([0, 0], [0, 1], [1, -4]) == (1, 1, "a page of values of 8 bits")
    assert plan.misfit([0, 0], [0, 1], [4, 1]) == (0, 0, "a page of values of 8 bits")
    assert plan.misfit([0, -1, 0], [0, 1], [1, 1]) is None  # the layers are looked at later
    assert plan.column_bytes == [16, 16]
    with pytest.raises(ValueError, match="widths of other columns"):
        plan.misfit([0], [0, 1], [1])
    with pytest.raises(ValueError, match="unknown nodes"):
        plan.misfit([0, 2, 0], [0, 1], [1, 1])
    chunk = b"\0\0\x04\0\0\0\0\0" + bytes([5, 6, 7, 8, 0, 0, 0, 0])
    batch = _kernels.RowBatch([0, 0], [0, 1], [1, 1], [False, False])
    with pytest.raises(ValueError, match="row batch"):
        batch.decode(plan, memoryview(chunk))
    batch.decode(plan, memoryview(chunk * 2))
    schema = pa.schema([("a", pa.uint8()), ("b", pa.int8())])
    rows = pa.RecordBatch._import_from_c(batch.address, schema)
    assert rows.to_pydict() == {"a": [6, 8], "b": [6, 8]}
    assert batch.address == 0
    path = tmp_path / "file"
    path.write_bytes(chunk)
    fd = os.open(path, os.O_RDONLY)
    try:
        batch, source = _kernels.RowBatch([0], [0], [1], [False]), _kernels.FileSource([fd], 4096)
        assert batch.read(plan, source)
        path.write_bytes(chunk[:-1])
        assert not batch.read(plan, source)
    finally:
        os.close(fd)
    for columns, widths in (([2], [1]), ([0], [4])):
        with pytest.raises(ValueError, match=r"row plan: no such column|rows of another form"):
            _kernels.RowBatch([0], columns, widths, [False]).decode(plan, memoryview(chunk * 2))
    with pytest.raises(ValueError, match="forms of other columns"):
        _kernels.RowBatch([0], [0], [1, 1], [False])
    order = np.array([1, 0, 1], np.int64)
    batch = _kernels.RowBatch([0, 0], [0, 1], [1, 1], [False, False], order)
    batch.decode(plan, memoryview(chunk * 2))
    rows = pa.RecordBatch._import_from_c(batch.address, schema)
    assert rows.to_pydict() == {"a": [8, 6, 8], "b": [8, 6, 8]}
    for other in (2, -1):
        batch = _kernels.RowBatch([0], [0], [1], [False], np.array([other]))
        with pytest.raises(ValueError, match="order of other rows"):
            batch.decode(plan, memoryview(chunk * 2))


def test_nested_fields_of_a_batch_have_the_layers_of_their_pages() -> None:
    chunk = memoryview(b"\0\0\x04\0\0\0\0\0" + bytes([5, 6, 7, 8, 0, 0, 0, 0]))

    def rows(trees: list[int], layers: int, rows: list[int]) -> list[object]:
        """Return rows of a page with such layers, for each of the columns."""
        table = chunked([FOUR_ROWS], layers=layers)
        columns = [*range(trees.count(0))]
        plan = plan_rows([[table]] * len(columns), np.array([1, 3], np.int64), [2])
        order = np.array(rows, np.int64)
        batch = _kernels.RowBatch(trees, columns, [1] * len(columns), [False] * len(columns), order)
        batch.decode(plan, memoryview(bytes(chunk) * len(columns)))
        kind: pa.DataType = pa.uint8()
        for node in reversed(trees[: trees.index(0)]):
            kind = pa.list_(kind) if node < 0 else pa.struct([(str(n), kind) for n in range(node)])
        schema = pa.schema({"a": kind})
        taken = pa.RecordBatch._import_from_c(batch.address, schema)
        taken.validate(full=True)
        values: list[object] = taken["a"].to_pylist()
        return values

    assert rows([1, 0], 0x11, [1, 0, 1]) == [{"0": 8}, {"0": 6}, {"0": 8}]
    assert rows([2, 0, 0], 0x31, [0]) == [{"0": 6, "1": 6}]
    assert rows([1] * 15 + [0], int("1" * 16, 16), []) == []
    for trees, layers, message in (
        ([1, 0], 0, "another form"),
        ([1, 0], 1, "pages of fewer layers"),
        ([1, 0], 0x111, "pages of other layers"),
        ([-1, 0], 0x11, "pages of other layers"),
        ([-1, 0], 0x21, "without repetition levels"),
        ([1] * 16 + [0], int("1" * 16, 16), "fewer layers"),
        ([1] * 1024 + [0], 0x11, "too deep"),
        ([-5, 0], 0x11, "2 slots, expected 6"),
        ([2, 0], 0x11, "unknown nodes"),
    ):
        with pytest.raises(ValueError, match=message):
            rows(trees, layers, [0])
    with pytest.raises(ValueError, match="fields of other columns"):
        _kernels.RowBatch([0, 0], [0], [1], [False])
    with pytest.raises(ValueError, match="shares of nested fields"):
        _kernels.RowBatch([1, 0], [0], [1], [False], None, 2)


def test_shares_of_rows_become_one_batch(tmp_path: Path) -> None:
    """A share each of the groups of a column, of which there may be fewer; in any order."""
    count = 3
    size = 8 + (400 << 10)  # two values are more than is read at once, so that each is a group
    width = (size - 8) // 4
    table = chunked([Chunks(0, [4] * count, [size] * count)], bits=8 * width, large=True)
    path = tmp_path / "file"
    header = (0).to_bytes(2, "little") + (4 * width).to_bytes(4, "little") + bytes(2)
    path.write_bytes(
        b"".join(header + bytes(range(4 * n, 4 * n + 4)) * width for n in range(count))
    )
    array = np.array([1, 4, 6, 11], np.int64)
    plan = plan_rows([[table]], array, [len(array)])
    assert plan.num_groups == len(array)
    order = np.array([3, 0, 0, 2, 1], np.int64)
    schema = pa.schema([("a", pa.binary(width))])
    content = path.read_bytes()
    starts, stops = plan.pieces(0, plan.num_groups)[2:4]
    pieces = [content[start:stop] for start, stop in zip(starts, stops, strict=True)]
    assert [len(piece) for piece in pieces] == [width] * len(array)
    whole = _kernels.RowBatch([0], [0], [width], [False], order)
    whole.decode(plan, memoryview(b"".join(pieces)))
    expected = pa.RecordBatch._import_from_c(whole.address, schema)
    fd = os.open(path, os.O_RDONLY)
    try:
        for shares in (1, 2, 3, 7):
            for turn in (1, -1):
                batch = _kernels.RowBatch([0], [0], [width], [False], order, shares)
                states = []
                for share in [*range(shares)][::turn]:
                    assert batch.address == 0
                    states.append(batch.read(plan, _kernels.FileSource([fd], 4096), share))
                assert states == [1] * (shares - 1) + [2]
                assert pa.RecordBatch._import_from_c(batch.address, schema).equals(expected)
        batch = _kernels.RowBatch([0], [0], [width], [False], order, 2)
        source = _kernels.FileSource([fd], 4096)
        with pytest.raises(ValueError, match="no such share"):
            batch.read(plan, source, 2)
        assert batch.read(plan, source, 0) == 1
        assert batch.place(0) == (1, 1)  # its last part, behind the last column
        with pytest.raises(ValueError, match="a share again"):
            batch.read(plan, source, 0)
        with pytest.raises(ValueError, match="no such share"):
            batch.place(2)
        path.write_bytes(content[:-1])
        assert batch.read(plan, source, 1) == 0  # the file is too short
        assert batch.address == 0
    finally:
        os.close(fd)
    with pytest.raises(ValueError, match="no shares"):
        _kernels.RowBatch([0], [0], [width], [False], order, 0)


@pytest.mark.parametrize("large", [False, True])
def test_single_values_are_read_without_their_chunks(large: bool) -> None:
    """Small gaps are read; chunks of other sizes, and chunks of dense rows, are read whole."""
    width, count, start = 16, 1024, 64
    values = np.random.default_rng(5).integers(0, 256, (3 * count, width), np.uint8)
    size = 8 + count * width
    header = (0).to_bytes(2, "little") + (size - 8).to_bytes(4 if large else 2, "little")
    chunks = [header.ljust(8, b"\0") + part.tobytes() for part in values.reshape(3, count, width)]
    chunks[1] += bytes(8)  # allowed, but not the size of its values
    sizes = [*map(len, chunks)]
    content = bytes(start) + b"".join(chunks)
    table = chunked([Chunks(start, [count] * 3, sizes)], bits=8 * width, large=large)
    schema = pa.schema([("a", pa.binary(width))])

    def check(rows: list[int]) -> list[tuple[int, int]]:
        plan = plan_rows([[table]], np.array(rows, np.int64), [len(rows)])
        tables, ends, starts, stops, _ = plan.pieces(0, plan.num_groups)
        assert (tables, ends[-1]) == ([0] * plan.num_groups, len(starts))
        pieces = [*zip(starts.tolist(), stops.tolist(), strict=True)]
        batch = _kernels.RowBatch([0], [0], [width], [False])
        batch.decode(plan, memoryview(b"".join(content[a:b] for a, b in pieces)))
        taken = pa.RecordBatch._import_from_c(batch.address, schema)
        assert taken["a"].to_pylist() == [values[row].tobytes() for row in rows]
        return pieces

    second, third = start + sizes[0], start + sizes[0] + sizes[1]
    at = start + 8 + 7 * width
    assert check([7]) == [(at, at + width)]
    assert check([7, 8, 40]) == [(at, at + 34 * width)]
    assert check([7, 41]) == [(at, at + width), (at + 34 * width, at + 35 * width)]
    assert check([count - 1, count]) == [(second - width, third)]
    last = third + 8
    assert check([0, 2 * count]) == [(start + 8, start + 8 + width), (last, last + width)]
    dense = [*range(0, 3 * count, 200)]  # 3 200 bytes for a row
    assert check(dense) == [(start, third + sizes[2])]
    spread = check([*range(0, 3 * count, 300)])  # 4 rows, the second chunk, and 4 rows
    assert (len(spread), spread[4]) == (9, (second, third))
    assert check([2 * count + 5, 3 * count - 1])[-1] == (third + sizes[2] - width, third + sizes[2])


def test_ranges_of_rows_lie_in_any_buffers() -> None:
    table = chunked([FOUR_ROWS])
    plan = plan_spans([[table], [table]], [(1, 3)], [1])
    tables, ends, starts, stops, num_bytes = plan.pieces(0, plan.num_groups)
    assert (tables, ends) == ([0, 1], [1, 2])
    assert (starts.tolist(), stops.tolist(), num_bytes) == ([0, 0], [16, 16], 32)
    assert (plan.is_ranges, plan.num_rows, plan.unknown) == (True, 2, [])
    chunk = b"\0\0\x04\0\0\0\0\0" + bytes([5, 6, 7, 8, 0, 0, 0, 0])
    other = chunk.replace(bytes([5, 6, 7, 8]), bytes([1, 2, 3, 4]))
    whole = _kernels.HeldFile([0], [memoryview(chunk + b"..")])
    halves = _kernels.HeldFile([8, 0], [memoryview(other)[8:], memoryview(other)[:8]])

    def batch() -> _kernels.RowBatch:
        return _kernels.RowBatch([0, 0], [0, 1], [1, 1], [False, False])

    pair = batch()
    assert pair.read(plan, _kernels.HeldSource([halves, whole])) == 2
    schema = pa.schema([("a", pa.uint8()), ("b", pa.int8())])
    rows = pa.RecordBatch._import_from_c(pair.address, schema)
    assert rows.to_pydict() == {"a": [2, 3], "b": [6, 7]}
    pair.decode(plan, memoryview(other + chunk))
    assert pa.RecordBatch._import_from_c(pair.address, schema) == rows
    short = _kernels.HeldFile([0], [memoryview(chunk)[:-1]])
    assert batch().read(plan, _kernels.HeldSource([short, short])) == 0
    with pytest.raises(ValueError, match="a piece that is none"):
        batch().read(plan, _kernels.HeldSource([whole]))
    with pytest.raises(ValueError, match="files of other tables"):
        plan.missing([whole], [0], 0)
    for order, shares in ((np.array([0]), 1), (None, 2)):
        ordered = _kernels.RowBatch([0, 0], [0, 1], [1, 1], [False, False], order, shares)
        with pytest.raises(ValueError, match="ranges in another order"):
            ordered.read(plan, _kernels.HeldSource([whole, whole]))
    for spans, ends, message in (
        ([(0, 5)], [1], "rows of no page"),
        ([(1, 1)], [1], "no rows"),
        ([(2, 3), (1, 2)], [2], "no rows"),
        ([(0, 1)], [2], "ends of spans"),
        ([(0, 1), (1, 2)], [1], "spans of no table"),
        ([(0, 1)], [1, 1], "other fragments"),
    ):
        with pytest.raises(ValueError, match=message):
            plan_spans([[table]], spans, ends)


def test_pages_that_are_not_known_are_left_out_of_ranges() -> None:
    table = chunked([FOUR_ROWS], [0, 4])
    plan = plan_spans([[table, table]], [(1, 3), (3, 5), (5, 6), (0, 4)], [3, 4])
    assert plan.unknown == [(0, 2)]
    tables, ends, *_, num_bytes = plan.pieces(0, plan.num_groups)
    assert (tables, ends, num_bytes) == ([0, 1], [2, 3], 48)
    assert plan.misfit([0], [0], [1]) is None
    assert plan.misfit([0], [0], [2]) == (0, 0, "a page of values of 8 bits")


def test_pages_that_lie_backwards_or_over_others_are_read_from_their_places(
    tmp_path: Path,
) -> None:
    content = b"".join(
        b"\0\0\x04\0\0\0\0\0" + bytes(range(first, first + 4)) + bytes(4) for first in (0, 4, 8)
    )
    starts = [16, 0, 32, 32, 0]
    table = chunked([FOUR_ROWS._replace(start=start) for start in starts])
    plan = plan_spans([[table]], [(0, 20)], [1])
    batch = _kernels.RowBatch([0], [0], [1], [False])
    path = tmp_path / "file"
    path.write_bytes(content)
    with path.open("rb") as file:
        source = _kernels.FileSource([file.fileno()], 4096)
        assert batch.read(plan, source)
    rows = pa.RecordBatch._import_from_c(batch.address, pa.schema([("a", pa.uint8())]))
    assert rows["a"].to_pylist() == [4, 5, 6, 7, 0, 1, 2, 3, *[8, 9, 10, 11] * 2, 0, 1, 2, 3]


def test_missing_bytes_of_ranges_are_few_pieces() -> None:
    tables = [chunked([FOUR_ROWS._replace(start=start)]) for start in (0, 16, 40, 100)]
    plan = plan_spans([[table] for table in tables], [(0, 4)], [1])
    nothing, files = _kernels.HeldFile([], []), [0] * 4

    def missing(
        held: list[_kernels.HeldFile], files: list[int], gap: int
    ) -> tuple[list[int], list[tuple[int, int]]]:
        ends, starts, stops = plan.missing(held, files, gap)
        return ends, list(zip(starts.tolist(), stops.tolist(), strict=True))

    assert missing([nothing], files, 0) == ([3], [(0, 32), (40, 56), (100, 116)])
    assert missing([nothing], files, 8) == ([2], [(0, 56), (100, 116)])
    first = _kernels.HeldFile([0], [memoryview(bytes(16))])
    assert missing([first], files, 0) == ([3], [(16, 32), (40, 56), (100, 116)])
    assert missing([first, nothing], [0, 1, 0, 1], 60) == (
        [1, 3],
        [(40, 56), (16, 32), (100, 116)],
    )
    with pytest.raises(ValueError, match="files of other tables"):
        plan.missing([first, nothing], [0, 0, 0, 2], 0)


def test_a_field_is_made_once() -> None:
    manifest = table_pb2.Manifest(
        fields=[
            file_pb2.Field(name=name, id=number, parent_id=-1, logical_type="int64")
            for number, name in enumerate("abc")
        ]
    )
    fields = _kernels.schema_fields(manifest.SerializeToString())
    assert fields is not None
    schema = Schema.of_manifest(manifest.fields, {}, fields)
    assert schema.top("b") is schema.fields[1]
    assert schema.project(["c"]).fields[0] is schema.fields[2]
    assert (len(fields), fields.types) == (3, ["int64"])
    with pytest.raises(ValueError, match="one Arrow field a type"):
        fields.arrow([])
