"""Constant pages: all items null, or (from 2.2 on) all others equal.

Source: docs/format/file.md, "Constant layout"; what the reference implementation writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance.file_version import FileVersion
from alance.format.blocks import FixedWidth, NullBlock, VariableWidth
from alance.format.encode.levels import layer_names
from alance.format.encode.page_inputs import EncodedPage
from alance.format.encode.pages import sparse_page
from alance.format.layouts.base import (
    MAX_INLINE_BYTES,
    Layer,
    max_definition,
    max_repetition,
    max_visible,
)
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference.pages.levels import level_blocks

if TYPE_CHECKING:
    import numpy.typing as npt

    from alance.base.arrays import Bytes, Mask, UInt16s
    from alance.format.blocks import Block
    from alance.format.encode.page_inputs import Hints
    from alance.format.layouts.base import PageValues

NOTHING: Final = np.empty(0, np.uint8)
SAMPLE: Final = 64  # values compared before all are
MAX_RAW_LEVELS: Final = 8192  # bytes: levels beside a value are not compressed
WIDE_BYTES: Final = 256  # strings from here on are full-zip, without dictionaries
MAX_VALUE_BYTES: Final = 1 << 20  # of a value that every reader of the page has to hold


def constant_page(values: PageValues, hints: Hints) -> EncodedPage | None:
    """The page, if one value or none is enough for all items; None if not."""
    present = present_of(values)
    block = values.values
    if (
        isinstance(block, NullBlock)
        or block.num_values == 0
        or (present is not None and not present.any())
    ):
        return _null_page(values, hints)
    if hints.version < FileVersion.V2_2:
        return None
    value = _only_value(block, present)
    if value is None or _is_smaller_in_chunks(values, value):
        return None
    if hints.version < FileVersion.V2_3:
        return _value_page(values, value)
    if not isinstance(value, FixedWidth) or len(value.data) > MAX_INLINE_BYTES:
        return None
    if values.rep is None and values.definition is None:
        return _value_page(values, value)
    return sparse_page(values, hints.dimensions, value.data.tobytes())


def present_of(values: PageValues) -> Mask | None:
    """Return the mask of visible entries with a value, shape (num_values,); None: all."""
    definition = values.definition
    if definition is None:
        return None
    if values.rep is not None:
        definition = definition[definition <= max_visible(values.layers)]
    present: Mask = definition == 0
    return present


def _is_smaller_in_chunks(values: PageValues, value: FixedWidth | VariableWidth) -> bool:
    """True if a mini-block page is smaller: run lengths for values, and compressed levels."""
    raw = sum(levels.nbytes for levels in (values.rep, values.definition) if levels is not None)
    if raw <= MAX_RAW_LEVELS:
        return False
    if isinstance(value, FixedWidth):
        return value.bits_per_value in (8, 16, 32, 64, 128)
    return len(value.data) < WIDE_BYTES


def _null_page(values: PageValues, hints: Hints) -> EncodedPage:
    layers = values.layers
    message = pb.ConstantLayout(layers=layer_names(layers))
    if layers == (Layer.NULLABLE_ITEM,):
        return _page(message, (), values)
    if hints.version >= FileVersion.V2_3:
        return sparse_page(values, hints.dimensions, None)
    if hints.version < FileVersion.V2_2:
        buffers = _raw(values.rep), _raw(values.definition)
        return _page(message, buffers, values)
    rep, definition = NOTHING, NOTHING
    if values.rep is not None:
        encoding, rep = _compressed(values.rep, max_repetition(layers), hints)
        message.rep_compression.CopyFrom(encoding)
        message.num_rep_values = len(values.rep)
    if values.definition is not None:
        encoding, definition = _compressed(values.definition, max_definition(layers), hints)
        message.def_compression.CopyFrom(encoding)
        message.num_def_values = len(values.definition)
    return _page(message, (rep, definition), values)


def _value_page(values: PageValues, value: FixedWidth | VariableWidth) -> EncodedPage:
    message = pb.ConstantLayout(layers=layer_names(values.layers))
    buffers: list[Bytes] = []
    if isinstance(value, FixedWidth) and len(value.data) <= MAX_INLINE_BYTES:
        message.inline_value = value.data.tobytes()
    else:
        buffers.append(_value_buffer(value))
    if values.rep is not None or values.definition is not None:
        buffers += [_raw(values.rep), _raw(values.definition)]
    return _page(message, tuple(buffers), values)


def _page(
    message: pb.ConstantLayout, buffers: tuple[Bytes, ...], values: PageValues
) -> EncodedPage:
    """A page all of whose buffers are needed before a row of it can be taken."""
    layout = pb.PageLayout(constant_layout=message)
    return EncodedPage.of(layout, buffers, values.num_rows, tuple(range(len(buffers))))


def _compressed(
    levels: UInt16s, max_level: int, hints: Hints
) -> tuple[pb.CompressiveEncoding, Bytes]:
    encoding, content, _ = level_blocks(
        levels, np.array([len(levels)], np.int64), max_level, hints.version
    )
    return encoding, content


def _raw(levels: UInt16s | None) -> Bytes:
    return NOTHING if levels is None else levels.astype("<u2", copy=False).view(np.uint8)


def _value_buffer(value: FixedWidth | VariableWidth) -> Bytes:
    """The value as the buffers of an Arrow array of one."""
    buffers = [value.data]
    if isinstance(value, VariableWidth):
        buffers.insert(0, value.offsets.view(np.uint8))
    header = np.array([len(buffers), *map(len, buffers)], "<u4")
    return np.concatenate([header.view(np.uint8), *buffers])


def _only_value(block: Block, present: Mask | None) -> FixedWidth | VariableWidth | None:
    """The value that all present slots have, as a block of one; None if they differ."""
    first = 0 if present is None else int(np.argmax(present))
    if isinstance(block, FixedWidth):
        return _only_fixed(block, first, present)
    if isinstance(block, VariableWidth):
        return _only_string(block, first, present)
    return None


def _only_fixed(block: FixedWidth, first: int, present: Mask | None) -> FixedWidth | None:
    count, bits = block.num_values, block.bits_per_value
    if bits == 1:
        flags = np.unpackbits(block.data, count=count, bitorder="little")
        rows, bits = flags[:, np.newaxis], 8
    elif bits % 8:
        return None
    else:
        rows = _rows(block.data[: count * bits // 8], bits // 8)
    value = rows[first]
    for part in (slice(first, first + SAMPLE), slice(0, count)):
        equal = rows[part, 0] == value[0]
        for number in range(1, rows.shape[1]):
            equal &= rows[part, number] == value[number]
        if present is not None:
            equal |= ~present[part]
        if not equal.all():
            return None
    return FixedWidth(bits, 1, np.ascontiguousarray(value).view(np.uint8))


def _rows(data: Bytes, width: int) -> npt.NDArray[np.unsignedinteger]:
    """Values as rows of integers as wide as they can be compared."""
    for step in (8, 4, 2):
        if width % step == 0 and data.ctypes.data % step == 0:
            return data.view(f"<u{step}").reshape(-1, width // step)
    return data.reshape(-1, width)


def _only_string(block: VariableWidth, first: int, present: Mask | None) -> VariableWidth | None:
    offsets = block.offsets
    size = int(offsets[first + 1] - offsets[first])
    if size > MAX_VALUE_BYTES:
        return None
    value = block.data[offsets[first] : offsets[first + 1]]
    for part in (slice(first, first + SAMPLE), slice(0, block.num_values)):
        starts, stops = offsets[:-1][part], offsets[1:][part]
        if present is not None:
            starts, stops = starts[present[part]], stops[present[part]]
        if (stops - starts != size).any():
            return None
        if (np.diff(starts) != size).any():
            return None  # nulls between them hold bytes
        if size and (block.data[starts[0] : stops[-1]].reshape(-1, size) != value).any():
            return None
    ends = np.zeros_like(offsets[:2])
    ends[1] = size
    return VariableWidth(ends, value)
