"""Row keys: 64-bit integers or bytes that are equal if all key columns of the rows are equal.

Floats are compared in the form of `numbers.canonical`: all NaNs are equal, and 0.0 equals -0.0. A
row with a null in a key column has no key, and equals no row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import UnsupportedError
from alance.format.numbers import (
    as_mask,
    bitmap,
    bits_of_type,
    bytes_of,
    canonical,
    contents_of,
    is_variable,
    items_of,
    strings_of,
    to_arrow,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from alance.base.arrays import Bytes, Int64s, Mask

    Offsets: TypeAlias = npt.NDArray[np.signedinteger[Any]]  # integers of 32 or 64 bits

KEY_COLUMN: Final = "key"  # column of row keys, see `key_values`
ROW_COLUMN: Final = "row"  # column of row numbers of a source, or of row addresses of a target
WORD: Final = 8


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """Row keys as views of the key columns.

    Attributes:
        valid: mask of rows that have a key, shape (n,); None if all have one.
    """

    parts: Sequence[_KeyPart]
    count: int
    valid: Mask | None

    @classmethod
    def of(cls, columns: Sequence[pa.Array]) -> KeyColumns:
        """Build the keys of rows from their key columns. CPU work."""
        count = len(columns[0])
        valid: Mask | None = None
        parts: list[_KeyPart] = []
        for column in columns:
            if column.null_count:
                has_key = as_mask(column.is_valid())
                valid = has_key if valid is None else valid & has_key
            parts += _parts(column)
        if not any(part.width != 0 for part in parts):
            raise UnsupportedError(f"key columns of type {columns[0].type}: they have no values")
        return cls([part for part in parts if part.width != 0], count, valid)

    @classmethod
    def apart(cls, keys: pa.Array, widths: Int64s) -> KeyColumns:
        """Return the columns of joined keys, `key_values`, none of which is null. CPU work.

        Args:
            widths: `widths` of the columns.
        """
        parts: list[_KeyPart] = []
        if not pa.types.is_large_binary(keys.type):
            content = bytes_of(keys).reshape(-1, keys.type.bit_width // 8)
            parts = [
                _KeyPart(content[:, stop - width : stop])
                for width, stop in zip(widths, np.cumsum(widths), strict=True)
            ]
        elif len(widths) == 1:
            parts = [_variable(keys)]
        else:
            ends, content = contents_of(keys)
            starts = ends[:-1]
            for width in widths:
                sizes = np.full(len(keys), width or WORD)
                if not width:  # the value follows its size
                    sizes = _kernels.concat_spans(content, starts, sizes)[1].view(np.int64)
                    starts = starts + WORD
                offsets, values = _kernels.concat_spans(content, starts, sizes)
                fixed = values.reshape(-1, width) if width else values
                parts.append(_KeyPart(fixed, None if width else offsets))
                starts = starts + sizes
        return cls(parts, len(keys), None)

    def plain(self) -> _kernels.Keys:
        """Return the keys for kernels; a row without a key has an arbitrary value."""
        return _kernels.Keys.beside([part.plain() for part in self.parts])

    @property
    def widths(self) -> Int64s:
        """Bytes of each part; 0 for a part of varying length."""
        return np.array([max(part.width, 0) for part in self.parts], np.int64)


def key_values(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the keys of rows, from their key columns, as one value per row. CPU work.

    The values are uint64, fixed_size_binary or large_binary; null where a row has no key.
    """
    keys = KeyColumns.of(columns)
    return _joined(keys.parts, keys.count, keys.valid)


def plain_keys(values: pa.Array) -> _kernels.Keys:
    """Return `key_values` for kernels; a row without a key has an arbitrary value. CPU work."""
    if not pa.types.is_large_binary(values.type):
        width = WORD if pa.types.is_uint64(values.type) else values.type.byte_width
        return _kernels.Keys(bytes_of(values), width)
    ends, content = contents_of(values)
    return _kernels.Keys(ends, content[: int(ends[-1])])


@dataclass(frozen=True, slots=True)
class _KeyPart:
    """Bytes of one key column, of fixed width or with offsets."""

    content: Bytes  # shape (rows, width), or (bytes,) with offsets
    offsets: Offsets | None = None  # shape (rows + 1,)

    @property
    def width(self) -> int:
        """Bytes per value; -1 if lengths vary."""
        return -1 if self.offsets is not None else self.content.shape[1]

    def plain(self) -> _kernels.Keys:
        if self.offsets is None:
            content = np.ascontiguousarray(self.content)
            return _kernels.Keys(content.reshape(-1), content.shape[1])
        return _kernels.Keys(self.offsets, self.content)


