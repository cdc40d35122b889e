"""Sparse pages of 2.3 without stored values: one value with nulls or in lists, or none at all.

Every layer lists its slots: those that are null or those that are not, whichever are fewer, and of
lists those that have items. A set is stored as nothing where its numbers are equally spaced, else
as packed differences.

Source: encodings_v2_3.proto, SparseStructure; file format specification, "Sparse structure".
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from alance import _kernels
from alance.errors import UnsupportedError
from alance.format.encode import encodings
from alance.format.encode.base import EncodedPage
from alance.format.layouts.repdef import Lists, unravel
from alance.format.proto import encodings_v2_1_pb2 as pb
from alance.format.proto import encodings_v2_3_pb2 as pb3

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from alance.format.blocks import Bytes
    from alance.format.layouts.base import PageValues

    Int64s = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

BITS = 64  # of a number of a set


def sparse_page(values: PageValues, dimensions: Sequence[int], scalar: bytes | None) -> EncodedPage:
    """A page of which only the structure is stored.

    Args:
        values: levels of all rows.
        dimensions: of the layers from the row to the leaf: 1, or that of a fixed-size list.
        scalar: the value of all items that are not null; None: all are.

    Raises:
        UnsupportedError: fixed-size lists of structs together with lists.
    """
    buffers: list[Bytes] = []
    layers = []
    structure = unravel(values)
    has_lists = any(isinstance(layer, Lists) for layer in structure)
    if has_lists and prod(dimensions) > 1:
        raise UnsupportedError("fixed-size lists of structs together with lists")
    for number, layer in enumerate(structure):
        message = pb3.SparseStructuralLayer()
        if isinstance(layer, Lists):
            message.list.CopyFrom(_lists(layer, buffers))
        else:
            # Levels count a slot for each item of the fixed-size lists at or below it.
            step = prod(dimensions[number:])
            valid = None if layer.valid is None else layer.valid[::step]
            listed = _validity(valid, layer.num_slots // step, buffers)
            if (dimension := dimensions[number]) > 1:
                message.fixed_size_list.dimension = dimension
                message.fixed_size_list.validity.CopyFrom(listed)
            else:
                message.validity.CopyFrom(listed)
        layers.append(message)
    plane = pb3.ValuePlane(none=pb3.NoValues())
    if scalar is not None:
        plane = pb3.ValuePlane(constant=pb3.ConstantValue(scalar=scalar))
    layout = pb3.PlanarLayout(
        structure=pb3.StructuralPlane(sparse=pb3.SparseStructure(layers=layers)), values=plane
    )
    return EncodedPage(layout, tuple(buffers), values.num_rows, tuple(range(len(buffers))))


def _lists(layer: Lists, buffers: list[Bytes]) -> pb3.SparseListLayer:
    sizes = np.diff(layer.offsets)
    non_empty = np.flatnonzero(sizes)
    return pb3.SparseListLayer(
        num_child_slots=int(layer.offsets[-1]),
        non_empty_positions=_numbers(non_empty, buffers),
        num_non_empty_positions=len(non_empty),
        counts=_numbers(sizes[non_empty], buffers),
        validity=_validity(layer.valid, layer.num_slots, buffers),
    )


def _validity(valid: Mask | None, num_slots: int, buffers: list[Bytes]) -> pb3.SparseValiditySet:
    """The null slots, or the valid ones if they are fewer."""
    found = np.empty(0, np.int64)
    meaning = pb3.SparseValiditySet.NULL_POSITIONS
    if valid is not None:
        num_valid = int(np.count_nonzero(valid))
        if num_valid < num_slots - num_valid:
            meaning = pb3.SparseValiditySet.VALID_POSITIONS
            found = np.flatnonzero(valid)
        else:
            found = np.flatnonzero(~valid)
    return pb3.SparseValiditySet(
        meaning=meaning, positions=_numbers(found, buffers), num_positions=len(found)
    )


def _numbers(numbers: Int64s, buffers: list[Bytes]) -> pb.CompressiveEncoding:
    """Describe a set; where it has bytes, they become the next buffer."""
    if len(numbers) == 0:
        return encodings.empty_constant()
    first = int(numbers[0])
    steps = np.diff(numbers)
    if len(steps) == 0 or (steps == 0).all():
        value = first.to_bytes(BITS // 8, "little")
        return pb.CompressiveEncoding(constant=pb.Constant(value=value))
    step = int(steps[0])
    if step > 0 and (steps == step).all():
        return pb.CompressiveEncoding(
            range=pb.Range(uncompressed_bits_per_value=BITS, start=first, step=step)
        )
    if (steps >= 0).all():
        delta = pb.Delta(
            uncompressed_bits_per_value=BITS, base=first, deltas=_packed(steps, buffers)
        )
        return pb.CompressiveEncoding(delta=delta)
    return _packed(numbers, buffers)


def _packed(numbers: Int64s, buffers: list[Bytes]) -> pb.CompressiveEncoding:
    """Numbers at the width of the largest one."""
    width = int(numbers.max()).bit_length()
    data = np.ascontiguousarray(numbers).view(np.uint8)
    counts = np.array([len(numbers)], np.int64)
    content, _ = _kernels.pack_blocks(data, counts, BITS, width)
    buffers.append(content)
    return encodings.out_of_line_bitpacking(BITS, width)
