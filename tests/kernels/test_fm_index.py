"""Suffix arrays and FM indices against plain Python, and with bytes that contradict themselves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alance import CorruptFileError, _kernels
from alance.format.index import fm
from alance.format.index.fm import FM_SCHEMA, FmPartition, PartitionBuilder, metadata_of

TEXTS = st.lists(st.one_of(st.none(), st.text("abé漢 ", max_size=9)), min_size=1, max_size=12)


def partition_of(texts: list[str | None]) -> tuple[pa.RecordBatch, dict[str, str]]:
    builder = PartitionBuilder(1 << 20)
    rows = pa.array(range(7, 7 + len(texts)), pa.uint64())
    assert builder.add(pa.array(texts, pa.string()), rows) == []
    (batch,) = builder.finish()
    return batch.select(FM_SCHEMA.names), metadata_of(batch.column(5)[0].as_py())


@settings(deadline=None, max_examples=300)
@given(st.lists(st.integers(1, 255), max_size=60), st.sampled_from([1, 2, 3, 255]))
@example([], 1)
def test_a_suffix_array_is_sorted(numbers: list[int], most: int) -> None:
    text = bytes([(number - 1) % most + 1 for number in numbers]) + b"\0"
    expected = sorted(range(len(text)), key=lambda place: text[place:])
    symbols = np.frombuffer(text, np.uint8)
    transform, places, counts = _kernels.burrows_wheeler(symbols, 1)
    assert places.tolist() == expected
    assert transform.tolist() == [text[place - 1] for place in expected]
    assert counts.tolist() == np.bincount(symbols, minlength=256).tolist()
    assert _kernels.burrows_wheeler(symbols, 7)[1].tolist() == expected[::7]


@settings(deadline=None, max_examples=200)
@given(TEXTS, st.text("abé漢 ", min_size=1, max_size=4))
def test_rows_with_a_pattern_are_those_of_plain_python(
    texts: list[str | None], pattern: str
) -> None:
    texts = [*texts, "a"]
    partition = FmPartition.parse(*partition_of(texts))
    expected = [row for row, text in enumerate(texts, 7) if text is not None and pattern in text]
    assert partition.rows_of(partition.find(pattern.encode())).tolist() == expected
    values = [(row, text.encode()) for row, text in enumerate(texts, 7) if text is not None]
    keep = np.arange(len(values)) % 3 != 1
    texts = partition.texts(keep)
    contents = texts.content.tobytes().split(b"\xff")[:-1]
    expected_texts = [pair for pair, is_retained in zip(values, keep, strict=True) if is_retained]
    assert list(zip(texts.rows.tolist(), contents, strict=True)) == expected_texts
    lengths = [len(text) + 1 for _, text in expected_texts]
    assert texts.ends.tolist() == np.cumsum(lengths).tolist()


def test_zeros_and_separators_inside_of_texts_are_blanks() -> None:
    builder = PartitionBuilder(1 << 20)
    builder.add(pa.array([b"a\0b\xffc"], pa.binary()), pa.array([0], pa.uint64()))
    (batch,) = builder.finish()
    partition = FmPartition.parse(
        batch.select(FM_SCHEMA.names), metadata_of(batch.column(5)[0].as_py())
    )
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
        FmPartition.parse(batch, {**metadata, key: value})


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
        partition = FmPartition.parse(damaged, metadata)
        assert set(partition.rows_of(partition.find(b"an")).tolist()) <= {7, 8, 9, 10}
        texts = partition.texts(np.ones(4, np.bool_))
        fm.partition_of(texts)
    except CorruptFileError:
        pass


@pytest.mark.parametrize("memory", [1, 14 * 20, 1 << 20])
def test_rows_are_cut_into_partitions_by_rows_and_by_bytes(
    monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    monkeypatch.setattr(fm, "FM_PARTITION_ROWS", 7)
    draw = np.random.default_rng(memory)
    texts = [None if n % 5 == 1 else "x" * int(draw.integers(0, 9)) for n in range(60)]
    expected: list[list[int]] = [[]]
    num_bytes, most = 0, max(1, memory // fm.BUILD_BYTES)
    for row, text in enumerate(texts):
        if text is None:
            continue
        expected[-1].append(row)
        num_bytes += len(text) + 1
        if len(expected[-1]) == 7 or num_bytes >= most:
            expected.append([])
            num_bytes = 0
    builder, built = PartitionBuilder(memory), []
    for start in range(0, 60, 13):
        rows = pa.array(range(start, min(60, start + 13)), pa.uint64())
        built += builder.add(pa.array(texts[start : start + 13], pa.string()), rows)
    built += builder.finish()
    metadata = [metadata_of(batch.column(5)[0].as_py()) for batch in built]
    rows_of = [np.frombuffer(bytes.fromhex(own["row_ids"]), np.int64).tolist() for own in metadata]
    assert rows_of == [rows for rows in expected if rows]


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="only zero"):
        _kernels.burrows_wheeler(np.frombuffer(b"a\0b\0", np.uint8), 1)
    children = np.array([[-98, -1]], np.int32)
    with pytest.raises(ValueError, match="a symbol is missing"):
        _kernels.wavelet_words(np.frombuffer(b"ab", np.uint8), children)
    empty, letter = np.empty(0, np.int64), np.frombuffer(b"a", np.uint8)
    assert _kernels.fnv1a_rows(letter, empty, np.zeros(1, "i8"), letter) == 0xAF63DC4C8601EC8C
    for offsets in ([0], [0, 3], [1, 0], [0, 1, 2]):
        rows, texts = np.zeros(1, np.int64), np.frombuffer(b"ab", np.uint8)
        with pytest.raises(ValueError, match="texts"):
            _kernels.fnv1a_rows(letter, rows, np.array(offsets), texts)
    for offsets in ([], [0, 2], [-1, 1], [1, 0, 1]):
        with pytest.raises(ValueError, match="texts: "):
            _kernels.separated(np.array(offsets, np.int64), letter)
