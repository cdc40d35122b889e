"""Mapping of a schema's fields to 2.0 columns, and encoder of their rows as pages.

The encodings are those that the reference implementation uses:

  fixed width, lists of fixed size   flat; nullable if there are nulls
  strings                            binary; a dictionary of few distinct ones; zstd, lz4, fsst
                                     if the field's metadata request it
  dictionaries                       indices of the type's width; a null is a null item
  packed structs, blobs              row-major, without nulls

Source: file format 2.0, "From schema to columns", "What pylance's 2.0 writer emits", "Rules for our
2.0 writer".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

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
)
from alance.format.codecs.general import compress
from alance.format.codecs.strings import FSST_MAGIC, TABLE_BYTES
from alance.format.encode.arrays import children_of, leaf_values, need
from alance.format.encode.container import FileBuilder, column_encoding
from alance.format.encode.leaves import check_offsets
from alance.format.encode.options import Compression, FieldOptions
from alance.format.encode.page_inputs import EncodedPage, Hints
from alance.format.layouts.fields import owns_column
from alance.format.numbers import is_variable_list, lists_of, storage_of, validity_of
from alance.format.proto import encodings_v2_0_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    import numpy.typing as npt

    from alance.base.arrays import Bytes, Int64s, Mask
    from alance.format.blocks import Block
    from alance.format.field import Field
    from alance.format.schema import Schema

MAX_DICTIONARY_ITEMS: Final = 99  # maximum items of a dictionary that only compresses strings
# Distinct values at which counting stops; must exceed the size of the initial sample.
COUNTED: Final = 2048
MIN_DICTIONARY_ROWS: Final = 100  # minimum rows of a page with a dictionary
ITEM_BYTES: Final = 1 << 20
FSST_SAMPLE_BYTES: Final = 32768  # bytes; larger samples hardly improve the symbols
MAX_FSST_BYTES: Final = 1 << 30  # bytes; offsets fit into 32 bits even if every byte is escaped
# Largest relative size of the codes and the table; above it, strings stay plain.
MOST_FSST_SHARE: Final = 0.95
PLAIN_OPTIONS: Final = FieldOptions.of(Hints(FileVersion.V2_0, {}))


def _leaf(field: Field, array: pa.Array) -> EncodedPage | Blobs:
    """Encode a page of a leaf, packed struct or dictionary."""
    leaf = leaf_values(field, array)[field.id]
    valid = None if leaf.definition is None else leaf.definition == 0
    block, buffers = leaf.values, Buffers()
    options = FieldOptions.of(Hints(FileVersion.V2_0, field.metadata))
    if field.is_blob_v1:
        assert isinstance(block, VariableWidth)
        return Blobs(block, valid)
    if leaf.num_rows == 0:
        encoding = all_nulls()
    elif isinstance(block, VariableWidth):
        encoding = _strings(field, block, valid, options, buffers)
    elif isinstance(block, DictionaryBlock):
        encoding = _dictionary(field, block, valid, buffers)
    elif isinstance(block, StructBlock):
        if valid is not None:
            raise InvalidInputError(f"field {field.name!r}: null packed structs in version 2.0")
        encoding = _packed_struct(field, block, buffers)
    else:
        encoding = _nullable(field, block, valid, buffers)
    return EncodedPage.of(encoding, tuple(buffers.all), leaf.num_rows)


def _nullable(field: Field, block: Block, valid: Mask | None, buffers: Buffers) -> pb.ArrayEncoding:
    if isinstance(block, NullBlock) or (valid is not None and not valid.any()):
        return all_nulls()
    if valid is None or valid.all():
        return no_nulls(_fixed(field, block, buffers))
    validity = buffers.flat(1, np.packbits(valid, bitorder="little"))
    with_nulls = pb.Nullable.SomeNull(validity=validity, values=_fixed(field, block, buffers))
    return pb.ArrayEncoding(nullable=pb.Nullable(some_nulls=with_nulls))


def _fixed(field: Field, block: Block, buffers: Buffers) -> pb.ArrayEncoding:
    if isinstance(block, FixedWidth):
        size = (block.num_values * block.bits_per_value + 7) // 8
        return buffers.flat(block.bits_per_value, block.data[:size])
    if not isinstance(block, FixedSizeListBlock):
        raise UnsupportedError(f"field {field.name!r}: {field.logical_type} in version 2.0")
    valid = None
    if block.validity is not None:
        count = block.items.num_values
        valid = np.unpackbits(block.validity, count=count, bitorder="little").view(np.bool_)
    items = _nullable(field, block.items, valid, buffers)
    return pb.ArrayEncoding(
        fixed_size_list=pb.FixedSizeList(dimension=block.dimension, items=items)
    )


def _binary(
    block: VariableWidth, valid: Mask | None, options: FieldOptions, buffers: Buffers
) -> pb.ArrayEncoding:
    indices, adjustment = buffers.ends(block.offsets.astype(np.int64), valid)
    data = block.data[: int(block.offsets[-1])]
    flat = pb.Flat(bits_per_value=8)
    if options.scheme is not None:
        data = compress(options.scheme, options.level, data)
        flat.compression.scheme = options.compression.name.lower()
        if options.level is not None:
            flat.compression.level = options.level
    flat.buffer.CopyFrom(buffers.add(data))
    return pb.ArrayEncoding(
        binary=pb.Binary(
            indices=indices, bytes=pb.ArrayEncoding(flat=flat), null_adjustment=adjustment
        )
    )


def _strings(
    field: Field, block: VariableWidth, valid: Mask | None, options: FieldOptions, buffers: Buffers
) -> pb.ArrayEncoding:
    if field.logical_type == "string" and block.num_values >= MIN_DICTIONARY_ROWS:
        distinct = _kernels.distinct_strings(block.offsets, block.data, COUNTED, ITEM_BYTES)
        if distinct is not None and len(distinct[1]) <= MAX_DICTIONARY_ITEMS + 1:
            places = (distinct[0] + 1).astype(np.uint8)
            if valid is not None:
                places[~valid] = 0
            return _keyed(field, places, VariableWidth(*distinct[1:]), None, buffers)
    if options.compression is Compression.FSST and field.logical_type in ("string", "binary"):
        codes = compressed(block)
        if codes is not None:
            inner = _binary(codes[1], valid, PLAIN_OPTIONS, buffers)
            return pb.ArrayEncoding(fsst=pb.Fsst(binary=inner, symbol_table=codes[0]))
    return _binary(block, valid, options, buffers)


def compressed(strings: VariableWidth) -> tuple[bytes, VariableWidth] | None:
    """Return the symbol table, and the strings as codes; None if codes are not much smaller.

    The type of the offsets does not change.
    """
    num_bytes = int(strings.offsets[-1]) - int(strings.offsets[0])
    if not 0 < num_bytes < MAX_FSST_BYTES:
        return None
    symbols, lengths, plain, encoded = _kernels.learn_fsst(
        strings.offsets, strings.data, FSST_SAMPLE_BYTES
    )
    most = MOST_FSST_SHARE * num_bytes - TABLE_BYTES
    if encoded / max(plain, 1) * num_bytes > most:
        return None
    offsets, codes = _kernels.encode_fsst(strings.offsets, strings.data, symbols, lengths)
    if offsets[-1] > most:
        return None
    # Set the flag that the strings are compressed.
    header = bytes([len(symbols), 0, 0, 1]) + FSST_MAGIC
    table = header + symbols.astype("<u8").tobytes() + lengths.tobytes()
    return table.ljust(TABLE_BYTES, b"\0"), VariableWidth(offsets, codes[: offsets[-1]])


def _dictionary(
    field: Field, block: DictionaryBlock, valid: Mask | None, buffers: Buffers
) -> pb.ArrayEncoding:
    """Encode indices of the declared width; a null becomes the index of an additional null item."""
    bits, items, count = block.indices.bits_per_value, block.items, block.items.num_values
    raw = block.indices.data.view(f"<u{bits // 8}")[: block.num_values]
    item_valid = None
    if valid is not None:
        signed = not field.logical_type.split(":")[-2].startswith("u")
        if count >= 1 << (bits - signed):
            raise InvalidInputError(
                f"field {field.name!r}: a dictionary of {count} values and a null for "
                f"indices of {bits} bits; version 2.0 stores the null as a value"
            )
        raw = np.where(valid, raw, count).astype(raw.dtype)
        item_valid = np.arange(count + 1) < count
        items = _with_one_more(field, items)
    return _keyed(field, raw, items, item_valid, buffers)


def _keyed(
    field: Field, raw: npt.NDArray[Any], items: Block, valid: Mask | None, buffers: Buffers
) -> pb.ArrayEncoding:
    """Encode indices, unsigned, and their items."""
    data = np.ascontiguousarray(raw).view(np.uint8)
    indices = no_nulls(buffers.flat(8 * raw.itemsize, data))
    if isinstance(items, VariableWidth):
        encoded = _binary(items, valid, PLAIN_OPTIONS, buffers)
    else:
        encoded = _nullable(field, items, valid, buffers)
    return pb.ArrayEncoding(
        dictionary=pb.Dictionary(
            indices=indices, items=encoded, num_dictionary_items=items.num_values
        )
    )


def _with_one_more(field: Field, items: Block) -> Block:
    """Append an item for nulls."""
    if isinstance(items, VariableWidth):
        offsets = np.append(items.offsets, items.offsets[-1:]).astype(np.int64)
        return VariableWidth(offsets, items.data)
    if not isinstance(items, FixedWidth):
        raise UnsupportedError(f"field {field.name!r}: {field.logical_type} in version 2.0")
    bits, count = items.bits_per_value, items.num_values + 1
    data = np.zeros((count * bits + 7) // 8, np.uint8)
    data[: len(items.data)] = items.data
    return FixedWidth(bits, count, data)


def _packed_struct(field: Field, block: StructBlock, buffers: Buffers) -> pb.ArrayEncoding:
    columns, widths, inner = [], [], []
    for child in block.children:
        per_row, leaf = 1, child
        while isinstance(leaf, FixedSizeListBlock):
            if leaf.validity is not None:
                raise InvalidInputError(f"field {field.name!r}: nulls inside packed structs")
            per_row *= leaf.dimension
            leaf = leaf.items
        if not isinstance(leaf, FixedWidth) or leaf.bits_per_value % 8:
            raise UnsupportedError(
                f"field {field.name!r}: packed structs of version 2.0 hold values of equal width"
            )
        widths.append(leaf.bits_per_value * per_row)
        columns.append(leaf.data[: block.num_values * widths[-1] // 8])
        inner.append(_nullable(field, child, None, Buffers()))
    if not columns:
        raise UnsupportedError(f"field {field.name!r}: a packed struct without children")
    rows = _kernels.zip_columns(columns, np.array(widths, np.int64), block.num_values)
    packed = pb.PackedStruct(inner=inner, buffer=buffers.add(rows))
    return pb.ArrayEncoding(packed_struct=packed)


def blob_page(positions: Int64s, sizes: Int64s, valid: Mask | None) -> EncodedPage:
    """Encode a page of blob positions and sizes; a null is (1, 0), an empty blob (0, 0)."""
    places = np.zeros((len(positions), 2), "<u8")
    places[:, 0], places[:, 1] = np.where(sizes > 0, positions, 0), sizes
    if valid is not None:
        places[~valid] = (1, 0)
    number = no_nulls(pb.ArrayEncoding(flat=pb.Flat(bits_per_value=64, buffer=pb.Buffer())))
    packed = pb.PackedStruct(inner=[number, number], buffer=pb.Buffer())
    encoding = pb.ArrayEncoding(packed_struct=packed)
    return EncodedPage.of(encoding, (places.reshape(-1).view(np.uint8),), len(positions))


class Buffers:
    """Collector of the buffers of a page, and builder of messages that refer to them."""

    def __init__(self) -> None:
        self.all: list[Bytes] = []

    def add(self, content: Bytes) -> pb.Buffer:
        """Add a buffer; return the message that refers to it."""
        self.all.append(content)
        return pb.Buffer(buffer_index=len(self.all) - 1)

    def flat(self, bits: int, content: Bytes) -> pb.ArrayEncoding:
        """Add fixed-width values as a buffer; return their description."""
        return pb.ArrayEncoding(flat=pb.Flat(bits_per_value=bits, buffer=self.add(content)))

    def ends(self, offsets: Int64s, valid: Mask | None) -> tuple[pb.ArrayEncoding, int]:
        """Add the end of each string or list.

        Returns:
            Their description, and the number that is added to the ends of nulls.
        """
        adjustment = int(offsets[-1]) + 1
        ends = offsets[1:].astype("<u8")
        if valid is not None:
            ends[~valid] += np.uint64(adjustment)
        return no_nulls(self.flat(64, ends.view(np.uint8))), adjustment


def no_nulls(values: pb.ArrayEncoding) -> pb.ArrayEncoding:
    """Describe values without nulls."""
    return pb.ArrayEncoding(nullable=pb.Nullable(no_nulls=pb.Nullable.NoNull(values=values)))


def all_nulls() -> pb.ArrayEncoding:
    """Describe rows that are all null, or no rows."""
    return pb.ArrayEncoding(nullable=pb.Nullable(all_nulls=pb.Nullable.AllNull()))


V2_0_NESTED = ("struct", "list", "list.struct", "large_list", "large_list.struct")


@dataclass(frozen=True, slots=True)
class Blobs:
    """Rows of a blob column whose payloads have no position in the file yet."""

    payloads: VariableWidth
    valid: Mask | None


def columns_of(fields: Iterable[Field]) -> Iterator[Field]:
    """Yield the fields that have a column, in the order of the columns: depth-first.

    Raises:
        UnsupportedError: 2.0 files cannot hold the type of a field.
    """
    for field in fields:
        if field.is_blob_v2 or not (owns_column(field) or field.logical_type in V2_0_NESTED):
            kind = "blobs of version 2" if field.is_blob_v2 else field.logical_type
            raise UnsupportedError(f"field {field.name!r}: {kind} in a file of version 2.0")
        yield field
        if not owns_column(field):
            yield from columns_of(field.children)


def is_header(field: Field) -> bool:
    """True if the field's column has no values: for structs that are not packed."""
    return field.logical_type == "struct" and not field.is_packed


