"""Token dictionary of a partition: tokens in byte order, with their numbers.

`part_N_tokens.lance` has a row for each token (`_token`, `_token_id`), or one row with all tokens
as a transducer (`_token_fst_bytes`, `_token_next_id`, `_token_total_length`). A token's number is
its row in `part_N_invert.lance`. New files have a transducer, as pylance's do.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base import compute as pc
from alance.base.records import dataclass
from alance.errors import CorruptFileError, kernel_errors
from alance.format.numbers import as_numbers, contents_of, is_text, packed, text_array, to_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Bytes, Int64s, UInt32s

TOKEN: Final = "_token"
TOKEN_ID: Final = "_token_id"
_TRAILER: Final = 20  # bytes of a transducer after its nodes: number of tokens, root, checksum
TOKENS_SCHEMA: Final = pa.schema(
    [
        pa.field("_token_fst_bytes", pa.large_binary(), nullable=False),
        pa.field("_token_next_id", pa.uint32(), nullable=False),
        pa.field("_token_total_length", pa.uint64(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens in byte order.

    Attributes:
        offsets: start of each token in `data`, then the end; shape (tokens + 1,).
        data: UTF-8 bytes of all tokens.
        numbers: number of each token, a permutation of 0 to tokens - 1; shape (tokens,).
    """

    offsets: Int64s
    data: Bytes
    numbers: UInt32s

    @classmethod
    def checked(cls, offsets: Int64s, data: Bytes, numbers: UInt32s) -> Tokens:
        """Build the object after checking the order and the numbers of the tokens."""
        with kernel_errors:
            wrong = _kernels.first_unordered(offsets, data)
        if wrong >= 0:
            raise CorruptFileError(f"text index: token {wrong} out of order")
        is_used = np.zeros(len(numbers), np.bool_)
        if len(numbers) and int(numbers.max()) >= len(numbers):
            raise CorruptFileError(f"text index: token {numbers.max()} of {len(numbers)}")
        is_used[numbers] = True
        if not is_used.all():
            raise CorruptFileError("text index: two tokens have the same number")
        return cls(offsets, data, numbers)

    def number(self, word: str) -> int:
        """Return the number of a token; -1 if the word is not a token."""
        content = word.encode()
        place = bisect_left(range(len(self.numbers)), content, key=self._bytes)
        is_token = place < len(self.numbers) and self._bytes(place) == content
        return int(self.numbers[place]) if is_token else -1

    def word(self, place: int) -> str:
        """Return the token at a position in byte order."""
        return self._bytes(place).decode("utf-8", "replace")

    def _bytes(self, place: int) -> bytes:
        start, stop = self.offsets[place : place + 2].tolist()
        return self.data[start:stop].tobytes()

    def near(self, word: str, distance: int, prefix: int, limit: int) -> list[str]:
        """Return the first tokens, in byte order, within an edit distance of a word.

        Args:
            distance: largest edit distance, in characters.
            prefix: number of leading characters that must be equal.
        """
        token = np.frombuffer(word.encode(), np.uint8)
        prefix_bytes = len(word[:prefix].encode())
        with kernel_errors:
            places = _kernels.near_tokens(
                self.offsets, self.data, token, distance, prefix_bytes, limit
            )
        return [self.word(place) for place in places.tolist()]


@dataclass(slots=True, eq=False)
class TokenDictionary:
    """Token dictionary of a partition.

    Words are looked up in the transducer itself; a fuzzy search first decodes all tokens.

    Attributes:
        num_tokens: number of tokens, each of which has a posting list.
        token_bytes: bytes of all tokens.
    """

    num_tokens: int
    token_bytes: int
    _transducer: _kernels.Transducer | None
    _tokens: Tokens | None = None

    @classmethod
    def parse(cls, batch: pa.RecordBatch, num_lists: int) -> TokenDictionary:
        """Parse the token file of `num_lists` posting lists; the result may refer to its memory."""
        tokens: Tokens | None = None
        if batch.schema.names == TOKENS_SCHEMA.names:
            content, num_tokens, token_bytes = _of_transducer(batch)
        else:
            tokens = Tokens.checked(*_of_rows(batch))
            num_tokens, token_bytes = len(tokens.numbers), len(tokens.data)
        if num_tokens != num_lists:  # check before the kernel call, which takes at most 63 bits
            raise CorruptFileError(f"text index: {num_tokens} tokens, {num_lists} posting lists")
        if tokens is not None:
            return cls(num_tokens, token_bytes, None, tokens)
        with kernel_errors:
            return cls(num_tokens, token_bytes, _kernels.Transducer(content, num_tokens))

    @property
    def num_bytes(self) -> int:
        """Memory in bytes, including decoded tokens."""
        return 200 + 2 * self.token_bytes + 12 * self.num_tokens

    @property
    def tokens(self) -> Tokens:
        """All tokens, decoded at the first access. CPU work."""
        if self._tokens is None:
            assert self._transducer is not None
            with kernel_errors:
                self._tokens = Tokens.checked(*self._transducer.tokens(self.token_bytes))
        return self._tokens

    def find(self, words: Sequence[str]) -> Int64s:
        """Return the token number of each word; -1 for a word that is not a token."""
        if self._transducer is None:
            return np.array([self.tokens.number(word) for word in words], np.int64)
        with kernel_errors:
            return self._transducer.find(*packed(words))


def _of_transducer(batch: pa.RecordBatch) -> tuple[Bytes, int, int]:
    columns = batch.columns
    is_whole = batch.num_rows == 1 and not any(column.null_count for column in columns)
    if not is_whole or batch.schema.types != TOKENS_SCHEMA.types:
        raise CorruptFileError(f"text index: a dictionary of {batch.num_rows} rows, {batch.schema}")
    content = np.frombuffer(columns[0][0].as_buffer(), np.uint8)
    if len(content) < _TRAILER:
        raise CorruptFileError(f"text index: no dictionary in {len(content)} bytes")
    # Read the number of tokens from the transducer, because old releases may have stored a larger
    # `_token_next_id`.
    return (
        content,
        int.from_bytes(content[-_TRAILER:-12].tobytes(), "little"),
        columns[2][0].as_py(),
    )


def _of_rows(batch: pa.RecordBatch) -> tuple[Int64s, Bytes, UInt32s]:
    columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
    words, numbers = columns.get(TOKEN), columns.get(TOKEN_ID)
    if (
        words is None
        or numbers is None
        or not is_text(words.type)
        or numbers.type != pa.uint32()
        or words.null_count
        or numbers.null_count
    ):
        raise CorruptFileError(f"text index: tokens of {batch.schema}")
    offsets, data = contents_of(words)
    return offsets.copy(), data.copy(), as_numbers(numbers).copy()


def token_rows(words: Sequence[str]) -> pa.RecordBatch:
    """Encode tokens as a transducer in one row; a token's number is its position in `words`."""
    contents = text_array([word.encode() for word in words], pa.large_string())
    order = pc.array_sort_indices(contents).cast(pa.uint32())
    offsets, data = contents_of(contents.take(order))
    with kernel_errors:
        content = _kernels.encode_transducer(offsets, data, as_numbers(order))
    transducer = text_array([content.data], pa.large_binary())
    counts = [
        to_arrow(np.array([len(words)], np.uint32)),
        to_arrow(np.array([len(data)], np.uint64)),
    ]
    return pa.RecordBatch.from_arrays([transducer, *counts], schema=TOKENS_SCHEMA)
