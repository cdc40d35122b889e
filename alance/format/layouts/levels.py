"""Repetition and definition levels: layers of a page, and codecs of levels in the kernel's form.

Levels are u16. An entry with the largest repetition level starts a row. An entry whose definition
level is at most `max_visible` has a value slot. Without lists, every entry is a row and has a slot.

Source: docs/format/file.md, "Layers and levels".
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.words import NumbersForm, are_plain
from alance.format.layouts.base import Layer, max_definition, max_repetition, max_visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alance.format.codecs.base import BlockCodec
    from alance.format.codecs.words import KernelWords

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

    @classmethod
    def from_proto(cls, layers: Iterable[int]) -> Shape:
        return _shape(tuple(layers))

    @property
    def has_lists(self) -> bool:
        return self.max_rep > 0


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
