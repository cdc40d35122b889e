"""The kernel makes the pages that numpy makes, byte for byte: types, nulls, sizes, versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from alance.format.encode.arrays import leaf_values
from alance.format.encode.pages import encode_pages, hints_of
from alance.format.layouts.fields import leaf_columns
from alance.format.schema import Schema
from tests.reference.pages import page

if TYPE_CHECKING:
    from alance.format.encode.page_inputs import EncodedPage

VERSIONS = [FileVersion.V2_1, FileVersion.V2_2, FileVersion.V2_3]
SIZES = [1, 99, 100, 1025, 9000]
Hints = dict[str, str]


def numbers(size: int) -> np.random.Generator:
    return np.random.default_rng(size)


def texts(values: list[int], length: int) -> list[str]:
    return [f"text {value} " + "abcdefgh"[: value % 9] * length for value in values]


def columns(size: int) -> dict[str, pa.Array]:
    """Arrays of so many rows: every kind of page that there is of values without lists."""
    random = numbers(size)
    few, many = random.integers(0, 7, size), random.integers(0, 1 << 40, size)
    nulls = random.random(size) < 0.2
    sorted_few = np.sort(few)
    return {
        "i8": pa.array(few.astype(np.int8)),
        "i16 negative": pa.array((few - 3).astype(np.int16)),
        "u32": pa.array(many.astype(np.uint32)),
        "i64 few": pa.array(few),
        "i64 few, large": pa.array(many[few % size]),
        "i64 many, nulls": pa.array(many, mask=nulls),
        "i64 runs": pa.array(sorted_few),
        "i64 one": pa.array(np.full(size, 12345)),
        "i32 one and nulls": pa.array(np.full(size, 7, np.int32), mask=nulls),
        "f16": pa.array(random.random(size).astype(np.float16)),
        "f32": pa.array(random.random(size).astype(np.float32), mask=nulls),
        "f64": pa.array(random.random(size)),
        "f64 split": pa.array(few / 8),
        "bool": pa.array(few > 3),
        "bool nulls": pa.array(few > 3, mask=nulls),
        "bool one": pa.array(np.zeros(size, np.bool_)),
        "decimal": pa.array(few).cast(pa.decimal128(38)),
        "decimal many": pa.array(many).cast(pa.decimal128(38)),
        "decimal256": pa.array(few).cast(pa.decimal256(50)),
        "null": pa.nulls(size, pa.int64()),
        "text few": pa.array(texts(few.tolist(), 1)),
        "text many": pa.array(texts(many.tolist(), 1), mask=nulls),
        "text large": pa.array(texts(many.tolist(), 2), pa.large_string()),
        "text short": pa.array([str(value % 1000) for value in many.tolist()]),
        "text one": pa.array(["always the same"] * size),
        "text one and nulls": pa.array(["the same"] * size, mask=nulls),
        "text empty": pa.array([""] * size),
        "text wide": pa.array(["x" * 300 + str(value) for value in few.tolist()]),
        "binary noise": pa.array([random.bytes(17) for _ in range(size)]),
        "fixed binary": pa.array([random.bytes(5) for _ in range(size)], pa.binary(5)),
        "vectors": pa.FixedSizeListArray.from_arrays(random.random(4 * size), 4),
        "bits": pa.FixedSizeListArray.from_arrays(pa.array(random.random(3 * size) < 0.5), 3),
        "dictionary": pa.array(texts(few.tolist(), 1)).dictionary_encode(),
    }


def nested(size: int) -> dict[str, pa.Array]:
    """Arrays of so many rows with lists and structs."""
    random = numbers(size + 1)
    counts, nulls = random.integers(0, 4, size), random.random(size) < 0.1
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    total = int(counts.sum())
    items = pa.array(random.integers(0, 100, total), mask=random.random(total) < 0.1)
    lists = pa.ListArray.from_arrays(offsets, items)
    words = pa.ListArray.from_arrays(offsets, pa.array(texts(counts.repeat(counts).tolist(), 1)))
    ones = pa.ListArray.from_arrays(offsets, pa.array(np.ones(total, np.int64)))
    rows = zip(nulls, lists.to_pylist(), strict=True)
    with_nulls = pa.array([None if null else row for null, row in rows], lists.type)
    structs = [
        None if null else {"a": int(n), "b": str(n)} for null, n in zip(nulls, counts, strict=True)
    ]
    return {
        "list": lists,
        "list nulls": with_nulls,
        "list text": words,
        "list ones": ones,
        "list nothing": pa.array([[]] * size, pa.list_(pa.int32())),
        "list null": pa.nulls(size, pa.list_(pa.int32())),
        "list list": pa.array([[row, row] for row in lists.to_pylist()], pa.list_(lists.type)),
        "struct": pa.StructArray.from_arrays([lists, pa.array(counts)], ["l", "i"]),
        "struct nulls": pa.array(structs, pa.struct({"a": pa.int64(), "b": pa.string()})),
    }


def compare(array: pa.Array, version: FileVersion, metadata: Hints | None = None) -> None:
    """Compare the pages of the leaves of a column."""
    field = pa.field("x", array.type, metadata=metadata or {})
    (root,) = Schema.from_arrow(pa.schema([field])).fields
    rows = leaf_values(root, array)
    leaves = [leaf.field for leaf in leaf_columns(root)]
    inputs = [(leaf, rows[leaf.id], hints_of(root, leaf, version)) for leaf in leaves]
    for leaf, pages in zip(inputs, encode_pages(inputs), strict=True):
        assert [parts(encoded) for encoded in pages] == [parts(page(*leaf))]


def parts(page: EncodedPage) -> tuple[object, ...]:
    return (page.description, [bytes(b) for b in page.buffers], page.num_rows, page.search)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", SIZES)
def test_columns_without_lists_have_the_pages_that_numpy_makes(
    size: int, version: FileVersion
) -> None:
    for array in columns(size).values():
        compare(array, version)
        compare(array.slice(size // 3), version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [1, 3, 500, 9000])
def test_lists_and_structs_have_the_pages_that_numpy_makes(size: int, version: FileVersion) -> None:
    for array in nested(size).values():
        compare(array, version)


HINTS = [
    {"compression": "none"},
    {"compression": "fsst"},
    {"compression": "lz4"},
    {"compression": "lz4", "bss": "on"},
    {"compression": "zstd", "compression-level": "5"},
    {"rle-threshold": "0.01"},
    {"minichunk-size": "512"},
    {"dict-divisor": "100"},
    {"dict-size-ratio": "0.1"},
    {"dict-max-size": "64"},
    {"dict-values-compression": "zstd", "dict-values-compression-level": "1"},
    {"dict-values-compression": "none"},
    {"structural-encoding": "fullzip"},
    {"structural-encoding": "miniblock"},
]


@pytest.mark.parametrize("hints", HINTS, ids=str)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_fields_ask_for_makes_the_pages_that_numpy_makes(
    hints: Hints, version: FileVersion
) -> None:
    metadata = {f"lance-encoding:{key}": text for key, text in hints.items()}
    for name, array in (columns(2000) | nested(2000)).items():
        if name == "text wide" and "miniblock" in hints.values():
            continue
        compare(array, version, metadata)


RUNS = st.lists(
    st.tuples(st.integers(0, 255), st.sampled_from([1, 2, 30, 255, 256, 5000])),
    min_size=1,
    max_size=60,
)


@given(st.sampled_from([8, 16, 32, 64]), RUNS, st.sampled_from([None, "0.0", "0.01", "0.5", "2.0"]))
@example(8, [(255, 1), (3, 1)], None)  # runs as large as flat values
@example(16, [(value % 2, 3) for value in range(44)], None)
def test_values_have_the_form_that_takes_least_bytes(
    bits: int, runs: list[tuple[int, int]], threshold: str | None
) -> None:
    values = [value for value, length in runs for _ in range(length)]
    metadata = {} if threshold is None else {"lance-encoding:rle-threshold": threshold}
    compare(pa.array(np.array(values, f"u{bits // 8}")), FileVersion.V2_1, metadata)


@given(
    st.lists(st.integers(0, 1200), min_size=1, max_size=200),
    st.sampled_from([pa.binary(), pa.large_binary()]),
    st.sampled_from(["256", "512", "4096"]),
)
def test_strings_of_any_lengths_have_the_chunks_that_numpy_makes(
    lengths: list[int], kind: pa.DataType, chunk_bytes: str
) -> None:
    hints = {"minichunk-size": chunk_bytes, "compression": "none", "dict-divisor": "100000"}
    texts = pa.array([numbers(length).bytes(length) for length in lengths], kind)
    metadata = {f"lance-encoding:{key}": text for key, text in hints.items()}
    compare(texts, FileVersion.V2_2, metadata)


def test_two_strings_that_fit_no_chunk_are_refused() -> None:
    metadata = {"lance-encoding:structural-encoding": "miniblock"}
    texts = pa.array([bytes(numbers(seed).bytes(20000)) for seed in range(4)])
    with pytest.raises(InvalidInputError, match="two take 40012 bytes, a chunk of version"):
        compare(texts, FileVersion.V2_1, metadata)
