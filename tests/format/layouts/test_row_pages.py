"""The kernel's forms of all codecs: each codec is in one of the lists below.

See `CONTRIBUTING.md`, "A codec".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from alance._kernels import PageForm
from alance.errors import CorruptFileError
from alance.format.codecs.block import BLOCK
from alance.format.codecs.general import Scheme
from alance.format.layouts.base import Layer
from alance.format.layouts.fullzip import PER_VALUE, zipped_form
from alance.format.layouts.miniblock import MINI_BLOCK, chunked_form, mini_block_codec
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.kernels.page_columns import learned, unknown_of
from tests.reference import encodings, fsst
from tests.reference.encodings import byte_stream_split, inline_bitpacking, rle

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDE: Final = pb.Flat(bits_per_value=32)
LISTS: Final = encodings.fixed_size_list(3, False, encodings.flat(32))
CODED: Final = pb.CompressiveEncoding(
    rle=pb.Rle(values=encodings.flat(32), run_lengths=encodings.flat(16))
)

# Values of mini-block pages, by the name of their message.
BY_ROWS: Final = {
    "flat": encodings.flat(32),
    "variable": encodings.variable(32),
    "inline_bitpacking": inline_bitpacking(32),
    "fsst": encodings.fsst(fsst.table([b"ab"]), encodings.variable(32)),
    "rle": rle(32),
    "byte_stream_split": byte_stream_split(32),
    "fixed_size_list": LISTS,
    "general": encodings.general(Scheme.LZ4, None, encodings.flat(32)),  # a chunk is one unit
    "packed_struct": encodings.packed_struct([32, 64]),
}

# Rows of full-zip pages: those of equal length, whatever they mean.
ZIPPED_BY_ROWS: Final = {"flat", "fixed_size_list", "packed_struct"}
ZIPPED_BY_INDEX: Final = {"variable", "fsst", "general", "variable_packed_struct"}

# Levels.
LEVELS_BY_ROWS: Final = {
    "flat": encodings.flat(16),
    "inline_bitpacking": inline_bitpacking(16),
    "out_of_line_bitpacking": encodings.out_of_line_bitpacking(16, 2),
    "rle": rle(16),
}
CODED_LEVELS: Final = {
    "general": encodings.general(Scheme.LZ4, None, encodings.flat(16)),
    "wide rle": pb.CompressiveEncoding(
        rle=pb.Rle(values=encodings.flat(16), run_lengths=encodings.flat(32))
    ),
    "packed rle": pb.CompressiveEncoding(
        rle=pb.Rle(values=encodings.out_of_line_bitpacking(16, 2), run_lengths=encodings.flat(8))
    ),
}
NO_LEVELS: Final = {"variable", "fixed_size_list"}  # of dictionaries


def chunked(values: pb.CompressiveEncoding, **fields: pb.CompressiveEncoding) -> PageForm:
    """The kernel's form of chunks of values without nulls; `fields` adds to the description."""
    layers = [Layer.NULLABLE_ITEM if "def_compression" in fields else Layer.ALL_VALID_ITEM]
    message = pb.MiniBlockLayout(
        value_compression=values,
        num_buffers=mini_block_codec(values).num_buffers,
        num_items=1,
        layers=layers,
        has_large_chunk=True,
        **fields,
    )
    return chunked_form(message)


def packed(members: Sequence[pb.CompressiveEncoding]) -> pb.CompressiveEncoding:
    """Packed structs of any length."""
    message = pb.VariablePackedStruct()
    for member in members:
        field = message.fields.add(value=member)
        if member.HasField("flat"):
            field.bits_per_value = member.flat.bits_per_value
        elif member.HasField("fixed_size_list"):
            field.bits_per_value = 96
        elif member.HasField("packed_struct"):
            field.bits_per_value = sum(member.packed_struct.bits_per_value)
        else:
            field.bits_per_length = 32
    return pb.CompressiveEncoding(variable_packed_struct=message)


