"""Pages whose single rows the kernel takes: values of equal width without nulls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from alance import _kernels
from alance.format.blocks import FixedSizeListBlock, FixedWidth
from alance.format.layouts.base import Layer
from alance.format.layouts.levels import Shape
from alance.format.layouts.paged_rows import RowPage
from alance.format.layouts.row_pages import NO_CHUNKS, Levels, Values
from alance.format.v2_0.fixed import FixedSizeList, Flat

if TYPE_CHECKING:
    from alance.format.blocks import Block
    from alance.format.v2_0.arrays import ArrayPage

PLAIN: Final = Shape.from_proto([Layer.ALL_VALID_ITEM])


@dataclass(frozen=True, slots=True)
class _Lists:
    """Rows of the kernel as fixed-size lists."""

    dimensions: tuple[int, ...]  # outermost first
    bits_per_value: int

    def __call__(self, rows: FixedWidth) -> Block:
        bits = self.bits_per_value
        found: Block = FixedWidth(bits, len(rows.data) * 8 // bits, rows.data)
        for dimension in reversed(self.dimensions):
            found = FixedSizeListBlock(dimension, found, None)
        return found


def row_page(page: ArrayPage) -> RowPage | None:
    """A page for the kernel that takes rows; None for one of another kind."""
    root, dimensions, width = page.root, [], 1
    while isinstance(root, FixedSizeList):
        dimensions.append(root.dimension)
        width *= root.dimension
        root = root.items
    if not isinstance(root, Flat) or root.bits_per_value % 8 or root.bits_per_value == 0:
        return None
    start, size = page.place.buffers[root.buffer]
    with page.place.checking():
        kernel = _kernels.RowPage(
            NO_CHUNKS,
            NO_CHUNKS,
            start,
            size,
            page.place.num_rows,
            Values.ZIPPED,
            root.bits_per_value * width,
            Levels.NONE,
            0,
            0,
            False,
        )
    decoded = _Lists(tuple(dimensions), root.bits_per_value) if dimensions else None
    return RowPage(kernel, page.place, PLAIN, decoded)
