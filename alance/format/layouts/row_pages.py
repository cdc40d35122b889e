"""Pages whose single rows are found and decoded in one call of a kernel.

These are chunks of flat, bit-packed, run-length, byte-stream-split or string values and of indices
into a dictionary, with lists or without, and zipped rows of equal length. Pages of other kinds are
taken chunk by chunk (`miniblock_task`), which is slower and gives the same.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from alance import _kernels
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.codecs.fixed import (
    ByteStreamSplit,
    FixedSizeList,
    Flat,
    InlineBitpacking,
    OutOfLineBitpacking,
)
from alance.format.codecs.rle import Rle
from alance.format.codecs.strings import Fsst, Variable

if TYPE_CHECKING:
    import numpy.typing as npt

    from alance.arrays import Bytes
    from alance.format.blocks import Block
    from alance.format.codecs.base import BlockCodec, MiniBlockCodec
    from alance.format.layouts.fullzip import ZipForm
    from alance.format.layouts.miniblock_task import ChunkForm
    from alance.format.layouts.place import PagePlace

NO_CHUNKS = np.empty(0, np.int64)


class ValuesForm(IntEnum):
    """How values lie in a chunk: the numbers that the kernel knows."""

    FLAT = 0
    PACKED = 1
    RUNS = 2
    SPLIT = 3
    STRINGS = 4
    FSST = 5
    ZIPPED = 6


class LevelsForm(IntEnum):
    """How levels lie in a chunk."""

    NONE = 0
    FLAT = 1
    PACKED = 2
    RUNS = 3
    BLOCKS = 4


INDICES = (ValuesForm.FLAT, ValuesForm.PACKED, ValuesForm.RUNS)
INDEX_BITS = (8, 16, 32, 64)  # the kernel reads an index as one word


def row_form(form: ChunkForm, num_items: int, *, has_items: bool) -> _kernels.PageForm | None:
    """The form of a mini-block page for the taking of rows; None where its kind is not known.

    Args:
        num_items: values of the page.
        has_items: the page has a dictionary.
    """
    shape = form.shape
    values, nulls, reps = _values(form.values), _levels(form.definition), _levels(form.rep)
    if values is None or nulls is None or reps is None:
        return None
    if shape.has_lists != (form.rep is not None) or (form.definition is not None) > shape.max_def:
        return None
    kind, bits = values
    if has_items and (kind not in INDICES or bits not in INDEX_BITS):
        return None
    lists = (*reps, shape.max_rep, shape.max_visible) if shape.has_lists else None
    page_form = _kernels.PageForm(
        (kind, bits, *nulls, shape.max_def, form.is_large), lists, num_items, has_items
    )
    if isinstance(form.values, Fsst) and form.values.table is not None:
        table = form.values.table
        page_form.set_symbols(table.symbols, table.lengths)
    return page_form


def has_items(page: _kernels.RowPage, items: Block) -> bool:
    """Tell a page what its indices mean; False where they are of another kind."""
    match items:
        case FixedWidth(bits_per_value=bits, data=data) if bits % 8 == 0:
            page.set_items(data, bits // 8)
        case VariableWidth(offsets=offsets, data=data):
            _set_strings(page, offsets, data)
        case _:
            return False
    return True


def zipped_rows(form: ZipForm, place: PagePlace, buffer: int) -> _kernels.RowPage | None:
    """A full-zip page of rows of equal length; None for another one."""
    if form.shape.has_lists or not form.is_fixed or not form.width or form.bits_rep:
        return None
    start, size = place.buffers[buffer]
    return _kernels.RowPage(
        NO_CHUNKS,
        NO_CHUNKS,
        start,
        size,
        place.num_rows,
        ValuesForm.ZIPPED,
        8 * form.width,
        LevelsForm.NONE,
        form.control_bytes,
        form.shape.max_def,
        False,
    )


def _values(codec: MiniBlockCodec) -> tuple[ValuesForm, int] | None:
    match codec:
        case Flat(bits_per_value=bits) if bits == 1 or bits % 8 == 0:
            return ValuesForm.FLAT, bits
        case FixedSizeList(bits_per_value=bits, is_flat=True):
            return ValuesForm.FLAT, bits
        case InlineBitpacking(bits_per_value=bits):
            return ValuesForm.PACKED, bits
        case Rle(bits_per_value=bits):
            return ValuesForm.RUNS, bits
        case ByteStreamSplit(bits_per_value=bits):
            return ValuesForm.SPLIT, bits
        case Variable(bits_per_offset=bits):
            return ValuesForm.STRINGS, bits
        case Fsst(table=table, inner=inner):
            return ValuesForm.STRINGS if table is None else ValuesForm.FSST, inner.bits_per_offset
    return None


def _levels(codec: BlockCodec | None) -> tuple[LevelsForm, int] | None:
    """How levels lie, and their packed width where the description says it."""
    match codec:
        case None:
            return LevelsForm.NONE, 0
        case Flat(bits_per_value=16):
            return LevelsForm.FLAT, 0
        case InlineBitpacking(bits_per_value=16):
            return LevelsForm.PACKED, 0
        case Rle(bits_per_value=16):
            return LevelsForm.RUNS, 0
        case OutOfLineBitpacking(bits_per_value=16, packed_bits=width):
            return LevelsForm.BLOCKS, width
    return None


def _set_strings(page: _kernels.RowPage, offsets: npt.NDArray[Any], data: Bytes) -> None:
    aligned = offsets if offsets.flags.aligned else offsets.copy()
    if aligned.dtype == np.int32:
        page.set_strings_32(aligned, data)
    else:
        page.set_strings_64(aligned, data)
