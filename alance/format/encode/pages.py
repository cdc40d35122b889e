"""Encoder of a leaf's rows as pages; the values and the user's hints determine the layout.

The first matching line applies:

  constant      only nulls; from 2.2 on: only one value and nulls
  full-zip      packed structs of strings or lists, fixed-size lists of nulls
  mini-block    with a dictionary, if it saves bytes or the column is a dictionary
  as requested  `lance-encoding:structural-encoding`: `miniblock` or `fullzip`; from 2.3 on
                `sparse`, which is also used for lists in or around fixed-size lists of structs
  mini-block    no value has more than 255 bytes
  full-zip      otherwise

Sparse pages of 2.3 have separate descriptions of structure and values. Each layer lists its null or
its valid slots, whichever are fewer, and its non-empty lists. A set of equally spaced numbers takes
no buffer; other sets are stored as bit-packed differences. Values are constant, absent, in chunks
(a value for every slot), or zipped (only the valid values).

Source: what the reference implementation writes; encodings_v2_3.proto, PlanarLayout;
docs/format/file.md, "Planar pages", "Sparse structure" and "Sparse values".
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import InvalidInputError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.blocks import DictionaryBlock
from alance.format.encode.levels import Lists, unravel
from alance.format.encode.page_inputs import (
    ANY,
    WIDE_BITS,
    EncodedPage,
    Hints,
    NoPage,
    PageMode,
    encoded,
    level_budget,
    page_by_mode,
    page_input,
)
from alance.format.encode.rows import cut_entries, select, spread
from alance.format.layouts.base import Layer, PageValues
from alance.format.layouts.fields import is_empty_struct, layer_dimensions
from alance.format.proto import encodings_v2_1_pb2 as pb
from alance.format.proto import encodings_v2_3_pb2 as pb3

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Bytes, Int64s, Mask, UInt16s
    from alance.format.blocks import Block
    from alance.format.field import Field

STRUCTURE: Final = "lance-encoding:structural-encoding"
MINI_BLOCK_LAYOUT, FULL_ZIP_LAYOUT, SPARSE_LAYOUT = "miniblock", "fullzip", "sparse"


def hints_of(root: Field, leaf: Field, version: FileVersion) -> Hints:
    """Collect the hints for a leaf: its own metadata, and the layout that its column requests."""
    metadata = {key: value for key, value in leaf.metadata.items() if key != STRUCTURE}
    if STRUCTURE in root.metadata:
        metadata[STRUCTURE] = root.metadata[STRUCTURE]
    return Hints(version, metadata, layer_dimensions(root, leaf))


def encode_pages(leaves: Sequence[tuple[Field, PageValues, Hints]]) -> list[list[EncodedPage]]:
    """Encode rows of several leaves in one kernel call.

    A leaf becomes one page, or several if a chunk's empty lists would exceed its level budget.

    Raises:
        InvalidInputError: an array is inconsistent, or no page can hold it. The message names its
            field.
    """
    inputs = [_NewLeaf(*leaf) for leaf in leaves]
    try:
        results = encoded([leaf.input for leaf in inputs])
    except ValueError as error:
        raise _refused(inputs, error) from error
    return [leaf.pages(result) for leaf, result in zip(inputs, results, strict=True)]


def _refused(inputs: Sequence[_NewLeaf], error: ValueError) -> InvalidInputError:
    """Add the name of a field to the kernel's error: the first field that fails by itself."""
    for leaf in inputs:
        try:
            encoded([leaf.input])
        except ValueError as own:
            return InvalidInputError(f"field {leaf.name!r}: {own}")
    return InvalidInputError(str(error))


class _NewLeaf:
    """Rows of a leaf to encode as pages."""

    def __init__(self, field: Field, values: PageValues, hints: Hints) -> None:
        if values.num_rows < 1:
            raise InvalidInputError(f"field {field.name!r}: a page without rows")
        self._is_structure = is_empty_struct(field) and hints.version >= FileVersion.V2_3
        if is_empty_struct(field) and not self._is_structure:
            values = _all_null(field, values)
        self._field, self._values, self._hints = field, values, hints
        self.name = field.name
        layout, is_sparse = _asked_layout(field, values, hints)
        zip_bits = {None: WIDE_BITS, MINI_BLOCK_LAYOUT: ANY, FULL_ZIP_LAYOUT: 0}[layout]
        mode = PageMode.CONSTANT if is_sparse else PageMode.ANY
        self.input = page_input(values, hints, mode, zip_bits)

    def pages(self, result: _kernels.PageResult) -> list[EncodedPage]:
        """Return the pages, given the kernel's result."""
        if result != NoPage.TOO_MANY_LEVELS:
            return [self._page(result)]
        rows = cut_entries(self._values, level_budget(self._values))
        parts = [_NewLeaf(self._field, part, self._hints) for part in rows]
        results = encoded([part.input for part in parts])
        return [part._page(own) for part, own in zip(parts, results, strict=True)]

    def _page(self, result: _kernels.PageResult) -> EncodedPage:
        """Return a single page, given the kernel's result; zipped if a chunk has many levels."""
        values, hints = self._values, self._hints
        if isinstance(result, tuple) and len(result) == 3 and not self._is_structure:
            return EncodedPage(*result, num_rows=values.num_rows)
        if self._is_structure or isinstance(result, tuple):
            scalar = None if self._is_structure else cast("tuple[bytes | None]", result)[0]
            return sparse_page(values, hints.dimensions, scalar)
        if result == NoPage.TOO_MANY_LEVELS:
            return page_by_mode(values, hints, PageMode.ZIPPED)
        return sparse_values_page(values, hints, zipped=result == NoPage.ZIPPED_LATER)


