"""Repetition and definition levels of some rows: checked, and cut down to the rows asked for.

Levels are u16. An entry with the largest repetition level begins a row; one whose definition level
is at most `max_visible` has a value slot. Without lists every entry is a row and has a value.

Source: docs/format/file.md, "Layers and levels".
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError
from alance.format.layouts.base import (
    Layer,
    PageValues,
    max_definition,
    max_repetition,
    max_visible,
)
from alance.format.layouts.selection import is_all, select, selection_of_spans
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alance.arrays import Int64s, Mask, UInt16s
    from alance.format.blocks import Block
    from alance.format.layouts.selection import Selection

NO_LEVELS: Final = np.empty(0, np.uint16)
MOST_LAYERS: Final = 16  # of a page that the kernel decodes
NOT_CHECKED: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the layers of a page say about its levels."""

    layers: tuple[Layer, ...]  # inner-most first
    max_rep: int
    max_def: int
    max_visible: int
    code: int  # the layers as kernels have them, four bits each; 0: they are too many

    @classmethod
    def from_proto(cls, layers: Iterable[int]) -> Shape:
        """The shape of a page with these layers.

        Raises:
            CorruptFileError: no layers, or one without a meaning.
        """
        return _shape(tuple(layers))

    @property
    def has_lists(self) -> bool:
        return self.max_rep > 0

    @property
    def is_plain(self) -> bool:
        """Whether a row is one value, and absent for no other reason than its own null."""
        return len(self.layers) == 1 and not self.has_lists


@lru_cache(maxsize=1024)
def _shape(numbers: tuple[int, ...]) -> Shape:
    """The shape of pages with these layers: a table has few, and many pages."""
    values = {layer.value for layer in Layer}
    if not numbers or len(numbers) > 0xFFFF or not values.issuperset(numbers):
        raise CorruptFileError(f"layers {list(numbers[:20])}: expected numbers of 1 to 6")
    layers = tuple(Layer(number) for number in numbers)
    code = sum(layer << 4 * depth for depth, layer in enumerate(layers))
    return Shape(
        layers,
        max_repetition(layers),
        max_definition(layers),
        max_visible(layers),
        code if len(layers) <= MOST_LAYERS else 0,
    )


class Levels(NamedTuple):
    """The levels of a sequence of entries; None where they are all 0."""

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
        """Check all levels against the layers, and chunks of entries against what is known.

        Args:
            entries: entries of each chunk, shape (n,).
            values: visible entries of each chunk, shape (n,).
            rows: rows that begin in each chunk, shape (n,).
            carries: whether each chunk begins inside a row, shape (n,).

        Raises:
            ValueError: they disagree.
        """
        _kernels.check_levels(
            NO_LEVELS if self.rep is None else self.rep,
            NO_LEVELS if self.definition is None else self.definition,
            entries,
            self.shape.max_rep,
            self.shape.max_def,
            self.shape.max_visible,
            values,
            rows,
            np.empty(0, np.uint8) if carries is None else carries.view(np.uint8),
        )

    def num_visible(self) -> int:
        """Entries that have a value slot."""
        if self.definition is None:
            return self.num_entries
        return int(np.count_nonzero(self.definition <= self.shape.max_visible))

    def choose(self, ordinals: Int64s, breaks: Int64s) -> tuple[Selection, Selection]:
        """The entries and the values of some rows.

        Args:
            ordinals: numbers of the rows, counted by the entries that begin one; ascending.
            breaks: ends of runs of entries; a row also ends where its run does.

        Raises:
            ValueError: a row does not begin here.
        """
        if self.rep is None:
            is_range = len(ordinals) == 0 or ordinals[-1] - ordinals[0] == len(ordinals) - 1
            rows = selection_of_spans(ordinals, ordinals + 1) if is_range else ordinals
            return rows, rows
        spans = self._spans(ordinals, breaks)
        return selection_of_spans(spans[0], spans[1]), selection_of_spans(spans[2], spans[3])

    def choose_range(self, start: int, stop: int, breaks: Int64s) -> tuple[Selection, Selection]:
        """The entries and the values of neighbouring rows in one run.

        Raises:
            ValueError: a row does not begin here.
        """
        if self.rep is None or start >= stop:
            rows = slice(start, max(start, stop)) if self.rep is None else slice(0, 0)
            return rows, rows
        ends = np.array([start] if start == stop - 1 else [start, stop - 1], np.int64)
        spans = self._spans(ends, breaks)
        return slice(int(spans[0, 0]), int(spans[1, -1])), slice(
            int(spans[2, 0]), int(spans[3, -1])
        )

    def _spans(self, ordinals: Int64s, breaks: Int64s) -> Int64s:
        spans = np.empty((4, len(ordinals)), np.int64)
        _kernels.row_spans(
            NO_LEVELS if self.rep is None else self.rep,
            NO_LEVELS if self.definition is None else self.definition,
            breaks,
            ordinals,
            self.shape.max_rep,
            self.shape.max_visible,
            spans.reshape(-1),
        )
        return spans

    def page_values(
        self, values: Block, num_rows: int, chosen: tuple[Selection, Selection]
    ) -> PageValues:
        """Chosen entries and values; all of them are handed on without a copy."""
        entries, slots = chosen
        rep, definition = self.rep, self.definition
        if not is_all(entries, self.num_entries):
            rep = None if rep is None else rep[entries]
            definition = None if definition is None else definition[entries]
        return PageValues(self.shape.layers, rep, definition, select(values, slots), num_rows)

    def all_rows(self, values: Block, num_rows: int) -> PageValues:
        """All entries and values."""
        everything = slice(0, self.num_entries), slice(0, values.num_values)
        return self.page_values(values, num_rows, everything)
