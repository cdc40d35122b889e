"""The kinds of indices of values: one module and one object each.

An object says what its kind is called, which columns it can be of and which questions it answers,
and how its files are read, written, moved and taken over; `kind.IndexKind` is the interface. Kinds
with files alike share `row_sets` or `zones`. A kind never scans a table: rows to write are handed
to it by the room `index`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from alance.ops.lookup.kinds.bitmap import Bitmap
from alance.ops.lookup.kinds.bloom_filter import BloomFilter
from alance.ops.lookup.kinds.btree import BTree
from alance.ops.lookup.kinds.fm import FM
from alance.ops.lookup.kinds.label_list import LabelList
from alance.ops.lookup.kinds.ngram import NGram
from alance.ops.lookup.kinds.zone_map import ZoneMap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.ops.lookup.kinds.kind import IndexKind

# By the type of their details. Of indices that cover as much, the first kind that takes a question,
# and is worth it, is asked: the bitmap index knows the number of rows before it reads.
KINDS: Final[Mapping[str, IndexKind]] = MappingProxyType(
    {
        "Bitmap": Bitmap(),
        "BTree": BTree(),
        "LabelList": LabelList(),
        "NGram": NGram(),
        "FM": FM(),
        "BloomFilter": BloomFilter(),
        "ZoneMap": ZoneMap(),
    }
)
