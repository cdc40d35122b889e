"""Files of plain columns are written by one call of a kernel, byte for byte as step by step."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import InvalidInputError
from alance.file.budgets import PAGE_BYTES
from alance.file.write.page_writer import PageWriter, encode_file
from alance.file_version import FileVersion
from alance.format.encode.container import SEARCH_BYTES
from alance.format.encode.small_file import small_files
from alance.format.encode.statistics import WRITTEN_ZONE_ROWS
from alance.format.schema import Schema

VERSIONS = (FileVersion.V2_1, FileVersion.V2_2)
NUMBERS = {
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(1 << 15), (1 << 15) - 1),
    pa.int32(): st.sampled_from([0, 1, 7, -1, (1 << 31) - 1]),
    pa.int64(): st.integers(0, 3) | st.integers(-(1 << 63), (1 << 63) - 1),
    pa.uint8(): st.integers(0, 1) | st.integers(0, 255),
    pa.uint16(): st.integers(0, (1 << 16) - 1),
    pa.uint32(): st.integers(0, 5),
    pa.uint64(): st.integers(0, 15) | st.integers(0, (1 << 64) - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.sampled_from([0.0, -0.0, float("nan"), 1.5]) | st.floats(),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.time64("us"): st.times(),
    pa.timestamp("us"): st.integers(0, 1 << 50),
    pa.decimal128(20, 2): st.decimals(-1000, 1000, places=2),
    pa.binary(16): st.binary(min_size=16, max_size=16),
}
TEXTS = {
    pa.string(): st.text(max_size=40) | st.sampled_from(["", "a", "b" * 33, "\U0010ffff" * 9]),
    pa.large_string(): st.text(max_size=10),
    pa.binary(): st.binary(max_size=60) | st.just(b"\xff" * 40) | st.just(b"x" * 300),
    pa.large_binary(): st.binary(max_size=60),
}
TYPES = NUMBERS | TEXTS


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Some rows in the middle of a batch; of columns with nulls, runs and constants."""
    count, skipped = draw(st.integers(1, 110)), draw(st.integers(0, 9))
    columns, fields = [], []
    for number in range(draw(st.integers(1, 4))):
        arrow = draw(st.sampled_from(list(TYPES)))
        few = draw(st.lists(TYPES[arrow], min_size=1, max_size=draw(st.sampled_from([1, 2, 30]))))
        places = draw(st.lists(st.integers(0, len(few) - 1), min_size=1, max_size=40))
        repeat = draw(st.integers(1, 9))
        values: list[Any] = [few[place] for place in places for _ in range(repeat)]
        values = (values * (skipped + count))[: skipped + count]
        holes = draw(st.sampled_from(["none", "some", "all", "inside"]))
        if holes in ("some", "inside"):
            nulls = set(draw(st.lists(st.integers(0, len(values) - 1), max_size=40)))
        mask = None
        if holes == "all":
            values = [None] * len(values)
        elif holes == "some":
            values = [None if n in nulls else value for n, value in enumerate(values)]
        elif holes == "inside":  # nulls whose slots hold what was there
            mask = np.array([n in nulls for n in range(len(values))])
        column = pa.array(values, arrow)
        if mask is not None and arrow in NUMBERS and arrow != pa.bool_():
            valid = np.packbits(~mask, bitorder="little")
            buffers = [pa.py_buffer(valid), column.buffers()[1]]
            column = pa.Array.from_buffers(arrow, len(column), buffers)
        columns.append(column)
        fields.append(pa.field(f"c{number}", arrow))
    return pa.record_batch(columns, schema=pa.schema(fields)).slice(skipped, count)


