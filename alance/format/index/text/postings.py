"""The posting lists of `part_N_invert.lance`: of each token the documents, and its places in them.

    _posting                   list of binary: blocks of 128 or 256 documents
    _length                    documents of the list
    _compressed_position       positions of a list, with `_position_block_offset`: of each block
    _position                  the same in format 1: of each document a list of binary

Beside them are greatest scores and bounds, which searches need not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import CorruptFileError, kernel_errors
from alance.format.numbers import as_numbers, contents_of, lists_of, offsets_in, offsets_of
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Bytes, Int64s, UInt32s
    from alance.format.index.text.metadata import TextMetadata

POSTING: Final = "_posting"
LENGTH: Final = "_length"
MAX_SCORE: Final = "_max_score"
IMPACTS: Final = "_impacts"
POSITIONS: Final = "_compressed_position"
POSITION_BLOCKS: Final = "_position_block_offset"
POSITIONS_V1: Final = "_position"
_NOTHING: Final = np.empty(0, np.uint32)


@dataclass(frozen=True, slots=True)
class Postings:
    """Posting lists, one after the other.

    Attributes:
        starts: where each begins, and the end; shape (lists + 1,).
        docs: documents by their rows in the partition, ascending in each list; uint32.
        frequencies: how often each has the token; uint32.
        positions: of the token in each document, in turn; None: not asked for.
    """

    starts: Int64s
    docs: UInt32s
    frequencies: UInt32s
    positions: UInt32s | None = None

    @property
    def lengths(self) -> Int64s:
        """Documents of each list."""
        return np.diff(self.starts)

    @classmethod
    def parse(
        cls, batch: pa.RecordBatch, metadata: TextMetadata, num_docs: int, *, with_positions: bool
    ) -> Postings:
        """From some rows of the file.

        Raises:
            CorruptFileError: bytes that contradict themselves, or the documents.
        """
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        lengths = _checked(columns, LENGTH, "uint32")
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
        """Each list by itself, in memory of its own, as searches want it."""
        positions = _NOTHING if self.positions is None else self.positions
        with kernel_errors:
            return _kernels.posting_lists(self.starts, self.docs, self.frequencies, positions)


# Those of format 1, and of later ones.
POSITION_COLUMNS: Final = ((POSITIONS_V1,), (POSITIONS, POSITION_BLOCKS))


def columns_of(positions: Sequence[str]) -> list[str]:
    """The columns that are read, with those of positions."""
    return [POSTING, LENGTH, *positions]


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
    if column is None or column.null_count or _told(column.type) != type_:
        raise CorruptFileError(
            f"text index: {name} of type {None if column is None else column.type}, or null"
        )
    return column


def _told(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return f"list<{_told(type_.value_type)}>"
    return str(type_)


def _lists(column: pa.Array) -> tuple[Int64s, Int64s, Bytes]:
    """Lists of binary values: where each list's values begin, where each value does, the bytes."""
    values = column.flatten()
    if values.null_count:
        raise CorruptFileError("text index: a block is null")
    return (lists_of(column)[0], *contents_of(values))