def test_every_codec_is_in_one_of_the_lists() -> None:
    assert MINI_BLOCK.keys() == BY_ROWS.keys()
    assert PER_VALUE.keys() == {*ZIPPED_BY_ROWS, *ZIPPED_BY_INDEX}
    assert BLOCK.keys() == {*LEVELS_BY_ROWS, "general", *NO_LEVELS}


@pytest.mark.parametrize("name", BY_ROWS)
def test_the_kernel_takes_rows_of_these_mini_blocks(name: str) -> None:
    assert isinstance(chunked(BY_ROWS[name]), PageForm)


@pytest.mark.parametrize(("bits", "has_validity"), [(8, True), (1, False)])
def test_the_kernel_takes_lists_with_nulls_or_of_bits(bits: int, has_validity: bool) -> None:
    lists = encodings.fixed_size_list(3, has_validity, encodings.flat(bits))
    assert isinstance(chunked(lists), PageForm)


def test_the_kernel_takes_runs_of_wide_lengths() -> None:
    assert isinstance(chunked(CODED), PageForm)


@pytest.mark.parametrize("name", BY_ROWS)
def test_indices_of_a_dictionary_are_taken_by_rows_where_they_are_words(name: str) -> None:
    is_word = name in (
        "flat",
        "inline_bitpacking",
        "rle",
        "byte_stream_split",
        "general",
    )
    if is_word:
        assert isinstance(chunked(BY_ROWS[name], dictionary=encodings.flat(64)), PageForm)
    else:
        with pytest.raises(CorruptFileError, match="8, 16, 32 or 64 bits"):
            chunked(BY_ROWS[name], dictionary=encodings.flat(64))


@pytest.mark.parametrize("name", [*LEVELS_BY_ROWS, *CODED_LEVELS])
def test_the_kernel_takes_rows_with_these_levels(name: str) -> None:
    levels = (LEVELS_BY_ROWS | CODED_LEVELS)[name]
    assert isinstance(chunked(encodings.flat(32), def_compression=levels), PageForm)


@pytest.mark.parametrize(
    ("values", "width"),
    [
        (encodings.flat(32), 32),
        (LISTS, 96),
        (encodings.packed_struct([32, 64]), 96),
    ],
)
def test_the_kernel_takes_zipped_rows_of_equal_length(
    values: pb.CompressiveEncoding, width: int
) -> None:
    message = pb.FullZipLayout(
        bits_per_value=width,
        num_items=10,
        num_visible_items=10,
        value_compression=values,
        layers=[pb.REPDEF_ALL_VALID_ITEM],
    )
    assert isinstance(zipped_form(message), PageForm)


@pytest.mark.parametrize(
    "values",
    [
        encodings.variable(32),
        encodings.fsst(fsst.table([b"ab"]), encodings.variable(32)),
        encodings.general(Scheme.LZ4, None, encodings.variable(32)),
        packed([encodings.flat(16), encodings.variable(32)]),
        packed([encodings.fsst(fsst.table([b"ab"]), encodings.variable(32))]),
    ],
    ids=["variable", "fsst", "general", "packed", "packed fsst"],
)
def test_zipped_strings_are_taken_by_their_index(values: pb.CompressiveEncoding) -> None:
    message = pb.FullZipLayout(
        bits_per_offset=32,
        num_items=10,
        num_visible_items=10,
        value_compression=values,
        layers=[pb.REPDEF_ALL_VALID_ITEM],
    )
    form = zipped_form(message)
    assert unknown_of(learned(form, [10, 11], 10, bytes(range(11)))) == []


@pytest.mark.parametrize("member", [LISTS, encodings.packed_struct([32, 64])])
def test_packed_structs_have_members_of_any_fixed_width(member: pb.CompressiveEncoding) -> None:
    values = packed([member, encodings.variable(32)])
    message = pb.FullZipLayout(bits_per_offset=32, value_compression=values)
    message.layers.append(pb.REPDEF_ALL_VALID_ITEM)
    assert isinstance(zipped_form(message), PageForm)
