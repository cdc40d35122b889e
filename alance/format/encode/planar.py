"""Encoder of 2.3 pages, which have separate descriptions of structure and values.

Dense pages have the buffers of 2.2. In sparse pages, each layer lists its null or its valid slots,
whichever are fewer, and its non-empty lists. A set of equally spaced numbers takes no buffer; other
sets are stored as bit-packed differences. Values of sparse pages are constant, absent, in chunks (a
value for every slot), or zipped (only the valid values).

Source: encodings_v2_3.proto, PlanarLayout; docs/format/file.md, "Planar pages", "Sparse structure"
and "Sparse values".
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import UnsupportedError
from alance.format.blocks import DictionaryBlock
from alance.format.encode import encodings
from alance.format.encode.base import EncodedPage
from alance.format.encode.fullzip import full_zip_page
from alance.format.encode.page_inputs import dictionary_of, mini_block_page
from alance.format.layouts.base import Layer, PageValues
from alance.format.layouts.repdef import Lists, unravel
from alance.format.layouts.selection import select, spread
from alance.format.proto import encodings_v2_1_pb2 as pb
from alance.format.proto import encodings_v2_3_pb2 as pb3

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alance.base.arrays import Bytes, Int64s, Mask
    from alance.format.blocks import Block
    from alance.format.encode.base import Hints

SET_NUMBER_BITS = 64  # bits per number of a set


def planar_layout(layout: pb.PageLayout | pb3.PlanarLayout) -> pb3.PlanarLayout:
    """Convert the description of a 2.2 page to a description of 2.3.

    Raises:
        UnsupportedError: the page has blobs of version 1, which 2.3 does not have.
    """
    if isinstance(layout, pb3.PlanarLayout):
        return layout
    match layout.WhichOneof("layout"):
        case "mini_block_layout":
            return _chunked(layout.mini_block_layout)
        case "full_zip_layout":
            return _zipped(layout.full_zip_layout)
        case "constant_layout":
            return _constant(layout.constant_layout)
    raise UnsupportedError("files of version 2.3 have no blobs of version 1")


def _chunked(page: pb.MiniBlockLayout) -> pb3.PlanarLayout:
    levels = pb3.DenseChunkLevels(repetition_index_depth=page.repetition_index_depth)
    if page.HasField("rep_compression"):
        levels.repetition.CopyFrom(page.rep_compression)
    if page.HasField("def_compression"):
        levels.definition.CopyFrom(page.def_compression)
    values = pb3.ChunkedValues(
        compression=page.value_compression,
        levels=levels,
        num_dictionary_items=page.num_dictionary_items,
        num_buffers=page.num_buffers,
        num_items=page.num_items,
    )
    if page.HasField("dictionary"):
        values.dictionary.CopyFrom(page.dictionary)
    return _dense(page.layers, pb3.ValuePlane(chunked=values))


def _zipped(page: pb.FullZipLayout) -> pb3.PlanarLayout:
    values = pb3.ZippedValues(
        compression=page.value_compression,
        levels=pb3.DenseZipLevels(bits_repetition=page.bits_rep, bits_definition=page.bits_def),
        num_items=page.num_items,
        num_visible_items=page.num_visible_items,
    )
    if page.WhichOneof("details") == "bits_per_value":
        values.bits_per_value = page.bits_per_value
    else:
        values.bits_per_offset = page.bits_per_offset
    return _dense(page.layers, pb3.ValuePlane(zipped=values))


def _constant(page: pb.ConstantLayout) -> pb3.PlanarLayout:
    if page.HasField("inline_value"):
        scalar = pb3.ConstantValue(scalar=page.inline_value)
        return _dense(page.layers, pb3.ValuePlane(constant=scalar))
    return _dense(page.layers, pb3.ValuePlane(none=pb3.NoValues()))


def _dense(layers: Iterable[pb.RepDefLayer], values: pb3.ValuePlane) -> pb3.PlanarLayout:
    structure = pb3.StructuralPlane(dense=pb3.DenseStructure(layers=layers))
    return pb3.PlanarLayout(structure=structure, values=values)


@dataclass(frozen=True, slots=True)
class SparseStructure:
    """Encoded structure of a page."""

    layers: tuple[pb3.SparseStructuralLayer, ...]  # outermost first
    buffers: tuple[Bytes, ...]  # buffers of the sets
    num_rows: int  # number of rows times all dimensions, as in pages
    present: Mask | None  # mask of slots with an entry in the levels; None for all slots
    valid: Mask | None  # validity of these slots; None if all are valid

    def page(self, plane: pb3.ValuePlane, values: EncodedPage | None = None) -> EncodedPage:
        """Build the page from this structure and from values.

        Args:
            plane: description of the values.
            values: page with the buffers of the values; None if no values are stored.
        """
        layout = pb3.PlanarLayout(
            structure=pb3.StructuralPlane(sparse=pb3.SparseStructure(layers=self.layers)),
            values=plane,
        )
        stored = () if values is None else values.buffers
        search = () if values is None else values.search
        sets = range(len(stored), len(stored) + len(self.buffers))
        return EncodedPage.of(layout, (*stored, *self.buffers), self.num_rows, (*search, *sets))


def sparse_page(values: PageValues, dimensions: Sequence[int], scalar: bytes | None) -> EncodedPage:
    """Encode a page that stores only its structure.

    Args:
        values: levels of all rows.
        dimensions: for each layer from row to leaf, the dimension of a fixed-size list; 0 for other
            layers.
        scalar: value of all non-null items; None if all items are null.
    """
    plane = pb3.ValuePlane(none=pb3.NoValues())
    if scalar is not None:
        plane = pb3.ValuePlane(constant=pb3.ConstantValue(scalar=scalar))
    return sparse_structure(values, dimensions).page(plane)


def sparse_structure(values: PageValues, dimensions: Sequence[int]) -> SparseStructure:
    """Convert levels to a sparse structure.

    Levels represent fixed-size lists as repeated items; or as lists if the column also has lists.
    In that case, the items of null fixed-size lists have slots but no levels.

    Args:
        values: levels of all rows.
        dimensions: for each layer from row to leaf, the dimension of a fixed-size list; 0 for other
            layers.
    """
    buffers: list[Bytes] = []
    messages = []
    layers = unravel(values)
    has_lists = any(isinstance(layer, Lists) for layer in layers)
    present: Mask | None = None  # mask of slots with levels
    for number, (layer, dimension) in enumerate(zip(layers, dimensions, strict=True)):
        step = 1 if has_lists else product(dimensions[number:])
        valid = layer.valid
        num_slots = layer.num_slots // step
        if step > 1 and valid is not None:
            valid = valid[::step]
        if present is not None:
            spread = np.zeros(len(present), np.bool_)
            spread[present] = True if valid is None else valid
            valid, num_slots = spread, len(present)
        message = pb3.SparseStructuralLayer()
        if dimension:
            message.fixed_size_list.dimension = dimension
            message.fixed_size_list.validity.CopyFrom(_validity(valid, num_slots, buffers))
            if isinstance(layer, Lists):
                present = None if valid is None else np.repeat(valid, dimension)
        elif isinstance(layer, Lists):
            message.list.CopyFrom(_lists(layer, present, valid, buffers))
            present = None
        else:
            message.validity.CopyFrom(_validity(valid, num_slots, buffers))
        messages.append(message)
    rows = values.num_rows * (product(dimensions) if has_lists else 1)
    return SparseStructure(tuple(messages), tuple(buffers), rows, present, layers[-1].valid)


def product(dimensions: Sequence[int]) -> int:
    """Return the number of leaf slots per row: the product of the fixed-size lists' dimensions."""
    return prod(max(dimension, 1) for dimension in dimensions)


