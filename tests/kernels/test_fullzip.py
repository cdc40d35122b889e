"""Kernels over full-zip rows, against plain Python."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels

EMPTY = np.empty(0, np.uint16)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


@dataclass
class Form:
    control_bytes: int = 1
    bits_def: int = 2
    max_rep: int = 1
    max_def: int = 3
    max_visible: int = 1
    width: int = 4
    fixed: bool = False

    @property
    def numbers(self) -> tuple[int, ...]:
        return (
            self.control_bytes,
            self.bits_def,
            self.max_rep,
            self.max_def,
            self.max_visible,
            self.width,
        )

    def write(self, rep: int, definition: int, value: bytes) -> bytes:
        word = (rep << self.bits_def | definition).to_bytes(self.control_bytes, "little")
        if self.fixed:
            return word + (value if definition <= self.max_visible else b"")
        return word + (len(value).to_bytes(self.width, "little") + value if not definition else b"")


def count(form: Form, data: bytes, stops: list[int], rows: list[int]) -> list[int]:
    counts = np.empty(4, np.int64)
    array = np.frombuffer(data, np.uint8)
    _kernels.count_zipped(array, ints(*stops), ints(*rows), *form.numbers, form.fixed, counts)
    return counts.tolist()


@given(
    fixed=st.booleans(),
    control_bytes=st.sampled_from([1, 2, 4]),
    wide=st.booleans(),
    entries=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 3), st.binary(max_size=9)), max_size=20
    ),
)
def test_unzip_gives_back_what_was_zipped(
    fixed: bool, control_bytes: int, wide: bool, entries: list[tuple[int, int, bytes]]
) -> None:
    form = Form(control_bytes, width=3 if fixed else 8 if wide else 4, fixed=fixed)
    if entries:
        entries[0] = (1, *entries[0][1:])
    if fixed:
        entries = [(rep, level, value[:3].ljust(3, b".")) for rep, level, value in entries]
    data = b"".join(form.write(*entry) for entry in entries)
    array, stops = np.frombuffer(data, np.uint8), ints(len(data))
    rows = ints(sum(rep for rep, _, _ in entries))
    values = [value for _, level, value in entries if (level <= 1 if fixed else level == 0)]
    counts = count(form, data, stops.tolist(), rows.tolist())
    visible = sum(level <= 1 for _, level, _ in entries)
    assert counts == [len(entries), visible, len(values), sum(map(len, values))]
    rep, definition = np.empty((2, len(entries)), np.uint16)
    content = np.empty(counts[3], np.uint8)
    if fixed:
        _kernels.unzip_fixed(array, stops, rows, *form.numbers, rep, definition, content)
    else:
        unzip = _kernels.unzip_variable_64 if wide else _kernels.unzip_variable_32
        offsets = np.empty(len(values) + 1, np.int64 if wide else np.int32)
        unzip(array, stops, rows, *form.numbers, rep, definition, offsets, content)
        assert offsets.tolist() == [0, *np.cumsum([len(one) for one in values])]
    assert rep.tolist() == [one for one, _, _ in entries]
    assert definition.tolist() == [one for _, one, _ in entries]
    assert content.tobytes() == b"".join(values)


@pytest.mark.parametrize(
    ("data", "rows", "message"),
    [
        (b"\x04\x02\0\0\0a", [1], "a value of 2 bytes at 5, its row ends at 6"),
        (b"\x04\x02\0\0", [1], "a length of 4 bytes ends behind its row"),
        (b"\x04\xff\xff\xff\xff", [1], "a value of 4294967295 bytes"),
        (b"\x05\x00", [1], "rows in a piece|begin with repetition|length"),
        (b"\x00\x00\0\0\0", [1], "rows begin with repetition level 0, expected 1"),
        (b"\x08", [1], "levels 2 and 0 at 1, at most 1 and 3 are possible"),
        (b"\x05\x05", [1], "2 rows in a piece, expected 1"),
        (b"\x05", [0], "1 rows in a piece, expected 0"),
        (b"", [1], "0 rows in a piece, expected 1"),
    ],
)
def test_broken_rows_are_refused(data: bytes, rows: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        count(Form(), data, [len(data)], rows)


def test_a_control_word_that_ends_behind_its_row_is_refused() -> None:
    with pytest.raises(ValueError, match="a control word of 2 bytes"):
        count(Form(control_bytes=2), b"\x05\0\x05", [3], [2])


def test_a_64_bit_length_cannot_wrap_around() -> None:
    form = Form(width=8)
    with pytest.raises(ValueError, match="a value of 18446744073709551615 bytes"):
        count(form, b"\x04" + b"\xff" * 8 + b"abc", [12], [1])


def test_every_piece_must_end_with_its_rows() -> None:
    form = Form()
    row = form.write(1, 0, b"ab")
    assert count(form, row * 2, [len(row), 2 * len(row)], [1, 1]) == [2, 2, 2, 4]
    with pytest.raises(ValueError, match="its row ends at 6"):
        count(form, row * 2, [len(row) - 1, 2 * len(row)], [1, 1])
    with pytest.raises(ValueError, match="bytes behind the last row"):
        count(form, row * 2, [len(row)], [1])
    with pytest.raises(ValueError, match="rows end at"):
        count(form, row * 2, [len(row), 2 * len(row) + 1], [1, 1])


def test_without_lists_every_entry_is_a_row() -> None:
    form = Form(bits_def=1, max_rep=0, max_def=1)
    data = form.write(0, 0, b"ab") + form.write(0, 1, b"") + form.write(0, 0, b"")
    assert count(form, data, [len(data)], [3]) == [3, 3, 2, 2]


def test_arrays_that_were_counted_wrongly_are_refused() -> None:
    form = Form(fixed=True, width=2)
    array = np.frombuffer(form.write(1, 0, b"ab") * 2, np.uint8)
    rep = np.empty(2, np.uint16)
    for levels, content in ((rep[:1], 4), (rep, 3), (rep, 5)):
        with pytest.raises(ValueError, match="unzip"):
            _kernels.unzip_fixed(
                array, ints(6), ints(2), *form.numbers, levels, rep, np.empty(content, np.uint8)
            )


@given(
    data=st.binary(max_size=60), fixed=st.booleans(), control_bytes=st.sampled_from([0, 1, 2, 4])
)
def test_garbage_is_counted_inside_its_bounds_or_refused(
    data: bytes, fixed: bool, control_bytes: int
) -> None:
    form = Form(control_bytes, bits_def=min(2, 8 * control_bytes), max_rep=0, fixed=fixed)
    for rows in range(3):
        try:
            counts = count(form, data, [len(data)], [rows])
        except ValueError:
            continue
        assert counts[3] <= len(data)
        assert counts[0] == rows


def test_forms_that_cannot_be_are_refused() -> None:
    for form in (Form(control_bytes=3), Form(bits_def=9), Form(width=0), Form(width=5)):
        with pytest.raises(ValueError, match="form"):
            count(form, b"", [], [])
