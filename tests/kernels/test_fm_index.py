"""Suffix arrays and FM indices against plain Python, and with bytes that contradict themselves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alance import CorruptFileError, _kernels
from alance.format.index.fm import SCHEMA, Partition, PartitionBuilder, metadata_of

TEXTS = st.lists(st.one_of(st.none(), st.text("abé漢 ", max_size=9)), min_size=1, max_size=12)


def partition_of(texts: list[str | None]) -> tuple[pa.RecordBatch, dict[str, str]]:
    builder = PartitionBuilder()
    rows = pa.array(range(7, 7 + len(texts)), pa.uint64())
    assert builder.add(pa.array(texts, pa.string()), rows) == []
    (batch,) = builder.finish()
    return batch.select(SCHEMA.names), metadata_of(batch.column(5)[0].as_py())


@settings(deadline=None, max_examples=300)
@given(st.lists(st.integers(1, 255), max_size=60), st.sampled_from([1, 2, 3, 255]))
@example([], 1)
def test_a_suffix_array_is_sorted(numbers: list[int], most: int) -> None:
    text = bytes([(number - 1) % most + 1 for number in numbers]) + b"\0"
    expected = sorted(range(len(text)), key=lambda place: text[place:])
    assert _kernels.suffix_array(np.frombuffer(text, np.uint8)).tolist() == expected


@settings(deadline=None, max_examples=200)
@given(TEXTS, st.text("abé漢 ", min_size=1, max_size=4))
def test_rows_with_a_pattern_are_those_of_plain_python(
    texts: list[str | None], pattern: str
) -> None:
    texts = [*texts, "a"]
    partition = Partition.parse(*partition_of(texts))
    expected = [row for row, text in enumerate(texts, 7) if text is not None and pattern in text]
    assert partition.rows_of(partition.find(pattern.encode())).tolist() == expected
    rows, contents = partition.texts(np.ones(len(partition.rows), np.bool_))
    there = [(row, text.encode()) for row, text in enumerate(texts, 7) if text is not None]
    assert list(zip(rows.tolist(), contents, strict=True)) == there


def test_zeros_and_separators_inside_of_texts_are_blanks() -> None:
    builder = PartitionBuilder()
    builder.add(pa.array([b"a\0b\xffc"], pa.binary()), pa.array([0], pa.uint64()))
    (batch,) = builder.finish()
    partition = Partition.parse(batch.select(SCHEMA.names), metadata_of(batch.column(5)[0].as_py()))
    assert partition.rows_of(partition.find(b"a b c")).tolist() == [0]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bwt_len", "9"),
        ("c_table", "00" * 8 * 257),
        ("tree_topology", "01000000" + "00" * 10),
        ("tree_topology", "ffffffff"),
        ("row_ids", ""),
        ("doc_start_positions", "ff" * 24),
        ("total_wavelet_rows", "1"),
        ("sa_sample_rate", "0"),
        ("c_table", "no digits"),
    ],
)
def test_metadata_that_contradicts_the_rows_is_refused(key: str, value: str) -> None:
    batch, metadata = partition_of(["banana", "bandana", "é"])
    with pytest.raises(CorruptFileError, match="FM index"):
        Partition.parse(batch, {**metadata, key: value})


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_damaged_bits_give_an_error_or_rows_of_the_index(data: st.DataObject) -> None:
    batch, metadata = partition_of(["banana", "bandana", "é" * 40, "a"])
    place = data.draw(st.integers(0, batch.num_rows - 1))
    words = [content.as_py() for content in batch.column(2)]
    bit = data.draw(st.integers(0, 8 * len(words[place]) - 1))
    changed = bytearray(words[place])
    changed[bit // 8] ^= 1 << bit % 8
    words[place] = bytes(changed)
    columns = [*batch.columns]
    columns[2] = pa.array(words, pa.large_binary())
    damaged = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    try:
        partition = Partition.parse(damaged, metadata)
        assert set(partition.rows_of(partition.find(b"an")).tolist()) <= {7, 8, 9, 10}
    except CorruptFileError:
        pass


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="only zero"):
        _kernels.suffix_array(np.frombuffer(b"a\0b\0", np.uint8))
    children, starts = np.array([[-98, -1]], np.int32), np.array([0, 2], np.int64)
    with pytest.raises(ValueError, match="starts do not fit"):
        _kernels.wavelet_words(np.frombuffer(b"a\0", np.uint8), children, starts)
    assert _kernels.fnv1a(np.frombuffer(b"a", np.uint8)) == 0xAF63DC4C8601EC8C
