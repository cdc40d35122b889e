"""Which buffers of a page hold values: a read needs the others to know what to ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError

from alance.errors import CorruptFileError
from alance.format.proto import encodings_v2_0_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator


def value_buffers(encoding: bytes) -> frozenset[int]:
    """The numbers of a page's buffers that do not tell where others are to be read.

    Args:
        encoding: a serialized google.protobuf.Any of an ArrayEncoding.

    Raises:
        CorruptFileError: it is none.
    """
    try:
        message = AnyMessage.FromString(encoding)
        return frozenset(_values(pb.ArrayEncoding.FromString(message.value)))
    except DecodeError as error:
        raise CorruptFileError(f"a page's description: {error}") from error


def _values(message: pb.ArrayEncoding) -> Iterator[int]:
    match message.WhichOneof("array_encoding"):
        case "flat":
            yield message.flat.buffer.buffer_index
        case "nullable":
            yield from _values(message.nullable.no_nulls.values)
            yield from _values(message.nullable.some_nulls.validity)
            yield from _values(message.nullable.some_nulls.values)
        case "fixed_size_list":
            yield from _values(message.fixed_size_list.items)
        case "binary":
            yield from _values(message.binary.bytes)
        case "fsst":
            yield from _values(message.fsst.binary)
        case "dictionary":
            yield from _values(message.dictionary.indices)
            yield from _values(message.dictionary.items)
        case "packed_struct":
            yield message.packed_struct.buffer.buffer_index
