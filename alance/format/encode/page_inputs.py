"""Inputs of the kernel that encodes pages, and its results: the stages of the encoder.

  arrays    Arrow array of a field -> `PageValues` of each leaf (levels and values)
  pages     `PageValues` -> `EncodedPage`: the kernel chooses the layout by data and hints, and
            makes the pages of many columns at once
  container `EncodedPage`s -> the bytes of a file

Decoding returns the same blocks, so tests of a stage use its inverse.

A single call encodes the pages of many columns, without the GIL (kernels/encode/encode_pages.cpp).

Source: docs/format/file.md, "Mini-block layout", "Level budget", "Constant layout" and "Full-zip
layout".
"""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import numpy as np
import zstandard

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import InvalidInputError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.blocks import (
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidth,
    NullBlock,
    StructBlock,
    VariableWidth,
    gather,
)
from alance.format.codecs.general import ZSTD_LEVEL
from alance.format.encode.options import FieldOptions
from alance.format.layouts.base import max_definition, max_repetition
from alance.format.proto import encodings_v2_1_pb2 as pb
from alance.format.proto import encodings_v2_3_pb2 as pb3

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.base.arrays import Bytes
    from alance.format.blocks import Block
    from alance.format.layouts.base import PageValues
    from alance.format.proto import encodings_v2_0_pb2 as pb0


@dataclass(frozen=True, slots=True)
class Hints:
    """File version and field metadata that control the encoding of a leaf.

    Attributes:
        metadata: metadata of the field, with its `lance-encoding:*` keys.
        dimensions: for each layer from row to leaf, the dimension of a fixed-size list of structs;
            0 for other layers.
    """

    version: FileVersion
    metadata: Mapping[str, str]
    dimensions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """Encoded page of a column."""

    description: bytes  # a PageLayout, a PlanarLayout for sparse pages, or an ArrayEncoding in 2.0
    buffers: tuple[Bytes, ...]  # in the order of the layout, without padding
    # Numbers of the buffers that readers need before they can take rows.
    search: tuple[int, ...]
    num_rows: int
    is_planar: bool = False

    @classmethod
    def of(
        cls,
        layout: pb.PageLayout | pb3.PlanarLayout | pb0.ArrayEncoding,
        buffers: tuple[Bytes, ...],
        num_rows: int,
        search: tuple[int, ...] = (),
    ) -> EncodedPage:
        """Build a page from its description message."""
        description = layout.SerializeToString(deterministic=True)
        return cls(description, buffers, search, num_rows, isinstance(layout, pb3.PlanarLayout))

    @property
    def layout(self) -> pb.PageLayout | pb3.PlanarLayout:
        """Description message of the page, parsed at each access."""
        kind = pb3.PlanarLayout if self.is_planar else pb.PageLayout
        return kind.FromString(self.description)


PageInput: TypeAlias = tuple[object, ...]
ValuesInput: TypeAlias = tuple[object, ...]

MAX_ENTRIES: Final = 0xFFFF  # a chunk stores its number of entries in 16 bits
MAX_LEVEL_BITS: Final = 131072  # maximum bits of all levels of a chunk: half of a chunk of 2.1
WIDE_BITS: Final = 8 * 256  # bits; a page with a value of this size is zipped
ANY: Final = (1 << 62) - 1  # more bits than any value has
MINOR: Final = {FileVersion.V2_1: 1, FileVersion.V2_2: 2, FileVersion.V2_3: 3}


class PageMode(IntEnum):
    """Layouts that a page may have, by the kernel's numbers."""

    ANY = 0
    CONSTANT = 1  # the values of other pages are encoded later: they are sparse
    VALUES = 2  # chunks of the values, or of indices into a dictionary
    CHUNKS = 3  # chunks of the values
    ZIPPED = 4


class NoPage(IntEnum):
    """Reason why the kernel did not encode a page."""

    CHUNKED_LATER = 0  # values of a sparse page, which are chunked
    ZIPPED_LATER = 1  # values of a sparse page, which are zipped
    TOO_MANY_LEVELS = 2  # a chunk exceeds its level budget; fewer rows may fit


def level_budget(values: PageValues) -> int:
    """Return the maximum number of entries in a chunk of these rows."""
    bits = max_repetition(values.layers).bit_length() + max_definition(values.layers).bit_length()
    return min(MAX_ENTRIES, MAX_LEVEL_BITS // max(bits, 1))


def page_input(
    values: PageValues,
    hints: Hints,
    mode: PageMode = PageMode.ANY,
    zip_bits: int = WIDE_BITS,
) -> PageInput:
    """Build the kernel's input for rows; the kernel chooses the layout.

    Args:
        zip_bits: a page with a value of at least this many bits is zipped.
    """
    block = values.values
    form, items = (
        (values_input(block.indices), values_input(block.items))
        if isinstance(block, DictionaryBlock)
        else (values_input(block), None)
    )
    options = FieldOptions.of(hints)
    levels = values.layers, values.rep, values.definition
    return (*levels, form, items, options, MINOR[hints.version], mode, zip_bits)


def encoded(inputs: Sequence[PageInput]) -> list[_kernels.PageResult]:
    """Encode all inputs in one kernel call, without the GIL."""
    compressors: dict[int, zstandard.ZstdCompressor] = {}
    try:
        return _kernels.encode_pages(inputs, partial(frame, compressors=compressors))
    except OverflowError as error:
        raise InvalidInputError(str(error)) from error
    except TypeError as error:
        raise UnsupportedError(str(error)) from error


def frame(
    data: bytes, level: int, compressors: dict[int, zstandard.ZstdCompressor] | None = None
) -> bytes:
    """Compress bytes to a frame of Zstandard, for the kernel.

    Args:
        level: 0 for `ZSTD_LEVEL`.
        compressors: compressors by level, for one thread; None to create one for this call.
    """
    compressors = {} if compressors is None else compressors
    if level not in compressors:
        compressors[level] = zstandard.ZstdCompressor(level=level or ZSTD_LEVEL)
    return compressors[level].compress(data)


def page_by_mode(values: PageValues, hints: Hints, mode: PageMode) -> EncodedPage:
    """Encode all rows as a page that is not constant.

    Args:
        values: rows with at least one value slot, without levels unless the page is zipped; a
            `DictionaryBlock` becomes a page with a dictionary, unless the page is zipped.
    """
    block = values.values
    if mode is PageMode.ZIPPED and isinstance(block, DictionaryBlock):
        indices = block.indices.data.view(f"<u{block.indices.bits_per_value // 8}")
        values = values._replace(values=gather(block.items, indices.astype(np.int64)))
    (page,) = encoded([page_input(values, hints, mode)])
    return EncodedPage(*cast("_kernels.NewPage", page), num_rows=values.num_rows)


def values_input(block: Block) -> ValuesInput:
    """Return the kernel's form of values, as views."""
    count = block.num_values
    match block:
        case FixedWidth():
            return count, "fixed", block.bits_per_value, block.data
        case VariableWidth():
            return count, "strings", block.offsets, block.data
        case FixedSizeListBlock():
            return count, "lists", block.dimension, block.validity, values_input(block.items)
        case StructBlock():
            return count, "structs", [values_input(child) for child in block.children]
        case NullBlock():
            return count, "nulls"
        case _:
            return count, "others"
