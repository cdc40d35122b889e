"""Codes of vectors as Arrow columns, and the byte orders in which partitions store them.

A partition may store PQ codes by column, and RaBitQ signs in blocks of 32 rows. In these orders,
only whole partitions can be decoded, not single rows.

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance.format.numbers import as_numbers, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from alance.base.arrays import Bytes

PQ_CODES: Final = "__pq_code"
SIGNS: Final = "_rabit_codes"
BLOCK_ROWS: Final = 32
# Rows of the first half of a block, in stored order. Row r shares each byte with row r + 16: r has
# the low nibble.
_PAIRED: Final = np.array([0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15])


def list_of_bytes(codes: Bytes) -> pa.Array:
    """Return bytes of shape (n, width) as fixed-size lists."""
    type_ = pa.list_(pa.uint8(), codes.shape[1])
    return pa.FixedSizeListArray.from_arrays(to_arrow(codes.reshape(-1)), type=type_)


def bytes_of_list(column: pa.Array) -> Bytes:
    """Return fixed-size lists as bytes of shape (n, width): the inverse of `list_of_bytes`."""
    return as_numbers(column.flatten()).reshape(-1, column.type.list_size)


def transposed(codes: Bytes) -> Bytes:
    """Return codes of shape (n, m) by column: in the same shape, with the bytes of shape (m, n)."""
    return np.ascontiguousarray(codes.T).reshape(codes.shape)


def untransposed(stored: Bytes) -> Bytes:
    """Return the codes of a partition row by row, shape (n, m): the inverse of `transposed`."""
    num_rows, width = stored.shape
    return np.ascontiguousarray(stored.reshape(width, num_rows).T)


def packed_signs(codes: Bytes) -> Bytes:
    """Pack the sign bits of a partition into blocks of 32 rows.

    Args:
        codes: signs of 8 components per byte; shape (n, width).
    """
    num_rows, width = codes.shape
    whole = num_rows // BLOCK_ROWS * BLOCK_ROWS
    blocks = codes[:whole].reshape(-1, BLOCK_ROWS, width).transpose(0, 2, 1)
    first, second = blocks[..., _PAIRED], blocks[..., _PAIRED + 16]
    low = (first & 15) | (second & 15) << 4
    high = first >> 4 | second & 240
    stored = np.concatenate([low, high], axis=2)
    return np.concatenate([stored.ravel(), codes[whole:].T.ravel()]).reshape(num_rows, width)


def unpacked_signs(stored: Bytes) -> Bytes:
    """Unpack the sign bits of a partition, shape (n, width): the inverse of `packed_signs`."""
    num_rows, width = stored.shape
    whole = num_rows // BLOCK_ROWS * BLOCK_ROWS
    content = stored.ravel()
    blocks = content[: whole * width].reshape(-1, width, BLOCK_ROWS)
    low, high = blocks[..., :16], blocks[..., 16:]
    codes = np.empty(blocks.shape, np.uint8)
    codes[..., _PAIRED] = (low & 15) | (high & 15) << 4
    codes[..., _PAIRED + 16] = low >> 4 | high & 240
    rest = content[whole * width :].reshape(width, num_rows - whole).T
    return np.concatenate([codes.transpose(0, 2, 1).reshape(whole, width), rest])


class ByteOrder(NamedTuple):
    """Byte order of a column of codes in a partition.

    Attributes:
        key: key of the storage metadata; its value is true if the column has this order.
        rows_of, stored_of: conversions of a partition to row order and back.
    """

    key: str
    rows_of: Callable[[Bytes], Bytes]
    stored_of: Callable[[Bytes], Bytes]


BYTE_ORDERS: Final[Mapping[str, ByteOrder]] = {
    PQ_CODES: ByteOrder("transposed", untransposed, transposed),
    SIGNS: ByteOrder("packed", unpacked_signs, packed_signs),
}
