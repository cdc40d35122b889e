"""Tables of many whole files in one call, and spans of many buffers."""

from __future__ import annotations

import struct
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import AlanceError
from alance.file.rows.leaves import LEAF_NODE, LIST_NODE
from alance.format.container import open_container
from alance.format.layouts import page_form
from alance.format.plans import run
from alance.format.proto import file2_pb2

if TYPE_CHECKING:
    import numpy.typing as npt


def rows(count: int) -> pa.Table:
    ids = range(count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "text": pa.array([None if i % 5 == 3 else f"text {i}" for i in ids]),
            "words": pa.array([["a", "bc"][: i % 3] for i in ids], pa.list_(pa.string())),
            "same": pa.array([7] * count),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    path = tmp_path_factory.mktemp("files") / "t.lance"
    for count in (1, 300, 20):
        lance.write_dataset(rows(count), path, mode="append", data_storage_version="2.1")
    places = [fragment.data_files()[0].path for fragment in lance.dataset(path).get_fragments()]
    return [Path(path, "data", place).read_bytes() for place in places]


def columns(*numbers: int) -> npt.NDArray[np.int64]:
    return np.array(numbers, np.int64)


def views(contents: list[bytes]) -> list[memoryview]:
    return [memoryview(content) for content in contents]


def tables_of(
    contents: list[bytes], expected: list[int], num_rows: list[int] | None = None
) -> _kernels.LeafTables | None:
    """The tables of columns of files of one set; without `num_rows` as many as the files have."""
    if num_rows is None:
        num_rows = [rows_in(content) for content in contents]
    owners = [(0, column) for column in expected]
    times = [1] * len(expected)
    return _kernels.whole_tables(views(contents), begins(contents), owners, times, num_rows)


def begins(contents: list[bytes]) -> list[int]:
    """Positions of files that are regarded as one, 1000 bytes apart."""
    return [0, *accumulate(len(content) + 1000 for content in contents)][:-1]


def rows_in(content: bytes) -> int:
    """Rows of the first column of a file; 0 of what is none."""
    try:
        container, _ = run(open_container("f", len(content)), content)
        (own,), _ = run(container.read_columns([0]), content)
    except AlanceError:
        return 0
    return own.kernel.num_rows


class Whole(NamedTuple):
    """Columns of files that are regarded as one, all of whose rows are planned."""

    tables: _kernels.LeafTables
    held: _kernels.HeldFile
    num_rows: int

    @classmethod
    def of(cls, contents: list[bytes], expected: list[int]) -> Whole:
        tables = tables_of(contents, expected)
        assert tables is not None
        held = _kernels.HeldFile(begins(contents), views(contents))
        return cls(tables, held, sum(map(rows_in, contents)))

    def plan(self, numbers: list[int]) -> _kernels.RowPlan:
        """The plan of columns of the tables, whose pages are learned before."""
        pages = _kernels.NewPages(self.tables, numbers)
        pages.find([*map(page_form, pages.descriptions)])
        pages.learn([self.held])
        return _kernels.plan_spans([self.tables], numbers, [(0, self.num_rows)], [1])

    def batch(
        self, schema: pa.Schema, trees: list[int], numbers: list[int], widths: list[int]
    ) -> pa.RecordBatch:
        """Some columns as the kernel decodes them."""
        plan = self.plan(numbers)
        assert plan.unknown == []
        texts = [width < 0 for width in widths]
        batch = _kernels.RowBatch(trees, range(len(numbers)), widths, texts)
        assert batch.read(plan, _kernels.HeldSource([self.held] * len(numbers)))
        return pa.RecordBatch._import_from_c(batch.address, schema)


def test_columns_of_files_become_one_batch(files: list[bytes]) -> None:
    whole = Whole.of(files, [1, 0, 2])
    expected = pa.concat_tables([rows(count) for count in (1, 300, 20)])
    names = ["id", "text"]
    batch = whole.batch(expected.select(names).schema, [LEAF_NODE, LEAF_NODE], [1, 0], [8, -4])
    assert pa.Table.from_batches([batch]).equals(expected.select(names))


def test_nested_columns_of_files_become_one_batch_by_the_same_call(files: list[bytes]) -> None:
    whole = Whole.of(files, [0, 2])
    expected = pa.concat_tables([rows(count) for count in (1, 300, 20)]).select(["id", "words"])
    batch = whole.batch(expected.schema, [LEAF_NODE, LIST_NODE, LEAF_NODE], [0, 1], [8, -4])
    batch.validate(full=True)
    assert pa.Table.from_batches([batch]).equals(expected)


def test_bytes_of_the_pages_of_open_files(files: list[bytes]) -> None:
    opened = [tables_of([content], [0, 1]) for content in files]
    fragments = [tables for tables in opened if tables is not None]
    bounds = begins(files)
    tables = _kernels.joined_tables(fragments, bounds * 2)
    first, _, third = views(files)
    held = _kernels.HeldFile([bounds[0], bounds[2]], [first, third])
    spans = _kernels.page_spans(tables, bounds, held, 256)
    assert {file for file, _, _ in spans} == {1}
    starts = [start for _, start, _ in spans]
    pieces = [files[1][start - bounds[1] : stop - bounds[1]] for _, start, stop in spans]
    for start, piece in zip(starts, views(pieces), strict=True):
        held.add(start, piece)
    assert Whole(tables, held, 321).plan([0, 1]).unknown == []
    with pytest.raises(ValueError, match="pages of no file"):
        _kernels.page_spans(tables, [], _kernels.HeldFile([], []), 256)
    for own in ([], fragments):
        with pytest.raises(ValueError, match="leaves of other files"):
            _kernels.joined_tables(own, [0])
    listed = _kernels.LeafTables([(None, 0, 0)])
    for use in (
        lambda: _kernels.joined_tables([listed], [0]),
        lambda: _kernels.page_spans(listed, [0], held, 256),
        lambda: _kernels.NewPages(listed, [0]),
    ):
        with pytest.raises(ValueError, match="a leaf without a column"):
            use()


def test_pages_that_are_known_are_not_learned_again(files: list[bytes]) -> None:
    whole = Whole.of(files, [0, 1])
    unknown = []
    for _ in range(2):
        pages = _kernels.NewPages(whole.tables, [0, 1])
        pages.find([*map(page_form, pages.descriptions)])
        unknown.append(len(pages.missing))
        whole.plan([1])
    assert unknown == [6, 3]
    first, _, third = views(files)
    bounds = begins(files)
    lacking = whole._replace(held=_kernels.HeldFile([bounds[0], bounds[2]], [first, third]))
    assert lacking.plan([0]).unknown == [(0, 1)]
    with pytest.raises(ValueError, match="forms of other descriptions"):
        _kernels.NewPages(Whole.of(files, [0]).tables, [0]).find([])


CONSTANTS = {
    "long": pa.array([7] * 20, pa.int64()),
    "flag": pa.array([True] * 20),
    "text": pa.array(["long " * 9] * 20),
    "word": pa.array(["ab"] * 20, pa.large_string()),
    "nothing": pa.nulls(20, pa.int64()),
    "no_text": pa.nulls(20, pa.string()),
    "no_flag": pa.nulls(20, pa.bool_()),
    "bytes": pa.array([b"0123456789abcdef"] * 20, pa.binary(16)),
    "lists": pa.array([[3, 3], None, [], [3]] * 5, pa.list_(pa.int64())),
    "members": pa.array([{"a": 1}, {"a": None}] * 10, pa.struct([("a", pa.int32())])),
}
WIDTHS = [8, 0, -4, -8, 8, -4, 0, 16, 8, 4]
TREES = [[LEAF_NODE]] * 8 + [[LIST_NODE, LEAF_NODE], [1, LEAF_NODE]]


@pytest.fixture(scope="module")
def constants(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("constants") / "t.lance"
    lance.write_dataset(pa.table(CONSTANTS), path, data_storage_version="2.2")
    (file,) = next(iter(lance.dataset(path).get_fragments())).data_files()
    return Path(path, "data", file.path).read_bytes()


def test_pages_of_one_value_or_none(constants: bytes) -> None:
    every = [*range(len(CONSTANTS))]
    whole = Whole.of([constants], [*every])
    plan = whole.plan(every)
    assert plan.misfit([*chain(*TREES)], every, WIDTHS) is None
    others = [4, 8, 0, 8, 16, -4, 8, 8, 4, 8]
    assert [at for at in every if fits(plan, at, TREES[at], others[at])] == [4, 5, 6]
    assert plan.misfit([0], [2], [8]) == (0, 2, "a page of strings")
    assert plan.misfit([0, 0], [3, 7], [-8, 8]) == (1, 7, "a page of values of 16 bytes")
    expected = pa.table(CONSTANTS)
    batch = whole.batch(expected.schema, [*chain(*TREES)], every, WIDTHS)
    batch.validate(full=True)
    assert pa.Table.from_batches([batch]).equals(expected)


@settings(max_examples=300)
@given(data=st.data())
def test_wrong_constants_are_told_or_decoded(constants: bytes, data: st.DataObject) -> None:
    content = bytearray(constants)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    decode_columns(bytes(content), pa.table(CONSTANTS).schema, TREES, WIDTHS)


def fits(plan: _kernels.RowPlan, field: int, tree: list[int], width: int) -> bool:
    return plan.misfit(tree, [field], [width]) is None


def decode_columns(
    content: bytes, schema: pa.Schema, trees: list[list[int]], widths: list[int]
) -> None:
    """Decode what the kernel takes of a file of 20 rows that may be damaged: it is valid, then.

    Each field has one leaf.
    """
    every = [*range(len(widths))]
    tables = tables_of([content], [*every], [20])
    if tables is None:
        return
    whole = Whole(tables, _kernels.HeldFile([0], [memoryview(content)]), 20)
    for field in every:
        own = pa.schema([schema.field(field)])
        try:
            plan = whole.plan([field])
            if plan.unknown or not fits(plan, 0, trees[field], widths[field]):
                continue
            batch = whole.batch(own, trees[field], [field], [widths[field]])
        except (AlanceError, ValueError, OverflowError):
            continue
        batch.validate(full=True)


def test_a_constant_page_has_levels_of_a_known_form() -> None:
    with pytest.raises(ValueError, match="levels of an unknown form"):
        _kernels.PageForm.constant(b"a", (0, 1, 0), 1, None, (5, 0, 1))


@settings(max_examples=300)
@given(data=st.data())
def test_wrong_pages_are_told_or_decoded(files: list[bytes], data: st.DataObject) -> None:
    content = bytearray(files[2])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    decode_columns(
        bytes(content),
        rows(1).schema,
        [[LEAF_NODE], [LEAF_NODE], [LIST_NODE, LEAF_NODE], [LEAF_NODE]],
        [8, -4, -4, 8],
    )


def test_what_is_left_to_others(files: list[bytes]) -> None:
    assert tables_of(files, [0]) is not None
    assert tables_of(files, [4]) is None
    assert tables_of(files, [-1]) is None
    assert tables_of(files, [0], [1, 300, 21]) is None
    assert tables_of(files, [0], [1, 300, 1 << 62]) is None
    assert tables_of([files[0], files[1][:39]], [0], [1, 300]) is None
    assert tables_of([files[0], b""], [0], [1, 0]) is None
    whole = _kernels.whole_tables
    pair = views(files[:1] * 2)
    assert whole(pair, [0, 9999], [(1, 0), (0, 1)], [1, 1], [1]) is not None
    assert whole(pair, [0, 9999], [(0, 0)], [2], [1]) is None  # of other rows
    tables = whole([], [], [], [], [7, 8])
    assert tables is not None  # rows of no file
    assert len(tables) == 0
    for starts, times, num_rows in (([0], [1], [1]), ([0, 9], [], [1]), ([0, 9], [1], [])):
        with pytest.raises(ValueError, match="unequal length"):
            whole(pair, starts, [(0, 0)], times, num_rows)
    with pytest.raises(ValueError, match="no such file"):
        whole(pair, [0, 9999], [(2, 0)], [1], [1])


def direct(content: bytes) -> file2_pb2.Encoding:
    return file2_pb2.Encoding(direct=file2_pb2.DirectEncoding(encoding=content))


COLUMN = b"\n\x1f/lance.encodings.ColumnEncoding"


def file_of_page(
    starts: list[int], sizes: list[int], minor: int = 1, encoding: bytes = COLUMN
) -> bytes:
    """256 bytes of a file of 2.1: one column of one page, whose buffers may lie anywhere."""
    page = file2_pb2.ColumnMetadata.Page(
        buffer_offsets=starts, buffer_sizes=sizes, length=3, encoding=direct(b"page")
    )
    column = file2_pb2.ColumnMetadata(encoding=direct(encoding), pages=[page])
    metadata = column.SerializeToString()
    metadata_start = 256 - 40 - 32 - len(metadata)
    tables = struct.pack("<4Q", metadata_start, len(metadata), 0, 64)
    footer = struct.pack("<3Q2I2H4s", metadata_start, 184, 200, 1, 1, 2, minor, b"LANC")
    return bytes(metadata_start) + metadata + tables + footer


@pytest.mark.parametrize(
    ("starts", "sizes"),
    [([0], [256]), ([64, 0], [192, 1]), ([192], [64]), ([], []), ([0], [0])],
)
def test_pages_inside_a_file(starts: list[int], sizes: list[int]) -> None:
    assert tables_of([file_of_page(starts, sizes)], [0], [3]) is not None


@pytest.mark.parametrize(
    ("minor", "encoding", "is_known"),
    [
        (3, COLUMN, True),
        (0, COLUMN, False),
        (4, COLUMN, False),
        (1, COLUMN + b"\x12\x02\n\0", True),
        (1, COLUMN + b"\x12\x02\n", False),
        (1, COLUMN[:-1] + b"G", False),
        (1, b"", False),
    ],
)
def test_versions_and_column_encodings_of_whole_files(
    minor: int, encoding: bytes, is_known: bool
) -> None:
    file = file_of_page([0], [64], minor, encoding)
    assert (tables_of([file], [0], [3]) is not None) == is_known


@pytest.mark.parametrize(
    ("starts", "sizes"),
    [
        ([320], [16]),  # behind the end
        ([320], [0]),
        ([0, 320], [16, 16]),
        ([320, 0], [16, 16]),
        ([192], [65]),  # across the end
        ([0], [257]),
        ([32], [16]),  # at no multiple of 64
        ([(1 << 64) - 64], [128]),  # a sum that wraps
        ([64], [(1 << 64) - 1]),
        ([0], []),
        ([0], [16, 16]),
    ],
)
def test_pages_outside_of_a_file(starts: list[int], sizes: list[int]) -> None:
    assert tables_of([file_of_page(starts, sizes)], [0], [3]) is None


@settings(max_examples=300)
@given(data=st.data())
def test_files_with_wrong_bytes_are_planned_or_refused(
    files: list[bytes], data: st.DataObject
) -> None:
    content = bytearray(files[2])
    first = len(content) - data.draw(st.sampled_from([40, 200, 2000]))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(max(0, first), len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    tables = tables_of([bytes(content)], [0, 1, 2, 3], [20])
    if tables is not None:
        for file, start, stop in _kernels.page_spans(tables, [0], _kernels.HeldFile([], []), 0):
            assert file == 0
            assert 0 <= start < stop <= len(content)


@settings(max_examples=200)
@given(data=st.data())
def test_wrong_ends_of_files_are_told_or_read(files: list[bytes], data: st.DataObject) -> None:
    content = bytearray(files[2])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(len(content) - 100, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    tail = bytes(content[-data.draw(st.integers(0, len(content))) :])
    size = len(content) + data.draw(st.sampled_from([0, 0, 0, 1, -64]))
    good, end = _kernels.file_ends(views([files[0], tail]), columns(len(files[0]), size))
    assert not isinstance(good, str)
    assert good[2] is None
    if isinstance(end, str):
        return
    _, _, wrong, tables, _, first_table = end
    assert wrong is None or tables is None
    if tables is not None:
        of_columns, of_buffers, keep = tables
        assert len(of_buffers) % 2 == 0
        of_columns = [of_columns.span(number) for number in range(len(of_columns))]
        places = np.concatenate([np.reshape(of_columns, -1), of_buffers]).astype(np.int64)
        assert (places >= 0).all()
        assert (places <= size).all()
        assert size - len(tail) <= keep <= size
        assert first_table >= size - len(tail)


def test_ends_of_files_need_their_sizes() -> None:
    with pytest.raises(ValueError, match="one size a file"):
        _kernels.file_ends(views([b"x"]), columns())
    assert _kernels.file_ends(views([bytes(50)]), columns(40)) == ["a tail of no file"]
    assert _kernels.file_ends(views([bytes(50)]), columns(-1)) == ["a tail of no file"]


def test_metadata_of_columns_outside_of_what_was_read() -> None:
    file = _kernels.FileColumns([0, 9, 3, 12], 20, 1)
    held = _kernels.HeldFile([0], views([b"0123456789"]))
    with pytest.raises(ValueError, match="column metadata that are not held"):
        _kernels.open_columns([file], [[1]], [held])
    with pytest.raises(IndexError, match="no such column"):
        _kernels.open_columns([file], [[2]], [held])
    for arguments in (([file], [], [held]), ([file], [[0]], [])):
        with pytest.raises(ValueError, match="column metadata: lists of unequal length"):
            _kernels.open_columns(*arguments)