def header_page(num_rows: int) -> EncodedPage:
    """Return the page of a struct's rows."""
    return EncodedPage.of(pb.ArrayEncoding(struct=pb.SimpleStruct()), (), num_rows)


def outside_lists(field: Field, array: pa.Array) -> Iterator[tuple[Field, pa.Array]]:
    """Yield the rows of a field and of its descendants that are not in lists, depth-first.

    Raises:
        InvalidInputError: a struct is null, which 2.0 cannot store.
    """
    if not is_header(field):
        yield field, array
        return
    array = storage_of(array)
    need(field, array, pa.types.is_struct(array.type))
    if array.null_count:
        raise InvalidInputError(
            f"field {field.name!r}: null structs cannot be stored in a file of version 2.0"
        )
    yield field, array
    for child, part in zip(field.children, children_of(field, array), strict=True):
        yield from outside_lists(child, part)


def field_pages(top: Field, rows: pa.Array) -> Iterator[tuple[int, EncodedPage | Blobs]]:
    """Encode rows of a field and its descendants as pages; yield them with their field ids."""
    for field, array in outside_lists(top, rows):
        if is_header(field):
            yield field.id, header_page(len(array))
        elif owns_column(field):
            yield field.id, _leaf(field, array)
        else:
            page, items = _lists(field, storage_of(array))
            yield field.id, page
            yield from field_pages(field.children[0], items)


