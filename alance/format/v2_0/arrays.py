"""Pages of 2.0: descriptions parsed to trees of encodings, and checked against the buffers.

The kernel can take single rows from pages of fixed-width values without nulls.

Source: encodings_v2_0.proto, ArrayEncoding; file format 2.0, "Layout of each encoding".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError

from alance.base.records import dataclass
from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.format.codecs.base import MAX_BITS_PER_VALUE, MOST_BITS
from alance.format.codecs.general import SCHEMES, Scheme
from alance.format.codecs.strings import SymbolTable
from alance.format.container import ARRAY_ENCODING
from alance.format.layouts import MAX_PAGE_ROWS
from alance.format.layouts.place import PagePlace
from alance.format.proto import encodings_v2_0_pb2 as pb
from alance.format.v2_0.base import AllNulls, ArrayEncoding, kind_of, unsupported
from alance.format.v2_0.fixed import (
    FixedSizeListEncoding,
    FlatEncoding,
    PackedStructEncoding,
    SomeNulls,
    plain_bits,
)
from alance.format.v2_0.strings import (
    Binary,
    DictionaryEncoding,
    FsstEncoding,
    Indices,
    StringPlaces,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from google.protobuf.message import Message

    from alance.format.plans import Plan
    from alance.format.v2_0.base import ArrayPiece, Spans

# Members of encodings that are read before values, or have no buffers.
WITHOUT_VALUES: Final = frozenset(
    f"lance.encodings.{name}" for name in ("Binary.indices", "List.offsets", "PackedStruct.inner")
)
DICTIONARY: Final = "dict:"  # prefix of the logical types of dictionary fields
# Types of a dictionary's indices by their bits.
INDEX_TYPES: Final = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


@dataclass(frozen=True, slots=True)
class Offsets:
    """Offsets page of a list: the end of each row's items."""

    indices: Indices
    num_items: int


@dataclass(frozen=True, slots=True)
class Header:
    """Page of a struct, which has rows but no values."""


@dataclass(frozen=True, slots=True)
class ArrayPage:
    """Page of a 2.0 column."""

    place: PagePlace
    root: ArrayEncoding | Offsets | Header

    def values(self, spans: Spans, *, as_places: bool = False) -> Plan[ArrayPiece]:
        """Plan the values of rows.

        Args:
            as_places: True to return blobs stored as strings as the positions of their bytes.
        """
        if isinstance(self.root, Offsets | Header):
            kind = type(self.root).__name__.lower()
            raise self.place.corrupt(f"{kind} where its column has values")
        root = self.root
        if as_places and isinstance(root, Binary) and root.scheme is None:
            root = StringPlaces(root)
        return (yield from root.plan(self.place, spans))


def array_page(
    encoding: bytes,
    *,
    path: str,
    buffers: Sequence[tuple[int, int]],
    num_rows: int,
    logical_type: str,
) -> ArrayPage:
    """Parse the description of a page.

    Args:
        encoding: serialized description, a `google.protobuf.Any`.
        buffers: (absolute offset, size) of each buffer, inside the file.
        logical_type: logical type of the field. It decides if a dictionary is one of the field's
            type or only a compression.
    """
    place = PagePlace(path, tuple((int(start), int(size)) for start, size in buffers), num_rows)
    try:
        if num_rows >= MAX_PAGE_ROWS:
            raise CorruptFileError(f"a page of {num_rows} rows")
        message = AnyMessage.FromString(encoding)
        if not message.type_url.endswith(ARRAY_ENCODING):
            raise UnsupportedError(f"page encoding {message.type_url!r} in a file of version 2.0")
        parser = _EncodingParser(place, logical_type.startswith(DICTIONARY))
        return ArrayPage(place, parser.root(pb.ArrayEncoding.FromString(message.value)))
    except DecodeError as error:
        raise place.corrupt(f"its description: {error}") from error
    except AlanceError as error:
        error.add_note(str(place.corrupt("its description")))
        raise