def in_steps(schema: Schema, version: FileVersion, batch: pa.RecordBatch, **options: bool) -> bytes:
    """The file as the writer of pages makes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PageWriter, "_file_at_once", lambda writer, batches: None)
        return encode_file(schema, version, batch, **options)[0]


@given(batches(), st.sampled_from(VERSIONS), st.booleans())
def test_the_kernel_writes_what_the_steps_write(
    batch: pa.RecordBatch, version: FileVersion, statistics: bool
) -> None:
    schema = Schema.from_arrow(batch.schema)
    content, written = encode_file(schema, version, batch, statistics=statistics)
    assert content == in_steps(schema, version, batch, statistics=statistics)
    assert written.num_bytes == len(content)
    assert (written.num_rows, len(written.columns)) == (batch.num_rows, batch.num_columns)


@pytest.mark.parametrize(
    "field",
    [
        pa.field("a", pa.list_(pa.int32())),
        pa.field("a", pa.struct([("b", pa.int32())])),
        pa.field("a", pa.dictionary(pa.int8(), pa.string())),
        pa.field("a", pa.null()),
        pa.field("a", pa.int32(), metadata={"lance-encoding:compression": "zstd"}),
        pa.field("a", pa.binary(5)),
    ],
    ids=str,
)
def test_other_columns_are_written_in_steps(field: pa.Field) -> None:
    assert small_files(Schema.from_arrow(pa.schema([field])), FileVersion.V2_2) is None


def test_other_versions_are_written_in_steps() -> None:
    schema = Schema.from_arrow(pa.schema([("a", pa.int32())]))
    assert small_files(schema, FileVersion.V2_3) is None
    assert small_files(schema, FileVersion.V2_2) is not None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("num_rows", [1000, 8191, 20000])
def test_many_rows_are_written_as_the_steps_write_them(num_rows: int, version: FileVersion) -> None:
    random = np.random.default_rng(num_rows)
    few, many = random.integers(0, 9, num_rows), random.integers(0, 1 << 40, num_rows)
    nulls = random.random(num_rows) < 0.1
    batch = pa.record_batch(
        {
            "few": few,
            "many": pa.array(many, mask=nulls),
            "half": pa.array((few / 4 - 1).astype(np.float16), mask=nulls),
            "bool": pa.array(few > 3, mask=nulls),
            "text": pa.array([f"text {number}" for number in many.tolist()], mask=nulls),
            "word": pa.array([f"word {number}" for number in few.tolist()], pa.large_string()),
            "one": pa.array(["same"] * num_rows, mask=nulls),
        }
    )
    files = small_files(Schema.from_arrow(batch.schema), version)
    assert files is not None
    for part in (batch, batch.slice(3, num_rows - 7)):
        content = files.encode(part, PAGE_BYTES, statistics=True)
        assert content == in_steps(Schema.from_arrow(batch.schema), version, part)


def test_large_columns_and_other_types_are_written_in_steps() -> None:
    schema = Schema.from_arrow(pa.schema([("a", pa.string())]))
    files = small_files(schema, FileVersion.V2_2)
    assert files is not None
    texts = pa.record_batch([pa.array(["abc"] * 20)], ["a"])
    assert files.encode(texts, 21 * 4 + 60, statistics=True) is None
    assert files.encode(texts, 21 * 4 + 61, statistics=True) is not None
    for rows in (pa.array([], pa.string()), pa.array([b"a"])):
        batch = pa.record_batch([rows], ["a"])
        assert files.encode(batch, PAGE_BYTES, statistics=True) is None


def test_long_texts_are_written_as_in_steps() -> None:
    schema = Schema.from_arrow(pa.schema([("a", pa.string())]))
    files = small_files(schema, FileVersion.V2_2)
    assert files is not None
    batch = pa.record_batch([pa.array(["a" * 256, None, "b"])], ["a"])
    content = files.encode(batch, PAGE_BYTES, statistics=True)
    assert content == in_steps(schema, FileVersion.V2_2, batch)


def test_nulls_where_there_may_be_none_are_refused() -> None:
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False)])
    batch = pa.RecordBatch.from_arrays([pa.array([1, None], pa.int32())], schema=schema)
    with pytest.raises(InvalidInputError, match="field 'a': nulls, and the field is not nullable"):
        encode_file(Schema.from_arrow(schema), FileVersion.V2_2, batch)


def files_of(kinds: list[tuple[int, int, str, bool]]) -> _kernels.SmallFiles:
    numbers = (2, 2, SEARCH_BYTES, WRITTEN_ZONE_ROWS, 9)
    return _kernels.SmallFiles(kinds, b"", b"", "", *numbers, zlib.compress, zlib.compress)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ([], "no columns"),
        ([(7, 0, "", True)], "values of 7 bits"),
        ([(256, 0, "", True)], "values of 256 bits"),
        ([(0, 2, "", True)], "values of 0 bits"),
    ],
)
def test_columns_that_are_not_plain_are_refused(
    kinds: list[tuple[int, int, str, bool]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        files_of(kinds)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ((32, 0, "f2", True), pa.array([1], pa.int32()), "other values than numbers of 16 bits"),
        ((16, 0, "i4", True), pa.array([1], pa.int16()), "other values than numbers of 32 bits"),
        ((0, 4, "i4", True), pa.array(["a"]), "other values than numbers of 32 bits"),
        ((64, 0, "s", True), pa.array([1], pa.int64()), "other values than texts"),
        ((64, 0, "x8", True), pa.array([1], pa.int64()), "kind x8"),
    ],
)
def test_statistics_of_other_values_are_refused(
    kind: tuple[int, int, str, bool], values: pa.Array, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        files_of([kind]).encode(pa.record_batch([values], ["a"]), True, 99)


def test_a_batch_of_other_columns_is_not_taken() -> None:
    files = files_of([(32, 0, "i4", True)] * 2)
    numbers, texts = pa.array([1], pa.int32()), pa.array(["a"])
    assert files.encode(pa.record_batch([numbers], ["a"]), False, 99) is None
    assert files.encode(pa.record_batch([numbers, texts], ["a", "b"]), False, 99) is None
    assert files.encode(pa.record_batch([numbers, numbers], ["a", "b"]), False, 99) is not None
