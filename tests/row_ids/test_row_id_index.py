"""The index of stable row ids: all forms of sequences, what it holds, what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance.errors import CorruptFileError
from alance.format.proto import rowids_pb2
from alance.format.table.row_ids import parse_row_id_runs, parse_row_ids, runs_of_ids
from alance.versioning.row_index import RowIdIndex, RowValues, live_runs, runs_of

if TYPE_CHECKING:
    import numpy.typing as npt

    U64 = npt.NDArray[np.uint64]

FORMS = ("range", "holes", "bitmap", "sorted", "array")
ROWS = 20_000


def segment(form: str, start: int, count: int, seed: int) -> rowids_pb2.U64Segment:
    """A segment of about `count` ids from `start` on."""
    draw = np.random.default_rng(seed)
    result = rowids_pb2.U64Segment()
    if form == "range":
        result.range.start, result.range.end = start, start + count
    elif form == "holes":
        holes = np.sort(draw.choice(count, count // 10, replace=False))
        part = result.range_with_holes
        part.start, part.end = start, start + count
        part.holes.u32_array.base = start
        part.holes.u32_array.offsets = holes.astype("<u4").tobytes()
    elif form == "bitmap":
        bits = draw.integers(0, 2, 2 * count, np.uint8)
        bitmap = result.range_with_bitmap
        bitmap.start, bitmap.end = start, start + 2 * count
        bitmap.bitmap = np.packbits(bits, bitorder="little").tobytes()
    elif form == "sorted":
        result.sorted_array.u64_array.values = np.sort(_chosen(draw, start, count)).tobytes()
    else:
        result.array.u64_array.values = _chosen(draw, start, count).tobytes()
    return result


def _chosen(draw: np.random.Generator, start: int, count: int) -> U64:
    return draw.choice(2 * count, count, replace=False).astype("<u8") + np.uint64(start)


def values_of(content: bytes, ids: U64) -> RowValues:
    starts, values = parse_row_id_runs(content, len(ids))
    return RowValues.of_runs(starts, values, len(ids))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("base", [0, (5 << 32) - 100_000])
def test_every_form_of_sequence_is_found_in_few_bytes(form: str, base: int) -> None:
    """Less than 16 bytes a row are held, and each id is found; no other one."""
    parts, everything, num_rows = [], [], 0
    for fragment in range(5):
        message = rowids_pb2.RowIdSequence()
        start = base + fragment * 2 * ROWS
        message.segments.append(segment(form, start, ROWS, fragment))
        content = message.SerializeToString()
        size = len(_expanded(content))
        ids = parse_row_ids(content, size)
        values = values_of(content, ids)
        rows = np.random.default_rng(1).permutation(size)
        assert (values.at(rows) == ids[rows]).all()
        parts.append(live_runs(fragment * 3, values, size))
        everything.append(((np.uint64(fragment * 3) << np.uint64(32)) + np.arange(size), ids))
        num_rows += size
        with pytest.raises(CorruptFileError):
            parse_row_id_runs(content, size + 1)
        with pytest.raises(CorruptFileError):
            parse_row_id_runs(content, size - 1)
    index = RowIdIndex.of(parts)
    assert index.num_bytes < 16 * num_rows
    recognized = np.concatenate([ids for _, ids in everything])
    for addresses, ids in everything:
        assert (index.addresses_of(ids.astype(np.int64)) == addresses.astype(np.int64)).all()
    others = np.arange(max(0, base - 10), base + 12 * ROWS)
    _, missing = index.find(others)
    assert (missing == ~np.isin(others, recognized.astype(np.int64))).all()


def _expanded(content: bytes) -> U64:
    (item,) = rowids_pb2.RowIdSequence.FromString(content).segments
    from alance.format.table.row_ids import segment_values

    return segment_values(item)


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 1 << 40), unique=True, max_size=60),
    st.integers(1, 4),
    st.data(),
)
def test_ids_of_any_kind(ids: list[int], num_fragments: int, data: st.DataObject) -> None:
    """Runs and single ids, ids far apart, deleted rows."""
    spread = sorted({row_id + more for row_id in ids for more in range(row_id % 4)})
    mixed = data.draw(st.permutations(spread)) if len(spread) < 40 else spread
    where, parts = {}, []
    for fragment in range(num_fragments):
        ours = np.array(mixed[fragment::num_fragments], np.uint64)
        live = np.flatnonzero(np.arange(len(ours)) % 5 != 4)
        values = RowValues.of_runs(*runs_of_ids(ours), len(ours))
        parts.append(live_runs(fragment, values, len(ours), live))
        assert parts[-1].ids.tolist() == runs_of(fragment, ours, live).ids.tolist()
        for row in live.tolist():
            where[int(ours[row])] = fragment << 32 | row
    index = RowIdIndex.of(parts)
    for fragments in ([], [1], [*range(0, num_fragments, 2)]):
        inside = sorted(row for row, address in where.items() if address >> 32 in fragments)
        assert index.rows_in(np.array(fragments, np.int64)).to_numpy().tolist() == inside
    array = np.array([*where, *(item + 1 for item in spread)], np.int64)
    result, missing = index.find(array)
    for entry, address, is_missing in zip(array.tolist(), result, missing, strict=True):
        assert (None if is_missing else int(address)) == where.get(entry)


def test_an_id_twice_in_a_run() -> None:
    for ids in ([3, 4, 5], [5, 3, 1]):
        values = np.array(ids, np.uint64)
        with pytest.raises(CorruptFileError, match="two live rows"):
            RowIdIndex.of([runs_of(0, values), runs_of(1, values[1:2])])