@dataclass(frozen=True, slots=True)
class _EncodingParser:
    place: PagePlace
    is_dictionary: bool
    is_inside: bool = False  # True for children of packed structs, which have no buffers

    def root(self, message: pb.ArrayEncoding) -> ArrayEncoding | Offsets | Header:
        match kind_of(message):
            case "struct":
                return Header()
            case "list":
                indices = self._indices(
                    message.list.offsets,
                    self.place.num_rows,
                    message.list.null_offset_adjustment,
                    "list",
                )
                if message.list.num_items >= MAX_PAGE_ROWS:
                    raise CorruptFileError(f"a page of {message.list.num_items} items")
                return Offsets(indices, message.list.num_items)
        return self.encoding(message, self.place.num_rows)

    def encoding(self, message: pb.ArrayEncoding, count: int) -> ArrayEncoding:
        """Parse the encoding tree of `count` values."""
        match kind := kind_of(message):
            case "flat":
                return self._flat(message.flat, count)
            case "nullable":
                return self._nullable(message.nullable, count)
            case "fixed_size_list":
                return self._fixed_size_list(message.fixed_size_list, count)
            case "binary":
                return self._binary(message.binary, count)
            case "fsst":
                table = SymbolTable.parse(message.fsst.symbol_table)
                if kind_of(message.fsst.binary) != "binary":
                    raise unsupported(f"fsst of {kind_of(message.fsst.binary)}")
                return FsstEncoding(table, self._binary(message.fsst.binary.binary, count))
            case "dictionary":
                return self._dictionary(message.dictionary, count)
            case "packed_struct":
                return self._packed_struct(message.packed_struct, count)
        raise unsupported(kind)

    def _buffer(self, message: pb.Buffer, num_bytes: int, what: str) -> int:
        if self.is_inside:
            return 0
        if message.buffer_type != pb.Buffer.page:
            raise UnsupportedError(f"{what}: a buffer of the column or file")
        number = message.buffer_index
        if number >= (count := len(self.place.buffers)):
            raise self.place.corrupt(f"{what} needs {number + 1} buffers, the page has {count}")
        if self.place.size(number) < num_bytes:
            raise CorruptFileError(
                f"{what}: {num_bytes} bytes in a buffer of {self.place.size(number)}"
            )
        return number

    def _flat(self, message: pb.Flat, count: int) -> FlatEncoding:
        if _scheme(message) is not None:
            raise unsupported("flat, compressed, outside of binary")
        return self._plain(message, count)

    def _plain(self, message: pb.Flat, count: int) -> FlatEncoding:
        bits = message.bits_per_value
        if bits != 1 and (bits % 8 or bits > MAX_BITS_PER_VALUE):
            raise CorruptFileError(f"flat: values of {bits} bits")
        return FlatEncoding(bits, self._buffer(message.buffer, (count * bits + 7) // 8, "flat"))

    def _nullable(self, message: pb.Nullable, count: int) -> ArrayEncoding:
        match message.WhichOneof("nullability"):
            case "no_nulls":
                return self.encoding(message.no_nulls.values, count)
            case "all_nulls":
                return AllNulls()
            case "some_nulls":
                validity = self.encoding(message.some_nulls.validity, count)
                if not isinstance(validity, FlatEncoding) or validity.bits_per_value != 1:
                    raise CorruptFileError("nullable: a validity that is no bitmap")
                return SomeNulls(validity, self.encoding(message.some_nulls.values, count))
        raise CorruptFileError("nullable: none of its three kinds")

    def _fixed_size_list(self, message: pb.FixedSizeList, count: int) -> FixedSizeListEncoding:
        if message.has_validity:
            raise unsupported("fixed-size list with a validity of its own")
        dimension = message.dimension
        if dimension == 0 or count * dimension >= MAX_PAGE_ROWS:
            raise CorruptFileError(f"fixed-size list of {dimension} items, {count} rows")
        return FixedSizeListEncoding(dimension, self.encoding(message.items, count * dimension))

    def _indices(
        self, message: pb.ArrayEncoding, count: int, adjustment: int, what: str
    ) -> Indices:
        values = self.encoding(message, count)
        if not isinstance(values, FlatEncoding) or values.bits_per_value != 64:
            raise CorruptFileError(f"{what}: indices that are not plain, of 64 bits")
        return Indices(values.buffer, adjustment)

    def _binary(self, message: pb.Binary, count: int) -> Binary:
        indices = self._indices(message.indices, count, message.null_adjustment, "binary")
        content = message.bytes
        if kind_of(content) == "nullable" and content.nullable.HasField("no_nulls"):
            content = content.nullable.no_nulls.values
        if kind_of(content) != "flat" or content.flat.bits_per_value != 8:
            raise CorruptFileError("binary: bytes that are not flat")
        flat = self._plain(content.flat, 0)
        return Binary(indices, flat.buffer, count, _scheme(content.flat))

    def _packed_struct(self, message: pb.PackedStruct, count: int) -> PackedStructEncoding:
        inside = replace(self, is_inside=True)
        bits = tuple(plain_bits(inside.encoding(inner, count)) for inner in message.inner)
        row_bytes = sum(bits) // 8
        if not bits or row_bytes * count >= MAX_PAGE_ROWS or not all(bits):
            raise CorruptFileError(f"packed struct of {row_bytes} bytes, {count} rows")
        buffer = self._buffer(message.buffer, row_bytes * count, "packed struct")
        return PackedStructEncoding(bits, buffer)

    def _dictionary(self, message: pb.Dictionary, count: int) -> DictionaryEncoding:
        indices, num_items = self.encoding(message.indices, count), message.num_dictionary_items
        values = indices.values if isinstance(indices, SomeNulls) else indices
        bits = values.bits_per_value if isinstance(values, FlatEncoding) else 0
        if bits not in INDEX_TYPES and not isinstance(values, AllNulls):
            raise CorruptFileError("dictionary: indices that are no integers")
        index_type = INDEX_TYPES.get(bits, pa.uint8())
        items = self.encoding(message.items, num_items)
        return DictionaryEncoding(indices, index_type, items, num_items, not self.is_dictionary)


def _scheme(message: pb.Flat) -> Scheme | None:
    name = message.compression.scheme
    if not message.HasField("compression") or name in ("none", ""):
        return None
    if name not in SCHEMES:
        raise UnsupportedError(f"compression scheme {name!r}")
    return SCHEMES[name]


def plain_values(page: ArrayPage) -> tuple[int, int] | None:
    """Return the number of the buffer of fixed-width values without nulls, and the bits of a value.

    Returns None for other pages, whose rows the kernel cannot take.
    """
    root = page.root
    if isinstance(root, Offsets | Header) or not 0 < (bits := plain_bits(root)) <= MOST_BITS:
        return None
    while isinstance(root, FixedSizeListEncoding):
        root = root.items
    assert isinstance(root, FlatEncoding)
    return root.buffer, bits


def value_buffers(encoding: bytes) -> frozenset[int]:
    """Return the numbers of the buffers with values; no other reads depend on these buffers."""
    try:
        message = AnyMessage.FromString(encoding)
        return frozenset(_values(pb.ArrayEncoding.FromString(message.value)))
    except DecodeError as error:
        raise CorruptFileError(f"a page's description: {error}") from error


def _values(message: Message) -> Iterator[int]:
    for field, value in message.ListFields():
        if isinstance(value, pb.Buffer):
            yield value.buffer_index
        elif field.message_type is not None and field.full_name not in WITHOUT_VALUES:
            yield from _values(value)
