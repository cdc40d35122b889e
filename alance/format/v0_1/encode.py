"""Encoder of 0.1 files: pages of batches, page table, statistics, dictionaries, metadata.

Pages are plain bytes, offsets or keys. Most nulls are lost: a null string becomes an empty string,
a null list becomes empty, a null number becomes 0, and a null struct becomes valid.

The module `statistics` explains the statistics of batches. Bounds of strings are truncated to 64
bytes. If a string of a batch was truncated, the batch's upper bound is raised to the next larger
string.

Source: docs/format/file-0.1.md, "File skeleton", "Pages", "Page statistics" and "Rules for a 0.1
writer".
"""

from __future__ import annotations

import decimal
from dataclasses import field as attribute
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.errors import InvalidInputError, UnsupportedError
from alance.format.blocks import FixedSizeListBlock, FixedWidth, VariableWidth
from alance.format.container import MAGIC
from alance.format.encode.arrays import live_lists, need
from alance.format.encode.leaves import as_type, block_of, check_offsets
from alance.format.numbers import (
    as_numbers,
    is_variable,
    is_variable_list,
    lists_of,
    numpy_type,
    storage_of,
    storage_type,
    text_array,
    to_arrow,
    validity_of,
)
from alance.format.numbers import is_text as is_text_type
from alance.format.proto import file_pb2, table_pb2
from alance.format.schema import Schema
from alance.format.table.dictionaries import KEYED_TYPES, place_values
from alance.format.types import is_nested, leaf_type
from alance.format.v0_1.dictionary import values_of
from alance.format.v0_1.fields import is_list, is_text, page_bits
from alance.format.v0_1.metadata import V0_1_FOOTER, V0_1_LENGTH
from alance.format.v0_1.statistics import MAX_VALUE, MIN_VALUE, NULL_COUNT, has_statistics
from alance.format.v2_0.fixed import row_bits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from google.protobuf.message import Message

    from alance.base.arrays import Bytes, Int64s, Mask
    from alance.format.blocks import Block
    from alance.format.field import Field
    from alance.format.v0_1.dictionary import KeptValues


