"""Descriptions of pages in the form of the kernel, which finds and decodes their rows."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.fixed import (
    ByteStreamSplit,
    FixedSizeList,
    Flat,
    InlineBitpacking,
    OutOfLineBitpacking,
)
from alance.format.codecs.general import General, decompress_zstd
from alance.format.codecs.rle import Rle
from alance.format.codecs.sequence import SequenceVariable
from alance.format.codecs.strings import Fsst, Variable
from alance.format.codecs.structs import PackedStruct, VariablePackedStruct
from alance.format.codecs.words import NO_NUMBERS, numbers_form

if TYPE_CHECKING:
    from alance.base.arrays import Bytes, UInt64s
    from alance.format.codecs.base import BlockCodec, MiniBlockCodec, PerValueCodec
    from alance.format.codecs.structs import Child
    from alance.format.codecs.words import KernelNumbers
    from alance.format.layouts.fullzip import ZipForm
    from alance.format.layouts.miniblock import ChunkForm

    KernelWords: TypeAlias = tuple[KernelNumbers | None, tuple[KernelNumbers, KernelNumbers] | None]
    # Symbols and their lengths (None without symbols), and the kernel's number of the compression.
    _Strings: TypeAlias = tuple[tuple[UInt64s, Bytes] | None, int]

# Bytes; an index of full-zip rows up to this size is loaded and kept. That is a quarter of a
# million rows of 1 KB, and to read it once costs more than a second round.
MAX_INDEX_BYTES: Final = 1 << 20
MOST_BITS: Final = (1 << 31) - 1  # of a value in the kernel
MOST_LENGTHS: Final = 64  # maximum depth of nested fixed-size lists


class ValuesForm(IntEnum):
    """Numbers of value encodings in the kernel."""

    FLAT = 0
    PACKED = 1
    RUNS = 2
    SPLIT = 3
    STRINGS = 4
    FSST = 5
    ZIPPED = 6


class LevelsForm(IntEnum):
    """Numbers of level encodings in the kernel."""

    NONE = 0
    FLAT = 1
    PACKED = 2
    RUNS = 3
    BLOCKS = 4


LEVEL_BITS: Final = 16
INDEX_FORMS = (ValuesForm.FLAT, ValuesForm.PACKED, ValuesForm.RUNS, ValuesForm.SPLIT)
INDEX_BITS = (8, 16, 32, 64)  # the kernel reads an index as a single word

_kernels.set_zstd(decompress_zstd)


def chunked_form(form: ChunkForm) -> _kernels.PageForm:
    """Return the kernel's form of a mini-block page.

    Raises:
        CorruptFileError: the description is inconsistent.
        UnsupportedError: a codec is not allowed here.
    """
    shape, codec, scheme, items = form.shape, form.values, 0, form.items
    if isinstance(form.values, General):
        codec, scheme = form.values.inner, int(form.values.scheme)
    kind, bits = _values(codec)
    nulls, reps = _any_levels(form.definition), _any_levels(form.rep)
    if shape.has_lists != (form.rep is not None) or (form.definition is not None) > shape.max_def:
        raise CorruptFileError("mini-block: levels that the layers do not have")
    if items is not None and (kind not in INDEX_FORMS or bits not in INDEX_BITS):
        raise CorruptFileError("mini-block: dictionary indices have 8, 16, 32 or 64 bits")
    lists = (*reps, shape.max_rep, shape.max_visible) if shape.has_lists else None
    page_form = _kernels.PageForm(
        (kind, bits, *nulls, shape.max_def, form.is_large),
        lists,
        form.num_items,
        items is not None,
    )
    page_form.set_layers(*shape.code)
    page_form.set_masks(_masks(codec))
    page_form.set_scheme(scheme)
    for levels, are_reps in ((form.definition, False), (form.rep, True)):
        if levels is not None and levels_form(levels) is None:
            page_form.set_coded_levels(words_form(levels), are_reps)
    if isinstance(codec, SequenceVariable):
        page_form.set_offsets(codec.offsets.form)
    if isinstance(codec, Rle) and not codec.is_plain:
        page_form.set_runs(codec.form)
    if isinstance(codec, Fsst) and codec.table is not None:
        page_form.set_symbols(codec.table.symbols, codec.table.lengths)
    if items is not None:
        _set_items(page_form, items, form.num_dictionary_items)
    return page_form


def _set_items(page_form: _kernels.PageForm, codec: BlockCodec, num_items: int) -> None:
    """Set the form of the items of a dictionary."""
    scheme, inner = 0, codec
    if isinstance(codec, General):
        scheme, inner = int(codec.scheme), codec.inner
    match inner:
        case Flat(bits_per_value=bits) if bits % 8 == 0:
            page_form.set_items(False, _checked(bits), num_items, scheme)
        case FixedSizeList(bits_per_item=int(), bits_per_value=bits):
            page_form.set_items(False, _checked(bits), num_items, scheme)
            page_form.set_item_masks(_masks(inner))
        case Variable(bits_per_offset=bits):
            page_form.set_items(True, bits, num_items, scheme)
        case _:
            page_form.set_coded_items(words_form(codec), num_items)


def _checked(bits: int) -> int:
    """Return the bits of a value.

    Raises:
        UnsupportedError: a value has 256 MiB or more.
    """
    if bits > MOST_BITS:
        raise UnsupportedError(f"values of {bits} bits: at most {MOST_BITS}")
    return bits


def zipped_form(form: ZipForm, most_index_bytes: int = MAX_INDEX_BYTES) -> _kernels.PageForm:
    """Return the kernel's form of full-zip pages.

    Args:
        most_index_bytes: maximum bytes of an index that the kernel keeps.

    Raises:
        UnsupportedError: the codec is not allowed here.
    """
    if form.row_bytes is None:
        return _indexed_form(form, most_index_bytes)
    if not (form.width and not form.bits_rep and _is_zipped(form.codec)):
        raise UnsupportedError(f"full-zip: values of {_name_of(form.codec)}")
    kind = (ValuesForm.ZIPPED, 8 * form.width, LevelsForm.NONE, form.control_bytes)
    page_form = _kernels.PageForm((*kind, form.shape.max_def, False), None, form.num_items, False)
    page_form.set_layers(*form.shape.code)
    page_form.set_masks(_masks(form.codec))
    if _has_null_items(form.codec):
        page_form.set_null_items()
    return page_form


def _indexed_form(form: ZipForm, most_index_bytes: int) -> _kernels.PageForm:
    """Return the kernel's form of full-zip pages with an index."""
    codec, members = form.codec, []
    strings: _Strings = None, 0
    if isinstance(codec, VariablePackedStruct):
        members = [_member(child) for child in codec.parts]
    elif not (form.width and _is_zipped(codec)):
        strings = _strings(codec)
    page_form = _kernels.PageForm.zipped(
        form.width if form.is_fixed else -form.width,
        (form.bits_rep, form.bits_def),
        (form.shape.max_rep, form.shape.max_def, form.shape.max_visible),
        _masks(codec),
        strings,
        members,
        form.num_items,
        most_index_bytes,
    )
    page_form.set_layers(*form.shape.code)
    if _has_null_items(codec):
        page_form.set_null_items()
    return page_form


