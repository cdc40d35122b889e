"""Codecs that are legal in each place, and descriptions that contradict themselves."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.format.codecs.block import block_codec
from alance.format.layouts.fullzip import per_value_codec
from alance.format.layouts.miniblock import mini_block_codec
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference import fsst
from tests.reference.encodings import flat

if TYPE_CHECKING:
    from collections.abc import Callable

CE = pb.CompressiveEncoding
LZ4 = pb.BufferCompression(scheme=pb.COMPRESSION_ALGORITHM_LZ4)


def variable(bits: int = 32) -> pb.CompressiveEncoding:
    return CE(variable=pb.Variable(offsets=flat(bits)))


def general(values: pb.CompressiveEncoding) -> pb.CompressiveEncoding:
    return CE(general=pb.General(compression=LZ4, values=values))


def rle(values: pb.CompressiveEncoding, lengths: int = 8) -> pb.CompressiveEncoding:
    return CE(rle=pb.Rle(values=values, run_lengths=flat(lengths)))


def lists(values: pb.CompressiveEncoding, dimension: int = 2) -> pb.CompressiveEncoding:
    return CE(fixed_size_list=pb.FixedSizeList(items_per_value=dimension, values=values))


def inline(bits: int) -> pb.CompressiveEncoding:
    return CE(inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=bits))


def out_of_line(bits: int, packed: int) -> pb.CompressiveEncoding:
    return CE(
        out_of_line_bitpacking=pb.OutOfLineBitpacking(
            uncompressed_bits_per_value=bits, values=flat(packed)
        )
    )


def split(values: pb.CompressiveEncoding) -> pb.CompressiveEncoding:
    return CE(byte_stream_split=pb.ByteStreamSplit(values=values))


def strings(table: bytes, values: pb.CompressiveEncoding | None = None) -> pb.CompressiveEncoding:
    return CE(fsst=pb.Fsst(symbol_table=table, values=values or variable()))


def packed(children: list[int], bits: int) -> pb.CompressiveEncoding:
    return CE(packed_struct=pb.PackedStruct(bits_per_value=children, values=flat(bits)))


def packed_variable(*fields: dict[str, Any]) -> pb.CompressiveEncoding:
    encodings = [pb.VariablePackedStruct.FieldEncoding(**field) for field in fields]
    return CE(variable_packed_struct=pb.VariablePackedStruct(fields=encodings))


DICTIONARY = CE(dictionary=pb.Dictionary(indices=flat(32), items=flat(64), num_dictionary_items=3))
TABLE = fsst.table([b"ab"])
NULLS = CE(constant=pb.Constant())

# name: description, mini-block, per-value, block
LEGAL: dict[str, tuple[pb.CompressiveEncoding, bool, bool, bool]] = {
    "flat": (flat(32), True, True, True),
    "flat of 1 bit": (flat(1), True, False, True),
    "flat of 256 bits": (flat(256), True, True, True),
    "variable 32": (variable(32), True, True, True),
    "variable 64": (variable(64), True, True, True),
    "inline bit-packing": (inline(16), True, False, True),
    "inline bit-packing of 128": (inline(128), False, False, False),
    "out of line": (out_of_line(16, 3), False, False, True),
    "out of line, all zero": (out_of_line(16, 0), False, False, True),
    "fsst": (strings(TABLE), True, True, False),
    "rle": (rle(flat(16)), True, False, True),
    "rle of 128 bits": (rle(flat(128)), False, False, False),
    "rle with wide lengths": (rle(flat(16), 16), True, False, True),
    "rle of packed values": (rle(out_of_line(16, 3)), True, False, True),
    "byte stream split": (split(flat(64)), True, False, False),
    "byte stream split of 16": (split(flat(16)), False, False, False),
    "byte stream split of packed": (split(inline(32)), False, False, False),
    "general flat": (general(flat(32)), True, False, True),
    "general variable": (general(variable()), True, True, True),
    "general fsst": (general(strings(TABLE)), True, False, False),
    "general rle": (general(rle(flat(32))), True, False, False),
    "general bit-packing": (general(inline(32)), True, False, False),
    "general byte stream split": (general(split(flat(32))), True, False, False),
    "general lists": (general(lists(flat(32))), True, False, True),
    "general general": (general(general(flat(32))), False, False, False),
    "general packed struct": (general(packed([8, 8], 16)), False, False, False),
    "lists": (lists(flat(32)), True, True, True),
    "lists of lists": (lists(lists(flat(32))), True, True, True),
    "lists of 2 bits": (lists(flat(1)), True, False, False),
    "lists of 8 bits": (lists(flat(1), 8), True, True, True),
    "lists of packed": (lists(inline(32)), False, False, False),
    "packed struct": (packed([32, 8], 40), True, True, False),
    "packed struct of bits": (packed([8, 1], 9), False, False, False),
    "dictionary": (DICTIONARY, False, False, False),
    "constant": (CE(constant=pb.Constant(value=b"ab")), False, False, False),
    "constant without a value": (NULLS, False, False, False),
    "variable packed struct": (
        packed_variable(
            {"value": flat(16), "bits_per_value": 16},
            {"value": variable(64), "bits_per_length": 64},
            {"value": general(variable()), "bits_per_length": 32},
            {"value": lists(flat(8)), "bits_per_value": 16},
            {"value": packed([8, 8], 16), "bits_per_value": 16},
        ),
        False,
        True,
        False,
    ),
    "nested variable packed struct": (
        packed_variable(
            {
                "value": packed_variable({"value": flat(8), "bits_per_value": 8}),
                "bits_per_length": 32,
            }
        ),
        False,
        True,
        False,
    ),
}
PLACES: list[Callable[[pb.CompressiveEncoding], object]] = [
    mini_block_codec,
    per_value_codec,
    block_codec,
]


@pytest.mark.parametrize("name", LEGAL)
def test_codecs_are_taken_where_they_are_legal(name: str) -> None:
    description, *legal = LEGAL[name]
    for place, accepted in zip(PLACES, legal, strict=True):
        # As it comes from a file.
        encoding = CE.FromString(description.SerializeToString())
        if accepted:
            assert place(encoding)
        else:
            with pytest.raises(UnsupportedError):
                place(encoding)


@pytest.mark.parametrize(("tag", "name"), [(14, "range"), (15, "delta"), (99, "number 99")])
def test_later_codecs_are_named(tag: int, name: str) -> None:
    encoding = CE.FromString(
        bytes([tag << 3 & 127 | 2 | (128 if tag > 15 else 0)])
        + (bytes([tag >> 4]) if tag > 15 else b"")
        + b"\0"
    )
    for place in PLACES:
        with pytest.raises(UnsupportedError, match=name):
            place(encoding)


WRONG: dict[str, pb.CompressiveEncoding] = {
    "nothing": CE(),
    "flat of 0 bits": flat(0),
    "flat of too many bits": flat(2**63),
    "flat, compressed": CE(flat=pb.Flat(bits_per_value=8, data=LZ4)),
    "variable, compressed": CE(variable=pb.Variable(offsets=flat(32), values=LZ4)),
    "variable with offsets of 16": variable(16),
    "variable with offsets in fsst": CE(variable=pb.Variable(offsets=strings(TABLE))),
    "inline, compressed": CE(
        inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=8, values=LZ4)
    ),
    "out of line at all bits": out_of_line(16, 16),
    "out of line of 24 bits": out_of_line(24, 3),
    "general without a scheme": CE(general=pb.General(values=flat(8))),
    "general without values": CE(general=pb.General(compression=LZ4)),
    "lists of nothing": lists(flat(8), 0),
    "lists too large": lists(lists(flat(8), 2**40), 2**40),
    "lists of constants": lists(CE(constant=pb.Constant(value=b"\0"))),
    "lists of null without bytes": lists(NULLS),
    "packed struct of another sum": packed([8, 8], 24),
    "packed struct with an empty child": packed([16, 0], 16),
    "packed struct of packed": CE(
        packed_struct=pb.PackedStruct(bits_per_value=[8], values=inline(8))
    ),
    "fsst with a short table": strings(TABLE[:-1]),
    "fsst with another magic": strings(TABLE[:4] + b"FSST" + TABLE[8:]),
    "fsst with an empty symbol": strings(fsst.table([b"ab", b""])),
    "fsst with a long symbol": strings(fsst.table([b"ab"]).replace(b"\2", b"\x09")),
    "fsst of flat": strings(TABLE, flat(8)),
    "variable packed struct of nothing": packed_variable(),
    "a child without layout": packed_variable({"value": flat(8)}),
    "a fixed child with a length": packed_variable({"value": flat(8), "bits_per_length": 32}),
    "a variable child without length": packed_variable({"value": variable(), "bits_per_value": 32}),
    "a child of other bits": packed_variable({"value": flat(8), "bits_per_value": 16}),
    "lengths of 16 bits": packed_variable({"value": variable(), "bits_per_length": 16}),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_descriptions_are_refused(name: str) -> None:
    for place in PLACES:
        with pytest.raises((CorruptFileError, UnsupportedError)):
            place(WRONG[name])


def test_items_of_a_page_of_nulls_are_legal_in_full_zip_only() -> None:
    description = CE(
        fixed_size_list=pb.FixedSizeList(items_per_value=9, values=NULLS, has_validity=True)
    )
    assert per_value_codec(description).bits == 16
    with pytest.raises(UnsupportedError):
        mini_block_codec(description)


def test_no_description_does_anything_but_raise_our_errors() -> None:
    for name in (*LEGAL, *WRONG):
        message = (WRONG.get(name) or LEGAL[name][0]).SerializeToString()
        for at in range(len(message)):
            for flip in (1, 2, 0x7F, 0xFF):
                damaged = bytearray(message)
                damaged[at] ^= flip
                check_damaged(bytes(damaged))


def check_damaged(message: bytes) -> None:
    try:
        encoding = CE.FromString(message)
    except Exception:  # protobuf's own DecodeError
        return
    for place in PLACES:
        with contextlib.suppress(AlanceError):
            place(encoding)
