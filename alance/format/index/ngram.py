"""The n-gram index: of each three letters or digits in a row the set of rows whose texts have them.

`ngram_postings.lance` has the columns `tokens` (uint32, ascending) and `posting_list` (binary: a
64-bit roaring bitmap of row numbers). Texts are in lower case and folded to ASCII before. A token
is the sum of (d + 1) * 37^(2 - i) over its characters, d being 0 to 9 of digits and 10 to 35 of
letters. Token 0 has the rows that are null.

    u64 number of parts
    parts x (u32 high half, 32-bit roaring bitmap of the low halves)

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance import _kernels
from alance.errors import CorruptFileError
from alance.format.index.bitmap import KeyedSets
from alance.format.index.text.folding import folded
from alance.format.numbers import as_mask, as_numbers, offsets_of, positions_of, to_arrow
from alance.format.row_set import RowSet
from alance.format.table.roaring import end_of_roaring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Bytes, Int64s, Mask, UInt32s, UInt64s

FILE: Final = "ngram_postings.lance"
TOKENS: Final = "tokens"
POSTINGS: Final = "posting_list"
WIDTH: Final = 3
BASE: Final = 37
NO_TEXT: Final = 0  # the token of nulls
MOST_PARTS: Final = 1 << 22
SEPARATOR: Final = "\0"
PART_BYTES: Final = 64 << 10  # of texts that are taken apart at once: a cache holds their tokens
IS_DIGIT: Final = np.zeros(256, np.bool_)
IS_DIGIT[ord("0") : ord("9") + 1] = True
IS_LOWER: Final = np.zeros(256, np.bool_)
IS_LOWER[ord("a") : ord("z") + 1] = True
IS_UPPER: Final = np.zeros(256, np.bool_)
IS_UPPER[ord("A") : ord("Z") + 1] = True
CODES: Final = np.arange(256, dtype=np.uint8)
LOWER: Final = np.where(IS_UPPER, CODES + 32, CODES).astype(np.uint8)
# What a byte adds to a token. Texts are in lower case; capitals that folding brings in are told
# from small letters, by a difference that wraps.
WRITTEN_DIGITS: Final = np.where(IS_DIGIT, CODES - ord("0") + 1, CODES - ord("a") + 11)
IS_WRITTEN: Final = IS_DIGIT | IS_LOWER | IS_UPPER
# Of a text that is asked for the case does not matter.
DIGITS: Final = np.where(IS_UPPER, CODES - ord("A") + 11, WRITTEN_DIGITS)


def tokens_of(parts: Sequence[str], most: int) -> list[int]:
    """Tokens that every text has that has some parts, in whatever case: some of them if many.

    Letters beyond ASCII are left out: what becomes of them depends on who wrote the index.
    """
    distinct: set[int] = set()
    for part in parts:
        tokens = _tokens(np.frombuffer(part.encode(), np.uint8), DIGITS, IS_WRITTEN)
        distinct.update(tokens[tokens >= 0].tolist())
    step = -(-len(distinct) // most)
    return sorted(distinct)[::step] if step else []


def _tokens(content: Bytes, digits: Bytes, is_written: Mask) -> Int64s:
    """The token that begins at each byte, -1 where none does; shape (n,)."""
    tokens = np.full(len(content), -1, np.int64)
    if len(content) < WIDTH:
        return tokens
    codes, is_in = digits[content].astype(np.int64), is_written[content]
    whole = codes[:-2] * BASE**2 + codes[1:-1] * BASE + codes[2:]
    tokens[:-2] = np.where(is_in[:-2] & is_in[1:-1] & is_in[2:], whole, -1)
    return tokens


def parse_postings(content: memoryview) -> RowSet:
    """The rows of a posting list.

    Raises:
        CorruptFileError: bytes that are none.
    """
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
    """A posting list of rows in any order. CPU."""
    return _kernels.row_set(np.ascontiguousarray(rows, np.int64))


def token_rows(texts: pa.Array, rows: UInt64s) -> tuple[UInt32s, UInt64s]:
    """The tokens of texts, each with the number of its row; a null has one of its own. CPU.

    Args:
        rows: the number of each text's row; shape (n,).
    """
    is_text = as_mask(texts.is_valid())
    texts = texts.drop_null()
    null_rows, rows = rows[~is_text], rows[is_text]
    ends = np.cumsum(as_numbers(pc.binary_length(texts)), dtype=np.int64)
    cuts = np.searchsorted(ends, np.arange(0, ends[-1] if len(ends) else 0, PART_BYTES), "right")
    tokens = [np.full(len(null_rows), NO_TEXT, np.uint32)]
    numbers = [null_rows]
    for start, stop in pairwise(np.unique([0, *cuts.tolist(), len(texts)]).tolist()):
        part, places = _tokens_of_part(texts[start:stop])
        tokens.append(part)
        numbers.append(rows[start:stop][places])
    return np.concatenate(tokens), np.concatenate(numbers)


def _tokens_of_part(texts: pa.Array) -> tuple[UInt32s, Int64s]:
    """The tokens of texts, each with the place of its text."""
    # Texts are parted by a character that none of them has, and that is in no token.
    texts = pc.replace_substring(texts, SEPARATOR, " ")
    ends = to_arrow(np.array([0, len(texts)], np.int32))
    (joined,) = pc.binary_join(pa.ListArray.from_arrays(ends, texts.cast(pa.string())), SEPARATOR)
    content = _plain_text(joined)
    tokens = _tokens(content, WRITTEN_DIGITS, IS_WRITTEN)
    places = np.flatnonzero(tokens >= 0)
    return tokens[places].astype(np.uint32), np.cumsum(content == ord(SEPARATOR))[places]


def _plain_text(text: pa.Scalar) -> Bytes:
    """The bytes of a text in lower case, in ASCII as far as that goes; letter by letter."""
    content = np.frombuffer(text.as_buffer(), np.uint8)
    if not len(content) or content.max() < 0x80:
        return LOWER[content]
    codes = np.frombuffer(text.as_py().encode("utf-32-le"), np.uint32)
    is_there = np.zeros(int(codes.max()) + 1, np.bool_)
    is_there[codes] = True
    letters = np.flatnonzero(is_there)
    numbers = np.empty(len(is_there), np.int32)
    numbers[letters] = np.arange(len(letters), dtype=np.int32)
    plain = [_plain_letter(chr(letter)).encode() for letter in letters.tolist()]
    sizes = np.array(list(map(len, plain)), np.int64)
    starts, places = offsets_of(sizes)[:-1], numbers[codes]
    pieces = np.frombuffer(b"".join(plain), np.uint8)
    return pieces[positions_of(starts[places], sizes[places])]


@lru_cache(4096)
def _plain_letter(letter: str) -> str:
    return "".join(map(folded, letter.lower()))


@dataclass(frozen=True, slots=True)
class PostingLists(KeyedSets):
    """Posting lists by token."""

    def schema(self, type_: pa.DataType) -> pa.Schema:
        plain = {"lance-encoding:compression": "none"}
        postings = pa.field(self.sets, pa.binary(), nullable=False, metadata=plain)
        return pa.schema([pa.field(self.keys, type_), postings])


POSTING_LISTS: Final = PostingLists(FILE, TOKENS, POSTINGS, parse_postings, postings_bytes)