def _lists(
    layer: Lists, present: Mask | None, valid: Mask | None, buffers: list[Bytes]
) -> pb3.SparseListLayer:
    sizes = np.diff(layer.offsets)
    non_empty = np.flatnonzero(sizes)
    counts = sizes[non_empty]
    num_slots = layer.num_slots
    if present is not None:
        num_slots, non_empty = len(present), np.flatnonzero(present)[non_empty]
    return pb3.SparseListLayer(
        num_child_slots=int(layer.offsets[-1]),
        non_empty_positions=_numbers(non_empty, buffers),
        num_non_empty_positions=len(non_empty),
        counts=_numbers(counts, buffers),
        validity=_validity(valid, num_slots, buffers),
    )


def _validity(valid: Mask | None, num_slots: int, buffers: list[Bytes]) -> pb3.SparseValiditySet:
    """Encode the set of null slots, or the set of valid slots if these are fewer."""
    positions = np.empty(0, np.int64)
    meaning = pb3.SparseValiditySet.NULL_POSITIONS
    if valid is not None:
        num_valid = int(np.count_nonzero(valid))
        if num_valid < num_slots - num_valid:
            meaning = pb3.SparseValiditySet.VALID_POSITIONS
            positions = np.flatnonzero(valid)
        else:
            positions = np.flatnonzero(~valid)
    return pb3.SparseValiditySet(
        meaning=meaning, positions=_numbers(positions, buffers), num_positions=len(positions)
    )


