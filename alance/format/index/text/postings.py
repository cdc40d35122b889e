"""Posting lists of `part_N_invert.lance`: the documents of each token, and its positions in them.

    _posting                   list of binary: blocks of 128 or 256 documents
    _length                    number of documents of the list
    _compressed_position       positions of a list; `_position_block_offset`: start of each block
    _position                  positions in format 1: a list of binary for each document

Other columns have maximum scores and upper bounds, which alance writes but does not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError, kernel_errors
from alance.format.numbers import (
    as_numbers,
    contents_of,
    lists_of,
    offsets_in,
    offsets_of,
    strings_array,
    to_arrow,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from alance.base.arrays import Bytes, Int64s, UInt32s
    from alance.format.index.text.metadata import TextMetadata

POSTING: Final = "_posting"
POSTING_LENGTH: Final = "_length"
MAX_SCORE: Final = "_max_score"
IMPACTS: Final = "_impacts"
POSITIONS: Final = "_compressed_position"
POSITION_BLOCKS: Final = "_position_block_offset"
POSITIONS_V1: Final = "_position"
_NO_POSITIONS: Final = np.empty(0, np.uint32)
_BINARIES: Final = pa.list_(pa.field("item", pa.large_binary()))


@dataclass(frozen=True, slots=True)
class Postings:
    """Concatenated posting lists.

    Attributes:
        starts: position in `docs` at which each list starts, then the total; shape (lists + 1,).
        docs: number of each document in the partition, ascending in each list; uint32.
        frequencies: number of occurrences of the token in each document; uint32.
        positions: positions of the token in each document, concatenated; None if they were not
            read.
    """

    starts: Int64s
    docs: UInt32s
    frequencies: UInt32s
    positions: UInt32s | None = None

    @property
    def lengths(self) -> Int64s:
        """Number of documents of each list."""
        return np.diff(self.starts)

    @classmethod
    def parse(
        cls, batch: pa.RecordBatch, metadata: TextMetadata, num_docs: int, *, with_positions: bool
    ) -> Postings:
        """Parse rows of the file of a partition with `num_docs` documents."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        lengths = _checked(columns, POSTING_LENGTH, "uint32")
        counts = as_numbers(lengths)
        with kernel_errors:
            docs, frequencies = _kernels.decode_postings(
                *_lists(_checked(columns, POSTING, "list<large_binary>")),
                counts,
                num_docs,
                metadata.block,
                metadata.tail,
            )
            positions = None
            if with_positions:
                positions = _positions(columns, counts, frequencies, metadata.block)
        return cls(offsets_of(counts.astype(np.int64)), docs, frequencies, positions)

    def lists(self) -> list[_kernels.PostingList]:
        """Return each list as an object with its own memory."""
        positions = _NO_POSITIONS if self.positions is None else self.positions
        with kernel_errors:
            return _kernels.posting_lists(self.starts, self.docs, self.frequencies, positions)


# Columns of positions in format 1, and in later formats.
POSITION_COLUMNS: Final = ((POSITIONS_V1,), (POSITIONS, POSITION_BLOCKS))


def columns_of(positions: Sequence[str]) -> list[str]:
    """Return the columns to read: documents, lengths, and the given position columns."""
    return [POSTING, POSTING_LENGTH, *positions]


def _positions(
    columns: dict[str, pa.Array], lengths: UInt32s, frequencies: UInt32s, block: int
) -> UInt32s:
    if POSITIONS_V1 in columns:
        outer = _checked(columns, POSITIONS_V1, "list<list<large_binary>>")
        inner = outer.flatten()
        if not np.array_equal(np.diff(offsets_in(outer)), lengths):
            raise CorruptFileError("text index: positions of other documents")
        if inner.null_count:
            raise CorruptFileError("text index: positions are null")
        return _kernels.decode_positions_v1(*_lists(inner), frequencies)
    starts, data = contents_of(_checked(columns, POSITIONS, "large_binary"))
    blocks = _checked(columns, POSITION_BLOCKS, "list<uint32>")
    values = blocks.flatten()
    if values.null_count:
        raise CorruptFileError("text index: positions are null")
    block_starts, _ = lists_of(blocks)
    return _kernels.decode_positions(
        starts, data, block_starts, as_numbers(values), lengths, frequencies, block
    )


def _checked(columns: dict[str, pa.Array], name: str, type_: str) -> pa.Array:
    column = columns.get(name)
    if column is None or column.null_count or _type_name(column.type) != type_:
        raise CorruptFileError(
            f"text index: {name} of type {None if column is None else column.type}, or null"
        )
    return column


def _type_name(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return f"list<{_type_name(type_.value_type)}>"
    return str(type_)


def _lists(column: pa.Array) -> tuple[Int64s, Int64s, Bytes]:
    """Split lists of binary values into starts of lists, starts of values, and bytes."""
    values = column.flatten()
    if values.null_count:
        raise CorruptFileError("text index: a block is null")
    return (lists_of(column)[0], *contents_of(values))


def postings_schema(metadata: Mapping[str, str], *, with_positions: bool) -> pa.Schema:
    """Return the schema of the posting list file, with metadata as from `layout`."""
    fields = [
        pa.field(POSTING, _BINARIES, nullable=False),
        pa.field(MAX_SCORE, pa.float32(), nullable=False),
        pa.field(POSTING_LENGTH, pa.uint32(), nullable=False),
        pa.field(IMPACTS, _BINARIES, nullable=False),
    ]
    if with_positions:
        blocks = pa.list_(pa.field("item", pa.uint32()))
        fields += [
            pa.field(POSITIONS, pa.large_binary(), nullable=False),
            pa.field(POSITION_BLOCKS, blocks, nullable=False),
        ]
    return pa.schema(fields, metadata=dict(metadata))


def posting_rows(
    lists: Postings, lengths: UInt32s, mean_length: float, schema: pa.Schema
) -> pa.RecordBatch:
    """Encode posting lists as rows.

    Args:
        lengths: number of tokens of each document of the partition.
    """
    with kernel_errors:
        blocks, scores, counts, bounds, places, (offsets, values) = _kernels.encode_postings(
            lists.starts,
            lists.docs,
            lists.frequencies,
            _NO_POSITIONS if lists.positions is None else lists.positions,
            lists.positions is not None,
            lengths,
            mean_length,
        )
    arrays = [_binaries(*blocks), to_arrow(scores), to_arrow(counts), _binaries(*bounds)]
    if POSITIONS in schema.names:
        starts = pa.ListArray.from_arrays(to_arrow(offsets), to_arrow(values))
        arrays += [strings_array(pa.large_binary(), *places), starts]
    arrays = [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _binaries(
    lists: npt.NDArray[Any], offsets: npt.NDArray[Any], data: npt.NDArray[Any]
) -> pa.Array:
    return pa.ListArray.from_arrays(
        to_arrow(lists), strings_array(pa.large_binary(), offsets, data)
    )