MAX_FILE_ROWS: Final = (1 << 31) - 1  # maximum rows of a file
# Position and number of entries of each page, by field id; structs have no pages.
PageTable: TypeAlias = dict[int, list[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class EncodedBatchPage:
    """Page of a batch, before its position in the file is known.

    Attributes:
        length: number of entries, for the page table.
        body: bytes to write at the page's position; for strings their offsets, from 0.
        data: bytes to write before the page's position: those of strings; None for other fields.
        leaf: rows of a field that may have statistics; None for other fields.
        is_lossy: True if some nulls are not stored.
    """

    field: Field
    length: int
    body: Bytes | Int64s
    data: Bytes | None = None
    leaf: pa.Array | None = None
    is_lossy: bool = False


def check_types(field: Field) -> None:
    """Check that 0.1 files can hold a field."""
    kind = field.logical_type
    # Packed structs are allowed: they are stored like other structs.
    bad = field.is_json or field.is_blob_v2
    if kind.startswith("dict:"):
        value = kind.split(":")[1]
        bad |= value not in KEYED_TYPES and not pa.types.is_integer(leaf_type(value))
    elif is_nested(kind):
        bad |= kind != "struct" and not is_list(field)
    elif not is_text(field) and kind != "null":
        arrow = storage_type(leaf_type(kind))
        bad |= not row_bits(arrow) or kind.startswith(("decimal:32", "decimal:64", "interval"))
    if bad:
        name = "JSON" if field.is_json else kind
        raise UnsupportedError(f"field {field.name!r}: {name} in a file of version 0.1")
    for child in field.children:
        check_types(child)


def pages_of(
    field: Field, array: pa.Array, dictionaries: Mapping[int, KeptValues]
) -> Iterator[EncodedBatchPage]:
    """Yield the pages of a field for a batch, depth-first."""
    array = storage_of(array)
    if field.logical_type == "struct":
        need(field, array, pa.types.is_struct(array.type))
        lossy = bool(array.null_count)
        for child in field.children:
            place = array.type.get_field_index(child.name)
            need(field, array, place >= 0)
            for page in pages_of(child, array.field(place), dictionaries):
                yield replace(page, is_lossy=True) if lossy else page
        return
    if is_list(field):
        yield from _list(field, array, dictionaries)
        return
    if field.logical_type == "null":
        yield EncodedBatchPage(field, len(array), np.empty(0, np.uint8))
        return
    arrow = storage_type(leaf_type(field.logical_type))
    array = as_type(array, arrow, field.name)
    valid = validity_of(array)
    if valid is not None and not field.nullable:
        raise InvalidInputError(f"field {field.name!r}: nulls, and the field is not nullable")
    if is_text(field):
        block = block_of(array, valid, field.name)
        assert isinstance(block, VariableWidth)
        offsets = block.offsets.astype(np.int64, copy=False)
        yield EncodedBatchPage(field, len(array), offsets, block.data, array)
    elif pa.types.is_dictionary(arrow):
        keys = dictionaries[field.id].keys(array, valid)
        body = keys.view(np.uint8)
        yield EncodedBatchPage(field, len(array), body, is_lossy=valid is not None)
    else:
        body = _plain(block_of(array, valid, field.name), valid)
        yield EncodedBatchPage(field, len(array), body, leaf=array, is_lossy=valid is not None)


def _list(
    field: Field, array: pa.Array, dictionaries: Mapping[int, KeptValues]
) -> Iterator[EncodedBatchPage]:
    need(field, array, is_variable_list(array.type))
    valid = validity_of(array)
    starts, items = lists_of(array)
    check_offsets(starts, len(items), field.name)
    offsets, items = live_lists(starts, items, valid)
    large = field.logical_type.startswith("large")
    if not large and int(offsets[-1]) >= 1 << 31:
        raise InvalidInputError(f"field {field.name!r}: {offsets[-1]} items in one batch")
    body = offsets.astype("<i8" if large else "<i4").view(np.uint8)
    yield EncodedBatchPage(field, len(offsets), body, is_lossy=valid is not None)
    yield from pages_of(field.children[0], items, dictionaries)


def _plain(block: Block, valid: Mask | None) -> Bytes:
    """Return the bytes of fixed-width values, with zeros for nulls."""
    per_row = 1
    while isinstance(block, FixedSizeListBlock):
        per_row *= block.dimension
        block = block.items
    assert isinstance(block, FixedWidth)
    if valid is None:
        spare = -block.num_values * block.bits_per_value % 8
        if spare == 0:
            return block.data
        data = block.data.copy()
        data[-1] &= 0xFF >> spare  # clear the bits of following rows
        return data
    if block.bits_per_value == 1:
        count = block.num_values
        bits = np.unpackbits(block.data, count=count, bitorder="little").reshape(-1, per_row)
        return np.packbits(bits & valid[:, None], bitorder="little")
    rows = block.data.reshape(len(valid), -1)
    return np.where(valid[:, None], rows, np.uint8(0)).reshape(-1)


class BatchFileBuilder:
    """Encoder of a file; the caller appends the returned bytes to the file, in order.

    Not thread-safe. The page table and the statistics are in memory until `finish`.

    Attributes:
        num_bytes: number of bytes returned so far; after `finish`, the size of the file.
        lost: names of the fields with nulls that the file does not store.
    """

    def __init__(self, schema: Schema, *, statistics: bool = True) -> None:
        """Start an empty file."""
        for field in schema.fields:
            check_types(field)
        if not any(field.logical_type != "struct" for field in schema.walk()):
            raise UnsupportedError("a file of version 0.1 without any values")
        self.num_bytes = 0
        self.lost: dict[str, None] = {}
        self._schema = schema
        self._first_rows = [0]
        self._table: PageTable = {field.id: [] for field in schema.walk()}
        self._dictionaries = values_of(schema.walk())
        measured = schema.fields if statistics else ()
        self._statistics = {
            field.id: Gathered(field) for top in measured for field in _outside_lists(top)
        }

    @property
    def num_rows(self) -> int:
        """Number of rows so far."""
        return self._first_rows[-1]

    @property
    def field_ids(self) -> list[int]:
        """Ids of the file's fields, ascending."""
        return sorted(self._table)

    def add_batch(self, arrays: Sequence[pa.Array]) -> list[Bytes]:
        """Return the bytes of the next batch, with one page per field."""
        num_rows = self.num_rows + len(arrays[0])
        if num_rows > MAX_FILE_ROWS:
            raise InvalidInputError(f"more than {MAX_FILE_ROWS} rows in a file of version 0.1")
        chunks: list[Bytes] = []
        for field, array in zip(self._schema.fields, arrays, strict=True):
            for page in pages_of(field, array, self._dictionaries):
                self._place(page, self._table, chunks)
                if page.is_lossy:
                    self.lost[page.field.name] = None
                if page.leaf is not None and page.field.id in self._statistics:
                    self._statistics[page.field.id].add(page.leaf)
        self._first_rows.append(num_rows)
        return chunks

    def finish(self) -> list[Bytes]:
        """Return the bytes at the end of the file."""
        chunks: list[Bytes] = []
        metadata = file_pb2.Metadata(batch_offsets=self._first_rows if self.num_rows else [])
        if self.num_rows:
            metadata.page_table_position = self.num_bytes
            self._put(chunks, _table_bytes(self._table, len(self._first_rows) - 1))
            self._add_statistics(metadata, chunks)
        manifest = table_pb2.Manifest(version=1)
        for values in self._dictionaries.values():
            values.keep()
        manifest.fields.extend(self._schema.messages)
        for key, value in self._schema.metadata.items():
            manifest.schema_metadata[key] = value.encode()
        manifest.data_format.file_format, manifest.data_format.version = "lance", "0.1"
        for part in place_values(manifest.fields, self.num_bytes):
            self._put(chunks, part)
        metadata.manifest_position = self.num_bytes
        self._put(chunks, _message(manifest))
        start = self.num_bytes
        self._put(chunks, _message(metadata) + V0_1_FOOTER.pack(start, 0, 2, MAGIC))
        return chunks

    def _place(self, page: EncodedBatchPage, table: PageTable, chunks: list[Bytes]) -> None:
        body = page.body
        if page.data is not None:
            body = (body + self.num_bytes).astype("<i8")
            self._put(chunks, page.data)
        table[page.field.id].append((self.num_bytes, page.length))
        self._put(chunks, body.view(np.uint8))

    def _put(self, chunks: list[Bytes], content: Bytes | bytes) -> None:
        if len(content):
            data = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else content
            chunks.append(data)
            self.num_bytes += len(content)

    def _add_statistics(self, metadata: file_pb2.Metadata, chunks: list[Bytes]) -> None:
        columns = {str(number): own.rows() for number, own in sorted(self._statistics.items())}
        if not columns:
            return
        types = [pa.field(name, rows.type, nullable=False) for name, rows in columns.items()]
        schema, into = Schema.from_arrow(pa.schema(types)), metadata.statistics
        table: PageTable = {field.id: [] for field in schema.walk()}
        for field, rows in zip(schema.fields, columns.values(), strict=True):
            for page in pages_of(field, rows, {}):
                self._place(page, table, chunks)
        into.schema.extend(schema.messages)
        into.fields.extend(table)
        into.page_table_position = self.num_bytes
        self._put(chunks, _table_bytes(table, 1))


def _table_bytes(table: PageTable, num_batches: int) -> bytes:
    """Serialize a page table for all ids from the lowest to the highest; gaps are zeros."""
    first = min(table)
    entries = np.zeros((max(table) - first + 1, num_batches, 2), "<i8")
    for field_id, pages in table.items():
        if pages:
            entries[field_id - first] = pages
    return entries.tobytes()


def _outside_lists(field: Field) -> Iterator[Field]:
    """Yield the leaves outside of lists; only these have statistics."""
    if is_list(field):
        return
    if page_bits(field) is not None and has_statistics(field):
        yield field
    for child in field.children:
        yield from _outside_lists(child)


def _message(message: Message) -> bytes:
    content = message.SerializeToString()
    return V0_1_LENGTH.pack(len(content)) + bytes(content)


MAX_BOUND_BYTES: Final = 64  # maximum length of a bound
DECIMAL_MOST: Final = (1 << 127) - 1
_STATISTICS_CONTEXT: Final = decimal.Context(prec=60)


@dataclass(slots=True)
class Gathered:
    """Null counts and bounds of a field, one of each per batch."""

    field: Field
    null_counts: list[int] = attribute(default_factory=list)
    least: list[Any] = attribute(default_factory=list)
    most: list[Any] = attribute(default_factory=list)

    def add(self, array: pa.Array) -> None:
        """Add the values of the next batch; their type must be the field's storage type."""
        self.null_counts.append(array.null_count)
        least, most = _bounds(array, is_texts=is_text(self.field))
        self.least.append(least)
        self.most.append(most)

    def rows(self) -> pa.Array:
        """Return a struct of the null count, minimum and maximum of each batch."""
        arrow, nullable = leaf_type(self.field.logical_type), self.field.message.nullable
        bounds = [
            pa.field(NULL_COUNT, pa.int64(), nullable=False),
            pa.field(MIN_VALUE, arrow, nullable=nullable),
            pa.field(MAX_VALUE, arrow, nullable=nullable),
        ]
        children = [to_arrow(np.array(self.null_counts, np.int64))]
        children += [_bounds_array(arrow, values) for values in (self.least, self.most)]
        return pa.StructArray.from_arrays(children, fields=bounds)


def _bounds_array(arrow: pa.DataType, values: Sequence[Any]) -> pa.Array:
    if is_variable(arrow):
        return text_array(values, pa.large_binary()).cast(arrow)
    if pa.types.is_boolean(arrow):
        return to_arrow(np.array(values, np.bool_))
    if pa.types.is_decimal(arrow):
        content = b"".join(int(value).to_bytes(16, "little", signed=True) for value in values)
    else:
        content = np.array(values, numpy_type(arrow)).tobytes()
    return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(content)])


