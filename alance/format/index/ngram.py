"""N-gram index: each sequence of three letters or digits with the rows whose texts contain it.

`ngram_postings.lance` has the columns `tokens` (uint32, ascending) and `posting_list` (binary: a
64-bit roaring bitmap of row numbers). Texts are first converted to lower case and folded to ASCII.
A token is the sum of (d + 1) * 37^(2 - i) over its characters, where d is 0 to 9 for digits and 10
to 35 for letters. Token 0 has the null rows.

    u64 number of parts
    parts x (u32 high half, 32-bit roaring bitmap of the low halves)

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import CorruptFileError, kernel_errors
from alance.format.index.bitmap import KeyedSets
from alance.format.index.text.folding import folded
from alance.format.numbers import as_mask, contents_of, offsets_of, packed
from alance.format.row_set import RowSet
from alance.format.table.roaring import end_of_roaring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s, UInt32s, UInt64s

NGRAM_FILE: Final = "ngram_postings.lance"
TOKENS_COLUMN: Final = "tokens"
POSTINGS: Final = "posting_list"
NO_TEXT: Final = 0  # token of null rows
MOST_PARTS: Final = 1 << 22
NO_LETTERS: Final = np.empty(0, np.uint32)
NO_TEXT_BYTES: Final = np.empty(0, np.uint8)


def tokens_of(parts: Sequence[str], most: int) -> list[int]:
    """Return tokens that occur in every text that contains all `parts`, in upper or lower case.

    Letters outside of ASCII are skipped, because their folding depends on the writer of the index.

    Args:
        most: maximum number of tokens. If there are more, evenly spaced ones are returned.
    """
    offsets, content = packed(parts)
    rows = np.arange(len(parts), dtype=np.uint64)
    with kernel_errors:
        tokens, _ = _kernels.ngrams(
            offsets, content, rows, NO_LETTERS, offsets_of(()), NO_TEXT_BYTES
        )
    distinct = np.unique(tokens).tolist()
    step = -(-len(distinct) // most)
    return distinct[::step] if step else []


def parse_postings(content: memoryview) -> RowSet:
    """Parse the rows of a posting list."""
    try:
        (number,) = struct.unpack_from("<Q", content)
        if number > MOST_PARTS:
            raise CorruptFileError(f"posting list of {len(content)} bytes: {number} parts")
        position, last = 8, -1
        parts: list[tuple[int, memoryview]] = []
        for _ in range(number):
            (high,) = struct.unpack_from("<I", content, position)
            size = end_of_roaring(content[position + 4 :])
            if high <= last:
                raise CorruptFileError(f"posting list: part {high} behind part {last}")
            parts.append((high, content[position + 4 : position + 4 + size]))
            position, last = position + 4 + size, high
    except struct.error as error:
        raise CorruptFileError(f"posting list of {len(content)} bytes: {error}") from error
    if position != len(content):
        raise CorruptFileError(f"posting list of {len(content)} bytes: ends at {position}")
    return RowSet.of_bitmaps(parts)


def postings_bytes(rows: Int64s) -> bytes:
    """Encode rows, in any order, as a posting list. CPU work."""
    return _kernels.row_set(np.ascontiguousarray(rows, np.int64))


def token_rows(texts: pa.Array, rows: UInt64s) -> tuple[UInt32s, UInt64s]:
    """Return the distinct tokens of each text, and the row number of each token. CPU work.

    Nulls have the token `NO_TEXT`.

    Args:
        rows: row number of each text; shape (n,).
    """
    is_text = as_mask(texts.is_valid())
    null_rows, rows = rows[~is_text], rows[is_text]
    starts, content = contents_of(texts.drop_null())
    letters = _kernels.letters_of(content[starts[0] : starts[-1]])
    plain = [_plain_letter(letter).encode() for letter in map(chr, letters.tolist())]
    pieces = np.frombuffer(b"".join(plain), np.uint8)
    with kernel_errors:
        tokens, numbers = _kernels.ngrams(
            starts, content, rows, letters, offsets_of(list(map(len, plain))), pieces
        )
    nulls = np.full(len(null_rows), NO_TEXT, np.uint32)
    return np.concatenate([nulls, tokens]), np.concatenate([null_rows, numbers])


@lru_cache(4096)
def _plain_letter(letter: str) -> str:
    return "".join(map(folded, letter.lower()))


_POSTING_FIELD: Final = pa.field(
    POSTINGS, pa.binary(), nullable=False, metadata={"lance-encoding:compression": "none"}
)
POSTING_LISTS: Final = KeyedSets(
    NGRAM_FILE, TOKENS_COLUMN, _POSTING_FIELD, parse_postings, postings_bytes
)
