"""Tables of many whole files in one call, and spans of many buffers."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance import _kernels
from alance.format.container import open_container
from alance.format.layouts import whole_form
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
    places = [one.data_files()[0].path for one in lance.dataset(path).get_fragments()]
    return [Path(path, "data", place).read_bytes() for place in places]


def columns(*numbers: int) -> npt.NDArray[np.int64]:
    return np.array(numbers, np.int64)


def views(contents: list[bytes]) -> list[memoryview]:
    return [memoryview(one) for one in contents]


def test_the_same_as_one_by_one(files: list[bytes]) -> None:
    wanted = columns(3, 0, 2)
    pages = _kernels.FilePages.of_files(views(files), wanted)
    assert pages is not None
    counts, num_rows, kinds, ends, starts, sizes = pages.tables
    encodings = pages.encodings
    assert pages.version == 2 << 16 | 1
    assert len(pages.column_encodings) == 1
    page = number = 0
    for column in wanted.tolist():
        for content in files:
            container, _ = run(open_container("f", len(content)), content)
            (one,), _ = run(container.read_columns([column]), content)
            assert counts[number] == len(one.pages)
            number += 1
            for each in one.pages:
                span = slice(ends[page], ends[page + 1])
                assert list(each.buffers) == list(zip(starts[span], sizes[span], strict=True))
                assert each.num_rows == num_rows[page]
                assert each.encoding == encodings[kinds[page]]
                page += 1
    assert page == pages.num_pages == len(num_rows) == len(kinds) == len(ends) - 1
    assert pages.stored.tolist() == [1, 300, 20] * 3


class Joined(NamedTuple):
    """Columns of `files` as the kernel decodes them."""

    pages: _kernels.FilePages
    forms: list[_kernels.PageForm | None]
    contents: list[memoryview]

    @classmethod
    def of(cls, contents: list[bytes], wanted: npt.NDArray[np.int64]) -> Joined:
        pages = _kernels.FilePages.of_files(views(contents), wanted)
        assert pages is not None
        return cls(pages, [*map(whole_form, pages.descriptions)], views(contents))

    def decode(self, **other: Any) -> None:
        """Decode the first two columns, integers and texts; `other`: arguments instead of right."""
        counts = self.pages.tables[0]
        files = np.tile(np.arange(len(self.contents)), len(counts) // len(self.contents))
        arguments = {
            "columns": [0, 1],
            "forms": self.forms,
            "widths": [8, -4],
            "texts": [False, True],
            "contents": self.contents,
            "numbers": np.repeat(files, counts),
            "firsts": np.zeros(len(self.contents), np.int64),
            "num_rows": 321,
        }
        self.pages.decode(**arguments | other)

    def batch(self) -> pa.RecordBatch:
        schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
        return pa.RecordBatch._import_from_c(self.pages.address, schema)


def test_columns_of_files_become_one_batch(files: list[bytes]) -> None:
    joined = Joined.of(files, columns(0, 1))
    assert joined.pages.fitting(joined.forms, [8, -4]) == [0, 1]
    assert joined.pages.address == 0
    joined.decode()
    expected = pa.concat_tables([rows(count).select(["id", "text"]) for count in (1, 300, 20)])
    assert pa.Table.from_batches([joined.batch()]).equals(expected)
    assert joined.pages.address == 0  # it was given away
    joined.decode()
    joined.decode()  # what was not taken is freed
    assert joined.batch().num_rows == 321


CONSTANTS = {
    "long": pa.array([7] * 20, pa.int64()),
    "flag": pa.array([True] * 20),
    "text": pa.array(["long " * 9] * 20),
    "word": pa.array(["ab"] * 20, pa.large_string()),
    "nothing": pa.nulls(20, pa.int64()),
    "no_text": pa.nulls(20, pa.string()),
    "no_flag": pa.nulls(20, pa.bool_()),
    "bytes": pa.array([b"0123456789abcdef"] * 20, pa.binary(16)),
}
WIDTHS = [8, 0, -4, -8, 8, -4, 0, 16]


@pytest.fixture(scope="module")
def constants(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("constants") / "t.lance"
    lance.write_dataset(pa.table(CONSTANTS), path, data_storage_version="2.2")
    (file,) = next(iter(lance.dataset(path).get_fragments())).data_files()
    return Path(path, "data", file.path).read_bytes()


def decoded_constants(content: bytes, columns_of: list[int]) -> Joined:
    joined = Joined.of([content], np.arange(len(CONSTANTS)))
    joined.decode(
        columns=columns_of,
        widths=WIDTHS,
        texts=[name in ("text", "word", "no_text") for name in CONSTANTS],
        num_rows=20,
    )
    return joined


def test_pages_of_one_value_or_none(constants: bytes) -> None:
    joined = Joined.of([constants], np.arange(len(CONSTANTS)))
    every = [*range(len(CONSTANTS))]
    assert joined.pages.fitting(joined.forms, WIDTHS) == every
    assert joined.pages.fitting(joined.forms, [4, 8, 0, 8, 16, -4, 8, 8]) == [2, 3, 4, 5, 6]
    expected = pa.table(CONSTANTS)
    address = decoded_constants(constants, every)
    batch = pa.RecordBatch._import_from_c(address.pages.address, expected.schema)
    batch.validate(full=True)
    assert pa.Table.from_batches([batch]).equals(expected)


@settings(max_examples=300)
@given(data=st.data())
def test_wrong_constants_are_told_or_decoded(constants: bytes, data: st.DataObject) -> None:
    content = bytearray(constants)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    if _kernels.FilePages.of_files(views([bytes(content)]), np.arange(len(CONSTANTS))) is None:
        return
    joined = Joined.of([bytes(content)], np.arange(len(CONSTANTS)))
    fitting = joined.pages.fitting(joined.forms, WIDTHS)
    try:
        joined = decoded_constants(bytes(content), fitting)
    except (ValueError, OverflowError):
        return
    fields = [pa.table(CONSTANTS).schema.field(number) for number in fitting]
    pa.RecordBatch._import_from_c(joined.pages.address, pa.schema(fields)).validate(full=True)


def test_a_constant_page_has_no_chunks() -> None:
    table = _kernels.chunk_table(memoryview(bytes(2)), None, False, 1, 1, 8)
    with pytest.raises(ValueError, match="no chunks"):
        _kernels.PageForm.constant(b"a", 0).page(table, 0, 8, 1)


def test_what_the_kernel_does_not_decode(files: list[bytes]) -> None:
    joined = Joined.of(files, columns(0, 1, 2))
    fitting = joined.pages.fitting
    assert fitting(joined.forms, [4, -8, -4]) == []
    assert fitting(joined.forms, [-1, -4, -1]) == [1]
    assert fitting([None] * len(joined.forms), [8, -4, -4]) == []
    with pytest.raises(ValueError, match="forms of other pages"):
        fitting([], [8, -4, -4])
    with pytest.raises(ValueError, match="forms of other pages"):
        fitting(joined.forms, [8])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"columns": [2]}, "no such column"),
        ({"columns": [1], "widths": [8, 8]}, "another form"),
        ({"texts": [False]}, "unequal length"),
        ({"numbers": np.zeros(1, np.int64)}, "unequal length"),
        ({"numbers": np.full(6, 3, np.int64)}, "no such content"),
        ({"numbers": np.full(6, -1, np.int64)}, "no such content"),
        ({"firsts": np.zeros(2, np.int64)}, "unequal length"),
        ({"firsts": np.full(3, 1 << 40, np.int64)}, "file pages: bytes"),
        ({"firsts": np.full(3, -(1 << 40), np.int64)}, "file pages: bytes"),
        ({"num_rows": 320}, "another number of rows"),
        ({"num_rows": 322}, "another number of rows"),
        ({"num_rows": -1}, "unequal length"),
        ({"num_rows": 1 << 62}, "overflow"),
    ],
)
def test_wrong_arguments(files: list[bytes], other: dict[str, Any], message: str) -> None:
    joined = Joined.of(files, columns(0, 1))
    with pytest.raises(ValueError, match=message):
        joined.decode(**other)
    assert joined.pages.address == 0


@settings(max_examples=300)
@given(data=st.data())
def test_wrong_pages_are_told_or_decoded(files: list[bytes], data: st.DataObject) -> None:
    content = bytearray(files[1])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    if _kernels.FilePages.of_files(views([bytes(content)]), columns(0, 1)) is None:
        return
    joined = Joined.of([bytes(content)], columns(0, 1))
    fitting = joined.pages.fitting(joined.forms, [8, -4])
    try:
        joined.decode(columns=fitting, num_rows=300)
    except (ValueError, OverflowError):
        return
    if fitting == [0, 1]:
        joined.batch().validate(full=True)


def test_columns_of_open_files_need_whole_files() -> None:
    with pytest.raises(ValueError, match="columns of other files"):
        _kernels.FilePages.of_columns([], 0)


def test_what_is_left_to_others(files: list[bytes]) -> None:
    assert _kernels.FilePages.of_files([], columns(0)) is None
    assert _kernels.FilePages.of_files(views(files), columns(4)) is None
    assert _kernels.FilePages.of_files(views(files), columns(-1)) is None
    assert _kernels.FilePages.of_files(views([files[0], files[1][:39]]), columns(0)) is None
    assert _kernels.FilePages.of_files(views([files[0], b""]), columns(0)) is None
    other = files[0][:-6] + b"\x02\x00LANC"  # of another version
    assert _kernels.FilePages.of_files(views([files[0], other]), columns(0)) is None
    assert _kernels.FilePages.of_files(views([other]), columns(0)) is not None


def direct(content: bytes) -> file2_pb2.Encoding:
    return file2_pb2.Encoding(direct=file2_pb2.DirectEncoding(encoding=content))


def file_of_one_page(starts: list[int], sizes: list[int]) -> bytes:
    """256 bytes of a file of 2.1: one column of one page, whose buffers may lie anywhere."""
    page = file2_pb2.ColumnMetadata.Page(
        buffer_offsets=starts, buffer_sizes=sizes, length=3, encoding=direct(b"page")
    )
    column = file2_pb2.ColumnMetadata(encoding=direct(b"column"), pages=[page])
    metadata = column.SerializeToString()
    metadata_start = 256 - 40 - 32 - len(metadata)
    tables = struct.pack("<4Q", metadata_start, len(metadata), 0, 64)
    footer = struct.pack("<3Q2I2H4s", metadata_start, 184, 200, 1, 1, 2, 1, b"LANC")
    return bytes(metadata_start) + metadata + tables + footer


@pytest.mark.parametrize(
    ("starts", "sizes"),
    [([0], [256]), ([64, 0], [192, 1]), ([192], [64]), ([], []), ([0], [0])],
)
def test_pages_inside_a_file(starts: list[int], sizes: list[int]) -> None:
    pages = _kernels.FilePages.of_files([memoryview(file_of_one_page(starts, sizes))], columns(0))
    assert pages is not None
    assert (pages.tables[4].tolist(), pages.tables[5].tolist()) == (starts, sizes)


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
    content = memoryview(file_of_one_page(starts, sizes))
    assert _kernels.FilePages.of_files([content], columns(0)) is None


@settings(max_examples=300)
@given(data=st.data())
def test_wrong_bytes(files: list[bytes], data: st.DataObject) -> None:
    content = bytearray(files[2])
    first = len(content) - data.draw(st.sampled_from([40, 200, 2000]))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(max(0, first), len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    pages = _kernels.FilePages.of_files(views([bytes(content)]), columns(0, 1, 2, 3))
    if pages is not None:
        counts, num_rows, kinds, ends, starts, sizes = pages.tables
        encodings = pages.encodings
        assert counts.sum() == len(num_rows) == len(kinds) == len(ends) - 1
        assert ends[-1] == len(starts) == len(sizes)
        assert (starts >= 0).all()
        assert (sizes >= 0).all()
        assert (starts + sizes <= len(content)).all()
        assert not len(kinds) or 0 <= kinds.min() <= kinds.max() < len(encodings)


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
        assert len(of_columns) % 2 == len(of_buffers) % 2 == 0
        places = np.concatenate([of_columns, of_buffers])
        assert (places >= 0).all()
        assert (places <= size).all()
        assert size - len(tail) <= keep <= size
        assert first_table >= size - len(tail)


def test_ends_of_files_need_their_sizes() -> None:
    with pytest.raises(ValueError, match="one size a file"):
        _kernels.file_ends(views([b"x"]), columns())
    assert _kernels.file_ends(views([bytes(50)]), columns(40)) == ["a tail of no file"]
    assert _kernels.file_ends(views([bytes(50)]), columns(-1)) == ["a tail of no file"]


@pytest.mark.parametrize(
    "place",
    [
        ([1], [0], [1], [9], [1]),
        ([-1], [0], [1], [9], [1]),
        ([0], [-1], [1], [9], [1]),
        ([0], [3], [8], [9], [1]),
        ([0], [0], [-1], [9], [1]),
        ([0], [0], [1], [-1], [1]),
        ([0], [0], [1], [9], [0]),
        ([0], [0], [1], [9], []),
    ],
)
def test_metadata_of_columns_outside_of_what_was_read(place: tuple[list[int], ...]) -> None:
    with pytest.raises(ValueError, match="column metadata"):
        _kernels.column_pages(views([b"0123456789"]), *[columns(*values) for values in place])


def test_spans() -> None:
    contents = views([b"abcdef", b"", b"0123"])
    found = _kernels.gather_spans(
        contents, columns(2, 0, 1, 0), columns(1, 0, 0, 5), columns(3, 2, 0, 1)
    )
    assert bytes(found) == b"123abf"
    assert len(_kernels.gather_spans([], columns(), columns(), columns())) == 0


@pytest.mark.parametrize(
    ("numbers", "starts", "sizes"),
    [
        ([3], [0], [1]),
        ([-1], [0], [1]),
        ([0], [-1], [1]),
        ([0], [0], [7]),
        ([0], [0], []),
        ([2], [2], [3]),
    ],
)
def test_spans_outside(numbers: list[int], starts: list[int], sizes: list[int]) -> None:
    contents = views([b"abcdef", b"", b"0123"])
    with pytest.raises(ValueError, match="spans"):
        _kernels.gather_spans(contents, columns(*numbers), columns(*starts), columns(*sizes))