def _bounds(array: pa.Array, *, is_texts: bool) -> tuple[Any, Any]:
    arrow = array.type
    values = array.drop_null() if array.null_count else array
    if is_texts:
        return _text_bounds(values)
    if pa.types.is_boolean(arrow):
        if not len(values):
            return False, True
        trues = values.true_count
        return trues == len(values), trues > 0
    if pa.types.is_decimal(arrow):
        if not len(values):
            return -DECIMAL_MOST - 1, DECIMAL_MOST
        ends = pc.min_max(values)
        return _digits(ends["min"], arrow), _digits(ends["max"], arrow)
    if pa.types.is_date(arrow):
        values = values.view(pa.int32() if pa.types.is_date32(arrow) else pa.int64())
    numbers = as_numbers(values)
    if pa.types.is_floating(arrow):
        numbers = numbers[~np.isnan(numbers)]
        if not len(numbers):
            return -np.inf, np.inf
        least, most = numbers.min(), numbers.max()
        # A zero in the batch may have either sign.
        return (least if least else -0.0), (most if most else 0.0)
    if not len(numbers):
        limits = np.iinfo(numpy_type(arrow))
        return limits.min, limits.max
    return numbers.min(), numbers.max()


def _digits(value: pa.Scalar, arrow: pa.DataType) -> int:
    return int(value.as_py().scaleb(arrow.scale, _STATISTICS_CONTEXT))


