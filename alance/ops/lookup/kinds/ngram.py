"""N-gram indices: each sequence of three letters or digits with the rows whose texts contain it."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.expr.index_query import MAX_WAYS
from alance.format.index.ngram import POSTING_LISTS, tokens_of
from alance.format.numbers import as_numbers, is_text, places_in
from alance.format.row_set import RowSet
from alance.ops.lookup.files import CACHED_SETS
from alance.ops.lookup.kinds.keys import TokenKeys
from alance.ops.lookup.kinds.row_sets import SET_SHARE, RowSetsKind

if TYPE_CHECKING:
    from collections.abc import Hashable

    from alance.expr.index_query import Ask
    from alance.format.index.zones import ZoneOptions
    from alance.ops.lookup.files import IndexFiles
    from alance.ops.lookup.kinds.kind import PreparedAsk
    from alance.ops.lookup.segments import Segment
    from alance.ops.version.snapshot import Snapshot

MAX_TOKENS: Final = 16  # tokens to look up per text
NGRAMS_OF_A_ROW: Final = 16  # assumed for estimates; longer texts have more


class NGram(RowSetsKind):
    """Tokens of texts, each with the posting list of its rows."""

    name = "NGram"
    index_type = "NGRAM"
    type_url = "/lance.table.NGramIndexDetails"
    columns = "text"
    file = POSTING_LISTS.file
    file_names = frozenset({POSTING_LISTS.file})
    form = POSTING_LISTS
    key_count = "num_ngrams"
    of_json = of_stable_json = True
    batch_bytes = 512 << 10  # each byte of text needs 12 bytes, and another 12 temporarily

    def suits(self, type_: pa.DataType) -> bool:
        return is_text(type_)

    def value_type(self, key_type: pa.DataType) -> pa.DataType:
        return pa.string()

    def takes(self, ask: Ask) -> bool:
        return bool(_ways_of(ask))

    async def ask(self, snapshot: Snapshot, segment: Segment, ask: Ask) -> PreparedAsk:
        files = segment.files(snapshot)
        keys = await files.keys(POSTING_LISTS)
        if keys.type != pa.uint32() or keys.null_count:
            raise CorruptFileError(f"n-gram index: tokens of type {keys.type}, or null")
        numbers = as_numbers(keys)
        ways: list[list[int]] = []
        for tokens in _ways_of(ask):
            places, is_there = places_in(numbers, np.array(tokens, numbers.dtype))
            if is_there.all():
                ways.append(places.tolist())
        return PreparedNgrams(segment, files, ways, len(keys))

    def source(self, type_: pa.DataType, options: ZoneOptions, memory: int) -> TokenKeys:
        return TokenKeys(pa.uint32(), POSTING_LISTS)


def _ways_of(ask: Ask) -> list[list[int]]:
    """Return the tokens of each alternative; empty if one has no token or there are too many."""
    ways = [tokens_of(parts, MAX_TOKENS) for parts in ask.texts[: MAX_WAYS + 1]]
    return ways if all(ways) and len(ways) <= MAX_WAYS else []


@dataclass(frozen=True, slots=True)
class PreparedNgrams:
    """A question to an n-gram index.

    Attributes:
        ways: token positions of each alternative: a row that has all tokens of an alternative may
            match.
    """

    segment: Segment
    files: IndexFiles
    ways: list[list[int]]
    num_keys: int

    @property
    def estimate(self) -> int:
        return len(self.segment.domain) * NGRAMS_OF_A_ROW * len(self.ways) // max(1, self.num_keys)

    @property
    def work(self) -> int:
        return self.estimate if self.segment.has_row_ids else self.estimate // SET_SHARE

    @property
    def summary(self) -> str:
        tokens = {place for way in self.ways for place in way}
        return f"{len(tokens)} of {self.num_keys} tokens"

    @property
    def num_compared(self) -> int:
        return len({place for way in self.ways for place in way})

    @property
    def cache_key(self) -> Hashable:
        return tuple(map(tuple, self.ways)) if len(self.ways) <= CACHED_SETS else None

    is_exact = is_at_hand = is_counted = False

    async def row_numbers(self) -> RowSet:
        places = sorted({place for way in self.ways for place in way})
        sets = await self.files.row_sets(places, POSTING_LISTS)
        by_place = dict(zip(places, sets, strict=True))
        common = [reduce(and_, [by_place[place] for place in way]) for way in self.ways]
        return common[0] if len(common) == 1 else RowSet.union(common)