def _numbers(numbers: Int64s, buffers: list[Bytes]) -> pb.CompressiveEncoding:
    """Describe a set of numbers. If it needs a buffer, append that to `buffers`."""
    if len(numbers) == 0:
        return encodings.empty_constant()
    first = int(numbers[0])
    steps = np.diff(numbers)
    if len(steps) == 0 or (steps == 0).all():
        value = first.to_bytes(SET_NUMBER_BITS // 8, "little")
        return pb.CompressiveEncoding(constant=pb.Constant(value=value))
    step = int(steps[0])
    if step > 0 and (steps == step).all():
        return pb.CompressiveEncoding(
            range=pb.Range(uncompressed_bits_per_value=SET_NUMBER_BITS, start=first, step=step)
        )
    if (steps >= 0).all():
        delta = pb.Delta(
            uncompressed_bits_per_value=SET_NUMBER_BITS, base=first, deltas=_packed(steps, buffers)
        )
        return pb.CompressiveEncoding(delta=delta)
    return _packed(numbers, buffers)


def _packed(numbers: Int64s, buffers: list[Bytes]) -> pb.CompressiveEncoding:
    """Bit-pack numbers at the width of the largest number."""
    width = int(numbers.max()).bit_length()
    data = np.ascontiguousarray(numbers).view(np.uint8)
    counts = np.array([len(numbers)], np.int64)
    content, _ = _kernels.pack_blocks(data, counts, SET_NUMBER_BITS, width)
    buffers.append(content)
    return encodings.out_of_line_bitpacking(SET_NUMBER_BITS, width)


def sparse_values_page(values: PageValues, hints: Hints, *, zipped: bool) -> EncodedPage:
    """Encode all rows as a sparse page with values.

    Args:
        values: rows with at least one non-null value.
        zipped: True to store values one by one; False for chunks, with a dictionary if it saves
            bytes.

    Raises:
        UnsupportedError: values to store one by one are not whole bytes.
    """
    structure = sparse_structure(values, hints.dimensions)
    block = values.values
    if not zipped and not isinstance(block, DictionaryBlock):
        dictionary = dictionary_of(block, hints)
        if dictionary is not None:
            block = dictionary
    if zipped and not isinstance(block, DictionaryBlock):
        if structure.valid is not None:
            block = select(block, np.flatnonzero(structure.valid))
        page = full_zip_page(_flat(block), hints)
        plane = planar_layout(page.layout).values
        plane.zipped.ClearField("levels")
    else:
        if structure.present is not None:
            block = spread(block, structure.present)
        page = mini_block_page(_flat(block), hints)
        plane = planar_layout(page.layout).values
        plane.chunked.ClearField("levels")
        plane.chunked.ClearField("num_items")
    return structure.page(plane, page)


def _flat(block: Block) -> PageValues:
    """Wrap values as a page without structure."""
    return PageValues((Layer.ALL_VALID_ITEM,), None, None, block, block.num_values)
