"""Layers of a page, levels with values as the writer has them, and codecs of levels.

Levels are u16. An entry with the largest repetition level starts a row. An entry whose definition
level is at most `max_visible` has a value slot. Without lists, every entry is a row and has a slot.

A constant page has little else: all items have the same value, or are null.

    inline_value  buffers
    set           0        every item has the value
    set           2        raw u16 repetition levels, definition levels; either may be empty
    absent        1        the value
    absent        3        the value, raw repetition levels, raw definition levels
    absent        0        all null
    absent        2        all null; repetition and definition levels, perhaps compressed

The buffer of the value has: u32 n, n u32 sizes of Arrow buffers, and the n buffers of an array with
one value.

Source: encodings_v2_1.proto, PageLayout, RepDefLayer and ConstantLayout; docs/format/file.md,
"Overview", "Layers and levels" and "Constant layout".
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.block import block_codec
from alance.format.codecs.words import NumbersForm, are_plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import UInt16s
    from alance.format.blocks import Block
    from alance.format.codecs.base import BlockCodec
    from alance.format.codecs.words import KernelWords
    from alance.format.proto import encodings_v2_1_pb2 as pb


class Layer(IntEnum):
    """Kinds of layer: nulls and empty lists that may occur at a depth of a page (RepDefLayer)."""

    ALL_VALID_ITEM = 1
    ALL_VALID_LIST = 2
    NULLABLE_ITEM = 3
    NULLABLE_LIST = 4
    EMPTYABLE_LIST = 5
    NULL_AND_EMPTY_LIST = 6

    @property
    def is_list(self) -> bool:
        """True for lists; False for leaves, structs and fixed-size lists."""
        return self not in (Layer.ALL_VALID_ITEM, Layer.NULLABLE_ITEM)

    @property
    def has_nulls(self) -> bool:
        return self in (Layer.NULLABLE_ITEM, Layer.NULLABLE_LIST, Layer.NULL_AND_EMPTY_LIST)

    @property
    def has_empty(self) -> bool:
        return self in (Layer.EMPTYABLE_LIST, Layer.NULL_AND_EMPTY_LIST)

    @property
    def num_levels(self) -> int:
        """Number of definition levels that the layer uses: one for null, one for empty."""
        return self.has_nulls + self.has_empty

    def like(self, *, nulls: bool, empty: bool) -> Layer:
        """Return the layer of lists or items, as this one, with these contents."""
        if not self.is_list:
            return Layer.NULLABLE_ITEM if nulls else Layer.ALL_VALID_ITEM
        if nulls:
            return Layer.NULL_AND_EMPTY_LIST if empty else Layer.NULLABLE_LIST
        return Layer.EMPTYABLE_LIST if empty else Layer.ALL_VALID_LIST


def max_repetition(layers: tuple[Layer, ...]) -> int:
    """Return the repetition level that starts a row: the number of list layers."""
    return sum(layer.is_list for layer in layers)


def max_definition(layers: tuple[Layer, ...]) -> int:
    """Return the largest definition level that can occur."""
    return sum(layer.num_levels for layer in layers)


def max_visible(layers: tuple[Layer, ...]) -> int:
    """Return the largest definition level of an entry with a value slot.

    A null below the innermost list has a slot; a null or empty list has none.
    """
    inside = takewhile(lambda layer: not layer.is_list, layers)
    return sum(layer.num_levels for layer in inside)


class PageValues(NamedTuple):
    """Rows of a page to encode: levels of all entries, and a value for each visible entry.

    An entry is visible if it has a value slot. The value of a slot with a definition level above 0
    is arbitrary. Arrays may be views of the caller's.
    """

    layers: tuple[Layer, ...]  # inner-most first
    rep: UInt16s | None  # shape (num_entries,); None if there are no lists
    definition: UInt16s | None  # shape (num_entries,); None if all levels are 0
    values: Block  # one slot per visible entry
    num_rows: int


LEVEL_BITS: Final = 16

# Layers that the kernel takes as four bits of an integer; further layers are bytes.
LAYERS_OF_CODE: Final = 16


@dataclass(frozen=True, slots=True)
class Shape:
    """Layers of a page, with the maxima of its levels."""

    layers: tuple[Layer, ...]  # inner-most first
    max_rep: int
    max_def: int
    max_visible: int
    code: tuple[int, bytes]  # layers in the kernels' form; see `code_of`

    @property
    def has_lists(self) -> bool:
        return self.max_rep > 0


@lru_cache(maxsize=1024)
def shape_of(*numbers: int) -> Shape:
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
    """Return layers, innermost first, in the kernels' form.

    The first `LAYERS_OF_CODE` layers are four bits each of an integer, the others a byte each.
    """
    code = sum(layer << 4 * depth for depth, layer in enumerate(layers[:LAYERS_OF_CODE]))
    return code, bytes(layers[LAYERS_OF_CODE:])


class LevelsForm(IntEnum):
    """Numbers of level encodings in the kernel."""

    NONE = 0
    FLAT = 1
    PACKED = 2
    RUNS = 3
    BLOCKS = 4


def levels_form(codec: BlockCodec | None) -> tuple[LevelsForm, int] | None:
    """Return the kernel's number of a codec of levels, and the width of bit-packed levels or 0.

    Returns None for other codecs, whose levels are words that are decoded before use.
    """
    if codec is None:
        return LevelsForm.NONE, 0
    numbers, runs = words_of(codec)
    if codec.bits != LEVEL_BITS:
        raise CorruptFileError(f"levels of {codec.bits} bits, expected levels of {LEVEL_BITS} bits")
    if runs is not None:
        return (LevelsForm.RUNS, 0) if are_plain(runs) else None
    assert numbers is not None
    match numbers.form:
        case NumbersForm.PACKED:
            return LevelsForm.PACKED, 0
        case NumbersForm.BLOCKS:
            return LevelsForm.BLOCKS, numbers.start
    return None if codec.scheme else (LevelsForm.FLAT, 0)


def words_of(codec: BlockCodec) -> KernelWords:
    if codec.words is None:
        raise UnsupportedError(f"words that are stored as values of {codec.bits} bits")
    return codec.words


MAX_INLINE_BYTES: Final = 32  # bytes of an inline value


def constant_form(message: pb.ConstantLayout) -> _kernels.PageForm:
    size = len(message.inline_value)
    if size > MAX_INLINE_BYTES:
        raise CorruptFileError(
            f"constant: inline value of {size} bytes, at most {MAX_INLINE_BYTES}"
        )
    shape = shape_of(*message.layers)
    has_rep, has_def = message.HasField("rep_compression"), message.HasField("def_compression")
    page_form = _kernels.PageForm.constant(
        message.inline_value if message.HasField("inline_value") else None,
        (shape.max_rep, shape.max_def, shape.max_visible),
        int(shape.layers[0] is Layer.NULLABLE_ITEM),
        _coded_levels(message.rep_compression, message.num_rep_values) if has_rep else None,
        _coded_levels(message.def_compression, message.num_def_values) if has_def else None,
    )
    page_form.set_layers(*shape.code)
    return page_form


def _coded_levels(encoding: pb.CompressiveEncoding, count: int) -> tuple[int, int, int]:
    """Return the form of coded levels. Raw levels have none; the bytes give their number."""
    if count >> 62:
        raise CorruptFileError(f"constant: a block of {count} levels")
    form = levels_form(block_codec(encoding))
    if form is None:
        raise UnsupportedError("constant: levels that are decoded before use")
    return (*form, count)