def _all_null(field: Field, values: PageValues) -> PageValues:
    """Mark all structs without fields as null, as dense pages store them.

    Raises:
        InvalidInputError: some structs are null, and the page could not distinguish them from the
            others.
    """
    inner, *outer = values.layers
    definition = values.definition
    if inner is Layer.NULLABLE_ITEM and definition is not None and (definition == 1).any():
        raise InvalidInputError(
            f"field {field.name!r}: null structs without fields in a file before version 2.3; "
            "write a struct that has a field, or a file of version 2.3"
        )
    if values.rep is None and definition is None:
        return values._replace(layers=(Layer.NULLABLE_ITEM,))
    if definition is None:
        definition = np.ones(len(cast("UInt16s", values.rep)), np.uint16)
    elif inner is Layer.NULLABLE_ITEM:
        definition = np.maximum(definition, 1)
    else:
        definition = definition + np.uint16(1)
    return values._replace(layers=(Layer.NULLABLE_ITEM, *outer), definition=definition)


def _asked_layout(field: Field, values: PageValues, hints: Hints) -> tuple[str | None, bool]:
    """Return the requested layout (None for no request), and True if the page must be sparse."""
    layout = hints.metadata.get(STRUCTURE)
    layouts = [MINI_BLOCK_LAYOUT, FULL_ZIP_LAYOUT]
    if hints.version >= FileVersion.V2_3:
        layouts.append(SPARSE_LAYOUT)
    if layout is not None and layout.lower() not in layouts:
        raise InvalidInputError(
            f"field {field.name!r}: {STRUCTURE} is {layout!r}, expected one of {layouts}"
        )
    layout = None if layout is None else layout.lower()
    is_sparse = values.rep is not None and any(hints.dimensions)
    if is_sparse and hints.version < FileVersion.V2_3:
        raise UnsupportedError(
            f"field {field.name!r}: fixed-size lists of structs together with lists in a file of "
            f"version {hints.version.value}; 2.3 has them"
        )
    if layout == SPARSE_LAYOUT:
        # A page without levels has no structure to store, so it is not sparse.
        return None, is_sparse or values.rep is not None or values.definition is not None
    return layout, is_sparse


SET_NUMBER_BITS = 64  # bits per number of a set


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
        is_sparse = 2 * int(np.count_nonzero(valid)) < num_slots
        positions = np.flatnonzero(valid if is_sparse else ~valid)
        if is_sparse:
            meaning = pb3.SparseValiditySet.VALID_POSITIONS
    return pb3.SparseValiditySet(
        meaning=meaning, positions=_numbers(positions, buffers), num_positions=len(positions)
    )


def _numbers(numbers: Int64s, buffers: list[Bytes]) -> pb.CompressiveEncoding:
    """Describe a set of numbers. If it needs a buffer, append that to `buffers`."""
    if len(numbers) == 0:
        return pb.CompressiveEncoding(constant=pb.Constant())
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
    buffers.append(_kernels.pack_blocks(data, len(numbers), SET_NUMBER_BITS, width))
    packed = pb.OutOfLineBitpacking(
        uncompressed_bits_per_value=SET_NUMBER_BITS,
        values=pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=width)),
    )
    return pb.CompressiveEncoding(out_of_line_bitpacking=packed)


def sparse_values_page(values: PageValues, hints: Hints, *, zipped: bool) -> EncodedPage:
    """Encode all rows as a sparse page with values.

    Args:
        zipped: True to store values one by one; False for chunks, with a dictionary if it saves
            bytes.
    """
    from alance.format.layouts.planar import planar_layout

    structure = sparse_structure(values, hints.dimensions)
    block = values.values
    if zipped and not isinstance(block, DictionaryBlock):
        if structure.valid is not None:
            block = select(block, np.flatnonzero(structure.valid))
        page = page_by_mode(_flat(block), hints, PageMode.ZIPPED)
        plane = planar_layout(page.layout).values
        plane.zipped.ClearField("levels")
    else:
        if structure.present is not None:
            block = spread(block, structure.present)
        page = page_by_mode(_flat(block), hints, PageMode.VALUES)
        plane = planar_layout(page.layout).values
        plane.chunked.ClearField("levels")
        plane.chunked.ClearField("num_items")
    return structure.page(plane, page)


def _flat(block: Block) -> PageValues:
    """Wrap values as a page without structure."""
    return PageValues((Layer.ALL_VALID_ITEM,), None, None, block, block.num_values)