def _lists(field: Field, array: pa.Array) -> tuple[EncodedPage, pa.Array]:
    """Return the page of a list's offsets, and its items. Items of null lists are included."""
    need(field, array, is_variable_list(array.type))
    valid = validity_of(array)
    if valid is not None and not field.nullable:
        raise InvalidInputError(f"field {field.name!r}: nulls, and the field is not nullable")
    offsets, items = lists_of(array)
    check_offsets(offsets, len(items), field.name)
    buffers = Buffers()
    ends, adjustment = buffers.ends(offsets, valid)
    lists = pb.List(offsets=ends, null_offset_adjustment=adjustment, num_items=len(items))
    return EncodedPage.of(pb.ArrayEncoding(list=lists), tuple(buffers.all), len(array)), items


class ArrayFileBuilder(FileBuilder):
    """Builder of a 2.0 file: a `FileBuilder` with array-encoded pages.

    Attributes:
        columns: column number of each field, by field id.
    """

    def __init__(self, schema: Schema) -> None:
        fields = [*columns_of(schema.fields)]
        self.columns = {field.id: number for number, field in enumerate(fields)}
        self._headers = {number for number, field in enumerate(fields) if is_header(field)}
        encodings = [column_encoding(is_blob=field.is_blob_v1) for field in fields]
        tops = {self.columns[field.id]: 1 for field in schema.fields}
        super().__init__(schema, FileVersion.V2_0, 0, encodings, tops)

    def add_page(self, column: int, page: EncodedPage) -> list[Bytes]:
        """Return the bytes of a column's next page. All rows of a struct become a single page."""
        if column not in self._headers:
            return super().add_page(column, page)
        self._lengths[column] += page.num_rows
        return []

    def finish(self) -> list[Bytes]:
        """Return the bytes at the end of the file."""
        for number in sorted(self._headers):
            length, self._lengths[number] = self._lengths[number], 0
            super().add_page(number, header_page(length))
        return super().finish()