def _text_bounds(array: pa.Array) -> tuple[bytes, bytes]:
    """Return the truncated bounds of strings; empty if unknown."""
    if not len(array):
        return b"", b""
    is_text = is_text_type(array.type)
    ends = pc.min_max(array)
    is_cut = pc.max(pc.binary_length(array)).as_py() > MAX_BOUND_BYTES
    least, most = (_cut(bytes(ends[name].as_buffer()), is_text=is_text) for name in ("min", "max"))
    return least, (_raised(most, is_text=is_text) if is_cut else most)


def _cut(value: bytes, *, is_text: bool) -> bytes:
    if len(value) <= MAX_BOUND_BYTES:
        return value
    stop = MAX_BOUND_BYTES
    while is_text and stop and value[stop] & 0xC0 == 0x80:  # do not cut inside a character
        stop -= 1
    return value[:stop]


def _raised(value: bytes, *, is_text: bool) -> bytes:
    """Return the smallest value above all values with a prefix; empty if there is none."""
    if not is_text:
        retained = value.rstrip(b"\xff")
        return retained[:-1] + bytes([retained[-1] + 1]) if retained else b""
    for stop in range(len(text := value.decode()), 0, -1):
        code = ord(text[stop - 1]) + 1
        if code == 0xD800:
            code = 0xE000  # skip surrogates
        if code <= 0x10FFFF:
            return (text[: stop - 1] + chr(code)).encode()
    return b""
