"""Compressive encodings of file version 2.1 and later.

Codecs have a table for each use: values of mini-block pages, values of full-zip pages, and blocks
(levels, dictionaries). A table maps message names to codecs; other codecs are not allowed for the
use. Modules may import `format.blocks` and the layers below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from alance.errors import UnsupportedError
from alance.format.codecs.base import (
    BlockCodec,
    MiniBlockCodec,
    PerValueCodec,
    expect,
    variant,
)
from alance.format.codecs.fixed import (
    ByteStreamSplit,
    Constant,
    FixedSizeList,
    Flat,
    InlineBitpacking,
    OutOfLineBitpacking,
)
from alance.format.codecs.general import General
from alance.format.codecs.rle import Rle
from alance.format.codecs.sequence import variable_codec
from alance.format.codecs.strings import Fsst, Variable
from alance.format.codecs.structs import PackedStruct, VariablePackedStruct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from alance.format.proto import encodings_v2_1_pb2 as pb

__all__ = [
    "BLOCK",
    "MINI_BLOCK",
    "PER_VALUE",
    "BlockCodec",
    "MiniBlockCodec",
    "PerValueCodec",
    "block_codec",
    "mini_block_codec",
    "per_value_codec",
]

C = TypeVar("C")


def mini_block_codec(encoding: pb.CompressiveEncoding) -> MiniBlockCodec:
    """Return the codec of the values of a mini-block page.

    Raises:
        UnsupportedError: the codec is unknown, or not allowed in mini-blocks.
        CorruptFileError: the description is inconsistent.
    """
    return _look_up(MINI_BLOCK, encoding, "mini-blocks")


def per_value_codec(encoding: pb.CompressiveEncoding) -> PerValueCodec:
    """Return the codec of the values of a full-zip page.

    Raises:
        UnsupportedError: the codec is unknown, or not allowed in full-zip pages.
        CorruptFileError: the description is inconsistent.
    """
    return _look_up(PER_VALUE, encoding, "full-zip pages")


def block_codec(encoding: pb.CompressiveEncoding) -> BlockCodec:
    """Return the codec of levels or of a dictionary.

    Raises:
        UnsupportedError: the codec is unknown, or not allowed in blocks.
        CorruptFileError: the description is inconsistent.
    """
    return _look_up(BLOCK, encoding, "blocks")


def _look_up(
    table: Mapping[str, Callable[[Any], C]], encoding: pb.CompressiveEncoding, place: str
) -> C:
    name = variant(encoding)
    if name not in table:
        raise UnsupportedError(f"compression {name} in {place}: expected one of {sorted(table)}")
    return table[name](getattr(encoding, name))


def _general_mini_block(message: pb.General) -> MiniBlockCodec:
    expect(message.values, COMPRESSED_IN_MINI_BLOCKS, "general")
    return General.from_proto(message, mini_block_codec(message.values))


def _general_per_value(message: pb.General) -> PerValueCodec:
    expect(message.values, ("variable",), "general values")
    return General.from_proto(message, per_value_codec(message.values))


def _general_block(message: pb.General) -> BlockCodec:
    expect(message.values, COMPRESSED_IN_BLOCKS, "general block")
    return General.from_proto(message, block_codec(message.values))


def _variable_packed_struct(message: pb.VariablePackedStruct) -> PerValueCodec:
    for child in message.fields:
        expect(
            child.value,
            PER_VALUE.keys() - {"variable_packed_struct", "constant"},
            "variable packed struct",
        )
    return VariablePackedStruct.from_proto(
        message, [per_value_codec(child.value) for child in message.fields]
    )


MINI_BLOCK: Final[Mapping[str, Callable[[Any], MiniBlockCodec]]] = {
    "flat": Flat.from_proto,
    "variable": variable_codec,
    "inline_bitpacking": InlineBitpacking.from_proto,
    "fsst": Fsst.from_proto,
    "rle": Rle.from_proto,
    "byte_stream_split": ByteStreamSplit.from_proto,
    "general": _general_mini_block,
    "fixed_size_list": FixedSizeList.mini_block,
    "packed_struct": PackedStruct.from_proto,
}

PER_VALUE: Final[Mapping[str, Callable[[Any], PerValueCodec]]] = {
    "flat": Flat.per_value,
    "variable": Variable.from_proto,
    "fsst": Fsst.from_proto,
    "general": _general_per_value,
    "fixed_size_list": FixedSizeList.per_value,
    "packed_struct": PackedStruct.from_proto,
    "variable_packed_struct": _variable_packed_struct,
    "constant": Constant.from_proto,
}

BLOCK: Final[Mapping[str, Callable[[Any], BlockCodec]]] = {
    "flat": Flat.from_proto,
    "variable": Variable.from_proto,
    "inline_bitpacking": InlineBitpacking.from_proto,
    "out_of_line_bitpacking": OutOfLineBitpacking.from_proto,
    "rle": Rle.from_proto,
    "general": _general_block,
    "fixed_size_list": FixedSizeList.per_value,  # items have the format of zipped rows
    "constant": Constant.from_proto,
}

COMPRESSED_IN_MINI_BLOCKS: Final = MINI_BLOCK.keys() - {"packed_struct"}
COMPRESSED_IN_BLOCKS: Final = frozenset(["flat", "variable", "fixed_size_list"])
