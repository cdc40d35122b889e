"""Kernels over full-zip rows, against plain Python."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels


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


def entries_of(
    form: Form, data: bytes, stops: list[int], rows: list[int]
) -> tuple[list[int], list[int], list[bytes]]:
    """The levels of all entries, and the values that have bytes."""
    array = np.frombuffer(data, np.uint8)
    rep, definition, starts, sizes = _kernels.zipped_entries(
        array, ints(*stops), ints(*rows), *form.numbers, form.fixed
    )
    spans = zip(starts.tolist(), sizes.tolist(), strict=True)
    return rep.tolist(), definition.tolist(), [data[at : at + size] for at, size in spans]


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
    values = [value for _, level, value in entries if (level <= 1 if fixed else level == 0)]
    rep, definition, result = entries_of(
        form, data, [len(data)], [sum(rep for rep, _, _ in entries)]
    )
    assert rep == [begins for begins, _, _ in entries]
    assert definition == [level for _, level, _ in entries]
    assert result == values


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
        entries_of(Form(), data, [len(data)], rows)


def test_a_control_word_that_ends_behind_its_row_is_refused() -> None:
    with pytest.raises(ValueError, match="a control word of 2 bytes"):
        entries_of(Form(control_bytes=2), b"\x05\0\x05", [3], [2])


def test_a_64_bit_length_cannot_wrap_around() -> None:
    form = Form(width=8)
    with pytest.raises(ValueError, match="a value of 18446744073709551615 bytes"):
        entries_of(form, b"\x04" + b"\xff" * 8 + b"abc", [12], [1])


def test_every_piece_must_end_with_its_rows() -> None:
    form = Form()
    row = form.write(1, 0, b"ab")
    assert entries_of(form, row * 2, [len(row), 2 * len(row)], [1, 1])[2] == [b"ab"] * 2
    with pytest.raises(ValueError, match="its row ends at 6"):
        entries_of(form, row * 2, [len(row) - 1, 2 * len(row)], [1, 1])
    with pytest.raises(ValueError, match="bytes behind the last row"):
        entries_of(form, row * 2, [len(row)], [1])
    with pytest.raises(ValueError, match="rows end at"):
        entries_of(form, row * 2, [len(row), 2 * len(row) + 1], [1, 1])


def test_without_lists_every_entry_is_a_row() -> None:
    form = Form(bits_def=1, max_rep=0, max_def=1)
    data = form.write(0, 0, b"ab") + form.write(0, 1, b"") + form.write(0, 0, b"")
    assert entries_of(form, data, [len(data)], [3]) == ([0] * 3, [0, 1, 0], [b"ab", b""])


@given(
    data=st.binary(max_size=60), fixed=st.booleans(), control_bytes=st.sampled_from([0, 1, 2, 4])
)
def test_garbage_is_taken_apart_inside_its_bounds_or_refused(
    data: bytes, fixed: bool, control_bytes: int
) -> None:
    form = Form(control_bytes, bits_def=min(2, 8 * control_bytes), max_rep=0, fixed=fixed)
    for rows in range(3):
        try:
            rep, _, values = entries_of(form, data, [len(data)], [rows])
        except ValueError:
            continue
        assert sum(map(len, values)) <= len(data)
        assert len(rep) == rows


def test_forms_that_cannot_be_are_refused() -> None:
    for form in (Form(control_bytes=3), Form(bits_def=9), Form(width=0), Form(width=5)):
        with pytest.raises(ValueError, match="form"):
            entries_of(form, b"", [], [])