def _strings(codec: PerValueCodec) -> _Strings:
    """Return symbols and compression scheme of zipped strings."""
    match codec:
        case Fsst(table=table):
            return (None if table is None else (table.symbols, table.lengths)), 0
        case General(scheme=scheme):
            return None, int(scheme)
        case Variable():
            return None, 0
    raise UnsupportedError(f"full-zip: values of {_name_of(codec)}")


def _member(child: Child) -> tuple[int, _Strings, list[int]]:
    """Return width, strings and masks of a packed struct's child."""
    codec = child.codec
    if child.bits_per_length is not None:
        return -(child.bits_per_length // 8), _strings(codec), []
    width = (codec.bits_per_value or 0) // 8
    if not (width and _is_zipped(codec)) or _has_null_items(codec):
        raise UnsupportedError(f"packed struct: a member of {_name_of(codec)}")
    return width, (None, 0), _masks(codec)


def _is_zipped(codec: PerValueCodec) -> bool:
    """True if the kernel can decode zipped fixed-width values of a codec."""
    if isinstance(codec, FixedSizeList):
        return len(codec.levels) <= MOST_LENGTHS
    return isinstance(codec, Flat | PackedStruct)


def _has_null_items(codec: PerValueCodec) -> bool:
    """True for fixed-size lists whose items are all null."""
    return isinstance(codec, FixedSizeList) and codec.bits_per_item is None


def _masks(codec: object) -> list[int]:
    """Return the items per value at each depth of nested fixed-size lists.

    A depth without item validity has 0. The result is empty if no depth has item validity.
    """
    if not isinstance(codec, FixedSizeList) or not any(
        level.has_validity for level in codec.levels
    ):
        return []
    return [level.items_per_row if level.has_validity else 0 for level in codec.levels]


def _name_of(codec: object) -> str:
    """Return the name of a codec for errors."""
    return type(codec).__name__


def _values(codec: MiniBlockCodec) -> tuple[ValuesForm, int]:
    match codec:
        case Flat(bits_per_value=bits) if bits == 1 or bits % 8 == 0:
            return ValuesForm.FLAT, _checked(bits)
        case FixedSizeList(item_bits=bits, levels=levels) if len(levels) <= MOST_LENGTHS:
            return ValuesForm.FLAT, _checked(bits)
        case PackedStruct(bits_per_value=bits):
            return ValuesForm.FLAT, _checked(bits)
        case InlineBitpacking(bits_per_value=bits):
            return ValuesForm.PACKED, bits
        case Rle(bits_per_value=bits, is_plain=is_plain):
            return (ValuesForm.RUNS if is_plain else ValuesForm.FLAT), bits
        case SequenceVariable(offsets=offsets):
            return ValuesForm.STRINGS, offsets.bits
        case ByteStreamSplit(bits_per_value=bits):
            return ValuesForm.SPLIT, bits
        case Variable(bits_per_offset=bits):
            return ValuesForm.STRINGS, bits
        case Fsst(table=table, inner=inner):
            return ValuesForm.STRINGS if table is None else ValuesForm.FSST, inner.bits_per_offset
    raise UnsupportedError(f"mini-block: values of {_name_of(codec)}")


def words_form(codec: BlockCodec) -> KernelWords:
    """Return a codec of words in the kernel's form: numbers, or runs of them.

    Raises:
        UnsupportedError: the codec is not one of words.
    """
    return (None, codec.form) if isinstance(codec, Rle) else (numbers_form(codec), None)


def word_bits(words: KernelWords) -> int:
    """Return the bits of a word of `words_form`."""
    numbers, runs = words
    return (runs[0] if runs is not None else numbers or NO_NUMBERS)[1]


def _any_levels(codec: BlockCodec | None) -> tuple[LevelsForm, int]:
    """Return the form of levels of any codec: `FLAT` for words, which are decoded before use."""
    form = levels_form(codec)
    if form is not None:
        return form
    assert codec is not None
    check_level_bits(codec)
    return LevelsForm.FLAT, 0


def check_level_bits(codec: BlockCodec) -> None:
    """Check the width of coded levels.

    Raises:
        CorruptFileError: it is not 16 bits.
        UnsupportedError: the codec is not one of words.
    """
    bits = word_bits(words_form(codec))
    if bits != LEVEL_BITS:
        raise CorruptFileError(f"levels of {bits} bits, expected levels of {LEVEL_BITS} bits")


def levels_form(codec: BlockCodec | None) -> tuple[LevelsForm, int] | None:
    """Return the kernel's number of a codec of levels, and the width of bit-packed levels or 0.

    Returns None for other codecs, whose levels are words; see `words_form`.
    """
    match codec:
        case None:
            return LevelsForm.NONE, 0
        case Flat(bits_per_value=16):
            return LevelsForm.FLAT, 0
        case InlineBitpacking(bits_per_value=16):
            return LevelsForm.PACKED, 0
        case Rle(bits_per_value=16, is_plain=True):
            return LevelsForm.RUNS, 0
        case OutOfLineBitpacking(bits_per_value=16, packed_bits=width):
            return LevelsForm.BLOCKS, width
    return None
