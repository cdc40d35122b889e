"""Repetition and definition levels: checks, and the selection of rows.

Levels are u16. An entry with the largest repetition level starts a row. An entry whose definition
level is at most `max_visible` has a value slot. Without lists, every entry is a row and has a slot.

Source: docs/format/file.md, "Layers and levels".
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.layouts.base import (
    Layer,
    PageValues,
    max_definition,
    max_repetition,
    max_visible,
)
from alance.format.layouts.selection import is_all, select, selection_of_spans
from alance.format.numbers import offsets_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alance.base.arrays import Int64s, Mask, UInt16s
    from alance.format.blocks import Block
    from alance.format.layouts.selection import Selection

NO_LEVELS: Final = np.empty(0, np.uint16)
LAYERS_OF_CODE: Final = 16  # layers of a page that are four bits of a number in the kernel
NOT_CHECKED: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Shape:
    """Layers of a page, with the maxima of its levels."""

    layers: tuple[Layer, ...]  # inner-most first
    max_rep: int
    max_def: int
    max_visible: int
    code: tuple[int, bytes]  # layers in the kernels' form, see `code_of`

    @classmethod
    def from_proto(cls, layers: Iterable[int]) -> Shape:
        """Return the shape of a page from its layer numbers.

        Raises:
            CorruptFileError: there are no layers, or a layer number is unknown.
        """
        return _shape(tuple(layers))

    @property
    def has_lists(self) -> bool:
        return self.max_rep > 0

    @property
    def is_plain(self) -> bool:
        """True if the page has a single layer that is not a list: each row is one value or null."""
        return len(self.layers) == 1 and not self.has_lists


@lru_cache(maxsize=1024)
def _shape(numbers: tuple[int, ...]) -> Shape:
    """Return the shape of layers; memoized, because many pages of a table share few shapes."""
    values = {layer.value for layer in Layer}
    if not numbers or len(numbers) > 0xFFFF or not values.issuperset(numbers):
        raise CorruptFileError(f"layers {list(numbers[:20])}: expected numbers of 1 to 6")
    layers = tuple(Layer(number) for number in numbers)
    return Shape(
        layers,
        max_repetition(layers),
        max_definition(layers),
        max_visible(layers),
        code_of(layers),
    )


def code_of(layers: Sequence[Layer]) -> tuple[int, bytes]:
    """Return layers in the kernels' form: four bits for each of the first, a byte for the others.

    Args:
        layers: inner-most first.
    """
    code = sum(layer << 4 * depth for depth, layer in enumerate(layers[:LAYERS_OF_CODE]))
    return code, bytes(layers[LAYERS_OF_CODE:])


class Levels(NamedTuple):
    """Levels of a sequence of entries. None means that all levels are 0."""

    shape: Shape
    num_entries: int
    rep: UInt16s | None  # shape (num_entries,)
    definition: UInt16s | None  # shape (num_entries,)

    def check(
        self,
        entries: Int64s,
        *,
        values: Int64s = NOT_CHECKED,
        rows: Int64s = NOT_CHECKED,
        carries: Mask | None = None,
    ) -> None:
        """Check all levels against the layers, and against the expected counts of each chunk.

        Args:
            entries: number of entries of each chunk, shape (n,).
            values: number of visible entries of each chunk, shape (n,); not checked if empty.
            rows: number of rows that start in each chunk, shape (n,); not checked if empty.
            carries: True for each chunk that begins inside a row, shape (n,); None to not check it.

        Raises:
            CorruptFileError: the levels contradict the layers or a count.
        """
        ends = np.cumsum(entries)
        num_entries = int(ends[-1]) if len(ends) else 0
        for levels in (self.rep, self.definition):
            if levels is not None and len(levels) != num_entries:
                raise CorruptFileError(f"{len(levels)} levels, expected {num_entries}")
        starts, shape = ends - entries, self.shape
        if self.definition is not None:
            _refuse_above(
                self.definition, shape.max_def, ends, "definition level {}, the layers use {}"
            )
        if len(values):
            visible = None if self.definition is None else self.definition <= shape.max_visible
            _expect(_counted(visible, starts, ends), values, "visible entries")
        if self.rep is not None:
            _refuse_above(
                self.rep, shape.max_rep, ends, "repetition level {}, the layers have {} lists"
            )
            if carries is not None:
                self._check_carries(starts, entries, carries)
        if len(rows):
            is_first = None if not shape.max_rep else np.zeros(num_entries, np.bool_)
            if self.rep is not None:
                is_first = self.rep == shape.max_rep
            _expect(_counted(is_first, starts, ends), rows, "rows begin")

    def _check_carries(self, starts: Int64s, entries: Int64s, carries: Mask) -> None:
        """Check that the first level of each chunk agrees with `carries`."""
        assert self.rep is not None
        filled = np.flatnonzero(entries)
        firsts = self.rep[starts[filled]]
        wrong = np.flatnonzero((firsts == self.shape.max_rep) == carries[filled])
        if len(wrong):
            chunk = int(filled[wrong[0]])
            begins = "inside" if carries[chunk] else "with"
            raise CorruptFileError(
                f"chunk {chunk}: its first repetition level is {firsts[wrong[0]]}, "
                f"but it begins {begins} a row"
            )

    def num_visible(self) -> int:
        """Number of entries that have a value slot."""
        if self.definition is None:
            return self.num_entries
        return int(np.count_nonzero(self.definition <= self.shape.max_visible))

    def choose(self, ordinals: Int64s, breaks: Int64s) -> tuple[Selection, Selection]:
        """Select the entries and the value slots of rows.

        Args:
            ordinals: ascending numbers of the rows, counting the rows that start in these entries.
            breaks: ends of runs of entries; a row does not extend beyond its run.

        Raises:
            CorruptFileError: an ordinal is at or beyond the number of rows that start here.
        """
        if self.rep is None:
            is_range = len(ordinals) == 0 or ordinals[-1] - ordinals[0] == len(ordinals) - 1
            rows = selection_of_spans(ordinals, ordinals + 1) if is_range else ordinals
            return rows, rows
        begins = np.flatnonzero(self.rep == self.shape.max_rep)
        if len(ordinals) and ordinals[-1] >= len(begins):
            raise CorruptFileError(
                f"levels: {len(begins)} rows begin, row {ordinals[-1]} of them was expected"
            )
        ends = np.minimum(
            np.append(begins[1:], self.num_entries)[ordinals],
            breaks[np.searchsorted(breaks, begins[ordinals], "right")],
        )
        entries = selection_of_spans(begins[ordinals], ends)
        if self.definition is None:
            return entries, entries
        slots = offsets_of(self.definition <= self.shape.max_visible)
        return entries, selection_of_spans(slots[begins[ordinals]], slots[ends])

    def page_values(
        self, values: Block, num_rows: int, chosen: tuple[Selection, Selection]
    ) -> PageValues:
        """Return the selected entries and values, without a copy if all are selected."""
        entries, slots = chosen
        rep, definition = self.rep, self.definition
        if not is_all(entries, self.num_entries):
            rep = None if rep is None else rep[entries]
            definition = None if definition is None else definition[entries]
        return PageValues(self.shape.layers, rep, definition, select(values, slots), num_rows)

    def all_rows(self, values: Block, num_rows: int) -> PageValues:
        """Return all entries and values, without a copy."""
        everything = slice(0, self.num_entries), slice(0, values.num_values)
        return self.page_values(values, num_rows, everything)


def as_rows(rows: Int64s | range) -> Int64s:
    """Convert rows to an array of row offsets."""
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows


def _refuse_above(levels: UInt16s, most: int, ends: Int64s, message: str) -> None:
    """Check that no level is above the maximum.

    Args:
        ends: end of each chunk.
        message: format string of the error, for the level and `most`.

    Raises:
        CorruptFileError: a level is above `most`.
    """
    if len(levels) and int(levels.max()) > most:
        entry = int(np.argmax(levels > most))
        chunk = int(np.searchsorted(ends, entry, "right"))
        raise CorruptFileError(f"chunk {chunk}: {message.format(levels[entry], most)}")


def _counted(marks: Mask | None, starts: Int64s, ends: Int64s) -> Int64s:
    """Count the marked entries of each chunk. If `marks` is None, all entries count."""
    if marks is None:
        return ends - starts
    before = offsets_of(marks)
    return before[ends] - before[starts]


def _expect(counts: Int64s, expected: Int64s, what: str) -> None:
    wrong = np.flatnonzero(counts != expected)
    if len(wrong):
        chunk = wrong[0]
        raise CorruptFileError(f"chunk {chunk}: {counts[chunk]} {what}, expected {expected[chunk]}")