def _parts(array: pa.Array) -> list[_KeyPart]:
    """Return the bytes of a column's values as parts of keys; those of nulls are arbitrary."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _parts(array.storage)
    if pa.types.is_dictionary(kind):
        return _parts(array.dictionary_decode())
    if pa.types.is_boolean(kind):
        return [_KeyPart(as_mask(array.fill_null(False)).view(np.uint8).reshape(-1, 1))]
    if pa.types.is_struct(kind):
        parts = []
        for index in range(kind.num_fields):
            child = array.field(index)
            if child.null_count:
                # Bytes of nulls must not make rows differ.
                valid = as_mask(child.is_valid())
                parts.append(_KeyPart(valid.view(np.uint8).reshape(-1, 1)))
                parts += [_cleared(part, valid) for part in _parts(child)]
                continue
            parts += [_KeyPart(np.ones((len(array), 1), np.uint8)), *_parts(child)]
        return parts
    if pa.types.is_fixed_size_list(kind) and not array.values.null_count:
        width = _width(kind.value_type)
        if width:
            content = bytes_of(canonical(items_of(array)))
            return [_KeyPart(content.reshape(len(array), kind.list_size * width))]
    if is_variable(kind):
        return [_variable(array)]
    width = _width(kind)
    if not width:
        raise UnsupportedError(f"key column of type {kind}: keys of this type are not compared")
    return [_KeyPart(bytes_of(canonical(array)).reshape(len(array), width))]


def _width(kind: pa.DataType) -> int:
    """Return the bytes per value of a fixed-width type of whole bytes; 0 for other types."""
    bits = bits_of_type(kind) or 0
    nested = pa.types.is_nested(kind) or pa.types.is_dictionary(kind)
    return 0 if nested or bits % 8 else bits // 8


def _variable(array: pa.Array) -> _KeyPart:
    """Return the offsets and bytes of strings. A null may have bytes, too."""
    ends, content = strings_of(array)
    if ends[0] == ends[-1]:
        return _KeyPart(np.empty(0, np.uint8), np.zeros(len(array) + 1, np.int64))
    return _KeyPart(content, ends)


def _cleared(part: _KeyPart, valid: Mask) -> _KeyPart:
    """Return the part with zeros or empty strings for rows that are not valid."""
    if part.offsets is None:
        return _KeyPart(part.content * valid.view(np.uint8)[:, None])
    sizes = np.diff(part.offsets)
    if not sizes[~valid].any():
        return part
    retained = np.where(valid, sizes, 0)
    content = part.content[part.offsets[0] : part.offsets[-1]][np.repeat(valid, sizes)]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(retained, dtype=np.int64)])
    return _KeyPart(content, ends)


def _joined(parts: Sequence[_KeyPart], count: int, valid: Mask | None) -> pa.Array:
    """Join the parts to one value per row; parts of varying length are prefixed by their length."""
    fixed = [part for part in parts if part.offsets is None]
    if len(fixed) == len(parts):
        width = sum(part.content.shape[1] for part in parts)
        if width <= WORD:
            padded = np.zeros((count, WORD), np.uint8)
            np.concatenate([part.content for part in fixed], axis=1, out=padded[:, :width])
            return to_arrow(padded.view(np.uint64)[:, 0], valid)
        _, content = _kernels.joined_keys([part.plain() for part in fixed])
        return _array(pa.binary(width), count, [content], valid)
    if len(parts) == 1:
        ends = parts[0].offsets
        assert ends is not None
        first = int(ends[0])
        content = parts[0].content[first : int(ends[-1])]
        return _array(pa.large_binary(), count, [ends.astype(np.int64) - first, content], valid)
    offsets, content = _kernels.joined_keys([part.plain() for part in parts])
    return _array(pa.large_binary(), count, [offsets, content], valid)


def _array(
    kind: pa.DataType, count: int, buffers: Sequence[npt.NDArray[np.generic]], valid: Mask | None
) -> pa.Array:
    contents = [pa.py_buffer(np.ascontiguousarray(buffer)) for buffer in buffers]
    return pa.Array.from_buffers(kind, count, [bitmap(valid), *contents])
